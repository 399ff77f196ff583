"""The choices of a training run.  No torch here: the command line reads the defaults."""

import math
from dataclasses import dataclass

from ..errors import UsageError

CHOICES = {"schedule": ("plateau", "cosine"), "ties": ("up", "random"), "precision": ("float32", "bfloat16")}
MOST = 1_000_000


@dataclass(frozen=True)
class TrainConfig:
    """epochs, batch: counts.  lr: initial rate of Adam.  schedule: "plateau" or "cosine".  patience: epochs without a better
    validation accuracy before the run stops (0: never).  validation: share of the training set kept for validation.
    shift, contrast: strength of the augmentation, see `fbnn_hw.data.augment`.  K, c, limit: see `fbnn_hw.nn.network.FBNN`.
    centre: subtract from the proxies of each output channel their mean after each step.  ties: what a dot product of 0 becomes in training,
    "up" +1 as everywhere else, or "random" +1 or -1, drawn for each channel and step.  distil: share of the teacher in the loss,
    temperature: of its softened probabilities, see `fbnn_hw.nn.losses.distillation`.  precision: of maps and their gradients, "float32" or
    "bfloat16", see `fbnn_hw.nn.network.FBNN`."""

    epochs: int = 100
    batch: int = 64
    lr: float = 1e-4
    schedule: str = "plateau"
    patience: int = 20
    validation: float = 0.1
    augment: bool = True
    seed: int = 0
    K: float = 1.0
    c: float = 5.0
    limit: float = 1.0
    shift: int = 4
    contrast: float = 0.2
    centre: bool = False
    ties: str = "up"
    distil: float = 0.5
    temperature: float = 4.0
    precision: str = "float32"

    def verify(self):
        for condition, flag, expected in (
                (1 <= self.epochs <= MOST, "epochs", f"1 to {MOST:,}"), (1 <= self.batch <= MOST, "batch", f"1 to {MOST:,}"),
                (0 < self.lr < math.inf, "lr", "a positive number"),
                (0 <= self.patience <= MOST, "patience", f"0 to {MOST:,}"), (0 <= self.validation < 1, "validation", "0 <= share < 1"),
                *((1 / MOST <= getattr(self, name) <= MOST, name, f"a number from 1e-6 to {MOST:,}") for name in ("K", "c", "limit")),
                (0 <= self.shift <= 512, "shift", "0 to 512"),
                (0 <= self.contrast <= 1, "contrast", "a number from 0 to 1"),
                (0 < self.distil <= 1, "distil", "a share above 0, at most 1"),
                (0 < self.temperature < math.inf, "temperature", "a positive number"),
                *((getattr(self, flag) in legal, flag, " or ".join(legal)) for flag, legal in CHOICES.items())):
            if not condition:
                raise UsageError(f"--{flag} {getattr(self, flag)}: expected {expected}")
        if self.validation == 0 and (self.schedule == "plateau" or self.patience):
            raise UsageError("--validation 0: plateau and --patience need a validation split; use --schedule cosine --patience 0")

    def verify_split(self, count, held):
        """Raises UsageError where `held` of `count` training images are too few for what the recipe decides by them."""
        if not held and (self.schedule == "plateau" or self.patience):
            raise UsageError(f"--validation {self.validation:g}: leaves none of {count} training images for validation, which plateau and "
                             f"--patience need; use more images, or --schedule cosine --patience 0")
