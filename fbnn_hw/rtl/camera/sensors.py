"""The sensors of cameras: their frames, their pins, and the registers that are written once after reset; NAME.toml has those of one.

Exposure, gain and white balance are the sensors' own and stay automatic.  Nothing here was tried on a sensor.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Register:
    """A write.  number: of 8 bits, or of 16, as the sensor has them.  A register that is not written keeps the value of its reset."""

    number: int
    value: int
    name: str
    meaning: str


@dataclass(frozen=True)
class Sensor:
    """A sensor with its registers set.

    width, height: pixels of a frame.  xclk_hz, pclk_hz, frames: clock in, clock out and frames/s with these registers.
    """

    name: str
    address: int  # the byte that begins a write
    number_bytes: int  # of a register's number
    width: int
    height: int
    grey: bool  # a byte a pixel, else RGB565 in two, the high one first
    href: int  # its level within a line
    vsync: int  # its level between two frames
    xclk_hz: float
    pclk_hz: float
    frames: float
    registers: tuple[Register, ...]

    @property
    def writes(self):
        """The bytes of each write."""
        return [bytes([self.address, *entry.number.to_bytes(self.number_bytes, "big"), entry.value]) for entry in self.registers]


def _registers(number, value, name, meaning):
    """The registers of an entry: one, or those of several values, named by a number from 1 on."""
    if isinstance(value, int):
        return [Register(number, value, name, meaning)]
    return [Register(number + i, byte, f"{name}{i + 1}", meaning) for i, byte in enumerate(bytes.fromhex(value))]


def _read(name):
    page = tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8"))
    clock, cycles = page.pop("frame")
    registers = tuple(register for entry in page.pop("registers") for register in _registers(*entry))
    return Sensor(name=name, **page, frames=clock / cycles, registers=registers)


OV7670, HM01B0 = _read("ov7670"), _read("hm01b0")
SENSORS = {sensor.name: sensor for sensor in (OV7670, HM01B0)}
