"""The operations of a fully-binary network, as frozen dataclasses.

Every op names its inputs, so a network is a tuple of ops in execution order.  A feature map has shape (channels, height,
width); a vector is a map with height = width = 1.  All values are bits, except the logits of the last `Dense` and the bytes of `Bits8`.
An op computes its own output shape and refuses inputs it cannot take; nothing else in the package repeats those rules.

Ops, fields and values that came with version 2 of the format say so, so that version 1 is written wherever it suffices.
"""

import math
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from ..base.errors import InputError, require, show, whole

Shape = tuple[int, int, int]
"""(channels, height, width)."""

TYCC_LEVELS = 16
TRGB_LEVELS = 85

BYTE = 255
"""Largest value of a byte u of `Bits8`, which stands for 2 u - BYTE; a bit stands for 2 b - 1."""

YCC = ((77, 150, 29, 128, 0), (-43, -85, 128, 127, 128), (128, -107, -21, 127, 128))
"""Y, Cb, Cr = ((r R + g G + b B + rounding) >> 8) + offset; each stays within 0..255 without clamping."""

MAX_BYTES_IN = 2 ** 14
"""Most bytes summed into one output: dot products, thresholds and torch's odd integers stay below 2^24."""


def planes(encoder: str, levels: int) -> tuple[int, ...]:
    """Levels of each plane of a thermometer code: Y, Cb, Cr (2n, n, n) with "tycc", R, G, B (n, n, n) with "trgb", Y (n,) with "grey"."""
    return {"tycc": (2 * levels, levels, levels), "trgb": (levels,) * 3, "grey": (levels,)}[encoder]


def level_bits(encoder: str, levels: int) -> tuple[int, ...]:
    """Bits of each plane's level, where a pixel is sent as levels; with "binarize" the pixel's one bit."""
    return tuple((count - 1).bit_length() for count in ((2,) if encoder == "binarize" else planes(encoder, levels)))


def _require(condition, op, noun, value, expected):
    if not condition:
        raise InputError(f"layer {op.name}: {noun} is {value}, expected {expected}")


def _require_groups(op, channels):
    _require(op.out_channels >= 1, op, "out_channels", op.out_channels, "at least 1")
    _require(op.groups >= 1 and channels % op.groups == 0 and op.out_channels % op.groups == 0, op, "groups", op.groups,
             f"a divisor of {channels} inputs and {op.out_channels} outputs")


@dataclass(frozen=True)
class Op:
    name: str
    inputs: tuple[str, ...] = ()

    kind: ClassVar[str]
    """The name of the class, in lower case."""
    arity: ClassVar[int] = 1
    version: ClassVar[int] = 1
    """Version of the format that brought the op."""
    reads_bytes: ClassVar[bool] = False
    """Whether an input may be bytes."""

    def __init_subclass__(cls):
        cls.kind = cls.__name__.lower()

    def output_shape(self, *shapes: Shape) -> Shape:
        """Shape of the output for inputs of these shapes; InputError where the op cannot take them."""
        raise NotImplementedError

    def weight_shape(self, *shapes: Shape) -> tuple[int, ...] | None:
        """Shape of the binary weights, or None."""
        return None

    def fan_in(self, *shapes: Shape) -> int | None:
        """Products summed into one output, or None."""
        weights = self.weight_shape(*shapes)
        return None if weights is None else math.prod(weights[1:])

    def macs(self, *shapes: Shape) -> int:
        """Multiply-accumulates an image."""
        fan_in = self.fan_in(*shapes)
        if fan_in is None:
            return 0
        channels, height, width = self.output_shape(*shapes)
        return fan_in * channels * height * width

    def beyond_version_1(self, *shapes: Shape) -> str:
        """The feature of the op that version 1 of the format lacks, for legal inputs of these shapes; "" where it has them all."""
        if self.version > 1:
            return f"op {self.kind}"
        return next((f"{f.name} {getattr(self, f.name)}" for f in fields(self) if f.metadata and getattr(self, f.name) != f.default), "")

    def to_dict(self) -> dict[str, Any]:
        """Return the op as plain values; `from_dict` is the inverse.

        An op of version 1 lacks those fields of version 2 that have their default.
        """
        values = {f.name: getattr(self, f.name) for f in fields(self) if not f.metadata or getattr(self, f.name) != f.default}
        return {"op": self.kind, **{name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}}


@dataclass(frozen=True)
class Input(Op):
    """The first op of a network: it makes a map of a square RGB image of `size` pixels a side."""

    arity: ClassVar[int] = 0

    @property
    def planes(self) -> tuple[int, ...]:
        """Levels of each plane that `reference.encode.levels` makes of an image."""
        raise NotImplementedError

    def beyond_version_1(self, *shapes):
        return super().beyond_version_1(*shapes) or (f"size {self.size}" if self.size % 2 else "")

    def _check_size(self):
        _require(2 <= self.size <= 512, self, "size", self.size, "2 to 512")


@dataclass(frozen=True)
class Thermometer(Input):
    """RGB bytes -> thermometer bits, a channel for each level of `planes`.  `encoder` is "tycc", "trgb" or "grey"."""

    encoder: str = "tycc"
    size: int = 32
    levels: int = TYCC_LEVELS

    @property
    def planes(self):
        return planes(self.encoder, self.levels)

    def output_shape(self):
        _require(self.encoder in ("tycc", "trgb", "grey"), self, "encoder", show(self.encoder), "'tycc', 'trgb' or 'grey'")
        if self.encoder == "tycc":
            _require(self.levels in (2, 4, 8, 16, 32, 64), self, "levels", show(self.levels), "2, 4, 8, 16, 32 or 64 with tycc")
        else:
            _require(whole(self.levels, 2, 129), self, "levels", show(self.levels), f"2 to 128 with {self.encoder}")
        self._check_size()
        return (sum(self.planes), self.size, self.size)

    def beyond_version_1(self, *shapes):
        return f"encoder {self.encoder}" if self.encoder == "grey" else super().beyond_version_1(*shapes)


@dataclass(frozen=True)
class Binarize(Input):
    """RGB bytes -> one channel of bits: grey (the Y of "tycc") >= threshold."""

    size: int = 32
    threshold: int = 128

    version: ClassVar[int] = 2

    @property
    def planes(self):
        return (2,)

    def output_shape(self):
        self._check_size()
        _require(whole(self.threshold, 1, 256), self, "threshold", show(self.threshold), "1 to 255")
        return (1, self.size, self.size)


@dataclass(frozen=True)
class Bits8(Input):
    """RGB bytes p -> three channels of bytes u = table[p]; each stands for 2 u - 255."""

    size: int = 32
    table: tuple[int, ...] = tuple(range(256))

    version: ClassVar[int] = 2

    @property
    def planes(self):
        return (256,) * 3

    def output_shape(self):
        self._check_size()
        _require(len(self.table) == 256, self, "table", f"{len(self.table)} values", "256")
        for index, value in enumerate(self.table):
            _require(type(value) is int and 0 <= value <= BYTE, self, f"table[{index}]", show(value), "an integer from 0 to 255")
        return (3, self.size, self.size)


@dataclass(frozen=True)
class Conv(Op):
    """Grouped binary convolution, then sign(dot - threshold).

    `padding` "same" surrounds the map with kernel // 2 pixels of -1 (bytes of 0), 0 with none.
    """

    out_channels: int = 0
    kernel: int = 3
    stride: int = 1
    groups: int = 1
    padding: str | int = field(default="same", metadata={"version": 2})

    reads_bytes: ClassVar[bool] = True

    @property
    def frame(self) -> int:
        """Pixels of padding on each side."""
        return self.kernel // 2 if self.padding == "same" else 0

    def output_shape(self, x):
        channels, height, width = x
        _require(self.kernel in (1, 3, 5), self, "kernel", self.kernel, "1, 3 or 5")
        _require(self.stride in (1, 2), self, "stride", self.stride, "1 or 2")
        _require_groups(self, channels)
        _require(self.padding == "same" or (type(self.padding) is int and self.padding == 0), self, "padding", show(self.padding),
                 "'same' or 0")
        padding = 2 * self.frame - self.kernel
        _require(min(height, width) + padding >= 0, self, "input size", f"{height}x{width}",
                 f"at least {self.kernel}x{self.kernel} without padding")
        return (self.out_channels, (height + padding) // self.stride + 1, (width + padding) // self.stride + 1)

    def beyond_version_1(self, x):
        if self.kernel == 5:
            return "kernel 5"
        return super().beyond_version_1(x) or (f"stride 2 of a map of {x[1]}x{x[2]}" if x[1] % self.stride or x[2] % self.stride else "")

    def weight_shape(self, x):
        return (self.out_channels, x[0] // self.groups, self.kernel, self.kernel)


@dataclass(frozen=True)
class MaxPool(Op):
    """2x2 maximum, which is the OR of four bits; an odd last row or column is dropped."""

    def output_shape(self, x):
        channels, height, width = x
        _require(min(height, width) >= 2, self, "input size", f"{height}x{width}", "at least 2x2")
        return (channels, height // 2, width // 2)

    def beyond_version_1(self, x):
        return f"pooling of a map of {x[1]}x{x[2]}" if x[1] % 2 or x[2] % 2 else ""


@dataclass(frozen=True)
class Gap(Op):
    """Global average pooling of bits: sign of the sum over the map, per channel."""

    def output_shape(self, x):
        return (x[0], 1, 1)


@dataclass(frozen=True)
class Depthwise(Op):
    """Learned pooling: one binary weight per channel and pixel, sign of the dot product over the map."""

    def output_shape(self, x):
        return (x[0], 1, 1)

    def weight_shape(self, x):
        return tuple(x)


@dataclass(frozen=True)
class Flatten(Op):
    """A map as a vector, in the order channel, row, column (torch.flatten)."""

    version: ClassVar[int] = 2
    reads_bytes: ClassVar[bool] = True

    def output_shape(self, x):
        return (x[0] * x[1] * x[2], 1, 1)


@dataclass(frozen=True)
class Dense(Op):
    """Grouped dense layer on a vector.  Sign(dot - threshold), or the integer dot itself if it gives the logits."""

    out_channels: int = 0
    groups: int = 1
    logits: bool = False

    reads_bytes: ClassVar[bool] = True

    def output_shape(self, x):
        channels, height, width = x
        _require((height, width) == (1, 1), self, "input size", f"{height}x{width}", "1x1")
        _require_groups(self, channels)
        _require(not (self.logits and self.groups != 1), self, "groups", self.groups, "1 in the layer of the logits")
        return (self.out_channels, 1, 1)

    def weight_shape(self, x):
        return (self.out_channels, x[0] // self.groups)


@dataclass(frozen=True)
class Duplicate(Op):
    """Every channel `times` times in a row, so that all copies fall into the same group of a grouped layer."""

    times: int = 2

    def output_shape(self, x):
        _require(1 <= self.times <= 8, self, "times", self.times, "1 to 8")
        return (x[0] * self.times, x[1], x[2])


@dataclass(frozen=True)
class Concat(Op):
    """Channels of the first input, then of the second, and so on."""

    arity: ClassVar[int] = 2

    def output_shape(self, *shapes):
        _require(len({s[1:] for s in shapes}) == 1, self, "input sizes", [s[1:] for s in shapes], "all equal")
        return (sum(s[0] for s in shapes), *shapes[0][1:])


@dataclass(frozen=True)
class Slice(Op):
    """Channels start .. stop - 1."""

    start: int = 0
    stop: int = 0

    def output_shape(self, x):
        _require(0 <= self.start < self.stop <= x[0], self, "start..stop", f"{self.start}..{self.stop}", f"inside 0..{x[0]}")
        return (self.stop - self.start, *x[1:])


@dataclass(frozen=True)
class Shuffle(Op):
    """Channel shuffle (ShuffleNet): channels seen as (groups, n), transposed."""

    groups: int = 2

    def output_shape(self, x):
        _require(self.groups >= 1 and x[0] % self.groups == 0, self, "groups", self.groups, f"a divisor of {x[0]}")
        return x


KINDS = {cls.kind: cls for cls in (Thermometer, Binarize, Bits8, Conv, MaxPool, Gap, Depthwise, Flatten, Dense, Duplicate, Concat, Slice,
                                   Shuffle)}
INPUTS = tuple(kind for kind, cls in KINDS.items() if issubclass(cls, Input))

VERSIONS = (1, 2)
"""Versions of the format."""

NOUNS = {int: "an integer", bool: "True or False", str: "a string"}


def from_dict(values: Any, where: str = "architecture", version: int = VERSIONS[-1]) -> Op:
    """Inverse of `Op.to_dict` for a file of that version of the format; every wrong key, type or kind is an InputError naming the field."""
    require(isinstance(values, dict), where, f"found {type(values).__name__}", "a dict")
    values = dict(values)
    kind = values.pop("op", None)
    kinds = {name: cls for name, cls in KINDS.items() if cls.version <= version}
    if not isinstance(kind, str) or kind not in kinds:
        raise InputError(f"{where}: op is {show(kind)}, expected one of {', '.join(kinds)}{_of_version(version, kind, KINDS)}")
    cls = kinds[kind]
    every = {f.name: f for f in fields(cls)}
    legal = {name: f for name, f in every.items() if f.metadata.get("version", 1) <= version}
    for key in values:
        require(key in legal, where, f"unknown field {show(key)} of {kind}", f"{', '.join(legal)}{_of_version(version, key, every)}")
    name = values.get("name")
    if not isinstance(name, str) or not (name.isascii() and name.isidentifier() and len(name) <= 64):
        raise InputError(f"{where}: name is {show(name)}, expected at most 64 letters, digits and _, no digit first")
    inputs = values.get("inputs", [])
    if not isinstance(inputs, (list, tuple)) or not all(isinstance(i, str) for i in inputs):
        raise InputError(f"{where}: inputs is {show(inputs)}, expected a list of layer names")
    values["inputs"] = tuple(inputs)
    if "table" in values:
        require(isinstance(values["table"], (list, tuple)), where, f"table is {show(values['table'])}", "a list of 256 integers")
        values["table"] = tuple(values["table"])
    for key, value in values.items():
        expected = legal[key].type
        if expected in (int, bool, str) and type(value) is not expected:
            raise InputError(f"{where}: {key} is {show(value)}, expected {NOUNS[expected]}")
    for key in ("out_channels", "stop"):
        require(key not in legal or key in values, where, f"{key} of {kind} {name} is missing", "a number from 1")
    return cls(**values)


def _of_version(version, name, later):
    """What a message adds where `name` exists in a later version alone."""
    return f" in version {version} of the format" if isinstance(name, str) and name in later else ""
