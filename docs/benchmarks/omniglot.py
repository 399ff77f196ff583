"""Many classes from few drawings: the figures of docs/results/omniglot.md.

    python docs/benchmarks/omniglot.py --extractor extractor.pt --data-dir DIR --out docs/results/omniglot/study.json

250 classes, one after the other, drawings 1 to 10 teach and 11 to 20 test; and the published test of 20 runs with 20 ways and one shot.
DIR holds the published archives (docs/data.md).  --against STATE adds the same layers in float, a state of `characters.py float` or of
`pretrain --activations float`.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch

from fbnn_hw.base import bits
from fbnn_hw.data import datasets, omniglot
from fbnn_hw.nn.network import FBNN
from fbnn_hw.reference.learning import Head, LearnConfig, Learner
from fbnn_hw.train import start

WIDTHS = (1, 2, 3, 4, 5, 6, 8)
SIZE = 32


def latents(model, images):
    """float32 (N, latent) of grey bytes (N, S, S): bits as +-1, or what the float network has in their place."""
    rgb = torch.from_numpy(np.ascontiguousarray(np.asarray(images)[:, None].repeat(3, 1)))
    with torch.no_grad():
        return torch.cat([model.latent(rgb[i:i + 100]) for i in range(0, len(rgb), 100)]).numpy()


def taught(x, y, classes):
    """Sums of each class and how many samples it has."""
    sums = np.zeros((classes, x.shape[1]))
    np.add.at(sums, y, x)
    return sums, np.bincount(y, minlength=classes)


def nearest_mean(means, x):
    return (x @ means.T - (means ** 2).sum(1) / 2).argmax(1)


def counted(x, y, classes, width, seed=0):
    """Counters of `width` bits after the samples in the order given, as the chip has them: saturating, started at 0 or -1 at random."""
    low, high = -2 ** (width - 1), 2 ** (width - 1) - 1
    h = -np.random.default_rng(seed).integers(0, 2, (classes, x.shape[1]))
    for sample, label in zip(x.astype(np.int64), y):
        h[label] = np.clip(h[label] + sample, low, high)
    return h


def float_rows(train, labels, test, test_labels, classes):
    """{name: share right} of learners on latents that may be float."""
    sums, counts = taught(train, labels, classes)
    means = sums / counts[:, None]
    grand = means.mean(0)
    signs = np.where(means >= 0, 1.0, -1.0)
    centred = np.where(means >= grand, 1.0, -1.0)
    unit = means / np.linalg.norm(means, axis=1, keepdims=True)
    answers = {"nearest mean, float": nearest_mean(means, test), "cosine to the mean, float": (test @ unit.T).argmax(1),
               "sign of the mean": (test @ signs.T).argmax(1), "sign of mean - grand mean": (test @ centred.T).argmax(1)}
    return {name: float((found == test_labels).mean()) for name, found in answers.items()}


def counter_rows(train, labels, test, test_labels, classes):
    """{width: {scoring: share right}} of counters."""
    rows = {}
    for width in WIDTHS:
        h = counted(train, labels, classes, width)
        values = 2 * h + 1
        unit = values / np.linalg.norm(values, axis=1, keepdims=True)
        answers = {"sum of counters": (test @ values.T).argmax(1), "nearest counters": (test @ unit.T).argmax(1),
                   "signs": (test @ np.where(h >= 0, 1, -1).T).argmax(1)}
        rows[width] = {name: float((found == test_labels).mean()) for name, found in answers.items()}
    return rows


def integer_learner(train, labels, test, test_labels, classes, width, rule, every=50):
    """What the integer learner with a rule without replay gets right of all classes learned so far, after every `every` classes."""
    learner = Learner(Head(train.shape[1]), LearnConfig(classes, 1, counter_bits=width, rule=rule, replays=0, thinning=0))
    x, tests = bits.to_bits(train), bits.to_bits(test)
    course = {}
    for c in range(classes):
        learner.learn(x[labels == c], labels[labels == c])
        if (c + 1) % every == 0 or c + 1 == classes:
            kept = test_labels <= c
            course[c + 1] = float((learner.classify(tests[kept]) == test_labels[kept]).mean())
    return course


def held_out(train, labels, classes):
    """{rule: share right} of each drawing that teaches, learned from the others of its class: no test drawing is looked at."""
    shots = np.bincount(labels, minlength=classes).min()
    places = np.stack([np.flatnonzero(labels == c)[:shots] for c in range(classes)])
    right = {rule: [] for rule in ("prototypes", "means")}
    for out in range(shots):
        kept = np.delete(places, out, 1).ravel()
        for rule, shares in right.items():
            course = integer_learner(train[kept], labels[kept], train[places[:, out]], np.arange(classes), classes, 4, rule, classes)
            shares.append(course[classes])
    return {rule: float(np.mean(shares)) for rule, shares in right.items()}


def one_shot(model, path):
    """Share wrong over the 20 published runs: the nearest latent by Hamming distance or, of floats, by angle."""
    wrong = total = 0
    for training, test, answers in omniglot.one_shot(path, SIZE):
        known, asked = latents(model, training), latents(model, test)
        known, asked = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (known, asked))
        wrong += int(((asked @ known.T).argmax(1) != answers).sum())
        total += len(answers)
    return wrong / total


def with_first_classes(values, topology):
    """An `FBNN` with the state dict of one that may have more classes, of which the topology has the first."""
    model = FBNN(topology, norm="bn")
    model.load_state_dict({name: values[name][:len(own)] if own.ndim else values[name] for name, own in model.state_dict().items()})
    return model


def floating(path, topology):
    """The float network of a state, at its best epoch."""
    model = with_first_classes(torch.load(path, weights_only=True, map_location="cpu")["best"], topology)
    model.binary = False
    return model.eval()


def measured(model, data_dir, runs, binary):
    splits = {}
    for split in ("train", "test"):
        images = datasets.load("omniglot", data_dir, split)
        splits[split] = latents(model, images.images[:, 0]), images.labels
    (train, labels), (test, test_labels) = splits["train"], splits["test"]
    classes = int(labels.max()) + 1
    result = {"classes": classes, "latent": train.shape[1], "learners": float_rows(train, labels, test, test_labels, classes),
              "one_shot_error": one_shot(model, runs)}
    if binary:
        result["counters"] = counter_rows(train, labels, test, test_labels, classes)
        for name, rule, widths in (("integer_learner", "prototypes", (4, 8)), ("means", "means", (3, 4, 5))):
            result[name] = {width: integer_learner(train, labels, test, test_labels, classes, width, rule) for width in widths}
        result["held_out"] = held_out(train, labels, classes)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--extractor", required=True)
    parser.add_argument("--against", metavar="STATE")
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    runs = next(place for place in (Path(args.data_dir), Path(args.data_dir) / "omniglot") if (place / omniglot.RUNS).is_file())
    origin = start.read(args.extractor)
    model = start.make(origin, origin.topology.classes, True, 0, {}).eval()
    result = {"extractor": origin.source, "sha256": origin.sha256, "training": origin.training.get("command"),
              "binary": measured(model, args.data_dir, runs / omniglot.RUNS, True)}
    if args.against:
        result["float"] = measured(floating(args.against, origin.topology), args.data_dir, runs / omniglot.RUNS, False)
    text = json.dumps(result, indent=1)
    print(text)
    if args.out:
        args.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
