"""A serial flash as an endless stream of bytes."""

from dataclasses import dataclass
from types import SimpleNamespace

from amaranth import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..base.errors import UsageError
from ..machine.timing import FLASH_QUEUE
from .signals import later, unnamed

READ_COMMANDS = {1: 0x0B, 2: 0x3B, 4: 0x6B}
"""Fast read, fast read dual output, fast read quad output: address on one line, then `width` bits a clock."""
RELEASE, ENABLE_RESET, RESET = 0xAB, 0x66, 0x99
POWER_DOWN = 0xB9
VOLATILE_QE = ((0x50,), (0x31, 0x02))
"""Sets Quad Enable (status register 2, bit 1) until the power goes, without wear: Winbond W25Q, GigaDevice GD25Q."""


@dataclass(frozen=True)
class FlashChip:
    """The properties of a flash and its wires that the reader needs.

    The defaults hold for Winbond's W25Q (tRST 30 us, tRES1 3 us, tSHSL 50 ns), with a margin for others.  Those of a flash at twice the
    clock of the design are meant to be a W25Q128JV's at 3.0 to 3.6 V; they were not compared with its datasheet.
    """

    width: int = 4  # data lines that are read
    dummy: int = 8  # clocks between address and data
    quad_enable: tuple = VOLATILE_QE  # commands that make IO2 and IO3 carry data; none where the chip comes so, or keeps it for good
    wait_s: float = 60e-6  # longest of the waits for power-up, reset (tRST) and release from power-down (tRES1)
    deselect_s: float = 60e-9  # shortest pause between two commands (tSHSL)
    # Of a flash at twice the clock of the design:
    access: float = 6e-9  # from a falling clock until new data is valid (tCLQV)
    hold: float = 1.5e-9  # for which old data stays (tCLQX)
    fastest_hz: float = 133e6  # of its clock


class FlashReader(wiring.Component):
    """Reads `first` bytes from address `offset` on once, then the `again` bytes behind them, over and over.

    The flash may be in any state that one-line commands end: asleep, in continuous read, or amid a read
    that a reset of this component cut off.  After reset the reader sends FF, 66, 99, AB and
    `chip.quad_enable`, each followed by a wait.  Then one read runs to the last byte without a pause.

    Parameters:
    - chip: FlashChip.
    - clock_hz: frequency of sync.
    - offset, first, again: bytes.
    - sleeps: the members `sleep` and `asleep` exist.
    - latency: cycles from `pulse` to its data at `lines_in`.  Each register at a pin adds one.  Without any it is 0, and data must be
      stable before the cycle in which the clock pulses ends.
    - double: the flash has twice the clock of sync: in a cycle it may get two pulses and give two data, a byte.  Commands still take a
      cycle a bit.  Four lines alone; `first` and `again` are even.
    - yields: the members `hold` and `held` exist; without `sleeps` alone.

    Timing: A read costs deselect + 32 + dummy cycles before its first bit.  The flash's clock stops while nobody
    takes bytes.

    Raises UsageError if the lines, the latency or the range of addresses are impossible.
    """

    DEPTH = FLASH_QUEUE
    """Payloads of `data` on their way or waiting."""

    def __init__(self, chip, clock_hz, offset, first, again, latency=0, sleeps=False, double=False, yields=False):
        if chip.width not in READ_COMMANDS:
            raise UsageError(f"flash: {chip.width} data lines, expected {', '.join(map(str, READ_COMMANDS))}")
        if double and (chip.width != 4 or first % 2 or again % 2):
            raise UsageError(f"flash: {first} and {again} bytes on {chip.width} data lines at twice the clock, expected even numbers on 4")
        if not 0 <= latency <= 3:
            raise UsageError(f"flash: latency is {latency}, expected from 0 to 3")
        if first + again < 1 or offset + first + again > 1 << 24:
            raise UsageError(f"flash: {first + again} bytes from {offset:#x} on, expected at least one, below {1 << 24:#x}")
        self.chip, self.clock_hz, self.offset, self.latency = chip, clock_hz, offset, latency
        self.double, self.bytes = double, 1 + double
        self.first, self.again = first // self.bytes, again // self.bytes
        self.sleeps, self.yields = sleeps, yields
        self.commands = [(0xFF,), (ENABLE_RESET,), (RESET,), (RELEASE,), *(chip.quad_enable if chip.width == 4 else ())]
        self.wait_bits = max(5, int(chip.wait_s * clock_hz).bit_length())
        self.deselect = max(2, -int(-chip.deselect_s * clock_hz // 1)) + 3 * double
        super().__init__({
            "data": Out(stream.Signature(8 * self.bytes)),  # with `double` two bytes, the first one lowest
            # The flash's clock is high in the second half of this cycle (`~clk & pulse`).  With `double`: bit 0 is its second quarter,
            # bit 1 its last one.
            "pulse": Out(1 + double),
            # Pins; data leaves at the beginning of the cycle.  With `double`: `lines_in` has the data of the first pulse lowest, and
            # `select_n` is 0 for a cycle before the first pulse and two after the last one.
            "select_n": Out(1, init=1), "lines_out": Out(4), "lines_enable": Out(4), "lines_in": In(4 << double),
            "first_done": Out(1)}  # the first bytes have all been read
            # While `sleep` is 1 the flash is sent into deep power-down (B9) at the end of a byte; `asleep` says that it is there, a wait
            # later, and the clock may stop.  Where bytes are still to be read, it is woken afterwards (AB), and after another wait the read
            # goes on where it was.
            | ({"sleep": In(1), "asleep": Out(1)} if sleeps else {})
            # While `hold` is 1 the flash is let go at the end of a byte that follows the first ones; `held` says that somebody else may
            # select it.  He leaves it deselected, and the read goes on where it was.
            | ({"hold": In(1), "held": Out(1)} if yields else {}))

    def elaborate(self, platform):
        m = Module()
        s = self._signals()
        self._script(s)
        self._bytes(m, s)
        with m.FSM(init="WAIT") as fsm:
            self._commands(m, s)
            self._read(m, s)
            s.sending = fsm.ongoing("SEND")
            s.selected = s.sending | fsm.ongoing("READ")
            if self.sleeps:
                self._sleep(m, s, fsm)
            elif self.yields and self.again:
                self._yield(m, s, fsm)
            self._select(m, s)

        sent = unnamed()  # the bit of a command
        m.d.sync += sent.eq(Mux(s.sending, s.following, s.initial))
        # One line while commands are sent; IO2 and IO3 are write protection and hold until Quad Enable is set.
        heading = s.sending & ~(s.reading & s.bit[5])
        if self.sleeps or self.yields and self.again:
            heading = heading | s.resuming & ~s.bit[5]
            out = Mux(s.resuming, s.head[-1], sent)
        else:
            out = sent
        if self.double:
            out, heading = later(m, out), later(m, heading)
        m.d.comb += self.lines_out.eq(Cat(out, Const(0b111, 3)))
        m.d.comb += self.lines_enable.eq(Cat(heading, Const(0, 1), (heading | (self.chip.width != 4)).replicate(2)))
        return m

    def _signals(self):
        """The namespace of what several methods use.  A group names the methods that drive it."""
        s = SimpleNamespace()
        # The place in the script and in the read: `_commands`, `_read`, `_sleep`.
        s.number = Signal(range(len(self.commands) + 1))  # of a command; that of the read is the last one
        s.bit = Signal(range(max(8 * max(map(len, self.commands)), 32 + self.chip.dummy)))  # of a command; cycle of a pause
        s.again = Signal()  # the read begins behind the first bytes
        s.position = Signal(range(max(self.first + self.again + 1, 1 << self.wait_bits + 1)))  # of a payload; cycle of a wait
        s.head = unnamed(32)  # command and address of the read that goes on

        # What the states clock: `_commands`, `_read`, `_sleep`.
        s.pulse = unnamed() if self.double else self.pulse
        s.clocking = Signal()  # data of a payload
        s.phase = Signal(range(8 // self.chip.width))  # pulses of the payload so far
        s.issue = Signal()  # a payload begins

        # Payloads that were asked for: `_bytes`.
        s.spare = Signal(range(self.DEPTH + 1), init=self.DEPTH)
        s.flying = [Signal(2, name=f"flying{i}") for i in range(self.latency + 1 + self.double)]
        s.shift = unnamed(8 * self.bytes)
        s.whole = Signal()  # `shift` is a payload
        s.top = Signal(range(2 * self.DEPTH), init=2 * self.DEPTH - 1)  # place of the oldest byte; all ones where none waits
        s.level = Signal(range(self.DEPTH + 1))  # payloads that wait, for observers
        s.fifo = [Signal(8 * self.bytes, name=f"fifo{i}") for i in range(self.DEPTH)]
        s.taken = self.data.valid & self.data.ready
        return s

    def _select(self, m, s):
        """Select the flash while a command or a read is on.

        At twice the clock pulses and lines come a cycle later than the states say, `select_n` at once, and it ends three cycles later:
        its pad then has all the time that the flash asks for before and after a pulse.
        """
        if not self.double:
            m.d.comb += self.select_n.eq(~s.selected)
            return
        before = unnamed(3)
        m.d.sync += [before.eq(Cat(s.selected, before)), self.pulse.eq(Cat(s.pulse, s.pulse & s.clocking))]
        m.d.comb += self.select_n.eq(~(s.selected | before.any()))

    def _script(self, s):
        """The script: commands before the read."""
        script = [[byte >> 7 - i & 1 for byte in command for i in range(8)] for command in self.commands]
        s.reading = s.number == len(self.commands)
        head = [int(b) for b in f"{READ_COMMANDS[self.chip.width]:08b}"]
        starts = [head + [int(b) for b in f"{self.offset + base:024b}"] for base in (0, self.first * self.bytes)]
        s.initial = Array(Const(row[0], 1) for row in [*script, head])[s.number]  # a command's first bit
        # The bit after `bit`, of a command and of the read.
        words = Array(Array(Const(v, 1) for v in (row[1:] + [0] * 32)[:16])[s.bit[:4]] for row in script)
        addresses = [Array(Const(v, 1) for v in row[1:] + [0])[s.bit[:5]] for row in starts]
        s.following = Mux(s.reading, Mux(s.again, addresses[1], addresses[0]), words[s.number])
        s.lasts = Array(Const(len(row) - 1, 5) for row in script)

    def _bytes(self, m, s):
        """The payloads that are requested or wait in a queue: at most DEPTH."""
        width, per_byte = self.chip.width, 8 // self.chip.width
        m.d.sync += s.spare.eq(s.spare + s.taken - s.issue)
        # Data comes `latency` cycles after its clock.
        m.d.comb += s.flying[0].eq(Cat(s.clocking, s.clocking & (s.phase == per_byte - 1)))
        m.d.sync += [b.eq(a) for a, b in zip(s.flying, s.flying[1:])]
        lines = self.lines_in[1] if width == 1 else self.lines_in[:width]
        with m.If(s.flying[-1][0]):
            m.d.sync += s.shift.eq(Cat(s.shift[8:], self.lines_in[4:], self.lines_in[:4]) if self.double else Cat(lines, s.shift))
        m.d.sync += s.whole.eq(s.flying[-1][1])
        with m.If(s.whole):
            m.d.sync += [s.fifo[0].eq(s.shift), *(b.eq(a) for a, b in zip(s.fifo, s.fifo[1:]))]
        m.d.sync += s.top.eq(Mux(self.data.ready & ~s.top[-1], Mux(s.whole, s.top, s.top - 1), Mux(s.whole, s.top + 1, s.top)))
        m.d.comb += [s.level.eq((s.top + 1)[:len(s.top)]),
                     self.data.valid.eq(~s.top[-1]), self.data.payload.eq(Array(s.fifo)[s.top[:-1]])]

    def _commands(self, m, s):
        """States for waits and commands."""
        chip = self.chip
        last = unnamed()  # `bit`, which goes on in each cycle of SEND, is the last one of the command
        m.d.sync += last.eq(s.bit == Mux(s.reading, 30 + chip.dummy, s.lasts[s.number] - 1))
        with m.State("WAIT"):
            # Longer than any chip needs between commands.
            m.d.sync += [s.position.eq(s.position + 1), s.bit.eq(0)]
            with m.If(s.position[self.wait_bits]):
                m.d.sync += s.position.eq(0)
                m.next = "SEND"
        with m.State("SEND"):
            m.d.comb += s.pulse.eq(1)
            m.d.sync += s.bit.eq(s.bit + 1)
            with m.If(s.reading):
                with m.If(last):
                    m.next = "READ"
            with m.Elif(last):
                m.d.sync += s.number.eq(s.number + 1)
                m.next = "WAIT"

    def _read(self, m, s):
        """The read: all bytes, then those behind `first` again without end."""
        per_byte = 8 // self.chip.width
        # `position` stands still for two cycles at least.
        first_last = unnamed()  # it is the last one of the first bytes
        last = unnamed()  # it is the last one of all
        m.d.sync += [first_last.eq(s.position == self.first - 1), last.eq(s.position == self.first + self.again - 1)]
        with m.State("READ"):
            start = (s.phase == 0) & (s.spare != 0)
            if self.sleeps:
                start = start & ~self.sleep
                with m.If(self.sleep & (s.phase == 0)):
                    m.next = "DOWN"
            elif self.yields and self.again:
                start = start & ~self.hold
                with m.If(self.hold & (s.phase == 0)):
                    m.next = "LET_GO"
            m.d.comb += [s.issue.eq(start), s.clocking.eq((s.phase != 0) | s.issue), s.pulse.eq(s.clocking)]
            m.d.sync += s.bit.eq(0)
            with m.If(s.clocking):
                m.d.sync += s.phase.eq(s.phase + 1)
                with m.If(s.phase == per_byte - 1):
                    m.d.sync += s.position.eq(s.position + 1)
                    if self.first:
                        with m.If(first_last):
                            m.d.sync += self.first_done.eq(1)
                    with m.If(last):
                        m.d.sync += [s.position.eq(self.first), s.again.eq(1)]
                        m.next = "PAUSE" if self.again else "END"
        with m.State("PAUSE"):
            m.d.sync += s.bit.eq(s.bit + 1)
            with m.If(s.bit == self.deselect - 1):
                m.d.sync += s.bit.eq(0)
                m.next = "SEND"
        if not self.again:
            with m.State("END"):
                if self.sleeps:
                    with m.If(self.sleep):
                        m.next = "DOWN"
                elif self.yields:
                    m.d.comb += self.held.eq(1)
        if not self.first:
            m.d.comb += self.first_done.eq(1)

    def _going_on(self, m, s):
        """Command and address of the read that goes on."""
        place = Signal(24)
        m.d.comb += place.eq(self.offset + (Cat(Const(0, 1), s.position[:23]) if self.double else s.position[:24]))
        return Cat(place, Const(READ_COMMANDS[self.chip.width], 8))

    def _send(self, m, s, state, bits, following, waited=None):
        """A state that sends the upper bits of `head`, then clock pulses until `bits` bits have passed."""
        with m.State(state):
            m.d.comb += s.pulse.eq(1)
            m.d.sync += [s.bit.eq(s.bit + 1), s.head.eq(s.head << 1), *([] if waited is None else [waited.eq(0)])]
            with m.If(s.bit == bits - 1):
                m.d.sync += s.bit.eq(0)
                m.next = following

    def _rest(self, m, s, state, following):
        """A state in which the flash is deselected for as long as it must be between two commands."""
        with m.State(state):
            m.d.sync += s.bit.eq(s.bit + 1)
            with m.If(s.bit == self.deselect - 1):
                m.d.sync += s.bit.eq(0)
                m.next = following

    def _yield(self, m, s, fsm):
        """Let the flash go, and go on with the read."""
        s.resuming = fsm.ongoing("RESUME")
        s.selected = s.selected | s.resuming
        self._rest(m, s, "LET_GO", "HELD")
        with m.State("HELD"):
            m.d.comb += self.held.eq(1)
            m.d.sync += s.head.eq(self._going_on(m, s))
            with m.If(~self.hold):
                m.next = "REST"
        self._rest(m, s, "REST", "RESUME")
        self._send(m, s, "RESUME", 32 + self.chip.dummy, "READ")

    def _sleep(self, m, s, fsm):
        """Send the flash into deep power-down, wake it, and go on with the read."""
        waited = unnamed(self.wait_bits + 1)
        s.resuming = fsm.ongoing("POWER_DOWN") | fsm.ongoing("RELEASE") | fsm.ongoing("RESUME")
        s.selected = s.selected | s.resuming

        def send(state, bits, following):
            self._send(m, s, state, bits, following, waited)

        with m.State("DOWN"):  # deselected between two commands
            m.d.sync += [s.bit.eq(s.bit + 1), s.head.eq(POWER_DOWN << 24)]
            with m.If(s.bit == self.deselect - 1):
                m.d.sync += s.bit.eq(0)
                m.next = "POWER_DOWN"
        send("POWER_DOWN", 8, "ASLEEP")
        with m.State("ASLEEP"):
            m.d.sync += s.head.eq(RELEASE << 24)
            m.d.comb += self.asleep.eq(waited[-1])
            with m.If(~waited[-1]):
                m.d.sync += waited.eq(waited + 1)
            if self.again:
                with m.Elif(~self.sleep):
                    m.next = "RELEASE"
        send("RELEASE", 8, "WOKEN")
        with m.State("WOKEN"):
            m.d.sync += [waited.eq(waited + 1), s.head.eq(self._going_on(m, s))]
            with m.If(waited[-1]):
                m.next = "RESUME"
        send("RESUME", 32 + self.chip.dummy, "READ")
