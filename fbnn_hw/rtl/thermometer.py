"""Thermometer encoder: RGB bytes or levels in, words of input bits out."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..base.errors import UsageError
from ..ir.ops import level_bits, planes
from ..machine import timing
from ..reference.encode import OFFSET, ROUNDING, YCC
from .levels import LevelUnpacker
from .signals import unnamed


class ThermometerEncoder(wiring.Component):
    """Channel k of a plane is 1 iff level >= k, where level = (value * levels_of_plane) >> 8.

    value is Y, Cb, Cr or R, G, B.  So each level is (m . (R, G, B) + constant) >> shift, with an integer
    row m for each plane.

    - **The product** is distributed arithmetic.  With r_k, g_k, b_k the bits k of the bytes it is
      sum_k 2^k T(r_k, g_k, b_k), and the table T of eight entries costs a LUT a bit.  The sum goes from
      the highest k to the lowest (Horner's scheme), with the constant in the last step, all modulo
      2^width.
    - **The bits of a word** are compared with the levels, one plane at a time.  A `piece` is what one
      plane gives to one word.

    Where pixels come as packed levels there is no product; a `LevelUnpacker` takes its place.  A level above
    the highest of its plane gives the same bits as the highest; with "binarize" the level is the bit.

    Twin: `fbnn_hw.reference.encode.encode`; of packed levels `thermometer` of what `unpacked` gives.

    Parameters:
    - encoder: "tycc", "trgb", "grey" or "binarize".
    - levels: as in `fbnn_hw.ir.ops.Thermometer`: a power of two with "tycc".  Ignored with "binarize".
    - lanes: bits of a word.
    - bits_per_cycle, 1, 2, 4, 8 or None: bits of each byte a clock in the sum.  0: a byte a clock, by three
      multipliers of 8 x 16 bits instead of tables.  None: pixels are packed levels
      (`fbnn_hw.reference.encode.packed`).
    - threshold: with "binarize" the least Y of a 1, see `fbnn_hw.ir.ops.Binarize`; of RGB bytes.

    Timing
    ------
    While bytes are there and words are taken, a pixel takes `cycles_per_pixel` clocks:

    - with tables 8 / bits_per_cycle + max(3, pieces): the sum, then the words, while the next three
      bytes are taken;
    - with multipliers max(4, pieces): the words leave while the next pixel is summed up;
    - of packed levels pieces.

    Where `timing.pipelined`, for the clock of a large array, registers cut the sum and the comparison in
    two: the first word comes two clocks later, and a pixel takes as long.

    `words.valid` and `words.payload` depend on registers alone,
    and so does `pixels.ready`; with multipliers or levels it depends on `words.ready` too.
    """

    def __init__(self, encoder, levels, lanes, bits_per_cycle, threshold=0):
        if encoder not in ("tycc", "trgb", "grey", "binarize"):
            raise UsageError(f"thermometer: encoder is {encoder!r}, expected 'tycc', 'trgb', 'grey' or 'binarize'")
        if encoder != "binarize" and not 2 <= levels <= 128 or encoder == "tycc" and (levels & (levels - 1) or levels > 64):
            raise UsageError(f"thermometer: levels is {levels}, expected {'2, 4, 8, 16, 32 or 64' if encoder == 'tycc' else '2 to 128'}")
        if lanes < 1:
            raise UsageError(f"thermometer: lanes is {lanes}, expected at least 1")
        if bits_per_cycle not in (None, 0, 1, 2, 4, 8):
            raise UsageError(f"thermometer: bits_per_cycle is {bits_per_cycle!r}, expected 0, 1, 2, 4, 8 or None")
        self.encoder, self.levels, self.lanes, self.bits_per_cycle = encoder, levels, lanes, bits_per_cycle
        self.planes = (1,) if encoder == "binarize" else planes(encoder, levels)
        self.takes_levels = bits_per_cycle is None
        self.level_bits = level_bits(encoder, levels)
        self.pieces = timing.encoder_pieces(self.planes, lanes)
        self.cycles_per_pixel = timing.encoder_cycles(len(self.pieces), bits_per_cycle)
        self.pipelined = timing.pipelined(lanes, len(self.pieces), bits_per_cycle)
        # The values of a sum: levels, or the byte Y, with which grey levels are compared.
        self.ranges = self.planes if encoder in ("tycc", "trgb") else (256,)
        if self.takes_levels:
            self.ranges = tuple(1 << size for size in self.level_bits)
        self.threshold = threshold
        super().__init__({
            "pixels": In(stream.Signature(8)),  # R, G, B of a pixel, pixels in raster order; or packed levels
            # ceil(channels / lanes) words a pixel; channel c is bit c % lanes of word c // lanes, bits beyond the last channel are 0.
            "words": Out(stream.Signature(lanes))} | (
            {"end": In(1)} if self.takes_levels else {}))  # as `LevelUnpacker` has it

    def elaborate(self, platform):
        m = Module()
        pieces = self.pieces
        piece = Signal(range(len(pieces)))
        # the levels are computed; the last of their words is taken
        summed = unnamed()
        done = Signal()
        if self.takes_levels:
            m.submodules.unpacker = unpacker = LevelUnpacker(self.level_bits)
            wiring.connect(m, wiring.flipped(self.pixels), unpacker.pixels)
            m.d.comb += [unpacker.end.eq(self.end), summed.eq(unpacker.levels.valid)]
        else:
            totals = (self._serial if self.bits_per_cycle else self._multiplied)(m, summed, done)

        # The words: excess = level - level of lane 0, so lane j is 1 iff excess >= j.
        plane = Signal(range(3))
        offsets = [base for _, base, _, _, _ in pieces]
        top = max(self.ranges)
        excess = Signal(signed(max(top - 1 - min(offsets), max(offsets), self.lanes).bit_length() + 1))
        offset = Signal.like(excess)
        lanes = unnamed(self.lanes, init=-1)
        ends = Signal(init=1)
        with m.Switch(piece):
            for number, (which, base, low, high, end) in enumerate(pieces):
                with m.Case(number):
                    m.d.comb += [plane.eq(which), offset.eq(base), lanes.eq((1 << high) - (1 << low)), ends.eq(end)]
        level = Signal(range(top))
        if self.takes_levels:
            m.d.comb += level.eq(unpacker.levels.payload)
        else:
            with m.Switch(plane):
                for number, total in enumerate(totals):
                    with m.Case(number):
                        m.d.comb += level.eq(total)
        m.d.comb += excess.eq(level - offset)
        valid, shown = summed, piece  # a piece is there; which one
        if self.pipelined:
            chosen = [piece, level, excess, lanes, ends]
            valid = unnamed()
            later = [Signal.like(signal) for signal in chosen]
            passes = self.words.ready | ~later[-1] | ~valid  # the next piece may come
            with m.If(passes):
                m.d.sync += [valid.eq(summed), *(after.eq(before) for after, before in zip(later, chosen))]
            shown, level, excess, lanes, ends = later
        else:
            passes = self.words.ready | ~ends
        high, low = excess[2:].as_signed(), excess[:2]
        bits = Cat((high > j // 4) | ((high == j // 4) & (low >= j % 4)) for j in range(self.lanes)) & lanes
        if self.takes_levels and self.encoder == "binarize":
            bits = level
        elif not self.takes_levels and self.ranges != self.planes:
            bits = self._grey(m, shown, level)
        if all(end for *_, end in pieces):
            m.d.comb += self.words.payload.eq(bits)
        else:
            held = Signal(self.lanes)
            m.d.comb += self.words.payload.eq(held | bits)
            with m.If(valid & (self.words.ready | ~ends)):
                m.d.sync += held.eq(Mux(ends, 0, self.words.payload))
        m.d.comb += self.words.valid.eq(valid & ends)
        with m.If(summed & passes):
            m.d.sync += piece.eq(piece + 1)
            with m.If(piece == len(pieces) - 1):
                m.d.comb += done.eq(1)
                m.d.sync += piece.eq(0)
            if self.takes_levels:
                with m.Switch(piece):
                    for number, (which, *_) in enumerate(pieces):
                        with m.Case(number):  # the last piece of its plane
                            m.d.comb += unpacker.levels.ready.eq(number == len(pieces) - 1 or pieces[number + 1][0] != which)
        return m

    def _grey(self, m, piece, level):
        """The bits of a piece from the grey level Y: each bit is 1 from a level of its own on."""
        count = self.levels
        least = [self.threshold] if self.encoder == "binarize" else [-(-256 * k // count) for k in range(count)]
        bits = Signal(self.lanes)
        with m.Switch(piece):
            for number, (_, base, low, high, _) in enumerate(self.pieces):
                with m.Case(number):
                    m.d.comb += [bits[lane].eq(level >= least[base + lane]) for lane in range(low, high)]
        return bits

    def _serial(self, m, summed, done):
        """Compute the levels by distributed arithmetic: a pixel's bytes come in, then it is summed up.

        The sum begins when the words of the pixel before have left.  With `pipelined` it is three sums by
        then, and the bytes of the next pixel come in.
        """
        digits = 8 // self.bits_per_cycle
        colours = [Signal(8, name=name) for name in ("red", "green", "blue")]
        count = unnamed(range(4))
        digit = unnamed(range(digits))
        adding = Signal()
        m.d.comb += self.pixels.ready.eq(count != 3)
        with m.If(self.pixels.valid & self.pixels.ready):
            m.d.sync += [count.eq(count + 1), Cat(colours[::-1]).eq(Cat(self.pixels.payload, colours[2], colours[1]))]
        with m.If(done):
            m.d.sync += summed.eq(0)
        presumming = Signal()
        if self.pipelined:
            presummed = Signal()  # a pixel is three sums
            m.d.comb += [presumming.eq((count == 3) & (~presummed | adding)), adding.eq(presummed & ~summed)]
            with m.If(presumming):
                m.d.sync += count.eq(0)
            with m.If(presumming | adding):
                m.d.sync += presummed.eq(presumming)
            with m.If(adding):
                m.d.sync += summed.eq(1)
        else:
            m.d.comb += adding.eq((count == 3) & ~summed)
            with m.If(adding):
                m.d.sync += digit.eq(digit + 1)
                with m.If(digit == digits - 1):
                    m.d.sync += [digit.eq(0), count.eq(0), summed.eq(1)]
        return self._sums(m, colours, digit, presumming, adding, done)

    def _multiplied(self, m, summed, done):
        """Compute the levels by multipliers, one byte a clock, while the words of the pixel before leave.

        Factors and sums have no reset, so that they may be the registers inside a multiplier.  So a sum
        takes its constant until the first byte comes.
        """
        count = unnamed(range(4))
        added = Signal(range(4))
        byte = unnamed(8, reset_less=True)
        adding = unnamed()
        passed = Signal()
        begin = Signal()
        m.d.comb += begin.eq(~adding & (passed | (added == 0)))
        m.d.comb += passed.eq((added == 3) & (~summed | done))  # the sums go to the words
        m.d.comb += self.pixels.ready.eq((count != 3) | passed)
        taken = self.pixels.valid & self.pixels.ready
        m.d.sync += [adding.eq(taken), byte.eq(self.pixels.payload)]
        with m.If(passed):
            m.d.sync += [count.eq(taken), added.eq(0)]
        with m.Else():
            m.d.sync += [count.eq(count + taken), added.eq(added + adding)]
        with m.If(done | passed):
            m.d.sync += summed.eq(passed)
        levels = []
        for plane, (row, constant, shift) in enumerate(self._rows()):
            width = shift + (self.ranges[plane] - 1).bit_length()
            total = Signal(width, reset_less=True, name=f"total{plane}")
            factor = unnamed(16, reset_less=True)
            level = Signal(width - shift)
            # Chosen with the byte, so that both may be registers of the multiplier.
            with m.Switch(count):
                for number in (1, 2):
                    with m.Case(number):
                        m.d.sync += factor.eq(row[number] % (1 << 16))
                with m.Default():
                    m.d.sync += factor.eq(row[0] % (1 << 16))
            with m.If(begin | adding):  # so written, yosys takes the multiplier's own sum, load and hold
                m.d.sync += total.eq(Mux(begin, constant, total + byte * factor))
            with m.If(passed):
                m.d.sync += level.eq(total[shift:])
            levels.append(level)
        return levels

    def _rows(self):
        """((m_r, m_g, m_b), constant, shift) of each plane."""
        if self.encoder == "trgb":
            return [(tuple(self.levels * (i == plane) for i in range(3)), 0, 8) for plane in range(3)]
        return [
            (tuple(int(v) for v in row), int(rounding) + 256 * int(offset), 16 - (size - 1).bit_length())
            for row, rounding, offset, size in zip(YCC, ROUNDING, OFFSET, self.ranges)]

    def _sums(self, m, colours, digit, presumming, adding, clear):
        """Registers that hold the three levels after `adding` was 1 for every digit.  `clear` sets them to 0.

        With `pipelined` there is one digit.  Its bits are summed up in three parts before, with `presumming`.
        """
        digits = 8 // self.bits_per_cycle
        levels = []
        for plane, (row, constant, shift) in enumerate(self._rows()):
            width = shift + (self.ranges[plane] - 1).bit_length()
            total = Signal(width, name=f"total{plane}")
            terms = []
            for k in range(self.bits_per_cycle):
                used = [i for i in range(3) if row[i]]
                bits = [Cat(colours[i][k + self.bits_per_cycle * (digits - 1 - s)] for s in range(digits)).bit_select(digit,
                                                                                                                      1) for i in used]
                last = [digit == digits - 1] if k == 0 and constant else []
                term = Signal(width, name=f"term{plane}_{k}")
                with m.Switch(Cat(bits, last)):
                    for index in range(1 << (len(used) + len(last))):
                        value = sum(row[i] for n, i in enumerate(used) if index >> n & 1) + (constant if last and index >> len(used) else 0)
                        with m.Case(index):
                            m.d.comb += term.eq(value)
                terms.append(term << k)
            if self.pipelined:
                thirds = [terms[first:first + 3] for first in range(0, len(terms), 3)]
                sums = [unnamed(width) for _ in thirds]
                with m.If(presumming):
                    m.d.sync += [part.eq(sum(third)) for part, third in zip(sums, thirds)]
                with m.If(adding):
                    m.d.sync += total.eq(sum(sums))
            else:
                with m.If(adding):
                    m.d.sync += total.eq(sum(terms, total << self.bits_per_cycle))
                with m.If(clear):
                    m.d.sync += total.eq(0)
            levels.append(total[shift:])
        return levels
