"""LUT4 and memories of a generated accelerator after synthesis for its part, before place and route, as JSON.

    python docs/benchmarks/synthesis.py rtl_out/3mb-10c-ice40-*

Reads accelerator.v as it lies in the folder.  3mb on ice40 takes about two minutes.  On ECP5 a carry cell takes two LUTs.
"""

import argparse
import contextlib
import json
import tempfile
import time
from pathlib import Path

from area import _silence

from fbnn_hw.build.toolchain import FLOWS


def measure(folder, target):
    """Cells of the module `accelerator` in a generated folder, by type."""
    from pyosys import libyosys as ys
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(folder):  # where weights.hex is
        cells, log, script = (Path(place, name) for name in ("cells.json", "log", "script.ys"))
        script.write_text(f"read_verilog accelerator.v\n{FLOWS[target].synthesis} -top accelerator\ntee -q -o {cells} stat -json\n")
        with _silence():
            ys.run_pass(f"tee -q -o {log} script {script}", ys.Design())
        text = cells.read_text()
    return json.loads(text[text.index("{"):])["modules"]["\\accelerator"]["num_cells_by_type"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="+", type=Path)
    for folder in parser.parse_args().folder:
        start = time.monotonic()
        estimate = json.loads((folder / "estimate.json").read_text())
        cells = measure(folder, estimate["target"])
        print(json.dumps({
            "folder": folder.name, "lut4": cells.get("SB_LUT4", 0) + cells.get("LUT4", 0) + 2 * cells.get("CCU2C", 0),
            "lut4_estimated": estimate["lut4"], "cells": {cell: n for cell, n in cells.items() if not cell.startswith("$")},
            "seconds": round(time.monotonic() - start, 1)}), flush=True)


if __name__ == "__main__":
    main()
