"""The netlist of a generated accelerator after synthesis, ready for its own test bench: vendor cells as yosys models them."""

import re
from dataclasses import dataclass
from pathlib import Path

from ..base.errors import ToolError, UsageError
from ..base.files import Stamp
from ..machine.config import AcceleratorConfig
from ..targets import blocks, synthesis
from ..targets import target as find_target

BENCH = Path(__file__).parent / "bench"
CELLS = {"ice40": ("ice40", ()), "ecp5": ("ecp5", (BENCH / "DP16KD.v",))}
"""{family: (yosys' folder of cell models, models of the cells that yosys lacks)}."""
OPTIONS = ("-DNO_ICE40_DEFAULT_ASSIGNMENTS", "--x-assign", "unique", "--x-initial", "unique")
"""Options of Verilator that make undefined values random, with ARGUMENTS at run time.

Such values are the contents of an SPRAM after power-up, and its output after a write.
"""
ARGUMENTS = ("+verilator+rand+reset+2", "+verilator+seed+1")


@dataclass(frozen=True)
class Gates:
    """A netlist of one's own for `simulation.simulate`: its sources beside the bench, and {cell: count} of it."""

    sources: tuple
    cells: dict


def bench_files(folder, where):
    """Copy a design's bench to the folder `where`, without its dumps of the banks, whose signals a netlist lacks; returns its sources."""
    texts = {name: (folder / name).read_text() for name in ("testbench.v", "parameters.vh")}
    texts["parameters.vh"] = re.sub(r"(?m)^`define DUMP\(STEPS\).*$", "`define DUMP(STEPS)", texts["parameters.vh"])
    for name, text in texts.items():
        (where / name).write_text(text)
    return [where / name for name in texts]


def family(target):
    """The family of the target of a name; UsageError if netlists of it cannot be simulated."""
    name = find_target(target).family
    if name not in CELLS:
        raise UsageError(f"--netlist: yosys has no complete cell models for --target {target}, expected a design for {' or '.join(CELLS)}")
    return name


def synthesise(folder, target, build_dir, on_line=None):
    """Synthesise the accelerator of a generated folder as `build` does, unless that was done before.

    Returns (sources for `simulator.build`, {cell: count}).  A netlist lacks the inner signals, so the
    bench's dumps of the banks are switched off.  Raises ToolError, UsageError.
    """
    where, folder = Path(build_dir), Path(folder)
    models, extra = CELLS[family(target)]
    version = _yosys()[1]
    files = {name: (folder / name).read_text() for name in ("accelerator.v", "parameters.vh")}
    if (folder / "weights.hex").exists():
        files["weights.hex"] = (folder / "weights.hex").read_text()
    config = AcceleratorConfig.from_json((folder / "config.json").read_text())
    files |= blocks.of_design(config, target, files["accelerator.v"], files.get("weights.hex"))
    script = (f"{synthesis.reading(files)}"
              f"{synthesis.COMMANDS[target]} -top accelerator\nwrite_verilog -noattr netlist.v\ntee -q -o cells.json stat -json\n")
    where.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (where / name).write_text(text)
    sources = bench_files(folder, where)
    # Weights that are in the FPGA's memory are in the netlist.
    depends = {"accelerator.v": files["accelerator.v"], "weights.hex": files.get("weights.hex", "")}
    stamp = Stamp(where / "netlist.sha256", synthesis.key([script, version], depends))
    if not stamp.valid(where / "netlist.v"):
        stamp.clear()
        synthesis.synthesise(script, where, on_line)
        stamp.write()
    # Verilator takes the first of two modules of one name: yosys' is empty.
    return [*sources, *extra, cell_models(models), where / "netlist.v"], synthesis.cells(where)


def cell_models(family):
    """The file of yosys' models of a vendor's cells; ToolError where it is not there."""
    cells = _yosys()[0] / family / "cells_sim.v"
    if not cells.is_file():
        raise ToolError(f"{cells}: not found; python -m pip install --force-reinstall pyosys")
    return cells


def _yosys():
    """(folder of yosys' files, version)."""
    from importlib import metadata

    try:
        import pyosys
    except ImportError:
        raise synthesis.absent("pyosys") from None
    return Path(pyosys.__file__).parent / "share", metadata.version("pyosys")
