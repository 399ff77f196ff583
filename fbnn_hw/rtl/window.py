"""Where the pixels of a 2 x Q/2 block lie when it is moved by a tap, and how they come back into order.

Bank (r, c) holds the pixels with y % 2 == r and x % (Q/2) == c.  A block moved by (ky - 1, kx - 1) still needs exactly
one pixel of each bank: in the block's own word, or in that of the neighbour across the edge it crosses.
"""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .sequencer import Widths
from .signals import unnamed


class WindowAddress(wiring.Component):
    """Addresses of the Q banks for one tap.

    Parameters
    ----------
    config : AcceleratorConfig

    Members
    -------
    address : In
        Word of the unmoved block.
    ky, kx : In(2)
        The tap: 0, 1, 2.
    row, advance : In
        Words from a block to the one below, to the right.
    banks : Out
        Q addresses, bank (r, c) at place r * Q/2 + c.

    Timing
    ------
    Two additions with a register after each.  The second register is the caller's port, so `banks`
    follows the first by combinational logic.

    Resources
    ---------
    docs/benchmarks.md has the cells of whole designs.
    """

    def __init__(self, config):
        self.config = config
        w = Widths(config)
        super().__init__({"address": In(w.address), "ky": In(2), "kx": In(2), "row": In(w.address), "advance": In(w.address),
                          "banks": Out(w.address * config.pixels)})

    def elaborate(self, platform):
        m = Module()
        columns, width = self.config.columns, Widths(self.config).address
        kx = unnamed(2)
        advance = Signal(width)
        m.d.sync += [kx.eq(self.kx), advance.eq(self.advance)]
        banks = []
        for r in range(2):
            # Upwards into the odd rows, downwards into the even ones.  Sums are made in any case: a LUT a bit then chooses too.
            base = Signal(width, name=f"row{r}")
            m.d.sync += base.eq(Mux(self.ky == 2, self.address + self.row, self.address) if r == 0 else
                                Mux(self.ky == 0, self.address - self.row, self.address))
            for c in range(columns):
                if c == 0:
                    banks.append(Mux(kx == 2, base + advance, base)[:width])
                elif c == columns - 1:
                    banks.append(Mux(kx == 0, base - advance, base)[:width])
                else:
                    banks.append(base)
        m.d.comb += self.banks.eq(Cat(*banks))
        return m


class WindowAlign(wiring.Component):
    """Bank data -> pixels of the block in order; pixels outside the map read as -1 (bits 0).

    Parameters
    ----------
    config : AcceleratorConfig

    Members
    -------
    data : In(Q * L)
        Words in the order of the banks.
    ky, kx : In(2), top, bottom, left, right : In(1)
        The tap, and the edges of the map that the block touches.
    pixels : Out(Q * L)
        Words in the order of the pixels.

    Timing
    ------
    Latency 1.

    Resources
    ---------
    docs/benchmarks.md has the cells of whole designs.
    """

    def __init__(self, config):
        self.config = config
        bits = config.row_bits
        super().__init__({"data": In(bits), "ky": In(2), "kx": In(2), "top": In(1), "bottom": In(1), "left": In(1), "right": In(1),
                          "pixels": Out(bits)})

    def elaborate(self, platform):
        m = Module()
        columns, lanes = self.config.columns, self.config.lanes
        words = [self.data.word_select(i, lanes) for i in range(2 * columns)]
        moved = []
        for dy in range(2):  # pixel (dy, .) lies in the row of banks (dy + ky - 1) % 2
            for c in range(columns):
                moved.append(Mux(self.ky[0], words[dy * columns + c], words[(1 - dy) * columns + c]))
        outside_row = [self.top & (self.ky == 0), self.bottom & (self.ky == 2)]
        for dy in range(2):
            for dx in range(columns):
                row = moved[dy * columns:(dy + 1) * columns]
                left, middle, right = (row[(dx + k - 1) % columns] for k in range(3))
                outside = outside_row[dy]
                if dx == 0:
                    outside = outside | self.left & (self.kx == 0)
                if dx == columns - 1:
                    outside = outside | self.right & (self.kx == 2)
                # With two columns left and right are the same bank: one multiplexer.
                side = left if columns == 2 else Mux(self.kx[1], right, left)
                value = Mux(self.kx[0], middle, side) & (~outside).replicate(lanes)
                m.d.sync += self.pixels.word_select(dy * columns + dx, lanes).eq(value)
        return m
