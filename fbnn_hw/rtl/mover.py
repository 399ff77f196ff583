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
from .signals import later, unnamed
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
            # Read port of the ring, latency 1 + memory_registers.  Where `read` is 0 the word may stay, which saves energy.
            "address_read": In(w.weight), "read": In(1, init=1), "word": Out(config.word_bits),
            "level": Out(range(config.weight_words + 1)),  # words at hand
            "pop": In(1), "pop_words": In(w.tile_words)})  # so many words are returned; `pop_words` holds for `timing.read` cycles

    def elaborate(self, platform):
        m = Module()
        with OneHot(m, "BOOT" if self.config.boot_rows else "ADDRESS") as states:
            s = self._signals(states)
            self._pack(m, s)
            self._ring(m, s)
            self._transfers(m, s)
            self._move(m, s)
            self._boot(m, s)
            self._fetch(m, s)
        return m

    def _signals(self, states):
        """The namespace of what several methods use.  A group names the methods that drive it."""
        c, w = self.config, Widths(self.config)
        s = SimpleNamespace(states=states)

        # The row that beats of the stream make: `_pack`.
        s.packed = Signal(c.row_bits)
        s.full = unnamed()
        s.taken = Signal()  # `_move`, `_late`, `_boot`

        # Rows on their way into the ring: `_ring`.
        s.arrives = Signal()
        s.reserved = Signal(range(c.weight_words + 1))
        s.flying = Signal(timing.read(c.memory_registers))
        s.on_its_way = Signal()  # `request`, or any of `flying`

        # The transfer at work: `_fetch`, as its words come from the list; `_transfers` and `_move` as they move.
        words = c.transfer_words()
        s.plan = Memory(shape=16, depth=len(words), init=words, attrs={"ram_style": "block"})
        s.fetch = s.plan.read_port()
        s.pc = Signal(range(len(words) + 1))
        s.ended = unnamed()  # `pc`, which has stood still for two cycles in the state ADDRESS, is behind the last transfer
        s.left = Signal(bits_for(t.words - 1 for t in c.transfers))
        s.none_left = Signal()  # `left` is 0
        s.share = Signal(5)
        s.mixed = Signal(5)  # phase + share
        s.row = Signal(bits_for([c.rows_per_word - 1]))
        s.last_row = s.row == c.rows_per_word - 1
        s.is_resident = s.mixed[4]
        s.at_work = states.ongoing("MOVE")

        # The next row of the banks: `_transfers`, `_late`.
        s.resident = Signal(w.row, init=self._first_row())
        s.place = Signal(w.row, init=self._first_row()) if c.late_rows else s.resident  # of the next row written
        # `place`, which stands still for two cycles at least where there are late rows, is that of the last resident row.
        s.last_booted = unnamed() if c.late_rows else s.resident == c.resident_base + c.resident_rows - 1
        s.space = Signal()

        # What moves: `_move`.
        s.from_stream = Signal()
        s.will_stream = unnamed()  # in the next cycle a row of the stream leaves `packed` as soon as it is whole
        s.moved = Signal()
        s.reserve = Signal()

        # Late rows: `_fetch`, `_late`.
        s.storing = Signal()  # a transfer for late rows is at work
        s.stored = self.request & s.storing  # the row in hand is written in the next cycle
        s.after = Signal(bits_for(t.after for t in c.transfers))
        s.open = Signal()  # so many steps have begun
        return s

    def _pack(self, m, s):
        """Collect beats of the stream into a row."""
        c = self.config
        row_beats = c.row_bits // c.beat_bits
        byte = Signal(range(row_beats))  # the number of a beat
        full = unnamed()  # `full` of the next cycle
        ready = Signal(init=1)
        beat = unnamed()  # a beat comes in
        last = byte == row_beats - 1
        m.d.comb += [self.write_data.eq(s.packed), self.weights.ready.eq(ready), beat.eq(self.weights.valid & ready),
                     full.eq((s.full | beat & last) & ~s.taken)]  # the beat beside one that is taken is not the last one of a row
        m.d.sync += [s.full.eq(full), ready.eq(~full | s.will_stream | ~self.booted)]
        with m.If(beat):
            m.d.sync += [s.packed.eq(Cat(s.packed[c.beat_bits:], self.weights.payload)), byte.eq(Mux(last, 0, byte + 1))]

    def _ring(self, m, s):
        """The ring, with the number of words in it and of those that were requested and will come."""
        c, rows = self.config, self.config.rows_per_word
        # Each row of a word has a memory of its own, so that a row is written as soon as it comes.
        ring = [self._row(m, f"ring{r}") for r in range(rows)]
        m.d.comb += self.word.eq(Cat(word for _, word in ring))
        head = Signal(Widths(c).weight)
        landing = Signal(bits_for([rows - 1]))
        lands = partial(later, m) if c.memory_registers else lambda value, **options: value  # `cycles.Mover.landing` cycles later
        place, data = lands(head, reset_less=True), lands(Mux(s.arrives, self.row, s.packed), reset_less=True)
        for r, (write, _) in enumerate(ring):
            enable = lands((s.arrives | s.from_stream) & (landing == r))
            m.d.comb += [write.addr.eq(place), write.data.eq(data), write.en.eq(enable)]
        complete = Signal(name="landed")
        landed = lands(complete)
        word_ends = unnamed(init=rows == 1)  # the row that lands next is the last one of its word
        with m.If(s.arrives | s.from_stream):
            m.d.sync += [landing.eq(landing + 1), word_ends.eq(landing == max(rows - 2, 0))]
            with m.If(word_ends):
                m.d.sync += [landing.eq(0), word_ends.eq(rows == 1), head.eq(head + 1)]
        m.d.comb += complete.eq((s.arrives | s.from_stream) & word_ends)

        # Words that are given back may still be read for some cycles, so their places become free later.
        late = Signal(timing.read(c.memory_registers))
        m.d.sync += late.eq(Cat(self.pop, late))
        # `reserve` is a late signal too.
        reserve = self._later(m, s.reserve)
        returned = Signal.like(s.reserved)  # less the words that become free
        minus = Signal.like(s.reserved)
        # `pop` is a late signal, so both outcomes are computed before it.
        m.d.sync += [self.level.eq(Mux(self.pop, self.level + landed - self.pop_words, self.level + landed)),
                     minus.eq(-self.pop_words), returned.eq(Mux(late[-2], minus, 0)),
                     s.reserved.eq((Cat(Const(1, 1), s.reserved) + Cat(reserve, returned))[1:len(minus) + 1])]  # one chain of carries
        reads = self.request & ~s.storing if c.late_rows else self.request
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
            m.d.comb += [read.addr.eq(self.address_read), read.en.eq(1 if registers else self.read)]
            word = read.data
        for _ in range(registers):
            word = later(m, word, reset_less=True)
        return write, word

    def _later(self, m, strobe):
        """Return a strobe of each word that moves, a cycle later where words have several rows, so that none moves in that cycle."""
        if self.config.rows_per_word == 1:
            return strobe
        later = Signal()
        m.d.sync += later.eq(strobe)
        return later

    def _transfers(self, m, s):
        """The list of transfers, and the address of the next row."""
        c = self.config
        m.submodules.plan = s.plan
        m.d.comb += [s.fetch.addr.eq(s.pc), s.fetch.en.eq(~s.at_work)]
        m.d.sync += s.ended.eq(s.pc == s.plan.depth)
        full_bit = c.weight_words.bit_length() - 1
        writes = unnamed(init=c.boot_rows > 0)  # with late rows: `address` is for writes, until the next transfer
        m.d.comb += [s.space.eq(~s.reserved[full_bit] if c.weight_words == 1 << full_bit else s.reserved != c.weight_words),
                     self.address.eq(Mux(writes, s.place, s.resident) if c.late_rows else s.resident)]
        requested = s.flying[0]  # a cycle later the port takes `address`
        if c.late_rows:
            self._late(m, s, requested, writes)
        else:
            with m.If(requested | self.write):
                m.d.sync += s.resident.eq(Mux(s.last_booted, c.resident_base, s.resident + 1))
        # `moved` is a late signal, so `left` is compared before it.
        counted = self._later(m, s.moved & s.last_row)
        m.d.sync += s.none_left.eq(~s.left[1:].any() & (s.left[0] == counted))
        with m.If(counted):
            m.d.sync += s.left.eq(s.left - 1)

    def _first_row(self):
        """The row that is the first one read in a pass; after reset it is also the first one written."""
        c = self.config
        if not c.late_rows:
            return c.boot_base
        return c.resident_base + c.resident_rows - 1 if c.resident_rows else c.late_end - 1

    def _late(self, m, s, requested, writes):
        """With late rows the address counts down.

        Resident rows are written once, late rows in each pass, both in the order in which they are read.
        """
        c = self.config
        m.d.sync += s.last_booted.eq(s.place == c.resident_base)
        following, after = s.resident - 1, s.place - 1
        if c.late_end != c.resident_base:
            following = Mux(s.resident == c.resident_base, c.late_end - 1, following)
            after = Mux(s.last_booted, c.late_end - 1, after)
        with m.If(requested):
            m.d.sync += s.resident.eq(Mux(s.resident == c.late_base, self._first_row(), following))
        with m.If(self.write):
            m.d.sync += s.place.eq(after)
        written = Signal()
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
        fits = (s.row != 0) | s.space
        asks = s.at_work & s.is_resident & fits
        stores = Signal()  # a late row is asked for, as of the cycle before
        m.d.comb += self.request_next.eq((asks | stores if late else asks) & ~self.blocked)
        if late:
            m.d.sync += stores.eq(s.at_work & s.storing & s.full & s.open & ~self.request_next & ~self.request)
        # A row of the stream may come, as of the cycle before: only a move ends that, and the next row has two beats at least.
        m.d.comb += s.will_stream.eq(s.at_work & ~s.is_resident & fits & ~s.on_its_way & (~s.storing if late else 1))
        streams = Signal()
        m.d.sync += streams.eq(s.will_stream)
        # No row is on its way, so `row` is `landing`.
        m.d.comb += s.from_stream.eq(streams & s.full)
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
