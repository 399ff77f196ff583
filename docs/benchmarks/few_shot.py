"""What a model's latents are worth for lessons in photographs: right answers after twenty pictures of each class, class after class.

    python docs/benchmarks/few_shot.py held-out teach.pt 0.5mb.pt --photographs tiny-imagenet-32.npz [--rules ...] [--draws N]
    python docs/benchmarks/few_shot.py cifar100 teach.pt 0.5mb.pt --data-dir DIR [--unknown] [--empty]

The first asks the twenty classes of Tiny ImageNet that no training of docs/benchmarks/extractor.py sees, by which shape, losses and rule
are chosen.  The second asks the test images of CIFAR-100, and is for a file that is done.  Of each class drawn, twenty pictures are taught
and eighty others asked.  The rules of the chip, prototypes, means, nearest-mean and replay, begin with no class.  Beside them stand the
nearest mean in float, and the nearest mean in two bits: a weight is 3 where the sum of a class is half the number of its pictures or more,
else 1, and the score is 1 less for each weight of 3.

With --empty a class "nothing" is taught before the others, from twenty pictures of one empty scene, or of twenty scenes: walls of a
colour, in a light from a side, or what a lens out of focus sees.  Asked are other pictures of that scene, or other scenes, which should be
"nothing".  With --unknown beside it "unknown" is neither "nothing" nor a taught class.

With --unknown the learner of the rule nearest-mean answers "unknown" by the limits that it learns from the lessons.  Asked are the eighty
others of each class, which should not be unknown, and pictures of the classes that were not drawn, which should.

With --taught 10 the lessons have the first ten of the twenty pictures, and the same pictures are asked.

tiny-imagenet-32.npz: the training images of Tiny ImageNet in 32 x 32 (as in github.com/DhanashriPalodkar/imageet32x32), "images" uint8
(100000, 3, 32, 32), red, green, blue; "labels" (100000,), numbers of "names" (200,), the WordNet ids in sorted order.
"""

import argparse
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter
from things import learned, row_of_several, summed, unknown

import fbnn_hw
from fbnn_hw.data import datasets
from fbnn_hw.reference.learning.config import ADDING, NEAREST_MEAN
from fbnn_hw.train.predict import integer_logits

TAUGHT, ASKED = 20, 80
"""Pictures of a class that are taught, and that are asked."""
OTHERS = 2000
"""Pictures of classes that are not taught."""
SLOTS, REHEARSED = 212, 1000
"""Exemplars of replay, and replays after a lesson."""
HELD_OUT = (
    "n01644900", "n01770393", "n01917289", "n02125311", "n02403003", "n02486410", "n03089624", "n03179701", "n03444034", "n03599486",
    "n03662601", "n03706229", "n03837869", "n04099969", "n04285008", "n04311004", "n04597913", "n07749582", "n07768694", "n09256479")
"""WordNet ids of the classes that no training sees: np.random.default_rng(0).choice(200, 20, replace=False) of the sorted ids."""
NEAREST, TWO_BITS = "nearest mean", "nearest mean, two bits"


def photographs(path, held_out):
    """(images uint8 (N, 3, 32, 32), labels int64 (N,), names) of the classes that are held out, or of the others, numbered from 0."""
    if not Path(path).is_file():
        raise SystemExit(f"{path}: no such file, expected the photographs of Tiny ImageNet (see few_shot.py)")
    with np.load(path) as stored:
        names, labels = stored["names"].tolist(), stored["labels"].astype(np.int64)
        if missing := set(HELD_OUT) - set(names):
            raise SystemExit(f"{path}: has no class {min(missing)}, expected the 200 of Tiny ImageNet")
        kept = [name for name in names if (name in HELD_OUT) == held_out]
        number = np.array([kept.index(name) if name in kept else -1 for name in names])[labels]
        return stored["images"][number >= 0], number[number >= 0], kept


def nearest_mean(taught, labels, asked):
    """Class (N,) of each row of `asked` (N, D): the mean of `taught` at the least distance."""
    means = np.stack([taught[labels == c].mean(0) for c in range(labels.max() + 1)])
    return (2 * asked @ means.T - (means ** 2).sum(1)).argmax(1)


def two_bits(taught, labels, asked):
    """`nearest_mean` of rows of -1 and +1, with means of 1/4 and 3/4 in size."""
    sums = np.stack([taught[labels == c].sum(0) for c in range(labels.max() + 1)])
    strong = 2 * abs(sums) >= np.bincount(labels)[:, None]
    return (asked @ (np.where(sums >= 0, 1.0, -1.0) * np.where(strong, 3, 1)).T - strong.sum(1)).argmax(1)


def replayed(network, taught, labels, asked, seed):
    return learned(network, taught, labels, asked, SLOTS, REHEARSED, seed)


RULES = {**{rule: lambda network, taught, labels, asked, seed, rule=rule: summed(rule, network, taught, labels).classify(asked)
            for rule in ADDING},
         "replay": replayed,
         TWO_BITS: lambda network, taught, labels, asked, seed: two_bits(2.0 * taught - 1, labels, 2.0 * asked - 1),
         NEAREST: lambda network, taught, labels, asked, seed: nearest_mean(2.0 * taught - 1, labels, 2.0 * asked - 1)}
"""{rule: function of (network, latents taught, in the order of their labels, these, latents asked, seed) that gives classes}"""


def draw(labels, classes, seed):
    """(numbers to teach (classes, TAUGHT), numbers to ask (classes, ASKED)) of pictures of `classes` classes that the seed draws."""
    random = np.random.default_rng(seed)
    chosen = random.permutation(labels.max() + 1)[:classes]
    numbers = np.stack([random.permutation(np.flatnonzero(labels == c))[:TAUGHT + ASKED] for c in chosen])
    return numbers[:, :TAUGHT], numbers[:, TAUGHT:]


def shares(network, latents, labels, rule, classes, draws, count=TAUGHT):
    """Share right of each draw, (draws,).  latents: uint8 bits (N, D).  count: pictures of a lesson."""
    right = []
    for seed in range(draws):
        taught, asked = draw(labels, classes, seed)
        numbers = np.arange(classes)
        found = RULES[rule](network, latents[taught[:, :count].ravel()], numbers.repeat(count), latents[asked.ravel()], seed)
        right.append((found == numbers.repeat(ASKED)).mean())
    return np.array(right)


def unknowns(network, latents, labels, classes, draws, count=TAUGHT):
    """`unknown` of each draw, (draws, 3).  count: pictures of a lesson."""
    shares = []
    for seed in range(draws):
        taught, asked = draw(labels, classes, seed)
        numbers = np.arange(classes)
        others = np.random.default_rng(seed).permutation(np.flatnonzero(~np.isin(labels, labels[taught[:, 0]])))[:OTHERS]
        shares.append(unknown(network, latents[taught[:, :count].ravel()], numbers.repeat(count), latents[asked.ravel()],
                              numbers.repeat(ASKED), latents[others]))
    return np.array(shares)


def scene(images, random):
    """A function of no arguments that gives pictures of an empty scene, uint8 (3, 32, 32): of another moment each."""
    ground, kind = random.uniform(20, 235, 3)[:, None, None] * np.ones((1, 32, 32)), random.integers(3)
    if kind == 1:
        y, x = np.mgrid[-1:1:32j, -1:1:32j]
        angle = random.uniform(0, 2 * np.pi)
        ground *= 1 + random.uniform(0.2, 0.6) * (x * np.cos(angle) + y * np.sin(angle))
    if kind == 2:
        picture = Image.fromarray(images[random.integers(len(images))].transpose(1, 2, 0))
        ground = np.asarray(picture.filter(ImageFilter.GaussianBlur(random.uniform(6, 10))), float).transpose(2, 0, 1)

    def picture_of_it():
        moment = np.roll(ground, random.integers(-2, 3, 2), (1, 2)) if kind == 2 else ground
        return np.clip(moment * random.uniform(0.85, 1.15) + random.normal(0, random.uniform(1, 6), ground.shape), 0, 255).astype(np.uint8)
    return picture_of_it


def empty(network, images, latents, labels, classes, draws, unknown):
    """Shares (draws, 6): of pictures of the empty scene that was taught, and of others, those that are "nothing", and those that get a
    taught class; of the taught classes those that are right with that class beside them, and without it.  unknown: with limits.
    """
    def taught_with(*lessons):
        learner = summed(NEAREST_MEAN, network, *lessons, unknown=unknown)
        return lambda asked: np.where(learner.unknown(asked), -1, learner.classify(asked)) if unknown else learner.classify(asked)

    shares = []
    for seed in range(draws):
        random = np.random.default_rng(seed)
        one, many = scene(images, random), [scene(images, random) for _ in range(TAUGHT + ASKED)]
        pictures = np.stack([*(one() for _ in range(TAUGHT + ASKED)), *(each() for each in many)])
        same, others = np.split(integer_logits(network, pictures, "torch", latent=True)[1], 2)
        taught, asked = draw(labels, classes, seed)
        truth = np.arange(1, classes + 1)
        for nothing in (same, others):
            answer = taught_with(np.concatenate([nothing[:TAUGHT], latents[taught.ravel()]]),
                                 np.concatenate([np.zeros(TAUGHT, int), truth.repeat(TAUGHT)]))
            scenes = answer(nothing[TAUGHT:])
            shares += (scenes == 0).mean(), (scenes > 0).mean()
        shares.append((answer(latents[asked.ravel()]) == truth.repeat(ASKED)).mean())
        alone = taught_with(latents[taught.ravel()], (truth - 1).repeat(TAUGHT))
        shares.append((alone(latents[asked.ravel()]) + 1 == truth.repeat(ASKED)).mean())
    return np.array(shares).reshape(draws, 6)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", choices=("held-out", "cifar100"))
    parser.add_argument("models", nargs="+")
    parser.add_argument("--photographs", type=Path, default=Path("tiny-imagenet-32.npz"))
    parser.add_argument("--data-dir")
    parser.add_argument("--rules", nargs="+", choices=RULES, default=list(RULES))
    parser.add_argument("--classes", nargs="+", type=int, default=[3, 5, 12])
    parser.add_argument("--draws", type=int, default=30)
    parser.add_argument("--taught", type=int, choices=range(1, TAUGHT + 1), default=TAUGHT, metavar="N")
    parser.add_argument("--unknown", action="store_true")
    parser.add_argument("--empty", action="store_true")
    args = parser.parse_args()
    if args.empty and args.taught != TAUGHT:
        parser.error(f"--taught: {args.taught} with --empty, expected {TAUGHT}")
    if args.data == "held-out":
        images, labels, _ = photographs(args.photographs, True)
    else:
        test = datasets.load("cifar100", args.data_dir, "test")
        images, labels = test.images, test.labels
    columns = ()
    if args.unknown:
        columns = "% known, unknown", "known, right", "others, unknown"
    if args.empty:
        columns = ("% the same scene, nothing", "a taught class", "other scenes, nothing", "a taught class", "known, right",
                   "without a class for nothing")
    heads = ["; ".join(columns) or "% right", *(f"{count} classes" for count in args.classes)]
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|", flush=True)
    for name in args.models:
        network = fbnn_hw.load(name)
        latents = integer_logits(network, images, "torch", latent=True)[1]
        if args.unknown or args.empty:
            cells = [100 * (empty(network, images, latents, labels, count, args.draws, args.unknown) if args.empty else
                            unknowns(network, latents, labels, count, args.draws, args.taught)).mean(0) for count in args.classes]
            print(row_of_several(name, cells), flush=True)
            continue
        for rule in args.rules:
            cells = [shares(network, latents, labels, rule, count, args.draws, args.taught) for count in args.classes]
            print(f"| `{Path(name).name}`, {rule} | " + " | ".join(
                f"{100 * cell.mean():.1f} ± {100 * cell.std() / len(cell) ** 0.5:.1f}" for cell in cells) + " |", flush=True)


if __name__ == "__main__":
    main()
