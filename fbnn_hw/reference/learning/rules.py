"""The rules: which counters of the output layer move after a presentation, and how.

`move` is the method of every rule.  Those of a learner that adds, `LearnConfig.adds`, have no
`rival`, and those without `draws` no `held`:

- `rival(scores, label)` returns the class whose row moves away from the input while the label's
  row moves towards it, or None where nothing is to be learned.  scores is a list; noise has been
  added to it if the rule is `noisy`.
- `move(row, towards, moves, ones)` moves counters of a row in place, see `counters`.
- `held(row, words)` is asked before, where `draws` is set.  It returns the counters that are not to
  move towards zero.  words are HELD_BITS random bits for each counter, uint8 (n,).
"""

from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from functools import lru_cache

import numpy as np

from ...base import bits
from . import counters

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
        drawn = scores.index(max(scores))
        return None if drawn == label else drawn

    move = staticmethod(counters.move)


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
        best = max(score for c, score in enumerate(scores) if c != label)
        return None if scores[label] - best >= self.margin else next(c for c, score in enumerate(scores) if score == best and c != label)

    move = staticmethod(counters.move)


@dataclass(frozen=True)
class Flip(Gumbel):
    """Bop-like flips: the class is drawn as in `Gumbel`; a counter that changes sign goes to the far end of its new side.

    So a weight flips when 2^(B-1) more moves spoke against it than for it, and its evidence then starts from nothing (Helwegen 2019:
    flip where the averaged gradient exceeds a threshold; here the saturated end forgets instead of the average's decay).
    """

    name = "flip"

    def move(self, row, towards, moves, ones):
        before = row[-1]
        counters.move(row, towards, moves, ones)
        crossed, weights = row[-1] ^ before, row[-1]
        for b, plane in enumerate(row):
            row[b] = plane ^ (plane ^ weights) & crossed


@dataclass(frozen=True)
class Metaplastic(Gumbel):
    """`Gumbel` with counters that resist: a move towards zero is the rarer, the farther the counter is from zero.

    Such a move is made with probability 1 - table[k] / 256, where k is h, or -1 - h for a negative h.

    Laborieux, Ernoult, Hirtzlin and Querlioz 2021 (Nat. Commun. 12, 2549) multiply such a move of a
    float by 1 - tanh^2(m |h|).
    """

    table: tuple
    name = "metaplastic"
    draws = True

    def held(self, row, words):
        h = counters.from_planes([row], len(words))[0]
        refused = words < np.array(self.table)[np.where(h < 0, -1 - h, h)]
        return bits.to_integers(refused[None])[0]


@lru_cache
def metaplastic_table(width, slope=2):
    """The 2^(B-1) integers round(256 tanh^2(slope (k + 1/2) / 2^(B-1))), k = 0, 1, ...; ties to even.

    width: B, the bits of a counter.  slope: an integer or a Decimal.  Computed with 40 digits.
    """
    with localcontext() as context:
        context.prec = 40
        powers = [(slope * Decimal(2 * k + 1) / 2 ** (width - 1)).exp() for k in range(2 ** (width - 1))]
        return tuple(int((256 * ((e - 1) / (e + 1)) ** 2).to_integral_value(ROUND_HALF_EVEN)) for e in powers)


@dataclass(frozen=True)
class Prototypes:
    """The label's row moves towards every input, whatever the scores; no other row moves, and nothing is replayed or kept.

    So a counter is a saturating sum of the class's inputs and its sign is the prototype: nearest class mean in one bit a feature.
    """

    name = "prototypes"
    noisy = False
    draws = False
    move = staticmethod(counters.move)


@dataclass(frozen=True)
class Means(Prototypes):
    """`Prototypes` with a finer score: a weight counts three times where the counter is `counters.strong`.

    With the correction of `Learner.logits` for the number of such weights, the nearest class mean in two bits a feature.
    """

    name = "means"


@dataclass(frozen=True)
class NearestMean(Means):
    """`Means` whose weights are strong where the sum is half of the number of samples or more, so that means of 1/4 and 3/4 are compared.

    Sums and number are halved together before a sum could run over; a mean stays as it is.
    """

    name = "nearest-mean"


RULES = {"gumbel": lambda config: Gumbel(), "margin": lambda config: Margin(config.margin), "flip": lambda config: Flip(),
         "metaplastic": lambda config: Metaplastic(metaplastic_table(config.counter_bits)), "prototypes": lambda config: Prototypes(),
         "means": lambda config: Means(), "nearest-mean": lambda config: NearestMean()}
"""Their order is part of the check value of a design, see `snapshot.Design`."""


def make(config):
    """The rule a `LearnConfig` names."""
    return RULES[config.rule](config)
