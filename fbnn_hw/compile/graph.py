"""Topology -> sums: what each stored bit adds up, as references to other stored bits.

Every op that computes becomes a `Sum`.  An op that only names bits anew (concat, slice, shuffle, duplicate, flatten) becomes a view: a
list of the stored bits that its output consists of.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from ..base.errors import FitError
from ..ir.network import LATENT, Network, Topology
from ..ir.ops import BYTE, Conv, Op, Thermometer
from ..machine import timing
from ..machine.config import byte_words

MOST_TERMS = 2 ** 21
"""Bits that the sums of one layer may name one by one."""

MAX_REPEAT = 8
"""Uses of a channel that a step of the program can name."""

BIT = np.dtype([("tensor", int), ("channel", int), ("row", int), ("column", int)])
"""A stored bit: number of its tensor, channel, pixel."""

TERM = np.dtype([("tensor", int), ("channel", int), ("down", int), ("right", int), ("power", int)])
"""A bit that a sum adds: its pixel counts from the output's pixel, and with power i it counts 2^i."""


@dataclass(frozen=True)
class Layer:
    """One run of the engine over the network's maps."""

    kind: str  # "input", "conv", "dense", "logits"; "lgap" by loops; by lists of reads also "gap", "depthwise", "pool", "copy"
    name: str  # as a rule of the tensor that it stores
    ops: tuple[Op, ...]  # the ops that it covers, in order
    shape: tuple[int, int, int]
    parts: tuple[str, ...] = ()  # the tensors that it reads
    macs: int = 0

    @property
    def label(self) -> str:
        """The layer's name in reports, diagrams and config.json: its ops, such as conv2+pool1."""
        return self.name if self.kind == "copy" else "+".join(op.name for op in self.ops)

    @property
    def stores(self) -> tuple[str, ...]:
        """Names of the tensors that it stores."""
        if self.kind == "lgap":
            return tuple(op.name for op in sorted(self.ops, key=lambda op: op.kind != "gap"))
        return () if self.kind == "logits" else (self.name,)


@dataclass(frozen=True)
class View:
    """The output of an op: its element (c, y, x) is the stored bit bits[c] + (y, x)."""

    bits: np.ndarray  # BIT (channels,)
    shape: tuple[int, int, int]
    parts: tuple[str, ...]  # where `Graph.unlooped` is "": it consists of these tensors, one after the other
    repeat: int = 1  # and of so many copies of every channel
    bytes: bool = False  # each element is a byte: several stored bits, see `Image.code`


@dataclass(frozen=True)
class Image:
    """How the encoded image, tensor 0, is stored."""

    code: tuple[tuple[int, int, int], ...]
    """For each stored bit of a byte: its channel for colour 0 of the leftmost pixel, the distance to its channel for the next colour,
    its power."""
    channels: int = 0  # that are stored
    quarters: bool = False  # as four images, of the even and odd rows and columns
    packed: bool = False  # of one bit a pixel: as a vector
    word_pixels: int = 1  # of bytes: pixels that a word has bits of, see `word_pixels`

    def terms(self, view: View, elements: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """TERM array of the bits of elements of a view, each at an offset, int (.., 2), in pixels."""
        bits = view.bits[elements]
        terms = np.zeros(len(elements), TERM)
        terms["tensor"], terms["channel"] = bits["tensor"], bits["channel"]
        terms["down"], terms["right"] = bits["row"] + offsets[:, 0], bits["column"] + offsets[:, 1]
        if view.bytes:
            # A word has its own pixel and those to the left of it.
            place = terms["right"] % self.word_pixels
            terms["right"] += self.word_pixels - 1 - place
            terms["channel"] += 3 * place
            channel, step, power = (np.tile(part, len(elements)) for part in zip(*self.code))
            terms = terms.repeat(len(self.code))
            terms["power"] = power
            terms["channel"] = channel + terms["channel"] * step
        if self.quarters and len(bits) and not bits["tensor"][0]:
            quarter = terms["down"] % 2 * 2 + terms["right"] % 2
            terms["channel"] += quarter * (self.channels // 4)
            terms["down"] //= 2
            terms["right"] //= 2
        return terms


@dataclass(frozen=True, eq=False)
class Group:
    """Outputs that add up the same bits, each with weights of its own."""

    outputs: np.ndarray  # int (O,): channels of the sum's tensor
    terms: np.ndarray  # TERM (T,)
    source: np.ndarray  # int (T,): place of each term's weight among the weights of an output
    outside: np.ndarray  # int (U,): places of the weights whose pixel is outside the map wherever the output lies

    @cached_property
    def fan_in(self) -> int:
        return int((1 << self.terms["power"]).sum())


@dataclass(frozen=True, eq=False)
class Sum:
    """The bits of one stored tensor: each of `count` groups of outputs reads its share of a view's channels, at some offsets.

    The engine computes a map of `computed` pixels.  `keep` names the bits that it stores: all of them
    ("all"), the OR of each 2 x 2 ("or"), or the first of each 2 x 2 ("first").  With `spread`, no two
    outputs read the same bit.
    """

    layer: Layer
    number: int  # of its tensor; -1 for the logits
    image: Image
    view: View
    count: int
    offsets: np.ndarray  # int (taps, 2), pixels
    computed: tuple[int, int]
    source: tuple[int, int]  # size of the maps that it reads; pixels outside are -1
    reach: tuple[int, int]  # pixels of the view over which its outputs lie
    keep: str = "all"
    spread: bool = False
    ones: bool = False  # all weights are +1

    @property
    def op(self) -> Op:
        """The op whose weights and thresholds the sum uses."""
        return self.layer.ops[0]

    @property
    def vector(self) -> bool:
        """Whether it has one pixel."""
        return self.computed == (1, 1)

    @property
    def fan_in(self) -> int:
        """Products that an output adds up."""
        return self.view.shape[0] // self.count * len(self.offsets)

    @property
    def scale(self) -> int:
        """The largest value of what it reads."""
        return BYTE if self.view.bytes else 1

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """Raises FitError where they name too many bits."""
        channels, height, width = self.view.shape
        if self.layer.kind in ("gap", "depthwise") and (bits := math.prod(self.view.shape)) > MOST_TERMS:
            raise FitError(f"layer {self.op.name}: sums {bits:,} bits in lists of reads, expected at most {MOST_TERMS:,}")
        inside = np.ones(len(self.offsets), bool)
        for axis, (size, pixels) in enumerate(zip((height, width), self.reach)):
            inside &= (self.offsets[:, axis] < size) & (self.offsets[:, axis] + pixels > 0)
        taps = self.offsets[inside]
        elements = np.arange(channels).repeat(len(taps))
        terms = self.image.terms(self.view, elements, np.tile(taps, (channels, 1))).reshape(self.count, -1)
        outputs = np.arange(self.layer.shape[0]).reshape(self.count, -1)
        source = np.arange(channels // self.count * len(inside)).reshape(-1, len(inside))
        own = source[:, inside].reshape(-1).repeat(len(self.image.code) if self.view.bytes else 1)
        return tuple(Group(outputs[g], terms[g], own, source[:, ~inside].reshape(-1)) for g in range(self.count))

    def weights(self, network: Network, group: Group) -> np.ndarray:
        """uint8 (outputs, terms): the weight of each term."""
        return self._all_weights(network, group)[:, group.source]

    def thresholds(self, network: Network, group: Group) -> np.ndarray:
        """Thresholds of a group's outputs, int64 (outputs,).

        An output is 1 iff its terms sum to at least its threshold.  A weight whose pixel always lies
        outside the map is not among the terms; the threshold includes it.  For the logits the value is the
        number to be added, negated.
        """
        constant = -(2 * self._all_weights(network, group)[:, group.outside].astype(np.int64) - 1).sum(1) * self.scale
        own: Any = 0
        if self.number >= 0 and self.layer.kind not in ("pool", "copy"):
            own = network.threshold(self.op.name)[group.outputs]
        return own - constant

    def _all_weights(self, network, group):
        if self.ones:
            return np.ones((len(group.outputs), len(group.source) + len(group.outside)), np.uint8)
        return network.weights[self.op.name][group.outputs].reshape(len(group.outputs), -1)


@dataclass(eq=False)
class Graph:
    """Sums in the order of execution, and the tensors by number: the encoded image, then the outputs of sums."""

    input: Layer
    image: Image
    tensors: list[tuple[str, tuple[int, int, int]]]  # (name, shape)
    sums: list[Sum] = field(default_factory=list)
    classifier: Sum | None = None  # the logits, where a learner computes them
    unlooped: str = ""  # why no loops over taps and words can read it, with the name of an op; "": they can, as far as the ops say

    @property
    def layers(self) -> tuple[Layer, ...]:
        """A layer for each sum, the input and the classifier."""
        return self.input, *(each.layer for each in [*self.sums, *([self.classifier] if self.classifier else [])])


class _Builder:
    def __init__(self, topology: Topology, lanes: int, gathered: Collection[str], learns: bool, word_pixels: int):
        self.topology, self.gathered, self.learns = topology, gathered, learns
        self.shapes = topology.verify()
        self.readers = {op.name: [reader for reader in topology.ops if op.name in reader.inputs] for op in topology.ops}
        self.views: dict[str, View] = {}
        self.covered: set[str] = set()  # poolings that are part of a convolution's layer
        first = topology.ops[0]
        shape, readers = self.shapes[first.name], self.readers[first.name]
        code, channel = [], 0
        for word in byte_words(lanes, word_pixels):
            code += [(channel + place, len(word), word[-1]) for place in range(len(word))]
            channel += 3 * word_pixels * len(word)
        quarters = shape[1] % 2 == 0 and bool(readers) and all(getattr(op, "stride", 1) == 2 for op in readers)
        packed = first.kind == "binarize" and bool(readers) and all(op.kind == "flatten" for op in readers)
        stored = (3 * word_pixels * len(code) if first.kind == "bits8" else shape[0], *shape[1:])
        if quarters:
            stored = (4 * stored[0], stored[1] // 2, stored[2] // 2)
        if packed:
            stored = (shape[1] * shape[2], 1, 1)
        image = Image(tuple(code), stored[0], quarters, packed, word_pixels)
        self.graph = Graph(Layer("input", first.name, (first,), shape), image, [(first.name, stored)])
        self.views[first.name] = View(_own(0, shape[0]), shape, (first.name,), bytes=first.kind == "bits8")
        if not isinstance(first, Thermometer) or first.encoder == "grey":
            self._needs_lists(f"{first.name}: {first.kind}")

    def build(self) -> Graph:
        for op in self.topology.ops[1:]:
            if op.name not in self.covered:
                getattr(self, f"_{op.kind}")(op)
            if op.name in self.gathered:
                self.views[op.name] = self._copy(f"{op.name}.copy", op, self.views[op.name])
            if self.learns and op.name == LATENT and op.name in self.views:
                if op.kind not in ("dense", "conv", "maxpool"):
                    self._needs_lists(f"{op.name}: {op.kind} before a learner")
                if all(name != LATENT for name, _ in self.graph.tensors):
                    self.views[op.name] = self._copy(LATENT, op, self.views[op.name])
        return self.graph

    def _needs_lists(self, why):
        self.graph.unlooped = self.graph.unlooped or why

    def _view(self, op):
        return self.views[op.inputs[0]]

    # Views.

    def _concat(self, op):
        views, shape = [self.views[name] for name in op.inputs], self.shapes[op.name]
        if shape[1:] != (1, 1):
            self._needs_lists(f"{op.name}: concatenates maps")
        if any(view.repeat != 1 for view in views):
            self._needs_lists(f"{op.name}: concatenates a duplicated vector")
        self.views[op.name] = View(np.concatenate([view.bits for view in views]), shape, sum((view.parts for view in views), ()))

    def _slice(self, op):
        self._needs_lists(f"{op.name}: {op.kind}")
        channels = np.arange(self._view(op).shape[0])
        order = channels[op.start:op.stop] if op.kind == "slice" else channels.reshape(op.groups, -1).T.reshape(-1)
        self.views[op.name] = View(self._view(op).bits[order], self.shapes[op.name], ())

    _shuffle = _slice

    def _duplicate(self, op):
        view = self._view(op)
        repeat = view.repeat * op.times
        if repeat > MAX_REPEAT:
            self._needs_lists(f"{op.name}: repeats every channel {repeat} times, at most {MAX_REPEAT}")
        self.views[op.name] = View(view.bits.repeat(op.times), self.shapes[op.name], view.parts, repeat)

    def _flatten(self, op):
        self._needs_lists(f"{op.name}: {op.kind}")
        view = self._view(op)
        channels, height, width = view.shape
        if self.graph.image.packed and not view.bits["tensor"][0]:
            bits = _own(0, height * width)
        else:
            channel, row, column = np.indices((channels, height, width)).reshape(3, -1)
            bits = view.bits[channel]
            bits["row"] += row
            bits["column"] += column
        self.views[op.name] = View(bits, self.shapes[op.name], (), bytes=view.bytes)

    # Sums.

    def _sum(self, kind, ops, shape, view, *, name="", number=-1, count=1, offsets=((0, 0),), source=(1, 1), computed=(1, 1), reach=None,
             **options):
        """A `Sum` that stores no tensor."""
        numbers = view.bits["tensor"]
        places = np.unique(numbers, return_index=True)[1]
        parts = tuple(self.graph.tensors[number][0] for number in numbers[np.sort(places)])
        macs = 0 if kind == "copy" else sum(op.macs(*self.topology.input_shapes(op)) for op in ops)
        layer = Layer(kind, name or ops[-1].name, tuple(ops), shape, parts, macs)
        return Sum(layer, number, self.graph.image, view, count, np.array(offsets), computed, source, reach or computed, **options)

    def _store(self, kind, ops, shape, view, **options):
        """Append a sum and its tensor; return the view of that."""
        number = len(self.graph.tensors)
        self.graph.sums.append(self._sum(kind, ops, shape, view, number=number, **options))
        name = self.graph.sums[-1].layer.name
        self.graph.tensors.append((name, shape))
        self.views[name] = View(_own(number, shape[0]), shape, (name,))
        return self.views[name]

    def _conv(self, op):
        view, shape = self._view(op), self.shapes[op.name]
        source, keep, ops, computed = view.shape[1:], "all", [op], shape[1:]
        quarters = self.graph.image.quarters and not view.bits["tensor"][0]
        readers = self.readers[op.name]
        pool = next((reader for reader in readers if reader.kind == "maxpool"), None)
        if op.stride != 1 or op.kernel > 3 or op.padding != "same":
            self._needs_lists(f"{op.name}: kernel {op.kernel}, stride {op.stride}, padding {op.padding}")
        if pool and len(readers) > 1:
            self._needs_lists(f"{op.name}: feeds {pool.name} and another layer")
        if quarters:
            source = (source[0] // 2, source[1] // 2)
        elif op.stride == 2 and shape[1:] != (1, 1):
            keep, computed = "first", (2 * shape[1], 2 * shape[2])
        elif pool and len(readers) == 1:
            ops.append(pool)
            self.covered.add(pool.name)
            shape = self.shapes[pool.name]
            keep, computed = "or", (2 * shape[1], 2 * shape[2])
        offsets = np.indices((op.kernel, op.kernel)).reshape(2, -1).T - op.frame
        reach = (2 * computed[0] - 1, 2 * computed[1] - 1) if quarters else computed  # an output is two pixels of the image apart
        self._store("conv", ops, shape, view, count=op.groups, offsets=offsets, source=source, computed=computed, reach=reach, keep=keep)

    def _dense(self, op):
        view, shape = self._view(op), self.shapes[op.name]
        if not op.logits:
            self._store("dense", [op], shape, view, count=op.groups)
        elif self.learns:
            self.graph.classifier = self._sum("logits", [op], shape, view)
        else:
            self.graph.sums.append(self._sum("logits", [op], shape, self._whole(op, view)))

    def _whole(self, op, view):
        """Return the view that the logits read, which consists of whole tensors.

        The bits are copied to a tensor of their own where the logits read a part of a tensor, or some of
        its bits more often than others.
        """
        if view.bytes:
            return view
        for number in np.unique(view.bits["tensor"]):
            uses = np.zeros(self.graph.tensors[number][1], int)
            own = view.bits[view.bits["tensor"] == number]
            np.add.at(uses, (own["channel"], own["row"], own["column"]), 1)
            if not (uses == uses[:1]).all():
                return self._copy(f"{op.name}.copy", op, view)
        return view

    def _copy(self, name, op, view):
        """A stored tensor of the bits of a view."""
        pixels = view.shape[1:]
        self._needs_lists(f"{op.name}: is copied")
        return self._store("copy", [op], view.shape, view, name=name, count=view.shape[0], source=pixels, computed=pixels,
                           spread=pixels == (1, 1), ones=True)

    def _maxpool(self, op):
        view, shape = self._view(op), self.shapes[op.name]
        self._needs_lists(f"{op.name}: pools what no convolution stored")
        self._store("pool", [op], shape, view, count=shape[0], source=view.shape[1:], computed=(2 * shape[1], 2 * shape[2]), keep="or",
                    spread=True, ones=True)

    def _gap(self, op):
        """A sum over all pixels of a map, for each channel."""
        view = self._view(op)
        if view.repeat != 1 or len(view.parts) != 1:
            self._needs_lists(f"{op.name}: pools a duplicated or concatenated map")
        for other in (each for each in self.graph.sums if each.layer.kind in ("gap", "depthwise")):
            if other.view.parts != view.parts:
                self._needs_lists(f"{op.name}: is a second map to be pooled globally")
            if other.op.kind == op.kind:
                self._needs_lists(f"{op.name}: pools {op.inputs[0]} a second time")
        offsets = np.indices(view.shape[1:]).reshape(2, -1).T
        self._store(op.kind, [op], self.shapes[op.name], view, count=view.shape[0], offsets=offsets, spread=True, ones=op.kind == "gap")

    _depthwise = _gap


def _own(number, channels):
    """The bits of a whole tensor."""
    bits = np.zeros(channels, BIT)
    bits["tensor"], bits["channel"] = number, np.arange(channels)
    return bits


def build(topology: Topology, lanes: int, gathered: frozenset[str] = frozenset(), learns: bool = False, word_pixels: int = 1) -> Graph:
    """The sums of a legal topology, for words of `lanes` lanes.  Raises InputError where it is not legal.

    gathered: names of ops whose output is copied to a tensor of its own; each is a concat, slice or
    shuffle of maps.  learns: a learner computes the logits, so they are no sum.  word_pixels: one of those of `word_pixels`.
    """
    return _built(topology, lanes, gathered, learns, word_pixels)


@lru_cache(maxsize=16)
def _built(*options):
    """The graph of all options of `build`, one of each, however they were given."""
    return _Builder(*options).build()


def word_pixels(topology: Topology, lanes: int) -> tuple[int, ...]:
    """The numbers of pixels that a word of the encoded image may have bits of: 1 and, of bytes, those that may take fewer reads.

    A read of a word of n pixels takes n taps of a row of a convolution's kernel.  A word has the pixels to the left of its own, so the
    convolution has no padding, and all of the words are read if its kernel is a multiple of n.  With 16 lanes a word
    would have one bit of each byte, which saves less: FINN's CNV then takes 93 cells more, and does not fit an iCE40UP5K with a fast flash.
    """
    first = topology.ops[0]
    readers = [op for op in topology.ops if first.name in op.inputs]
    convolutions = [op for op in readers if isinstance(op, Conv) and not op.frame and op.stride == 1]
    if first.kind != "bits8" or not timing.large(lanes) or not readers or len(convolutions) < len(readers):
        return (1,)
    across = math.gcd(*(op.kernel for op in convolutions))
    return tuple(n for n in range(1, across + 1) if across % n == 0 and 3 * n <= lanes)


def scattered(graph: Graph) -> tuple[str, ...]:
    """Names of ops whose output is worth copying before a convolution reads it: its bits come from many tensors."""
    return tuple(dict.fromkeys(layer.op.inputs[0] for layer in graph.sums if layer.layer.kind == "conv"
                               and len(layer.layer.parts) > 2 and getattr(layer.op, "kernel", 1) > 1))
