"""Whole accelerators with lists of reads in Verilator: every layer's bits, logits, classes, the latent and the cycles."""

from dataclasses import replace

import numpy as np
import pytest

from fbnn_hw.ir import ops as op
from fbnn_hw.ir.network import LATENT, Topology
from fbnn_hw.targets import TARGETS
from tests import strategies
from tests.compile.test_lists import residual
from tests.quick import quick
from tests.rtl import whole


def network(thresholds, *layers):
    return strategies.fill(Topology("net", layers, ("a", "b", "c")), 1, thresholds)


NETWORKS = {
    # Quarters, shuffles, slices, groups of one channel, gap and depthwise; some weights resident.
    "residual": residual(0),
    # Start reads, shifted accumulators, some wider than a word, a table, kernels of 5, odd maps, an image of odd size, thresholds, maps
    # flattened into logits.
    "bytes": network(
        1, op.Bits8("input", (), 9, tuple(min(p + (p >> 7), 255) for p in range(256))), op.Conv("first", ("input",), 12, 5, padding=0),
        op.Conv("half", ("first",), 10, 3, 2), op.Flatten("flat", ("half",)), op.Flatten("pixels", ("input",)),
        op.Dense("wide", ("pixels",), 6), op.Concat("both", ("flat", "wide")), op.Dense("logits", ("both",), 3, 1, True)),
    # Start reads: a threshold on grey, a pooled pooling, two maps pooled globally, thresholds on both, a part of a
    # vector twice.
    "pools": network(
        1, op.Binarize("input", (), 10, 100), op.Conv("first", ("input",), 20),
        op.MaxPool("half", ("first",)), op.MaxPool("less", ("half",)),
        op.Gap("gap", ("half",)), op.Depthwise("depthwise", ("less",)), op.Concat("join", ("gap", "depthwise")),
        op.Dense(LATENT, ("join",), 18, 2), op.Slice("part", (LATENT,), 3, 16), op.Duplicate("twice", ("part",), 2),
        op.Dense("logits", ("twice",), 3, 1, True)),
    # An image packed into a vector, the last word of it in part.
    "packed": network(
        1, op.Binarize("input", (), 7, 120), op.Flatten("flat", ("input",)), op.Dense("first", ("flat",), 20),
        op.Dense("logits", ("first",), 3, 1, True)),
    # Another grey code, in blocks of 2 x 4.
    "grey": network(
        0.5, op.Thermometer("input", (), "grey", 7, 20), op.Conv("first", ("input",), 9, 3, 1, 1, 0), op.Shuffle("mix", ("first",), 3),
        op.Conv("next", ("mix",), 12, 3, 1, 3), op.Gap("gap", ("next",)), op.Dense("logits", ("gap",), 3, 1, True)),
}


@pytest.mark.parametrize("name", quick(NETWORKS, "pools", "bytes"))
def test_bits_and_cycles(name, tmp_path):
    net, shape = NETWORKS[name], (8, 16, 8) if name == "grey" else (4, 16, 4)
    part = whole.target(encoder_bits=0, starts=("read",) if name in ("bytes", "pools") else ("word",))
    if name == "residual":
        part = replace(TARGETS["ecp5-25f"], weights=("stream",), blocks=22)
    if name == "pools":
        part = replace(part, weights=("stream",), bank_words=4096, ring_words=64)
    design = whole.Design(net, part, shape, tmp_path, strategies.images(3, 3, net.topology.image_size))
    config = design.plan.config
    assert config.lists and config.start_reads == (name in ("bytes", "pools"))
    assert (config.quarters, config.shift, config.spreads) == (
        name == "residual", 2 * (name == "bytes"), name not in ("bytes", "packed"))
    assert config.packed == (name == "packed")
    if name == "bytes":  # accumulators of more bits than a word, and than a reply's logits
        assert (config.accumulator_bits, config.logit_bits) == (17, 8)
    found = design.check_cycles()
    stalled = design.run(stall=True, latent=config.latent_words > 0, reset=design.known["first_cycles"] // 2)
    assert sum(stalled.cycles) > sum(found.cycles), "pauses cost time"
    assert np.array_equal(found.logits, stalled.logits)
