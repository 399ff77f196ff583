"""A data set made by arithmetic, for tests: each class is a pattern of its own under noise."""

import numpy as np


def make(split, size, classes, each=40):
    """(images uint8 RGB (classes * each, 3, size, size), labels int64, class names); equal calls give equal images."""
    patterns = np.random.default_rng(0).integers(40, 216, (classes, 3, 4, 4)).repeat(size // 4, 2).repeat(size // 4, 3)
    labels = np.arange(classes * each, dtype=np.int64) % classes
    noise = np.random.default_rng({"train": 1, "test": 2}[split]).normal(0, 12, (len(labels), 3, size, size))
    return np.clip(patterns[labels] + noise, 0, 255).astype(np.uint8), labels, tuple(f"pattern{i}" for i in range(classes))
