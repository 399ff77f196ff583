"""Network -> the program of the sequencer, and the weight words in the order of their use."""

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..ir.network import Network
from ..machine import starts
from ..machine.step import Step
from . import graph, lists, loops, weights
from .arrangement import Arrangement
from .graph import Layer


@dataclass(frozen=True, eq=False)
class Program(Arrangement):
    """An arrangement, and the steps of one pass through it."""

    steps: tuple[Step, ...]
    order: tuple[int, ...] = ()  # the lists of reads, where the arrangement has them
    start_reads: bool = False  # see `AcceleratorConfig.start_reads`

    @cached_property
    def _by_label(self) -> dict[str, list[Step]]:
        labels: dict[str, list[Step]] = {}
        for step in self.steps:
            labels.setdefault(step.layer, []).append(step)
        return labels

    def layer_steps(self, layer: Layer) -> list[Step]:
        """Steps of a layer."""
        return self._by_label.get(layer.label, [])

    def layer_words(self, layer: Layer) -> int:
        """Weight words of a layer."""
        return sum(step.tiles * step.tile_words for step in self.layer_steps(layer))

    def fetched(self) -> list[Layer]:
        """Layers with weights, in the order in which a pass needs them."""
        by_label = {layer.label: layer for layer in self.layers}
        return [by_label[label] for label in self._by_label if self.layer_words(by_label[label])]


def build(network: Network, pixels: int, lanes: int, outputs: int, learns: bool = False,
          room: int | None = None, start_reads: bool = False, keeps_image: bool = False) -> Program:
    """Return the program of a network on an engine of that shape.  Raises FitError.

    learns: the program ends before the logits, which a learner computes.  room: words of a bank.
    start_reads: where there are bias words, all layers have them, and blocks begin with start reads.  keeps_image: no layer
    writes where the image lies.

    The interleaved arrangement is taken where loops can read all of it, else the planar one, with lists of reads.
    """
    topology = network.topology
    sums = graph.build(topology, lanes, learns=learns)
    arrangement = loops.arranged(sums, pixels, lanes, outputs, learns, keeps_image, tuple(network.thresholds))
    if isinstance(arrangement, str):
        arrangement = lists.plan(topology, pixels, lanes, outputs, room, learns, keeps_image)
    biases = {each: weights.needs_bias(arrangement, each, network) for each in arrangement.tiles}
    start_reads = start_reads and any(biases.values())
    heads = {each: starts.count(start_reads) * (start_reads or bias) for each, bias in biases.items()}
    steps, order = lists.steps(arrangement, heads, topology) if arrangement.lists else (loops.steps(arrangement, heads), [])
    if steps:
        steps[0] = replace(steps[0], load=True)
        steps[-1] = replace(steps[-1], result=True)
    own: dict[str, Any] = {each.name: getattr(arrangement, each.name) for each in fields(arrangement)}
    return Program(**own, steps=tuple(steps), order=tuple(order), start_reads=start_reads)


def weight_words(network: Network, program: Program) -> dict[str, np.ndarray]:
    """{layer name: uint8 array (words, outputs * lanes) of bits}, in the order of use."""
    biased = {step.layer for step in program.steps if step.bias}
    return weights.weight_words(network, program, biased, program.start_reads)
