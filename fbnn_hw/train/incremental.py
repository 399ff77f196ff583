"""Class-incremental learning: one retraining a task, with or without a memorizer (paper, sections `bg` to `es`).

Where the paper leaves the protocol open, it is this one (docs/cil.md gives reasons):

- Each class keeps 10 % of its training samples for validation.  They are drawn once by the seed and
  never stored in the buffer.  A retraining also holds back 10 % of the buffer's exemplars of each
  class.
- Learning rate and early stopping follow the loss on these samples, the same loss that trains, without
  label smoothing and without a teacher.
- Adam starts anew with each task.
- The network has the logits of all classes from the start.  Those of classes not yet seen take no
  part, and alpha counts the seen ones.
"""

import math
import numbers
import time
import zlib
from collections.abc import Callable
from dataclasses import asdict
from functools import partial, reduce
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from ..base.errors import InputError, UsageError, show, whole
from ..base.progress import silent
from ..data.datasets import Images
from ..nn import checkpoint, losses
from . import learner, metrics, scenarios, start
from .cil_config import CilConfig
from .config import TrainConfig
from .fit import Fit, check_records, fits
from .memorizer import MEGABIT, Memorizer, TaughtCode
from .offline import answers
from .samples import Latents, Native

STATE_FORMAT = "fbnn-hw incremental state"
STATE_VERSION = 1


class TaskData(NamedTuple):
    """What a task is trained on, and what is held back for validation.

    Samples are uint8 (N, ...), as `Native` or `Latents` has them; labels int64 (N,).  answers: the teacher's,
    float16 (N, classes); (N, 0) without one.
    """

    samples: torch.Tensor
    labels: torch.Tensor
    answers: torch.Tensor
    held_samples: torch.Tensor
    held_labels: torch.Tensor


def held_back(labels: np.ndarray, share: float, generator: np.random.Generator) -> np.ndarray:
    """Choose round(share * n_c) of the n_c samples of each class, but never all; return a boolean mask."""
    mask = np.zeros(len(labels), bool)
    for c in np.unique(labels):
        index = generator.permutation(np.flatnonzero(labels == c))
        mask[index[:min(round(share * len(index)), len(index) - 1)]] = True
    return mask


def upgrade(state: dict[str, Any], data: Any) -> dict[str, Any]:
    """A state as this version writes it.

    Earlier ones lack the choices that came later, those to 0.2.23 the step of an epoch.  The first ones lack the digest of the data,
    which is then taken for `data`, and have a loss in place of the score.
    """
    state = {"data": data, **state}
    config, saved = state.get("config"), state["retraining"]
    if isinstance(config, dict) and isinstance(config.get("recipe"), dict):
        recipe = {**asdict(TrainConfig()), **config["recipe"]}
        state["config"] = {"class_order": None, "teacher": None, "knobs": {}, **config, "recipe": recipe}
    if saved:
        state["retraining"] = {"step": 0, **saved, "best_score": saved["best_score"] if "best_score" in saved else -saved["best_loss"]}
    return state


class Incremental:
    """One class-incremental run.  `run` learns the remaining tasks and returns `result()`.

    train, test: the data set of the scenario.  origin: the pre-trained network.
    state_path: the file from which the run can be resumed after each epoch.
    cache: a folder that keeps latents for later runs.
    report: called with each record, a dict.  progress: makes a progress bar, as tqdm does.
    teacher: makes the `teacher.Teacher` of a topology.  It answers each training image once.  Its SHA-256 is
    `config.teacher`.
    Raises UsageError or InputError where the configuration, the data and the network do not fit each other.
    """

    def __init__(self, config: CilConfig, train: Images, test: Images, origin: start.Start, state_path: str | Path | None = None,
                 cache: Path | None = None, report: Callable[[dict], None] = lambda record: None, progress: Callable = silent,
                 device: str | torch.device = "cpu", teacher: Callable | None = None) -> None:
        config.verify()
        self.config, self.recipe, self.origin = config, config.recipe, origin
        self.report, self.progress = report, progress
        self.state_path: Any = Path(state_path) if state_path else None
        self.device = torch.device(device)
        scenario = scenarios.get(config.scenario)
        scenario.verify_classes(train.classes)
        tasks = scenario.split(self.recipe.seed, config.setting, config.class_order)
        self.retained = config.setting == "rpt"
        self._check_origin(scenario, train, tasks)
        arriving = [c for task in tasks for c in task]
        self.classes = tuple(train.classes[c] for c in arriving)
        numbers = iter(range(len(arriving)))
        self.tasks = [tuple(next(numbers) for _ in task) for task in tasks]
        self.pretrained = self.tasks[0] if self.retained else ()
        if config.strategy == "offline":
            self.tasks = [tuple(range(len(arriving)))]
        self.model = self._fresh()
        topology = self.model.topology
        self.teacher = teacher(topology) if teacher else None
        self.kind = Latents(topology, cache) if config.replay == "latent" else Native(topology)
        self.train_samples, self.train_labels = self._arrange(train, arriving)
        self.test_samples, self.test_labels = self._arrange(test.by_name(train.classes), arriving)
        self.answers = self._answers(train, arriving)
        parts = (self.train_labels, self.test_labels, self.train_samples.numpy(), self.test_samples.numpy())
        self.data = {"images": len(self.train_labels), "crc32": reduce(lambda crc, part: zlib.crc32(part, crc), parts, 0)}
        self.held_back = held_back(self.train_labels, self.recipe.validation, np.random.default_rng((self.recipe.seed, 1)))
        self.recipe.verify_split(len(self.held_back), self.held_back.sum())
        self.memory = None
        if config.strategy == "replay":
            code = TaughtCode(self.kind.code, self.answers.shape[1])
            self.memory = Memorizer(round(config.buffer_mb * MEGABIT), code, (self.recipe.seed, 2))
            self.memory.check(len(self.classes))
        self.generator = torch.Generator().manual_seed(self.recipe.seed)
        self.learner = None
        if learner.is_learner(config.strategy):
            self.learner = learner.make(config.strategy, learner.Problem(
                len(self.classes), tuple(self.tasks), self.kind.code.bits, round(config.buffer_mb * MEGABIT), self.recipe, config.balanced,
                self._fresh, config.loss, self.kind), config.knobs)
            if not whole(self.learner.epochs):
                raise UsageError(f"--strategy {config.strategy}: epochs is {show(self.learner.epochs)}, expected a whole number from 0")
        self.task, self.retraining, self.alone = 0, None, None
        self.records: list[dict[str, Any]] = []
        self.history: list[dict[str, Any]] = []

    def _check_origin(self, scenario, train, tasks):
        where = self.origin.source
        if self.config.replay == "latent" and not self.origin.proxies:
            raise UsageError("--replay latent: a random feature extractor is of no use, expected --init with a pre-trained checkpoint")
        if self.config.replay == "native" and self.origin.thresholds and self.recipe.norm != "bn":
            raise InputError(f"{where}: has thresholds, which train with batch norm alone; expected --norm bn, a network without "
                             f"thresholds, or --replay latent")
        self.origin.verify_classifier()
        if self.retained:
            expected = tuple(train.classes[c] for c in tasks[0])
            if self.origin.topology.classes != expected:
                classes = self.origin.topology.classes
                raise InputError(f"{where}: has the {len(classes)} classes {', '.join(classes[:3])}..., "
                                 f"expected the {len(expected)} of the pre-training, {', '.join(expected[:3])}..., with --setting rpt")
        size = train.images.shape[-1]
        if self.origin.topology.image_size != size:
            raise InputError(f"{where}: takes images of {self.origin.topology.image_size}x{self.origin.topology.image_size}, "
                             f"{scenario.data} has {size}x{size}; expected a model of that size")

    def _fresh(self, seed=None):
        """Make the network that a run starts with.  seed: of another random draw, for the -reset strategies."""
        options: dict[str, Any] = dict(K=self.recipe.K, c=self.recipe.c, limit=self.recipe.limit, norm=self.recipe.norm)
        origin = self.origin
        if seed is not None and self.config.replay == "native":
            origin = start.Start(origin.topology, {}, {})
        model = start.make(origin, self.classes, self.retained, self.recipe.seed if seed is None else seed, options).to(self.device)
        model.dtype = getattr(torch, self.recipe.precision)
        if self.config.replay == "latent":
            model.requires_grad_(False)
            for name in start.classifier(model.topology):
                model.layers[name].requires_grad_(True)
        return model

    def trainable(self) -> list[torch.nn.Parameter]:
        """The parameters that a retraining trains."""
        return [p for p in self.model.parameters() if p.requires_grad]

    def _arrange(self, images, arriving):
        """Return (samples, labels) of the classes that arrive, class after class, with labels as the network counts them."""
        images_of_class = [images.images[images.labels == c] for c in arriving]
        for c, pictures in zip(arriving, images_of_class):
            if not len(pictures):
                raise InputError(f"{self.config.scenario}: no image of class {images.classes[c]} in {images.source}, expected some")
        samples = torch.cat([self.kind.form(pictures, self.model, self.progress) for pictures in images_of_class])
        return samples, np.repeat(np.arange(len(arriving)), [len(pictures) for pictures in images_of_class])

    def _answers(self, images, arriving):
        """The teacher's answers to the training images, float16 (N, classes), as the buffer keeps them; (N, 0) without a teacher."""
        if self.teacher is None:
            return torch.zeros((len(self.train_labels), 0), dtype=torch.float16)
        groups = (torch.from_numpy(images.images[images.labels == c]).to(self.device) for c in arriving)
        return answers(self.teacher, groups, self.progress).half().cpu()

    # what a task trains on

    def seen(self, t: int) -> int:
        return max(c for task in self.tasks[:t + 1] for c in task) + 1

    def _data(self, t):
        """Return the `TaskData` of the retraining of task t."""
        tasks = self.tasks[:t + 1] if self.config.strategy.startswith("cumulative") else [self.tasks[t]]
        of = np.isin(self.train_labels, [c for task in tasks for c in task])
        training, validation = of & ~self.held_back, of & self.held_back
        parts = [TaskData(self.train_samples[training], self.train_labels[training], self.answers[training],
                          self.train_samples[validation], self.train_labels[validation])]
        if self.memory is not None and len(self.memory):
            samples, labels, answers = self._exemplars()
            back = held_back(labels, self.recipe.validation, np.random.default_rng((self.recipe.seed, 3, t)))
            parts.append(TaskData(samples[~back], labels[~back], answers[~back], samples[back], labels[back]))
        return TaskData(*(torch.cat(c) if isinstance(c[0], torch.Tensor) else torch.from_numpy(np.concatenate(c)) for c in zip(*parts)))

    def _exemplars(self):
        """(samples, labels, answers) in the buffer: a tensor, an array, a tensor."""
        stored, labels = self.memory.samples()
        return torch.from_numpy(stored["sample"]), labels, torch.from_numpy(stored["answer"])

    def _store(self, t):
        if self.memory is not None:
            of = np.isin(self.train_labels, self.tasks[t]) & ~self.held_back
            self.memory.update(self.memory.code.join(self.train_samples[of].numpy(), self.answers[of].numpy()), self.train_labels[of])

    # logits and losses

    def _masked(self, logits, labels, seen):
        """Return the logits of the classes seen; with `aware`, those outside of each sample's own task are -inf."""
        logits = logits[:, :seen]
        if not self.config.aware:
            return logits
        task_of = torch.tensor([i for i, task in enumerate(self.tasks) for _ in task], device=logits.device)
        return logits.masked_fill(task_of[None, :seen] != task_of[labels][:, None], -torch.inf)

    def alpha(self, seen: int) -> float:
        return 1 / math.sqrt(self.recipe.c * self.model.layers[self.model.topology.ops[-1].name].fan_in * seen)

    def _loss(self, logits, labels, weights, smoothing=0.0):
        options = {"cce": {"smoothing": smoothing}, "focal": {"nu": self.config.nu}}.get(self.config.loss, {})
        return losses.LOSSES[self.config.loss](logits, labels, weights, **options)

    @torch.no_grad()
    def _predict(self, samples, labels, seen):
        """Masked integer logits (N, seen)."""
        self.model.eval()
        step = self.kind.batch
        labels = torch.as_tensor(labels)
        parts = []
        for i in range(0, len(samples), step):
            if self.learner is not None:
                logits = torch.from_numpy(self._scored(samples[i:i + step].numpy(), seen))
            else:
                logits = self.kind.logits(self.model, samples[i:i + step].to(self.device))
            parts.append(self._masked(logits, labels[i:i + step].to(self.device), seen).cpu())
        return torch.cat(parts) if parts else torch.zeros(0, seen)

    def _scored(self, samples, seen):
        """The learner's scores, float64 (N, seen or more).  Raises UsageError where it gives none."""
        scores = self.learner.scores(samples)
        try:
            scores = np.asarray(scores, np.float64)
        except (TypeError, ValueError):
            raise UsageError(f"--strategy {self.config.strategy}: scores gives a {type(scores).__name__}, expected an array") from None
        if scores.ndim != 2 or len(scores) != len(samples) or scores.shape[1] < seen:
            raise UsageError(f"--strategy {self.config.strategy}: scores gives an array {scores.shape} for {len(samples)} samples, "
                             f"expected ({len(samples)}, {seen}), a score for each class seen")
        if np.isnan(scores).any():
            raise UsageError(f"--strategy {self.config.strategy}: scores gives NaN, expected numbers")
        return scores

    def confusion(self, samples: torch.Tensor, labels: np.ndarray, t: int) -> np.ndarray:
        """Confusion matrix over the classes seen at task t."""
        seen = self.seen(t)
        within = np.asarray(labels) < seen
        predicted = self._predict(samples[torch.from_numpy(within)], np.asarray(labels)[within], seen).argmax(1).numpy()
        return metrics.confusion(np.asarray(labels)[within], predicted, seen)

    # the run

    def run(self) -> dict[str, Any]:
        if not self.records and self.retained and self.config.strategy != "offline" and self.learner is None:
            self._record(0, 0, 0.0, 0)
            self.task = 1
            self.save()
        count = len(self.tasks)
        for _ in self.progress(range(self.task, count), desc="tasks", initial=self.task, total=count):
            self._teach() if self.learner is not None else self._retrain()
        return self.result()

    def _teach(self):
        """Teach `self.task` to a strategy that is a `Learner`, without the samples that are held back for validation."""
        t, began = self.task, time.monotonic()
        of = np.isin(self.train_labels, self.tasks[t])
        for take, part in ((self.learner.hold, of & self.held_back), (self.learner.learn, of & ~self.held_back)):
            take(self.train_samples[part].numpy(), self.train_labels[part])
        self._record(t, self.learner.epochs, time.monotonic() - began, self.learner.epochs)
        self.task = t + 1
        self.save()

    def _retrain(self):
        t, recipe = self.task, self.recipe
        data, seen, weights = self._data(t), self.seen(t), None
        if self.config.balanced:
            weights = losses.inverse_frequency(torch.bincount(data.labels, minlength=seen)[:seen]).to(self.device)
        if self.retraining is None and self.config.strategy.endswith("reset"):
            self.model = self._fresh(recipe.seed * 1000 + t + 1)
        saved, fit = self.retraining, Fit(self.model, self.trainable(), recipe, len(data.labels), self.generator)
        if not fit.steps:
            raise UsageError(f"--norm bn: task {t + 1} has one image to train on, expected at least 2")
        if saved is not None:
            with checkpoint.taking_up(self.state_path):
                fit.restore(saved)
        self.retraining = fit
        while not fit.finished:
            began = time.monotonic()
            order = torch.randperm(len(data.labels), generator=self.generator)
            bar = partial(self.progress, desc=f"task {t + 1}/{len(self.tasks)} epoch {fit.epoch + 1}")
            fit.train(order, partial(self._step, fit, data, weights, seen), bar)
            batches = order[:recipe.statistics * recipe.batch].split(recipe.batch)
            with fit.judged((data.samples[index].to(self.device) for index in batches), partial(self.kind.logits, self.model)):
                held = self._validation(data.held_samples, data.held_labels, weights, seen)
                fit.keep(self.model, None if held["validation_loss"] is None else -held["validation_loss"])
                scores = self._scores(t) if self.config.curves else {}
            record = {"task": t, **fit.means(), **held, **fit.end_epoch(began, held["validation_loss"]), **scores}
            if scores:
                record["test_of_each_task"] = [metrics.score(np.array(scores["confusion"]), task)["a"] for task in self.tasks[:t + 1]]
            self.history.append(record)
            self.save()
            self.report(record)
        if fit.best is not None:  # none where each loss was NaN
            self.model.load_state_dict(fit.best)
        seconds = sum(record["seconds"] for record in self.history if record["task"] == t)
        self._record(t, fit.epoch, seconds, fit.best_epoch)
        self.task, self.retraining = t + 1, None
        self.save()

    def _step(self, fit, data, weights, seen, index):
        """One step of a retraining on the samples at `index`."""
        recipe, alpha = self.recipe, self.alpha(seen)
        batch, target = data.samples[index].to(self.device), data.labels[index].to(self.device)
        if recipe.augment:
            batch = self.kind.augment(batch, recipe, self.generator, fit.mirrored(index.to(self.device)))
        fit.draw_ties()
        logits = self._masked(self.kind.logits(self.model, batch), target, seen)
        loss = self._loss(logits * alpha, target, weights, recipe.smoothing)
        if self.teacher is not None:
            taught = data.answers[index, :seen].to(self.device).float()
            loss = fit.distilled(loss, logits * alpha, taught, None if weights is None else weights[target])
        fit.update(loss, logits, target)

    def _validation(self, samples, labels, weights, seen):
        """Return loss and accuracy on the held-back samples; None where none are held back."""
        if not len(labels):
            return {"validation_loss": None, "validation_accuracy": None}
        logits = self._predict(samples, labels, seen)
        loss = self._loss(logits * self.alpha(seen), labels, weights if weights is None else weights.cpu())
        return {"validation_loss": loss.item(), "validation_accuracy": (logits.argmax(1) == labels).float().mean().item()}

    def _scores(self, t, trained=True):
        """{"test": {subset: {"a", "d"}}, "train": the same, "confusion"} at task t.  trained: whether the task has been trained on."""
        matrix = self.confusion(self.test_samples, self.test_labels, t)
        of = ~self.held_back
        train = metrics.evaluate(self.confusion(self.train_samples[torch.from_numpy(of)], self.train_labels[of], t),
                                 self.tasks, t, self.pretrained)
        if not self.config.strategy.startswith("cumulative"):  # which has all past samples
            train["buffer"] = {"a": None, "d": None}
            if self.memory is not None and trained and len(self.memory):
                samples, labels, _ = self._exemplars()
                inside = self.confusion(samples, labels, t)
                train["buffer"] = metrics.score(inside, sorted({c for task in self.tasks[:t] for c in task}))
        of = np.isin(self.train_labels, range(self.seen(t))) & self.held_back
        held = self.confusion(self.train_samples[torch.from_numpy(of)], self.train_labels[of], t)
        return {"test": metrics.evaluate(matrix, self.tasks, t, self.pretrained), "train": train, "confusion": matrix.tolist(),
                "validation": metrics.score(held, range(len(held)))["a"]}

    def _record(self, t, epochs, seconds, best_epoch):
        """Record a task that is over, and store its samples: the scores of the buffer are of those that the task was trained with."""
        record = {"task": t, "classes": [self.classes[c] for c in self.tasks[t]], "epochs": epochs, "best_epoch": best_epoch,
                  "seconds": round(seconds, 2), **self._scores(t, trained=epochs > 0)}
        self._store(t)
        if self.memory is not None:
            record["buffer_samples"] = len(self.memory)
        self.records.append(record)

    def result(self) -> dict[str, Any]:
        """Plain values: the records of the tasks, the ledger, the totals."""
        complete = self.task == len(self.tasks)
        final = {f"{letter}_{name}{ending}": score[letter] for part, ending in (("test", ""), ("train", "_train"))
                 for name, score in self.records[-1][part].items() for letter in "ad"} if complete else {}
        return {"finished": complete, "final": final, "epochs": sum(r["epochs"] for r in self.records),
                "sequence": metrics.sequence([r["confusion"] for r in self.records], self.tasks, self.alone),
                "seconds": round(sum(r["seconds"] for r in self.records), 2), "classes": list(self.classes), "tasks": self.records,
                "ledger": self.memory.ledger(len(self.classes)) if self.memory is not None else None,
                "memory_bits": self._memory_bits(), "history": self.history}

    def _memory_bits(self):
        """Bits of the samples and statistics that are kept between tasks, without weights; None where all samples are kept."""
        if self.learner is not None:
            size = self.learner.memory_bits
            if not isinstance(size, numbers.Real) or not 0 <= size < math.inf:
                raise UsageError(f"--strategy {self.config.strategy}: memory_bits is {show(size)}, expected a number of bits")
            return int(size)
        if self.memory is not None:
            return self.memory.capacity_bits
        return 0 if self.config.strategy.startswith("naive") else None

    # interrupt and resume

    def keeps_state(self) -> bool:
        """Whether the run writes a state: not that of a learner without one."""
        return self.state_path is not None and (self.learner is None or self.learner.state() is not None)

    def save(self) -> None:
        """Write the state whole or not at all."""
        if not self.state_path:
            return
        learned = None
        if self.learner is not None and (learned := self.learner.state()) is None:
            return
        memory = None if self.memory is None else {key: torch.from_numpy(part) if isinstance(part, np.ndarray) else part
                                                   for key, part in self.memory.state().items()}
        state = {"format": STATE_FORMAT, "version": STATE_VERSION, "config": self.config.to_dict(), "sha256": self.origin.sha256,
                 "data": self.data, "model": self.model.state_dict(), "rng": self.generator.get_state(), "memory": memory,
                 "learner": self._plain(learned), "task": self.task, "records": self.records, "history": self.history,
                 "retraining": self.retraining and self.retraining.state()}
        checkpoint.store(self.state_path, state)

    def _plain(self, learned):
        """The learner's state as it is stored.  Raises UsageError where it could not be read again."""
        try:
            return checkpoint.arrays_as_tensors(learned)
        except (TypeError, ValueError) as error:  # ValueError: an array that torch does not have, such as a big-endian one
            raise UsageError(f"--strategy {self.config.strategy}: state has {error}, expected plain values, arrays and tensors") from None

    def resume(self) -> None:
        """Take up `state_path`: the run goes on after its last whole epoch, with the numbers of a run without the interrupt."""
        state = checkpoint.state(self.state_path, STATE_FORMAT, STATE_VERSION)
        with checkpoint.taking_up(self.state_path):
            state = upgrade(state, self.data)
            if state["data"] != self.data:
                raise UsageError(f"{self.state_path}: was started on other images or labels; resume with the same data")
            if state.get("config") != self.config.to_dict() or state.get("sha256") != self.origin.sha256:
                raise UsageError(f"{self.state_path}: was started with other flags or another --init; resume with the same")
            self.model.load_state_dict(state["model"])
            self.generator.set_state(state["rng"])
            if self.memory is not None:
                self.memory.restore(state["memory"])
            if self.learner is not None:
                self.learner.restore(checkpoint.tensors_as_arrays(state["learner"]))
            self.task, self.records, self.history = state["task"], state["records"], state["history"]
            check_records(self.history, "task", "seconds")
            check_records(self.records, "epochs", "seconds")
            for record in self.records:
                scores = [score for part in ("test", "train") for score in record[part].values()]
                if len(record["classes"]) != len(self.tasks[record["task"]]) or not all(score.keys() >= {"a", "d"} for score in scores):
                    raise ValueError("a record of other classes, or without scores")
            if self.task != len(self.records):
                raise ValueError("records of other tasks than were learned")
            self.retraining = state["retraining"]
            if self.records:
                self.result()
            best = self.retraining and self.retraining["best"]
            if best is not None and not fits(self.model, best):
                raise ValueError("weights of other layers")
