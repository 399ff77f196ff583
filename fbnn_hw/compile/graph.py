"""Topology -> sums: what each stored bit adds up, as references to other stored bits.

Every op that computes becomes a `Sum`.  An op that only names bits anew (concat, slice, shuffle, duplicate, flatten) becomes a view: a
list of the stored bits that its output consists of.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from ..base.errors import FitError
from ..ir.network import LATENT, Network, Topology
from ..ir.ops import BYTE, Conv, Op
from . import timing
from .config import byte_words
from .lower import Layer

MOST_TERMS = 2 ** 21
"""Bits that the sums of one layer may name one by one."""

TENSOR, CHANNEL, DOWN, RIGHT, POWER = range(5)
"""Columns of `Group.terms`: number of the stored tensor, channel, offset in pixels downwards and to the right, power.

The offset counts from the output's pixel.  A bit with power i counts 2^i.
"""


@dataclass
class Group:
    """Outputs that add up the same bits, each with weights of its own."""

    outputs: np.ndarray  # int (O,): channels of the sum's tensor
    terms: np.ndarray  # int (T, 5)
    source: np.ndarray  # int (T,): place of each term's weight among the weights of an output
    outside: np.ndarray  # int (U,): places of the weights whose pixel is outside the map wherever the output lies


@dataclass
class Stored:
    """A tensor that is stored: the output of a sum, or the encoded image (number 0)."""

    name: str
    shape: tuple[int, int, int]


@dataclass
class Sum:
    """The bits of one stored tensor.

    The engine computes a map of `computed` pixels.  `keep` names the bits that it stores: all of them
    ("all"), the OR of each 2 x 2 ("or"), or the first of each 2 x 2 ("first").  With `spread`, no two
    outputs read the same bit.
    """

    layer: Layer
    number: int  # of its tensor; -1 for the logits
    groups: list[Group]
    computed: tuple[int, int]
    source: tuple[int, int]  # size of the maps that it reads; pixels outside are -1
    keep: str = "all"
    spread: bool = False
    ones: bool = False  # all weights are +1
    scale: int = 1  # the largest value of what it reads: 1, or BYTE

    @property
    def op(self) -> Op:
        """The op whose weights and thresholds the sum uses."""
        return self.layer.ops[0]

    @property
    def vector(self) -> bool:
        """Whether it has one pixel."""
        return self.computed == (1, 1)

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
        own = 0
        if self.number >= 0 and self.layer.kind in ("conv", "dense", "gap", "depthwise"):
            own = network.threshold(self.op.name)[group.outputs]
        return own - constant

    def _all_weights(self, network, group):
        if self.ones:
            return np.ones((len(group.outputs), len(group.source) + len(group.outside)), np.uint8)
        return network.weights[self.op.name][group.outputs].reshape(len(group.outputs), -1)


@dataclass
class View:
    """The output of an op: its element (c, y, x) is the stored bit bits[c] + (y, x)."""

    bits: np.ndarray  # int (C, 4): tensor, channel, row, column
    shape: tuple[int, int, int]
    bytes: bool = False  # each element is a byte: several stored bits, see `_Builder.code`


@dataclass
class Graph:
    """Sums in the order of execution, and the tensors by number."""

    image: Layer
    tensors: list[Stored]
    sums: list[Sum] = field(default_factory=list)
    quarters: bool = False  # the image is stored as four images, of the even and odd rows and columns
    packed: bool = False  # the image, of one bit a pixel, is stored as a vector
    word_pixels: int = 1  # of an image of bytes: pixels that a word has bits of, see `word_pixels`
    classifier: Layer | None = None  # the logits, where a learner computes them


class _Builder:
    def __init__(self, topology: Topology, lanes: int, gathered: Collection[str], learns: bool, word_pixels: int):
        self.topology, self.gathered, self.learns, self.word_pixels = topology, gathered, learns, word_pixels
        # For each stored bit of a byte: its channel for colour 0 of the leftmost pixel, the distance to its channel for the next colour,
        # its power.
        self.code, channel = [], 0
        for word in byte_words(lanes, word_pixels):
            self.code += [(channel + place, len(word), word[-1]) for place in range(len(word))]
            channel += 3 * word_pixels * len(word)
        self.shapes = topology.verify()
        self.readers = {op.name: [reader for reader in topology.ops if op.name in reader.inputs] for op in topology.ops}
        self.views: dict[str, View] = {}
        self.covered: set[str] = set()  # poolings that are part of a convolution's layer

    def build(self) -> Graph:
        first = self.topology.ops[0]
        shape = self.shapes[first.name]
        readers = self.readers[first.name]
        self.bytes = first.kind == "bits8"
        quarters = shape[1] % 2 == 0 and bool(readers) and all(getattr(op, "stride", 1) == 2 for op in readers)
        packed = first.kind == "binarize" and bool(readers) and all(op.kind == "flatten" for op in readers)
        image = Layer("input", first.name, (first,), shape)
        stored = (3 * self.word_pixels * len(self.code) if self.bytes else shape[0], *shape[1:])
        if quarters:
            stored = (4 * stored[0], stored[1] // 2, stored[2] // 2)
        if packed:
            stored = (shape[1] * shape[2], 1, 1)
        self.graph = Graph(image, [Stored(first.name, stored)], quarters=quarters, packed=packed, word_pixels=self.word_pixels)
        self.views[first.name] = View(_own(0, shape[0]), shape, self.bytes)
        for op in self.topology.ops[1:]:
            if op.name not in self.covered:
                getattr(self, f"_{op.kind}")(op)
            if op.name in self.gathered:
                self.views[op.name] = self._copy(f"{op.name}.copy", op, self.views[op.name])
            if self.learns and op.name == LATENT and op.name in self.views and self.graph.tensors[-1].name != LATENT:
                self.views[op.name] = self._copy(LATENT, op, self.views[op.name])
        for layer in (each.layer for each in self.graph.sums):
            if layer.kind != "copy":
                layer.macs = sum(op.macs(*self.topology.input_shapes(op, self.shapes)) for op in layer.ops)
        return self.graph

    def _view(self, op):
        return self.views[op.inputs[0]]

    # Views.

    def _concat(self, op):
        parts = [self.views[name] for name in op.inputs]
        self.views[op.name] = View(np.concatenate([part.bits for part in parts]), self.shapes[op.name])

    def _slice(self, op):
        self.views[op.name] = View(self._view(op).bits[op.start:op.stop], self.shapes[op.name])

    def _shuffle(self, op):
        order = np.arange(self.shapes[op.name][0]).reshape(op.groups, -1).T.reshape(-1)
        self.views[op.name] = View(self._view(op).bits[order], self.shapes[op.name])

    def _duplicate(self, op):
        self.views[op.name] = View(self._view(op).bits.repeat(op.times, 0), self.shapes[op.name])

    def _flatten(self, op):
        view = self._view(op)
        channels, height, width = view.shape
        if self.graph.packed and not view.bits[0, 0]:
            self.views[op.name] = View(_own(0, height * width), self.shapes[op.name])
            return
        place = np.indices((channels, height, width)).transpose(1, 2, 3, 0).reshape(-1, 3)
        bits = view.bits[place[:, 0]].copy()
        bits[:, 2:] += place[:, 1:]
        self.views[op.name] = View(bits, self.shapes[op.name], view.bytes)

    # Sums.

    def _store(self, kind, ops, shape, groups, source, *, name=None, **options):
        logits = kind == "logits"
        number = -1 if logits else len(self.graph.tensors)
        name = name or ops[-1].name
        parts = tuple(dict.fromkeys(self.graph.tensors[n].name for group in groups for n in np.unique(group.terms[:, TENSOR])))
        layer = Layer(kind, name, tuple(ops), shape, parts, title=name if kind == "copy" else "")
        options.setdefault("computed", shape[1:])
        self.graph.sums.append(Sum(layer, number, groups, source=source, **options))
        if not logits:
            self.graph.tensors.append(Stored(name, shape))
            self.views[name] = View(_own(number, shape[0]), shape)

    def _group(self, view, outputs, elements, offsets, computed, sources):
        """Make the `Group` of some outputs.

        elements: indices into the view, one a term.  offsets (T, 2): pixels of each term.  sources: places
        of the weights.  A term that lies outside the map for every output goes to `Group.outside`.
        """
        height, width = view.shape[1:]
        inside = np.ones(len(elements), bool)
        for axis, (size, pixels) in enumerate(zip((height, width), computed)):
            inside &= (offsets[:, axis] < size) & (offsets[:, axis] + pixels > 0)
        terms = self._terms(view, elements[inside], offsets[inside])
        source = sources[inside]
        if view.bytes:
            source = source.repeat(len(self.code))
        return Group(np.asarray(outputs), terms, source, sources[~inside])

    def _terms(self, view, elements, offsets):
        bits = view.bits[elements]
        terms = np.zeros((len(elements), 5), np.int64)
        terms[:, TENSOR], terms[:, CHANNEL] = bits[:, 0], bits[:, 1]
        terms[:, DOWN], terms[:, RIGHT] = bits[:, 2] + offsets[:, 0], bits[:, 3] + offsets[:, 1]
        if view.bytes:
            # A word has its own pixel and those to the left of it.
            place = terms[:, RIGHT] % self.word_pixels
            terms[:, RIGHT] += self.word_pixels - 1 - place
            terms[:, CHANNEL] += 3 * place
            channel, step, power = (np.tile(part, len(elements)) for part in zip(*self.code))
            terms = terms.repeat(len(self.code), 0)
            terms[:, POWER] = power
            terms[:, CHANNEL] = channel + terms[:, CHANNEL] * step
        if self.graph.quarters and len(bits) and not bits[0, 0]:
            quarter = terms[:, DOWN] % 2 * 2 + terms[:, RIGHT] % 2
            terms[:, CHANNEL] += quarter * (self.graph.tensors[0].shape[0] // 4)
            terms[:, DOWN] //= 2
            terms[:, RIGHT] //= 2
        return terms

    def _conv(self, op):
        view, shape = self._view(op), self.shapes[op.name]
        source, keep, ops, computed = view.shape[1:], "all", [op], shape[1:]
        quarters = self.graph.quarters and not view.bits[0, 0]
        readers = self.readers[op.name]
        if quarters:
            source = (source[0] // 2, source[1] // 2)
        elif op.stride == 2 and shape[1:] != (1, 1):
            keep, computed = "first", (2 * shape[1], 2 * shape[2])
        elif len(readers) == 1 and readers[0].kind == "maxpool":
            ops.append(readers[0])
            self.covered.add(readers[0].name)
            shape = self.shapes[readers[0].name]
            keep, computed = "or", (2 * shape[1], 2 * shape[2])
        depth, k = view.shape[0] // op.groups, op.kernel
        place = np.indices((depth, k, k)).transpose(1, 2, 3, 0).reshape(-1, 3)
        offsets = place[:, 1:] - op.frame
        size = shape[0] // op.groups
        reach = (2 * computed[0] - 1, 2 * computed[1] - 1) if quarters else computed  # an output is two pixels of the image apart
        groups = [self._group(view, np.arange(g * size, (g + 1) * size), g * depth + place[:, 0], offsets, reach, np.arange(len(place)))
                  for g in range(op.groups)]
        self._store("conv", ops, shape, groups, source, computed=computed, keep=keep, scale=BYTE if view.bytes else 1)

    def _dense(self, op):
        view = self._view(op)
        if op.logits and self.learns:
            parts = tuple(dict.fromkeys(self.graph.tensors[number].name for number in view.bits[:, 0]))
            self.graph.classifier = Layer("logits", op.name, (op,), self.shapes[op.name], parts)
            return
        if op.logits:
            view = self._whole(op, view)
        depth, size = view.shape[0] // op.groups, self.shapes[op.name][0] // op.groups
        none = np.zeros((depth, 2), np.int64)
        groups = [self._group(view, np.arange(g * size, (g + 1) * size), g * depth + np.arange(depth), none, (1, 1), np.arange(depth))
                  for g in range(op.groups)]
        kind = "logits" if op.logits else "dense"
        self._store(kind, [op], self.shapes[op.name], groups, (1, 1), computed=(1, 1), scale=BYTE if view.bytes else 1)

    def _whole(self, op, view):
        """Return the view that the logits read, which consists of whole tensors.

        The bits are copied to a tensor of their own where the logits read a part of a tensor, or some of
        its bits more often than others.
        """
        if view.bytes:
            return view
        uses: dict[int, np.ndarray] = {}
        for number in np.unique(view.bits[:, 0]):
            channels, height, width = self.graph.tensors[number].shape
            uses[number] = np.zeros((channels, height, width), np.int64)
            np.add.at(uses[number], tuple(view.bits[view.bits[:, 0] == number, 1:].T), 1)
        if all((counts == counts[:1]).all() for counts in uses.values()):
            return view
        return self._copy(f"{op.name}.copy", op, view)

    def _copy(self, name, op, view):
        """A stored tensor of the bits of a view."""
        pixels = view.shape[1:]
        groups = [self._group(view, [c], np.array([c]), np.zeros((1, 2), np.int64), pixels, np.zeros(1, np.int64))
                  for c in range(view.shape[0])]
        self._store("copy", [op], view.shape, groups, pixels, name=name, spread=pixels == (1, 1), ones=True)
        return self.views[name]

    def _maxpool(self, op):
        view, shape = self._view(op), self.shapes[op.name]
        computed = (2 * shape[1], 2 * shape[2])
        groups = [self._group(view, [c], np.array([c]), np.zeros((1, 2), np.int64), computed, np.zeros(1, np.int64))
                  for c in range(shape[0])]
        self._store("pool", [op], shape, groups, view.shape[1:], computed=computed, keep="or", spread=True, ones=True)

    def _pixels(self, op, kind):
        """Make a sum over all pixels of a map, for each channel."""
        view = self._view(op)
        if (terms := math.prod(view.shape)) > MOST_TERMS:
            raise FitError(f"layer {op.name}: sums {terms:,} bits in lists of reads, expected at most {MOST_TERMS:,}")
        place = np.indices(view.shape[1:]).transpose(1, 2, 0).reshape(-1, 2)
        groups = []
        for c in range(view.shape[0]):
            terms = self._terms(view, np.full(len(place), c), place)
            groups.append(Group(np.array([c]), terms, np.arange(len(place)), np.zeros(0, np.int64)))
        self._store(kind, [op], self.shapes[op.name], groups, (1, 1), computed=(1, 1), spread=True, ones=kind == "gap")

    def _gap(self, op):
        self._pixels(op, "gap")

    def _depthwise(self, op):
        self._pixels(op, "depthwise")


def _own(number, channels):
    """The bits of a whole tensor."""
    bits = np.zeros((channels, 4), np.int64)
    bits[:, 0], bits[:, 1] = number, np.arange(channels)
    return bits


def build(topology: Topology, lanes: int, gathered: Collection[str] = (), learns: bool = False, word_pixels: int = 1) -> Graph:
    """The sums of a legal topology, for words of `lanes` lanes.  Raises InputError where it is not legal, FitError
    where it names too many bits.

    gathered: names of ops whose output is copied to a tensor of its own; each is a concat, slice or
    shuffle of maps.  learns: a learner computes the logits, so they are no sum.  word_pixels: one of those of `word_pixels`.
    """
    return _Builder(topology, lanes, gathered, learns, word_pixels).build()


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
