"""Fully-binary neural networks, from PyTorch to Verilog that gives the same bits.

    network = fbnn_hw.load("0.5mb.pt")
    design = fbnn_hw.generate(network, target="ice40", learn=True, max_classes=16)
    design.simulate(images).equal                   # images: uint8 RGB (N, 3, S, S)
    with fbnn_hw.Board.virtual(design) as board:
        board.classify(images)
        board.learn(images, "cat")
        board.snapshot("state")

For a network of your own, use the layers of `fbnn_hw.nn` in a torch module, train it, and call
`fbnn_hw.export(module, images, "mine.pt")`, which writes its checkpoint.

Images are arrays of uint8, (N, 3, S, S): N images, RGB, S pixels a side.  What is wrong with an
input raises an error of `fbnn_hw.errors` with a message of one line.

Importing the package loads neither torch nor amaranth nor numpy.  Each name loads what it needs
when it is first used.
"""

import importlib
import sys

from .base import errors

__version__ = "0.3.0"
__all__ = ["Board", "Design", "export", "generate", "load", "nn"]

_PARTS = ("foreign", "nn")
sys.modules[f"{__name__}.errors"] = errors  # its name for users of the package
_HOMES = {"Board": "board", "Design": "design", "export": "nn.trace", "generate": "design", "load": "ir.shipped"}


def __getattr__(name):
    if name in _PARTS:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__():
    return sorted({*globals(), *__all__})
