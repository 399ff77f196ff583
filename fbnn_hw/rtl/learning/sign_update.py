"""The step of a word of counters, whose signs are the weights."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class SignUpdate(wiring.Component):
    """h' = min(max(h + move, -2^(B-1)), 2^(B-1) - 1), w' = sign(h'), for all counters of a word at once.

    | input       | move of counter n                                                       |
    |-------------|-------------------------------------------------------------------------|
    | keep_n = 0  | 0                                                                       |
    | keep_n = 1  | +1 where the input bit v_n is 1, else -1                                |
    | `negative`  | the same with the sign turned round                                     |
    | `start`     | -1; from h = 0 this makes the counters of a new row, 0 or -1            |
    | `shipped`   | as `start`; the counters then become s or -1 - s, in place of 0 or -1   |
    | `halve`     | as without it, from h / 2, rounded down                                 |

    Twin: `Learner._move` and `fbnn_hw.reference.learning.rules`.

    Parameters:
    - count: counters of a word.
    - bits, stored: B, and the bits of a counter in the word; the upper ones are 0.
    - confidence: s of shipped weights.
    - halves: there is `halve`, and no counter is moved beyond its ends: with the rule "nearest-mean" no sum is larger than the number of
      samples, which is halved in time (`LearnConfig.most_presented`).

    Timing: Combinational.
    """

    def __init__(self, count, bits, stored, confidence=0, halves=False):
        self.count, self.bits, self.stored, self.confidence, self.halves = count, bits, stored, confidence, halves
        super().__init__({
            "counters": In(count * stored),  # two's complement, counter n at n * stored, as in `updated`
            "values": In(count), "keep": In(count), "negative": In(1), "start": In(1), "shipped": In(1),
            **({"halve": In(1)} if halves else {}),
            "updated": Out(count * stored), "weights": Out(count)})

    def elaborate(self, platform):
        m = Module()
        bits, far = self.bits, self.confidence
        for n in range(self.count):
            h = self.counters.word_select(n, self.stored)[:bits]
            if self.halves:
                h = Mux(self.halve, Cat(h[1:], h[-1]), h)
            up = Signal(name=f"up{n}")
            moved = Signal(bits, name=f"moved{n}")
            ones = Const((1 << bits - 1) - 1, bits - 1)  # the end: below the sign all bits equal the direction
            at_end = (h[:-1] == Mux(up, ones, 0)) & (h[-1] != up) if bits > 1 else h[-1] != up
            free = h + Cat(self.keep[n], (self.keep[n] & ~up).replicate(bits - 1))  # does not wait for `at_end`
            m.d.comb += [
                up.eq((self.values[n] ^ self.negative) & ~self.start), moved.eq(free if self.halves else Mux(at_end, h, free))]
            value = moved ^ (far * self.shipped if far else 0)
            m.d.comb += [self.updated.word_select(n, self.stored).eq(value[:bits]), self.weights[n].eq(~value[bits - 1])]
        return m
