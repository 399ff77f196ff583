"""`fbnn-hw asic`: what a design is as a chip of standard cells, synthesised against a library of the user's."""

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
    from ..machine.cycles import learn_cycles
    from ..simulate import netlist, toggles
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
    counted, *nets = toggles.counted(made["netlist"], where)
    gates = netlist.Gates((counted, where / "cells.v", where / "memories.v"), made["cells"])
    result, frame = toggles.frame(design, images, gates, *nets, progress=out.progress, note=out.note)
    if not result.equal:
        raise MismatchError(f"{design.folder}: the gates differ from the reference: {result.differences[0]}")
    learns = frame and design.config.learning
    lesson = toggles.lesson(design, images[:1], gates, *nets) if learns else None
    trees = asic.buffered(made["netlist"], library)
    nand = library.smallest(*SHARE_NAND).area
    values = {"folder": design.folder, "kind": KIND, "liberty": args.liberty, "cells": made["cells"], "logic_um2": made["area"],
              "kge": made["area"] / nand / 1e3, "memories": [vars(memory) for memory in memories],
              "memories_um2": sum(memory.area for memory in memories) if choices else None, "images": len(images),
              "cycles_first": result.cycles_first, "cycles": result.cycles, "clock_mhz": args.clock,
              "frame": frame and _energy(frame, made["netlist"], library, memories, choices, args.clock), "lesson": None,
              **timing(made, library, where, 1e3 / args.clock, trees[1])}
    if frame:
        values["frame"]["tops_w"] = 2e-6 * design.network.topology.macs() / values["frame"]["uj"]
    if lesson:
        cycles = learn_cycles(design.config)
        values["lesson"] = _energy(lesson, made["netlist"], library, memories, choices, args.clock, cycles) | {
            "simulated": lesson.cycles, "compared": toggles.LESSONS + 1}
    _show(out, values, memories, library.corner, trees[0])
    if learns and not lesson:
        out.text("note     lesson: cocotb has no library for Verilator on this system, so the energy of a lesson is not counted")
    out.result(values)


def _energy(stretch, netlist, library, memories, choices, mhz, cycles=None):
    """The object of the JSON for the energy of a stretch, of so many cycles of it."""
    from ..targets import asic_energy

    fitting = {macro.name: macro for macro in choices}
    pairs = [(memory, fitting[memory.macro]) for memory in memories if memory.macro]
    energy = asic_energy.energy(netlist, library, pairs, stretch.cycles, stretch.toggles, stretch.writes, 1e-6 / mhz)
    cycles = cycles or stretch.cycles
    each = 1e6 * cycles / stretch.cycles
    return {"cycles": cycles, "uj": energy.total * each, "gates_uj": (energy.loads + energy.cells) * each, "clock_uj": energy.clock * each,
            "leakage_uj": energy.leakage * each, "memories_uj": energy.memories * each if pairs else None,
            "wire_uj_ff": energy.wire * each * 1e-15, "mw": energy.total / (stretch.cycles / mhz * 1e-6) * 1e3, "missing": energy.missing}


def timing(made, library, where, period_ns, buffers):
    """{"path_ns", "buffers"} of the slowest path between registers, by OpenSTA; None where it is not installed.

    buffers: in trees of the netlist, those of the clock aside, which count for no path.
    """
    from ..targets import asic

    program = shutil.which("sta")
    if program is None:
        return {"path_ns": None, "buffers": None}
    stubs = []
    cells = made["netlist"]["modules"][asic.TOP]["cells"].values()
    for number, cell in enumerate(cell for cell in cells if cell["type"].startswith("fbnn_")):
        cell["type"], cell["parameters"] = f"memory_{number}", {}
        sides = {pin: "output" if pin in ("data", "read_data") else "input" for pin in cell["connections"]}
        lines = "".join(f"{side} [{len(cell['connections'][pin]) - 1}:0] {pin};\n" for pin, side in sides.items())
        stubs.append(STUB.format(name=cell["type"], ports=", ".join(sides), lines=lines))
    asic.write(made["netlist"], where / "timed.v", "-noexpr", "-simple-lhs")
    with open(where / "timed.v", "a") as file:
        file.write("".join(stubs))
    (where / "timing.tcl").write_text(STA.format(liberty=library.path.absolute(), period=period_ns))
    done = subprocess.run([program, "-no_splash", "timing.tcl"], cwd=where, capture_output=True, text=True, errors="replace", timeout=1800)
    (where / "timing.log").write_text(done.stdout + done.stderr)
    found = re.findall(r"([-\d.]+)\s+slack \(\w+\)", done.stdout)
    if done.returncode or not found:
        raise ToolError(f"sta: found no path between registers; see {where / 'timing.log'}")
    return {"path_ns": round(period_ns - float(found[0]), 3), "buffers": buffers}


def _show(out, values, memories, corner, clock_buffers):
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
    for name, of in (("frame", "a frame"), ("lesson", "one sample learned, its frame not counted")):
        if one := values[name]:
            memory = f"memories {one['memories_uj']:.2f}" if one["memories_uj"] is not None else "no memories (--sram)"
            out.text(f"{'energy' if name == 'frame' else name:8} {one['uj']:.2f} uJ, {of}: gates {one['gates_uj']:.2f}, "
                     f"clock {one['clock_uj']:.2f}, {memory}, leakage {one['leakage_uj']:.2f}; {one['cycles']:,} cycles; {KIND}")
    if one := values["frame"]:
        slow = ", faster than the path above" * ((values["path_ns"] or 0) * values["clock_mhz"] > 1e3)
        out.text(f"power    {one['mw']:.1f} mW while it computes, at {values['clock_mhz']:g} MHz{slow}; {one['tops_w']:.2f} TOPS/W; {KIND}",
                 f"         at {corner[0]:g} V, {corner[1]:g} C; no wires, no glitches, {clock_buffers} buffers in the clock's tree; "
                 f"1 fF of wire at each input adds {one['wire_uj_ff']:.2f} uJ a frame")
        if one["missing"]:
            out.text(f"note     no tables of power for {', '.join(one['missing'][:8])}{', ...' * (len(one['missing']) > 8)}: "
                     "what they take inside is not counted")
    else:
        out.text("note     energy: of the second image, expected --images 2 or more")
    cycles = ", ".join(f"{cycles:,}" for cycles in [values["cycles_first"][0], *values["cycles"]])
    out.text(f"compared logits of {values['images']} image{'s' * (values['images'] > 1)} through the gates with the reference, "
             f"bit for bit: equal, in {cycles} cycles")
    if one := values["lesson"]:
        out.text(f"         after {one['compared']} lessons counters of the class and logits with those of the reference learner: equal")
