"""From accumulators to words in the banks: sign, 2x2 OR, place."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .sequencer import Widths, step_layout


class Drain(wiring.Component):
    """Writes the P x Q bits of each finished block, and the words of global pooling.

    An output bit is 1 iff its accumulator is >= 0; pooling takes the OR of four pixels.  A tile fills slot s of a word:
    the slots after s are cleared, so that lanes without a channel end up 0, and slots before s keep their bits.

    signs: Q * P sign bits of the accumulators.  strobe: a block is finished; row_end, tile_end: it ends a row of blocks,
    a tile.  begin: a new step starts (strobe it while no block is under way).  pool_write: 1, 2: write `average`, `learned`.
    enable, address, data, mask: what to write in this cycle; one enable a bank, one address for all, one mask bit a P lanes.
    """

    def __init__(self, config):
        self.config = config
        c, w = config, Widths(config)
        self.slots = c.lanes // c.outputs
        super().__init__({
            "signs": In(c.pixels * c.outputs), "strobe": In(1), "row_end": In(1), "tile_end": In(1), "begin": In(1),
            "step": In(step_layout(c)), "pool_write": In(2), "average": In(c.lanes), "learned": In(c.lanes),
            "enable": Out(c.pixels), "address": Out(w.address), "data": Out(c.row_bits), "mask": Out(self.slots)})

    def elaborate(self, platform):
        m = Module()
        c, w, step = self.config, Widths(self.config), self.step
        columns, slots = c.columns, self.slots

        # Place.  `origin`: first word of the tile; `line`: of the row of blocks; `place`: of the block.
        origin, line, place = Signal(w.address), Signal(w.address), Signal(w.address)
        slot, odd_column, odd_row, tile = Signal(w.slots), Signal(), Signal(), Signal(w.tiles)
        next_line = Signal(w.address)
        next_origin = Signal(w.address)
        last_tile = tile == step.tiles
        m.d.comb += [
            next_line.eq(Mux(step.pool, line + Mux(odd_row, step.target_row, 0), place + step.target_advance)),
            next_origin.eq(origin + (slot == slots - 1))]
        with m.If(self.begin):
            m.d.sync += [origin.eq(step.target), line.eq(step.target), place.eq(step.target), slot.eq(step.slot), tile.eq(0),
                         odd_column.eq(0), odd_row.eq(0)]
        with m.Elif(self.strobe):
            m.d.sync += odd_column.eq(~odd_column)
            with m.If(~step.pool | odd_column):
                m.d.sync += place.eq(place + step.target_advance)
            with m.If(self.row_end):
                m.d.sync += [odd_column.eq(0), odd_row.eq(~odd_row), line.eq(next_line), place.eq(next_line)]
            with m.If(self.tile_end):
                m.d.sync += [odd_row.eq(0), slot.eq(slot + 1), tile.eq(tile + 1), origin.eq(next_origin), line.eq(next_origin),
                             place.eq(next_origin)]
                with m.If(slot == slots - 1):
                    m.d.sync += slot.eq(0)
        with m.Elif(self.pool_write[1] | self.pool_write[0] & ~step.depthwise):
            m.d.sync += place.eq(place + 1)

        # Bits.
        real = Signal(c.outputs)
        m.d.comb += real.eq(Cat(~last_tile | (p < step.valid) for p in range(c.outputs)))
        bits = [(~self.signs.word_select(q, c.outputs)) & real for q in range(c.pixels)]
        pooled = []
        for x in range(columns // 2):
            pooled.append(bits[2 * x] | bits[2 * x + 1] | bits[columns + 2 * x] | bits[columns + 2 * x + 1])
        enable = Signal(c.pixels)
        values = []
        for q in range(c.pixels):
            row, column = divmod(q, columns)
            here = pooled[column % (columns // 2)]
            values.append(Mux(step.pool, here, bits[q]))
            right_half = column >= columns // 2
            taken = (odd_row == row) & (odd_column == right_half)
            m.d.comb += enable[q].eq(Mux(step.vector, q == 0, Mux(step.pool, taken, 1)))

        placed = []
        for q in range(c.pixels):
            word = Cat(*(values[q] & (slot == s).replicate(c.outputs) for s in range(slots)))
            if q == 0:
                word = Mux(self.pool_write[0], self.average, Mux(self.pool_write[1], self.learned, word))
            placed.append(word)
        m.d.comb += [
            self.data.eq(Cat(*placed)),
            self.mask.eq(Cat(slot <= s for s in range(slots))),
            self.address.eq(place), self.enable.eq(Mux(self.strobe, enable, 0))]
        with m.If(self.pool_write.any()):
            m.d.comb += [self.enable.eq(1), self.mask.eq(-1)]
        with m.If(self.pool_write[1] & step.gap):
            m.d.comb += self.address.eq(place + step.target_row)
        return m
