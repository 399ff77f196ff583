"""Random bits: linear feedback shift registers of two taps, drawn in blocks and yet bit for bit those of the register.

State r[0] .. r[n-1], bit i of an integer.  One shift gives the bit r[0], moves every bit down by one and puts r[0] ^ r[k] at the top:

    b[t + n] = b[t + k] ^ b[t]        (characteristic polynomial x^n + x^k + 1, primitive: period 2^n - 1)

So the bits given from time t on begin with the state at time t, and w shifts in one cycle cost w two-input XORs as long as w <= n - k.
A word of w bits takes w shifts; the first bit is its lowest.  Over GF(2) the recurrence also holds with n and k doubled, which is how
`Lfsr` fills a block in few array operations.
"""

from dataclasses import dataclass
from operator import length_hint

import numpy as np

BLOCK_BITS = 2 ** 18
WORDS = 256


@dataclass(frozen=True)
class Taps:
    """x^width + x^tap + 1."""

    width: int
    tap: int

    def start(self, seed, index):
        """State at power-up of register `index`: never 0, spread over the register so that near seeds give unlike streams."""
        mixed = (seed * 0x9E3779B97F4A7C15 + (index + 1) * 0xBF58476D1CE4E5B9) % 2 ** 64
        mixed = (mixed ^ mixed >> 31) * 0x94D049BB133111EB % 2 ** 64
        return 1 + (mixed ^ mixed >> 29) % (2 ** self.width - 1)


NOISE, MASK, PICK = Taps(31, 13), Taps(63, 31), Taps(47, 21)
"""One register each for the noise on the logits, the masks of thinning, and the picks of the buffer."""
REGISTERS = {"noise": NOISE, "mask": MASK, "pick": PICK}
"""By name, in the order of their numbers: in snapshots, in the hardware and on the link, where `Space.NOISE` is the first."""


def block(taps, state, count):
    """The next `count` bits from `state`, uint8 (count,)."""
    n, lag = taps.width, taps.width - taps.tap
    out = np.empty(max(count, n), np.uint8)
    out[:n] = [state >> i & 1 for i in range(n)]
    filled, scale = n, 1
    while filled < len(out):
        while 2 * scale * n <= filled:
            scale *= 2
        more = min(scale * lag, len(out) - filled)
        a, b = filled - scale * lag, filled - scale * n
        np.bitwise_xor(out[a:a + more], out[b:b + more], out=out[filled:filled + more])
        filled += more
    return out[:count]


class Lfsr:
    """A register that is read in blocks.  `state` is that of the register after all bits taken so far.

    table: what `values` gives for each word of 8 bits.
    """

    def __init__(self, taps, state, table=None):
        self.taps, self.table = taps, table and np.array(table)
        self.state = state

    @property
    def state(self):
        self._give_back()
        return self._integer(self._at, self.taps.width)

    @state.setter
    def state(self, value):
        self._words, self._width, self._before = (), 1, 0
        self._fill(value, BLOCK_BITS)

    @property
    def taken(self):
        """Bits taken since `state` was set."""
        self._give_back()
        return self._before + self._at

    def _fill(self, state, count):
        self._bits = block(self.taps, state, count + self.taps.width)
        packed = np.packbits(self._bits, bitorder="little")
        self._packed = packed.tobytes()
        self._values = self.table[packed].tolist() if self.table is not None else None
        self._at, self._end = 0, count

    def _give_back(self):
        """Give back the bits of words that were drawn and not taken."""
        self._at -= length_hint(self._words) * self._width
        self._words = ()

    def _take(self, count):
        """Place of the next `count` bits."""
        if self._words:
            self._give_back()
        at = self._at
        if at + count > self._end:
            self._before += at
            self._fill(self.state, max(BLOCK_BITS, count))
            at = 0
        self._at = at + count
        return at

    def bits(self, count):
        """The next `count` bits, uint8."""
        at = self._take(count)
        return self._bits[at:at + count]

    def integer(self, count):
        """The next `count` bits, the first one lowest."""
        return self._integer(self._take(count), count)

    def _integer(self, at, count):
        return (int.from_bytes(self._packed[at >> 3:at + count + 7 >> 3], "little") >> (at & 7)) & ((1 << count) - 1)

    def values(self, count):
        """List of what `table` has for the next `count` words of 8 bits; all draws before must have been of words of 8 bits."""
        at = self._take(8 * count) >> 3
        return self._values[at:at + count]

    def words(self, width):
        """Return an iterator over the next words of `width` bits, at least one word.  Each `next` takes a word.

        The iterator is valid until the register is used in another way.
        """
        if width != self._width or not length_hint(self._words):
            drawn = self.bits(WORDS * width).reshape(WORDS, width)
            self._words, self._width = iter((drawn @ (1 << np.arange(width))).tolist()), width
        return self._words

    def word(self, width):
        """The next `width` bits as an integer, the first one lowest.  Quicker than `integer` where many such words are taken."""
        return next(self.words(width))
