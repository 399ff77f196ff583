"""Bit planes: RGB bytes in, words of their bits out."""

from amaranth import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..compile.config import byte_words
from .signals import unnamed

BYTE_BITS = 8


class BitPlanes(wiring.Component):
    """The bits of the bytes table[R], table[G], table[B] of a pixel, in words.

    A word holds some neighbouring bits of each byte.  A bit of twice the value stands in twice as
    many lanes (`fbnn_hw.compile.config.byte_words`).

    Twin: `fbnn_hw.reference.encode.first_map` of `fbnn_hw.ir.ops.Bits8`.

    Parameters
    ----------
    lanes : int
        Bits of a word, at least 3.
    table : tuple of 256 integers
        0 to 255; none: the bytes as they are.

    Members
    -------
    pixels : In(stream.Signature(8))
        R, G, B of a pixel, pixels in raster order.
    words : Out(stream.Signature(lanes))
        The words of a pixel, that of the lowest bits first: lanes of R, of G, of B, the others 0.

    Timing
    ------
    A clock for each word of a pixel, at least four: the words leave while the next three bytes are
    taken.  A `ThermometerEncoder` with multipliers and as many pieces takes the same clocks.

    Resources
    ---------
    56 flip-flops; with a table a block RAM of 256 bytes.
    """

    def __init__(self, lanes, table=()):
        self.lanes, self.table = lanes, tuple(table)
        super().__init__({"pixels": In(stream.Signature(8)), "words": Out(stream.Signature(lanes))})

    def elaborate(self, platform):
        m = Module()
        taken = unnamed()  # a byte comes in
        adding = unnamed()  # its bits are in `byte`
        passed = unnamed()  # three bytes go on to `leaving`
        busy = unnamed()  # `leaving` has words to give
        done = unnamed()  # its last word goes
        count = unnamed(range(4))  # bytes of the pixel that have come in
        added = Signal(range(4))  # bytes of the pixel in `incoming`
        byte = Signal(8)
        if self.table:
            m.submodules.table = table = Memory(shape=8, depth=256, init=self.table, attrs={"ram_style": "block"})
            port = table.read_port()
            m.d.comb += [port.addr.eq(self.pixels.payload), byte.eq(port.data)]
        else:
            m.d.sync += byte.eq(self.pixels.payload)
        m.d.comb += [
            passed.eq((added == 3) & (~busy | done)), self.pixels.ready.eq((count != 3) | passed),
            taken.eq(self.pixels.valid & self.pixels.ready)]
        m.d.sync += adding.eq(taken)
        with m.If(passed):
            m.d.sync += [count.eq(taken), added.eq(0)]
        with m.Else():
            m.d.sync += [count.eq(count + taken), added.eq(added + adding)]
        incoming = unnamed(24)  # the pixel that comes: blue, green, red
        leaving = unnamed(24)  # the pixel whose words are given
        with m.If(adding):
            m.d.sync += incoming.eq(Cat(byte, incoming))
        with m.If(done | passed):
            m.d.sync += busy.eq(passed)
        words = byte_words(self.lanes)
        number = Signal(range(len(words)))
        colours = [leaving.word_select(i, BYTE_BITS) for i in (2, 1, 0)]
        m.d.comb += [self.words.valid.eq(busy), done.eq(busy & self.words.ready & (number == len(words) - 1))]
        with m.Switch(number):
            for index, word in enumerate(words):
                with m.Case(index):
                    m.d.comb += self.words.payload.eq(Cat(colour[bit] for colour in colours for bit in word))
        with m.If(busy & self.words.ready):
            m.d.sync += number.eq(number + 1)
        with m.If(done):
            m.d.sync += number.eq(0)
        with m.If(passed):
            m.d.sync += leaving.eq(incoming)
        return m
