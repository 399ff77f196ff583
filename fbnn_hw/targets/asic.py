"""A design as the cells of a chip: synthesised against a Liberty library, its memories as macros.  There is no layout.

The library is the user's; nothing of a process is in the project.
"""

import json
import math
import re
from dataclasses import dataclass, field
from pathlib import Path

from ..base.errors import InputError, ToolError, UsageError
from . import synthesis

MEMORY = re.compile(r"(?ms)^module (fbnn_\w+) #\(.*?^endmodule\n")
"""A module of memories.v in a generated accelerator.v."""
TWO_PORTS = "fbnn_ring", "fbnn_two_port_bank"
FANOUT = 16
"""Most inputs that a net drives before the timing analysis: without a tree of buffers it says nothing of a layout."""
TOP = "accelerator"
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_PARTS = re.compile(r'(\w+)\s*\(((?:"[^"]*"|[^()"])*)\)\s*(\{?)|(\w+)\s*:\s*(?:"([^"]*)"|([^;\n}]*))|(\})')
"""What a Liberty file is made of: a group's beginning or a statement with brackets, an attribute, a group's end."""


@dataclass
class Group:
    """A group of a Liberty file, and a statement with brackets, which has no content."""

    kind: str
    name: str  # what stands in its brackets, without quotes
    values: dict[str, str] = field(default_factory=dict)
    groups: list["Group"] = field(default_factory=list)

    def of(self, *kinds: str) -> "list[Group]":
        """The groups of these kinds in it, those in its buses and bundles, too."""
        inside = [one for bus in self.groups if bus.kind in ("bus", "bundle") for one in bus.of(*kinds)]
        return [one for one in self.groups if one.kind in kinds] + inside

    def numbers(self, kind: str) -> list[float]:
        """The numbers of a statement, such as values; none where there is no such statement."""
        return next((numbers(one.name) for one in self.of(kind)), [])

    def number(self, name: str) -> float:
        """An attribute as a number; 0 where there is none."""
        return next(iter(numbers(self.values.get(name, ""))), 0.0)


def numbers(text: str) -> list[float]:
    """The numbers in a text."""
    return [float(one) for one in _NUMBER.findall(text)]


def read_groups(text: str) -> Group:
    """The content of a Liberty file as one group."""
    stack = [Group("file", "")]
    for match in _PARTS.finditer(re.sub(r"/\*.*?\*/|\\\s*\n", "", text, flags=re.S)):
        kind, name, opened, key, quoted, plain, _ = match.groups()
        if kind:
            stack[-1].groups.append(Group(kind, name.replace('"', "").strip()))
            if opened:
                stack.append(stack[-1].groups[-1])
        elif key:
            stack[-1].values[key] = (plain if quoted is None else quoted).strip()
        elif len(stack) > 1:
            stack.pop()
    return stack[0]


@dataclass(frozen=True)
class LibraryCell:
    """area: um2.  pins: {output: its function}.  inputs: their number.  words, bits: of a memory, else 0."""

    name: str
    area: float
    pins: dict[str, str]
    inputs: int = 0
    words: int = 0
    bits: int = 0
    content: Group = field(default_factory=lambda: Group("cell", ""), repr=False, compare=False)
    library: Group = field(default_factory=lambda: Group("library", ""), repr=False, compare=False)


class Library:
    """What a Liberty file says of its cells that is counted here: areas, functions and sizes of memories.

    path: of the file.  corner: (volts, degrees Celsius) of it.  cells: {name: LibraryCell}.  Raises InputError for another file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.content = read_groups(path.read_text(errors="replace"))
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}, expected a Liberty file of a cell library") from None
        self.content = next(iter(self.content.of("library")), self.content)
        self.corner = tuple(self.content.number(name) for name in ("nom_voltage", "nom_temperature"))
        self.cells = {cell.name: cell for cell in (_cell(group, self.content) for group in self.content.of("cell"))}
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
    """A function without spaces and brackets; AND, which may be written as a space, is *."""
    return re.sub(r"[\s()]", "", re.sub(r"(?<=[\w)'])\s+(?=[\w(!])", "*", function))


def _input(cell):
    """The name of a cell's first input."""
    return next(pin.name for pin in cell.content.of("pin") if pin.values.get("direction") == "input")


def _cell(group, library):
    """The `LibraryCell` of a group in a library."""
    pins = group.of("pin")
    memory = next(iter(group.of("memory")), None)
    words, bits = (2 ** int(memory.number("address_width")), int(memory.number("word_width"))) if memory else (0, 0)
    inputs = sum(pin.values.get("direction") == "input" for pin in pins)
    return LibraryCell(group.name, group.number("area"), {pin.name: pin.values["function"] for pin in pins if "function" in pin.values},
                       inputs, words, bits, group, library)


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


def write(netlist: dict, path: Path, *options: str) -> None:
    """Write a netlist of yosys' JSON as Verilog.  options: of yosys' write_verilog.  Raises ToolError."""
    path.with_suffix(".json").write_text(json.dumps(netlist))
    lines = f"read_json {path.stem}.json\nwrite_verilog {' '.join(('-noattr', *options))} {path.name}\n"
    synthesis.run(synthesis.command(lines, path.parent), path.parent, f"{path.stem}.log", "writing the netlist")


def buffered(netlist: dict, library: Library) -> tuple[int, int]:
    """Put trees of buffers behind the nets of many inputs of a netlist of yosys', the clock's, too, for an analysis without layout; return
    how many buffers: (of the clock, of all other nets).

    A net's source drives at most `FANOUT` inputs afterwards.  A tree's buffer is named treeN, or clockN.
    """
    module = netlist["modules"][TOP]
    buffers = sorted((cell for cell in library.cells.values() if cell.inputs == len(cell.pins) == 1 and _input(cell) == _plain(
        *cell.pins.values())), key=lambda cell: cell.area)
    if not buffers:
        raise InputError(f"{library.path}: has no buffer, expected a library of standard cells")
    buffer = buffers[-2:][0]  # the strongest one takes long to drive itself
    into_pin, output = _input(buffer), next(iter(buffer.pins))
    top = 1 + max(bit for cell in module["cells"].values() for bits in cell["connections"].values() for bit in bits if isinstance(bit, int))
    clock = module["ports"]["clk"]["bits"][0]
    sinks: dict[int, list] = {}
    for cell in list(module["cells"].values()):
        outputs = library.cells[cell["type"]].pins if cell["type"] in library.cells else ("data", "read_data")
        for pin, bits in cell["connections"].items():
            for place, bit in enumerate(bits):
                if pin not in outputs and isinstance(bit, int):
                    sinks.setdefault(bit, []).append((bits, place))
    counts = {"clock": 0, "tree": 0}
    for net, ends in sinks.items():
        name = "clock" if net == clock else "tree"
        while len(ends) > FANOUT:
            above = []
            for first in range(0, len(ends), FANOUT):
                for bits, place in ends[first:first + FANOUT]:
                    bits[place] = top
                into = [net]
                module["cells"][f"{name}{counts[name]}"] = {
                    "hide_name": 0, "type": buffer.name, "parameters": {}, "attributes": {},
                    "port_directions": {into_pin: "input", output: "output"}, "connections": {into_pin: into, output: [top]}}
                above.append((into, 0))
                counts[name] += 1
                top += 1
            ends = above
    return counts["clock"], counts["tree"]
