"""The chips between a board's serial line and USB, and the speeds that they have."""

from collections.abc import Iterator
from dataclasses import dataclass

from ..machine.line import FEWEST, FEWEST_ASLEEP, TOLERANCE, bit_clocks

COMMON = (1_000_000, 921_600, 460_800, 230_400, 115_200)
"""Bits a second that any such chip has."""


@dataclass(frozen=True)
class Bridge:
    """A chip between a serial line and USB.

    base: bits a second at its smallest divisor, which has steps of an eighth from 2 on; 0 where only the
    speeds of `COMMON` are known.
    divides: what some firmware of the chip divides the speed by that it is asked for.

    Ref: FTDI AN232B-05, Configuring FT232R, FT2232 and FT232B Baud Rates; AN_120, Aliasing VCP Baud Rates, section 4.4 for the FT2232H;
    the BL616 of a Tang Nano 20K with firmware 2024122312: github.com/trabucayre/openFPGALoader/issues/511.
    """

    name: str
    base: int = 0
    divides: int = 1

    def speeds(self) -> Iterator[int]:
        """Bits a second, the fastest first."""
        if self.base:
            divisors = [8, 12, *range(16, 8 * self.base // COMMON[0] + 1)]  # in eighths
            speeds = [round(8 * self.base / divisor) for divisor in divisors]
            yield from (speed for speed in speeds if COMMON[0] < speed)
        yield from COMMON

    def best(self, clock_hz: float, sleeps: bool = False) -> int:
        """The highest speed that a design of this clock makes, with an error of at most `TOLERANCE`.  sleeps: whether it does."""
        fewest = FEWEST_ASLEEP if sleeps else FEWEST
        for speed in self.speeds():
            clocks = bit_clocks(clock_hz, speed)
            if clocks >= fewest and abs(clock_hz / clocks / speed - 1) <= TOLERANCE:
                return speed
        return COMMON[-1]


RP2040 = 4_000_000
"""Bits a second of an RP2040 that passes USB on to its UART, at most.

The firmware of a pico-ice drops a byte that finds the UART's 32 full, and USB brings 64 at once, some 1.3 us each (estimated); answers
take it some 2.5 us a byte (estimated).  No board has measured them.  Ref: RP2040 datasheet, 4.2.7.1; pico-ice-sdk, src/ice_usb.c.
"""
BRIDGES = {bridge.name: bridge for bridge in (Bridge("FT2232H", 12_000_000), Bridge("FT231X", 3_000_000), Bridge("BL616", divides=4),
                                             Bridge("RP2040", RP2040), Bridge("other"))}
