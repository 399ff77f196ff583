"""The smallest network on an LFE5U-25F with its weights from the flash, though they would fit: netlist simulated, placed and routed.

    python docs/benchmarks/streamed.py DIR [--native]

Writes the generated folder under DIR; the rest of the words goes to `fbnn-hw build --board icesugar-pro`.  Run in the repository.
"""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import fbnn_hw
from fbnn_hw.data.datasets import test_images
from fbnn_hw.targets import TARGETS
from tests import strategies

if __name__ == "__main__":
    target = replace(TARGETS["ecp5-25f"], weights=("stream",))
    design = fbnn_hw.generate(strategies.smallest(24), target, pixels=4, lanes=16, outputs=4, out=Path(sys.argv[1]) / "rtl_out")
    result = design.simulate(test_images(design.config.size, 4), netlist=True)
    print(f"{design.folder}: netlist of {result.images} images, logits {'equal' if result.equal else 'differ'}, {result.cells}")
    sys.exit(subprocess.run([sys.executable, "-m", "fbnn_hw", "build", design.folder, "--board", "icesugar-pro", *sys.argv[2:]]).returncode)
