"""The state of a learner on a chip, read and written word by word, and the snapshot of it in the reference's format."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from ..base.errors import InputError, show
from ..machine.learner import LearnPlan
from ..machine.learner_memory import Rows, bits_of, counter_rows, counters_of, exemplar_rows, mirror_rows
from ..machine.protocol import Space
from ..reference.learning.config import FORGOTTEN
from ..reference.learning.learner import Learner
from ..reference.learning.lfsr import REGISTERS
from ..reference.learning.snapshot import State

GAP_ROWS = 8
"""Two accesses become one when at most this many unneeded rows lie between them: a further request costs more."""
CHIP = "the board's learner"

Marks = tuple[int, int, bool, tuple[int, ...], list[int], list[int]]
"""What `ChipState.marks` reads."""


class Impossible(InputError):
    """What was read is no state that a learner of this design can be in."""


def marks_of(learner: Learner) -> Marks:
    """The `ChipState.marks` of a chip in a learner's state.  Every lesson and every reset change them; two states may have the same."""
    return (learner.known, learner.buffer.used, learner.frozen, learner.registers, list(learner.presented),
            [left | FORGOTTEN * (label in learner.forgotten) for label, left in enumerate(learner.prototypes_left)])


def _joined(classes: Iterable[Rows]) -> Rows:
    """The rows of several classes, which share rows of the mirror."""
    rows: Rows = {}
    for each in classes:
        for row, words in each.items():
            rows.setdefault(row, {}).update(words)
    return rows


class ChipState:
    """Reads and writes the memory of a learner on a chip.  The learner must rest meanwhile.

    plan: where everything lies in memory.  learner: the reference with the same classifier, configuration and shipped weights.
    peek(space, address, count) returns a list of integers; poke(space, address, words); both as `client.Client` has them.
    """

    def __init__(self, plan: LearnPlan, learner: Learner, peek: Callable[[int, int, int], list[int]],
                 poke: Callable[[int, int, Sequence[int]], None]):
        self.plan, self.learner, self.peek, self.poke = plan, learner, peek, poke

    def read_mirror(self, label: int) -> np.ndarray:
        """Read the mirror of a class: weight bits (planes, fan_in).  The forward pass reads the same words."""
        p = self.plan
        places = [p.mirror_row(label, i, plane) for plane in range(p.planes) for i in range(p.fan_in_words)]
        words = [bits_of(self.peek(Space.BANKS, row * p.pixels + bank, 1), p.lanes) for row, bank in places]
        return np.concatenate(words).reshape(p.planes, -1)

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
        output = np.moveaxis(counters_of(p, stored), 2, 0).reshape(classes, learner.head.fan_in).astype(np.int8)
        labels = self.peek(Space.LABELS, 0, used) if used else []
        limits = forgotten = None
        if p.forget:
            forgotten, left = frozenset(label for label, n in enumerate(left) if n >= FORGOTTEN), [n % FORGOTTEN for n in left]
        if p.unknown:
            limits = self.limits()
        state = State(learner.design, classes, frozen, registers, presented, left, labels, latents, output, None, limits, forgotten)
        try:
            state.verify(learner, CHIP)
        except InputError as error:
            raise Impossible(str(error)) from None
        return state

    def limits(self) -> list[int]:
        """Read the limits of the classes."""
        return np.array(self.peek(Space.COUNTS, 0, self.plan.max_classes)).astype(np.uint16).astype(np.int16).tolist()

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
        self._write_rows(_joined(
            counter_rows(p, label, state.output[label], state.presented[label]) for label in range(state.known)))
        for n, (taps, value) in enumerate(zip(REGISTERS.values(), state.registers)):
            self.poke(Space.NOISE + n, 0, [value >> i & 1 for i in range(taps.width)])
        self._write_classes(state)
        if not p.adds:
            self.store(state.latents, state.labels)
        self.poke(Space.SCALARS, 0, [state.known, len(state.labels), int(state.frozen)])

    def show(self, state: State) -> None:
        """Write the part of a `State` that classification reads.  The learner must not learn afterwards.  InputError as in `write`."""
        state.verify(self.learner)
        self._write_rows(_joined(
            mirror_rows(self.plan, label, state.output[label], state.presented[label]) for label in range(state.known)))
        if self.plan.unknown or self.plan.forget:
            self._write_classes(state)
        self.poke(Space.SCALARS, 0, [state.known])

    def _write_classes(self, state: State) -> None:
        """Write the table of the classes but for the numbers of their exemplars."""
        forgotten = state.forgotten or ()
        self.poke(Space.PRESENTED, 0, [n | (left | FORGOTTEN * (label in forgotten)) << 8
                                       for label, (n, left) in enumerate(zip(state.presented, state.left))])
        if state.limits is not None:
            self.poke(Space.COUNTS, 0, [limit & 0xFFFF for limit in state.limits])

    def store(self, latents: np.ndarray, labels: Iterable[int]) -> None:
        """Fill an empty buffer, as `Learner.store` does: uint8 bits (N, latent), labels (N,) of classes known."""
        p, labels = self.plan, [int(label) for label in labels]
        self._write_rows(exemplar_rows(p, self.learner.sample_bits(latents)) if labels else {})
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
