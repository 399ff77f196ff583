"""The file of what a board was taught: the names of its classes and a snapshot of its learner; docs/learner.md."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ..base import files
from ..base.errors import LONGEST_NAME, InputError, is_name, show
from ..reference.learning.learner import Learner
from ..reference.learning.snapshot import MAGIC, State

HEAD = b"fbnn-hw learned "
"""A file begins with this.  The names of the classes as a JSON list, the end of a line and the snapshot follow."""
MOST_NAMES = 1024
LONGEST_LINE = 1 << 21
"""Most bytes of the first line: more than escaped names can take."""
MAX_BYTES = 1 << 26
"""Most bytes of a file."""
EXPECTED = "what fbnn-hw learn --snapshot wrote"


def named(names: Sequence[str | None], count: int) -> list[str | None]:
    """Names of `count` classes: `names` first, then `class N`, with a ' added where that name exists."""
    return list(titled(names[:count], [f"class {number}" for number in range(count)]))


def titled(names: Sequence[str | None], classes: Sequence[str]) -> tuple[str | None, ...]:
    """`names`, then those of `classes` behind them; `class N`, and a ' as often as needed, in place of one that is there."""
    result = list(names)
    for number, name in enumerate(classes[len(names):], len(names)):
        name = name if name not in result else f"class {number}"
        while name in result:
            name += "'"
        result.append(name)
    return tuple(result)


@dataclass(frozen=True)
class Taught:
    """What a board was taught: the names of its classes, and the state of its learner.

    names: of the classes known, from class 0 on, None for a forgotten one.  There may be fewer names than classes; a bare snapshot has
    none.
    snapshot: the state, in the format of `reference.learning.snapshot`.
    """

    names: tuple[str | None, ...]
    snapshot: bytes

    def pack(self) -> bytes:
        """The content of the file, bytes.  Raises InputError for names that could not be read again."""
        _verify(self.names, "names of classes")
        return HEAD + json.dumps(self.names).encode() + b"\n" + self.snapshot

    @classmethod
    def unpack(cls, data: bytes, where: str | Path = "file") -> Self:
        """Read the content of a file, or a bare snapshot.  Raises InputError for anything else.

        The snapshot itself is checked by `state`, and when a learner restores it.  where: the file, in
        messages.
        """
        if data.startswith(MAGIC):
            return cls((), data)
        end = data.find(b"\n", 0, LONGEST_LINE)
        names = None
        if data.startswith(HEAD) and end > 0:
            with suppress(ValueError, RecursionError):  # text that is no JSON, or lists in lists without end
                names = json.loads(data[len(HEAD):end].decode())
        if type(names) is not list:
            raise InputError(f"{where}: damaged or another file, expected {EXPECTED}")
        _verify(names, where)
        return cls(tuple(names), data[end + 1:])

    @classmethod
    def read(cls, path: str | Path, otherwise: Callable[[bytes, str | Path], Self] | None = None) -> Self:
        """From a file; InputError where that is no file, too long, or not one of this format.

        otherwise: reads the content of a file that begins as another format does.
        """
        data = files.read(path, MAX_BYTES, EXPECTED)
        return otherwise(data, path) if otherwise and not data.startswith((MAGIC, HEAD)) else cls.unpack(data, path)

    def state(self, learner: Learner, where: str | Path = "file") -> State:
        """The snapshot for a learner of its design; InputError as `State.unpack`, and where there are more names than classes."""
        state = State.unpack(self.snapshot, learner, str(where))
        if len(self.names) > state.known:
            raise InputError(f"{where}: {len(self.names)} names of classes, expected at most {state.known}, the classes known")
        for label, name in enumerate(self.names):
            if (name is None) != (label in (state.forgotten or ())):
                raise InputError(f"{where}: name of class {label}: {show(name)}, expected a name, or null of a forgotten class")
        return state


def _verify(names: Sequence[object], where: str | Path) -> None:
    if len(names) > MOST_NAMES:
        raise InputError(f"{where}: {len(names)} names of classes, expected at most {MOST_NAMES}")
    for index, name in enumerate(names):
        if name is not None and not is_name(name):
            raise InputError(f"{where}: name of class {index}: {show(name)}, expected 1 to {LONGEST_NAME} printable characters")
    seen: dict[object, int] = {}
    for index, name in enumerate(names):
        if name is not None and name in seen:
            raise InputError(f"{where}: name of class {index}: {show(name)}, expected another than that of class {seen[name]}")
        seen[name] = index
