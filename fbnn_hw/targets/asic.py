"""A design as the cells of a chip: synthesised against a Liberty library, its memories as macros.  There is no layout.

The library is the user's; nothing of a process is in the project.
"""

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path

from ..base.errors import InputError, ToolError, UsageError
from . import synthesis

MEMORY = re.compile(r"(?ms)^module (fbnn_\w+) #\(.*?^endmodule\n")
"""A module of memories.v in a generated accelerator.v."""
TWO_PORTS = "fbnn_ring", "fbnn_two_port_bank"
FANOUT = 16
"""Most inputs that a net drives before the timing analysis: without a tree of buffers it says nothing of a layout."""
TOP = "accelerator"
_BRACE = re.compile(r"[{}]")
_GROUP = re.compile(r"\b(cell|pin|memory)\s*\(\s*\"?([^\s\")]*)\"?\s*\)\s*\{")
_VALUE = re.compile(r"\b(area|function|direction|address_width|word_width)\s*:\s*\"?([^\";]*?)\"?\s*;")
_NOM = re.compile(r"\b(nom_voltage|nom_temperature)\s*:\s*([-\d.]+)")


@dataclass(frozen=True)
class LibraryCell:
    """area: um2.  pins: {output: its function}.  inputs: their number.  words, bits: of a memory, else 0."""

    name: str
    area: float
    pins: dict[str, str]
    inputs: int = 0
    words: int = 0
    bits: int = 0


class Library:
    """What a Liberty file says of its cells that is counted here: areas, functions and sizes of memories.

    path: of the file.  corner: (volts, degrees Celsius) of it.  cells: {name: LibraryCell}.  Raises InputError for another file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            text = re.sub(r"/\*.*?\*/", "", path.read_text(errors="replace"), flags=re.S)
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}, expected a Liberty file of a cell library") from None
        found = dict(_NOM.findall(text))
        self.corner = tuple(float(found.get(name, 0)) for name in ("nom_voltage", "nom_temperature"))
        self.cells = {cell.name: cell for cell in _cells(text)}
        if not self.cells:
            raise InputError(f"{path}: has no cells, expected a Liberty file of a cell library")

    def smallest(self, *functions: str) -> LibraryCell:
        """The smallest cell with one output of one of the functions, as `_plain` writes them; InputError where there is none."""
        fitting = [cell for cell in self.cells.values() if [_plain(text) for text in cell.pins.values()] in [[one] for one in functions]]
        if not fitting:
            raise InputError(f"{self.path}: has no cell of the function {functions[0]}, expected a library of standard cells")
        return min(fitting, key=lambda cell: cell.area)

    def tie(self, level: str) -> tuple[str, str] | None:
        """(cell, pin) that is always 0 or 1, or None."""
        return next(((cell.name, pin) for cell in self.cells.values() for pin, text in cell.pins.items() if _plain(text) == level), None)


def _plain(function):
    """A function without spaces and brackets."""
    return re.sub(r"[\s()]", "", function)


def _cells(text):
    """The `LibraryCell`s of a Liberty file, read group by group."""
    for match in _GROUP.finditer(text):
        if match[1] != "cell":
            continue
        end, depth = match.end(), 1
        while depth and (brace := _BRACE.search(text, end)):
            depth, end = depth + (1 if brace[0] == "{" else -1), brace.end()
        body = text[match.end():end]
        groups = list(_GROUP.finditer(body))
        starts = [one for one in groups if one[1] == "pin"]
        bounds = [*(one.start() for one in starts), len(body)]
        values = dict(_VALUE.findall(body[:bounds[0]]))
        memory = dict(_VALUE.findall(body)) if any(one[1] == "memory" for one in groups) else {}
        pins, inputs = {}, 0
        for one, after in zip(starts, bounds[1:]):
            said = dict(_VALUE.findall(body[one.end():after]))
            inputs += said.get("direction") == "input"
            if "function" in said:
                pins[one[2]] = said["function"]
        words = 2 ** int(memory["address_width"]) if memory else 0
        area = float(values.get("area") or memory.get("area") or 0)
        yield LibraryCell(match[2], area, pins, inputs, words, int(memory.get("word_width", 0)))


def split(accelerator: str) -> tuple[str, str]:
    """(the logic, the modules of the memories) of a generated accelerator.v; UsageError where it has memories of its own part."""
    memories = "".join(match[0] for match in MEMORY.finditer(accelerator))
    if "fbnn_bank" not in memories and "fbnn_two_port_bank" not in memories:
        raise UsageError("asic: the design's memories are those of an FPGA, expected one made with fbnn-hw generate --target generic")
    return MEMORY.sub("", accelerator), memories


def script(library: Library, period_ps: int) -> str:
    """yosys' script: logic.v with memories.v as black boxes to netlist.v and netlist.json, and the library's cells in use to cells.v."""
    high, low = library.tie("1"), library.tie("0")
    ties = f"hilomap -singleton -hicell {' '.join(high)} -locell {' '.join(low)}\n" if high and low else ""
    name = library.path.absolute()
    return (f"read_verilog logic.v\nread_verilog -lib memories.v\nhierarchy -check -top {TOP}\nsynth -top {TOP} -flatten\n"
            f"dfflibmap -liberty {name}\nopt\nabc -liberty {name} -D {period_ps}\nopt_clean -purge\nsetundef -zero\n{ties}clean\n"
            f"tee -q -o cells.json stat -json -liberty {name}\nwrite_verilog -noattr netlist.v\nwrite_json netlist.json\n"
            f"design -reset\nread_liberty -ignore_miss_func -ignore_miss_dir {name}\nwrite_verilog -noattr cells.v\n")


@dataclass(frozen=True)
class Memory:
    """A memory of a design.  words, bits: its size.  rows, columns: of macros."""

    instance: str  # its name
    kind: str  # of memories.v
    words: int
    bits: int
    macro: str | None = None  # the library's, None where none fits
    rows: int = 0
    columns: int = 0
    area: float = 0  # um2 in all


def memories(netlist: dict, macros: list[LibraryCell]) -> list[Memory]:
    """The memories of a netlist of yosys', each with the array of macros that takes the least area.  One with two ports gets none."""
    found = []
    for name, cell in netlist["modules"][TOP]["cells"].items():
        if not cell["type"].startswith("fbnn_"):
            continue
        words, bits = (int(cell["parameters"][key], 2) for key in ("DEPTH", "WIDTH"))
        arrays = [(macro, math.ceil(words / macro.words), math.ceil(bits / macro.bits)) for macro in macros]
        choices = [(rows * columns * macro.area, macro.name, rows, columns) for macro, rows, columns in arrays]
        if choices and cell["type"] not in TWO_PORTS:
            area, macro, rows, columns = min(choices)
            found.append(Memory(name, cell["type"], words, bits, macro, rows, columns, area))
        else:
            found.append(Memory(name, cell["type"], words, bits))
    return found


def macros(folder: Path, corner: tuple) -> list[LibraryCell]:
    """The memories of the Liberty files in a folder, those of the same corner where a macro has several; InputError where there is none."""
    libraries = [Library(path) for path in sorted(folder.glob("*.lib")) if "memory" in path.read_text(errors="replace")]
    libraries.sort(key=lambda one: one.corner == corner)  # the last one of a name counts
    found = {cell.name: cell for library in libraries for cell in library.cells.values() if cell.words}
    if not found:
        raise InputError(f"{folder}: has no Liberty file of a memory, expected *.lib of single-port macros")
    return list(found.values())


def synthesise(design_verilog: str, weights: str | None, library: Library, period_ps: int, where: Path) -> dict:
    """Write the netlist of a design to the folder `where`; return {"cells": {cell: count}, "area": um2 of them, "netlist": yosys' JSON}.

    weights: text of weights.hex, or None.  Raises ToolError, UsageError.
    """
    where.mkdir(parents=True, exist_ok=True)
    logic, modules = split(design_verilog)
    texts = {"logic.v": logic, "memories.v": modules} | ({"weights.hex": weights} if weights is not None else {})
    for name, text in texts.items():
        (where / name).write_text(text)
    synthesis.run(synthesis.command(script(library, period_ps), where), where, "synthesis.log", "synthesis")
    try:
        made = json.loads((where / "cells.json").read_text())["modules"]["\\" + TOP]
        netlist = json.loads((where / "netlist.json").read_text())
    except (OSError, ValueError, KeyError):
        raise ToolError(f"synthesis: {where / 'cells.json'} has no cell counts; see {where / 'synthesis.log'}") from None
    counts = {name: count if isinstance(count, int) else count["count"] for name, count in made["num_cells_by_type"].items()}
    cells = {name: count for name, count in counts.items() if name in library.cells}
    others = counts.keys() - cells.keys() - {name for name in counts if name.startswith("fbnn_")}
    if others:
        raise ToolError(f"{library.path}: has no cell for {', '.join(sorted(others))}, expected a library with flip-flops and gates")
    return {"cells": cells, "area": sum(library.cells[name].area * count for name, count in cells.items()), "netlist": netlist}


def buffered(netlist: dict, library: Library) -> int:
    """Put trees of buffers behind the nets of many inputs of a netlist of yosys', and name its memories one by one, for a timing analysis
    without layout; return how many buffers.

    The clock has no tree.  A net's source drives at most `FANOUT` inputs afterwards.
    """
    module = netlist["modules"][TOP]
    buffers = sorted((cell for cell in library.cells.values()
                      if cell.inputs == 1 and [_plain(text) for text in cell.pins.values()] == ["A"]), key=lambda cell: cell.area)
    if not buffers:
        raise InputError(f"{library.path}: has no buffer whose input is A, expected a library of standard cells")
    buffer = buffers[-2:][0]  # the strongest one takes long to drive itself
    output = next(iter(buffer.pins))
    top = 1 + max(bit for cell in module["cells"].values() for bits in cell["connections"].values() for bit in bits if isinstance(bit, int))
    clock = module["ports"]["clk"]["bits"][0]
    sinks: dict[int, list] = {}
    for cell in list(module["cells"].values()):
        outputs = library.cells[cell["type"]].pins if cell["type"] in library.cells else ("data", "read_data")
        for pin, bits in cell["connections"].items():
            for place, bit in enumerate(bits):
                if pin not in outputs and isinstance(bit, int) and bit != clock:
                    sinks.setdefault(bit, []).append((bits, place))
    count = 0
    for net, ends in sinks.items():
        while len(ends) > FANOUT:
            above = []
            for first in range(0, len(ends), FANOUT):
                for bits, place in ends[first:first + FANOUT]:
                    bits[place] = top
                into = [net]
                module["cells"][f"tree{count}"] = {
                    "hide_name": 0, "type": buffer.name, "parameters": {}, "attributes": {},
                    "port_directions": {"A": "input", output: "output"}, "connections": {"A": into, output: [top]}}
                above.append((into, 0))
                count, top = count + 1, top + 1
            ends = above
    return count
