"""Number of equal bits of two words: the multipliers and the adder tree of a binary neuron."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..base.errors import UsageError

GROUP = 8
"""Words that style "sum" adds in one go."""


class XnorPopcount(wiring.Component):
    """count = sum_i (act[i] XNOR weight[i]): the matches of `width` products, whose dot product is 2 count - width.

    The sum is taken column by column, by adders of one bit, without a carry chain.  docs/rtl.md says why,
    and what an adder costs whose inputs are products.  Four bits that are left in a column take a 4:3
    counter of 3 LUTs.

    Twin: `XnorPopcount.compute`; meaning of a bit: `fbnn_hw.base.bits`.

    Parameters:
    - width: products a word, at least 1.
    - registers: registers on the way: the first behind column 0, the second behind column 1, and so on; those
      beyond the last column delay the count.
    - leaves: the first register stands behind the triples, in the middle of column 0, for words that come from
      afar; it takes a LUT for each product that comes later.
    - style: "lut4": the adders above.  "sum": plain sums of eight, whose structure the synthesis tool chooses: a
      quarter of the Verilog, registers after the levels of sums.

    Timing: Free running, one word a clock, latency `registers` clocks; the registers need no reset.
    """

    def __init__(self, width, registers=1, style="lut4", leaves=False):
        if style not in ("lut4", "sum"):
            raise UsageError(f"popcount: style is {style!r}, expected 'lut4' or 'sum'")
        if type(width) is not int or width < 1:
            raise UsageError(f"popcount: width is {width!r}, expected an integer from 1")
        if type(registers) is not int or registers < leaves:
            raise UsageError(f"popcount: registers is {registers!r}, expected an integer from {int(leaves)}")
        self.width = width
        self.registers = registers
        self.style = style
        self.leaves = leaves
        super().__init__({
            "act": In(width), "weight": In(width),  # product i is made of the bits i
            "count": Out(range(width + 1))})

    @staticmethod
    def compute(act, weight, width):
        """`count` from two Python integers."""
        return (~(act ^ weight) & ((1 << width) - 1)).bit_count()

    def elaborate(self, platform):
        return self._lut4() if self.style == "lut4" else self._sum()

    def _sum(self):
        m = Module()
        products = Signal(self.width)
        m.d.comb += products.eq(~(self.act ^ self.weight))
        words, level = list(products), 0
        while len(words) > 1 or level < self.registers:
            words = [sum(words[i:i + GROUP]) for i in range(0, len(words), GROUP)]
            named = [Signal.like(word, reset_less=True) for word in words]
            m.d[("comb", "sync")[level < self.registers]] += [name.eq(word) for name, word in zip(named, words)]
            words, level = named, level + 1
        m.d.comb += self.count.eq(words[0])
        return m

    def _lut4(self):
        m = Module()
        adders = _Adders(m)
        total, carries = adders.products(self.act, self.weight, self.leaves)
        sums, columns = [total], [Cat(carries), Cat(), Cat()]
        registers = self.registers - self.leaves
        while registers or len(sums) < len(self.count):
            if registers:
                registers -= 1
                sums, columns = ([adders.register(word) for word in words] for words in (sums, columns))
            if len(sums) < len(self.count):
                total, carries, overflow = adders.column(columns[0])
                sums.append(total)
                columns = [Cat(columns[1], carries), Cat(columns[2], overflow), Cat()]
        m.d.comb += self.count.eq(Cat(sums))
        return m


class _Adders:
    """Adders of one bit, many side by side on the bits of words."""

    def __init__(self, module):
        self.module = module

    def name(self, value):
        """A signal for `value`, so that an expression used twice is written once."""
        signal = Signal(len(value))
        self.module.d.comb += signal.eq(value)
        return signal

    def register(self, value):
        signal = Signal(len(value), reset_less=True)
        self.module.d.sync += signal.eq(value)
        return signal

    def half(self, a, b):
        return self.name(a ^ b), self.name(a & b)

    def full(self, a, b, c):
        p = self.name(a ^ b)
        return self.name(p ^ c), self.name((p & c) | (~p & a))

    def column(self, bits):
        """Adds the bits of one column -> (sum bit, carries into the next column, into the one after it)."""
        carries, overflow = [], []
        while len(bits) > 1:
            count, k = len(bits), len(bits) // 3
            if count == 2:
                bits, carry = self.half(bits[0], bits[1])
            elif count == 4:
                p, g = self.half(bits[0], bits[1])
                q, h = self.half(bits[2], bits[3])
                bits, carry = p ^ q, self.name(g ^ h ^ (p & q))
                overflow.append(self.name(g & h))
            else:
                total, carry = self.full(bits[:k], bits[k:2 * k], bits[2 * k:3 * k])
                bits = Cat(bits[3 * k:], total)
            carries.append(carry)
        return bits, Cat(carries), Cat(overflow)

    def products(self, act, weight, register):
        """Adds act XNOR weight -> (sum bit, list of carries); register: one behind the leaves.

        With L leaves the tree takes L - 1 products between its levels, hence 4 L - 1 with triples as leaves.  What is left of
        the width lengthens one leaf: two products are a full adder with a bit, one product is a half adder at the start of it.
        """
        width = len(act)
        taken, late = 0, None

        def take(count):
            nonlocal taken
            part = slice(taken, taken + count)
            taken += count
            return ~(act[part] ^ weight[part]) if late is None else late[part]

        if width == 1:
            product = self.name(take(1))
            return self.register(product) if register else product, []
        leaves = max(1, (width + 1) // 4)
        carries = []
        bits = Cat()
        if leaves > 1:
            bits, carry = self.full(*(take(leaves - 1) for _ in range(3)))
            carries.append(carry)
        left = width - 3 * (leaves - 1) - (leaves - 1)
        if left % 2:
            leaf = self.name(take(1))
        else:
            leaf, carry = self.half(take(1), take(1))
            carries.append(carry)
        for _ in range((left - 1) // 2):
            a, b = take(1), take(1)
            leaf, carry = self.full(a, b, leaf)
            carries.append(carry)
        bits = Cat(bits, leaf)
        if register:
            late = Cat(Const(0, taken), self.register(~(act[taken:] ^ weight[taken:]))) if taken < width else Cat()
            bits, carries = self.register(bits), [self.register(carry) for carry in carries]
        while len(bits) > 1:
            k = len(bits) // 2
            a, b, rest = bits[:k], bits[k:2 * k], bits[2 * k:]
            total, carry = self.full(a, b, take(k))
            carries.append(carry)
            bits = Cat(rest, total)
        return bits, carries
