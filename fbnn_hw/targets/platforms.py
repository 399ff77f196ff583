"""Platform classes of Amaranth, of amaranth-boards or of one's own: the part, clock, pins, flash and programmer of a board."""

import subprocess
from contextlib import contextmanager
from typing import Any
from unittest import mock

from amaranth.build import Attrs, Platform
from amaranth.build.res import ResourceError
from amaranth_boards.resources import UARTResource

from .. import outside
from ..errors import UsageError, show
from . import TARGETS

CONFIGURATION_CLOCK = "USRMCLK"
"""Takes the place of the pin of a flash's clock where an ECP5 drives the clock by this primitive."""
FLASHES = {"spi_flash_4x": 4, "spi_flash_2x": 2, "spi_flash": 4}
"""Resources that a flash may have, in the order in which they are tried, and the data lines of each."""
SINGLE = ("copi", "cipo", "wp", "hold")
"""Data lines of a flash whose resource names each of them, as ULX3S's does."""


def load(name: str, where: str) -> Any:
    """An instance of the platform class "module:class"; raises UsageError that begins with `where`."""
    platform = outside.load(name, f"{where}: platform {show(name)}")
    if not (isinstance(platform, type) and issubclass(platform, Platform)):
        raise UsageError(f"{where}: platform {show(name)} is no platform class, expected one as those of amaranth-boards")
    return platform()


class Facts:
    """The facts of a platform, which is an instance of its class.

    Each raises UsageError, beginning with `where`, for what is missing.
    """

    def __init__(self, platform: Any, where: str):
        self.platform, self.where = platform, where
        self.ports: dict[tuple[str, int], Any] = {}

    def _refuse(self, problem: str) -> UsageError:
        return UsageError(f"{self.where}: {type(self.platform).__name__} {problem}")

    @property
    def device(self) -> str:
        """Name of the part; without its package where the platform has a field for each."""
        return getattr(self.platform, "part", None) or self.platform.device

    def target(self) -> str:
        """Name in TARGETS of the part."""
        device = self.device.lower()
        for target in TARGETS.values():
            part = target.part.lower()
            if target.blocks and (part.startswith(device) or device.startswith(part)):
                return target.name
        parts = ", ".join(target.part for target in TARGETS.values() if target.blocks)
        raise self._refuse(f"has the part {self.device}, expected one of {parts}")

    def package(self) -> str:
        """The package as nextpnr names it, or Vivado's part; "" where the part names it."""
        options = getattr(self.platform, "_nextpnr_package_options", {})
        family = TARGETS[self.target()].family
        if family == "xilinx7":
            return f"{self.platform.device}{self.platform.package}-{self.platform.speed}"
        if family == "gowin":
            return ""  # the part names it
        package = options.get(self.platform.package, self.platform.package)
        return package.lower() if family == "ice40" else package.upper()

    def clock_hz(self) -> int:
        """Frequency of the oscillator, Hz."""
        return int(self.platform.default_clk_frequency)

    def _port(self, name: str, number: int = 0) -> Any:
        if (name, number) not in self.ports:
            try:
                self.ports[name, number] = self.platform.request(name, number, dir="-")
            except ResourceError as error:
                raise self._refuse(f"gives no {name} {number} ({show(str(error))})") from None
        return self.ports[name, number]

    def clock(self) -> str:
        """Pin of the oscillator."""
        return _pin(self._port(self.platform.default_clk))

    def link(self, added: dict[str, Any] | None) -> dict[str, str]:
        """{"rx", "tx": pin} of the resource uart, from the FPGA's side.

        added: where there is none, {"connector": [name, number], "rx", "tx": pins of it}.
        """
        if added is not None:
            if ("uart", 0) in self.platform.resources:
                raise self._refuse("has a uart 0, expected no link beside it")
            name, number = added["connector"]
            try:
                self.platform.add_resources([UARTResource(0, rx=added["rx"], tx=added["tx"], conn=(name, number), attrs=Attrs())])
                self._port("uart")
            except (NameError, AssertionError) as error:
                raise self._refuse(f"has no such link ({show(str(error))}), expected one pin each for rx and tx of a connector") from None
        port = self._port("uart")
        return {"rx": _pin(port.rx), "tx": _pin(port.tx)}

    def led(self, name: str, number: int = 0, part: str | None = None) -> tuple[str, bool]:
        """(pin, whether 0 lights it) of a resource, or of a part of one: ("rgb_led", 0, "g")."""
        port = self._port(name, number)
        if part is not None:
            port = getattr(port, part, None)
        if not hasattr(port, "io"):
            raise self._refuse(f"gives no {part or 'single pin'} of {name} {number}")
        return _pin(port), port.invert[0]

    def flash(self) -> dict[str, Any]:
        """{"lines", "select", "clock", "io"}, as `boards.Board.flash` has them."""
        name = next((name for name in FLASHES if (name, 0) in self.platform.resources), None)
        if name is None:
            raise self._refuse(f"has no flash, expected a resource {' or '.join(FLASHES)}")
        port = self._port(name)
        io = [_pin(getattr(port, line)) for line in SINGLE] if name == "spi_flash" else [pin.name for pin in port.dq.io.metadata]
        ecp5 = TARGETS[self.target()].family == "ecp5"
        return {"lines": FLASHES[name], "select": _pin(port.cs), "clock": CONFIGURATION_CLOCK if ecp5 else _pin(port.clk), "io": io}

    def sdram(self) -> dict[str, str]:
        """{"clk", "cke", "cs", "ras", "cas", "we", "ba0", "a0", "dq0", "dqm0" and so on: pin} of the resource sdram."""
        port, pins = self._port("sdram"), {}
        for name, part in (("clk", "clk"), ("cke", "clk_en"), ("cs", "cs"), ("ras", "ras"), ("cas", "cas"), ("we", "we")):
            if hasattr(port, part):
                pins[name] = _pin(getattr(port, part))
        for name in ("ba", "a", "dq", "dqm"):
            pins |= {f"{name}{i}": pin.name for i, pin in enumerate(getattr(port, name).io.metadata)}
        return pins

    def bitstream(self) -> list[str]:
        """The command that the platform programs a bitstream with, {bitstream} for its file.

        A platform class runs the command itself, through subprocess; here it is only written down.
        """
        commands: list[list[str]] = []

        def write_down(command: list[str], **_: Any) -> None:
            commands.append([str(word) for word in command])
        with mock.patch.multiple(subprocess, check_call=write_down, run=write_down):
            self.platform.toolchain_program(_Products(), "top")
        if len(commands) != 1:
            raise self._refuse(f"programs with {len(commands)} commands, expected one; give program.bitstream")
        return commands[0]


class _Products:
    """Takes the place of Amaranth's build products: every file is called {bitstream}."""

    @contextmanager
    def extract(self, *names: str) -> Any:
        yield "{bitstream}"


def _pin(port: Any) -> str:
    """Name of the one pin of a port."""
    return port.io.metadata[0].name
