"""Addresses: which channel is in which lane of which word, and where each tensor begins."""

from dataclasses import dataclass

import numpy as np

from ..errors import FitError
from ..ir.network import LATENT
from .lower import lower


@dataclass(frozen=True)
class Tensor:
    """A stored map or vector.  lanes: for each word the channel in each lane, -1 for none.  base: address of its first word
    of its first block; pitch: words from one block to the next; rows, columns: blocks."""

    name: str
    shape: tuple
    lanes: tuple
    base: int
    pitch: int
    rows: int
    columns: int

    def words(self, first, last):
        """Range of words that hold the channels first .. last - 1, which begin and end with a word."""
        starts = [word[0] for word in self.lanes]
        begin = starts.index(first)
        end = next((i for i, s in enumerate(starts) if s >= last), len(starts))
        return range(begin, end)

    def find(self, channel):
        """(word, lane) of a channel."""
        word = max(i for i, lanes in enumerate(self.lanes) if lanes[0] <= channel)
        return word, channel - self.lanes[word][0]


def _blocks(shape, columns):
    _, height, width = shape
    if (height, width) == (1, 1):
        return 1, 1
    return height // 2, -(-width // columns)


def _spans(channels, cuts, lanes):
    """Runs of channels that begin with a word.  A cut that falls between two words anyway makes no new run."""
    edges = [0]
    for cut in sorted(cuts):
        if (cut - edges[-1]) % lanes:
            edges.append(cut)
    return list(zip(edges, [*edges[1:], channels]))


def _lanes(spans, lanes):
    words = []
    for first, last in spans:
        for start in range(first, last, lanes):
            real = list(range(start, min(start + lanes, last)))
            words.append(tuple(real + [-1] * (lanes - len(real))))
    return tuple(words)


def _cut(by_name, layers, lanes, outputs):
    """Collect the channels where words must begin: every group a reader sees, every group whose tiles would else begin
    inside the place of a tile."""
    for layer in reversed(layers):
        if layer.groups > 1 and layer.kind in ("conv", "dense"):
            size = layer.channels // layer.groups
            for own in range(size, layer.channels, size):
                first = max(f for f, _ in _spans(layer.channels, layer.cuts, lanes) if f <= own)
                if (own - first) % outputs:
                    layer.cuts.add(own)
        if layer.kind == "lgap":
            (part,) = layer.parts
            by_name[part].cuts |= layer.cuts
            continue
        total = sum(by_name[p.split(".")[0]].channels for p in layer.parts)
        if not layer.parts:
            continue
        size, rest = divmod(total * layer.repeat // layer.groups, layer.repeat)
        if rest:
            raise FitError(f"layer {layer.name}: a group ends between the copies of a duplicated channel; "
                           f"choose groups that divide {total}")
        start = 0
        for part in layer.parts:
            stored = by_name[part.split(".")[0]]
            stored.cuts |= {b - start for b in range(size, total, size) if start < b < start + stored.channels}
            start += stored.channels
    for layer in layers:
        if layer.kind == "lgap":  # it writes a word for each that it reads
            layer.cuts = by_name[layer.parts[0]].cuts


def _untiled(op, columns, height, width, end):
    way = "fewer --pixels or an image size that is a multiple of 16" if columns > 2 else \
        "an image size that is a multiple of 16, or fewer poolings"
    raise FitError(f"layer {op.name}: blocks of 2x{columns} pixels do not tile its {height}x{width} {end}; use {way}")


def place(topology, pixels, lanes, outputs, frames=1, shared=(), learns=False):
    """(layers, {stored tensor: Tensor}, words of a bank that are used, words from a tensor of one frame to that of the next).

    A tensor's words are used again after the last layer that reads it.  shared: names of the layers that work on all frames of
    a pass at once; what they read and write is there once a frame, behind all the rest.  learns: the latent and what lies beside it
    stay until the next frame has one.
    Raises FitError for maps that blocks of 2 x pixels/2 do not tile.
    """
    layers = lower(topology)
    by_name = {layer.name: layer for layer in layers}
    columns = pixels // 2
    for layer in layers:
        _, height, width = layer.shape
        if layer.kind == "input" and width % columns or layer.kind == "conv" and (height, width) != (1, 1) and height % 2:
            _untiled(layer.ops[-1], columns, height, width, "output")
        for part in layer.parts:
            _, height, width = by_name[part.split(".")[0]].shape
            ok = (height, width) == (1, 1) if layer.kind in ("dense", "logits") else height % 2 == 0 and (
                width % columns == 0 or layer.kind == "lgap" and width < columns)
            if not ok:
                _untiled(layer.ops[0], columns, height, width, "input")
    _cut(by_name, layers, lanes, outputs)
    if layers[0].cuts and any(c % lanes for c in layers[0].cuts):
        same = {layers[0].name, *(layer.name for layer in layers if layer.kind == "lgap" and layers[0].name in layer.parts)}
        reader = next(layer for layer in layers if layer.groups > 1 and same & {p.split(".")[0] for p in layer.parts})
        raise FitError(f"layer {reader.ops[0].name}: its groups split the {lanes} lanes of an encoded pixel; use fewer --lanes or 1 group")
    tensors = {}
    stored = []  # (name, shape, spans), neighbours in memory where a concatenation wants it
    for layer in layers:
        spans = _spans(layer.channels, layer.cuts, lanes)
        if layer.kind == "lgap":
            stored += [(f"{layer.name}.{kind}", layer.shape, spans) for kind in ("gap", "depthwise") if getattr(layer, kind)]
        elif layer.kind != "logits":
            stored.append((layer.name, layer.shape, spans))
    sizes = {name: len(_lanes(spans, lanes)) for name, _, spans in stored}
    titles = {f"{layer.name}.{kind}": getattr(layer, kind) for layer in layers if layer.kind == "lgap" for kind in ("gap", "depthwise")}
    chains = _adjacent([name for name, _, _ in stored], [layer for layer in layers if len(layer.parts) > 1], titles)
    described = {name: (shape, spans) for name, shape, spans in stored}
    life = _lives(layers, chains)
    if learns:
        life |= dict.fromkeys(next(chain for chain in chains if LATENT in chain), (0, len(layers)))
    late = set(shared) | {part.split(".")[0] for layer in layers if layer.name in shared for part in layer.parts}
    per_frame = [chain for chain in chains if {name.split(".")[0] for name in chain} & late]

    def allot(chosen, floor):
        """Places for some chains from address `floor` on; returns the end of what they use."""
        live = []  # (first address, last + 1, layer after which it is free)
        used = floor
        for chain in sorted(chosen, key=lambda c: life[c[0]][0]):
            begin, end = life[chain[0]]
            live = [entry for entry in live if entry[2] >= begin]
            blocks = {name: _blocks(described[name][0], columns) for name in chain}
            size = sum(sizes[name] * blocks[name][0] * blocks[name][1] for name in chain)
            base = min(a for a in (floor, *(stop for _, stop, _ in live)) if all(a + size <= start or a >= stop for start, stop, _ in live))
            live.append((base, base + size, end))
            used = max(used, base + size)
            for name in chain:
                shape, spans = described[name]
                tensors[name] = Tensor(name, shape, _lanes(spans, lanes), base, sizes[name], *blocks[name])
                base += sizes[name] * blocks[name][0] * blocks[name][1]
        return used

    used = allot([chain for chain in chains if chain not in per_frame], 0)
    stride = allot(per_frame, used) - used
    return layers, tensors, used + frames * stride, stride


def _lives(layers, chains):
    """{stored tensor: (number of the layer that writes it, of the last that reads it)}, one for all of a chain.  The latent
    is read at the end."""
    life = {}
    for number, layer in enumerate(layers):
        for name in (f"{layer.name}.gap", f"{layer.name}.depthwise") if layer.kind == "lgap" else (layer.name,):
            life[name] = [number, len(layers) if name == LATENT else number]
        for part in layer.parts:
            life[part][1] = max(life[part][1], number)
    for chain in chains:
        both = min(life[n][0] for n in chain), max(life[n][1] for n in chain)
        life.update(dict.fromkeys(chain, both))
    return life


def _adjacent(names, readers, titles):
    """The names in chains, so that each reader's parts follow one another.  titles: what the user calls them, where it differs."""
    chains = [[n] for n in names]
    for layer in readers:
        for left, right in zip(layer.parts, layer.parts[1:]):
            a = next(c for c in chains if left in c)
            b = next(c for c in chains if right in c)
            if a is b and a.index(right) == a.index(left) + 1:
                continue
            if a is b or a[-1] != left or b[0] != right:
                first, second = titles.get(left, left), titles.get(right, right)
                raise FitError(f"layer {layer.ops[0].name}: {first} and {second} cannot lie side by side, "
                               "another layer needs another order")
            a += b
            chains.remove(b)
    return chains


def channel_array(tensor, words):
    """int array (words, lanes) of channels, -1 for none."""
    return np.array([tensor.lanes[i] for i in words], np.int64)
