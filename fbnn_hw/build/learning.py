"""The state of a learner on a chip, read and written word by word, and the snapshot of it in the reference's format."""

import numpy as np

from .. import bits
from ..reference.learning.lfsr import MASK, NOISE, PICK
from ..reference.learning.snapshot import State
from ..rtl.learning.learner import Space

REGISTERS = (NOISE, MASK, PICK)


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

    def read(self):
        """`State`.  The chip must rest."""
        p, learner = self.plan, self.learner
        known, used, frozen = self.peek(Space.SCALARS, 0, 3)
        registers = [sum(bit << i for i, bit in enumerate(self.peek(Space.NOISE + n, 0, taps.width)))
                     for n, taps in enumerate(REGISTERS)]
        others = self.peek(Space.PRESENTED, 0, p.max_classes)
        latents = np.zeros((used, learner.head.latent), np.uint8)
        for slot in range(used):
            latents[slot] = self.read_slot(slot)[:learner.head.latent]
        output = [self.read_counters(label) for label in range(known)]
        return State(
            learner.design, known, bool(frozen), tuple(registers), [n & 255 for n in others], [n >> 8 for n in others],
            self.peek(Space.LABELS, 0, used), latents, np.array(output, np.int8).reshape(known, learner.head.fan_in), None)

    def write(self, state):
        """Take up a `State` of this design."""
        p, learner = self.plan, self.learner
        used = len(state.labels)
        self.poke(Space.SCALARS, 0, [state.known, used, int(state.frozen)])
        for n, (taps, value) in enumerate(zip(REGISTERS, state.registers)):
            self.poke(Space.NOISE + n, 0, [value >> i & 1 for i in range(taps.width)])
        self.poke(Space.COUNTS, 0, [state.labels.count(label) for label in range(p.max_classes)])
        self.poke(Space.PRESENTED, 0, [n | left << 8 for n, left in zip(state.presented, state.left)])
        self.poke(Space.LABELS, 0, list(state.labels))
        words = _words(learner.sample_bits(state.latents), p.lanes) if used else ()
        for slot, exemplar in enumerate(words):
            for number, word in enumerate(exemplar.tolist()):
                row, bank = p.slot_row(slot, number)
                self.poke(Space.BANKS, row * p.pixels + bank, [word])
        for label in range(state.known):
            self.write_class(label, state.output[label])

    def write_class(self, label, counters):
        for row, words in self.rows(label, counters).items():
            for bank, word in words.items():
                self.poke(Space.BANKS, row * self.plan.pixels + bank, [word])

    def snapshot(self):
        return self.read().pack()

    def restore(self, text, where="snapshot"):
        """InputError unless `text` is a snapshot of this design."""
        self.write(State.unpack(text, self.learner, where))

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
