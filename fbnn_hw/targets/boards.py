"""Boards, for which a design is built.

A board's platform class (`platforms`) describes it.  Its page in boards/*.toml names the class and adds
what that lacks.
"""

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ..base.errors import UsageError, nearest, show
from ..base.files import bundled
from . import TARGETS, Target
from . import page as pages
from .bridges import BRIDGES

FOLDER = bundled("boards")


@dataclass(frozen=True)
class Board:
    """One board.

    flash: {"bytes", "lines", "offset": of the flash image, "select", "clock": pin, "io": pins in the order IO0, IO1 ...}.  "clock"
    is "USRMCLK" where it is no pin.  "quad_enable", if the chip is not Winbond's, is that of `FlashChip`.

    sdram: {"chip": name in `rtl.sdram.CHIPS`, "pins": {name: pin}}, or {} where none is read.

    camera, panel: {name: pin} of a camera's module, and of buttons and LEDs, as a page has them, with "data0" and so on; for designs
    with a camera.

    program: {"bitstream": command} and, where weights can be streamed, "weights".  A programmer that takes one file has "both", and
    "start" for its address.  Words in braces are replaced.  "also" is such a table for another program.  "drag" is what the board's
    drive takes: `page.BITSTREAM`, or the family of a UF2, an integer.
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
    pins: dict[str, str]  # {"clock", "rx", "tx": pin}, from the FPGA's side, and "ready" and "fault" where it has such LEDs
    low: frozenset[str]  # the LEDs that a 0 lights, and the buttons that give 0 while they are pressed
    flash: dict[str, Any]
    program: dict[str, Any]
    sdram: dict[str, Any] = field(default_factory=dict)
    drive: dict[str, int] = field(default_factory=dict)  # {pin: level} of those that every design must hold at a level
    port: int = -1  # which of the board's serial ports reaches the design, from 0; -1 is the last one
    camera: dict[str, str] = field(default_factory=dict)
    panel: dict[str, str] = field(default_factory=dict)

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


def board(name: str | Path) -> Board:
    """The board of that name, or that of a page NAME.toml of one's own; raises UsageError with the list."""
    if not isinstance(name, str | Path):
        raise UsageError(f"--board {show(name)}: expected the name of a board or a page NAME.toml, as text or as a Path")
    name = str(name)
    if name.endswith(".toml"):
        return read(Path(name))
    if name not in names():
        raise UsageError(f"--board {name}: no such board, expected one of {', '.join(names())}, or a page NAME.toml of your own"
                         f"{nearest(name, names())}")
    return boards()[name]


def read(path: Path) -> Board:
    """Read a board's page and the platform class that it names.  The class is code, and it runs.  Raises UsageError."""
    from . import platforms  # Amaranth; names of boards are told without it

    page = pages.read(path)
    with platforms.blaming(page["platform"], str(path)):
        facts = platforms.Facts(platforms.load(page["platform"], str(path)), str(path))
        link, flash = facts.link(page.get("link")), facts.flash()
        leds = {name: facts.led(*page[name]) for name in ("ready", "fault") if name in page}
        program = page.get("program", {})
        pins: dict[str, str] = {"clock": facts.clock(), **link, **{name: pin for name, (pin, _) in leds.items()}}
        drive = [(facts.led(*one["pin"])[0], one["level"]) for one in page.get("drive", [])]
        places = {table: {name: facts.place(spec) for name, spec in pages.single(page.get(table, {}))} for table in ("camera", "panel")}
        taken_pins = pins | {f"drive {i}": pin for i, (pin, _) in enumerate(drive)}
        taken_pins |= {f"{table}.{name}": pin for table, own in places.items() for name, (pin, _) in own.items()}
        for name, pin in taken_pins.items():
            if other := next((other for other, taken in taken_pins.items() if taken == pin and other != name), None):
                raise UsageError(f"{path}: {name} and {other} have the same pin {pin}, expected one of their own")
        return Board(
            name=path.stem, title=page["title"], target=facts.target(), platform=page["platform"], clock_hz=facts.clock_hz(),
            package=page.get("package") or facts.package(), usb=page["usb"], bridge=page.get("bridge", "other"), console=page["console"],
            pins=pins, low=frozenset(name for name, (_, low) in (leds | places["panel"]).items() if page.get("low", low)),
            **{table: {name: pin for name, (pin, _) in own.items()} for table, own in places.items()}, flash=flash | page["flash"],
            program=program if "bitstream" in program else {"bitstream": facts.bitstream(), **program},
            sdram=page["sdram"] | {"pins": facts.sdram()} if "sdram" in page else {}, drive=dict(drive),
            port=page.get("port", -1))
