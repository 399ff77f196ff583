"""Amaranth components -> Verilog; AcceleratorConfig -> accelerator.v."""

import gc
import os
import re
import subprocess
import traceback
from pathlib import Path

from ..base.errors import ToolError
from .fanout import Shared

MEMORIES = Path(__file__).with_name("memories.v")
TIMESCALE = "`timescale 1ns / 1ps\n"
"""Stands before the modules of every Verilog file, since some simulators refuse files with one beside files without."""
_GUARD = re.compile(r"^  reg (\\\$auto\$verilog_backend\.cc:\S+) +=( 0);$", re.MULTILINE)
"""The register by which yosys means to start each `always @*` of a module, which names it and waits for a change."""
_CONSTANT = re.compile(r"^  always @\*\n    (.+? = \d+'\w+;)$", re.MULTILINE)
"""A block that waits for a change of nothing: bits of a signal, beside others of it, that are constant."""


def convert(component, name, **options):
    """Verilog of an Amaranth component as module `name`; equal inputs give equal bytes.  options: those of amaranth.back.rtlil.convert.

    The components of `fanout.Shared` are modules of their own, each once.  Raises ToolError if Amaranth finds no yosys.
    """
    from amaranth.back import rtlil, verilog

    previous = os.environ.get("AMARANTH_USE_YOSYS")
    os.environ.setdefault("AMARANTH_USE_YOSYS", "builtin")
    collects = gc.isenabled()
    gc.disable()  # a third of the time would go to looking through cells and nets, all of which are in use
    try:
        # Source locations would name the machine that generated it.
        shared = Shared(name)
        designs = [rtlil.convert(component, name, shared, emit_src=False, **options)]
        designs += [rtlil.convert(part, part_name, emit_src=False) for part_name, part in shared.components.items()]
        # One run of yosys for all of them; Amaranth's own function takes a single design.
        text = verilog._convert_rtlil_text("\n".join(designs), strip_internal_attrs=True)
    except verilog.YosysError as error:
        last = (str(error).strip().splitlines() or [""])[-1].strip()
        if last.startswith("Could not find"):
            raise ToolError(f"amaranth found no yosys ({last}); pip install 'amaranth[builtin-yosys]'") from None
        raise ToolError(f"amaranth's yosys failed ({last}); expected a machine with memory for it, and no limit of addresses (ulimit -v) "
                        "below 16 GB") from None
    except BaseException as error:  # Ctrl-C: Amaranth would leave its yosys at work
        for frame, _ in traceback.walk_tb(error.__traceback__):
            for process in frame.f_locals.values():
                if isinstance(process, subprocess.Popen) and getattr(process, "pid", None):
                    process.kill()
        raise
    finally:
        if collects:
            gc.enable()
        if previous is None:
            os.environ.pop("AMARANTH_USE_YOSYS", None)
    text = _CONSTANT.sub(_started, text)
    # An initial value may be there before a block waits (IEEE 1364-2005, 9.9; 1800 says that it is).  A non-blocking assignment comes
    # when all of them do.
    return TIMESCALE + _GUARD.sub(r"  reg \1 ;\n  initial \1 <=\2;", text)


def _started(match):
    """A block of `_CONSTANT` with a register that starts it, as yosys gives one to blocks with a condition."""
    name = f"\\$constant${match.start()} "
    return f"  reg {name};\n  initial {name}<= 0;\n  always @* begin\n    if ({name}) begin end\n    {match[1]}\n  end"


def to_verilog(config):
    """The text of accelerator.v: module `accelerator` and, where they are used, the memory wrappers of memories.v.  Raises as `convert`."""
    from .accelerator_top import Accelerator

    text = convert(Accelerator(config), "accelerator")
    # Each module with the comment above it.
    head, *modules = re.split(r"\n\n(?=(?://[^\n]*\n)*module )", MEMORIES.read_text().rstrip())
    used = [module for module in modules if re.search(r"module (\w+ #\()", module)[1] in text]
    return text + "\n" + "\n\n".join([head, *used]) + "\n" if used else text
