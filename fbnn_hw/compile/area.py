"""Estimated LUT4 of an accelerator on iCE40, a sum of measured parts.

Measured for 3mb on ice40 (Q, L, P = 4, 16, 8) with `synth_ice40 -noflatten`, LUT4 of each module:
popcounts 1088, array without them 737, align 135, drain 406, port and pipeline 425, address 141, sequencer 349, global pooling
197, loader and encoder 415, argmax 33, weight mover 473.  Flattened, the whole is 4234.
"""

POPCOUNT = 2.125
"""Per product of two bits."""

ACCUMULATOR = 1.92
"""Per bit of an accumulator."""

ROW = 11.6
"""Per bit of a row of the banks: alignment, drain, port."""

CONTROL = 150 + 100 + 141 + 349 + 197 + 415 + 33
"""What hardly depends on the shape."""

MOVER = 473
FLATTENED = 0.963


def lut4(config):
    """LUT4 of the whole accelerator, estimated."""
    q, l, p = config.pixels, config.lanes, config.outputs
    parts = POPCOUNT * q * l * p + ACCUMULATOR * q * p * config.accumulator_bits + ROW * q * l + CONTROL
    return round(FLATTENED * (parts + (MOVER if config.weights == "stream" else 0)))
