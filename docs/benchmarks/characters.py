"""How docs/results/omniglot/extractor.pt came about: an extractor of handwritten characters, made for the mean of few drawings.

    python docs/benchmarks/characters.py float float.state --data-dir DIR --steps 1500
    python docs/benchmarks/characters.py bits bits.pt --init float.state --data-dir DIR --steps 5000
    python docs/benchmarks/characters.py signs extractor.pt --init bits.state --data-dir DIR --steps 3000

The first trains the layers with float activations, the second goes on from it with bits.  All see the alphabets of `omniglot-background`
alone, as 712 classes and 712 more that are their mirror images.  A step has some classes with some drawings of each.  Two losses are added:
the cross-entropy of all classes, and that of the step's classes by the angle to the mean of the other drawings (prototypical networks,
arXiv 1703.05175).  The third training has the signs of the sums in place of the means, as the chip has them.  At the end the statistics of
batch norm are estimated again, over the drawings as they are.  --held-out N keeps the last N alphabets back, and measures with their
drawings what the extractor is for: nearest mean, and signs of the sums.  The state is written every five minutes, and on Ctrl-C; the same
command goes on from it.
"""

import argparse
import math
import shlex
import signal
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from fbnn_hw.data import datasets, omniglot
from fbnn_hw.data.augment import augment, warp
from fbnn_hw.ir import ops as op
from fbnn_hw.ir.network import LATENT, Topology
from fbnn_hw.nn import checkpoint
from fbnn_hw.nn.network import FBNN, export
from fbnn_hw.train.record import hardware

STATE, VERSION = "fbnn-hw training on characters", 1
SIZE, LEVELS, GROUPS, BITS = 32, 32, 4, 768
CHANNELS = ((32,), (64,), (128, 128))
"""Of the convolutions; each part ends in a maxpool."""
KINDS = {"float": (64, 4, 2e-3), "bits": (64, 4, 2e-3), "signs": (32, 8, 1e-3)}
"""{kind of training: (classes of a step, drawings of each, rate)}."""
WARMUP, OFTEN = 50, 100
SHIFT, WARP = 2, 0.15
SHARP = 20
"""The scores of both losses are this times a cosine."""
TAUGHT = 10
"""Drawings that teach a class of the alphabets held out; the other half tests."""


def topology(classes):
    """Convolutions, and a dense latent that sees the whole last map in groups of channels."""
    layers = [op.Thermometer("input", (), "grey", SIZE, LEVELS)]

    def add(kind, name, *values, **options):
        layers.append(kind(name, (layers[-1].name,), *values, **options))

    for part, counts in enumerate(CHANNELS, 1):
        for channels in counts:
            add(op.Conv, f"conv{sum(isinstance(layer, op.Conv) for layer in layers) + 1}", channels)
        add(op.MaxPool, f"pool{part}")
    add(op.Flatten, "flat")
    add(op.Dense, LATENT, BITS, groups=GROUPS)
    add(op.Dense, "logits", len(classes), logits=True)
    made = Topology("characters", tuple(layers), tuple(classes))
    made.verify()
    return made


def drawings(data_dir, alphabets):
    """(uint8 (classes, drawings, 1, SIZE, SIZE), names of the classes) of characters in four rotations."""
    images, labels, names, _ = omniglot.read([Path(data_dir)], alphabets, range(1, 21), SIZE, 10 ** 6)
    return torch.from_numpy(np.ascontiguousarray(images[:, :1])).unflatten(0, (len(names), -1)), names


def latent_and_logits(model, images):
    """Floats (N, BITS) and (N, classes) of grey bytes (N, 1, SIZE, SIZE)."""
    for layer, y in model.activations(model.encode(images.expand(-1, 3, -1, -1))):
        if layer.name == LATENT:
            latent = y.flatten(1).float()
    return latent, y.flatten(1).float()


def by_the_others(latent, ways, signs, generator):
    """Cross-entropy of latents (ways * shots, BITS) by the cosine to the mean of each class, in which a drawing itself does not count.

    signs: the means are signs, 0 drawn, whose gradient is that of the mean.
    """
    each = latent.unflatten(0, (ways, -1))
    shots = each.shape[1]
    means = each.mean(1)
    others = (shots * means[:, None] - each) / (shots - 1)
    if signs:
        means, others = (x + (torch.sign(x + (torch.rand(x.shape, generator=generator) - 0.5) / shots ** 2) - x).detach()
                         for x in (means, others))
    unit, means, others = (F.normalize(x, dim=-1) for x in (each, means, others))
    scores = torch.einsum("csd,kd->csk", unit, means)
    own = torch.eye(ways, dtype=torch.bool)[:, None]
    scores = torch.where(own, (unit * others).sum(-1, keepdim=True), scores)
    return F.cross_entropy(SHARP * scores.flatten(0, 1), torch.arange(ways).repeat_interleave(shots))


class Training:
    """One training; the state in `path` holds what it needs to go on, and the network as "best", as a state of `pretrain` has it."""

    def __init__(self, path, kind, kept, names, steps, init, held):
        torch.manual_seed(0)
        self.path, self.kind, self.kept, self.names, self.steps, self.held = path, kind, kept, names, steps, held
        self.ways, self.shots, self.rate = KINDS[kind]
        self.model = FBNN(topology([*names, *(f"{name} mirrored" for name in names)]), norm="bn")
        self.model.dtype, self.model.binary = torch.bfloat16, kind != "float"
        if init:
            with checkpoint.taking_up(init):
                self.model.load_state_dict(checkpoint.state(init, STATE, VERSION)["best"])
        self.optimizer = torch.optim.AdamW(self.model.parameters(), self.rate, weight_decay=0, fused=True)
        self.generator = torch.Generator().manual_seed(1)
        self.step, self.seconds, self.sums = 0, 0.0, torch.zeros(3)
        if path.is_file():
            state = checkpoint.state(path, STATE, VERSION)
            with checkpoint.taking_up(path):
                self.model.load_state_dict(state["best"])
                self.optimizer.load_state_dict(state["optimizer"])
                self.generator.set_state(state["rng"])
                self.step, self.seconds = state["step"], state["seconds"]

    def save(self):
        checkpoint.store(self.path, {"format": STATE, "version": VERSION, "best": self.model.state_dict(),
                                     "optimizer": self.optimizer.state_dict(), "rng": self.generator.get_state(), "step": self.step,
                                     "seconds": self.seconds})

    def run(self, every=300):
        """Train to the last step; save every so many seconds, and when interrupted."""
        saved = time.monotonic()
        self.model.train()
        try:
            while self.step < self.steps:
                began = time.monotonic()
                self._step()
                self.step, self.seconds = self.step + 1, self.seconds + time.monotonic() - began
                if self.step % OFTEN == 0:
                    print(f"step {self.step}/{self.steps}, {self.seconds:.0f} s, classes, means, right:",
                          " ".join(f"{value / OFTEN:.3f}" for value in self.sums), flush=True)
                    self.sums.zero_()
                if time.monotonic() - saved > every:
                    self.save()
                    saved = time.monotonic()
            self.model.dtype = torch.float32
            self.model.estimate(self._as_they_are())
        finally:
            self.save()

    def _as_they_are(self, batches=60, size=256):
        """Batches of drawings that are neither moved nor warped, half of them mirrored."""
        generator = torch.Generator().manual_seed(2)
        for _ in range(batches):
            drawn = [torch.randint(count, (size,), generator=generator) for count in self.kept.shape[:2]]
            images = augment(self.kept[drawn[0], drawn[1]], generator, 0, 0)
            yield images.expand(-1, 3, -1, -1)

    def _step(self):
        rate = self.rate * min((self.step + 1) / WARMUP, 0.5 + 0.5 * math.cos(math.pi * self.step / self.steps))
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        count = len(self.kept)
        classes = torch.randperm(2 * count, generator=self.generator)[:self.ways]
        chosen = torch.rand(self.ways, self.kept.shape[1], generator=self.generator).argsort(1)[:, :self.shots]
        labels = classes.repeat_interleave(self.shots)
        images = augment(self.kept[(classes % count)[:, None], chosen].flatten(0, 1), self.generator, SHIFT, 0, labels >= count)
        latent, logits = latent_and_logits(self.model, warp(images, self.generator, WARP))
        parts = torch.stack([F.cross_entropy(SHARP * logits / BITS, labels),
                             by_the_others(latent, self.ways, self.kind == "signs", self.generator)])
        self.optimizer.zero_grad(set_to_none=True)
        parts.sum().backward()
        self.optimizer.step()
        self.sums += torch.cat([parts.detach(), (logits.argmax(1) == labels).float().mean()[None]])

    @torch.no_grad()
    def measured(self):
        """Share right of the classes held out: (nearest mean, signs of the sums, 0 drawn), as docs/benchmarks/omniglot.py has them."""
        self.model.eval()
        latents = torch.stack([self.model.latent(images.expand(-1, 3, -1, -1)).float() for images in self.held])
        count = len(latents)
        means, asked = latents[:, :TAUGHT].mean(1), latents[:, TAUGHT:].flatten(0, 1)
        drawn = torch.rand(means.shape, generator=torch.Generator().manual_seed(0)) - 0.5
        signs = torch.where(means == 0, drawn, means).sign()
        labels = torch.arange(count).repeat_interleave(latents.shape[1] - TAUGHT)
        return [float((scores.argmax(1) == labels).float().mean())
                for scores in (asked @ means.T - means.square().sum(1) / 2, asked @ signs.T)]

    def network(self, record):
        """The bits and thresholds, with the classes that are not mirrored alone."""
        model, count = FBNN(topology(self.names), norm="bn"), len(self.names)
        values = self.model.state_dict()
        values = {name: value[:count] if name.startswith("layers.logits.") and value.ndim else value for name, value in values.items()}
        model.load_state_dict(values)
        return export(model.eval(), record)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("out", type=Path)
    parser.add_argument("--init", type=Path)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--held-out", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    alphabets = datasets.DATASETS["omniglot-background"].options["alphabets"]
    seen = alphabets[:len(alphabets) - args.held_out]
    kept, names = drawings(args.data_dir, seen)
    held = drawings(args.data_dir, alphabets[len(seen):])[0] if args.held_out else ()
    training = Training(args.out.with_suffix(".state"), args.kind, kept, names, args.steps, args.init, held)
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background jobs ignore the first
        signal.signal(number, signal.default_int_handler)
    try:
        training.run()
    except KeyboardInterrupt:
        sys.exit("interrupted: the same command goes on")
    if args.held_out:
        print("held out, right: nearest mean {:.4f}, signs {:.4f}".format(*training.measured()))
    if args.kind != "float":
        images = kept.shape[0] * kept.shape[1]
        passes = round(training.step * training.ways * training.shots / images)
        choices = {"ways": training.ways, "shots": training.shots, "lr": training.rate, "warmup": WARMUP, "shift": SHIFT, "warp": WARP,
                   "sharp": SHARP, "steps": args.steps, "norm": "bn", "precision": "bfloat16", "init": str(args.init)}
        record = {"command": shlex.join(["python", *sys.argv]), "data": "omniglot-background", "alphabets": ", ".join(seen),
                  "epochs": passes, "best_epoch": passes, "steps": training.step, "finished": True, "train_images": images,
                  "seconds": round(training.seconds, 1), "hardware": hardware(), "device": "cpu", "threads": 1,
                  "torch": str(torch.__version__), "seed": 0, "config": choices}
        checkpoint.save(args.out, training.network(record))
        print(f"{args.out}: {training.step} steps")


if __name__ == "__main__":
    main()
