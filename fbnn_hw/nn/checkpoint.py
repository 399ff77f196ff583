"""Writing a checkpoint (docs/checkpoint.md).  Reading needs no torch: `fbnn_hw.ir.checkpoint.read`."""

import torch

from .. import files
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
    with files.replacing(path) as file:  # given a name, torch would put it into the archive, and hide the system's error
        torch.save(values, file)
