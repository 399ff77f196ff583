"""The weight words at the head of a tile with thresholds: the start values of its accumulators.

As a rule that is the bias word.  Lane i of output p holds bit i of the start value of p.

With start reads (`AcceleratorConfig.start_reads`) a start value is a multiple of L plus 0 to L - 1.  Of the bias word, which is read
once a tile, the array takes the multiple.  The rest comes from the second word, the start word: a block begins with a read of it, in
which all pixels are -1, so that a weight of -1 matches.
"""

import numpy as np

from ..base import bits


def count(start_reads: bool) -> int:
    """Words at the head of a tile."""
    return 1 + start_reads


def least_bits(lanes: int) -> int:
    """Bits of the narrowest accumulator with start reads: those of a number of matches, and the sign."""
    return lanes.bit_length() + 1


def words(values: np.ndarray, lanes: int, start_reads: bool) -> np.ndarray:
    """Start values, int (..., P) -> bits of the words at the head of a tile, uint8 (..., words, P, L)."""
    bias = bits.twos_complement(values, lanes)
    if not start_reads:
        return bias[..., None, :, :]
    matches = np.asarray(values)[..., None] % lanes
    return np.stack([bias, np.arange(lanes) >= matches], -3).astype(np.uint8)
