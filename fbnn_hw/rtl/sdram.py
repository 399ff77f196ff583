"""An SDRAM as an endless stream of weights: filled once, then read in one direction, over and over."""

from dataclasses import dataclass
from types import SimpleNamespace

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..base.errors import UsageError
from ..machine.timing import BURST
from .signals import unnamed

NOP, ACTIVE, READ, WRITE, PRECHARGE, REFRESH, MODE = 0b111, 0b011, 0b101, 0b100, 0b010, 0b001, 0b000
"""Commands as RAS#, CAS#, WE#, highest bit first, with CS# low."""
ALL_BANKS = 1 << 10
"""Address of PRECHARGE for all banks.  As a column's it would ask for a precharge of its own, so columns have fewer bits."""


@dataclass(frozen=True)
class SdramChip:
    """The figures of an SDRAM's datasheet, times in seconds."""

    lines: int  # data lines
    rows: int
    columns: int
    banks: int = 4
    rcd: float = 21e-9  # from ACTIVE to READ or WRITE
    rp: float = 21e-9  # from PRECHARGE to the next command
    ras: float = 45e-9  # from ACTIVE to PRECHARGE
    rc: float = 67.5e-9  # from ACTIVE to the next one of the bank
    rfc: float = 70e-9  # from REFRESH to the next command
    wr: float = 15e-9  # from the last data to PRECHARGE
    refresh: float = 64e-3 / 8192  # mean time between two REFRESH
    cas: tuple[tuple[float, int], ...] = ((66e6, 2), (133e6, 3))  # (highest clock in Hz, CAS latency), ascending
    access: float = 6e-9  # tAC at the last of them
    hold: float = 2.5e-9  # tOH at the last of them
    power_up: float = 200e-6  # from a stable clock to the first command
    refreshes: int = 8  # at the start
    mode_clocks: int = 2

    @property
    def bytes(self) -> int:
        """Its size."""
        return self.rows * self.columns * self.banks * self.lines // 8

    @property
    def column_bits(self) -> int:
        """Bits of a column's address."""
        return (self.columns - 1).bit_length()

    @property
    def address_bits(self) -> int:
        """Address lines: for a row, and for ALL_BANKS."""
        return max(ALL_BANKS.bit_length(), (self.rows - 1).bit_length())

    def rows_of(self, count: int) -> int:
        """Rows that so many bytes take."""
        return -(-count // (self.columns * self.lines // 8))

    def cas_latency(self, clock_hz: float) -> int:
        """CAS latency at a clock.  Raises UsageError where it is too fast for the chip."""
        for highest, latency in self.cas:
            if clock_hz <= highest:
                return latency
        raise UsageError(f"SDRAM: a clock of {clock_hz / 1e6:g} MHz, expected at most {self.cas[-1][0] / 1e6:g}")


# The slowest figure of each kind, rounded up, of the chips that boards of one kind have been sold with.
CHIPS = {
    # Alliance AS4C16M16SA-7 and AS4C32M16SB-7, Winbond W9825G6JH-75: tests/rtl/test_sdram_chips.py has their datasheets' figures.
    # Compare those of any other chip, as Micron's or ISSI's, before its first run.
    "256Mbit-16": SdramChip(lines=16, rows=8192, columns=512),
    # Inside Gowin's GW2AR-18 (DS226: 64 Mbit, 32 lines): as ESMT M12L64322A-7, four banks of 2048 rows, 4096 refreshes in 64 ms.
    "64Mbit-32": SdramChip(lines=32, rows=2048, columns=256, refresh=64e-3 / 4096),
}
"""{name on a board's page: SdramChip}."""


class Timing:
    """An SdramChip's times in cycles of a clock, and what follows for the buffer in front of the array.

    latency: as `SdramReader` has it.  Raises UsageError where the clock is too fast for the chip.
    """

    def __init__(self, chip: SdramChip, clock_hz: float, latency: int = 0):
        def cycles(seconds: float) -> int:
            """The least cycles that last so long."""
            return max(1, -int(-(seconds * clock_hz - 1e-6) // 1))

        self.rcd, self.rp, self.rfc, self.power_up = map(cycles, (chip.rcd, chip.rp, chip.rfc, chip.power_up))
        self.wr = max(2, cycles(chip.wr))
        # From ACTIVE to PRECHARGE.  Every row is closed before the next one is opened, so this keeps `rc` too.
        self.open = max(cycles(chip.ras), cycles(chip.rc) - self.rp)
        self.cas = chip.cas_latency(clock_hz)
        # From the cycle in which a READ is decided on to the one in which its data is at `lines_in`.
        self.arrival = 1 + self.cas + latency
        # Between two requests for a REFRESH, which comes up to so much later.
        self.period = int(chip.refresh * clock_hz) - (self.open + self.wr + self.rp + self.rcd + 4)
        # Cycles without a READ: between a row and the next one, PRECHARGE and ACTIVE; and around a REFRESH of a row just opened.
        self.row = self.rp + self.rcd
        self.pause = 1 + self.open + self.rp + self.rfc + self.rcd
        # Largest share of cycles without a READ, over a long time.  Of a row and a beat, two rows: so it is for a frame image that is a
        # beat longer than a row.
        self.lost = (2 * self.row + self.open) / (chip.columns + 1) + self.pause / max(1, self.period)
        # Beats of the buffer, by the worst case of `SdramReader`.
        need = self.arrival + 1 + (2 * self.row + self.open) + self.pause + (self.rcd + 1) + 5
        self.depth = 1 << (need - 1).bit_length()


class SdramReader(wiring.Component):
    """Fills an SDRAM with `first` + `again` bytes, reads the first ones once, then the others over and over.

    After reset it waits for the chip's power-up, initialises the chip, and writes the bytes of `fill`
    to consecutive addresses; the others begin with a row.  Then it reads.  The chip may be in any
    state, also amid a read or a refresh that a reset of this component cut off.

    A command moves one beat: the mode is a burst of length 1, and a READ may follow in each cycle.  So
    no burst is longer than what is wanted, and the first address needs no alignment.  A row is closed
    before the next one is opened, since the buffer hides that.

    Parameters:
    - chip: SdramChip.
    - clock_hz: frequency of sync.
    - first, again: bytes, multiples of a beat.
    - latency: cycles from a command at the pins of this component to its data at `lines_in`, on top of the
      CAS latency.  Each register at a pin adds one.  Without any it is 0, and data must be stable at the end of
      the cycle.

    Timing
    ------
    A beat is on offer in the cycle after the one before it was taken, but for a pause of a cycle after
    each BURST (8) beats: that is the pace of `machine.cycles`, and nothing else delays a beat.  So a
    buffer of `Timing.depth` beats stands between, which is full, but for one place, when the first beat
    is on offer.

    It never runs dry.  Since the last cycle in which it was full, in T cycles, at most (8 T + 8) / 9
    beats were taken.  A READ came in each cycle but in those for a new row, for a REFRESH and, once, to
    open the row again after a REFRESH: at most 2 row + open + pause + rcd + 1, and the share `lost` of
    T.  Registers say a cycle late that there is room, for which the last place is left free, and that a
    beat may leave the queue: three beats less.  While `lost` is at most 1/9 the beats that are there
    exceed depth - arrival - 1 - (2 row + open) - pause - (rcd + 1) - 3 - 8/9, which is above 0.  Of
    256 Mbit `lost` is 0.048 at 80 MHz and 0.050 at 25 MHz; a clock where it exceeds 1/9, 7.5 MHz, is
    refused.

    Commands and data leave at an edge of sync, and the chip's clock rises within the cycle.  Where it
    does, and the latency that follows, are chosen by what has the pins: `fpga.plls.sdram` has the budget
    of set-up and hold.

    Filling takes as long as `fill` does, a byte in two or four cycles from a flash, after 0.2 ms.

    Raises UsageError if the bytes do not fit or are no beats, or the clock is too slow or too fast.
    """

    def __init__(self, chip, clock_hz, first, again, latency=0):
        self.chip = chip
        self.timing = t = Timing(chip, clock_hz, latency)
        size = chip.lines // 8
        if first % size or again % size or first + again < size:
            raise UsageError(f"SDRAM: {first} and {again} bytes, expected at least one beat of {size} and no part of one")
        self.first, self.again = first // size, again // size
        self.first_rows, self.again_rows = chip.rows_of(first), chip.rows_of(again)
        if self.first_rows + self.again_rows > chip.rows * chip.banks:
            raise UsageError(f"SDRAM: {first + again:,} bytes, expected at most {chip.bytes:,}")
        if t.period < 1 or t.lost > 1 / (BURST + 1):
            raise UsageError(f"SDRAM: a clock of {clock_hz / 1e6:g} MHz leaves refreshes no time; expected a faster one")
        super().__init__({
            "fill": In(stream.Signature(8)),  # the bytes, once after each reset
            "beats": Out(stream.Signature(chip.lines)),  # the same bytes, lowest first
            "first_done": Out(1),  # it is filled, and the first bytes have been asked for
            "dry": Out(1),  # the buffer was empty where a beat was due; never 1; for simulations
            # Pins, from registers: RAS#, CAS#, WE# (highest first), data and whether it is driven, which it is as long as a row is open for
            # writing.  CKE is 1 and CS# 0.
            "command": Out(3, init=NOP), "bank": Out(range(chip.banks)), "address": Out(chip.address_bits),
            "mask": Out(1, init=1),  # DQM of all lines: 1 until the chip has its mode
            "lines_out": Out(chip.lines), "lines_enable": Out(1), "lines_in": In(chip.lines)})

    def elaborate(self, platform):
        m = Module()
        s = self._signals()
        self._collect(m, s)
        self._buffer(m, s)
        self._place(m, s)
        self._refreshes(m, s)
        m.d.sync += [self.command.eq(NOP), self.lines_enable.eq(0)]
        with m.FSM(init="POWER"):
            self._closed(m, s)
            self._open(m, s)
        return m

    def _signals(self):
        """The namespace of what several methods use.  A group names the methods that drive it."""
        chip, t, s = self.chip, self.timing, SimpleNamespace()
        # The beat to write: `_collect`.
        s.word = unnamed(chip.lines)
        s.whole = Signal()  # `word` is a beat

        # The buffer: `_buffer`.
        s.room = Signal(init=1)  # for a beat more, as far as was known a cycle ago

        # The place of the next beat: `_place`.
        s.page = Signal(range(max(2, self.first_rows + self.again_rows)))  # a row of a bank; the next one is in another bank
        s.column = Signal(chip.column_bits)
        s.filling = Signal(init=1)
        s.turns = Signal()  # the beat that moves is the last one of its row
        s.last_first = Signal()  # the row is the last one of the first bytes
        s.last = Signal()  # the row is the last one of all
        s.ended = Signal()  # nothing more will be read
        s.wanted = Signal()  # a beat could be moved

        # Refreshes: `_refreshes`.
        s.tick = Signal()  # one of the first cycles, once a period
        s.due = Signal()  # also `_closed`

        # Waits: `_refreshes` counts them, `_closed` and `_open` begin them.
        s.wait = Signal(range(max(t.rcd, t.rp, t.rfc, chip.mode_clocks)))  # cycles until the next command
        s.hold = Signal(range(max(t.open, t.wr)))  # cycles until the row may be closed
        s.waits = s.wait != 0

        # The beat of this cycle: `_open`.
        s.moves = Signal()  # it is read or written
        s.asked = Signal()  # a READ is decided on
        s.written = Signal()  # `word` leaves
        return s

    def _collect(self, m, s):
        """The bytes to write, as beats."""
        size = self.chip.lines // 8
        byte = Signal(range(size))
        m.d.comb += self.fill.ready.eq(~s.whole)
        with m.If(self.fill.valid & ~s.whole):
            m.d.sync += [s.word.eq(Cat(s.word[8:], self.fill.payload)), byte.eq(byte + 1)]
            with m.If(byte == size - 1):
                m.d.sync += [byte.eq(0), s.whole.eq(1)]
        with m.If(s.written):
            m.d.sync += s.whole.eq(0)

    def _buffer(self, m, s):
        """The beats that were asked for, on their way or waiting, and the pace at which they are on offer."""
        depth, arrival = self.timing.depth, self.timing.arrival
        flying = unnamed(arrival)
        m.d.sync += flying.eq(Cat(s.asked, flying))
        # Read within a cycle, it becomes LUTs.
        m.submodules.queue = queue = Memory(shape=self.chip.lines, depth=depth, init=[])
        write, read = queue.write_port(), queue.read_port(domain="comb")
        last = unnamed(depth.bit_length())  # number of the beat that comes in next
        next_ = unnamed(depth.bit_length())  # of the one that leaves the queue next
        m.d.comb += [write.addr.eq(last[:-1]), write.data.eq(self.lines_in), write.en.eq(flying[-1]), read.addr.eq(next_[:-1])]
        head = Signal(self.chip.lines)
        held = Signal()  # `head` is a beat
        full = Signal()  # the buffer has been full, so beats may leave
        rests = Signal()  # the cycle of a pause
        run = unnamed(range(BURST))
        taken = Signal()
        room = Signal(range(depth + 1), init=depth)
        queued = Signal(range(depth + 1))  # beats in the queue
        more = Signal()  # one of them may leave it
        leaves = Signal()  # it does
        m.d.comb += [
            self.beats.payload.eq(head), self.beats.valid.eq(held & full & ~rests), taken.eq(self.beats.valid & self.beats.ready),
            leaves.eq((taken | ~held) & more), self.dry.eq(full & ~held & ~rests & ~s.ended)]
        m.d.sync += [
            s.room.eq(room > 1), more.eq((queued > 1) | (queued == 1) & ~leaves), queued.eq(queued + flying[-1] - leaves),
            room.eq(room + taken - s.asked), rests.eq(taken & (run == BURST - 1)), last.eq(last + flying[-1])]
        with m.If((~s.room | s.ended) & ~flying.any()):
            m.d.sync += full.eq(1)
        with m.If(taken):
            m.d.sync += [run.eq(run + 1), held.eq(0)]
        with m.If(leaves):
            m.d.sync += [head.eq(read.data), held.eq(1), next_.eq(next_ + 1)]

    def _place(self, m, s):
        """The place of the next beat, and what follows behind it."""
        chip, rows = self.chip, self.first_rows + self.again_rows
        end = Signal(chip.column_bits)  # last column of the row
        # A row is chosen some cycles before its first beat.
        m.d.sync += s.last.eq(s.page == rows - 1)
        ends = Const(chip.columns - 1, chip.column_bits)
        if self.first:
            m.d.sync += s.last_first.eq(s.page == self.first_rows - 1)
            ends = Mux(s.last_first, (self.first - 1) % chip.columns, ends)
        if self.again:
            ends = Mux(s.last, (self.again - 1) % chip.columns, ends)
        m.d.sync += end.eq(ends)
        at_end = s.column == end
        again = self.first_rows if self.again else 0
        # A frame image of one row is read again without closing it.
        stays = s.last & ~s.filling if self.again_rows == 1 else Const(0)
        m.d.comb += s.turns.eq(s.moves & at_end & ~stays)
        with m.If(s.moves):
            m.d.sync += s.column.eq(Mux(at_end, 0, s.column + 1))
        with m.If(s.turns):
            m.d.sync += s.page.eq(Mux(s.last, Mux(s.filling, 0, again), s.page + 1))
            with m.If(s.filling & s.last):
                m.d.sync += s.filling.eq(0)
                if not self.first:
                    m.d.sync += self.first_done.eq(1)
            if self.first:
                with m.If(~s.filling & s.last_first):
                    m.d.sync += self.first_done.eq(1)
                    if not self.again:
                        m.d.sync += s.ended.eq(1)
        m.d.comb += s.wanted.eq(Mux(s.filling, s.whole, s.room & ~s.ended))

    def _refreshes(self, m, s):
        """When a refresh is due, and the waits between commands."""
        t = self.timing
        left = Signal(range(t.period), init=t.period - 1)
        m.d.sync += [s.tick.eq(left == 1), left.eq(Mux(s.tick, t.period - 1, left - 1))]
        with m.If(s.tick):
            m.d.sync += s.due.eq(1)
        with m.If(s.waits):
            m.d.sync += s.wait.eq(s.wait - 1)
        with m.If(s.hold != 0):
            m.d.sync += s.hold.eq(s.hold - 1)

    def _closed(self, m, s):
        """States in which the rows are closed or being closed: first the wait for the chip's power-up."""
        t, chip = self.timing, self.chip
        periods = -(-t.power_up // t.period) + 1
        left = Signal(range(periods + 1), init=periods)
        with m.State("POWER"):
            with m.If(s.tick):
                m.d.sync += left.eq(left - 1)
            with m.If(left == 0):
                m.next = "CLOSE"
        first = Signal(range(chip.refreshes + 1), init=chip.refreshes)  # refreshes that come before the mode
        with m.State("CLOSE"):
            with m.If(s.hold == 0):
                m.d.sync += [self.command.eq(PRECHARGE), self.address.eq(ALL_BANKS), s.wait.eq(t.rp - 1)]
                m.next = "CLOSED"
        with m.State("CLOSED"):
            m.d.sync += [self.bank.eq(s.page[:2]), self.address.eq(s.page[2:])]
            with m.If(~s.waits):
                with m.If(first != 0):
                    m.d.sync += [self.command.eq(REFRESH), first.eq(first - 1), s.wait.eq(t.rfc - 1), s.due.eq(0)]
                with m.Elif(self.mask):
                    m.d.sync += [self.command.eq(MODE), self.bank.eq(0), self.address.eq(t.cas << 4), self.mask.eq(0),
                                 s.wait.eq(chip.mode_clocks - 1)]
                with m.Elif(s.due):
                    m.d.sync += [self.command.eq(REFRESH), s.wait.eq(t.rfc - 1), s.due.eq(0)]
                with m.Elif(s.wanted):
                    m.d.sync += [self.command.eq(ACTIVE), s.wait.eq(t.rcd - 1), s.hold.eq(t.open - 1)]
                    m.next = "OPEN"

    def _open(self, m, s):
        """The state in which a row is open and a beat may move in each cycle."""
        t = self.timing
        m.d.sync += self.lines_out.eq(s.word)
        with m.State("OPEN"):
            m.d.sync += self.address.eq(s.column)
            m.d.comb += [s.moves.eq(s.wanted & ~s.waits & ~s.due), s.asked.eq(s.moves & ~s.filling), s.written.eq(s.moves & s.filling)]
            # From before the first beat on, so that a late enable of the pins is no matter.
            m.d.sync += self.lines_enable.eq(s.filling)
            with m.If(s.moves):
                m.d.sync += self.command.eq(Mux(s.filling, WRITE, READ))
            with m.If(s.written & (s.hold < t.wr)):
                m.d.sync += s.hold.eq(t.wr - 1)
            with m.If(s.due | s.turns):
                m.next = "CLOSE"
