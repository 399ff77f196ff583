"""A network: ops in execution order, their binary weights and thresholds, the class names."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import LONGEST_NAME, InputError, is_name, require, show
from . import ops as op

MAX_LAYERS = 1000
MAX_CHANNELS = 2 ** 16
MAX_WEIGHT_BITS = 2 ** 28
"""Limits of a legal network, ten times the largest of the paper.  They keep every dot product below 2^24, where float32 is
exact, and bound the memory that a file can ask for."""

Shape = op.Shape

LATENT = "latent"
"""Name of the op whose output is the latent: the feature extractor ends with it, and the classifier reads it."""


@dataclass(frozen=True)
class Topology:
    """Ops and class names, without weights.  Shapes follow from the ops.

    A network that is to be taught may have no class; its layer of the logits has one output then, which nothing reads.

    Raises InputError, in `verify`, naming the first layer that is not legal.
    """

    name: str
    ops: tuple[op.Op, ...]
    classes: tuple[str, ...]

    def verify(self) -> dict[str, Shape]:
        """Check names, order, arities, shapes, sizes and the two ends; returns {op name: output shape}."""
        require(isinstance(self.name, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", self.name), "name",
                f"found {show(self.name)}", "1 to 64 letters, digits, '.', '_' and '-', a letter or digit first")
        require(len(self.ops) <= MAX_LAYERS, f"model {self.name}", f"{len(self.ops)} layers", f"at most {MAX_LAYERS}")
        require(self.ops and isinstance(self.ops[0], op.Input), f"model {self.name}",
                f"first layer is {self.ops[0].kind if self.ops else 'missing'}", f"{', '.join(op.INPUTS[:-1])} or {op.INPUTS[-1]}")
        shapes: dict[str, Shape] = {}
        ends, weight_bits, byte_maps = set(), 0, self.byte_maps()
        for layer in self.ops:
            require(layer.name not in shapes, f"layer {layer.name}", "name is used twice", "unique names")
            if len(layer.inputs) != layer.arity and not (layer.kind == "concat" and len(layer.inputs) > 2):
                raise InputError(f"layer {layer.name}: has {len(layer.inputs)} inputs, expected {layer.arity}"
                                 + " or more" * (layer.kind == "concat"))
            for name in layer.inputs:
                if name not in shapes:
                    raise InputError(f"layer {layer.name}: input {show(name)} is not an earlier layer")
                require(name not in ends, f"layer {layer.name}", f"input {name!r} gives logits", "bits")
            inputs = [shapes[i] for i in layer.inputs]
            shapes[layer.name] = layer.output_shape(*inputs)
            if byte_inputs := [name for name in layer.inputs if name in byte_maps]:
                _check_reader_of_bytes(layer, byte_inputs[0], inputs)
            if getattr(layer, "logits", False):
                ends.add(layer.name)
            if shapes[layer.name][0] > MAX_CHANNELS:
                raise InputError(f"layer {layer.name}: {shapes[layer.name][0]} channels, expected at most {MAX_CHANNELS}")
            weight_bits += math.prod(layer.weight_shape(*inputs) or (0,))
            if weight_bits > MAX_WEIGHT_BITS:
                raise InputError(f"layer {layer.name}: {weight_bits} weight bits up to here, expected at most {MAX_WEIGHT_BITS}")
        last = self.ops[-1]
        require(getattr(last, "logits", False), f"layer {last.name}", f"last layer is {last.kind}", "a dense layer with logits=True")
        if shapes[last.name][0] != (outputs := len(self.classes) or 1):
            raise InputError(f"layer {last.name}: {shapes[last.name][0]} outputs, expected {outputs}, one for each class name")
        if "logits" in shapes and last.name != "logits":
            raise InputError("layer logits: is not the last one, expected another name")  # reports and dumps mean the last by it
        if sum(isinstance(o, op.Input) for o in self.ops) != 1:
            raise InputError(f"model {self.name}: more than one of {', '.join(op.INPUTS)}, expected one input")
        seen = set()
        for index, name in enumerate(self.classes):
            require(is_name(name), f"classes[{index}]", f"found {show(name)}",
                    f"a name of 1 to {LONGEST_NAME} printable characters, not all of them blank")
            require(name not in seen, f"classes[{index}]", f"{show(name)} is there twice", "unique names")
            seen.add(name)
        return shapes

    def __getitem__(self, name: str) -> Any:
        """The op of that name; KeyError if there is none."""
        for layer in self.ops:
            if layer.name == name:
                return layer
        raise KeyError(name)

    def __contains__(self, name: str) -> bool:
        return any(o.name == name for o in self.ops)

    @property
    def head(self) -> tuple[Any, ...]:
        """The ops after the latent, which classify it; none where no op is the latent."""
        names = [layer.name for layer in self.ops]
        return self.ops[names.index(LATENT) + 1:] if LATENT in names else ()

    @cached_property
    def shapes(self) -> Mapping[str, Shape]:
        """{op name: output shape}, of a topology that is legal; raises as `verify`."""
        return self.verify()

    def input_shapes(self, layer: op.Op) -> list[Shape]:
        """Shapes of the inputs of an op."""
        return [self.shapes[i] for i in layer.inputs]

    @property
    def image_size(self) -> int:
        """Pixels a side of an image."""
        return self.ops[0].size  # type: ignore[attr-defined]

    def largest_map(self) -> tuple[str, int]:
        """(name, values of an image) of the op that gives the largest map."""
        return max(((name, math.prod(shape)) for name, shape in self.shapes.items()), key=itemgetter(1))

    def byte_maps(self) -> set[str]:
        """Return the names of the ops whose outputs are bytes, where u stands for 2 u - 255.

        The outputs of all other ops are bits.
        """
        names: set[str] = set()
        for layer in self.ops:
            if layer.kind == "bits8" or (layer.kind == "flatten" and not names.isdisjoint(layer.inputs)):
                names.add(layer.name)
        return names

    def largest_sum(self, layer: op.Op) -> int:
        """The largest magnitude of the sums that `layer` compares with thresholds or gives as logits."""
        inputs = self.input_shapes(layer)
        count = layer.fan_in(*inputs)
        if count is None:  # gap: the sum over the map
            count = math.prod(inputs[0][1:])
        return count * (1 if self.byte_maps().isdisjoint(layer.inputs) else op.BYTE)

    def version(self) -> int:
        """The lowest version of the format that has all that the topology, a legal one, uses."""
        return 2 if self.beyond_version_1() else 1

    def beyond_version_1(self) -> str:
        """The first layer that version 1 of the format does not have, and what it lacks, as a message; "" where there is none."""
        for layer in self.ops:
            if feature := layer.beyond_version_1(*self.input_shapes(layer)):
                return f"layer {layer.name}: {feature} needs version 2 of the format"
        return ""

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """{op name: weight shape}, in execution order, for the ops that have weights."""
        weights = {o.name: o.weight_shape(*self.input_shapes(o)) for o in self.ops}
        return {name: shape for name, shape in weights.items() if shape is not None}

    def threshold_shape(self, name: str) -> tuple[int, ...] | None:
        """(channels,) for the ops that may have per-channel thresholds; None for the others."""
        layer = self[name]
        if layer.kind in ("conv", "depthwise", "gap") or (layer.kind == "dense" and not layer.logits):
            return (self.shapes[name][0],)
        return None

    def weight_bits(self) -> int:
        """Bits of all weights."""
        return sum(map(math.prod, self.weight_shapes().values()))

    def macs(self) -> int:
        """Multiply-accumulates an image."""
        return sum(o.macs(*self.input_shapes(o)) for o in self.ops)

    def table(self) -> list[dict[str, Any]]:
        """A dict of plain values for each layer, in execution order; None where a layer has no such value."""
        rows = []
        for layer in self.ops:
            inputs = self.input_shapes(layer)
            weights = layer.weight_shape(*inputs)
            rows.append({
                "name": layer.name, "kind": layer.kind, "inputs": list(layer.inputs), "shape": list(self.shapes[layer.name]),
                "weights": list(weights) if weights else None, "groups": getattr(layer, "groups", None),
                "weight_bits": math.prod(weights) if weights else 0, "fan_in": layer.fan_in(*inputs), "macs": layer.macs(*inputs)})
        return rows


def _check_reader_of_bytes(layer: op.Op, name: str, shapes: list[Shape]) -> None:
    """Raises InputError where `layer` cannot read its input `name`, which is bytes.  shapes: of all its inputs."""
    if not layer.reads_bytes:
        readers = [kind for kind, cls in op.KINDS.items() if cls.reads_bytes]
        raise InputError(f"layer {layer.name}: input {name!r} gives bytes, which {layer.kind} does not read; expected "
                         f"{', '.join(readers[:-1])} or {readers[-1]}")
    groups = getattr(layer, "groups", 1)
    require(groups == 1, f"layer {layer.name}", f"groups is {groups}", "1 where the input is bytes")
    fan_in = layer.fan_in(*shapes) or 0
    require(fan_in <= op.MAX_BYTES_IN, f"layer {layer.name}", f"{fan_in} bytes summed into an output", f"at most {op.MAX_BYTES_IN}")


@dataclass(frozen=True)
class Network:
    """A topology with weights.

    weights: {op name: uint8 array of 0 / 1, shape as `Topology.weight_shapes`}
    thresholds: {op name: int array (channels,)}; an output bit is 1 iff dot >= threshold; a missing name means all 0
    training: record of the training that made it; plain values only
    source: path of the file that it was read from, or None
    """

    topology: Topology
    weights: dict[str, np.ndarray]
    thresholds: dict[str, np.ndarray] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    source: Path | None = field(default=None, compare=False)

    def extractor(self, name: str, classes: bool = True) -> "Network":
        """Return the network up to layer `name`, a vector: the layers that its bits depend on.

        A classifier whose weights are all 0 takes the place of the others, since a network ends in logits.  classes False: the network
        has no class.
        """
        topology = self.topology
        needed, last = {name}, topology.ops[-1]
        assert isinstance(last, op.Dense)  # what `verify` demands
        for layer in reversed(topology.ops):
            if layer.name in needed:
                needed.update(layer.inputs)
        layers = tuple(layer for layer in topology.ops if layer.name in needed)
        names = topology.classes if classes else ()
        logits = replace(last, inputs=(name,), groups=1, out_channels=len(names) or 1)
        weights = {layer.name: self.weights[layer.name] for layer in layers if layer.name in self.weights}
        weights[last.name] = np.zeros((len(names) or 1, topology.shapes[name][0]), np.uint8)
        return replace(self, topology=replace(topology, ops=(*layers, logits), classes=names), weights=weights,
                       thresholds={key: value for key, value in self.thresholds.items() if key in needed})

    def verify(self) -> dict[str, Shape]:
        """Check everything `Topology.verify` checks, and each array's shape and values; returns the shapes."""
        shapes = self.topology.verify()
        expected = self.topology.weight_shapes()
        for name, shape in expected.items():
            require(name in self.weights, f"weights.{name}", "missing", f"shape {shape}")
            array = self.weights[name]
            if array.shape != shape or array.dtype != np.uint8:
                raise InputError(f"weights.{name}: found {array.dtype} {array.shape}, expected uint8 {shape}")
            if array.size and array.max() > 1:
                raise InputError(f"weights.{name}: found the value {array.max()}, expected 0 and 1 alone")
        for name in self.weights:
            require(name in expected, f"weights.{name}", "no layer of that name has weights", f"{', '.join(expected)}")
        for name, array in self.thresholds.items():
            own_shape = self.topology.threshold_shape(name) if name in self.topology else None
            if own_shape is None:
                raise InputError(f"thresholds.{name}: no layer of that name takes thresholds")
            if array.shape != own_shape or not np.issubdtype(array.dtype, np.integer):
                raise InputError(f"thresholds.{name}: found {array.dtype} {array.shape}, expected integers {own_shape}")
            layer = self.topology[name]
            limit = self.topology.largest_sum(layer)
            fan_in = "255 * fan-in" if not self.topology.byte_maps().isdisjoint(layer.inputs) else "fan-in"
            for value in (int(array.min()), int(array.max())):
                require(abs(value) <= limit + 1, f"thresholds.{name}", f"found {value}", f"at most {fan_in} + 1 = {limit + 1} either way")
        return shapes

    def table(self) -> list[dict[str, Any]]:
        """`Topology.table`, and whether a layer has thresholds."""
        return [{**row, "thresholds": row["name"] in self.thresholds} for row in self.topology.table()]

    def threshold(self, name: str) -> np.ndarray:
        """int64 array (channels,) of the op's thresholds."""
        thresholds = self.thresholds.get(name)
        return np.zeros(self.topology.shapes[name][0], np.int64) if thresholds is None else thresholds.astype(np.int64)

    def bits(self) -> int:
        """Bits of the model: its weights, and its thresholds at the width that their range needs."""
        total = self.topology.weight_bits()
        for array in self.thresholds.values():
            total += array.size * (int(np.abs(array).max()).bit_length() + 1)
        return total
