"""Single-stage training of an FBNN on a whole data set (paper, sections `eval_methodo` and `key_cil`).

The state of a run (proxies, optimizer, scheduler, RNG, position inside the epoch, history) is one file; a run that was
interrupted and resumed gives the very numbers of one that was not.
"""

import math
import signal
import time
import zlib
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from ..base.errors import InputError, UsageError, whole
from ..base.progress import silent
from ..data.augment import augment, cutout, mix, warp
from ..nn import checkpoint
from ..nn.norm import Norm
from .config import TrainConfig
from .fit import Fit, check_records, fits

STATE_FORMAT = "fbnn-hw training state"
STATE_VERSION = 1
LOOK = 250
"""Images that a teacher sees at once before the first step."""


def split(count: int, share: float, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Split the indices of `count` samples into (training, validation), int64 tensors; the draw depends on `seed` alone.

    share: of the validation split, 0 to 1.
    """
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    validation = round(count * share)
    return order[validation:], order[:validation]


@torch.no_grad()
def predict(model: Any, images: torch.Tensor, batch: int = 500, progress: Callable = silent) -> torch.Tensor:
    """The integer logits (N, classes), on the CPU, of images, uint8 (N, 3, S, S): `batch` at a time, on the model's device."""
    device = next(model.parameters()).device
    parts = [model.logits(images[i:i + batch].to(device)).cpu() for i in progress(range(0, len(images), batch))]
    return torch.cat(parts) if parts else torch.empty(0, len(model.topology.classes))


def evaluate(model: Any, images: torch.Tensor, labels: torch.Tensor, progress: Callable = silent) -> tuple[float | None, float | None]:
    """(accuracy 0 to 1, mean cross-entropy) on images, uint8 (N, 3, S, S), with labels, int64 (N,); (None, None) where N is 0.

    Of several classes with the largest logit, the lowest counts.
    """
    if not len(labels):
        return None, None
    logits = predict(model, images, progress=progress)
    return (logits.argmax(1) == labels).float().mean().item(), F.cross_entropy(logits * model.alpha, labels).item()


def answers(teacher: Any, groups: Iterable[torch.Tensor], progress: Callable) -> torch.Tensor:
    """A teacher's logits (N, classes) of groups of images, each a uint8 tensor (n, 3, S, S) on its device, one group after the other."""
    parts = [part for group in groups for part in group.split(LOOK)]
    return torch.cat([teacher.logits(part) for part in progress(parts, desc="teacher")])


def read(path: str | Path) -> dict[str, Any]:
    """The training state in a file, in the form of this version.  No code in the file runs; what is wrong with it may raise anything."""
    state = torch.load(path, weights_only=True, map_location="cpu")
    if state["format"] != STATE_FORMAT:
        raise ValueError("another format")
    return upgrade(state)


def upgrade(state: dict[str, Any], own: Any = ()) -> dict[str, Any]:
    """A training state as this version writes it.

    own: a state of the run that goes on, which has what the first states of version 1 and those to 0.2.16 lack.
    """
    later = {key: own[key] for key in ("data", "sources", "activations", "unlabeled", "seconds") if key in own}
    state = {**later, "best_score": state.get("best_accuracy"), **state}
    return {**state, "best_score": -math.inf if state["best_score"] is None else state["best_score"]}


class Interrupted(Exception):
    """Raised between two steps after Ctrl-C, SIGTERM or SIGHUP, when the state has been saved."""


class Trainer(Fit):
    """One training run of an `FBNN`, or of a float network.  `run` trains to the end, or raises Interrupted.

    images: uint8 RGB (N, 3, S, S).  labels: int64 (N,).
    state_path: the file that the state of the run is written to.
    report: called with the record of each epoch, a dict; `history` has them all.
    progress: makes a progress bar, as tqdm does.
    teacher: a `teacher.Teacher`, whose share of the loss is `config.distil`.
    init: SHA-256 of the file that the proxies came from.  A run is resumed only with the same one and with
    the same teacher.
    Raises UsageError where the recipe has an illegal value or does not fit the number of images, InputError
    where there are too few images.
    """

    def __init__(self, model: Any, images: torch.Tensor, labels: torch.Tensor, config: TrainConfig, state_path: str | Path | None = None,
                 report: Callable[[dict], None] | None = None, progress: Callable | None = None, teacher: Any = None,
                 init: str | None = None) -> None:
        config.verify()
        self.teacher, self.sources = teacher, {"init": init, "teacher": teacher and teacher.sha256}
        self.answers = None  # of the teacher, (views, N, classes), kept from the first step on with `teacher_views` "mirrored"
        model.dtype = getattr(torch, config.precision)
        if hasattr(model, "learn_by"):  # no float network
            model.learn_by(config.estimator, config.proxies)
        self.state_path: Any = Path(state_path) if state_path else None
        self.report, self.progress = report or (lambda record: None), progress or silent
        self.device = next(model.parameters()).device
        train, held = split(len(labels), config.validation, config.seed)
        if not len(train):
            raise InputError(f"training set: {len(labels)} images, expected more than the validation split takes")
        config.verify_split(len(labels), len(held))
        norms = (Norm, torch.nn.modules.batchnorm._BatchNorm)
        if (len(train) % config.batch or config.batch) == 1 and any(isinstance(module, norms) for module in model.modules()):
            raise UsageError(f"--batch {config.batch}: leaves a last batch of one of {len(train)} images, which batch norm cannot take; "
                             f"expected another size, such as {config.batch + 1}")
        self.images, self.labels = images[train].to(self.device), labels[train].to(self.device)
        self.held_images, self.held_labels = images[held], labels[held]
        super().__init__(model, model.parameters(), config, len(train), torch.Generator().manual_seed(config.seed))
        digest = zlib.crc32(images.cpu().contiguous().numpy().data, zlib.crc32(labels.cpu().numpy().data))
        self.data = {"images": len(labels), "crc32": digest}
        self.order = None
        self.seconds = 0.0  # of the epoch so far, up to an interrupt
        self.history: list[dict[str, Any]] = []
        self._stop = False

    def state(self) -> dict[str, Any]:
        return {"format": STATE_FORMAT, "version": STATE_VERSION, "config": asdict(self.config), "data": self.data,
                "architecture": {"name": self.model.topology.name, "classes": list(self.model.topology.classes),
                                 "size": self.model.topology.image_size},
                "sources": self.sources,
                "model": self.model.state_dict(), "rng": self.generator.get_state(), "order": self.order,
                "sums": self.sums.tolist(), "seconds": self.seconds, "history": self.history, **super().state()}

    def save(self) -> None:
        """Write the state whole or not at all."""
        if self.state_path:
            checkpoint.store(self.state_path, self.state())

    def resume(self) -> None:
        """Take up the state in `state_path`.

        With a plateau schedule the recipe may have more epochs than before.  Any other change raises
        an error, because the result would belong to neither run.
        """
        state, own = checkpoint.state(self.state_path, STATE_FORMAT, STATE_VERSION), self.state()
        verb, expected = ("pretrain" if "objective" in one else "train" for one in (state, own))
        if verb != expected:
            raise UsageError(f"{self.state_path}: was started by fbnn-hw {verb}, expected a state of fbnn-hw {expected}; resume with "
                             f"fbnn-hw {verb} and the same flags")
        with checkpoint.taking_up(self.state_path):
            self._take_up(upgrade(state, own))
            self._check_place()

    def _take_up(self, state):
        saved = TrainConfig(**state["config"])
        allowed = replace(saved, epochs=self.config.epochs) if self.config.schedule == "plateau" else saved
        if allowed != self.config:
            changed = [k for k, v in asdict(self.config).items() if asdict(allowed)[k] != v]
            raise UsageError(f"{self.state_path}: was started with other values of {', '.join(changed)}; resume with the same flags")
        if state["data"] != self.data:
            raise UsageError(f"{self.state_path}: was started on other images or labels; resume with the same --data and --classes")
        changed = [flag for flag, digest in state["sources"].items() if self.sources[flag] != digest]
        if changed:
            raise UsageError(f"{self.state_path}: was started with another --{changed[0]} or without one; resume with the same flags")
        if not all(fits(self.model, part) for part in (state["model"], state["best"]) if part is not None):
            raise InputError(f"{self.state_path}: state of another model, expected one with the layers of {self.model.topology.name}")
        self.model.load_state_dict(state["model"])
        self.restore(state)
        self.generator.set_state(state["rng"])
        self.sums.copy_(torch.tensor(state["sums"], dtype=torch.float64))
        self.order, self.history = state["order"], state["history"]
        self.seconds = float(state["seconds"])
        check_records(self.history, "epoch", "train_accuracy", "seconds")

    def _check_place(self):
        """Raises ValueError or TypeError unless step, order and sums are those of a place inside an epoch, or of its beginning."""
        count = len(self.labels)
        seen = min(self.step * self.config.batch, count)
        if not whole(self.step, 0, self.steps + 1) or int(self.sums[1]) != seen or (self.order is None and self.step):
            raise ValueError("a step that is none of the epoch")
        if self.order is not None and not torch.equal(self.order.sort().values, torch.arange(count)):
            raise ValueError("an order of other images")

    def run(self) -> list[dict[str, Any]]:
        previous, ends = {}, [signal.SIGINT, signal.SIGTERM]
        if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # Windows has none, nohup ignores it
            ends.append(signal.SIGHUP)

        def stop(*_):
            self._stop = True

        try:
            for number in ends:
                previous[number] = signal.signal(number, stop)
        except ValueError:  # not in the main thread: the caller handles signals
            pass
        try:
            while not self.finished:
                self._epoch()
        except Interrupted:
            self.seconds = time.monotonic() - self._start
            self.save()
            raise
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
        if self._stop:  # after the last image was judged: what comes next, such as a test set, may take minutes
            raise Interrupted(self.state_path)
        self.model.load_state_dict(self.best)
        return self.history

    def _epoch(self):
        self._start = time.monotonic() - self.seconds
        if self.order is None:
            self.order = torch.randperm(len(self.labels), generator=self.generator)
        bar = partial(self.progress, desc=f"epoch {self.epoch + 1}/{self.config.epochs}")
        self.train(self.order, self._train_step, lambda steps, **place: self._watched(bar(steps, **place)))
        self._end(self._start, *self._judge())
        self.save()
        self.report(self.history[-1])

    def _end(self, start, accuracy, loss):
        """End an epoch, which began at `start` and was judged."""
        self.order, self.seconds = None, 0.0
        self.history.append({**self.means(), "validation_accuracy": accuracy, "validation_loss": loss, **self.end_epoch(start, loss)})

    def _watched(self, iterable):
        """Yield the items of `iterable` until the user stops the run."""
        for item in iterable:
            if self._stop:
                raise Interrupted(self.state_path)
            yield item

    def _judge(self):
        """Validate the network of this epoch; return (accuracy, loss), None without validation.  Keep it if it is the best."""
        batches = self.order[:self.config.statistics * self.config.batch].to(self.device).split(self.config.batch)
        with self.judged(self._watched(self.images[index] for index in batches)):
            accuracy, loss = evaluate(self.model, self.held_images, self.held_labels, progress=self._watched)
            self.keep(self.model, accuracy)
        return accuracy, loss

    def _train_step(self, index):
        if self.teacher and self.config.teacher_views == "mirrored" and self.answers is None:
            self._ask()  # before anything is drawn, because it may be interrupted
        index = index.to(self.device)
        images, labels = self.images[index], self.labels[index]
        seen, pairs = self._mixed(self._augmented(images, index))
        self.draw_ties()
        logits, latent = self._forward(seen)
        loss = self._loss(logits, labels, self._taught(seen, index), pairs)
        self.update(self._with_terms(loss, latent, images, index), logits, self._counted(labels, pairs))

    def _forward(self, images):
        """(float logits, latent) of uint8 images; the latent may be None where no term asks for it."""
        return self.model(images), None

    def _with_terms(self, loss, latent, images, index):
        """The loss with those of a pre-training.  latent: of the augmented `images`, which are those at `index`."""
        return loss

    def _loss(self, logits, labels, taught, pairs):
        """Cross-entropy and the share of a teacher.  taught: its logits, or None.  pairs: (partner, share) of `mix`, or None.

        Both parts are linear in the target, so those of mixed images are mixed as losses.
        """
        loss = F.cross_entropy(logits, labels, label_smoothing=self.config.smoothing)
        if taught is not None:
            loss = self.distilled(loss, logits, taught)
        if pairs is None:
            return loss
        partner, share = pairs
        if taught is not None and self.config.teacher_views == "mirrored":  # else it has answered the mixed image
            taught = taught[partner]
        return share * loss + (1 - share) * self._loss(logits, labels[partner], taught, None)

    def _mixed(self, images):
        """(images, pairs): mixed, with (partner, share) of each, or as they are, with None."""
        if not (self.config.mixup or self.config.cutmix):
            return images, None
        images, partner, share = mix(images, self.generator, self.config.mixup, self.config.cutmix)
        return images, (partner, torch.tensor(share, device=images.device))

    def _counted(self, labels, pairs):
        """The labels with the larger share, by which the accuracy of training counts."""
        return labels if pairs is None else torch.where(pairs[1] < 0.5, labels[pairs[0]], labels)

    def _ask(self):
        """Keep the teacher's answers to each image and, where images are mirrored, to its mirror image."""
        views = [self.images, self.images.flip(3)][:1 + (self.config.augment and self.config.mirror == "alternating")]
        asked = answers(self.teacher, views, lambda parts, **kw: self._watched(self.progress(parts, **kw)))
        self.answers = asked.view(len(views), len(self.images), -1)

    def _taught(self, images, index):
        """The teacher's logits, or None.  images: as the student saw those at `index`."""
        if self.answers is not None:
            return self.answers[self.mirrored(index).long(), index]
        return self.teacher.logits(images) if self.teacher else None

    def _augmented(self, images, index):
        if not self.config.augment:
            return images
        if self.config.warp:
            images = warp(images, self.generator, self.config.warp)
        images = augment(images, self.generator, self.config.shift, self.config.contrast, self.mirrored(index))
        return cutout(images, self.generator, self.config.cutout) if self.config.cutout else images
