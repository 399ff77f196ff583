"""A lesson: a chip that knows nothing learns two things from ten pictures each, says "unknown" to a third, and forgets one again.

The board is interpreted, so no compiler and no hardware is needed; `fbnn_hw.Board.open("/dev/ttyUSB1", design)` is one on a desk.
"""

from pathlib import Path

import numpy as np

import fbnn_hw
from fbnn_hw.data import datasets, images

mugs = np.concatenate([images.read(path, 32, resize=True) for path in sorted((Path(__file__).parents[1] / "pictures/mug").glob("*.jpg"))])
fixture = datasets.load("fixture")
ships, frogs = (fixture.images[fixture.labels == fixture.classes.index(name)] for name in ("ship", "frog"))

design = fbnn_hw.generate(fbnn_hw.load("0.5mb.pt"), target="ice40", learn="nearest-mean", max_classes=16, unknown=True, forget=True)
with fbnn_hw.Board.interpreted(design) as board:
    for name, pictures in (("mug", mugs[:8]), ("ship", ships[:8])):
        lesson = board.learn(pictures, name)
        print(f"{name}: {lesson.images} pictures, {lesson.right_after} right afterwards")
    for what, pictures in (("two other mugs", mugs[8:10]), ("two other ships", ships[8:10]), ("two frogs", frogs[:2])):
        print(f"{what}:", ", ".join(name or "unknown" for name in board.classify(pictures).names))
    board.snapshot("taught.snapshot")
    board.forget("mug")
    print("after forgetting:", ", ".join(name for name in board.names if name))
