import pytest

from fbnn_hw.base.errors import UsageError
from fbnn_hw.rtl.spram import SinglePortMemory
from sim import checks


@pytest.mark.parametrize("depth, width, granularity", [(2, 1, 1), (100, 16, 4), (256, 64, 16), (300, 24, 24), (1024, 20, 4)])
def test_generic(pysim, depth, width, granularity):
    pysim(SinglePortMemory(depth, width, granularity, "generic"), checks.memory, depth, width, granularity)


@pytest.mark.parametrize("arguments, message", [
    ((16, 16, 4, "asic"), "memory: technology is 'asic', expected 'ice40-spram', 'generic' or 'wrapper'"),
    ((1, 16, 4, "generic"), "memory: 1 words of 16 bits, expected at least 2 words of 1 bit"),
    ((16, 16, 3, "generic"), "memory: granularity is 3, expected a divisor of 16"),
    ((16, 16, 2, "ice40-spram"), "memory: granularity is 2, expected a divisor of 16 and a multiple of 4"),
])
def test_refuses(arguments, message):
    with pytest.raises(UsageError) as error:
        SinglePortMemory(*arguments)
    assert str(error.value) == message
