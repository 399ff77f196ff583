"""Proofs of properties of Amaranth components, by the SAT solver of yosys, which pip brings as pyosys.

A property is a Module with Asserts and Assumes around a component `dut`.  It is proven for every value of its inputs in each clock,
`depth` clocks long, from reset, or from any state that its registers and memories could be in.  What holds from any state holds
whenever such a run of clocks comes.  A component without registers has depth 1: then it is proven for good.
"""

import subprocess
import sys
from dataclasses import dataclass, field

from amaranth.back import rtlil

from fbnn_hw.fpga.toolchain import YOSYS

LIMIT = 600
"""Seconds."""


@dataclass
class Property:
    """module: with Asserts.  inputs: its free Signals.  depth: clocks.  anything: patterns of wires that do not begin at their initial
    value but at any: "dut.*" for any state."""

    module: object
    inputs: list
    depth: int = 1
    anything: tuple = field(default=())

    @property
    def script(self):
        freed = "".join(f"setattr -unset init w:{pattern}\n" for pattern in self.anything)
        return ("read_rtlil top.il\nhierarchy -top top\nproc\nflatten\nmemory -nordff\nchformal -lower\n"
                f"{freed}opt\nasync2sync\ndffunmap\nopt_clean\n"
                f"sat -set rst 0 -set-assumes -prove-asserts -verify -tempinduct-baseonly -maxsteps {self.depth} top\n")


class Refuted(Exception):
    """The solver has a run that breaks an Assert."""


def prove(prop, folder):
    """Prove a Property in a folder; raises Refuted, with the end of yosys' words, which show the run."""
    text = rtlil.convert(prop.module, name="top", ports=prop.inputs, emit_src=False)
    (folder / "top.il").write_text(text)
    (folder / "prove.ys").write_text(prop.script)
    done = subprocess.run([sys.executable, "-c", YOSYS, "prove.ys"], cwd=folder, capture_output=True, text=True, timeout=LIMIT)
    words = done.stdout + done.stderr
    if done.returncode == 0 and f"Reached maximum number of time steps -> proved base case for {prop.depth} steps: SUCCESS!" in words:
        return
    if "model found" in words and "ERROR: Called with -verify and proof did fail!" in words:
        raise Refuted(words[-3000:])
    raise AssertionError(words[-3000:])
