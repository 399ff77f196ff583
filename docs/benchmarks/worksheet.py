"""What the chip of teach.html says in the tasks 1, 2 and 4 of docs/worksheet.md, where the things are photographs pasted on a background.

    pip install scikit-image==0.26.0 scikit-learn==1.9.1
    python docs/benchmarks/worksheet.py teach.pt [--seeds 3]

Each of the twelve photographs of things.py is once the group's thing.  A learner without classes is taught "nothing" from twenty pictures
of one background, and the thing from ten pictures before the same background; for the strangers of task 4 a second thing too.  Each row
asks twenty pictures before that background, of strangers four of each.  The answers are those of the integer learner with "unknown".
"""

import argparse

import numpy as np
from PIL import Image, ImageEnhance
from things import PHOTOGRAPHS, backgrounds, cut_out, picture, summed

import fbnn_hw
from fbnn_hw.reference.learning.config import NEAREST_MEAN
from fbnn_hw.train.predict import integer_logits

EMPTY, TAUGHT, ASKED, STRANGE = 20, 10, 20, 4
FAR, DARK = 3, 0.3
"""How many times as far away, and the brightness in the dark."""
AIR = Image.new("RGBA", (1, 1))


def far(thing):
    """The thing in the middle of a clear picture FAR times as large."""
    wide = Image.new("RGBA", (FAR * thing.width, FAR * thing.height))
    wide.paste(thing, (thing.width * (FAR // 2), thing.height * (FAR // 2)))
    return wide


def dark(image):
    return ImageEnhance.Brightness(image).enhance(DARK)


def views(thing, background, random, count):
    return np.stack([picture(thing, background, random, False) for _ in range(count)])


def answers(network, seed):
    """{row: [answers that are the group's thing, nothing, unknown, all]} of one seed, summed over the things."""
    random, places, things = np.random.default_rng(seed), backgrounds(), [cut_out(name) for name in sorted(PHOTOGRAPHS)]
    counts = {}
    for n, thing in enumerate(things):
        background = places[random.integers(len(places))]
        second, *strangers = random.permutation([one for one in range(len(things)) if one != n])
        asked = {
            "1: shown again": views(thing, background, random, ASKED), "1: taken away": views(AIR, background, random, ASKED),
            "2: on its head": views(thing.rotate(180), background, random, ASKED),
            "2: far away": views(far(thing), background, random, ASKED),
            "2: in the dark": views(dark(thing), dark(background), random, ASKED),
            "4: strangers": np.concatenate([views(things[one], background, random, STRANGE) for one in strangers])}
        lessons = [views(AIR, background, random, EMPTY), views(thing, background, random, TAUGHT),
                   views(things[second], background, random, TAUGHT)]
        latents = [integer_logits(network, images, "torch", latent=True)[1] for images in (*lessons, *asked.values())]
        for row, found in zip(asked, latents[len(lessons):], strict=True):
            taught = latents[:3 if row.startswith("4") else 2]
            labels = np.repeat(np.arange(len(taught)), [len(part) for part in taught])
            learner = summed(NEAREST_MEAN, network, np.concatenate(taught), labels, unknown=True)
            unknown, label = learner.unknown(found), learner.classify(found)
            count = np.array([(~unknown & (label > 0)).sum(), (~unknown & (label == 0)).sum(), unknown.sum(), len(found)])
            counts[row] = counts.get(row, 0) + count
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    network = fbnn_hw.load(args.model)
    found = [answers(network, seed) for seed in range(args.seeds)]
    print("| task, % of the answers | name of a thing | nothing | unknown |\n|---|---|---|---|")
    for row in found[0]:
        *parts, asked = sum(one[row] for one in found)
        print(f"| {row} | " + " | ".join(f"{100 * part / asked:.1f}" for part in parts) + " |")


if __name__ == "__main__":
    main()
