"""Writing a checkpoint (docs/checkpoint.md).  Reading needs no torch: `fbnn_hw.ir.checkpoint.read`."""

import contextlib
import os
from pathlib import Path

import torch

from ..errors import InputError
from ..ir import checkpoint


def save(path, network):
    """Write `network` to `path`, whole or not at all; equal networks give equal bytes with the same torch.

    Raises InputError where the network is not legal or the file cannot be written.
    """
    values = checkpoint.to_plain(network)
    for key in ("weights", "thresholds"):
        if key in values:
            values[key] = {name: torch.from_numpy(array) for name, array in values[key].items()}
    store(path, values)


def store(path, values):
    """torch.save of `values` to `path`, whole or not at all; raises InputError where the file cannot be written."""
    path = Path(path)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(partial, "wb") as file:  # given a name, torch would put it into the archive, and hide the system's error
            torch.save(values, file)
        partial.replace(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}), expected a file name in a folder that can") from None
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()
