"""The checkpoints that ship with the package, checkpoints/*.pt, and a float network that teaches, airbench.state."""

import os
import sys
from pathlib import Path

from ..base.errors import InputError, nearest, show
from .checkpoint import read

FOLDER = Path(__file__).parents[1] / "checkpoints"


def names(suffix=".pt"):
    """File names of the shipped checkpoints, or with ".state" of the shipped teachers, sorted."""
    return sorted(path.name for path in FOLDER.glob(f"*{suffix}"))


def resolve(name, flag="--model", suffix=".pt"):
    """Return the path that `name` stands for: a file, else the shipped file of that name, with or without its suffix.

    A line on stderr says that a shipped file is taken.  flag: the flag whose value `name` is.  Raises
    InputError with the list of the shipped files.
    """
    kind = "checkpoint" if suffix == ".pt" else "teacher"
    if not isinstance(name, str | Path):
        raise InputError(f"{flag} {show(name)}: expected the name of a {kind}, as text or as a Path")
    path = Path(name)
    if os.path.exists(path):  # False, too, for a name that no system allows
        return path
    for candidate in (str(name), f"{name}{suffix}"):
        if candidate in names(suffix):
            print(f"fbnn-hw: taking the shipped {kind} {candidate}", file=sys.stderr)
            return FOLDER / candidate
    raise InputError(f"{flag} {name}: no such file, and no shipped {kind} of that name; shipped are {', '.join(names(suffix)) or 'none'}"
                     f"{nearest(str(name), names(suffix))}")


def load(name, flag="--model"):
    """The `network.Network` of a checkpoint, of which nothing is run.

    name: a file, or the name of a shipped checkpoint, with or without `.pt`.  flag: what an error calls it.  Raises InputError where
    there is no such file, or the file is no checkpoint.
    """
    return read(resolve(name, flag))
