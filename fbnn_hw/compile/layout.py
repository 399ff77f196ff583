"""Where tensors lie in the banks: the lane and word of each channel, and the first word of each tensor."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from .graph import Layer

Span = tuple[int, int]
"""(first channel, last channel + 1) of a run that begins with a word."""

Words = tuple[tuple[int, ...], ...]
"""For each word the channel in each lane, -1 for a padding lane."""


@dataclass(frozen=True)
class Tensor:
    """A stored map or vector."""

    name: str
    shape: tuple[int, int, int]
    lanes: Words
    pitch: int  # words from one block to the next
    word_stride: int  # words from one word of a block to the next
    rows: int  # of blocks
    columns: int  # of blocks
    base: int = 0  # address of the first word of the first block
    until: int = 0  # number of the last layer that reads it; the number of layers: it stays

    @classmethod
    def of(cls, name: str, shape: tuple[int, int, int], lanes: Words, columns: int, planar: bool) -> "Tensor":
        """A tensor without a place, in blocks of 2 x `columns` pixels.  planar: words of a block lie a plane apart."""
        rows, across = blocks(shape[1:], columns)
        return cls(name, shape, lanes, 1 if planar else len(lanes), rows * across if planar else 1, rows, across)

    @property
    def size(self) -> int:
        """Words of a bank."""
        return len(self.lanes) * self.rows * self.columns

    @cached_property
    def channels(self) -> np.ndarray:
        """`lanes`, int (words, lanes)."""
        return np.array(self.lanes, int)

    @cached_property
    def places(self) -> np.ndarray:
        """int (channels, 2): word and lane of each channel."""
        word, lane = np.nonzero(self.channels >= 0)
        places = np.zeros((len(word), 2), int)
        places[self.channels[word, lane]] = np.column_stack([word, lane])
        return places


def blocks(size: tuple[int, int], columns: int) -> tuple[int, int]:
    """(rows, columns) of the blocks of 2 x `columns` pixels of a map."""
    height, width = size
    return -(-height // 2), -(-width // columns)


def spans(channels: int, cuts: Iterable[int], lanes: int) -> list[Span]:
    """Runs of channels that begin with a word.  A cut between two full words makes no run of its own."""
    edges = [0]
    for cut in sorted(cuts):
        if (cut - edges[-1]) % lanes:
            edges.append(cut)
    return list(zip(edges, [*edges[1:], channels]))


def words_of(spans: Iterable[Span], lanes: int) -> Words:
    """Cut spans into words."""
    words = []
    for first, last in spans:
        for start in range(first, last, lanes):
            real = list(range(start, min(start + lanes, last)))
            words.append(tuple(real + [-1] * (lanes - len(real))))
    return tuple(words)


def allot(tensors: Iterable[Tensor], chains: Iterable[Sequence[str]], layers: Sequence[Layer], lasting: Collection[str],
          ahead: Collection[str] = ()) -> tuple[dict[str, Tensor], int]:
    """Place tensors: ({name: Tensor}, the words of a bank that they use).

    A tensor's words are used again after the last layer that reads it.  The tensors of a chain lie side by side, and live equally long.
    lasting: names of tensors that stay until the end of a pass.  ahead: those whose words are not used by the layers before them either.
    """
    free = {tensor.name: tensor for tensor in tensors}
    life: dict[str, list[int]] = {}
    for number, layer in enumerate(layers):
        life |= {name: [number, number] for name in layer.stores}
        for part in layer.parts:
            life[part][1] = number
    for name in {*lasting, *ahead}:
        life[name] = [0 if name in ahead else life[name][0], len(layers)]
    begin_of = {tuple(chain): min(life[name][0] for name in chain) for chain in chains}
    places: dict[str, Tensor] = {}
    live: list[tuple[int, int, int]] = []  # (first address, last + 1, layer after which it is free)
    used = 0
    for chain in sorted(begin_of, key=begin_of.__getitem__):
        end = max(life[name][1] for name in chain)
        live = [entry for entry in live if entry[2] >= begin_of[chain]]
        size = sum(free[name].size for name in chain)
        base = min(a for a in (0, *(stop for _, stop, _ in live)) if all(a + size <= start or a >= stop for start, stop, _ in live))
        live.append((base, base + size, end))
        used = max(used, base + size)
        for name in chain:
            places[name] = replace(free[name], base=base, until=end)
            base += free[name].size
    return places, used


def adjacent(names: Iterable[str], readers: Iterable[Sequence[str]]) -> tuple[list[list[str]], tuple[str, str] | None]:
    """Join tensors to chains: what a reader takes lies side by side, in its order.

    Returns the chains, and the first two tensors that cannot lie so because another reader wants another order.
    """
    chains = [[name] for name in names]
    for parts in readers:
        for left, right in zip(parts, parts[1:]):
            a = next(c for c in chains if left in c)
            b = next(c for c in chains if right in c)
            if a is b and a.index(right) == a.index(left) + 1:
                continue
            if a is b or a[-1] != left or b[0] != right:
                return chains, (left, right)
            a += b
            chains.remove(b)
    return chains, None
