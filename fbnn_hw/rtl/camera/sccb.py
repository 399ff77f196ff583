"""SCCB, the two wires of a sensor's registers: OmniVision's form of I2C."""

import math

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ...base.errors import UsageError

ZERO, ONE, START, STOP = range(4)
"""Symbols of the table.  Each lasts four quarters of a bit; ONE also frees the line for the ninth bit of a byte, which nobody reads."""


def symbols(writes):
    """The table that sends some writes, each of bytes."""
    table = []
    for write in writes:
        bits = [[byte >> 7 - i & 1 for i in range(8)] + [ONE] for byte in write]
        table += [START, *sum(bits, []), STOP]
    return table


class SccbWriter(wiring.Component):
    """Sends the writes of a table once after reset, without asking whether anybody hears them.

    The table holds symbols, two bits each, and its end is the end of the memory: a carry of the address.

    Parameters:
    - writes, sequence of bytes: of each write: the sensor's address, the register's number, its value.
    - clock_hz, rate: frequency of sync; bits a second.

    Timing: A bit lasts 1 / rate or a little longer.  The wires rest before the first write and before the second one, which follows a
    reset, for at least a whole period of `tick`, as data sheets of sensors ask for, and at most for two periods; before the others for
    half a bit.

    Resources: One block RAM of an iCE40 for 2,048 symbols: 70 writes of three bytes, 53 of four.

    Raises UsageError if the rate is not from 100 to 400 kHz.
    """

    def __init__(self, writes, clock_hz, rate=100e3):
        if not 100e3 <= rate <= 400e3:
            raise UsageError(f"SCCB: {rate / 1e3:g} kHz, expected from 100 to 400")
        self.table = symbols(writes)
        self.quarter = math.ceil(clock_hz / rate / 4)
        super().__init__({
            "tick": In(1),  # strobes about once a millisecond
            "clock_low": Out(1), "data_low": Out(1),  # pull the wire to ground; else it is let go, and others may use it once it is `done`
            "done": Out(1)})  # all writes are sent

    def elaborate(self, platform):
        m = Module()
        bits = (len(self.table) - 1).bit_length()
        free = (1 << bits) - len(self.table)
        m.submodules.table = memory = Memory(shape=2, depth=1 << bits, init=[0] * free + self.table, attrs={"ram_style": "block"})
        read = memory.read_port()
        symbol = read.data
        following = Signal(bits + 1, init=free)  # address of the next symbol; its highest bit: there is none
        begun = Signal()  # a symbol has been read
        phase = Signal(2, init=2)  # quarter of the symbol
        wait = Signal(range(self.quarter))
        rested = Signal(3)  # quarters that have waited for `tick`; four of them are the two rests
        passes = Signal()  # to the next quarter
        control, which = symbol[1], symbol[0]
        rests = phase[1] & (~begun | control & which)  # before a write
        m.d.comb += [
            read.addr.eq(following), read.en.eq(passes & (phase == 3)),
            passes.eq(Mux(rests & ~rested[-1], self.tick, wait == 0) & ~self.done),
            self.done.eq(following[-1] & rests & phase[0])]
        m.d.sync += [
            wait.eq(Mux(wait == 0, self.quarter - 1, wait - 1)), phase.eq(phase + passes),
            rested.eq(rested + (rests & passes & ~rested[-1])),
            # Registers, so that wires move at quarters alone.  The clock is low in quarters 0 and 3 of a bit, 3 of START, 0 of STOP.
            self.clock_low.eq(begun & Mux(control, Mux(which, phase == 0, phase == 3), phase[0] == phase[1])),
            self.data_low.eq(begun & Mux(control, phase[1] ^ which, ~which))]
        with m.If(read.en):
            m.d.sync += [following.eq(following + 1), begun.eq(1)]
        return m
