import pytest

from fbnn_hw.rtl.bitplanes import BitPlanes
from sim import checks

IDENTITY, DOUBLE = (), tuple(p * 2 % 256 for p in range(256))


@pytest.mark.parametrize("idle, wait", [(0, 0), (0.5, 0), (0, 0.5), (0.1, 0.9)])
@pytest.mark.parametrize("lanes, table", [
    (3, IDENTITY), (8, DOUBLE), (9, IDENTITY), (16, DOUBLE), (21, IDENTITY), (64, DOUBLE), (765, IDENTITY)])
def test_words(pysim, lanes, table, idle, wait):
    pysim(BitPlanes(lanes, table), checks.bit_planes, lanes, table, pixels=10, idle=idle, wait=wait)
