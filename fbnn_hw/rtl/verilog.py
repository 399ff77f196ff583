"""Amaranth components -> Verilog; AcceleratorConfig -> accelerator.v."""

import gc
import os
import subprocess
import traceback
from pathlib import Path

from ..errors import ToolError

MEMORIES = Path(__file__).with_name("memories.v")


def convert(component, name, **options):
    """Verilog of an Amaranth component as module `name`; equal inputs give equal bytes.  options: those of amaranth.back.verilog.convert.

    Raises ToolError if Amaranth finds no yosys.
    """
    from amaranth.back import verilog

    previous = os.environ.get("AMARANTH_USE_YOSYS")
    os.environ.setdefault("AMARANTH_USE_YOSYS", "builtin")
    collects = gc.isenabled()
    gc.disable()  # a third of the time would go to looking through cells and nets, all of which are in use
    try:
        # Source locations would name the machine that generated it.
        return verilog.convert(component, name=name, emit_src=False, strip_internal_attrs=True, **options)
    except verilog.YosysError as error:
        raise ToolError(f"amaranth found no yosys ({str(error).splitlines()[0]}); pip install 'amaranth[builtin-yosys]'") from None
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


def to_verilog(config):
    """The text of accelerator.v: module `accelerator` and, where they are used, the memory wrappers of memories.v.  Raises as `convert`."""
    from .accelerator import Accelerator

    text = convert(Accelerator(config), "accelerator")
    wrapped = config.technology == "wrapper" or config.weights == "memory"
    return text + ("\n" + MEMORIES.read_text() if wrapped else "")
