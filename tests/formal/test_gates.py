"""Popcounts of every width are sums, and encoders with sums of colours are their definition for every pixel there is."""

import os

import numpy as np
import pytest
from amaranth.hdl import Module, Signal

from fbnn_hw.ir.ops import planes
from fbnn_hw.reference import encode
from fbnn_hw.rtl import popcount, thermometer
from fbnn_hw.rtl.popcount import XnorPopcount
from fbnn_hw.rtl.thermometer import ThermometerEncoder
from tests.formal import gates

WIDTHS = (*range(1, 33), 64, 128)


def popcounts(widths, folder):
    """The gates of a popcount of each width, with ports such as act8, weight8, count8."""
    m, ports = Module(), []
    for width in widths:
        dut = XnorPopcount(width, 0)
        m.submodules[f"popcount{width}"] = dut
        for name in ("act", "weight", "count"):
            port = Signal.like(getattr(dut, name), name=f"{name}{width}")
            ports.append(port)
            m.d.comb += port.eq(dut.count) if name == "count" else getattr(dut, name).eq(port)
    return gates.Netlist(m, ports, folder)


def counted(netlist, width):
    """(the polynomial of a popcount's gates, that of the sum of its equal bits); a XNOR b is 1 - a - b + 2 a b."""
    expected = {frozenset(): width}
    for a, b in zip(netlist.ports[f"act{width}"], netlist.ports[f"weight{width}"]):
        expected |= {frozenset((a,)): -1, frozenset((b,)): -1, frozenset((a, b)): 2}
    return gates.sum_of(netlist, f"count{width}"), expected


@pytest.fixture(scope="module")
def netlist(tmp_path_factory):
    return popcounts(WIDTHS, tmp_path_factory.mktemp("popcounts"))


@pytest.mark.parametrize("width", WIDTHS)
def test_a_popcount_is_the_sum(width, netlist):
    found, expected = counted(netlist, width)
    assert found == expected


def test_a_wrong_adder_is_found(tmp_path, monkeypatch):
    """A full adder whose carry is that of a half adder."""
    def full(self, a, b, c):
        p = self.name(a ^ b)
        return self.name(p ^ c), self.name(a & b)

    monkeypatch.setattr(popcount._Adders, "full", full)
    found, expected = counted(popcounts([5], tmp_path), 5)
    assert found != expected


def channels_of(encoder, levels, threshold):
    """As `reference.encode.first_map`, a channel at a time."""
    def channels(*colours):
        image = np.stack(colours)[None, :, :, None].astype(np.uint8)
        if encoder == "binarize":
            yield encode.ycc(image)[0, 0, :, 0] >= threshold
            return
        for plane, size in zip(encode.levels(image, encoder, levels)[0, :, :, 0].astype(np.uint8), planes(encoder, levels)):
            yield from (plane >= k for k in range(size))
    return channels


LONG = [("tycc", 16, 16, 0, 0), ("tycc", 4, 16, 8, 0), ("grey", 5, 16, 0, 0), ("binarize", 1, 16, 8, 100)]


@pytest.mark.parametrize("encoder, levels, lanes, bits, threshold", [
    ("tycc", 2, 8, 0, 0), *(LONG if os.environ.get("FBNN_FORMAL") == "long" else ())])
def test_every_pixel(encoder, levels, lanes, bits, threshold, tmp_path):
    gates.every_pixel(ThermometerEncoder(encoder, levels, lanes, bits, threshold), channels_of(encoder, levels, threshold), tmp_path)


def test_a_wrong_factor_is_found(tmp_path, monkeypatch):
    """85 and 86 of green in Cb, 128 and 129 of blue."""
    monkeypatch.setattr(thermometer, "YCC", np.array([[77, 150, 29], [-43, -86, 129], [128, -107, -21]]))
    with pytest.raises(AssertionError, match="of pixels from"):
        gates.every_pixel(ThermometerEncoder("tycc", 2, 8, 0), channels_of("tycc", 2, 0), tmp_path)
