"""Five classes of photographs, to be trained and to be taught: folders of pictures, and what a feature extractor makes of them.

    python docs/benchmarks/train_or_teach.py FOLDER --data-dir DIR [--model NAME.pt]

Five classes of CIFAR-100, which the seed 0 draws, go into FOLDER/train and FOLDER/test, 500 and 100 pictures of each, as `train --data
FOLDER` takes them.  Then the learner of the rule nearest-mean is taught N pictures of each class of FOLDER/train, and asked all of
FOLDER/test: the share right in %, without and with "unknown", which counts as wrong; the mean of ten draws of the pictures.
"""

import argparse
from pathlib import Path

import numpy as np
from things import summed

import fbnn_hw
from fbnn_hw.data import datasets, folder
from fbnn_hw.reference.learning.config import NEAREST_MEAN
from fbnn_hw.train.predict import integer_logits

CLASSES, DRAWS = 5, 10
TAUGHT = 10, 20, 100, 500
"""Pictures of a class in a lesson; the last is all of them."""


def write(place, data_dir):
    """Write the pictures of the classes into `place`, a file a class."""
    for split in ("train", "test"):
        images = datasets.load("cifar100", data_dir, split)
        for label in np.random.default_rng(0).choice(len(images.classes), CLASSES, replace=False):
            file = place / split / images.classes[label] / "all.npy"
            file.parent.mkdir(parents=True, exist_ok=True)
            np.save(file, images.images[images.labels == label])


def right(network, taught, labels, asked, truth, unknown):
    """Share of latents asked, (N, D), that get their class from a learner that was taught the others."""
    learner = summed(NEAREST_MEAN, network, taught, labels, **({"unknown": True} if unknown else {}))
    known = ~learner.unknown(asked) if unknown else True
    return (known & (learner.classify(asked) == truth)).mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data-dir")
    parser.add_argument("--model", default="teach.pt", help="the feature extractor (default: teach.pt)")
    args = parser.parse_args()
    write(args.folder, args.data_dir)
    network = fbnn_hw.load(args.model)
    taught, asked = (folder.load(args.folder, split, 32) for split in ("train", "test"))
    latents, others = (integer_logits(network, part.images, "torch", latent=True)[1] for part in (taught, asked))
    for count in TAUGHT:
        shares = []
        for seed in range(DRAWS):
            random = np.random.default_rng(seed)
            chosen = np.concatenate([random.permutation(np.flatnonzero(taught.labels == c))[:count] for c in range(CLASSES)])
            lesson = latents[chosen], taught.labels[chosen]
            shares.append([right(network, *lesson, others, asked.labels, unknown) for unknown in (False, True)])
        nearest, known = 100 * np.mean(shares, 0)
        print(f"{count} pictures of each class: {nearest:.1f} %, with unknown {known:.1f} %")


if __name__ == "__main__":
    main()
