"""Class-incremental scenarios as data: which classes come when (paper, sections `eval_methodo` and `val`).  No torch here.

RPT, retained pre-training task: the classes of the pre-training stay, so the network ends with all of them.
FPT, forgotten pre-training task: the pre-training teaches the feature extractor alone; its classes are gone afterwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..base import plugins
from ..base.errors import UsageError, nearest, show, whole

SETTINGS = ("rpt", "fpt")
ORDERS = ("listed", "random")


@dataclass(frozen=True)
class Scenario:
    """Which classes come when.

    data, pretrain_data: names of data sets, that of the tasks and that of the pre-training.
    base: classes of `data` that the pre-training takes, the first ones of the order.  0: the pre-training takes
    all classes of another data set; where `pretrain_data` is None there is no pre-training.
    tasks, per_task: tasks, and classes of each.
    """

    name: str
    data: str
    pretrain_data: str | None
    base: int
    tasks: int
    per_task: int
    order: str = "listed"  # "listed", or "random", drawn by the seed
    unlabeled: bool = False  # whether the pre-training has unlabeled images, too

    @property
    def classes(self) -> int:
        return self.base + self.tasks * self.per_task

    def arriving(self, setting: str) -> int:
        """Classes of all tasks, with setting "rpt" those of the pre-training too."""
        return self.classes - self.base * (setting == "fpt")

    @property
    def settings(self) -> tuple[str, ...]:
        return SETTINGS if self.base else ("fpt",)

    def verify(self) -> None:
        """Raises UsageError where a field has no value that a scenario can have."""
        for name, low in (("base", 0), ("tasks", 1), ("per_task", 1)):
            if not whole(getattr(self, name), low):
                raise UsageError(f"--scenario {self.name}: {name} is {show(getattr(self, name))}, expected a whole number from {low}")
        if self.order not in ORDERS:
            raise UsageError(f"--scenario {self.name}: order is {show(self.order)}, expected {' or '.join(ORDERS)}")
        from ..data.datasets import DATASETS  # here: the scenarios of the package are not verified at start-up

        for name in ("data", "pretrain_data"):
            if getattr(self, name) not in DATASETS and not (name == "pretrain_data" and self.pretrain_data is None and not self.base):
                raise UsageError(f"--scenario {self.name}: {name} is {show(getattr(self, name))}, expected one of {', '.join(DATASETS)}")

    def verify_classes(self, names: Sequence[str]) -> None:
        """Raises UsageError where the data set of the tasks has fewer classes than the scenario.  names: of the data set's classes."""
        if self.classes > len(names):
            raise UsageError(f"--scenario {self.name}: has {self.classes} classes, {self.data} has {len(names)}; expected no more")

    def class_order(self, seed: int, again: int | None = None) -> tuple[int, ...]:
        """Class numbers in the order of their arrival, a tuple; those of the pre-training come first.

        again: seed of another order of the classes after the pre-training; None keeps the scenario's.
        """
        order = list(range(self.classes) if self.order == "listed" else np.random.default_rng(seed).permutation(self.classes))
        if again is not None:
            order = [*order[:self.base], *np.random.default_rng((again, 4)).permutation(order[self.base:])]
        return tuple(int(i) for i in order)

    def ordered(self, seed: int, again: int | None = None) -> tuple[int, ...]:
        """What `class_order` gives, which may be another's.  Raises UsageError where that is not enough classes, each once."""
        from ..data.datasets import DATASETS

        given, most = self.class_order(seed, again), max(self.classes, DATASETS[self.data].classes)  # too many are for `verify_classes`
        order = list(given) if np.iterable(given) else [given]
        wrong = next((show(c) for place, c in enumerate(order) if not whole(c, 0, most) or c in order[:place]), None)
        if wrong or len(order) < self.classes:
            raise UsageError(f"--scenario {self.name}: class_order gives {wrong or f'{len(order)} numbers'}, expected {self.classes} or "
                             f"more numbers of classes of {self.data}, 0 to {most - 1}, each once")
        return tuple(int(c) for c in order)

    def split(self, seed: int, setting: str, again: int | None = None) -> list[tuple[int, ...]]:
        """The tasks, a list of tuples of class numbers.

        With setting "rpt" the classes of the pre-training come first, as a task already learned.
        again: as of `class_order`.  Raises UsageError where the scenario has no such setting, or as `ordered`.
        """
        if setting not in self.settings:
            raise UsageError(f"--setting {setting}: {self.name} has no classes of its own in the pre-training, expected fpt")
        order = self.ordered(seed, again)
        starts = [self.base + i * self.per_task for i in range(self.tasks)]
        tasks = [order[start:start + self.per_task] for start in starts]
        return ([order[:self.base]] if setting == "rpt" else []) + tasks


SCENARIOS = {s.name: s for s in (
    Scenario("cifar100-50+5x10", "cifar100", "cifar100", 50, 5, 10),
    Scenario("cifar100-10x10", "cifar100", None, 0, 10, 10),
    Scenario("core50-10x5", "core50", "stl10", 0, 10, 5, order="random", unlabeled=True),
    Scenario("cifar10-4+3x2", "cifar10", "cifar10", 4, 3, 2),
    Scenario("omniglot-25x10", "omniglot", "omniglot-background", 0, 25, 10),
    Scenario("tiny-2+2x2", "tiny", "tiny", 2, 2, 2),
)}


def get(name: str) -> Scenario:
    """The `Scenario` of a value of --scenario.

    name: one of SCENARIOS, or module:NAME of a `Scenario` elsewhere, which is then added to
    SCENARIOS.  Raises UsageError where there is none.
    """
    if ":" in name and name not in SCENARIOS:
        scenario = plugins.load(name, f"--scenario {name}", here=True)
        if not isinstance(scenario, Scenario):
            raise UsageError(f"--scenario {name}: is no fbnn_hw.train.scenarios.Scenario, expected one")
        scenario = replace(scenario, name=name)
        scenario.verify()
        SCENARIOS[name] = scenario
    if name not in SCENARIOS:
        raise UsageError(f"--scenario {name}: expected one of {', '.join(SCENARIOS)}, or module:NAME{nearest(name, SCENARIOS)}")
    return SCENARIOS[name]
