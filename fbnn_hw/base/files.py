"""Files that are written whole or not at all, whenever the program is stopped, and folders that one program at a time uses."""

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO

from .errors import InputError

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]


def bundled(name: str) -> Path:
    """A folder that comes with the package: fbnn_hw/NAME where it is installed, NAME at the top of a checkout."""
    package = Path(__file__).parents[1]
    return next((path for folder in (package, package.parent) if (path := folder / name).is_dir()), Path(name))


def cache_folder() -> Path:
    """The user's folder for what can be made or downloaded again."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "fbnn-hw"


def kind_if_not_file(path: Path) -> str | None:
    """Return "directory", "pipe" or "device" where `path` is one; None for a file, or where nothing has that name."""
    try:
        mode = path.stat().st_mode
    except OSError:  # what is wrong with it, opening it will tell
        return None
    return None if stat.S_ISREG(mode) else "directory" if stat.S_ISDIR(mode) else "pipe" if stat.S_ISFIFO(mode) else "device"


def sha256_of(path: str | Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def make_folder(path: str | Path) -> Path:
    """The folder `path`, made where it is not there yet, with those on the way to it; InputError where it cannot be."""
    path = Path(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: no folder can be made there ({error.strerror}), expected one that can be written") from None
    return path


@contextmanager
def replacing(path: str | Path, durable: bool = False) -> Iterator[BinaryIO]:
    """Yield a binary file to write to, which becomes `path` at the end of the block.

    durable: the file is on the disk then, so that a machine that stops keeps it.  Folders on the way to it are made.  Where the block
    fails, an older file of that name stays.  A link stays, and its target is written.  Raises InputError where the file cannot be written.
    """
    path = Path(path)
    if kind := kind_if_not_file(path):
        raise InputError(f"{path}: is a {kind}, expected a file name")
    target = Path(os.path.realpath(path))
    partial = target.with_name(f".{target.name[:50]}.{os.getpid()}.partial")  # a name has 255 bytes, a character up to 4
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with new(partial) as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        partial.replace(target)
        if durable:  # its name too; Windows opens no folders
            with suppress(OSError):
                number = os.open(target.parent, os.O_RDONLY)
                try:
                    os.fsync(number)
                finally:
                    os.close(number)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error}), expected a file name in a folder that can") from None
    finally:
        with suppress(OSError):
            partial.unlink()


def new(path: Path) -> BinaryIO:
    """A binary file to write to where nothing is: what was left there goes, and no link that lies there by then is followed."""
    with suppress(FileNotFoundError):
        path.unlink()
    return open(path, "xb")


@contextmanager
def locked(path: str | Path, message: str) -> Iterator[None]:
    """Hold the file `path` during the block, so that no other program does; it is made with its folder.

    A process that is started during the block with `close_fds=False` holds the file too, until it ends,
    even if this program ends before.  Raises InputError(message) where another program holds the file,
    InputError where it cannot be made.  Windows has no such locks.
    """
    if fcntl is None:
        yield
        return
    with _taken(Path(path), message) as file:
        os.set_inheritable(file.fileno(), True)
        yield


def _taken(path: Path, message: str) -> IO[str]:
    """The open lock file `path`, which no other program holds.  Raises as `locked`."""
    if kind := kind_if_not_file(path):
        raise InputError(f"{path}: is a {kind}, expected a file, or none; remove it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "w")
    except OSError as error:
        raise InputError(f"{path}: cannot be made ({error.strerror}), expected a folder that can be written in its place") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise InputError(message) from None
    return file


@contextmanager
def sole(path: str | Path, message: str) -> Iterator[None]:
    """As `locked`, but the lock file is deleted after the block."""
    if fcntl is None:
        yield
        return
    path = Path(path)
    while True:
        with _taken(path, message) as file:
            try:
                current = os.path.samestat(os.fstat(file.fileno()), path.stat())
            except FileNotFoundError:
                current = False
            if not current:
                continue  # its last holder has just deleted it
            try:
                yield
            finally:
                with suppress(OSError):
                    path.unlink()
            return


def held(path: str | Path) -> bool:
    """Whether another program holds the lock `path` of `sole`."""
    if fcntl is None:
        return Path(path).exists()
    try:
        with open(path) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return Path(path).exists()
    return False


class Stamp:
    """A file beside others that says, by a key, what they were made of.  It is written last, so what is half made has none."""

    def __init__(self, path: Path, key: str) -> None:
        self.path, self.key = path, key

    def valid(self, *products: Path) -> bool:
        """Whether all of `products` are there and were made of what the key names."""
        return self.path.is_file() and self.path.read_text() == self.key and all(product.is_file() for product in products)

    def clear(self, *products: Path) -> None:
        """Delete the stamp, then the files that it stood for."""
        for path in (self.path, *products):
            path.unlink(missing_ok=True)

    def write(self) -> None:
        self.path.write_text(self.key)


def write(path: str | Path, data: bytes, durable: bool = False) -> None:
    """Write bytes as the file `path`, whole or not at all; durable and errors as in `replacing`."""
    with replacing(path, durable) as file:
        file.write(data)


def beginning(path: str | Path, most: int, expected: str) -> tuple[bytes, int]:
    """(first `most` bytes of a regular file, all that it has).

    expected: what the file should be, for the line of the InputError where it is missing, or a device or pipe.
    """
    path = Path(path)
    try:
        # A pipe without a writer would block, and a device never ends: neither is opened.
        if kind := kind_if_not_file(path):
            raise InputError(f"{path}: is a {kind}, expected {expected}")
        with open(path, "rb") as file:
            return file.read(most), os.fstat(file.fileno()).st_size
    except OSError as error:
        reason = "not found" if isinstance(error, FileNotFoundError) else error.strerror
        raise InputError(f"{path}: {reason}, expected {expected}") from None


def read(path: str | Path, most: int, expected: str) -> bytes:
    """The bytes of a regular file of at most `most` bytes; InputError as `beginning`, and where it is longer."""
    data, _ = beginning(path, most + 1, expected)
    if len(data) > most:
        raise InputError(f"{path}: longer than {most:,} bytes, expected {expected}")
    return data


def json_object(path: str | Path, most: int = 2 ** 26) -> dict | None:
    """The JSON object in a file of at most `most` bytes; None where there is no file, or none with an object in it."""
    try:
        return json_values(read(path, most, "a JSON object"))
    except InputError:
        return None


def json_values(text: str | bytes) -> dict | None:
    """The JSON object that a text is; None where it is none, or where one of its texts cannot stand in a file or in the name of one."""
    try:
        values = json.loads(text)
        if b"\\u0000" in json.dumps(values, ensure_ascii=False).encode():  # which refuses half a surrogate pair, too
            return None
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None
