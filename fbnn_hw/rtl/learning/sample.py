"""The current sample: the bits v = (x, z) that a learner presents."""

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..signals import unnamed


class SampleMemory(wiring.Component):
    """A block RAM of the words of one sample and a place in it; word i of the fan-in is made of word i // copies by repeating bits.

    Bit l of fan-in word (w, t) is bit (t L + l) // copies of word w.

    Parameters: `words`, `lanes` and `copies`, integers.

    Timing: `word` and `act` belong to the place of the clock before.

    Resources: One block RAM; with copies a multiplexer of `copies` words.
    """

    def __init__(self, words, lanes, copies):
        self.words, self.lanes, self.copies = words, lanes, copies
        super().__init__({
            "restart": In(1),  # back to the first word
            "advance": In(1), "raw": In(1),  # to the next word: of the fan-in, or with `raw` of the sample
            "write": In(1), "data": In(lanes),  # write the sample's word at this place
            "word": Out(lanes), "act": Out(lanes)})  # the sample's word, the fan-in's

    def elaborate(self, platform):
        m = Module()
        lanes, copies = self.lanes, self.copies
        m.submodules.memory = memory = Memory(shape=lanes, depth=max(2, self.words), init=[], attrs={"ram_style": "block"})
        read, write = memory.read_port(), memory.write_port()
        place = Signal(range(max(2, self.words)))
        m.d.comb += [read.addr.eq(place), write.addr.eq(place), write.data.eq(self.data), write.en.eq(self.write), self.word.eq(read.data)]
        following = self.advance
        if copies == 1:
            m.d.comb += self.act.eq(read.data)
        else:
            copy = unnamed(range(copies))
            used = Signal(range(copies))
            m.d.sync += used.eq(copy)
            repeated = [Cat(read.data[(t * lanes + lane) // copies] for lane in range(lanes)) for t in range(copies)]
            m.d.comb += self.act.eq(Array(repeated)[used])
            with m.If(self.advance):
                m.d.sync += copy.eq(Mux((copy == copies - 1) | self.raw, 0, copy + 1))
            following = self.advance & (self.raw | (copy == copies - 1))
            with m.If(self.restart):
                m.d.sync += copy.eq(0)
        with m.If(following):
            m.d.sync += place.eq(place + 1)
        with m.If(self.restart):
            m.d.sync += place.eq(0)
        return m
