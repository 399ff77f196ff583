"""Clocks of the bus that a wake-up takes: the weights, the learner's state, and the state's way out before power goes.

    python -m tests.emit.wake_up            tiny, and 0.5mb that learns, of --weights ram, after 12 images
    python -m tests.emit.wake_up DIR        a design of --learn --wrapper wishbone, before a lesson

By the driver in C on Wishbone, with a master that takes no time of its own.  Prints JSON.  It takes minutes, since Verilator compiles each.
"""

import json
import sys
import tempfile

import numpy as np

from fbnn_hw import Design, design
from fbnn_hw.data import datasets
from fbnn_hw.ir import shipped
from tests.emit.bus import Bus

ARRAY = {"target": "generic", "pixels": 4, "lanes": 16, "outputs": 8, "weights": "ram", "wrapper": "wishbone"}


def formula(header, exemplars):
    """Bytes of a driver's snapshot by docs/processor.md, from the numbers of registers.h and the exemplars that are kept."""
    row = header["BANKS"] * header["WORD_BITS"] // 8
    return 37 + 4 * (header["CLASSES"] >> 16) + header["TABLE_ROWS"] * row + exemplars * (2 + header["SLOT_ROWS"] * row)


def constants(made):
    """{name: value} of the constants of registers.h that begin with FBNN_HW_THIS_."""
    lines = (line.split() for line in (made.folder / "registers.h").read_text().splitlines() if line.startswith("#define FBNN_HW_THIS_"))
    return {name.removeprefix("FBNN_HW_THIS_"): int(value.rstrip("u"), 0) for _, name, value, *_ in lines}


def spent(bus, *words):
    """(numbers, clocks) of a call of the driver that succeeds; the bytes of a snapshot are no number."""
    [answer] = bus.many([" ".join(map(str, words))])
    failed, *numbers = answer.split()[:2]
    assert failed == "0", words
    return [int(number) for number in numbers], bus.ask("spent")[0]


def wake_up(made, images):
    """{call: {bytes, clocks}} of a design; of one that learns after a lesson in images (N, 3, S, S) of two classes.

    With replay the images are as many as there are slots, or fewer.
    """
    found = {}
    with Bus(made) as bus:
        assert bus.ask("identify")[0] == 0
        if made.config.loads:
            weights = made.read("weights.bin")
            found["load"] = {"bytes": len(weights), "clocks": spent(bus, "load", 0, weights.hex())[1]}
        if made.config.learning:
            for number, data in enumerate(made.pixels(images) if len(images) else ()):
                spent(bus, "classify", 0, data.hex())
                spent(bus, "learn", number % 2)
            [size], clocks = spent(bus, "snapshot")
            exemplars = len(images) if made.config.learning.rule == "gumbel" else 0
            found["snapshot"] = {"bytes": size, "clocks": clocks, "by_formula": formula(constants(made), exemplars)}
            text = bus.many(["snapshot"])[0].split()[2]
            spent(bus, "restart")
            if made.config.loads:
                spent(bus, "load", 0, weights.hex())
            found["restore"] = {"bytes": len(text) // 2, "clocks": spent(bus, "restore", text)[1]}
    return found


def main():
    images = np.ascontiguousarray(datasets.load("fixture").first(12).images)
    for folder in sys.argv[1:]:
        print(json.dumps({folder: wake_up(Design(folder), images[:0])}), flush=True)
    with tempfile.TemporaryDirectory() as out:
        for name, options in (("tiny", {}), ("0.5mb", {"learn": True})) if not sys.argv[1:] else ():
            made = design.generate(shipped.load(name), out=out, **ARRAY, **options)
            print(json.dumps({name: wake_up(made, images)}), flush=True)


if __name__ == "__main__":
    main()
