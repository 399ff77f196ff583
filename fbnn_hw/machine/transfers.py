"""Weight words on their way to the array: which come from the banks, which from the stream, and the words that say so to the mover."""

from dataclasses import dataclass

LATE_BIT = 13
"""Number of the bit that marks a transfer for late rows, in its second word."""

MOST_STEPS = (1 << 8) - 1
"""The largest `Transfer.after`."""


@dataclass(frozen=True)
class Transfer:
    """`words` weight words for the array, from two sources.

    Of 16 words, `resident` come from the rows of the feature banks and the others from the weight
    stream, evenly mixed.  A transfer with after > 0 fills late rows: its words go from the stream
    into these rows, once `after` steps of a pass have begun.
    """

    words: int
    resident: int
    after: int = 0

    @property
    def streamed(self) -> int:
        """Words that it takes from the stream."""
        return self.words if self.after else self.words - self.words * self.resident // 16

    def encode(self) -> tuple[int, int]:
        """Two 16-bit words: the low bits of the number of words minus one, then its high bits and the share.

        A transfer for late rows: the number minus one, then the steps, the share 0 and the bit LATE_BIT.
        """
        count = self.words - 1
        return count & 0xFFFF, self.after | 1 << LATE_BIT if self.after else count >> 16 | self.resident << 8


@dataclass(frozen=True)
class Sources:
    """The sources of the words of a fetch.  Words that are neither resident nor late come straight from the stream."""

    words: int  # all of them
    resident: int  # those in rows that are loaded once
    late: int  # those in late rows

    @property
    def sixteenths(self) -> int:
        """Sixteenths of the words that stay on the chip."""
        return -(-16 * self.resident // self.words)


def residents_of(transfer: Transfer) -> list[bool]:
    """Whether each word of a transfer is resident."""
    return [(i + 1) * transfer.resident >> 4 != i * transfer.resident >> 4 for i in range(transfer.words)]
