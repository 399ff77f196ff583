"""Rows of saturating counters, in bit planes.

A counter h of B bits runs from -2^(B-1) to 2^(B-1) - 1, and the weight is sign(h).  A row of n counters is a list of B integers of n
bits, its planes: bit i of plane b is bit b of h[i] + 2^(B-1).  So the last plane is the row's weights, and one operation on a plane is
one on the whole row.
"""

import numpy as np

from ...base import bits


def to_planes(counters, width):
    """Integers h (N, n) -> N rows."""
    raised = np.asarray(counters).astype(np.int64) + 2 ** (width - 1)
    return [list(row) for row in zip(*(bits.to_integers(raised >> b & 1) for b in range(width)))]


def from_planes(rows, count):
    """Inverse of `to_planes`: int64 (N, count)."""
    if not rows:
        return np.zeros((0, count), np.int64)
    width = len(rows[0])
    planes = bits.from_integers([plane for row in rows for plane in row], count).reshape(-1, width, count).astype(np.int64)
    return (planes << np.arange(width)[:, None]).sum(1) - 2 ** (width - 1)


def start(weights, width, ones, confidence=0):
    """A row of the given weights that `confidence` + 1 moves against them turn: h is `confidence` for a 1 and -1 - `confidence` for a 0."""
    return [weights if confidence >> b & 1 else weights ^ ones for b in range(width - 1)] + [weights]


def strong(row, least, ones):
    """A mask of the counters with h >= `least` or h < -`least`, from 0 to 2^(B-1) - 1."""
    mask = ones
    for b, plane in enumerate(row[:-1]):
        size = plane ^ row[-1] ^ ones  # bit b of h, or of -1 - h where h is negative
        mask = mask & size if least >> b & 1 else mask | size
    return mask


def halve(row, ones):
    """Counters become h / 2, rounded down."""
    row[:-1] = [*row[1:-1], row[-1] ^ ones]


def move(row, towards, moves, ones):
    """Counters at the ones of `moves` go up by one where `towards` is 1 and down where it is 0; those at the end of their range stay."""
    against, ended = towards ^ ones, moves
    for plane in row:
        ended &= plane ^ against
    carry = moves ^ ended
    for b, plane in enumerate(row):
        row[b] = plane ^ carry
        carry &= plane ^ against
