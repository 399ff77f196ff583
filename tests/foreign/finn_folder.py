"""Folders as FINN's finnthesizer writes them, of random networks, and what FINN's hardware answers, neuron by neuron."""

import numpy as np


def with_classes(folder, names="abcdefghij"):
    """`folder`, which it makes, with a file of the names of the classes."""
    folder.mkdir(exist_ok=True)
    (folder / "classes.txt").write_text("\n".join(names))
    return folder


def write(folder, number, weights, thresholds, elements, lanes, padded=None):
    """Files of one layer: weights {0, 1} (neurons, inputs), filled up with 1 to `padded` (neurons, inputs); thresholds or None."""
    neurons, inputs = padded or weights.shape
    full = np.ones((neurons, inputs), np.uint8)
    full[:len(weights), :weights.shape[1]] = weights
    limits = np.full(neurons, 32767, np.int64)
    if thresholds is not None:
        limits[:len(thresholds)] = thresholds
    for element in range(elements):
        words = [sum(int(bit) << i for i, bit in enumerate(full[neuron, start:start + lanes]))
                 for neuron in range(element, neurons, elements) for start in range(0, inputs, lanes)]
        np.array(words, "<u8").tofile(folder / f"{number}-{element}-weights.bin")
        if thresholds is not None:
            limits[element::elements].astype("<i8").tofile(folder / f"{number}-{element}-thres.bin")


def cnv(folder, rng, channels=(4, 8, 8, 8, 16, 16), hidden=(32, 32), classes=10):
    """Writes a network of CNV's structure; returns its layers [(weights, thresholds)], convolutions with inputs (row, column, channel)."""
    layers, below = [], 3
    for number, filters in enumerate(channels):
        inputs = 9 * below
        near = rng.integers(-3, 4, filters)
        thresholds = near * 4000 if number == 0 else inputs // 2 + near
        layers.append((rng.integers(0, 2, (filters, inputs), dtype=np.uint8), thresholds))
        write(folder, number, *layers[-1], elements=4, lanes=3 if number == 0 else below)
        below = filters
    for number, outputs in enumerate(hidden, start=len(channels)):
        layers.append((rng.integers(0, 2, (outputs, below), dtype=np.uint8), below // 2 + rng.integers(-3, 3, outputs)))
        write(folder, number, *layers[-1], elements=1, lanes=4)
        below = outputs
    layers.append((rng.integers(0, 2, (classes, below), dtype=np.uint8), None))
    write(folder, len(layers) - 1, *layers[-1], elements=4, lanes=1, padded=(64, below))
    return layers


def cnv_answer(layers, image):
    """Popcounts of the last layer (classes,) for uint8 RGB (3, 32, 32)."""
    value = np.clip(np.round(128 * (2 * image.astype(np.float64) / 255 - 1)), -128, 127).astype(np.int64).transpose(1, 2, 0)
    for number, (weights, thresholds) in enumerate(layers[:6]):
        size = len(value) - 2
        out = np.zeros((size, size, len(weights)), np.uint8)
        for y in range(size):
            for x in range(size):
                window = value[y:y + 3, x:x + 3].reshape(-1)
                sums = 2 * ((weights.astype(np.int64) * 2 - 1) @ window) if number == 0 else (weights == window).sum(1)
                out[y, x] = sums > thresholds
        value = out
        if number in (1, 3):
            half = len(value) // 2 * 2
            value = value[:half, :half].reshape(half // 2, 2, half // 2, 2, -1).max((1, 3))
    value = value.reshape(-1)
    for weights, thresholds in layers[6:8]:
        value = ((weights == value).sum(1) > thresholds).astype(np.uint8)
    return (layers[8][0] == value).sum(1)


def lfc(folder, rng, widths=(64, 32, 32), classes=10):
    """Writes a network of LFC's structure; returns its layers [(weights, thresholds)]."""
    layers, below = [], 784
    for number, outputs in enumerate((*widths, classes)):
        last = number == len(widths)
        thresholds = below // 2 + rng.integers(-9, 10, outputs) // (1 if number == 0 else 3) + (4 if last else 0)
        layers.append((rng.integers(0, 2, (outputs, below), dtype=np.uint8), thresholds))
        write(folder, number, *layers[-1], elements=16, lanes=64 if number == 0 else 8,
              padded=(64 if last else outputs, 832 if number == 0 else below))
        below = outputs
    return layers


def lfc_answer(layers, grey):
    """The class for bytes (28, 28): the highest bit of the last layer's that is 1, 0 where none is."""
    value = (2 * grey.reshape(-1).astype(np.float64) / 255 - 1 >= 0).astype(np.uint8)
    for weights, thresholds in layers:
        value = ((weights == value).sum(1) > thresholds).astype(np.uint8)
    return int(np.flatnonzero(value)[-1]) if value.any() else 0
