"""Binary layers for a `torch.nn.Module` of one's own, which `fbnn_hw.export` turns into a checkpoint (docs/networks.md).

Maps between layers hold +1 and -1.  Convolutions and dense layers have float weights, of which they use the signs, and give
u = dot / sqrt(fan-in); `Sign` ends them, with a torch batch norm, pooling, or any rising or falling function of single values before it.
Gradients pass a sign where its argument is in -limit..limit (clipped straight-through estimator).
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .. import bits
from ..ir import ops
from . import binarize
from .encode import encode


class _Encoder(nn.Module):
    """uint8 RGB (N, 3, S, S), or grey (N, 1, S, S) -> float32 (N, C, S, S)."""

    def op(self, name, size):
        """The op of the checkpoint for images of `size` pixels a side."""
        raise NotImplementedError

    def forward(self, images):
        return encode(images.expand(-1, 3, -1, -1), self.op("input", images.shape[-1]))


class Thermometer(_Encoder):
    """Thermometer code: +1 and -1 in 4 `levels` channels with encoder "tycc", 3 `levels` with "trgb", `levels` with "grey"."""

    def __init__(self, encoder="tycc", levels=16):
        super().__init__()
        self.encoder, self.levels = encoder, levels

    def op(self, name, size):
        return ops.Thermometer(name, (), self.encoder, size, self.levels)

    @property
    def channels(self):
        """Channels that it gives."""
        return sum(ops.planes(self.encoder, self.levels))


class Binarize(_Encoder):
    """One channel: +1 where the grey value of the pixel is at least `threshold`, 1 to 255."""

    channels = 1

    def __init__(self, threshold=128):
        super().__init__()
        self.threshold = threshold

    def op(self, name, size):
        return ops.Binarize(name, (), size, self.threshold)


class Bits8(_Encoder):
    """Three channels of 8 bits: the odd integers 2 table[p] - 255 of the bytes p; without a table 2 p - 255."""

    channels = 3

    def __init__(self, table=None):
        super().__init__()
        self.table = tuple(range(256)) if table is None else tuple(table)

    def op(self, name, size):
        return ops.Bits8(name, (), size, self.table)


class _Weighted(nn.Module):
    """A layer whose weights are the signs of `weight`, a parameter of that shape."""

    def __init__(self, shape):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(shape))
        nn.init.xavier_uniform_(self.weight)
        self.scale = 1 / math.sqrt(math.prod(shape[1:]))

    def signs(self):
        """The weights in {-1, +1}, with the gradient of the straight-through estimator."""
        return binarize.weight(self.weight)


class BinaryConv2d(_Weighted):
    """Convolution with weights +1 and -1: u = dot / sqrt(fan-in), no bias.

    kernel: 1, 3 or 5, or the size of the map without padding.  padding: "same", kernel // 2 pixels of pad_value on each side, or 0.
    pad_value: -1; of a layer that reads `Bits8` -255.
    """

    def __init__(self, inputs, outputs, kernel=3, stride=1, padding="same", groups=1, pad_value=bits.PADDING):
        super().__init__((outputs, inputs // groups, kernel, kernel))
        self.stride, self.padding, self.groups, self.pad_value = stride, padding, groups, pad_value

    @property
    def frame(self):
        """Pixels of padding on each side."""
        return self.weight.shape[2] // 2 if self.padding == "same" else self.padding

    def forward(self, x):
        if self.frame:
            x = F.pad(x, (self.frame,) * 4, value=self.pad_value)
        return F.conv2d(x, self.signs(), stride=self.stride, groups=self.groups) * self.scale


class BinaryLinear(_Weighted):
    """Dense layer with weights +1 and -1: u = dot / sqrt(fan-in), no bias.  groups: as of a convolution."""

    def __init__(self, inputs, outputs, groups=1):
        super().__init__((outputs, inputs // groups))
        self.groups = groups

    def forward(self, x):
        return F.conv1d(x[:, :, None], self.signs()[:, :, None], groups=self.groups)[:, :, 0] * self.scale


class LearnedPool2d(_Weighted):
    """Global pooling (N, C, S, S) -> (N, C, 1, 1) with a weight +1 or -1 for each channel and pixel: u = dot / S."""

    def __init__(self, channels, size):
        super().__init__((channels, 1, size, size))

    def forward(self, x):
        return F.conv2d(x, self.signs(), groups=len(self.weight)) * self.scale


class Sign(nn.Module):
    """+1 where x >= 0, else -1; its gradient passes where |x| <= limit."""

    def __init__(self, limit=1.0):
        super().__init__()
        self.limit = limit

    def forward(self, x):
        return binarize.weight(x, self.limit)
