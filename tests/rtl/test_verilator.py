"""The components in Verilator: one build, one run, and a test for each component."""

from pathlib import Path

import pytest
from bundle import Bundle
from components import COMPONENTS

from fbnn_hw.emit import simulator
from fbnn_hw.rtl.verilog import convert

SIM = Path(__file__).parents[2] / "sim"
BENCH = Path(simulator.__file__).parent / "bench"
MODELS = [BENCH / "SB_SPRAM256KA.v", BENCH.parents[1] / "rtl" / "memories.v"]


@pytest.fixture(scope="module")
def sim(tmp_path_factory):
    folder = tmp_path_factory.mktemp("components")
    source = folder / "components.v"
    source.write_text(convert(Bundle({name: entry[0] for name, entry in COMPONENTS.items()}), "components"))
    return simulator.build([source, *MODELS], "components", folder / "build")


@pytest.fixture(scope="module")
def results(sim):
    return {test.name: test for test in sim.run("test_components", search=[SIM]).tests}


@pytest.mark.parametrize("name, component", [(f"component/number={number}", component) for number, component in enumerate(COMPONENTS)])
def test_component(results, name, component):
    assert results[name].passed, f"{component}: {results[name].message}"


def test_random_power_up(sim):
    """Contents unknown after power-up and data unknown after a write: words that were written are read back all the same."""
    number = list(COMPONENTS).index("memory_16384x16")
    results = sim.run("test_components", f"component/number={number}", search=[SIM], arguments=["+spram-random"])
    assert not results.failed


def test_build_is_kept(sim):
    source = sim.build_dir.parent / "components.v"
    assert simulator.build([source, *MODELS], "components", sim.build_dir).build_seconds == 0
