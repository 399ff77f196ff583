"""Signals without a name, and values of the clock before."""

from amaranth import Signal


def unnamed(shape=1, **options):
    """A Signal that the Verilog numbers instead of naming it after the variable.

    The netlist that yosys makes depends on names: a name for each of these changes a design by a
    LUT to a percent, and its highest clock with it.  Replace `unnamed` by `Signal` together with a
    new measurement of docs/benchmarks.md.
    """
    return Signal(shape, name="$signal", **options)


def later(m, value, **options):
    """The value of the clock before, in a register without a name."""
    before = unnamed(len(value), **options)
    m.d.sync += before.eq(value)
    return before
