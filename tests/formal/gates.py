"""Proofs on the gates of a component, where a solver does not come to an end.

`every_pixel`: sums of products such as 77 R + 150 G + 29 B.  The gates are evaluated, clock by clock, for all 2^24 pixels, 64 to a word of
numpy.  What does not depend on the bytes, such as valid and ready, stays 0 or 1.

`sum_of`: trees of adders.  A word of bits is a polynomial in them, and each gate a polynomial in its inputs: a AND b is a b, a XOR b is
a + b - 2 a b.  With x x = x a polynomial in the inputs is one function and no other, so two that are equal are a proof.
"""

import json
from collections import defaultdict

import numpy as np

from sim.checks import encoder_cycles
from tests.formal.prove import yosys

SCRIPT = """read_rtlil top.il
hierarchy -top top
proc
flatten -noscopeinfo
memory -nordff
opt
alumacc
techmap
opt
async2sync
dffunmap
simplemap
opt_clean
write_json top.json
"""
CHUNK = 1 << 19
"""Pixels at a time."""


def both(a, b):
    if type(a) is int or type(b) is int:
        a, b = (a, b) if type(a) is int else (b, a)
        return b if a else 0
    return a & b


def invert(a):
    return 1 - a if type(a) is int else ~a


def differ(a, b):
    if type(a) is int or type(b) is int:
        a, b = (a, b) if type(a) is int else (b, a)
        return invert(b) if a else b
    return a ^ b


def choose(a, b, s):
    if type(s) is int:
        return b if s else a
    return differ(a, both(differ(a, b), s))


GATES = {
    "$_NOT_": (invert, lambda a: {(): 1, a: -1}),
    "$_AND_": (both, lambda a, b: {a + b: 1}),
    "$_NAND_": (lambda a, b: invert(both(a, b)), lambda a, b: {(): 1, a + b: -1}),
    "$_OR_": (lambda a, b: invert(both(invert(a), invert(b))), lambda a, b: {a: 1, b: 1, a + b: -1}),
    "$_NOR_": (lambda a, b: both(invert(a), invert(b)), lambda a, b: {(): 1, a: -1, b: -1, a + b: 1}),
    "$_XOR_": (differ, lambda a, b: {a: 1, b: 1, a + b: -2}),
    "$_XNOR_": (lambda a, b: invert(differ(a, b)), lambda a, b: {(): 1, a: -1, b: -1, a + b: 2}),
    "$_ANDNOT_": (lambda a, b: both(a, invert(b)), lambda a, b: {a: 1, a + b: -1}),
    "$_ORNOT_": (lambda a, b: invert(both(invert(a), b)), lambda a, b: {(): 1, b: -1, a + b: 1}),
    "$_MUX_": (choose, lambda a, b, s: {a: 1, a + s: -1, b + s: 1})}
"""Of the pins A, B, S of a gate: the function of 0, 1 or 64 values a word, and the polynomial {variables of a product: factor}."""


class Netlist:
    """A component in gates, whose registers are at their initial values at first."""

    def __init__(self, dut, ports, folder):
        code, words = yosys(SCRIPT, dut, ports, folder)
        assert code == 0, words[-3000:]
        module = json.loads((folder / "top.json").read_text())["modules"]["top"]
        self.ports = {name: port["bits"] for name, port in module["ports"].items()}
        self.start = {}
        for net in module["netnames"].values():
            values = reversed(net["attributes"].get("init", ""))
            self.start.update((bit, int(value)) for bit, value in zip(net["bits"], values) if value in "01")
        self.registers, driven = {}, {}
        for cell in module["cells"].values():
            pins = {name: bits[0] for name, bits in cell["connections"].items()}
            if cell["type"] == "$_DFF_P_":
                self.registers[pins["Q"]] = pins["D"]
            else:
                driven[pins["Y"]] = cell["type"], [pins[name] for name in "ABS" if name in pins]
        self.order, seen = [], set()

        def visit(bit):
            if bit in driven and bit not in seen:
                seen.add(bit)
                for source in driven[bit][1]:
                    visit(source)
                self.order.append((bit, *driven[bit]))

        for bit in (*self.registers.values(), *(bit for bits in self.ports.values() for bit in bits)):
            visit(bit)
        self.state = {bit: self.start.get(bit, 0) for bit in self.registers}

    def clock(self, inputs):
        """One clock.  inputs: {port: its bits}.  Returns {port: its bits}, before the clock's edge."""
        values = {"0": 0, "1": 1, "x": 0, **self.state}
        for name, bits in inputs.items():
            values.update(zip(self.ports[name], bits))
        for bit, kind, pins in self.order:
            values[bit] = GATES[kind][0](*(values[pin] for pin in pins))
        self.state = {bit: values[source] for bit, source in self.registers.items()}
        return {name: [values.get(bit, 0) for bit in bits] for name, bits in self.ports.items()}


def packed(bits):
    """64 values a word of an array of booleans."""
    return np.packbits(bits, bitorder="little").view(np.uint64)


def sum_of(netlist, port):
    """The polynomial {frozenset of inputs' bits: factor} of an unsigned output of a component without registers."""
    found = {frozenset((bit,)): 1 << place for place, bit in enumerate(netlist.ports[port]) if bit != "0"}
    holding = defaultdict(set)  # products of a bit
    for product in found:
        for bit in product:
            holding[bit].add(product)
    depth = defaultdict(int)
    for bit, _, pins in netlist.order:
        depth[bit] = 1 + max(depth[pin] for pin in pins)
    for bit, kind, pins in sorted(netlist.order, key=lambda gate: -depth[gate[0]]):
        for product in list(holding[bit]):
            factor = found.pop(product)
            for other in product:
                holding[other].discard(product)
            for replaced, times in GATES[kind][1](*((pin,) for pin in pins)).items():
                term = product - {bit} | set(replaced)
                found[term] = found.get(term, 0) + factor * times
                for other in term:
                    holding[other].add(term)
                if not found[term]:
                    del found[term]
                    for other in term:
                        holding[other].discard(term)
    return found


def every_pixel(dut, channels_of, folder):
    """AssertionError unless the words of `dut`, a `ThermometerEncoder`, are the channels of each pixel, without pauses.

    channels_of: red, green, blue, arrays of integers -> an iterator over the channels, arrays of booleans.
    """
    ports = [dut.pixels.payload, dut.pixels.valid, dut.pixels.ready, dut.words.payload, dut.words.valid, dut.words.ready]
    netlist = Netlist(dut, ports, folder)
    start = netlist.state
    for first in range(0, 1 << 24, CHUNK):
        netlist.state = start
        number = np.arange(first, first + CHUNK)
        colours = [number >> 16, number >> 8 & 255, number & 255]
        planes = [[packed((colour >> bit & 1).astype(bool)) for bit in range(8)] for colour in colours]
        given, words = 0, []
        for _ in range(encoder_cycles(dut, 1)):
            found = netlist.clock({"pixels__payload": planes[min(given, 2)], "pixels__valid": [int(given < 3)], "words__ready": [1],
                                   "clk": [0], "rst": [0]})
            given += found["pixels__ready"][0] & (given < 3)
            if found["words__valid"][0]:
                words += found["words__payload"]
        number = -1
        for number, channel in enumerate(channels_of(*colours)):
            wrong = differ(words[number], packed(channel))
            assert not np.any(wrong), f"channel {number} of pixels from {first:#x} on"
        assert -(-(number + 1) // dut.lanes) * dut.lanes == len(words), f"{len(words)} bits for {number + 1} channels"
        assert not any(np.any(word) for word in words[number + 1:]), "bits beyond the last channel"
