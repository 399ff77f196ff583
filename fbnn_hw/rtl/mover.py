"""Weights on their way to the array, when they do not all fit into block RAM."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..compile import timing
from .sequencer import Widths, bits_for
from .signals import unnamed


class WeightMover(wiring.Component):
    """Keeps a ring of weight words filled, in the order of use: from the byte stream, or from resident rows of the banks.

    A row is pixels * lanes bits, a word (outputs * lanes bits) is outputs / pixels rows, first row lowest.  After reset
    the first rows of the stream are written to a learner's tables and to the resident rows behind them; then the transfers are
    worked off, frame after frame, as far ahead as the ring allows.  Word i of a transfer is resident iff
    ((i + 1) * share >> 4) != (i * share >> 4).
    Twin: `fbnn_hw.compile.cycles`.

    weights: bytes, lowest first.  booted: resident rows are loaded.  blocked: the port is not free in the next cycle.
    request_next: the port is taken in the next cycle; request: in this one, to read the row that `address` holds in the next, whose bits
    stand in `row` timing.READ cycles later.
    write: the port is taken to write `write_data` to the row `address` (before booted alone).
    address_read, word: read port of the ring, latency 1.  level: words at hand; pop, pop_words: words given back;
    pop_words stays for timing.READ cycles.
    """

    def __init__(self, config):
        self.config = config
        w = Widths(config)
        super().__init__({
            "weights": In(stream.Signature(8)), "booted": Out(1), "blocked": In(1), "request_next": Out(1), "request": Out(1),
            "write": Out(1), "address": Out(w.row), "write_data": Out(config.row_bits), "row": In(config.row_bits),
            "address_read": In(w.weight), "word": Out(config.word_bits),
            "level": Out(range(config.weight_words + 1)), "pop": In(1), "pop_words": In(w.tile_words)})

    def elaborate(self, platform):
        m = Module()
        c, w = self.config, Widths(self.config)
        rows = c.rows_per_word

        # Bytes -> rows.
        row_bytes = c.row_bits // 8
        packed = Signal(c.row_bits)
        byte = Signal(range(row_bytes))
        full = unnamed()
        taken = Signal()
        m.d.comb += self.write_data.eq(packed)
        m.d.comb += self.weights.ready.eq(~full)
        with m.If(self.weights.valid & self.weights.ready):
            m.d.sync += [packed.eq(Cat(packed[8:], self.weights.payload)), byte.eq(byte + 1)]
            with m.If(byte == row_bytes - 1):
                m.d.sync += [byte.eq(0), full.eq(1)]
        with m.If(taken):
            m.d.sync += full.eq(0)

        # The ring, one memory a row of its words, so that each row is written as it comes.
        # A word is never read while it is written, so synthesis need not care what would come then.
        attributes = {"ram_style": "block", "no_rw_check": 1}
        ring = []
        for r in range(rows):
            m.submodules[f"ring{r}"] = memory = Memory(shape=c.row_bits, depth=c.weight_words, init=[], attrs=attributes)
            ring.append((memory.write_port(), memory.read_port()))
        m.d.comb += self.word.eq(Cat(port.data for _, port in ring))
        head = Signal(w.weight)
        landing = Signal(bits_for([rows - 1]))
        arrives = Signal()
        from_stream = Signal()
        for r, (write, read) in enumerate(ring):
            m.d.comb += [
                read.addr.eq(self.address_read), write.addr.eq(head), write.data.eq(Mux(arrives, self.row, packed)),
                write.en.eq((arrives | from_stream) & (landing == r))]
        landed = Signal()
        with m.If(arrives | from_stream):
            m.d.sync += landing.eq(landing + 1)
            with m.If(landing == rows - 1):
                m.d.sync += [landing.eq(0), head.eq(head + 1)]
                m.d.comb += landed.eq(1)

        reserved = Signal(range(c.weight_words + 1))
        reserve = Signal()
        # The last words given back are still being read: their places are free only when that is over.
        late = Signal(timing.READ)
        m.d.sync += late.eq(Cat(self.pop, late))
        # `pop` comes late: both outcomes are ready before.
        m.d.sync += [self.level.eq(Mux(self.pop, self.level + landed - self.pop_words, self.level + landed)),
                     reserved.eq(Mux(late[-1], reserved + reserve - self.pop_words, reserved + reserve))]

        flying = Signal(timing.READ)
        m.d.sync += [self.request.eq(self.request_next), flying.eq(Cat(self.request, flying))]
        m.d.comb += arrives.eq(flying[-1])

        # The plan.
        words = c.transfer_words()
        m.submodules.plan = plan = Memory(shape=16, depth=len(words), init=words, attrs={"ram_style": "block"})
        fetch = plan.read_port()
        pc = Signal(range(len(words) + 1))
        m.d.comb += fetch.addr.eq(pc)
        left = Signal(bits_for(t.words - 1 for t in c.transfers))
        share = Signal(5)
        row = Signal(bits_for([rows - 1]))
        resident = Signal(w.row, init=c.boot_base)
        mixed = Signal(5)  # phase + share
        space = Signal()
        full_bit = c.weight_words.bit_length() - 1
        m.d.comb += [space.eq(~reserved[full_bit] if c.weight_words == 1 << full_bit else reserved != c.weight_words),
                     self.address.eq(resident)]
        is_resident = mixed[4]
        at_work = Signal()  # in the state MOVE
        requested = flying[0]  # a cycle later the port takes `address`
        last_resident = resident == c.resident_base + c.resident_rows - 1
        with m.If(requested | self.write):
            m.d.sync += resident.eq(Mux(last_resident, c.resident_base, resident + 1))

        moved = self.request_next | from_stream
        last_row = row == rows - 1

        with m.FSM(init="BOOT" if c.boot_rows else "ADDRESS"):
            if c.boot_rows:
                with m.State("BOOT"):
                    m.d.comb += [self.write.eq(full), taken.eq(full)]
                    with m.If(full & last_resident):
                        m.d.sync += self.booted.eq(1)
                        m.next = "ADDRESS"
            else:
                m.d.comb += self.booted.eq(1)
            with m.State("ADDRESS"):
                with m.If(pc == len(words)):
                    m.d.sync += pc.eq(0)
                with m.Else():
                    m.d.sync += pc.eq(pc + 1)
                    m.next = "COUNT"
            with m.State("COUNT"):
                m.d.sync += [left.eq(fetch.data), pc.eq(pc + 1)]
                m.next = "SHARE"
            with m.State("SHARE"):
                m.d.sync += [share.eq(fetch.data[8:]), mixed.eq(fetch.data[8:13])]
                if len(left) > 16:
                    m.d.sync += left[16:].eq(fetch.data[:8])
                m.d.sync += at_work.eq(1)
                m.next = "MOVE"
            fits = (row != 0) | space
            m.d.comb += self.request_next.eq(at_work & is_resident & fits & ~self.blocked)
            with m.State("MOVE"):
                m.d.comb += [
                    from_stream.eq(~is_resident & fits & full & ~self.request & ~flying.any()), taken.eq(from_stream),
                    reserve.eq(moved & (row == 0))]
                with m.If(moved):
                    m.d.sync += row.eq(row + 1)
                    with m.If(last_row):
                        m.d.sync += [row.eq(0), mixed.eq(mixed[:4] + share), left.eq(left - 1)]
                        with m.If(left == 0):
                            m.d.sync += at_work.eq(0)
                            m.next = "ADDRESS"
        return m
