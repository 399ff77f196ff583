"""A data set made by arithmetic, for tests: each class is a pattern of its own under noise."""

import numpy as np

EACH = 40
"""Images of each class."""


def read(dataset, places, split):
    """The fields of `datasets.Images` of a split; equal calls give equal images."""
    size, classes = dataset.size, dataset.classes
    patterns = np.random.default_rng(0).integers(40, 216, (classes, 3, 4, 4)).repeat(size // 4, 2).repeat(size // 4, 3)
    labels = np.arange(classes * EACH, dtype=np.int64) % classes
    noise = np.random.default_rng({"train": 1, "test": 2}[split]).normal(0, 12, (len(labels), 3, size, size))
    return np.clip(patterns[labels] + noise, 0, 255).astype(np.uint8), labels, tuple(f"pattern{i}" for i in range(classes)), "arithmetic"
