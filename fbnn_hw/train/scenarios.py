"""Class-incremental scenarios as data: which classes come when (paper, sections `eval_methodo` and `val`).  No torch here.

RPT, retained pre-training task: the classes of the pre-training stay, so the network ends with all of them.
FPT, forgotten pre-training task: the pre-training teaches the feature extractor alone; its classes are gone afterwards.
"""

from dataclasses import dataclass, replace

import numpy as np

from ..errors import UsageError, nearest
from . import outside

SETTINGS = ("rpt", "fpt")


@dataclass(frozen=True)
class Scenario:
    """data, pretrain_data: names in the table of data sets.  base: classes of `data` that the pre-training takes, the first of the
    order (0 where it uses another data set, then all of that one's).  order: "listed", or "random", drawn by the seed."""

    name: str
    data: str
    pretrain_data: str
    base: int
    tasks: int
    per_task: int
    order: str = "listed"
    unlabeled: bool = False

    @property
    def classes(self):
        return self.base + self.tasks * self.per_task

    @property
    def settings(self):
        return SETTINGS if self.base else ("fpt",)

    def class_order(self, seed, again=None):
        """Numbers of the classes in the order they arrive, those of the pre-training first.

        again: seed of another order of those that come after the pre-training's, None for the scenario's.
        """
        order = range(self.classes) if self.order == "listed" else np.random.default_rng(seed).permutation(self.classes)
        if again is not None:
            order = [*order[:self.base], *np.random.default_rng((again, 4)).permutation(list(order[self.base:]))]
        return tuple(int(i) for i in order)

    def split(self, seed, setting, again=None):
        """Tuples of class numbers, one a task; with "rpt" the pre-training's classes come first, as a task already learned.
        again: see `class_order`."""
        if setting not in self.settings:
            raise UsageError(f"--setting {setting}: {self.name} has no classes of its own in the pre-training, expected fpt")
        order = self.class_order(seed, again)
        starts = [self.base + i * self.per_task for i in range(self.tasks)]
        tasks = [order[start:start + self.per_task] for start in starts]
        return ([order[:self.base]] if setting == "rpt" else []) + tasks


SCENARIOS = {s.name: s for s in (
    Scenario("cifar100-50+5x10", "cifar100", "cifar100", 50, 5, 10),
    Scenario("core50-10x5", "core50", "stl10", 0, 10, 5, order="random", unlabeled=True),
    Scenario("cifar10-4+3x2", "cifar10", "cifar10", 4, 3, 2),
    Scenario("omniglot-25x10", "omniglot", "omniglot-background", 0, 25, 10),
    Scenario("tiny-2+2x2", "tiny", "tiny", 2, 2, 2),
)}


def get(name):
    """The `Scenario` of a value of --scenario: a name of the table, or module:NAME of a `Scenario` elsewhere, which then has this name in
    the table.  Raises UsageError where there is none."""
    if ":" in name and name not in SCENARIOS:
        scenario = outside.load(name, "--scenario")
        if not isinstance(scenario, Scenario):
            raise UsageError(f"--scenario {name}: is no fbnn_hw.train.scenarios.Scenario, expected one")
        SCENARIOS[name] = replace(scenario, name=name)
    if name not in SCENARIOS:
        raise UsageError(f"--scenario {name}: expected one of {', '.join(SCENARIOS)}, or module:NAME{nearest(name, SCENARIOS)}")
    return SCENARIOS[name]
