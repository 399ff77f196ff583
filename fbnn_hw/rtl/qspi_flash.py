"""A serial flash as an endless stream of bytes."""

from dataclasses import dataclass

from amaranth import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..errors import UsageError
from .signals import unnamed

READ_COMMANDS = {1: 0x0B, 2: 0x3B, 4: 0x6B}
"""Fast read, fast read dual output, fast read quad output: address on one line, then `width` bits a clock."""
RELEASE, ENABLE_RESET, RESET = 0xAB, 0x66, 0x99
VOLATILE_QE = ((0x50,), (0x31, 0x02))
"""Sets Quad Enable (status register 2, bit 1) until the power goes, without wear: Winbond W25Q, GigaDevice GD25Q."""


@dataclass(frozen=True)
class FlashChip:
    """What the reader must know of a flash and its wires.

    width: data lines read.  dummy: clocks between address and data.  quad_enable: commands that let IO2 and IO3 carry data; none where
    the chip is delivered so, or was set so when it was written.  wait_s: longest of the waits for power-up, reset (tRST)
    and release from power-down (tRES1).  deselect_s: shortest pause between two commands (tSHSL).  The defaults hold for
    Winbond W25Q (tRST 30 us, tRES1 3 us, tSHSL 50 ns), with a margin for others.
    """

    width: int = 4
    dummy: int = 8
    quad_enable: tuple = VOLATILE_QE
    wait_s: float = 60e-6
    deselect_s: float = 60e-9


class FlashReader(wiring.Component):
    """Reads `first` bytes from address `offset` on once, then the `again` bytes behind them, over and over.

    The flash may be in any state that one-line commands end: asleep, in continuous read, or amid a read that a reset of this component
    cut off.  After reset: FF, 66, 99, AB, then `chip.quad_enable`, each followed by a wait; then one read, without a pause until the
    last byte.  A read costs deselect + 32 + dummy clocks before its first bit.  Where nobody takes bytes the flash's clock stops.

    clock_hz: of sync.  latency: cycles from `pulse` to its data at `lines_in`; each register at a pin adds one, without any it
    is 0, and data must be there before the cycle in which the clock pulses ends.  data: bytes.  pulse: the flash's clock is
    high in the second half of this cycle (`~clk & pulse`).  select_n, lines_*: pins; data leaves with the cycle's beginning.
    first_done: the first bytes are all read.
    """

    DEPTH = 4
    """Bytes on their way or waiting."""

    def __init__(self, chip, clock_hz, offset, first, again, latency=0):
        if chip.width not in READ_COMMANDS:
            raise UsageError(f"flash: {chip.width} data lines, expected {', '.join(map(str, READ_COMMANDS))}")
        if not 0 <= latency <= 3:
            raise UsageError(f"flash: latency is {latency}, expected from 0 to 3")
        if first + again < 1 or offset + first + again > 1 << 24:
            raise UsageError(f"flash: {first + again} bytes from {offset:#x} on, expected at least one, below {1 << 24:#x}")
        self.chip, self.clock_hz, self.offset, self.first, self.again, self.latency = chip, clock_hz, offset, first, again, latency
        self.wait_bits = max(5, int(chip.wait_s * clock_hz).bit_length())
        self.deselect = max(2, -int(-chip.deselect_s * clock_hz // 1))
        super().__init__({
            "data": Out(stream.Signature(8)), "pulse": Out(1), "select_n": Out(1, init=1), "lines_out": Out(4),
            "lines_enable": Out(4), "lines_in": In(4), "first_done": Out(1)})

    def elaborate(self, platform):
        m = Module()
        chip, width = self.chip, self.chip.width
        per_byte = 8 // width

        # The script: commands before the read.
        commands = [(0xFF,), (ENABLE_RESET,), (RESET,), (RELEASE,), *(chip.quad_enable if width == 4 else ())]
        longest = max(len(c) for c in commands) * 8
        script = [[byte >> 7 - i & 1 for byte in command for i in range(8)] for command in commands]
        number = Signal(range(len(commands) + 1))
        reading = number == len(commands)
        bit = Signal(range(max(longest, 32 + chip.dummy)))
        head = [int(b) for b in f"{READ_COMMANDS[width]:08b}"]
        starts = [head + [int(b) for b in f"{self.offset + base:024b}"] for base in (0, self.first)]
        again = Signal()
        words = Array(Array(Const(v, 1) for v in (row + [0] * 32)[:16])[bit[:4]] for row in script)
        address = Mux(again, Array(Const(v, 1) for v in starts[1])[bit[:5]], Array(Const(v, 1) for v in starts[0])[bit[:5]])
        lasts = Array(Const(len(row) - 1, 5) for row in script)

        # Bytes: at most DEPTH are on their way or waiting.
        spare = Signal(range(self.DEPTH + 1), init=self.DEPTH)
        phase = Signal(range(per_byte))
        issue = Signal()  # a byte begins
        taken = self.data.valid & self.data.ready
        m.d.sync += spare.eq(spare + taken - issue)
        position = Signal(range(max(self.first + self.again + 1, 1 << self.wait_bits + 1)))
        clocking = Signal()

        # Data comes `latency` cycles after its clock.
        flying = [Signal(2, name=f"flying{i}") for i in range(self.latency + 1)]
        m.d.comb += flying[0].eq(Cat(clocking, clocking & (phase == per_byte - 1)))
        m.d.sync += [b.eq(a) for a, b in zip(flying, flying[1:])]
        shift = unnamed(8)
        whole = Signal()
        lines = self.lines_in[1] if width == 1 else self.lines_in[:width]
        with m.If(flying[-1][0]):
            m.d.sync += shift.eq(Cat(lines, shift))
        m.d.sync += whole.eq(flying[-1][1])
        level = Signal(range(self.DEPTH + 1))
        fifo = [Signal(8, name=f"fifo{i}") for i in range(self.DEPTH)]
        with m.If(whole):
            m.d.sync += [fifo[0].eq(shift), *(b.eq(a) for a, b in zip(fifo, fifo[1:]))]
        m.d.sync += level.eq(level + whole - taken)
        m.d.comb += [self.data.valid.eq(level != 0), self.data.payload.eq(Array(fifo)[(level - 1)[:2]])]

        with m.FSM(init="WAIT") as fsm:
            with m.State("WAIT"):
                # Longer than any chip needs between commands.
                m.d.sync += [position.eq(position + 1), bit.eq(0)]
                with m.If(position[self.wait_bits]):
                    m.d.sync += position.eq(0)
                    m.next = "SEND"
            with m.State("SEND"):
                m.d.comb += self.pulse.eq(1)
                m.d.sync += bit.eq(bit + 1)
                with m.If(reading):
                    with m.If(bit == 31 + chip.dummy):
                        m.next = "READ"
                with m.Elif(bit == lasts[number]):
                    m.d.sync += number.eq(number + 1)
                    m.next = "WAIT"
            with m.State("READ"):
                m.d.comb += [issue.eq((phase == 0) & (spare != 0)), clocking.eq((phase != 0) | issue), self.pulse.eq(clocking)]
                m.d.sync += bit.eq(0)
                with m.If(clocking):
                    m.d.sync += phase.eq(phase + 1)
                    with m.If(phase == per_byte - 1):
                        m.d.sync += position.eq(position + 1)
                        if self.first:
                            with m.If(position == self.first - 1):
                                m.d.sync += self.first_done.eq(1)
                        with m.If(position == self.first + self.again - 1):
                            m.d.sync += [position.eq(self.first), again.eq(1)]
                            m.next = "PAUSE" if self.again else "END"
            with m.State("PAUSE"):
                m.d.sync += bit.eq(bit + 1)
                with m.If(bit == self.deselect - 1):
                    m.d.sync += bit.eq(0)
                    m.next = "SEND"
            if not self.again:
                with m.State("END"):
                    pass
            if not self.first:
                m.d.comb += self.first_done.eq(1)
            sending = fsm.ongoing("SEND")
            m.d.comb += self.select_n.eq(~(sending | fsm.ongoing("READ")))

        # One line while commands are sent; IO2 and IO3 are write protection and hold until Quad Enable is set.
        heading = sending & ~(reading & bit[5])
        m.d.comb += self.lines_out.eq(Cat(Mux(reading, address, words[number]), Const(0b111, 3)))
        m.d.comb += self.lines_enable.eq(Cat(heading, Const(0, 1), (heading | (width != 4)).replicate(2)))
        return m
