"""The XNOR-popcount array: Q pixels x P outputs, L products each, a cycle."""

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..compile import timing
from .popcount import XnorPopcount

POPCOUNT_REGISTERS = timing.ACCUMULATED - timing.READ - 2


class MacArray(wiring.Component):
    """For every pixel q and output p: accumulator = start[p] + sum of matches(pixel q, weight p) over the reads of a block.

    Since dot = 2 * matches - fan_in, an output bit (dot >= threshold) is accumulator >= 0 when
    start = -ceil((fan_in + threshold) / 2).  Twin: `fbnn_hw.reference.inference`.

    pixels: Q words of L bits; weights: P words of L bits (output p, lane l at p * L + l), in the same cycle, with first
    and valid.  start: P signed values.  accumulators: Q * P signed values, (q, p) at place q * P + p, complete
    POPCOUNT_REGISTERS + 1 cycles after the last read's pixels.  style: of the popcounts.
    """

    def __init__(self, pixels, lanes, outputs, accumulator_bits, style="lut4"):
        self.shape, self.style = (pixels, lanes, outputs, accumulator_bits), style
        super().__init__({
            "pixels": In(pixels * lanes), "weights": In(outputs * lanes), "valid": In(1), "first": In(1),
            "start": In(outputs * accumulator_bits), "accumulators": Out(pixels * outputs * accumulator_bits)})

    def elaborate(self, platform):
        m = Module()
        pixels, lanes, outputs, bits = self.shape
        valid, first = self.valid, self.first
        for stage in range(POPCOUNT_REGISTERS):
            later = Signal(name=f"valid{stage}"), Signal(name=f"first{stage}")
            m.d.sync += [later[0].eq(valid), later[1].eq(first)]
            valid, first = later
        sums = []
        for q in range(pixels):
            for p in range(outputs):
                m.submodules[f"popcount_{q}_{p}"] = count = XnorPopcount(lanes, POPCOUNT_REGISTERS, self.style)
                accumulator = Signal(signed(bits), name=f"accumulator_{q}_{p}")
                start = self.start.word_select(p, bits).as_signed()
                m.d.comb += [count.act.eq(self.pixels.word_select(q, lanes)), count.weight.eq(self.weights.word_select(p, lanes))]
                with m.If(valid):
                    m.d.sync += accumulator.eq(Mux(first, start, accumulator) + count.count)
                sums.append(accumulator)
        m.d.comb += self.accumulators.eq(Cat(*sums))
        return m
