"""An arrangement: the sums of a graph as tiles with reads, and the words and addresses of all tensors.

There are two, which `loops` and `lists` make: interleaved, where the reads of a tile are regular, and planar, where they are any.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .graph import Graph, Group, Layer, Sum
from .layout import Tensor

BITS = {"tensor": 12, "down": 12, "right": 12, "word": 17}
"""Bits of the fields of a place in its code, below those of its power."""

CENTRE = 1 << 11
"""What the code adds to `down` and `right`, which may be negative."""


class Places(NamedTuple):
    """What reads go to, an array each: number of the tensor, word of it, pixels down and to the right, power of the bits (`graph.TERM`)."""

    tensor: np.ndarray
    word: np.ndarray
    down: np.ndarray
    right: np.ndarray
    power: np.ndarray

    def codes(self) -> np.ndarray:
        """An integer for each place.  Their order is that of a list: by power, highest first, then by tensor, pixel and word."""
        codes = 15 - self.power
        for part, bits in zip((self.tensor, self.down + CENTRE, self.right + CENTRE, self.word), BITS.values()):
            codes = codes << bits | part
        return codes

    @classmethod
    def of(cls, codes: np.ndarray) -> "Places":
        """Inverse of `codes`."""
        parts = {}
        for name in reversed(BITS):
            parts[name], codes = codes & (1 << BITS[name]) - 1, codes >> BITS[name]
        return cls(parts["tensor"], parts["word"], parts["down"] - CENTRE, parts["right"] - CENTRE, 15 - codes)


@dataclass(frozen=True, eq=False)
class Reads:
    """The reads of a tile, in their order."""

    places: Places
    times: np.ndarray  # int (K,): how often each place is read
    doubled: bool = False  # each is read twice as often, and lanes that the tile does not want cancel
    taps: int = 1  # into which the reads can be cut, all of the same words

    @cached_property
    def count(self) -> int:
        return int(self.times.sum())

    def index(self, codes: np.ndarray) -> np.ndarray:
        """For the code of each place its number among the reads."""
        own = self.places.codes()
        order = np.argsort(own)
        return order[np.searchsorted(own, codes, sorter=order)]


@dataclass(frozen=True, eq=False)
class Tile:
    """Outputs of a sum that are computed at once, side by side in a word."""

    parts: tuple[tuple[Group, np.ndarray], ...]  # groups, and which of their outputs
    reads: Reads
    word: int  # of the tensor
    tile_slot: int
    source_tile_slot: int = -1  # of a spread step: output p reads lane p of this one; -1: another step

    @property
    def outputs(self) -> int:
        return sum(len(members) for _, members in self.parts)


@dataclass(frozen=True, eq=False)
class Arrangement:
    """A graph with everything in its place, on an engine of pixels x lanes x outputs."""

    graph: Graph
    layers: tuple[Layer, ...]
    tensors: dict[str, Tensor]  # in the order of the graph
    used: int  # words of a bank that hold features
    tiles: dict[Sum, tuple[Tile, ...]]  # of each sum that the array computes
    shape: tuple[int, int, int]  # (pixels, lanes, outputs) of the engine
    lists: bool  # whether the reads are lists, else loops over taps and words

    @cached_property
    def stored(self) -> list[Tensor]:
        """The tensors by number."""
        return [self.tensors[name] for name, _ in self.graph.tensors]

    @property
    def lanes(self) -> int:
        return self.shape[1]

    def empty(self, reads: Reads) -> np.ndarray:
        """bool (K, lanes): the padding lanes of each place."""
        empty = np.zeros((len(reads.times), self.lanes), bool)
        for number in np.unique(reads.places.tensor):
            of_tensor = reads.places.tensor == number
            empty[of_tensor] = self.stored[number].channels[reads.places.word[of_tensor]] < 0
        return empty

    def padding(self, tile: Tile) -> dict[int, int]:
        """Count the padding lanes in all reads of a tile: {power: count}, highest power first."""
        if tile.source_tile_slot >= 0:  # its padding lanes cancel
            return {0: 0}
        if tile.reads not in self._padding:
            power, counts = tile.reads.places.power, self.empty(tile.reads).sum(1) * tile.reads.times
            self._padding[tile.reads] = {int(each): int(counts[power == each].sum()) for each in np.unique(power)[::-1]} or {0: 0}
        return self._padding[tile.reads]

    @cached_property
    def _padding(self) -> dict[Reads, dict[int, int]]:
        return {}


def located(tensors: list[Tensor], each: Sum) -> tuple[np.ndarray, np.ndarray]:
    """Where the terms of a sum's groups lie: (codes of places, lanes), int (groups, T) each."""
    terms = np.array([group.terms for group in each.groups])
    places = np.zeros((*terms.shape, 2), int)
    for number in np.unique(terms["tensor"]):
        of_tensor = terms["tensor"] == number
        places[of_tensor] = tensors[number].places[terms["channel"][of_tensor]]
    word, lane = places[..., 0], places[..., 1]
    return Places(terms["tensor"], word, terms["down"], terms["right"], terms["power"]).codes(), lane


def run_ends(arrangement: Arrangement, tiles: tuple[Tile, ...], alike: list) -> list[int]:
    """The numbers of tiles with which a step may begin, and the number of all.

    The tiles of a step follow one another in the words, all but the last have P outputs, and what `alike` has for them is equal.
    """
    _, lanes, outputs = arrangement.shape
    starts = [0]
    for number, (before, tile) in enumerate(zip(tiles, tiles[1:]), start=1):
        place = [each.word * (lanes // outputs) + each.tile_slot for each in (before, tile)]
        if place[1] != place[0] + 1 or before.outputs != outputs or alike[number] != alike[number - 1]:
            starts.append(number)
    return [*starts, len(tiles)]
