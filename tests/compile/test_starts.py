"""Start reads: the weight words of start values in two parts, executed by the machine of machine.py."""

from dataclasses import replace

import numpy as np
import pytest

from fbnn_hw.base import bits
from fbnn_hw.base.errors import FitError
from fbnn_hw.compile import area
from fbnn_hw.compile.plan import plan
from fbnn_hw.ir import shipped
from fbnn_hw.machine import starts
from fbnn_hw.targets import TARGETS
from tests import strategies
from tests.compile.test_machine import GENERIC, run, stream
from tests.rtl.test_lists import NETWORKS

START_READS = replace(GENERIC, starts=("read",))


@pytest.mark.parametrize("lanes", [16, 64])
def test_both_words_give_the_start_value(lanes):
    values = np.arange(-5 * lanes, 5 * lanes).reshape(10, -1)
    words = starts.words(values, lanes, True)
    assert np.array_equal(words[:, 0], bits.twos_complement(values, lanes))
    matches = (words[:, 1] == 0).sum(-1)
    assert np.array_equal(values // lanes * lanes + matches, values) and matches.max() < lanes


@pytest.mark.parametrize("shape", [(4, 16, 4), (4, 16, 8), (8, 32, 16), (4, 64, 4)])
def test_loops(shape):
    network = strategies.on_engine(strategies.vgg_network(shape[1], thresholds=0.7, width=1 / 8, size=16, latent=72, hidden=10))
    planned = run(network, replace(stream(1 << 13), starts=("read",)), shape, shape[2])
    assert planned.config.start_reads and all(step.bias for step in planned.config.program if step.kind == "conv")


@pytest.mark.parametrize("name", ["bytes", "pools", "residual"])
def test_lists(name):
    """Bytes, whose accumulators are shifted, and spread steps."""
    planned = run(NETWORKS[name], START_READS, (4, 16, 4), 1)
    assert planned.config.lists and planned.config.start_reads and all(step.bias for step in planned.config.program)


def test_the_faster_way_that_fits_is_taken():
    """0.5mb-t has few reads a block, so a start read costs more there than a bias word, but fewer LUTs."""
    network, part = shipped.load("0.5mb-t.pt"), TARGETS["ice40"]
    ways = {way: plan(network, replace(part, starts=(way,)), 4, 16, 8) for way in ("word", "read")}
    assert ways["word"].frame.total < ways["read"].frame.total
    luts = {way: area.lut4(planned.config, part) for way, planned in ways.items()}
    assert luts["word"] > luts["read"] + 300
    assert plan(network, part, 4, 16, 8).config == ways["word"].config
    assert plan(network, replace(part, lut4=luts["read"]), 4, 16, 8).config == ways["read"].config
    with pytest.raises(FitError, match=f"needs about {luts['read']:,} LUT4"):
        plan(network, replace(part, lut4=luts["read"] - 1), 4, 16, 8)


def test_a_network_without_thresholds_has_none():
    network = strategies.vgg_network(3, width=1 / 8, size=16)
    assert plan(network, START_READS, 4, 16, 8).config == plan(network, GENERIC, 4, 16, 8).config


def test_a_narrow_accumulator_is_wide_enough_for_a_count():
    network = strategies.smallest()
    network = replace(network, thresholds={"conv1": np.ones(16, np.int32)})
    assert plan(network, GENERIC, 4, 128, 4).config.accumulator_bits < starts.least_bits(128)
    assert run(network, START_READS, (4, 128, 4), 1).config.accumulator_bits == starts.least_bits(128)
