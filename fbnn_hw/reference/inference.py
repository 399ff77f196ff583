"""A network on images, in integers: the definition that torch and RTL are compared with.

Dot products of +-1 are computed as float32 matrix products.  That is exact: every partial sum is an integer of at most
`Topology.largest_sum` < 2^24, whatever the order of the additions.
"""

import math
from collections.abc import Callable, Iterable
from itertools import product

import numpy as np

from ..base import bits
from ..base.errors import InputError
from ..ir.network import LATENT, Network, Topology
from ..ir.ops import BYTE
from .encode import first_map

BATCH = 16
"""Most images at a time in `logits` and `latents`."""

BATCH_VALUES = 2 ** 24
"""Values of the largest maps of the images that are worked on at a time, as far as one image has no more."""

MOST_VALUES = 2 ** 25
"""Values of the largest map of an image, which take some 20 bytes each; no target holds a larger one."""

SLAB_BYTES = 2 ** 22
"""Bytes of the matrix of input windows that is made at a time; it should stay in a cache."""

MATRIX_VALUES = 2 ** 24
"""Weights that are floats at a time."""


def layers(network: Network, images: np.ndarray) -> dict[str, np.ndarray]:
    """{op name: output} of every layer, in execution order.  images: uint8 RGB (N, 3, S, S).

    An output is uint8 bits (N, C, H, W); those that `Topology.byte_maps` names are uint8 bytes; the last one is int32 logits
    (N, classes).  Raises InputError where the images have another shape or type.
    """
    _check(network, images)
    return _layers(network, images)


def logits(network: Network, images: np.ndarray, progress: Callable[[range], Iterable[int]] | None = None) -> np.ndarray:
    """Compute the logits, int32 (N, classes), of images, uint8 RGB (N, 3, S, S).

    progress: wraps the range over the batches, as tqdm does.  Raises InputError where the images have another shape or type.
    """
    return _outputs(network, images, network.topology.ops[-1].name, np.int32, progress)


def latents(network: Network, images: np.ndarray, progress: Callable[[range], Iterable[int]] | None = None) -> np.ndarray:
    """Compute the latents, uint8 bits (N, bits); otherwise as `logits`."""
    return _outputs(network, images, LATENT, np.uint8, progress)


def _outputs(network, images, name, dtype, progress):
    """The output of one op as a row for each image."""
    _check(network, images)
    batch = batch_size(network.topology, BATCH)
    starts = range(0, len(images), batch)
    out = np.zeros((len(images), math.prod(network.topology.shapes[name])), dtype)
    for start in progress(starts) if progress else starts:
        part = images[start:start + batch]
        out[start:start + batch] = _layers(network, part, name)[name].reshape(len(part), -1)
    return out


def batch_size(topology: Topology, most: int) -> int:
    """Images that are worked on at a time, `most` of them or fewer.  Raises InputError where one image takes too much memory."""
    name, values = topology.largest_map()
    if values > MOST_VALUES:
        raise InputError(f"layer {name}: gives {values:,} values for an image, expected at most {MOST_VALUES:,} to be computed here")
    return max(1, min(most, BATCH_VALUES // values))


def classify(logits: np.ndarray) -> np.ndarray:
    """Class of each row of logits, (N, classes) -> int64 (N,): the largest logit, the lowest class where several are equal."""
    return np.argmax(logits, 1).astype(np.int64)


def _check(network, images):
    batch_size(network.topology, 1)
    size = network.topology.image_size
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.ndim != 4 or images.shape[1:] != (3, size, size):
        kind = f"{images.dtype} {images.shape}" if isinstance(images, np.ndarray) else type(images).__name__
        raise InputError(f"images: found {kind}, expected uint8 (N, 3, {size}, {size})")


def _layers(network, images, only=None):
    """{op name: output}; with `only`, that op's output and what is needed no longer is forgotten on the way."""
    values: dict[str, np.ndarray] = {}
    byte_maps = network.topology.byte_maps()
    last_reader = {name: op.name for op in network.topology.ops for name in op.inputs}
    for op in network.topology.ops:
        inputs = [values[name] for name in op.inputs]
        weights = network.weights.get(op.name)
        threshold = network.thresholds.get(op.name, np.zeros(1, np.int32))[:, None, None]
        top = 1 if byte_maps.isdisjoint(op.inputs) else BYTE
        match op.kind:
            case "thermometer" | "binarize" | "bits8":
                y = first_map(images, op)
            case "conv":
                y = convolution(*inputs, weights, op.stride, op.groups, op.frame, top) >= threshold
            case "maxpool":
                n, c, h, w = inputs[0].shape
                y = inputs[0][:, :, :h // 2 * 2, :w // 2 * 2].reshape(n, c, h // 2, 2, w // 2, 2).max((3, 5))
            case "gap":
                y = bits.from_bits(inputs[0], np.int32).sum((2, 3), keepdims=True) >= threshold
            case "depthwise":
                y = (bits.from_bits(inputs[0]) * bits.from_bits(weights)).sum((2, 3), np.int32, keepdims=True) >= threshold
            case "flatten":
                y = inputs[0].reshape(len(images), -1, 1, 1)
            case "dense":
                y = convolution(*inputs, weights[:, :, None, None], 1, op.groups, 0, top)
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
        if op.name == only:
            break
        for name in set(op.inputs) if only else ():
            if last_reader[name] == op.name:
                del values[name]
    return values


def convolution(x: np.ndarray, weights: np.ndarray, stride: int, groups: int, frame: int, top: int = 1) -> np.ndarray:
    """Dot products of a convolution, float32 (N, O, H', W'); they are exact.

    x: uint8 (N, C, H, W), bits, or bytes where `top` is `BYTE`, not 1.  A value u stands for 2 u - top.
    weights: uint8 bits (O, C / groups, k, k).  frame: pixels on each side of the map, which stand for `bits.PADDING` * top.
    """
    n, c, h, w = x.shape
    outputs, depth, k, _ = weights.shape
    framed = np.full((n, h + 2 * frame, w + 2 * frame, c), bits.PADDING * top, np.float32)  # channels last: windows copy in long runs
    inner = framed[:, frame:frame + h, frame:frame + w]
    inner[...] = x.transpose(0, 2, 3, 1)
    inner *= 2
    inner -= top
    windows = np.lib.stride_tricks.sliding_window_view(framed, (k, k), (1, 2))[:, ::stride, ::stride].transpose(0, 1, 2, 4, 5, 3)
    matrices = weights.transpose(2, 3, 1, 0).reshape(k * k * depth, groups, -1)
    rows, columns = windows.shape[1:3]
    out = np.empty((n, rows, columns, outputs), np.float32)
    row_bytes = 4 * columns * k * k * depth
    band = max(1, min(rows, SLAB_BYTES // row_bytes))
    step = max(1, SLAB_BYTES // (row_bytes * rows))
    size = outputs // groups
    block = max(1, MATRIX_VALUES // (k * k * depth))
    for g, first in product(range(groups), range(0, size, block)):
        matrix = bits.from_bits(matrices[:, g, first:first + block], np.float32)
        channels = slice(g * size + first, g * size + min(first + block, size))
        for i in range(0, n, step):
            for r in range(0, rows, band):
                window = windows[i:i + step, r:r + band, ..., g * depth:(g + 1) * depth].reshape(-1, k * k * depth)
                out[i:i + step, r:r + band, :, channels] = (window @ matrix).reshape(-1, min(band, rows - r), columns, matrix.shape[1])
    return out.transpose(0, 3, 1, 2)
