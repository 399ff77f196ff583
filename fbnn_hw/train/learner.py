"""Strategies of `cil` that keep their own state: the problem that they get, and the class that they derive from.  No torch here."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base import plugins
from ..base.errors import UsageError
from .config import TrainConfig

BUILT_IN = {name: f"fbnn_hw.train.{place}" for name, place in {
    "ncm": "comparators:NearestClassMean", "slda": "comparators:StreamingDiscriminant",
    "slda-diagonal": "comparators:DiagonalDiscriminant", "slda-low-rank": "comparators:LowRankDiscriminant",
    "icarl": "comparators:Icarl", "der++": "gradients:DarkReplay", "er-ace": "gradients:AsymmetricReplay",
    "gdumb": "gradients:GreedyDumb", "ewc": "gradients:ElasticWeights", "lwf": "gradients:WithoutForgetting",
    "gbm": "gradients:GenerativeMemory",
}.items()}
"""Names of the field, and the learners behind them."""


@dataclass(frozen=True)
class Problem:
    """The problem of a run, which a learner gets before the first task.

    Attributes
    ----------
    classes : int
        Classes that arrive in all tasks, numbered in the order of their arrival.
    tasks : tuple of tuple of int
        The class numbers of each task.
    latent : int
        Bits of a sample.
    buffer_bits : int
        Memory for exemplars and all that is kept beside each, labels excluded; 0 without --buffer-mb.
    recipe : TrainConfig
        Epochs, rate and so on, as the flags say.
    balanced : bool
        Weigh classes by inverse frequency.
    network : callable
        network() returns a new `FBNN`.  Its layers after the latent are those that replay would
        train, from the same start.
    loss : str
        Name of the loss, as --loss says.
    kind : samples.Latents or samples.Native
        What samples are: kind.logits(network, samples) gives integer logits with a gradient, of a
        tensor of samples, and kind.augment(samples, recipe, generator, None) other views of images.
    """

    classes: int
    tasks: tuple
    latent: int
    buffer_bits: int
    recipe: TrainConfig
    balanced: bool
    network: Callable
    loss: str = "cce"
    kind: Any = None


class Learner:
    """Learns latents, uint8 bits (N, latent), task after task.

    A strategy of your own derives from it and overrides `learn`, `scores` and `memory_bits`.
    `replays` says which values of --replay it takes.  With "native" its samples are the thermometer levels
    of images, uint8 (N, planes, S, S), and all weights of `problem.network()` train.
    `needs_buffer` says whether --buffer-mb must be given, `epochs` how often `learn` goes through the
    samples of a task, 0 where it is no training in epochs; the results repeat that number.
    """

    replays: tuple[str, ...] = ("latent",)
    needs_buffer = False
    epochs = 0

    def __init__(self, problem: Problem):
        self.problem = problem

    def hold(self, latents: np.ndarray, labels: np.ndarray) -> None:
        """The samples of a task that are held back for validation, in the form of `learn`, which comes next.  Without --validation none."""

    def learn(self, latents: np.ndarray, labels: np.ndarray) -> None:
        """Learn the samples of one task, uint8 bits (N, latent), with labels, int64 (N,).  They do not come again."""
        raise NotImplementedError

    def scores(self, latents: np.ndarray) -> np.ndarray:
        """Scores of latents, uint8 bits (N, latent): an array (N, C), where C is at least the number of classes seen.

        The class with the highest score is the answer, the lowest class where several are equal.
        """
        raise NotImplementedError

    def classify(self, latents: np.ndarray) -> np.ndarray:
        """The classes of latents, int64 (N,)."""
        return self.scores(latents).argmax(1)

    @property
    def memory_bits(self) -> int:
        """Bits of all that is kept from one task to the next."""
        raise NotImplementedError

    def network(self) -> Any:
        """The `FBNN` that classifies as `scores` does, for --save.  A learner without one leaves this method alone."""
        raise NotImplementedError

    def state(self) -> dict | None:
        """What `restore` takes: a dict of plain values, arrays and tensors.  None: a resumed run learns its past tasks again."""
        return None

    def restore(self, state: dict) -> None:
        """Take up what `state` returned."""
        raise NotImplementedError


def is_learner(strategy: str) -> bool:
    """Whether the value of --strategy names a `Learner`: a built-in one, or module:NAME."""
    return strategy in BUILT_IN or ":" in strategy


def has_network(strategy: str) -> bool:
    """Whether the learner of a value of --strategy has a network that --save can write."""
    return get(strategy).network is not Learner.network


def knobs(strategy: str) -> dict[str, float]:
    """{name: default} of the numbers of a strategy's own that --knob sets: arguments of its __init__ with a default."""
    parameters = inspect.signature(get(strategy)).parameters.values()
    return {p.name: p.default for p in parameters if type(p.default) in (int, float)}


def make(strategy: str, problem: Problem, given: dict[str, float]) -> Learner:
    """The learner of a value of --strategy.  given: knobs; a strategy refuses what it cannot take."""
    return get(strategy)(problem, **given)


def get(strategy: str) -> type[Learner]:
    """The `Learner` class of a value of --strategy; raises UsageError where there is none."""
    kind = plugins.load(BUILT_IN.get(strategy, strategy), f"--strategy {strategy}", here=True)
    if not (isinstance(kind, type) and issubclass(kind, Learner)):
        raise UsageError(f"--strategy {strategy}: is no fbnn_hw.train.learner.Learner, expected a class that derives from it")
    if missing := [name for name in ("learn", "scores", "memory_bits") if getattr(kind, name) is getattr(Learner, name)]:
        raise UsageError(f"--strategy {strategy}: has no {missing[0]}, expected a class with learn, scores and memory_bits")
    if kind.state is not Learner.state and kind.restore is Learner.restore:
        raise UsageError(f"--strategy {strategy}: has a state and no restore, expected both or neither")
    try:
        inspect.signature(kind).bind(None)
    except TypeError:
        raise UsageError(f"--strategy {strategy}: its __init__ does not take a problem alone, expected __init__(self, problem)") from None
    return kind
