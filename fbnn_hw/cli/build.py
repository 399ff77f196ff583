"""`fbnn-hw build`: a generated accelerator becomes a bitstream for a board."""

import json
import shlex
from typing import TYPE_CHECKING, Any

from ..base.errors import InputError, ToolError, UsageError
from ..base.files import locked, write
from ..machine.line import end_to_end_rate
from . import _common
from ._common import Args, Output, Parser

if TYPE_CHECKING:
    from ..design import Design

GROUP = "make"
SUMMARY = "build bitstream and flash image of a generated accelerator for a board, and check its timing"
EXAMPLES = (
    ("fbnn-hw build --board icebreaker", "the youngest design in rtl_out, at the target's clock; a second build does nothing"),
    ("fbnn-hw build --board icebreaker --clock 39 --seeds 4", "a faster clock, placed and routed from four seeds; the fastest is kept"),
)


def arguments(parser: Parser) -> None:
    _common.add_design(parser, "what `fbnn-hw generate` wrote")
    _common.add_page(parser, "the board: ", required=True)
    parser.add_argument("--clock", type=_common.positive, metavar="MHZ", help="clock of the design (default: that of the target)")
    parser.add_argument("--baud", type=_common.count, metavar="N",
                        help="speed of the link (default: the highest that the board's USB chip and the clock have)")
    parser.add_argument("--ahead", action="store_true",
                        help="the link hears the next image while the accelerator works; takes 7 block RAMs of an iCE40 for 32 x 32 pixels")
    parser.add_argument("--link", action="store_true",
                        help="a design with a camera has a serial line, too: a computer classifies, teaches, and reads what it learned")
    parser.add_argument("--seed", type=_common.natural, default=1, metavar="N", help="seed of the placement (default: 1)")
    parser.add_argument("--seeds", type=_common.up_to(1000), default=1, metavar="N",
                        help="place and route from N seeds, from --seed on, as many at a time as there are cores, and keep the fastest")
    parser.add_argument("--nextpnr-options", default="", metavar="TEXT",
                        help="more options for nextpnr, in quotes, such as '--placer sa'; one alone: --nextpnr-options=--no-tmdriv")
    parser.add_argument("--drag", action="store_true", help="also write one file to be dragged onto the board's drive")
    parser.add_argument("--native", action="store_true", help="take yosys, nextpnr and the packer from PATH, not the Python packages")
    parser.add_argument("--check", action="store_true",
                        help="compare the bitstream with the placed netlist (iCE40; icebox of Debian's fpga-icestorm) or packed once more "
                        "(ECP5), also of what is already built, and fail where nothing can read it back; a build compares it where "
                        "something can")
    parser.add_argument("--rebuild", action="store_true", help="build also what is already built")


def run(args: Args, out: Output) -> int | None:
    from ..fpga import bitstream, compared, drag, programmer, toolchain
    from ..targets.boards import board as find_board

    board, made = find_board(args.board), _common.design(args, out)
    check_part(made, board)
    if args.drag:
        drag.check(board, made.config.weights == "stream")
    folder, config, estimate, (inputs, image) = made.folder, made.config, made.estimate, _inputs(args, board, made)
    # `estimate` has the cycles of a flash with four data lines, which gives a byte in two cycles.
    least = 4 * made.manifest["frame_bytes"] if config.weights == "stream" and board.flash["lines"] == 2 else 0
    numbers = range(args.seed, args.seed + args.seeds)
    where = folder / f"build-{board.name}"
    if args.check and (missing := compared.able(board, inputs.tools)):
        raise ToolError(missing)
    mhz, oscillator = inputs.settings["clock_hz"] / 1e6, board.clock_hz / 1e6
    out.text(f"tools    {', '.join(f'{tool} {version}' for tool, version in inputs.tools.versions.items())}", f"clock    {mhz:g} MHz" + (
        f", for which designs for {board.target} are planned" if args.clock is None else
        f", not {args.clock:g}: the nearest that the PLL makes of the board's {oscillator:g} MHz" * (abs(args.clock - mhz) >= 1e-6 * mhz)))
    with locked(where / ".lock", f"{where}: another program builds there, or a tool that a killed one has started; wait for its end"):
        try:
            record = _record(args, out, inputs, where, numbers, estimate)
        except ToolError as error:
            if config.display and str(error).startswith("place-and-route"):
                raise ToolError(f"{error}; where cells lack, generate it without --display", error.result) from None
            raise
        if record is None:
            return 130
        record |= {"asked_mhz": args.clock, **_speed(record, estimate, config, least), "weights": None}
        if image and record.get("met"):
            write(where / "flash.bin", image)
            record["weights"] = "flash.bin"
            if "both" in board.program:
                write(where / programmer.BOTH, programmer.both(board, (where / inputs.flow.bitstream).read_bytes(), image))
        if args.drag and record.get("met"):
            path = where / drag.name(board, inputs.flow.bitstream)
            write(path, drag.contents(board, (where / inputs.flow.bitstream).read_bytes(), image))
        write(where / bitstream.RECORD, (json.dumps(record, indent=1) + "\n").encode())
    _show(out, record, config.camera)
    if record.get("compared"):
        found = ", ".join(f"{count:,} {what.removeprefix('ICESTORM_')}" for what, count in record["compared"].items())
        out.text(f"compared bitstream with {'the placed netlist' if 'wires' in record['compared'] else 'itself, packed once more'}: "
                 f"{found}: equal")
    elif record.get("bitstream") and board.part.family in ("ice40", "ecp5"):
        out.text(f"note     {compared.able(board, inputs.tools) or 'the bitstream was not compared; --check does it'}")
    if args.drag and record.get("met"):
        out.text(f"drag     {path}")
    if config.keeps:
        from ..machine.kept import SLOTS, SlotPlan
        from ..rtl.board_top import keep_room

        slot, (base, _) = SlotPlan(config.learning), keep_room(config, board.flash["offset"])
        out.text(f"kept     from {slot.places(base)[0]:#x} of the flash on, {SLOTS * slot.room:,} bytes, is what it learns "
                 "(fbnn-hw help device.md)")
    if least:
        out.text("note     the flash of this board has two data lines, a byte in four cycles: frames/s are the most that is possible")
    result = {"folder": where, **record}
    if inputs.flow.nextpnr and not record["met"]:
        raise ToolError(f"{where}: timing missed, {toolchain.Result.of(record).missed()}", result)
    out.result(result)
    if inputs.flow.nextpnr is None:
        out.text(f"next: cd {shlex.quote(str(where))} && vivado -mode batch -source build.tcl, which places, routes and writes "
                 f"{inputs.flow.bitstream}")
    else:
        try:
            programmer.commands(board, where / inputs.flow.bitstream, where / "flash.bin" if image else None)
            out.text(f"next: {shlex.join(['fbnn-hw', 'flash', str(folder), '--board', args.board])}")
        except UsageError as error:
            out.text(f"note     fbnn-hw flash will refuse this: {error}")
    return 0


def check_part(design: "Design", board: Any) -> None:
    """Raises UsageError where a design is not for the board's part."""
    if design.estimate["target"] != board.target:
        raise UsageError(f"--board {board.name}: has the part of --target {board.target}, {design.folder} is for "
                         f"{design.estimate['target']}; run fbnn-hw generate --target {board.target}")


def _inputs(args, board, design):
    """(bitstream.Recipe, bytes for the flash or None) of --clock, --baud and a design."""
    from ..fpga import bitstream, plls, toolchain
    from ..simulate import virtual

    config, folder = design.config, design.folder
    if config.camera and (args.baud or args.ahead) and not args.link:
        raise UsageError(f"{folder}: has a camera and no link, expected neither --baud nor --ahead, or --link as well")
    if args.link and config.display:
        raise UsageError(f"--link: {folder} has a display, whose memory has no room for the sign of a link; expected a design of "
                         "generate without --display")
    if args.link and not config.camera:
        raise UsageError(f"--link: {folder} has a link anyway, expected --link with a design that has a camera")
    clock = plls.nearest(board, args.clock * 1e6 if args.clock else board.part.clock_of(config))
    image = None
    if config.weights == "stream":
        image = virtual.flash_image(folder)
        if board.flash["offset"] + len(image) > board.flash["bytes"]:
            raise InputError(f"{folder}: {len(image):,} bytes of weights from {board.flash['offset']:#x} on, the flash of "
                             f"{board.title} has {board.flash['bytes']:,}; use a smaller network")
    inputs = bitstream.recipe(
        config, board, toolchain.find(board.target, args.native), clock, args.baud or board.baud(clock.hz, config.sleeps),
        bytes.fromhex(design.model_mark), design.read("accelerator.v").decode(errors="replace"),
        design.read("weights.hex").decode(errors="replace") if config.weights == "memory" else None, args.ahead,
        toolchain.own_options(board.target, args.nextpnr_options), args.link)
    return inputs, image


def _record(args, out, inputs, where, numbers, estimate):
    """The record of an earlier build or of a new one; None after Ctrl-C, with a line that says what was kept."""
    from ..fpga import bitstream, compared, seeds, toolchain

    key = inputs.key_of(numbers)
    if not args.rebuild and (record := bitstream.stored(where, key) or bitstream.beside(where, key)):
        out.text(f"built before, nothing has changed: {where} (--rebuild builds it again)")
        if args.check:  # a new build is compared anyway
            record["compared"] = compared.compare(inputs, where, record)
        return record
    ready = () if args.rebuild else bitstream.finished(inputs, where, numbers)
    missing = len(numbers) - len(ready) if inputs.flow.nextpnr else 1
    most = seeds.at_once(inputs.flow, missing)
    minutes = toolchain.expected_minutes(inputs.board.target, estimate["lut4"], "learning" in estimate, -(-missing // most))
    many = [f"{len(numbers)} seeds"] * (len(numbers) > 1) + [f"{most} at a time"] * (missing > 1)
    many += [f"{len(ready)} done before"] * bool(ready)
    out.text(f"expected about {minutes} minute{'s' * (minutes > 1)}{'; ' * bool(many)}{', '.join(many)}, in {where}")
    try:
        with out.progress(total=1, desc="synthesis", bar_format="{desc} {percentage:3.0f}%|{bar}| {elapsed}") as bar:
            def tell(share, phase):
                bar.set_description_str(phase, refresh=False)
                bar.update(max(0, share - bar.n))

            return bitstream.build(inputs, where, numbers, args.rebuild, tell)
    except KeyboardInterrupt:
        ended = sorted(bitstream.finished(inputs, where, numbers))
        seeds_ended = f"seed{'s' * (len(ended) > 1)} {', '.join(map(str, ended))} of {len(numbers)} kept in {where}"
        way = f"the same command{' without --rebuild' * args.rebuild} goes on with the others" if ended else "the same command begins anew"
        out.error(f"interrupted; {seeds_ended if ended else 'no seed was done'}; {way}", 130)
        return None


def _speed(record, estimate, config, least):
    """Return the speed for the record, of the array and end to end: at the wanted clock, or at the one reached where that is lower.

    End to end is from a host, and of a design with a camera from the sensor.

    least: cycles that a pass takes at least on this board.
    """
    from ..machine.line import bit_clocks

    clock_hz = _quoted_mhz(record) * 1e6
    cycles, baud = max(estimate["cycles"], least), record["baud"]
    real_baud = record["clock_hz"] / bit_clocks(record["clock_hz"], baud)
    if config.camera:
        from ..rtl.device_top import frames_per_second

        rate, real_baud = frames_per_second(config.camera, record["clock_hz"], cycles), baud
    else:
        rate = end_to_end_rate(cycles, estimate["load_cycles"], clock_hz, real_baud, config.size, config.result_classes,
                               ahead=record.get("ahead", False), pixel_bits=config.pixel_bits)
    return {"cycles": cycles, "frames_per_second": clock_hz / cycles, "end_to_end_frames_per_second": rate,
            "baud_error": real_baud / baud - 1}


def _quoted_mhz(record):
    """Return the clock at which frames/s are stated: the wanted one, or the one reached where that is lower."""
    clock = record["clock_hz"] / 1e6
    return min(clock, record.get("fmax_mhz") or clock)


def _show(out, record, camera):
    """Print a record."""
    clock = record["clock_hz"] / 1e6
    if "fmax_mhz" in record:
        cells = [(cell, used, record["available"][cell]) for cell, used in record["used"].items()]
        out.text("", *_common.table(cells, ("cell", "used", "of")), "")
        for seed in record["seeds"] if len(record["seeds"]) > 1 else ():
            text = f"{seed['fmax_mhz']:.1f} MHz{', missed' * (not seed['met'])}" if "fmax_mhz" in seed else seed["error"]
            out.text(f"seed {seed['seed']:<4}{text}{', kept' * (seed['seed'] == record['seed'])}")
        out.text(f"timing   {record['fmax_mhz']:.1f} MHz reached, {clock:g} MHz wanted (placed and routed)")
        found = ("nextpnr", record.get("nextpnr_mhz")), ("icetime", record.get("icetime_mhz"))  # what others say of an iCE40's clock
        others = [f"{name} {mhz:.1f} MHz" for name, mhz in found if mhz]
        if others and record["nextpnr_mhz"] != record["fmax_mhz"]:
            out.text(f"beside   {', '.join(others)}; they count other delays (fbnn-hw help boards)")
    else:
        out.text("", *_common.table(sorted(record["cells"].items()), ("cell", "used")), "")
    out.text(f"speed    {record['frames_per_second']:.1f} frames/s of {record['cycles']:,} cycles at {_quoted_mhz(record):g} MHz")
    if camera:
        link = f"the link has {record['baud']:,} baud" if record.get("link") else "the design has no link"
        out.text(f"camera   {record['end_to_end_frames_per_second']:.1f} frames/s from the {camera} to a class; {link}")
        return
    out.text(f"link     {record['end_to_end_frames_per_second']:.1f} frames/s for a host at {record['baud']:,} baud, "
             f"which {'sends an image ahead' if record.get('ahead') else 'waits for each answer'}")
