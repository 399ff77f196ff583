"""Boards: what a generated design is connected to.  The facts lie in boards/*.toml, a page of data each."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..errors import UsageError
from . import TARGETS

FOLDER = next((path for up in (1, 2) if (path := Path(__file__).parents[up] / "boards").is_dir()), Path("boards"))
"""fbnn_hw/boards in an installed package, boards/ at the top of a checkout."""


@dataclass(frozen=True)
class Board:
    """One board.

    name; title; target: name in TARGETS; platform: "module:class" of amaranth-boards, or "" if it has none; clock_hz: of the
    oscillator; package: as nextpnr names it, or Vivado's part; usb: vendor and product of what programs it; console: where the
    serial line usually shows up on Linux.
    pins: {"clock", "rx", "tx" (from the FPGA's side), "ready", "fault": pin; "lit": level that lights these two}.
    flash: {"bytes", "lines", "offset" of the flash image, "select", "clock": pin, or "USRMCLK" where it is none, "io": pins in the order
    IO0, IO1 ...}, and "quad_enable", if not Winbond's, as FlashChip has it.
    program: {"bitstream": command} and, where weights can be streamed, "weights", or "both" for a board whose programmer writes one file
    from the address "start" on; words in braces are replaced.  "also": such a table for another program.
    """

    name: str
    title: str
    target: str
    platform: str
    clock_hz: int
    package: str
    usb: str
    console: str
    pins: dict
    flash: dict
    program: dict

    @property
    def part(self):
        return TARGETS[self.target]


@cache
def boards():
    """{name: Board}, sorted by name."""
    pages = sorted(FOLDER.glob("*.toml"), key=lambda path: path.stem)
    return {page.stem: Board(page.stem, **tomllib.loads(page.read_text("utf-8"))) for page in pages}


def board(name):
    """The board of that name; raises UsageError with the list."""
    if name not in boards():
        raise UsageError(f"--board {name}: no such board, expected one of {', '.join(boards())}")
    return boards()[name]
