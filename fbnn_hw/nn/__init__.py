"""Networks in torch: layers for a module of your own (`layers`), and the trainable twin of a network (`network`).

torch is loaded when a layer is first used.
"""

import importlib

from ..base import extras

__all__ = ["BinaryConv2d", "BinaryLinear", "Binarize", "Bits8", "LearnedPool2d", "Sign", "Thermometer"]


def __getattr__(name):
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    extras.load("torch", extras.TRAIN, "layers of fbnn_hw.nn")
    return getattr(importlib.import_module(f"{__name__}.layers"), name)


def __dir__():
    return sorted({*globals(), *__all__})
