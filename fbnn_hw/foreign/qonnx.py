"""QONNX files, as Brevitas exports them.  `fold.Builder` makes bits and thresholds of their nodes, in order.

Functions of single values are those of `onnx_values`, in float64.  The threshold is where the quantiser
after them changes its result.  The program that wrote the file rounds sums to float32.  So the two may
differ where a sum lies within a rounding of a threshold; a note says where a threshold lies on a sum.
"""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import InputError, require, show
from ..ir import ops
from . import fold, onnx_graph, onnx_values
from .imported import Imported, Part, alike, classes_alone, name_of, with_latent
from .onnx_graph import Node
from .values import Map

ENDS = ("Softmax", "LogSoftmax", "ArgMax", "TopK")
QUANTISERS = ("BipolarQuant", "Quant", "IntQuant", "Sign", "MultiThreshold")
REALS, BYTES = ("FLOAT", "DOUBLE", "UNDEFINED"), "UINT8"
"""Types of the input; UNDEFINED is that of a file that leaves it out."""
SIZES = (2, 512)
"""Smallest and largest image, pixels a side."""

MAX_VALUES = 2 ** 24
"""Most values of a map."""


def read(path: Path, classes: tuple[str, ...] | None = None, low: float | None = None, high: float | None = None) -> Imported:
    """The network of a file.  low, high: the values of the bytes 0 and 255 at its input, None as in `foreign.read`.  Raises InputError,
    which names the node, for what +1 and -1 cannot express."""
    graph = onnx_graph.read(path)
    try:
        reader = _Reader(graph, low, high)
        imported = reader.read(name_of(path), classes)
        if reader.asked and graph.shape[0] is None:
            other = _Reader(graph, low, high, batch=2).read(name_of(path), classes)
            require(alike(imported, other), reader.asked, "the network computes with the number of images", "it in shapes alone")
        return imported
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        raise InputError(f"{path}: is a damaged ONNX file ({show(str(error))[1:-1]}), expected one that onnx.checker accepts") from None


class _Reader:
    """batch: the number of images, where the file leaves it open.  asked: the first node that asks for it, or None."""

    def __init__(self, graph, low, high, batch=1):
        self.graph, self.builder = graph, fold.Builder(rounds=True)
        self.batch = graph.shape[0] or batch if graph.shape else batch
        self.asked: Node | None = None
        image = replace(self._image(graph.shape, *self._range(low, high)), whole=graph.type == BYTES)
        self.values: dict[str, Any] = {**graph.constants, graph.input: image}
        self.ended: Node | None = None
        self.counts: dict[str, int] = {}
        in_nodes = [value for node in graph.nodes for value in node.attributes.values() if isinstance(value, np.ndarray)]
        stored = sum(value.size for value in graph.constants.values())
        self.memory = onnx_graph.MAX_VALUES - stored
        self.room = max(onnx_graph.LEAST_ROOM, onnx_graph.ROOM * (stored + sum(value.size for value in in_nodes)))

    def read(self, name, classes):
        for node in self.graph.nodes:
            if self.ended:
                raise InputError(f"{node}: follows a {self.ended.op}, expected the end of the network")
            self._checked(node)
        output = self._output_of(self.graph.output, "the output")
        if not isinstance(output, Map):
            raise InputError("the output does not depend on the image, expected the logits")
        self._whole_channels(output, "the output")
        record = {"source": "a QONNX file", **({"producer": self.graph.producer} if self.graph.producer else {})}
        imported = self.builder.finish(output.value, "the output", name, classes, "QONNX", record)
        first = imported.network.topology.ops[0].name
        if all(first not in part.layers for part in imported.parts):
            imported = replace(imported, parts=(Part(f"input {self.graph.input[:60]}", (first,), "reads bytes"), *imported.parts))
        imported = with_latent(imported)
        return classes_alone(imported) if self.ended else imported

    def _range(self, low, high):
        """The values of the bytes 0 and 255 at the input."""
        kind = self.graph.type
        require(kind in (*REALS, BYTES), "the input", f"is of type {kind}", "FLOAT or UINT8")
        if kind == BYTES and (low, high) not in ((None, None), (0, 255)):
            raise InputError("the input: is of type UINT8, so its bytes are taken as they are, expected no --range, or --range 0 255")
        if low is None and kind == BYTES:
            self.builder.notes.append("the input is of type uint8, so its bytes are taken as they are, 0 to 255")
        top = 255.0 if kind == BYTES else 1.0
        return 0.0 if low is None else low, top if high is None else high

    @staticmethod
    def _image(shape, low, high):
        """The input: a square image of one or three colours, channels first or last, or flat."""
        words = "x".join("?" if n is None else str(n) for n in shape)
        sizes = shape[1:]
        first = len(sizes) == 3 and sizes[0] in (1, 3) and sizes[1] == sizes[2]
        last = len(sizes) == 3 and sizes[2] in (1, 3) and sizes[0] == sizes[1] and not first
        if len(sizes) == 1 and (sizes[0] or 0) > 0:
            sizes = next(((c, size, size) for c in (1, 3) for size in [round((sizes[0] / c) ** 0.5)] if c * size * size == sizes[0]), sizes)
        elif last:
            sizes = (sizes[2], *sizes[:2])
        if len(sizes) != 3 or sizes[0] not in (1, 3) or sizes[1] != sizes[2] or not SIZES[0] <= (sizes[1] or 0) <= SIZES[1]:
            raise InputError(f"the input is {words or 'a number'}, expected square images (N, 3, S, S) or (N, 1, S, S), "
                             f"S from {SIZES[0]} to {SIZES[1]}")
        # The other program gets images in float32.
        bytes_ = np.float32(low + (high - low) / 255 * np.arange(256)).astype(np.float64)
        return Map(fold.Image(np.repeat(bytes_[:, None], sizes[0], 1), sizes[1], len(shape) == 2), last)

    def _output_of(self, name, reader):
        require(name in self.values, reader, f"reads {name[:60]!r}, which no node before it gives", "nodes in the order of execution")
        return self.values[name]

    def _checked(self, node):
        """`_run`; raises InputError where an attribute or a constant has another type or shape than the node takes."""
        try:
            self._run(node)
        except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
            raise InputError(f"{node}: cannot be read ({type(error).__name__}: {show(str(error))[1:-1]}), expected a valid node") from None

    def _run(self, node):
        args = [self._output_of(name, node) if name else None for name in node.inputs]
        maps = [value for value in args if isinstance(value, Map)]
        if not maps:
            if node.op not in onnx_values.CONSTANT and node.op not in onnx_values.SINGLE:
                raise InputError(f"{node}: {self._unknown(node)}")
            results = [onnx_values.constant(node, self.room, *args)]
            if not any(np.may_share_memory(results[0], value) for value in args if value is not None):
                self._spend(node, results[0].size)
                self.memory -= results[0].size
            require(self.memory >= 0, node, f"the constants up to here are more than {onnx_graph.MAX_VALUES} numbers", "fewer")
        else:
            result = self._value(node, args, maps)
            results = result if isinstance(result, list) else [result]
            for value in results:
                if isinstance(value, Map):
                    self._spend(node, value.value.shape[0] * (1 + len(getattr(value.value, "functions", ()))))
        for name, value in zip(node.outputs, results):
            require(not name or name not in self.values, node, f"gives {name[:60]!r}, which is there before it", "a name for each value")
            if isinstance(value, Map) and math.prod(value.value.shape) > MAX_VALUES:
                raise InputError(f"{node}: gives a map of {'x'.join(map(str, value.value.shape))}, expected at most {MAX_VALUES} values")
            self.values[name] = value

    def _spend(self, node, count):
        """Take numbers that a node computes with from those that a file of its size may ask for, before they are computed or kept."""
        self.room -= count
        require(self.room >= 0, node, "the network computes with more numbers up to here than one of a file of this size needs",
                f"at most {onnx_graph.LEAST_ROOM}, or {onnx_graph.ROOM} for each number of the file")

    @staticmethod
    def _unknown(node):
        return (f"{node.op} has no counterpart among +1 and -1; expected Conv, Gemm, MatMul, BatchNormalization, pooling of 2x2, functions "
                "of single values before BipolarQuant or Quant of one bit (fbnn-hw help networks.md has the list)")

    def _end(self, node, x, where):
        """Takes the largest logit of each image, or what is as large."""
        old = self.graph.opset < 13 and node.op in ("Softmax", "LogSoftmax")  # takes all axes from this one on together
        axis = node.attributes.get("axis", 0 if node.op == "ArgMax" else 1 if old else -1)
        rank, channels = 1 + len(x.sizes), self._channel_axis(x)
        along = axis % rank == channels or old and 1 <= axis % rank <= channels
        smallest = node.op == "TopK" and not node.attributes.get("largest", 1)
        if not along or smallest or node.attributes.get("select_last_index", 0):
            sizes = "x".join(map(str, ("N", *x.sizes)))
            what = "the smallest" if smallest else "the last of equal logits" if along else f"along axis {axis} of {sizes}"
            raise InputError(f"{where}: takes {what}, expected the largest logit of each image, the first of equal ones"
                             + f"; the logits lie along axis {channels}" * (not along))
        self.ended = node

    def _value(self, node, args, maps):
        where = str(node)
        if node.op == "Shape":
            self.asked = self.asked or node
            return onnx_values.part_of_shape(node, (self.batch, *maps[0].sizes))
        if node.op == "Dropout" and len(args) > 2 and args[2] is not None and np.any(args[2]):
            raise InputError(f"{where}: drops in evaluation too, expected an export in evaluation mode")
        if node.op == "Cast":
            require(node.attributes.get("to") in onnx_values.FLOATS, where,
                          f"casts a map to {onnx_graph.type_name(node.attributes.get('to'))}, which rounds or wraps", "FLOAT")
            return replace(maps[0], whole=False)
        if node.op in ("Identity", "Dropout"):
            return maps[0]
        if node.op in ENDS:
            self._whole_channels(maps[0], where)
            self._end(node, maps[0], where)
            return [maps[0], maps[0]]
        if node.op in QUANTISERS and isinstance(args[0], Map) and len(maps) == 1:
            self._no_wider(node, args, where)
            return self._quantised(node, args, where)
        if node.op in onnx_values.RISING or node.op == "BatchNormalization":
            self._no_wider(node, args, where)
            return self._single(node, args, maps, where)
        handler = HANDLERS.get(node.op)
        if handler is None:
            raise InputError(f"{where}: {self._unknown(node)}")
        if node.op not in ("Reshape", "Transpose", "Flatten"):
            for value in maps:
                self._whole_channels(value, where)
        if node.op == "Concat":
            return handler(self, node, args, where)
        if len(maps) > 1 or not isinstance(args[0], Map):
            raise InputError(f"{where}: reads two maps, or weights that are no constants; expected one map first, then constants")
        return handler(self, node, args[0], args[1:], where)

    @classmethod
    def _whole_channels(cls, x, where):
        require(not x.groups, where, f"reads {'x'.join(map(str, x.sizes))}, channels that a Reshape split",
                     "Reshape, Transpose [0, 2, 1, 3, 4], Reshape together, a shuffle of channels")

    @staticmethod
    def _no_wider(node, args, where):
        """Raises InputError where a constant makes more images or axes of a map than it has."""
        if node.op in ("MultiThreshold", "BatchNormalization"):
            return
        rank = next(1 + len(value.sizes) for value in args if isinstance(value, Map))
        for value in args:
            if isinstance(value, np.ndarray) and (value.shape[:max(0, value.ndim - rank + 1)].count(1) < value.ndim - rank + 1):
                raise InputError(f"{where}: has a constant of {'x'.join(map(str, value.shape))} for a map of {rank} axes, which makes more "
                                 "images of one; expected constants for each channel")

    @staticmethod
    def _channel_axis(x):
        """The axis of the file's array along which the channels lie."""
        return 3 if x.last and not x.value.vector else 1

    def _hint(self, kind):
        self.counts[kind] = self.counts.get(kind, 0) + 1
        return f"{kind}{self.counts[kind]}"

    def _part(self, where, value):
        self.builder.part(where, (value.op.name if isinstance(value, fold.Sum) else value.name,))
        return Map(value)

    # Functions of single values

    def _single(self, node, args, maps, where):
        if len(maps) > 1:
            raise InputError(f"{where}: takes real numbers of two layers, a shortcut that +1 and -1 have no room for; expected Concat of "
                             "the two after their quantisers, and a convolution of both")
        require(not maps[0].whole, where, "computes with uint8, which wraps", "a Cast to FLOAT before it")
        place = next(i for i, value in enumerate(args) if value is maps[0])
        if node.op == "Div" and place == 1 or any(value is not None and not np.isfinite(value).all() for value in args
                                                  if not isinstance(value, Map)):
            raise InputError(f"{where}: divides by the map, or has a constant that is NaN or infinite, expected a finite function")
        if node.op == "BatchNormalization":
            trains = node.attributes.get("training_mode") or (  # which older files say by their outputs
                self.graph.opset < 14 and sum(map(bool, node.outputs)) > 1) or self.graph.opset < 7 and not node.attributes.get("is_test")
            require(not trains and not place and len(args) >= 5, where, "has no constant statistics", "an export in evaluation mode")
            require(self._channel_axis(maps[0]) == 1, where, "takes rows as channels, for the map has its channels last",
                          "a map with the channels first")
            function = onnx_values.batch_norm(node, [np.asarray(value).reshape(-1) for value in args[1:5]], where)
        else:
            def function(v):
                return onnx_values.SINGLE[node.op](node, *(v if i == place else value for i, value in enumerate(args)))
        return self._applied(maps[0], function, where, by_channel=node.op == "BatchNormalization")

    def _applied(self, x, function, where, by_channel=False, quiet=False):
        y = self.builder.apply(x.value, self._by_channel(x, function, where, by_channel), where)
        if not quiet:
            self.builder.part(where)
        return replace(x, value=y)

    @staticmethod
    def _by_channel(x, function, where, flat=False):
        """Turn a function of the file's arrays into one of (K, channels).  flat: it takes (K, channels) already, in the file's order."""
        channels, order = x.value.shape[0], x.channels
        sizes = (*x.sizes[:2], 1, 1) if x.groups else (1, 1, channels) if x.last else (channels, 1, 1)

        def on_numbers(values):
            inputs = values[:, order]
            if not flat and not x.value.vector:
                inputs = inputs.reshape(len(values), *sizes)
            try:
                with np.errstate(all="ignore"):
                    y = np.asarray(function(inputs))
                    if y.shape != inputs.shape:
                        y = np.broadcast_to(y, inputs.shape) if y.ndim == inputs.ndim and y.size <= inputs.size else y.reshape(inputs.shape)
            except (ValueError, TypeError, IndexError):
                raise InputError(f"{where}: is no function of each value alone, with constants for each channel; expected one") from None
            back = np.empty((len(values), channels), y.dtype)
            back[:, order] = y.reshape(len(values), channels)
            return back

        return on_numbers

    # Quantisers

    def _quantised(self, node, args, where):
        x, constants = args[0], [np.asarray(value, np.float64) for value in args[1:] if value is not None]
        if any(not np.isfinite(value).all() for value in constants):
            raise InputError(f"{where}: has a constant that is NaN or infinite, expected finite numbers")
        if node.op == "Sign":
            return self._step(x, lambda v: v >= 0, where, zero=lambda v: v == 0)
        if len(constants) != {"BipolarQuant": 1, "MultiThreshold": 1}.get(node.op, 3):
            raise InputError(f"{where}: has {len(constants)} constants, expected scale (and zero point and bits), or thresholds")
        if node.op == "BipolarQuant":
            return self._scaled(self._step(x, lambda v: onnx_values.bipolar(node, v), where), constants[0], where)
        if node.op == "MultiThreshold":
            return self._thresholds(node, x, constants[0], where)
        scale, zero, bits = constants
        if not (scale > 0).all():
            raise InputError(f"{where}: has a scale of {scale.min():g}, expected numbers above 0")
        low, high = onnx_values.integers(node, bits)
        if bits > 1:
            return self._single(node, args, [x], where)
        require(low != high, where, "narrow with one unsigned bit has one value only", "narrow=0 or BipolarQuant")
        y = self._step(x, lambda v: onnx_values.quantised(node, v, scale, zero, bits) == high, where, low, high)
        return self._scaled(y, scale, where, zero)

    def _step(self, x, upper, where, low=-1, high=1, zero=None, flat=False):
        zero = zero and self._by_channel(x, zero, where)
        y = self.builder.step(x.value, self._by_channel(x, upper, where, flat), where, low, high, zero)
        return replace(x, value=y)

    def _scaled(self, x, scale, where, zero=0.0):
        if not (np.asarray(scale) > 0).all():
            raise InputError(f"{where}: has a scale of {np.min(scale):g}, expected numbers above 0")
        if (np.asarray(scale) == 1).all() and not np.any(zero):
            return x
        return self._applied(x, lambda v: (v - zero) * scale, where, quiet=True)

    def _thresholds(self, node, x, thresholds, where):
        require(thresholds.ndim == 2 and thresholds.size and len(thresholds) in (1, x.value.shape[0]), where,
                f"thresholds of {'x'.join(map(str, thresholds.shape))}", f"a row for each of {x.value.shape[0]} channels")
        layout, axis = str(node.attributes.get("data_layout", "NCHW")), self._channel_axis(x)
        named = layout.index("C") if "C" in layout else 1
        if len(thresholds) > 1:
            self._whole_channels(x, where)
        require(len(thresholds) == 1 or named == axis, where, f"has channels along axis {named} by its data_layout {show(layout)}",
                      f"axis {axis}, where the map has them")
        scale, bias = (float(node.attributes.get(key, default)) for key, default in (("out_scale", 1.0), ("out_bias", 0.0)))
        levels = thresholds.shape[1]
        require(levels <= ops.BYTE, where, f"has {levels} thresholds a channel", f"at most {ops.BYTE}, for a value of 8 bits")
        if levels > 1:
            self._spend(node, onnx_graph.ROOM * thresholds.size)

            def count(v):
                return sum((v >= thresholds[:, i]).astype(np.int64) for i in range(levels)) * scale + bias
            return self._applied(x, count, where, by_channel=True)
        y = self._step(x, lambda v: v >= thresholds[:, 0], where, 0, 1, flat=True)
        return self._applied(y, lambda v: v * scale + bias, where, quiet=True)

    # Layers with weights

    def _weights(self, node, values, kind):
        require(values and isinstance(values[0], np.ndarray), node, "has no constant weights", "them after the map")
        require(values[0].ndim == kind, str(node), f"weights of {values[0].ndim} dimensions", f"{kind}")
        self._spend(node, values[0].size)
        bias = values[1].reshape(-1) if len(values) > 1 and values[1] is not None else None
        return np.asarray(values[0], np.float64), bias

    def _conv(self, node, x, values, where):
        weight, bias = self._weights(node, values, 4)
        self._channels_first(x, where)
        get = node.attributes.get
        kernel = "x".join(map(str, weight.shape[2:]))
        require(tuple(get("kernel_shape", weight.shape[2:])) == weight.shape[2:], where,
                      f"kernel_shape {get('kernel_shape')} and weights of {kernel}", "the same in both")
        strides, dilations = get("strides", [1, 1]), get("dilations", [1, 1])
        pads, automatic = get("pads", [0, 0, 0, 0]), get("auto_pad", "NOTSET")
        if automatic in ("SAME_UPPER", "SAME_LOWER") and weight.shape[2] % 2 and set(strides) == {1}:
            pads = [weight.shape[2] // 2] * 4
        elif automatic not in ("NOTSET", "VALID", ""):
            raise InputError(f"{where}: auto_pad {automatic}, expected pads")
        if set(dilations) != {1} or len(set(strides)) != 1 or len(set(pads)) != 1:
            raise InputError(f"{where}: dilations {dilations}, strides {strides}, pads {pads}, expected none, equal ones, equal ones")
        groups = get("group", 1)
        channels = x.value.shape[0] // getattr(x.value, "copies", 1)
        require(0 < groups <= len(weight) and len(weight) % groups == 0 and channels == weight.shape[1] * groups, where,
                      f"{channels} channels and weights of {'x'.join(map(str, weight.shape))} in {groups} groups",
                      "weights for all channels")
        return self._part(where, self.builder.convolution(x.value, weight, bias, where, self._hint("conv"), strides[0], pads[0], groups))

    def _gemm(self, node, x, values, where):
        weight, bias = self._weights(node, values, 2)
        get = node.attributes.get
        require(not get("transA"), where, "transposes the map", "transA=0")
        weight = (weight if get("transB") else weight.T) * get("alpha", 1.0)
        if bias is not None:
            bias = np.broadcast_to(bias * get("beta", 1.0), (len(weight),)) if bias.size in (1, len(weight)) else bias
        return self._dense(x, weight, bias, where)

    def _matmul(self, node, x, values, where):
        return self._dense(x, self._weights(node, values, 2)[0].T, None, where)

    def _dense(self, x, weight, bias, where):
        count = int(np.prod(x.value.shape))
        require(x.value.vector, where, f"reads a map of {'x'.join(map(str, x.value.shape))}", "a vector; flatten it")
        require(weight.shape[1] == count and (bias is None or bias.size == len(weight)), where,
                      f"weights of {'x'.join(map(str, weight.shape))} for {count} values", "one for each")
        if x.order is not None:
            stored, weight = weight, np.empty_like(weight)
            weight[:, x.order] = stored
        return self._part(where, self.builder.dense(x.value, weight, bias, where, self._hint("dense")))

    # Layers without weights

    @staticmethod
    def _channels_first(x, where):
        if x.last or x.value.vector:
            kind = "a vector" if x.value.vector else "a map with the channels last"
            raise InputError(f"{where}: reads {kind}, expected a map with the channels first (qonnx-to-channels-last undone)")

    def _max_pool(self, node, x, values, where):
        self._channels_first(x, where)
        get = node.attributes.get
        automatic = get("auto_pad", "NOTSET")
        odd = (get("ceil_mode") or automatic not in ("NOTSET", "VALID", "")) and any(size % 2 for size in x.value.shape[1:])
        window = [list(get(key, default)) for key, default in (("kernel_shape", []), ("strides", [1, 1]), ("pads", [0] * 4),
                                                               ("dilations", [1, 1]))]
        if window != [[2, 2], [2, 2], [0] * 4, [1, 1]] or odd:
            edge = f", {'ceil_mode' if get('ceil_mode') else f'auto_pad {automatic}'} on a map of odd size" if odd else ""
            raise InputError(f"{where}: pools {window[0]} by {window[1]} with pads {window[2]}{edge}, expected 2x2 blocks without pads")
        y = self.builder.pool(x.value, where, self._hint("pool"))
        self.builder.part(where, (y.pools[-1] if isinstance(y, fold.Sum) else y.name,))
        return Map(y)

    def _average(self, node, x, values, where):
        self._channels_first(x, where)
        get = node.attributes.get
        if node.op == "AveragePool":
            whole = tuple(get("kernel_shape", ())) == x.value.shape[1:]
            legal = whole and not any(get("pads", ())) and get("auto_pad", "NOTSET") == "NOTSET"
        elif node.op.startswith("Reduce"):
            along = onnx_values.axes(node, (node, *values))
            legal = along is not None and {axis % 4 for axis in along} == {2, 3}
        else:
            legal = True
        require(legal, where, "does not pool the whole map", "one value for each channel")
        y = self._part(where, self.builder.average(x.value, where, self._hint("gap"), total=node.op == "ReduceSum"))
        return y if get("keepdims", 1) else self._flat(y, where)

    def _flat(self, x, where):
        """A map as a vector, in the order that the file has."""
        if x.value.vector:
            return x
        channels, height, width = x.value.shape
        order = None
        if x.last and height * width > 1 and channels > 1:
            order = np.arange(channels * height * width).reshape(channels, -1).T.reshape(-1)
        return Map(self.builder.flatten(x.value, where), order=order, whole=x.whole)

    def _flatten(self, node, x, values, where):
        require(node.attributes.get("axis", 1) == 1, where, "flattens from another axis", "one vector for each image")
        return self._flat(self._shuffled(x, where), where)

    def _shuffled(self, x, where):
        """`x` with its channels in one axis, in the file's order."""
        y = replace(x, groups=0, turned=False)
        return y if not x.turned else self._part(where, self.builder.reorder(x.value, ops.Shuffle("shuffle", (), x.groups), where))

    def _reshape(self, node, x, values, where):
        require(bool(values) and isinstance(values[0], np.ndarray), where, "no constant shape", "one")
        own, count = x.sizes, int(np.prod(x.value.shape))
        sizes = [int(size) for size in np.asarray(values[0]).reshape(-1)]
        if not node.attributes.get("allowzero"):
            sizes = [(1, *own)[i] if size == 0 and i <= len(own) else size for i, size in enumerate(sizes)]
        product = int(np.prod([size for size in sizes[1:] if size > 0], dtype=object))
        if sizes.count(-1) == 1 and -1 in sizes[1:] and product and count % product == 0:
            sizes[sizes.index(-1)] = count // product
        wanted = tuple(sizes[1:])
        whole = int(np.prod(wanted, dtype=object)) == count and sizes[0] in (-1, 1, self.batch)
        if whole and wanted == own:
            return x
        if whole and wanted == (count,):
            return self._flat(self._shuffled(x, where), where)
        if whole and wanted in ((count, 1, 1), (1, 1, count)) and x.value.shape[1:] == (1, 1) and x.order is None:
            y = self._shuffled(x, where)
            return replace(y, value=replace(y.value, vector=False), last=wanted[0] != count)
        if whole and not x.last and not x.value.vector and wanted[-2:] == x.value.shape[1:]:
            if len(wanted) == 3:
                return self._shuffled(x, where)
            if len(wanted) == 4:  # a second reshape before the channels are back in one axis makes the shuffle first
                return replace(self._shuffled(x, where), groups=wanted[0])
        raise InputError(f"{where}: makes {'x'.join(map(str, sizes))} of {'x'.join(map(str, own))}, expected one vector for each image")

    def _transpose(self, node, x, values, where):
        order = list(node.attributes.get("perm", ()))
        rank = 2 if x.value.vector else 5 if x.groups else 4
        if order == list(range(rank)):
            return x
        if x.groups and order == [0, 2, 1, 3, 4]:
            return replace(x, turned=not x.turned)
        if rank == 4 and x.value.shape[1:] == (1, 1) and order[:1] == [0] and sorted(order) == [0, 1, 2, 3]:
            place = order.index(self._channel_axis(x))  # the other two have one row or column
            if place != 2:
                return replace(x, last=place == 3)
        elif rank == 4 and order == ([0, 3, 1, 2] if x.last else [0, 2, 3, 1]):
            return replace(x, last=not x.last)
        raise InputError(f"{where}: transposes by {order}, expected channels first to last or back, or the shuffle of channels")

    def _squeeze(self, node, x, values, where):
        require(x.value.shape[1:] == (1, 1), where, f"squeezes a map of {'x'.join(map(str, x.value.shape))}",
                      "a map of one pixel")
        axes = onnx_values.axes(node, (node, *values))
        channel = 3 if x.last else 1
        legal = axes is None or {axis % 4 for axis in axes} == {1, 2, 3} - {channel}
        require(legal and not x.value.vector, where, f"squeezes axes {axes}", "rows and columns")
        return Map(replace(x.value, vector=True))

    def _unsqueeze(self, node, x, values, where):
        axes = onnx_values.axes(node, (node, *values)) or []
        require(x.value.vector and x.order is None and {axis % 4 for axis in axes} == {2, 3} and x.value.shape[1:] == (1, 1), where,
                      f"adds axes {axes}", "rows and columns of a vector")
        return Map(replace(x.value, vector=False))

    def _concat(self, node, args, where):
        maps = [value for value in args if isinstance(value, Map)]
        require(len(maps) == len(args), where, "concatenates constants", "maps")
        last = maps[0].last
        rank = 2 if maps[0].value.vector else 4
        legal = (node.attributes.get("axis", 1) % rank == (rank - 1 if last else 1)
                 and all((x.last, x.value.vector, x.order is None) == (last, rank == 2, True) for x in maps))
        require(legal, where, "concatenates along another axis, or maps in different orders", "channels")
        return replace(self._part(where, self.builder.concat([x.value for x in maps], where, "concat")), last=last)

    def _pad(self, node, x, values, where):
        self._channels_first(x, where)
        mode, pads = node.attributes.get("mode", "constant"), node.attributes.get("pads", values[0] if values else None)
        value = values[1] if len(values) > 1 and values[1] is not None else node.attributes.get("value", 0.0)
        pads = [] if pads is None else [int(p) for p in np.asarray(pads).reshape(-1)]
        along = [int(a) % 4 for a in np.asarray(values[2]).reshape(-1)] if len(values) > 2 and values[2] is not None else [0, 1, 2, 3]
        own = dict(zip([*((a, 0) for a in along), *((a, 1) for a in along)], pads))
        frame = {own.get((axis, end), 0) for axis in (2, 3) for end in (0, 1)}
        legal = mode == "constant" and len(frame) == 1 and min(frame) >= 0 and not any(own.get((a, e), 0) for a in (0, 1) for e in (0, 1))
        require(legal and np.size(value) == 1 and max(frame) <= 2, where, f"pads by {pads} ({mode})", "a frame of one value")
        pixels = frame.pop()
        if not pixels:
            return x
        self.builder.part(where)
        return Map(self.builder.pad(x.value, pixels, float(np.asarray(value).reshape(-1)[0]), where))

    def _slice(self, node, x, values, where):
        starts, ends = (np.asarray(node.attributes.get(name, values[i] if len(values) > i else ())).reshape(-1)
                        for i, name in enumerate(("starts", "ends")))
        along = onnx_values.axes(node, tuple(values), 2)
        steps = np.asarray(values[3] if len(values) > 3 and values[3] is not None else 1)
        require(not x.last and x.order is None and len(starts) == len(ends) == 1 and along == [1] and (steps == 1).all(), where,
                      f"takes axes {along}", "a run of channels, axis 1")
        start, stop, _ = slice(int(starts[0]), int(ends[0])).indices(x.value.shape[0])
        return self._part_of(x, start, stop, where)

    def _part_of(self, x, start, stop, where):
        require(start < stop, where, f"takes channels {start} to {stop}", "at least one")
        return self._part(where, self.builder.reorder(x.value, ops.Slice("slice", (), start, stop), where))

    def _split(self, node, x, values, where):
        count, channels = len(node.outputs), x.value.shape[0]
        lengths = node.attributes.get("split", values[0] if values else None)
        size = -(-channels // count)
        sizes = [min(size, channels - i * size) for i in range(count)]
        if lengths is not None:
            sizes = [int(n) for n in np.asarray(lengths).reshape(-1)]
        legal = len(sizes) == count and sum(sizes) == channels and min(sizes) > 0 and node.attributes.get("axis", 0) in (1, -3)
        require(legal and not x.last and x.order is None, where, f"splits into {sizes}", "runs of channels, axis 1")
        ends = np.cumsum(sizes)
        return [self._part_of(x, int(end - size), int(end), where) for size, end in zip(sizes, ends)]


HANDLERS = {
    "Conv": _Reader._conv, "Gemm": _Reader._gemm, "MatMul": _Reader._matmul, "MaxPool": _Reader._max_pool,
    "GlobalAveragePool": _Reader._average, "AveragePool": _Reader._average, "ReduceMean": _Reader._average,
    "ReduceSum": _Reader._average, "Flatten": _Reader._flatten, "Reshape": _Reader._reshape, "Transpose": _Reader._transpose,
    "Squeeze": _Reader._squeeze, "Unsqueeze": _Reader._unsqueeze, "Concat": _Reader._concat, "Pad": _Reader._pad,
    "Slice": _Reader._slice, "Split": _Reader._split}
"""Nodes that read a map and are no function of single values."""
