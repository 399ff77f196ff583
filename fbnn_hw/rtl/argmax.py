"""Class of the largest logit."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..base.errors import UsageError


class Argmax(wiring.Component):
    """best = argmax_i score_i over a sequence; ties go to the lowest index.

    Twin: `fbnn_hw.reference.inference.classify`.

    Parameters:
    - width: bits of a score.
    - classes: scores a sequence, at most.

    Timing: `best` and `best_score` cover a score one clock after it, and hold until the next one; a score a clock.
    """

    def __init__(self, width, classes):
        if width < 1 or classes < 1:
            raise UsageError(f"argmax: {classes} classes of {width} bits, expected at least 1 class of 1 bit")
        self.width, self.classes = width, classes
        super().__init__({
            "valid": In(1),  # `score` counts in this clock
            "first": In(1),  # with `valid`: begins a sequence and makes its index 0, the next ones are 1, 2 ...
            "score": In(signed(width)),
            "best": Out(range(max(2, classes))),
            "best_score": Out(signed(width))})

    def elaborate(self, platform):
        m = Module()
        following = Signal.like(self.best)
        index = Signal.like(self.best)
        # A score of unsigned numbers, whose complement is kept: then one carry chain without an inverter says which is larger.
        sign = 1 << self.width - 1
        score = Signal(self.width)
        rest = Signal(self.width)  # the largest number less the best score
        larger = (score + rest)[-1]
        m.d.comb += [index.eq(Mux(self.first, 0, following)), score.eq(self.score ^ sign), self.best_score.eq(~rest ^ sign)]
        with m.If(self.valid):
            m.d.sync += following.eq(index + 1)
        with m.If(self.valid & (self.first | larger)):
            m.d.sync += [self.best.eq(index), rest.eq(~score)]
        return m
