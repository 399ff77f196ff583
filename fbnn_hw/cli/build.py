"""`fbnn-hw build`: a generated accelerator becomes a bitstream for a board."""

import json
from pathlib import Path

from ..errors import InputError, ToolError, UsageError
from . import common

SUMMARY = "build bitstream and flash image of a generated accelerator for a board, and check its timing"
EXAMPLES = (
    ("fbnn-hw build rtl_out/3mb-10c-ice40-0123abcd --board icebreaker", "at the target's clock; a second build does nothing"),
    ("fbnn-hw build rtl_out/3mb-10c-ice40-0123abcd --board icebreaker --clock 42 --seed 7", "another clock, and another try at placing"),
)


def arguments(parser):
    from ..host.transport import DEFAULT_BAUD
    from ..targets.boards import boards

    parser.add_argument("folder", metavar="DIR", help="what `fbnn-hw generate` wrote")
    parser.add_argument("--board", required=True, metavar="NAME", help=f"the board: {', '.join(boards())}")
    parser.add_argument("--clock", type=common.positive, metavar="MHZ", help="clock of the design (default: that of the target)")
    parser.add_argument("--baud", type=common.count, default=DEFAULT_BAUD, metavar="N", help=f"speed of the link (default: {DEFAULT_BAUD})")
    parser.add_argument("--seed", type=common.natural, default=1, metavar="N", help="seed of the placement (default: 1)")
    parser.add_argument("--native", action="store_true", help="take yosys, nextpnr and the packer from PATH, not the Python packages")
    parser.add_argument("--rebuild", action="store_true", help="build also what is already built")


def run(args, out):
    from .. import protocol
    from ..build import toolchain
    from ..compile.config import AcceleratorConfig
    from ..targets.boards import board as find_board

    board, folder = find_board(args.board), Path(args.folder)
    config = AcceleratorConfig.from_json(_text(folder, "config.json"))
    known = json.loads(_text(folder, "estimate.json"))
    if known["target"] != board.target:
        raise UsageError(f"--board {board.name}: has the part of --target {board.target}, {folder} is for {known['target']}; "
                         f"run fbnn-hw generate --target {board.target}")
    if board.target not in toolchain.SYNTHESIS:
        made = ", ".join(toolchain.SYNTHESIS)
        raise UsageError(f"--board {board.name}: the tools have no bitstreams for {board.target}, expected a board with one of {made}")
    tools = toolchain.find(board.target, args.native)

    from ..build import pads, virtual

    clock = pads.pll(board, args.clock * 1e6 if args.clock else board.part.clock_hz)
    top = pads.Pads(config, board, clock, args.baud, protocol.model_mark(_text(folder, "network.json").encode()))
    settings = {"board": board.name, "clock_hz": clock.hz, "baud": args.baud, "seed": args.seed, "tools": tools.versions,
                "pins": top.pins(), "synthesis": toolchain.SYNTHESIS[board.target]}
    files = {"top.v": pads.to_verilog(top), "pins.txt": pads.constraints(top)}
    for name in ("accelerator.v", "weights.hex"):
        files[name] = _text(folder, name)
    name = toolchain.key(settings, files)
    where = folder / f"build-{board.name}"
    out.text(f"tools    {', '.join(f'{tool} {version}' for tool, version in tools.versions.items())}")
    record = None if args.rebuild else _built(where, name)
    if record is None:
        minutes = toolchain.MINUTES[board.target]
        out.text(f"expected about {minutes} minutes, in {where}")
        where.mkdir(exist_ok=True)
        (where / "build.json").unlink(missing_ok=True)
        for file, text in files.items():
            (where / file).write_text(text)
        with out.progress(total=3, desc="synthesis") as bar:
            cells = toolchain.synthesise(board.target, ["top.v", "accelerator.v"], where, tools)
            bar.update()
            bar.set_description("place and route")
            result = toolchain.place(board.target, board.package, where, clock.hz / 1e6, args.seed, tools)
            bar.update()
            bar.set_description("bitstream")
            record = {"key": name, "kind": "placed and routed", **settings, "cells": cells, **result.to_dict(),
                      "cycles": known["cycles"], "frames_per_second": clock.hz / known["cycles"], "bitstream": None, "weights": None}
            if result.met:
                toolchain.pack(board.target, where, "bitstream.bin", tools)
                record["bitstream"] = "bitstream.bin"
                if config.weights == "stream":
                    image = virtual.flash_image(folder)
                    if board.flash["offset"] + len(image) > board.flash["bytes"]:
                        raise InputError(f"{folder}: {len(image):,} bytes of weights from {board.flash['offset']:#x} on, the flash of "
                                         f"{board.title} has {board.flash['bytes']:,}; use a smaller network")
                    (where / "flash.bin").write_bytes(image)
                    record["weights"] = "flash.bin"
            bar.update()
        (where / "build.json").write_text(json.dumps(record, indent=1) + "\n")
    else:
        out.text(f"built before, nothing has changed: {where} (--rebuild builds it again)")
    result = toolchain.Result(record["clock_mhz"], record["fmax_mhz"], record["used"], record["available"], record["path"])
    cells = [(cell, used, record["available"][cell]) for cell, used in record["used"].items()]
    out.text("", *common.table(cells, ("cell", "used", "of")), "",
             f"timing   {result.fmax_mhz:.1f} MHz reached, {result.clock_mhz:g} MHz wanted (placed and routed)",
             f"speed    {record['frames_per_second']:.1f} frames/s of {record['cycles']:,} cycles at {result.clock_mhz:g} MHz")
    out.result({"folder": where, **record})
    if not result.met:
        raise ToolError(f"{where}: timing missed, {result.missed()}")
    out.text(f"next: fbnn-hw flash {folder} --board {board.name}")


def _built(where, name):
    """The record of an earlier build of the same inputs, if its files are there."""
    try:
        record = json.loads((where / "build.json").read_text())
    except (OSError, ValueError):
        return None
    files = [record.get(part) for part in ("bitstream", "weights") if record.get(part)]
    return record if record.get("key") == name and all((where / file).exists() for file in files) else None


def _text(folder, name):
    try:
        return (folder / name).read_text()
    except (OSError, UnicodeDecodeError):
        raise InputError(f"{folder / name}: not found or not text, expected a folder that `fbnn-hw generate` wrote") from None
