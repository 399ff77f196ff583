"""Sums -> the planar arrangement, and the lists of reads of its steps, for networks that loops over taps and words cannot read.

Word i of a tensor's block lies at base + i * blocks + block, so that a read is a constant distance from its
block.  A tile of P outputs has a list of reads, which the engine goes through for each block.  A list names for each read a word, a
move of the block by pixels, and whether the accumulator is shifted first.
"""

import math
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from itertools import groupby

import numpy as np

from ..base.errors import FitError
from ..ir.network import LATENT, Topology
from ..machine.config import byte_words
from ..machine.step import FIELD_VALUES, READ_BITS, TILE_SLOTS, Step, moved_read, read_word, step_words
from . import graph as graphs
from .arrangement import Arrangement, Places, Reads, Tile, located, run_ends
from .graph import Graph, Sum
from .layout import Tensor, Words, allot, blocks, words_of
from .weights import has_starts, words_of_tile

SHARINGS = "apart", "together", "compact"
"""Which channels of a tensor share its words.

apart: those that are read by the same layers.  together: a set of channels with the
same readers has words of its own only if it fills half a word.  compact: every lane has a channel.
"""


@lru_cache(maxsize=16)  # every way to keep the weights asks for the same plan
def plan(topology: Topology, pixels: int, lanes: int, outputs: int, room: int | None = None, learns: bool = False,
         keeps_image: bool = False) -> Arrangement:
    """Return the arrangement with the fewest reads of those that fit; where none fits, the one with the fewest words.

    One fits if its features take at most `room` words of a bank.  Where convolutions read scattered
    bits, a graph that copies these bits first is tried too, with the first of SHARINGS.  Maps that are
    summed over their pixels are copied first where their channels lie apart, because such a sum would
    need a weight word for each pixel.

    learns: what the logits read stays in the banks for a learner, its words side by side.
    keeps_image: see `schedule.build`.  Raises FitError.
    """
    def arranged(graph, sharing):
        return _Arranger(graph, pixels, lanes, outputs, sharing, keeps_image).arranged()

    def best(word_pixels):
        def build(*gathered):
            return graphs.build(topology, lanes, frozenset(gathered), learns, word_pixels)

        choices = [arranged(build(), SHARINGS[0])]
        if summed := _summed_apart(choices[0]):
            copied = arranged(build(*summed), SHARINGS[0])
            choices = [copied] if room is None or copied.used <= room else choices
        if gathered := graphs.scattered(choices[0].graph):
            choices.append(arranged(build(*gathered, *summed), SHARINGS[0]))
        chosen = _best(choices, room)
        return _best([chosen, *(arranged(chosen.graph, sharing) for sharing in SHARINGS[1:])], room)

    plans = [best(word_pixels) for word_pixels in graphs.word_pixels(topology, lanes)]
    return _best([each for each in plans if has_starts(each)], room)


def _summed_apart(arrangement):
    """Names of views that are summed over several pixels, whose channels lie so that no spread step can read them."""
    return tuple(dict.fromkeys(each.op.inputs[0] for each, tiles in arrangement.tiles.items() if each.layer.kind in ("gap", "depthwise")
                               and tiles[0].source_tile_slot < 0 and tiles[0].reads.count > 2))


def _best(arrangements, room):
    """The arrangement with the fewest reads whose features fit, or that with the fewest words."""
    fitting = [each for each in arrangements if room is None or each.used <= room]
    if not fitting:
        return min(arrangements, key=lambda each: each.used)
    return min(fitting, key=cost)


def cost(arrangement: Arrangement) -> int:
    """Reads of a frame, and cycles in which the words of its image are written."""
    reads = sum(math.prod(blocks(each.computed, arrangement.shape[0] // 2)) * sum(tile.reads.count for tile in tiles)
                for each, tiles in arrangement.tiles.items())
    return reads + math.prod(arrangement.graph.input.shape[1:]) * len(arrangement.stored[0].lanes)


class _Arranger:
    """Arranges the channels of all tensors."""

    def __init__(self, graph: Graph, pixels: int, lanes: int, outputs: int, sharing: str, keeps_image: bool):
        self.graph, self.shape, self.lanes, self.outputs = graph, (pixels, lanes, outputs), lanes, outputs
        self.classes, self.sharing, self.keeps_image = _classes(graph), sharing, keeps_image
        self.tensors: list[Tensor] = []

    def arranged(self) -> Arrangement:
        graph = self.graph
        self._keep(self._image_words())
        tiles = {each: self._tiles(each) for each in graph.sums}
        kept = graph.classifier.layer.parts if graph.classifier else ()  # the next image arrives while a learner still reads them
        names = [name for name, _ in graph.tensors]
        chains = [(name,) for name in names if name not in kept] + [kept] * bool(kept)  # the image first, which lies at 0
        lasting = {LATENT, *kept, *[graph.input.name] * self.keeps_image} & {*names}
        places, used = allot(self.tensors, chains, graph.layers, lasting, kept)
        return Arrangement(graph, graph.layers, {name: places[name] for name in names}, used, tiles, self.shape, True)

    def _keep(self, words: Words):
        """Append the next tensor, without a place."""
        self.tensors.append(Tensor.of(*self.graph.tensors[len(self.tensors)], words, self.shape[0] // 2, True))

    def _image_words(self):
        """Words of the encoded image.  The encoder fills the words of a pixel in order, those of bytes as `byte_words` lays them out."""
        image, channels = self.graph.image, self.graph.input.shape[0]
        if self.graph.input.ops[0].kind == "bits8":
            sizes = [3 * image.word_pixels * len(word) for word in byte_words(self.lanes, image.word_pixels)] * (4 if image.quarters else 1)
        else:
            sizes = [image.channels] if image.packed else [channels] * (image.channels // channels)
        ends = np.cumsum(sizes).tolist()
        return words_of(zip([0, *ends], ends), self.lanes)

    # Tiles.

    def _tiles(self, each):
        """Return the tiles of a sum, and append its tensor."""
        codes, lanes = located(self.tensors, each)
        if each.spread and (chunks := self._lane_by_lane(each, codes, lanes)):
            own = [Places.of(np.unique(codes[run])) for run, _ in chunks]
            reads = [Reads(places, np.full(len(places.word), 2), True) for places in own]  # each word is read twice
            return self._packed(each, [(tuple((each.groups[g], np.array([0])) for g in run), 0, twice, tile_slot)
                                       for (run, tile_slot), twice in zip(chunks, reads)])

        @cache
        def reads_of(run):
            return self._reads(each, codes[list(run)], lanes[list(run)])

        choices = [each.spread, *[True] * (not each.spread and each.count > 1 and len(each.groups[0].outputs) < self.outputs)]
        candidates = [[(parts, label, reads_of(run), -1) for run, parts, label in self._chunks(each, merged)] for merged in choices]
        return self._packed(each, min(candidates, key=lambda tiles: sum(reads.count for _, _, reads, _ in tiles)))

    def _lane_by_lane(self, each, codes, lanes):
        """Return [(numbers of groups, tile slot)], the tiles of a spread step, or [] where the sum cannot be one.

        The outputs of such a tile read the lanes of one tile slot: output p reads lane p.
        """
        if self.lanes // self.outputs > TILE_SLOTS:
            return []
        places = Places.of(codes)
        apart = [(part != part[:, :1]).any() for part in (places.tensor, places.word, lanes)]
        if any(apart) or (np.diff(np.sort(codes, axis=1), axis=1) == 0).any():
            return []
        runs: dict[tuple[int, int, int], dict[int, int]] = {}
        for number, (tensor, word, lane) in enumerate(zip(places.tensor[:, 0].tolist(), places.word[:, 0].tolist(), lanes[:, 0].tolist())):
            run = runs.setdefault((tensor, word, lane // self.outputs), {})
            if lane % self.outputs in run:
                return []
            run[lane % self.outputs] = number
        if any(sorted(run) != list(range(len(run))) for run in runs.values()):
            return []
        return [([run[p] for p in range(len(run))], tile_slot) for (_, _, tile_slot), run in runs.items()]

    def _chunks(self, each, merged):
        """Cut a sum into tiles of at most P outputs: [(numbers of groups, ((group, its chosen outputs), ..), class)].

        merged: a tile may have outputs of several groups.
        """
        size = len(each.groups[0].outputs)
        channels = np.arange(each.layer.shape[0])
        label = np.zeros(len(channels), int)
        if each.number >= 0 and self.sharing != "compact":
            label = self.classes[each.number]
            if self.sharing == "together":
                sizes = np.bincount(label)
                label = np.where(sizes[label] * 2 >= self.lanes, label, len(sizes))
        key = label if merged else label * each.count + channels // size
        order, chunks = np.lexsort((channels, key)), []
        for run in np.split(order, np.flatnonzero(np.diff(key[order])) + 1):
            for start in range(0, len(run), self.outputs):
                part = run[start:start + self.outputs]
                same = [(number, np.array(list(own))) for number, own in groupby(part, key=lambda channel: int(channel) // size)]
                chunks.append((tuple(number for number, _ in same), tuple((each.groups[number], own % size) for number, own in same),
                               int(label[part[0]])))
        return chunks

    def _packed(self, each, chunks):
        """Place tiles side by side in words, [(parts, class, reads, source tile slot)]; each class of channels begins a new word."""
        tile_slots = self.lanes // self.outputs
        tiles, words, before = [], [], None
        tile_slot = tile_slots
        for parts, label, reads, source_tile_slot in chunks:
            if tile_slot == tile_slots or label != before:
                words.append([-1] * self.lanes)
                tile_slot = 0
            before = label
            channels = np.concatenate([group.outputs[members] for group, members in parts])
            words[-1][tile_slot * self.outputs:tile_slot * self.outputs + len(channels)] = channels.tolist()
            tiles.append(Tile(parts, reads, len(words) - 1, tile_slot, source_tile_slot))
            tile_slot += 1
        if each.number >= 0:
            assert each.number == len(self.tensors)
            self._keep(tuple(tuple(word) for word in words))
        return tuple(tiles)

    def _reads(self, each, codes, lanes):
        """`Reads` of a tile with outputs of some groups, whose terms lie at `codes` and `lanes`, int (groups, T)."""
        every, index = np.unique(codes, return_inverse=True)
        places = Places.of(every)
        live = np.array([self.tensors[tensor].channels[word] >= 0 for tensor, word in zip(places.tensor, places.word)])
        group = np.arange(len(codes))[:, None] * len(every)
        use = np.bincount(((group + index.reshape(codes.shape)) * self.lanes + lanes).reshape(-1), minlength=len(codes) * live.size)
        use = use.reshape(len(codes), *live.shape)
        times = use.max((0, 2))
        doubled = bool((live & ((times[None, :, None] - use) % 2 == 1)).any())
        if doubled and each.number < 0:
            raise FitError(f"layer {each.op.name}: the logits read a part of a word")  # `graph` copies such bits first
        return Reads(places, times * (1 + doubled), doubled)


def _classes(graph):
    """Number the classes of channels of each tensor, int (channels,): all channels of a class have the same readers."""
    marks: list[list[tuple]] = [[()] * shape[0] for _, shape in graph.tensors]
    for number, each in enumerate(graph.sums):
        if each.spread:
            continue
        terms = np.array([group.terms for group in each.groups])
        group = np.arange(len(terms))[:, None] * (each.layer.kind != "copy")  # a copy reads all of them alike
        code = (terms["tensor"] << 40) + (terms["channel"] << 20) + group
        for place, count in zip(*(part.tolist() for part in np.unique(code, return_counts=True))):
            marks[place >> 40][place >> 20 & (1 << 20) - 1] += number, place & (1 << 20) - 1, count
    classes = []
    for channels in marks:
        seen: dict[tuple, int] = {}
        classes.append(np.array([seen.setdefault(mark, len(seen)) for mark in channels], int))
    return classes


# Steps.


def steps(arrangement: Arrangement, heads: dict[Sum, int], topology: Topology) -> tuple[list[Step], list[int]]:
    """Return (steps of a pass, table of the lists of reads).  heads: words of start values at the head of a tile."""
    order: list[int] = []
    addresses: dict[tuple[int, ...], int] = {}
    result = []
    for each, tiles in arrangement.tiles.items():
        listed = cache(partial(_list, arrangement, each))
        lists = [listed(tile.reads, tile.source_tile_slot) for tile in tiles]
        for first, last, alike in _steps_of(arrangement, tiles, lists, addresses):
            reads = _reads_of_step(lists[first:last], alike)
            if reads not in addresses:
                addresses[reads] = len(order)
                order.extend(reads)
            result.append(_step(arrangement, each, tiles[first:last], lists[first], addresses[reads], alike, heads[each]))
    if len(order) > FIELD_VALUES:
        raise FitError(f"model {topology.name}: lists of {len(order):,} reads are more than {FIELD_VALUES:,}; use more --lanes "
                       "or fewer groups")
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


def _list(arrangement, each, reads, source_tile_slot):
    """The `ReadList` of a tile with these reads."""
    columns = arrangement.shape[0] // 2
    origin, words, before = 0, [], None
    for tensor, word, down, right, power, times in zip(*(part.tolist() for part in (*reads.places, reads.times))):
        place = arrangement.stored[tensor]
        row, y = divmod(down, 2)
        column, x = divmod(right, columns)
        address = place.base + word * place.word_stride
        origin = address if before is None else origin
        address += row * place.columns + column - origin
        if each.vector:
            row = column = 0
        for _ in range(times if source_tile_slot < 0 else times // 2):
            shift = before is not None and power != before
            words.append(read_word(address, y, x, row, column, shift))
            before = power
    return ReadList(origin, max(0, source_tile_slot), tuple(words))


def _steps_of(arrangement, tiles, lists, addresses):
    """Yield (first, last + 1, alike) of the tiles that make one step, see `_runs`.

    Tiles whose lists differ are a step each where the table grows less so: steps that begin at different words can have one list.
    A step costs the bits of the program, a read those of the table.
    """
    runs = list(_runs(arrangement, tiles, lists))
    mixed = [lists[first:last] for first, last, alike in runs if not alike]
    together = {_reads_of_step(run, False) for run in mixed} - addresses.keys()
    single = {tile_list.reads for run in mixed for tile_list in run} - addresses.keys()
    steps = sum(len(run) - 1 for run in mixed) * step_words(lists=True) * 16
    split = steps + sum(map(len, single)) * READ_BITS < sum(map(len, together)) * READ_BITS
    for first, last, alike in runs:
        if alike or not split:
            yield first, last, alike
        else:
            yield from ((number, number + 1, True) for number in range(first, last))


def _reads_of_step(lists, alike):
    """The reads of a step, with addresses and tile slots from those of its first list on."""
    first = lists[0]
    if alike:
        return first.reads
    return tuple(moved_read(word, part.origin - first.origin, part.tile_slot - first.tile_slot) for part in lists for word in part.reads)


def _runs(arrangement, tiles, lists):
    """Yield (first, last + 1, alike) of the tiles that make one step: their lists have the same length.  alike: they all are the same."""
    ends = run_ends(arrangement, tiles, [len(each.reads) for each in lists])
    for first, end in zip(ends, ends[1:]):
        while first < end:
            last = first + 1
            alike = last == end or lists[last] == lists[first]
            while last < end and (lists[last] == lists[last - 1]) == alike:
                last += 1
            yield first, last, alike
            first = last


def _step(arrangement, each, tiles, first_list, order, alike, head):
    columns = arrangement.shape[0] // 2
    rows, across = blocks(each.computed, columns)
    high, wide = (2, columns) if each.vector else each.source  # a vector has one pixel, so no read lies outside the map
    source_rows, source_columns = blocks((high, wide), columns)
    target = arrangement.tensors[each.layer.name] if each.number >= 0 else None
    stride = target.word_stride if target else 0
    spread = tiles[0].source_tile_slot >= 0
    return Step(
        kind="conv", layer=each.layer.label, source=first_list.origin, word_stride=0, block_stride=1, row_stride=source_columns,
        words=tiles[0].reads.count, repeat=1, taps=1, rows=rows, columns=across,
        target=target.base + tiles[0].word * stride if target else 0, target_block_stride=1,
        target_row_stride=0, tiles=len(tiles), tile_slot=tiles[0].tile_slot, valid=tiles[-1].outputs,
        tile_words=words_of_tile(each, tiles[0], arrangement.lanes) + head, pool=each.keep != "all", vector=each.vector,
        logits=each.number < 0, bias=head > 0,
        order=order, rewind=alike, plane=stride, source_rows=source_rows, source_columns=source_columns,
        odd_height=bool(high % 2), valid_columns=wide - (source_columns - 1) * columns, first_pixel=each.keep == "first",
        spread=spread, ones=spread and each.ones, source_tile_slot=first_list.tile_slot, paired=spread)
