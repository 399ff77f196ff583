"""Equal registers that stay several."""

from functools import partial

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from . import shared


class Copy(wiring.Component):
    """A register without reset that synthesis does not merge with equal ones.

    `fpga.toolchain` keeps these modules apart.  A merged register would drive long wires to all
    popcounts.

    Parameters
    ----------
    width : int

    Timing
    ------
    One clock.

    Resources
    ---------
    `width` flip-flops.
    """

    def __init__(self, width):
        super().__init__({"source": In(width), "copy": Out(width)})  # what `source` was

    def elaborate(self, platform):
        m = Module()
        copy = Signal(len(self.source), reset_less=True)
        m.d.sync += copy.eq(self.source)
        m.d.comb += self.copy.eq(copy)
        return m


def copy_of(m, platform, submodule, value):
    """Add a `Copy` of a value to `m`, as `submodule`; return what it holds, the value of the clock before."""
    component = shared.add(m, platform, submodule, f"copy_{len(value)}", partial(Copy, len(value)))
    m.d.comb += component.source.eq(value)
    return component.copy
