"""A folder of pictures as a data set: a subfolder for each class, or such folders in `train` and `test`."""

from pathlib import Path

import numpy as np

from ..base.errors import InputError
from . import images
from .datasets import Images

SIZE = 32
"""Pixels a side where nothing else says how large the pictures are to be."""

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".npy")
LEFT_BY_SYSTEMS = ("thumbs.db", "desktop.ini")
"""Files that file managers leave in folders; those and hidden ones are no pictures."""

LAYOUT = "expected a subfolder for each class, with its pictures; or such folders in train and test"


def has_splits(folder):
    """Whether the folder has train and test of its own."""
    return all((Path(folder) / split).is_dir() for split in ("train", "test"))


def pictures(folder):
    """Return (file, class name or None) of every picture: of the folder's own, or of each of its subfolders.

    The order is that of the names.  Raises InputError for a file that is no picture, naming it.
    """
    folder = Path(folder)
    if not (entries := _entries(folder)):
        raise InputError(f"{folder}: has no pictures, {LAYOUT}")
    below = [entry for entry in entries if entry.is_dir()]
    if below and len(below) < len(entries):
        odd = next(entry for entry in entries if not entry.is_dir())
        raise InputError(f"{odd}: lies beside folders of classes; {LAYOUT}")
    return [(file, entry.name) for entry in below for file in _files(entry)] or [(file, None) for file in _files(folder)]


def load(folder, split, size, resize=False, crop=False, progress=None):
    """`Images` of a folder, uint8 RGB (N, 3, size, size).  split: "train" or "test", of a folder that has both; else all pictures.

    progress(iterable, desc=text) -> the same things, with a bar.  Raises InputError as `images.read`, or where it is no such folder.
    """
    folder = Path(folder) / split if has_splits(folder) else Path(folder)
    files = pictures(folder)
    if files[0][1] is None:
        raise InputError(f"{folder}: has pictures and no subfolders, {LAYOUT}")
    classes = list(dict.fromkeys(name for _, name in files))
    parts, labels = [], []
    for file, name in progress(files, desc=folder.name) if progress else files:
        parts.append(images.read(file, size, resize, crop))
        labels += [classes.index(name)] * len(parts[-1])
    return Images(np.concatenate(parts), np.array(labels, np.int64), tuple(classes), str(folder))


def _entries(folder):
    try:
        return sorted(entry for entry in folder.iterdir() if not entry.name.startswith(".") and entry.name.lower() not in LEFT_BY_SYSTEMS)
    except OSError as error:
        raise InputError(f"{folder}: cannot be read ({error.strerror}), expected a folder of pictures") from None


def _files(folder):
    files = _entries(folder)
    for file in files:
        if file.is_dir():
            raise InputError(f"{file}: is a folder in the folder of a class, {LAYOUT}")
        if file.suffix.lower() not in SUFFIXES:
            raise InputError(f"{file}: is no picture by its name, expected {', '.join(SUFFIXES)}; convert it, or take it out")
    if not files:
        raise InputError(f"{folder}: is empty, expected pictures of one class")
    return files
