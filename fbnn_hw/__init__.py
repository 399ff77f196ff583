"""Fully-binary neural networks, from PyTorch to Verilog that gives the same bits.

    network = fbnn_hw.load("0.5mb.pt")
    design = fbnn_hw.generate(network, target="ice40", learn=True, max_classes=16)
    design.simulate(images).equal
    with fbnn_hw.Board.virtual(design) as board:
        board.classify(images)
        board.learn(images, "cat")
        board.snapshot("state")

A network of one's own: layers of `fbnn_hw.nn` in a torch module, which `fbnn_hw.export(module, images, "mine.pt")` makes a checkpoint of.

Importing the package loads neither torch nor amaranth nor numpy; each name does so when it is first used.
"""

import importlib

__version__ = "0.2.0"
__all__ = ["Board", "Design", "export", "generate", "load", "nn"]

_HOMES = {"Board": "board", "Design": "design", "export": "nn.trace", "generate": "design", "load": "checkpoints"}


def __getattr__(name):
    if name == "nn":
        return importlib.import_module(f"{__name__}.nn")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__():
    return sorted({*globals(), *__all__})
