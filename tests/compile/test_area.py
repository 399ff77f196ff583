import pytest

from fbnn_hw.compile import area
from fbnn_hw.compile.plan import configure
from fbnn_hw.targets import TARGETS
from tests.targets.test_targets import network


@pytest.mark.parametrize("name, model, shape, weights, luts", [
    ("ice40", "3mb", (4, 16, 8), "stream", 3186), ("gowin", "0.5mb", (4, 16, 4), "memory", 4249)])
def test_the_estimate_is_near_what_synthesis_needed(name, model, shape, weights, luts):
    """luts: docs/benchmarks/synthesis.py."""
    config = configure(network(model), TARGETS[name], shape, 1, None, weights)[0]
    assert area.lut4(config, TARGETS[name].family) == pytest.approx(luts, rel=0.15)
