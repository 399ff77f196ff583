"""`fbnn-hw energy`: mJ of a frame and of a lesson, estimated from a simulation."""

from ..base.errors import UsageError
from . import _common
from ._common import Args, Output, Parser

GROUP = "check"
SUMMARY = "estimate the energy of a frame and of a lesson, part by part, from a simulation of the netlist"
EXAMPLES = (
    ("fbnn-hw energy --images 2", "the youngest design in rtl_out, on the first two of the shipped test images"),
    ("fbnn-hw energy --rate 1 --rate 20 --clock 16.5", "average power at 1 and at 20 frames/s, with a clock of 16.5 MHz"),
)


def arguments(parser: Parser) -> None:
    _common.add_design(parser, "what `fbnn-hw generate --target ice40` wrote")
    parser.add_argument("--images", type=_common.number(int, lambda v: 2 <= v <= 99, "a whole number from 2 to 99"), default=2,
                        metavar="N", help="shipped test images to simulate; the first frame counts alone (default: 2)")
    parser.add_argument("--clock", type=float, metavar="MHZ", help="clock (default: the one that generate quotes)")
    parser.add_argument("--baud", type=_common.count, metavar="BITS",
                        help="bits/s of the serial line (default: that of the part's boards at this clock)")
    parser.add_argument("--rate", type=float, action="append", metavar="FRAMES",
                        help="frames/s at which the average power is wanted; may be repeated (default: 1 and 10)")


def run(args: Args, out: Output) -> None:
    if args.clock is not None and not 0.1 <= args.clock <= 100:
        raise UsageError(f"--clock {args.clock:g}: expected 0.1 to 100 MHz")
    for rate in args.rate or ():
        if not 0 < rate <= 1e6:
            raise UsageError(f"--rate {rate:g}: expected more than 0 frames/s, at most 1000000")
    from ..data.datasets import test_images

    design = _common.design(args, out)
    images = test_images(design.config.size, args.images)
    _common.keep_folder(out, design)
    answer = design.energy(images, clock_hz=args.clock and round(args.clock * 1e6), baud=args.baud, rates=args.rate or (1.0, 10.0),
                           progress=out.progress, note=out.note)
    _show(out, answer)
    out.result(answer)


def _show(out, answer):
    from ..simulate.energy import groups, milli
    from ..targets.power import Bounds

    frame = answer["frame"]
    camera = answer.get("camera")
    source, how = (camera["name"], "from the first pixel of its window") if camera else (
        f"line of {answer['baud']:,} baud", "its bytes on the line included")
    out.text(f"{answer['part']} at {answer['clock_hz'] / 1e6:g} MHz, {source}: all figures are estimated",
             f"a frame: {frame['cycles']:,} cycles, {frame['seconds'] * 1e3:.2f} ms, {how}", "")
    parts = groups(frame["parts_mj"])
    rows = [(name, *_figures(milli(energy), 4)) for name, energy in parts.items()]
    rows.append(("all", *_figures(frame["total_mj"], 4)))
    if "flash" in parts:
        rows.append(("all but the flash", *_figures(milli(Bounds.total([parts[name] for name in parts if name != "flash"])), 4)))
    rows.append(("the first frame", *_figures(answer["first_frame"]["total_mj"], 4)))
    rows.append(("the computing alone", *_figures(answer["compute"]["total_mj"], 4)))
    out.text(*_common.table(rows, ("mJ a frame", "low", "typical", "high")), "")
    rows = [(f"{name}, always", *_figures(power)) for name, power in answer["static_mw"].items()]
    if camera:
        rows.append((f"{camera['name']}, {camera['kind']}", *_figures(camera["mw"])))
    rows.append(("waiting for a frame" + ", without the camera" * bool(camera), *_figures(answer["waiting_mw"])))
    if "asleep_mw" in answer:
        rows.append(("asleep", *_figures(answer["asleep_mw"])))
    for rate in answer["rates"]:
        label = f"{rate['frames_per_second']:g} frames/s" + f" (too fast for the {'camera' if camera else 'line'})" * (not rate["possible"])
        rows.append((label, *_figures(rate["clock_runs_mw"])))
        if camera:
            rows.append((f"{label}, with the camera", *_figures(rate["with_camera_mw"])))
        if "sleeps_mw" in rate:
            rows.append((f"{label}, asleep between them", *_figures(rate["sleeps_mw"])))
    out.text(*_common.table(rows, ("mW", "low", "typical", "high")))
    if lesson := answer.get("lesson"):
        out.text("", f"lesson  {_range(lesson['sample']['total_mj'])} mJ a sample, {_range(lesson['total_mj'])} mJ for a lesson of "
                 f"{lesson['pictures']} pictures, {lesson['seconds']:.2f} s (estimated)")
    peer = answer["peer"]
    out.text("", f"beside  {peer['name']} on an {peer['part']}: {peer['mw']:g} mW ({peer['source']})",
             "where the figures are from, and how to measure: fbnn-hw help energy.md")


def _figures(values, digits=2):
    return tuple(f"{values[name]:.{digits}f}" for name in ("low", "typical", "high"))


def _range(values):
    return f"{values['typical']:.3g} ({values['low']:.3g} to {values['high']:.3g})"
