"""Learnable global pooling."""

from types import SimpleNamespace

from amaranth.hdl import Cat, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..base.errors import UsageError
from .fanout import copy_of
from .signals import unnamed

SHARE = 64
"""Lanes that are chosen by one copy of the lane's number, with `split`."""


class Lgap(wiring.Component):
    """Global pooling, plain and learned, of one channel of a map of `size` pixels.

    With the bits x_i and the weights w_i of the channel:

        gap = [sum_i x_i >= size / 2]                        global average pooling, sign(sum of +-1)
        depthwise = [sum_i (x_i XNOR w_i) >= size / 2]       sign(dot product)

    A presentation brings `pixels` pixels of the map.  Each has all lanes of a word, and one lane counts.
    The lanes are presented one after the other.  Their bits are shifted into `gap` and `depthwise`, so
    these need no decoder.

    Twins: `fbnn_hw.reference.inference`, ops Gap and Depthwise.

    Parameters:
    - pixels, lanes: pixels a presentation (Q), channels a word (L).
    - weight_bits: bits of a weight word, a multiple of Q L.
    - size: pixels of the map.
    - split: registers before and within the choice of a lane: of one of each eight, then of one of those.

    Timing: One presentation a clock, with or without gaps.  `latency` clocks after the last presentation of a
    lane its bits stand in the words and `done` is 1: three, five with `split`.

    Raises UsageError if `weight_bits` is no multiple of pixels * lanes, a size is below 1, or `split` has no eights
    to choose from.
    """

    def __init__(self, pixels, lanes, weight_bits, size, split=False):
        if min(pixels, lanes, size) < 1:
            raise UsageError(f"lgap: pixels {pixels}, lanes {lanes}, size {size}, expected at least 1 each")
        if split and (lanes <= 8 or lanes % 8):
            raise UsageError(f"lgap: lanes is {lanes}, expected a multiple of 8 from 16 for a split choice")
        if weight_bits < 1 or weight_bits % (pixels * lanes):
            raise UsageError(f"lgap: weight_bits is {weight_bits}, expected a multiple of {pixels} pixels x {lanes} lanes")
        self.pixels, self.lanes, self.weight_bits, self.size = pixels, lanes, weight_bits, size
        self.blocks = weight_bits // (pixels * lanes)
        self.split, self.latency = split, 3 + 2 * split
        super().__init__({
            "valid": In(1),  # a presentation; everything below goes with it
            "act": In(pixels * lanes),  # pixel q, lane l in bit q * lanes + l
            "weight": In(weight_bits),  # blocks of pixels * lanes bits, packed like `act`
            "lane": In(range(lanes)),  # that counts
            **({"sub": In(range(self.blocks))} if self.blocks > 1 else {}),  # block of `weight` that counts
            "first": In(1), "last": In(1),  # first and last presentation of a lane; one presentation may be both
            "mask": In(pixels, init=(1 << pixels) - 1),  # pixels that count
            # Bit lanes - 1 is the last lane done, bit lanes - 2 the one before.  So after the lanes 0 .. lanes - 1 bit i is lane i.
            "gap": Out(lanes), "depthwise": Out(lanes),
            "done": Out(1)})  # strobes with a new bit

    def elaborate(self, platform):
        m = Module()
        q, l = self.pixels, self.lanes

        # Stage 1: the lane's bits, one a pixel.
        act = unnamed(q)
        weight = unnamed(q)
        mask = Signal(q)
        valid = Signal(2)
        first = Signal(2)
        last = Signal(2)
        inputs = self
        if self.split:
            inputs, l = self._eighths(m, platform), l // 8
        lane = inputs.lane
        m.d.sync += [
            act.eq(Cat(inputs.act.word_select(i, l).bit_select(lane, 1) for i in range(q))), mask.eq(inputs.mask),
            valid.eq(Cat(inputs.valid, valid)), first.eq(Cat(inputs.first, first)), last.eq(Cat(inputs.last, last))]
        for i in range(q):
            choices = Cat(inputs.weight.word_select(block * q + i, l) for block in range(self.blocks))
            index = Cat(lane, inputs.sub) if self.blocks > 1 and l & (l - 1) == 0 else None
            if index is not None:
                m.d.sync += weight[i].eq(choices.bit_select(index, 1))
            else:
                block = choices.word_select(inputs.sub, l) if self.blocks > 1 else choices
                m.d.sync += weight[i].eq(block.bit_select(lane, 1))

        # Stage 2: ones and matches.  Stage 3: both sums, which start at -limit, so the sign tells.
        results = []
        limit = (self.size + 1) // 2  # of ones, of matches: sign(2 P - size) with sign(0) = +1
        for name, bits in (("gap", act & mask), ("depthwise", ~(act ^ weight) & mask)):
            count = Signal(range(q + 1), name=f"{name}_count")
            m.d.sync += count.eq(sum(bits[i] for i in range(q)))
            reach = max(limit, self.size - limit, 1)
            total = Signal(signed(reach.bit_length() + 1), name=f"{name}_sum")
            added = Signal.like(total, name=f"{name}_added")
            m.d.comb += added.eq(total + count)
            with m.If(valid[1]):
                m.d.sync += total.eq(added)
            with m.If(valid[0] & first[0]):
                m.d.sync += total.eq(-limit)
            results.append(~added[-1])
        ready = valid[1] & last[1]
        m.d.sync += self.done.eq(ready)
        with m.If(ready):
            m.d.sync += [self.gap.eq(Cat(self.gap[1:], results[0])), self.depthwise.eq(Cat(self.depthwise[1:], results[1]))]
        return m

    def _eighths(self, m, platform):
        """Choose one of each eight lanes by the low bits of `lane`; the words that leave, two clocks later, are an eighth as long."""
        def behind(values, name):
            later = {key: Signal(len(value), name=f"{key}_{name}", reset_less=key != "valid") for key, value in values.items()}
            m.d.sync += [later[key].eq(value) for key, value in values.items()]
            return later

        def shorter(name):
            chosen = []
            for i in range(0, len(came[name]), 8):
                if i % SHARE == 0:
                    lane = copy_of(m, platform, f"copy_{name}_{i}", self.lane[:3])
                chosen.append(came[name][i:i + 8].bit_select(lane, 1))
            return Cat(chosen)

        names = "valid", "first", "last", "mask", "act", "weight", "lane", *(["sub"] if self.blocks > 1 else [])
        came = behind({name: getattr(self, name) for name in names}, "came")
        chosen = {name: shorter(name) for name in ("act", "weight")} | {"lane": came["lane"][3:]}
        return SimpleNamespace(**behind(came | chosen, "eighth"))
