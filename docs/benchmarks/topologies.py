"""The search for `fast` and `tiny`: planned cycles of topologies on a target, and what some of them learned in six epochs.

    python docs/benchmarks/topologies.py [--target ice40] ["96s 128 / 192 / 384v; flatten 512, 32" ...]
    python docs/benchmarks/topologies.py --planned
    python docs/benchmarks/topologies.py --train [--data NAME] "96s 128 / 192 / 384v; flatten 512, 32" ...

A topology is its blocks, each with a pool at its end, then the bits of the latent and the hidden neurons.  A convolution is its filters
and then: s, a stride of 2; v, no padding; g2, two groups; x2, a channel shuffle of two groups before it.  LGAP makes a vector of the last
map, or what is named before the latent, "flatten" or "depthwise".  Thresholds are in convolutions and latent.  8L before the blocks gives
luma 8 levels and each chroma 4, in place of 32 and 16.

Without a topology the table of docs/results/training.md is printed, with the accuracies of docs/results/training/topologies.json.  For
the cycles weights are zero; only their number matters, and that thresholds are there.  --train trains each topology for six epochs, or
--epochs, on one core, and prints a line an epoch.  With --out FILE.json, of one topology, the epochs are kept there, and a run that was
interrupted goes on from FILE.state.
"""

import argparse
import json
import re
import sys
from pathlib import Path

import numpy as np

from fbnn_hw.base.errors import FitError
from fbnn_hw.compile.plan import plan
from fbnn_hw.ir.models import CIFAR10, Convolution, blockwise
from fbnn_hw.ir.network import LATENT, Network
from fbnn_hw.targets import TARGETS

EPOCHS = 6
TRAINED = Path(__file__).parent.parent / "results" / "training" / "topologies.json"
FAST = (
    "96s 128 / 192 / 384v; flatten 512, 32", "112s 112 / 224 / 448vg2; flatten 512, 32", "96s 96 / 192 / 384v; flatten 512, 32",
    "128s 128g2x2 / 256g2x2 / 512vg2x2; flatten 512, 32", "64s 96 96 / 192 / 384v; flatten 512, 32",
    "128s 128g2x2 / 256g2x2 512g4x4; depthwise 512, 32", "96s 96 / 192 192; 512, 32", "128s 128g2x2 / 256g2x2 256g2x2; depthwise 512, 32",
    "32 / 64 128g2x2 / 256g2x2 512g4x4; depthwise 512, 32", "32 / 64 128g2 / 256g2 512g4; 512, 32",
    "32 / 64 128g2 / 256g2 512g4; 512, 128", "32 / 64 128g2 / 256g2 512g4; 1024, 128", "32 / 64 128g2 / 256g2 480g4; 512, 64",
    "32 / 64 128 / 256g2 256g2; 512, 128", "32 / 96 128g2 / 256g2 512g4; 512, 128", "32 / 64 128 / 256g2 512g4; 512, 128",
    "48 / 64 128g2 / 256g2 512g4; 512, 128", "32 / 128g2 / 256 512g4; 512, 64")
TINY = (
    "48s 64 / 160 / 384v; flatten 256, 32", "64s 48 / 160 / 384v; flatten 256, 32", "48s 64 / 160 / 320v; flatten 256, 32",
    "16 / 64 / 128 128; 256, 64", "16 / 64 / 128 128; 384, 64", "16 / 64 / 128 192g2; 384, 64", "16 / 64 / 128 160g2; 512, 64",
    "16 / 64 / 144 144; 256, 64", "16 / 64 / 160g2 256g4; 256, 64", "32 / 64 / 128 128g2; 256, 64")
PLANNED = (
    "96s 120 / 192 / 384v; flatten 512, 32", "16L 96s 136 / 192 / 384v; flatten 512, 32",
    "8L 80s 96 96 / 192 / 384v; flatten 512, 32", "8L 128s 128 / 176 / 384v; flatten 512, 32", "8L 96s 144 / 192 / 384v; flatten 512, 32",
    "8L 96s 128 / 192 / 384v; flatten 512, 32", "8L 96s 96 96 / 192 / 384v; flatten 512, 32", "8L 96s 128 / 224 / 384v; flatten 512, 32",
    "8L 96s 96 / 192 192 / 384v; flatten 512, 32", "8L 96s 128 / 192 / 512v; flatten 512, 32", "8L 64s 64 / 192 / 384v; flatten 256, 32",
    "8L 48s 48 48 / 192 / 384v; flatten 256, 32", "8L 48s 64 / 192 / 384v; flatten 256, 32", "8L 48s 64 / 160 / 512v; flatten 256, 32")
"""Topologies of fewer channels or levels, for `fast` and `tiny`."""
HEAD = ("| blocks; latent, hidden | MMAC | weight bits | cycles a frame | all weights on the chip | training | validation |\n"
        f"|{'---|' * 7}")


def convolution(text):
    filters, stride, padding, groups, shuffle = re.fullmatch(r"(\d+)(s?)(v?)(?:g(\d+))?(?:x(\d+))?", text).groups()
    return Convolution(int(filters), int(groups or 1), 2 if stride else 1, 0 if padding else "same", int(shuffle or 1))


def parsed(text, classes=CIFAR10, name="tried", **options):
    """Topology of a line such as "16 / 64 / 128 128; 256, 64"; options override those of `blockwise`."""
    luma, layers, ends = re.fullmatch(r"(?:(\d+)L )?([^;]*);(.*)", text).groups()
    pooling, latent, hidden = re.fullmatch(r" *([a-z]+ )?(\d+), (\d+)", ends).groups()
    blocks = tuple(tuple(map(convolution, block.split())) for block in layers.split("/"))
    options = {"latent": int(latent), "hidden": int(hidden), "pooling": (pooling or "lgap").strip(),
               "levels": int(luma) // 2 if luma else None, **options}
    return blockwise(name, classes, blocks, **options)


def learned(text):
    """Training and validation accuracy of a topology after six epochs, as cells; empty where it was not trained."""
    record = json.loads(TRAINED.read_text()).get(text)
    return " | ".join(f"{100 * record[key]:.1f} %" if record else "" for key in ("train_accuracy", "validation_accuracy"))


def row(text, target):
    topology = parsed(text)
    topology.verify()
    weights = {name: np.zeros(shape, np.uint8) for name, shape in topology.weight_shapes().items()}
    normed = [o for o in topology.ops if o.kind == "conv" or o.name == LATENT]
    thresholds = {o.name: np.ones(topology.threshold_shape(o.name), np.int64) for o in normed}
    try:
        planned = plan(Network(topology, weights, thresholds), target)
    except FitError as error:
        return f"| {text} | {topology.macs() / 1e6:.1f} | {topology.weight_bits():,} | does not fit: {error} | | | |"
    inside = all(transfer.resident == 16 for transfer in planned.config.transfers) or planned.config.weights != "stream"
    return (f"| {text} | {topology.macs() / 1e6:.1f} | {topology.weight_bits():,} | {planned.frame.total:,} | "
            f"{'yes' if inside else 'no'} | {learned(text)} |")


def train(text, data, epochs=EPOCHS, out=None):
    """Exit code of the training of a topology, by the recipe of the shipped files with a validation split.  out: JSON file, or None."""
    import torch
    from captured import RECIPE

    from fbnn_hw.data import datasets
    from fbnn_hw.ir.shipped import resolve
    from fbnn_hw.nn.network import FBNN
    from fbnn_hw.train.config import TrainConfig
    from fbnn_hw.train.offline import Interrupted, Trainer
    from fbnn_hw.train.teacher import Teacher

    def report(epoch):
        print(f"{text}: epoch {epoch['epoch']}, training {epoch['train_accuracy']:.4f}, validation {epoch['validation_accuracy']:.4f}",
              flush=True)

    config = TrainConfig(**{**RECIPE, "epochs": epochs, "lr": 2e-3, "validation": 0.1})
    torch.set_num_threads(1)
    torch.manual_seed(config.seed)
    images = datasets.load(data)
    topology = parsed(text, images.classes, size=images.images.shape[-1])
    model = FBNN(topology, c=config.c, norm=config.norm)
    teacher = Teacher(resolve("airbench.state", "--teacher", ".state"), topology, "cpu", config.precision)
    trainer = Trainer(model, torch.from_numpy(images.images), torch.from_numpy(images.labels), config, report=report, teacher=teacher,
                      state_path=out and out.with_suffix(".state"))
    if trainer.state_path and trainer.state_path.exists():
        trainer.resume()
    try:
        trainer.run()
    except Interrupted:
        return 130
    if out:
        out.write_text(json.dumps({"topology": text, "config": config.__dict__, "history": trainer.history}, indent=1) + "\n")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("topologies", nargs="*", default=FAST + TINY)
    parser.add_argument("--target", choices=list(TARGETS), default="ice40")
    parser.add_argument("--planned", action="store_true", help="the candidates with fewer channels or levels, in place of the table")
    parser.add_argument("--train", action="store_true", help="train them, minutes each")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help=f"of --train (default: {EPOCHS})")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="of --train: where the epochs of one topology are kept")
    parser.add_argument("--data", default="cifar10", help="of --train (default: cifar10)")
    args = parser.parse_args()
    if args.train:
        if args.out and len(args.topologies) != 1:
            parser.error("--out: expected one topology with it")
        return next((code for text in args.topologies if (code := train(text, args.data, args.epochs, args.out))), 0)
    print(HEAD)
    for text in PLANNED if args.planned else args.topologies:
        print(row(text, TARGETS[args.target]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
