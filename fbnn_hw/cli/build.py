"""`fbnn-hw build`: a generated accelerator becomes a bitstream for a board."""

import json
import shutil
import time

from ..errors import InputError, ToolError, UsageError
from ..files import write
from . import common

SUMMARY = "build bitstream and flash image of a generated accelerator for a board, and check its timing"
EXAMPLES = (
    ("fbnn-hw build --board icebreaker", "the youngest design in rtl_out, at the target's clock; a second build does nothing"),
    ("fbnn-hw build --board icebreaker --clock 42 --seed 7", "another clock, and another try at placing"),
)


def arguments(parser):
    from ..host.transport import DEFAULT_BAUD
    from ..targets.boards import boards

    common.add_design(parser, "what `fbnn-hw generate` wrote")
    parser.add_argument("--board", required=True, metavar="NAME", help=f"the board: {', '.join(boards())}")
    parser.add_argument("--clock", type=common.positive, metavar="MHZ", help="clock of the design (default: that of the target)")
    parser.add_argument("--baud", type=common.count, default=DEFAULT_BAUD, metavar="N", help=f"speed of the link (default: {DEFAULT_BAUD})")
    parser.add_argument("--seed", type=common.natural, default=1, metavar="N", help="seed of the placement (default: 1)")
    parser.add_argument("--native", action="store_true", help="take yosys, nextpnr and the packer from PATH, not the Python packages")
    parser.add_argument("--rebuild", action="store_true", help="build also what is already built")


def run(args, out):
    from ..emit import output
    from ..fpga import programmer, toolchain
    from ..targets.boards import board as find_board

    board, folder = find_board(args.board), common.design(args, out)
    output.intact(folder)
    known = _known(folder, board)
    flow = toolchain.FLOWS[board.target]
    tools = toolchain.find(board.target, args.native)
    name, settings, files, image = _inputs(args, board, folder, tools)
    where = folder / f"build-{board.name}"
    out.text(f"tools    {', '.join(f'{tool} {version}' for tool, version in tools.versions.items())}")
    record = None if args.rebuild else _built(where, name) or _beside(folder, where, name)
    if record is None:
        record = _build(out, flow, tools, board, where, settings, files, known["lut4"])
        record = {"key": name, "kind": KINDS[flow.nextpnr is not None], **record}
    else:
        out.text(f"built before, nothing has changed: {where} (--rebuild builds it again)")
    speed = _quoted_mhz(record) * 1e6 * known["frames"] / known["cycles"]
    record |= {"cycles": known["cycles"], "frames": known["frames"], "frames_per_second": speed, "weights": None}
    if image and record.get("met"):
        write(where / "flash.bin", image)
        record["weights"] = "flash.bin"
        if "both" in board.program:
            write(where / programmer.BOTH, programmer.both(board, (where / flow.bitstream).read_bytes(), image))
    write(where / "build.json", (json.dumps(record, indent=1) + "\n").encode())
    _show(out, record)
    result = {"folder": where, **record}
    if flow.nextpnr and not record["met"]:
        raise ToolError(f"{where}: timing missed, {_result(record).missed()}", result)
    out.result(result)
    if flow.nextpnr is None:
        out.text(f"next: cd {where} && vivado -mode batch -source build.tcl, which places, routes and writes {flow.bitstream}")
        return
    out.text(f"next: fbnn-hw flash {folder} --board {board.name}")


KINDS = {True: "placed and routed", False: "synthesised"}


def _known(folder, board):
    """estimate.json of a design that is for the board's part."""
    try:
        known = json.loads(_text(folder, "estimate.json"))
        target = known["target"], known["cycles"], known["lut4"], known["frames"]
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{folder / 'estimate.json'}: not what `fbnn-hw generate` wrote; generate the folder again") from None
    if target[0] != board.target:
        raise UsageError(f"--board {board.name}: has the part of --target {board.target}, {folder} is for {target[0]}; "
                         f"run fbnn-hw generate --target {board.target}")
    return known


def _inputs(args, board, folder, tools):
    """(key, settings, {file: text}, bytes for the flash or None): all that a build depends on."""
    from .. import protocol
    from ..compile.config import AcceleratorConfig
    from ..emit import virtual
    from ..fpga import pads, plls, toolchain
    from ..fpga import xilinx as vivado

    config = AcceleratorConfig.from_json(_text(folder, "config.json"))
    clock = plls.nearest(board, args.clock * 1e6 if args.clock else board.part.clock_of(config))
    top = pads.Pads(config, board, clock, args.baud, protocol.model_mark(_text(folder, "network.json").encode()))
    image = None
    if config.weights == "stream":
        image = virtual.flash_image(folder)
        if board.flash["offset"] + len(image) > board.flash["bytes"]:
            raise InputError(f"{folder}: {len(image):,} bytes of weights from {board.flash['offset']:#x} on, the flash of "
                             f"{board.title} has {board.flash['bytes']:,}; use a smaller network")
    script, place, pack = toolchain.commands(board.target, board.package, clock.hz / 1e6, args.seed)
    settings = {"board": board.name, "clock_hz": clock.hz, "baud": args.baud, "seed": args.seed, "tools": tools.versions,
                "pins": top.pins(), "script": script, "place": place, "pack": pack}
    files = {"top.v": pads.to_verilog(top), "pins.txt": pads.constraints(top), "accelerator.v": _text(folder, "accelerator.v")}
    if config.weights == "memory":  # weights from a flash are no part of the bitstream
        files["weights.hex"] = _text(folder, "weights.hex")
    if board.target.startswith("xilinx7"):
        files |= {"pins.xdc": files.pop("pins.txt"), "build.tcl": vivado.script(board.package)}
    return toolchain.key(settings, files), settings, files, image


def _build(out, flow, tools, board, where, settings, files, lut4):
    """Run the tools; returns the record without what comes from the folder."""
    from ..fpga import placement, programmer, toolchain

    minutes = toolchain.expected_minutes(board.target, lut4)
    out.text(f"expected about {minutes} minute{'s' * (minutes > 1)}, in {where}")
    where.mkdir(exist_ok=True)
    # The record goes first and comes last: what an interrupt leaves behind is no build.
    for name in ("build.json", flow.bitstream, "flash.bin", programmer.BOTH, "placement.json", "report.json", "cells.json"):
        (where / name).unlink(missing_ok=True)
    for file, text in files.items():
        (where / file).write_text(text)
    start = time.monotonic()
    with out.progress(total=60 * minutes, desc="synthesis", bar_format="{desc} {percentage:3.0f}%|{bar}| {elapsed}") as bar:
        def said(line):
            bar.update(min(time.monotonic() - start, bar.total) - bar.n)

        cells = toolchain.synthesise(settings["script"], where, tools, said)
        record = {**settings, "cells": cells, "bitstream": flow.bitstream}
        if flow.nextpnr:
            bar.set_description_str("place and route", refresh=False)
            result = toolchain.place(flow, settings["place"], where, settings["clock_hz"] / 1e6, tools, said)
            record |= {**result.to_dict(), "bitstream": None}
            drawn = placement.read(where / "placed.json")
            write(where / "placement.json", json.dumps(drawn).encode())
            if result.met:
                bar.set_description_str("bitstream", refresh=False)
                toolchain.pack(flow, settings["pack"], where, tools, said)
                record["bitstream"] = flow.bitstream
    for name in ("placed.json", "netlist.json"):  # large, and told by the others
        (where / name).unlink(missing_ok=True)
    return record | {"minutes": round((time.monotonic() - start) / 60, 2)}


def _built(where, name):
    """The record of an earlier build of the same inputs, if its files are there."""
    try:
        record = json.loads((where / "build.json").read_text())
    except (OSError, ValueError):
        return None
    if not isinstance(record, dict) or record.get("key") != name:
        return None
    made = record.get("bitstream") if record.get("kind") == KINDS[True] else None
    return record if made is None or (where / made).exists() else None


def _beside(folder, where, name):
    """The same of a neighbouring design that differs in its weights alone; copies what was built there."""
    from ..fpga import programmer

    for other in sorted(folder.absolute().parent.glob(f"*/{where.name}")):
        if record := _built(other, name):
            where.mkdir(exist_ok=True)
            for path in other.iterdir():
                if path.is_file() and path.name not in ("build.json", "flash.bin", programmer.BOTH):
                    shutil.copyfile(path, where / path.name)
            return record
    return None


def _result(record):
    from ..fpga.toolchain import Result

    return Result(record["clock_mhz"], record["fmax_mhz"], record["used"], record["available"], record["path"])


def _quoted_mhz(record):
    """The clock that frames/s are of: the wanted one, or the one reached where that is lower."""
    clock = record["clock_hz"] / 1e6
    return min(clock, record.get("fmax_mhz") or clock)


def _show(out, record):
    """Print a record."""
    clock = record["clock_hz"] / 1e6
    if "fmax_mhz" in record:
        cells = [(cell, used, record["available"][cell]) for cell, used in record["used"].items()]
        out.text("", *common.table(cells, ("cell", "used", "of")), "",
                 f"timing   {record['fmax_mhz']:.1f} MHz reached, {clock:g} MHz wanted (placed and routed)")
    else:
        out.text("", *common.table(sorted(record["cells"].items()), ("cell", "used")), "")
    unit = "" if record["frames"] == 1 else f" for {record['frames']} frames"
    out.text(f"speed    {record['frames_per_second']:.1f} frames/s of {record['cycles']:,} cycles{unit} at {_quoted_mhz(record):g} MHz")


def _text(folder, name):
    try:
        return (folder / name).read_text()
    except (OSError, UnicodeDecodeError):
        raise InputError(f"{folder / name}: not found or not text, expected a folder that `fbnn-hw generate` wrote") from None
