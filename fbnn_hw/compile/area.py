"""Estimated LUT4 of an accelerator, from measured parts (docs/rtl.md)."""

POPCOUNT_LUT4 = 2.33
"""Per XNOR-popcount bit."""


def lut4(config):
    """LUT4 on iCE40, estimated: popcounts, accumulators, alignment, and the control around them."""
    q, l, p = config.pixels, config.lanes, config.outputs
    return round(q * l * p * POPCOUNT_LUT4 + q * p * config.accumulator_bits * 1.2 + q * l * 4 + 1200)
