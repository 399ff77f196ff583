"""Which clock a chip's memories allow: the slowest path behind and before its macros, by OpenSTA, of a design that fbnn-hw asic ran with.

    fbnn-hw asic DIR --liberty cells.lib --sram macros
    python docs/benchmarks/macro_clock.py DIR --liberty cells.lib --sram macros     # of the corner of cells.lib

A memory is a cell that gives its word after the longest access time of its macro's tables, and whose inputs have the middle of the set-up
tables.  The multiplexer behind several rows of macros and the decoder before them are not in it.  No layout.
"""

import argparse
import json
import re
import subprocess
import tempfile
from pathlib import Path

from fbnn_hw.targets import asic

PATHS = """read_liberty {liberty}
read_liberty macros.lib
read_verilog timed.v
link_design accelerator
create_clock -name clk -period 20 [get_ports clk]
report_checks -path_delay max {group} -format full
exit
"""
GROUPS = {"from a memory": "-from [get_cells macro*]", "to a memory": "-to [get_cells macro*]"}
STUB = re.compile(r"module (memory_\d+) \((.*?)\);\n(.*?)endmodule\n", re.S)
SCALARS = 'cell_rise(scalar) {{ values("{0}"); }} cell_fall(scalar) {{ values("{0}"); }}' \
    ' rise_transition(scalar) {{ values("0.1"); }} fall_transition(scalar) {{ values("0.1"); }}'
UNITS = """library(macros) {
delay_model : table_lookup; time_unit : "1ns"; voltage_unit : "1V"; current_unit : "1mA"; pulling_resistance_unit : "1kohm";
capacitive_load_unit(1, pf);
input_threshold_pct_rise : 50; input_threshold_pct_fall : 50; output_threshold_pct_rise : 50; output_threshold_pct_fall : 50;
slew_lower_threshold_pct_rise : 20; slew_upper_threshold_pct_rise : 80;
slew_lower_threshold_pct_fall : 20; slew_upper_threshold_pct_fall : 80;
"""
SETUP = 'rise_constraint(scalar) {{ values("{0}"); }} fall_constraint(scalar) {{ values("{0}"); }}'


def times(macro):
    """(longest access time, largest set-up time) of a macro, ns: of the set-up the middle of each table."""
    arcs = [arc for pin in macro.content.of("bus", "pin") for arc in pin.of("timing")]
    access = [value for arc in arcs for edge in ("cell_rise", "cell_fall") for one in arc.of(edge) for value in one.numbers("values")]
    setups = [arc for arc in arcs if arc.values.get("timing_type") == "setup_rising"]
    middles = [sorted(one.numbers("values")) for arc in setups for one in arc.of("rise_constraint", "fall_constraint")]
    return max(access), max(values[len(values) // 2] for values in middles)


def library(stubs, macros):
    """A Liberty file of the memories: stubs, (name, ports' text) of timed.v; macros, {name: (access, setup)}."""
    widths, cells = set(), []
    for name, text in stubs:
        access, setup = macros[name]
        pins = []
        for side, high, port in re.findall(r"(\w+) \[(\d+):0\] (\w+);", text):
            width = int(high) + 1
            widths.add(width)
            if port == "clk":
                pins.append("pin(clk) { direction : input; clock : true; capacitance : 0.003; }")
                continue
            kind = f"timing_type : rising_edge; {SCALARS.format(access)}" if side == "output" else \
                f"timing_type : setup_rising; {SETUP.format(setup)}"
            pins.append(f'bus({port}) {{ bus_type : b{width}; direction : {side}; capacitance : 0.003;'
                        f' timing() {{ related_pin : "clk"; {kind} }} }}')
        cells.append(f"cell({name}) {{ {' '.join(pins)} }}")
    types = [f"type(b{n}) {{ base_type : array; data_type : bit; bit_width : {n}; bit_from : {n - 1}; bit_to : 0; downto : true; }}"
             for n in sorted(widths)]
    return UNITS + "\n".join(types + cells) + "\n}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--liberty", required=True, type=Path)
    parser.add_argument("--sram", required=True, type=Path)
    args = parser.parse_args()
    where = args.folder / "asic"
    of = asic.Library(args.liberty)
    choices = {macro.name: macro for macro in asic.macros(args.sram, of.corner)}
    memories = asic.memories(json.loads((where / "netlist.json").read_text()), list(choices.values()))
    text = (where / "timed.v").read_text()
    stubs = [(name, ports) for name, _, ports in STUB.findall(text)]
    found = {name: times(choices[memory.macro]) for (name, _), memory in zip(stubs, memories, strict=True)}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "timed.v").write_text(re.sub(r"(?m)^( *memory_(\d+)) \S+ +\(", r"\1 macro\2 (", STUB.sub("", text)))
        (place / "macros.lib").write_text(library(stubs, found))
        for (access, setup), memory in zip(found.values(), memories, strict=True):
            print(f"{memory.instance}: {memory.rows} x {memory.columns} {memory.macro}, access {access:.2f} ns, set-up {setup:.2f} ns")
        for title, group in GROUPS.items():
            (place / "run.tcl").write_text(PATHS.format(liberty=args.liberty.absolute(), group=group))
            done = subprocess.run(["sta", "-no_splash", "run.tcl"], cwd=place, capture_output=True, text=True, timeout=1800)
            slack = re.search(r"([-\d.]+)\s+slack", done.stdout)
            if not slack:
                raise SystemExit(done.stdout + done.stderr)
            path = 20 - float(slack[1])
            print(f"{title}: {path:.2f} ns, {1e3 / path:.0f} MHz, at {of.corner[0]:g} V, {of.corner[1]:g} C")


if __name__ == "__main__":
    main()
