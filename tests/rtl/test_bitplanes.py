import pytest

from fbnn_hw.rtl.bitplanes import BitPlanes
from sim import checks

IDENTITY, DOUBLE = (), tuple(p * 2 % 256 for p in range(256))


@pytest.mark.parametrize("idle, wait", [(0, 0), (0.5, 0), (0, 0.5), (0.1, 0.9)])
@pytest.mark.parametrize("lanes, table, count", [
    (3, IDENTITY, 1), (8, DOUBLE, 1), (9, IDENTITY, 1), (16, DOUBLE, 1), (21, IDENTITY, 1), (64, DOUBLE, 1), (765, IDENTITY, 1),
    (9, IDENTITY, 3), (16, IDENTITY, 3), (16, IDENTITY, 5), (32, DOUBLE, 3), (64, IDENTITY, 5)])
def test_words(pysim, lanes, table, count, idle, wait):
    pysim(BitPlanes(lanes, table, count), checks.bit_planes, lanes, table, count, pixels=10, idle=idle, wait=wait)
