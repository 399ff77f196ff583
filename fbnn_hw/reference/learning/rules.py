"""Which counters of the output layer move after a presentation, and how.

A rule has three methods.  `rival(scores, label)`, of scores with noise if it is `noisy`, gives the class whose row moves away from
the input while the label's row moves towards it, or None where nothing is to be learned.  `step(counters, change, moves, low, high)`
moves counters (..., n) in place; `change` is np.add or np.subtract, low and high are arrays (n,), for numpy is slower with numbers.
`held(counters, moves, words)` gives the moves (n,), signed, less those that are not made; where `draws` is set, it is asked first,
with words of HELD_BITS random bits.

Counters are kept here as h + 1/2, a float32 that is exact: the integer h of B bits runs from -2^(B-1) to 2^(B-1) - 1, so h + 1/2 runs
from low = -high to high = 2^(B-1) - 1/2, and the weight sign(h) (sign(0) = +1) is the sign of h + 1/2, which is never 0.
"""

from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from functools import lru_cache

import numpy as np

TABLE_SIZE = 256
HELD_BITS = 8


@lru_cache
def gumbel_table(temperature):
    """Tuple of 256 integers: round(temperature * G_i), ties to even, G_i = -ln(-ln((i + 1/2) / 256)), the quantiles of the standard
    Gumbel law.

    Computed with 40 digits, so that it is the same on every machine.  temperature: integer, 1 / alpha.
    """
    with localcontext() as context:
        context.prec = 40
        return tuple(int((-(-((Decimal(2 * i + 1) / (2 * TABLE_SIZE)).ln())).ln() * temperature).to_integral_value(ROUND_HALF_EVEN))
                     for i in range(TABLE_SIZE))


def _plain(counters, change, moves, low, high):
    change(counters, moves, out=counters)
    np.minimum(counters, high, out=counters)
    np.maximum(counters, low, out=counters)


@dataclass(frozen=True)
class Gumbel:
    """Draw a class from softmax(scores / temperature) by adding Gumbel noise; learn where it is not the label.

    The move is an unbiased one-sample estimate of the gradient p - onehot(label) of softmax cross-entropy: a row's expected move is
    input * (onehot - p).
    """

    name = "gumbel"
    noisy = True
    draws = False

    def rival(self, scores, label):
        found = int(scores.argmax())
        return None if found == label else found

    step = staticmethod(_plain)


@dataclass(frozen=True)
class Margin:
    """Perceptron with a margin: learn where the label's score does not lead the best other one by at least `margin`."""

    margin: int = 0
    name = "margin"
    noisy = False
    draws = False

    def rival(self, scores, label):
        if len(scores) == 1:
            return None
        others = scores.copy()
        others[label] = -np.inf
        found = int(others.argmax())
        return None if scores[label] - scores[found] >= self.margin else found

    step = staticmethod(_plain)


@dataclass(frozen=True)
class Flip(Gumbel):
    """Bop-like flips: the class is drawn as in `Gumbel`; a counter that changes sign goes to the far end of its new side.

    So a weight flips when 2^(B-1) more moves spoke against it than for it, and its evidence then starts from nothing (Helwegen 2019:
    flip where the averaged gradient exceeds a threshold; here the saturated end forgets instead of the average's decay).
    """

    name = "flip"

    def step(self, counters, change, moves, low, high):
        before = np.signbit(counters)
        _plain(counters, change, moves, low, high)
        crossed = np.signbit(counters) != before
        counters[crossed] = np.copysign(high[0], counters[crossed])


@dataclass(frozen=True)
class Metaplastic(Gumbel):
    """`Gumbel` whose counters are the harder to bring back the farther they are from zero: a step towards zero is made with probability
    1 - table[k] / 256, k = h, or -1 - h of a negative h.

    Laborieux, Ernoult, Hirtzlin and Querlioz 2021 (Nat. Commun. 12, 2549), who multiply such steps of a float by 1 - tanh^2(m |h|).
    """

    table: tuple
    name = "metaplastic"
    draws = True

    def held(self, counters, moves, words):
        refused = words < np.array(self.table, np.float32)[np.abs(counters).astype(int)]
        return moves * ((moves * counters > 0) | ~refused)


@lru_cache
def metaplastic_table(width):
    """Tuple of 2^(B-1) integers for counters of B = `width` bits: round(256 tanh^2((2 k + 1) / 2^(B-1))), ties to even; with 40 digits."""
    with localcontext() as context:
        context.prec = 40
        powers = [(Decimal(2 * (2 * k + 1)) / 2 ** (width - 1)).exp() for k in range(2 ** (width - 1))]
        return tuple(int((256 * ((e - 1) / (e + 1)) ** 2).to_integral_value(ROUND_HALF_EVEN)) for e in powers)


def make(config):
    """The rule a `LearnConfig` names."""
    return {"gumbel": Gumbel, "flip": Flip, "margin": lambda: Margin(config.margin),
            "metaplastic": lambda: Metaplastic(metaplastic_table(config.counter_bits))}[config.rule]()


RULES = ("gumbel", "margin", "flip", "metaplastic")
