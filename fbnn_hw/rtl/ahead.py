"""Bytes of the next request, kept while the link is at work."""

from amaranth import Array, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..machine.line import AHEAD_CYCLES
from .signals import unnamed

BLOCK = 512
"""Bytes of the smallest block RAM."""
STROBE, NEXT, WAIT = 8, 9, AHEAD_CYCLES - 1
"""Values of the counter of clocks, beside the numbers 0 to 7 of a byte's bits."""


class ReadAhead(wiring.Component):
    """A queue of bytes behind a `UartReceiver`, with the outputs of one.

    A byte that finds no room is lost.  Such a loss, or a byte without stop bit, becomes an `error` behind the bytes that came before;
    what comes until then is lost, too.

    Parameters: `size`, bytes that find room, at least; rounded up to whole blocks.

    Timing: 12 clocks a byte.

    Resources: A block RAM for 512 bytes.
    """

    def __init__(self, size):
        self.depth = -(-size // BLOCK) * BLOCK
        super().__init__({
            "byte_in": In(8), "strobe_in": In(1), "error_in": In(1),  # `byte`, `strobe` and `error` of a receiver
            "take": In(1),  # the link takes a byte; read three clocks after `strobe` or later
            "hold": In(1),  # `strobe` waits
            # As `UartReceiver` has them; `byte` stays for two clocks after `strobe`.
            "byte": Out(8), "strobe": Out(1), "error": Out(1), "bit": Out(1), "bit_strobe": Out(1),
            "waiting": Out(1)})  # a byte waits

    def elaborate(self, platform):
        m = Module()
        attributes = {"ram_style": "block", "no_rw_check": 1}  # what is read while it is written is not used
        m.submodules.memory = memory = Memory(shape=8, depth=self.depth, init=[], attrs=attributes)
        read, write = memory.read_port(), memory.write_port()
        m.d.comb += read.en.eq(self.waiting)
        level = Signal(range(self.depth + 1))
        full = unnamed()
        broken = unnamed()  # an error stands behind the bytes that wait
        clock = Signal(4, init=WAIT)
        written = Signal()
        done = Signal()
        m.d.comb += [
            written.eq(self.strobe_in & ~full & ~broken), done.eq(clock == NEXT), write.en.eq(written), write.data.eq(self.byte_in),
            self.byte.eq(read.data), self.bit.eq(Array(read.data)[clock[:3]]), self.bit_strobe.eq(~clock[3]),
            self.strobe.eq((clock == STROBE) & ~self.hold)]
        for port, step in ((write, written), (read, done)):
            with m.If(step):
                m.d.sync += port.addr.eq(port.addr + 1)
                with m.If(port.addr == self.depth - 1):
                    m.d.sync += port.addr.eq(0)
        # A byte comes and goes at most every few clocks, so these may be a clock late.
        m.d.sync += [level.eq(level + written - done), full.eq(level == self.depth), self.waiting.eq(level != 0), self.error.eq(0)]
        with m.If(self.error_in | self.strobe_in & full):
            m.d.sync += broken.eq(1)
        with m.If(clock == WAIT):
            with m.If(self.take & self.waiting):
                m.d.sync += clock.eq(0)
            with m.Elif(self.take & broken & ~self.error):
                m.d.sync += [broken.eq(0), self.error.eq(1)]
        with m.Elif((clock != STROBE) | ~self.hold):
            m.d.sync += clock.eq(clock + 1)
        return m
