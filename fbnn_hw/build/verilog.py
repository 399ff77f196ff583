"""AcceleratorConfig -> one Verilog file."""

import os
from pathlib import Path

from ..errors import ToolError

MEMORIES = Path(__file__).parents[1] / "rtl" / "memories.v"


def to_verilog(config):
    """The text of accelerator.v: module `accelerator` and, where they are used, the memory wrappers of memories.v.

    Equal configurations give equal bytes.  Raises ToolError if Amaranth finds no yosys.
    """
    from amaranth.back import verilog

    from ..rtl.accelerator import Accelerator

    previous = os.environ.get("AMARANTH_USE_YOSYS")
    os.environ.setdefault("AMARANTH_USE_YOSYS", "builtin")
    try:
        text = verilog.convert(Accelerator(config), name="accelerator", strip_internal_attrs=True)
    except verilog._toolchain.yosys.YosysError as error:
        raise ToolError(f"amaranth found no yosys ({str(error).splitlines()[0]}); pip install 'amaranth[builtin-yosys]'") from None
    finally:
        if previous is None:
            os.environ.pop("AMARANTH_USE_YOSYS", None)
    wrapped = config.technology == "wrapper" or config.weights == "memory"
    return text + ("\n" + MEMORIES.read_text() if wrapped else "")
