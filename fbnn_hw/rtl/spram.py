"""Feature banks, with one port or with a port for reads and one for writes, and the memory of all weights."""

from amaranth.hdl import Array, Cat, ClockSignal, Const, Instance, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..base.errors import UsageError

# Ref: Lattice TN1314, iCE40 SPRAM Usage Guide, table 2.1.
SPRAM_DEPTH = 16384
SPRAM_WIDTH = 16
SPRAM_NIBBLE = 4


class SinglePortMemory(wiring.Component):
    """`depth` words of `width` bits; each clock that is enabled reads one word or writes the masked parts of one.

    "ice40-spram" makes it of SB_SPRAM256KA blocks, 16 bits wide and 16384 deep, side by side and one behind the other; their
    contents after power-up are unknown.  "generic" is an `amaranth.lib.memory` that starts as 0, in a module whose name ends
    in `memory_<depth>x<width>_<granularity>`, for an ASIC flow to replace: its two ports have the same address and are never both on.
    "wrapper" is the module fbnn_bank of memories.v, with parameters, which Amaranth's own simulator cannot run.

    Twin: a list of integers (sim/checks.py).

    Parameters:
    - depth, width: words and their bits.
    - granularity: bits written by one bit of the mask; divides `width`, and is a multiple of 4 with "ice40-spram".
    - technology: "ice40-spram", "generic" or "wrapper".
    - registers: 1: the word passes a register, which a block RAM may have.
    - sleeps: the member `standby` exists; with "ice40-spram" alone.

    Timing: The word read in one clock stands at `read_data` in the next, or, with a register, in the one after it.  After a write or a
    clock that is not enabled `read_data` keeps its value in all simulation models; real SPRAM does not promise that, so nobody may look
    at it then.

    Resources: "ice40-spram": ceil(width / 16) * ceil(depth / 16384) SPRAM; no LUT up to 16384 words, about width + 5 for twice as many.
    """

    def __init__(self, depth, width, granularity, technology, sleeps=False, registers=0):
        if technology not in ("ice40-spram", "generic", "wrapper"):
            raise UsageError(f"memory: technology is {technology!r}, expected 'ice40-spram', 'generic' or 'wrapper'")
        if depth < 2 or width < 1:
            raise UsageError(f"memory: {depth} words of {width} bits, expected at least 2 words of 1 bit")
        step = SPRAM_NIBBLE if technology == "ice40-spram" else 1
        if granularity < 1 or width % granularity or granularity % step:
            wanted = f"a divisor of {width}" + (f" and a multiple of {step}" if step > 1 else "")
            raise UsageError(f"memory: granularity is {granularity}, expected {wanted}")
        if sleeps and technology != "ice40-spram":
            raise UsageError(f"memory: technology is {technology!r}, which has no standby, expected 'ice40-spram'")
        self.depth, self.width, self.granularity, self.technology, self.sleeps = depth, width, granularity, technology, sleeps
        self.registers = registers
        super().__init__({
            "address": In(range(depth)),  # one outside the range gives an unspecified word
            "write_data": In(width),
            "write_mask": In(width // granularity),  # bit i writes the bits i * granularity and up
            "enable": In(1, init=1),  # 0: nothing is read or written, which saves energy; "wrapper" takes no notice of it
            "write_enable": In(1),  # 1 writes where it is enabled, 0 reads
            "read_data": Out(width)}
            # 1 keeps the contents with less leakage; nobody may read or write then.
            | ({"standby": In(1)} if sleeps else {}))

    def elaborate(self, platform):
        if self.technology == "wrapper":
            return _wrapped(self, "fbnn_bank")
        return self._spram() if self.technology == "ice40-spram" else self._generic()

    def _generic(self):
        m = Module()
        memory = Memory(shape=self.width, depth=self.depth, init=[])
        m.submodules[f"memory_{self.depth}x{self.width}_{self.granularity}"] = memory
        read, write = memory.read_port(), memory.write_port(granularity=self.granularity)
        word = read.data
        for _ in range(self.registers):
            arrived = Signal(self.width, name="arrived", reset_less=True)
            m.d.sync += arrived.eq(word)
            word = arrived
        m.d.comb += [
            read.addr.eq(self.address), read.en.eq(self.enable & ~self.write_enable), self.read_data.eq(word),
            write.addr.eq(self.address), write.data.eq(self.write_data),
            write.en.eq(self.write_mask & (self.enable & self.write_enable).replicate(len(self.write_mask)))]
        return m

    def _spram(self):
        m = Module()
        columns, rows = -(-self.width // SPRAM_WIDTH), -(-self.depth // SPRAM_DEPTH)
        depth_bits = SPRAM_DEPTH.bit_length() - 1
        nibbles = Cat(bit.replicate(self.granularity // SPRAM_NIBBLE) for bit in self.write_mask)
        row = self.address[depth_bits:]
        row_read = Signal(range(rows))
        with m.If(self.enable & ~self.write_enable):
            m.d.sync += row_read.eq(row)
        words = []
        for r in range(rows):
            mask = nibbles if rows == 1 else nibbles & (row == r).replicate(len(nibbles))
            word = Signal(columns * SPRAM_WIDTH, name=f"word{r}")
            for c in range(columns):
                m.submodules[f"spram_{r}_{c}"] = Instance(
                    "SB_SPRAM256KA",
                    i_CLOCK=ClockSignal(),
                    i_ADDRESS=self.address[:depth_bits] if len(self.address) >= depth_bits else Cat(
                        self.address, Const(0, depth_bits - len(self.address))),
                    i_DATAIN=Cat(self.write_data, Const(0, SPRAM_WIDTH)).word_select(c, SPRAM_WIDTH),
                    i_MASKWREN=Cat(mask, Const(0, 4)).word_select(c, 4),
                    i_WREN=self.write_enable,
                    i_CHIPSELECT=self.enable, i_STANDBY=self.standby if self.sleeps else Const(0), i_SLEEP=Const(0), i_POWEROFF=Const(1),
                    o_DATAOUT=word.word_select(c, SPRAM_WIDTH))
            words.append(word)
        m.d.comb += self.read_data.eq(words[0] if rows == 1 else Array(words)[row_read])
        return m


def _wrapped(bank, module, **more):
    """A bank as a module of memories.v.  more: ports that not all of them have."""
    m = Module()
    m.submodules.memory = Instance(
        module, p_WIDTH=bank.width, p_DEPTH=bank.depth, p_ADDRESS=len(bank.address), p_GRANULARITY=bank.granularity,
        p_REGISTERS=bank.registers, i_clk=ClockSignal(), i_address=bank.address, **more, i_write_enable=bank.write_enable,
        i_write_mask=bank.write_mask, i_write_data=bank.write_data, o_read_data=bank.read_data)
    return m


class TwoPortMemory(wiring.Component):
    """`depth` words of `width` bits; each clock reads a word and may write the masked parts of another one.

    It is the module fbnn_two_port_bank of memories.v, which Amaranth's own simulator cannot run.

    Parameters:
    - depth, width: words and their bits.
    - granularity: bits written by one bit of the mask; divides `width`.
    - registers: that the word passes behind the memory, up to 2.

    Timing: The word read in one clock stands at `read_data` in the next, and `registers` clocks later with registers.
    """

    def __init__(self, depth, width, granularity, registers=0):
        self.depth, self.width, self.granularity, self.registers = depth, width, granularity, registers
        super().__init__({
            "address": In(range(depth)),  # of the word that is read
            "write_address": In(range(depth)),
            "write_data": In(width),
            "write_mask": In(width // granularity),  # bit i writes the bits i * granularity and up
            "write_enable": In(1),
            "read_data": Out(width)})  # unspecified for a word that is written in the clock in which it is read

    def elaborate(self, platform):
        return _wrapped(self, "fbnn_two_port_bank", i_write_address=self.write_address)


class WeightMemory(wiring.Component):
    """Memory of all weights: read-only, initialised from the file weights.hex, one word a line; or written after reset.

    An instance of the Verilog module `fbnn_weight_memory` (memories.v), or of `fbnn_bank`, which an ASIC flow replaces by
    its own memory.

    Parameters:
    - depth, width: words and their bits.
    - registers: 0 or 4: two before the memory, which block RAMs have as a tree of copies, and two behind it, the first of which
      they have themselves.
    - writable: it has the members of `SinglePortMemory` for writes, a bit of the mask a byte, and no registers.

    Timing: Latency 1 + `registers`.
    """

    def __init__(self, depth, width, registers=0, writable=False):
        self.depth, self.width, self.registers, self.writable = depth, width, registers, writable
        writes = {"write_data": In(width), "write_mask": In(width // 8), "write_enable": In(1)}
        super().__init__({"address": In(range(max(2, depth))), "data": Out(width), **(writes if writable else {})})  # the word there

    def elaborate(self, platform):
        m = Module()
        if self.writable:
            m.submodules.memory = bank = SinglePortMemory(max(2, self.depth), self.width, 8, "wrapper")
            m.d.comb += [bank.address.eq(self.address), bank.write_data.eq(self.write_data), bank.write_mask.eq(self.write_mask),
                         bank.write_enable.eq(self.write_enable), self.data.eq(bank.read_data)]
            return m
        m.submodules.memory = Instance(
            "fbnn_weight_memory", p_WIDTH=self.width, p_DEPTH=self.depth, p_ADDRESS=len(self.address), p_IMAGE="weights.hex",
            p_REGISTERS=self.registers, i_clk=ClockSignal(), i_address=self.address, o_data=self.data)
        return m
