"""Nodes of ONNX and QONNX on arrays: `SINGLE` has functions of single values, `constant` is for nodes that read constants alone.

    Ref: https://onnx.ai/onnx/operators and https://github.com/fastmachinelearning/qonnx, docs/qonnx-custom-ops
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.errors import InputError, require, show
from .onnx_graph import Node, held, type_name

ROUNDINGS: dict[str, Callable] = {
    "ROUND": np.round, "HALF_EVEN": np.round, "CEIL": np.ceil, "FLOOR": np.floor,
    "UP": lambda v: np.sign(v) * np.ceil(np.abs(v)), "DOWN": np.fix, "ROUND_TO_ZERO": np.fix,
    "HALF_UP": lambda v: np.sign(v) * np.floor(np.abs(v) + 0.5), "HALF_DOWN": lambda v: np.sign(v) * np.ceil(np.abs(v) - 0.5)}

INTEGERS = tuple(f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64))
FLOATS, HALF = (1, 11), 10
"""ONNX's numbers of types, for `Cast`: those that hold a float32 without rounding it, and float16."""


def constant(node: Node, room: int, *values: np.ndarray | None) -> np.ndarray:
    """The result of a node of `CONSTANT` or `SINGLE` whose inputs are all constants, None for one that is left out.

    room: most numbers that it may have.  Raises InputError where it cannot be computed.
    """
    try:
        if node.op in SINGLE:
            there = [v for v in values if v is not None]
            if any(v.dtype.kind in "iu" and v.dtype != np.int64 for v in there):
                raise InputError(f"{node}: computes with integers of few bits, which wrap, expected a Cast to FLOAT before it")
            if math.prod(np.broadcast_shapes(*(v.shape for v in there))) > room:
                raise InputError(f"{node}: makes a constant of more than {room} numbers, expected fewer")
            return np.asarray(SINGLE[node.op](node, *values))
        if node.op == "Concat" and sum(v.size for v in values if v is not None) > room:
            raise InputError(f"{node}: makes a constant of more than {room} numbers, expected fewer")
        return np.asarray(CONSTANT[node.op](node, *values))
    except InputError:
        raise
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, ArithmeticError, np.exceptions.AxisError) as error:
        raise InputError(f"{node}: cannot be computed from its constants ({str(error)[:80]}), expected a valid node") from None


def axes(node: Node, values: tuple[np.ndarray, ...], place: int = 1) -> list[int] | None:
    """The axes of a node, an attribute in older files and an input in newer ones; None where it has none."""
    numbers = node.attributes.get("axes", values[place] if len(values) > place else None)
    return None if numbers is None else [int(axis) for axis in np.asarray(numbers).reshape(-1)]


def bipolar(node: Node, v: np.ndarray) -> np.ndarray:
    """Whether BipolarQuant gives +scale for each of the real values, else -scale."""
    return v >= 0


def quantised(node: Node, v: np.ndarray, scale: np.ndarray, zero: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """The integers of Quant, before the zero point is taken off, for real values; with one signed bit they are +1 and -1, as in qonnx."""
    mode = str(node.attributes.get("rounding_mode", "ROUND")).upper()
    require(mode in ROUNDINGS, node, f"rounding mode {show(mode)}", f"one of {', '.join(ROUNDINGS)}")
    low, high = integers(node, bits)
    u = v / scale + zero
    return np.where(u >= 0, 1.0, -1.0) if (low, high) == (-1, 1) and bits == 1 else ROUNDINGS[mode](np.clip(u, low, high))


def integers(node: Node, bits: np.ndarray) -> tuple[int, int]:
    """Least and largest integer of Quant."""
    count = float(np.asarray(bits).reshape(-1)[0]) if np.size(bits) == 1 else math.nan
    require(1 <= count <= 32 and not count % 1, node, f"{count} bits", "one whole number from 1 to 32 for all values")
    signed, narrow = (bool(node.attributes.get(key, 1)) for key in ("signed", "narrow"))
    high = 2 ** (int(count) - signed) - 1
    if signed:
        return (-1, 1) if count == 1 else (-high if narrow else -high - 1, high)
    return 0, high - narrow


def _quant(node, v, scale, zero, bits):
    return (quantised(node, v, scale, zero, bits) - zero) * scale


def _divided(node, a, b):
    """Integers are divided without a remainder, towards 0."""
    if a.dtype.kind == b.dtype.kind == "i":
        require(not (b == 0).any(), node, "divides by 0", "another number")
        return np.abs(a) // np.abs(b) * np.sign(a) * np.sign(b)
    return a / b


def _clip(node, v, low=None, high=None):
    low = node.attributes.get("min", low)
    high = node.attributes.get("max", high)
    return np.clip(v, -np.inf if low is None else low, np.inf if high is None else high)


SINGLE: dict[str, Callable[..., Any]] = {
    "Add": lambda node, a, b: a + b, "Sub": lambda node, a, b: a - b, "Mul": lambda node, a, b: a * b, "Div": _divided,
    "Neg": lambda node, v: -v, "Relu": lambda node, v: np.maximum(v, 0), "Clip": _clip, "Tanh": lambda node, v: np.tanh(v),
    "Sigmoid": lambda node, v: 1 / (1 + np.exp(-v)),
    "HardSigmoid": lambda node, v: np.clip(node.attributes.get("alpha", 0.2) * v + node.attributes.get("beta", 0.5), 0, 1),
    "LeakyRelu": lambda node, v: np.where(v < 0, node.attributes.get("alpha", 0.01), 1) * v,
    "Quant": _quant, "IntQuant": _quant, "BipolarQuant": lambda node, v, scale: np.where(bipolar(node, v), scale, -scale),
    "Sign": lambda node, v: np.sign(v), "Pow": lambda node, a, b: np.power(a, b), "Sqrt": lambda node, v: np.sqrt(v),
    "Abs": lambda node, v: np.abs(v)}
"""{name of a node: function}; it gets the node and its inputs as arrays that broadcast."""

RISING = ("Add", "Sub", "Mul", "Div", "Neg", "Relu", "Clip", "Tanh", "Sigmoid", "HardSigmoid", "LeakyRelu", "Quant", "IntQuant")
"""Names in `SINGLE` of functions that rise or fall in each argument."""


def _reshape(node, v, shape):
    sizes = [v.shape[i] if size == 0 and not node.attributes.get("allowzero", 0) else int(size) for i, size in enumerate(shape)]
    return v.reshape(sizes)


def _cast(node, v):
    to = node.attributes.get("to")
    if to in FLOATS or to == HALF:
        return (v.astype(np.float16) if to == HALF else v).astype(np.float64)
    name = type_name(to)
    if name == "BOOL":
        return (v != 0).astype(np.int64)
    require(name in INTEGERS, node, f"casts a constant to {name}", "FLOAT, FLOAT16 or integers")
    limits, whole = np.iinfo(name.lower()), np.trunc(v)
    if not ((whole >= limits.min) & (whole <= limits.max)).all():
        raise InputError(f"{node}: casts a constant to {name}, which does not hold it, expected {limits.min} to {limits.max}")
    return held(whole.astype(name.lower()))


def _squeeze(node, v, *rest):
    numbers = axes(node, (v, *rest))
    return np.squeeze(v, None if numbers is None else tuple(numbers))


def part_of_shape(node: Node, sizes: tuple[int, ...]) -> np.ndarray:
    """What Shape gives of these sizes."""
    return np.array(sizes, np.int64)[node.attributes.get("start", 0):node.attributes.get("end")]


def _gather(node, v, index):
    if v.ndim != 1 or index.ndim > 1 or index.size > 64:
        raise InputError(f"{node}: gathers {index.size} of {'x'.join(map(str, v.shape))} values, expected sizes of a map")
    return v[index.astype(np.int64)]


def _slice(node, v, *rest):
    starts, ends = (np.asarray(node.attributes.get(name, rest[i] if len(rest) > i else None)).reshape(-1).astype(np.int64)
                    for i, name in enumerate(("starts", "ends")))
    along = axes(node, rest, 2)
    steps = rest[3].reshape(-1) if len(rest) > 3 and rest[3] is not None else np.ones(len(starts))
    for axis, start, end, step in zip(range(len(starts)) if along is None else along, starts, ends, steps):
        place = [slice(None)] * v.ndim
        place[axis] = slice(int(start), int(end), int(step))
        v = v[tuple(place)]
    return v


def _value(node):
    for key in ("value", "value_float", "value_int", "value_floats", "value_ints"):
        if node.attributes.get(key) is not None:
            return np.asarray(node.attributes[key])
    raise InputError(f"{node}: has no numbers, expected an array")


CONSTANT: dict[str, Callable[..., Any]] = {
    "Constant": _value, "Identity": lambda node, v: v, "Dropout": lambda node, v, *rest: v,
    "Shape": lambda node, v: part_of_shape(node, v.shape), "Cast": _cast,
    "Reshape": _reshape, "Flatten": lambda node, v: v.reshape(math.prod(v.shape[:node.attributes.get("axis", 1)]), -1),
    "Transpose": lambda node, v: np.transpose(v, node.attributes.get("perm")), "Squeeze": _squeeze,
    "Unsqueeze": lambda node, v, *rest: np.expand_dims(v, tuple(axes(node, (v, *rest)) or ())),
    "Concat": lambda node, *vs: np.concatenate([np.atleast_1d(v) for v in vs], node.attributes.get("axis", 0)),
    "Gather": _gather, "Slice": _slice}
"""{name of a node: function}, as `SINGLE`; no result has more values than the inputs."""


def batch_norm(node, parameters, where):
    """BatchNormalization on (K, channels)."""
    gain, bias, mean, variance = parameters
    with np.errstate(all="ignore"):
        deviation = np.sqrt(variance + node.attributes.get("epsilon", 1e-5))
    if not np.isfinite(deviation).all() or (deviation == 0).any():
        raise InputError(f"{where}: has a variance of {variance.min():g}, expected numbers above 0")

    def function(values):
        require(values.shape[1] == gain.size, where, f"has statistics of {gain.size} channels", f"{values.shape[1]}")
        return (values - mean) / deviation * gain + bias

    return function
