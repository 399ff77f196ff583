"""A value of an ONNX graph that depends on the image."""

from dataclasses import dataclass

import numpy as np

from .values import Value


@dataclass(frozen=True)
class Map:
    """The value, and how the file's array holds it.

    last: whether the file has its channels last.  order: of a vector in another order than the file's:
    element i of the file is element order[i].  groups: of a map whose channels the file has split into two
    axes for a shuffle, else 0; turned: whether the two are swapped, so that a shuffle is still to be made.
    whole: whether its numbers are integers of 8 bits, in which a node wraps and divides without a remainder.
    """

    value: Value
    last: bool = False
    order: np.ndarray | None = None
    groups: int = 0
    turned: bool = False
    whole: bool = False

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
