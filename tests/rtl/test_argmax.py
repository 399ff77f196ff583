import pytest

from fbnn_hw.base.errors import UsageError
from fbnn_hw.rtl.argmax import Argmax
from sim import checks


@pytest.mark.parametrize("idle", [0, 0.5])
@pytest.mark.parametrize("width, classes", [(1, 2), (4, 1), (8, 2), (13, 10), (13, 37), (20, 100), (3, 128)])
def test_best(pysim, width, classes, idle):
    pysim(Argmax(width, classes), checks.argmax, width, classes, sequences=max(4, 200 // classes), idle=idle)


def test_refuses():
    with pytest.raises(UsageError) as error:
        Argmax(8, 0)
    assert str(error.value) == "argmax: 0 classes of 8 bits, expected at least 1 class of 1 bit"
