"""The learner of a board beside its twin, and the files in a design's folder that keep what it was taught.

A board may lose its power, answer wrongly or be unplugged at any moment, and this program may be killed.  So a change of a board is
first announced in a file: from which state, by which steps.  Afterwards the board is in one of the states on that way, which the
reference can reach, or it is known to be in none of them.  Only a state in which board and twin agree is kept.
"""

import base64
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..base import files
from ..base.errors import FbnnError, InputError
from ..link.chip import ChipState, Impossible, marks_of
from ..link.client import REHEARSE, Client
from ..reference.learning.learner import Learner
from .taught import Taught, named, titled

KEEP_S = 1.5
"""Seconds that an interrupted program still takes to read what a board knows."""
READS = 2
"""Times that a board is read before it is said to know something else: an answer may be wrong."""


class Astray(InputError):
    """A board is in a state that neither the kept file nor what was begun since leads to."""


@dataclass(frozen=True)
class Change:
    """What is about to be done to a board."""

    start: Taught  # what it knows before
    names: tuple[str, ...]  # of its classes afterwards
    steps: tuple[tuple, ...]  # ("learn", label, latent as packed bits), ("rehearse", count), ("freeze", 0 or 1) or ("state", snapshot)
    origin: Taught | None  # what `Kept.before` has once the change is kept, or None where that file stays as it is
    replaces: str  # SHA-256 of the kept file that the change is to replace, "" where there is none

    def way(self, learner: Learner) -> Iterator[tuple[str, ...]]:
        """The names at each state on the way, which `learner` then has."""
        learner.restore(self.start.snapshot)
        yield self.start.names
        for kind, *operands in self.steps:
            if kind == "learn":
                latent = np.unpackbits(np.frombuffer(operands[1], np.uint8), count=learner.head.latent)
                learner.learn(latent[None], [operands[0]])
            elif kind == "state":
                learner.restore(operands[0])
            else:
                {"rehearse": learner.rehearse, "freeze": learner.freeze}[kind](operands[0])
            yield self.names[:learner.known]

    def pack(self) -> bytes:
        """The content of a file, JSON."""
        def plain(value):
            return base64.b64encode(value).decode() if isinstance(value, bytes) else value
        return json.dumps({
            "start": plain(self.start.pack()), "names": self.names, "steps": [[plain(value) for value in step] for step in self.steps],
            "origin": self.origin and plain(self.origin.pack()), "replaces": self.replaces}).encode()

    @classmethod
    def read(cls, path: Path) -> "Change":
        """From a file; InputError where it is no such file."""
        values = files.json_object(path)
        try:
            if not values or {step[0] for step in values["steps"]} - {"learn", "rehearse", "freeze", "state"}:
                raise ValueError
            start, origin = (Taught.unpack(base64.b64decode(text), path) if text else None for text in (values["start"], values["origin"]))
            steps = tuple((kind, *(base64.b64decode(value) if isinstance(value, str) else int(value) for value in operands))
                          for kind, *operands in values["steps"])
            return cls(start, tuple(values["names"]), steps, origin, values["replaces"])
        except (KeyError, IndexError, TypeError, ValueError):
            raise InputError(f"{path}: damaged or another file, expected what fbnn-hw learn wrote before a lesson; move it away") from None


class Kept:
    """The files in a design's folder that keep what its board was taught.

    file: what the board knows, as `Taught`.  before: what it knew before the last lesson.  lesson: the `Change` that was begun and is not
    in `file` yet; there is none while nothing is done to the board.
    """

    def __init__(self, folder: Path, simulated: bool) -> None:
        stem = f"learned-{'virtual' if simulated else 'board'}"
        self.file, self.before, self.lesson = (folder / f"{stem}{end}" for end in (".snapshot", "-before.snapshot", ".lesson"))

    def taught(self) -> Taught | None:
        """The content of `file`, or None."""
        return Taught.read(self.file) if self.file.exists() else None

    def begun(self) -> Change | None:
        """The content of `lesson`, or None."""
        return Change.read(self.lesson) if self.lesson.exists() else None

    def mark(self) -> str:
        """SHA-256 of `file`, or ""."""
        return files.sha256_of(self.file) if self.file.exists() else ""

    def begin(self, change: Change) -> None:
        """Write down a change before it is made."""
        files.write(self.lesson, change.pack(), durable=True)

    def keep(self, taught: Taught, origin: Taught | None) -> None:
        """Write `file`, then, where there is an `origin`, `before`; each whole or not at all."""
        for path, content in ((self.file, taught), (self.before, origin)):
            if content and not (path.exists() and path.read_bytes() == content.pack()):
                files.write(path, content.pack(), durable=True)

    def settle(self) -> None:
        """Where a program ended between the two files of `keep`, write the second one."""
        change = self.begun()
        if change and change.origin and self.mark() != change.replaces:
            files.write(self.before, change.origin.pack(), durable=True)

    def end(self) -> None:
        """Forget the change that was begun."""
        self.settle()
        self.lesson.unlink(missing_ok=True)

    def aside(self, taught: Taught | None = None) -> Path | None:
        """Copy `file`, or write `taught`, to a free name beside it; returns that file, or one that has the same content already.

        None without either.
        """
        if not taught and not self.file.exists():
            return None
        content = taught.pack() if taught else self.file.read_bytes()
        for path in sorted(self.file.parent.glob(f"{self.file.stem}-[0-9]*{self.file.suffix}")):
            if path.read_bytes() == content:
                return path
        files.write(path := spare(self.file), content, durable=True)
        return path


class Pupil:
    """The learner of a board and its twin, the reference in the same state.  Each method that changes them changes both alike.

    `find` has to come first; `begin` before a change.

    twin: None before `find`.  names: of the classes known, None for a forgotten one.
    resumed: whether the board was found on the way of a change that another program had begun.
    aside: the file that has what `Kept.file` held, where the board does not know it, or None.
    """

    def __init__(self, client: Client, design, simulated: bool) -> None:
        self.client, self.design, self.simulated = client, design, simulated
        self.kept = Kept(design.folder, simulated)
        self.chip = ChipState(design.config.learning, design.learner(), client.peek, client.poke)
        self.twin: Learner | None = None
        self.resumed, self.aside = False, None
        self._names: tuple[str | None, ...] = ()
        self._found = ""
        self._change: Change | None = None  # begun by this program and not kept yet
        self._began = self._learned = False

    @property
    def names(self) -> list[str | None]:
        self.find()
        return [None if label in self.twin.forgotten else name for label, name in enumerate(named(self._names, self.twin.known))]

    def taught(self) -> Taught:
        """What the twin knows."""
        return Taught(tuple(self.names), self.twin.snapshot())

    # The board is recognised.

    def find(self) -> None:
        """Bring the twin into the board's state: that of the file, one on the way of a change that was begun, or the shipped one.

        A board in another state was taught elsewhere, and is taken as it is.  Where a change was begun, it may be the ruin of that:
        raises `Astray`.  A simulated board begins with the file.
        """
        if self.twin:
            return
        taught, change = self.kept.taught(), self.kept.begun()
        learner = self.design.learner()
        if self.simulated:
            if taught:
                learner.restore(taught.snapshot, str(self.kept.file))
            self._found, self._names, self.twin = "file", self._titled(taught), learner
            return
        found = self._search(learner, taught, change) or self._read_twice(learner, taught, change)
        if not found and change:
            raise self._astray("knows neither what is kept of it nor what was begun since")
        (self._found, self._names), self.twin = found or ("other", self._titled(None)), learner

    def _titled(self, taught):
        """Names of a file's content, and those of the design behind them."""
        return titled(taught.names if taught else (), self.design.classes)

    def _states(self, learner, taught, change):
        """The states that the board may be in, ("file", "begun" or "shipped", names), which `learner` then has."""
        if taught:
            taught.state(learner, self.kept.file)
            learner.restore(taught.snapshot)
            yield "file", self._titled(taught)
        for names in change.way(learner) if change else ():
            yield "begun", names
        learner.reset()
        yield "shipped", self._titled(None)

    def _search(self, learner, taught, change):
        """The one of `_states` that the board is in; None where it is in none.  The whole state is read where its marks are right."""
        for _ in range(READS):
            with suppress(Impossible):
                marks = self.chip.marks()
                for state in self._states(learner, taught, change):
                    if marks == marks_of(learner) and (self.simulated or self.chip.snapshot() == learner.snapshot()):
                        return state
        return None

    def _read_twice(self, learner, taught, change):
        """As `_search`, but the whole state is read.  In a state of none `learner` has that.

        Raises InputError where two readings differ, `Astray` for no state of this design.
        """
        try:
            first, second = self.chip.snapshot(), self.chip.snapshot()
        except Impossible as error:
            raise self._astray(str(error)) from None
        if first != second:
            raise InputError(f"{self.client.name}: gives another answer each time that it is asked what it knows; nothing was done")
        for state in self._states(learner, taught, change):
            if learner.snapshot() == first:
                return state
        learner.restore(first)
        return None

    # A change.

    def begin(self, target: bytes | None = None) -> None:
        """Make ready for a change: keep one that another program had begun, and put a file aside that the board does not know.

        target: the content that the kept file will get.  With it, a board that is astray may be changed, too.
        """
        if self._began:
            return
        try:
            self.find()
        except Astray:
            if target is None:
                raise
            self._found, self.twin = "astray", self.design.learner()
            if taught := self.kept.taught():
                self.twin.restore(taught.snapshot, str(self.kept.file))
            self._names = self._titled(self.kept.taught())
        if self._found == "begun":
            change, kept = self.kept.begun(), self.kept.taught()
            led_here = {one.snapshot for one in (change.start, change.origin) if one}
            if kept and kept != self.taught() and (self.kept.mark() != change.replaces  # it has more than the board
                                                   or kept.snapshot not in led_here):  # the change was to bring it back
                self.aside = self.kept.aside()
            self.kept.keep(self.taught(), change.origin)
            self.resumed = True
        elif self._found != "file" and self.kept.file.exists():
            content = self.kept.file.read_bytes()
            if content != target and (self._found == "astray" or self.kept.taught().snapshot != self.twin.snapshot()):
                self.aside = self.kept.aside()
        if self._found == "astray":  # the board stays so until it has got a state
            self.kept.settle()
            change, kept = self.kept.begun(), self.kept.taught()
            if change and change.start.snapshot not in {self.design.learner().snapshot(), kept and kept.snapshot}:  # taught elsewhere
                self.aside = self.kept.aside(change.start)
        else:
            self.kept.end()
        self._began = True

    def announce(self, *steps: tuple, names: list[str] | None = None, origin: Taught | None = None) -> None:
        """Write down what is about to be done to the board.  names, steps, origin: as in `Change`; names: by default those of now."""
        self.begin()
        start = self.taught()
        self._change = Change(start, tuple(names or start.names), steps, origin, self.kept.mark())
        if not self.simulated:  # which ends with this program
            self.kept.begin(self._change)
        self._names = self._change.names

    def commit(self) -> None:
        """Keep the twin's state, which is the board's.  Raises `Astray` where it is not, and keeps nothing then."""
        if not self._agrees():
            raise self._lost()
        self.kept.keep(self.taught(), self._change.origin if self._change else None)
        self._learned |= bool(self._change) and any(kind in ("learn", "rehearse") for kind, *_ in self._change.steps)
        self.kept.end()
        self._change = None

    def _agrees(self):
        for _ in range(READS):
            with suppress(Impossible):
                if self.chip.marks() == marks_of(self.twin) and (self.simulated or self.chip.snapshot() == self.twin.snapshot()):
                    return True
        return False

    def _lost(self):
        return self._astray("does not know what it was just taught; it lost its power, or answered wrongly")

    def _astray(self, what):
        """The error with the way out."""
        file = self.kept.file
        return Astray(f"{self.client.name}: {what}; " + (f"learn --restore {file} gives it what it was last known to know, "
                                                         if file.exists() else "learn ") + "--reset the classes of the design")

    def interrupted(self) -> Path | None:
        """Keep what a change that has ended early did to the board; returns the file, or None where nothing was learned, earlier either.

        A board at a port is asked within `KEEP_S` seconds.  Where it does not answer, what it has confirmed is kept, and what was begun
        stays written down.  A simulated board ends.  Raises `Astray` as `commit`.
        """
        change, asked = self._change, False
        if change is None:
            return self.kept.file if self._learned else None
        if not self.simulated:
            with suppress(FbnnError), self.client.within(KEEP_S):
                learner = self.design.learner()
                found = self._search(learner, self.taught(), change)
                asked = True
        if asked:
            if not found or found[0] == "shipped":
                raise self._lost()
            self.twin = learner
        news = self.twin.snapshot() != (change.origin or change.start).snapshot
        if news:
            self.kept.keep(self.taught(), change.origin)
        if asked:
            self.kept.end()
            self._change = None
        return self.kept.file if news or self._learned else None

    def learn(self, index: int, latent: np.ndarray) -> None:
        """Learn the image that was classified last, whose latent are these bits, as class `index`."""
        self.client.learn(index)
        self.twin.learn(latent[None], [index])

    def store(self, latents: np.ndarray, labels) -> None:
        """Put exemplars into the empty buffer, latents as uint8 bits (N, latent)."""
        target = self.design.learner()
        target.restore(self.twin.snapshot())
        target.store(latents, labels)
        self.announce(("state", target.snapshot()))
        self.chip.store(latents, labels)
        self.twin = target
        self.commit()

    def rehearse(self, count: int) -> None:
        """Replay stored exemplars `count` times."""
        parts = [min(REHEARSE, count - begun) for begun in range(0, count, REHEARSE)]
        self.announce(*(("rehearse", part) for part in parts))
        for part in parts:
            self.client.rehearse(part)
            self.twin.rehearse(part)
        self.commit()

    def freeze(self, frozen: bool) -> None:
        """Make the board refuse to learn, or let it learn again."""
        self.announce(("freeze", int(frozen)))
        self.client.freeze(frozen)
        self.twin.freeze(frozen)
        self.commit()

    def take_up(self, taught: Taught, where: str | Path, origin: Taught | None = None) -> None:
        """Give the board another state.  InputError, before anything changes, for one that no learner of this design can be in."""
        state = taught.state(self.chip.learner, where)
        self._replace(taught, lambda: self.chip.write(state), origin)

    def reset(self) -> None:
        """Put the board into its shipped state."""
        shipped = self.design.learner()
        names = self.design.classes if shipped.config.forget else self.names
        self._replace(Taught(tuple(names[:shipped.known]), shipped.snapshot()), self.client.reset)

    def _replace(self, taught, act, origin=None):
        self.announce(("state", taught.snapshot), names=self._titled(taught), origin=origin)
        act()
        self.twin.restore(taught.snapshot)
        self.commit()


def spare(path: str | Path) -> Path:
    """The first free name beside a file: learned-board-1.snapshot."""
    path, number = Path(path), 1
    while (free := path.with_name(f"{path.stem}-{number}{path.suffix}")).exists():
        number += 1
    return free
