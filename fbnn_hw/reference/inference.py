"""A network on images, in integers: the definition that torch and RTL are compared with.

Dot products of +-1 are computed as float32 matrix products.  That is exact: every partial sum is an integer of at most
fan_in < 2^24 (`MAX_CHANNELS` * 9 at worst), whatever the order of the additions.
"""

from collections.abc import Callable, Iterable

import numpy as np

from .. import bits
from ..errors import InputError
from ..ir.network import Network
from .encode import encode

BATCH = 16
"""Images at a time in `logits`."""

SLAB_BYTES = 2 ** 22
"""Bytes of the matrix of input windows that is made at a time; it should stay in a cache."""


def layers(network: Network, images: np.ndarray) -> dict[str, np.ndarray]:
    """Every layer's output: {op name: uint8 bits (N, C, H, W)} in execution order, the last one int32 logits (N, classes).

    images: uint8 RGB (N, 3, S, S).  Raises InputError where they have another shape or type.
    """
    _check(network, images)
    return _layers(network, images)


def logits(network: Network, images: np.ndarray, progress: Callable[[range], Iterable[int]] | None = None) -> np.ndarray:
    """Logits int32 (N, classes) of uint8 RGB images (N, 3, S, S).  progress: wraps the range over batches, as tqdm does."""
    _check(network, images)
    starts = range(0, len(images), BATCH)
    out = np.zeros((len(images), len(network.topology.classes)), np.int32)
    last = network.topology.ops[-1].name
    for start in progress(starts) if progress else starts:
        out[start:start + BATCH] = _layers(network, images[start:start + BATCH])[last]
    return out


def classify(logits: np.ndarray) -> np.ndarray:
    """Class of each row, int64 (N,); ties go to the lowest."""
    return np.argmax(logits, 1).astype(np.int64)


def _check(network, images):
    size = network.topology.image_size
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.ndim != 4 or images.shape[1:] != (3, size, size):
        kind = f"{images.dtype} {images.shape}" if isinstance(images, np.ndarray) else type(images).__name__
        raise InputError(f"images: found {kind}, expected uint8 (N, 3, {size}, {size})")


def _layers(network, images):
    values = {}
    for op in network.topology.ops:
        inputs = [values[name] for name in op.inputs]
        weights = network.weights.get(op.name)
        threshold = network.thresholds.get(op.name, np.zeros(1, np.int32))[:, None, None]
        match op.kind:
            case "thermometer":
                y = encode(images, op.encoder, op.levels)
            case "conv":
                y = convolution(*inputs, weights, op.stride, op.groups) >= threshold
            case "maxpool":
                n, c, h, w = inputs[0].shape
                y = inputs[0].reshape(n, c, h // 2, 2, w // 2, 2).max((3, 5))
            case "gap":
                y = bits.from_bits(inputs[0], np.int32).sum((2, 3), keepdims=True) >= threshold
            case "depthwise":
                y = (bits.from_bits(inputs[0]) * bits.from_bits(weights)).sum((2, 3), np.int32, keepdims=True) >= threshold
            case "dense":
                y = convolution(*inputs, weights[:, :, None, None], 1, op.groups)
                y = y[:, :, 0, 0].astype(np.int32) if op.logits else y >= threshold
            case "duplicate":
                y = inputs[0].repeat(op.times, 1)
            case "concat":
                y = np.concatenate(inputs, 1)
            case "slice":
                y = inputs[0][:, op.start:op.stop]
            case "shuffle":
                n, c, h, w = inputs[0].shape
                y = inputs[0].reshape(n, op.groups, c // op.groups, h, w).swapaxes(1, 2).reshape(n, c, h, w)
        values[op.name] = y if y.dtype == np.int32 else y.astype(np.uint8, copy=False)
    return values


def convolution(x: np.ndarray, weights: np.ndarray, stride: int, groups: int) -> np.ndarray:
    """Dot products (N, O, H / stride, W / stride), float32 and exact, of bits x (N, C, H, W) and weights (O, C / groups, k, k).

    Outside the map every channel is `bits.PADDING`; k is 1 or 3, the window of output (i, j) is centred on (stride i, stride j).
    """
    n, c, h, w = x.shape
    outputs, depth, k, _ = weights.shape
    pad = k // 2
    framed = np.full((n, h + 2 * pad, w + 2 * pad, c), bits.PADDING, np.float32)  # channels last: windows copy in long runs
    framed[:, pad:pad + h, pad:pad + w] = bits.from_bits(x.transpose(0, 2, 3, 1))
    windows = np.lib.stride_tricks.sliding_window_view(framed, (k, k), (1, 2))[:, ::stride, ::stride].transpose(0, 1, 2, 4, 5, 3)
    matrices = bits.from_bits(weights, np.float32).transpose(2, 3, 1, 0).reshape(k * k * depth, groups, -1)
    rows, columns = windows.shape[1:3]
    out = np.empty((n, rows, columns, outputs), np.float32)
    step = max(1, SLAB_BYTES // (4 * rows * columns * k * k * depth))
    for g in range(groups):
        channels = slice(g * outputs // groups, (g + 1) * outputs // groups)
        for i in range(0, n, step):
            window = windows[i:i + step, ..., g * depth:(g + 1) * depth].reshape(-1, k * k * depth)
            out[i:i + step, ..., channels] = (window @ matrices[:, g]).reshape(-1, rows, columns, outputs // groups)
    return out.transpose(0, 3, 1, 2)
