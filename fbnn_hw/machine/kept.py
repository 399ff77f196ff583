"""A learner's state in a slot of the board's flash, and the memory of a learner that is made of it.

    byte        content
    0           0 once the whole slot is erased
    1           0 once a state is being written
    2           0 once the state is void
    247         sequence number, one more than that of the state before, modulo 8
    248, 252    mark of the configuration, mark of the model, 4 bytes each
    256         the words of `SlotPlan.tables`, highest byte first
    behind      CRC-32 (MPEG-2) of all from byte 247 on, highest byte first

All else is FFh.  A flash has three slots, in the rooms 1 to 3 of four; `rtl.keeper` writes them.  docs/rtl.md.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from ..base.errors import InputError
from ..reference.learning.lfsr import REGISTERS
from .learner import LearnPlan
from .protocol import Space, words_bytes

SECTOR, PAGE = 4096, 256
"""Bytes that a flash erases at once, and programs at most at once."""
ERASED, BEGUN, VOID = 0, 1, 2
"""Bytes of a slot that are marks."""
SEQUENCE, MARKS = 247, 248
"""Bytes of a slot at which the sequence number and the marks of configuration and model lie."""
SEQUENCE_BITS = 3
CRC_BYTES = 4
SLOTS = 3
CRC_POLYNOMIAL = 0x04C11DB7
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def crc(data: bytes) -> int:
    """CRC-32/MPEG-2."""
    return int(f"{zlib.crc32(data.translate(_REVERSED)) ^ 0xFFFFFFFF:032b}"[::-1], 2)


@dataclass(frozen=True)
class SlotPlan:
    """What lies in a slot for a learner."""

    plan: LearnPlan

    @cached_property
    def tables(self) -> tuple[tuple[Space, int, int], ...]:
        """(memory of the learner, first address, words), in their order."""
        p = self.plan
        registers = [(Space(Space.NOISE + n), 0, taps.width) for n, taps in enumerate(REGISTERS.values())]
        rows = [(p.learn_base, p.class_rows), *([] if p.adds else [(p.slots_base, p.slot_rows * p.slots)])]
        return (
            (Space.SCALARS, 0, 3), (Space.PRESENTED, 0, p.max_classes), (Space.COUNTS, 0, p.max_classes),
            *([] if p.adds else [(Space.LABELS, 0, p.slots)]), *registers,
            *((Space.BANKS, first * p.pixels, count * p.pixels) for first, count in rows))

    @property
    def word_bytes(self) -> int:
        return self.plan.host_bits // 8

    @property
    def words(self) -> int:
        return sum(count for _, _, count in self.tables)

    @property
    def bytes(self) -> int:
        """Bytes of a slot."""
        return PAGE + self.words * self.word_bytes + CRC_BYTES

    @property
    def sectors(self) -> int:
        """Sectors of a slot."""
        return -(-self.bytes // SECTOR)

    @property
    def pages(self) -> int:
        """Programs of a state: its pages, and the mark that it is begun."""
        return -(-self.bytes // PAGE) + 1

    @property
    def room(self) -> int:
        """Bytes from one slot to the next, a power of two."""
        return 1 << (self.sectors * SECTOR - 1).bit_length()

    def base(self, end: int) -> int:
        """Address of room 0, behind all that ends before the address `end`."""
        return -(-end // (4 * self.room)) * 4 * self.room

    def places(self, base: int) -> list[int]:
        """Addresses of the slots.  base: as `base` gives it."""
        return [base + number * self.room for number in range(1, SLOTS + 1)]


class SlotMemory:
    """The memory of a learner in a slot, with the accesses of `link.chip.ChipState`: all zeros at first."""

    def __init__(self, slot: SlotPlan):
        self.slot = slot
        self._words = {(space, first): [0] * count for space, first, count in slot.tables}

    def _at(self, space: int, address: int) -> tuple[list[int], int]:
        for (each, first), words in self._words.items():
            if each == space and first <= address < first + len(words):
                return words, address - first
        return [0], 0  # no part of the state

    def peek(self, space: int, address: int, count: int) -> list[int]:
        """Words from an address on; 0 where no part of the state lies."""
        found = (self._at(space, place) for place in range(address, address + count))
        return [words[place] for words, place in found]

    def poke(self, space: int, address: int, words: Sequence[int]) -> None:
        """Write words from an address on."""
        for number, word in enumerate(words):
            table, place = self._at(space, address + number)
            table[place] = int(word)

    def pack(self, config_mark: bytes, model_mark: bytes, sequence: int = 0) -> bytes:
        """The bytes of a slot, from its first page to its CRC."""
        size = self.slot.word_bytes
        content = bytes([sequence % (1 << SEQUENCE_BITS)]) + config_mark + model_mark + b"".join(
            words_bytes(words[::-1], size)[::-1] for words in self._words.values())
        return bytes(2) + b"\xff" * (SEQUENCE - 2) + content + crc(content).to_bytes(CRC_BYTES, "big")

    @classmethod
    def unpack(cls, slot: SlotPlan, data: bytes, config_mark: bytes, model_mark: bytes, where: str = "slot") -> tuple[Self, int]:
        """(memory, sequence number) of the bytes of a slot; more may follow.

        Raises InputError where the slot has no whole state of this configuration and model.
        """
        content = data[SEQUENCE:slot.bytes]
        for problem, wrong in (
                (f"{len(data)} bytes, expected at least {slot.bytes}", len(data) < slot.bytes),
                ("no state, expected one that a board has kept", data[:BEGUN + 1] == b"\0\xff" or data[:1] != b"\0"),
                ("a state that was undone", data[VOID:VOID + 1] != b"\xff"),
                (f"configuration {content[1:5].hex()}, expected {config_mark.hex()}", content[1:5] != config_mark),
                (f"model {content[5:9].hex()}, expected {model_mark.hex()}", content[5:9] != model_mark),
                ("damaged, its checksum does not fit", crc(content[:-CRC_BYTES]) != int.from_bytes(content[-CRC_BYTES:], "big"))):
            if wrong:
                raise InputError(f"{where}: {problem}")
        memory, at = cls(slot), PAGE
        for (space, first, count), size in ((table, slot.word_bytes) for table in slot.tables):
            memory.poke(space, first, [int.from_bytes(data[i:i + size], "big") for i in range(at, at + count * size, size)])
            at += count * size
        return memory, content[0]


def newest(slot: SlotPlan, slots: Sequence[bytes], config_mark: bytes, model_mark: bytes) -> int | None:
    """Number of the slot whose state a board loads, None where it loads none.  slots: the bytes of each."""
    best: tuple[int, int] | None = None
    for number, data in enumerate(slots):
        try:
            _, sequence = SlotMemory.unpack(slot, data, config_mark, model_mark)
        except InputError:
            continue
        if best is None or (sequence - best[1]) % (1 << SEQUENCE_BITS) < 1 << SEQUENCE_BITS - 1:
            best = number, sequence
    return best and best[0]
