"""Weights on their way to the array, when they do not all fit into block RAM."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..compile import timing
from .sequencer import Widths, bits_for


class WeightMover(wiring.Component):
    """Keeps a ring of weight words filled, in the order of use: from the byte stream, or from resident rows of the banks.

    A row is pixels * lanes bits, a word (outputs * lanes bits) is outputs / pixels rows, first row lowest.  After reset
    the first rows of the stream are written to the resident rows; then the transfers are worked off, frame after frame, as
    far ahead as the ring allows.  Word i of a transfer is resident iff ((i + 1) * share >> 4) != (i * share >> 4).
    Twin: `fbnn_hw.compile.cycles`.

    weights: bytes, lowest first.  booted: resident rows are loaded.  blocked: the port is not free this cycle.
    request: the port is taken this cycle, to read the row `address`, whose bits stand in `row` timing.READ cycles later.
    write: the port is taken to write `write_data` to the row `address` (before booted alone).
    address_read, word: read port of the ring, latency 1.  level: words at hand; pop, pop_words: words given back.
    """

    def __init__(self, config):
        self.config = config
        w = Widths(config)
        super().__init__({
            "weights": In(stream.Signature(8)), "booted": Out(1), "blocked": In(1), "request": Out(1), "write": Out(1),
            "address": Out(w.address), "write_data": Out(config.row_bits), "row": In(config.row_bits),
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
        full, taken = Signal(), Signal()
        m.d.comb += self.weights.ready.eq(~full)
        with m.If(self.weights.valid & self.weights.ready):
            m.d.sync += [packed.eq(Cat(packed[8:], self.weights.payload)), byte.eq(byte + 1)]
            with m.If(byte == row_bytes - 1):
                m.d.sync += [byte.eq(0), full.eq(1)]
        with m.If(taken):
            m.d.sync += full.eq(0)

        # The ring, one memory a row of its words, so that each row is written as it comes.
        ring = []
        for r in range(rows):
            m.submodules[f"ring{r}"] = memory = Memory(shape=c.row_bits, depth=c.weight_words, init=[], attrs={"ram_style": "block"})
            ring.append((memory.write_port(), memory.read_port()))
        m.d.comb += self.word.eq(Cat(port.data for _, port in ring))
        head = Signal(w.weight)
        landing = Signal(bits_for([rows - 1]))
        arrives = Signal()
        from_stream = Signal()
        for r, (write, read) in enumerate(ring):
            m.d.comb += [
                read.addr.eq(self.address_read), write.addr.eq(head), write.data.eq(Mux(from_stream, packed, self.row)),
                write.en.eq((arrives | from_stream) & (landing == r))]
        landed = Signal()
        with m.If(arrives | from_stream):
            m.d.sync += landing.eq(landing + 1)
            with m.If(landing == rows - 1):
                m.d.sync += [landing.eq(0), head.eq(head + 1)]
                m.d.comb += landed.eq(1)

        reserved = Signal(range(c.weight_words + 1))
        reserve = Signal()
        given_back = Mux(self.pop, self.pop_words, 0)
        # The last words given back are still being read: their places are free only when that is over.
        late = [Signal.like(self.pop_words, name=f"late{i}") for i in range(timing.READ)]
        m.d.sync += [new.eq(old) for new, old in zip(late, [given_back, *late])]
        m.d.sync += [self.level.eq(self.level + landed - given_back), reserved.eq(reserved + reserve - late[-1])]

        flying = Signal(timing.READ)
        m.d.sync += flying.eq(Cat(self.request, flying))
        m.d.comb += arrives.eq(flying[-1])

        # The plan.
        words = c.transfer_words()
        m.submodules.plan = plan = Memory(shape=16, depth=len(words), init=words, attrs={"ram_style": "block"})
        fetch = plan.read_port()
        pc = Signal(range(len(words) + 1))
        m.d.comb += fetch.addr.eq(pc)
        left = Signal(bits_for(t.words - 1 for t in c.transfers))
        share, phase = Signal(5), Signal(4)
        row = Signal(bits_for([rows - 1]))
        resident = Signal(w.address)
        mixed = Signal(5)
        space = Signal()
        m.d.comb += [mixed.eq(phase + share), space.eq(reserved != c.weight_words), self.address.eq(resident)]
        is_resident = mixed[4]

        moved = self.request | from_stream
        last_row = row == rows - 1

        with m.FSM(init="BOOT" if c.resident_rows else "ADDRESS") as fsm:
            if c.resident_rows:
                booted_rows = Signal(range(c.resident_rows))
                with m.State("BOOT"):
                    m.d.comb += [self.write.eq(full), taken.eq(full), self.write_data.eq(packed), self.address.eq(c.resident_base + booted_rows)]
                    with m.If(full):
                        m.d.sync += booted_rows.eq(booted_rows + 1)
                        with m.If(booted_rows == c.resident_rows - 1):
                            m.next = "ADDRESS"
                m.d.comb += self.booted.eq(~fsm.ongoing("BOOT"))
            else:
                m.d.comb += self.booted.eq(1)
            with m.State("ADDRESS"):
                with m.If(pc == len(words)):
                    m.d.sync += pc.eq(0)
                with m.Else():
                    m.d.sync += pc.eq(pc + 1)
                    m.next = "COUNT"
                with m.If((pc == 0) | (pc == len(words))):
                    m.d.sync += resident.eq(c.resident_base)
            with m.State("COUNT"):
                m.d.sync += [left.eq(fetch.data), pc.eq(pc + 1)]
                m.next = "SHARE"
            with m.State("SHARE"):
                m.d.sync += [share.eq(fetch.data[8:]), phase.eq(0)]
                if len(left) > 16:
                    m.d.sync += left[16:].eq(fetch.data[:8])
                m.next = "MOVE"
            with m.State("MOVE"):
                fits = (row != 0) | space
                m.d.comb += [
                    self.request.eq(is_resident & fits & ~self.blocked),
                    from_stream.eq(~is_resident & fits & full & ~flying.any()), taken.eq(from_stream),
                    reserve.eq(moved & (row == 0))]
                with m.If(self.request):
                    m.d.sync += resident.eq(resident + 1)
                with m.If(moved):
                    m.d.sync += row.eq(row + 1)
                    with m.If(last_row):
                        m.d.sync += [row.eq(0), phase.eq(mixed), left.eq(left - 1)]
                        with m.If(left == 0):
                            m.next = "ADDRESS"
        return m
