"""LearnPlan: what the learning part of an accelerator is built from, and where its state lies in the rows of the feature banks.

A row is the Q words of L bits at one address of all banks.  Three tables, in blocks of rows:

    learn_base + i * block_rows + h * K + c             counters i * L + h * per_row .. of class c, `stored_bits` each
    learn_base + i * block_rows + chunks * K + k        mirror: word i of the weights of the classes Q k .. Q k + Q - 1, one a bank
                   + plane * groups                     with weights of two bits four planes of them, see `planes`
    slots_base + r * slots + slot                       words Q r .. Q r + Q - 1 of an exemplar, one a bank

for the F / L words i of a class's fan-in, the `chunks` h of a word, K = max_classes.  The strides are constants, so the hardware adds and
never multiplies.
"""

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

from ..base.errors import FitError, UsageError
from ..ir.network import Network
from ..reference.learning import Head, LearnConfig, Learner
from ..reference.learning.config import ADDING, NEAREST_MEAN
from . import timing

MOST_EXEMPLARS = 1 << 16
"""Slots of a replay buffer; a request names one by 16 bits of its number."""
LEAST_LANES = 16
"""A word has at least so many."""
READ_LATENCY = 2
"""Clocks from a row's acceptance to its data."""
ACT_LATENCY = 3
"""Clocks from a row's acceptance to the one in which the array takes it."""

Learn = tuple[Head, LearnConfig]

ON_CHIP: dict[str, tuple[object, ...]] = {
    "rule": ("gumbel", *ADDING), "hidden_counter_bits": (0,), "margin": (0,), "pick": ("least",), "weighted": (False,),
    "thinning": (0, 1)}
"""Options of a `LearnConfig` of which the hardware has some values alone.  They stand in config.json, of which a design's id is made."""


def score_latency(lanes: int) -> int:
    """Clocks from the acceptance of the last row to complete sums."""
    return ACT_LATENCY + timing.accumulated(lanes) - timing.READ - 1


@dataclass(frozen=True)
class LearnPlan:
    """The size of a learner and the addresses of its tables.

    The fields after `boot` are those of `fbnn_hw.reference.learning.LearnConfig`, as are max_classes, slots and counter_bits.
    """

    pixels: int  # Q
    lanes: int  # L
    words: int  # of an exemplar: (latent bits + hidden bits) / L
    copies: int  # copies of each bit that the output layer reads
    max_classes: int
    shipped: int  # classes after reset
    slots: int
    counter_bits: int
    latent_base: int  # first word of the current sample, in bank 0
    learn_base: int
    slots_base: int
    boot: str  # "rows": the stream brings the shipped tables; "words": the learner writes them from a memory of the shipped weights
    rule: str
    temperature: int
    margin: int
    thinning: int
    confidence: int
    replays: int
    pick: str
    weighted: bool
    prototype: int
    seed: int
    unknown: bool = False
    forget: bool = False

    @classmethod
    def of(cls, head: Head, config: LearnConfig, pixels: int, lanes: int, shipped: int, latent_base: int = 0, learn_base: int = 0,
           slots_base: int | None = None, boot: str = "rows") -> "LearnPlan":
        """The plan for a `Head` and a `LearnConfig`.  slots_base None: the exemplars follow the tables of the classes.

        Raises UsageError where the hardware does not have what they ask for, FitError where their bits do not fill words.
        """
        for name, bits in (("latent", head.latent), ("hidden layer", head.hidden)):
            if bits % lanes:
                raise FitError(f"--learn: the {name} has {bits} bits, expected a multiple of --lanes ({lanes}); use "
                               + (f"--lanes {math.gcd(bits, lanes)}" if bits % LEAST_LANES == 0 else f"a multiple of {LEAST_LANES}"))
        for name, legal in ON_CHIP.items():
            if (value := getattr(config, name)) not in legal:
                raise UsageError(f"{name}: found {value}, expected {' or '.join(map(str, legal))} on the chip; only the reference has "
                                 "others")
        if config.slots > MOST_EXEMPLARS:
            raise UsageError(f"slots: found {config.slots}, expected at most {MOST_EXEMPLARS} on the chip")
        common = {f.name: getattr(config, f.name) for f in fields(cls) if hasattr(config, f.name)}
        plan = cls(pixels=pixels, lanes=lanes, words=(head.latent + head.hidden) // lanes, copies=head.copies, shipped=shipped,
                   latent_base=latent_base, learn_base=learn_base, slots_base=0, boot=boot, **common)
        return replace(plan, slots_base=learn_base + plan.class_rows if slots_base is None else slots_base)

    def learner(self, network: Network) -> Learner:
        """A new reference `Learner` of a design of this network, in the state after reset."""
        return Learner.of(network, self.config) if self.shipped else Learner(Head.of_latent(network.topology), self.config)

    @cached_property
    def config(self) -> LearnConfig:
        """What the reference learner is made of."""
        return LearnConfig(**{f.name: getattr(self, f.name) for f in fields(LearnConfig) if hasattr(self, f.name)})

    @property
    def fan_in_words(self) -> int:
        """Words that hold the weights of a class: its fan-in / L."""
        return self.words * self.copies

    @property
    def stored_bits(self) -> int:
        """Bits of a counter in memory: B rounded up to a power of two, and at least Q, so that a row has no more than L counters."""
        return max(1 << (self.counter_bits - 1).bit_length(), self.pixels)

    @property
    def per_row(self) -> int:
        """Counters of a row."""
        return self.pixels * self.lanes // self.stored_bits

    @property
    def per_word(self) -> int:
        """Counters that lie in one word of a bank; they move at once."""
        return self.lanes // self.stored_bits

    @property
    def chunks(self) -> int:
        """Rows of counters behind one weight word of a class."""
        return self.stored_bits // self.pixels

    @property
    def groups(self) -> int:
        """Rows of the mirror for one weight word of every class."""
        return -(-self.max_classes // self.pixels)

    @property
    def adds(self) -> bool:
        """Whether every sample moves the row of its class and nothing else."""
        return self.config.adds

    @property
    def kept(self) -> str:
        """With `adds`: the noun for what is kept of a class."""
        return "prototype" if self.planes == 1 else "mean"

    @property
    def averages(self) -> bool:
        """Whether the counts of presentations belong to the sums: no other class changes a count, and both are halved together."""
        return self.rule == NEAREST_MEAN

    @property
    def host_bits(self) -> int:
        """Bits of a word that the host reads and writes."""
        return max(16, self.lanes)

    @property
    def planes(self) -> int:
        """Binary rows of a class that a score reads, each in its part of the mirror: the signs of the counters.

        With weights of two bits four: the signs, whether a counter is at `strong` or above, whether it is at -`strong` or above, and,
        read with an input of ones, whether neither end is reached.  With the rule "nearest-mean" every second strong weight, in order, is
        a 0 of the last one.
        """
        return self.config.planes

    @property
    def block_rows(self) -> int:
        """Rows of mirror and counters for one weight word of every class."""
        return self.planes * self.groups + self.chunks * self.max_classes

    @property
    def class_rows(self) -> int:
        """Rows of mirror and counters."""
        return self.fan_in_words * self.block_rows

    @property
    def slot_rows(self) -> int:
        """Rows of an exemplar."""
        return -(-self.words // self.pixels)

    @property
    def rows(self) -> int:
        """Rows of all tables."""
        return self.class_rows + self.slot_rows * self.slots

    @property
    def slot_bits(self) -> int:
        """Random bits that a draw of a slot takes."""
        return max(1, (self.slots - 1).bit_length())

    @property
    def class_bits(self) -> int:
        """Bits of a class number."""
        return max(1, (self.max_classes - 1).bit_length())

    def mirror_row(self, label: int, i: int, plane: int = 0) -> tuple[int, int]:
        """(row, bank) of word i of a plane of class `label`."""
        first = self.learn_base + i * self.block_rows + self.chunks * self.max_classes + plane * self.groups
        return first + label // self.pixels, label % self.pixels

    def counter_row(self, label: Any, i: Any, h: Any) -> Any:
        """Row, or array of rows, of chunk h of the counters behind word i of class `label`."""
        return self.learn_base + i * self.block_rows + h * self.max_classes + label

    def slot_row(self, slot: int, word: int) -> tuple[int, int]:
        """(row, bank) of a word of an exemplar."""
        return self.slots_base + word // self.pixels * self.slots + slot, word % self.pixels

    # Clocks, where nobody stalls the rows.

    @property
    def boot_cycles(self) -> int:
        """Clocks from reset until the learner rests."""
        return self.pass_cycles + (
            self.shipped * self.start_cycles if self.boot == "words" else 0)

    @property
    def pass_cycles(self) -> int:
        """Clocks of a pass over the table of the classes."""
        return 2 * self.max_classes + 3

    @property
    def load_cycles(self) -> int:
        """Clocks to copy a sample's words to the sample memory."""
        return self.words * (1 + READ_LATENCY) + 1

    @property
    def drawn_late(self) -> int:
        """Mask bits of a word of counters that are drawn in the READ_LATENCY clocks in which the word is read."""
        return min(READ_LATENCY, self.per_word)

    @property
    def row_cycles(self) -> int:
        """Clocks to move the counters of a class by one sample.

        A word takes two clocks, because reads and writes overlap.  With thinning it takes three, and the
        clocks in which the rest of its mask is drawn.  The last word of each block is written in a clock of
        its own, as is each plane of the mirror.
        """
        if not self.thinning:
            return self.fan_in_words * (1 + 2 * self.stored_bits + 1 + self.planes) + 2
        word = 1 + READ_LATENCY + self.per_word - self.drawn_late
        return self.fan_in_words * (self.stored_bits * word + 1 + self.planes) + 2

    @property
    def start_cycles(self) -> int:
        """Clocks to set the counters of a class to start values that need no random bits."""
        return self.fan_in_words * (self.stored_bits * (1 + READ_LATENCY) + 1 + self.planes) + 2

    def forward_cycles(self, classes: int, noisy: bool = True) -> int:
        """Clocks for the scores of `classes` classes; noise adds 8 to each."""
        return -(-classes // self.pixels) * (self.fan_in_words * self.planes + score_latency(self.lanes) - 1) + classes * (4 + 8 * noisy)

    def classify_cycles(self, classes: int) -> int:
        """Clocks to decide on a command, load a sample and score `classes` classes without noise."""
        return 1 + self.load_cycles + self.forward_cycles(classes, False)

    @property
    def new_class_cycles(self) -> int:
        """Clocks that the first sample of a class adds: a scan of the classes, and random start values of the counters."""
        return self.pass_cycles + self.start_cycles + self.fan_in_words * self.stored_bits * (self.per_word - self.drawn_late)

    def learn_cycles(self, classes: int, replays: int, moved: int, draws: int, full: bool, new: bool = False) -> int:
        """Clocks of learn(x, label).

        classes: number of classes after the sample.  replays: samples that were replayed.  moved:
        presentations that moved counters.  draws: words that replays and the eviction drew.  full: the
        buffer is full, so an exemplar leaves.  new: the label is a new class.  Where every sample is
        added to the row of its class, only `new` has an effect.

        When the counts of presentations are halved, `pass_cycles` - 3 clocks are added.
        """
        if self.adds:
            scored = self.unknown and not new  # against the limit of its class
            return (new * self.new_class_cycles + self.load_cycles + scored * self.forward_cycles(1, False) + self.pass_cycles
                    + self.row_cycles + 2)
        presentations = 1 + replays
        cycles = new * (self.new_class_cycles + 1) + presentations * (self.forward_cycles(classes) + self.pass_cycles)
        cycles += moved * 2 * self.row_cycles
        cycles += (presentations + 1) * self.load_cycles + replays * (1 + self.pass_cycles) + draws * (self.slot_bits + 3)
        return cycles + 1 + 2 + full * 2 * self.pass_cycles + 2 * self.words + self.pass_cycles
