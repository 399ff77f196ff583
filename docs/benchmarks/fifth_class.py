"""A fifth class of CIFAR-10 taught to extractors that saw four: the chip's learner beside a float nearest mean on the same latents.

    python docs/benchmarks/fifth_class.py 0.5mb-fe4.pt [--seeds 10] [--rehearse 0 1000]

The chip stores 40 images of each of the four classes and is taught deer with 20, as `fbnn-hw learn` does it; then it rehearses.  A seed
draws these images and the learner's choices.  A table of accuracies on all test images of the five classes, mean and sample deviation
over the seeds, simulated by the reference.
"""

import argparse
from pathlib import Path

import numpy as np
from things import nearest_mean

import fbnn_hw
from fbnn_hw.board.lesson import ENOUGH, MOST
from fbnn_hw.data import datasets
from fbnn_hw.reference.learning import LearnConfig, Learner
from fbnn_hw.train.predict import integer_logits

STORED, TAUGHT, SLOTS, POOL = 40, 20, 212, 200


def learned(network, latents, labels, rehearse, seed):
    """A learner of four classes with STORED exemplars of each, after a lesson in the fifth."""
    new = labels == len(network.topology.classes)
    learner = Learner.of(network, LearnConfig(16, SLOTS, confidence=32, prototype=16, seed=seed + 1))
    learner.store(latents[~new], labels[~new])
    for _ in range(MOST):
        learner.learn(latents[new], labels[new])
        if (learner.classify(latents[new]) == labels[new]).mean() >= ENOUGH:
            break
    learner.rehearse(rehearse)
    return learner


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--data-dir")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rehearse", type=int, nargs="+", default=[0, 1000])
    args = parser.parse_args()
    print("| extractor | learner | the four before | the four | deer | mean of the five |\n" + "|---" * 6 + "|")
    for name in args.models:
        network = fbnn_hw.load(name)
        classes = (*network.topology.classes, "deer")
        train, test = (datasets.load("cifar10", args.data_dir, split).select(classes) for split in ("train", "test"))
        train = train.thinned(POOL)  # images from which the seeds draw
        seen, unseen = (integer_logits(network, part.images, "torch", latent=True)[1] for part in (train, test))
        old = test.labels < len(classes) - 1
        for kind in (*args.rehearse, "mean"):
            shares = []
            for seed in range(args.seeds):
                random = np.random.default_rng(seed)
                chosen = np.concatenate([random.permutation(np.flatnonzero(train.labels == c))[:STORED if c < len(classes) - 1 else TAUGHT]
                                         for c in range(len(classes))])
                latents, labels = seen[chosen], train.labels[chosen]
                before = Learner.of(network, LearnConfig(16, SLOTS)).classify(unseen[old])
                if kind == "mean":
                    answers = nearest_mean(2.0 * latents - 1, labels, 2.0 * unseen - 1)
                else:
                    answers = learned(network, latents, labels, kind, seed).classify(unseen)
                right = answers == test.labels
                shares.append([(before == test.labels[old]).mean(), right[old].mean(), right[~old].mean(), right.mean()])
            row = "nearest mean in float" if kind == "mean" else f"chip, {kind:,} rehearsals"
            shares = 100 * np.array(shares)
            spread = shares.std(0, ddof=1) if args.seeds > 1 else np.zeros(4)
            cells = [f"{mean:.1f} +- {deviation:.1f}" for mean, deviation in zip(shares.mean(0)[1:], spread[1:])]
            print(f"| `{Path(name).name}` | {row} | {shares[0, 0]:.1f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
