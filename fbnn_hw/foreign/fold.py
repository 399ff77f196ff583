"""Layers of real numbers with binary values inside become ops of bits, weights and integer thresholds.

A reader of another program's network calls `Builder` once for each of its layers, in order.  It passes
on the values that `Builder` returns:

    Image   the picture: a table of the real values that each byte has in each channel
    Bits    a map of an op; a bit b stands for gain * (2 b - 1) + offset, a byte u for gain * (2 u - 255) + offset, per channel
    Sum     dot products that are no op yet, and the functions that came after them

A step function (a sign, a quantiser of one bit) turns a `Sum` into an op.  The functions before it are
monotone, so bisection on the functions themselves finds the threshold: the least dot product that
they and the step take to the upper value.  Where the functions fall, the weights are inverted.  Where
they fall after a pooling, the map is stored inverted, with a negative gain, and the weights of its
readers are inverted.

What is not exact raises an InputError.  It begins with `where`, the place in the source, and ends with
the nearest thing that works.
"""

import operator
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from ..base import bits
from ..base.errors import InputError, at, require, show
from ..ir import ops
from ..ir.network import MAX_LAYERS, Network, Topology
from .imported import LOGITS, Imported, Part, class_names
from .values import Bits, Function, Image, Sum, Value

CLOSE = 1e-6
"""Relative difference up to which two real numbers of a file count as equal."""
ROUNDING, COMPUTED = 2e-7, 1e-13
"""Those that numbers have which are equal but for a rounding to float32, and but for the roundings of this program."""
MAX_FUNCTIONS = 64
"""Most functions of single values after a layer; each new one is evaluated together with those before it."""
ROUNDED = "lies on a sum, where the source rounds and may give the other bit"
"""The end of a note about a threshold."""


def _single(value: float) -> str:
    """The shortest number that is a value in float32, the type of most networks."""
    return np.format_float_positional(np.float32(value), trim="-")


def _plain(op: Any) -> Any:
    """`op` with values of Python's own types, which alone may stand in a file; numpy and torch have integers and text too."""
    def own(value, noun):
        if isinstance(value, str | bool | np.bool_):
            return str(value) if isinstance(value, str) else bool(value)
        if isinstance(value, tuple | list):
            return tuple(own(v, f"{noun}[{i}]") for i, v in enumerate(value))
        try:
            return operator.index(value)
        except TypeError:
            raise InputError(f"layer {op.name}: {noun} is {show(value)}, expected an integer") from None

    return replace(op, **{f.name: own(getattr(op, f.name), f.name) for f in fields(op)})


@dataclass
class Builder:
    """The ops so far, in `layers`, with their weights and thresholds, and what became of each part of the source.

    rounds: whether the source rounds its sums; a note then says where that may change a bit.
    """

    rounds: bool = False
    layers: list = field(default_factory=list)
    weights: dict = field(default_factory=dict)
    thresholds: dict = field(default_factory=dict)
    parts: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    names: set = field(default_factory=lambda: {"logits"})
    inputs: dict = field(default_factory=dict)

    def name(self, hint: str) -> str:
        """Return an unused name for an op, made of `hint`."""
        base = re.sub(r"\W", "_", hint, flags=re.ASCII)[:56].strip("_") or "layer"
        base = base if not base[0].isdigit() else f"layer{base}"
        name, number = base, 2
        while name in self.names:
            name, number = f"{base}_{number}", number + 1
        self.names.add(name)
        return name

    def part(self, source: str, layers: Iterable[str] = (), note: str = "") -> None:
        self.parts.append(Part(source, tuple(layers), note))

    # The input

    def encoded(self, op: ops.Input, where: str) -> Bits:
        """The map of an input op, bits or bytes as they are."""
        with at(where):
            op = _plain(op)
            shape = op.output_shape()
        key = replace(op, name="")
        if key in self.inputs:
            return self.inputs[key]
        if any(isinstance(layer, ops.Input) for layer in self.layers):
            raise InputError(f"{where}: reads the picture in a second way, expected one encoder, or one scale of the bytes, for all layers")
        self._emit(op)
        self.inputs[key] = Bits(op.name, shape, np.ones(shape[0]), np.zeros(shape[0]), ops.BYTE if op.kind == "bits8" else 1)
        return self.inputs[key]

    def _bytes(self, image: Image, where: str) -> Bits:
        """The op `bits8` whose bytes stand for the values of an image; one channel becomes three equal ones."""
        key = image.table.tobytes()
        if key in self.inputs:
            return self.inputs[key]
        low, span = image.table.min(0), np.ptp(image.table, 0)
        require(not (span == 0).any(), where, "the pixels of the input have one value only", "more")
        gaps = np.diff(np.sort(image.table, 0), axis=0)
        gaps[gaps < span / (2 * ops.BYTE)] = np.inf
        step = span / np.round(span / gaps.min(0))
        levels = (image.table - low) / step
        table = np.round(levels)
        if np.abs(levels - table).max() > 1e-3 or table.max() > ops.BYTE:
            raise InputError(f"{where}: the values of a pixel are no multiples of one step with at most 256 levels; expected an input that "
                             "is linear in the bytes of the image, or quantised to 8 bits or fewer with a fixed step")
        if (table != table[:, :1]).any() or not np.allclose(step, step[0], rtol=10 * CLOSE):
            raise InputError(f"{where}: the colours of the input are scaled differently, and the weights that read them are +1 and -1; "
                             "expected one scale for all colours (each may have its own mean)")
        channels = image.shape[0]
        require(channels in (1, 3), where, f"the input has {channels} channels", "3 (RGB) or 1 (grey)")
        if channels == 1:
            self.notes.append("the input is grey: its channel stands three times, for red, green and blue, so it is exact for pictures in "
                              "which they are equal")
        copies = 3 // channels
        op = ops.Bits8(self.name("input"), (), image.size, tuple(int(u) for u in table[:, 0]))
        self.encoded(op, where)
        gain = np.full(3, step[0] / 2 / copies)
        self.inputs[key] = Bits(op.name, (3, image.size, image.size), gain, np.repeat(low + step * ops.BYTE / 2, copies) / copies, ops.BYTE,
                                copies=copies)
        return self.inputs[key]

    def _read(self, x: Value, where: str) -> Bits:
        """Return `x` as a map that a layer can read.  where: the place of that layer in the source."""
        if isinstance(x, Image):
            read = self._bytes(x, where)
            return self.flatten(read, where) if x.vector else read
        if isinstance(x, Sum):
            raise InputError(f"{x.last}: gives real numbers to {where}; expected +1 and -1, so a sign must come between them")
        return x

    # Layers with weights

    def convolution(self, x: Any, weight: np.ndarray, bias: np.ndarray | None, where: str, hint: str, stride: int = 1, padding: int = 0,
                    groups: int = 1, pad_value: float = 0.0) -> Sum:
        """A convolution.

        weight: real (out, in / groups, k, k); the weights of an output have one magnitude.  padding: pixels of
        pad_value on each side.
        """
        x = self._read(x, where)
        weight = np.tile(weight, (1, x.copies, 1, 1))
        if x.pad:
            require(not padding, where, "pads a map that is padded already", "one padding")
            x, padding, pad_value = replace(x, pad=0), x.pad, x.pad_value
        size = weight.shape[2]
        require(weight.ndim == 4 and weight.shape[3] == size, where, f"kernel of {'x'.join(map(str, weight.shape[2:]))}", "a square one")
        if x.shape[1:] == (size, size) and not padding:
            if groups == x.shape[0] == weight.shape[0] and x.top == 1:
                return self._sum(ops.Depthwise(self.name(hint), (x.name,)), x, weight[:, 0], bias, where)
            if size not in (1, 3, 5):
                flat = self.flatten(replace(x, copies=1), where)
                return replace(self.dense(flat, weight.reshape(len(weight), -1), bias, where, hint, groups), vector=False)
        require(size in (1, 3, 5), where, f"kernel of {size}x{size}", "1x1, 3x3 or 5x5, or one as large as its map")
        require(padding in (0, size // 2), where, f"{padding} pixels of padding around a kernel of {size}x{size}", f"0 or {size // 2}")
        require(stride in (1, 2), where, f"stride {stride}", "1 or 2")
        require(x.top <= 1 or groups <= 1, where, f"{groups} groups of channels that are bytes", "one, or fbnn_hw.nn.Thermometer before it")
        if padding:
            x = self._padded(x, pad_value, where)
        op = ops.Conv(self.name(hint), (x.name,), len(weight), size, stride, groups, "same" if padding or size == 1 else 0)
        return self._sum(op, x, weight, bias, where)

    def dense(self, x: Value, weight: np.ndarray, bias: np.ndarray | None, where: str, hint: str, groups: int = 1) -> Sum:
        """A dense layer.  weight: real (out, in / groups); the weights of an output have one magnitude."""
        if isinstance(x, Sum) and x.op.kind == "gap" and groups == 1:
            x, weight, bias = self._spread(x, weight, bias, where)
        source = self._read(x, where)
        weight = np.tile(weight, (1, source.copies))
        if source.pad or source.shape[1:] != (1, 1):
            raise InputError(f"{where}: reads a map of {'x'.join(map(str, source.shape))}, expected a vector; flatten it")
        return replace(self._sum(ops.Dense(self.name(hint), (source.name,), len(weight), groups), source, weight, bias, where), vector=True)

    def _spread(self, x, weight, bias, where):
        """Turn a dense layer of means over a map into one of the map itself: (its bits flat, weights, bias)."""
        dots = x.dots()
        values = x.value(dots.astype(np.float64))
        offset, gain = x.value(np.zeros((1, x.shape[0])))[0], (values[-1] - values[0]) / 2 / x.largest
        if not np.allclose(values, offset + dots * gain, rtol=0, atol=10 * CLOSE * np.abs(values).max()):
            raise InputError(f"{x.last}: is not linear and gives real numbers to {where}; expected a sign between them")
        count, factor = x.source.shape[1] * x.source.shape[2], gain / x.source.gain
        rest = offset - factor * count * x.source.offset
        return self.flatten(x.source, where), np.repeat(weight * factor, count, 1), (0 if bias is None else bias) + weight @ rest

    def _sum(self, op, x, weight, bias, where):
        """Make the `Sum` of `op` with real weights in the shape of the op's weights."""
        with at(where):
            op = _plain(op)
            shape, own, groups = op.output_shape(x.shape), op.weight_shape(x.shape), getattr(op, "groups", x.shape[0])
        require(weight.shape == own, where, f"weights of {'x'.join(map(str, weight.shape))}", f"{'x'.join(map(str, own))}")
        for low, high in self._slices(x.shape[0], groups):
            size = np.abs(x.gain[low:high])
            if not np.allclose(size, size[0], rtol=CLOSE):
                raise InputError(f"{where}: its inputs are +{size.min():.4g} and -{size.min():.4g} in some channels and {size.max():.4g} "
                                 "in others, and its weights are +1 and -1; expected inputs of one magnitude")
        magnitude = np.abs(weight.reshape(len(weight), -1))
        unequal = ~np.isclose(magnitude, magnitude[:, :1], rtol=CLOSE, atol=0).all(1) | (magnitude[:, 0] == 0)
        if unequal.any() or not np.isfinite(weight).all():
            row = np.unique(weight[unequal.argmax()])
            raise InputError(f"{where}: the weights of output {unequal.argmax()} have {len(row)} values, {row[0]:.4g} to {row[-1]:.4g}, "
                             "expected two, +a and -a; binarise them, as fbnn_hw.nn.BinaryConv2d and BinaryLinear or a bipolar quantiser "
                             "do")
        sign = np.where(x.gain < 0, -1.0, 1.0)
        inputs = [slice(*pair) for pair in self._slices(x.shape[0], groups)]
        outputs = [slice(*pair) for pair in self._slices(len(weight), groups)]
        gain, shift = np.empty(len(weight)), np.zeros(len(weight))
        turned = np.empty(own, np.uint8)
        for i, o in zip(inputs, outputs):
            around = (1, -1) + (1,) * (len(own) - 2) if op.kind != "depthwise" else (-1, 1, 1)
            turned[o] = bits.to_bits(weight[o] * sign[i].reshape(around))
            gain[o] = magnitude[o, 0] * np.abs(x.gain[i][0])
            shift[o] = (weight[o] * x.offset[i].reshape(around)).reshape(len(weight[o]), -1).sum(1)
        shift += 0 if bias is None else np.asarray(bias, np.float64)
        return Sum(op, x, turned, shape, op.fan_in(x.shape) * x.top, gain, shift, where, np.ones(shape[0]), vector=x.vector)

    @staticmethod
    def _slices(count, groups):
        return [(g * count // groups, (g + 1) * count // groups) for g in range(groups)]

    def _padded(self, x, value, where):
        """Return `x`, or a map of the same values with padding of the real `value`."""
        half, close = x.top * np.abs(x.gain), CLOSE * np.abs(x.gain).max() * x.top
        if np.allclose(x.offset - x.top * x.gain, value / x.copies, rtol=0, atol=close):
            return x
        if np.allclose(x.offset - half, value / x.copies, rtol=0, atol=close):
            return self.upright(x)
        low, high = x.copies * (x.offset - half), x.copies * (x.offset + half)
        kind, cause = ("bytes", "a mean for each colour") if x.top > 1 else ("bits", "a batch norm between a sign and this layer")
        padding = f"{where}: pads with {_single(value)} a map of {kind} that are {_single(low.min())} to {_single(high.max())}"
        if np.ptp(low) > close * x.copies:
            raise InputError(f"{padding}, and the lowest value of a channel is {_single(low.min())} to {_single(low.max())}; expected "
                             f"channels with one lowest value, so without {cause}, and padding with that value; or no padding")
        least = _single(low[0])
        raise InputError(f"{padding}, a value that no pixel of -1 has; expected padding with {least} (torch.nn.functional.pad(x, "
                         f"(1, 1, 1, 1), value={least}) before a convolution with padding=0; fbnn_hw.nn.BinaryConv2d with "
                         f"pad_value={least} does so), or none")

    def upright(self, x: Bits) -> Bits:
        """Return `x` without inverted channels; where it has some, a layer is added that inverts them back."""
        if x.top > 1 or not (x.gain < 0).any():
            return x
        channels = x.shape[0]
        op = ops.Conv(self.name(f"{x.name}_upright"), (x.name,), channels, 1, 1, channels)
        self._emit(op, (x.gain > 0).astype(np.uint8).reshape(channels, 1, 1, 1))
        turned = int((x.gain < 0).sum())
        self.part(f"- {op.name}", (op.name,), f"turns {turned} channels that fall after pooling; batch norm before the pooling saves it")
        return replace(x, name=op.name, gain=np.abs(x.gain))

    # Layers without weights

    def average(self, x: Value, where: str, hint: str, total: bool = False) -> Sum:
        """The mean of each channel over the map, or the sum (`total`)."""
        x = self._read(x, where)
        require(x.top <= 1 and not x.pad, where, f"pools {'bytes' if x.top > 1 else 'a padded map'}", "bits")
        op, count = ops.Gap(self.name(hint), (x.name,)), x.shape[1] * x.shape[2]
        factor = 1 if total else 1 / count
        gain = x.gain * count * factor
        return Sum(op, x, None, (x.shape[0], 1, 1), count, np.abs(gain) / count, x.offset * count * factor, where, np.sign(gain))

    def pool(self, x: Value, where: str, hint: str) -> Bits | Sum:
        """The largest value of each 2 x 2 block."""
        if isinstance(x, Image) or (isinstance(x, Bits) and (x.top > 1 or x.pad)):
            raise InputError(f"{where}: pools {'a padded map' if isinstance(x, Bits) and x.pad else 'pixels'}, expected the result of a "
                             "layer")
        require(min(x.shape[1:]) >= 2, where, f"pools a map of {x.shape[1]}x{x.shape[2]}", "at least 2x2")
        name = self.name(hint)
        shape = ops.MaxPool(name, ()).output_shape(x.shape)
        if isinstance(x, Sum):
            require(x.op.kind == "conv" and not x.flat, where, f"pools the sums of {x.last}", "those of a convolution")
            x = x if x.pools else self._rising(x)
            if x.pools and x.falls().any():
                raise InputError(f"{where}: a second pooling of channels that fall after the first, expected batch norm before both")
            return replace(x, pools=(*x.pools, name), shape=shape)
        x = self.upright(x)
        self._emit(ops.MaxPool(name, (x.name,)))
        return replace(x, name=name, shape=shape)

    def flatten(self, x: Any, where: str) -> Any:
        """A map as a vector, in the order channel, row, column."""
        if isinstance(x, Image) or x.shape[1:] == (1, 1):
            return replace(x, vector=True)
        if isinstance(x, Sum):
            return replace(x, vector=True, flat=True)
        require(not x.pad, where, "flattens a padded map", "one without")
        name, count = self.name(f"{x.name}_flat"), x.shape[1] * x.shape[2]
        self._emit(ops.Flatten(name, (x.name,)))
        return replace(x, name=name, shape=(x.shape[0] * count, 1, 1), gain=np.repeat(x.gain, count), offset=np.repeat(x.offset, count),
                       vector=True)

    def pad(self, x: Value, pixels: int, value: float, where: str) -> Bits:
        """A frame of `pixels` of the real `value` around the map, which the convolution that reads it takes in."""
        x = self._read(x, where)
        require(not x.pad, where, "pads a map that is padded already", "one padding")
        return replace(x, pad=pixels, pad_value=value)

    def concat(self, xs: list, where: str, hint: str) -> Bits:
        """The channels of one map after those of the other."""
        maps = [self._read(x, where) for x in xs]
        if len({x.top for x in maps}) > 1 or any(x.pad or x.top > 1 for x in maps):
            raise InputError(f"{where}: concatenates pixels or padded maps, expected maps of bits")
        require(len({x.shape[1:] for x in maps}) <= 1, where,
                f"concatenates maps of {' and '.join('x'.join(map(str, x.shape)) for x in maps)}", "equal sizes")
        op = ops.Concat(self.name(hint), tuple(x.name for x in maps))
        self._emit(op)
        return replace(maps[0], name=op.name, shape=(sum(x.shape[0] for x in maps), *maps[0].shape[1:]),
                       gain=np.concatenate([x.gain for x in maps]), offset=np.concatenate([x.offset for x in maps]))

    def reorder(self, x: Value, op: ops.Op, where: str) -> Bits:
        """`slice`, `shuffle` or `duplicate` of the channels."""
        x = self._read(x, where)
        require(x.top <= 1 and not x.pad, where, "reorders the channels of pixels or of a padded map", "a map of bits")
        op = replace(op, name=self.name(op.name), inputs=(x.name,))
        with at(where):
            op = _plain(op)
            shape = op.output_shape(x.shape)
        order = np.arange(x.shape[0])
        if isinstance(op, ops.Slice):
            order = order[op.start:op.stop]
        elif isinstance(op, ops.Shuffle):
            order = order.reshape(op.groups, -1).T.reshape(-1)
        elif isinstance(op, ops.Duplicate):
            order = order.repeat(op.times)
        self._emit(op)
        return replace(x, name=op.name, shape=shape, gain=x.gain[order], offset=x.offset[order])

    # Functions of single values

    def apply(self, x: Value, function: Function, where: str) -> Value:
        """A function of each value alone, monotone, as batch norm or a scale."""
        if isinstance(x, Image):
            return replace(x, table=self._finite(function(x.table), where))
        if isinstance(x, Sum):
            require(len(x.functions) != MAX_FUNCTIONS, where, f"is one of more than {MAX_FUNCTIONS} functions in a row",
                    "fewer between a layer and its sign")
            y = replace(x, functions=(*x.functions, function), last=where)
            self._finite(y.value(np.array([[-1.0], [0.0], [1.0]]) * x.largest * np.ones(x.shape[0])), where)
            return y
        require(x.copies <= 1 and not x.pad, where, "changes pixels after they are read or padded", "it before")
        low, high = self._finite(function(np.array([[-1.0], [1.0]]) * x.top * x.gain + x.offset), where)
        if x.top > 1:
            steps = np.arange(-x.top, x.top + 1, 2.0)[:, None]
            values = function(steps * x.gain + x.offset)
            if not np.allclose(values, (low + high) / 2 + steps * (high - low) / 2 / x.top, rtol=0, atol=CLOSE * np.abs(high - low).max()):
                raise InputError(f"{where}: is not linear in the bytes of {x.name}, expected a scale")
        require(not (low == high).any(), where, f"makes one value of +1 and -1 in channel {int((low == high).argmax())}",
                "two; drop the channel")
        return replace(x, gain=(high - low) / 2 / x.top, offset=(high + low) / 2)

    @staticmethod
    def _finite(values, where):
        require(np.isfinite(values).all(), where, "gives NaN or infinity", "finite numbers")
        return values

    def step(self, x: Value, upper: Function, where: str, low: float = -1.0, high: float = 1.0,
             zero: Function | None = None) -> Bits:
        """Bits that stand for `high` where upper(value), a bool, is true, else for `low`; upper is monotone.

        zero: where the source gives a third value, as the sign of 0; refused if a dot product reaches it.
        """
        if isinstance(x, Image):
            return self._binarized(x, upper, where, low, high)
        middle, half = np.full(x.shape[0], (high + low) / 2), (high - low) / 2
        if isinstance(x, Bits):
            return self._step_of_bits(x, upper, where, middle, half)
        x = x if x.pools else self._rising(x)
        falls = x.falls()

        def stored(dot):
            return upper(x.value(dot)) != falls

        limit = self._first(x, stored)
        self._monotone(x, stored, limit)
        if zero is not None:
            self._no_zero(x, limit, zero, where)
        if self.rounds:
            self._near(x, limit, stored, where)
        limit[limit == (1 if x.largest % 2 else -1)] = 0  # no sum lies between the two
        op, pools = self._names(x)
        self._emit(op, x.weights, limit)
        name = op.name
        for pool in pools:
            self._emit(ops.MaxPool(pool, (name,)))
            name = pool
        gain = np.where(falls, -half, half)
        flipped = int((x.direction < 0).sum()) if x.weights is not None else 0
        notes = [f"thresholds of {op.name}: {limit.min()} to {limit.max()}"] if limit.any() else []
        notes += [f"{flipped} channels negated"] if flipped else []
        notes += [f"{int(falls.sum())} channels of {name} stored inverted"] if falls.any() else []
        self.part(where, (), ", ".join(notes))
        y = Bits(name, x.shape, gain, middle, 1, x.vector)
        return self.flatten(y, where) if x.flat else y

    @staticmethod
    def _rising(x):
        """Return `x` with the weights of falling channels inverted; of a sum over a map, only the direction changes."""
        falls = x.falls()
        if x.weights is None or not falls.any():
            return x
        around = (-1,) + (1,) * (x.weights.ndim - 1)
        return replace(x, weights=x.weights ^ falls.astype(np.uint8).reshape(around), direction=np.where(falls, -x.direction, x.direction))

    @staticmethod
    def _first(x, stored):
        """Return the least dot product of each channel for which stored(dot) is true, int64 (channels,).

        It is largest + 1 where there is none.
        """
        low = np.full(x.shape[0], -x.largest, np.int64)
        high = np.full(x.shape[0], x.largest + 1, np.int64)
        while (open_ := low < high).any():
            middle = (low + high) // 2
            holds = stored(middle[None].astype(np.float64))[0]
            high = np.where(open_ & holds, middle, high)
            low = np.where(open_ & ~holds, middle + 1, low)
        return high

    @staticmethod
    def _monotone(x, stored, limit):
        """Raises InputError where stored(dot) is not dot >= limit; next to the limits (channels,) rounding decides."""
        dots = x.dots()
        wrong = (stored(dots.astype(np.float64)) != (dots >= limit)) & (np.abs(dots - limit) > 2)
        require(not wrong.any(), x.last, f"rises and falls with the sums of channel {int(wrong.any(0).argmax())}",
                "a function of single values that only rises or only falls")

    @staticmethod
    def _no_zero(x, limit, zero, where):
        """Raise InputError where a dot product near the limits (channels,) gives the third value of a sign, that of 0."""
        for step in range(-2, 3):
            dot = limit + step
            reached = zero(x.value(dot[None].astype(np.float64)))[0] & (np.abs(dot) <= x.largest) & ((dot - x.largest) % 2 == 0)
            if reached.any():
                channel = int(reached.argmax())
                raise InputError(f"{where}: the sign of 0 is 0, which channel {channel} reaches with a sum of {dot[channel]} products; "
                                 "expected a sign that is +1 at 0, as fbnn_hw.nn.Sign and BipolarQuant")

    def _near(self, x, limit, stored, where):
        """Note the channels whose threshold lies on a sum that the source rounds: one of numbers that are no power of two."""
        exact = np.isin(np.frexp(x.gain)[0], (0.5, 0.0)) | (x.weights is None and not x.functions)  # the sign of a mean is that of its sum
        even = (limit - x.largest) % 2 == 0  # whether the limit itself is a sum, or the number below it
        edge = np.where(even, limit, limit - 1).astype(np.float64)
        distance = max(1, x.largest) * CLOSE
        near = (stored((edge - distance)[None]) != stored((edge + distance)[None]))[0] & (np.abs(edge) <= x.largest) & ~exact
        if near.any():
            self.notes.append(f"{where}: the threshold of {int(near.sum())} channels {ROUNDED}")

    def _names(self, x):
        """Return (op, names of its poolings) of a sum.  They are new where two quantisers read the sum."""
        if all(op.name != x.op.name for op in self.layers):
            return x.op, x.pools
        return replace(x.op, name=self.name(x.op.name)), tuple(self.name(pool) for pool in x.pools)

    def _step_of_bits(self, x, upper, where, middle, half):
        low, high = upper(np.array([[-1.0], [1.0]]) * x.gain + x.offset)
        if x.top > 1 or (low == high).any():
            subject = "bytes" if x.top > 1 else f"bits of which channel {int((low == high).argmax())} becomes constant"
            raise InputError(f"{where}: quantises {subject}, expected the sums of a layer")
        return replace(x, gain=np.where(high, half, -half), offset=middle)

    def _binarized(self, x, upper, where, low, high):
        """The op `binarize` of a grey image."""
        plus = upper(x.table)
        if x.shape[0] != 1:
            raise InputError(f"{where}: makes one bit of each colour, which has no encoder; expected a grey input, 8 bits a colour, or "
                             "fbnn_hw.nn.Thermometer")
        limit = int(plus[:, 0].argmax())
        if not plus[-1, 0] or plus[0, 0] or not plus[limit:, 0].all():
            raise InputError(f"{where}: the bit of a pixel is not 0 for dark and 1 for light ones, expected a threshold of 1 to 255")
        op = ops.Binarize(self.name("input"), (), x.size, limit)
        self.part(where, (op.name,), f"+1 from grey {limit} on")
        y = replace(self.encoded(op, where), gain=np.full(1, (high - low) / 2), offset=np.full(1, (high + low) / 2))
        return self.flatten(y, where) if x.vector else y

    # The end

    def finish(self, x: Value, where: str, name: str, classes: tuple[str, ...] | None, kind: str, record: dict) -> Imported:
        """The network whose logits are `x`.  classes: names, or None for 0, 1, ..."""
        if not isinstance(x, Sum) or x.weights is None or x.pools or x.flat or x.shape[1:] != (1, 1) or x.op.kind == "depthwise":
            end = "bits" if isinstance(x, Bits) else "pixels" if isinstance(x, Image) else f"the result of {x.last}"
            raise InputError(f"{where}: the network ends with {end}, expected a dense layer without a sign, whose sums are the logits")
        last = self._as_dense(x, where)
        scale, shift = self._scale(last)
        weights = last.weights if scale > 0 else 1 - last.weights
        classes = class_names(classes) or tuple(map(str, range(last.shape[0])))
        if len(classes) != last.shape[0]:
            raise InputError(f"{where}: has {last.shape[0]} outputs, found {len(classes)} names of classes, expected one for each output")
        self.names.discard("logits")
        self.parts = [replace(part, layers=("logits",)) if part.layers == (last.op.name,) else part for part in self.parts]
        self._emit(replace(last.op, name="logits", logits=True), weights)
        network = self._network(name, classes, record)
        emitted = {op.name for op in self.layers}  # a sum that nothing reads is in no network
        parts = tuple(replace(part, layers=tuple(name for name in part.layers if name in emitted)) for part in self.parts)
        return Imported(network, kind, parts, LOGITS, abs(scale), shift, tuple(self.notes))

    def _network(self, name, classes, record):
        """Raises InputError, which names the part of the source, where the layers together make no network."""
        try:
            network = Network(Topology(name, tuple(self.layers), classes), self.weights, self.thresholds, record)
            network.verify()
        except InputError as error:
            layer = re.match(r"layer (\w+): ", str(error))
            place = next((f"{part.source}: " for part in self.parts if layer and layer[1] in part.layers), "")
            raise InputError(f"{place}{error}") from None
        return network

    def _as_dense(self, x: Sum, where: str) -> Sum:
        if x.op.kind == "conv":
            source = self.flatten(x.source, where)
            size = x.source.shape[1]
            if x.op.groups != 1 or size != x.op.kernel or (size > 1 and x.op.frame):
                raise InputError(f"{where}: the network ends with a convolution with padding or groups, expected a dense layer")
            weights = x.weights.reshape(len(x.weights), -1)
            return replace(x, op=ops.Dense(x.op.name, (source.name,), len(weights)), source=source, weights=weights)
        require(x.op.groups == 1, where, f"the layer of the logits has {x.op.groups} groups", "1")
        return x

    @staticmethod
    def _scale(x):
        """(scale, shift) of logits = scale * dot + shift, equal for all classes."""
        dots = x.dots()
        values = x.value(dots.astype(np.float64))
        zero, span = x.value(np.zeros((1, x.shape[0])))[0], values[-1] - values[0]
        scale = span / 2 / x.largest
        require(np.allclose(values, zero + dots * scale, rtol=0, atol=CLOSE * np.abs(span).max()) and not (scale == 0).any(), x.last,
                "is no scale of the logits", "the sums of the last layer times one number; leave the function out, or end with a softmax")
        if not np.allclose(scale, scale[0], rtol=ROUNDING, atol=0):
            raise InputError(f"{x.last}: the logits have a gain for each class, {scale.min():.8g} to {scale.max():.8g}, expected one for "
                             "all; use weights without a scale for each output, and no batch norm after them")
        if np.ptp(zero) > CLOSE * abs(scale[0]) + COMPUTED * np.abs(zero).max():
            source = x.source
            half = source.top * np.abs(source.gain)
            if (np.abs(source.offset) > CLOSE * half).any():
                low, high = source.copies * (source.offset - half).min(), source.copies * (source.offset + half).max()
                raise InputError(f"{x.last}: the last layer reads values of {low:.4g} to {high:.4g}, which gives each class a bias of its "
                                 f"own, {zero.min():.4g} to {zero.max():.4g}; expected -1 and +1, or others around 0: a sign "
                                 "(fbnn_hw.nn.Sign), a BipolarQuant, or a MultiThreshold with out_scale 2 and out_bias -1 before it")
            raise InputError(f"{x.last}: the logits have a bias for each class, {zero.min():.10g} to {zero.max():.10g}, expected none; "
                             "train the last layer with bias=False, and without batch norm after it")
        return float(scale[0]), float(zero[0])

    def _emit(self, op, weights=None, thresholds=None):
        require(len(self.layers) != MAX_LAYERS, f"layer {op.name}", f"is one of more than {MAX_LAYERS}", "fewer")
        self.layers.append(op)
        if weights is not None:
            self.weights[op.name] = weights
        if thresholds is not None and thresholds.any():
            self.thresholds[op.name] = thresholds.astype(np.int32)
