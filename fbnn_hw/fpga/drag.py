"""The file that a person drags onto the drive of a board: a UF2, or a plain bitstream.

Ref: https://github.com/microsoft/uf2, README.md: blocks of 512 bytes with the address of their payload.
"""

import struct

from ..base.errors import UsageError
from ..targets.page import BITSTREAM

UF2 = "drag.uf2"
"""Name of the file in the folder of a build."""
FIRST, SECOND, LAST = 0x0A324655, 0x9E5D5157, 0x0AB16F30
"""The magic numbers of a block."""
FAMILY_GIVEN = 0x2000
BLOCK, PAYLOAD, ROOM = 512, 256, 476
"""Bytes of a block, those of data that it brings here, a page of a flash, and those that it could."""


def check(board, streams):
    """Raises UsageError where a board has no drive, or where what it takes cannot hold a design.  streams: its weights lie in the flash."""
    way = board.program.get("drag")
    if way is None:
        raise UsageError(f"--drag: {board.title} shows no drive that a design could be dragged onto; fbnn-hw flash --board {board.name}")
    if way == BITSTREAM and streams:
        raise UsageError(f"--drag: the drive of {board.title} takes a plain bitstream, and the weights of this design lie in the flash "
                         f"beside it; fbnn-hw flash --board {board.name} writes both")


def name(board, bitstream):
    """Name of the file.  bitstream: name of the bitstream's."""
    return bitstream if board.program["drag"] == BITSTREAM else UF2


def contents(board, bitstream, weights=None):
    """The bytes of the file.  bitstream, weights: bytes of both, the second for the flash, None where the bitstream holds the weights."""
    check(board, weights is not None)
    if board.program["drag"] == BITSTREAM:
        return bitstream
    parts = {board.program.get("start", 0): bitstream} | ({board.flash["offset"]: weights} if weights is not None else {})
    return uf2(parts, board.program["drag"])


def uf2(parts, family):
    """The bytes of a UF2 of that family.  parts: {address, a multiple of PAYLOAD: bytes}."""
    pages = [(address + i, data[i:i + PAYLOAD]) for address, data in sorted(parts.items()) for i in range(0, len(data), PAYLOAD)]
    return b"".join(
        struct.pack("<8I", FIRST, SECOND, FAMILY_GIVEN, address, PAYLOAD, number, len(pages), family)
        + data.ljust(PAYLOAD, b"\xff").ljust(ROOM, b"\0") + struct.pack("<I", LAST)
        for number, (address, data) in enumerate(pages))
