"""LUT4 and memories of a generated accelerator after yosys' synth_ice40, before place and route, as JSON.

    python docs/benchmarks/synthesis.py rtl_out/3mb-10c-ice40-*

Reads accelerator.v as it lies in the folder.  3mb takes about two minutes.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

from area import _silence


def measure(verilog):
    """Cells of the module `accelerator` in a Verilog file, by type."""
    from pyosys import libyosys as ys
    with tempfile.TemporaryDirectory() as folder:
        cells, log, script = (Path(folder, name) for name in ("cells.json", "log", "script.ys"))
        script.write_text(f"read_verilog {verilog}\nsynth_ice40 -device u -top accelerator\ntee -q -o {cells} stat -json\n")
        with _silence():
            ys.run_pass(f"tee -q -o {log} script {script}", ys.Design())
        text = cells.read_text()
    return json.loads(text[text.index("{"):])["modules"]["\\accelerator"]["num_cells_by_type"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="+", type=Path)
    for folder in parser.parse_args().folder:
        start = time.monotonic()
        cells = measure(folder / "accelerator.v")
        estimate = json.loads((folder / "estimate.json").read_text())
        print(json.dumps({
            "folder": folder.name, "lut4": cells.get("SB_LUT4", 0), "lut4_estimated": estimate["lut4"],
            "spram": cells.get("SB_SPRAM256KA", 0), "ebr": cells.get("SB_RAM40_4K", 0), "carry": cells.get("SB_CARRY", 0),
            "ff": sum(n for cell, n in cells.items() if "DFF" in cell), "seconds": round(time.monotonic() - start, 1)}), flush=True)


if __name__ == "__main__":
    main()
