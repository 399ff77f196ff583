"""`fbnn-hw asic`: what a design is as a chip of standard cells, synthesised against a library of the user's."""

import json
import re
import shutil
import subprocess
from pathlib import Path

from ..base.errors import MismatchError, ToolError, UsageError
from . import _common
from ._common import Args, Output, Parser

GROUP = "check"
SUMMARY = "synthesise a design for a chip of standard cells: cells, area, clock, and the gates against the reference"
EXAMPLES = (
    ("fbnn-hw asic rtl_out/NAME --liberty cells.lib", "cells, kGE and mm2 of the logic, and two images through the gates"),
    ("fbnn-hw asic rtl_out/NAME --liberty cells.lib --sram macros", "the memories as macros of the Liberty files in macros, too"),
)
KIND = "synthesised, no layout"
SHARE_NAND = "!A*B", "!A&B"
STA = """read_liberty {liberty}
read_verilog timed.v
link_design accelerator
create_clock -name clk -period {period:g} [get_ports clk]
report_checks -path_delay max -from [all_registers -clock_pins] -to [all_registers -data_pins] -format full
exit
"""
STUB = "module {name} ({ports});\n{lines}endmodule\n"


def arguments(parser: Parser) -> None:
    _common.add_design(parser, "what `fbnn-hw generate --target generic` wrote")
    parser.add_argument("--liberty", required=True, metavar="FILE", help="Liberty file of the standard cells, of one corner")
    parser.add_argument("--sram", metavar="DIR", help="folder with the Liberty files of single-port memories, which the design's become")
    parser.add_argument("--clock", type=_common.positive, default=100, metavar="MHZ",
                        help="clock that the logic is mapped for (default: 100)")
    parser.add_argument("--images", type=_common.up_to(99), default=2, metavar="N",
                        help="shipped test images that go through the gates (default: 2)")


def run(args: Args, out: Output) -> None:
    from ..data.datasets import test_images
    from ..simulate import netlist
    from ..simulate.simulation import simulate
    from ..targets import asic

    design = _common.design(args, out)
    if design.estimate["target"] != "generic":
        raise UsageError(f"{design.folder}: is for {design.estimate['target']}, expected a design of fbnn-hw generate --target generic")
    library = asic.Library(Path(args.liberty))
    choices = asic.macros(Path(args.sram), library.corner) if args.sram else []
    images = test_images(design.config.size, args.images)
    _common.keep_folder(out, design)
    where = design.folder / "asic"
    weights = design.read("weights.hex").decode() if design.config.way == "memory" else None
    made = asic.synthesise(design.read("accelerator.v").decode(), weights, library, round(1e6 / args.clock), where)
    memories = asic.memories(made["netlist"], choices)
    gates = netlist.Gates(tuple(where / name for name in ("netlist.v", "cells.v", "memories.v")), made["cells"])
    result = simulate(design, images, netlist=gates, progress=out.progress, note=out.note)
    if not result.equal:
        raise MismatchError(f"{design.folder}: the gates differ from the reference: {result.differences[0]}")
    nand = library.smallest(*SHARE_NAND).area
    values = {"folder": design.folder, "kind": KIND, "liberty": args.liberty, "cells": made["cells"], "logic_um2": made["area"],
              "kge": made["area"] / nand / 1e3, "memories": [vars(memory) for memory in memories],
              "memories_um2": sum(memory.area for memory in memories) if choices else None, "images": len(images),
              "cycles_first": result.cycles_first, "cycles": result.cycles, **timing(made, library, where, 1e3 / args.clock)}
    _show(out, values, memories)
    out.result(values)


def timing(made, library, where, period_ns):
    """{"path_ns", "buffers"} of the slowest path between registers, by OpenSTA; None where it is not installed."""
    from ..targets import asic, synthesis

    program = shutil.which("sta")
    if program is None:
        return {"path_ns": None, "buffers": None}
    buffers = asic.buffered(made["netlist"], library)
    stubs = []
    cells = made["netlist"]["modules"][asic.TOP]["cells"].values()
    for number, cell in enumerate(cell for cell in cells if cell["type"].startswith("fbnn_")):
        cell["type"], cell["parameters"] = f"memory_{number}", {}
        sides = {pin: "output" if pin in ("data", "read_data") else "input" for pin in cell["connections"]}
        lines = "".join(f"{side} [{len(cell['connections'][pin]) - 1}:0] {pin};\n" for pin, side in sides.items())
        stubs.append(STUB.format(name=cell["type"], ports=", ".join(sides), lines=lines))
    (where / "timed.json").write_text(json.dumps(made["netlist"]))
    synthesis.run(synthesis.command("read_json timed.json\nwrite_verilog -noattr -noexpr -simple-lhs timed.v\n", where), where,
                  "timed.log", "writing the netlist")
    with open(where / "timed.v", "a") as file:
        file.write("".join(stubs))
    (where / "timing.tcl").write_text(STA.format(liberty=library.path.absolute(), period=period_ns))
    done = subprocess.run([program, "-no_splash", "timing.tcl"], cwd=where, capture_output=True, text=True, errors="replace", timeout=1800)
    (where / "timing.log").write_text(done.stdout + done.stderr)
    found = re.findall(r"([-\d.]+)\s+slack \(\w+\)", done.stdout)
    if done.returncode or not found:
        raise ToolError(f"sta: found no path between registers; see {where / 'timing.log'}")
    return {"path_ns": round(period_ns - float(found[0]), 3), "buffers": buffers}


def _show(out, values, memories):
    rows = [(memory.instance, f"{memory.words:,} x {memory.bits}",
             f"{memory.rows} x {memory.columns} {memory.macro}" if memory.macro else "", f"{memory.area / 1e6:.3f}" if memory.macro else "")
            for memory in memories]
    count = sum(values["cells"].values())
    out.text(f"all figures: {KIND}", "", *_common.table(rows, ("memory", "size", "macros", "mm2")), "",
             f"logic    {count:,} cells, {values['kge']:.1f} kGE, {values['logic_um2'] / 1e6:.3f} mm2")
    if values["memories_um2"] is not None:
        missing = sum(memory.macro is None for memory in memories)
        out.text(f"memories {values['memories_um2'] / 1e6:.3f} mm2" + f", without {missing} that no macro fits" * bool(missing),
                 f"in all   {(values['logic_um2'] + values['memories_um2']) / 1e6:.3f} mm2, wires and pads not counted")
    if values["path_ns"] is not None:
        out.text(f"clock    {1e3 / values['path_ns']:.0f} MHz: {values['path_ns']:g} ns between registers, with {values['buffers']:,} "
                 "buffers in trees; paths to and from the memories are not in it")
    else:
        out.text("note     sta: not installed, so no path is timed (Debian: apt install opensta)")
    cycles = ", ".join(f"{cycles:,}" for cycles in [values["cycles_first"][0], *values["cycles"]])
    out.text(f"compared logits of {values['images']} image{'s' * (values['images'] > 1)} through the gates with the reference, "
             f"bit for bit: equal, in {cycles} cycles")
