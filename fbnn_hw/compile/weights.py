"""The weight words of an arrangement, in the order of their use, and the start values of its accumulators.

Lanes of a word that an output does not want cannot be left out.  A padding lane holds 0; the number of padding lanes that match moves the
start of an accumulator.  Lanes of other outputs are read an even number of times, half of them with each weight.
"""

from collections.abc import Iterable

import numpy as np

from ..base.errors import FitError
from ..ir.network import Network
from ..machine import starts
from ..machine.step import FIELD_VALUES
from .arrangement import Arrangement, Reads, Tile, located
from .graph import Group, Sum


def accumulator_bits(arrangement: Arrangement, network: Network) -> int:
    """Bits of a signed accumulator that holds every sum of every layer.  Raises FitError."""
    most, classifier = 1, arrangement.graph.classifier  # whose sums a learner makes, without tiles
    for each in [*arrangement.tiles, *([classifier] if classifier else [])]:
        looped = not arrangement.lists or each is classifier
        thresholds = network.threshold(each.op.name) if looped else np.array([_largest_threshold(each, network) + 1])
        threshold = max(int(thresholds.max()), -1 - int(thresholds.min()))
        for tile in [None] if looped else arrangement.tiles[each]:
            fan_in = max(group.fan_in for group, _ in tile.parts) if tile else each.groups[0].fan_in
            own = fan_in + threshold if tile and tile.reads.doubled else (fan_in + threshold + 1) // 2
            if looped and own >= FIELD_VALUES // 2:
                raise FitError(f"layer {each.op.name}: {fan_in:,} inputs to an output need sums of more than 16 bits; at most "
                               f"{FIELD_VALUES - 2:,} fit")
            if tile and (own >> max(arrangement.padding(tile))) + 1 >= 1 << arrangement.lanes - 1:
                raise FitError(f"layer {each.op.name}: start values of more than {arrangement.lanes} bits; use fewer inputs to an output, "
                               "or more --lanes")
            most = max(most, own)
    return most.bit_length() + 1


def _largest_threshold(each, network):
    """Bound on the magnitude of a sum's thresholds, with all weights whose pixel is always outside counted as if they added up."""
    own = 0
    if each.number >= 0 and each.op.name in network.thresholds:
        own = int(np.abs(network.thresholds[each.op.name]).max())
    return own + each.scale * max(len(group.outside) for group in each.groups)


def needs_bias(arrangement: Arrangement, each: Sum, network: Network) -> bool:
    """Whether a sum needs bias words: by lists, where the padding lanes cannot shift it far enough; by loops, where it has thresholds."""
    if not arrangement.lists:
        return each.op.name in network.thresholds
    most = _largest_threshold(each, network)
    for tile in arrangement.tiles[each]:
        total = sum(count << power for power, count in arrangement.padding(tile).items())
        for group, _ in tile.parts:
            reached = max(abs(_reached(sign * most, group.fan_in, tile.reads.doubled)) for sign in (1, -1))
            if (1 + tile.reads.doubled) * reached > total:
                return True
    return False


def _reached(threshold, fan_in, doubled):
    """Return the sum at which the accumulator must be 0.

    With doubled reads that is the threshold.  Otherwise a unit of the accumulator is half a sum, so a
    threshold of the other parity is raised by one.
    """
    return threshold if doubled else threshold + (threshold - fan_in) % 2


def has_starts(arrangement: Arrangement) -> bool:
    """Whether `_matches` has an answer for all sums by lists.  With words of one pixel it has."""
    for tile in (tile for tiles in arrangement.tiles.values() for tile in tiles):
        reach = 0
        for power, count in sorted(arrangement.padding(tile).items()):
            if reach < (1 << power) - 1:
                return False
            reach += count << power
    return True


def _matches(padding, want, looped):
    """Split `want`, int (outputs,), into matches of padding lanes and start values of accumulators.

    Returns (matches of each power, start values): sum(matches << power) + (start << highest power) = want, and
    no number of matches exceeds that of `padding`.  `has_starts` says whether there are such numbers.  looped: half of the lanes match.
    """
    matches, highest, total = [], max(padding), sum(count << power for power, count in padding.items())
    if looped:
        return [np.full_like(want, total // 2)], want - total // 2
    begin = np.where(want > total, -(-(want - total) >> highest), np.minimum(0, want >> highest))
    want = want - (begin << highest)
    for power in padding:
        lower = sum(count << p for p, count in padding.items() if p < power)
        matches.append(np.clip(-(-(want - lower) // (1 << power)), 0, padding[power]))
        want = want - (matches[-1] << power)
    assert not want.any()
    return matches, begin


# Words.


def weight_words(network: Network, arrangement: Arrangement, biased: Iterable[str], start_reads: bool = False) -> dict[str, np.ndarray]:
    """As `schedule.weight_words`.  biased: labels of layers with bias words.  start_reads: their blocks begin with start reads."""
    _, lanes, outputs = arrangement.shape
    sums, biased, result = {each.layer: each for each in arrangement.tiles}, set(biased), {}
    for layer in arrangement.layers:
        if layer.kind == "lgap":
            for op in layer.ops:
                if op.kind == "depthwise":
                    result[layer.name] = _pool_words(network.weights[op.name], layer, arrangement)
        elif layer in sums:
            tiles = arrangement.tiles[sums[layer]]
            make = _spread_words if tiles[0].source_tile_slot >= 0 else _tile_words
            words, begin = make(network, arrangement, sums[layer], tiles, start_reads)
            if layer.label in biased:
                words = [np.concatenate(both) for both in zip(starts.words(begin, lanes, start_reads), words)]
            else:
                assert not begin.any()
            result[layer.name] = np.concatenate(words).reshape(-1, outputs * lanes)
    return result


def _own(network, arrangement, each):
    """{group: (weights (outputs, terms), thresholds (outputs,), codes of the places and lanes of the terms)}."""
    codes, lanes = located(arrangement.stored, each)
    return {group: (each.weights(network, group), each.thresholds(network, group), *terms)
            for group, *terms in zip(each.groups, codes, lanes)}


def _tile_words(network, arrangement, each, tiles, start_reads):
    """(uint8 (words, outputs, lanes) of each tile, start values (tiles, outputs))."""
    _, lanes, outputs = arrangement.shape
    groups, begin = _own(network, arrangement, each), np.zeros((len(tiles), outputs), int)
    by_reads: dict[Reads, list[int]] = {}
    for number, tile in enumerate(tiles):
        by_reads.setdefault(tile.reads, []).append(number)
    result: list[np.ndarray] = [np.zeros(0)] * len(tiles)
    for reads, numbers in by_reads.items():
        own = [tiles[number] for number in numbers]
        words, begin[numbers] = _alike(arrangement, reads, own, groups, start_reads)
        for number, part in zip(numbers, words):
            result[number] = part
    return result, begin


def _alike(arrangement, reads, tiles: list[Tile], groups, start_reads):
    """(uint8 (tiles, words, outputs, lanes), start values (tiles, outputs)) of tiles that have the same reads."""
    _, lanes, outputs = arrangement.shape
    firsts = np.concatenate([[0], np.cumsum(reads.times)])
    within = np.arange(reads.count) - firsts[:-1].repeat(reads.times)
    words = np.zeros((len(tiles) * outputs, reads.count * lanes), np.uint8)
    padding, scale = arrangement.padding(tiles[0]), 1 + reads.doubled
    powers = reads.places.power.repeat(reads.times)
    empty = arrangement.empty(reads).repeat(reads.times, 0)
    empty_lanes = [_in_taps(empty & (powers == power)[:, None], reads.taps) for power in padding]
    total = sum(count << power for power, count in padding.items())
    below = int((lanes // 2 << powers).sum()) * start_reads  # with start reads a read adds its matches, else matches - L / 2
    begin = np.full(len(words), 0 if arrangement.lists else -below)  # also of outputs that the last tile lacks
    members: dict[Group, list] = {}
    for number, tile in enumerate(tiles):
        first = number * outputs
        for group, chosen in tile.parts:
            members.setdefault(group, []).append((np.arange(first, first + len(chosen)), chosen))
            first += len(chosen)
    for group, parts in members.items():
        at, chosen = (np.concatenate(part) for part in zip(*parts))
        values, thresholds, codes, lane = groups[group]
        place = reads.index(codes)
        row = firsts[place] + _occurrence(place * lanes + lane) * scale
        source = (len(place) + within % 2).repeat(lanes)  # of each lane its weight; behind the weights stand a 0 and a 1
        for again in range(scale):
            source[(row + again) * lanes + lane] = np.arange(len(place))
        words[at] = np.hstack([values[chosen], np.tile(np.array([0, 1], np.uint8), (len(at), 1))]).take(source, 1)
        want = (total - scale * _reached(thresholds[chosen], group.fan_in, reads.doubled)) // 2 - below
        matches, begin[at] = _matches(padding, want, not arrangement.lists)
        for where, number in zip(empty_lanes, matches):
            words[at[:, None], where] = np.arange(len(where)) >= number[:, None]
    return words.reshape(len(tiles), outputs, reads.count, lanes).transpose(0, 2, 1, 3), begin.reshape(len(tiles), outputs)


def _in_taps(lanes, taps):
    """Where bool (reads, lanes) is true, as numbers of all lanes, in the order of a tap's reads, then lanes, then taps."""
    read, lane, tap = np.nonzero(lanes.reshape(taps, -1, lanes.shape[1]).transpose(1, 2, 0))
    return (tap * (len(lanes) // taps) + read) * lanes.shape[1] + lane


def _spread_words(network, arrangement, each, tiles, start_reads):
    """Those of a spread step, like `_tile_words`."""
    _, lanes, outputs = arrangement.shape
    groups, result, begin = _own(network, arrangement, each), [], np.zeros((len(tiles), outputs), int)
    for number, tile in enumerate(tiles):
        words = np.zeros((words_of_tile(each, tile, lanes), outputs, lanes), np.uint8)
        for output, (group, _) in enumerate(tile.parts):
            values, thresholds, codes, _ = groups[group]
            begin[number, output] = -thresholds[0] - tile.reads.count * lanes // 2 * start_reads
            if not each.ones:
                at = tile.reads.index(codes)
                words[at // lanes, output, at % lanes] = values[0]
        result.append(words)
    return result, begin


def words_of_tile(each: Sum, tile: Tile, lanes: int) -> int:
    """Number of a tile's weight words, without those of its start values."""
    if tile.source_tile_slot < 0:
        return tile.reads.count
    return 0 if each.ones else -(-tile.reads.count // (2 * lanes))


def _pool_words(weights, layer, arrangement):
    """Weight words of the learned pooling: for each word of channels, the blocks of the map, pixel by pixel."""
    pixels, lanes, outputs = arrangement.shape
    source, columns = arrangement.tensors[layer.parts[0]], pixels // 2
    channels, height, width = weights.shape
    padded = np.zeros((channels + 1, source.rows * 2, source.columns * columns), np.uint8)
    padded[:channels, :height, :width] = weights
    padded[channels] = 1  # lanes without a channel
    words = padded[source.channels]  # (words, lanes, y, x)
    words = words.reshape(*source.channels.shape, source.rows, 2, source.columns, columns).transpose(0, 2, 4, 3, 5, 1)
    rows = words.reshape(len(source.lanes), source.rows * source.columns, pixels * lanes)
    rows = np.pad(rows, ((0, 0), (0, -rows.shape[1] % (outputs // pixels)), (0, 0)))
    return rows.reshape(-1, outputs * lanes)


def _occurrence(values):
    """Return for each value how many equal ones precede it."""
    order, result = np.argsort(values, kind="stable"), np.zeros(len(values), np.int64)
    result[order] = np.arange(len(values)) - np.searchsorted(values[order], values[order])
    return result
