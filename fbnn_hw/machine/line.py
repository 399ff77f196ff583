"""The serial line between host and board: clocks of a bit, and the frames/s that a speed allows."""

from .config import RGB_BITS, image_bytes
from .protocol import LOGITS, Opcode, classify_bytes, encode

DEFAULT_BAUD = 3_000_000
"""Speed of the line where nothing else is said."""
BITS_A_BYTE = 10
"""On the line: a start bit, eight bits, a stop bit."""
AHEAD_CYCLES = 12
"""Clocks in which a byte that came ahead is read (rtl.ahead)."""
TOLERANCE = 0.015
"""Largest error of a default speed, and of a bit of whole clocks where eighths would be nearer."""
EIGHTHS = 8
"""A bit takes whole clocks or, where none are near enough, eighths."""
FEWEST = 3.5
"""Least clocks of a bit: sampled within a clock of its middle, it then has 0.75 clocks left for the errors of both ends."""
FEWEST_ASLEEP = 10
"""Least clocks of a bit that wakes a design: the line is read a few clocks after it has fallen, before the middle of the start bit."""


def bit_clocks(clock_hz: float, baud: float) -> float:
    """Clocks of a bit that come nearest to a speed: whole with an error of at most `TOLERANCE`, else in eighths.  An int where whole."""
    whole = round(clock_hz / baud)
    if whole and abs(clock_hz / whole / baud - 1) <= TOLERANCE:
        return whole
    eighths = round(EIGHTHS * clock_hz / baud)
    return eighths / EIGHTHS if eighths % EIGHTHS else eighths // EIGHTHS


def pass_bytes(size, classes, flags=LOGITS, latent_bytes=0, pixel_bits=RGB_BITS):
    """(bytes to the board, bytes back) of an image of size x size pixels."""
    empty = len(encode(Opcode.CLASSIFY))
    return empty + image_bytes(size, pixel_bits), empty + classify_bytes(flags, classes, latent_bytes)


def end_to_end_rate(cycles: int, load_cycles: int, clock_hz: float, baud: float, size: int, classes: int, flags: int = LOGITS,
                    latent_bytes: int = 0, ahead: bool = False, pixel_bits: int = RGB_BITS) -> float:
    """frames/s that a host at the end of the line can see.

    A host sends an image, waits for the answer and sends the next one.  So the time on the line and the
    cycles add up, except `load_cycles` of the `cycles` of a pass, in which the image arrives.
    clock_hz: of the accelerator.  baud: bits a second.  The host's own time, such as that of a USB
    adapter, is not in it.

    ahead: the image comes while the board works on the one before.  Then an answer, the image's way from the board's memory and the
    cycles add up, or the image's time on the line binds where it is longer.
    """
    there, back = pass_bytes(size, classes, flags, latent_bytes, pixel_bits)
    if ahead:
        work = BITS_A_BYTE * back / baud + (AHEAD_CYCLES * there + cycles - load_cycles) / clock_hz
        return 1 / max(work, BITS_A_BYTE * there / baud)
    line_seconds = BITS_A_BYTE * (there + back) / baud
    return 1 / (line_seconds + (cycles - load_cycles) / clock_hz)
