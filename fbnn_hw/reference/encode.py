"""RGB bytes -> the first map, in integers: the definition that torch and RTL follow (paper, section `key_cil`).

    Y  =        (77 R + 150 G +  29 B + 128) >> 8
    Cb = 128 + ((-43 R -  85 G + 128 B + 127) >> 8)
    Cr = 128 + ((128 R - 107 G -  21 B + 127) >> 8)

`>>` rounds towards minus infinity; with +127 the chrominance stays within 0..255 without clamping.  A byte v has the level
(v * n) >> 8 of n levels, and bit k of its plane is 1 iff level >= k, k = 0..n-1.
TYCC with N levels has planes Y (2N levels), Cb (N), Cr (N); TRGB has R, G, B (N each); grey has Y (N).

Levels are all that a network sees of an image, so some accelerators take them in place of its bytes: `packed` (docs/link.md).
"""

from collections.abc import Sequence

import numpy as np

from ..base.errors import InputError
from ..ir import ops
from ..ir.ops import Binarize, Bits8, Input, Thermometer, level_bits, planes

YCC, ROUNDING, OFFSET = (part.squeeze() for part in np.split(np.array(ops.YCC), [3, 4], 1))


def checked(images, size: int) -> np.ndarray:
    """`images` as an array, uint8 RGB (N, 3, size, size) with N from 1.  Raises InputError where they are none."""
    images = np.asarray(images)
    if images.dtype != np.uint8 or images.shape[1:] != (3, size, size) or not len(images):
        raise InputError(f"images: found {images.dtype} {images.shape}, expected uint8 (N, 3, {size}, {size}) with N from 1")
    return images


def _bytes(images: np.ndarray) -> np.ndarray:
    """`images`.  Raises InputError where they are no bytes: floats from 0 to 1 would all be nearly black."""
    if images.dtype != np.uint8:
        raise InputError(f"images: found {images.dtype}, expected bytes, uint8 of 0 to 255; take (255 * images).round().astype(np.uint8) "
                         "of floats from 0 to 1")
    return images


def ycc(images: np.ndarray) -> np.ndarray:
    """uint8 RGB (N, 3, H, W) -> int64 Y, Cb, Cr (N, 3, H, W), each 0..255."""
    x = np.einsum("pc,nchw->nphw", YCC, _bytes(images).astype(np.int64))
    return ((x + ROUNDING[:, None, None]) >> 8) + OFFSET[:, None, None]


def levels(images: np.ndarray, encoder: str, count: int) -> np.ndarray:
    """uint8 RGB (N, 3, H, W) -> levels (N, P, H, W) of a thermometer, plane p in 0..planes[p] - 1."""
    sizes = np.array(planes(encoder, count))
    x = _bytes(images).astype(np.int64) if encoder == "trgb" else ycc(images)[:, :len(sizes)]
    return (x * sizes[:, None, None]) >> 8


def thermometer(levels: np.ndarray, encoder: str, count: int) -> np.ndarray:
    """Levels (N, P, H, W) -> uint8 bits (N, C, H, W), the planes one after the other."""
    parts = [levels[:, plane, None] >= np.arange(size)[:, None, None] for plane, size in enumerate(planes(encoder, count))]
    return np.concatenate(parts, 1).astype(np.uint8)


def encode(images: np.ndarray, encoder: str, count: int) -> np.ndarray:
    """uint8 RGB (N, 3, H, W) -> uint8 bits (N, C, H, W) of a thermometer."""
    return thermometer(levels(images, encoder, count), encoder, count)


def packed(images: np.ndarray, op: Thermometer | Binarize) -> np.ndarray:
    """uint8 RGB (N, 3, S, S) -> uint8 (N, bytes): the levels of each image, one after the other without a gap.

    Pixels are in raster order.  A pixel is the level of each plane, with the bits of `level_bits`, the lowest first; of `Binarize` it is
    the bit itself.  The first bit is the lowest of the first byte, and zeros fill the last byte.
    """
    if isinstance(op, Binarize):
        values, sizes = first_map(images, op), level_bits(op.kind, 0)
    else:
        values, sizes = levels(images, op.encoder, op.levels), level_bits(op.encoder, op.levels)
    bits = [values[:, plane, :, :, None] >> np.arange(size) & 1 for plane, size in enumerate(sizes)]
    return np.packbits(np.concatenate(bits, -1).reshape(len(images), -1).astype(np.uint8), axis=1, bitorder="little")


def unpacked(data: np.ndarray, sizes: Sequence[int], size: int) -> np.ndarray:
    """uint8 (N, bytes) -> levels (N, P, size, size), the inverse of `packed`.  sizes: bits of each plane's level."""
    bits = np.unpackbits(data, axis=1, count=size ** 2 * sum(sizes), bitorder="little").reshape(len(data), size, size, -1)
    ends = np.cumsum(sizes)
    return np.stack([bits[..., end - count:end] @ (1 << np.arange(count)) for count, end in zip(sizes, ends)], 1)


def packed_map(data: np.ndarray, op: Thermometer | Binarize) -> np.ndarray:
    """The first map, uint8 (N, C, S, S), of any bytes (N, bytes) in the form of `packed`.

    A level that its plane lacks, where their number is no power of two, gives the bits of the highest one.
    """
    if isinstance(op, Binarize):
        return unpacked(data, level_bits(op.kind, 0), op.size).astype(np.uint8)
    return thermometer(unpacked(data, level_bits(op.encoder, op.levels), op.size), op.encoder, op.levels)


def to_bytes(images: np.ndarray, op: Input | None = None) -> np.ndarray:
    """uint8 RGB (N, 3, S, S) -> uint8 (N, bytes): each image as an accelerator takes it.

    op: of a network whose accelerator takes packed levels; None: R, G, B of each pixel, row by row.
    """
    if op:
        return packed(images, op)  # type: ignore[arg-type]
    return np.ascontiguousarray(_bytes(images).transpose(0, 2, 3, 1)).reshape(len(images), -1)


def first_map(images: np.ndarray, op: Input) -> np.ndarray:
    """uint8 RGB (N, 3, S, S) -> the output uint8 (N, C, S, S) of the network's first op: bits, or the bytes of `Bits8`."""
    if isinstance(op, Bits8):
        return np.array(op.table, np.uint8)[_bytes(images)]
    if isinstance(op, Binarize):
        return (ycc(images)[:, :1] >= op.threshold).astype(np.uint8)
    return encode(images, op.encoder, op.levels)  # type: ignore[attr-defined]
