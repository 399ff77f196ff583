"""The random registers of a learner."""

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...reference.learning.lfsr import REGISTERS


class Registers(wiring.Component):
    """Three shift registers for random bits.

    A shift gives the bit r[0], moves all bits down, and puts r[0] xor r[k] at the top.  One bit a clock
    suffices: a draw of w bits takes w clocks, which is little beside a forward pass.

    Twin: `fbnn_hw.reference.learning.lfsr.Lfsr`.

    Parameters:
    - seed: start values, `Taps.start`.

    Timing: A bit a clock.

    Resources: 8 LUT4, 141 FF on iCE40.  An iCE40's flip-flops power up at 0, so start values from power-up would
    cost inverters around each 1.
    """

    def __init__(self, seed):
        self.seed = seed
        super().__init__({
            "restart": In(1),  # loads all start values; the learner strobes it after power-up and reset, which leave the registers alone
            "select": In(2),  # the register that `bit` is of: 0 noise, 1 mask, 2 pick
            "shift": In(3),  # the registers that shift, one bit each
            # With `load` a shift puts `data` at the top.  n such shifts write a register of n bits, lowest bit first; with `bit` as `data`
            # they turn it once round.
            "load": In(1), "data": In(1),
            "bit": Out(1)})  # r[0] of the selected register, before it shifts

    def elaborate(self, platform):
        m = Module()
        bits = []
        for index, (name, taps) in enumerate(REGISTERS.items()):
            state = Signal(taps.width, reset_less=True, name=name)
            with m.If(self.shift[index]):
                m.d.sync += state.eq(Cat(state[1:], Mux(self.load, self.data, state[0] ^ state[taps.tap])))
            with m.If(self.restart):
                m.d.sync += state.eq(taps.start(self.seed, index))
            bits.append(state[0])
        m.d.comb += self.bit.eq(Array([*bits, 0])[self.select])
        return m
