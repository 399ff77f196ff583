"""The speed of a board's line, found by trial where nobody states it."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress

from ..machine import protocol
from ..machine.protocol import Opcode
from . import transport

WAIT_S = 0.4
"""Seconds to wait for an answer at one speed.

That is longer than a link keeps silent after bytes of another speed (`HostLink`, timeout_bits).
"""
ATTEMPTS = 2
"""Requests at one speed.  The link may still discard bytes of another speed when the first request comes."""


def answered(path: str, speeds: Sequence[int], opened: Callable[..., transport.Serial] = transport.Serial) -> int:
    """The first of `speeds` at which a board answers at the serial port `path`; speeds[0] where none does.

    Speeds are tried at a USB device only: a pseudo-terminal has none.  One that the port lacks is left out.  Raises InputError if the port
    cannot be opened.
    """
    devices = {port.path for port in transport.ports() if port.usb}
    if len(speeds) == 1 or not devices & {path, os.path.realpath(path)}:  # /dev/serial/by-id has links
        return speeds[0]
    for speed in speeds:
        with suppress(transport.SpeedError), opened(path, speed) as line:
            if any(_answers(line, sequence) for sequence in range(ATTEMPTS)):
                return speed
    return speeds[0]


def _answers(line: transport.Serial, sequence: int) -> bool:
    """Whether a message of the protocol, of any content, answers a request for the board's identity."""
    line.discard()
    line.write(protocol.encode(Opcode.IDENTIFY, sequence=sequence), WAIT_S)
    return any(opcode & protocol.REPLY for opcode, _, _ in protocol.Decoder().listen(line.read, WAIT_S))
