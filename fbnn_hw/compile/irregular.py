"""Sums -> places, lists of reads, steps and weight words, for networks that the loops over taps and words cannot read.

The layout is planar: word i of a tensor's block lies at base + i * blocks + block, so that a read is a constant distance from its
block.  A tile of P outputs has a list of reads, which the engine goes through for each block.  A list names for each read a word, a
move of the block by pixels, and whether the accumulator is shifted first.

Lanes of a word that a tile does not want cannot be left out.  Such a tile reads each word an even number of times: the wanted lanes
have their weight twice, the others +1 as often as -1.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import groupby

import numpy as np

from ..base.errors import FitError
from ..ir.network import LATENT, Network, Topology
from . import graph as graphs
from . import starts
from .config import FIELD, LIST_STEP_WORDS, READ_BITS, TILE_SLOTS, Step, byte_words, moved_read, read_word
from .graph import CHANNEL, DOWN, POWER, RIGHT, TENSOR, Graph, Group
from .layout import Stored, Tensor, allot, blocks, words_of

WAYS = "apart", "together", "compact"
"""Ways to arrange the channels of a tensor in words.

apart: the channels of a word are read by the same layers.  together: a set of channels with the
same readers has words of its own only if it fills half a word.  compact: every lane has a channel.
"""


@dataclass(frozen=True)
class Reads:
    """The reads of a tile, in their order.

    keys: int (K, 5): tensor, word, pixels down, pixels right, power.  times: int (K,): how often each
    word is read.  doubled: each word is read twice as often, and lanes that the tile does not want cancel.
    """

    keys: np.ndarray
    times: np.ndarray
    doubled: bool

    @property
    def count(self) -> int:
        return int(self.times.sum())


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Plan:
    """A graph with everything in its place."""

    graph: Graph
    words: tuple[tuple[tuple[int, ...], ...], ...]  # of each tensor: lanes of its words, see `Tensor.lanes`
    tiles: tuple[tuple[Tile, ...], ...]  # of each sum
    tensors: dict[str, Tensor]
    used: int  # words of a bank
    lanes: int
    outputs: int
    find: tuple[np.ndarray, ...]  # of each tensor int (channels, 2): word and lane of its channels

    def cost(self, columns: int) -> int:
        """Reads of a frame, and cycles in which the words of its image are written."""
        reads = sum(math.prod(blocks(layer.computed, columns)) * sum(tile.reads.count for tile in tiles)
                    for layer, tiles in zip(self.graph.sums, self.tiles))
        return reads + math.prod(self.graph.image.shape[1:]) * len(self.words[0])


def plan(topology: Topology, pixels: int, lanes: int, outputs: int, room: int | None = None, learns: bool = False,
         keeps_image: bool = False) -> Plan:
    """Return the plan with the fewest reads of those that fit; where none fits, the one with the fewest words.

    A plan fits if its features take at most `room` words of a bank.  Where convolutions read scattered
    bits, a graph that copies these bits first is tried too, with the first of WAYS.  Maps that are
    summed over their pixels are copied first where their channels lie apart, because such a sum would
    need a weight word for each pixel.

    learns: what the logits read stays in the banks for a learner, its words side by side.
    keeps_image: see `schedule.build`.  Raises FitError.
    """
    return _plan(topology, pixels, lanes, outputs, room, WAYS, learns, keeps_image)


@lru_cache(maxsize=16)  # every way to keep the weights asks for the same plan
def _plan(topology, pixels, lanes, outputs, room, ways, learns, keeps_image):
    columns = pixels // 2

    def placed(graph, way):
        return _Arranger(graph, _classes(graph), columns, lanes, outputs, way, keeps_image).plan()

    def best(word_pixels):
        build = partial(graphs.build, topology, lanes, learns=learns, word_pixels=word_pixels)
        plans = [placed(build(), ways[0])]
        if summed := _summed_apart(plans[0]):
            copied = placed(build(summed), ways[0])
            plans = [copied] if room is None or copied.used <= room else plans
        if gathered := graphs.scattered(plans[0].graph):
            plans.append(placed(build({*gathered, *summed}), ways[0]))
        chosen = _best(plans, room, columns)
        return _best([chosen, *(placed(chosen.graph, way) for way in ways[1:])], room, columns)

    plans = [best(word_pixels) for word_pixels in graphs.word_pixels(topology, lanes)]
    return _best([placed for placed in plans if _has_starts(placed)], room, columns)


def _summed_apart(placed):
    """Names of views that are summed over several pixels, whose channels lie so that no spread step can read them."""
    return tuple(dict.fromkeys(layer.op.inputs[0] for layer, tiles in zip(placed.graph.sums, placed.tiles)
                               if layer.layer.kind in ("gap", "depthwise") and tiles[0].source_tile_slot < 0 and tiles[0].reads.count > 2))


def _best(plans, room, columns):
    """The plan with the fewest reads whose features fit, or that with the fewest words."""
    fitting = [placed for placed in plans if room is None or placed.used <= room]
    if not fitting:
        return min(plans, key=lambda placed: placed.used)
    return min(fitting, key=lambda placed: placed.cost(columns))


class _Arranger:
    """One way to arrange the channels of all tensors."""

    def __init__(self, graph: Graph, classes: list[np.ndarray], columns: int, lanes: int, outputs: int, way: str, keeps_image: bool):
        self.graph, self.classes, self.columns, self.lanes, self.outputs = graph, classes, columns, lanes, outputs
        self.way, self.keeps_image = way, keeps_image
        self.words: list[tuple[tuple[int, ...], ...]] = []
        self.find: list[np.ndarray] = []  # of each tensor (channels, 2): word, lane
        self.live: list[np.ndarray] = []  # of each tensor (words, lanes): whether a lane has a channel

    def plan(self) -> Plan:
        self._keep(self._image_words())
        tiles = [self._tiles(layer) for layer in self.graph.sums]
        tensors, used = self._places()
        return Plan(self.graph, tuple(self.words), tuple(tiles), tensors, used, self.lanes, self.outputs, tuple(self.find))

    def _keep(self, words):
        """Append the words of the next tensor, and where each of its channels lies."""
        self.words.append(words)
        array = np.array(words).reshape(-1, self.lanes)
        find = np.zeros((int(array.max()) + 1, 2), np.int64)
        for place in np.argwhere(array >= 0):
            find[array[tuple(place)]] = place
        self.find.append(find)
        self.live.append(array >= 0)

    def _image_words(self):
        """Words of the encoded image.  The encoder fills the words of a pixel in order, those of bytes as `byte_words` lays them out."""
        stored, channels = self.graph.tensors[0].shape[0], self.graph.image.shape[0]
        if self.graph.image.ops[0].kind == "bits8":
            pixels = self.graph.word_pixels
            sizes = [3 * pixels * len(word) for word in byte_words(self.lanes, pixels)] * (4 if self.graph.quarters else 1)
        else:
            sizes = [stored] if self.graph.packed else [channels] * (stored // channels)
        ends = np.cumsum(sizes).tolist()
        return words_of(zip([0, *ends], ends), self.lanes)

    # Tiles.

    def _tiles(self, layer):
        """Return the tiles of a sum, and append the words of its tensor."""
        if layer.spread and (chunks := self._lane_by_lane(layer)):
            tiles = [(tuple((group, np.array([0])) for group in groups), 0) for groups, _ in chunks]
            return self._packed(layer, tiles, [self._spread_reads(groups) for groups, _ in chunks], [tile_slot for _, tile_slot in chunks])
        choices = [False]
        if layer.spread:
            choices = [True]
        elif len(layer.groups) > 1 and len(layer.groups[0].outputs) < self.outputs:
            choices = [False, True]
        candidates: list[tuple] = []
        reads_of_groups: dict[tuple[int, ...], Reads] = {}
        for merged in choices:
            chunks = self._chunks(layer, merged)
            candidates.append((chunks, [self._reads(layer, [group for group, _ in parts], reads_of_groups) for parts, _ in chunks]))
        return self._packed(layer, *min(candidates, key=lambda chunks_and_lists: sum(reads.count for reads in chunks_and_lists[1])))

    def _lane_by_lane(self, layer):
        """Return [(groups, tile slot)], the tiles of a spread step, or [] where the sum cannot be one.

        The outputs of such a tile read the lanes of one tile slot: output p reads lane p.
        """
        if self.lanes // self.outputs > TILE_SLOTS:
            return []
        places: dict[tuple[int, int, int], dict[int, Group]] = {}
        for group in layer.groups:
            key, lane = _located(self.find, group)
            if len(np.unique(np.column_stack([key[:, :2], lane]), axis=0)) != 1 or len(np.unique(key, axis=0)) != len(key):
                return []
            run = places.setdefault((int(key[0, 0]), int(key[0, 1]), int(lane[0]) // self.outputs), {})
            if int(lane[0]) % self.outputs in run:
                return []
            run[int(lane[0]) % self.outputs] = group
        if any(sorted(run) != list(range(len(run))) for run in places.values()):
            return []
        return [([run[p] for p in range(len(run))], tile_slot) for (_, _, tile_slot), run in places.items()]

    def _chunks(self, layer, merged):
        """Cut a sum into tiles of at most P outputs: [(((group, its chosen outputs), ..), class)].

        merged: a tile may have outputs of several groups.
        """
        classes = self.classes[layer.number] if layer.number >= 0 else None
        channels = np.concatenate([group.outputs for group in layer.groups])
        owner = np.concatenate([np.full(len(group.outputs), i) for i, group in enumerate(layer.groups)])
        within = np.concatenate([np.arange(len(group.outputs)) for group in layer.groups])
        label = np.zeros(len(channels), np.int64)
        if classes is not None and self.way != "compact":
            label = classes[channels]
            if self.way == "together":
                sizes = np.bincount(label)
                label = np.where(sizes[label] * 2 >= self.lanes, label, len(sizes))
        key = label if merged else label * len(layer.groups) + owner
        order = np.lexsort((channels, key))
        chunks = []
        for _, run in groupby(order, key=lambda i: key[i]):
            members = list(run)
            for start in range(0, len(members), self.outputs):
                part = members[start:start + self.outputs]
                groups = tuple((layer.groups[g], within[list(same)]) for g, same in groupby(part, key=lambda i: owner[i]))
                chunks.append((groups, int(label[part[0]])))
        return chunks

    def _packed(self, layer, chunks, lists, source_tile_slots=None):
        """Place tiles side by side in words; each class of channels begins a new word."""
        tile_slots = self.lanes // self.outputs
        tiles, words, before = [], [], None
        tile_slot = tile_slots
        for (parts, label), reads, source_tile_slot in zip(chunks, lists, source_tile_slots or [-1] * len(chunks)):
            if tile_slot == tile_slots or label != before:
                words.append([-1] * self.lanes)
                tile_slot = 0
            before = label
            channels = np.concatenate([group.outputs[members] for group, members in parts])
            words[-1][tile_slot * self.outputs:tile_slot * self.outputs + len(channels)] = channels.tolist()
            tiles.append(Tile(parts, reads, len(words) - 1, tile_slot, source_tile_slot))
            tile_slot += 1
        if layer.number >= 0:
            assert layer.number == len(self.words)
            self._keep(tuple(tuple(word) for word in words))
        return tuple(tiles)

    def _spread_reads(self, groups):
        """`Reads` of a tile of a spread step: each word is read twice."""
        keys = _in_order(np.concatenate([_located(self.find, group)[0] for group in groups]))
        return Reads(keys, np.full(len(keys), 2), True)

    def _reads(self, layer, groups, reads_of_groups):
        """`Reads` of a tile with outputs of these groups.

        reads_of_groups: {ids of the groups: Reads}, extended here.  Tiles of the same groups share their reads.
        """
        name = tuple(map(id, groups))
        if name in reads_of_groups:
            return reads_of_groups[name]
        located = [np.column_stack(_located(self.find, group)) for group in groups]
        every = _in_order(np.concatenate([places[:, :5] for places in located]))
        index = {key: i for i, key in enumerate(map(tuple, every.tolist()))}
        live = np.array([self.live[tensor][word] for tensor, word, *_ in index]).reshape(-1, self.lanes)
        use = np.zeros((len(groups), len(every), self.lanes), np.int64)
        for number, places in enumerate(located):
            np.add.at(use[number], (np.array([index[tuple(key)] for key in places[:, :5].tolist()]), places[:, 5]), 1)
        times = use.max((0, 2))
        doubled = bool((live & ((times[None, :, None] - use) % 2 == 1)).any())
        if doubled and layer.number < 0:
            raise FitError(f"layer {layer.op.name}: the logits read a part of a word")  # `graph` copies such bits first
        reads_of_groups[name] = Reads(every, times * (1 + doubled), doubled)
        return reads_of_groups[name]

    # Places.

    def _places(self):
        """Return ({name: Tensor}, words of a bank).

        After the last sum that reads a tensor, its words are free for others.
        """
        graph = self.graph
        ends = [0] * len(graph.tensors)
        for number, layer in enumerate(graph.sums):
            for tensor in _tensors_of(layer):
                ends[tensor] = max(ends[tensor], number)
            if layer.number >= 0:
                ends[layer.number] = max(ends[layer.number], number)
        begins = [-1] * len(ends)
        for number, layer in enumerate(graph.sums):
            if layer.number >= 0:
                begins[layer.number] = number
        stored, life = {}, {}
        for number, tensor in enumerate(graph.tensors):
            end = len(graph.sums) if tensor.name == LATENT or self.keeps_image and number == 0 else ends[number]
            life[tensor.name] = begins[number], end
            rows, columns = blocks(tensor.shape[1:], self.columns)
            stored[tensor.name] = Stored(tensor.name, tensor.shape, self.words[number], rows, columns, planar=True)
        kept = list(graph.classifier.parts) if graph.classifier else []
        life |= dict.fromkeys(kept, (begins[0], len(graph.sums)))  # the next image arrives while a learner still reads them
        chains = [[name] for name in stored if name not in kept]  # the image first, which lies at 0
        tensors, used = allot([*chains, *([kept] if kept else [])], stored, life)
        return {name: tensors[name] for name in stored}, used


def _tensors_of(layer):
    """Numbers of the tensors that a sum reads."""
    return {int(tensor) for group in layer.groups for tensor in np.unique(group.terms[:, TENSOR])}


def _in_order(keys):
    """Return the different keys in the order of a list: by power, highest first, then by tensor, pixel and word."""
    keys = np.unique(keys, axis=0)
    return keys[np.lexsort((keys[:, 1], keys[:, 3], keys[:, 2], keys[:, 0], -keys[:, 4]))]


def _located(find, group):
    """Return where the terms of a group lie: (keys (T, 5), lanes (T,)).  find: for each tensor (channels, 2): word, lane."""
    terms = group.terms
    place = np.zeros((len(terms), 2), np.int64)
    for number in np.unique(terms[:, TENSOR]):
        in_tensor = terms[:, TENSOR] == number
        place[in_tensor] = find[number][terms[in_tensor, CHANNEL]]
    return np.column_stack([terms[:, TENSOR], place[:, 0], terms[:, DOWN], terms[:, RIGHT], terms[:, POWER]]), place[:, 1]


def _classes(graph):
    """Number the classes of channels of each tensor, int (channels,): all channels of a class have the same readers."""
    marks: list[list[list]] = [[[] for _ in range(stored.shape[0])] for stored in graph.tensors]
    for layer in graph.sums:
        if layer.spread:
            continue
        for number, group in enumerate(layer.groups):
            if layer.layer.kind == "copy":  # a copy reads all of them alike
                number = 0
            used, count = np.unique(group.terms[:, [TENSOR, CHANNEL]], axis=0, return_counts=True)
            for (tensor, channel), times in zip(used.tolist(), count.tolist()):
                marks[tensor][channel].append((layer.op.name, number, times))
    classes = []
    for channels in marks:
        seen: dict[tuple, int] = {}
        classes.append(np.array([seen.setdefault(tuple(mark), len(seen)) for mark in channels], np.int64))
    return classes


# Steps.


def steps(placed: Plan, network: Network, pixels: int, start_reads: bool = False) -> tuple[list[Step], list[int]]:
    """Return (steps of a pass, table of the lists of reads).

    start_reads: if a layer needs bias words, all layers have them, and blocks begin with start reads.
    """
    order: list[int] = []
    addresses: dict[tuple[int, ...], int] = {}
    biases = [_needs_bias(placed, layer, tiles, network) for layer, tiles in zip(placed.graph.sums, placed.tiles)]
    heads = [starts.count(start_reads) * (any(biases) if start_reads else bias) for bias in biases]

    result = []
    for layer, tiles, head in zip(placed.graph.sums, placed.tiles, heads):
        kinds = {(id(tile.reads), tile.source_tile_slot): tile for tile in tiles}
        by_kind = {kind: _list(placed, layer, tile, pixels // 2) for kind, tile in kinds.items()}
        lists = [by_kind[id(tile.reads), tile.source_tile_slot] for tile in tiles]
        for first, last, alike in _steps_of(tiles, lists, placed, addresses):
            place = _place_lists(_joined(lists[first:last], alike), order, addresses)
            result.append(_step(placed, layer, tiles[first:last], lists[first], place, alike, head, pixels))
    if result:
        result[0] = replace(result[0], load=True)
        result[-1] = replace(result[-1], result=True)
    if len(order) > FIELD:
        raise FitError(f"model {network.topology.name}: lists of {len(order):,} reads are more than {FIELD:,}; use more --lanes or fewer "
                       "groups")
    return result, order


@dataclass(frozen=True)
class ReadList:
    """The reads of a tile as words of the table.

    Their addresses count from `origin` on, the word of the first read, and their tile slots from `tile_slot` on.
    A tile of a spread step has one read of two in it.
    """

    origin: int
    tile_slot: int
    reads: tuple[int, ...]


def _list(placed, layer, tile, columns):
    """The `ReadList` of a tile."""
    tensors = list(placed.tensors.values())
    origin, words, before = 0, [], None
    for (tensor, word, down, right, power), times in zip(tile.reads.keys.tolist(), tile.reads.times.tolist()):
        place = tensors[tensor]
        row, y = divmod(down, 2)
        column, x = divmod(right, columns)
        address = place.base + word * place.word_stride
        origin = address if before is None else origin
        address += row * place.columns + column - origin
        if layer.vector:
            row = column = 0
        for _ in range(times if tile.source_tile_slot < 0 else times // 2):
            shift = before is not None and power != before
            words.append(read_word(address, y, x, row, column, shift))
            before = power
    return ReadList(origin, max(0, tile.source_tile_slot), tuple(words))


def _steps_of(tiles, lists, placed, addresses):
    """Yield (first, last + 1, alike) of the tiles that make one step, see `_runs`.

    Tiles whose lists differ are a step each where the table grows less so: steps that begin at different words can have one list.
    A step costs the bits of the program, a read those of the table.
    """
    runs = list(_runs(tiles, lists, placed))
    mixed = [lists[first:last] for first, last, alike in runs if not alike]
    together = {_joined(run, False) for run in mixed} - addresses.keys()
    single = {tile_list.reads for run in mixed for tile_list in run} - addresses.keys()
    steps = sum(len(run) - 1 for run in mixed) * LIST_STEP_WORDS * 16
    split = steps + sum(map(len, single)) * READ_BITS < sum(map(len, together)) * READ_BITS
    for first, last, alike in runs:
        if alike or not split:
            yield first, last, alike
        else:
            yield from ((number, number + 1, True) for number in range(first, last))


def _joined(lists, alike):
    """The reads of a step, with addresses and tile slots from those of its first list on."""
    first = lists[0]
    if alike:
        return first.reads
    return tuple(moved_read(word, part.origin - first.origin, part.tile_slot - first.tile_slot) for part in lists for word in part.reads)


def _runs(tiles, lists, placed):
    """Yield (first, last + 1, alike) of the tiles that make one step.

    The tiles of a step follow one another in the words, their lists have the same length, and all but
    the last tile have P outputs.  alike: all of them have the same list.
    """
    tile_slots = placed.lanes // placed.outputs
    first = 0
    while first < len(tiles):
        last, alike = first + 1, True
        while last < len(tiles):
            before, tile = tiles[last - 1], tiles[last]
            follows = tile.word * tile_slots + tile.tile_slot == before.word * tile_slots + before.tile_slot + 1
            if not follows or before.outputs != placed.outputs or len(lists[last].reads) != len(lists[first].reads):
                break
            same = lists[last] == lists[last - 1]
            if last - first > 1 and same != alike:
                break
            alike = same
            last += 1
        yield first, last, alike
        first = last


def _place_lists(reads, order, addresses):
    """Return the address of `reads` in the table `order`.  The table is extended where it lacks them."""
    if reads not in addresses:
        addresses[reads] = len(order)
        order.extend(reads)
    return addresses[reads]


def _step(placed, layer, tiles, first_list, order, alike, head, pixels):
    columns = pixels // 2
    rows, across = blocks(layer.computed, columns)
    high, wide = (2, columns) if layer.vector else layer.source  # a vector has one pixel, so no read lies outside the map
    source_rows, source_columns = blocks((high, wide), columns)
    target = placed.tensors.get(layer.layer.name) if layer.number >= 0 else None
    stride = target.word_stride if target else 0
    spread = tiles[0].source_tile_slot >= 0
    return Step(
        kind="conv", layer=layer.layer.label, source=first_list.origin, word_stride=0, block_stride=1, row_stride=source_columns,
        words=tiles[0].reads.count, repeat=1, taps=1, rows=rows, columns=across,
        target=target.base + tiles[0].word * stride if target else 0, target_block_stride=1,
        target_row_stride=0, tiles=len(tiles), tile_slot=tiles[0].tile_slot, valid=tiles[-1].outputs,
        tile_words=_words_of(layer, tiles[0], placed.lanes) + head, pool=layer.keep != "all", vector=layer.vector,
        logits=layer.number < 0, bias=head > 0,
        order=order, rewind=alike, plane=stride, source_rows=source_rows, source_columns=source_columns,
        odd_height=bool(high % 2), valid_columns=wide - (source_columns - 1) * columns, first_pixel=layer.keep == "first",
        spread=spread, ones=spread and layer.ones, source_tile_slot=first_list.tile_slot, paired=spread)


def _words_of(layer, tile, lanes):
    """Number of a tile's weight words, without those of its start values."""
    if tile.source_tile_slot < 0:
        return tile.reads.count
    return 0 if layer.ones else -(-tile.reads.count // (2 * lanes))


# Thresholds.  A padding lane holds 0; the number of padding lanes that match sets the start of an accumulator.


def _largest(layer, network):
    """Bound on the magnitude of a layer's thresholds, with all weights whose pixel is always outside counted as if they added up."""
    own = 0
    if layer.number >= 0 and layer.op.name in network.thresholds:
        own = int(np.abs(network.thresholds[layer.op.name]).max())
    return own + layer.scale * max(len(group.outside) for group in layer.groups)


def _dead(placed, tile):
    """Count the padding lanes in all reads of a tile: {power: count}, highest power first."""
    counts: dict[int, int] = {}
    if tile.source_tile_slot >= 0:  # its padding lanes cancel
        return {0: 0}
    for (tensor, word, _, _, power), times in zip(tile.reads.keys.tolist(), tile.reads.times.tolist()):
        counts[power] = counts.get(power, 0) + times * placed.words[tensor][word].count(-1)
    return counts or {0: 0}


def _fan_in(group):
    return int((1 << group.terms[:, POWER]).sum())


def _reached(threshold, fan_in, doubled):
    """Return the sum at which the accumulator must be 0.

    With doubled reads that is the threshold.  Otherwise a unit of the accumulator is half a sum, so a
    threshold of the other parity is raised by one.
    """
    return threshold if doubled else threshold + (threshold - fan_in) % 2


def _needs_bias(placed, layer, tiles, network):
    """Whether a layer needs bias words, because its padding lanes cannot shift the sums far enough."""
    most = _largest(layer, network)
    for tile in tiles:
        total = sum(count << power for power, count in _dead(placed, tile).items())
        for group, _ in tile.parts:
            reached = max(abs(_reached(sign * most, _fan_in(group), tile.reads.doubled)) for sign in (1, -1))
            if (1 + tile.reads.doubled) * reached > total:
                return True
    return False


def accumulator_bits(placed: Plan, network: Network) -> int:
    """Bits of a signed accumulator that holds every sum of every layer."""
    most = 1
    for layer, tiles in zip(placed.graph.sums, placed.tiles):
        largest = _largest(layer, network) + 1
        for tile in tiles:
            reach = max(_fan_in(group) for group, _ in tile.parts) + largest
            own = reach if tile.reads.doubled else -(-reach // 2)
            most = max(most, own)
            if (own >> max(_dead(placed, tile))) + 1 >= 1 << placed.lanes - 1:
                raise FitError(f"layer {layer.op.name}: start values of more than {placed.lanes} bits; use fewer inputs to an output, "
                               "or more --lanes")
    return most.bit_length() + 1


def _has_starts(placed):
    """Whether `_matches` has an answer for all sums of a plan.  With words of one pixel it has."""
    for tile in (tile for tiles in placed.tiles for tile in tiles):
        reach = 0
        for power, count in sorted(_dead(placed, tile).items()):
            if reach < (1 << power) - 1:
                return False
            reach += count << power
    return True


def _matches(dead, want):
    """Split `want` into matches of padding lanes and a start value of the accumulator.

    Returns (matches of each power, start): sum(matches << power) + (start << highest power) = want, and
    no number of matches exceeds that of `dead`.  `_has_starts` says whether there are such numbers.
    """
    matches, highest, total = [], max(dead), sum(count << power for power, count in dead.items())
    begin = -(-(want - total) >> highest) if want > total else min(0, want >> highest)
    want -= begin << highest
    for power in dead:
        lower = sum(count << p for p, count in dead.items() if p < power)
        matches.append(max(0, min(dead[power], -(-(want - lower) // (1 << power)))))
        want -= matches[-1] << power
    assert not want
    return matches, begin


# Weights.


def weight_words(network: Network, placed: Plan, biased: Iterable[str], start_reads: bool = False) -> dict[str, np.ndarray]:
    """{layer name: uint8 array (words, outputs * lanes) of bits}, in the order of use.

    biased: labels of layers with bias words.  start_reads: their blocks begin with start reads.
    """
    biased = set(biased)
    result = {}
    for layer, tiles in zip(placed.graph.sums, placed.tiles):
        make = _spread_words if tiles[0].source_tile_slot >= 0 else _tile_words
        groups = {id(group): _Weights(network, placed, layer, group) for group in layer.groups}
        parts = []
        for tile in tiles:
            words, begin = make(placed, layer, tile, groups, start_reads)
            if layer.layer.label in biased:
                words = np.concatenate([starts.words(begin, placed.lanes, start_reads), words])
            else:
                assert not begin.any()
            parts.append(words)
        result[layer.layer.name] = np.concatenate(parts).reshape(-1, placed.outputs * placed.lanes)
    return result


class _Weights:
    """Weights of a group: values (outputs, terms), thresholds (outputs,), keys and lanes of the terms."""

    def __init__(self, network, placed, layer, group):
        self.values, self.thresholds = layer.weights(network, group), layer.thresholds(network, group)
        self.keys, self.lanes = _located(placed.find, group)

    def places(self, reads):
        """Return for each term of the group the index of its key among those of `reads`."""
        index = {key: i for i, key in enumerate(map(tuple, reads.keys.tolist()))}
        return np.array([index[key] for key in map(tuple, self.keys.tolist())], np.int64)


def _tile_words(placed, layer, tile, groups, start_reads):
    """(uint8 (words, outputs, lanes), start values (outputs,)) of a tile."""
    reads, lanes = tile.reads, placed.lanes
    starts = np.concatenate([[0], np.cumsum(reads.times)]).astype(np.int64)
    count, scale = int(starts[-1]), 1 + reads.doubled
    within = np.arange(count) - starts[:-1].repeat(reads.times)
    words = np.zeros((count, placed.outputs, lanes), np.uint8)
    words[:, :tile.outputs] = (within % 2)[:, None, None]
    empty = np.array([placed.words[tensor][word] for tensor, word, *_ in reads.keys.tolist()]).reshape(-1, lanes) < 0
    empty = empty.repeat(reads.times, 0)
    powers = reads.keys[:, 4].repeat(reads.times)
    dead = _dead(placed, tile)
    total = sum(count << power for power, count in dead.items())
    below = int((lanes // 2 << powers).sum()) * start_reads  # with start reads a read adds its matches, else matches - L / 2
    places = [np.nonzero(empty & (powers == power)[:, None]) for power in dead]
    begin, first = np.zeros(placed.outputs, np.int64), 0
    for group, chosen in tile.parts:
        own, fan_in = groups[id(group)], _fan_in(group)
        at = own.places(reads)
        rows = starts[at] + _occurrence(at * lanes + own.lanes) * scale
        outputs = np.arange(first, first + len(chosen))
        for again in range(scale):
            words[(rows + again)[None, :], outputs[:, None], own.lanes[None, :]] = own.values[chosen]
        for output, threshold in zip(outputs, own.thresholds[chosen].tolist()):
            want = (total - scale * _reached(threshold, fan_in, reads.doubled)) // 2 - below
            matches, begin[output] = _matches(dead, want)
            for (row, lane), number in zip(places, matches):
                words[row, output, lane] = np.arange(len(row)) >= number
        first += len(chosen)
    return words, begin


def _spread_words(placed, layer, tile, groups, start_reads):
    """Those of a tile of a spread step, like `_tile_words`."""
    lanes = placed.lanes
    words = np.zeros((_words_of(layer, tile, lanes), placed.outputs, lanes), np.uint8)
    begin = np.zeros(placed.outputs, np.int64)
    for output, (group, _) in enumerate(tile.parts):
        own = groups[id(group)]
        begin[output] = -own.thresholds[0] - tile.reads.count * lanes // 2 * start_reads
        if not layer.ones:
            at = own.places(tile.reads)
            words[at // lanes, output, at % lanes] = own.values[0]
    return words, begin


def _occurrence(values):
    """Return for each value how many equal ones precede it."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    new = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(values) else np.zeros(0, bool)
    starts = np.maximum.accumulate(np.where(new, np.arange(len(values)), 0))
    result = np.zeros(len(values), np.int64)
    result[order] = np.arange(len(values)) - starts
    return result
