"""Boards: what a generated design is connected to.  The facts lie in boards/*.toml, a page of data each."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import UsageError, nearest
from . import TARGETS, Target

FOLDER = next((path for up in (1, 2) if (path := Path(__file__).parents[up] / "boards").is_dir()), Path("boards"))
"""fbnn_hw/boards in an installed package, boards/ at the top of a checkout."""


@dataclass(frozen=True)
class Board:
    """One board, as its page in boards/ describes it.

    pins: {"clock", "rx", "tx" (from the FPGA's side), "ready", "fault": pin; "lit": level that lights the last two}.
    flash: {"bytes", "lines", "offset" of the flash image, "select", "clock": pin, or "USRMCLK" where it is none, "io": pins in the order
    IO0, IO1 ...}, and "quad_enable", if not Winbond's, as FlashChip has it.
    program: {"bitstream": command} and, where weights can be streamed, "weights".  A programmer that writes one file from the address
    "start" on has "both" instead.  Words in braces are replaced.  "also": such a table for another program.
    """

    name: str
    title: str
    target: str  # name in TARGETS
    platform: str  # "module:class" of amaranth-boards; "": it has none
    clock_hz: int  # of the oscillator
    package: str  # as nextpnr names it, or Vivado's part
    usb: str  # vendor and product of the programmer
    console: str  # device of the serial line that is usual on Linux
    pins: dict[str, Any]
    flash: dict[str, Any]
    program: dict[str, Any]

    @property
    def part(self) -> Target:
        return TARGETS[self.target]


@cache
def boards() -> dict[str, Board]:
    """{name: Board}, sorted by name."""
    pages = sorted(FOLDER.glob("*.toml"), key=lambda path: path.stem)
    return {page.stem: Board(page.stem, **tomllib.loads(page.read_text("utf-8"))) for page in pages}


def board(name: str) -> Board:
    """The board of that name; raises UsageError with the list."""
    if name not in boards():
        raise UsageError(f"--board {name}: no such board, expected one of {', '.join(boards())}{nearest(name, boards())}")
    return boards()[name]
