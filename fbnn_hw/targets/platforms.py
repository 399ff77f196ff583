"""Platform classes of Amaranth, of amaranth-boards or of one's own: the part, clock, pins, flash and programmer of a board."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from amaranth.build import Attrs, Pins, Platform, Resource
from amaranth.build.res import ResourceError
from amaranth_boards.resources import UARTResource

from ..base import plugins
from ..base.errors import FbnnError, UsageError, show
from . import TARGETS

CONFIGURATION_CLOCK = "USRMCLK"
"""Takes the place of the pin of a flash's clock where an ECP5 drives the clock by this primitive."""
FLASHES = "spi_flash_4x", "spi_flash_2x", "spi_flash"
"""Resources that a flash may have, in the order in which they are tried."""
SINGLE = ("copi", "cipo", "wp", "hold")
"""Data lines of a flash whose resource names each of them, as ULX3S's does.  One of two lines lacks the last two."""


def load(name: str, where: str) -> Any:
    """An instance of the platform class "module:class"; raises UsageError that begins with `where`."""
    platform = plugins.load(name, f"{where}: platform {show(name)}")
    if not (isinstance(platform, type) and issubclass(platform, Platform)):
        raise UsageError(f"{where}: platform {show(name)} is no platform class, expected one as those of amaranth-boards")
    return platform()


@contextmanager
def blaming(name: str, where: str) -> Iterator[None]:
    """Raises UsageError, which begins with `where`, for what the platform class `name` raises where it is used."""
    try:
        with plugins.blaming(name, f"{where}: platform {show(name)}"):
            yield
    except FbnnError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(f"{where}: platform {show(name)}: {_said(error)}; expected a class as those of amaranth-boards") from error


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
            if target.blocks and device and (part.startswith(device) or device.startswith(part)):
                return target.name
        parts = ", ".join(target.part for target in TARGETS.values() if target.blocks)
        raise self._refuse(f"has the part {self.device or 'without a name'}, expected one of {parts}")

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
        hz = int(self.platform.default_clk_frequency)
        if hz <= 0:
            raise self._refuse(f"has an oscillator of {hz} Hz, expected more")
        return hz

    def _port(self, name: str, number: int = 0) -> Any:
        if (name, number) not in self.ports:
            try:
                self.ports[name, number] = self.platform.request(name, number, dir="-")
            except ResourceError as error:
                way = "; an oscillator inside the part cannot be the clock" * name.startswith(("SB_", "OSC"))
                raise self._refuse(f"gives no {name} {number} ({show(str(error))}){way}") from None
        return self.ports[name, number]

    def clock(self) -> str:
        """Pin of the oscillator."""
        if not self.platform.default_clk:
            raise self._refuse("names no oscillator, expected default_clk")
        port = self._port(self.platform.default_clk)
        if not hasattr(port, "io"):
            raise self._refuse(f"has its clock {self.platform.default_clk} at two pins, expected one")
        return _pin(port)

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

    def place(self, spec: str | list[Any]) -> tuple[str, bool]:
        """(pin, whether 0 is its active level) of what a page calls a place: "connector_number:pin", or as `led` has it."""
        if not isinstance(spec, str):
            return self.led(*spec)
        if ("place", spec) not in self.ports:
            number = len(self.ports)
            try:
                self.platform.add_resources([Resource("fbnn_place", number, Pins(spec, dir="io"))])
                self.ports["place", spec] = self._port("fbnn_place", number)  # type: ignore[index]
            except (NameError, AssertionError) as error:
                raise self._refuse(f"has no place {spec} ({show(str(error))}), expected a pin of a connector") from None
        return _pin(self.ports["place", spec]), False  # type: ignore[index]

    def flash(self) -> dict[str, Any]:
        """{"lines", "select", "clock", "io"}, as `boards.Board.flash` has them."""
        name = next((name for name in FLASHES if (name, 0) in self.platform.resources), None)
        if name is None:
            raise self._refuse(f"has no flash, expected a resource {' or '.join(FLASHES)}")
        port = self._port(name)
        if name == "spi_flash":
            lines = tuple(line for line in SINGLE if hasattr(port, line))
            if lines not in (SINGLE[:2], SINGLE):
                raise self._refuse(f"has a flash with {' and '.join(lines) or 'no data line'}, expected copi and cipo, or wp and hold too")
            io = [_pin(getattr(port, line)) for line in lines]
        else:
            io = [pin.name for pin in port.dq.io.metadata]
        ecp5 = TARGETS[self.target()].family == "ecp5"
        return {"lines": len(io), "select": _pin(port.cs), "clock": CONFIGURATION_CLOCK if ecp5 else _pin(port.clk), "io": io}

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

        def write_down(command: Any, **options: Any) -> mock.MagicMock:
            if isinstance(command, str | bytes) or options.get("shell"):
                raise self._refuse("programs with a line of the shell, expected one command as a list of words; give program.bitstream")
            commands.append([str(word) for word in command])
            return _ended(commands[-1], any(options.get(name) for name in ("text", "universal_newlines", "encoding", "errors")))

        with mock.patch.object(subprocess, "Popen", write_down), mock.patch.object(os, "system", write_down):
            try:
                self.platform.toolchain_program(_Products(), "top")
            except FbnnError:
                raise
            except Exception as error:
                raise self._refuse(f"does not say what it programs with ({_said(error)}); give program.bitstream") from error
        if len(commands) != 1:
            raise self._refuse(f"programs with {len(commands)} commands, expected one; give program.bitstream")
        return commands[0]


def _ended(args: list[str], text: bool) -> mock.MagicMock:
    """Takes the place of a process: it has ended well and said nothing."""
    said = "" if text else b""
    process = mock.MagicMock(args=args, returncode=0, pid=0, stdin=None, stdout=None, stderr=None)
    process.__enter__.return_value = process
    process.wait.return_value = process.poll.return_value = 0
    process.communicate.return_value = said, said
    return process


class _Products:
    """Takes the place of Amaranth's build products: every file is called {bitstream}."""

    @contextmanager
    def extract(self, *names: str) -> Any:
        yield "{bitstream}"


def _said(error: BaseException) -> str:
    """The kind of an error, and its text if it has one."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _pin(port: Any) -> str:
    """Name of the one pin of a port."""
    return port.io.metadata[0].name
