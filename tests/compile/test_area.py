import pytest

from fbnn_hw.compile import area
from fbnn_hw.compile.plan import configure
from fbnn_hw.targets import TARGETS
from tests import strategies
from tests.targets.test_targets import network

SMALL = {"smallest": strategies.smallest, "vgg": lambda: strategies.vgg_network(1)}


@pytest.mark.parametrize("name, model, shape, weights, luts", [
    ("ice40", "3mb", (4, 16, 8), "stream", 3186), ("ice40", "smallest", (4, 16, 4), "stream", 1637),
    ("ice40", "vgg", (4, 16, 8), "stream", 3045),
    ("ice40-hx8k", "smallest", (4, 16, 4), "memory", 1497), ("ice40-hx8k", "smallest", (4, 16, 8), "memory", 2185),
    ("ice40-hx8k", "vgg", (4, 16, 4), "memory", 2435), ("ecp5-45f", "3mb", (8, 32, 16), "stream", 17650),
    ("ecp5-25f", "0.5mb", (4, 16, 8), "memory", 4724), ("ecp5-25f", "vgg", (4, 32, 8), "memory", 5424),
    ("gowin", "0.5mb", (4, 16, 4), "memory", 4249), ("gowin", "0.5mb", (4, 16, 8), "memory", 5556),
    ("gowin", "vgg", (4, 16, 8), "memory", 4483),
    ("xilinx7", "0.5mb", (4, 32, 16), "memory", 7852), ("xilinx7", "vgg", (4, 16, 8), "memory", 2864)])
def test_the_estimate_is_near_what_synthesis_needed(name, model, shape, weights, luts):
    """luts: yosys, as in docs/benchmarks/synthesis.py."""
    found = SMALL[model]() if model in SMALL else network(model)
    config = configure(found, TARGETS[name], shape, 1, None, weights)[0]
    assert area.lut4(config, TARGETS[name]) == pytest.approx(luts, rel=0.08)
