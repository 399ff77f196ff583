"""Cycle counts of the hardware, each said once.  RTL builds its delays from them, the estimate adds them up.

The sequencer issues a read in cycle t:

    t + 1                the tap's offsets are added to the row address
    t + 2                the address stands at the banks
    t + `read`           the data is put into the order of the block's pixels
    then `array` cycles  XNOR, popcount, accumulation
    t + `accumulated`    the accumulators are complete
    t + `drained`        after the last read of a block its bits go to the port
"""

from collections.abc import Sequence

Piece = tuple[int, int, int, int, bool]
"""(plane, level of lane 0, first lane, last lane + 1, whether it is the last piece of its word)."""

BURST = 8
"""Beats between two pauses of a weight stream from an SDRAM.  The pauses are its time for refreshes and new rows (`rtl.sdram`)."""

FLASH_QUEUE = 4
"""Beats that `rtl.qspi_flash` fetches while nobody takes them."""

READ = 3
"""Cycles from issue to data at the banks' outputs."""


def read(registers: int) -> int:
    """Cycles from issue to data of the banks, behind so many registers (config.memory_registers)."""
    return READ + registers


def large(lanes: int) -> bool:
    """Whether an array is so large, some thousand LUTs, that the wires across it are long, and no register may drive all of it."""
    return lanes >= 32


def popcount_registers(lanes: int) -> int:
    """Registers that a word passes in a popcount.

    In a large array the first one stands behind the leaves of column 0.
    """
    return 2 + 2 * large(lanes) + (lanes >= 64)


def array(lanes: int) -> int:
    """Cycles from pixels and weights to complete accumulators.

    A large array first copies pixels and weights into registers of its own, from which they reach all its popcounts.
    """
    return large(lanes) + popcount_registers(lanes) + 1


def accumulated(lanes: int, registers: int = 0) -> int:
    """Cycles from the last read of a block to its complete accumulators.  registers: behind the memories."""
    return read(registers) + 1 + array(lanes)


def drained(lanes: int, registers: int = 0) -> int:
    """Cycles from the last read of a block to its bits on their way to the port."""
    return accumulated(lanes, registers) + 1


def flush(lanes: int, registers: int = 0) -> int:
    """Cycles after the last tile of a step until everything is written."""
    return accumulated(lanes, registers) + 2


def scores(count: int, lanes: int) -> int:
    """Cycles to send so many logits.  A large array chooses one in two steps, with a register behind each."""
    return count + CHOICE * (count - 1) if large(lanes) else count


def bias(lanes: int, registers: int = 0) -> int:
    """Cycles that a bias word adds to the beginning of a tile.

    With registers behind the memories the word is read before the tile before it is complete, but after its last block, of one read or
    more, has begun.
    """
    return 1 + max(0, array(lanes) - 3) if registers else flush(lanes, registers) + read(registers) + 2


def start(lanes: int) -> int:
    """Cycles that a bias word adds to the beginning of a tile whose blocks begin with start reads.

    The array takes the upper bits of the start values as a block begins.  They stand there two cycles after the bias word, by when the
    last block of the tile before must have begun.
    """
    return 1 + max(0, array(lanes) - 4)


def fetch(registers: int) -> int:
    """Cycles to set up the counters of a step, on top of one for each of its words.  registers: behind the memories."""
    return 2 + registers


def end(registers: int) -> int:
    """Cycles to find the end of the program."""
    return 3 + registers


CHOICE = 2
"""Registers behind the choice of a logit in a large array."""

TILE = 1
"""Cycles to begin a tile whose weights are at hand."""

LEVEL = 1
"""Cycles that a weight stream adds to the beginning of a tile, because its level is read a cycle before it is compared."""

OPEN = 2
"""Cycles from a step's first tile until late rows may be written that only the steps before it needed."""

CLASSIFY = 4
"""Cycles of the state machine around the learner's own cycles for the scores."""

POOL_WRITE = 2
"""Cycles to write the two words of one tile of global pooling."""


def encoder_pieces(planes: Sequence[int], lanes: int) -> tuple[Piece, ...]:
    """Return the pieces that the thermometer encoder gives for a pixel, one a cycle.  A piece is what one plane gives to one word.

    planes: levels of each plane.  The level of lane 0 may be negative.
    """
    pieces: list[Piece] = []
    start = 0
    channels = sum(planes)
    for plane, size in enumerate(planes):
        for word in range(start // lanes, (start + size - 1) // lanes + 1):
            base = word * lanes
            low, high = max(start, base), min(start + size, base + lanes)
            pieces.append((plane, base - start, low - base, high - base, high == base + lanes or high == channels))
        start += size
    return tuple(pieces)


def encoder_cycles(pieces: int, bits_per_cycle: int | None) -> int:
    """Cycles of the encoder for a pixel of so many pieces.

    With `bits_per_cycle` bits of each byte a cycle, the encoder first sums up the pixel.  Its words then
    leave while the next three bytes come in.  With 0, multipliers take whole bytes: three bytes and a
    start value come in while the words of the pixel before leave.  With None levels come in, which are
    not summed up.
    """
    if bits_per_cycle is None:
        return pieces
    return 8 // bits_per_cycle + max(3, pieces) if bits_per_cycle else max(4, pieces)


def pipelined(lanes: int, pieces: int, bits_per_cycle: int | None) -> bool:
    """Whether registers cut the encoder's sum and its comparison in two; with fewer pieces a pixel would take longer."""
    return large(lanes) and bits_per_cycle == 8 and pieces >= 3


def encoder_latency(pieces: int, bits_per_cycle: int | None, lanes: int) -> int:
    """Cycles of one pixel, from the cycle of its first byte to the cycle of its last word, both counted."""
    if bits_per_cycle is None:
        return 1 + pieces
    return (3 + 8 // bits_per_cycle if bits_per_cycle else 5) + pieces + 2 * pipelined(lanes, pieces, bits_per_cycle)


def load_cycles(pixels: int, pieces: Sequence[Piece], bits_per_cycle: int | None, lanes: int) -> tuple[int, int]:
    """Return (right after reset, later): the cycles from the first one of the state LOAD to the state START.

    Later, the first word of the image waits in the encoder.
    """
    each = encoder_cycles(len(pieces), bits_per_cycle)
    to_come = len(pieces) - next(i for i, piece in enumerate(pieces) if piece[-1])
    # The encoder already holds the bytes of the second pixel and, with multipliers, its sum; or the bits of the next level.
    second = len(pieces) + (8 // bits_per_cycle if bits_per_cycle else 0)
    # A pipelined encoder holds the sum of the second pixel too where a pixel is one word, which waits in the register behind.
    second -= to_come == 1 and pipelined(lanes, len(pieces), bits_per_cycle)
    first = (pixels - 1) * each + encoder_latency(len(pieces), bits_per_cycle, lanes)
    return first, to_come + second + (pixels - 2) * each + 1
