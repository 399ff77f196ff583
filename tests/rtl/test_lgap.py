import pytest

from fbnn_hw.base.errors import UsageError
from fbnn_hw.rtl.lgap import Lgap
from sim import checks

SHAPES = [
    (4, 16, 128, 16, 4), (4, 16, 64, 16, 4), (4, 16, 128, 64, 16), (8, 32, 256, 64, 8), (8, 16, 128, 4, 1), (4, 8, 96, 36, 9),
    (4, 12, 96, 16, 4), (1, 4, 4, 1, 1)]


@pytest.mark.parametrize("idle", [0, 0.5])
@pytest.mark.parametrize("pixels, lanes, weight_bits, size, presentations", SHAPES)
def test_bits(pysim, pixels, lanes, weight_bits, size, presentations, idle):
    for seed in range(1 if presentations > 4 else 2):
        component = Lgap(pixels, lanes, weight_bits, size)
        pysim(component, checks.lgap, pixels, lanes, weight_bits, size, presentations, idle=idle, seed=seed)


@pytest.mark.parametrize("idle", [0, 0.5])
@pytest.mark.parametrize("pixels, lanes, weight_bits, size, presentations", [
    (4, 16, 128, 16, 4), (4, 16, 64, 16, 4), (2, 24, 96, 4, 2), (2, 32, 64, 1, 1)])
def test_split(pysim, pixels, lanes, weight_bits, size, presentations, idle):
    component = Lgap(pixels, lanes, weight_bits, size, split=True)
    pysim(component, checks.lgap, pixels, lanes, weight_bits, size, presentations, component.latency, idle=idle)


@pytest.mark.parametrize("arguments, message", [
    ((4, 16, 100, 16), "lgap: weight_bits is 100, expected a multiple of 4 pixels x 16 lanes"),
    ((4, 8, 64, 16, True), "lgap: lanes is 8, expected a multiple of 8 from 16 for a split choice"),
    ((4, 0, 64, 16), "lgap: pixels 4, lanes 0, size 16, expected at least 1 each"),
])
def test_refuses(arguments, message):
    with pytest.raises(UsageError) as error:
        Lgap(*arguments)
    assert str(error.value) == message
