"""The state of a learner on a chip, read and written word by word, and the snapshot of it in the reference's format."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..base import bits
from ..base.errors import InputError, show
from ..protocol import Space
from ..reference.learning.learner import Learner
from ..reference.learning.lfsr import REGISTERS
from ..reference.learning.snapshot import State

GAP_ROWS = 8
"""Two accesses become one when at most this many unneeded rows lie between them: a further request costs more."""
CHIP = "the board's learner"

Rows = dict[int, dict[int, int]]
"""{row: {bank: word}}."""
Marks = tuple[int, int, bool, tuple[int, ...], list[int], list[int]]
"""What `ChipState.marks` reads."""


class Impossible(InputError):
    """What was read is no state that a learner of this design can be in."""


class Plan(Protocol):
    """The fields of a `LearnPlan` that this module reads.  The host does not import that class."""

    @property
    def pixels(self) -> int: ...
    @property
    def lanes(self) -> int: ...
    @property
    def words(self) -> int: ...
    @property
    def max_classes(self) -> int: ...
    @property
    def slots(self) -> int: ...
    @property
    def counter_bits(self) -> int: ...
    @property
    def learn_base(self) -> int: ...
    @property
    def slots_base(self) -> int: ...
    @property
    def fan_in_words(self) -> int: ...
    @property
    def stored_bits(self) -> int: ...
    @property
    def per_row(self) -> int: ...
    @property
    def chunks(self) -> int: ...
    @property
    def class_rows(self) -> int: ...
    @property
    def slot_rows(self) -> int: ...
    @property
    def planes(self) -> int: ...
    @property
    def strong(self) -> int: ...
    def mirror_row(self, label: int, i: int, plane: int = 0) -> tuple[int, int]: ...
    def counter_row(self, label: Any, i: Any, h: Any) -> Any: ...
    def slot_row(self, slot: int, word: int) -> tuple[int, int]: ...


def marks_of(learner: Learner) -> Marks:
    """The `ChipState.marks` of a chip in a learner's state.  Every lesson and every reset change them; two states may have the same."""
    return (learner.known, learner.buffer.used, learner.frozen, learner.registers, list(learner.presented), list(learner.prototypes_left))


def _words(lists: np.ndarray, lanes: int) -> np.ndarray:
    """Lists of bits (..., n) -> integers (..., n / lanes), bit l of a word is lane l."""
    lists = np.asarray(lists, np.uint8)
    packed = np.packbits(lists.reshape(*lists.shape[:-1], -1, lanes), axis=-1, bitorder="little")
    flat = packed.reshape(-1, packed.shape[-1])
    return np.array([int.from_bytes(row.tobytes(), "little") for row in flat], object).reshape(packed.shape[:-1])


def _bits(words: Iterable[int], lanes: int) -> np.ndarray:
    """Inverse of `_words`, for one list."""
    text = b"".join(int(word).to_bytes(lanes // 8, "little") for word in words)
    return np.unpackbits(np.frombuffer(text, np.uint8), bitorder="little")


class ChipState:
    """Reads and writes the memory of a learner on a chip.  The learner must rest meanwhile.

    Parameters
    ----------
    plan : compile.learn_plan.LearnPlan
        Where everything lies in memory.
    learner : reference.learning.Learner
        The reference with the same classifier, configuration and shipped weights.
    peek : callable
        peek(space, address, count) returns a list of integers, as `client.Client.peek`.
    poke : callable
        poke(space, address, words), as `client.Client.poke`.
    """

    def __init__(self, plan: Plan, learner: Learner, peek: Callable[[int, int, int], list[int]],
                 poke: Callable[[int, int, Sequence[int]], None]):
        self.plan, self.learner, self.peek, self.poke = plan, learner, peek, poke

    def rows(self, label: int, counters: np.ndarray) -> Rows:
        """{row: {bank: word}} of a class: its counters, int (fan-in,), and the mirror of its weights."""
        p = self.plan
        rows: Rows = {}
        fields = np.asarray(counters, np.int64) & (1 << p.counter_bits) - 1
        planes = (fields[:, None] >> np.arange(p.stored_bits) & 1).reshape(p.fan_in_words * p.chunks, p.pixels * p.lanes)
        packed = _words(planes, p.lanes).reshape(p.fan_in_words, p.chunks, p.pixels)
        for i in range(p.fan_in_words):
            for h in range(p.chunks):
                rows[p.counter_row(label, i, h)] = dict(enumerate(packed[i, h].tolist()))
        return rows | self._mirror(label, counters)

    def _mirror(self, label: int, counters: np.ndarray) -> Rows:
        """{row: {bank: word}} of the mirror of a class."""
        p, counters = self.plan, np.asarray(counters)
        planes = [counters >= 0]
        if p.planes > 1:
            high, not_low = counters >= p.strong, counters >= -p.strong
            planes += [high, not_low, not_low & ~high]
        rows: Rows = {}
        for plane, words in enumerate(_words(np.stack(planes), p.lanes)):
            for i, word in enumerate(words):
                row, bank = p.mirror_row(label, i, plane)
                rows.setdefault(row, {})[bank] = word
        return rows

    def _counters(self, stored: np.ndarray) -> np.ndarray:
        """Convert bits in memory, uint8 (..., stored_bits), lowest first, to counters, int64 (...).

        The lowest counter_bits of them are the counter, in two's complement.
        """
        width = self.plan.counter_bits
        values = (stored[..., :width].astype(np.int64) << np.arange(width)).sum(-1)
        return values - (values >> width - 1 << width)

    def read_counters(self, label: int) -> np.ndarray:
        """Read the counters of a class, int64 (fan_in,)."""
        p = self.plan
        parts = []
        for i in range(p.fan_in_words):
            for h in range(p.chunks):
                words = self.peek(Space.BANKS, p.counter_row(label, i, h) * p.pixels, p.pixels)
                parts.append(self._counters(_bits(words, p.lanes).reshape(-1, p.stored_bits)))
        return np.concatenate(parts)

    def read_mirror(self, label: int) -> np.ndarray:
        """Read the mirror of a class: weight bits (planes, fan_in).  The forward pass reads the same words."""
        p = self.plan
        places = [p.mirror_row(label, i, plane) for plane in range(p.planes) for i in range(p.fan_in_words)]
        words = [_bits(self.peek(Space.BANKS, row * p.pixels + bank, 1), p.lanes) for row, bank in places]
        return np.concatenate(words).reshape(p.planes, -1)

    def read_slot(self, slot: int) -> np.ndarray:
        """Read the bits of an exemplar: latent, then hidden."""
        p = self.plan
        words: list[int] = []
        for first in range(0, p.words, p.pixels):
            words += self.peek(Space.BANKS, p.slot_row(slot, first)[0] * p.pixels, min(p.pixels, p.words - first))
        return _bits(words, p.lanes)

    def _counter_rows(self, classes: int) -> np.ndarray:
        """Rows of the counters of the first classes, int (fan-in words, chunks, classes)."""
        p = self.plan
        word, chunk, label = np.ogrid[:p.fan_in_words, :p.chunks, :classes]
        return p.counter_row(label, word, chunk)

    def _slot_rows(self, used: int) -> np.ndarray:
        """Rows of the first `used` exemplars, int (rows of an exemplar, used)."""
        p = self.plan
        number, slot = np.ogrid[:p.slot_rows, :used]
        return p.slots_base + number * p.slots + slot

    def _runs(self, rows: Sequence[int] | np.ndarray) -> list[tuple[int, int]]:
        """Return runs of rows of one table, [(first, last)], that cover all of `rows`."""
        rows = np.unique(rows)
        ends = np.flatnonzero(np.diff(rows) > GAP_ROWS)
        return list(zip(rows[[0, *ends + 1]].tolist(), rows[[*ends, -1]].tolist())) if len(rows) else []

    def _read_rows(self, rows: np.ndarray) -> np.ndarray:
        """Read rows as bytes, uint8 (*rows.shape, Q, lanes / 8)."""
        p, size = self.plan, self.plan.lanes // 8
        content = np.zeros((rows.max(initial=-1) + 1, p.pixels, size), np.uint8)
        for first, last in self._runs(rows):
            words = self.peek(Space.BANKS, first * p.pixels, (last + 1 - first) * p.pixels)
            text = b"".join(word.to_bytes(size, "little") for word in words)
            content[first:last + 1] = np.frombuffer(text, np.uint8).reshape(-1, p.pixels, size)
        return content[rows]

    def read(self) -> State:
        """Read the learner's `State`; raises `Impossible` for one that no learner of this design can be in."""
        p, learner = self.plan, self.learner
        classes, used, frozen, registers, presented, left = self.marks()
        words = self._read_rows(self._slot_rows(used)).swapaxes(0, 1).reshape(used, p.slot_rows * p.pixels * p.lanes // 8)
        latents = np.unpackbits(words, axis=1, count=learner.head.latent, bitorder="little") if used else np.zeros(
            (0, learner.head.latent), np.uint8)
        words = self._read_rows(self._counter_rows(classes))
        stored = np.unpackbits(words.reshape(-1), bitorder="little").reshape(p.fan_in_words, p.chunks, classes, p.per_row, p.stored_bits)
        output = np.moveaxis(self._counters(stored), 2, 0).reshape(classes, learner.head.fan_in).astype(np.int8)
        labels = self.peek(Space.LABELS, 0, used) if used else []
        state = State(learner.design, classes, frozen, registers, presented, left, labels, latents,
                      output, None)
        try:
            state.verify(learner, CHIP)
        except InputError as error:
            raise Impossible(str(error)) from None
        return state

    def marks(self) -> Marks:
        """(classes known, exemplars, frozen, registers, presented and left of each class).

        These are few words, and every lesson changes some of them.
        """
        drawn = [self.peek(Space.NOISE + n, 0, taps.width) for n, taps in enumerate(REGISTERS.values())]
        classes, used, frozen = self.peek(Space.SCALARS, 0, 3)
        presented = self.peek(Space.PRESENTED, 0, self.plan.max_classes)
        for name, values, most in (("bit of a register", [bit for register in drawn for bit in register], 1),
                                   ("classes known", [classes], self.plan.max_classes), ("exemplars", [used], self.plan.slots),
                                   ("frozen", [frozen], 1), ("presentations of a class", presented, 0xFFFF)):
            if max(values) > most:
                raise Impossible(f"{CHIP}: {name}: {show(max(values))}, expected at most {most}")
        registers = tuple(sum(bit << i for i, bit in enumerate(register)) for register in drawn)
        return classes, used, bool(frozen), registers, [n & 255 for n in presented], [n >> 8 for n in presented]

    def untaught(self) -> bool:
        """Whether the learner is in its shipped state, by its `marks`."""
        self.learner.reset()
        return self.marks() == marks_of(self.learner)

    def write(self, state: State) -> None:
        """Take up a `State` of this design; InputError, before anything is written, for one that no learner of it can be in.

        The buffer is empty while the rest is written, so that a learner whose write is interrupted still comes to rest after a replay.
        """
        p = self.plan
        state.verify(self.learner)
        self.poke(Space.SCALARS, 1, [0])
        self.poke(Space.COUNTS, 0, [0] * p.max_classes)
        tables: Rows = {}
        for label in range(state.known):
            for row, words in self.rows(label, state.output[label]).items():
                tables.setdefault(row, {}).update(words)
        self._write_rows(tables)
        for n, (taps, value) in enumerate(zip(REGISTERS.values(), state.registers)):
            self.poke(Space.NOISE + n, 0, [value >> i & 1 for i in range(taps.width)])
        self.poke(Space.PRESENTED, 0, [n | left << 8 for n, left in zip(state.presented, state.left)])
        self.store(state.latents, state.labels)
        self.poke(Space.SCALARS, 0, [state.known, len(state.labels), int(state.frozen)])

    def show(self, state: State) -> None:
        """Write the part of a `State` that classification reads.  The learner must not learn afterwards.  InputError as in `write`."""
        state.verify(self.learner)
        mirror: Rows = {}
        for label in range(state.known):
            for row, words in self._mirror(label, state.output[label]).items():
                mirror.setdefault(row, {}).update(words)
        self._write_rows(mirror)
        self.poke(Space.SCALARS, 0, [state.known])

    def store(self, latents: np.ndarray, labels: Iterable[int]) -> None:
        """Fill an empty buffer, as `Learner.store` does: uint8 bits (N, latent), labels (N,) of classes known."""
        p, labels = self.plan, [int(label) for label in labels]
        samples = _words(self.learner.sample_bits(latents), p.lanes) if labels else ()
        slots: Rows = {}
        for slot, exemplar in enumerate(samples):
            for number, word in enumerate(exemplar.tolist()):
                row, bank = p.slot_row(slot, number)
                slots.setdefault(row, {})[bank] = word
        self._write_rows(slots)
        if labels:
            self.poke(Space.LABELS, 0, labels)
        self.poke(Space.COUNTS, 0, [labels.count(label) for label in range(p.max_classes)])
        self.poke(Space.SCALARS, 1, [len(labels)])

    def _write_rows(self, rows: Mapping[int, Mapping[int, int]]) -> None:
        """Write rows of one table, {row: {bank: word}}.  Words that it does not name, and rows between two of its rows, become 0."""
        for first, last in self._runs(list(rows)):
            named = (rows.get(row, {}) for row in range(first, last + 1))
            words = [banks.get(bank, 0) for banks in named for bank in range(self.plan.pixels)]
            self.poke(Space.BANKS, first * self.plan.pixels, words)

    def snapshot(self) -> bytes:
        """The learner's state in the reference's format."""
        return self.read().pack()

    def restore(self, text: bytes, where: str = "snapshot", learns: bool = True) -> None:
        """Take up a `snapshot`; InputError, before anything is written, unless it is one of this design that a learner can be in.

        learns False: the learner will only classify, so `show` is enough.
        """
        (self.write if learns else self.show)(State.unpack(text, self.learner, where))

    def boot_rows(self) -> list[int]:
        """The rows of the tables of the classes from learn_base on, integers of Q L bits, with the shipped classes in them; 0 elsewhere."""
        p = self.plan
        rows = [0] * p.class_rows
        weights = bits.from_bits(self.learner.shipped, np.int64)
        far = self.learner.config.confidence
        for label, row in enumerate(weights):
            for at, words in self.rows(label, np.where(row > 0, far, -1 - far)).items():
                for bank, word in words.items():
                    rows[at - p.learn_base] |= word << bank * p.lanes
        return rows
