"""Errors that a user can cause.  Each is one line: the thing, what was found, what was expected, the way out.

The command line prints the message alone and ends with `exit_code`; a traceback is shown only with -v.
"""

import difflib
import numbers
import re
import reprlib
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = 60
_repr.maxlist = _repr.maxtuple = _repr.maxdict = 4
_repr.maxlong, _repr.maxlevel = 30, 2


def show(value: object) -> str:
    """`repr` of a value from a file, on one line and short, for use in a message."""
    return " ".join(_repr.repr(value).split())


def plural(amount: int, noun: str) -> str:
    """The noun for so many: "exemplar" of one, else "exemplars"."""
    return noun + "s" * (amount != 1)


def nearest(name, names):
    """"; did you mean X?" for the one of `names` that is closest to `name`, or "" where none is close."""
    by_letters = {_letters(candidate): candidate for candidate in names}
    close = difflib.get_close_matches(_letters(name), by_letters, 1)
    return f"; did you mean {by_letters[close[0]]}?" if close else ""


def whole(value, low=0, high=2 ** 48):
    """Whether a value is a whole number from `low`, below `high`, of Python or numpy, and neither True nor False."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and low <= value < high


LONGEST_NAME = 100
"""Most characters of the name of a class."""


_UNSHOWN = re.compile(
    "[\0-\x1f\x7f-\xa0\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ud800-\uf8ff"
    "\ufdd0-\ufdef\ufeff\ufff9-\ufffb\ufffe\uffff\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e007f\U000f0000-\U0010ffff]")
"""Controls, formats, separators but the space, surrogates and characters of private use, those of Unicode 15, whatever version Python has;
studio/web/state.mjs has the same."""


def is_name(value):
    """Whether a value can be the name of a class: 1 to `LONGEST_NAME` characters that can be shown, not all of them blank."""
    return isinstance(value, str) and bool(value.strip(" ")) and not _UNSHOWN.search(value) and len(value) <= LONGEST_NAME


def spelled(name: str) -> str:
    """A name as it enters and is compared: in Unicode's composed form, NFC, of the forms that look the same."""
    return unicodedata.normalize("NFC", name)


def _letters(name):
    """A name as it is compared: without case, and without the dashes of a flag, which would make all short flags alike."""
    return str(name).lower().lstrip("-")


class FbnnError(Exception):
    """Base of every error that is the input's fault and not the program's.  result: what --json prints beside the message."""

    exit_code = 1

    def __init__(self, message: str, result: Any = None):
        super().__init__(" ".join(message.splitlines()))  # a name in it may have line ends
        self.result = result


class UsageError(FbnnError):
    """A flag, or a combination of flags, that has no meaning."""

    exit_code = 2


class InputError(FbnnError):
    """A file, image, checkpoint or data set that is missing or damaged."""

    exit_code = 3


def require(holds: Any, where: object, found: str, expected: str) -> None:
    """Raises InputError, which names the place and what is there, unless a condition holds."""
    if not holds:
        raise InputError(f"{where}: {found}, expected {expected}")


@contextmanager
def at(where: object) -> Iterator[None]:
    """What is refused in the block, with its place before it."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


class FitError(FbnnError):
    """A legal network that the chosen target cannot hold.  The message is `what: why`, then `; the way out`, if there is one."""

    exit_code = 4

    @property
    def why(self) -> str:
        """The reason alone."""
        return str(self).split(": ", 1)[-1].split("; ")[0]


class ToolError(FbnnError):
    """A tool that is missing, too old, or that failed."""

    exit_code = 5


class MismatchError(FbnnError):
    """Two implementations that must agree do not."""

    exit_code = 6
