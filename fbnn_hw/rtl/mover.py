"""Weights on their way to the array, when they do not all fit into block RAM."""

from functools import partial
from types import SimpleNamespace

from amaranth import Cat, ClockSignal, Const, Instance, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..machine import timing
from ..machine.transfers import LATE_BIT
from .sequencer import Widths, bits_for
from .signals import unnamed
from .states import OneHot


class WeightMover(wiring.Component):
    """Keeps a ring of weight words filled, in the order of use.

    A word comes from the weight stream or from resident rows of the banks.  A row is pixels * lanes bits.
    A word (outputs * lanes bits) is outputs / pixels rows, first row lowest.  After reset the first
    rows of the stream go to a learner's tables and to the resident rows behind them.  Then the
    transfers follow, frame after frame, as far ahead as the ring allows.  Word i of a transfer is
    resident iff ((i + 1) * share >> 4) != (i * share >> 4).

    With late rows, resident rows are read from the last one down, and the late rows below them after
    that.  A transfer for late rows writes rows of the stream there, once so many steps have begun.

    Twin: `fbnn_hw.machine.cycles`.

    Timing
    ------
    | cycle            | read of a resident row                     |
    |------------------|--------------------------------------------|
    | t                | `request_next` is 1                        |
    | t + 1            | `request` is 1: the mover has the port     |
    | t + 2            | `address` holds the row's number           |
    | t + 1 + read     | `row` holds the row's bits (`timing.read`) |
    """

    def __init__(self, config):
        self.config = config
        w = Widths(config)
        super().__init__({
            **({"steps": In(range(len(config.program) + 1))} if config.late_rows else {}),  # that have begun in this pass
            "weights": In(stream.Signature(config.beat_bits)),  # beats, lowest first
            "booted": Out(1),  # the resident rows are loaded
            "blocked": In(1),  # the port is taken in the next cycle
            "request_next": Out(1), "request": Out(1),  # a read of a resident row, see Timing
            # The port writes `write_data` to `address`: before `booted`, or to a late row, for which `request` came a cycle before.
            "write": Out(1), "address": Out(w.row), "write_data": Out(config.row_bits),
            "row": In(config.row_bits),
            "address_read": In(w.weight), "word": Out(config.word_bits),  # read port of the ring, latency 1 + memory_registers
            "level": Out(range(config.weight_words + 1)),  # words at hand
            "pop": In(1), "pop_words": In(w.tile_words)})  # so many words are returned; `pop_words` holds for `timing.read` cycles

    def elaborate(self, platform):
        m = Module()
        s = SimpleNamespace()
        with OneHot(m, "BOOT" if self.config.boot_rows else "ADDRESS") as s.states:
            self._pack(m, s)
            self._ring(m, s)
            self._transfers(m, s)
            self._move(m, s)
            self._boot(m, s)
            self._fetch(m, s)
        return m

    def _pack(self, m, s):
        """Collect beats of the stream into a row."""
        c = self.config
        row_beats = c.row_bits // c.beat_bits
        s.packed = Signal(c.row_bits)
        s.byte = Signal(range(row_beats))  # the number of a beat
        s.full = unnamed()
        s.taken = Signal()
        s.streams = Signal()  # a row of the stream leaves `packed` in the cycle in which it is whole
        s.will_stream = unnamed()  # `streams` of the next cycle
        full = unnamed()  # `full` of the next cycle
        ready = Signal(init=1)
        beat = unnamed()  # a beat comes in
        last = s.byte == row_beats - 1
        m.d.comb += [self.write_data.eq(s.packed), self.weights.ready.eq(ready), beat.eq(self.weights.valid & ready),
                     full.eq((s.full | beat & last) & ~s.taken)]  # the beat beside one that is taken is not the last one of a row
        m.d.sync += [s.full.eq(full), ready.eq(~full | s.will_stream | ~self.booted)]
        with m.If(beat):
            m.d.sync += [s.packed.eq(Cat(s.packed[c.beat_bits:], self.weights.payload)), s.byte.eq(Mux(last, 0, s.byte + 1))]

    def _ring(self, m, s):
        """The ring, with the number of words in it and of those that were requested and will come."""
        c, w, rows = self.config, Widths(self.config), self.config.rows_per_word
        # Each row of a word has a memory of its own, so that a row is written as soon as it comes.
        s.ring = [self._row(m, f"ring{r}") for r in range(rows)]
        m.d.comb += self.word.eq(Cat(word for _, word in s.ring))
        s.head = Signal(w.weight)
        s.landing = Signal(bits_for([rows - 1]))
        s.arrives = Signal()
        s.from_stream = Signal()
        later = partial(self._behind, m) if c.memory_registers else lambda value, **options: value  # by `cycles.Mover.landing` cycles
        place, data = later(s.head, reset_less=True), later(Mux(s.arrives, self.row, s.packed), reset_less=True)
        for r, (write, _) in enumerate(s.ring):
            enable = later((s.arrives | s.from_stream) & (s.landing == r))
            m.d.comb += [write.addr.eq(place), write.data.eq(data), write.en.eq(enable)]
        s.landed = Signal()
        landed = later(s.landed)
        s.word_ends = unnamed(init=rows == 1)  # the row that lands next is the last one of its word
        with m.If(s.arrives | s.from_stream):
            m.d.sync += [s.landing.eq(s.landing + 1), s.word_ends.eq(s.landing == max(rows - 2, 0))]
            with m.If(s.word_ends):
                m.d.sync += [s.landing.eq(0), s.word_ends.eq(rows == 1), s.head.eq(s.head + 1)]
        m.d.comb += s.landed.eq((s.arrives | s.from_stream) & s.word_ends)

        s.reserved = Signal(range(c.weight_words + 1))
        s.reserve = Signal()
        # Words that are given back may still be read for some cycles, so their places become free later.
        s.late = Signal(timing.read(c.memory_registers))
        m.d.sync += s.late.eq(Cat(self.pop, s.late))
        # `reserve` is a late signal too.
        reserve = self._later(m, s.reserve)
        returned = Signal.like(s.reserved)  # less the words that become free
        minus = Signal.like(s.reserved)
        # `pop` is a late signal, so both outcomes are computed before it.
        m.d.sync += [self.level.eq(Mux(self.pop, self.level + landed - self.pop_words, self.level + landed)),
                     minus.eq(-self.pop_words), returned.eq(Mux(s.late[-2], minus, 0)),
                     s.reserved.eq(_with_carry(s.reserved, returned, reserve))]

        s.flying = Signal(timing.read(c.memory_registers))
        reads = self.request
        if c.late_rows:
            s.storing = Signal()  # a transfer for late rows is at work
            s.stored = self.request & s.storing  # the row in hand is written in the next cycle
            reads = self.request & ~s.storing
        s.on_its_way = Signal()  # `request`, or any of `flying`
        m.d.sync += [self.request.eq(self.request_next), s.flying.eq(Cat(reads, s.flying)),
                     s.on_its_way.eq(Cat(self.request_next, reads, s.flying[:-1]).any())]
        m.d.comb += s.arrives.eq(s.flying[-1])

    def _row(self, m, name):
        """The memory of one row of each word: (its write port, the row that is read)."""
        c = self.config
        registers = c.memory_registers
        if registers and c.technology == "wrapper":
            write = SimpleNamespace(addr=Signal.like(self.address_read))
            write.data = unnamed(c.row_bits)
            write.en = unnamed()
            word = Signal(c.row_bits)
            m.submodules[name] = Instance(
                "fbnn_ring", p_WIDTH=c.row_bits, p_DEPTH=c.weight_words, p_ADDRESS=len(write.addr), i_clk=ClockSignal(),
                i_write_enable=write.en, i_write_address=write.addr, i_write_data=write.data, i_address=self.address_read, o_data=word)
            registers -= 1
        else:
            # No word is read while it is written, so synthesis may leave open what such a read would give.
            attributes = {"ram_style": "block", "no_rw_check": 1}
            m.submodules[name] = memory = Memory(shape=c.row_bits, depth=c.weight_words, init=[], attrs=attributes)
            write, read = memory.write_port(), memory.read_port()
            m.d.comb += read.addr.eq(self.address_read)
            word = read.data
        for _ in range(registers):
            word = self._behind(m, word, reset_less=True)
        return write, word

    def _behind(self, m, value, **options):
        """The value of the cycle before."""
        before = unnamed(len(value), **options)
        m.d.sync += before.eq(value)
        return before

    def _later(self, m, strobe):
        """Return a strobe of each word that moves, a cycle later where words have several rows, so that none moves in that cycle."""
        if self.config.rows_per_word == 1:
            return strobe
        later = Signal()
        m.d.sync += later.eq(strobe)
        return later

    def _transfers(self, m, s):
        """The list of transfers, and the address of the next row."""
        c, w, rows = self.config, Widths(self.config), self.config.rows_per_word
        s.words = c.transfer_words()
        m.submodules.plan = plan = Memory(shape=16, depth=len(s.words), init=s.words, attrs={"ram_style": "block"})
        s.fetch = plan.read_port()
        s.pc = Signal(range(len(s.words) + 1))
        s.ended = unnamed()  # `pc`, which has stood still for two cycles in the state ADDRESS, is behind the last transfer
        m.d.comb += s.fetch.addr.eq(s.pc)
        m.d.sync += s.ended.eq(s.pc == len(s.words))
        s.left = Signal(bits_for(t.words - 1 for t in c.transfers))
        s.none_left = Signal()  # `left` is 0
        s.share = Signal(5)
        s.row = Signal(bits_for([rows - 1]))
        s.resident = Signal(w.row, init=self._first_row())
        s.mixed = Signal(5)  # phase + share
        s.space = Signal()
        full_bit = c.weight_words.bit_length() - 1
        writes = Signal(init=c.boot_rows > 0) if c.late_rows else None  # `address` is for writes, until the next transfer
        s.place = Signal(w.row, init=self._first_row()) if c.late_rows else s.resident  # of the next row written
        m.d.comb += [s.space.eq(~s.reserved[full_bit] if c.weight_words == 1 << full_bit else s.reserved != c.weight_words),
                     self.address.eq(Mux(writes, s.place, s.resident) if c.late_rows else s.resident)]
        s.is_resident = s.mixed[4]
        s.at_work = s.states.ongoing("MOVE")
        s.requested = s.flying[0]  # a cycle later the port takes `address`
        if c.late_rows:
            self._late(m, s, writes)
        else:
            s.last_booted = s.resident == c.resident_base + c.resident_rows - 1
            with m.If(s.requested | self.write):
                m.d.sync += s.resident.eq(Mux(s.last_booted, c.resident_base, s.resident + 1))

        s.moved = Signal()
        s.last_row = s.row == rows - 1
        # `moved` is a late signal, so `left` is compared before it.
        s.counted = self._later(m, s.moved & s.last_row)
        m.d.sync += s.none_left.eq(~s.left[1:].any() & (s.left[0] == s.counted))
        with m.If(s.counted):
            m.d.sync += s.left.eq(s.left - 1)

    def _first_row(self):
        """The row that is the first one read in a pass; after reset it is also the first one written."""
        c = self.config
        if not c.late_rows:
            return c.boot_base
        return c.resident_base + c.resident_rows - 1 if c.resident_rows else c.late_end - 1

    def _late(self, m, s, writes):
        """With late rows the address counts down.

        Resident rows are written once, late rows in each pass, both in the order in which they are read.
        """
        c = self.config
        s.last_booted = unnamed()  # `place`, which stands still for two cycles at least, is that of the last resident row
        m.d.sync += s.last_booted.eq(s.place == c.resident_base)
        following, after = s.resident - 1, s.place - 1
        if c.late_end != c.resident_base:
            following = Mux(s.resident == c.resident_base, c.late_end - 1, following)
            after = Mux(s.last_booted, c.late_end - 1, after)
        with m.If(s.requested):
            m.d.sync += s.resident.eq(Mux(s.resident == c.late_base, self._first_row(), following))
        with m.If(self.write):
            m.d.sync += s.place.eq(after)
        written = Signal()
        s.after = Signal(bits_for(t.after for t in c.transfers))
        s.open = Signal()  # so many steps have begun
        m.d.sync += [written.eq(s.stored), s.open.eq(self.steps >= s.after)]
        with m.If(s.at_work):
            m.d.sync += writes.eq(s.storing)
        m.d.comb += [self.write.eq(written), s.taken.eq(s.stored)]

    def _boot(self, m, s):
        """States that write the first rows of the stream to the banks."""
        c = self.config
        if c.boot_rows:
            with s.states.state("BOOT"):
                m.d.comb += [self.write.eq(s.full), s.taken.eq(s.full)]
                with m.If(s.full & s.last_booted):
                    m.d.sync += self.booted.eq(1)
                    s.states.go("ADDRESS")
        else:
            m.d.comb += self.booted.eq(1)

    def _fetch(self, m, s):
        """States that read the next transfer from the list."""
        with s.states.state("ADDRESS"):
            with m.If(s.ended):
                m.d.sync += [s.pc.eq(0), s.ended.eq(0)]
                if self.config.late_rows:
                    m.d.sync += s.place.eq(self.config.late_end - 1)
            with m.Else():
                m.d.sync += s.pc.eq(s.pc + 1)
                s.states.go("COUNT")
        with s.states.state("COUNT"):
            m.d.sync += [s.left.eq(s.fetch.data), s.pc.eq(s.pc + 1)]
            s.states.go("SHARE")
        with s.states.state("SHARE"):
            m.d.sync += [s.share.eq(s.fetch.data[8:]), s.mixed.eq(s.fetch.data[8:13])]
            late = self.config.late_rows > 0
            if len(s.left) > 16:
                upper = s.fetch.data[:8] & ~s.fetch.data[LATE_BIT].replicate(8) if late else s.fetch.data[:8]
                m.d.sync += [s.left[16:].eq(upper), s.none_left.eq((s.left[:16] == 0) & (upper == 0))]
            if late:
                m.d.sync += [s.storing.eq(s.fetch.data[LATE_BIT]), s.after.eq(s.fetch.data), s.open.eq(0)]
            s.states.go("MOVE")

    def _move(self, m, s):
        """The state that moves the words of a transfer, each from the stream or from a resident row."""
        late = self.config.late_rows > 0
        s.fits = (s.row != 0) | s.space
        asks = s.at_work & s.is_resident & s.fits
        stores = Signal()  # a late row is asked for, as of the cycle before
        m.d.comb += self.request_next.eq((asks | stores if late else asks) & ~self.blocked)
        if late:
            m.d.sync += stores.eq(s.at_work & s.storing & s.full & s.open & ~self.request_next & ~self.request)
        # A row of the stream may come, as of the cycle before: only a move ends that, and the next row has two beats at least.
        m.d.comb += s.will_stream.eq(s.at_work & ~s.is_resident & s.fits & ~s.on_its_way & (~s.storing if late else 1))
        m.d.sync += s.streams.eq(s.will_stream)
        # No row is on its way, so `row` is `landing`.
        m.d.comb += s.from_stream.eq(s.streams & s.full)
        taken = s.from_stream | s.stored if late else s.from_stream
        m.d.comb += [s.taken.eq(taken), s.moved.eq(asks & ~self.blocked | taken)]
        m.d.comb += s.reserve.eq(s.moved & (s.row == 0) & ~s.storing if late else s.moved & (s.row == 0))
        with s.states.state("MOVE"):
            with m.If(s.moved):
                m.d.sync += s.row.eq(s.row + 1)
                with m.If(s.last_row):
                    m.d.sync += [s.row.eq(0), s.mixed.eq(s.mixed[:4] + s.share)]
                    with m.If(s.none_left):
                        s.states.go("ADDRESS")


def _with_carry(a, b, carry):
    """a + b + carry by one chain of carries."""
    return (Cat(Const(1, 1), a) + Cat(carry, b))[1:len(a) + 1]
