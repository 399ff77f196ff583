"""Where the pixels of a 2 x Q/2 block lie when it is moved by a tap, and how they come back into order.

Bank (r, c) holds the pixels with y % 2 == r and x % (Q/2) == c.  A block moved by (ky - 1, kx - 1) still needs exactly
one pixel of each bank: in the block's own word, or in that of the neighbour across the edge it crosses.
"""

from functools import partial

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..machine import timing
from .fanout import copy_of
from .sequencer import EDGE, Widths
from .signals import unnamed


def flags_early(config):
    """Cycles by which the inputs of an align but for the data come before the data.

    Behind memories with registers there is time for a copy of what each word needs, without long wires.
    """
    return int(config.memory_registers > 0)


def _needed(m, platform, config, value, *place):
    """The value for the words of one place: a copy, a cycle later, where flags come early."""
    if not flags_early(config):
        return value
    return copy_of(m, platform, "_".join(map(str, ("copy", *place))), value)


def _register(m, pixel, dy, dx):
    """The register of a pixel's word, without reset in a large array."""
    if not timing.large(len(pixel)):
        return pixel
    register = Signal(len(pixel), name=f"pixel_{dy}_{dx}", reset_less=True)
    m.d.comb += pixel.eq(register)
    return register


class WindowAddress(wiring.Component):
    """Addresses of the Q banks for one tap.

    Timing: Two additions with a register after each.  The second register is the caller's port, so `banks`
    follows the first by combinational logic.
    """

    def __init__(self, config):
        self.config = config
        w = Widths(config)
        super().__init__({
            "address": In(w.address),  # word of the unmoved block
            "ky": In(2), "kx": In(2),  # the tap: 0, 1, 2
            "row": In(w.address), "advance": In(w.address),  # words from a block to the one below, to the right
            "banks": Out(w.address * config.pixels)})  # Q addresses, bank (r, c) at place r * Q/2 + c

    def elaborate(self, platform):
        m = Module()
        columns, width = self.config.columns, Widths(self.config).address
        right = unnamed(width)  # words by which the first column is moved
        left = unnamed(width)  # and the last one
        m.d.sync += [right.eq(Mux(self.kx == 2, self.advance, 0)), left.eq(Mux(self.kx == 0, self.advance, 0))]
        banks = []
        for r in range(2):
            # Upwards into the odd rows, downwards into the even ones.  Sums are made in any case: a LUT a bit then chooses too.
            base = Signal(width, name=f"row{r}")
            m.d.sync += base.eq(Mux(self.ky == 2, self.address + self.row, self.address) if r == 0 else
                                Mux(self.ky == 0, self.address - self.row, self.address))
            for c in range(columns):
                if c == 0:
                    banks.append((base + right)[:width])
                elif c == columns - 1:
                    banks.append((base - left)[:width])
                else:
                    banks.append(base)
        m.d.comb += self.banks.eq(Cat(*banks))
        return m


class WindowAlign(wiring.Component):
    """Bank data -> pixels of the block in order; pixels outside the map read as -1 (bits 0).

    Timing: Latency 1.  All inputs but `data` and `valid` come `flags_early` cycles before it.
    """

    def __init__(self, config):
        self.config = config
        bits = config.row_bits
        super().__init__({
            "data": In(bits),  # words in the order of the banks
            "ky": In(2), "kx": In(2),  # the tap
            "top": In(1), "bottom": In(1), "left": In(1), "right": In(1),  # the edges of the map that the block touches
            **({"blank": In(1)} if config.start_reads else {}),  # all pixels read as -1
            "valid": In(1, init=1),  # beside the data: the block counts, else the pixels stay, so that the array rests
            "pixels": Out(bits)})  # words in the order of the pixels

    def elaborate(self, platform):
        m = Module()
        columns, lanes = self.config.columns, self.config.lanes
        words = [self.data.word_select(i, lanes) for i in range(2 * columns)]
        needed = partial(_needed, m, platform, self.config)
        moved = []
        for dy in range(2):  # pixel (dy, .) lies in the row of banks (dy + ky - 1) % 2
            for c in range(columns):
                moved.append(Mux(needed(self.ky[0], "row", dy, c), words[dy * columns + c], words[(1 - dy) * columns + c]))
        outside_row = [self.top & (self.ky == 0), self.bottom & (self.ky == 2)]
        if self.config.start_reads:
            outside_row = [row | self.blank for row in outside_row]
        for dy in range(2):
            for dx in range(columns):
                row = moved[dy * columns:(dy + 1) * columns]
                left, middle, right = (row[(dx + k - 1) % columns] for k in range(3))
                outside = outside_row[dy]
                if dx == 0:
                    outside = outside | self.left & (self.kx == 0)
                if dx == columns - 1:
                    outside = outside | self.right & (self.kx == 2)
                # With two columns, left and right are the same bank, so one multiplexer is enough.
                side = left if columns == 2 else Mux(needed(self.kx[1], "side", dy, dx), right, left)
                value = Mux(needed(self.kx[0], "middle", dy, dx), middle, side) & (~needed(outside, "outside", dy, dx)).replicate(lanes)
                pixel = _register(m, self.pixels.word_select(dy * columns + dx, lanes), dy, dx)
                with m.If(self.valid):
                    m.d.sync += pixel.eq(value)
        return m


class ListedAddress(wiring.Component):
    """Addresses of the Q banks for a block that is moved by any number of pixels.

    The block begins at an even row and at the first column of a block.  It is moved by y in 0..1 and x
    in 0..Q/2-1.  Its pixel (dy, dx) then lies

    - in bank ((dy + y) % 2, (dx + x) % (Q/2)),
    - in the next row of blocks if dy + y > 1, so bank row 0 is one row of blocks further if y = 1,
    - in the next column if dx + x > Q/2 - 1, so bank column c is one column further if c < x.

    Timing: As `WindowAddress`.
    """

    def __init__(self, config):
        self.config = config
        w = Widths(config)
        super().__init__({
            "address": In(w.address),  # word of pixel (0, 0) without the move by y and x
            "y": In(1), "x": In(w.column),  # pixels by which the block is moved
            "row": In(w.address),  # words from a block to the one below
            "banks": Out(w.address * config.pixels)})  # Q addresses, bank (r, c) at place r * Q/2 + c

    def elaborate(self, platform):
        m = Module()
        columns, width = self.config.columns, Widths(self.config).address
        base = unnamed(width)  # address of the word
        down = unnamed(width)  # from there to the row of blocks below, where the block is moved down by a pixel
        right = Signal(columns)  # whether the word is a column of blocks further
        m.d.sync += [base.eq(self.address), down.eq(self.row & self.y.replicate(width)), right.eq(Cat(c < self.x for c in range(columns)))]
        banks = [(base + (down if r == 0 else 0) + right[c])[:width] for r in range(2) for c in range(columns)]
        m.d.comb += self.banks.eq(Cat(*banks))
        return m


class ListedAlign(wiring.Component):
    """Bank data -> pixels of a moved block in order; pixels outside the map read as -1 (bits 0).

    Timing: Latency 1.  All inputs but `data` and `valid` come `flags_early` cycles before it.
    """

    def __init__(self, config):
        self.config = config
        bits, column = config.row_bits, Widths(config).column
        super().__init__({
            "data": In(bits),  # words in the order of the banks
            "y": In(1), "x": In(column),  # as for `ListedAddress`
            "upper": In(EDGE), "lower": In(EDGE), "left": In(EDGE), "right": In(EDGE),  # rows and columns of blocks that the block touches
            "odd_height": In(1),  # the last row of blocks has one row of pixels
            "valid_columns": In(column),  # columns of pixels in the last column of blocks, less one
            **({"blank": In(1)} if config.start_reads else {}),  # all pixels read as -1
            "valid": In(1, init=1),  # beside the data: the block counts, else the pixels stay, so that the array rests
            "pixels": Out(bits)})  # words in the order of the pixels

    def elaborate(self, platform):
        m = Module()
        columns, lanes = self.config.columns, self.config.lanes
        words = [self.data.word_select(i, lanes) for i in range(2 * columns)]
        needed = partial(_needed, m, platform, self.config)
        rows = []
        for dy in range(2):
            ys = [needed(self.y, "row", dy, c) for c in range(columns)]
            rows.append([Mux(y, words[(1 - dy) * columns + c], words[dy * columns + c]) for c, y in enumerate(ys)])
        upper, lower, left, right = self.upper, self.lower, self.left, self.right
        upper_whole = ~(upper.last & self.odd_height)  # the row of blocks has a second row of pixels
        row_inside = [upper.inside & (~self.y | upper_whole), Mux(self.y, lower.inside, upper.inside & upper_whole)]
        if self.config.start_reads:
            row_inside = [row & ~self.blank for row in row_inside]
        for dx in range(columns):
            place = Signal(range(2 * columns), name=f"place{dx}")
            m.d.comb += place.eq(self.x + dx)
            moved, inner = place[-1], place[:-1]  # into the next column of blocks
            within = inner <= self.valid_columns
            column_inside = Mux(moved, right.inside & (~right.last | within), left.inside & (~left.last | within))
            for dy in range(2):
                value = Cat(rows[dy]).word_select(needed(inner, "place", dy, dx), lanes)
                inside = needed(row_inside[dy] & column_inside, "inside", dy, dx)
                pixel = _register(m, self.pixels.word_select(dy * columns + dx, lanes), dy, dx)
                with m.If(self.valid):
                    m.d.sync += pixel.eq(value & inside.replicate(lanes))
        return m
