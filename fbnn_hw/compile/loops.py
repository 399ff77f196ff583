"""Sums -> the interleaved arrangement, whose reads the loops over taps, words and repeats of a step make.

The words of a block lie side by side.  A group of outputs reads whole words, so a word begins where a group does.
"""

from collections import deque
from collections.abc import Collection
from functools import lru_cache
from itertools import groupby

import numpy as np

from ..ir.network import LATENT
from ..machine.step import FIELD_VALUES, Step
from .arrangement import Arrangement, Places, Reads, Tile, located, run_ends
from .graph import Graph, Layer, Sum
from .layout import Tensor, adjacent, allot, spans, words_of


@lru_cache(maxsize=16)  # every way to keep the weights asks for the same arrangement
def arranged(graph: Graph, pixels: int, lanes: int, outputs: int, learns: bool = False, keeps_image: bool = False,
             thresholds: Collection[str] = ()) -> Arrangement | str:
    """The interleaved arrangement of a graph, or why there is none, with the name of an op.

    learns: the latent and the tensors beside it stay until the next frame has one.  keeps_image: the words of the image are not used
    again.  thresholds: names of the ops that have them.
    """
    columns = pixels // 2
    layers, sums = _layers(graph)
    cuts: dict[str, set[int]] = {name: set() for name, _ in graph.tensors}
    if why := graph.unlooped or _tiling(layers, graph, columns) or _cut(cuts, layers, sums, lanes, outputs):
        return why
    pooled = [name for layer in layers if layer.kind == "lgap" for name in layer.stores]
    if biased := [name for name in pooled if name in thresholds]:
        return f"{biased[0]}: thresholds of global pooling"
    chains, apart = adjacent([name for layer in layers for name in layer.stores], [each.view.parts for each in sums.values()])
    if apart:
        reader = next(layer for layer, each in sums.items() if apart in zip(each.view.parts, each.view.parts[1:]))
        return f"{reader.ops[0].name}: {apart[0]} and {apart[1]} cannot lie side by side"
    tensors = [Tensor.of(name, shape, words_of(spans(shape[0], cuts[name], lanes), lanes), columns, False) for name, shape in graph.tensors]
    lasting = {LATENT} & (cuts.keys() - {*pooled})  # a latent that is pooled is read by the next layer alone
    ahead = {name for chain in chains if learns and LATENT in chain or keeps_image and graph.input.name in chain for name in chain}
    places, used = allot(tensors, chains, layers, lasting | ahead, ahead)
    arrayed = [each for layer, each in sums.items() if layer.kind != "lgap" and each is not graph.classifier]
    tiles = {each: _tiles(each, tensors, lanes, outputs) for each in arrayed}
    return Arrangement(graph, tuple(layers), {name: places[name] for name in cuts}, used, tiles, (pixels, lanes, outputs), False)


def _layers(graph):
    """(layers in order, {each: its sum, or the first}): all global poolings are one layer, where the first of them is."""
    layers, sums = [graph.input], {}
    poolings = [each for each in graph.sums if each.layer.kind in ("gap", "depthwise")]
    for each in [*graph.sums, *([graph.classifier] if graph.classifier else [])]:
        if each not in poolings:
            layers.append(each.layer)
        elif each is poolings[0]:
            ops = tuple(each.op for each in poolings)
            macs = sum(each.layer.macs for each in poolings)
            layers.append(Layer("lgap", f"pool of {each.layer.parts[0]}", ops, each.layer.shape, each.layer.parts, macs))
        else:
            continue
        sums[layers[-1]] = each
    return layers, sums


def _tiling(layers, graph, columns):
    """Why blocks of 2 x `columns` pixels do not tile a map, or ""."""
    shapes = dict(graph.tensors)
    for layer in layers:
        _, height, width = layer.shape
        if layer.kind == "input" and width % columns or layer.kind == "conv" and (height, width) != (1, 1) and height % 2:
            return f"{layer.ops[-1].name}: blocks of 2x{columns} pixels do not tile its {height}x{width} output"
        for part in layer.parts:
            _, height, width = shapes[part]
            ok = (height, width) == (1, 1) if layer.kind in ("dense", "logits") else height % 2 == 0 and (
                width % columns == 0 or layer.kind == "lgap" and width < columns)
            if not ok:
                return f"{layer.ops[0].name}: blocks of 2x{columns} pixels do not tile its {height}x{width} input"
    return ""


def _cut(cuts, layers, sums, lanes, outputs):
    """Collect the channels where words must begin, {tensor: set}; returns why they cannot, or "".

    A word begins where a reader's group begins.  It also begins with a group of the layer itself, where
    the group's first tile would else begin inside a tile slot.
    """
    sizes = {name: layer.shape[0] for layer in layers for name in layer.stores}
    for layer in reversed(layers[1:]):
        each = sums[layer]
        if layer.kind == "lgap":
            cuts[layer.parts[0]].update(*(cuts[name] for name in layer.stores))
            continue
        share, first = layer.shape[0] // each.count, 0
        before = deque(sorted(cuts.get(layer.name, ())))  # of the logits none
        for edge in range(share, layer.shape[0], share):
            while before and before[0] <= edge:
                cut = before.popleft()
                first = cut if (cut - first) % lanes else first  # as `spans` does
            if (edge - first) % outputs:
                cuts[layer.name].add(edge)
                first = edge
        size, copies = divmod(each.view.shape[0] // each.count, each.view.repeat)
        if copies:
            return f"{layer.ops[-1].name}: a group ends between the copies of a duplicated channel"
        start = 0
        for part in each.view.parts:
            cuts[part] |= {edge - start for edge in range(size, size * each.count, size) if start < edge < start + sizes[part]}
            start += sizes[part]
    for layer in layers:
        if layer.kind == "lgap":  # global pooling writes a word for each that it reads
            cuts.update(dict.fromkeys(layer.stores, cuts[layer.parts[0]]))
    if any(cut % lanes for cut in cuts[layers[0].name]):  # the encoder fills words whole
        return f"{layers[0].name}: groups split the {lanes} lanes of an encoded pixel"
    return ""


def _tiles(each, tensors, lanes, outputs):
    """The tiles of a sum, in the order of its outputs."""
    codes, _ = located(tensors, each)
    rank = np.zeros(len(tensors), int)
    names = [tensor.name for tensor in tensors]
    rank[[names.index(part) for part in each.view.parts]] = np.arange(len(each.view.parts))
    targets = tensors[each.number].places if each.number >= 0 else np.column_stack(divmod(np.arange(each.layer.shape[0]), lanes))
    tiles = []
    for group, own in zip(each.groups, codes):
        places = Places.of(np.unique(own))
        order = np.lexsort((places.word, rank[places.tensor], places.right, places.down))
        reads = Reads(Places(*(part[order] for part in places)), np.full(len(order), each.view.repeat), taps=len(each.offsets))
        for (word, tile_slot), run in groupby(enumerate(targets[group.outputs] // (1, outputs)), key=lambda place: tuple(place[1])):
            tiles.append(Tile(((group, np.array([member for member, _ in run])),), reads, int(word), int(tile_slot)))
    return tuple(tiles)


def steps(arrangement: Arrangement, heads: dict[Sum, int]) -> list[Step]:
    """The steps of a pass.  heads: words of start values at the head of a tile."""
    sums = {each.layer: each for each in arrangement.tiles}
    result = []
    for layer in arrangement.layers:
        if layer.kind == "lgap":
            result.append(_pool_step(arrangement, layer))
        elif layer in sums:
            result += _steps(arrangement, sums[layer], heads[sums[layer]])
    return result


def _steps(arrangement, each, head):
    """The steps of a convolution, a dense layer or the logits: one for each run of outputs that read alike and lie side by side."""
    tiles, layer = arrangement.tiles[each], each.layer
    source = arrangement.tensors[each.view.parts[0]]
    target = arrangement.tensors.get(layer.name) if each.number >= 0 else None
    ends = run_ends(arrangement, tiles, [tile.reads for tile in tiles])
    for first, last in zip(ends, ends[1:]):
        tile, reads = tiles[first], tiles[first].reads
        address = arrangement.stored[reads.places.tensor[0]].base + int(reads.places.word[0])
        yield Step(
            kind="conv", layer=layer.label, source=address, word_stride=1, block_stride=source.pitch,
            row_stride=source.pitch * source.columns % FIELD_VALUES, words=len(reads.times) // reads.taps, repeat=each.view.repeat,
            taps=reads.taps, rows=source.rows, columns=source.columns, target=target.base + tile.word if target else 0,
            target_block_stride=target.pitch if target else 0, target_row_stride=target.pitch * target.columns if target else 0,
            tiles=last - first, tile_slot=tile.tile_slot, valid=tiles[last - 1].outputs, tile_words=reads.count + head,
            pool=each.keep == "or", vector=each.vector, logits=each.number < 0, bias=head > 0)


def _pool_step(arrangement, layer):
    """The step of global pooling."""
    pixels, lanes, outputs = arrangement.shape
    source = arrangement.tensors[layer.parts[0]]
    blocks = source.rows * source.columns
    targets = [arrangement.tensors[name] for name in layer.stores]
    gap, depthwise = (any(op.kind == kind for op in layer.ops) for kind in ("gap", "depthwise"))
    return Step(
        kind="lgap", layer=layer.label, source=source.base, word_stride=source.pitch, block_stride=0, row_stride=0, words=blocks, repeat=1,
        taps=1, rows=1, columns=lanes, target=targets[0].base, target_block_stride=0,
        target_row_stride=(targets[-1].base - targets[0].base) % FIELD_VALUES,
        tiles=len(source.lanes), tile_slot=0, valid=outputs, tile_words=-(-blocks * pixels // outputs) if depthwise else 0,
        gap=gap, depthwise=depthwise)
