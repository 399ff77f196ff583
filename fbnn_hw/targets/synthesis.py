"""Verilog -> netlist by yosys, the same commands for a build and for a simulation of the netlist."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from ..base.errors import ToolError
from . import blocks

YOSYS = "import sys; from pyosys import libyosys as y; y.run_pass('script ' + sys.argv[1], y.Design())"
"""A Python program that runs a script of yosys."""
# -nowidelut: 1476 -> 780 LUT4 at 288 popcount bits.  Copies: see rtl.fanout.Copy.
ECP5 = "setattr -mod -set keep_hierarchy 1 *.copy_*; synth_ecp5 -nowidelut -abc9"
# The buffer of an SDRAM's reader would take a block RAM, of which a design may have all for itself.
GOWIN = "setattr -set ram_style \"distributed\" */m:queue; synth_gowin"
XILINX7 = "synth_xilinx -family xc7 -flatten"
COMMANDS = {
    # -dsp: the thermometer encoder multiplies.  -dffe_min_ce_use: a clock enable comes 3 ns after its LUT even in the tile beside it,
    # so that a few flip-flops choose between old and new value in their own LUTs.
    # keep_hierarchy: the mapper gives back LUTs on all paths that are shorter than the longest one, so the array is mapped by itself;
    # 0.5mb 55.7 -> 56.5 MHz.  Where a learner has longer paths, its array (shared_array) is not: 47.0 -> 42.8 MHz.
    "ice40": "setattr -mod -set keep_hierarchy 1 *.array; synth_ice40 -device u -dsp -dffe_min_ce_use 7",
    "ice40-hx8k": "synth_ice40 -device hx",
    "ecp5": ECP5, "ecp5-45f": ECP5, "ecp5-25f": ECP5, "gowin": GOWIN, "gowin-gw1nr9": GOWIN, "xilinx7": XILINX7, "xilinx7-35t": XILINX7}
"""{target: yosys' command}."""


def absent(package):
    """`ToolError` on a Python package that is not installed."""
    if package == "pyosys" and sys.platform == "win32":
        return ToolError("pyosys: has no package for Windows; run fbnn-hw inside WSL, or install yosys and nextpnr and give build --native")
    return ToolError(f"{package}: not installed; {Path(sys.executable).name} -m pip install {package}")


def program(name, package):
    """Path of a program: on PATH, or with a `package` beside Python first."""
    path = os.environ.get("PATH", "")
    program = shutil.which(name, path=f"{sysconfig.get_path('scripts')}{os.pathsep}{path}" if package else path)
    if program is None:
        way = f"{Path(sys.executable).name} -m pip install --force-reinstall {package}" if package else "install it, or leave --native away"
        raise ToolError(f"{name}: not found on PATH; {way}")
    return program


def failure(subject, code, lines, log):
    """Return a `ToolError` on a tool that ended with the exit code `code`: its first error line, else its last lines.

    lines: all of its output.
    """
    if code < 0:
        return ToolError(f"{subject}: ended by signal {-code}, perhaps for want of memory; see {log}")
    words = [line.strip() for line in lines if line.strip()]
    first = next((line for line in words if re.match(r"(fatal )?error\b", line, re.I)), "")
    text = re.sub(r"^error: *", "", first or (words[-1] if words else f"exit code {code}"), flags=re.I)
    return ToolError(f"{subject}: {text}; see {log}")


def run(command, folder, log, subject, on_line=None):
    """Run a tool with its output in `log`; each line also goes to `on_line`.  Raises ToolError with the first error line."""
    try:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            close_fds=False)  # see fpga.seeds.Job
    except OSError as error:
        raise ToolError(f"{subject}: {command[0]} does not start ({error.strerror})") from None
    assert process.stdout
    with process, open(folder / log, "w") as file:
        try:
            for line in process.stdout:
                file.write(line)
                if on_line and line.strip():
                    on_line(line.strip())
        except BaseException:  # Ctrl-C: leave no tool behind
            process.kill()
            raise
    if process.returncode:
        raise failure(subject, process.returncode, (folder / log).read_text(errors="replace").splitlines(), folder / log)


def reading(names):
    """yosys' command that reads the Verilog files among `names`; the modules of `blocks.FILE` take the place of others."""
    own = [name for name in names if name.endswith(".v") and name != blocks.FILE]
    return f"read_verilog {' '.join(own)}\n" + f"read_verilog -overwrite {blocks.FILE}\n" * (blocks.FILE in names)


def synthesise(script, folder, on_line=None, native=False):
    """Run a script of yosys, which writes netlist.json and cells.json into `folder`; return {cell: count}.

    native: by the program on PATH, not the Python package.
    """
    run(command(script, folder, native), folder, "synthesis.log", "synthesis", on_line)
    return cells(folder)


def command(script, folder, native=False):
    """The command that runs a script of yosys in `folder`."""
    (folder / "synthesis.ys").write_text(script)
    return [program("yosys", ""), "-s", "synthesis.ys"] if native else [sys.executable, "-c", YOSYS, "synthesis.ys"]


def cells(folder):
    """Return {cell: count} of the synthesis in `folder`, without the modules that are kept apart, whose names have dots."""
    try:
        counts = json.loads((folder / "cells.json").read_text())["design"]["num_cells_by_type"]
        return {name: count for name, count in counts.items() if "." not in name}
    except (OSError, ValueError, KeyError, TypeError):
        raise ToolError(f"synthesis: {folder / 'cells.json'} has no cell counts; see {folder / 'synthesis.log'}") from None


def key(settings, files):
    """Return the key of a build, a hash: equal settings and equal files, {name: text}, have equal keys."""
    return hashlib.sha256(json.dumps([settings, files], sort_keys=True).encode()).hexdigest()
