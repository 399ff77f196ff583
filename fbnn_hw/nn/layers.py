"""Binary layers for a `torch.nn.Module` of your own.  `fbnn_hw.export` writes its checkpoint; docs/networks.md explains both.

A network begins with an encoder (`Thermometer`, `Binarize` or `Bits8`), which takes uint8 images.
The maps between layers hold +1 and -1.  A convolution or dense layer has float weights and uses
their signs; it gives u = dot / sqrt(fan-in).  A `Sign` follows it.  Between the two may stand a
torch batch norm, a pooling, or any rising or falling function of single values.

The gradient passes a sign where its argument is in -limit..limit (clipped straight-through
estimator).

An argument that no network can have raises UsageError where the layer is made.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from ..base import bits
from ..base.errors import InputError, UsageError, show, whole
from ..ir import ops
from . import binarize
from .encode import check, encode


def _check_counts(layer, **values):
    """Refuse values that are no whole numbers from 1, and groups that do not divide inputs and outputs."""
    name, groups = type(layer).__name__, values.get("groups", 1)
    for key, value in values.items():
        if not whole(value, 1):
            raise UsageError(f"{name}: {key} is {show(value)}, expected a whole number from 1")
    if any(values[key] % groups for key in ("inputs", "outputs") if key in values):
        raise UsageError(f"{name}: groups is {groups}, expected a divisor of {values['inputs']} inputs and {values['outputs']} outputs")


def moved(op: Any, *inputs: torch.Tensor) -> torch.Tensor:
    """The output of an op that only moves or copies the channels of its inputs, (N, channels, ...)."""
    x = inputs[0]
    match op.kind:
        case "concat":
            return torch.cat(inputs, 1)
        case "duplicate":
            return x.repeat_interleave(op.times, 1)
        case "slice":
            return x[:, op.start:op.stop]
        case "shuffle":
            return x.unflatten(1, (op.groups, -1)).transpose(1, 2).flatten(1, 2)
    raise NotImplementedError(op.kind)


class _Encoder(nn.Module):
    """Images, uint8 RGB (N, 3, S, S) or grey (N, 1, S, S) -> maps, float32 (N, channels, S, S), contiguous, so that `view` flattens them
    and what later layers make of them.  A module `.to(memory_format=torch.channels_last)` trains faster on a CPU, and needs `flatten`.
    `forward` raises InputError for what is no such images, as floats are."""

    def op(self, name: str, size: int) -> ops.Input:
        """The op of the checkpoint for images of `size` pixels a side."""
        raise NotImplementedError

    def _check(self):
        """Refuse arguments that make no op."""
        try:
            self.op(type(self).__name__, 32).output_shape()
        except InputError as error:
            raise UsageError(str(error)) from None

    def forward(self, images) -> torch.Tensor:
        check(images)
        return encode(images.expand(-1, 3, -1, -1), self.op("input", images.shape[-1])).contiguous()


class Thermometer(_Encoder):
    """Encoder: the thermometer code of each byte, in channels of +1 and -1.

    Images uint8 (N, 3 or 1, S, S) -> float32 (N, channels, S, S).

    Parameters
    ----------
    encoder : str
        "tycc" (luma and chroma), 4 `levels` channels; "trgb", 3 `levels`; "grey", `levels`.
    levels : int
        2, 4, 8, 16, 32 or 64 with "tycc", 2 to 128 with the others.
    """

    def __init__(self, encoder: str = "tycc", levels: int = 16) -> None:
        super().__init__()
        self.encoder, self.levels = encoder, levels
        self._check()

    def op(self, name: str, size: int) -> ops.Thermometer:
        return ops.Thermometer(name, (), self.encoder, size, self.levels)

    @property
    def channels(self) -> int:
        """Channels of its output."""
        return sum(ops.planes(self.encoder, self.levels))


class Binarize(_Encoder):
    """Encoder: one channel, +1 where the grey value of the pixel is at least `threshold` (1 to 255), else -1.

    Images uint8 (N, 3 or 1, S, S) -> float32 (N, 1, S, S).
    """

    channels = 1

    def __init__(self, threshold: int = 128) -> None:
        super().__init__()
        self.threshold = threshold
        self._check()

    def op(self, name: str, size: int) -> ops.Binarize:
        return ops.Binarize(name, (), size, self.threshold)


class Bits8(_Encoder):
    """Encoder: three channels of bytes, not of +1 and -1.  A byte p becomes the odd integer 2 table[p] - 255.

    Images uint8 (N, 3 or 1, S, S) -> float32 (N, 3, S, S).

    Parameters
    ----------
    table : sequence or array of 256 integers, optional
        0 to 255; by default table[p] = p.
    """

    channels = 3

    def __init__(self, table: Any = None) -> None:
        super().__init__()
        table = range(256) if table is None else table.tolist() if hasattr(table, "tolist") else table
        if not isinstance(table, list | tuple | range):
            raise UsageError(f"Bits8: table is {show(table)}, expected 256 integers from 0 to 255")
        self.table = tuple(int(value) if whole(value) else value for value in table)  # numpy's become Python's
        self._check()

    def op(self, name: str, size: int) -> ops.Bits8:
        return ops.Bits8(name, (), size, self.table)


class _Weighted(nn.Module):
    """A layer whose weights are the signs of its parameter `weight`."""

    def __init__(self, shape):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(shape))
        nn.init.xavier_uniform_(self.weight)
        self.scale = 1 / math.sqrt(math.prod(shape[1:]))

    def signs(self) -> torch.Tensor:
        """The weights, +1 and -1 in the shape of `weight`, with the gradient of the straight-through estimator."""
        return binarize.weight(self.weight)


class BinaryConv2d(_Weighted):
    """Convolution with weights +1 and -1 and no bias: u = dot / sqrt(fan-in).

    (N, inputs, H, W) -> float (N, outputs, H', W').

    Parameters
    ----------
    inputs, outputs : int
        Channels.
    kernel : int
        1, 3 or 5; without padding also the size of the map.
    stride : int
        1 or 2.
    padding : "same" or 0
        "same": kernel // 2 pixels of `pad_value` on each side.
    groups : int
        As of `torch.nn.Conv2d`.
    pad_value : int
        -1; -255 in a layer that reads `Bits8`.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int = 3, stride: int = 1, padding: str | int = "same", groups: int = 1,
                 pad_value: float = bits.PADDING) -> None:
        _check_counts(self, inputs=inputs, outputs=outputs, kernel=kernel, stride=stride, groups=groups)
        if padding != "same" and not whole(padding):
            raise UsageError(f"BinaryConv2d: padding is {show(padding)}, expected 'same' or 0")
        super().__init__((outputs, inputs // groups, kernel, kernel))
        self.stride, self.padding, self.groups, self.pad_value = stride, padding, groups, pad_value

    @property
    def frame(self) -> int:
        """Pixels of padding on each side."""
        return self.weight.shape[2] // 2 if self.padding == "same" else int(self.padding)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.frame:
            x = F.pad(x, (self.frame,) * 4, value=self.pad_value)
        return F.conv2d(x, self.signs(), stride=self.stride, groups=self.groups) * self.scale


class BinaryLinear(_Weighted):
    """Dense layer with weights +1 and -1 and no bias: u = dot / sqrt(fan-in).

    (N, inputs) -> float (N, outputs).  groups: as of `BinaryConv2d`.
    """

    def __init__(self, inputs: int, outputs: int, groups: int = 1) -> None:
        _check_counts(self, inputs=inputs, outputs=outputs, groups=groups)
        super().__init__((outputs, inputs // groups))
        self.groups = groups

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.conv1d(x[:, :, None], self.signs()[:, :, None], groups=self.groups)[:, :, 0] * self.scale


class LearnedPool2d(_Weighted):
    """Global pooling with a weight +1 or -1 for each channel and pixel: u = dot / size.

    (N, channels, size, size) -> float (N, channels, 1, 1).
    """

    def __init__(self, channels: int, size: int) -> None:
        _check_counts(self, channels=channels, size=size)
        super().__init__((channels, 1, size, size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.conv2d(x, self.signs(), groups=len(self.weight)) * self.scale


class Sign(nn.Module):
    """+1 where x >= 0, else -1, in any shape.  The gradient passes where |x| <= limit."""

    def __init__(self, limit: float = 1.0) -> None:
        super().__init__()
        self.limit = limit

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return binarize.weight(x, self.limit)
