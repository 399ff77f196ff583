"""Network -> addresses: the lane and word of each channel, and the first word of each tensor."""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..ir.network import LATENT, Topology
from .lower import Irregular, Layer, lower, owner

SHARED_PIXELS = 64
"""Maps of more pixels than this keep the array busy for longer than their weights take to come."""
Span = tuple[int, int]
"""(first channel, last channel + 1) of a run that begins with a word."""


@dataclass(frozen=True)
class Tensor:
    """A stored map or vector."""

    name: str
    shape: tuple[int, int, int]
    lanes: tuple[tuple[int, ...], ...]  # for each word the channel in each lane, -1 for none
    base: int  # address of the first word of the first block
    pitch: int  # words from one block to the next
    rows: int  # of blocks
    columns: int  # of blocks
    word_stride: int = 1  # words from one word of a block to the next
    until: int = 0  # number of the last layer that reads it

    @property
    def size(self) -> int:
        """Words of a bank."""
        return len(self.lanes) * self.rows * self.columns

    @cached_property
    def starts(self) -> list[int]:
        """First channel of each word."""
        return [word[0] for word in self.lanes]

    def words(self, first: int, last: int) -> range:
        """Range of words that hold the channels first .. last - 1, which begin and end with a word."""
        return range(bisect_left(self.starts, first), bisect_left(self.starts, last))

    def find(self, channel: int) -> tuple[int, int]:
        """(word, lane) of a channel."""
        word = bisect_right(self.starts, channel) - 1
        return word, channel - self.starts[word]


@dataclass(frozen=True)
class Layout:
    """Where a topology's tensors lie in the banks."""

    layers: list[Layer]
    tensors: dict[str, Tensor]
    used: int  # words of a bank that hold features


@dataclass(frozen=True)
class Stored:
    """A tensor before it has a place.  planar: the words of a block lie a plane apart, not side by side."""

    name: str
    shape: tuple[int, int, int]
    lanes: tuple[tuple[int, ...], ...]
    rows: int
    columns: int
    planar: bool = False

    @property
    def size(self) -> int:
        """Words of a bank."""
        return len(self.lanes) * self.rows * self.columns

    def at(self, base: int, until: int) -> Tensor:
        """The tensor at address `base`, which it keeps until layer `until` has read it."""
        pitch, stride = (1, self.rows * self.columns) if self.planar else (len(self.lanes), 1)
        return Tensor(self.name, self.shape, self.lanes, base, pitch, self.rows, self.columns, stride, until)


def blocks(size: tuple[int, int], columns: int) -> tuple[int, int]:
    """(rows, columns) of the blocks of 2 x `columns` pixels of a map."""
    height, width = size
    return -(-height // 2), -(-width // columns)


def _spans(channels: int, cuts: Iterable[int], lanes: int) -> list[Span]:
    """Runs of channels that begin with a word.  A cut between two full words makes no run of its own."""
    edges = [0]
    for cut in sorted(cuts):
        if (cut - edges[-1]) % lanes:
            edges.append(cut)
    return list(zip(edges, [*edges[1:], channels]))


def words_of(spans: Iterable[Span], lanes: int) -> tuple[tuple[int, ...], ...]:
    """Cut spans into words: for each word the channel of each lane, -1 for a padding lane."""
    words = []
    for first, last in spans:
        for start in range(first, last, lanes):
            real = list(range(start, min(start + lanes, last)))
            words.append(tuple(real + [-1] * (lanes - len(real))))
    return tuple(words)


def _cut(by_name, layers, lanes, outputs):
    """Collect the channels where words must begin, in `cuts` of each layer.

    A word begins where a reader's group begins.  It also begins with a group of the layer itself, where
    the group's first tile would else begin inside a tile slot.
    """
    for layer in reversed(layers):
        if layer.groups > 1 and layer.kind in ("conv", "dense"):
            _cut_own_groups(layer, lanes, outputs)
        if layer.kind == "lgap":
            (part,) = layer.parts
            by_name[part].cuts |= layer.cuts
        elif layer.parts:
            _cut_parts(by_name, layer)
    for layer in layers:
        if layer.kind == "lgap":  # global pooling writes a word for each that it reads
            layer.cuts = by_name[layer.parts[0]].cuts


def _cut_own_groups(layer, lanes, outputs):
    """Add the cuts of a layer's own tensor: at groups whose first tile would else begin inside a tile slot."""
    size, first = layer.channels // layer.groups, 0
    cuts = deque(sorted(layer.cuts))
    for edge in range(size, layer.channels, size):
        while cuts and cuts[0] <= edge:
            cut = cuts.popleft()
            first = cut if (cut - first) % lanes else first  # as `_spans` does
        if (edge - first) % outputs:
            layer.cuts.add(edge)
            first = edge


def _cut_parts(by_name, layer):
    """Add the cuts of the tensors that a layer reads: where its groups begin.

    Raises Irregular where a group ends between two copies of a channel.
    """
    total = sum(by_name[owner(part)].channels for part in layer.parts)
    size, remainder = divmod(total * layer.repeat // layer.groups, layer.repeat)
    if remainder:
        raise Irregular(f"{layer.ops[-1].name}: a group ends between the copies of a duplicated channel")
    start = 0
    for part in layer.parts:
        stored = by_name[owner(part)]
        stored.cuts |= {edge - start for edge in range(size, total, size) if start < edge < start + stored.channels}
        start += stored.channels


def _check_blocks(layers, by_name, columns):
    """Raises Irregular for maps that blocks of 2 x `columns` pixels do not tile."""
    for layer in layers:
        _, height, width = layer.shape
        if layer.kind == "input" and width % columns or layer.kind == "conv" and (height, width) != (1, 1) and height % 2:
            raise Irregular(f"{layer.ops[-1].name}: blocks of 2x{columns} pixels do not tile its {height}x{width} output")
        for part in layer.parts:
            _, height, width = by_name[owner(part)].shape
            ok = (height, width) == (1, 1) if layer.kind in ("dense", "logits") else height % 2 == 0 and (
                width % columns == 0 or layer.kind == "lgap" and width < columns)
            if not ok:
                raise Irregular(f"{layer.ops[0].name}: blocks of 2x{columns} pixels do not tile its {height}x{width} input")


def _check_input(layers, lanes):
    """Raises Irregular where groups cut an encoded pixel inside a word: the encoder fills words whole."""
    if any(cut % lanes for cut in layers[0].cuts):
        raise Irregular(f"{layers[0].name}: groups split the {lanes} lanes of an encoded pixel")


def _tensor_names(layer: Layer) -> list[str]:
    """Names of the tensors that a layer stores."""
    if layer.kind == "lgap":
        return [f"{layer.name}.{kind}" for kind in ("gap", "depthwise") if getattr(layer, kind)]
    return [] if layer.kind == "logits" else [layer.name]


def place(topology: Topology, pixels: int, lanes: int, outputs: int, learns: bool = False,
          keeps_image: bool = False) -> Layout:
    """Lay out a topology's tensors for an engine of that shape.

    A tensor's words are used again after the last layer that reads it.  learns: the latent and the tensors beside it stay
    until the next frame has one.  keeps_image: the words of the image are not used again.  Raises Irregular.
    """
    layers = lower(topology)
    by_name = {layer.name: layer for layer in layers}
    columns = pixels // 2
    _check_blocks(layers, by_name, columns)
    _cut(by_name, layers, lanes, outputs)
    _check_input(layers, lanes)
    stored = {}
    for layer in layers:
        words = words_of(_spans(layer.channels, layer.cuts, lanes), lanes)
        for name in _tensor_names(layer):
            stored[name] = Stored(name, layer.shape, words, *blocks(layer.shape[1:], columns))
    chains = _adjacent(list(stored), [layer for layer in layers if len(layer.parts) > 1])
    life = _lives(layers, chains)
    if learns:
        life |= dict.fromkeys(next(chain for chain in chains if LATENT in chain), (0, len(layers)))
    if keeps_image:
        life |= dict.fromkeys(next(chain for chain in chains if layers[0].name in chain), (0, len(layers)))
    tensors, used = allot(chains, stored, life)
    return Layout(layers, tensors, used)


def allot(chains: Iterable[list[str]], stored: dict[str, Stored], life: dict[str, Any]) -> tuple[dict[str, Tensor], int]:
    """Place the tensors of some chains; return ({name: Tensor}, the words that they use).

    The tensors of a chain lie side by side.
    life: {name: (number of the layer that writes it, number of the last layer that reads it)}, see `_lives`.
    """
    tensors: dict[str, Tensor] = {}
    live: list[tuple[int, int, int]] = []  # (first address, last + 1, layer after which it is free)
    used = 0
    for chain in sorted(chains, key=lambda c: life[c[0]][0]):
        begin, end = life[chain[0]]
        live = [entry for entry in live if entry[2] >= begin]
        size = sum(stored[name].size for name in chain)
        base = min(a for a in (0, *(stop for _, stop, _ in live)) if all(a + size <= start or a >= stop for start, stop, _ in live))
        live.append((base, base + size, end))
        used = max(used, base + size)
        for name in chain:
            tensors[name] = stored[name].at(base, end)
            base += stored[name].size
    return tensors, used


def _lives(layers, chains):
    """{stored tensor: (number of the layer that writes it, number of the last layer that reads it)}.

    All tensors of a chain have the same two numbers.  The latent is read at the end.
    """
    life = {}
    for number, layer in enumerate(layers):
        for name in _tensor_names(layer):
            life[name] = [number, len(layers) if name == LATENT else number]
        for part in layer.parts:
            life[part][1] = max(life[part][1], number)
    for chain in chains:
        both = min(life[n][0] for n in chain), max(life[n][1] for n in chain)
        life.update(dict.fromkeys(chain, both))
    return life


def _adjacent(names, readers):
    """Join tensors to chains: the parts that a reader takes lie side by side, in its order.

    Raises Irregular where two readers want other orders.
    """
    chains = [[n] for n in names]
    for layer in readers:
        for left, right in zip(layer.parts, layer.parts[1:]):
            a = next(c for c in chains if left in c)
            b = next(c for c in chains if right in c)
            if a is b and a.index(right) == a.index(left) + 1:
                continue
            if a is b or a[-1] != left or b[0] != right:
                raise Irregular(f"{layer.ops[0].name}: {left} and {right} cannot lie side by side")
            a += b
            chains.remove(b)
    return chains


def channel_array(tensor: Tensor, words: Iterable[int]) -> np.ndarray:
    """int64 array (words, lanes) of channels, -1 for none."""
    return np.array([tensor.lanes[i] for i in words], np.int64)
