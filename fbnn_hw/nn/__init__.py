"""Networks in torch: the layers that a user writes into a module of one's own (`layers`), and the trainable twin of a topology.

torch is loaded when a layer is first used.
"""

import importlib

__all__ = ["BinaryConv2d", "BinaryLinear", "Binarize", "Bits8", "LearnedPool2d", "Sign", "Thermometer"]


def __getattr__(name):
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.layers"), name)


def __dir__():
    return sorted({*globals(), *__all__})
