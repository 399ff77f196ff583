"""Layers -> the program of the sequencer and the weight words in the order of their use."""

from dataclasses import dataclass, replace

import numpy as np

from .. import bits
from ..errors import FitError
from .config import Step
from .layout import channel_array, place
from .lower import lower

SHARED_PIXELS = 64
"""Maps of more pixels than this keep the array busy for longer than their weights take to come."""


@dataclass(frozen=True)
class Program:
    """steps: of one pass, in order; layers, tensors: where things are (of a pass's first frame); used: words of a bank that hold
    features; frames: images of a pass; stride: words from what is there once a frame to that of the next one."""

    steps: tuple
    layers: tuple
    tensors: dict
    used: int
    pixels: int
    lanes: int
    outputs: int
    frames: int = 1
    stride: int = 0

    def base(self, name, frame):
        """Address of a tensor of one of the frames of a pass."""
        base = self.tensors[name].base
        return base + frame * self.stride * (base >= self.used - self.frames * self.stride)

    def layer_steps(self, layer):
        """Steps of a layer, for the first frame of a pass."""
        found = [s for s in self.steps if s.layer == layer.name]
        return found[:len(found) // self.fetches(layer)]

    def fetches(self, layer):
        """How often a pass needs a layer's weights: once where its steps are shared, else once a frame."""
        return 1 if any(s.shared for s in self.steps if s.layer == layer.name) else self.frames

    def layer_words(self, layer):
        """Weight words of a layer."""
        return sum(s.tiles * s.tile_words for s in self.layer_steps(layer))

    def fetched(self):
        """Layers with weights, in the order in which a pass needs them."""
        by_name, found, before = {layer.name: layer for layer in self.layers}, [], None
        for step in self.steps:
            if before is None or step.layer != before.layer or step.load or before.result:
                found.append(by_name[step.layer])
            before = step
        return [layer for layer in found if self.layer_words(layer)]


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


def build(topology, pixels, lanes, outputs, thresholds=(), frames=1, learns=False):
    """Program of a topology on an engine of that shape.  thresholds: names of the ops that have them.  Raises FitError.

    frames: images of a pass.  Their first layers are worked off one image after the other, then the layers from the first one on whose
    map is small (`_shared`) for all of them at once, tile by tile, then the logits, image after image.
    learns: without the logits, for a learner makes them.
    """
    shared = _shared(topology, lower(topology)) if frames > 1 else ()
    layers, tensors, used, stride = place(topology, pixels, lanes, outputs, frames, shared, learns)
    steps = _steps(topology, layers, tensors, pixels, lanes, outputs, thresholds)
    if learns:
        steps = [step for step in steps if not step.logits]
    if frames == 1:
        steps[0], steps[-1] = replace(steps[0], load=True), replace(steps[-1], result=True)
        return Program(tuple(steps), tuple(layers), tensors, used, pixels, lanes, outputs)
    floor = used - frames * stride

    def moved(step, frame):
        """A step of the first frame, as it is for another one."""
        return replace(step, source=step.source + frame * stride * (step.source >= floor),
                       target=step.target + frame * stride * (step.target >= floor))

    late = [step for step in steps if step.layer in shared]
    early, end = steps[:steps.index(late[0])], steps[steps.index(late[-1]) + 1:]
    found = []
    for frame in range(frames):
        found += [replace(moved(step, frame), load=not i) for i, step in enumerate(early)]
    found += [replace(step, shared=True) for step in late]
    for frame in range(frames):
        found += [replace(moved(step, frame), result=i == len(end) - 1) for i, step in enumerate(end)]
    return Program(tuple(found), tuple(layers), tensors, used, pixels, lanes, outputs, frames, stride)


def _shared(topology, layers):
    """Names of the layers that work on all frames of a pass at once: from the first one on that reads a small map, up to the logits;
    never one that reads the image, which is always loaded to the same place."""
    first = 1 + max(number for number, layer in enumerate(layers) if layers[0].name in layer.parts)
    for number in range(first, len(layers) - 1):
        if _pixels(layers, layers[number]) <= SHARED_PIXELS:
            return tuple(layer.name for layer in layers[number:-1])
    raise FitError(f"model {topology.name}: no layer behind the first reads a map of {SHARED_PIXELS} pixels or fewer, so frames have "
                   "nothing to share; use 1 frame a pass")


def _pixels(layers, layer):
    """Pixels of the map that a layer reads."""
    source = next(other for other in layers if other.name == layer.parts[0].split(".")[0])
    return source.shape[1] * source.shape[2]


def _steps(topology, layers, tensors, pixels, lanes, outputs, thresholds):
    """Steps of one frame."""
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
    return steps


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
        if layer.kind == "input" or not program.layer_steps(layer):
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
        steps = program.layer_steps(layer)
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
