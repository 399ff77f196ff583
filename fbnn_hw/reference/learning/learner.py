"""The learner: what a chip with learning does, step by step, in integers; in words in docs/on-chip-learning.md, section "Definition".

Counters are held as float32 h + 1/2 (see `rules`), dot products are float32 sums of at most 2^24 in size: all exact.
"""

import zlib

import numpy as np

from ... import bits
from ...errors import InputError, UsageError
from .buffer import ReplayBuffer
from .config import PRESENTED_BITS, Head
from .lfsr import MASK, NOISE, PICK, Lfsr
from .rules import HELD_BITS, gumbel_table, make
from .snapshot import State

ONE = np.float32(1)
PRESENTED_TOP = 2 ** PRESENTED_BITS - 1
BLOCK = 1000
"""Samples that are unpacked at a time."""


def _range(width, count):
    """(low, high) of h + 1/2 for a counter h of `width` bits, as arrays."""
    high = np.full(count, 2.0 ** (width - 1) - 0.5, np.float32)
    return -high, high


class Learner:
    """head: `Head`.  config: `LearnConfig`.

    hidden: uint8 bits (hidden neurons, hidden fan-in), the shipped weights of the hidden layer, where the head has one.
    output: uint8 bits (shipped classes, fan-in), the shipped rows, or None: it starts with no class.

    A label is a class number; the classes known are 0 .. known - 1, and the label `known` starts a new one.
    presentations, updates, flips: how many there were; no part of the hardware's state.  Flips are counted if count_flips is set.
    """

    def __init__(self, head, config, hidden=None, output=None):
        config.verify()
        if not head.hidden and config.hidden_counter_bits:
            raise UsageError(f"hidden_counter_bits: found {config.hidden_counter_bits}, but the head has no hidden layer; expected 0")
        self.head, self.config, self.rule = head, config, make(config)
        output = np.zeros((0, head.fan_in), np.uint8) if output is None else np.asarray(output, np.uint8)
        hidden = np.zeros((0, head.hidden_fan_in), np.uint8) if hidden is None else np.asarray(hidden, np.uint8)
        if output.ndim != 2 or output.shape[1] != head.fan_in:
            raise InputError(f"shipped rows: found shape {output.shape}, expected (classes, {head.fan_in})")
        if hidden.shape != (head.hidden, head.hidden_fan_in):
            raise InputError(f"shipped hidden weights: found shape {hidden.shape}, expected {(head.hidden, head.hidden_fan_in)}")
        if len(output) > config.max_classes:
            raise UsageError(f"max_classes: found {config.max_classes}, expected at least {len(output)}, the shipped classes")
        self._shipped = output, hidden
        self._range = _range(config.counter_bits, head.fan_in)
        self._hidden_range = _range(max(1, config.hidden_counter_bits), head.hidden_fan_in)
        self._extends, self._noisy = head.fan_in > head.latent, self.rule.noisy
        self._learn_hidden = bool(head.hidden and config.hidden_counter_bits)
        table = np.array(gumbel_table(config.temperature), np.float32)
        self._noise = Lfsr(NOISE, 1, lambda found: table[np.packbits(found[:len(found) // 8 * 8], bitorder="little")], 8)
        self._mask = Lfsr(MASK, 1, lambda drawn: drawn.astype(np.float32))
        self._pick = Lfsr(PICK, 1)
        self.buffer = ReplayBuffer(config.slots, head.latent, config.max_classes, self._pick)
        self._dots = np.zeros(head.hidden, np.float32)
        self._input = np.zeros((head.latent + head.hidden, head.copies), np.float32)
        self.count_flips = False
        self.reset()

    @classmethod
    def of(cls, network, config, keep_classes=True):
        """A learner that starts from a network's classifier; keep_classes False: from its hidden layer alone."""
        head = Head.of(network.topology)
        last = network.topology.ops[-1]
        hidden = None
        if head.hidden:
            name = network.topology[last.inputs[0]]
            name = (network.topology[name.inputs[0]] if name.kind == "duplicate" else name).inputs[1]
            if name in network.thresholds:
                raise InputError(f"layer {name}: has thresholds, expected none in a classifier that learns on the chip")
            hidden = network.weights[name]
        return cls(head, config, hidden, network.weights[last.name] if keep_classes else None)

    # state

    def reset(self):
        """Power-up state: shipped weights, empty buffer, registers at their seeds."""
        head, config = self.head, self.config
        output, hidden = self._shipped
        self.known, self.frozen = len(output), False
        self._output = np.full((config.max_classes, head.fan_in), 0.5, np.float32)
        self._output[:self.known] = self._confident(output, config.counter_bits)
        self._hidden = self._confident(hidden, max(1, config.hidden_counter_bits))
        self.buffer.clear()
        self.presented = [0] * config.max_classes
        self.prototypes_left = [0] * config.max_classes
        for index, lfsr in enumerate((self._noise, self._mask, self._pick)):
            lfsr.state = lfsr.taps.start(config.seed, index)
        self.presentations = self.updates = self.flips = 0
        self._derive()

    def _confident(self, found, width):
        return bits.from_bits(found, np.float32) * np.float32(min(self.config.confidence, 2 ** (width - 1) - 1) + 0.5)

    def _derive(self):
        self._weights = np.sign(self._output)
        self._rows = list(zip(self._output, self._weights))
        self._hidden_weights = np.sign(self._hidden)

    @property
    def shipped(self):
        """Shipped rows, uint8 bits (classes, fan-in)."""
        return self._shipped[0]

    @property
    def counters(self):
        """Output counters, int64 (max_classes, fan_in)."""
        return np.floor(self._output).astype(np.int64)

    @property
    def hidden_counters(self):
        """Hidden counters, int64 (hidden, hidden fan-in): of one bit, -1 or 0, where the layer does not learn."""
        return np.floor(self._hidden).astype(np.int64)

    @property
    def registers(self):
        """States of the registers (noise, mask, pick)."""
        return self._noise.state, self._mask.state, self._pick.state

    def freeze(self, frozen=True):
        """While frozen, `learn`, `rehearse` and `store` change nothing."""
        self.frozen = frozen

    # inference

    def sample_bits(self, latents):
        """v = (x, z) of latents, uint8 bits (N, latent) -> (N, latent + hidden)."""
        latents = np.asarray(latents, np.uint8)
        if not self.head.hidden:
            return latents
        x = bits.from_bits(latents, np.float32)
        parts = np.split(x.repeat(self.head.hidden_copies, 1), self.head.groups, 1)
        rows = np.split(self._hidden_weights, self.head.groups)
        return np.concatenate([latents, *((a @ w.T >= 0).astype(np.uint8) for a, w in zip(parts, rows))], 1)

    def logits(self, latents):
        """int32 (N, known) of latents, uint8 bits (N, latent)."""
        x = bits.from_bits(self.sample_bits(latents), np.float32)
        return (x.repeat(self.head.copies, 1) @ self._weights[:self.known].T).astype(np.int32)

    def classify(self, latents):
        """Class of each row, int64 (N,); ties go to the lowest."""
        return self.logits(latents).argmax(1)

    # learning

    def learn(self, latents, labels, progress=None):
        """Each sample in turn: a new class if its label is `known`; present it; `replays` replays; store it.

        latents: uint8 bits (N, latent).  labels: class numbers (N,).  Raises UsageError for a label above `known` or without a row.
        """
        latents, labels = self._checked(latents, labels)
        for i in progress(range(len(labels))) if progress else range(len(labels)):
            if self.frozen:
                return
            if i % BLOCK == 0:
                values, numbers = bits.from_bits(latents[i:i + BLOCK], np.float32), labels[i:i + BLOCK].tolist()
            x, label = values[i % BLOCK], numbers[i % BLOCK]
            if label == self.known:
                self._start_class()
            self._present(x, label)
            for _ in range(self.config.replays):
                self._replay()
            self.buffer.store(x, label)

    def store(self, latents, labels):
        """Put samples of known classes into the buffer without learning them."""
        latents, labels = self._checked(latents, labels, 0)
        for latent, label in zip(latents, labels):
            if not self.frozen:
                self.buffer.store(bits.from_bits(latent, np.float32), int(label))

    def rehearse(self, count):
        """`count` replays without a new sample."""
        for _ in range(0 if self.frozen else count):
            self._replay()

    def _checked(self, latents, labels, new=1):
        latents, labels = np.asarray(latents), np.asarray(labels)
        if latents.dtype != np.uint8 or latents.shape != (len(labels), self.head.latent):
            raise InputError(f"latents: found {latents.dtype} {latents.shape}, expected uint8 ({len(labels)}, {self.head.latent})")
        known = self.known
        for label in labels.tolist():
            if not 0 <= label < known + new:
                raise UsageError(f"label {label}: {known} classes are known, expected 0 to {known + new - 1}; classes arrive in order")
            if label >= self.config.max_classes:
                raise UsageError(f"label {label}: the chip has rows for {self.config.max_classes} classes; "
                                 f"expected a design with a larger max_classes")
            known = max(known, label + 1)
        return latents, labels

    def _start_class(self):
        """Counters of the new row start at 0 or -1, bit 1 or 0 of the mask register; the counts of presentations start anew."""
        row, self.known = self.known, self.known + 1
        self._output[row] = self._mask.bits(self.head.fan_in) - np.float32(0.5)
        np.sign(self._output[row], out=self._weights[row])
        self.prototypes_left[row] = self.config.prototype
        self.presented = [0] * len(self.presented)

    def _replay(self):
        buffer, pick = self.buffer, self.config.pick
        if not buffer.used:
            return
        if pick == "least":
            counts, presented = buffer.counts, self.presented
            presented = presented[:self.known]
            label = presented.index(min(presented))
            if not counts[label]:
                label = min((c for c in range(self.known) if counts[c]), key=presented.__getitem__)
            slot = buffer.draw(label)
        elif pick == "class":
            width = max(1, (self.config.max_classes - 1).bit_length())
            while True:
                label = self._pick.word(width)
                if label < self.known and buffer.counts[label]:
                    break
            slot = buffer.draw(label)
        else:
            slot = buffer.draw_any()
        self._present(buffer.values[slot], buffer.labels[slot])

    def _present(self, x, label):
        """One presentation of x, float32 +-1 (latent,): forward, choose, update."""
        known, presented = self.known, self.presented
        self.presentations += 1
        values = self._forward(x) if self._extends else x
        scores = self._weights[:known].dot(values)
        if self._noisy:
            scores += self._noise.window(8 * known)
        presented[label] += 1
        if presented[label] == PRESENTED_TOP:
            self.presented = presented = [n >> 1 for n in presented]
        if self.prototypes_left[label]:
            self.prototypes_left[label] -= 1
            self._move(label, np.add, values)
            return
        rival = self.rule.rival(scores, label)
        if rival is None:
            return
        if self.config.weighted:
            drawn = int(np.packbits(self._noise.bits(8), bitorder="little")[0])
            if drawn * (presented[label] + 1) >= (min(presented[:known]) + 1) << PRESENTED_BITS:
                return
        self.updates += 1
        if self._learn_hidden:
            self._update_hidden(x, label, rival)
        m = self.config.thinning
        for row, change in ((label, np.add), (rival, np.subtract)):
            if self.rule.draws:
                self._move(row, np.add, self._held(row, values if change is np.add else -values))
            else:
                self._move(row, change, values * self._kept(len(values), m) if m else values)

    def _forward(self, x):
        """Input of the output layer, float32 +-1 (fan_in,)."""
        head, values = self.head, self._input
        values[:head.latent] = x[:, None]
        if head.hidden:
            self._hidden_input = x.repeat(head.hidden_copies).reshape(head.groups, -1)
            rows = head.hidden // head.groups
            for g in range(head.groups):
                part = slice(g * rows, (g + 1) * rows)
                np.dot(self._hidden_weights[part], self._hidden_input[g], out=self._dots[part])
            values[head.latent:] = np.where(self._dots >= 0, ONE, -ONE)[:, None]
        return values.reshape(-1)

    def _update_hidden(self, x, label, rival):
        """Rows j whose output weights differ between label and rival, with |dot_j| <= gate, move by +-input, in ascending order."""
        head, config = self.head, self.config
        first = head.copies * head.latent
        towards = (self._weights[label, first:] - self._weights[rival, first:]).reshape(-1, head.copies).sum(1)
        active = np.flatnonzero((towards != 0) & (np.abs(self._dots) <= config.gate))
        if not len(active):
            return
        signs = np.copysign(ONE, towards[active])
        rows = head.hidden // head.groups
        steps = self._hidden_input[active // rows] * signs[:, None]
        if config.hidden_thinning:
            steps *= self._kept(steps.size, config.hidden_thinning).reshape(steps.shape)
        counters = self._hidden[active]
        before = np.signbit(counters) if self.count_flips else None
        self.rule.step(counters, np.add, steps, *self._hidden_range)
        self._hidden[active] = counters
        self._hidden_weights[active] = np.sign(counters)
        if self.count_flips:
            self.flips += int((np.signbit(counters) != before).sum())

    def _kept(self, count, m):
        """uint8 or float32 (count,): 1 where all m bits of the element's draw are 1."""
        if m == 1:  # the default: as floats already
            return self._mask.window(count)
        drawn = self._mask.bits(count * m)
        kept = drawn[::m]
        for j in range(1, m):
            kept = kept & drawn[j::m]
        return kept

    def _held(self, row, moves):
        """Signed moves of a row, less those that thinning and then the rule refuse."""
        m = self.config.thinning
        drawn = self._mask.bits(len(moves) * (m + HELD_BITS)).reshape(len(moves), m + HELD_BITS)
        words = np.packbits(drawn[:, m:], axis=1, bitorder="little")[:, 0]
        return self.rule.held(self._rows[row][0], moves * drawn[:, :m].all(1), words)

    def _move(self, row, change, moves):
        counters, weights = self._rows[row]
        before = weights.copy() if self.count_flips else None
        self.rule.step(counters, change, moves, *self._range)
        np.sign(counters, out=weights)
        if self.count_flips:
            self.flips += int(np.count_nonzero(weights != before))

    # snapshots

    @property
    def design(self):
        """CRC-32 of what must be equal for a snapshot to mean the same: the head, the configuration, the shipped weights."""
        text = f"{self.head} {self.config}".encode()
        for found in self._shipped:
            text += bits.pack(found).tobytes()
        return zlib.crc32(text)

    @property
    def state(self):
        buffer = self.buffer
        return State(
            self.design, self.known, self.frozen, self.registers, list(self.presented), list(self.prototypes_left),
            buffer.labels[:buffer.used], buffer.latents, self.counters[:self.known], self.hidden_counters if self._learn_hidden else None)

    def snapshot(self):
        """The whole state as bytes; docs/on-chip-learning.md, section "Snapshots", gives the layout."""
        return self.state.pack()

    def restore(self, data, where="snapshot"):
        """Take up the state of a `snapshot`; raises InputError for anything else, and then changes nothing."""
        state = State.unpack(data, self, where)
        if self._learn_hidden:
            self._hidden = state.hidden + np.float32(0.5)
        self._output[:] = 0.5
        self._output[:state.known] = state.output + np.float32(0.5)
        self.known, self.frozen = state.known, state.frozen
        self.presented, self.prototypes_left = state.presented, state.left
        self.buffer.restore(state.labels, state.latents)
        for lfsr, value in zip((self._noise, self._mask, self._pick), state.registers):
            lfsr.state = value
        self._derive()
