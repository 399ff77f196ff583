"""The checkpoints that ship with the package: the *.pt files of this folder."""

import sys
from pathlib import Path

from ..errors import InputError, nearest

FOLDER = Path(__file__).parent


def shipped():
    """File names of the shipped checkpoints, sorted."""
    return sorted(path.name for path in FOLDER.glob("*.pt"))


def resolve(name, flag="--model"):
    """`name`, the value of `flag`, as a path if such a file exists, else the shipped checkpoint of that name, with or without .pt,
    saying so on stderr.  Raises InputError listing the shipped ones."""
    path = Path(name)
    if path.exists():
        return path
    for candidate in (str(name), f"{name}.pt"):
        if candidate in shipped():
            print(f"fbnn-hw: no file {name} here, using the shipped checkpoint {candidate}", file=sys.stderr)
            return FOLDER / candidate
    raise InputError(f"{flag} {name}: no such file, and no shipped checkpoint of that name; shipped are {', '.join(shipped()) or 'none'}"
                     f"{nearest(name, shipped())}")


def load(name, flag="--model"):
    """Read a checkpoint.  Nothing in the file is run.

    Parameters
    ----------
    name : str or Path
        A file, or the name of a shipped checkpoint, with or without `.pt`.
    flag : str
        What an error calls `name`.

    Returns
    -------
    ir.network.Network

    Raises
    ------
    InputError
        There is no such file, or the file is no checkpoint.
    """
    from ..ir.checkpoint import read

    return read(resolve(name, flag))
