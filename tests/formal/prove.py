"""Proofs of properties of Amaranth components, by the SAT solver of yosys, which pip brings as pyosys.

A property is a Module with Asserts and Assumes around a component `dut`.  It is proven for every value of its inputs in each clock,
`depth` clocks long, from reset, or from any state that its registers and memories could be in.  What holds from any state holds
whenever such a run of clocks comes.  A component without registers has depth 1: then it is proven for good.  A module of Verilog
beside Amaranth, such as the memory of weights, gives anything.
"""

import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache

from amaranth.back import rtlil

LIMIT = 600
"""Seconds of processor time, so that a busy machine proves as much as an idle one."""
SERVER = f"""
import os, resource, sys
from pyosys import libyosys
for folder in sys.stdin:
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_CPU, ({LIMIT}, {LIMIT}))
        os.chdir(folder.rstrip())
        said = os.open("yosys.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(said, 1)
        os.dup2(said, 2)
        libyosys.run_pass("script run.ys", libyosys.Design())
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""A yosys that was loaded once, whose copies run the scripts: to load it takes longer than most proofs."""


@cache
def server():
    return subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def yosys(script, module, ports, folder):
    """Run a script on a component, `top.il`, in a folder.  Returns (exit code, what yosys said)."""
    (folder / "top.il").write_text(rtlil.convert(module, name="top", ports=ports, emit_src=False))
    (folder / "run.ys").write_text(script)
    print(folder, file=server().stdin, flush=True)
    code = int(server().stdout.readline())
    return code, (folder / "yosys.log").read_text()


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
                "sat -ignore_unknown_cells -set rst 0 -set-assumes -prove-asserts"
                f" -verify -tempinduct-baseonly -maxsteps {self.depth} top\n")


class Refuted(Exception):
    """The solver has a run that breaks an Assert."""


def prove(prop, folder):
    """Prove a Property in a folder; raises Refuted, with the end of yosys' words, which show the run."""
    code, words = yosys(prop.script, prop.module, prop.inputs, folder)
    assert "(type $" not in words, "the solver left out a gate or an Assert"
    if code == 0 and f"Reached maximum number of time steps -> proved base case for {prop.depth} steps: SUCCESS!" in words:
        return
    if "model found" in words and "ERROR: Called with -verify and proof did fail!" in words:
        raise Refuted(words[-3000:])
    raise AssertionError(words[-3000:])
