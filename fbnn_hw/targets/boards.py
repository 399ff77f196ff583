"""Boards, for which a design is built.

A board's platform class (`platforms`) describes it.  Its page in boards/*.toml names the class and adds
what that lacks.
"""

import re
import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import UsageError, nearest, show
from . import TARGETS, Target
from .bridges import BRIDGES

FOLDER = next((path for up in (1, 2) if (path := Path(__file__).parents[up] / "boards").is_dir()), Path("boards"))
"""fbnn_hw/boards in an installed package, boards/ at the top of a checkout."""
LARGEST = 100_000
"""Most bytes of a page."""
PAGE = {"title": str, "platform": str, "usb": str, "console": str, "flash": dict}
"""Keys that a page must have."""
MAY = {"ready": list, "fault": list, "low": bool, "link": dict, "package": str, "program": dict, "bridge": str, "sdram": dict}
"""Keys that it may have."""
FLASH = "bytes", "offset"
"""Numbers that the flash of a page must have."""
NOUNS = {str: "text", list: "[resource, number]", bool: "true or false", dict: "a table"}


@dataclass(frozen=True)
class Board:
    """One board.

    pins: {"clock", "rx", "tx": pin}, from the FPGA's side, and "ready" and "fault" where it has such LEDs.
    low: the LEDs that a 0 lights.

    flash: {"bytes", "lines", "offset": of the flash image, "select", "clock": pin, "io": pins in the
    order IO0, IO1 ...}.  "clock" is "USRMCLK" where it is no pin.  "quad_enable", if the chip is not
    Winbond's, is that of `FlashChip`.

    sdram: {"chip": name in `rtl.sdram.CHIPS`, "pins": {name: pin}}, or {} where none is read.

    program: {"bitstream": command} and, where weights can be streamed, "weights".  A programmer that
    takes one file has "both", and "start" for its address.  Words in braces are replaced.  "also" is
    such a table for another program.
    """

    name: str
    title: str
    target: str  # name in TARGETS
    platform: str  # "module:class"
    clock_hz: int  # of the oscillator
    package: str  # as nextpnr names it, or Vivado's part; "" where the part names it
    usb: str  # vendor and product of the programmer
    bridge: str  # name in `bridges.BRIDGES`
    console: str  # device of the serial line that is usual on Linux
    pins: dict[str, str]
    low: frozenset[str]
    flash: dict[str, Any]
    program: dict[str, Any]
    sdram: dict[str, Any] = field(default_factory=dict)

    @property
    def part(self) -> Target:
        return TARGETS[self.target]

    def baud(self, clock_hz: float, sleeps: bool = False) -> int:
        """Bits a second of the link where no other speed is asked for.  clock_hz: of the design.  sleeps: whether it does."""
        return BRIDGES[self.bridge].best(clock_hz, sleeps)


def names() -> list[str]:
    """Names of the boards that have a page in boards/, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


@cache
def boards() -> dict[str, Board]:
    """{name: Board}, sorted by name."""
    return {name: read(FOLDER / f"{name}.toml") for name in names()}


def board(name: str) -> Board:
    """The board of that name, or that of a page NAME.toml of one's own; raises UsageError with the list."""
    if name.endswith(".toml"):
        return read(Path(name))
    if name not in names():
        raise UsageError(f"--board {name}: no such board, expected one of {', '.join(names())}, or a page NAME.toml of your own"
                         f"{nearest(name, names())}")
    return boards()[name]


def read(path: Path) -> Board:
    """Read a board's page and the platform class that it names.  The class is code, and it runs.  Raises UsageError."""
    from . import platforms  # Amaranth; names of boards are told without it

    page = _page(path)
    facts = platforms.Facts(platforms.load(page["platform"], str(path)), str(path))
    link, flash = facts.link(page.get("link")), facts.flash()
    leds = {name: facts.led(*page[name]) for name in ("ready", "fault") if name in page}
    program = page.get("program", {})
    return Board(
        name=path.stem, title=page["title"], target=facts.target(), platform=page["platform"], clock_hz=facts.clock_hz(),
        package=page.get("package") or facts.package(), usb=page["usb"], bridge=page.get("bridge", "other"), console=page["console"],
        pins={"clock": facts.clock(), **link, **{name: pin for name, (pin, _) in leds.items()}},
        low=frozenset(name for name, (_, low) in leds.items() if page.get("low", low)), flash=flash | page["flash"],
        program=program if "bitstream" in program else {"bitstream": facts.bitstream(), **program},
        sdram=page["sdram"] | {"pins": facts.sdram()} if "sdram" in page else {})


def _page(path: Path) -> dict[str, Any]:
    """The contents of a page, its keys checked."""
    try:
        if path.stat().st_size > LARGEST:
            raise UsageError(f"{path}: {path.stat().st_size:,} bytes, expected a board's page of at most {LARGEST:,}")
        page = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}, expected a board's page, as boards/icebreaker.toml is one") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: no page of a board ({show(str(error))}), expected TOML as in boards/icebreaker.toml") from None
    if not re.fullmatch("[A-Za-z0-9][A-Za-z0-9-]{0,40}", path.stem):
        raise UsageError(f"{path}: expected a name of letters, digits and dashes")
    for key, value in page.items():
        if key not in PAGE | MAY:
            raise UsageError(f"{path}: key {show(key)}, expected {', '.join(PAGE | MAY)}{nearest(key, PAGE | MAY)}")
        if not isinstance(value, (PAGE | MAY)[key]):
            raise UsageError(f"{path}: {key} is {show(value)}, expected {NOUNS[(PAGE | MAY)[key]]}")
    for led in ("ready", "fault"):
        if led in page and not (len(page[led]) in (2, 3) and all(map(isinstance, page[led], (str, int, str)))):
            raise UsageError(f"{path}: {led} is {show(page[led])}, expected [resource, number], or a third word for a part of it")
    if (bridge := page.get("bridge", "other")) not in BRIDGES:
        raise UsageError(f"{path}: bridge is {show(bridge)}, expected one of {', '.join(BRIDGES)}{nearest(bridge, BRIDGES)}")
    if "link" in page and not _link(page["link"]):
        raise UsageError(f"{path}: link is {show(page['link'])}, expected connector = [name, number], rx and tx, two pins of it")
    if "sdram" in page and {key: type(value) for key, value in page["sdram"].items()} != {"chip": str}:
        raise UsageError(f"{path}: sdram is {show(page['sdram'])}, expected chip, a name")
    missing = [key for key in PAGE if key not in page]
    missing += [f"flash.{key}" for key in FLASH if type(page.get("flash", {}).get(key)) is not int]
    if missing:
        raise UsageError(f"{path}: no {' and no '.join(missing)}, expected as in boards/icebreaker.toml")
    return page


def _link(link: dict[str, Any]) -> bool:
    """Whether a table names two pins of a connector."""
    connector = link.get("connector")
    return (set(link) == {"connector", "rx", "tx"} and isinstance(connector, list) and [*map(type, connector)] == [str, int]
            and isinstance(link["rx"], str) and isinstance(link["tx"], str))
