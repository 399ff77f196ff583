"""The choices of a class-incremental run.  No torch here: the command line reads the defaults."""

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from ..base.errors import UsageError, nearest
from . import learner, scenarios
from .config import TrainConfig, flag

STRATEGIES = ("replay", "naive", "naive-reset", "cumulative", "cumulative-reset", "offline")
REPLAYS = ("native", "latent")
LOSS_NAMES = ("cce", "focal", "sh")
MOST_MB = 1_000_000
"""Of a buffer, far more than any data set of images has."""
OF_IMAGES = ("augment", "shift", "contrast", "mirror", "warp", "ties", "norm", "float_epochs")
"""Fields of the recipe that mean nothing for a classifier on latents: it has no augmentation and no batch norm."""
OF_TRAIN = ("cutout", "mixup", "cutmix", "proxies", "estimator", "restarts")
"""Fields of the recipe that no retraining has."""
OF_REPLAY = ("centre", "ema", "smoothing")
"""Fields of the recipe that the learners of `learner.BUILT_IN` do not have."""


@dataclass(frozen=True)
class CilConfig:
    """The configuration of a class-incremental run.  Each field is a flag of `fbnn-hw cil`.

    strategy: "replay" keeps a buffer of `buffer_mb` megabits, "naive" keeps nothing, "cumulative" keeps all
    samples, "offline" sees all tasks at once.  With "-reset" each task starts from random weights.  Others,
    and module:Class, are learners of their own (`learner`).  loss, balanced, nu: see `nn.losses`.
    """

    scenario: str  # name of a `scenarios.Scenario`
    strategy: str = "replay"
    replay: str = "latent"  # "native" trains the whole network on images, "latent" the classifier alone on latents
    buffer_mb: float = 0.0
    setting: str = "fpt"  # "rpt" or "fpt", see `scenarios`
    loss: str = "cce"
    balanced: bool = False
    nu: float = 2.0
    aware: bool = False  # only the logits of the sample's own task take part, in training and test (task-incremental)
    curves: bool = False  # compute all metrics after each epoch, too
    images: int = 0  # training images of each class; 0: all
    class_order: int | None = None  # seed of another order of the classes after the pre-training; None keeps the scenario's
    teacher: str | None = None  # SHA-256 of a `teacher.Teacher` of the classes to come
    knobs: dict[str, float] = field(default_factory=dict)  # numbers of the strategy's own, {name: value}, see `learner.knobs`
    recipe: TrainConfig = field(default_factory=TrainConfig)  # of each retraining

    def verify(self) -> None:
        scenario = scenarios.get(self.scenario)
        for name, legal in (("replay", REPLAYS), ("setting", scenarios.SETTINGS), ("loss", LOSS_NAMES)):
            if getattr(self, name) not in legal:
                raise UsageError(f"--{name} {getattr(self, name)}: expected one of {', '.join(legal)}")
        scenario.split(self.recipe.seed, self.setting, self.class_order)
        own, built_in = learner.is_learner(self.strategy), self.strategy in learner.BUILT_IN
        if not own and self.strategy not in STRATEGIES:
            raise UsageError(f"--strategy {self.strategy}: expected one of {', '.join((*STRATEGIES, *learner.BUILT_IN))}, or module:Class"
                             f"{nearest(self.strategy, (*STRATEGIES, *learner.BUILT_IN))}")
        needs = learner.get(self.strategy).needs_buffer if own else self.strategy == "replay"
        if needs and not 0 < self.buffer_mb <= MOST_MB:
            raise UsageError(f"--buffer-mb {self.buffer_mb:g}: expected megabits above 0, at most {MOST_MB:,}, with --strategy "
                             f"{self.strategy}{'' if own else '; --strategy naive keeps nothing'}")
        if not needs and self.buffer_mb and (built_in or not own):
            raise UsageError(f"--buffer-mb {self.buffer_mb:g}: --strategy {self.strategy} has no buffer, expected "
                             f"{'none' if own else '--strategy replay'}")
        if own:
            self._verify_learner(built_in)
        self._verify_knobs(learner.knobs(self.strategy) if own else {})
        if self.balanced and self.strategy.startswith("naive"):
            raise UsageError(f"--balanced: with --strategy {self.strategy} past classes have no samples, so their inverse frequency is "
                             f"infinite; expected replay, cumulative or offline")
        if self.aware and self.strategy == "offline":
            raise UsageError("--aware: --strategy offline has one task, expected a strategy with several")
        if not 0 <= self.nu < math.inf:
            raise UsageError(f"--nu {self.nu}: expected 0 or more")
        if self.nu != type(self).nu and self.loss != "focal":
            raise UsageError(f"--nu {self.nu:g}: the loss is {self.loss}, which has no such exponent; expected --loss focal")
        if self.setting == "rpt" and self.strategy.endswith("reset"):
            raise UsageError(f"--setting rpt: --strategy {self.strategy} forgets the pre-training, expected fpt")
        self.recipe.verify()
        self._refuse(OF_TRAIN, "has no meaning in class-incremental training, expected it with train or pretrain")
        if self.replay == "latent":
            self._refuse(OF_IMAGES, "--replay latent trains the classifier alone, on latents; expected --replay native with it")
        if self.loss != "cce":
            self._refuse(("smoothing",), f"the loss is {self.loss}, which has no such target; expected --loss cce")
        if self.aware and self.teacher:
            raise UsageError("--teacher: answers for all classes seen, --aware trains each task alone; expected one of them")
        if self.recipe.norm == "bn" and self.recipe.batch == 1:
            raise UsageError("--batch 1: batch norm has no statistics of one image, expected at least 2")

    def _verify_knobs(self, defaults):
        for name, value in self.knobs.items():
            if name not in defaults:
                raise UsageError(f"--knob {name}={value:g}: --strategy {self.strategy} has no such knob, expected "
                                 f"{' or '.join(defaults) or 'none'}")
            whole = isinstance(defaults[name], int)
            if not 0 <= value < math.inf or whole and value != int(value):
                raise UsageError(f"--knob {name}={value:g}: expected a {'whole ' * whole}number from 0")

    def _refuse(self, names, reason):
        """Raises UsageError where a field of the recipe in `names` is not the default."""
        for name in names:
            if (value := getattr(self.recipe, name)) != getattr(TrainConfig, name):
                raise UsageError(f"{flag(name)}{'' if isinstance(value, bool) else f' {value}'}: {reason}")

    def _verify_learner(self, built_in):
        replays = learner.get(self.strategy).replays
        if self.replay not in replays:
            what = "latents" if self.replay == "native" else "images"
            raise UsageError(f"--replay {self.replay}: --strategy {self.strategy} learns {what}, expected --replay {' or '.join(replays)}")
        if built_in and (self.balanced or self.loss != type(self).loss):
            option = "--balanced" if self.balanced else f"--loss {self.loss}"
            raise UsageError(f"{option}: has no meaning with --strategy {self.strategy}, expected --strategy replay with it")
        if self.teacher:
            raise UsageError(f"--teacher: --strategy {self.strategy} takes no answers of a teacher, expected --strategy replay with it")
        if built_in:
            self._refuse(OF_REPLAY, f"has no meaning with --strategy {self.strategy}, expected --strategy replay with it")
        if self.curves:
            raise UsageError(f"--curves: --strategy {self.strategy} has no epochs to show, expected none")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
