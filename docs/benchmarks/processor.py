"""Clocks of an image on picorv32: by the accelerator of `--wrapper wishbone` and the driver, and by network.c of `--target c`.

    python docs/benchmarks/processor.py tiny.pt 0.5mb.pt

Needs gcc-riscv64-unknown-elf and pythondata-cpu-picorv32.  The target is ice40, the clock one for both.  All are simulated in Verilator.
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from fbnn_hw import design
from fbnn_hw.data.datasets import test_images
from fbnn_hw.design import c99
from fbnn_hw.design.registers import DRIVER
from fbnn_hw.ir import shipped
from fbnn_hw.reference import inference
from tests.emit import test_soc as soc

COUNT = 3


def accelerated(network, images, work):
    """(clocks of the engine, of the call) for an image that is not the first."""
    made = design.generate(network, "ice40", out=work, wrapper="wishbone")
    soc.program(work, [DRIVER / "soc" / "main.c", made.folder / "fbnn.c"], made.pixels(images), [-1] * len(images),
                made.config.result_classes, level="-O2", includes=[made.folder], defines=["-DFBNN_HW_MAPPED"])
    words, _ = soc.run(work, made, "-O1")
    each = len(words) // len(images)
    rows = [words[1 + i * each:1 + (i + 1) * each] for i in range(len(images))]
    assert [row[4:] for row in rows] == inference.logits(network, images).tolist()
    return made.estimate["cycles"], rows[-1][2]


def software(network, images, work):
    """Clocks of an image."""
    for name, text in c99.files(network).items():
        (work / name).write_text(text)
    soc.program(work, [DRIVER / "soc" / "software.c", work / "network.c"], [image.transpose(1, 2, 0).tobytes() for image in images],
                level="-O2")
    words, _ = soc.run(work, level="-O1")
    each = len(words) // len(images)
    assert [words[i * each + 1:(i + 1) * each] for i in range(len(images))] == inference.logits(network, images).tolist()
    return words[-each]


def main():
    print("| network | engine | engine and driver | share of the engine's own | network.c | times as many |\n|---|---|---|---|---|---|")
    for name in sys.argv[1:]:
        network = shipped.load(name)
        images = test_images(network.topology.image_size, COUNT)
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            engine, call = accelerated(network, images, Path(one))
            alone = software(network, images[:1], Path(other))
        print(f"| `{network.topology.name}` | {engine:,} | {call:,} | {engine / call:.2f} | {alone:,} | {alone / call:.0f} |", flush=True)


if __name__ == "__main__":
    main()
