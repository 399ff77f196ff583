"""The learner: the definition of what a learning chip does, in integers; in words in docs/learner.md, section "Definition".

A latent, a row of weights and a mask are each one integer, bit i for element i.  Python's own operations on integers do a whole row
at once, which is faster than arrays for rows this short.  Counters are planes of such integers, see `counters`.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Self

import numpy as np

from ...base import bits
from ...base.errors import InputError, UsageError, show, whole
from . import counters
from .buffer import ReplayBuffer
from .config import MEANS, NEAREST_MEAN, PRESENTED_BITS, TWO_BITS, Head, LearnConfig
from .lfsr import MASK, NOISE, PICK, Lfsr
from .rules import HELD_BITS, gumbel_table, make
from .snapshot import Design, State

if TYPE_CHECKING:
    from ...ir.network import Network

PRESENTED_TOP = 2 ** PRESENTED_BITS - 1
EARLY, FAST, SLOW = 6, 1, 4
"""A limit moves to a score above it by 2^-SLOW of the way, to one below it or of the samples before number EARLY + 1 by 2^-FAST."""


def _spread(copies):
    """A function of (integer, bits) that gives the integer with `copies` of each bit beside each other."""
    if copies == 1:
        return lambda value, _: value
    of_byte = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], 1, bitorder="little")
    table = np.packbits(of_byte.repeat(copies, 1), 1, bitorder="little")

    def spread(value, count):
        return int.from_bytes(table[np.frombuffer(value.to_bytes((count + 7) // 8, "little"), np.uint8)].tobytes(), "little")
    return spread


def _rows(what, values, count, number=None):
    """`values` as rows of bits, uint8 (number, count); number: None where there may be any.  [] has no row of any length."""
    values = np.asarray(values)
    if not values.size and values.ndim == 1:
        values = np.zeros((0, count), np.uint8)
    if values.dtype != np.uint8 or values.ndim != 2 or values.shape[1] != count or number not in (None, len(values)):
        raise InputError(f"{what}: found {values.dtype} {values.shape}, expected uint8 ({'N' if number is None else number}, {count})")
    if values.size and values.max() > 1:
        raise InputError(f"{what}: found the value {values.max()}, expected bits, 0 and 1")
    return values


class Learner(Design):
    """The reference learner: what a learning chip does, bit for bit.

    A label is a class number.  The classes known are 0 .. known - 1; the label `known` starts a new
    one.

    hidden: the shipped weights of the hidden layer, where the head has one, uint8 bits (hidden neurons, hidden fan-in).
    output: the shipped rows, uint8 bits (shipped classes, fan-in); by default the learner starts with no class.

    known: number of the classes known.  frozen: whether `learn`, `store`, `rehearse` and `forget` change nothing.
    forgotten: numbers below `known` that have no class.  Learning one of them starts a class there.
    limits: with config.unknown, of each class: the least score with which it is the answer.
    presentations, updates, flips: how many there were since reset.  They are no part of the hardware's state.

    Raises UsageError where the configuration or the head is not legal, or one does not fit the other, InputError where the shipped
    weights have another shape or are no bits.
    """

    def __init__(self, head: Head, config: LearnConfig, hidden: np.ndarray | None = None, output: np.ndarray | None = None):
        head.verify()
        config.verify()
        if not head.hidden and config.hidden_counter_bits:
            raise UsageError(f"hidden_counter_bits: found {config.hidden_counter_bits}, but the head has no hidden layer; expected 0")
        output = _rows("shipped rows", [] if output is None else output, head.fan_in)
        hidden = _rows("shipped hidden weights", [] if hidden is None else hidden, head.hidden_fan_in, head.hidden)
        if len(output) and config.rule == NEAREST_MEAN:
            raise UsageError(f"shipped rows: found {len(output)}, expected none with the rule {NEAREST_MEAN}, which counts its own samples")
        if len(output) > config.max_classes:
            raise UsageError(f"max_classes: found {config.max_classes}, expected at least {len(output)}, the shipped classes")
        super().__init__(head, config, output, hidden)
        self.rule = make(config)
        self._ones, self._hidden_ones = 2 ** head.fan_in - 1, 2 ** head.hidden_fan_in - 1
        self._spread, self._spread_hidden = _spread(head.copies), _spread(head.hidden_copies)
        self._extends, self._noisy = head.fan_in > head.latent, self.rule.noisy
        self._adds = config.adds
        self._learn_hidden = bool(head.hidden and config.hidden_counter_bits)
        self._noise = Lfsr(NOISE, 1, gumbel_table(config.temperature))
        self._mask = Lfsr(MASK, 1)
        self._pick = Lfsr(PICK, 1)
        self.buffer = ReplayBuffer(config.slots, head.latent, config.max_classes, self._pick)
        self.reset()

    @classmethod
    def of(cls, network: "Network", config: LearnConfig, keep_classes: bool = True) -> Self:
        """A learner that starts from the classifier of a network.

        keep_classes: False starts with its hidden layer alone and no class.  With the rules of `config.ADDING` the learner reads the
        latent and starts with no class.  Raises InputError where the classifier is not one that learns on the chip.
        """
        if config.adds:
            return cls(Head.of_latent(network.topology), config)
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

    def reset(self) -> None:
        """Return to the state after power-up: shipped weights, empty buffer, registers at their seeds."""
        config = self.config
        self.known, self.frozen, self.forgotten = len(self.shipped), False, set()
        self.limits = [0] * config.max_classes
        self._set_output(self._started(self.shipped, config.counter_bits, self._ones))
        self._hidden = self._started(self.shipped_hidden, max(1, config.hidden_counter_bits), self._hidden_ones)
        self.buffer.clear()
        self.presented = [0] * config.max_classes
        self.prototypes_left = [0] * config.max_classes
        for index, lfsr in enumerate((self._noise, self._mask, self._pick)):
            lfsr.state = lfsr.taps.start(config.seed, index)
        self.presentations = self.updates = self.flips = 0

    def _started(self, shipped, width, ones):
        confidence = min(self.config.confidence, 2 ** (width - 1) - 1)
        return [counters.start(weights, width, ones, confidence) for weights in bits.to_integers(shipped)]

    def _set_output(self, rows):
        """The rows of the classes known; the others are there too.  `_weights` mirrors their last planes."""
        missing = self.config.max_classes - len(rows)
        self._output = rows + [counters.start(self._ones, self.config.counter_bits, self._ones) for _ in range(missing)]
        self._weights = [row[-1] for row in self._output]

    @property
    def counters(self) -> np.ndarray:
        """Output counters, int64 (max_classes, fan_in)."""
        return counters.from_planes(self._output, self.head.fan_in)

    @property
    def hidden_counters(self) -> np.ndarray:
        """Hidden counters, int64 (hidden, hidden fan-in): of one bit, -1 or 0, where the layer does not learn."""
        return counters.from_planes(self._hidden, self.head.hidden_fan_in)

    @property
    def registers(self) -> tuple[int, int, int]:
        """States of the registers (noise, mask, pick)."""
        return self._noise.state, self._mask.state, self._pick.state

    def freeze(self, frozen: bool = True) -> None:
        """Make `learn`, `rehearse` and `store` change nothing; with False, let them work again."""
        self.frozen = frozen

    # inference

    def sample_bits(self, latents: np.ndarray) -> np.ndarray:
        """The bits that the output rows read: latents, uint8 bits (N, latent) -> uint8 bits (N, latent + hidden).

        Raises InputError where the latents have another shape or type, or are no bits.
        """
        latents = _rows("latents", latents, self.head.latent)
        if not self.head.hidden:
            return latents
        x = bits.from_bits(latents, np.float32)
        parts = np.split(x.repeat(self.head.hidden_copies, 1), self.head.groups, 1)
        rows = np.split(self._signs(self._hidden, self.head.hidden_fan_in), self.head.groups)
        return np.concatenate([latents, *((a @ w.T >= 0).astype(np.uint8) for a, w in zip(parts, rows))], 1)

    def logits(self, latents: np.ndarray) -> np.ndarray:
        """Logits of the classes known: latents, uint8 bits (N, latent) -> int32 (N, known).

        With the rules of `config.TWO_BITS` a strong weight is 3 or -3.  To a logit the fan-in is added, and taken from it are 2 a strong
        weight, with `nearest-mean` 2 for every second one.  A forgotten class has `forgotten_score`.  Raises as `sample_bits`.
        """
        x = bits.from_bits(self.sample_bits(latents), np.float32).repeat(self.head.copies, 1)
        rows, fan_in = self._output[:self.known], self.head.fan_in
        weights, bias = self._signs(rows, fan_in), 0
        if self.config.rule in TWO_BITS:
            masks = [self._strong(row, label) for label, row in enumerate(rows)]
            strong = bits.from_integers(masks, fan_in).astype(np.float32)
            counts = strong.sum(1)
            weights, bias = weights * (1 + 2 * strong), fan_in - 2 * (counts if self.config.rule == MEANS else counts // 2)
        scores = (x @ weights.T + bias).astype(np.int32)
        scores[:, list(self.forgotten)] = self.config.forgotten_score(fan_in)
        return scores

    def _strong(self, row, label):
        """A mask of the strong weights in the row of a class."""
        return counters.strong(row, self.config.strong(self.presented[label]), self._ones)

    @staticmethod
    def _signs(rows, count):
        """float32 +-1 (rows, count)."""
        return bits.from_bits(bits.from_integers([row[-1] for row in rows], count), np.float32)

    def classify(self, latents: np.ndarray) -> np.ndarray:
        """Classify latents, uint8 bits (N, latent) -> int64 (N,).  Of several largest logits, the lowest class wins.

        Raises UsageError where no class is known, else as `sample_bits`.
        """
        if not self.known:
            raise UsageError("classify: the learner knows no class, expected one that it was taught")
        return self.logits(latents).argmax(1)

    def unknown(self, latents: np.ndarray) -> np.ndarray:
        """Whether the answer is "unknown", bool (N,): the largest logit of each latent is below the limit of its class, and below
        `LearnConfig.known_score`.
        """
        if not (self.config.unknown and self.known):
            return np.zeros(len(latents), bool)
        logits = self.logits(latents)
        return logits.max(1) < np.minimum(self.limits, self.config.known_score(self.head.fan_in))[logits.argmax(1)]

    # learning

    def learn(self, latents: np.ndarray, labels: Sequence[int] | np.ndarray,
              progress: Callable[[list], Iterable] | None = None) -> None:
        """Learn samples one after the other.

        For each: start a class if the label is `known`, present the sample, replay, store the sample.

        latents: uint8 bits (N, latent).  labels: class numbers (N,).  Raises UsageError for a label above `known` or without a row,
        InputError where the latents have another shape or type or are no bits, or a label is no whole number; then nothing is learned.
        """
        samples = list(zip(*self._checked(latents, labels)))
        for x, label in progress(samples) if progress else samples:
            if self.frozen:
                return
            if label == self.known or label in self.forgotten:
                self._start_class(label)
            self._present(x, label)
            for _ in range(self.config.replays):
                self._replay()
            if not self._adds:
                self.buffer.store(x, label)

    def store(self, latents: np.ndarray, labels: Sequence[int] | np.ndarray) -> None:
        """Put samples of known classes into the buffer without learning them; with the rules of `config.ADDING` nothing happens."""
        for x, label in zip(*self._checked(latents, labels, 0)):
            if not (self.frozen or self._adds):
                self.buffer.store(x, label)

    def rehearse(self, count: int) -> None:
        """Replay stored exemplars `count` times.  Raises UsageError where that is no whole number from 0."""
        if not whole(count):
            raise UsageError(f"rehearse: found {show(count)}, expected a whole number from 0")
        for _ in range(0 if self.frozen else count):
            self._replay()

    def forget(self, label: int) -> None:
        """Forget a class: its row and its exemplars.  All others stay as they are and keep their numbers.

        Raises UsageError where the design cannot forget, the class is not known, or it is the last one of a design that ships some.
        """
        if not self.config.forget:
            raise UsageError("forget: the design cannot forget a class, expected one made with generate --forget")
        if not whole(label) or label >= self.known or label in self.forgotten:
            raise UsageError(f"forget: found class {show(label)}, expected one that is known")
        if len(self.shipped) and self.known - len(self.forgotten) == 1:
            raise UsageError(f"forget: class {label} is the last one known, expected another that stays")
        if self.frozen:
            return
        self.forgotten.add(label)
        self._set_row(label, counters.start(self._ones, self.config.counter_bits, self._ones))
        self.presented[label] = self.prototypes_left[label] = self.limits[label] = 0
        self.buffer.remove(label)
        while self.known > len(self.shipped) and self.known - 1 in self.forgotten:
            self.known -= 1
            self.forgotten.remove(self.known)

    @property
    def next_free(self) -> int:
        """Number of the next new class, the lowest that has none; max_classes where there is no room."""
        return min(self.forgotten, default=self.known)

    def _set_row(self, label, row):
        self._output[label], self._weights[label] = row, row[-1]

    def _checked(self, latents, labels, new=1):
        """Lists of the latents as integers and of the labels."""
        labels = np.asarray(labels)
        if labels.ndim != 1 or labels.size and not np.issubdtype(labels.dtype, np.integer):
            raise InputError(f"labels: found {labels.dtype} {labels.shape}, expected whole numbers (N,)")
        latents = _rows("latents", latents, self.head.latent, len(labels))
        classes, labels = self.known, labels.tolist()
        for label in labels:
            if not 0 <= label < classes + new:
                raise UsageError(f"label {label}: {classes} classes are known, expected 0 to {classes + new - 1}; classes arrive in order")
            if label >= self.config.max_classes:
                raise UsageError(f"label {label}: the chip has rows for {self.config.max_classes} classes; "
                                 f"expected a design with a larger max_classes")
            if label in self.forgotten and not new:
                raise UsageError(f"label {label}: the class was forgotten, expected one that is known")
            classes = max(classes, label + 1)
        return bits.to_integers(latents), labels

    def _start_class(self, label):
        """Counters of the new row start at 0 or -1, bit 1 or 0 of the mask register; the counts of presentations start anew."""
        self.known += label == self.known
        self.forgotten.discard(label)
        self._set_row(label, counters.start(self._mask.integer(self.head.fan_in), self.config.counter_bits, self._ones))
        self.prototypes_left[label] = self.config.prototype
        if self.config.rule != NEAREST_MEAN:
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
        self._present(buffer.samples[slot], buffer.labels[slot])

    def _present(self, x, label):
        """One presentation of the latent x: forward, choose, update."""
        known = self.known
        self.presentations += 1
        values = self._forward(x) if self._extends else x
        if self._adds:
            if self.config.unknown and self.presented[label]:
                self._move_limit(label, values)
            self._count(label)
            self.updates += 1
            self._move(label, values, self._ones)
            return
        # Less fan_in: rules see differences alone.
        if self._noisy:
            scores = [noise - 2 * (weights ^ values).bit_count() for noise, weights in zip(self._noise.values(known), self._weights)]
        else:
            scores = [-2 * (weights ^ values).bit_count() for weights in self._weights[:known]]
        for row in self.forgotten:
            scores[row] = -math.inf
        presented = self._count(label)
        if self.prototypes_left[label]:
            self.prototypes_left[label] -= 1
            self._move(label, values, self._ones)
            return
        rival = self.rule.rival(scores, label)
        if rival is None:
            return
        if self.config.weighted:
            if self._noise.integer(8) * (presented[label] + 1) >= (min(
                    count for row, count in enumerate(presented[:known]) if row not in self.forgotten) + 1) << PRESENTED_BITS:
                return
        self.updates += 1
        if self._learn_hidden:
            self._update_hidden(label, rival)
        if self.rule.draws:
            self._move(label, values, self._allowed(label, values))
            self._move(rival, values ^ self._ones, self._allowed(rival, values ^ self._ones))
        else:
            towards, away = self._thinned(2, self.head.fan_in, self.config.thinning)
            self._move(label, values, towards)
            self._move(rival, values ^ self._ones, away)

    def _count(self, label):
        """Count a presentation; returns the counts, which are halved where one is at its top.

        With `nearest-mean` the one at its top is halved before, together with the sums of its class.
        """
        if self.config.rule == NEAREST_MEAN and self.presented[label] == self.config.most_presented:
            counters.halve(self._output[label], self._ones)
            self.presented[label] >>= 1
        self.presented[label] += 1
        if self.presented[label] == PRESENTED_TOP:
            self.presented = [n >> 1 for n in self.presented]
        return self.presented

    def _move_limit(self, label, values):
        """Move the limit of a class towards the score of one of its samples, which has not been learned yet."""
        fan_in, against = self.head.fan_in, self._weights[label] ^ values
        strong = self._strong(self._output[label], label)
        count = strong.bit_count()
        score = 2 * fan_in - 2 * against.bit_count() + 2 * count - 4 * (against & strong).bit_count() - 2 * (count // 2)
        limit = self.limits[label]
        self.limits[label] += score - limit >> (FAST if score < limit or self.presented[label] < EARLY else SLOW)

    def _forward(self, x):
        """Input of the output layer, an integer of fan_in bits."""
        head, values = self.head, x
        if head.hidden:
            size, fan_in, rows = head.latent // head.groups, head.hidden_fan_in, head.hidden // head.groups
            self._hidden_inputs = [self._spread_hidden((x >> g * size) & ((1 << size) - 1), size) for g in range(head.groups)]
            self._dots = [fan_in - 2 * (row[-1] ^ self._hidden_inputs[j // rows]).bit_count() for j, row in enumerate(self._hidden)]
            values |= bits.to_integers([[dot >= 0 for dot in self._dots]])[0] << head.latent
        return self._spread(values, head.latent + head.hidden)

    def _update_hidden(self, label, rival):
        """Rows j whose output weights differ between label and rival, with |dot_j| <= gate, move by +-input, in ascending order."""
        head, config = self.head, self.config
        weights = [self._weights[row] >> head.copies * head.latent for row in (label, rival)]
        copies, rows = (1 << head.copies) - 1, head.hidden // head.groups
        active = []
        for j, dot in enumerate(self._dots):
            if abs(dot) <= config.gate:
                towards, away = ((row >> head.copies * j & copies).bit_count() for row in weights)
                if towards != away:
                    x = self._hidden_inputs[j // rows]
                    active.append((self._hidden[j], x if towards > away else x ^ self._hidden_ones))
        for (row, towards), moves in zip(active, self._thinned(len(active), head.hidden_fan_in, config.hidden_thinning)):
            before = row[-1]
            self.rule.move(row, towards, moves, self._hidden_ones)
            self.flips += (row[-1] ^ before).bit_count()

    def _thinned(self, rows, count, m):
        """For each of some rows `count` bits: 1 where all m bits of the element's draw are 1."""
        if m <= 1:
            return [self._mask.integer(count) if m else (1 << count) - 1 for _ in range(rows)]
        drawn = self._mask.bits(rows * count * m)
        mask = np.ones(rows * count, np.uint8)
        for j in range(m):
            mask &= drawn[j::m]
        return bits.to_integers(mask.reshape(rows, count))

    def _allowed(self, row, towards):
        """Moves of a row, without those that thinning or the rule refuses."""
        m, fan_in, planes = self.config.thinning, self.head.fan_in, self._output[row]
        drawn = self._mask.bits(fan_in * (m + HELD_BITS)).reshape(fan_in, m + HELD_BITS)
        mask = bits.to_integers(drawn[None, :, :m].all(2))[0]
        words = np.packbits(drawn[:, m:], axis=1, bitorder="little")[:, 0]
        return mask & ~(self.rule.held(planes, words) & (towards ^ planes[-1]))

    def _move(self, row, towards, moves):
        planes, before = self._output[row], self._weights[row]
        self.rule.move(planes, towards, moves, self._ones)
        self._weights[row] = weights = planes[-1]
        self.flips += (weights ^ before).bit_count()

    # snapshots

    @property
    def state(self) -> State:
        buffer = self.buffer
        return State(
            self.design, self.known, self.frozen, self.registers, list(self.presented), list(self.prototypes_left),
            buffer.labels[:buffer.used], buffer.latents, self.counters[:self.known], self.hidden_counters if self._learn_hidden else None,
            list(self.limits) if self.config.unknown else None, frozenset(self.forgotten) if self.config.forget else None)

    def snapshot(self) -> bytes:
        """The whole state as bytes; docs/learner.md, section "Snapshots", gives the layout."""
        return self.state.pack()

    def restore(self, data: bytes, where: str = "snapshot") -> None:
        """Take up the state of a `snapshot`; raises InputError for anything else, and then changes nothing."""
        state = State.unpack(data, self, where)
        if self._learn_hidden:
            self._hidden = counters.to_planes(state.hidden, self.config.hidden_counter_bits)
        self._set_output(counters.to_planes(state.output, self.config.counter_bits))
        self.known, self.frozen = state.known, state.frozen
        self.presented, self.prototypes_left = state.presented, state.left
        self.limits, self.forgotten = list(state.limits or self.limits), set(state.forgotten or ())
        self.buffer.restore(state.labels, state.latents)
        for lfsr, value in zip((self._noise, self._mask, self._pick), state.registers):
            lfsr.state = value
