"""Network -> layers of the engine.

The engine has four layers: a convolution (with or without 2x2 pooling), global pooling, a dense layer, the logits.
Concatenation and duplication cost nothing, because they only decide where a tensor lies and in which order its words are read.
"""

from dataclasses import dataclass, field

from ..ir.network import Topology
from ..ir.ops import Op

MAX_REPEAT = 8
"""Uses of a channel that a step of the program can name."""


class Irregular(Exception):
    """What the loops over taps and words cannot read, with the name of the layer; such a network gets lists of reads (`irregular`)."""


@dataclass
class Layer:
    """One run of the engine over the network's maps, and the tensor that it stores (global pooling stores two)."""

    kind: str  # "input", "conv", "lgap", "dense", "logits"; with lists of reads also "gap", "depthwise", "pool", "copy"
    name: str  # of the stored tensor: that of the last op covered; lgap stores `name`.gap and `name`.depthwise
    ops: tuple[Op, ...]  # the ops that it covers, in order
    shape: tuple[int, int, int]
    parts: tuple[str, ...] = ()  # the stored tensors that it reads, one after the other
    repeat: int = 1  # uses of every channel
    groups: int = 1
    pool: bool = False
    taps: int = 1
    cuts: set[int] = field(default_factory=set)  # channels where a word must begin, for its own groups or a reader's
    word_starts: list[int] = field(default_factory=list)  # channels behind a word with padding lanes
    macs: int = 0
    gap: str = ""  # lgap: name of the op
    depthwise: str = ""
    title: str = ""  # label of a layer without an op of its own

    @property
    def channels(self) -> int:
        return self.shape[0]

    @property
    def label(self) -> str:
        """The layer's name in reports, diagrams and config.json: its ops, such as conv2+pool1."""
        return self.title or "+".join(op.name for op in self.ops)


def owner(tensor: str) -> str:
    """Name of the layer that stores a tensor."""
    return tensor.split(".")[0]


class _Lowering:
    """The layers so far, and how each op's output is read from them."""

    def __init__(self, topology, shapes):
        self.shapes = shapes
        self.readers = {op.name: [reader for reader in topology.ops if op.name in reader.inputs] for op in topology.ops}
        self.layers: list[Layer] = []
        self.views: dict[str, tuple[tuple[str, ...], int]] = {}  # op name -> (stored tensors, uses of every channel)
        self.pooled: dict[str, Layer] = {}  # tensor that is pooled globally -> its layer

    def source(self, op):
        """(stored tensors, uses of every channel) of an op's input."""
        (name,) = op.inputs
        if name not in self.views:
            raise Irregular(f"{op.name}: reads {name}, which is not stored")
        return self.views[name]

    def store(self, layer):
        """Append a layer; later ops read its tensor by its name."""
        self.layers.append(layer)
        if layer.kind != "logits":
            self.views[layer.name] = ((layer.name,), 1)

    def convolution(self, op):
        """A convolution takes the pooling that reads it along."""
        if op.stride != 1 or op.kernel > 3 or op.padding != "same":
            raise Irregular(f"{op.name}: kernel {op.kernel}, stride {op.stride}, padding {op.padding}")
        parts, repeat = self.source(op)
        covered: tuple[Op, ...] = (op,)
        shape = self.shapes[op.name]
        readers = self.readers[op.name]
        pool = next((reader for reader in readers if reader.kind == "maxpool"), None)
        if pool:
            if len(readers) > 1:
                raise Irregular(f"{op.name}: feeds {pool.name} and another layer")
            covered, shape = (op, pool), self.shapes[pool.name]
        self.store(Layer("conv", covered[-1].name, covered, shape, parts, repeat, op.groups, bool(pool), op.kernel ** 2))

    def maxpool(self, op):
        if op.name not in self.views:  # else it is part of the convolution's layer
            raise Irregular(f"{op.name}: pools what no convolution stored")

    def global_pooling(self, op):
        """`gap` and `depthwise` of one map are one layer."""
        parts, repeat = self.source(op)
        if repeat != 1 or len(parts) != 1:
            raise Irregular(f"{op.name}: pools a duplicated or concatenated map")
        if self.pooled and parts[0] not in self.pooled:
            raise Irregular(f"{op.name}: is a second map to be pooled globally")
        layer = self.pooled.get(parts[0])
        if layer is None:
            layer = self.pooled[parts[0]] = Layer("lgap", f"pool of {parts[0]}", (), self.shapes[op.name], parts)
            self.layers.append(layer)
        if getattr(layer, op.kind):
            raise Irregular(f"{op.name}: pools {parts[0]} a second time")
        setattr(layer, op.kind, op.name)
        layer.ops += (op,)
        self.views[op.name] = ((f"{layer.name}.{op.kind}",), 1)

    def concat(self, op):
        if self.shapes[op.name][1:] != (1, 1):
            raise Irregular(f"{op.name}: concatenates maps")
        views = [self.views[name] for name in op.inputs if name in self.views]
        if len(views) != len(op.inputs) or any(repeat != 1 for _, repeat in views):
            raise Irregular(f"{op.name}: concatenates a duplicated or missing vector")
        self.views[op.name] = (sum((parts for parts, _ in views), ()), 1)

    def duplicate(self, op):
        parts, repeat = self.source(op)
        if repeat * op.times > MAX_REPEAT:
            raise Irregular(f"{op.name}: repeats every channel {repeat * op.times} times, at most {MAX_REPEAT}")
        self.views[op.name] = (parts, repeat * op.times)

    def dense(self, op):
        parts, repeat = self.source(op)
        self.store(Layer("logits" if op.logits else "dense", op.name, (op,), self.shapes[op.name], parts, repeat, op.groups))

    def add(self, op):
        match op.kind:
            case "thermometer" if op.encoder != "grey":
                self.store(Layer("input", op.name, (op,), self.shapes[op.name]))
            case "conv":
                self.convolution(op)
            case "maxpool":
                self.maxpool(op)
            case "gap" | "depthwise":
                self.global_pooling(op)
            case "concat":
                self.concat(op)
            case "duplicate":
                self.duplicate(op)
            case "dense":
                self.dense(op)
            case _:
                raise Irregular(f"{op.name}: {op.kind}")


def lower(topology: Topology) -> list[Layer]:
    """Layers in order of execution.  Raises Irregular."""
    shapes = topology.verify()
    lowering = _Lowering(topology, shapes)
    for op in topology.ops:
        lowering.add(op)
    for layer in lowering.layers:
        layer.macs = sum(op.macs(*topology.input_shapes(op, shapes)) for op in layer.ops)
    return lowering.layers
