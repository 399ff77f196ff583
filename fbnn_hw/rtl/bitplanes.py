"""Bit planes: RGB bytes in, words of their bits out."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..machine.config import byte_planes, byte_words
from .signals import unnamed


class BitPlanes(wiring.Component):
    """The bits of the bytes table[R], table[G], table[B] of a pixel, in words.

    A word holds some neighbouring bits of each byte of a pixel, and of those that came right before
    it.  A bit of twice the value stands in twice as many lanes (`fbnn_hw.machine.config.byte_words`).

    Twin: `fbnn_hw.reference.encode.first_map` of `fbnn_hw.ir.ops.Bits8`.

    Parameters:
    - lanes: bits of a word, at least 3 * pixels.
    - table: 256 integers from 0 to 255; none: the bytes as they are.
    - pixels: pixels that a word has bits of.

    Timing: A clock for each word of a pixel, at least four: the words leave while the next three bytes are
    taken.  A `ThermometerEncoder` with multipliers and as many pieces takes the same clocks.

    Resources: 56 flip-flops; with a table a block RAM of 256 bytes, with several pixels one of the words of a pixel.
    """

    def __init__(self, lanes, table=(), pixels=1):
        self.lanes, self.table, self.count = lanes, tuple(table), pixels
        super().__init__({
            "pixels": In(stream.Signature(8)),  # R, G, B of a pixel, pixels in raster order
            # The words of a pixel, that of the lowest bits first: lanes of R, of G, of B of the first pixel, then of the next ones up to
            # the pixel itself, the others 0.
            "words": Out(stream.Signature(lanes))})

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
        incoming = [unnamed(8) for _ in range(3)]  # the pixel that comes: red, green, blue
        leaving = [unnamed(8) for _ in range(3)]  # the pixel whose words are given, without the bits of those before
        with m.If(adding):
            m.d.sync += [after.eq(before) for after, before in zip(incoming, [*incoming[1:], byte])]
        with m.If(done | passed):
            m.d.sync += busy.eq(passed)
        words, planes = byte_words(self.lanes, self.count), byte_planes(self.lanes, self.count)
        number = Signal(range(len(words)))
        next_number = Signal.like(number)
        last = Signal()
        going = Signal()  # a word leaves
        m.d.comb += [
            self.words.valid.eq(busy), going.eq(busy & self.words.ready), last.eq(number == len(words) - 1), done.eq(going & last),
            next_number.eq(Mux(going, Mux(last, 0, number + 1), number))]
        m.d.sync += number.eq(next_number)
        seen = [colour[:planes] for colour in leaving]
        if self.count > 1:
            seen = [*self._before(m, len(words), number, next_number, going, seen), *seen]
        with m.If(last):  # it may have fewer bits
            m.d.comb += self.words.payload.eq(Cat(bits[bit - words[-1][-1]] for bits in seen for bit in words[-1]))
        with m.Else():
            m.d.comb += self.words.payload.eq(Cat(bits[bit] for bits in seen for bit in words[0]))
        with m.If(going):
            m.d.sync += [colour.eq(colour[planes:]) for colour in leaving]
        with m.If(passed):
            m.d.sync += [after.eq(before) for after, before in zip(leaving, incoming)]
        return m

    def _before(self, m, words, number, next_number, going, seen):
        """The bits of the pixels before this one that its word `number` has: a memory has those of the words of one pixel."""
        bits = sum(map(len, seen))
        m.submodules.before = before = Memory(shape=bits * (self.count - 1), depth=words, init=[], attrs={"ram_style": "block"})
        read, write = before.read_port(), before.write_port()
        m.d.comb += [read.addr.eq(next_number), write.addr.eq(number), write.en.eq(going), write.data.eq(Cat(read.data[bits:], *seen))]
        return [read.data.word_select(i, len(seen[0])) for i in range(3 * (self.count - 1))]
