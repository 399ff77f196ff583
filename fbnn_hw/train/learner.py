"""Strategies of `cil` that keep their own state: the problem that they get, and the class that they derive from.  No torch here."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..errors import UsageError
from . import outside
from .config import TrainConfig

BUILT_IN = {
    "ncm": "fbnn_hw.train.comparators:NearestClassMean", "slda": "fbnn_hw.train.comparators:StreamingDiscriminant",
    "icarl": "fbnn_hw.train.comparators:Icarl", "der++": "fbnn_hw.train.comparators:DarkReplay",
}
"""Names of the field, and the learners behind them."""


@dataclass(frozen=True)
class Problem:
    """The problem of a run, which a learner gets before the first task.

    classes: how many arrive in all, numbered in the order of their arrival.  tasks: tuples of these numbers.  latent: bits of a sample.
    buffer_bits: memory for exemplars and whatever is kept beside each of them, labels uncounted; 0 where --buffer-mb is not given.
    recipe: epochs, rate and so on, as the flags say.  balanced: weigh classes by inverse frequency.
    network(): a new `FBNN` whose layers after the latent are those that replay would train, from the same start.
    """

    classes: int
    tasks: tuple
    latent: int
    buffer_bits: int
    recipe: TrainConfig
    balanced: bool
    network: Callable


class Learner:
    """Learns latents, uint8 bits (N, latent), task after task.  A class of one's own overrides `learn`, `scores` and `memory_bits`.

    needs_buffer: whether --buffer-mb must be given.
    """

    needs_buffer = False

    def __init__(self, problem: Problem):
        self.problem = problem

    def learn(self, latents: np.ndarray, labels: np.ndarray) -> None:
        """Learn a task's samples, which are not seen again; labels int64 (N,)."""
        raise NotImplementedError

    def scores(self, latents: np.ndarray) -> np.ndarray:
        """Scores (N, classes seen or more); the highest is the answer, the lowest class where several are."""
        raise NotImplementedError

    @property
    def memory_bits(self) -> int:
        """Bits of everything that is kept from a task to the next."""
        raise NotImplementedError

    def state(self) -> dict | None:
        """Plain values, arrays and tensors that `restore` takes; None: an interrupted run learns its past tasks again."""
        return None

    def restore(self, state: dict) -> None:
        raise NotImplementedError


def is_learner(strategy):
    """Whether the value of --strategy names a `Learner`, known here or elsewhere."""
    return strategy in BUILT_IN or ":" in strategy


def get(strategy):
    """The `Learner` class of a value of --strategy; raises UsageError where there is none."""
    kind = outside.load(BUILT_IN.get(strategy, strategy), "--strategy")
    if not (isinstance(kind, type) and issubclass(kind, Learner)):
        raise UsageError(f"--strategy {strategy}: is no fbnn_hw.train.learner.Learner, expected a class that derives from it")
    return kind
