"""RGB bytes -> the first map, in integers: the definition that torch and RTL follow (paper, section `key_cil`).

    Y  =        (77 R + 150 G +  29 B + 128) >> 8
    Cb = 128 + ((-43 R -  85 G + 128 B + 127) >> 8)
    Cr = 128 + ((128 R - 107 G -  21 B + 127) >> 8)

`>>` rounds towards minus infinity; with +127 the chrominance stays within 0..255 without clamping.  A byte v has the level
(v * n) >> 8 of n levels, and bit k of its plane is 1 iff level >= k, k = 0..n-1.
TYCC with N levels has planes Y (2N levels), Cb (N), Cr (N); TRGB has R, G, B (N each); grey has Y (N).
"""

import numpy as np

from ..ir.ops import Binarize, Bits8, Input, planes

YCC = np.array([[77, 150, 29], [-43, -85, 128], [128, -107, -21]])
ROUNDING = np.array([128, 127, 127])
OFFSET = np.array([0, 128, 128])


def ycc(images: np.ndarray) -> np.ndarray:
    """uint8 RGB (N, 3, H, W) -> int64 Y, Cb, Cr (N, 3, H, W), each 0..255."""
    x = np.einsum("pc,nchw->nphw", YCC, images.astype(np.int64))
    return ((x + ROUNDING[:, None, None]) >> 8) + OFFSET[:, None, None]


def levels(images: np.ndarray, encoder: str, count: int) -> np.ndarray:
    """uint8 RGB (N, 3, H, W) -> levels (N, P, H, W) of a thermometer, plane p in 0..planes[p] - 1."""
    sizes = np.array(planes(encoder, count))
    x = images.astype(np.int64) if encoder == "trgb" else ycc(images)[:, :len(sizes)]
    return (x * sizes[:, None, None]) >> 8


def thermometer(levels: np.ndarray, encoder: str, count: int) -> np.ndarray:
    """Levels (N, P, H, W) -> uint8 bits (N, C, H, W), the planes one after the other."""
    parts = [levels[:, plane, None] >= np.arange(size)[:, None, None] for plane, size in enumerate(planes(encoder, count))]
    return np.concatenate(parts, 1).astype(np.uint8)


def encode(images: np.ndarray, encoder: str, count: int) -> np.ndarray:
    """uint8 RGB (N, 3, H, W) -> uint8 bits (N, C, H, W) of a thermometer."""
    return thermometer(levels(images, encoder, count), encoder, count)


def first_map(images: np.ndarray, op: Input) -> np.ndarray:
    """uint8 RGB (N, 3, S, S) -> the output uint8 (N, C, S, S) of the network's first op: bits, or the bytes of `Bits8`."""
    if isinstance(op, Bits8):
        return np.array(op.table, np.uint8)[images]
    if isinstance(op, Binarize):
        return (ycc(images)[:, :1] >= op.threshold).astype(np.uint8)
    return encode(images, op.encoder, op.levels)  # type: ignore[attr-defined]
