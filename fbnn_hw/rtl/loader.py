"""Encoded pixels into the banks."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .bitplanes import BitPlanes
from .sequencer import Widths, bits_for
from .signals import unnamed
from .thermometer import ThermometerEncoder


class Loader(wiring.Component):
    """RGB bytes or packed levels in raster order -> encoded words at their places in the banks, from address 0 on.

    Timing: `ThermometerEncoder` determines the cycles of a pixel.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "pixels": In(stream.Signature(8)),
            "enable": In(1),  # the port is free for a write in the next cycle
            "write": Out(config.pixels),  # one bit a bank: the bank is written
            "address": Out(Widths(config).address),
            "word": Out(config.lanes),  # 0 while no bank is written
            "done": Out(1)})  # strobes a cycle before the last word of an image

    def elaborate(self, platform):
        m = Module()
        c, w = self.config, Widths(self.config)
        if c.encoder == "bits8":
            encoder = BitPlanes(c.lanes, c.table, c.word_pixels)
        else:
            encoder = ThermometerEncoder(c.encoder, c.levels, c.lanes, c.encoder_bits, c.threshold)
        m.submodules.encoder = encoder
        wiring.connect(m, wiring.flipped(self.pixels), encoder.pixels)
        m.d.comb += encoder.words.ready.eq(self.enable)
        if c.takes_levels and c.size ** 2 * c.pixel_bits % 8:  # the last byte of an image is filled up
            m.d.comb += encoder.end.eq(self.done)
        if c.packed:
            self._vector(m, encoder.words)
            return m
        if c.lists:
            self._planes(m, encoder.words)
            return m
        blocks = c.size // c.columns
        taken = Signal()
        count = Signal(bits_for([c.input_words - 1]))
        column = Signal(range(c.columns))
        block = Signal(bits_for([blocks - 1]))
        y = Signal(range(c.size))
        line = unnamed(w.address)
        place = Signal(w.address)
        m.d.comb += taken.eq(encoder.words.valid & self.enable)
        ends = Signal(4)
        m.d[self._early()] += ends.eq(Cat(column == c.columns - 1, block == blocks - 1, y[0], y == c.size - 1))
        m.d.sync += self.word.eq(0)
        with m.If(taken):
            m.d.sync += self.word.eq(encoder.words.payload)
        m.d.sync += [self.address.eq(place + count), self.write.eq(taken << (y[0] * c.columns + column))]
        with m.If(taken):
            m.d.sync += count.eq(count + 1)
            with m.If(count == c.input_words - 1):
                m.d.sync += [count.eq(0), column.eq(column + 1)]
                with m.If(ends[0]):
                    m.d.sync += [block.eq(block + 1), place.eq(place + c.input_words)]
                    with m.If(ends[1]):
                        m.d.sync += [block.eq(0), y.eq(y + 1), place.eq(line)]
                        with m.If(ends[2]):
                            m.d.sync += [line.eq(line + blocks * c.input_words), place.eq(line + blocks * c.input_words)]
                        with m.If(ends[3]):
                            m.d.sync += [y.eq(0), line.eq(0), place.eq(0)]
                            m.d.comb += self.done.eq(1)
        return m

    def _early(self):
        """The domain of what ends with a word: known before it comes, where a pixel's last word is not followed by another one at once."""
        return "sync" if self.config.input_words > 1 or not self.config.takes_levels else "comb"

    def _planes(self, m, words):
        """Place the words of a pixel in planes, for images of any size.  With quarters the image is stored as four of half the size."""
        c, w = self.config, Widths(self.config)
        side = c.size // 2 if c.quarters else c.size
        across = -(-side // c.columns)
        plane = -(-side // 2) * across  # blocks
        x = unnamed(range(c.size))  # column of the pixel that comes
        y = Signal(range(c.size))  # its row
        row, column = (y[1:], x[1:]) if c.quarters else (y, x)
        shift = (c.columns - 1).bit_length()
        line = unnamed(w.address)  # first word of the row of blocks
        offset = unnamed(w.address)  # from there to the plane that is written
        count = Signal(bits_for([c.input_words - 1]))  # words of the pixel that have come
        taken = unnamed()  # a word comes in
        ends = unnamed(2)  # the pixel is the last one of its row; the row is the last one
        pixel_done = unnamed()  # the pixel's last
        line_done = unnamed()  # the row's last
        image_done = unnamed()  # the image's last
        m.d.comb += [
            taken.eq(words.valid & self.enable), pixel_done.eq(taken & (count == c.input_words - 1)),
            line_done.eq(pixel_done & ends[0]), image_done.eq(line_done & ends[1]), self.done.eq(image_done)]
        m.d[self._early()] += ends.eq(Cat(x == c.size - 1, y == c.size - 1))
        odd = row[0] if len(row) else Const(0, 1)
        bank = column[:shift] | (odd << shift)
        m.d.sync += [self.word.eq(0), self.address.eq(line + column[shift:] + offset), self.write.eq(taken << bank)]
        with m.If(taken):
            m.d.sync += [self.word.eq(words.payload), count.eq(count + 1), offset.eq(offset + plane)]
        with m.If(pixel_done):
            m.d.sync += [count.eq(0), x.eq(x + 1), offset.eq(0)]
            if c.quarters:
                m.d.sync += offset.eq(Mux(y[0], 2 * c.input_words * plane, 0) + Mux(x[0], 0, c.input_words * plane))
        with m.If(line_done):
            m.d.sync += [x.eq(0), y.eq(y + 1)]
            with m.If(odd & (y[0] if c.quarters else 1)):
                m.d.sync += line.eq(line + across)
            if c.quarters:
                m.d.sync += offset.eq(Mux(y[0], 0, 2 * c.input_words * plane))
        with m.If(image_done):
            m.d.sync += [y.eq(0), line.eq(0), offset.eq(0)]

    def _vector(self, m, words):
        """Collect pixels of one bit, in raster order, as the lanes of a vector."""
        c, w = self.config, Widths(self.config)
        pixel = unnamed(range(c.size ** 2))  # number of the pixel that comes
        lane = unnamed(range(c.lanes))  # its lane
        place = Signal(w.address)  # the word that it belongs to
        held = unnamed(c.lanes)  # pixels of the word that have come before
        value = Signal(c.lanes)  # with the one that comes
        taken = unnamed()  # a pixel comes in
        full = Signal()  # it completes the word
        m.d.comb += [
            taken.eq(words.valid & self.enable), value.eq(held | words.payload[0] << lane),
            self.done.eq(taken & (pixel == c.size ** 2 - 1)), full.eq(taken & (lane == c.lanes - 1) | self.done)]
        m.d.sync += [self.word.eq(0), self.address.eq(place), self.write.eq(full)]
        with m.If(taken):
            m.d.sync += [pixel.eq(pixel + 1), lane.eq(lane + 1), held.eq(value)]
        with m.If(full):
            m.d.sync += [self.word.eq(value), held.eq(0), lane.eq(0), place.eq(place + 1)]
        with m.If(self.done):
            m.d.sync += [pixel.eq(0), place.eq(0)]
