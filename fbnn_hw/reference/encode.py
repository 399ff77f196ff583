"""RGB bytes -> thermometer bits, in integers: the definition that torch and RTL follow (paper, section `key_cil`).

    Y  =        (77 R + 150 G +  29 B + 128) >> 8
    Cb = 128 + ((-43 R -  85 G + 128 B + 127) >> 8)
    Cr = 128 + ((128 R - 107 G -  21 B + 127) >> 8)

`>>` rounds towards minus infinity; with +127 the chrominance stays within 0..255 without clamping.  A byte v has the level
(v * n) >> 8 of n levels, and bit k of its plane is 1 iff level >= k, k = 0..n-1.
TYCC with N levels has planes Y (2N levels), Cb (N), Cr (N); TRGB has R, G, B (N each).
"""

import numpy as np

from ..ir.ops import planes

YCC = np.array([[77, 150, 29], [-43, -85, 128], [128, -107, -21]])
ROUNDING = np.array([128, 127, 127])
OFFSET = np.array([0, 128, 128])


def ycc(images: np.ndarray) -> np.ndarray:
    """uint8 RGB (N, 3, H, W) -> int64 Y, Cb, Cr (N, 3, H, W), each 0..255."""
    x = np.einsum("pc,nchw->nphw", YCC, images.astype(np.int64))
    return ((x + ROUNDING[:, None, None]) >> 8) + OFFSET[:, None, None]


def levels(images: np.ndarray, encoder: str, count: int) -> np.ndarray:
    """uint8 RGB (N, 3, H, W) -> levels (N, 3, H, W), plane p in 0..planes[p] - 1."""
    x = ycc(images) if encoder == "tycc" else images.astype(np.int64)
    return (x * np.array(planes(encoder, count))[:, None, None]) >> 8


def thermometer(levels: np.ndarray, encoder: str, count: int) -> np.ndarray:
    """Levels (N, 3, H, W) -> uint8 bits (N, C, H, W), the planes one after the other."""
    parts = [levels[:, plane, None] >= np.arange(size)[:, None, None] for plane, size in enumerate(planes(encoder, count))]
    return np.concatenate(parts, 1).astype(np.uint8)


def encode(images: np.ndarray, encoder: str, count: int) -> np.ndarray:
    """uint8 RGB (N, 3, H, W) -> uint8 bits (N, C, H, W)."""
    return thermometer(levels(images, encoder, count), encoder, count)
