"""What a layer of real numbers gives, while it becomes an op: the picture, a map of bits, sums that are no op yet."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Function = Callable[[np.ndarray], np.ndarray]
"""Real values float64 (K, channels) -> (K, channels), monotone in each channel."""

MANY = 2 ** 18
"""Points at which a function is evaluated."""


@dataclass(frozen=True)
class Image:
    """The picture."""

    table: np.ndarray  # float64 (256, channels), the value of each byte
    size: int  # pixels a side
    vector: bool = False  # whether the source has flattened it
    kind: Any = None  # the type of the values, for a reader that computes in it

    @property
    def shape(self):
        return (self.table.shape[1], self.size, self.size)


@dataclass(frozen=True)
class Bits:
    """A map of an op.  gain, offset: float64 (channels,)."""

    name: str  # of the op
    shape: tuple  # (channels, height, width)
    gain: np.ndarray
    offset: np.ndarray
    top: int = 1  # 1, or 255 for bytes
    vector: bool = False
    copies: int = 1  # copies of each channel in the source, whose values add up
    pad: int = 0  # pixels of the real value pad_value that the source puts around the map for its reader
    pad_value: float = 0.0


@dataclass(frozen=True)
class Sum:
    """Dot products that are no op yet."""

    op: Any  # the op that it will become
    source: Bits  # the map that it reads
    weights: Any  # its bits, or None for a sum over the map
    shape: tuple
    largest: int
    gain: np.ndarray
    bias: np.ndarray  # real (channels,)
    last: str  # the place of the last function in the source
    direction: np.ndarray
    functions: tuple[Function, ...] = ()  # applied in turn to gain * direction * dot + bias
    pools: tuple[str, ...] = ()  # names of the poolings, each the largest of 2 x 2
    vector: bool = False
    flat: bool = False  # whether the source has flattened the result

    def value(self, dot):
        """Real values (K, channels) of dot products (K, channels) as the op has them."""
        y = dot * self.direction * self.gain + self.bias
        for function in self.functions:
            y = function(y)
        return y

    def dots(self):
        """Dot products from -largest to largest, all or many of them: int64 (K, channels)."""
        count = min(2 * self.largest + 1, max(65, MANY // self.shape[0]))
        return np.linspace(-self.largest, self.largest, count).astype(np.int64)[:, None] * np.ones(self.shape[0], np.int64)

    def falls(self):
        """Whether the value falls as the dot product rises, bool (channels,)."""
        ends = np.full((2, self.shape[0]), self.largest, np.float64)
        ends[0] *= -1
        low, high = self.value(ends)
        return high < low


Value = Image | Bits | Sum


@dataclass(frozen=True)
class Map:
    """A value of an ONNX graph that depends on the image, and how the file's array holds it.

    groups: of a map whose channels the file has split into two axes for a shuffle, else 0; turned: whether
    the two are swapped, so that a shuffle is still to be made.
    """

    value: Value
    last: bool = False  # whether the file has its channels last
    order: np.ndarray | None = None  # of a vector in another order than the file's: element i of the file is element order[i]
    groups: int = 0
    turned: bool = False
    whole: bool = False  # whether its numbers are integers of 8 bits, in which a node wraps and divides without a remainder

    @property
    def sizes(self):
        """Sizes of the file's array behind those of the batch."""
        channels, height, width = self.value.shape
        if self.value.vector:
            return (channels * height * width,)
        if self.groups:
            split = (self.groups, channels // self.groups)
            return (*(split[::-1] if self.turned else split), height, width)
        return (height, width, channels) if self.last else (channels, height, width)

    @property
    def channels(self):
        """Which channel of the value each channel of the file is, in the file's order, int (channels,)."""
        count = self.value.shape[0]
        if self.turned:
            return np.arange(count).reshape(self.groups, -1).T.reshape(-1)
        return self.order if self.order is not None and len(self.order) == count else np.arange(count)
