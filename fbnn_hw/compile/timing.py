"""Cycle counts of the hardware, each said once: the RTL builds its delays from these, the estimate adds them up.

A read is issued in cycle t by the sequencer.  t + 1: tap offsets are added to the row address; t + 2: the address stands at
the banks; t + 3: data is aligned with the pixels of the block; then XNOR, popcount and accumulation, `array` cycles, so that
`accumulated` cycles after t the accumulator is complete; a cycle later, after the last read of a block, its bits are sent to the port.
"""

READ = 3
"""From issue to data at the banks' outputs."""


def wide(lanes):
    """Whether an array is likely to have ten thousand LUTs and more: what lies between two of its registers has long wires too."""
    return lanes >= 64


def popcount_registers(lanes):
    """Of a popcount; in a wide array the first stands behind its leaves."""
    return 5 if wide(lanes) else 2


def array(lanes):
    """From pixels and weights to complete accumulators.  A wide array first takes them into registers of its own, from which they
    reach all its popcounts."""
    return wide(lanes) + popcount_registers(lanes) + 1


def accumulated(lanes):
    """From the last read of a block to its complete accumulators."""
    return READ + 1 + array(lanes)


def drained(lanes):
    """From the last read of a block to its bits on their way to the port."""
    return accumulated(lanes) + 1


def flush(lanes):
    """After the last tile of a step, until everything is written."""
    return accumulated(lanes) + 2


def bias(lanes):
    """More, to begin a tile that starts with a bias word."""
    return flush(lanes) + READ + 2


FETCH = 17
"""To read a step of the program and set up its counters."""

END = 3
"""To find the end of the program."""

STOP = 1
"""More, at every stop, where a pass has several frames."""

TILE = 1
"""To begin a tile whose weights are there."""

LEVEL = 1
"""More before a tile whose weights come as a stream: whether they are there is looked at a cycle before it counts."""

CLASSIFY = 4
"""More than the learner's own cycles, for its scores."""

POOL_WRITE = 2
"""To write the two words of one tile of global pooling."""


def encoder_pieces(planes, lanes):
    """What the thermometer encoder does for a pixel, a cycle each: (plane, level of lane 0, first lane, last lane + 1, last
    piece of its word).  planes: levels of each plane.  The level may be negative."""
    pieces, start = [], 0
    channels = sum(planes)
    for plane, size in enumerate(planes):
        for word in range(start // lanes, (start + size - 1) // lanes + 1):
            base = word * lanes
            low, high = max(start, base), min(start + size, base + lanes)
            pieces.append((plane, base - start, low - base, high - base, high == base + lanes or high == channels))
        start += size
    return tuple(pieces)


def encoder_cycles(planes, lanes, bits_per_cycle):
    """Cycles of the encoder for a pixel.

    bits_per_cycle bits of each byte: the sum, then the words, while the next three bytes come in.  0, whole bytes by multipliers: three
    bytes and a start value, while the words of the pixel before leave."""
    pieces = len(encoder_pieces(planes, lanes))
    return 8 // bits_per_cycle + max(3, pieces) if bits_per_cycle else max(4, pieces)


def encoder_latency(planes, lanes, bits_per_cycle):
    """Cycles from the one that takes a pixel's first byte to the one that takes its last word, inclusive."""
    return (3 + 8 // bits_per_cycle if bits_per_cycle else 5) + len(encoder_pieces(planes, lanes))


def load_cycles(pixels, planes, lanes, bits_per_cycle):
    """From the first cycle of LOAD to START, (right after reset, later).  Later, the encoder stands ready with a word."""
    pieces = encoder_pieces(planes, lanes)
    each = encoder_cycles(planes, lanes, bits_per_cycle)
    left = len(pieces) - next(i for i, piece in enumerate(pieces) if piece[-1])
    # With multipliers the second pixel stands ready behind the first.
    second = each if bits_per_cycle else len(pieces)
    return (pixels - 1) * each + encoder_latency(planes, lanes, bits_per_cycle), left + second + (pixels - 2) * each + 1
