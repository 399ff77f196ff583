"""What a camera's path costs in right answers: pictures as they are, scaled to 32 x 32, and through RGB565, window and boxes of an OV7670.

    python docs/benchmarks/through_camera.py stl10 0.5mb.pt --data-dir DIR     labelled training pictures of STL-10, of nine classes
    python docs/benchmarks/through_camera.py things teach.pt                   the things of things.py, taught and tested both ways

The camera's path is the reference's (`fbnn_hw.reference.camera`), which the front end in hardware equals.  The pictures of STL-10 have 96
x 96 pixels, of nine classes that CIFAR-10 has, too.  Those of things.py are drawn with 128 x 128; the learner of the rule nearest-mean is
taught twelve things, as `things.py` does it.
"""

import argparse

import numpy as np
import things

import fbnn_hw
from fbnn_hw.data import datasets, images
from fbnn_hw.reference import camera
from fbnn_hw.reference.learning.config import NEAREST_MEAN
from fbnn_hw.train.predict import integer_logits

SIZE = 32
CLASSES, SAME = 12, {"car": "automobile"}
"""Of things; {name in STL-10: name in CIFAR-10}."""
WAYS = {"as they are": lambda pictures: images.scale(pictures, SIZE),
        "through the camera": lambda pictures: camera.through(pictures, False)}


def recognised(network, pictures, labels):
    """Whether each picture, uint8 (N, 3, 32, 32), gets its class."""
    return integer_logits(network, pictures, "torch")[0].argmax(1) == labels


def of_stl10(network, directory, count):
    """{way: whether each is right}: the first `count` labelled pictures of STL-10 whose class the network knows."""
    found, known = datasets.load("stl10", directory, "train"), network.topology.classes
    found = found.select([name for name in found.classes if SAME.get(name, name) in known])
    pictures = found.images[:count]
    labels = np.array([known.index(SAME.get(name, name)) for name in found.classes])[found.labels[:count]]
    return {way: recognised(network, make(pictures), labels) for way, make in WAYS.items()}


def of_things(network, seeds):
    """{way: whether each is right}: what a learner answers after it was taught the twelve things by that way, photographs."""
    right = {way: [] for way in WAYS}
    for seed in range(seeds):
        (seen, labels), (unseen, truth) = things.pictures("photographs", CLASSES, seed, camera.WINDOW)
        for way, make in WAYS.items():
            taught, asked = (integer_logits(network, make(pictures), "torch", latent=True)[1] for pictures in (seen, unseen))
            right[way].append(things.summed(NEAREST_MEAN, network, taught, labels).classify(asked) == truth)
    return {way: np.concatenate(parts) for way, parts in right.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pictures", choices=("stl10", "things"))
    parser.add_argument("model")
    parser.add_argument("--data-dir")
    parser.add_argument("--count", type=int, default=1000, help="pictures of STL-10")
    parser.add_argument("--seeds", type=int, default=2, help="of things, 720 pictures each")
    args = parser.parse_args()
    network = fbnn_hw.load(args.model)
    found = of_stl10(network, args.data_dir, args.count) if args.pictures == "stl10" else of_things(network, args.seeds)
    for way, right in found.items():
        print(f"{way}: {100 * right.mean():.1f} % of {len(right)} right")


if __name__ == "__main__":
    main()
