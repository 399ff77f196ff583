"""Packages that an installation may lack, since an extra of fbnn-hw brings them."""

import importlib
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .errors import ToolError

TRAIN = "train"
"""The extra that brings torch."""


def load(module: str, extra: str, purpose: str) -> Any:
    """The module; ToolError, with the line that installs the extra, where its package is missing.  purpose: what needs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise absent(error.name or module, extra, purpose) from None


def absent(module: str, extra: str, purpose: str) -> ToolError:
    """The error of `load`."""
    return ToolError(f"{module.split('.')[0]}: not installed, expected for {purpose}; {installing(extra)}")


def installing(extra: str) -> str:
    """The command that installs an extra."""
    return f"{Path(sys.executable).name} -m pip install 'fbnn-hw[{extra}]'"


def has_torch() -> bool:
    """Whether torch is installed; it is not loaded."""
    return find_spec("torch") is not None
