"""The operations of a fully-binary network, as frozen dataclasses.

Every op names its inputs, so a network is a tuple of ops in execution order.  A feature map has shape (channels, height,
width); a vector is a map with height = width = 1.  All values are bits, except the logits of the last `Dense`.
An op computes its own output shape and refuses inputs it cannot take; nothing else in the package repeats those rules.
"""

from dataclasses import dataclass, fields
from typing import Any, ClassVar

from ..errors import InputError, show

Shape = tuple[int, int, int]
"""(channels, height, width)."""

TYCC_LEVELS = 16
TRGB_LEVELS = 85


def planes(encoder: str, levels: int) -> tuple[int, int, int]:
    """Levels of each of the three planes of a thermometer code: Y, Cb, Cr (2n, n, n) with "tycc", R, G, B (n, n, n) with "trgb"."""
    return (2 * levels, levels, levels) if encoder == "tycc" else (levels, levels, levels)


def _require(condition, op, noun, value, expected):
    if not condition:
        raise InputError(f"layer {op.name}: {noun} is {value}, expected {expected}")


@dataclass(frozen=True)
class Op:
    name: str
    inputs: tuple[str, ...] = ()

    kind: ClassVar[str]
    arity: ClassVar[int] = 1

    def output_shape(self, *shapes: Shape) -> Shape:
        """Shape of the output for inputs of these shapes; InputError where the op cannot take them."""
        raise NotImplementedError

    def weight_shape(self, *shapes: Shape) -> tuple[int, ...] | None:
        """Shape of the binary weights, or None."""
        return None

    def fan_in(self, *shapes: Shape) -> int | None:
        """Products summed into one output, or None."""
        return None

    def macs(self, *shapes: Shape) -> int:
        """Multiply-accumulates an image."""
        fan_in = self.fan_in(*shapes)
        if fan_in is None:
            return 0
        channels, height, width = self.output_shape(*shapes)
        return fan_in * channels * height * width

    def to_dict(self) -> dict[str, Any]:
        """The op as plain values; `from_dict` is the inverse."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        values["inputs"] = list(self.inputs)
        return {"op": self.kind, **values}


@dataclass(frozen=True)
class Thermometer(Op):
    """RGB bytes -> thermometer bits, a channel for each level of `planes`.  `encoder` is "tycc" or "trgb"."""

    encoder: str = "tycc"
    size: int = 32
    levels: int = TYCC_LEVELS

    kind: ClassVar[str] = "thermometer"
    arity: ClassVar[int] = 0

    def output_shape(self):
        _require(self.encoder in ("tycc", "trgb"), self, "encoder", show(self.encoder), "'tycc' or 'trgb'")
        if self.encoder == "tycc":
            _require(self.levels in (2, 4, 8, 16, 32, 64), self, "levels", self.levels, "2, 4, 8, 16, 32 or 64 with tycc")
        else:
            _require(2 <= self.levels <= 128, self, "levels", self.levels, "2 to 128 with trgb")
        _require(2 <= self.size <= 512 and self.size % 2 == 0, self, "size", self.size, "an even number from 2 to 512")
        return (sum(planes(self.encoder, self.levels)), self.size, self.size)


@dataclass(frozen=True)
class Conv(Op):
    """Grouped binary convolution, padded with -1 so that stride 1 keeps the size, then sign(dot - threshold)."""

    out_channels: int = 0
    kernel: int = 3
    stride: int = 1
    groups: int = 1

    kind: ClassVar[str] = "conv"

    def output_shape(self, x):
        channels, height, width = x
        _require(self.kernel in (1, 3), self, "kernel", self.kernel, "1 or 3")
        _require(self.stride in (1, 2), self, "stride", self.stride, "1 or 2")
        _require(self.out_channels >= 1, self, "out_channels", self.out_channels, "at least 1")
        _require(self.groups >= 1 and channels % self.groups == 0 and self.out_channels % self.groups == 0, self, "groups",
                 self.groups, f"a divisor of {channels} inputs and {self.out_channels} outputs")
        _require(height % self.stride == 0 and width % self.stride == 0, self, "input size", f"{height}x{width}",
                 f"a multiple of the stride {self.stride}")
        return (self.out_channels, height // self.stride, width // self.stride)

    def weight_shape(self, x):
        return (self.out_channels, x[0] // self.groups, self.kernel, self.kernel)

    def fan_in(self, x):
        return x[0] // self.groups * self.kernel ** 2


@dataclass(frozen=True)
class MaxPool(Op):
    """2x2 maximum, which is the OR of four bits."""

    kind: ClassVar[str] = "maxpool"

    def output_shape(self, x):
        channels, height, width = x
        _require(height % 2 == 0 and width % 2 == 0, self, "input size", f"{height}x{width}", "even")
        return (channels, height // 2, width // 2)


@dataclass(frozen=True)
class Gap(Op):
    """Global average pooling of bits: sign of the sum over the map, per channel."""

    kind: ClassVar[str] = "gap"

    def output_shape(self, x):
        return (x[0], 1, 1)


@dataclass(frozen=True)
class Depthwise(Op):
    """Learned pooling: one binary weight per channel and pixel, sign of the dot product over the map."""

    kind: ClassVar[str] = "depthwise"

    def output_shape(self, x):
        return (x[0], 1, 1)

    def weight_shape(self, x):
        return tuple(x)

    def fan_in(self, x):
        return x[1] * x[2]


@dataclass(frozen=True)
class Dense(Op):
    """Grouped dense layer on a vector.  Sign(dot - threshold), or the integer dot itself if it gives the logits."""

    out_channels: int = 0
    groups: int = 1
    logits: bool = False

    kind: ClassVar[str] = "dense"

    def output_shape(self, x):
        channels, height, width = x
        _require((height, width) == (1, 1), self, "input size", f"{height}x{width}", "1x1")
        _require(self.out_channels >= 1, self, "out_channels", self.out_channels, "at least 1")
        _require(self.groups >= 1 and channels % self.groups == 0 and self.out_channels % self.groups == 0, self, "groups",
                 self.groups, f"a divisor of {channels} inputs and {self.out_channels} outputs")
        _require(not (self.logits and self.groups != 1), self, "groups", self.groups, "1 in the layer of the logits")
        return (self.out_channels, 1, 1)

    def weight_shape(self, x):
        return (self.out_channels, x[0] // self.groups)

    def fan_in(self, x):
        return x[0] // self.groups


@dataclass(frozen=True)
class Duplicate(Op):
    """Every channel `times` times in a row, so that all copies fall into the same group of a grouped layer."""

    times: int = 2

    kind: ClassVar[str] = "duplicate"

    def output_shape(self, x):
        _require(1 <= self.times <= 8, self, "times", self.times, "1 to 8")
        return (x[0] * self.times, x[1], x[2])


@dataclass(frozen=True)
class Concat(Op):
    """Channels of the first input, then of the second, and so on."""

    kind: ClassVar[str] = "concat"
    arity: ClassVar[int] = 2

    def output_shape(self, *shapes):
        _require(len({s[1:] for s in shapes}) == 1, self, "input sizes", [s[1:] for s in shapes], "all equal")
        return (sum(s[0] for s in shapes), *shapes[0][1:])


@dataclass(frozen=True)
class Slice(Op):
    """Channels start .. stop - 1."""

    start: int = 0
    stop: int = 0

    kind: ClassVar[str] = "slice"

    def output_shape(self, x):
        _require(0 <= self.start < self.stop <= x[0], self, "start..stop", f"{self.start}..{self.stop}", f"inside 0..{x[0]}")
        return (self.stop - self.start, *x[1:])


@dataclass(frozen=True)
class Shuffle(Op):
    """Channel shuffle (ShuffleNet): channels seen as (groups, n), transposed."""

    groups: int = 2

    kind: ClassVar[str] = "shuffle"

    def output_shape(self, x):
        _require(self.groups >= 1 and x[0] % self.groups == 0, self, "groups", self.groups, f"a divisor of {x[0]}")
        return x


KINDS = {cls.kind: cls for cls in (Thermometer, Conv, MaxPool, Gap, Depthwise, Dense, Duplicate, Concat, Slice, Shuffle)}


NOUNS = {int: "an integer", bool: "True or False", str: "a string"}


def from_dict(values: Any, where: str = "architecture") -> Op:
    """Inverse of `Op.to_dict`; every wrong key, type or kind is an InputError naming the field."""
    if not isinstance(values, dict):
        raise InputError(f"{where}: found {type(values).__name__}, expected a dict")
    values = dict(values)
    kind = values.pop("op", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise InputError(f"{where}: op is {show(kind)}, expected one of {', '.join(KINDS)}")
    cls = KINDS[kind]
    legal = {f.name: f for f in fields(cls)}
    for key in values:
        if key not in legal:
            raise InputError(f"{where}: unknown field {show(key)} of {kind}, expected {', '.join(legal)}")
    name = values.get("name")
    if not isinstance(name, str) or not (name.isascii() and name.isidentifier() and len(name) <= 64):
        raise InputError(f"{where}: name is {show(name)}, expected at most 64 letters, digits and _, no digit first")
    inputs = values.get("inputs", [])
    if not isinstance(inputs, (list, tuple)) or not all(isinstance(i, str) for i in inputs):
        raise InputError(f"{where}: inputs is {show(inputs)}, expected a list of layer names")
    values["inputs"] = tuple(inputs)
    for key, value in values.items():
        expected = legal[key].type
        if expected in (int, bool, str) and type(value) is not expected:
            raise InputError(f"{where}: {key} is {show(value)}, expected {NOUNS[expected]}")
    for key in ("out_channels", "stop"):
        if key in legal and key not in values:
            raise InputError(f"{where}: {key} of {kind} {name} is missing, expected a number from 1")
    return cls(**values)
