"""All weights in one memory."""

from amaranth import ClockSignal, Instance, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .sequencer import bits_for

IMAGE = "weights.hex"


class WeightMemory(wiring.Component):
    """Read-only memory of weights, initialised from the file weights.hex, one word a line.

    An instance of the Verilog module `fbnn_weight_memory` (memories.v), which an ASIC flow replaces by
    its own memory.

    Parameters
    ----------
    depth, width : int
        Words and their bits.
    registers : int
        0 or 4: two before the memory, which block RAMs have as a tree of copies, and two behind it, the first of which they have
        themselves.

    Timing
    ------
    Latency 1 + `registers`.

    Resources
    ---------
    Block RAM of depth * width bits.
    """

    def __init__(self, depth, width, registers=0):
        self.depth, self.width, self.registers = depth, width, registers
        super().__init__({"address": In(bits_for([depth - 1])), "data": Out(width)})  # the word at the address

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = Instance(
            "fbnn_weight_memory", p_WIDTH=self.width, p_DEPTH=self.depth, p_ADDRESS=len(self.address), p_IMAGE=IMAGE,
            p_REGISTERS=self.registers, i_clk=ClockSignal(), i_address=self.address, o_data=self.data)
        return m
