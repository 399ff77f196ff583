"""What an iCE40UP5K and a serial flash draw, with bounds and where each figure is from.  docs/energy.md explains them."""

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True)
class Bounds:
    """A quantity between `low` and `high`, most likely near `typical`."""

    low: float
    typical: float
    high: float

    def __add__(self, other: "Bounds") -> "Bounds":
        return Bounds(self.low + other.low, self.typical + other.typical, self.high + other.high)

    def __mul__(self, factor: float) -> "Bounds":
        return Bounds(self.low * factor, self.typical * factor, self.high * factor)

    @classmethod
    def total(cls, parts: "list[Bounds]") -> Self:
        """The sum of parts that are all low, all typical or all high."""
        return cls(sum(part.low for part in parts), sum(part.typical for part in parts), sum(part.high for part in parts))

    def values(self) -> dict[str, float]:
        return {"low": self.low, "typical": self.typical, "high": self.high}


@dataclass(frozen=True)
class Constant:
    """A figure of a part."""

    name: str
    bounds: Bounds
    unit: str  # of `bounds`
    kind: str  # "datasheet", "measured by others", "derived" or "assumed"
    source: str  # where they are from


TINYVISION = "github.com/tinyvision-ai-inc/ice40_power: currents of an iCE40UP5K-SG48 at 1.219 V"
W25Q = "Winbond W25Q128JV"

CORE_V, IO_V = 1.2, 3.3
"""Supplies of the iCEBreaker."""

CONSTANTS = (
    Constant("static", Bounds(75e-6 * CORE_V, 92.1e-6 * CORE_V + 12.8e-6 * IO_V, 184e-6 * CORE_V + 13e-6 * IO_V), "W",
             "measured by others", "low: 75 uA, assumed; typical: 92.1 uA with a clock that stands "
             f"still and 12.8 uA of the other supplies, {TINYVISION}; high: twice that of the core, for a warmer part, assumed"),
    Constant("clock", Bounds(44.0e-12, 52.1e-12, 53.0e-12), "J a cycle", "measured by others",
             f"{TINYVISION}: 36.1 uA/MHz from the PLL's rows of 16 and 48 MHz, 42.8 from those of the oscillator, 43.5 from an "
             "external clock"),
    Constant("flip_flop", Bounds(0.0, 7e-15, 14e-15), "J a cycle and flip-flop", "derived",
             f"{TINYVISION}: 196 more cells of counters draw 27.8 uA more at 12 MHz, 14 fJ each, toggles included"),
    Constant("pll", Bounds(0.69e-3 * CORE_V, 0.89e-3 * CORE_V, 0.89e-3 * CORE_V), "W", "derived",
             f"{TINYVISION}: 0.14 mA of the PLL's supply, 0.55 to 0.75 mA of the core that its rows have above the slope of the clock"),
    Constant("toggle", Bounds(0.087e-12, 0.22e-12, 0.55e-12), "J a toggle", "derived",
             f"{TINYVISION}, over the toggles that docs/benchmarks/energy_constants.py counts; low: counters, short wires; high: a product "
             "of 8 x 8 bits, long wires and glitches; typical: the geometric mean"),
    Constant("multiplier", Bounds(4e-12, 12e-12, 24e-12), "J a product", "derived",
             f"high: all of the 237 uA at 12 MHz that a multiplier, two counters and a tree of ANDs draw, {TINYVISION}; the rest assumed"),
    Constant("bank", Bounds(3e-12, 8e-12, 20e-12), "J an access", "assumed", "a 32 KB SRAM with one port of 16 bits, 40 nm"),
    Constant("block", Bounds(0.7e-12, 2e-12, 6e-12), "J an access", "assumed", "a 512 byte SRAM with a word of 16 bits, 40 nm"),
    Constant("pin", Bounds(0.5 * 5e-12 * IO_V ** 2, 0.5 * 10e-12 * IO_V ** 2, 0.5 * 20e-12 * IO_V ** 2), "J an edge", "assumed",
             "5, 10 and 20 pF of pin, wire and pin at 3.3 V; W25Q128JV: at most 6 pF in, 8 pF out"),
    Constant("flash_standby", Bounds(10e-6 * IO_V, 10e-6 * IO_V, 60e-6 * IO_V), "W", "assumed",
             "10 uA typically, 60 uA at most, not selected"),
    Constant("flash_asleep", Bounds(1e-6 * IO_V, 1e-6 * IO_V, 20e-6 * IO_V), "W", "datasheet",
             f"{W25Q}, features: 1 uA in power-down; high: 20 uA, assumed"),
    Constant("flash_read", Bounds(4e-3 * IO_V, 8e-3 * IO_V, 15e-3 * IO_V), "W", "assumed", "4, 8 and 15 mA of a part of 3 V at 50 MHz"),
)
"""The table of docs/energy.md."""
BY_NAME = {constant.name: constant.bounds for constant in CONSTANTS}
CAMERAS = {
    "ov7670": Constant("ov7670", Bounds(60e-3, 60e-3 * 2 ** 0.5, 120e-3), "W", "datasheet",
                       "OmniVision OV7670, key specifications: 60 mW at 15 frames/s of VGA; high: twice that at 30, assumed; typical: the "
                       "geometric mean.  The regulators of a module are left out; standby: 20 uA at most"),
    "hm01b0": Constant("hm01b0", Bounds(2e-3, 4e-3, 4e-3), "W", "datasheet",
                       "Himax HM01B0, description: less than 4 mW at 60 frames/s of QVGA, less than 2 mW at 30; the regulators of a module "
                       "are left out"),
}
"""What sensors draw while they give frames."""
