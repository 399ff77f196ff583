"""LearnPlan: what the learning part of an accelerator is built from, and where its state lies in the rows of the feature banks.

A row is the Q words of L bits at one address of all banks.  Three tables, in blocks of rows:

    learn_base + i * block_rows + h * K + c             counters i * L + h * per_row .. of class c, `stored_bits` each
    learn_base + i * block_rows + chunks * K + k        mirror: word i of the weights of the classes Q k .. Q k + Q - 1, one a bank
    slots_base + r * slots + slot                       words Q r .. Q r + Q - 1 of an exemplar, one a bank

for the F / L words i of a class's fan-in, the `chunks` h of a word, K = max_classes.  The strides are constants, so the hardware adds and
never multiplies.
"""

from dataclasses import dataclass, fields, replace

from ..errors import UsageError
from . import timing

MAX_SLOTS = 1 << 16
READ_LATENCY = 2
"""From a row's acceptance to its data."""
ACT_LATENCY = 3
"""From a row's acceptance to the clock in which the array takes it."""


def score_latency(lanes):
    """From the acceptance of the last row to complete sums."""
    return ACT_LATENCY + timing.accumulated(lanes) - timing.READ - 1


@dataclass(frozen=True)
class LearnPlan:
    """pixels, lanes: Q and L.  words: of an exemplar, (latent bits + hidden bits) / L.  copies: of each bit at the output layer.
    shipped: classes known after reset.  boot: "rows", the shipped tables are in the banks when learning starts; "words", the learner
    writes them from a memory of the shipped weights.  latent_base: of the words of the sample at hand, in bank 0.
    The rest as in `fbnn_hw.reference.learning.LearnConfig`.
    """

    pixels: int
    lanes: int
    words: int
    copies: int
    max_classes: int
    shipped: int
    slots: int
    counter_bits: int
    latent_base: int
    learn_base: int
    slots_base: int
    boot: str
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

    @classmethod
    def of(cls, head, config, pixels, lanes, shipped, latent_base=0, learn_base=0, slots_base=None, boot="rows"):
        """From a `Head` and a `LearnConfig`.  UsageError where the hardware does not have what they ask for.

        slots_base None: right after the tables of the classes.
        """
        for name, bits in (("latent", head.latent), ("hidden layer", head.hidden)):
            if bits % lanes:
                raise UsageError(f"--learn: the {name} has {bits} bits, expected a multiple of --lanes ({lanes})")
        if config.hidden_counter_bits:
            raise UsageError(f"hidden_counter_bits: found {config.hidden_counter_bits}, expected 0; on the chip the hidden layer stays as "
                             "shipped")
        if config.rule == "metaplastic":
            raise UsageError("rule: found metaplastic, expected another one on the chip; only the reference has it")
        if config.slots > MAX_SLOTS:
            raise UsageError(f"slots: found {config.slots}, expected at most {MAX_SLOTS} on the chip")
        common = {f.name: getattr(config, f.name) for f in fields(cls) if hasattr(config, f.name)}
        made = cls(pixels=pixels, lanes=lanes, words=(head.latent + head.hidden) // lanes, copies=head.copies, shipped=shipped,
                   latent_base=latent_base, learn_base=learn_base, slots_base=0, boot=boot, **common)
        return replace(made, slots_base=learn_base + made.class_rows if slots_base is None else slots_base)

    @property
    def fan_in_words(self):
        """Words i of a class: its fan-in is that times L."""
        return self.words * self.copies

    @property
    def stored_bits(self):
        """Bits of a counter in memory: B rounded up to a power of two, and at least Q, so that a row has no more than L counters."""
        return max(1 << (self.counter_bits - 1).bit_length(), self.pixels)

    @property
    def per_row(self):
        """Counters of a row."""
        return self.pixels * self.lanes // self.stored_bits

    @property
    def per_word(self):
        """Counters of a word of a bank, which are moved at once."""
        return self.lanes // self.stored_bits

    @property
    def chunks(self):
        """Rows of counters of one word of a class."""
        return self.stored_bits // self.pixels

    @property
    def groups(self):
        return -(-self.max_classes // self.pixels)

    @property
    def block_rows(self):
        return self.groups + self.chunks * self.max_classes

    @property
    def class_rows(self):
        """Rows of mirror and counters."""
        return self.fan_in_words * self.block_rows

    @property
    def slot_rows(self):
        """Rows of an exemplar."""
        return -(-self.words // self.pixels)

    @property
    def rows(self):
        """Of all tables."""
        return self.class_rows + self.slot_rows * self.slots

    @property
    def slot_bits(self):
        """Bits of a draw of a slot."""
        return max(1, (self.slots - 1).bit_length())

    @property
    def class_bits(self):
        """Bits of a class, and of a draw of one."""
        return max(1, (self.max_classes - 1).bit_length())

    def mirror_row(self, label, i):
        """(row, bank) of word i of the weights of class `label`."""
        return self.learn_base + i * self.block_rows + self.chunks * self.max_classes + label // self.pixels, label % self.pixels

    def counter_row(self, label, i, h):
        return self.learn_base + i * self.block_rows + h * self.max_classes + label

    def slot_row(self, slot, word):
        """(row, bank) of a word of an exemplar."""
        return self.slots_base + word // self.pixels * self.slots + slot, word % self.pixels

    # Clocks, where nobody stalls the rows.

    @property
    def boot_cycles(self):
        """From reset until the learner rests."""
        return self.pass_cycles + (
            self.shipped * self.start_cycles if self.boot == "words" else 0)

    @property
    def pass_cycles(self):
        """A pass over the table of the classes."""
        return 2 * self.max_classes + 2

    @property
    def load_cycles(self):
        """A sample's words, from where they lie to the sample memory."""
        return self.words * (1 + READ_LATENCY) + 1

    @property
    def drawn_late(self):
        """Bits of the mask for a word of counters that are drawn while it is read, in READ_LATENCY clocks; none where one takes several."""
        return min(READ_LATENCY, self.per_word) if self.thinning <= 1 else 0

    @property
    def row_cycles(self):
        """A class's counters moved by one sample.  A word takes two clocks, one read while the next is, or with a mask three and those in
        which its bits are drawn."""
        word = 1 + READ_LATENCY + self.thinning * self.per_word - self.drawn_late if self.thinning else 2
        return self.fan_in_words * (self.stored_bits * word + 1) + 1

    @property
    def start_cycles(self):
        """A class's counters set to start values that are not drawn."""
        return self.fan_in_words * (self.stored_bits * (2 + READ_LATENCY) + 1) + 1

    def forward_cycles(self, known, noisy=True):
        """Scores of `known` classes; with noise each takes 8 clocks more."""
        return -(-known // self.pixels) * (self.fan_in_words + score_latency(self.lanes) - 1) + known * (3 + 8 * noisy)

    def classify_cycles(self, known):
        return self.load_cycles + self.forward_cycles(known, False)

    @property
    def new_class_cycles(self):
        """What a class's first sample takes more: a pass over the classes, and counters at starts that are drawn."""
        return self.pass_cycles + self.start_cycles + self.fan_in_words * self.stored_bits * (self.per_word - self.drawn_late)

    def learn_cycles(self, known, replays, moved, draws, full, new=False):
        """learn(x, label), rules `gumbel` and `flip`, pick `least`.

        known: the classes at its end.  replays: how many there were.  moved: presentations after which counters moved.  draws: words drawn
        by replays and the eviction.  full: the buffer is full, so that an exemplar goes.  new: the label is a new class.
        Clocks more: `pass_cycles` - 2 where counts of presentations are halved.
        """
        presentations = 1 + replays
        cycles = new * self.new_class_cycles + presentations * (self.forward_cycles(known) + self.pass_cycles) + moved * 2 * self.row_cycles
        cycles += (presentations + 1) * self.load_cycles + replays * (1 + self.pass_cycles) + draws * (self.slot_bits + 2)
        return cycles + 1 + 1 + full * 2 * self.pass_cycles + 2 * self.words + self.pass_cycles
