"""The choices of a learner that a chip is built with."""

import math
from dataclasses import asdict, dataclass

from ...base.errors import InputError, UsageError, show
from ...ir.network import LATENT
from .rules import RULES

PICKS = ("slot", "class", "least")
"""Their order is part of the check value of a design, see `snapshot.Design`."""
PROTOTYPES, MEANS, NEAREST_MEAN = "prototypes", "means", "nearest-mean"
ADDING = PROTOTYPES, MEANS, NEAREST_MEAN
"""The rules without replay: no slot is ever filled, one is enough."""
ADDING_DEFAULTS = {rule: {"slots": 1, "counter_bits": 8 if rule == NEAREST_MEAN else 4, "replays": 0, "thinning": 0} for rule in ADDING}
"""Options that a `LearnConfig` of one of them gets where nobody chose others."""
TWO_BITS = MEANS, NEAREST_MEAN
"""The rules whose weights have two bits, the second for those that are strong."""
TWO_BITS_WIDTH = 3
"""The least width of a counter with one of them."""
FORGOTTEN = 128
"""A chip marks a forgotten class by this bit of its prototype presentations to come."""
MAX_SLOTS = 2 ** 24
PRESENTED_BITS = 8


@dataclass(frozen=True)
class Head:
    """The shape of the classifier after a latent.  Copies of a bit lie next to each other, as `duplicate` puts them.
    """

    latent: int  # bits
    copies: int = 1  # of each bit of (latent, hidden) that an output row reads
    hidden: int = 0  # neurons of the hidden layer beside the latent; 0: none
    groups: int = 1  # of the hidden layer; each reads latent / groups bits
    hidden_copies: int = 1  # of each bit that a hidden neuron reads

    @property
    def fan_in(self):
        return self.copies * (self.latent + self.hidden)

    @property
    def hidden_fan_in(self):
        return self.hidden_copies * self.latent // self.groups if self.hidden else 0

    def verify(self):
        """Raise UsageError at the first value that is not legal."""
        for name, low in (("latent", 1), ("copies", 1), ("hidden", 0), ("groups", 1), ("hidden_copies", 1)):
            value = getattr(self, name)
            if type(value) is not int or value < low:
                raise UsageError(f"{name}: found {show(value)}, expected a whole number from {low}")
        if self.latent % self.groups or self.hidden % self.groups:
            raise UsageError(f"groups: found {self.groups}, expected a divisor of latent = {self.latent} and of hidden = {self.hidden}")

    @classmethod
    def of_latent(cls, topology):
        """The head whose output rows read the latent alone.  Raises InputError where the topology has no latent of bits."""
        if LATENT not in topology:
            raise InputError(f"model {topology.name}: has no layer named {LATENT}, expected a feature extractor that ends in one")
        if not topology.head or LATENT in topology.byte_maps():
            raise InputError(f"model {topology.name}: layer {LATENT} gives {'bytes' if topology.head else 'logits'}, expected bits")
        return cls(topology.shapes[LATENT][0])

    @classmethod
    def of(cls, topology):
        """The head of a topology.  Raises InputError where its classifier is not one that learns on the chip."""
        latent, last = cls.of_latent(topology).latent, topology.ops[-1]
        copies, source = _undo(topology, last.inputs[0])
        if source.name == LATENT and last.groups == 1:
            return cls(latent, copies)
        if source.kind == "concat" and len(source.inputs) == 2 and source.inputs[0] == LATENT and last.groups == 1:
            hidden = topology[source.inputs[1]]
            if hidden.kind == "dense":
                hidden_copies, origin = _undo(topology, hidden.inputs[0])
                if origin.name == LATENT and latent % hidden.groups == 0:
                    return cls(latent, copies, hidden.out_channels, hidden.groups, hidden_copies)
        raise InputError(f"model {topology.name}: its classifier is not one that learns on the chip, expected the latent, a dense "
                         f"layer beside it if any, and the dense layer of the logits")


def _undo(topology, name):
    """(copies, op): the op before a duplicate, or (1, op) where there is none."""
    op = topology[name]
    return (op.times, topology[op.inputs[0]]) if op.kind == "duplicate" else (1, op)


@dataclass(frozen=True)
class LearnConfig:
    """The options of a learner.

    With a rule of ADDING, replays, thinning, prototype and hidden_counter_bits are 0 and slots is 1.
    """

    max_classes: int  # that there are rows for
    slots: int  # of the replay buffer
    counter_bits: int = 8  # B: of a counter of the output layer
    hidden_counter_bits: int = 0  # of the hidden layer; 0: it does not learn
    rule: str = "gumbel"  # one of RULES, see `rules`
    temperature: int = 128  # 1 / alpha of the softmax that the rule "gumbel" draws from
    margin: int = 0  # lead that the rule "margin" asks for
    thinning: int = 1  # m: a counter moves with probability 2^-m
    hidden_thinning: int = 2  # m of the hidden layer
    gate: int = 16  # a hidden row learns where |dot| <= gate
    confidence: int = 0  # counters of shipped weights start at `confidence` or -1 - confidence
    replays: int = 9  # r: after each new sample
    pick: str = "least"  # one of PICKS: a replay takes a random slot, one of a random class, or one of the class presented least
    weighted: bool = False  # accept an update with probability (least presented + 1) / (presented + 1)
    prototype: int = 0  # first presentations of a new class that add the input to its row, whatever the scores
    seed: int = 1  # of the registers
    # With "nearest-mean": a class learns a limit from its own samples; the answer to one whose largest score is below it is "unknown".
    unknown: bool = False
    forget: bool = False  # classes can be forgotten one by one

    def verify(self):
        """Raise UsageError at the first value that is not legal."""
        for name, low, high in (("max_classes", 1, 1024), ("slots", 1, MAX_SLOTS), ("counter_bits", 1, 8), ("hidden_counter_bits", 0, 8),
                                ("temperature", 1, 4096), ("margin", 0, 2 ** 20), ("thinning", 0, 8), ("hidden_thinning", 0, 8),
                                ("gate", 0, 2 ** 20), ("confidence", 0, 127), ("replays", 0, 255), ("prototype", 0, 255),
                                ("seed", 0, 2 ** 32 - 1)):
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise UsageError(f"{name}: found {show(value)}, expected a whole number from {low} to {high}")
        for name, legal in (("rule", RULES), ("pick", PICKS)):
            if not isinstance(value := getattr(self, name), str) or value not in legal:
                raise UsageError(f"{name}: found {show(value)}, expected one of {', '.join(legal)}")
        for name in ("weighted", "unknown", "forget"):
            if not isinstance(value := getattr(self, name), bool):
                raise UsageError(f"{name}: found {show(value)}, expected True or False")
        if self.unknown and self.rule != NEAREST_MEAN:
            raise UsageError(f"unknown: expected False with the rule {self.rule}; {NEAREST_MEAN} alone has scores of one scale")
        if self.forget and self.prototype >= FORGOTTEN:
            raise UsageError(f"prototype: found {self.prototype}, expected below {FORGOTTEN} where classes can be forgotten")
        if self.rule in TWO_BITS and self.counter_bits < TWO_BITS_WIDTH:
            raise UsageError(f"counter_bits: found {self.counter_bits}, expected at least {TWO_BITS_WIDTH} with the rule {self.rule}")
        if self.adds:
            for name in ("replays", "thinning", "prototype", "hidden_counter_bits"):
                if value := getattr(self, name):
                    raise UsageError(f"{name}: found {value}, expected 0 with the rule {self.rule}, which moves one row by every sample")
            if self.weighted:
                raise UsageError(f"weighted: expected False with the rule {self.rule}, which moves one row by every sample")
        for name in ("counter_bits", "hidden_counter_bits"):
            width = getattr(self, name)
            if width and self.confidence >= 2 ** (width - 1):
                raise UsageError(f"confidence: found {self.confidence}, expected below {2 ** (width - 1)}, half the range of "
                                 f"{name} = {width}")

    @property
    def adds(self):
        """Whether every sample moves the row of its class and nothing else."""
        return self.rule in ADDING

    @property
    def planes(self):
        """Binary rows of a class that a score is the sum of."""
        return 4 if self.rule in TWO_BITS else 1

    def strong(self, presented):
        """With weights of two bits: the least counter of a weight that counts three times.  presented: count of its class."""
        return presented >> 1 if self.rule == NEAREST_MEAN else 3 * 2 ** self.counter_bits // 8

    @property
    def most_presented(self):
        """The largest count of presentations.  With the rule "nearest-mean", a class's sums cannot run over up to so many samples."""
        return 2 ** (self.counter_bits - 1) - 1 if self.rule == NEAREST_MEAN else 2 ** PRESENTED_BITS - 2

    def forgotten_score(self, fan_in):
        """The score of a forgotten class, below all that others can have."""
        return -2 - fan_in * self.planes

    def known_score(self, fan_in):
        """With `unknown`: a score from which on the answer is the class, whatever its limit.

        Pictures of one lesson may be more alike than a class will ever be; a limit from them alone would be too high.
        docs/results/teach.md has what other shares of the features than eleven eighths give.
        """
        return fan_in + 3 * fan_in // 8

    def to_dict(self):
        return asdict(self)

    def ledger(self, head):
        """Bits of memory: counters (the weight is each one's top bit), hidden weights, replay slots with labels, counts of classes."""
        label = max(1, math.ceil(math.log2(self.max_classes)))
        hidden = head.hidden * head.hidden_fan_in * max(1, self.hidden_counter_bits)
        parts = {"output_counter_bits": self.max_classes * head.fan_in * self.counter_bits, "hidden_counter_bits": hidden,
                 "latent_bits": self.slots * head.latent, "label_bits": self.slots * label,
                 "count_bits": self.max_classes * (self.slots.bit_length() + PRESENTED_BITS + (8 if self.prototype else 0))}
        return {**parts, "total_bits": sum(parts.values())}
