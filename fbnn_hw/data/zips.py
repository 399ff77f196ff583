"""Zip archives of published data sets, which may be damaged or not what they say."""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..base.errors import FbnnError, InputError

MOST_BYTES = 2 ** 24
"""Most bytes of a member that `member` reads, far above those of a picture."""


@contextmanager
def opened(path: str | Path, expected: str) -> Iterator[zipfile.ZipFile]:
    """Yield the archive; InputError in one line, which ends with `expected`, for whatever is wrong with it or with its members."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except FbnnError:
        raise
    except Exception as error:  # zipfile raises a dozen classes on damaged archives, and names no common one
        raise InputError(f"{path}: cannot be read ({reason(error)}), expected {expected}") from None


def member(archive: zipfile.ZipFile, name: str) -> bytes:
    """The bytes of a member; BadZipFile where it unpacks to more than MOST_BYTES."""
    with archive.open(name) as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise zipfile.BadZipFile(f"a member unpacks to more than {MOST_BYTES:,} bytes")
    return data


def reason(error: Exception) -> str:
    """A short line about an exception that a library raised."""
    text = str(error).split("\n")[0][:80]
    return text if text and text.isprintable() else type(error).__name__
