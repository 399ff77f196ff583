"""A component of one's own, its twin in integers and its check, clock by clock; the Verilog goes into neuron.v.

    python docs/examples/own_component.py

docs/lab.md has the exercise.  `popcount.count > 9` in `elaborate` shows what a check says of a fault.
"""

import random
from pathlib import Path

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from fbnn_hw.rtl.popcount import XnorPopcount
from fbnn_hw.rtl.verilog import convert


class Neuron(wiring.Component):
    """fires: at least 9 of 16 bits are equal, one clock after the words came."""

    def __init__(self):
        super().__init__({"act": In(16), "weight": In(16), "fires": Out(1)})

    @staticmethod
    def compute(act, weight):
        return (~(act ^ weight) & 0xFFFF).bit_count() >= 9

    def elaborate(self, platform):
        m = Module()
        m.submodules.popcount = popcount = XnorPopcount(16, registers=1)
        m.d.comb += [popcount.act.eq(self.act), popcount.weight.eq(self.weight), self.fires.eq(popcount.count >= 9)]
        return m


async def check(context):
    for _ in range(1000):
        act, weight = random.getrandbits(16), random.getrandbits(16)
        context.set(neuron.act, act)
        context.set(neuron.weight, weight)
        await context.tick()
        found, expected = context.get(neuron.fires), neuron.compute(act, weight)
        assert found == expected, f"{act:016b} and {weight:016b}: fires is {found}, expected {expected:d}"


random.seed(1)
neuron = Neuron()
simulator = Simulator(neuron)
simulator.add_clock(1e-7)
simulator.add_testbench(check)
simulator.run()
Path("neuron.v").write_text(convert(neuron, "neuron"))
print("1000 words equal; neuron.v is written")
