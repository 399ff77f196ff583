"""How docs/results/omniglot/extractor.pt came about: an extractor of handwritten characters, made for the mean of few drawings.

    python docs/benchmarks/characters.py float float.state --data-dir DIR --steps 1500
    python docs/benchmarks/characters.py bits bits.pt --init float.state --data-dir DIR --steps 5000
    python docs/benchmarks/characters.py signs third.pt --init bits.state --data-dir DIR --steps 3000
    python docs/benchmarks/characters.py signs extractor.pt --init third.state --data-dir DIR --steps 3000

The first trains the layers with float activations, the second goes on from it with bits.  All see the alphabets of `omniglot-background`
alone, as 712 classes and 712 more that are their mirror images.  A step has some classes with some drawings of each.  Two losses are added:
the cross-entropy of all classes, and that of the step's classes by the angle to the mean of the other drawings (prototypical networks,
arXiv 1703.05175).  The last two trainings have the signs of the sums in place of the means, as the chip has them.  At the end the
statistics of batch norm are estimated again, over the drawings as they are.  --held-out N keeps the last N alphabets back, and measures
with their drawings what the extractor is for: nearest mean, and the integer learner.  The state is written every five minutes, and on
Ctrl-C; the same command goes on from it.  --layers wide trains those of wide.pt; docs/results/omniglot.md has its commands.
"""

import argparse
import shlex
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from omniglot import float_rows, integer_learner, latents, with_first_classes
from stepwise import Stepwise

from fbnn_hw.data import datasets, omniglot
from fbnn_hw.data.augment import augment, warp
from fbnn_hw.ir import ops as op
from fbnn_hw.ir.network import LATENT, Topology
from fbnn_hw.nn import checkpoint
from fbnn_hw.nn.network import FBNN, export
from fbnn_hw.train.record import hardware

STATE, VERSION = "fbnn-hw training on characters", 1
SIZE, LEVELS, GROUPS = 32, 32, 4
LAYERS = {"narrow": (((32,), (64,), (128, 128)), 768), "wide": (((32,), (64,), (128, 256)), 1536)}
"""{layers: (channels of the convolutions, bits of the latent)}.  Each part of the convolutions ends in a maxpool."""
KINDS = {"float": (64, 4, 2e-3), "bits": (64, 4, 2e-3), "signs": (32, 8, 1e-3)}
"""{kind of training: (classes of a step, drawings of each, rate)}."""
WARMUP = 50
BATCHES, BATCH = 60, 256
"""Over which the statistics are estimated at the end."""
SHIFT, WARP = 2, 0.15
SHARP = 20
"""The scores of both losses are this times a cosine."""
TAUGHT, COUNTER_BITS = 10, 4
"""Drawings that teach a class of the alphabets held out, and bits of its counters; the other half tests."""


def topology(classes, size="narrow"):
    """Convolutions, and a dense latent that sees the whole last map in groups of channels.  size: of `LAYERS`."""
    parts, bits = LAYERS[size]
    layers = [op.Thermometer("input", (), "grey", SIZE, LEVELS)]

    def add(kind, name, *values, **options):
        layers.append(kind(name, (layers[-1].name,), *values, **options))

    for part, counts in enumerate(parts, 1):
        for channels in counts:
            add(op.Conv, f"conv{sum(isinstance(layer, op.Conv) for layer in layers) + 1}", channels)
        add(op.MaxPool, f"pool{part}")
    add(op.Flatten, "flat")
    add(op.Dense, LATENT, bits, groups=GROUPS)
    add(op.Dense, "logits", len(classes), logits=True)
    network = Topology("characters" if size == "narrow" else f"characters-{size}", tuple(layers), tuple(classes))
    network.verify()
    return network


def drawings(data_dir, alphabets):
    """(uint8 (classes, drawings, 1, SIZE, SIZE), names of the classes) of characters in four rotations."""
    images, labels, names, _ = omniglot.read([Path(data_dir)], alphabets, range(1, 21), SIZE, 10 ** 6)
    return torch.from_numpy(np.ascontiguousarray(images[:, :1])).unflatten(0, (len(names), -1)), names


def by_the_others(latent, ways, signs, generator):
    """Cross-entropy of latents (ways * shots, bits) by the cosine to the mean of each class, in which a drawing itself does not count.

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


class Training(Stepwise):
    """One training; the state holds what it needs to go on, and the network as "best", as a state of `pretrain` has it."""

    def __init__(self, path, kind, kept, names, steps, init, held, size="narrow"):
        torch.manual_seed(0)
        self.kept, self.names, self.steps, self.held = kept, names, steps, held
        self.signs, (self.ways, self.shots, self.rate) = kind == "signs", KINDS[kind]
        self.size, (_, self.bits) = size, LAYERS[size]
        self.model = FBNN(topology([*names, *(f"{name} mirrored" for name in names)], size), norm="bn")
        self.model.dtype, self.model.binary = torch.bfloat16, kind != "float"
        if init:
            with checkpoint.taking_up(init):
                self.model.load_state_dict(checkpoint.state(init, STATE, VERSION)["best"])
        optimizer = torch.optim.AdamW(self.model.parameters(), self.rate, weight_decay=0, fused=True)
        super().__init__(path, STATE, VERSION, {"best": self.model, "optimizer": optimizer}, 1, ("classes", "means", "right"), 100)

    def _end(self):
        self.model.dtype = torch.float32
        self.model.estimate(self._as_they_are())

    def _as_they_are(self):
        """Batches of drawings that are neither moved nor warped, half of them mirrored."""
        generator = torch.Generator().manual_seed(2)
        for _ in range(BATCHES):
            drawn = [torch.randint(count, (BATCH,), generator=generator) for count in self.kept.shape[:2]]
            images = augment(self.kept[drawn[0], drawn[1]], generator, 0, 0)
            yield images.expand(-1, 3, -1, -1)

    def _step(self):
        count = len(self.kept)
        classes = torch.randperm(2 * count, generator=self.generator)[:self.ways]
        chosen = torch.rand(self.ways, self.kept.shape[1], generator=self.generator).argsort(1)[:, :self.shots]
        labels = classes.repeat_interleave(self.shots)
        images = augment(self.kept[(classes % count)[:, None], chosen].flatten(0, 1), self.generator, SHIFT, 0, labels >= count)
        latent, logits = self.model.latent_and_logits(warp(images, self.generator, WARP).expand(-1, 3, -1, -1))
        parts = torch.stack([F.cross_entropy(SHARP * logits / self.bits, labels),
                             by_the_others(latent, self.ways, self.signs, self.generator)])
        self._update(parts.sum(), self.rate, WARMUP)
        self.sums += torch.cat([parts.detach(), (logits.argmax(1) == labels).float().mean()[None]])

    def measured(self):
        """Share right of the classes held out: (nearest mean, the integer learner), as docs/benchmarks/omniglot.py has them."""
        count, drawings_each = self.held.shape[:2]
        images = self.held[:, :, 0].numpy()
        taught, asked = (latents(self.model.eval(), part.reshape(-1, SIZE, SIZE)) for part in (images[:, :TAUGHT], images[:, TAUGHT:]))
        labels = [np.arange(count).repeat(each) for each in (TAUGHT, drawings_each - TAUGHT)]
        rows = float_rows(taught, labels[0], asked, labels[1], count)
        learned = integer_learner(taught, labels[0], asked, labels[1], count, COUNTER_BITS, "prototypes")
        return rows["nearest mean, float"], learned[count]

    def network(self, record):
        """The bits and thresholds, with the classes that are not mirrored alone."""
        return export(with_first_classes(self.model.state_dict(), topology(self.names, self.size)).eval(), record)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("out", type=Path)
    parser.add_argument("--init", type=Path)
    parser.add_argument("--layers", choices=LAYERS, default="narrow")
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--held-out", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    alphabets = datasets.DATASETS["omniglot-background"].options["alphabets"]
    seen = alphabets[:len(alphabets) - args.held_out]
    kept, names = drawings(args.data_dir, seen)
    held = drawings(args.data_dir, alphabets[len(seen):])[0] if args.held_out else ()
    training = Training(args.out.with_suffix(".state"), args.kind, kept, names, args.steps, args.init, held, args.layers)
    if not training.run_until_interrupted():
        sys.exit("interrupted: the same command goes on")
    if args.held_out:
        print("held out, right: nearest mean {:.4f}, integer learner {:.4f}".format(*training.measured()))
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
