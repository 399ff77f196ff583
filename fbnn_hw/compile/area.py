"""Estimated LUTs of an accelerator: a sum of terms in its dimensions, fitted to what yosys makes of whole accelerators.

`python docs/benchmarks/synthesis.py DIR` prints the estimate of a generated folder beside what synthesis needs.
"""

from dataclasses import dataclass

from ..machine.config import AcceleratorConfig
from ..targets import TARGETS, Target


@dataclass(frozen=True)
class Costs:
    """LUTs per unit."""

    product: float  # XNOR and popcount of two bits
    accumulator: float  # a bit of an accumulator, with its sign and its path to the drain
    row: float  # a bit of a row of the banks: alignment, drain, port
    stacked: float  # a bit of a memory, for each row of block RAMs that lies above another
    pooling: int  # learned global pooling, and the longer paths around it, in networks that have it
    control: int  # parts that hardly depend on the shape: sequencer, encoder, argmax
    start: float = 0  # with thresholds: a bit of an accumulator that chooses between its sum and a start value
    bias: int = 0  # with thresholds: the state that reads a tile's start values
    head: int = 75  # with start reads: the state that reads a bias word, and pixels that all are -1
    mover: int = 300  # of the weight stream
    late: int = 66  # with late rows: a second address, and the wait for a step
    learner: int = 890
    lists: int = 80  # with lists of reads: the path of a read from its entry to the banks, and the masks
    shift: float = 1.05  # with bytes: a bit of an accumulator that is shifted or not
    thermometer: int = 85  # with lists, where the input is a thermometer, which `pooling` has without lists
    spreads: int = 300  # with spread steps: the counts of a step's pixels and slots
    spread: float = 0.55  # and a bit of a weight word


# Fitted to the control of version 0.2.12.  Today's takes up to 6 % of the LUTs less, with lists of reads up to 11 %.
# On ECP5 and 7 series the choice of a start value fits into the LUTs of the adder (docs/benchmarks.md).
COSTS = {
    "ice40": Costs(2.125, 1.72, 8.0, 0, 505, 80, start=0.95, bias=60),
    "ice40-hx8k": Costs(2.125, 1.72, 8.0, 1.375, 540, 160, start=0.95, bias=60),  # an encoder without multipliers
    "ecp5": Costs(2.8, 2.0, 5.0, 0.92, 1000, 260, lists=680, shift=0.3),  # an adder takes two LUTs a bit, beside its carry chain
    "gowin": Costs(2.24, 2.2, 11.6, 0.9, 1800, 90, start=0.13),
    "xilinx7": Costs(2.23, 1.72, 5.0, 0.457, 500, 350),  # plain sums in LUTs of six inputs
}
"""By target, or family of targets."""
ENCODERS = {0: 56, 1: 134, 2: 228, 4: 350, 8: 561, None: 67}
"""LUTs of a thermometer encoder, by `Target.encoder_bits` (docs/benchmarks/area.py thermometer-8 ..)."""


def lut4(config: AcceleratorConfig, target: Target) -> int:
    """Estimated LUTs of the whole accelerator; targets without costs of their own are estimated as an iCE40."""
    q, l, p = config.pixels, config.lanes, config.outputs
    cost = COSTS.get(target.name) or COSTS.get(target.family) or COSTS["ice40"]
    accumulator_bits = q * p * config.accumulator_bits
    luts = cost.product * q * l * p + cost.accumulator * accumulator_bits + cost.row * q * l + cost.control
    luts += cost.stacked * target.stacked_bits(config) + cost.pooling * any(step.kind == "lgap" for step in config.program)
    if config.start_reads:
        luts += cost.head
    else:
        luts += (cost.start * accumulator_bits + cost.bias) * config.thresholds
    luts += (cost.lists + cost.thermometer * (config.encoder not in ("binarize", "bits8"))) * config.lists
    luts += cost.shift * accumulator_bits * (config.shift > 0)
    luts += (cost.spreads + cost.spread * config.word_bits) * config.spreads
    luts += cost.late * (config.late_rows > 0)
    if config.takes_levels:  # the terms above have the encoder of the target
        luts += ENCODERS[None] - ENCODERS[TARGETS[target.name].encoder_bits]
    return round(luts + cost.mover * (config.weights == "stream") + cost.learner * (config.learning is not None))
