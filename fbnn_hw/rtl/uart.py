"""UART: 8 bits, no parity, one stop bit, lowest bit first."""

import math

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from ..base.errors import UsageError
from ..machine.line import EIGHTHS, FEWEST, bit_clocks
from .signals import unnamed

LARGEST = 1 << 17
"""Most clocks of a bit.  A longer bit would make a byte as long as the pause that ends a message (HostLink, timeout_bits)."""


def divider(clock_hz, baud):
    """Clocks of a bit, as `bit_clocks` has them; UsageError if that is not from FEWEST to LARGEST."""
    clocks = bit_clocks(clock_hz, baud)
    if clocks < FEWEST:
        raise UsageError(f"--baud {baud}: a clock of {clock_hz / 1e6:g} MHz allows at most {int(clock_hz / FEWEST)}; expected a "
                         "lower --baud or a higher --clock")
    if clocks > LARGEST:
        raise UsageError(f"--baud {baud}: a clock of {clock_hz / 1e6:g} MHz needs at least {-int(-clock_hz // LARGEST)}")
    return clocks


class _Bit:
    """How long bits last: `rest`, the clocks of the next one but its last.  Where `clocks` has eighths, some bits are a clock longer."""

    def __init__(self, clocks):
        whole, self.eighths = int(clocks), int(EIGHTHS * clocks) % EIGHTHS
        self.rest, self.most = whole - 1, math.ceil(clocks)
        self.passes = []  # statements of the clock in which a bit takes its `rest`
        if self.eighths:
            self.phase = unnamed(EIGHTHS.bit_length() - 1)
            total = self.phase + self.eighths
            self.rest, self.passes = Mux(total[-1], whole, whole - 1), [self.phase.eq(total[:len(self.phase)])]

    def starts(self, phase):
        """Statements of a first bit that began so many eighths of a clock ago."""
        return [self.phase.eq(phase)] if self.eighths else []


class UartReceiver(wiring.Component):
    """Bits on a line -> bytes.

    Parameters: `clocks` of a bit, whole or in eighths; 1 for a line in step with the clock, as simulations have it.

    Timing: A bit is sampled in its middle, at most a clock beside it.
    """

    def __init__(self, clocks):
        self.clocks = clocks
        super().__init__({
            "line": In(1, init=1),  # straight from the pin
            "byte": Out(8), "strobe": Out(1),  # a byte has come
            "error": Out(1),  # a byte without stop bit has come; the receiver then waits until the line is idle
            "bit": Out(1), "bit_strobe": Out(1)})  # each bit of a byte as it is sampled

    def elaborate(self, platform):
        m = Module()
        line = Signal(init=1)
        m.submodules.synchronizer = FFSynchronizer(self.line, line, init=1)
        length = _Bit(self.clocks)
        middle = int(EIGHTHS * self.clocks) // 2  # of the start bit, in eighths
        first = middle // EIGHTHS - 1 if length.eighths else (self.clocks - 1) // 2
        wait = Signal(range(length.most))
        # A one walks down to the carry bit: eight shifts later the byte is whole.
        shift = unnamed(8)
        whole = Signal()
        sample = Signal()  # `wait` is 0; always, where a bit is one clock
        m.d.comb += [self.byte.eq(shift), self.bit.eq(line)]
        m.d.sync += [wait.eq(wait - 1), sample.eq(self.clocks == 1 or wait == 1), self.strobe.eq(0), self.error.eq(0)]
        with m.If(sample):
            m.d.sync += [wait.eq(length.rest), sample.eq(self.clocks == 1), *length.passes]
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [wait.eq(first), sample.eq(first == 0), *length.starts(middle % EIGHTHS)]
                with m.If(~line):
                    if self.clocks == 1:  # the start bit lasts no second clock to be sampled in
                        m.d.sync += [shift.eq(1 << 7), whole.eq(0)]
                    m.next = "BITS" if self.clocks == 1 else "START"
            with m.State("START"):
                with m.If(sample):  # until then the byte before stands there
                    m.d.sync += [shift.eq(1 << 7), whole.eq(0)]
                    m.next = "BITS"
                    with m.If(line):
                        m.next = "IDLE"
            with m.State("BITS"):
                with m.If(sample):
                    with m.If(whole):
                        m.d.sync += [self.strobe.eq(line), self.error.eq(~line)]
                        m.next = "IDLE"
                        with m.If(~line):
                            m.next = "BREAK"
                    with m.Else():
                        m.d.comb += self.bit_strobe.eq(1)
                        m.d.sync += Cat(whole, shift).eq(Cat(shift, line))
            with m.State("BREAK"):
                with m.If(line):
                    m.next = "IDLE"
        return m


class UartTransmitter(wiring.Component):
    """Bytes -> bits on a line.

    Parameters: `clocks` of a bit, whole or in eighths.

    Timing: 10 bits a byte, without a gap where bytes wait.
    """

    def __init__(self, clocks):
        self.clocks = clocks
        super().__init__({
            "bytes": In(stream.Signature(8)),  # taken when the byte before has left
            "line": Out(1, init=1),
            "bit": Out(1), "bit_strobe": Out(1)})  # each bit of a byte as it begins

    def elaborate(self, platform):
        m = Module()
        length = _Bit(self.clocks)
        wait = Signal(range(length.most))
        shift = unnamed(8)
        count = Signal(range(10))
        waiting = unnamed()  # `wait` is not 0; never, where a bit is one clock
        next_bit = ~waiting
        free = Signal()
        taken = self.bytes.valid & free
        m.d.comb += [self.bytes.ready.eq(free), self.bit.eq(shift[0])]
        m.d.sync += free.eq(next_bit & (count == 0) & ~taken)
        with m.If(taken):
            m.d.sync += [shift.eq(self.bytes.payload), self.line.eq(0), count.eq(9), wait.eq(length.rest), waiting.eq(self.clocks > 1),
                         *length.passes]
        with m.Elif(~next_bit):
            m.d.sync += [wait.eq(wait - 1), waiting.eq(self.clocks > 1 and wait != 1)]
        with m.Elif(count != 0):
            # The stop bit ends when the line may carry the next start bit.
            m.d.sync += [wait.eq(length.rest), waiting.eq(self.clocks > 1), count.eq(count - 1), self.line.eq(shift[0]),
                         shift.eq(Cat(shift[1:], 0)), *length.passes]
            m.d.comb += self.bit_strobe.eq(count != 1)
            with m.If(count == 1):
                m.d.sync += self.line.eq(1)
        return m
