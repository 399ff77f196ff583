"""`fbnn-hw chip-cil`: a class-incremental scenario learned as the chip learns it, against float training on the same latents."""

import shlex
import time
from dataclasses import fields, replace
from pathlib import Path

import numpy as np

from ..errors import InputError, UsageError
from ..reference.learning import PICKS, RULES, Head, LearnConfig
from ..train.scenarios import SCENARIOS
from . import _common

SUMMARY = "learn classes task after task in the integers of the chip, against float training on the same latents"
EXAMPLES = (
    ("fbnn-hw chip-cil --scenario cifar10-4+3x2 --model 0.5mb-fe4.pt --seeds 5 --out chip.json",
     "1000 exemplars, the default rule, on a shipped extractor"),
    ("fbnn-hw chip-cil --scenario cifar10-4+3x2 --model 0.5mb-fe4.pt --head skip --hidden-counter-bits 4 --slots 250 --against none",
     "the checkpoint's own classifier, DenseSkip included, with a small buffer"),
)
HEADS = ("dense", "dense2", "skip")
BASELINES = ("adam", "adam-equal-memory", "nearest-mean", "streaming-lda")
HELP = {
    "slots": "exemplars in the replay buffer", "counter_bits": "bits of a counter of the output layer",
    "hidden_counter_bits": "of the hidden layer; 0: it does not learn", "temperature": "of the drawn softmax, in units of the logits",
    "margin": "of the rule margin", "thinning": "m: a counter moves with probability 2^-m", "hidden_thinning": "m of the hidden layer",
    "gate": "hidden rows learn where |dot| is at most this", "replays": "replays for each new sample",
    "prototype": "first samples of a new class that are added to its row", "confidence": "counters of shipped weights start so far from 0",
}
DEFAULTS = {"slots": 1000}


def arguments(parser):
    parser.add_argument("--scenario", required=True, choices=list(SCENARIOS), metavar="NAME", help=", ".join(SCENARIOS))
    _common.add_model(parser)
    parser.add_argument("--data-dir", metavar="DIR", help="where the data set lies (default: $FBNN_DATA, then the user's cache)")
    parser.add_argument("--head", choices=HEADS, default="dense",
                        help="one dense layer; one on the latent duplicated; or the checkpoint's, with its hidden layer (default: dense)")
    learner = parser.add_argument_group("learner")
    for field in fields(LearnConfig):
        if field.name in HELP:
            default = DEFAULTS.get(field.name, field.default)
            learner.add_argument(f"--{field.name.replace('_', '-')}", type=_common.natural, default=default, metavar="N",
                                 help=f"{HELP[field.name]} (default: {default})")
    learner.add_argument("--rule", choices=RULES, default=LearnConfig.rule, help=f"default: {LearnConfig.rule}")
    learner.add_argument("--pick", choices=PICKS, default=LearnConfig.pick,
                         help=f"a replay is of a random slot, a random class, or the class presented least (default: {LearnConfig.pick})")
    learner.add_argument("--weighted", action="store_true", help="accept updates by inverse frequency of the classes")
    learner.add_argument("--rehearse", type=_common.natural, default=0, metavar="N", help="replays after each task (default: 0)")
    parser.add_argument("--samples", type=_common.count, metavar="N", help="training samples of each class (default: all)")
    parser.add_argument("--validate", action="store_true",
                        help="test on the last fifth of the training images of each class, which nobody learns then: to choose settings by")
    parser.add_argument("--seeds", type=_common.count, default=1, metavar="N", help="runs, with seeds 0 to N - 1 (default: 1)")
    parser.add_argument("--against", default=",".join(BASELINES), metavar="A,B,...",
                        help=f"{', '.join(BASELINES)}, or none (default: all of them)")
    parser.add_argument("--epochs", type=_common.count, default=10, metavar="N", help="of adam, for each task (default: 10)")
    parser.add_argument("--lr", type=_common.positive, default=1e-3, metavar="X", help="of adam (default: 0.001)")
    parser.add_argument("--out", metavar="FILE.json", help="write the result there too")
    _common.add_threads(parser)


def chosen(text):
    names = [] if text == "none" else text.split(",")
    for name in names:
        if name not in BASELINES:
            raise UsageError(f"--against {name}: no such learner, expected some of {', '.join(BASELINES)}, or none")
    return names


def run(args, out):
    scenario, against = SCENARIOS[args.scenario], chosen(args.against)
    if args.out:
        _common.writable(Path(args.out))
    if not scenario.base:
        raise UsageError(f"--scenario {args.scenario}: its pre-training has other classes, expected one that starts with its own")
    names = {field.name for field in fields(LearnConfig)}
    config = LearnConfig(scenario.classes, **{n: v for n, v in vars(args).items() if n in names})
    config.verify()
    path, network = _common.checkpoint(args.model)
    head = {"dense": lambda: replace(Head.of(network.topology), copies=1, hidden=0, groups=1, hidden_copies=1),
            "dense2": lambda: replace(Head.of(network.topology), copies=2, hidden=0, groups=1, hidden_copies=1),
            "skip": lambda: Head.of(network.topology)}[args.head]()
    if args.head == "skip" and not head.hidden:
        raise InputError(f"{path}: has no hidden layer beside the latent, expected one with --head skip")
    _common.set_threads(args)
    study = Study(args, out, scenario, path, config, head)
    runs = [study.run(seed, against) for seed in range(args.seeds)]
    summary = summarise(runs)
    result = {"command": shlex.join(["fbnn-hw", *args.argv]), "scenario": args.scenario, "model": path, "trained_on": study.trained_on,
              "head": vars(head), "config": config.to_dict(), "ledger": config.ledger(head), "adam": {"epochs": args.epochs, "lr": args.lr},
              "samples_per_class": args.samples, "validate": args.validate, "rehearse": args.rehearse, "summary": summary, "runs": runs}
    if args.out:
        from .train import write_result

        write_result(Path(args.out), result)
    rows = [(name, of(s["a_final"]), of(s["d_final"], 1, 3), f"{s['memory_bits'] / 1e6:.3f}") for name, s in summary.items()]
    out.text(*_common.table(rows, ("learner", "a_final %", "d_final", "memory Mb")),
             "", f"{args.seeds} seeds, {config.slots} exemplars, {scenario.classes} classes; the extractor was trained on "
             f"{len(study.trained_on)} of them: {', '.join(study.trained_on)}")
    out.result(result)


def of(pair, scale=100, digits=2):
    mean, deviation = pair
    return f"{mean * scale:.{digits}f}" + ("" if deviation is None else f" +- {deviation * scale:.{digits}f}")


def summarise(runs):
    """{learner: a_final and d_final as (mean, sample deviation), memory} over the runs."""
    from ..train.metrics import mean_and_deviation

    summaries = {}
    for name in runs[0]["learners"]:
        learners = [r["learners"][name] for r in runs]
        summaries[name] = {key: mean_and_deviation([learner["tasks"][-1]["final"][key[0]] for learner in learners])
                           for key in ("a_final", "d_final")}
        summaries[name]["memory_bits"] = learners[0]["memory_bits"]
    return summaries


class Study:
    """The latents of a scenario, and its learners one after the other."""

    def __init__(self, args, out, scenario, path, config, head):
        from ..data import datasets
        from ..train import latent_learners, start
        from ..train.samples import Latents

        self.args, self.out, self.scenario, self.config, self.head = args, out, scenario, config, head
        origin = start.read(path)
        origin.verify_classifier()
        takes, has = origin.topology.image_size, datasets.DATASETS[scenario.data].size
        if takes != has:
            raise InputError(f"{path}: takes images of {takes}x{takes}, {scenario.data} has {has}x{has}; expected a model of that size")
        self.proxies = origin.proxies
        model = start.make(origin, origin.topology.classes, True, 0, {})
        latents = Latents(model.topology, datasets.cache_folder() / "latents")
        self.samples = {}
        for split in ("train", "test"):
            images = datasets.load(scenario.data, args.data_dir, split, progress=out.progress)
            parts = [images.images[images.labels == c] for c in range(len(images.classes))]
            vectors = np.concatenate([latents.form(part, model, out.progress).numpy() for part in parts])
            self.samples[split] = vectors, np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        if args.validate:
            vectors, labels = self.samples["train"]
            of = [np.flatnonzero(labels == c) for c in range(len(images.classes))]
            last = np.concatenate([index[len(index) * 4 // 5:] for index in of])
            self.samples = {"train": (np.delete(vectors, last, 0), np.delete(labels, last)), "test": (vectors[last], labels[last])}
        self.classes = images.classes
        self.trained_on = [name for name in origin.topology.classes if name in self.classes]
        topology = start.with_classes(origin.topology, tuple(f"class {i}" for i in range(scenario.classes)))
        self.topology = topology if args.head == "skip" else latent_learners.dense_head(topology, head.copies)
        self.hidden = origin.proxies["hidden"] if head.hidden else None

    def streams(self, seed):
        """[(latents, labels) of a task] as they arrive, labels counted in this order; sets `order`, `tasks` and `test` to match."""
        self.order = order = self.scenario.class_order(seed)
        sizes = [len(task) for task in self.scenario.split(seed, "rpt")]
        ends = np.cumsum(sizes)
        self.tasks = [tuple(range(end - size, end)) for end, size in zip(ends.tolist(), sizes)]
        number = np.full(len(self.classes), -1)
        number[list(order)] = np.arange(len(order))
        rng = np.random.default_rng(seed)
        latents, labels = self.samples["train"]
        labels = number[labels]
        streams = []
        for task in self.tasks:
            index = np.concatenate([rng.permutation(np.flatnonzero(labels == c))[:self.args.samples] for c in task])
            index = rng.permutation(index)
            firsts = np.array([np.flatnonzero(labels[index] == c)[0] for c in task])  # classes start in order
            index = np.concatenate([index[firsts], np.delete(index, firsts)])
            streams.append((latents[index], labels[index]))
        test, test_labels = self.samples["test"]
        kept = number[test_labels] >= 0
        self.test = test[kept], number[test_labels][kept]
        return streams

    def run(self, seed, against):
        """{"seed", "classes", "learners": {name: scores after each task, memory, seconds}}."""
        streams = self.streams(seed)
        scores = {"chip": self.chip(seed, streams)}
        for name in against:
            scores[name] = self.learn(name, self.baseline(name, seed), streams)
        return {"seed": seed, "classes": [self.classes[c] for c in self.order], "learners": scores}

    def chip(self, seed, streams):
        from ..reference.learning import Learner

        hidden = None if self.hidden is None else (self.hidden.numpy().reshape(self.head.hidden, -1) >= 0).astype(np.uint8)
        learner = Learner(self.head, replace(self.config, seed=seed + 1), hidden)

        def learn(latents, labels):
            learner.learn(latents, labels, lambda samples: self.out.progress(samples, desc="chip"))
            learner.rehearse(self.args.rehearse)

        learner.memory_bits = self.config.ledger(self.head)["total_bits"]
        scores = self.learn("chip", learner, streams, learn)
        samples = sum(len(labels) for _, labels in streams)
        return {**scores, "presentations": learner.presentations, "updates": learner.updates, "flips": learner.flips,
                "updates_per_sample": learner.updates / samples, "flips_per_sample": learner.flips / samples}

    def baseline(self, name, seed):
        from ..train import latent_learners as learners

        if name == "nearest-mean":
            return learners.NearestMean(self.head.latent, self.scenario.classes)
        if name == "streaming-lda":
            return learners.StreamingLda(self.head.latent, self.scenario.classes)
        slots = self.config.slots
        if name == "adam-equal-memory":
            ledger = self.config.ledger(self.head)
            label_bits = ledger["label_bits"] // slots
            slots = max(0, (ledger["total_bits"] - learners.adam_bits(self.topology)) // (self.head.latent + label_bits))
        return learners.AdamReplay(self.topology, {} if self.hidden is None else {"hidden": self.proxies["hidden"]},
                                   slots * self.head.latent, seed, self.args.epochs, lr=self.args.lr)

    def learn(self, name, learner, streams, teach=None):
        from ..train import metrics

        began, records = time.process_time(), []
        for t, (latents, labels) in enumerate(streams):
            (teach or learner.learn)(latents, labels)
            seen = self.tasks[t][-1] + 1
            kept = self.test[1] < seen
            matrix = metrics.confusion(self.test[1][kept], learner.classify(self.test[0][kept]), seen)
            records.append(metrics.evaluate(matrix, self.tasks, t, self.tasks[0]))
            self.out.detail(f"{name}, task {t + 1}: {records[-1]['seen']['a']:.2%} of the {seen} classes seen")
        return {"tasks": records, "memory_bits": learner.memory_bits, "cpu_seconds": round(time.process_time() - began, 1)}
