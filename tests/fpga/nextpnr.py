"""Tools that are scripts, and what nextpnr writes, small."""

import json

NEXTPNR = """
while [ $# -gt 0 ]; do
  case "$1" in
    --asc) echo placed > "$2";;
    --write) printf '%8s"core.link.x": {\\n%12s"NEXTPNR_BEL": "X3/Y5/lc1",\\n' '' '' > "$2";;
    --pack-only) exit;;
    --report) report="$2";;
    --seed) seed="$2";;
  esac
  shift
done
echo "Info: Routing 100 arcs."
"""
"""What the real one is asked for, and the start of its words; `behaviour` ends it, with $report and $seed set."""


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


def reached(mhz):
    """Lines of a shell with which nextpnr reports a clock."""
    return f"cat > $report <<'E'\n{json.dumps(report(mhz))}\nE\n"
