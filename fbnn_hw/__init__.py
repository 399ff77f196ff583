"""Fully-binary neural networks, from PyTorch to Verilog that gives the same bits.

    network = fbnn_hw.load("0.5mb.pt")
    design = fbnn_hw.generate(network, target="ice40", learn=True, max_classes=16)
    design.simulate(images).equal
    with fbnn_hw.Board.virtual(design) as board:
        board.classify(images)
        board.learn(images, "cat")
        board.snapshot("state")

Importing the package loads neither torch nor amaranth nor numpy; each name does so when it is first used.
"""

import importlib

__version__ = "0.1.0"
__all__ = ["Board", "Design", "generate", "load"]

_HOMES = {"Board": "board", "Design": "design", "generate": "design", "load": "checkpoints"}


def __getattr__(name):
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__():
    return sorted({*globals(), *__all__})
