"""Encoded pixels into the banks."""

from amaranth import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .sequencer import Widths, bits_for
from .signals import unnamed
from .thermometer import ThermometerEncoder


class Loader(wiring.Component):
    """RGB bytes in raster order -> thermometer words at their places in the banks, from address 0 on.

    Parameters
    ----------
    config : AcceleratorConfig

    Members
    -------
    pixels : In(stream of 8 bits)
    enable : In(1)
        The port is free for a write in the next cycle.
    write : Out(pixels)
        One bit a bank: the bank is written.
    address : Out, word : Out(lanes)
        Place and value; `word` is 0 while no bank is written.
    done : Out(1)
        Strobes a cycle before the last word of an image.

    Timing
    ------
    `ThermometerEncoder` determines the cycles of a pixel.

    Resources
    ---------
    docs/benchmarks.md has the cells of whole designs.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({"pixels": In(stream.Signature(8)), "enable": In(1), "write": Out(config.pixels),
                          "address": Out(Widths(config).address), "word": Out(config.lanes), "done": Out(1)})

    def elaborate(self, platform):
        m = Module()
        c, w = self.config, Widths(self.config)
        encoder = ThermometerEncoder(c.encoder, c.levels, c.lanes, c.encoder_bits)
        m.submodules.encoder = encoder
        wiring.connect(m, wiring.flipped(self.pixels), encoder.pixels)
        m.d.comb += encoder.words.ready.eq(self.enable)
        blocks = c.size // c.columns
        taken = Signal()
        count = Signal(bits_for([c.input_words - 1]))
        column = Signal(range(c.columns))
        block = Signal(bits_for([blocks - 1]))
        y = Signal(range(c.size))
        line = unnamed(w.address)
        place = Signal(w.address)
        m.d.comb += taken.eq(encoder.words.valid & self.enable)
        # Where a pixel is several words, its end is known before the last of them.
        ends = Signal(4)
        m.d["sync" if c.input_words > 1 else "comb"] += ends.eq(Cat(column == c.columns - 1, block == blocks - 1, y[0], y == c.size - 1))
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
