"""Writes checkpoints (docs/checkpoint.md), and writes and reads training states.

`fbnn_hw.ir.checkpoint.read` reads checkpoints, without torch.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..base import files
from ..base.errors import InputError
from ..ir import checkpoint
from ..ir.network import Network


def save(path: str | Path, network: Network) -> None:
    """Write `network` to `path`, whole or not at all; equal networks give equal bytes with the same torch.

    Raises InputError where the network is not legal or the file cannot be written.
    """
    values = checkpoint.to_plain(network)
    for key in ("weights", "thresholds"):
        if key in values:
            values[key] = {name: torch.from_numpy(array) for name, array in values[key].items()}
    data = _packed(values)
    checkpoint.parse(bytes(data), path)  # a value of a foreign type is found here, before an older file is replaced
    files.write(path, data)


def store(path: str | Path, values: dict[str, Any]) -> None:
    """torch.save of `values` to `path`, whole or not at all; raises InputError where the file cannot be written."""
    files.write(path, _packed(values))


def _packed(values):
    buffer = io.BytesIO()  # torch would put a file's name into the archive, and hide the system's error when a write fails
    torch.save(values, buffer)
    return buffer.getbuffer()


def state(path: str | Path, kind: str, version: int) -> dict[str, Any]:
    """Read the state of a run that `store` wrote, a dict.  No code in the file runs.

    Raises InputError where the file is missing or damaged, or where its "format" is not `kind` or its version another.
    """
    try:
        state = torch.load(path, weights_only=True, map_location="cpu")
    except FileNotFoundError:
        raise InputError(f"{path}: not found, expected the state of an earlier run; start without --resume") from None
    except Exception as error:  # a file can be wrong in any way
        raise InputError(f"{path}: not a training state ({type(error).__name__}); start without --resume") from None
    if not isinstance(state, dict) or state.get("format") != kind or state.get("version") != version:
        raise InputError(f"{path}: found another kind of file or version, expected {kind} {version}")
    return state


ARRAY = "numpy array"
"""Key of a dict that stands for an array: a state holds tensors alone, since reading an array would run code."""


def arrays_as_tensors(value: Any) -> Any:
    """A copy of plain values in which each numpy array is a dict of one tensor, at the key ARRAY, and each number of numpy one of Python.

    Raises TypeError, with the type's name, for what `state` would not read.
    """
    if isinstance(value, np.ndarray):
        return {ARRAY: torch.from_numpy(np.array(value))}
    if isinstance(value, np.generic):
        return arrays_as_tensors(value.item())
    if isinstance(value, dict):
        return {arrays_as_tensors(key): arrays_as_tensors(inner) for key, inner in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(arrays_as_tensors, value))
    plain = type(value) in (bool, int, float, complex, str, bytes, torch.Size, torch.dtype, torch.device)
    if value is not None and not plain and not isinstance(value, torch.Tensor):
        raise TypeError(f"a {type(value).__name__}")
    return value


def tensors_as_arrays(value: Any) -> Any:
    """Inverse of `arrays_as_tensors`."""
    if isinstance(value, dict):
        return value[ARRAY].numpy() if value.keys() == {ARRAY} else {key: tensors_as_arrays(inner) for key, inner in value.items()}
    return type(value)(map(tensors_as_arrays, value)) if type(value) in (list, tuple) else value


@contextmanager
def taking_up(path: str | Path) -> Iterator[None]:
    """A context manager around the use of what `state` read from `path`.  Errors of damaged values become an InputError."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError, ArithmeticError, AssertionError) as error:
        raise InputError(f"{path}: damaged training state ({type(error).__name__} in it); start without --resume") from None
