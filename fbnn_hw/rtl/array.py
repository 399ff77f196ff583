"""The XNOR-popcount array: Q pixels x P outputs, L products each, a cycle."""

from functools import partial

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..base.errors import UsageError
from ..machine import timing
from ..machine.starts import least_bits
from .fanout import add, copy_of
from .popcount import XnorPopcount

SHARE = 4
"""Popcounts that take an operand from one copy."""
FLAGS = 8
"""Popcounts whose copies of the flags take them from one copy."""


class MacArray(wiring.Component):
    """The accumulator of pixel q and output p is [start[p] +] the sum of matches - L / 2 over a block's reads.

    matches counts equal bits of pixel q and weight p.  A match adds half of what a product adds to a
    dot product, so the sum is dot / 2.  `fbnn_hw.compile.weights` chooses the weights of lanes without
    a channel so that the sum is matches - ceil(fan_in / 2), and the start of a neuron with a threshold.
    An output bit is accumulator >= 0.  Twin: `fbnn_hw.reference.inference`.

    Parameters:
    - pixels, lanes, outputs, accumulator_bits: Q, L, P and the width of an accumulator; L is a power of two.
    - starts: neurons have start values.
    - start_reads: of a start value the array takes what is a multiple of L.  The rest comes from the first read of a block, which
      has less than L matches.  A read adds its matches, not matches - L / 2.
    - shift: places by which accumulators can be shifted to the left; 0: they cannot.
    - style: of the popcounts.

    Timing: Complete timing.array(L) cycles after the last read's pixels.  After a reset the accumulators of a
    large array (`timing.large`) keep their values.

    Resources: An accumulator takes one LUT a bit; with `starts` alone two, where adders are LUTs with a carry chain.  A large array
    has copies of the operands that its popcounts share.

    Raises UsageError if L is no power of two; if an accumulator with `start_reads` has fewer bits than `least_bits`.
    """

    def __init__(self, pixels, lanes, outputs, accumulator_bits, starts=False, style="lut4", shift=0, start_reads=False):
        if lanes < 2 or lanes & (lanes - 1):
            raise UsageError(f"array: {lanes} lanes, expected a power of two from 2 on")
        if start_reads and accumulator_bits < least_bits(lanes):
            raise UsageError(f"array: accumulators of {accumulator_bits} bits, expected {least_bits(lanes)} or more with start reads")
        self.shape, self.starts, self.style = (pixels, lanes, outputs, accumulator_bits), starts, style
        self.shift, self.start_reads = shift, start_reads
        super().__init__({
            "pixels": In(pixels * lanes),  # Q words
            "weights": In(outputs * lanes),  # P words: output p, lane l at p * L + l
            "valid": In(1),  # the words count
            "first": In(1),  # they begin a block
            **({"start": In(outputs * accumulator_bits)} if starts else {}),  # P signed values
            **({"shifted": In(1)} if shift else {}),  # the accumulators are shifted before the words count
            "accumulators": Out(pixels * outputs * accumulator_bits)})  # signed values, (q, p) at place q * P + p

    def elaborate(self, platform):
        m = Module()
        pixels, lanes, outputs, bits = self.shape
        valid, first, *shifted = self.valid, self.first, *([self.shifted] if self.shift else [])
        registers, large = timing.popcount_registers(lanes), timing.large(lanes)
        branches = large and outputs > FLAGS
        for stage in range(timing.array(lanes) - 1 - 2 * large - branches):
            later_valid = Signal(name=f"valid{stage}")  # `valid` a stage later
            later_first = Signal(name=f"first{stage}")  # `first` a stage later
            m.d.sync += [later_valid.eq(valid), later_first.eq(first)]
            valid, first = later_valid, later_first
            if shifted:
                after = Signal(name=f"shifted{stage}")
                m.d.sync += after.eq(shifted[0])
                shifted = [after]

        def copy(value, *place):
            return copy_of(m, platform, "_".join(map(str, ("copy", *place))), value)

        def to_each(word, popcounts, *place):
            """The operand of each of the popcounts that share a word: the word, or a copy for SHARE of them."""
            if not large:
                return [word] * popcounts
            copies = [copy(word, *place, start) for start in range(0, popcounts, SHARE)]
            return [copies[n // SHARE] for n in range(popcounts)]

        act = [to_each(self.pixels.word_select(q, lanes), outputs, "act", q) for q in range(pixels)]
        weights = [to_each(self.weights.word_select(p, lanes), pixels, "weight", p) for p in range(outputs)]
        make = partial(XnorPopcount, lanes, registers, self.style, leaves=large)
        module = f"popcount_{lanes}_{registers}_{self.style}"
        top = lanes.bit_length() - 1
        sums = []
        for q in range(pixels):
            flags = copy(Cat(valid, first, *shifted), "flags", q) if large else Cat(valid, first, *shifted)
            branch = [copy(flags, "flags_branch", q, p) if branches else flags for p in range(0, outputs, FLAGS)]
            for p in range(outputs):
                popcount = add(m, platform, f"popcount_{q}_{p}", module, make)
                accumulator = Signal(signed(bits), name=f"accumulator_{q}_{p}", reset_less=large)
                m.d.comb += [popcount.act.eq(act[q][p]), popcount.weight.eq(weights[p][q])]
                counts, begins, *moved = copy(branch[p // FLAGS], "flags", q, p) if large else flags
                # count - L / 2: one bit inverted, and the sign.
                count = popcount.count
                addend = Cat(count[:top - 1], ~count[top - 1], ~(count[top] | count[top - 1])).as_signed()
                before = accumulator
                if moved:
                    before = Mux(moved[0], accumulator << self.shift, accumulator)[:bits].as_signed()
                with m.If(counts):
                    if self.start_reads:
                        m.d.sync += accumulator.eq(self._begun(begins, self.start.word_select(p, bits), before, count, top))
                    elif self.starts:
                        start = self.start.word_select(p, bits).as_signed()
                        m.d.sync += accumulator.eq(Mux(begins, start, before) + addend)
                    else:
                        m.d.sync += accumulator.eq(Mux(begins, addend, before + addend))
                sums.append(accumulator)
        m.d.comb += self.accumulators.eq(Cat(*sums))
        return m

    def _begun(self, begins, start, before, count, top):
        """The next sum, with start reads.

        Bit `top` of the count is 0 in a start read, so that of the start value takes its place.  Above it the adder has nothing to add,
        which leaves one input of its LUT for `begins`: then the LUT gives the start value, and what the carry chain makes of it is lost.
        """
        low = Cat(count[:top], count[top] | (begins & start[top]))
        upper = start[top + 1:]
        return Mux(begins, Cat(low, upper), before + Cat(low, begins.replicate(len(upper))))
