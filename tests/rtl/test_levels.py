"""Whole accelerators whose images come as packed levels, in Verilator: every layer's bits, logits, classes and the cycles."""

from dataclasses import replace

import numpy as np
import pytest

from tests import strategies
from tests.quick import quick
from tests.rtl import whole
from tests.rtl.test_accelerator import WIDE
from tests.rtl.test_lists import NETWORKS

STREAM = {"weights": ("stream",), "bank_words": 4096, "ring_words": 512}
CASES = {
    # (network, shape of the engine, changes of the part)
    "resident": (strategies.vgg_network(1, width=1 / 16, size=16, latent=40, hidden=12), (4, 16, 4),
                 STREAM | {"technology": "ice40-spram"}),
    # Pieces of two planes in a word.
    "wide": (strategies.fill(WIDE, 1), (4, 64, 4), {}),
    # One bit a pixel, the last byte of an image filled up; then as a vector.
    "pools": (NETWORKS["pools"], (4, 16, 4), STREAM),
    "packed": (NETWORKS["packed"], (4, 16, 4), {}),
    # A grey code of levels that are no power of two, an odd size.
    "grey": (NETWORKS["grey"], (8, 16, 8), {}),
    # The image as four quarters.
    "quarters": (NETWORKS["residual"], (4, 16, 4), {}),
}


def check(network, shape, part, folder):
    """Every bit and cycle; then every bit with pauses of all streams, after a reset in the middle of a frame."""
    images = strategies.images(3, 3, network.topology.image_size)
    design = whole.Design(network, replace(whole.target(encoder_bits=None), **part), shape, folder, images)
    assert design.plan.config.takes_levels and design.plan.config.pixel_bits < 24
    found = design.check_cycles()
    stalled = design.run(stall=True, reset=design.known["first_cycles"] // 2)
    assert np.array_equal(found.logits, stalled.logits)


@pytest.mark.parametrize("name", quick(CASES, "grey"))
def test_bits_and_cycles(name, tmp_path):
    check(*CASES[name], tmp_path)


@pytest.mark.parametrize("seed", quick(range(8)))
def test_random_networks(seed, tmp_path):
    """Encoders, levels, sizes, lanes and ways to have weights at random."""
    rng = np.random.default_rng(seed)
    network = strategies.engine_network(seed, sizes=(8, 16), classes=(2, 5), channels=16)
    shapes = (4, 16, 4), (4, 16, 16), (4, 32, 8), (8, 16, 8), (4, 64, 4)
    check(network, shapes[rng.integers(len(shapes))], STREAM if rng.random() < 0.5 else {}, tmp_path)
