"""`fbnn-hw generate`: a checkpoint becomes a Verilog accelerator."""

import shlex

from ..base.errors import FbnnError, UsageError, plural
from . import _common
from ._common import Args, Output, Parser

GROUP = "make"
SUMMARY = "turn a checkpoint into a Verilog accelerator for a target, with weights and a test"
EXAMPLES = (
    ("fbnn-hw generate --model 3mb.pt --target ice40", "for an iCE40UP5K, weights from a flash; the compiler picks the size of the array"),
    ("fbnn-hw generate --model 0.5mb.pt --target generic --lanes 32 --outputs 16", "for memories of any size, with an array of your size"),
)


def arguments(parser: Parser) -> None:
    from ..design import INPUTS, LEARNERS, STARTS, WRAPPERS, c99
    from ..machine.device import CAMERAS, DISPLAYS
    from ..targets import TARGETS, WAYS

    _common.add_model(parser)
    target = parser.add_argument("--target", required=True, metavar="NAME", help=f"what it is for: {', '.join(TARGETS)}; or "
                                 "c: no hardware, but the network as C99 for a processor, with --model and --out alone")
    _common.completed(target, lambda: (*TARGETS, c99.TARGET), files=False)
    parser.add_argument("--pixels", type=_common.count, metavar="Q",
                        help="pixels worked on at once: 4, 8 or 16 (default: the compiler's choice)")
    parser.add_argument("--lanes", type=_common.count, metavar="L", help="input channels a cycle: 16, 32, 64 or 128")
    parser.add_argument("--outputs", type=_common.count, metavar="P", help="output channels a cycle, a power of two from Q to L")
    parser.add_argument("--weights", choices=WAYS.values(),
                        help="where the weights are: all on the chip, or in a flash, one at twice the design's clock, or an SDRAM, from "
                        "which they come anew for each frame; or ram: on the chip, loaded by a program after each reset (default: on the "
                        "chip where they fit, else in a flash)")
    parser.add_argument("--input", choices=INPUTS, default=INPUTS[0],
                        help="what comes of each pixel: its bytes, or the levels that the network makes of them, which are fewer bits for "
                        "a slow line (default: rgb)")
    parser.add_argument("--duty-cycle", action="store_true",
                        help="sleep between frames: clock stopped, flash and memory at rest, until a byte comes (ice40)")
    parser.add_argument("--learn", nargs="?", const=LEARNERS[0], choices=LEARNERS,
                        help="a chip that goes on learning new classes: beside the model's, by replay of stored samples (the default), "
                        "or from none, many, by a prototype each, or with nearest-mean by a mean in two bits, which is more "
                        "accurate and larger; means is that of earlier versions (fbnn-hw help on-chip-learning)")
    parser.add_argument("--max-classes", type=_common.up_to(1024), metavar="N",
                        help="with --learn: classes there is room for, with replay the model's included (default: those and 6 more)")
    parser.add_argument("--exemplars", type=_common.count, metavar="N",
                        help="with --learn: samples kept for replay (default: the most that leave frames as fast, or nearly)")
    parser.add_argument("--counter-bits", type=_common.up_to(8), metavar="B",
                        help="with --learn: bits of the counter behind each weight of the classifier, 1 to 8 (default: 8; with prototypes "
                        "and means 4)")
    parser.add_argument("--unknown", action="store_true",
                        help="with --learn nearest-mean: it answers unknown to an image that is far from every class it knows")
    parser.add_argument("--forget", action="store_true", help="with --learn: learn --forget can take one class away")
    parser.add_argument("--keep", action="store_true",
                        help="with --learn: what it learns is kept in the board's flash, and loaded after power-up "
                        "(fbnn-hw help device.md)")
    parser.add_argument("--start", choices=STARTS,
                        help="with --learn: it begins with the model's classes, or empty, with room for 16 (default: model, where it has "
                        "classes and learns by replay)")
    parser.add_argument("--camera", choices=CAMERAS,
                        help="on a board images come from this sensor, buttons teach, LEDs answer: no computer (fbnn-hw help device.md)")
    parser.add_argument("--display", choices=DISPLAYS,
                        help="with --camera: a display on the sensor's two wires shows class, score and what happens")
    parser.add_argument("--wrapper", choices=WRAPPERS,
                        help="also a module with ports of that kind around the accelerator; with wishbone and axi-lite registers for a "
                        "processor, and a driver in C; with -dma images come by AXI4-Stream beside them (fbnn-hw help processor)")
    parser.add_argument("--top", metavar="NAME",
                        help="also one file NAME.v, in which the top module is NAME and the names of all others begin with it, so that two "
                        "designs go into one project (fbnn-hw help integration)")
    parser.add_argument("--explain", action="store_true", help="also print what each line and column of the output means")
    parser.add_argument("--out", default="rtl_out", metavar="DIR", help="where the folder is made (default: rtl_out)")


def _coming(config):
    """Lines on weights that are loaded, from an SDRAM, or from a flash at twice the clock, and on images that come as levels."""
    if config.loads:
        yield f"weights a file of {config.load_bytes:,} bytes, which a program loads after each reset"
    elif config.way == "double":
        yield f"flash   at twice the clock of the design, {config.stream_bits_per_cycle:.1f} bits of weights a cycle"
    elif config.sdram:
        yield (f"SDRAM   {config.beat_bits} lines, {config.stream_bits_per_cycle:.1f} bits of weights a cycle; "
               "filled from the flash after reset, about four cycles a byte (estimated)")
    if config.takes_levels:
        from ..machine.config import image_bytes

        yield (f"input   levels, {config.pixel_bits} bits a pixel: {config.image_bytes:,} bytes an image, "
               f"{image_bytes(config.size):,} of RGB")


def _learning(estimate, config):
    """Lines of a design that learns."""
    learning = estimate["learning"]
    rows = ", ".join(f"{what} {count:,}" for what, count in learning["rows"].items() if count)
    if not config.learning.replays:
        return (f"learns  up to {learning['max_classes']} classes, from none, a {config.learning.kept} each; "
                f"rows of {learning['row_bits']} bits: {rows}",
                f"        {learning['learn_cycles']:,} cycles for a new sample (estimated)")
    return (f"learns  up to {learning['max_classes']} classes; a replay buffer of {learning['exemplars']:,} "
            f"{plural(learning['exemplars'], 'exemplar')}; rows of {learning['row_bits']} bits: {rows}",
            f"        {learning['learn_cycles']:,} cycles for a new sample and {config.learning.replays} replays that all move counters "
            "(estimated)",
            f"        the exemplars cost {learning['exemplar_cycles']:,} cycles a frame; "
            f"the same array without a learner takes {learning['plain_cycles']:,} (estimated)")


def run(args: Args, out: Output) -> None:
    from ..design import c99
    from ..design.options import Options
    from ..design.plans import planned, write
    from ..targets import target

    if args.target == c99.TARGET:
        return _source(args, out)
    part = target(args.target)
    _, network = _common.checkpoint(args.model)
    options = Options(**{name: getattr(args, name) for name in Options.names()})
    plan = planned(network, part, options)

    written = write(network, plan, part, args.out, out.progress, args.wrapper, args.top, _kept(out))
    learner = None if args.learn else _learner(network, args)
    _show(out, written, part, plan.rejected_shape, automatic=not args.outputs)
    if args.explain:
        from ._legend import LEGEND

        out.text("", *_common.table(list(LEGEND.items())))
    out.text(*_offer(learner))
    out.result({"folder": written.folder, "config_id": written.config_id, "pixels": written.config.pixels,
                "lanes": written.config.lanes, "outputs": written.config.outputs, "estimate": written.estimate,
                "learner": learner, "files": {name: written.folder / name for name in _sizes(written.folder)}})


def _source(args, out):
    """The network as C99."""
    from ..design import c99
    from ..design.options import Options

    given = [name for name in Options.names() if getattr(args, name) not in (None, getattr(Options, name))]
    if given:
        raise UsageError(f"--{given[0].replace('_', '-')}: is of hardware, expected --model and --out alone with --target {c99.TARGET}")
    _, network = _common.checkpoint(args.model)

    folder = c99.write(network, args.out, _kept(out))
    where = shlex.quote(str(folder))
    out.text(*_listed(folder), "",
             f"next: cc -O2 -o classify {where}/main.c {where}/network.c; ./classify < IMAGES, each R, G, B of each pixel, row by row")
    out.result({"folder": folder, "files": {name: folder / name for name in _sizes(folder)}})


def _kept(out):
    """A function that notes a folder as soon as it is there, for an interrupt."""
    def note(folder):
        out.kept = f"{folder} is written"

    return note


def _learner(network, args):
    """What --learn would give here: {"max_classes", "command"}, or {"refused": why not}.  Whether it fits, its own plan says."""
    from ..compile.plan import check_latent
    from ..design.options import MORE_CLASSES, Options

    try:
        Options(learn=True).learner(network.topology)
        check_latent(network.topology)
    except FbnnError as error:
        return {"refused": str(error)}
    where = [*(("--weights", args.weights) if args.weights else ()), *(("--input", args.input) if args.input != "rgb" else ())]
    command = ["fbnn-hw", "generate", "--model", args.model, "--target", args.target, *where, "--learn"]
    return {"max_classes": len(network.topology.classes) + MORE_CLASSES, "command": shlex.join(command)}


def _offer(learner):
    """Lines on a design of the same network that goes on learning on the chip."""
    if learner is None:
        return ()
    if "refused" in learner:
        return "", f"learn   on the chip, with --learn: not here ({learner['refused']})"
    return ("", f"learn   new classes on the chip: {learner['command']}",
            f"        room for {learner['max_classes']} classes; the command says what it costs")


def _sizes(folder):
    """{name: bytes} of the files in the folder."""
    return {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.is_file()}


def _listed(folder):
    """Lines of the files in the folder."""
    return f"{folder}:", *(f"  {name}  {size:,} bytes" for name, size in _sizes(folder).items())


def _show(out, design, part, rejected, automatic):
    """Print a design.  rejected: the faster shape that did not fit, if any.  automatic: whether the compiler picked the shape."""
    config, estimate = design.config, design.estimate
    size = config.pixels * config.lanes * config.outputs
    limit = part.lut4_of(config)
    out.text(f"{design.manifest['model']}, {len(design.classes)} classes, on {part.part}",
             f"engine  {config.pixels} pixels x {config.lanes} lanes x {config.outputs} outputs = {size:,} MAC/cycle"
             + ", the fastest tried that fits" * automatic,
             *([f"        not {' x '.join(map(str, rejected[0]))}: {rejected[1]}"] if rejected else ()), "")
    out.text(*_common.table(
        [(x["layer"], x["macs"], x["cycles"], f"{x['array_use']:.1%}", x["bound"], x["wait"], x["weight_bits"],
          f"{x['resident_sixteenths']}/16") for x in estimate["layers"]],
        ("layer", "MACs", "cycles", "array use", "bound by", "waits", "weight bits", "on chip")))
    loaded = "in which the next image is loaded" if config.loads_beside else f"{estimate['load_cycles']:,} of them to load the image"
    out.text(
        "", f"cycles  {estimate['cycles']:,} a frame, {loaded} (estimated; a simulation gives the same)",
        f"speed   {estimate['frames_per_second']:.1f} frames/s at {estimate['clock_hz'] / 1e6:g} MHz; "
        f"{estimate['end_to_end_frames_per_second']:.1f} for a host at the end of a line of {estimate['baud']:,} baud (estimated)",
        f"array   {estimate['convolution_array_use']:.1%} used in the convolutions",
        f"memory  {estimate['feature_words_used']:,} of {config.feature_words:,} words in each of {config.pixels} banks for features, "
        f"{estimate['resident_bits']:,} bits of resident weights"
        + (f", {estimate['late_bits']:,} of late ones where early maps were" if "late_bits" in estimate else ""),
        *_coming(config), *(_learning(estimate, config) if config.learning else ()),
        f"LUT4    about {estimate['lut4']:,} (estimated)" + (f" of {limit:,}" if limit else ""), "",
        *_listed(design.folder), "",
        f"next: fbnn-hw simulate {shlex.quote(str(design.folder))} --images 2")
