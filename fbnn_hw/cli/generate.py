"""`fbnn-hw generate`: a checkpoint becomes a Verilog accelerator."""

from pathlib import Path

from ..errors import UsageError
from . import common

SUMMARY = "turn a checkpoint into a Verilog accelerator for a target, with weights and a test"
EXAMPLES = (
    ("fbnn-hw generate --model 3mb.pt --target ice40", "for an iCE40UP5K, weights from a flash; the compiler picks the size of the array"),
    ("fbnn-hw generate --model 0.5mb.pt --target generic --lanes 32 --outputs 16", "for memories of any size, with an array of your size"),
)


def arguments(parser):
    from ..targets import TARGETS

    common.add_model(parser)
    parser.add_argument("--target", required=True, metavar="NAME", help=f"what it is for: {', '.join(TARGETS)}")
    parser.add_argument("--pixels", type=common.count, metavar="Q",
                        help="pixels worked on at once: 4, 8 or 16 (default: the compiler's choice)")
    parser.add_argument("--lanes", type=common.count, metavar="L", help="input channels a cycle: 16, 32, 64 or 128")
    parser.add_argument("--outputs", type=common.count, metavar="P", help="output channels a cycle, a power of two from Q to L")
    parser.add_argument("--frames", type=common.up_to(255), default=1, metavar="B",
                        help="images of a pass: the weights of late layers are fetched once for all of them (default: 1)")
    parser.add_argument("--learn", action="store_true", help="a chip that goes on learning new classes (docs/on-chip-learning.md)")
    parser.add_argument("--max-classes", type=common.up_to(1024), metavar="N",
                        help="with --learn: classes there is room for, those of the model included (default: theirs and 6 more)")
    parser.add_argument("--exemplars", type=common.count, metavar="N",
                        help="with --learn: samples kept for replay (default: the most that leave frames as fast, or nearly)")
    parser.add_argument("--counter-bits", type=common.up_to(8), metavar="B",
                        help="with --learn: bits of the counter behind each weight of the classifier, 1 to 8 (default: 8)")
    parser.add_argument("--out", default="rtl_out", metavar="DIR", help="where the folder is made (default: rtl_out)")


def _rejected(rejected):
    """A line on the faster shape that did not fit."""
    if not rejected:
        return ()
    shape, why = rejected
    return (f"        not {' x '.join(map(str, shape))}: {why}",)


def _learning(known, config):
    """Lines of a design that learns."""
    if not config.learning:
        return ()
    found = known["learning"]
    rows = ", ".join(f"{what} {count:,}" for what, count in found["rows"].items() if count)
    return (f"learns  up to {found['max_classes']} classes from {found['exemplars']:,} exemplars; rows of {found['row_bits']} bits: {rows}",
            f"        {found['learn_cycles']:,} cycles for a new sample and {config.learning.replays} replays that all move counters "
            "(estimated)",
            f"        the exemplars cost {found['exemplar_cycles']:,} cycles a frame; without --learn one takes {found['plain_cycles']:,} "
            "(estimated)")


def run(args, out):
    from ..targets import target

    part = target(args.target)
    path, network = common.checkpoint(args.model)
    from ..compile.plan import plan

    learn = None
    if args.learn:
        from ..reference.learning import Head, LearnConfig

        # Lessons are short: shipped weights must outlast the first samples of a new class, and its row must find its feet.  Measured in
        # docs/on-chip-learning.md.
        learn = Head.of(network.topology), LearnConfig(
            args.max_classes or len(network.topology.classes) + 6, args.exemplars or 0, width := args.counter_bits or 8,
            confidence=min(32, (1 << width - 1) - 1), prototype=16)
    elif args.max_classes or args.exemplars or args.counter_bits:
        raise UsageError("--max-classes, --exemplars, --counter-bits: only with --learn")
    planned = plan(network, part, args.pixels, args.lanes, args.outputs, args.frames, learn)
    config = planned.config
    from ..emit import output

    with out.progress(total=2, desc="Verilog and weights") as bar:
        known = output.estimate(planned, part)
        bar.update()
        folder, files = output.write(planned, network, part, path, args.out, common.test_images(config.size, 2 * config.frames))
        bar.update()
    size = config.pixels * config.lanes * config.outputs
    out.text(f"{network.topology.name}, {len(network.topology.classes)} classes, on {part.part}",
             f"engine  {config.pixels} pixels x {config.lanes} lanes x {config.outputs} outputs = {size:,} MAC/cycle"
             + ("" if args.outputs else ", chosen as the fastest that fits"),
             *_rejected(planned.rejected_shape), "")
    out.text(*common.table(
        [(x["layer"], x["macs"], x["cycles"], f"{x['array_use']:.1%}", x["bound"], x["wait"], x["weight_bits"],
          f"{x['resident_sixteenths']}/16") for x in known["layers"]],
        ("layer", "MACs", "cycles", "array use", "bound by", "waits", "weight bits", "on chip")))
    unit, loaded = ("a frame", "the image") if config.frames == 1 else (f"a pass of {config.frames} frames", "the images")
    out.text(
        "", f"cycles  {known['cycles']:,} {unit}, {known['load_cycles']:,} of them to load {loaded} "
        "(estimated; a simulation gives the same)",
        f"speed   {known['frames_per_second']:.1f} frames/s at {known['clock_hz'] / 1e6:g} MHz (estimated)",
        f"array   {known['convolution_array_use']:.1%} used in the convolutions",
        f"memory  {known['feature_words_used']:,} of {config.feature_words:,} words in each of {config.pixels} banks for features, "
        f"{known['resident_bits']:,} bits of resident weights",
        *_learning(known, config), f"LUT4    about {known['lut4']:,} (estimated)" + (f" of {part.lut4:,}" if part.lut4 else ""), "",
        f"{folder}:", *(f"  {name}  {size:,} bytes" for name, size in files.items()), "",
        f"next: fbnn-hw simulate {folder} --images {2 * config.frames}")
    out.result({"folder": folder, "config_id": config.id, "pixels": config.pixels, "lanes": config.lanes, "outputs": config.outputs,
                "estimate": known, "files": {name: Path(folder) / name for name in files}})
