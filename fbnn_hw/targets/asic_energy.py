"""The energy of a design's gates: counted toggles times what a Liberty file says of its cells.  There is no layout.

OpenSTA is not asked: 2.0.17, Debian's, reads no file of toggles, and says several times a clock pin's table where it has conditions.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np

from . import asic

LOAD = "total_output_net_capacitance"
IDLE = 0.1
"""A table of a macro's clock pin below this share of its largest one is that of a clock without an access."""
SCALES = {"m": 1e-3, "u": 1e-6, "n": 1e-9, "p": 1e-12, "f": 1e-15}
EDGES = "rise_power", "fall_power", "power"


@dataclass
class Energy:
    """J of a stretch, each part; wire: J that a farad of wire at each input would add; missing: what has no table of power."""

    loads: float  # charging of inputs
    cells: float  # inside the cells
    clock: float  # both, of the clock's tree and of the pins behind it
    leakage: float  # of cells and macros
    memories: float  # accesses of macros
    wire: float
    missing: list[str]

    @property
    def total(self) -> float:
        """All parts; wires are none."""
        return self.loads + self.cells + self.clock + self.leakage + self.memories


class Power:
    """The data of power of a library's cells, in farads, joules and watts."""

    def __init__(self, library: asic.Group) -> None:
        unit = next((one.name for one in library.of("capacitive_load_unit")), "1,pf").lower()
        self.farad = (asic.numbers(unit) or [1.0])[0] * (1e-15 if "ff" in unit else 1e-12)
        self.joule = self.farad * _unit(library, "voltage_unit", 1.0) ** 2
        self.watt = _unit(library, "leakage_power_unit", 1e-9)
        self.templates = {one.name: one for one in library.of("power_lut_template")}

    def leakage(self, cell: asic.LibraryCell) -> float:
        """W of a cell, the mean of its states where there is no other figure."""
        states = [one.number("value") for one in cell.content.of("leakage_power")] or [0.0]
        return self.watt * (cell.content.number("cell_leakage_power") or sum(states) / len(states))

    def toggle(self, pin: asic.Group, load: float = 0.0) -> dict[str, float]:
        """{pin that makes it toggle, or "": J of one toggle, the mean of up and down} of a pin that drives a load, F.

        Of tables with conditions the mean counts, and none of them where there is a table without.
        """
        found: dict[str, tuple[list, list]] = defaultdict(lambda: ([], []))
        for group in pin.of("internal_power"):
            if edges := [self._value(one, load) for one in group.of(*EDGES)]:
                found[group.values.get("related_pin", "")]["when" in group.values].append(sum(edges) / len(edges))
        return {related: self.joule * sum(of := plain or others) / len(of) for related, (plain, others) in found.items()}

    def access(self, macro: asic.LibraryCell) -> tuple[float, float] | None:
        """J of (a read, a write) of a macro: the smallest and the largest table of its clock pin, idle ones aside; None without tables."""
        clocks = [pin for pin in macro.content.of("pin") if pin.values.get("clock") == "true"]
        cycles = [sum(self._value(one, 0.0) for one in group.of(*EDGES)) for pin in clocks for group in pin.of("internal_power")]
        real = [joules * self.joule for joules in cycles if joules >= IDLE * max(cycles)] if max(cycles, default=0) > 0 else []
        return (min(real), max(real)) if real else None

    def _value(self, table, load):
        """A table at a load, F, and at the second of its slews."""
        values = np.array(table.numbers("values") or [0.0])
        template = self.templates.get(table.name, asic.Group("", ""))
        variables = [template.values[name] for name in ("variable_1", "variable_2") if name in template.values]
        axes = [table.numbers(f"index_{n}") or template.numbers(f"index_{n}") for n, _ in enumerate(variables, 1)]
        if len(values) != np.prod([len(axis) for axis in axes]):
            return float(values.mean())  # of another form
        values = values.reshape([len(axis) for axis in axes])
        for variable, axis in zip(variables[::-1], axes[::-1]):  # the last one is reduced
            at = load / self.farad if variable == LOAD else axis[min(1, len(axis) - 1)]
            values = np.array([np.interp(at, axis, row) for row in values.reshape(-1, len(axis))]).reshape(values.shape[:-1])
        return float(values)


def _unit(library, name, default):
    """A unit such as 1nW or 1V as a number."""
    match = re.match(r"([\d.]+)\s*([munpf]?)[VW]", library.values.get(name, ""))
    return float(match[1]) * SCALES.get(match[2], 1.0) if match else default


def energy(netlist: dict, library: asic.Library, memories: Iterable[tuple[asic.Memory, asic.LibraryCell]], cycles: int, counted: dict,
           writes: dict, period: float) -> Energy:
    """The `Energy` of some cycles of a netlist after `asic.buffered`.

    memories: those that macros take the place of.  counted: {net: toggles}; what is behind a tree toggles as the tree's source.
    writes: {memory: cycles that write}; in all others it reads, since a bank has no other enable.  period: of the clock, s.
    """
    module, power, half = netlist["modules"][asic.TOP], Power(library.content), library.corner[0] ** 2 / 2
    cells = [(name, library.cells[cell["type"]], cell["connections"]) for name, cell in module["cells"].items()
             if cell["type"] in library.cells]
    kinds = {kind.name: kind for _, kind, _ in cells}
    pins = {name: {pin.name: pin for pin in kind.content.of("pin")} for name, kind in kinds.items()}
    keeps = {name for name, kind in kinds.items() if kind.content.of("ff", "latch")}
    clock = module["ports"]["clk"]["bits"][0]
    trees = [(wires, *kind.pins) for name, kind, wires in cells if re.fullmatch(r"(tree|clock)\d+", name)]
    above = {wires[output][0]: wires[pin][0] for wires, output in trees for pin in wires if pin != output}
    loads: Counter = Counter()
    sinks: Counter = Counter()
    for _, kind, wires in cells:
        for pin, (net, *_) in wires.items():
            if pin not in kind.pins and pin in pins[kind.name]:
                loads[net] += pins[kind.name][pin].number("capacitance") * power.farad
                sinks[net] += 1

    @cache
    def source(net):
        return source(above[net]) if net in above else net

    def toggles(net):
        return 2 * cycles if source(net) == clock else counted.get(source(net), 0)

    @cache
    def table(kind, pin, load):
        return power.toggle(pins[kind][pin], load)

    parts = {True: 0.0, False: 0.0}  # of the clock, of the rest
    for _, kind, wires in cells:
        for pin, (net, *_) in wires.items():
            drives = pin in kind.pins
            if pin not in pins[kind.name] or not drives and kind.name not in keeps:
                continue  # a gate's table of an input is for toggles that its output does not follow
            joules = table(kind.name, pin, float(f"{loads[net]:.3g}") if drives else 0.0)
            weights = [toggles(wires[related][0]) if related in wires else 1 for related in joules]
            shares = zip(joules.values(), weights if sum(weights) else [1] * len(weights))
            mean = sum(joule * weight for joule, weight in shares) / (sum(weights) or len(weights) or 1)
            parts[source(net) == clock] += toggles(net) * mean
    charged = {net: toggles(net) * half for net in loads}
    clocked = sum(joules * loads[net] for net, joules in charged.items() if source(net) == clock)
    missing = sorted(name for name, kind in kinds.items()
                     if kind.inputs and not any(pin.of("internal_power") for pin in pins[name].values()))
    watts, accesses = sum(power.leakage(kind) for _, kind, _ in cells), 0.0
    for memory, macro in memories:
        own, written = Power(macro.library), writes.get(memory.instance, 0)
        watts += own.leakage(macro) * memory.rows * memory.columns
        read, write = own.access(macro) or (0.0, 0.0)
        missing += [macro.name] if not read and macro.name not in missing else []
        accesses += memory.columns * (read * (cycles - written) + write * written)
    return Energy(sum(joules * loads[net] for net, joules in charged.items()) - clocked, parts[False], parts[True] + clocked,
                  watts * cycles * period, accesses, sum(joules * sinks[net] for net, joules in charged.items()), missing)
