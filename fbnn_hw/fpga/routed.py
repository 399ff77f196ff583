"""The timing of a placed and routed iCE40 design, by the pins that its router chose.

nextpnr counts the delay of that input of a LUT which the netlist names.  Its router takes any of the four afterwards, and their
delays differ, so its clocks are too high.  For a multiplier it counts 0.1 ns.
"""

import json
import re
from collections import defaultdict
from dataclasses import dataclass

from ..base.errors import ToolError
from .placement import component
from .slack import INPUTS, listed

LUT = ("I0", "I1", "I2", "I3")
PERMUTED = re.compile(r"X(\d+)/Y(\d+)/lutff_(\d):in_(\d)_lut;[^;]*lutff_\d:in_(\d)\.->")
"""In the routing of a net: tile, logic cell, the input that the netlist names, the one that the router took."""
THROUGH = re.compile(r"in_\d_lut\.->\.[^;]*lutff_\d:out;")
"""In the routing of a net: a LUT of no cell that passes the net on."""
ACROSS = re.compile(r"\.(?!sp)\w+(?::\w+)?\.->\.[^;]*\.sp4_h_")
"""In the routing of a net: the cell that drives it takes a wire that runs across."""
SHARED = {"CEN": "lutff_global:cen", "SR": "lutff_global:s_r"}
"""{pin of a logic cell: wire of its tile}."""
PLACE = re.compile(r"X(\d+)/Y(\d+)/(.*)")
WIRE = re.compile(r"\(INTERCONNECT (?:\\.|[^\s\\])+ ((?:\\.|[^\s\\])+) \((\d+):")
CLOCKS = {"ICESTORM_LC": "CLK", "ICESTORM_SPRAM": "CLOCK", "ICESTORM_DSP": "CLK"}
NEGATED = {"ICESTORM_LC": "NEG_CLK", "SB_IO": "NEG_TRIGGER", "ICESTORM_DSP": "NEG_TRIGGER"}
OPERAND = re.compile(r"[ABCD]_\d+")
"""A pin of a multiplier: A and B are factors, C and D summands."""


@dataclass(frozen=True)
class Delays:
    """Delays of a part's cells, ps, with the slowest conditions, of the rising or the falling edge, whichever is longer.

    Ref: Project IceStorm, timings_up5k.txt and timings_hx8k.txt: LogicCell40, SB_RAM40_4K, SB_SPRAM256KA, PRE_IO, SB_MAC16.
    driver: Odrv4, as icetime counts it, less Span4Mux_h4, as nextpnr does.
    product, total: from the factors and from the summands of a multiplier to each bit of its output; () where it takes no time.
    """

    lut: tuple  # from each input to the output
    carry: dict  # from each pin to the carry
    buffer: int  # through a global buffer, ICE_GB and GlobalMux
    driver: int  # more for a cell that drives a wire which runs across
    after: dict  # from the clock to the outputs of a kind of cell
    before: dict  # {kind of cell: {pin without its number: set-up}}
    product: tuple = ()
    total: tuple = ()
    summed: tuple = ()  # of a multiplier with a register behind the sum: from the clock to its output, and the set-up of its pins


def _before(lut, reset, ram, pad, **more):
    """Set-up times.  ram: of mask, read address, clock enable, read enable, write address, data, write enable.  more: of other cells."""
    mask, read, clocked, reads, address, data, writes = ram
    return {"ICESTORM_LC": dict(zip(LUT, lut)) | {"SR": reset, "CEN": 0},
            "ICESTORM_RAM": {"MASK": mask, "RADDR": read, "RCLKE": clocked, "WCLKE": clocked, "RE": reads, "WADDR": address,
                             "WDATA": data, "WE": writes},
            "SB_IO": dict.fromkeys(("D_OUT", "OUTPUT_ENABLE", "CLOCK_ENABLE"), pad), **more}


# SLEEP, STANDBY and POWEROFF of an SPRAM change long before its next access.  No table has a multiplier whose product is summed at
# once.  From the factors to the register of the sum it takes 6.5 ns, from there to the output 2.0 (SB_MAC16_MAC_U_16X16_BYPASS), so a
# sum is taken to be as late as the product alone (SB_MAC16_MUL_U_16X16_BYPASS).  Summands: SB_MAC16_ADS_U_32P32_BYPASS.  A register
# of a factor or a summand is taken to be as late as that of a logic cell.  No table has the set-up of a summand at the register of the
# sum; it is taken to be the time to the output.
DELAYS = {
    "ice40": Delays(
        (1285, 1232, 1205, 874), {"I1": 675, "I2": 609, "CIN": 278}, 1589 + 278, 106,
        {"ICESTORM_LC": 1391, "ICESTORM_RAM": 1179, "ICESTORM_SPRAM": 1821, "SB_IO": 1005, "ICESTORM_DSP": 1391},
        _before((1232, 1060, 980, 728), 530, (517, 384, 503, 185, 424, 305, 252), 203,
                ICESTORM_SPRAM={"ADDRESS": 268, "DATAIN": 143, "MASKWREN": 143, "WREN": 289, "CHIPSELECT": 404},
                ICESTORM_DSP={"A": 14, "B": 7, "C": 227, "D": 291}),
        (2471, 2662, 3296, 3528, 3845, 4234, 4343, 4438, 6121, 6356, 6692, 6955, 7344, 7551, 7868, 7703,
         8058, 8028, 8041, 8353, 8180, 8154, 8240, 8339, 8247, 8380, 8487, 8607, 8500, 8689, 8873, 9050),
        (2249, 2346, 2536, 2671, 2927, 3117, 3319, 3383, 3412, 3610, 3671, 3963, 3664, 3822, 4277, 4178,
         4326, 4422, 4631, 4789, 4598, 4506, 4779, 4820, 4681, 4864, 5103, 5044, 4943, 5059, 5108, 5122),
        (1978, {"A": 6339, "B": 6504, "C": 5122, "D": 5122, "OHOLDBOT": 431, "OHOLDTOP": 293, "OLOADBOT": 453, "OLOADTOP": 391,
                "ADDSUBBOT": 2636, "ADDSUBTOP": 1882})),
    "ice40-hx8k": Delays(
        (449, 400, 379, 316), {"I1": 259, "I2": 231, "CIN": 126}, 617 + 154, 56,
        {"ICESTORM_LC": 540, "ICESTORM_RAM": 2146, "SB_IO": 140},
        _before((470, 400, 372, 274), 203, (274, 203, 267, 98, 224, 161, 133), 77)),
}
"""{target: its `Delays`}."""


@dataclass(frozen=True)
class Edge:
    """An edge of a clock: the name of its net, and whether it falls."""

    clock: str
    falls: bool = False

    def cycles(self, other, halved=""):
        """Cycles of the design from this edge to the next of `other`, None where the two have no relation.

        halved: a clock of twice the frequency.
        """
        if halved in (self.clock, other.clock):
            return 0.5
        return None if self.clock != other.clock else 1 if self.falls == other.falls else 0.5


@dataclass
class Timing:
    """The result of `analyse`."""

    fmax_mhz: float  # the fastest clock
    path: list  # the slowest path, as `toolchain.Result` has it
    arrivals: list  # of each part, as `slack.arrivals`


class Netlist:
    """A design that nextpnr placed and routed: its cells, its nets, and the delays between them.

    design: the JSON of `--write`, a dict.  sdf: the text of `--sdf`.  delays: `Delays`.
    """

    def __init__(self, design, sdf, delays):
        top = design["modules"]["top"]
        self.delays, self.cells = delays, top["cells"]
        self.names = {net["bits"][0]: name for name, net in top["netnames"].items() if net["bits"]}
        self.wires = {re.sub(r"\\(.)", r"\1", sink): int(ps) for sink, ps in WIRE.findall(sdf)}
        self.driver = {bits[0]: (name, pin) for name, cell in self.cells.items() for pin, bits in cell["connections"].items()
                       if bits and cell["port_directions"][pin] == "output"}
        self.taken, sinks = {}, defaultdict(list)
        for name, cell in self.cells.items():
            for pin, bits in cell["connections"].items():
                if bits and f"{name}/{pin}" in self.wires:
                    sinks[bits[0]].append((name, pin))
        for net in top["netnames"].values():
            routing = net["attributes"].get("ROUTING", "")
            for x, y, cell, named, taken in PERMUTED.findall(routing):
                self.taken[f"X{x}/Y{y}/lc{cell}", f"I{named}"] = f"I{taken}"
            if THROUGH.search(routing) or ACROSS.search(routing):
                self._correct(sinks[net["bits"][0]], routing)

    def _correct(self, sinks, routing):
        """Add what a net waits more at its driver, and in LUTs that pass it on, whose inputs the router took as it takes those of others.

        sinks: [(cell, pin)].  Where it is not known by which wire the net enters a cell, the longest one counts.
        """
        words, above = routing.split(";"), {}
        for wire, step in zip(words[::3], words[1::3]):
            if step:
                above[PLACE.sub(r"\1.\2.\3", wire)] = PLACE.sub(r"\3", step).split(".->.")[0]

        def more(wire):
            ps = 0
            while wire in above:
                before = above[wire]
                if wire.endswith(":out") and before.endswith("_lut"):
                    ps += self.delays.lut[int(above[before][-1])] - self.delays.lut[int(before[-5])]
                if ".sp4_h_" in wire and ".sp" not in before:
                    ps += self.delays.driver
                wire = before
            return ps

        most = max(map(more, above))
        for name, pin in sinks:
            x, y, cell = PLACE.fullmatch(self.cells[name]["attributes"]["NEXTPNR_BEL"]).groups()
            own = f"{x}.{y}." + SHARED.get(pin, f"ram:{pin}" if cell == "ram" else f"lutff_{cell[2:]}:in_{pin[1:]}_lut")
            self.wires[f"{name}/{pin}"] += more(own) if own in above else most

    def bit(self, cell, pin):
        """The net at a pin of a cell, or None."""
        bits = self.cells[cell]["connections"].get(pin)
        return bits[0] if bits else None

    def setting(self, cell, name):
        """A parameter of a cell, a number; 0 where it has none."""
        return int(self.cells[cell]["parameters"].get(name, "0"), 2)

    def pin(self, cell, pin):
        """The pin that the router took for an input of a LUT; another pin is itself."""
        return self.taken.get((self.cells[cell]["attributes"]["NEXTPNR_BEL"], pin), pin)

    def edge(self, cell, pin):
        """The `Edge` at which a pin of a cell takes or shows a value, None where no clock is connected."""
        kind = self.cells[cell]["type"]
        if kind == "ICESTORM_RAM":
            port, negated = f"{pin[0]}CLK", f"NEG_CLK_{pin[0]}"
        elif kind == "SB_IO":
            port, negated = "INPUT_CLK" if pin.startswith("D_IN") else "OUTPUT_CLK", NEGATED[kind]
        else:
            port, negated = CLOCKS[kind], NEGATED.get(kind, "")
        net = self.bit(cell, port)
        while net in self.driver and self.cells[self.driver[net][0]]["type"] == "SB_GB":
            below = self.bit(self.driver[net][0], "USER_SIGNAL_TO_GLOBAL_BUFFER")
            if below is None:
                break
            net = below
        second = pin in ("D_IN_1", "D_OUT_1")
        return None if net is None else Edge(self.names[net], bool(self.setting(cell, negated)) != second)

    def registered(self, cell, pin):
        """Whether a value waits for a clock at a pin of a cell that has one."""
        kind = self.cells[cell]["type"]
        if kind == "SB_IO":  # PIN_TYPE: Lattice, iCE Technology Library, SB_IO
            pad = self.setting(cell, "PIN_TYPE")
            return {"D_IN_0": not pad & 1, "D_IN_1": True, "OUTPUT_ENABLE": pad & 0x30 == 0x30}.get(pin, pad & 0xC != 8)
        if kind == "ICESTORM_LC":
            return self.setting(cell, "DFF_ENABLE") == 1 and pin not in ("CIN", "COUT", "LO")
        if kind == "ICESTORM_DSP":
            return self._sums(cell) or bool(OPERAND.fullmatch(pin)) and self.setting(cell, f"{pin[0]}_REG") == 1
        return kind in ("ICESTORM_RAM", "ICESTORM_SPRAM")

    def _sums(self, cell):
        """Whether a cell is a multiplier of which each bit that is used comes from the register of the sum; the way from a factor's
        register to that one is inside, and short."""
        if self.cells[cell]["type"] != "ICESTORM_DSP" or not self.delays.summed:
            return False
        used = [int(pin[2:]) for pin, bits in self.cells[cell]["connections"].items() if bits and pin.startswith("O_")]
        halves = {"TOP" if bit >= 16 else "BOT" for bit in used}
        return all(self.setting(cell, f"{half}OUTPUT_SELECT") == 1 for half in halves)

    def starts(self):
        """Yields (net, cell, pin, Edge, ps) of each output of a register."""
        for net, (cell, pin) in self.driver.items():
            kind = self.cells[cell]["type"]
            if self._sums(cell):
                if edge := self.edge(cell, pin):
                    yield net, cell, pin, edge, self.delays.summed[0]
                continue
            inside = [ps for name, ps in self._product(cell, pin).items() if self.registered(cell, name)] if kind == "ICESTORM_DSP" else []
            if (inside or self.registered(cell, pin)) and (edge := self.edge(cell, pin)):
                yield net, cell, pin, edge, self.delays.after[kind] + max(inside, default=0)

    def ends(self):
        """Yields (net, cell, pin, Edge, ps) of each input of a register: the set-up of the pin that the router took."""
        for name, cell in self.cells.items():
            before = self.delays.before.get(cell["type"], {})
            if self._sums(name):
                before = self.delays.summed[1] | {bus: ps for bus, ps in before.items() if self.setting(name, f"{bus}_REG")}
            for pin, bits in cell["connections"].items():
                ps = before.get(self.pin(name, pin)) if pin in before else before.get(pin.rstrip("0123456789").rstrip("_"))
                if bits and ps is not None and self.registered(name, pin) and (edge := self.edge(name, pin)):
                    yield bits[0], name, pin, edge, ps

    def arcs(self):
        """Yields (net, cell, its input, its output, ps, net behind it) of each way through a cell without a clock."""
        for net, (cell, pin) in self.driver.items():
            kind = self.cells[cell]["type"]
            if kind == "ICESTORM_LC" and pin == "COUT":
                ways = {name: self.delays.carry[self.pin(cell, name)] for name in self.delays.carry}
            elif kind == "ICESTORM_LC" and not self.registered(cell, pin):
                ways = self._lut(cell)
            elif kind == "SB_GB":
                ways = {"USER_SIGNAL_TO_GLOBAL_BUFFER": self.delays.buffer}
            elif kind == "ICESTORM_DSP":
                ways = {name: ps for name, ps in self._product(cell, pin).items() if not self.registered(cell, name)}
            else:
                continue
            for name, ps in ways.items():
                if (before := self.bit(cell, name)) is not None:
                    yield before, cell, name, pin, ps, net

    def _lut(self, cell):
        """{input of a LUT that its function depends on: ps}."""
        function = self.setting(cell, "LUT_INIT")
        needed = [pin for i, pin in enumerate(LUT) if any((function >> k ^ function >> (k ^ 1 << i)) & 1 for k in range(16))]
        return {pin: self.delays.lut[LUT.index(self.pin(cell, pin))] for pin in needed}

    def _product(self, cell, pin):
        """{input of a multiplier: ps} to an output.  Registers behind the product are taken for wires, which is never too fast."""
        if not self.delays.product or not pin.startswith("O_"):
            return {}
        factor, summand = self.delays.product[int(pin[2:])], self.delays.total[int(pin[2:])]
        return {name: factor if name[0] in "AB" else summand for name in self.cells[cell]["connections"] if OPERAND.fullmatch(name)}


def analyse(design, sdf, delays, halved=""):
    """The `Timing` of a design, which `Netlist` describes.

    halved: the clock of twice the frequency, if there is one.  Paths from and to pins without a register, and between clocks without a
    relation, do not count, as with nextpnr.
    """
    netlist = Netlist(design, sdf, delays)
    latest = _latest(netlist)
    slowest, parts = (0, None), {}
    for net, cell, pin, end, ps in netlist.ends():
        for start, (arrival, _) in latest.get(net, {}).items():
            total = arrival + netlist.wires.get(f"{cell}/{pin}", 0) + ps
            part = component(cell)
            parts[part] = max(parts.get(part, (0,)), (total / 1000, cell, INPUTS.get(pin, "data")))
            if cycles := start.cycles(end, halved):
                slowest = max(slowest, (total / cycles, (net, cell, pin, start, ps)), key=lambda one: one[0])
    period, last = slowest
    if last is None:
        raise ToolError("the design has no path between registers")
    return Timing(1e6 / period, _path(netlist, latest, *last), listed(parts))


def _latest(netlist):
    """{net: {Edge at which a path begins: (latest ps at the net's driver, the arc into it or None)}}."""
    latest, behind, waits = defaultdict(dict), defaultdict(list), defaultdict(int)
    for net, _, _, edge, ps in netlist.starts():
        latest[net][edge] = ps, None
    for arc in netlist.arcs():
        behind[arc[0]].append(arc)
        waits[arc[-1]] += 1
    ready = [net for net in set(latest) | set(behind) if not waits[net]]
    while ready:
        for arc in behind[(net := ready.pop())]:
            _, cell, pin, _, ps, after = arc
            for edge, (arrival, _) in latest[net].items():
                total = arrival + netlist.wires.get(f"{cell}/{pin}", 0) + ps
                if total > latest[after].get(edge, (0,))[0]:
                    latest[after][edge] = total, arc
            waits[after] -= 1
            if not waits[after]:
                ready.append(after)
    if any(waits.values()):
        raise ToolError(f"a loop of LUTs through {netlist.names[next(net for net, count in waits.items() if count)]}")
    return latest


def _path(netlist, latest, net, cell, pin, start, ps):
    """The steps of the path that ends at a pin of a cell, of which `ps` is the set-up."""
    def wire(net, cell, pin):
        return {"type": "routing", "from": netlist.driver[net][0], "to": cell, "delay_ns": netlist.wires.get(f"{cell}/{pin}", 0) / 1000}

    steps = [{"type": "setup", "from": cell, "to": cell, "delay_ns": ps / 1000}, wire(net, cell, pin)]
    while arc := latest[net][start][1]:
        net, cell, pin, _, ps, _ = arc
        steps += [{"type": "logic", "from": cell, "to": cell, "delay_ns": ps / 1000}, wire(net, cell, pin)]
    first = netlist.driver[net][0]
    steps.append({"type": "clk-to-q", "from": first, "to": first, "delay_ns": latest[net][start][0] / 1000})
    return steps[::-1]


def read(placed, sdf, target, halved=""):
    """The `Timing` of what nextpnr wrote for a `target` into the files `placed` and `sdf`; ToolError where they are not its files."""
    try:
        return analyse(json.loads(placed.read_text()), sdf.read_text(errors="replace"), DELAYS[target], halved)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise ToolError(f"{placed}: not a placed and routed design ({type(error).__name__}: {error}); build again with --rebuild") from None
