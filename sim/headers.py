"""Simulations that run for moments: C++ without optimisation, the headers of Verilator's runtime compiled once for all, and cocotb
without pytest, which it loads to tell what an assertion compared."""

import atexit
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from fbnn_hw.base.errors import ToolError
from fbnn_hw.simulate import simulator

INCLUDES = "verilated.h", "verilated_vpi.h", "iostream"
MACROS = "VERILATOR=1", *(f"VM_{name}=0" for name in ("COVERAGE", "SC", "TIMING", "TRACE", "TRACE_FST", "TRACE_VCD", "TRACE_SAIF"))
"""Those of a model without waves.  The compiler reads the header itself where others are set."""


def prepare():
    """Set what cocotb and the C++ compiler do for this process and those that it starts, unless it is set."""
    os.environ.setdefault("COCOTB_REWRITE_ASSERTION_FILES", "")  # "*.py" tells the values of an assertion that failed
    if "FBNN_OPTIMISE" in os.environ:
        return
    os.environ["FBNN_OPTIMISE"] = "-O0"
    try:
        _, root = simulator.verilator()
    except ToolError:
        return
    if not simulator.has_make():
        return
    folder = Path(tempfile.mkdtemp(prefix="fbnn-headers-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    header, include = folder / "runtime.h", root / "include"
    header.write_text("".join(f"#include <{name}>\n" for name in INCLUDES))
    command = ["g++", "-O0", "-std=gnu++17", *(f"-D{macro}" for macro in MACROS), f"-I{include}", f"-I{include / 'vltstd'}",
               "-x", "c++-header", str(header), "-o", f"{header}.gch"]
    if not subprocess.run(command, capture_output=True, check=False).returncode and " " not in str(header):
        os.environ["FBNN_OPTIMISE"] += f" -include {header}"
