"""What a lesson in a new class does to the classes that a design ships with, by the reference of the chip.

    python docs/benchmarks/lesson.py

0.5mb-fe4.pt knows airplane, automobile, bird and cat; deer comes, from CIFAR-10, in as many passes as `fbnn-hw learn` makes.  A table of
accuracies on test images, without and with what `generate --learn` and `learn` do for the classes that are there: counters of shipped
weights that start off zero, images of each class stored for replay, and a start of the new row from its first samples.
"""

import argparse
from itertools import product

import numpy as np

import fbnn_hw
from fbnn_hw.board.lesson import ENOUGH, MOST
from fbnn_hw.data import datasets
from fbnn_hw.design.review import REVIEW
from fbnn_hw.ir.network import LATENT
from fbnn_hw.reference import inference
from fbnn_hw.reference.learning import Head, LearnConfig, Learner


def latents(network, images):
    return np.concatenate([inference.layers(network, images[i:i + 250])[LATENT].reshape(-1, Head.of(network.topology).latent)
                           for i in range(0, len(images), 250)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir")
    parser.add_argument("--images", type=int, nargs="+", default=[10, 30], help="of the lesson")
    args = parser.parse_args()
    network = fbnn_hw.load("0.5mb-fe4.pt")
    old = network.topology.classes
    classes = (*old, "deer")
    train, test = (datasets.load("cifar10", args.data_dir, split).select(classes) for split in ("train", "test"))
    train, test = train.thinned(max(*args.images, REVIEW)), test.thinned(400)
    seen, unseen = latents(network, train.images), latents(network, test.images)
    print("| images | confidence, prototype | stored of each | passes | the four before | the four | deer | all |\n" + "|---" * 8 + "|")
    for count, (confidence, prototype), stored in product(args.images, ((0, 0), (32, 0), (32, 16)), (0, REVIEW)):
        learner = Learner.of(network, LearnConfig(8, 250, confidence=confidence, prototype=prototype))
        known = test.labels < len(old)
        before = (learner.classify(unseen[known]) == test.labels[known]).mean()
        for label in range(len(old)):
            kept = np.flatnonzero(train.labels == label)[:stored]
            learner.store(seen[kept], train.labels[kept])
        lesson = np.flatnonzero(train.labels == len(old))[:count]
        passes, right = 0, 0
        while passes < MOST and right < ENOUGH:
            learner.learn(seen[lesson], train.labels[lesson])
            passes, right = passes + 1, (learner.classify(seen[lesson]) == len(old)).mean()
        right = learner.classify(unseen) == test.labels
        shares = (before, right[known].mean(), right[~known].mean(), right.mean())
        row = count, f"{confidence}, {prototype}", stored, passes, *(f"{share:.1%}" for share in shares)
        print(f"| {' | '.join(map(str, row))} |", flush=True)


if __name__ == "__main__":
    main()
