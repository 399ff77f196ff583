"""The choices of a training run, in one table.  No torch here: the command line reads it."""

import math
from dataclasses import dataclass, field, fields

from ..base.errors import UsageError

MOST = 1_000_000


def _choice(default, text, legal, expected):
    return field(default=default, metadata={"help": text, "legal": legal, "expected": expected})


def _count(default, text, least=1):
    return _choice(default, text, lambda v: least <= v <= MOST, f"{least} to {MOST:,}")


def _positive(default, text):
    return _choice(default, text, lambda v: 0 < v < math.inf, "a positive number")


def _constant(default, text):
    return _choice(default, text, lambda v: 1 / MOST <= v <= MOST, f"a number from 1e-6 to {MOST:,}")


def _share(default, text):
    return _choice(default, text, lambda v: 0 <= v < 1, "0 <= share < 1")


def _switch(default, text):
    return field(default=default, metadata={"help": text})


def _one_of(default, text, *choices):
    metadata = {"help": text, "legal": lambda v: v in choices, "expected": " or ".join(choices), "choices": choices}
    return field(default=default, metadata=metadata)


_BETA = (lambda v: 0 <= v <= 100, "a number from 0 to 100")


@dataclass(frozen=True)
class TrainConfig:
    """The recipe of a training run.  Each field is a flag of `fbnn-hw train`.

    The metadata of a field holds its `help`, its `legal` values as a function, and `expected`, the
    same in words.
    """

    epochs: int = _count(100, "at most this many passes over the training set")
    batch: int = _count(64, "images in a step")
    lr: float = _positive(1e-4, "rate of Adam at the start")
    schedule: str = _one_of("plateau", "of the rate: plateau halves it when the validation loss stalls, cosine ends at 0",
                            "plateau", "cosine")
    patience: int = _count(20, "stop after so many epochs without a better validation accuracy (cil: loss); 0: never", 0)
    validation: float = _share(0.1, "share of the training set kept for validation")
    augment: bool = _switch(True, "no mirroring, shift and contrast")
    seed: int = _choice(0, "of weights, split, order and augmentation", lambda v: 0 <= v < 2 ** 32, "a whole number from 0, below 2^32")
    K: float = _constant(1.0, "scale of the layers, K / sqrt(fan-in)")
    c: float = _constant(5.0, "constant of the logits' scale, 1 / sqrt(c * fan-in * classes)")
    limit: float = _constant(1.0, "width of the straight-through estimator")
    shift: int = _choice(4, "augmentation moves images by up to this many pixels", lambda v: 0 <= v <= 512, "0 to 512")
    contrast: float = _choice(0.2, "augmentation scales contrast by 1 - X to 1 + X", lambda v: 0 <= v <= 1, "a number from 0 to 1")
    centre: bool = _switch(False, "keep the mean of each output channel's proxies at 0")
    ties: str = _one_of("up", "what a dot product of 0 becomes in training: up, +1 as everywhere else, or +1 or -1 at random",
                        "up", "random")
    distil: float = _choice(0.5, "share of the teacher in the loss", lambda v: 0 < v <= 1, "a share above 0, at most 1")
    temperature: float = _positive(4.0, "of the teacher's softened probabilities")
    teacher_views: str = _one_of("augmented", "what the teacher answers: every augmented image, or each image and its mirror image once, "
                                 "at the start, so that no step waits for the teacher", "augmented", "mirrored")
    precision: str = _one_of("float32", "of activations and gradients; bfloat16 gives the same bits forward and is faster where the "
                             "processor has it", "float32", "bfloat16")
    norm: str = _one_of("scales", "bn: batch norm before each sign, folded into integer thresholds in the checkpoint", "scales", "bn")
    statistics: int = _count(100, "with --norm bn: batches by which its statistics are estimated again at the end of an epoch; 0: none", 0)
    float_epochs: int = _count(0, "with --norm bn: epochs at the start whose activations are clamp(u, -1, 1), not bits", 0)
    warmup: int = _count(0, "epochs in which the rate rises to --lr", 0)
    decay: float = _choice(0.0, "weight decay, times the rate", lambda v: 0 <= v < math.inf, "0 or more")
    ema: float = _share(0.0, "the epochs' networks have the moving average of the proxies, with this share of the past in each step")
    smoothing: float = _share(0.0, "label smoothing of the cross-entropy")
    mirror: str = _one_of("random", "images are mirrored at random, in turn from epoch to epoch, or not at all", "random", "alternating",
                          "none")
    warp: float = _share(0.0, "augmentation turns, scales and shears images by a matrix whose entries are off by up to X")
    cutout: int = _choice(0, "augmentation makes a square of N pixels a side grey; 0: none", lambda v: 0 <= v <= 512, "0 to 512")
    mixup: float = _choice(0.0, "images and labels of a step are mixed in pairs, with a share of Beta(X, X); 0: not", *_BETA)
    cutmix: float = _choice(0.0, "images have a box of another one and a share of its label, of Beta(X, X); 0: not", *_BETA)
    proxies: str = _one_of("masked", "of weights, beyond +-1: masked, without a gradient; open, with it; clipped to +-1 after each step; "
                           "pulled, with it and back by a hundredth of what is beyond", "masked", "open", "clipped", "pulled")
    estimator: str = _one_of("clip", "of the gradient of a sign: clip, the identity inside --limit; polynomial, 2 - 2 |u| / limit there",
                             "clip", "polynomial")
    restarts: int = _count(0, "with cosine: times that the rate, Adam and the proxies, from their bits, begin anew", 0)

    @property
    def cycle(self) -> int:
        """Epochs from one restart to the next."""
        return self.epochs // (self.restarts + 1)

    def verify(self) -> None:
        """Raise UsageError at the first flag whose value is not legal or does not fit the others."""
        for option in fields(self):
            value = getattr(self, option.name)
            if "legal" in option.metadata and not option.metadata["legal"](value):
                raise UsageError(f"{flag(option.name)} {value}: expected {option.metadata['expected']}")
        if self.validation == 0 and (self.schedule == "plateau" or self.patience):
            raise UsageError("--validation 0: plateau and --patience need a validation split; use --schedule cosine --patience 0")
        if self.norm == "bn" and self.ties != "up":
            raise UsageError(f"--ties {self.ties}: batch norm leaves no ties, expected --norm scales")
        if self.float_epochs and self.norm != "bn":
            raise UsageError(f"--float-epochs {self.float_epochs}: scales have no float activations, expected --norm bn")
        for name in ("float_epochs", "warmup"):
            if getattr(self, name) >= self.epochs:
                raise UsageError(f"{flag(name)} {getattr(self, name)}: leaves no other epoch, expected fewer than --epochs {self.epochs}")
        self._verify_restarts()
        if self.mixup and self.cutmix:
            raise UsageError(f"--mixup {self.mixup:g} and --cutmix {self.cutmix:g}: expected one of them")
        if self.cutout and not self.augment:
            raise UsageError(f"--cutout {self.cutout}: is part of the augmentation, expected no --no-augment with it")
        if self.teacher_views == "mirrored" and self.augment and (self.mirror == "random" or self.warp):
            augmentation = "--mirror random" if self.mirror == "random" else f"--warp {self.warp:g}"
            raise UsageError(f"--teacher-views mirrored: keeps the answers to each image and its mirror image, found {augmentation}; "
                             "expected --mirror alternating or none, and no --warp")
        if self.warmup and self.schedule != "cosine":
            raise UsageError(f"--warmup {self.warmup}: expected --schedule cosine with it")

    def _verify_restarts(self):
        if self.restarts and self.schedule != "cosine":
            raise UsageError(f"--restarts {self.restarts}: expected --schedule cosine with it")
        if self.epochs % (self.restarts + 1):
            raise UsageError(f"--restarts {self.restarts}: makes {self.restarts + 1} cycles of equal length, expected a multiple of "
                             f"{self.restarts + 1} in place of --epochs {self.epochs}")
        if self.restarts and max(self.warmup, self.float_epochs) >= self.cycle:
            name = "warmup" if self.warmup >= self.cycle else "float_epochs"
            raise UsageError(f"{flag(name)} {getattr(self, name)}: takes the first of {self.restarts + 1} cycles, expected fewer than "
                             f"{self.cycle}")

    def verify_split(self, count: int, validation: int) -> None:
        """Raise UsageError where the recipe needs a validation split and `validation` of `count` training images leave none."""
        if not validation and (self.schedule == "plateau" or self.patience):
            raise UsageError(f"--validation {self.validation:g}: leaves none of {count} training images for validation, which plateau and "
                             f"--patience need; use more images, or --schedule cosine --patience 0")


def flag(name: str) -> str:
    """The flag of a field: --float-epochs for float_epochs, and --no-augment for augment, which is on without it."""
    return f"--{'no-' if getattr(TrainConfig, name, None) is True else ''}{name.replace('_', '-')}"
