"""The XNOR-popcount array: Q pixels x P outputs, L products each, a cycle."""

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..compile import timing
from ..errors import UsageError
from .popcount import XnorPopcount


class MacArray(wiring.Component):
    """For every pixel q and output p: accumulator = [start[p] +] sum of matches(pixel q, weight p) - L / 2 over the reads of a block.

    A match adds half of what a product adds to a dot product, so the sum is dot / 2; `fbnn_hw.compile.schedule` chooses the weights of
    lanes without a channel so that it is matches - ceil(fan_in / 2), and the start of a neuron with a threshold.
    An output bit is accumulator >= 0.  Twin: `fbnn_hw.reference.inference`.

    pixels: Q words of L bits, L a power of two; weights: P words of L bits (output p, lane l at p * L + l), in the same cycle, with first
    and valid.  start: P signed values, there if `starts`; without them an accumulator is one LUT a bit, with them two.
    accumulators: Q * P signed values, (q, p) at place q * P + p, complete timing.popcount_registers(L) + 1 cycles after the last read's
    pixels.
    style: of the popcounts.  Raises UsageError if L is no power of two.
    """

    def __init__(self, pixels, lanes, outputs, accumulator_bits, starts=False, style="lut4"):
        if lanes < 2 or lanes & (lanes - 1):
            raise UsageError(f"array: {lanes} lanes, expected a power of two from 2 on")
        self.shape, self.starts, self.style = (pixels, lanes, outputs, accumulator_bits), starts, style
        super().__init__({
            "pixels": In(pixels * lanes), "weights": In(outputs * lanes), "valid": In(1), "first": In(1),
            **({"start": In(outputs * accumulator_bits)} if starts else {}), "accumulators": Out(pixels * outputs * accumulator_bits)})

    def elaborate(self, platform):
        m = Module()
        pixels, lanes, outputs, bits = self.shape
        valid, first = self.valid, self.first
        registers = timing.popcount_registers(lanes)
        for stage in range(registers):
            later = Signal(name=f"valid{stage}"), Signal(name=f"first{stage}")
            m.d.sync += [later[0].eq(valid), later[1].eq(first)]
            valid, first = later
        top = lanes.bit_length() - 1
        sums = []
        for q in range(pixels):
            for p in range(outputs):
                m.submodules[f"popcount_{q}_{p}"] = popcount = XnorPopcount(lanes, registers, self.style)
                accumulator = Signal(signed(bits), name=f"accumulator_{q}_{p}")
                m.d.comb += [popcount.act.eq(self.pixels.word_select(q, lanes)), popcount.weight.eq(self.weights.word_select(p, lanes))]
                # count - L / 2: one bit turned round, and the sign.
                count = popcount.count
                addend = Cat(count[:top - 1], ~count[top - 1], ~(count[top] | count[top - 1])).as_signed()
                with m.If(valid):
                    if self.starts:
                        start = self.start.word_select(p, bits).as_signed()
                        m.d.sync += accumulator.eq(Mux(first, start, accumulator) + addend)
                    else:
                        m.d.sync += accumulator.eq(Mux(first, addend, accumulator + addend))
                sums.append(accumulator)
        m.d.comb += self.accumulators.eq(Cat(*sums))
        return m
