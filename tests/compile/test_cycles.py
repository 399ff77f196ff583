"""The cycles of a pass.  That they are those of the hardware is tested where whole accelerators are simulated, tests/rtl."""

from dataclasses import replace

import numpy as np
import pytest

from fbnn_hw.compile.plan import plan
from fbnn_hw.machine import cycles
from fbnn_hw.targets import TARGETS
from tests import strategies
from tests.compile.test_lists import residual
from tests.quick import slow
from tests.rtl.test_accelerator import CASES, Case, part_of


def of_case(case, seed):
    """(network, part, shape)."""
    network = strategies.on_engine(strategies.fill(case.topology, seed, case.thresholds))
    return network, part_of(case, network), case.shape


def random_design(seed):
    """A random network of the paper's kind, with weights from one of the streams."""
    rng = np.random.default_rng(seed)
    way = {"lines": int(rng.choice([16, 32]))} if seed % 3 == 0 else {"double": seed % 3 == 1}
    topology = strategies.vgg_network(
        1, width=float(rng.choice([1 / 16, 1 / 8, 1 / 4])), size=16, latent=int(rng.integers(20, 90)), hidden=12).topology
    case = Case(topology, ((4, 16, 4), (4, 16, 8), (4, 32, 16))[rng.integers(3)], float(rng.choice([0, 0.5])),
                spare=int(rng.choice([0, 40, 200, 1000])), ring=int(rng.choice([1, 2, 4])),
                part={"encoder_bits": 4, "starts": (str(rng.choice(["read", "word"])),)}, **way)
    return of_case(case, seed)


DESIGNS = {
    **{f"random {seed}": lambda seed=seed: random_design(seed) for seed in (*range(8), 21)},
    **{name: lambda name=name: of_case(CASES[name], len(name)) for name in ("stream", "starts", "blocks", "double", "registers_stream")},
    **{f"lists, {blocks} blocks": lambda blocks=blocks: (
        residual(blocks), replace(TARGETS["ecp5-25f"], weights=("stream",), blocks=blocks), (4, 16, 4)) for blocks in (22, 28)}}


@pytest.mark.parametrize("name", slow(DESIGNS, "random 1", "random 4", "random 7"))
def test_a_tile_that_begins_as_an_earlier_one_takes_as_long(name, monkeypatch):
    """Plans by tiles of this design, by those of all before it, and with each tile of each pass simulated."""
    network, part, shape = DESIGNS[name]()
    cycles._tiles.clear()
    new, old = (plan(network, part, *shape) for _ in range(2))
    begin = cycles.Mover.begin
    monkeypatch.setattr(cycles.Run, "tile_again", cycles.Run.tile)
    monkeypatch.setattr(cycles.Mover, "begin", lambda mover, now: (begin(mover, now), now))  # no pass begins as another
    monkeypatch.setattr(cycles, "MOST_PASSES", 4)
    simulated = plan(network, part, *shape)
    assert new.config == old.config == simulated.config
    assert (new.first, new.frame) == (old.first, old.frame) == (simulated.first, simulated.frame)
