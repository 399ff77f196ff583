"""Tools that are scripts, and what nextpnr writes, small."""

import json

NEXTPNR = """
while [ $# -gt 0 ]; do
  case "$1" in
    --asc) echo placed > "$2";;
    --write) placed="$2";;
    --sdf) delays="$2";;
    --pack-only) exit;;
    --report) report="$2";;
    --seed) seed="$2";;
  esac
  shift
done
echo "Info: Routing 100 arcs."
"""
"""What the real one is asked for, and the start of its words; `behaviour` ends it, with $placed, $delays, $report and $seed set."""
NAMES = "first", "core.link.x", "last"
"""Cells of `design`: a register, a LUT, a register."""


def design(init="1111111111111110", taken=(0, 3), routing=""):
    """What nextpnr writes of a register, a LUT and a register in a row, a dict.

    init: the function of the LUT.  taken: the inputs that the router took for I0 of the LUT and of the last register.  routing: of more.
    """
    def lc(place, init, register, **pins):
        return {"type": "ICESTORM_LC", "parameters": {"LUT_INIT": init, "DFF_ENABLE": str(register), "NEG_CLK": "0"},
                "attributes": {"NEXTPNR_BEL": place}, "port_directions": {pin: "output" if pin == "O" else "input" for pin in pins},
                "connections": {pin: [bit] for pin, bit in pins.items()}}

    def permuted(place, cell, pin):
        return f"{place}/lutff_{cell}:in_0_lut;{place}/3.5.lutff_{cell}:in_{pin}.->.3.5.lutff_{cell}:in_0_lut;1"

    cells = {NAMES[0]: lc("X3/Y5/lc0", "0" * 16, 1, O=2, CLK=1), NAMES[1]: lc("X3/Y5/lc1", init, 0, I0=2, I1=2, O=3),
             NAMES[2]: lc("X3/Y5/lc2", "0" * 16, 1, I0=3, CLK=1, O=4)}
    routes = {"clk": routing, "a": permuted("X3/Y5", 1, taken[0]), "b": permuted("X3/Y5", 2, taken[1]), "c": ""}
    nets = {name: {"bits": [bit], "attributes": {"ROUTING": text}} for bit, (name, text) in enumerate(routes.items(), start=1)}
    return {"modules": {"top": {"cells": cells, "netnames": nets}}}


def delays(ps, last=0):
    """The text of `--sdf` of `design`: ps into the LUT, `last` into the last register."""
    wires = (NAMES[0], f"{NAMES[1]}/I0", ps), (NAMES[0], f"{NAMES[1]}/I1", 0), (NAMES[1], f"{NAMES[2]}/I0", last)
    return "".join(f"(INTERCONNECT {start}/O {end} ({ps}:{ps}:{ps}) ({ps}:{ps}:{ps}))\n" for start, end, ps in wires)


def cell(name):
    return {"cell": name, "port": "O", "loc": [1, 1]}


def report(mhz=40.0, other=90.0):
    steps = (("clk-to-q", 1.4, "a", "a"), ("routing", 2, "a", "b"), ("logic", 1.2, "b", "b"), ("routing", 3, "b", "c"),
             ("setup", 0.1, "c", "c"))
    path = [{"type": kind, "delay": delay, "from": cell(first), "to": cell(last)} for kind, delay, first, last in steps]
    return {"fmax": {"clk": {"achieved": mhz, "constraint": 36}, "slow": {"achieved": other, "constraint": 12}},
            "utilization": {"ICESTORM_LC": {"used": 4000, "available": 5280}, "ICESTORM_DSP": {"used": 0, "available": 8}},
            "critical_paths": [
                {"from": "posedge clk", "to": "posedge clk", "path": path}, {"from": "<async>", "to": "posedge clk", "path": path * 9},
                {"from": "posedge slow", "to": "posedge slow", "path": path[:2]}],
            "detailed_net_timings": [
                {"net": "n", "driver": "a", "endpoints": [
                    {"cell": "core.link.index_SB_DFFE_Q", "port": "CEN", "delay": [3.0, 7.5], "event": "posedge clk"},
                    {"cell": "core.accelerator.drain0.place_SB_DFF_Q", "port": "I0", "delay": [1.0, 2.0], "event": "posedge clk"}]},
                {"net": "m", "driver": "b", "endpoints": [
                    {"cell": "core.link.code_SB_DFF_Q", "port": "I3", "delay": [9.1239], "event": "posedge clk"}]}]}


def install(folder, nextpnr):
    """Write native tools for the UP5K into `folder`: they write what the real ones would.  nextpnr: how it ends, lines of a shell."""
    folder.mkdir(exist_ok=True)
    programs = {
        "yosys": 'echo \'{"design": {"num_cells_by_type": {"SB_LUT4": 7}}}\' > cells.json',
        "nextpnr-ice40": NEXTPNR + nextpnr, "icepack": 'cat "$1" > "$2"; echo bits > "$2"'}
    for name, text in programs.items():
        (folder / name).write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then echo {name} 1.2; exit; fi\n{text}\n')
        (folder / name).chmod(0o755)


def reached(mhz, nextpnr=None):
    """Lines of a shell with which nextpnr reports a clock, and another one than the pins have that its router took."""
    ps = 1e6 / mhz - 1391 - 1285 - 728
    files = {"report": json.dumps(report(nextpnr or mhz)), "placed": json.dumps(design(), indent=2), "delays": delays(round(ps))}
    return "".join(f"cat > ${name} <<'E'\n{text}\nE\n" for name, text in files.items())
