"""Single-stage training of an FBNN on a whole data set (paper, sections `eval_methodo` and `key_cil`).

The state of a run (proxies, optimizer, scheduler, RNG, position inside the epoch, history) is one file; a run that was
interrupted and resumed gives the very numbers of one that was not.
"""

import math
import signal
import time
import zlib
from dataclasses import asdict, replace
from pathlib import Path

import torch
import torch.nn.functional as F

from ..data.augment import augment
from ..errors import InputError, UsageError
from ..nn import checkpoint, losses
from .config import TrainConfig

STATE_FORMAT = "fbnn-hw training state"
STATE_VERSION = 1


def split(count, share, seed):
    """Indices (train, validation) of `count` samples, drawn by `seed` alone."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    held = round(count * share)
    return order[held:], order[:held]


def scheduler(optimizer, config, steps):
    """Of the rate: cosine to 0, step by step over all epochs of `steps` steps, or halved after more than 5
    epochs without a lower loss."""
    if config.schedule == "cosine":
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, config.epochs * steps)
    return torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=5)


@torch.no_grad()
def predict(model, images, batch=500, progress=lambda iterable, **kw: iterable):
    """Integer logits (N, classes) of uint8 images (N, 3, S, S), on the model's device."""
    device = next(model.parameters()).device
    parts = [model.logits(images[i:i + batch].to(device)).cpu() for i in progress(range(0, len(images), batch))]
    return torch.cat(parts) if parts else torch.empty(0, len(model.topology.classes))


def evaluate(model, images, labels, loss=F.cross_entropy, batch=500):
    """(accuracy, mean loss); ties go to the lowest class."""
    if not len(labels):
        return 0.0, 0.0
    logits = predict(model, images, batch)
    return (logits.argmax(1) == labels).float().mean().item(), loss(logits * model.alpha, labels).item()


class Interrupted(Exception):
    """Raised at a step boundary after Ctrl-C or SIGTERM, once the state is safe."""


class Trainer:
    """One run over (images uint8 (N, 3, S, S), labels int64 (N,)).

    `run` trains to the end or raises Interrupted.  `best` holds the weights of the best validation epoch, or the last
    ones where there is no validation split.  teacher: `teacher.Teacher`, whose share of the loss is `config.distil`, or None.
    init: SHA-256 of the file whose proxies the model has, or None; with the teacher's it makes sure that a run is resumed with the same.
    """

    def __init__(self, model, images, labels, config, state_path=None, loss=F.cross_entropy, report=None, progress=None, teacher=None,
                 init=None):
        config.verify()
        self.teacher, self.sources = teacher, {"init": init, "teacher": teacher and teacher.sha256}
        self.model, self.config, self.loss = model, config, loss
        model.dtype = getattr(torch, config.precision)
        self.state_path = Path(state_path) if state_path else None
        self.report, self.progress = report or (lambda record: None), progress or (lambda iterable, **kw: iterable)
        self.device = next(model.parameters()).device
        train, held = split(len(labels), config.validation, config.seed)
        if not len(train):
            raise InputError(f"training set: {len(labels)} images, expected more than the validation split takes")
        config.verify_split(len(labels), len(held))
        if (len(train) % config.batch or config.batch) == 1 and any(isinstance(m, torch.nn.modules.batchnorm._BatchNorm)
                                                                    for m in model.modules()):
            raise UsageError(f"--batch {config.batch}: leaves a last batch of one of {len(train)} images, which batch norm cannot take; "
                             f"expected another size, such as {config.batch + 1}")
        self.images, self.labels = images[train].to(self.device), labels[train].to(self.device)
        self.held_images, self.held_labels = images[held], labels[held]
        self.optimizer = torch.optim.Adam(model.parameters(), config.lr)
        self.steps = math.ceil(len(train) / config.batch)
        self.scheduler = scheduler(self.optimizer, config, self.steps)
        self.generator = torch.Generator().manual_seed(config.seed)
        self.data = {"images": len(labels), "crc32": zlib.crc32(images.cpu().contiguous().numpy(), zlib.crc32(labels.cpu().numpy()))}
        self.epoch, self.step, self.order = 0, 0, None
        # loss, images and right ones of the epoch so far; kept on the device, so that no step waits for it
        self.sums = torch.zeros(3, dtype=torch.float64, device=self.device)
        self.history, self.best, self.best_accuracy, self.best_epoch = [], None, -1.0, 0
        self._stop = False

    def state(self):
        return {"format": STATE_FORMAT, "version": STATE_VERSION, "config": asdict(self.config), "data": self.data,
                "architecture": {"name": self.model.topology.name, "classes": list(self.model.topology.classes),
                                 "size": self.model.topology.image_size},
                "sources": self.sources,
                "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "scheduler": self.scheduler.state_dict(),
                "rng": self.generator.get_state(), "epoch": self.epoch, "step": self.step, "order": self.order, "sums": self.sums.tolist(),
                "history": self.history, "best": self.best, "best_accuracy": self.best_accuracy, "best_epoch": self.best_epoch}

    def save(self):
        """Write the state whole or not at all."""
        if self.state_path:
            checkpoint.store(self.state_path, self.state())

    def resume(self):
        """Take up the state in `state_path`.  More epochs than before are fine with a plateau schedule; any other change
        of the configuration is an error, for the result would be of neither run."""
        state = checkpoint.state(self.state_path, STATE_FORMAT, STATE_VERSION)
        try:
            self._take_up(state)
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise InputError(f"{self.state_path}: damaged training state ({type(error).__name__} in it); start without --resume") from None

    def _take_up(self, state):
        saved = TrainConfig(**state["config"])
        allowed = replace(saved, epochs=self.config.epochs) if self.config.schedule == "plateau" else saved
        if allowed != self.config:
            changed = [k for k, v in asdict(self.config).items() if asdict(allowed)[k] != v]
            raise UsageError(f"{self.state_path}: was started with other values of {', '.join(changed)}; resume with the same flags")
        if state.get("data", self.data) != self.data:  # the first states of version 1 lack it
            raise UsageError(f"{self.state_path}: was started on other images or labels; resume with the same --data and --classes")
        changed = [flag for flag, digest in state.get("sources", {}).items() if self.sources[flag] != digest]
        if changed:
            raise UsageError(f"{self.state_path}: was started with another --{changed[0]} or without one; resume with the same flags")
        shapes = {k: tuple(v.shape) for k, v in self.model.state_dict().items()}
        if shapes != {k: tuple(v.shape) for k, v in state["model"].items()}:
            raise InputError(f"{self.state_path}: state of another model, expected one with the layers of {self.model.topology.name}")
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.generator.set_state(state["rng"])
        self.sums.copy_(torch.tensor(state["sums"], dtype=torch.float64))
        for key in ("epoch", "step", "order", "history", "best", "best_accuracy", "best_epoch"):
            setattr(self, key, state[key])

    def run(self):
        previous = {}

        def stop(*_):
            self._stop = True

        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                previous[number] = signal.signal(number, stop)
        except ValueError:  # not in the main thread: the caller handles signals
            pass
        try:
            while self.epoch < self.config.epochs and not self._finished():
                self._epoch()
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
        self.model.load_state_dict(self.best)
        return self.history

    def _finished(self):
        return self.config.patience and self.epoch - self.best_epoch >= self.config.patience

    def _epoch(self):
        start = time.monotonic()
        if self.order is None:
            self.order = torch.randperm(len(self.labels), generator=self.generator)
        self.model.train()
        name = f"epoch {self.epoch + 1}/{self.config.epochs}"
        for step in self.progress(range(self.step, self.steps), desc=name, initial=self.step, total=self.steps):
            if self._stop:
                self.save()
                raise Interrupted(self.state_path)
            self._train_step(self.order[step * self.config.batch:(step + 1) * self.config.batch])
            self.step = step + 1
        self.model.eval()
        accuracy, loss = evaluate(self.model, self.held_images, self.held_labels, self.loss)
        if self.config.schedule == "plateau":
            self.scheduler.step(loss)
        self.epoch, self.step, self.order = self.epoch + 1, 0, None
        total, count, correct = self.sums.tolist()
        self.sums.zero_()
        if accuracy > self.best_accuracy or not len(self.held_labels):
            self.best_accuracy, self.best_epoch = accuracy, self.epoch
            self.best = {k: v.detach().cpu().clone() for k, v in self.model.state_dict().items()}
        validated = bool(len(self.held_labels))
        record = {"epoch": self.epoch, "train_loss": total / count, "train_accuracy": correct / count,
                  "validation_accuracy": accuracy if validated else None, "validation_loss": loss if validated else None,
                  "lr": self.optimizer.param_groups[0]["lr"], "seconds": round(time.monotonic() - start, 1)}
        self.history.append(record)
        self.save()
        self.report(record)

    def _train_step(self, index):
        index = index.to(self.device)
        images, labels = self.images[index], self.labels[index]
        images = self._augmented(images)
        self._draw_ties()
        logits = self.model(images)
        loss = self.loss(logits, labels)
        if self.teacher:
            soft = losses.distillation(logits, self.teacher.logits(images), self.config.temperature)
            loss = (1 - self.config.distil) * loss + self.config.distil * soft
        self._update(loss, logits, labels)

    def _augmented(self, images):
        return augment(images, self.generator, self.config.shift, self.config.contrast) if self.config.augment else images

    def _draw_ties(self):
        if self.config.ties == "random":
            self.model.draw_ties(self.generator)

    def _update(self, loss, logits, labels):
        """One step of the optimizer, and its share of the epoch's sums."""
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        if self.config.centre:
            self.model.centre()
        if self.config.ties == "random":
            self.model.draw_ties()
        if self.config.schedule == "cosine":
            self.scheduler.step()
        self.sums[0] += loss.detach().double() * len(labels)
        self.sums[1] += len(labels)
        self.sums[2] += (logits.argmax(1) == labels).sum()
