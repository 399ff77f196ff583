"""Omniglot (Lake, Salakhutdinov, Tenenbaum 2015; Ref: https://github.com/brendenlake/omniglot): handwritten characters, 20 drawings each.

Read from the published archives of PNG files, ALPHABET/characterCC/NUMBER_DD.png of 105x105 pixels, black strokes on white.  A picture
becomes `size` x `size` bytes by area, strokes 255 on 0, the same in R, G and B.  Rotations by 90 degrees make four classes of a character.
"""

import re

import numpy as np

from ..base.errors import InputError
from . import zips
from .images import png

URL = "https://github.com/brendenlake/omniglot/tree/master/python"
ARCHIVES = ("images_background.zip", "images_evaluation.zip", "images_background_small1.zip", "images_background_small2.zip")
RUNS = "all_runs.zip"
NAME = re.compile(r"(?:^|/)([^/]+)/character(\d+)/\d+_(\d+)\.png$")
PIXELS = 105
TURNS = (0, 90, 180, 270)


def read(places, alphabets, drawings, size, count):
    """(images uint8 RGB (N, 3, size, size), labels int64 (N,), class names, source): the first `count` classes of the alphabets.

    A class is a character turned by one of TURNS; classes are in the order of alphabets, characters, turns.  drawings: numbers 1 to 20.
    Raises InputError that says what to put where for an alphabet that is missing, and for a damaged archive.
    """
    pictures, sources = {}, []
    for place in places:
        for folder in (place, place / "omniglot"):
            for path in (folder / name for name in ARCHIVES):
                if path.is_file() and (more := _archive(path, alphabets, size, pictures)):
                    sources.append(str(path))
                    pictures.update(more)
        if {name for name, _, _ in pictures} >= set(alphabets):
            break
    missing = [name for name in alphabets if name not in {alphabet for alphabet, _, _ in pictures}]
    if missing:
        raise InputError(f"omniglot: no {', '.join(missing)} in {', '.join(map(str, places))}; put {ARCHIVES[2]} and {ARCHIVES[3]}, or "
                         f"{ARCHIVES[0]}, from {URL} into {places[0]}")
    characters = sorted({key[:2] for key in pictures}, key=lambda key: (alphabets.index(key[0]), key[1]))
    classes = [(alphabet, number, turn) for alphabet, number in characters for turn in TURNS][:count]
    images, labels = [], []
    for label, (alphabet, number, turn) in enumerate(classes):
        for drawing in drawings:
            if (alphabet, number, drawing) not in pictures:
                raise InputError(f"{sources[0]}: {alphabet} character {number} has no drawing {drawing}, expected 20")
            images.append(np.rot90(pictures[alphabet, number, drawing], turn // 90))
            labels.append(label)
    grey = np.stack(images)[:, None].repeat(3, 1)
    names = tuple(f"{alphabet} {number}" + (f" turned {turn}" if turn else "") for alphabet, number, turn in classes)
    return grey, np.array(labels, np.int64), names, ", ".join(sources)


def _archive(path, alphabets, size, before):
    """{(alphabet, character, drawing): uint8 (size, size)} of an archive, without those in `before`."""
    with zips.opened(path, "the published archive") as archive:
        matches = [(name, NAME.search(name)) for name in archive.namelist()]
        keys = {(m[1], int(m[2]), int(m[3])): name for name, m in matches if m and m[1] in alphabets}
        return {key: picture(zips.member(archive, name), size, f"{path}: {name}") for key, name in keys.items() if key not in before}


def picture(data, size, where):
    """uint8 (size, size) of the bytes of a PNG file, strokes 255."""
    from PIL.Image import Resampling

    return 255 - np.asarray(png(data, where, PIXELS, "L").resize((size, size), Resampling.BOX))


def one_shot(path, size):
    """Return the 20 runs of the published one-shot test: [(training, test, answers)].

    training, test: uint8 (20, size, size).  answers: int64 (20,), the training picture of each test
    picture.  path: all_runs.zip.
    """
    runs = []
    with zips.opened(path, f"{RUNS} from {URL}") as archive:
        for run in range(1, 21):
            lines = zips.member(archive, f"run{run:02d}/class_labels.txt").decode().split("\n")
            pairs = [line.split() for line in lines if line.strip()]
            test, training = ([f"run{run:02d}/{'/'.join(name.split('/')[-2:])}" for name in names] for names in zip(*pairs))
            order = sorted(set(training))
            pictures = [np.stack([picture(zips.member(archive, name), size, f"{path}: {name}") for name in names])
                        for names in (order, test)]
            runs.append((*pictures, np.array([order.index(name) for name in training], np.int64)))
    return runs
