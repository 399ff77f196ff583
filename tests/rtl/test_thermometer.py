import pytest

from fbnn_hw.base.errors import UsageError
from fbnn_hw.rtl.thermometer import ThermometerEncoder
from sim import checks
from tests.quick import quick

SHAPES = [
    ("tycc", 16, 16), ("tycc", 16, 8), ("tycc", 16, 32), ("tycc", 16, 64), ("tycc", 16, 256), ("tycc", 2, 16), ("tycc", 64, 16),
    ("trgb", 85, 16), ("trgb", 85, 64), ("trgb", 85, 256), ("trgb", 128, 32), ("trgb", 2, 5), ("trgb", 7, 9)]

PIPELINED = [("tycc", 16, 32), ("tycc", 16, 64), ("trgb", 17, 32), ("trgb", 85, 64), ("grey", 128, 32)]


@pytest.mark.parametrize("encoder, levels, lanes, bits_per_cycle", [
    (*shape, 1 << (number + more) % 4) for number, shape in enumerate(SHAPES) for more in ((0, 1, 2, 3) if number == 0 else (0,))]
    + [(*shape, 0) for shape in SHAPES] + [(*shape, 8) for shape in PIPELINED])
def test_words_and_clocks(pysim, encoder, levels, lanes, bits_per_cycle):
    pysim(ThermometerEncoder(encoder, levels, lanes, bits_per_cycle), checks.thermometer, encoder, levels, lanes, bits_per_cycle, pixels=12)


@pytest.mark.parametrize("idle, wait", [(0.5, 0), (0, 0.5), (0.8, 0.3), (0.1, 0.9)])
@pytest.mark.parametrize("encoder, levels, lanes, bits_per_cycle", [("tycc", 16, 16, 2), ("trgb", 85, 16, 4), ("tycc", 16, 64, 1),
                                                                     ("tycc", 16, 16, 0), ("trgb", 85, 16, 0), ("tycc", 16, 64, 0),
                                                                     *((*shape, 8) for shape in PIPELINED)])
def test_idle_and_back_pressure(pysim, encoder, levels, lanes, bits_per_cycle, idle, wait):
    component = ThermometerEncoder(encoder, levels, lanes, bits_per_cycle)
    pysim(component, checks.thermometer, encoder, levels, lanes, bits_per_cycle, pixels=10, idle=idle, wait=wait)


@pytest.mark.parametrize("encoder, levels, lanes, bits_per_cycle, cycles", [
    ("tycc", 16, 16, 1, 12), ("tycc", 16, 16, 4, 6), ("tycc", 16, 64, 8, 4), ("trgb", 85, 16, 8, 19),
    ("tycc", 16, 16, 0, 4), ("trgb", 85, 16, 0, 18)])
def test_cycles_per_pixel(encoder, levels, lanes, bits_per_cycle, cycles):
    component = ThermometerEncoder(encoder, levels, lanes, bits_per_cycle)
    assert component.cycles_per_pixel == cycles


LEVELS = [*SHAPES, ("grey", 2, 16), ("grey", 20, 16), ("grey", 128, 64), ("binarize", 1, 16)]


@pytest.mark.parametrize("idle, wait", quick([(0, 0), (0.5, 0), (0, 0.5), (0.8, 0.3), (0.1, 0.9)], (0, 0), (0.8, 0.3)))
@pytest.mark.parametrize("encoder, levels, lanes", LEVELS)
def test_packed_levels(pysim, encoder, levels, lanes, idle, wait):
    component = ThermometerEncoder(encoder, levels, lanes, None)
    pysim(component, checks.packed_levels, encoder, levels, lanes, size=4, idle=idle, wait=wait)
    pysim(component, checks.packed_levels, encoder, levels, lanes, size=3, images=4, idle=idle, wait=wait, seed=2)


@pytest.mark.parametrize("arguments, message", [
    (("hsv", 16, 16, 1), "thermometer: encoder is 'hsv', expected 'tycc', 'trgb', 'grey' or 'binarize'"),
    (("tycc", 12, 16, 1), "thermometer: levels is 12, expected 2, 4, 8, 16, 32 or 64"),
    (("trgb", 129, 16, 1), "thermometer: levels is 129, expected 2 to 128"),
    (("tycc", 16, 0, 1), "thermometer: lanes is 0, expected at least 1"),
    (("tycc", 16, 16, 3), "thermometer: bits_per_cycle is 3, expected 0, 1, 2, 4, 8 or None"),
])
def test_refuses(arguments, message):
    with pytest.raises(UsageError) as error:
        ThermometerEncoder(*arguments)
    assert str(error.value) == message
