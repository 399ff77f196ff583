"""Estimated LUTs of an accelerator: a sum of terms in its dimensions, fitted to what yosys makes of whole accelerators.

`python docs/benchmarks/synthesis.py DIR` prints the estimate of a generated folder beside what synthesis needs.
"""

from dataclasses import dataclass

from . import timing


@dataclass(frozen=True)
class Costs:
    """LUTs per unit."""

    product: float  # XNOR and popcount of two bits
    accumulator: float  # a bit of an accumulator, its sign and its way to the drain
    row: float  # a bit of a row of the banks: alignment, drain, port
    control: int  # what hardly depends on the shape: sequencer, encoder, global pooling, argmax
    mover: int = 0  # of the weight stream
    learner: int = 890


FAMILIES = {
    "ice40": Costs(2.125, 1.72, 11.6, 390, 300),
    "ecp5": Costs(2.8, 2.0, 5.0, 2200, 300),  # an adder takes two LUTs a bit here, beside its carry chain
    "gowin": Costs(4.0, 3.0, 11.6, 1920, 300),  # wide multiplexers are made of LUTs here
    "xilinx7": Costs(2.23, 1.72, 5.0, 1320),  # plain sums in LUTs of six inputs
}


LATE_PRODUCT = 15 / 64
"""More, where a register behind the leaves of a popcount keeps the products that come later."""


def lut4(config, family="ice40"):
    """LUTs of the whole accelerator, estimated; of other families the costs of the iCE40 stand in."""
    q, l, p = config.pixels, config.lanes, config.outputs
    cost = FAMILIES.get(family, FAMILIES["ice40"])
    product = cost.product + LATE_PRODUCT * timing.wide(l)
    parts = product * q * l * p + cost.accumulator * q * p * config.accumulator_bits + cost.row * q * l + cost.control
    return round(parts + cost.mover * (config.weights == "stream") + cost.learner * (config.learning is not None))
