"""Train networks on CIFAR-10 on one GPU, several side by side: `fbnn_hw.train.offline.Trainer` with each step as a CUDA graph.

    python docs/benchmarks/captured.py RUNS.json FOLDER [--seconds N] [--teacher FILE.state ...]

RUNS.json is a list of groups, one after the other; a group is a list of runs side by side, each a dict: `name`, `model`, fields of
`TrainConfig` where they differ from RECIPE, and `init`, the name of a finished run to go on from.  FOLDER gets NAME.pt, NAME.result.json
and NAME.state.  After N seconds each run ends with its epoch and leaves what it has; the same line goes on.

A step of these networks is some 250 small kernels.  Python needs longer to start them than the GPU to run them, so the first step is
captured, and the others replay it.  Nothing in a step may wait for the host: random numbers are drawn on the GPU for an epoch at a
time, and rates lie in a table.  So a run has other random numbers than `fbnn-hw train` of the same seed.  `train --device cuda` has the
same recipe without the graph.  Without a GPU the runs train as they would there, one step at a time.
"""

import argparse
import json
import math
import shlex
import sys
import threading
import time
import traceback
from contextlib import nullcontext
from pathlib import Path

import torch

from fbnn_hw.data import datasets
from fbnn_hw.ir.models import build
from fbnn_hw.ir.shipped import resolve
from fbnn_hw.nn import checkpoint
from fbnn_hw.nn.network import FBNN
from fbnn_hw.train import record, start
from fbnn_hw.train.config import TrainConfig, flag
from fbnn_hw.train.offline import Trainer, split
from fbnn_hw.train.teacher import load

RECIPE = dict(norm="bn", lr=1e-3, c=1.0, schedule="cosine", patience=0, shift=2, contrast=0.0, mirror="alternating", validation=0.0,
              precision="bfloat16", teacher_views="mirrored")
ONLY = dict(schedule="cosine", teacher_views="mirrored", ties="up", float_epochs=0, restarts=0)
"""Fields whose value a graph of the steps has for good."""
GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")
EAGER = 3
"""Steps before the capture: they allocate what the first steps of an optimizer and of cuDNN allocate."""


class Rates:
    """A scheduler whose rates lie in a table: it fills `rate`, a tensor that a graph reads."""

    def __init__(self, config, steps, device):
        """steps: in an epoch."""
        count, warm = torch.arange(config.epochs * steps + 1, dtype=torch.float64), config.warmup * steps
        cosine = (1 + torch.cos(math.pi * ((count - warm) / (len(count) - 1 - warm)).clamp(0, 1))) / 2
        self.table = (config.lr * torch.minimum(cosine, (count + 1) / (warm + 1))).float().to(device)
        self.now, self.rate = torch.zeros((), dtype=torch.long, device=device), self.table[0].clone()

    def step(self):
        self.now += 1
        self.rate.copy_(self.table.index_select(0, self.now.view(1))[0])

    def state_dict(self):
        return {"now": self.now}

    def load_state_dict(self, state):
        self.now.copy_(state["now"])
        self.rate.copy_(self.table[self.now])


class Captured(Trainer):
    """A run with a cosine schedule and a teacher, whose `answers` (2, N, classes) are those to images and mirror images."""

    def __init__(self, name, meta, answers, *args, **options):
        super().__init__(*args, **options)
        self.name, self.meta = name, meta
        self.generator = torch.Generator(self.device).manual_seed(self.config.seed)
        self.turns, self.span = self.turns.to(self.device), torch.arange(self.config.batch, device=self.device)
        self.drawn, self.drawn_labels = torch.empty_like(self.images), torch.empty_like(self.labels)
        self.answers = answers[:, split(answers.shape[1], self.config.validation, self.config.seed)[0].to(DEVICE)]
        self.taught = torch.empty_like(self.answers[0])
        self.partner, self.share = torch.zeros_like(self.labels), torch.ones(len(self.labels), device=self.device)
        self.at = torch.zeros((), dtype=torch.long, device=self.device)
        self.stream, self.graph, self.eager = torch.cuda.Stream() if GPU else None, None, 0

    def optimize(self, parameters):
        self.scheduler = Rates(self.config, self.steps, self.device)
        self.optimizer = torch.optim.AdamW(parameters, self.scheduler.rate, weight_decay=self.config.decay, fused=True, capturable=GPU)

    def there(self):
        """Context of the run's stream."""
        return torch.cuda.stream(self.stream) if GPU else nullcontext()

    def draw(self):
        """The images of the next epoch, in their order and augmented."""
        self.model.train()
        self.order = order = torch.randperm(len(self.labels), generator=self.generator, device=self.device)
        for part, place in zip(order.split(10000), self.drawn.split(10000)):
            place.copy_(self._augmented(self.images[part], part))
        if self.config.mixup or self.config.cutmix:
            parts = (values.split(self.config.batch) for values in (self.drawn, self.partner, self.share))
            for images, partner, share in zip(*parts):
                mixed, pairs = self._mixed(images)
                images.copy_(mixed), partner.copy_(pairs[0]), share.copy_(pairs[1])
        self.drawn_labels.copy_(self.labels[order])
        self.taught.copy_(self.answers[self.mirrored(order).long(), order])
        self.at.zero_()

    def learn(self, span):
        """One step.  A graph replays it, so the host reads no value of it."""
        index = self.at + span
        labels = self.drawn_labels[index]
        logits = self.model(self.drawn[index])
        pairs = (self.partner[index], self.share[index][0]) if self.config.mixup or self.config.cutmix else None
        self.update(self._loss(logits, labels, self.taught[index], pairs), logits, self._counted(labels, pairs))
        self.at += len(span)

    def _follow(self):
        """Move the averages by the same share in each step, for a graph has one."""
        if self.average:
            torch._foreach_lerp_(self.average, self._averaged(), 1 - self.config.ema)

    def capture(self):
        """The first steps of an epoch, and the graph of the others.  One run at a time: others may not allocate meanwhile."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with self.there():
            self.draw()
            for _ in range(EAGER):
                self.learn(self.span)
            self.optimizer.zero_grad(set_to_none=True)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=self.stream, capture_error_mode="thread_local"):
                self.learn(self.span)
        self.eager = EAGER

    def pass_once(self, until):
        """One epoch; it is judged if it is the last one, or the time is up."""
        began, (whole, rest) = time.monotonic(), divmod(len(self.labels), self.config.batch)
        if not self.eager:
            self.draw()
        for _ in range(whole - self.eager):
            self.graph.replay() if GPU else self.learn(self.span)
        if rest:
            self.learn(self.span[:rest])
        self.eager = 0
        last = self.epoch + 1 == self.config.epochs or time.monotonic() > until
        self._end(began, *(self._judge() if last else (None, None)))
        return last

    def _take_up(self, state):
        super()._take_up(state)
        for group in self.optimizer.param_groups:
            group.update(lr=self.scheduler.rate, capturable=GPU)


def teach(train, files):
    """The logits of the teacher, or the mean of several, of images and mirror images, (2, N, classes), and its description."""
    teacher = load([resolve(name, "--teacher", ".state") for name in files], build("tiny", train.classes), DEVICE, "bfloat16")
    images = torch.from_numpy(train.images)
    parts = [teacher.logits(part.to(DEVICE)) for view in (images, images.flip(3)) for part in view.split(1000)]
    return torch.cat(parts).view(2, len(images), -1), teacher.description


def make(run, folder, train, teachers, answers, teacher):
    """The `Captured` of a run, where it is now.  teachers: the names of their files.  answers, teacher: what `teach` returned."""
    fields = {key: value for key, value in run.items() if key not in ("name", "model", "init")}
    name, model, init = run["name"], run["model"], run.get("init")
    config = TrainConfig(**{**RECIPE, **fields})
    for key, value in ONLY.items():
        if getattr(config, key) != value:
            sys.exit(f"{name}: {flag(key)} {getattr(config, key)}: no graph of a step has it, expected {value}; fbnn-hw train has it")
    torch.manual_seed(config.seed)
    topology, options = build(model, train.classes), dict(K=config.K, c=config.c, limit=config.limit, norm=config.norm)
    words = [part for key, value in {**RECIPE, **fields}.items() for part in (flag(key), f"{value}")]
    files = [*(("--teacher", file) for file in teachers), *([("--init", f"{init}.pt")] if init else ())]
    begin = f"fbnn-hw train --model {model} --data cifar10 " + " ".join(map(shlex.join, files))
    meta = {"command": " ".join([begin, *words, f"--device {DEVICE.type} --out {name}.pt"]), "program": "docs/benchmarks/captured.py",
            "data": "cifar10", "images_per_class": None, "teacher": teacher}
    if init:
        origin = start.read(folder / f"{init}.pt")
        network, meta["init"] = start.further(origin, topology, config.seed, options), origin.describe()
    else:
        network = FBNN(topology, **options)
    state, images, labels = folder / f"{name}.state", torch.from_numpy(train.images), torch.from_numpy(train.labels)
    trainer = Captured(name, meta, answers, network.to(DEVICE), images, labels, config, state)
    if state.exists():
        trainer.resume()
    return trainer


def work(trainer, folder, test, until):
    """Train to the end or until the time is up, and write what there is."""
    try:
        with trainer.there():
            last = False
            while not last:
                last, epoch = trainer.pass_once(until), trainer.history[-1]
                print(f"{trainer.name}: epoch {epoch['epoch']}, training {epoch['train_accuracy']:.2%}, {epoch['seconds']} s", flush=True)
            trainer.save()
            network = record.network(trainer, trainer.meta, record.test_score(trainer, *test) if trainer.finished else None)
        checkpoint.save(folder / f"{trainer.name}.pt", network)
        result = {"checkpoint": f"{trainer.name}.pt", "training": network.training, "history": trainer.history}
        (folder / f"{trainer.name}.result.json").write_text(json.dumps(result, indent=1) + "\n")
        print(f"{trainer.name}: {network.training['test_accuracy']} after {trainer.epoch} epochs", flush=True)
    except Exception:  # one run's failure is not that of those beside it
        traceback.print_exc()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--teacher", action="append", help="several times: the mean of their logits (default: airbench.state)")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    torch.backends.cudnn.benchmark = True
    until, train, judge = time.monotonic() + args.seconds, datasets.load("cifar10"), datasets.load("cifar10", split="test")
    teachers = args.teacher or ["airbench.state"]
    test, taught = (torch.from_numpy(judge.images), torch.from_numpy(judge.labels)), teach(train, teachers)
    for group in json.loads(args.runs.read_text()):
        trainers = [trainer for run in group if not (trainer := make(run, args.folder, train, teachers, *taught)).finished]
        for trainer in trainers if GPU else ():
            trainer.capture()
        threads = [threading.Thread(target=work, args=(trainer, args.folder, test, until)) for trainer in trainers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if not all(trainer.finished for trainer in trainers):
            break


if __name__ == "__main__":
    main()
