"""LUTs and block RAMs of a generated accelerator after synthesis for its part, before place and route, beside the estimate, as JSON.

    python docs/benchmarks/synthesis.py rtl_out/3mb-10c-ice40-*
    python docs/benchmarks/synthesis.py rtl_out/0.5mb-10c-ecp5-25f-* --top accelerator_wb     # with the wrapper around it
    python docs/benchmarks/synthesis.py rtl_out/0.5mb-10c-generic-* --target ecp5-25f         # the Verilog of generic, for a part

Reads accelerator.v as it lies in the folder.  3mb on ice40 takes about two minutes.  A carry cell takes two LUTs on ECP5, one on Gowin; a
RAMB36 is two blocks.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from area import LUTS, _silence

from fbnn_hw.machine.config import AcceleratorConfig
from fbnn_hw.targets import TARGETS, blocks
from fbnn_hw.targets.synthesis import COMMANDS, reading


def measure(folder, target, config, top="accelerator"):
    """Cells of the module `top` in a generated folder, and of all in it, by type."""
    from pyosys import libyosys as ys
    names = ("accelerator.v", "weights.hex") if config.weights == "memory" else ("accelerator.v",)
    files = {name: (folder / name).read_text() for name in names}
    files |= blocks.of_design(config, target, files["accelerator.v"], files.get("weights.hex"))
    if top != "accelerator":
        files[f"{top}.v"] = (folder / f"{top}.v").read_text()
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        cells, log, script = (Path(place, name) for name in ("cells.json", "log", "script.ys"))
        for name, text in files.items():
            Path(name).write_text(text)
        script.write_text(f"{reading(files)}{COMMANDS[target]} -top {top}\ntee -q -o {cells} stat -json\n")
        with _silence():
            ys.run_pass(f"tee -q -o {log} script {script}", ys.Design())
        text = cells.read_text()
    return json.loads(text[text.index("{"):])["design"]["num_cells_by_type"]


BLOCKS = {"SB_RAM40_4K": 1, "DP16KD": 1, "PDPW16KD": 1, "RAMB18E1": 1, "RAMB36E1": 2}
GOWIN_BLOCKS = ("SP", "SPX9", "DPB", "DPX9B", "SDPB", "SDPX9B", "pROM", "pROMX9")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="+", type=Path)
    parser.add_argument("--top", default="accelerator", metavar="NAME", help="top module, a wrapper of the folder (default: accelerator)")
    parser.add_argument("--target", choices=sorted(COMMANDS), help="the part, of a folder of generic (default: the folder's target)")
    args = parser.parse_args()
    folders = args.folder
    if len(folders) > 1:  # a process for each: see area.py
        for folder in folders:
            subprocess.run([sys.executable, __file__, folder, "--top", args.top, *(["--target", args.target] if args.target else [])],
                           check=True)
        return
    [folder] = folders
    start = time.monotonic()
    estimate = json.loads((folder / "estimate.json").read_text())
    config = AcceleratorConfig.from_json((folder / "config.json").read_text())
    target = args.target or estimate["target"]
    cells = measure(folder, target, config, args.top)
    blocks = BLOCKS | dict.fromkeys(GOWIN_BLOCKS, 1)
    print(json.dumps({
        "folder": folder.name, "luts": sum(LUTS.get(cell, 0) * n for cell, n in cells.items()), "luts_estimated": estimate["lut4"],
        "blocks": sum(blocks.get(cell, 0) * n for cell, n in cells.items()),
        "blocks_estimated": sum(TARGETS[target].blocks_of(config).values()),
        "cells": {cell: n for cell, n in cells.items() if not cell.startswith("$")},
        "seconds": round(time.monotonic() - start, 1)}), flush=True)


if __name__ == "__main__":
    main()
