"""Pixels of a camera's sensor -> the bytes of an image, in integers: the definition that `fbnn_hw.rtl.camera` follows.

The front end looks at a window of 128 x 128 pixels in the middle of a frame.  A pixel of the image is a box of 4 x 4 of them.  The sum s
of a box's sixteen values becomes a byte: its high bits, with the highest ones copied down, so that white is 255.

    red and blue of RGB565, five bits     s >> 1 | s >> 6
    green of RGB565, six bits             s >> 2 | s >> 8
    grey, eight bits                      s >> 4
"""

import numpy as np

from ..base.errors import InputError
from .encode import ycc

WINDOW, BOX = 128, 4
SIZE = WINDOW // BOX
"""Pixels a side of the window, of a box and of the image."""
BATCH = 256
"""Pictures that are shown at once: a window takes more memory than most pictures."""
RGB565 = {"red": (11, 5), "green": (5, 6), "blue": (0, 5)}
"""{colour: (place of its lowest bit in a word, its bits)}."""


def from_rgb565(words: np.ndarray) -> np.ndarray:
    """Windows of RGB565 words, uint16 (N, 128, 128) -> images, uint8 RGB (N, 3, 32, 32)."""
    _check(words, np.uint16)
    return np.stack([_boxes(words >> place & (1 << bits) - 1, bits) for place, bits in RGB565.values()], 1)


def from_grey(pixels: np.ndarray) -> np.ndarray:
    """Windows of grey bytes, uint8 (N, 128, 128) -> images, uint8 RGB (N, 3, 32, 32) of three equal colours."""
    _check(pixels, np.uint8)
    return np.repeat(_boxes(pixels, 8)[:, None], 3, 1)


def to_rgb565(pictures: np.ndarray) -> np.ndarray:
    """The windows that a colour sensor gives of pictures, uint8 RGB (N, 3, H, W) -> RGB565 words, uint16 (N, 128, 128)."""
    colours = zip(_shown(pictures).transpose(1, 0, 2, 3), RGB565.values())
    return sum((colour >> 8 - bits) << place for colour, (place, bits) in colours).astype(np.uint16)  # type: ignore[union-attr]


def to_grey(pictures: np.ndarray) -> np.ndarray:
    """The windows that a grey sensor gives of pictures, uint8 RGB (N, 3, H, W) -> their Y, uint8 (N, 128, 128)."""
    return ycc(_shown(pictures).astype(np.uint8))[:, 0].astype(np.uint8)


def through(pictures: np.ndarray, grey: bool) -> np.ndarray:
    """The images, uint8 RGB (N, 3, 32, 32), that an accelerator gets of pictures, uint8 RGB (N, 3, H, W), shown to a sensor."""
    batches = (pictures[start:start + BATCH] for start in range(0, len(pictures), BATCH))
    return np.concatenate([from_grey(to_grey(batch)) if grey else from_rgb565(to_rgb565(batch)) for batch in batches])


def _check(pixels: np.ndarray, dtype: type) -> None:
    if pixels.dtype != dtype or pixels.shape[1:] != (WINDOW, WINDOW) or not len(pixels):
        raise InputError(f"camera: found {pixels.dtype} {pixels.shape}, expected {np.dtype(dtype)} (N, {WINDOW}, {WINDOW}) with N from 1")


def _boxes(values: np.ndarray, bits: int) -> np.ndarray:
    """Values of so many bits (N, 128, 128) -> uint8 (N, 32, 32)."""
    sums = values.reshape(-1, SIZE, BOX, SIZE, BOX).sum((2, 4), dtype=np.uint16)
    return (sums >> bits - 4 | sums >> 2 * bits - 4).astype(np.uint8)


def _shown(pictures: np.ndarray) -> np.ndarray:
    """uint8 RGB (N, 3, H, W) -> int64 (N, 3, 128, 128): the centre square, as large as the window.

    A pixel is the mean of what falls on its area, rounded.
    """
    if pictures.dtype != np.uint8 or pictures.ndim != 4 or pictures.shape[1] != 3 or not pictures.size:
        raise InputError(f"camera: found {pictures.dtype} {pictures.shape}, expected pictures, uint8 (N, 3, height, width) with N from 1")
    side = min(pictures.shape[2:])
    top, left = ((length - side) // 2 for length in pictures.shape[2:])
    ends, pixels = np.arange(WINDOW + 1) * side, np.arange(side + 1) * WINDOW  # both from 0 to the same length
    share = np.minimum(ends[1:, None], pixels[1:]) - np.maximum(ends[:-1, None], pixels[:-1])
    share = share.clip(0).astype(np.float64)  # (128, side): of each pixel of the window; floats hold these integers exactly
    light = share @ pictures[:, :, top:top + side, left:left + side] @ share.T
    return (light.astype(np.int64) + side ** 2 // 2) // side ** 2
