"""An ONNX file as plain nodes and arrays.  The package onnx parses it; no node is run, and no second file is opened."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..base import files
from ..base.errors import InputError, at, show

DOMAINS = ("", "ai.onnx", "qonnx.custom_op.general", "finn.custom_op.general", "onnx.brevitas")
"""Sets of operators whose names say what a node does: ONNX's own, and that of QONNX under the three names it has had."""

MAX_BYTES = 2 ** 27
MAX_NODES = 10_000
MAX_VALUES = 2 ** 26
MAX_LISTED = 2 ** 20
"""Above what the largest legal network needs: numbers in tensors, and those that attributes list."""

LEAST_ROOM, ROOM = 2 ** 22, 8
"""Numbers that a network computes with while it is read: LEAST_ROOM, or ROOM for each number of the file where these are more."""


@dataclass(frozen=True)
class Node:
    """A node.  inputs, outputs: names of values, "" where an optional input is left out."""

    name: str
    op: str  # the operator, with its domain before it where that is none of DOMAINS
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]  # numbers, text, lists and arrays

    def __str__(self):
        name = _printable(self.name or (self.outputs[0] if self.outputs else ""))
        return name if self.op.lower() in name.lower() else f"{_printable(self.op)} {name}".rstrip()


@dataclass(frozen=True)
class Graph:
    """The graph of a file."""

    nodes: tuple[Node, ...]
    constants: dict[str, np.ndarray]
    input: str
    type: str  # of the input's numbers, as onnx calls it, such as FLOAT
    shape: tuple[int | None, ...]  # of the input, None for a size that the file leaves open
    output: str
    producer: str  # the program that wrote the file, or ""
    opset: int  # the version of ONNX's operators


def read(path: Path) -> Graph:
    """The graph of a file.  Raises InputError for a file that is none, that keeps weights elsewhere, or has several inputs or outputs."""
    import onnx
    from google.protobuf.message import DecodeError

    data = files.read(path, MAX_BYTES, "an ONNX file")
    try:
        with at(path):
            return _graph(onnx.ModelProto.FromString(data))
    except (DecodeError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise InputError(f"{path}: is a damaged ONNX file ({show(str(error))[1:-1]}), expected one that onnx.checker accepts") from None


def _graph(model):
    graph = model.graph
    if not graph.node:
        raise InputError("has no nodes, expected an ONNX file with a network")
    if len(graph.node) > MAX_NODES:
        raise InputError(f"{len(graph.node)} nodes, expected at most {MAX_NODES}")
    if graph.sparse_initializer:
        raise InputError("has sparse weights, expected plain ones")
    _check_counts(graph)
    constants = {tensor.name: _array(tensor) for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in constants]
    for kind, values in (("inputs", inputs), ("outputs", graph.output)):
        if len(values) != 1:
            names = ", ".join(_printable(value.name) for value in values[:3]) or "none"
            raise InputError(f"{len(values)} {kind} ({names}), expected one")
    tensor = inputs[0].type.tensor_type
    sizes = tensor.shape.dim
    shape = tuple(size.dim_value if size.HasField("dim_value") else None for size in sizes)
    nodes = tuple(Node(node.name, node.op_type if node.domain in DOMAINS else f"{node.domain}.{node.op_type}", tuple(node.input),
                       tuple(node.output), {a.name: _attribute(a) for a in node.attribute}) for node in graph.node)
    opset = max((own.version for own in model.opset_import if own.domain in ("", "ai.onnx")), default=1)
    producer = _printable(f"{model.producer_name} {model.producer_version}".strip())
    return Graph(nodes, constants, inputs[0].name, type_name(tensor.elem_type), shape, graph.output[0].name, producer, opset)


def _check_counts(graph):
    """Raises InputError where the graph has more numbers than there is room for, before they become arrays of 64 bits."""
    import onnx

    attributes = [attribute for node in graph.node for attribute in node.attribute]
    tensors = [*graph.initializer, *(a.t for a in attributes if a.type == onnx.AttributeProto.TENSOR)]
    count = sum(math.prod(max(0, size) for size in tensor.dims) for tensor in tensors)
    listed = sum(len(a.floats) + len(a.ints) + len(a.strings) for a in attributes)
    for number, most, place in ((count, MAX_VALUES, "in its tensors"), (listed, MAX_LISTED, "in lists of attributes")):
        if number > most:
            raise InputError(f"{show(number)} numbers {place}, expected at most {most}")


def _attribute(attribute):
    import onnx

    if attribute.type == onnx.AttributeProto.TENSOR:
        return _array(attribute.t)
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, (int, float)) else list(value) if not hasattr(value, "DESCRIPTOR") else None


def held(integers: np.ndarray) -> np.ndarray:
    """Integers as they are computed with: int64 for those of 32 and 64 bits; those of fewer, and unsigned ones, keep their type, in which
    sums wrap."""
    return integers.astype(np.int64) if integers.dtype in (np.bool_, np.int32, np.int64) else integers


def _array(tensor):
    """Array of a tensor of the file: float64, or integers as `held` has them."""
    import onnx

    if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data:
        raise InputError(f"the values of {_printable(tensor.name)} lie in another file, expected all in one; "
                         "onnx.save(onnx.load(FILE), NEW) puts them there")
    try:
        array = onnx.numpy_helper.to_array(tensor)
    except Exception as error:  # KeyError, ValueError, TypeError and others, by the kind of damage
        raise InputError(f"the values of {_printable(tensor.name)} are damaged ({show(str(error))[1:-1]}), expected a tensor") from None
    if array.dtype.kind in "iub":
        return held(array)
    try:
        return array.astype(np.float64)
    except (ValueError, TypeError):
        raise InputError(f"the values of {_printable(tensor.name)} are {array.dtype}, expected numbers") from None


def type_name(number: Any) -> str:
    """What onnx calls a type of numbers, such as FLOAT."""
    import onnx

    return next((name for name, own in onnx.TensorProto.DataType.items() if own == number), str(number))


def _printable(text):
    return "".join(c if c.isprintable() else "?" for c in text[:100])
