"""The state of a learner on a chip, read and written word by word, and the snapshot of it in the reference's format."""

import numpy as np

from .. import bits
from ..protocol import Space
from ..reference.learning.lfsr import MASK, NOISE, PICK
from ..reference.learning.snapshot import State

REGISTERS = (NOISE, MASK, PICK)
GAP_ROWS = 8
"""Rows that nobody needs are read, or written with zeros, where so few of them separate others: a request costs more."""


def _words(found, lanes):
    """Lists of bits (..., n) -> integers (..., n / lanes), bit l of a word is lane l."""
    found = np.asarray(found, np.uint8)
    packed = np.packbits(found.reshape(*found.shape[:-1], -1, lanes), axis=-1, bitorder="little")
    flat = packed.reshape(-1, packed.shape[-1])
    return np.array([int.from_bytes(row.tobytes(), "little") for row in flat], object).reshape(packed.shape[:-1])


def _bits(words, lanes):
    """The inverse."""
    text = b"".join(int(word).to_bytes(lanes // 8, "little") for word in words)
    return np.unpackbits(np.frombuffer(text, np.uint8), bitorder="little")


class ChipState:
    """plan: LearnPlan.  learner: the reference with the same head, configuration and shipped weights.

    peek(space, address, count) -> list of integers; poke(space, address, words).
    """

    def __init__(self, plan, learner, peek, poke):
        self.plan, self.learner, self.peek, self.poke = plan, learner, peek, poke

    def rows(self, label, counters):
        """{row: {bank: word}} of a class: its counters, int (fan-in,), and the mirror of its weights."""
        p = self.plan
        found = {}
        fields = np.asarray(counters, np.int64) & (1 << p.counter_bits) - 1
        planes = (fields[:, None] >> np.arange(p.stored_bits) & 1).reshape(p.fan_in_words * p.chunks, p.pixels * p.lanes)
        packed = _words(planes, p.lanes).reshape(p.fan_in_words, p.chunks, p.pixels)
        weights = _words(np.asarray(counters) >= 0, p.lanes)
        for i in range(p.fan_in_words):
            for h in range(p.chunks):
                found[p.counter_row(label, i, h)] = dict(enumerate(packed[i, h].tolist()))
            row, bank = p.mirror_row(label, i)
            found.setdefault(row, {})[bank] = weights[i]
        return found

    def read_counters(self, label):
        """int64 (fan_in,) of a class."""
        p = self.plan
        found = []
        for i in range(p.fan_in_words):
            for h in range(p.chunks):
                words = self.peek(Space.BANKS, p.counter_row(label, i, h) * p.pixels, p.pixels)
                fields = _bits(words, p.lanes).reshape(-1, p.stored_bits)[:, :p.counter_bits].astype(np.int64)
                values = (fields << np.arange(p.counter_bits)).sum(1)
                found.append(values - (values >> p.counter_bits - 1 << p.counter_bits))
        return np.concatenate(found)

    def read_mirror(self, label):
        """Weight bits (fan_in,) of a class, as the forward pass reads them."""
        p = self.plan
        places = [p.mirror_row(label, i) for i in range(p.fan_in_words)]
        return np.concatenate([_bits(self.peek(Space.BANKS, row * p.pixels + bank, 1), p.lanes) for row, bank in places])

    def read_slot(self, slot):
        """Bits of an exemplar: latent, then hidden."""
        p = self.plan
        words = []
        for first in range(0, p.words, p.pixels):
            words += self.peek(Space.BANKS, p.slot_row(slot, first)[0] * p.pixels, min(p.pixels, p.words - first))
        return _bits(words, p.lanes)

    def _counter_rows(self, known):
        """Row numbers (fan-in words, chunks, known)."""
        p = self.plan
        word, chunk, label = np.ogrid[:p.fan_in_words, :p.chunks, :known]
        return p.counter_row(label, word, chunk)

    def _slot_rows(self, used):
        """Row numbers (rows of an exemplar, used)."""
        p = self.plan
        number, slot = np.ogrid[:p.slot_rows, :used]
        return p.slots_base + number * p.slots + slot

    def _runs(self, rows):
        """[(first, last)] that cover all of `rows`, numbers inside one table."""
        rows = np.unique(rows)
        ends = np.flatnonzero(np.diff(rows) > GAP_ROWS)
        return list(zip(rows[[0, *ends + 1]].tolist(), rows[[*ends, -1]].tolist())) if len(rows) else []

    def _read_rows(self, rows):
        """Words of rows as bytes, uint8 (*rows.shape, Q, lanes / 8)."""
        p, size = self.plan, self.plan.lanes // 8
        found = np.zeros((rows.max(initial=-1) + 1, p.pixels, size), np.uint8)
        for first, last in self._runs(rows):
            words = self.peek(Space.BANKS, first * p.pixels, (last + 1 - first) * p.pixels)
            text = b"".join(word.to_bytes(size, "little") for word in words)
            found[first:last + 1] = np.frombuffer(text, np.uint8).reshape(-1, p.pixels, size)
        return found[rows]

    def read(self):
        """`State`.  The chip must rest."""
        p, learner = self.plan, self.learner
        known, used, frozen, registers, presented, left = self._marks()
        words = self._read_rows(self._slot_rows(used)).swapaxes(0, 1).reshape(used, p.slot_rows * p.pixels * p.lanes // 8)
        latents = np.unpackbits(words, axis=1, count=learner.head.latent, bitorder="little") if used else np.zeros(
            (0, learner.head.latent), np.uint8)
        words = self._read_rows(self._counter_rows(known))
        fields = np.unpackbits(words.reshape(-1), bitorder="little").reshape(p.fan_in_words, p.chunks, known, p.per_row, p.stored_bits)
        values = (fields[..., :p.counter_bits].astype(np.int64) << np.arange(p.counter_bits)).sum(-1)
        values -= values >> p.counter_bits - 1 << p.counter_bits
        return State(
            learner.design, known, frozen, registers, presented, left, self.peek(Space.LABELS, 0, used) if used else [], latents,
            np.moveaxis(values, 2, 0).reshape(known, learner.head.fan_in).astype(np.int8), None)

    def _marks(self):
        """(known, used, frozen, registers, presented and left of each class): few words, of which a lesson changes some."""
        registers = tuple(sum(bit << i for i, bit in enumerate(self.peek(Space.NOISE + n, 0, taps.width)))
                          for n, taps in enumerate(REGISTERS))
        known, used, frozen = self.peek(Space.SCALARS, 0, 3)
        others = self.peek(Space.PRESENTED, 0, self.plan.max_classes)
        return known, used, bool(frozen), registers, [n & 255 for n in others], [n >> 8 for n in others]

    def same(self, state):
        """Whether the chip has been in no lesson since it had this `State`, nor has been reset."""
        return self._marks() == (
            state.known, len(state.labels), state.frozen, tuple(state.registers), list(state.presented), list(state.left))

    def untaught(self):
        """Whether it is as shipped."""
        self.learner.reset()
        return self.same(self.learner.state)

    def write(self, state):
        """Take up a `State` of this design.  While it is written, there are no exemplars: what is cut short is consistent."""
        p = self.plan
        self.poke(Space.SCALARS, 1, [0])
        self.poke(Space.COUNTS, 0, [0] * p.max_classes)
        tables = {}
        for label in range(state.known):
            for row, words in self.rows(label, state.output[label]).items():
                tables.setdefault(row, {}).update(words)
        self._write_rows(tables)
        for n, (taps, value) in enumerate(zip(REGISTERS, state.registers)):
            self.poke(Space.NOISE + n, 0, [value >> i & 1 for i in range(taps.width)])
        self.poke(Space.PRESENTED, 0, [n | left << 8 for n, left in zip(state.presented, state.left)])
        self.store(state.latents, state.labels)
        self.poke(Space.SCALARS, 0, [state.known, len(state.labels), int(state.frozen)])

    def show(self, state):
        """Make it classify as one with this `State` does; it must not learn afterwards."""
        mirror = {}
        for label in range(state.known):
            for i, word in enumerate(_words(state.output[label] >= 0, self.plan.lanes)):
                row, bank = self.plan.mirror_row(label, i)
                mirror.setdefault(row, {})[bank] = word
        self._write_rows(mirror)
        self.poke(Space.SCALARS, 0, [state.known])

    def store(self, latents, labels):
        """Fill an empty buffer, as `Learner.store` does: bits (N, latent), labels (N,)."""
        p, labels = self.plan, [int(label) for label in labels]
        samples = _words(self.learner.sample_bits(latents), p.lanes) if labels else ()
        slots = {}
        for slot, exemplar in enumerate(samples):
            for number, word in enumerate(exemplar.tolist()):
                row, bank = p.slot_row(slot, number)
                slots.setdefault(row, {})[bank] = word
        self._write_rows(slots)
        if labels:
            self.poke(Space.LABELS, 0, labels)
        self.poke(Space.COUNTS, 0, [labels.count(label) for label in range(p.max_classes)])
        self.poke(Space.SCALARS, 1, [len(labels)])

    def _write_rows(self, rows):
        """{row: {bank: word}} of one table; what is not named in them, or lies between them, becomes 0."""
        for first, last in self._runs(list(rows)):
            named = (rows.get(row, {}) for row in range(first, last + 1))
            words = [banks.get(bank, 0) for banks in named for bank in range(self.plan.pixels)]
            self.poke(Space.BANKS, first * self.plan.pixels, words)

    def snapshot(self):
        return self.read().pack()

    def restore(self, text, where="snapshot", learns=True):
        """InputError unless `text` is a snapshot of this design.  learns False: it will only classify, and `show` is enough."""
        (self.write if learns else self.show)(State.unpack(text, self.learner, where))

    def boot_rows(self):
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
