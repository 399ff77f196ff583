"""A design: planned, written into a folder, found and opened again.

Each name loads what it needs when it is first used: a folder is opened without Amaranth, which writes Verilog.
"""

import importlib

_HOMES = {"EXAMPLE": "find", "OUT": "find", "holding": "find", "link_speeds": "find", "newest": "find", "Design": "folder",
          "INPUTS": "options", "LEARNERS": "options", "STARTS": "options", "WRAPPERS": "options", "Options": "options",
          "generate": "plans", "plan": "plans", "write": "plans", "review_exemplars": "review"}
__all__ = sorted(_HOMES)


def __getattr__(name):
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
