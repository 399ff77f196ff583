"""Layers -> the program of the sequencer, and the weight words in the order of their use."""

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from ..base import bits
from ..ir.network import LATENT, Network, Topology
from . import irregular, starts
from .config import Step
from .layout import Tensor, channel_array, place
from .lower import Irregular, Layer


@dataclass(frozen=True)
class Program:
    """The steps of one pass on an engine of pixels x lanes x outputs, and the places that they name."""

    steps: tuple[Step, ...]
    layers: tuple[Layer, ...]
    tensors: dict[str, Tensor]
    used: int  # words of a bank that hold features
    pixels: int
    lanes: int
    outputs: int
    lists: irregular.Plan | None = None  # the plan behind the lists of reads, where steps have them
    order: tuple[int, ...] = ()  # the lists
    start_reads: bool = False  # see `AcceleratorConfig.start_reads`

    def image_words(self) -> range:
        """Words of a bank that hold the image."""
        image = self.tensors[self.layers[0].name]
        return range(image.base, image.base + image.size)

    def layer_steps(self, layer: Layer) -> list[Step]:
        """Steps of a layer."""
        return [step for step in self.steps if step.layer == layer.label]

    def layer_words(self, layer: Layer) -> int:
        """Weight words of a layer."""
        return sum(step.tiles * step.tile_words for step in self.layer_steps(layer))

    def fetched(self) -> list[Layer]:
        """Layers with weights, in the order in which a pass needs them."""
        by_label = {layer.label: layer for layer in self.layers}
        return [by_label[label] for label in dict.fromkeys(step.layer for step in self.steps) if self.layer_words(by_label[label])]


def offset(fan_in: int, threshold: int = 0) -> int:
    """Return the start value for which a neuron's matches sum to 0 or more exactly where its dot product reaches `threshold`."""
    return -((fan_in + threshold + 1) // 2)


def _reads(tensors, layer, group):
    """Return (address, channels) of the words that one group reads.

    address: of the first word.  channels: int array (words, lanes), -1 for a padding lane.
    """
    total = sum(tensors[p].shape[0] for p in layer.parts)
    size = total // layer.groups
    first, last = group * size, (group + 1) * size
    words, start, base = [], 0, None
    for part in layer.parts:
        tensor = tensors[part]
        low, high = max(first - start, 0), min(last - start, tensor.shape[0])
        if low < high:
            span = tensor.words(low, high)
            if base is None:
                base = tensor.base + span[0]
            channels = channel_array(tensor, span)
            words.append(np.where(channels >= 0, channels + start - first, -1))
        start += tensor.shape[0]
    return base, np.concatenate(words)


def _intervals(layer):
    """Return the output channels of each step: [(group, first, last + 1)].

    A step ends where a group of the layer ends, and where a word must begin.
    """
    size = layer.channels // layer.groups
    edges = sorted({0, layer.channels, *range(size, layer.channels, size), *layer.word_starts})
    return [(a // size, a, b) for a, b in zip(edges, edges[1:])]


def build(network: Network, pixels: int, lanes: int, outputs: int, learns: bool = False,
          room: int | None = None, start_reads: bool = False, keeps_image: bool = False) -> Program:
    """Return the program of a network on an engine of that shape.  Raises FitError.

    learns: the program ends before the logits, which a learner computes.  room: words of a bank.
    start_reads: where there are bias words, blocks begin with start reads.  keeps_image: no layer
    writes where the image lies.

    Two kinds of networks get lists of reads (`irregular`): those that the loops over taps and words
    cannot read, and those that learn and whose latent the loops do not store.
    """
    if learns and network.topology[LATENT].kind not in ("dense", "conv", "maxpool"):
        return _with_lists(network, pixels, lanes, outputs, room, learns, start_reads, keeps_image)
    try:
        return regular(network.topology, pixels, lanes, outputs, tuple(network.thresholds), learns, start_reads, keeps_image)
    except Irregular:
        return _with_lists(network, pixels, lanes, outputs, room, learns, start_reads, keeps_image)


def _with_lists(network, pixels, lanes, outputs, room, learns, start_reads, keeps_image):
    """The program of any network."""
    placed = irregular.plan(network.topology, pixels, lanes, outputs, room, learns, keeps_image)
    steps, order = irregular.steps(placed, network, pixels, start_reads)
    layers = [placed.graph.image, *(each.layer for each in placed.graph.sums)]
    if placed.graph.classifier:
        layers.append(placed.graph.classifier)
    return Program(tuple(steps), tuple(layers), placed.tensors, placed.used, pixels, lanes, outputs, placed, tuple(order),
                   start_reads and any(step.bias for step in steps))


def regular(topology: Topology, pixels: int, lanes: int, outputs: int, thresholds: Collection[str] = (),
            learns: bool = False, start_reads: bool = False, keeps_image: bool = False) -> Program:
    """Program without lists of reads.  thresholds: names of the ops that have them.  Raises Irregular, or FitError."""
    start_reads = start_reads and bool(thresholds)
    layout = place(topology, pixels, lanes, outputs, learns, keeps_image)
    steps = _steps(layout, pixels, lanes, outputs, thresholds, start_reads)
    if learns:
        steps = [step for step in steps if not step.logits]
    steps[0], steps[-1] = replace(steps[0], load=True), replace(steps[-1], result=True)
    return Program(tuple(steps), tuple(layout.layers), layout.tensors, layout.used, pixels, lanes, outputs, start_reads=start_reads)


def _steps(layout, pixels, lanes, outputs, thresholds, start_reads):
    """Steps of one frame."""
    steps = []
    for layer in layout.layers:
        if layer.kind == "lgap":
            steps.append(_pool_step(layer, layout.tensors, pixels, lanes, outputs, thresholds))
        elif layer.kind != "input":
            head = starts.count(start_reads) if start_reads or layer.ops[0].name in thresholds else 0
            steps += _layer_steps(layer, layout.tensors, outputs, head)
    return steps


def _layer_steps(layer, tensors, outputs, head):
    """Steps of a convolution, a dense layer or the logits, one for each interval of output channels.  head: words of start values."""
    source = tensors[layer.parts[0]]
    target = None if layer.kind == "logits" else tensors[layer.name]
    layer.word_starts = [] if target is None else [
        after[0] for before, after in zip(target.lanes, target.lanes[1:]) if before[-1] < 0]
    common = dict(
        kind="conv", layer=layer.label, word_stride=1, block_stride=source.pitch, row_stride=source.pitch * source.columns % (1 << 16),
        repeat=layer.repeat, taps=layer.taps, rows=source.rows, columns=source.columns,
        target_block_stride=0 if target is None else target.pitch,
        target_row_stride=0 if target is None else target.pitch * target.columns,
        pool=layer.pool, vector=layer.kind in ("dense", "logits"), logits=layer.kind == "logits", bias=head > 0)
    steps = []
    for group, first, last in _intervals(layer):
        base, channels = _reads(tensors, layer, group)
        word, lane = (0, 0) if target is None else target.find(first)
        assert lane % outputs == 0, (layer.name, first)
        tiles = -(-(last - first) // outputs)
        steps.append(Step(
            **common, source=base, words=len(channels), target=0 if target is None else target.base + word, tiles=tiles,
            tile_slot=lane // outputs, valid=last - first - (tiles - 1) * outputs,
            tile_words=layer.taps * len(channels) * layer.repeat + head))
    return steps


def _pool_step(layer, tensors, pixels, lanes, outputs, thresholds):
    for op in layer.ops:
        if op.name in thresholds:
            raise Irregular(f"{op.name}: thresholds of global pooling")
    source = tensors[layer.parts[0]]
    blocks = source.rows * source.columns
    gap, depthwise = (tensors.get(f"{layer.name}.{kind}") for kind in ("gap", "depthwise"))
    first = gap or depthwise
    return Step(
        kind="lgap", layer=layer.label, source=source.base, word_stride=source.pitch, block_stride=0, row_stride=0, words=blocks, repeat=1,
        taps=1, rows=1, columns=lanes, target=first.base, target_block_stride=0,
        target_row_stride=(depthwise.base - gap.base) % (1 << 16) if gap and depthwise else 0,
        tiles=len(source.lanes), tile_slot=0, valid=outputs, tile_words=-(-blocks * pixels // outputs) if depthwise else 0,
        gap=gap is not None, depthwise=depthwise is not None)


def weight_words(network: Network, program: Program) -> dict[str, np.ndarray]:
    """{layer name: uint8 array (words, outputs * lanes) of bits}, in the order of use."""
    if program.lists:
        biased = {step.layer for step in program.steps if step.bias}
        return irregular.weight_words(network, program.lists, biased, program.start_reads)
    words = {}
    for layer in program.layers:
        if layer.kind == "input" or not program.layer_steps(layer):
            continue
        if layer.kind == "lgap":
            if layer.depthwise:
                words[layer.name] = _pool_words(network.weights[layer.depthwise], layer, program)
        else:
            words[layer.name] = _layer_words(network, layer, program)
    return words


def _layer_words(network, layer, program):
    """Weight words of a convolution, a dense layer or the logits, uint8 bits (words, outputs * lanes).

    The order is that of steps, then tiles.  A tile with thresholds begins with its start values.
    """
    topology, op = network.topology, layer.ops[0]
    weights = network.weights[op.name]
    weights = weights.reshape(*weights.shape[:2], -1)
    fan_in = op.fan_in(*topology.input_shapes(op, topology.shapes))
    thresholds = network.threshold(op.name)
    parts = []
    for step, (group, first, last) in zip(program.layer_steps(layer), _intervals(layer), strict=True):
        _, channels = _reads(program.tensors, layer, group)
        index = channels[:, None, :] * layer.repeat + np.arange(layer.repeat)[:, None]  # (words, repeat, lanes)
        index = np.where(channels[:, None, :] >= 0, index, -1)
        gathered = weights[first:last][:, index]  # (outputs, words, repeat, lanes, taps)
        gathered = np.where(index[..., None] >= 0, gathered, _padding(index, gathered.shape[-1])).transpose(0, 4, 1, 2, 3)
        reads = step.tile_words - starts.count(program.start_reads) * step.bias
        flat = np.zeros((step.tiles * program.outputs, reads, program.lanes), np.uint8)
        flat[:last - first] = gathered.reshape(last - first, -1, program.lanes)
        words = flat.reshape(step.tiles, program.outputs, -1, program.lanes).transpose(0, 2, 1, 3)
        if step.bias:
            begin = np.zeros(step.tiles * program.outputs, np.int64)
            begin[:last - first] = [offset(fan_in, t) - offset(fan_in) for t in thresholds[first:last]]
            if program.start_reads:
                begin -= reads * program.lanes // 2
            head = starts.words(begin.reshape(step.tiles, -1), program.lanes, program.start_reads)
            words = np.concatenate([head, words], 1)
        parts.append(words.reshape(-1, program.outputs * program.lanes))
    return np.concatenate(parts)


def _padding(index, taps):
    """Weights of the padding lanes (index < 0), (words, repeat, lanes, taps); half of them match.

    A padding lane holds 0.  A read adds matches - lanes / 2, so the reads of a neuron add up to
    offset(fan_in) + its matches.
    """
    empty = np.repeat((index < 0)[..., None], taps, -1)
    return (np.cumsum(empty).reshape(empty.shape) > np.count_nonzero(empty) // 2).astype(np.uint8)


def _pool_words(weights, layer, program):
    """Weight words of the learned pooling: for each word of channels, the blocks of the map, pixel by pixel."""
    source = program.tensors[layer.parts[0]]
    channels, height, width = weights.shape
    columns, lanes = program.pixels // 2, program.lanes
    padded = np.zeros((channels + 1, source.rows * 2, source.columns * columns), np.uint8)
    padded[:channels, :height, :width] = weights
    padded[channels] = 1  # lanes without a channel
    index = channel_array(source, range(len(source.lanes)))
    blocks = padded[np.where(index < 0, channels, index)]  # (words, lanes, y, x)
    blocks = blocks.reshape(*index.shape, source.rows, 2, source.columns, columns).transpose(0, 2, 4, 3, 5, 1)
    rows = blocks.reshape(len(index), source.rows * source.columns, program.pixels * lanes)
    per_word = program.outputs // program.pixels
    fill = -rows.shape[1] % per_word
    rows = np.pad(rows, ((0, 0), (0, fill), (0, 0)))
    return rows.reshape(-1, program.outputs * lanes)


def to_bytes(words: np.ndarray) -> bytes:
    """Words of bits -> bytes, lowest bit first."""
    return bits.pack(words).tobytes()
