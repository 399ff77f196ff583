"""What no plan of a network can have, found from its topology alone, before anything is planned."""

import math
from operator import itemgetter

import numpy as np

from ..base.errors import FitError
from ..ir.network import Topology
from ..machine.step import FIELD_VALUES
from ..targets import ON_CHIP, Target
from . import graph
from .graph import MOST_TERMS

MOST_GROUPS = 5000
"""Groups of all layers together, some more than MobileNet's."""

LEAST_TERMS, WEIGHTS_A_TERM, TERMS_A_GROUP = 2 ** 16, 14, 64
"""Bits that the sums of all layers together may name in lists of reads: LEAST_TERMS, or one for so many weights where that is more, of
MOST_SHAPES shapes that are tried; of fewer more.  Each group of outputs counts as so many bits, whose list takes time of its own, a channel
that is pooled as half of one."""
MOST_SHAPES = 8


def check(topology: Topology, target: Target, shapes: list[tuple[int, int, int]], ways: list[str]) -> list[str]:
    """Return those of some ways to have weights in which the weights may have room, on an engine of one of these shapes.

    Raises FitError where there is none, or where a plan would name more groups or bits than networks have that fit some part.
    """
    _check_groups(topology)
    _check_terms(topology, MOST_TERMS, of_pixels=False)  # what the graph itself takes
    lanes = max(shape[1] for shape in shapes)
    made = graph.build(topology, lanes)
    most = {way: FIELD_VALUES - 1 if way in ON_CHIP else target.ring_words for way in ways}
    limit = max(most.values())
    words, fan_in, name = max(((_least_words(each, lanes), each.fan_in, each.op.name) for each in made.sums
                               if each.layer.kind in ("conv", "dense", "logits")), key=itemgetter(0))
    if words > limit:
        raise FitError(f"layer {name}: one tile needs {words} weight words, {target.name} has room for {limit}; at most "
                       f"{fan_in * limit // words:,} inputs to an output fit")
    if made.unlooped:
        _check_terms(topology, max(LEAST_TERMS, topology.weight_bits() // WEIGHTS_A_TERM) * MOST_SHAPES // len(shapes))
    return [way for way in ways if words <= most[way]]


def _least_words(each, lanes):
    """Least number of weight words of a tile of a sum; the bit that an output reads most often is in one word, read as often."""
    code = sum(each.view.bits[part] << bits for part, bits in (("tensor", 40), ("channel", 20), ("row", 10), ("column", 0)))
    uses = max(int(np.unique(group, return_counts=True)[1].max()) for group in code.reshape(each.count, -1))
    return max(-(-each.fan_in // lanes), uses * len(each.offsets))


def _check_groups(topology):
    """Raises FitError where layers have more than MOST_GROUPS groups together."""
    groups = 0
    for op in topology.ops:
        groups += op.groups if op.kind in ("conv", "dense") else 0
        if groups > MOST_GROUPS:
            raise FitError(f"layer {op.name}: {groups:,} groups of layers up to here, at most {MOST_GROUPS:,}; use fewer groups")


def _check_terms(topology, most, of_pixels=True):
    """Raises FitError where sums would name more than so many bits.  of_pixels: the pixels of maps that are pooled are read one by one."""
    terms = 0
    for op in topology.ops[1:]:
        first, *_ = shapes = topology.input_shapes(op)
        pixels = {"gap": 1, "depthwise": 1, "flatten": 4}.get(op.kind) if of_pixels else None
        terms += pixels * math.prod(first) if pixels else first[0] * getattr(op, "kernel", 1) ** 2
        terms += sum(shape[0] for shape in shapes[1:])
        groups = first[0] / 2 if op.kind in ("gap", "depthwise", "maxpool") else getattr(op, "groups", 0) * (op.kind != "shuffle")
        terms += int(TERMS_A_GROUP * groups)
        if terms > most:
            raise FitError(f"layer {op.name}: lists of reads for {terms:,} bits and groups up to here, at most {most:,} with these "
                           "weights; use fewer groups and copies of channels, or smaller maps before global pooling")
