"""STL-10 in its binary files (Ref: https://cs.stanford.edu/~acoates/stl10/).

Images are uint8, planes R, G, B, each plane column by column.  Labels are uint8, 1 to 10.
"""

import numpy as np

from ..base.errors import InputError


def read(dataset, source, split):
    """The fields of `datasets.Images` of a split.  Labels of the split "unlabeled" are all -1."""
    size, classes = dataset.size, dataset.classes
    names = [f"{split}_X.bin"] + ([] if split == "unlabeled" else [f"{split}_y.bin"])
    members = source.members((*names, "class_names.txt"))

    def where(name):
        return f"{source.path}/{name}"

    class_names = tuple(members["class_names.txt"].decode("utf-8", "replace").split())
    if len(class_names) != classes:
        raise InputError(f"{where('class_names.txt')}: {len(class_names)} names, expected {classes}")
    pixels = np.frombuffer(members[names[0]], np.uint8)
    if not pixels.size or pixels.size % (3 * size * size):
        raise InputError(f"{where(names[0])}: {pixels.size} bytes, expected a multiple of {3 * size * size}, one image")
    images = pixels.reshape(-1, 3, size, size).swapaxes(2, 3)
    if split == "unlabeled":
        return images, np.full(len(images), -1, np.int64), class_names, str(source.path)
    labels = np.frombuffer(members[names[1]], np.uint8).astype(np.int64) - 1
    if len(labels) != len(images):
        raise InputError(f"{where(names[1])}: {len(labels)} labels, expected {len(images)}, one for each image")
    if labels.min() < 0 or labels.max() >= classes:
        raise InputError(f"{where(names[1])}: holds label {labels[(labels < 0) | (labels >= classes)][0] + 1}, expected 1 to {classes}")
    return np.ascontiguousarray(images), labels, class_names, str(source.path)
