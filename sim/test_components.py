"""The components in Verilator: one build, one run, and a test for each component."""

from pathlib import Path

import pytest

from fbnn_hw.rtl.verilog import convert
from fbnn_hw.simulate import simulator
from sim.bundle import Bundle
from sim.components import COMPONENTS

BENCH = "sim.cocotb_components"
PACKAGE = Path(simulator.__file__).parents[1]
MODELS = [PACKAGE / "simulate" / "bench" / "SB_SPRAM256KA.v", PACKAGE / "rtl" / "memories.v"]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("components")
    source = folder / "components.v"
    source.write_text(convert(Bundle({name: entry[0] for name, entry in COMPONENTS.items()}), "components"))
    return simulator.build([source, *MODELS], "components", folder / "build")


@pytest.fixture(scope="module")
def results(built):
    return {test.name: test for test in built.run(BENCH).tests}


@pytest.mark.parametrize("name, component", [(f"component/number={number}", component) for number, component in enumerate(COMPONENTS)])
def test_component(results, name, component):
    assert results[name].passed, f"{component}: {results[name].message}"


def test_random_power_up(built):
    """Contents unknown after power-up and data unknown after a write: words that were written are read back all the same."""
    number = list(COMPONENTS).index("memory_16384x16")
    results = built.run(BENCH, f"component/number={number}", arguments=["+spram-random"])
    assert not results.failed


def test_build_is_kept(built):
    source = built.build_dir.parent / "components.v"
    assert simulator.build([source, *MODELS], "components", built.build_dir).build_seconds == 0
