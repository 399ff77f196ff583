"""Gumbel noise by table."""

from amaranth import Module, signed
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ...reference.learning.rules import gumbel_table


def width(table):
    """Bits of a signed value of `table`."""
    return max(max(table).bit_length(), (-min(table) - 1).bit_length()) + 1


class NoiseTable(wiring.Component):
    """value = round(temperature * -ln(-ln((index + 1/2) / 256))), a read-only block RAM.

    Twin: `gumbel_table`.

    Parameters: `temperature`, an integer.

    Timing: A clock.

    Resources: One block RAM of 256 words.
    """

    def __init__(self, temperature):
        self.table = gumbel_table(temperature)
        super().__init__({"index": In(8), "value": Out(signed(width(self.table)))})  # as wide as the table needs

    def elaborate(self, platform):
        m = Module()
        shape = signed(len(self.value))
        m.submodules.memory = memory = Memory(shape=shape, depth=len(self.table), init=self.table, attrs={"ram_style": "block"})
        read = memory.read_port()
        m.d.comb += [read.addr.eq(self.index), self.value.eq(read.data)]
        return m
