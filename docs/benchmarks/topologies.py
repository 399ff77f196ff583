"""Planned cycles of VGG-like topologies on a target, with thresholds in convolutions and latent: the search for `fast` and `tiny`.

    python docs/benchmarks/topologies.py [--target ice40] ["32 / 64 128g2 / 256g2 512g4; 512, 32" ...]

A topology is its blocks, each with a pool at its end, then the bits of the latent and the hidden neurons; 128g2 has two groups.  Without
one the table of docs/results/training.md is printed.  Weights are zero; only their number matters, and that thresholds are there.
"""

import argparse
import sys

import numpy as np

from fbnn_hw.compile.plan import plan
from fbnn_hw.errors import FitError
from fbnn_hw.ir.models import CIFAR10, blockwise
from fbnn_hw.ir.network import LATENT, Network
from fbnn_hw.targets import TARGETS

TRIED = (
    "32 / 64 128g2 / 256g2 512g4; 512, 32", "32 / 64 128g2 / 256g2 512g4; 512, 128", "32 / 64 128g2 / 256g2 512g4; 1024, 128",
    "32 / 64 128g2 / 256g2 480g4; 512, 64", "32 / 64 128 / 256g2 256g2; 512, 128", "32 / 96 128g2 / 256g2 512g4; 512, 128",
    "32 / 64 128 / 256g2 512g4; 512, 128", "48 / 64 128g2 / 256g2 512g4; 512, 128", "32 / 128g2 / 256 512g4; 512, 64",
    "16 / 64 / 128 128; 256, 64", "16 / 64 / 128 128; 384, 64", "16 / 64 / 128 192g2; 384, 64", "16 / 64 / 128 160g2; 512, 64",
    "16 / 64 / 144 144; 256, 64", "16 / 64 / 160g2 256g4; 256, 64", "32 / 64 / 128 128g2; 256, 64")


def parsed(text):
    """Topology of a line such as "16 / 64 / 128 128; 256, 64"."""
    layers, ends = text.split(";")
    blocks = tuple(tuple((int(size), int(groups or 1)) for size, _, groups in (conv.partition("g") for conv in block.split()))
                   for block in layers.split("/"))
    latent, hidden = map(int, ends.split(","))
    return blockwise("tried", CIFAR10, blocks, latent=latent, hidden=hidden)


def row(text, target):
    topology = parsed(text)
    weights = {name: np.zeros(shape, np.uint8) for name, shape in topology.weight_shapes().items()}
    normed = [o for o in topology.ops if o.kind == "conv" or o.name == LATENT]
    thresholds = {o.name: np.ones(topology.threshold_shape(o.name), np.int64) for o in normed}
    try:
        planned = plan(Network(topology, weights, thresholds), target)
    except FitError as error:
        return f"| {text} | {topology.macs() / 1e6:.1f} | {topology.weight_bits():,} | does not fit: {error} | |"
    inside = all(transfer.resident == 16 for transfer in planned.config.transfers) or planned.config.weights != "stream"
    return (f"| {text} | {topology.macs() / 1e6:.1f} | {topology.weight_bits():,} | {planned.frame.total:,} | "
            f"{'yes' if inside else 'no'} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("topologies", nargs="*", default=TRIED)
    parser.add_argument("--target", choices=list(TARGETS), default="ice40")
    args = parser.parse_args()
    print("| blocks; latent, hidden | MMAC | weight bits | cycles a frame | all weights on the chip |\n|---|---|---|---|---|")
    for text in args.topologies:
        print(row(text, TARGETS[args.target]), flush=True)


if __name__ == "__main__":
    sys.exit(main())
