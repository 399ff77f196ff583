"""A serial port, by pyserial: Linux, macOS and Windows; and the ports that there are."""

import errno
import math
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import serial
from serial.tools import list_ports

from ..base.errors import InputError
from ..machine.line import DEFAULT_BAUD

SLICE_S = 0.1
"""Longest single wait inside pyserial, in seconds.  On Windows, Ctrl-C takes effect between two waits."""
DISCARD_S = 0.2
READ_BYTES = 1 << 16
NETWORK = "socket://"
"""Beginning of the name of a port that is a TCP connection, as in pyserial."""
LISTED = 8
"""Most ports that a message names."""
SPEEDS = "expected one such as 115200, 1000000 or 3000000"


@dataclass(frozen=True)
class Port:
    """A serial port of this computer.  What is not known is ""."""

    path: str  # to open it by
    usb: str = ""  # "vendor:product" in hexadecimal, such as 0403:6010
    serial_number: str = ""  # of the USB device
    product: str = ""  # what the device calls itself
    location: str = ""  # of the device on the USB, the same for all ports of one device

    def __str__(self) -> str:
        about = " ".join(part for part in (self.usb, self.product, self.serial_number) if part)
        return f"{self.path} ({about})" if about else self.path


def ports() -> list[Port]:
    """The serial ports of this computer, a list of `Port` sorted by name (ttyUSB2 before ttyUSB10)."""
    listed = []
    for port in list_ports.comports():
        usb = f"{port.vid:04x}:{port.pid:04x}" if port.vid is not None and port.pid is not None else ""
        # A location is a place on the bus, then ":" and the configuration and interface on Linux, or "x" and the interface on Windows.
        location = re.split(":", port.location or "")[0]
        listed.append(Port(port.device, usb, _shown(port.serial_number), _shown(port.product or port.description), location))
    return sorted(listed, key=lambda port: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", port.path)])


def _shown(text: str | None) -> str:
    """Text from a device, made fit for a line of a terminal."""
    return "".join(c for c in text or "" if c.isprintable())[:60] if text != "n/a" else ""


def _listed(present: list[Port]) -> str:
    return ", ".join(map(str, present[:LISTED])) + (", ..." if len(present) > LISTED else "") or "none"


def automatic(usb: Mapping[str, int]) -> str:
    """Path of the port of the one board that is plugged in.

    usb: {"vendor:product" of a board, in hexadecimal: which of the board's ports, from 0}; -1 is the last one, where an FT2232H has its
    UART.  InputError if no board is there, or several are.
    """
    interfaces = {name.lower(): interface for name, interface in usb.items()}
    present = ports()
    boards: dict[tuple[str, ...], list[Port]] = {}
    for port in present:
        if port.usb in interfaces:
            boards.setdefault(_device(port), []).append(port)
    devices = [board[number] if (number := interfaces[key[0]]) < len(board) else board[-1] for key, board in boards.items()]
    if not devices:
        raise InputError(f"--port auto: no port of USB {' or '.join(interfaces)}, expected a board that is plugged in; "
                         f"the ports are {_listed(present)}")
    if len(devices) > 1:
        raise InputError(f"--port auto: {len(devices)} boards are plugged in, expected one; name one of {_listed(devices)}")
    return devices[0].path


def _device(port: Port) -> tuple[str, ...]:
    """A key that the ports of one USB device share."""
    serial_number = port.serial_number
    if sys.platform == "win32" and port.usb in ("0403:6010", "0403:6011"):
        serial_number = serial_number.rstrip("ABCD")  # FTDI's driver puts the interface's letter behind it
    return port.usb, serial_number, port.location


class SpeedError(InputError):
    """A port has no such speed."""


class Serial:
    """A port such as /dev/ttyUSB1, COM4 or socket://HOST:PORT: 8 bits, no parity, one stop bit, no flow control, held by this program
    alone.

    Raises InputError if it cannot be opened or has no such speed.
    """

    def __init__(self, path: str, baud: int = DEFAULT_BAUD):
        self.path, self.baud = str(path), baud
        if baud < 1:
            raise InputError(f"--baud {baud}: no such speed, {SPEEDS}")
        if self.path.startswith(NETWORK) and not re.fullmatch(r"[^/]+:\d+([/?].*)?", self.path[len(NETWORK):]):
            raise InputError(f"{self.path}: expected {NETWORK}HOST:PORT with the number of a port")
        try:
            # pyserial configures the port again whenever a timeout changes, so the one for reading stays the same.
            opened = serial.serial_for_url if self.path.startswith(NETWORK) else serial.Serial
            self._port = opened(self.path, baud, timeout=SLICE_S, write_timeout=1, exclusive=True)
        except (ValueError, OverflowError):
            raise SpeedError(f"--baud {baud}: {self.path} has no such speed, {SPEEDS}") from None
        except (serial.SerialException, OSError) as error:
            raise InputError(f"{self.path}: {_remedy(error)}") from None

    def write(self, data: bytes, timeout: float) -> None:
        """Send all of `data`; InputError if it is not taken within `timeout` seconds, rounded up to whole ones, or the port is gone."""
        seconds = max(1, math.ceil(timeout))
        try:
            if self._port.write_timeout != seconds:
                self._port.write_timeout = seconds
            self._port.write(data)
        except serial.SerialTimeoutException:
            raise InputError(f"{self.path}: takes no more bytes; is another program using the port?") from None
        except (serial.SerialException, OSError) as error:
            raise self._disconnected(error) from None

    def read(self, timeout: float) -> bytes:
        """Return at least one byte, or b"" after `timeout` seconds, at most `SLICE_S` later.

        Raises InputError if the port is gone.
        """
        until, port = time.monotonic() + timeout, self._port
        try:
            first = b""
            while not first and not port.in_waiting and time.monotonic() < until:
                first = port.read(1)
            return first + port.read(min(port.in_waiting, READ_BYTES))
        except (serial.SerialException, OSError) as error:
            raise self._disconnected(error) from None

    def discard(self) -> None:
        """Forget what has come in; a line that never falls silent is left after a while."""
        until = time.monotonic() + DISCARD_S
        while self.read(0) and time.monotonic() < until:
            pass

    def close(self) -> None:
        """Give the port up.  It can be closed twice."""
        self._port.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _disconnected(self, error: Exception) -> InputError:
        return InputError(f"{self.path}: the connection broke ({_reason(error)}); plug the board in again")


def _reason(error: Exception) -> str:
    """The reason that an error of pyserial gives, often a text around another error."""
    text = " ".join(str(error).split())
    if quoted := re.search(r"\(\d+, '([^']+)'", text):
        return quoted[1].rstrip(".")
    return re.sub(r"^.*\[Errno -?\d+\] ", "", text)


def _remedy(error: Exception) -> str:
    """Say why a port cannot be opened, and the way out.  On Windows the error's number stands only in its text."""
    number, text = getattr(error, "errno", None), str(error)
    if NETWORK in text:
        return f"no connection ({_reason(error)}), expected {NETWORK}HOST:PORT where a board answers"
    if number in (errno.ENOENT, errno.ENXIO, errno.ENODEV) or "FileNotFoundError" in text:
        return f"no such port; plug the board in; the ports are {_listed(ports())}"
    if number in (errno.EAGAIN, errno.EBUSY) or "PermissionError" in text:
        return "another program has it open; close that one"
    if number == errno.EACCES:
        return "permission denied" + ("; sudo usermod -aG dialout $USER, then log in again" if sys.platform == "linux" else "")
    return f"not a serial port ({_reason(error)})"
