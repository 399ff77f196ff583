"""The smallest network on an LFE5U-25F with its weights from the flash, though they would fit: netlist simulated, placed and routed.

    python docs/benchmarks/streamed.py DIR [--native]

Writes the generated folder under DIR; the rest of the words goes to `fbnn-hw build --board icesugar-pro`.  Run in the repository.
"""

import sys
from dataclasses import replace
from pathlib import Path

from fbnn_hw.cli import main
from fbnn_hw.nn import checkpoint
from fbnn_hw.targets import TARGETS
from tests import strategies

if __name__ == "__main__":
    root = Path(sys.argv[1])
    root.mkdir(parents=True, exist_ok=True)
    checkpoint.save(root / "smallest.pt", strategies.smallest(24))
    TARGETS["ecp5-25f"] = replace(TARGETS["ecp5-25f"], weights=("stream",))
    shape = ("--pixels", "4", "--lanes", "16", "--outputs", "4")
    main(["generate", "--model", str(root / "smallest.pt"), "--target", "ecp5-25f", *shape, "--out", str(root / "rtl_out")])
    [folder] = (root / "rtl_out").iterdir()
    main(["simulate", str(folder), "--netlist", "--images", "4"])
    sys.exit(main(["build", str(folder), "--board", "icesugar-pro", *sys.argv[2:]]))
