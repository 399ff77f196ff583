"""The one place that says what a bit means.

A bit 1 is +1, a bit 0 is -1, and sign(0) = +1.  Hence for n products of bits with P matches the dot product is
2P - n, and an output bit is 1 exactly when that dot product reaches its threshold (0 unless stated).
Packed bits are little-endian: element i is bit i % 8 of byte i // 8; the last byte is filled up with 0.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

PADDING = -1
"""Value outside the image in a convolution.  A true zero would not be binary."""


def to_bits(values: ArrayLike) -> np.ndarray:
    """{-1, +1} (any real, by its sign; paper, eq. `sign`) -> {0, 1} as uint8."""
    return (np.asarray(values) >= 0).astype(np.uint8)


def from_bits(bits: ArrayLike, dtype: DTypeLike = np.int8) -> np.ndarray:
    """{0, 1} -> {-1, +1}."""
    return (np.asarray(bits).astype(dtype) * 2 - 1).astype(dtype)


def pack(bits: ArrayLike) -> np.ndarray:
    """Array of {0, 1}, any shape, flattened in C order -> uint8 array of ceil(n / 8) bytes."""
    return np.packbits(np.asarray(bits, np.uint8).reshape(-1), bitorder="little")


def unpack(packed: ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
    """Inverse of `pack` for an array of that shape; raises ValueError if the number of bytes does not fit it."""
    count = int(np.prod(shape))
    packed = np.asarray(packed, np.uint8)
    if packed.shape != ((count + 7) // 8,):
        raise ValueError(f"{packed.size} bytes, expected {(count + 7) // 8} for shape {tuple(shape)}")
    return np.unpackbits(packed, count=count, bitorder="little").reshape(shape)


def to_integers(bits: ArrayLike) -> list[int]:
    """Rows of {0, 1}, (N, count) -> list of N integers; element i of a row is bit i."""
    rows = np.packbits(np.asarray(bits, np.uint8), axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in rows]


def twos_complement(integers: ArrayLike, count: int) -> np.ndarray:
    """Signed integers, any shape -> uint8 (..., count); element i is bit i of a number, the sign beyond the 63rd."""
    values = np.asarray(integers, np.int64)
    return ((values[..., None] >> np.arange(count).clip(max=62)) & 1).astype(np.uint8)


def from_integers(integers: Iterable[int], count: int) -> np.ndarray:
    """Inverse of `to_integers`: uint8 (N, count)."""
    size = (count + 7) // 8
    packed = np.frombuffer(b"".join(integer.to_bytes(size, "little") for integer in integers), np.uint8)
    return np.unpackbits(packed.reshape(-1, size), axis=1, count=count, bitorder="little")
