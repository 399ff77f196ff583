"""From accumulators to words in the banks: sign, 2x2 OR, place."""

from contextlib import nullcontext

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .sequencer import Widths, step_layout
from .signals import unnamed


class Drain(wiring.Component):
    """Writes the P x Q bits of each finished block, and the words of global pooling.

    An output bit is 1 iff its accumulator is >= 0.  Pooling takes the OR of four pixels.  A tile fills
    tile slot s of a word.  Those after s are cleared, so that lanes without a channel end up 0; those
    before s keep their bits.

    Timing: A write comes one cycle after its strobe.
    """

    def __init__(self, config):
        self.config = config
        c, w = config, Widths(config)
        self.slots = c.lanes // c.outputs
        stored = [s for s in c.program if s.kind == "conv" and not s.logits]
        # A network whose channels fill tiles and words needs no masks.
        self.partial_tiles = any(s.valid != c.outputs for s in stored)
        self.partial_words = any((s.tile_slot + s.tiles) % self.slots for s in stored)
        super().__init__({
            "signs": In(c.pixels * c.outputs),  # sign bits of the accumulators
            # A block is finished; it ends a row of blocks, a tile.  At least one cycle separates a tile's end from the next strobe.
            "strobe": In(1), "row_end": In(1), "tile_end": In(1),
            "begin": In(1),  # a new step starts; no block is under way, and none is finished in the next cycle
            "step": In(step_layout(c)),
            "pool_write": In(2), "average": In(c.lanes), "learned": In(c.lanes),  # 1 writes `average`, 2 writes `learned`, in this cycle
            "write": Out(c.pixels),  # one bit a bank
            "address": Out(w.address),  # one for all banks
            "data": Out(c.row_bits),  # 0 in a cycle without a write, or, with config.loads_beside, anything
            "mask": Out(self.slots)})  # one bit for P lanes

    def elaborate(self, platform):
        m = Module()
        c, w, step = self.config, Widths(self.config), self.step
        columns, slots = c.columns, self.slots
        odd_column = unnamed()
        odd_row = Signal()
        slot = unnamed(w.slots)
        tile = unnamed(w.tiles)

        # The bits, and a register behind them.
        bits = [~self.signs.word_select(q, c.outputs) for q in range(c.pixels)]
        pooled = self._pooled(bits)
        real = (1 << c.outputs) - 1
        if self.partial_tiles:
            real = Cat((tile != step.tiles) | (p < step.valid) for p in range(c.outputs))
        alone = c.loads_beside  # nothing else is written in its cycles, so that `values` may be anything between blocks
        values = Signal(c.pixels * c.outputs, reset_less=alone)
        strobe = unnamed()
        row_end = unnamed()
        tile_end = Signal()
        if not alone:
            m.d.sync += values.eq(0)
        m.d.sync += [strobe.eq(self.strobe), row_end.eq(self.row_end), tile_end.eq(self.tile_end)]
        with nullcontext() if alone else m.If(self.strobe):
            m.d.sync += [values.word_select(q, c.outputs).eq(Mux(step.pool, pooled[q % columns % (columns // 2)], bits[q]) & real)
                         for q in range(c.pixels)]

        pooled_tile = self.pool_write[1] | self.pool_write[0] & ~step.depthwise

        # Places.  `origin`: first word of the tile.  `line`: first word of the row of blocks.  `place`: word of the block.
        # A step begins by moving to `next_origin`, as a tile does after the one before; so these need no reset.
        origin = unnamed(w.address, reset_less=True)
        line = unnamed(w.address, reset_less=True)
        place = Signal(w.address, reset_less=True)
        following = unnamed(w.address)
        next_origin = Signal(w.address, reset_less=True)
        begun = Signal()
        moves = unnamed()
        last_slot = slot == slots - 1
        # The words of a block lie side by side, or a plane apart where there are lists of reads.
        word = step.plane & last_slot.replicate(w.address) if c.lists else last_slot
        advance = Signal(w.address)  # a register is early enough: it stands still within a tile
        m.d.sync += advance.eq(Mux(step.lgap, 1, step.target_advance))
        m.d.comb += [following.eq(place + advance), moves.eq(strobe & tile_end | begun)]
        m.d.sync += [begun.eq(self.begin), next_origin.eq(Mux(self.begin, step.target, origin + word))]
        with m.If(strobe):
            m.d.sync += odd_column.eq(~odd_column)
            with m.If(row_end):
                m.d.sync += [odd_column.eq(0), odd_row.eq(~odd_row)]
            with m.If(tile_end):
                m.d.sync += [odd_row.eq(0), slot.eq(Mux(last_slot, 0, slot + 1)), tile.eq(tile + 1)]
        with m.If(moves):
            m.d.sync += origin.eq(next_origin)
        with m.If(moves | strobe & row_end & odd_row):
            m.d.sync += line.eq(Mux(moves, next_origin, following))
        with m.If(moves | pooled_tile | strobe & (~step.pool | odd_column | row_end)):
            m.d.sync += place.eq(Mux(moves, next_origin, Mux(row_end & ~odd_row & step.pool, line, following)))  # or the row's other half
        with m.If(self.begin):
            m.d.sync += [slot.eq(step.slot), tile.eq(0), odd_column.eq(0), odd_row.eq(0)]

        self._outputs(m, values, strobe, slot, place, odd_row, odd_column)
        return m

    def _outputs(self, m, values, strobe, slot, place, odd_row, odd_column):
        """Which banks are written, where, and with what."""
        c, w, step = self.config, Widths(self.config), self.step
        placed = []
        for q in range(c.pixels):
            value = values.word_select(q, c.outputs)
            row, column = divmod(q, c.columns)
            taken = (odd_row == row) & (odd_column == (column >= c.columns // 2))
            write = strobe & Mux(step.vector, q == 0, ~step.pool | taken)
            # Slots before that of the tile are not written, so they need no 0.
            word = Cat(value & (slot == s).replicate(c.outputs) if s and self.partial_words else value for s in range(self.slots))
            if q == 0:
                average, learned = (bits & chosen.replicate(c.lanes) for bits, chosen in zip((self.average, self.learned), self.pool_write))
                word = Mux(self.pool_write.any(), average | learned, word) if c.loads_beside else word | average | learned
                write = write | self.pool_write.any()
            placed.append(word)
            m.d.comb += self.write[q].eq(write)
        m.d.comb += [
            self.data.eq(Cat(*placed)),
            self.mask.eq(Cat(slot <= s if self.partial_words else slot == s for s in range(self.slots))
                         | self.pool_write.any().replicate(self.slots))]
        learned_place = Signal(w.address)  # a register is early enough: the place stands still before it is used
        learned = Signal()  # the learned word follows the average
        m.d.sync += [learned_place.eq(place + step.target_row), learned.eq(self.pool_write[0] & step.depthwise)]
        m.d.comb += self.address.eq(Mux(learned, learned_place, place))

    def _pooled(self, bits):
        """What a step stores of each 2 x 2 pixels where it keeps one of four: their OR, or the first one."""
        c, columns = self.config, self.config.columns
        squares = [[bits[2 * x], bits[2 * x + 1], bits[columns + 2 * x], bits[columns + 2 * x + 1]] for x in range(columns // 2)]
        pooled = [a | b | c | d for a, b, c, d in squares]
        if any(step.first_pixel for step in c.program):
            pooled = [Mux(self.step.first_pixel, square[0], word) for square, word in zip(squares, pooled)]
        return pooled
