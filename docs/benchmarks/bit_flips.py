"""What flipped weight bits cost: how many of the first test images of CIFAR-10 stay right.

    python docs/benchmarks/bit_flips.py tiny.pt 0.5mb.pt        # with pip install '.[train]'; FBNN_DATA names the folder of the data

Each weight bit of the layers flips with a probability, drawn once before the images come, as a bit that stays wrong does.  Thresholds,
feature maps and the state of a learner keep their bits.  Torch computes the integers of the reference.
"""

import argparse
from dataclasses import replace

import numpy as np

import fbnn_hw
from fbnn_hw.data import datasets
from fbnn_hw.train import predict

RATES = 0, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1
SEEDS = range(3)


def flipped(network, rate, seed):
    """The network with flipped weight bits, and how many flipped."""
    rng = np.random.default_rng(seed)
    masks = {name: (rng.random(bits.shape) < rate).astype(bits.dtype) for name, bits in network.weights.items()}
    weights = {name: bits ^ masks[name] for name, bits in network.weights.items()}
    return replace(network, weights=weights), sum(int(mask.sum()) for mask in masks.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="+")
    parser.add_argument("--images", type=int, default=1000)
    args = parser.parse_args()
    images = datasets.load("cifar10", split="test").first(args.images)
    for name in args.model:
        network = fbnn_hw.load(name)
        for rate in RATES:
            right, flips = [], []
            for seed in SEEDS if rate else [0]:
                changed, count = flipped(network, rate, seed)
                logits, _ = predict.integer_logits(changed, images.images, "torch")
                right.append(int((logits.argmax(1) == images.labels).sum()))
                flips.append(count)
            print(f"{name}: {rate:g} of {network.topology.weight_bits():,} bits ({flips}): right {right} of {len(images.labels)}",
                  flush=True)


if __name__ == "__main__":
    main()
