"""Layers -> the program of the sequencer and the weight words in the order of their use."""

from dataclasses import dataclass

import numpy as np

from .. import bits
from ..errors import FitError
from .config import Step
from .layout import channel_array, place


@dataclass(frozen=True)
class Program:
    """steps: of the whole frame; layers, tensors: where things are; used: words of a bank that hold features."""

    steps: tuple
    layers: tuple
    tensors: dict
    used: int
    pixels: int
    lanes: int
    outputs: int

    def layer_words(self, layer):
        """Weight words a layer uses in one frame."""
        return sum(s.tiles * s.tile_words for s in self.steps if s.layer == layer.name)


def offset(fan_in, threshold=0):
    """What is added to the matches of a neuron, so that the sum is >= 0 iff 2 * matches - fan_in >= threshold."""
    return -((fan_in + threshold + 1) // 2)


def _reads(tensors, layer, group):
    """What one group reads: (address of its first word, int array (words, lanes) of its channels, -1 for none)."""
    total = sum(tensors[p].shape[0] for p in layer.parts)
    size = total // layer.groups
    first, last = group * size, (group + 1) * size
    words, start, base = [], 0, None
    for part in layer.parts:
        tensor = tensors[part]
        low, high = max(first - start, 0), min(last - start, tensor.shape[0])
        if low < high:
            found = tensor.words(low, high)
            if base is None:
                base = tensor.base + found[0]
            channels = channel_array(tensor, found)
            words.append(np.where(channels >= 0, channels + start - first, -1))
        start += tensor.shape[0]
    return base, np.concatenate(words)


def _intervals(layer):
    """Output channels of each step: [(group, first, last + 1)], cut at the layer's own groups and where words begin."""
    size = layer.channels // layer.groups
    edges = sorted({0, layer.channels, *range(size, layer.channels, size), *layer.word_starts})
    return [(a // size, a, b) for a, b in zip(edges, edges[1:])]


def build(topology, pixels, lanes, outputs, thresholds=()):
    """Program of a topology on an engine of that shape.  thresholds: names of the ops that have them.  Raises FitError."""
    layers, tensors, used = place(topology, pixels, lanes, outputs)
    shapes = topology.shapes
    steps = []
    for layer in layers:
        if layer.kind == "input":
            continue
        if layer.kind == "lgap":
            steps.append(_pool_step(layer, tensors, pixels, lanes, outputs, thresholds))
            continue
        op = layer.ops[0]
        source = tensors[layer.parts[0]]
        target = None if layer.kind == "logits" else tensors[layer.name]
        layer.word_starts = [] if target is None else [
            b[0] for a, b in zip(target.lanes, target.lanes[1:]) if a[-1] < 0]
        bias = op.name in thresholds
        for group, first, last in _intervals(layer):
            base, channels = _reads(tensors, layer, group)
            word, lane = (0, 0) if target is None else target.find(first)
            assert lane % outputs == 0, (layer.name, first)
            tiles = -(-(last - first) // outputs)
            steps.append(Step(
                kind="conv", layer=layer.name, source=base, step=1, advance=source.pitch, row=source.pitch * source.columns % (1 << 16),
                words=len(channels), repeat=layer.repeat, taps=layer.taps, rows=source.rows, columns=source.columns,
                target=0 if target is None else target.base + word, target_advance=0 if target is None else target.pitch,
                target_row=0 if target is None else target.pitch * target.columns, tiles=tiles, slot=lane // outputs,
                valid=last - first - (tiles - 1) * outputs,
                tile_words=layer.taps * len(channels) * layer.repeat + bias, pool=layer.pool, vector=layer.kind in ("dense", "logits"),
                logits=layer.kind == "logits", bias=bias))
    return Program(tuple(steps), tuple(layers), tensors, used, pixels, lanes, outputs)


def _pool_step(layer, tensors, pixels, lanes, outputs, thresholds):
    for op in layer.ops:
        if op.name in thresholds:
            raise FitError(f"layer {op.name}: thresholds of global pooling have no hardware; only conv and dense layers may have them")
    source = tensors[layer.parts[0]]
    blocks = source.rows * source.columns
    gap, depthwise = (tensors.get(f"{layer.name}.{kind}") for kind in ("gap", "depthwise"))
    first = gap or depthwise
    return Step(
        kind="lgap", layer=layer.name, source=source.base, step=source.pitch, advance=0, row=0, words=blocks, repeat=1, taps=1, rows=1,
        columns=lanes, target=first.base, target_advance=0, target_row=(depthwise.base - gap.base) % (1 << 16) if gap and depthwise else 0,
        tiles=len(source.lanes), slot=0, valid=outputs, tile_words=-(-blocks * pixels // outputs) if depthwise else 0,
        gap=gap is not None, depthwise=depthwise is not None)


def weight_words(network, program):
    """{layer name: uint8 array (words, outputs * lanes) of bits}, in the order of use."""
    found = {}
    topology = network.topology
    for layer in program.layers:
        if layer.kind == "input":
            continue
        if layer.kind == "lgap":
            if layer.depthwise:
                found[layer.name] = _pool_words(network.weights[layer.depthwise], layer, program)
            continue
        op = layer.ops[0]
        weights = network.weights[op.name]
        weights = weights.reshape(*weights.shape[:2], -1)
        fan_in = op.fan_in(*topology.input_shapes(op, topology.shapes))
        limits = network.threshold(op.name)
        steps = [s for s in program.steps if s.layer == layer.name]
        parts = []
        for step, (group, first, last) in zip(steps, _intervals(layer), strict=True):
            _, channels = _reads(program.tensors, layer, group)
            index = channels[:, None, :] * layer.repeat + np.arange(layer.repeat)[:, None]  # (words, repeat, lanes)
            index = np.where(channels[:, None, :] >= 0, index, -1)
            chosen = weights[first:last][:, index]  # (outputs, words, repeat, lanes, taps)
            chosen = np.where(index[..., None] >= 0, chosen, _padding(index, chosen.shape[-1])).transpose(0, 4, 1, 2, 3)
            flat = np.zeros((step.tiles * program.outputs, step.tile_words - step.bias, program.lanes), np.uint8)
            flat[:last - first] = chosen.reshape(last - first, -1, program.lanes)
            words = flat.reshape(step.tiles, program.outputs, -1, program.lanes).transpose(0, 2, 1, 3)
            if step.bias:
                starts = np.zeros(step.tiles * program.outputs, np.int64)
                starts[:last - first] = [offset(fan_in, t) - offset(fan_in) for t in limits[first:last]]
                bias = (starts[:, None] >> np.arange(program.lanes).clip(max=62)) & 1
                words = np.concatenate([bias.astype(np.uint8).reshape(step.tiles, 1, program.outputs, program.lanes), words], 1)
            parts.append(words.reshape(-1, program.outputs * program.lanes))
        found[layer.name] = np.concatenate(parts)
    return found


def _padding(index, taps):
    """Weights of lanes without a channel (index < 0), (words, repeat, lanes, taps): half of them match the 0 that such a lane holds.

    A read adds matches - lanes / 2, so a neuron's reads add up to offset(fan_in) + its matches.
    """
    empty = np.repeat((index < 0)[..., None], taps, -1)
    return (np.cumsum(empty).reshape(empty.shape) > np.count_nonzero(empty) // 2).astype(np.uint8)


def _pool_words(weights, layer, program):
    """Words of the learned pooling: for each word of channels the blocks of the map, pixel by pixel."""
    source = program.tensors[layer.parts[0]]
    channels, height, width = weights.shape
    columns, lanes = program.pixels // 2, program.lanes
    padded = np.zeros((channels + 1, source.rows * 2, source.columns * columns), np.uint8)
    padded[:channels, :height, :width] = weights
    padded[channels] = 1  # lanes without a channel
    index = channel_array(source, range(len(source.lanes)))
    chosen = padded[np.where(index < 0, channels, index)]  # (words, lanes, y, x)
    chosen = chosen.reshape(*index.shape, source.rows, 2, source.columns, columns).transpose(0, 2, 4, 3, 5, 1)
    rows = chosen.reshape(len(index), source.rows * source.columns, program.pixels * lanes)
    per_word = program.outputs // program.pixels
    fill = -rows.shape[1] % per_word
    rows = np.pad(rows, ((0, 0), (0, fill), (0, 0)))
    return rows.reshape(-1, program.outputs * lanes)


def to_bytes(words):
    """Words of bits -> bytes, lowest bit first."""
    return bits.pack(words).tobytes()
