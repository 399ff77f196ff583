"""The leaf components in Verilator: one build, one run, and a test for each component."""

from pathlib import Path

import pytest
from amaranth.back import verilog
from bundle import Bundle
from leaves import LEAVES

from fbnn_hw.build import simulator

SIM = Path(__file__).parents[2] / "sim"
BENCH = Path(simulator.__file__).parent / "bench"
MODELS = [BENCH / "SB_SPRAM256KA.v", BENCH.parents[1] / "rtl" / "memories.v"]


@pytest.fixture(scope="module")
def sim(tmp_path_factory):
    folder = tmp_path_factory.mktemp("leaves")
    source = folder / "leaves.v"
    source.write_text(verilog.convert(Bundle({name: leaf[0] for name, leaf in LEAVES.items()}), name="leaves"))
    return simulator.build([source, *MODELS], "leaves", folder / "build")


@pytest.fixture(scope="module")
def results(sim):
    return {test.name: test for test in sim.run("test_leaves", search=[SIM]).tests}


@pytest.mark.parametrize("name, leaf", [(f"leaf/number={number}", leaf) for number, leaf in enumerate(LEAVES)])
def test_leaf(results, name, leaf):
    assert results[name].passed, f"{leaf}: {results[name].message}"


def test_speed(results):
    assert results["speed"].passed


def test_random_power_up(sim):
    """Contents unknown after power-up and data unknown after a write: words that were written are read back all the same."""
    number = list(LEAVES).index("memory_16384x16")
    results = sim.run("test_leaves", f"leaf/number={number}", search=[SIM], arguments=["+spram-random"])
    assert not results.failed


def test_build_is_kept(sim):
    source = sim.build_dir.parent / "leaves.v"
    assert simulator.build([source, *MODELS], "leaves", sim.build_dir).build_seconds == 0
