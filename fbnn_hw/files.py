"""Files that are there whole or not at all, whenever the program is stopped, and folders that are used by one program at a time."""

import os
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import InputError


def no_file(path):
    """What `path` is where that is no file, "directory" or "device"; None for a file, or for nothing."""
    if not path.exists() or path.is_file():
        return None
    return "directory" if path.is_dir() else "device"


@contextmanager
def replacing(path):
    """A binary file to write to, which becomes `path` at the end of the block, in a folder that is made; where that fails, what was there
    stays.  Raises InputError where it cannot be written."""
    path = Path(path)
    if what := no_file(path):
        raise InputError(f"{path}: is a {what}, expected a file name")
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(partial, "wb") as file:
            yield file
        partial.replace(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}), expected a file name in a folder that can") from None
    finally:
        with suppress(OSError):
            partial.unlink()


@contextmanager
def locked(path, message):
    """The file `path`, made with its folder, is held by this program alone during the block; raises InputError(message) where another
    has it."""
    import fcntl  # not on Windows, where nothing is simulated

    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(message) from None
        yield


def write(path, data):
    """The bytes `data` as the file `path`, likewise."""
    with replacing(path) as file:
        file.write(data)


def read(path, most, expected):
    """The bytes of a regular file of at most `most` bytes.

    expected: what the file should be, for the line of the InputError where it is missing, too long, or a device or pipe.
    """
    path = Path(path)
    try:
        # A pipe without a writer would block, and a device never ends: neither is opened.
        if kind := no_file(path):
            raise InputError(f"{path}: is a {kind}, expected {expected}")
        with open(path, "rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        reason = "not found" if isinstance(error, FileNotFoundError) else error.strerror
        raise InputError(f"{path}: {reason}, expected {expected}") from None
    if len(data) > most:
        raise InputError(f"{path}: longer than {most:,} bytes, expected {expected}")
    return data
