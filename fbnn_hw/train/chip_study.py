"""A class-incremental scenario learned as the chip learns it, beside float learners on the same latents (docs/on-chip-learning.md)."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..base.errors import InputError
from ..base.files import cache_folder
from ..base.progress import silent
from ..data import datasets
from ..ir import ops
from ..ir.network import LATENT, Topology
from ..nn.network import FBNN
from ..reference import learning
from ..reference.learning import Head, LearnConfig
from . import comparators, gradients, metrics, start
from .config import TrainConfig
from .learner import Learner, Problem
from .metrics import mean_and_deviation
from .samples import Latents
from .scenarios import Scenario


def summarise(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """{learner: a_final and d_final as (mean, sample deviation), memory} over the runs."""
    summaries = {}
    for name in runs[0]["learners"]:
        learners = [r["learners"][name] for r in runs]
        summaries[name] = {key: mean_and_deviation([learner["tasks"][-1]["final"][key[0]] for learner in learners])
                           for key in ("a_final", "d_final")}
        summaries[name]["memory_bits"] = learners[0]["memory_bits"]
    return summaries


def dense_head(topology: Topology, copies: int) -> Topology:
    """The topology with one dense layer after the latent.  copies: how often the layer reads each bit."""
    extractor, last = topology.ops[:-len(topology.head)], topology.ops[-1]
    if copies == 1:
        return Topology(topology.name, (*extractor, replace(last, inputs=(LATENT,))), topology.classes)
    twice = ops.Duplicate("latent_twice", (LATENT,), copies)
    return Topology(topology.name, (*extractor, twice, replace(last, inputs=(twice.name,))), topology.classes)


@dataclass(frozen=True)
class StudyOptions:
    """Options of a study.  epochs, lr: of Adam, for each task."""

    data_dir: str | None = None  # folder of the data set
    samples: int | None = None  # training samples of each class, None for all
    head: str = "dense"  # "dense", "dense2" or "skip"
    validate: bool = False  # test on the last fifth of the training images of each class, which no learner then sees
    rehearse: int = 0  # replays after each task
    epochs: int = 10
    lr: float = 1e-3
    progress: Callable = silent  # wraps iterables as tqdm does
    detail: Callable = print  # called with a line on each task
    setting: str | None = None  # None for the scenario's first


class Study:
    """The latents of a scenario, and its learners one after the other.

    path: of the extractor.  config: `LearnConfig` of the chip's learner.  head: its `Head`.
    Raises InputError where the extractor's images have another size than the scenario's.
    """

    def __init__(self, scenario: Scenario, path: str | Path, config: LearnConfig, head: Head, options: StudyOptions) -> None:
        self.options, self.scenario, self.config, self.head = options, scenario, config, head
        self.setting = options.setting or scenario.settings[0]
        origin = start.read(path)
        origin.verify_classifier()
        takes, has = origin.topology.image_size, datasets.DATASETS[scenario.data].size
        if takes != has:
            raise InputError(f"{path}: takes images of {takes}x{takes}, {scenario.data} has {has}x{has}; expected a model of that size")
        model = start.make(origin, origin.topology.classes, True, 0, {})
        latents = Latents(model.topology, cache_folder() / "latents")
        self.samples: dict[str, Any] = {}
        self.classes: tuple[str, ...] = ()
        for split in ("train", "test"):
            images = datasets.load(scenario.data, options.data_dir, split, progress=options.progress)
            images = images.by_name(self.classes) if self.classes else images
            self.classes = images.classes
            scenario.verify_classes(images.classes)
            few = 2 if options.validate and split == "train" else 1
            for c, count in enumerate(np.bincount(images.labels, minlength=len(images.classes))):
                if count < few:
                    raise InputError(f"{scenario.data}: has {count} images of class {images.classes[c]} in {images.source}, expected "
                                     f"{few} or more")
            parts = [images.images[images.labels == c] for c in range(len(images.classes))]
            vectors = np.concatenate([latents.form(part, model, options.progress).numpy() for part in parts])
            self.samples[split] = vectors, np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        if options.validate:
            vectors, labels = self.samples["train"]
            of = [np.flatnonzero(labels == c) for c in range(len(images.classes))]
            last = np.concatenate([index[len(index) * 4 // 5:] for index in of])
            self.samples = {"train": (np.delete(vectors, last, 0), np.delete(labels, last)), "test": (vectors[last], labels[last])}
        topology = start.with_classes(origin.topology, tuple(f"class {i}" for i in range(scenario.arriving(self.setting))))
        self.topology = topology if options.head == "skip" else dense_head(topology, head.copies)
        self.hidden = origin.proxies["hidden"] if head.hidden else None

    def streams(self, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Set `order`, `tasks` and `test`; return the tasks in their order, [(latents, labels)].  Labels count in that order."""
        tasks = self.scenario.split(seed, self.setting)
        self.order, sizes = tuple(c for task in tasks for c in task), [len(task) for task in tasks]
        ends = np.cumsum(sizes)
        self.tasks = [tuple(range(end - size, end)) for end, size in zip(ends.tolist(), sizes)]
        number = np.full(len(self.classes), -1)
        number[list(self.order)] = np.arange(len(self.order))
        rng = np.random.default_rng(seed)
        latents, labels = self.samples["train"]
        labels = number[labels]
        streams = []
        for task in self.tasks:
            index = np.concatenate([rng.permutation(np.flatnonzero(labels == c))[:self.options.samples] for c in task])
            index = rng.permutation(index)
            firsts = np.array([np.flatnonzero(labels[index] == c)[0] for c in task])  # classes start in order
            index = np.concatenate([index[firsts], np.delete(index, firsts)])
            streams.append((latents[index], labels[index]))
        test, test_labels = self.samples["test"]
        inside = number[test_labels] >= 0
        self.test = test[inside], number[test_labels][inside]
        return streams

    def run(self, seed: int, against: Sequence[str]) -> dict[str, Any]:
        """{"seed", "classes", "learners": {name: scores after each task, memory, seconds}}."""
        streams = self.streams(seed)
        scores = {"chip": self.chip(seed, streams)}
        for name in against:
            scores[name] = self.learn(name, self.baseline(name, seed), streams)
        return {"seed": seed, "classes": [self.classes[c] for c in self.order], "learners": scores}

    def chip(self, seed: int, streams: list[tuple[np.ndarray, np.ndarray]]) -> dict[str, Any]:
        hidden = None if self.hidden is None else (self.hidden.numpy().reshape(self.head.hidden, -1) >= 0).astype(np.uint8)
        learner: Any = learning.Learner(self.head, replace(self.config, seed=seed + 1), hidden)

        def learn(latents, labels):
            learner.learn(latents, labels, lambda samples: self.options.progress(samples, desc="chip"))
            learner.rehearse(self.options.rehearse)

        learner.memory_bits = self.config.ledger(self.head)["total_bits"]
        scores = self.learn("chip", learner, streams, learn)
        samples = sum(len(labels) for _, labels in streams)
        return {**scores, "presentations": learner.presentations, "updates": learner.updates, "flips": learner.flips,
                "updates_per_sample": learner.updates / samples, "flips_per_sample": learner.flips / samples}

    def baseline(self, name: str, seed: int) -> Learner:
        slots = self.config.slots
        if name == "adam-equal-memory":
            ledger = self.config.ledger(self.head)
            label_bits = ledger["label_bits"] // slots
            slots = max(0, (ledger["total_bits"] - gradients.adam_bits(self.topology)) // (self.head.latent + label_bits))
        recipe = TrainConfig(epochs=self.options.epochs, lr=self.options.lr, seed=seed, c=1.0)
        kind = {"nearest-mean": comparators.NearestClassMean, "streaming-lda": comparators.StreamingDiscriminant}.get(
            name, gradients.AdamReplay)
        return kind(Problem(len(self.order), tuple(self.tasks), self.head.latent, slots * self.head.latent, recipe, True,
                            partial(self._network, seed)))

    @torch.no_grad()
    def _network(self, seed):
        torch.manual_seed(seed)
        model = FBNN(self.topology)
        if self.hidden is not None:
            model.layers["hidden"].proxy.copy_(self.hidden)
        return model

    def learn(self, name: str, learner: Any, streams: list[tuple[np.ndarray, np.ndarray]], teach: Callable | None = None) -> dict[str, Any]:
        began, records = time.process_time(), []
        for t, (latents, labels) in enumerate(streams):
            (teach or learner.learn)(latents, labels)
            seen = self.tasks[t][-1] + 1
            inside = self.test[1] < seen
            matrix = metrics.confusion(self.test[1][inside], learner.classify(self.test[0][inside]), seen)
            records.append(metrics.evaluate(matrix, self.tasks, t, self.tasks[0] if self.setting == "rpt" else ()))
            self.options.detail(f"{name}, task {t + 1}: {records[-1]['seen']['a']:.2%} of the {seen} classes seen")
        return {"tasks": records, "memory_bits": learner.memory_bits, "cpu_seconds": round(time.process_time() - began, 1)}
