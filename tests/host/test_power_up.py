"""The virtual board from any power-up: random values in every flip-flop and in every memory that is written.

    python -m tests.host.test_power_up COUNT FIRST [KIND ...]   each kind of design from the seeds FIRST to FIRST + COUNT - 1
"""

import re
import sys
import tempfile
from pathlib import Path

import pytest

import fbnn_hw
from fbnn_hw.board.proved import prove
from fbnn_hw.link.transport import Serial
from fbnn_hw.simulate import netlist, virtual
from fbnn_hw.simulate.virtual import VirtualBoard
from tests import strategies

OPTIONS = {"pixels": 4, "lanes": 16, "outputs": 4}
LEARNERS = ("replay", "prototypes", "nearest-mean")
KINDS = {"ice40": ("ice40", {}), "generic": ("generic", {}), "sdram": ("gowin", {"weights": "sdram"}), "ecp5": ("ecp5-25f", {}),
         "xilinx7": ("xilinx7-35t", {})} | {
    rule: ("ice40", {"learn": rule, "max_classes": 4} | ({"exemplars": 16} if rule == "replay" else {})) for rule in LEARNERS}
SEED = 41
RESET_PS = 4e12 / virtual.CLOCK_HZ
"""Four clocks, in which the pins still show what the flip-flops began with."""


def uninitialised(verilog):
    """Verilog of Amaranth's without the values that its registers and the memories which it writes begin with.

    A signal that nothing drives is declared as a register is, and is a constant.  So is a bit that `always @*` sets to a constant, which
    no event ever triggers.
    """
    verilog = re.sub(r"(?m)^  always @\*\n(    \S+ (?: ?\[[0-9:]+\])? = \d+'h[0-9a-f]+;)$", r"  initial\n\1", verilog)
    return "endmodule\n".join(map(_uninitialised, verilog.split("endmodule\n")))


def _uninitialised(verilog):
    registers = set(re.findall(r"(?m)^  always @\(posedge \S+\)\n\s*(\S+)\s* <= ", verilog))

    def register(line):
        return f"{line[1]};" if line[2] in registers else line[0]

    verilog = re.sub(r"(?m)^(\s*reg (?:\[[^]]*\] )?(\S+) ?) = \d+'[hd][0-9a-f]+;", register, verilog)

    def memory(block):
        name = re.search(r"^\s*(\S+) ?\[0\] =", block[0], re.M)
        written = name and re.search(rf"^\s*(?:if \(.*\)\s*)?{re.escape(name[1])} ?\[.*\](?:\[.*\])? <=", verilog, re.M)
        return "" if written else block[0]

    return re.sub(r"(?ms)^  initial begin\n.*?^  end\n", memory, verilog)


class Unprepared(VirtualBoard):
    """The virtual board of a design whose registers and memories begin at random.  `arguments` has the seed."""

    def __init__(self, folder, build_dir):
        self.folder, self.port, self._process = folder, None, None
        self.build_dir = build_dir.absolute()
        self.clocks = virtual.CLOCKS
        sources = virtual.board_sources(folder, self.build_dir, self.clocks)
        stripped = []
        for path in sources:
            if path.name in ("accelerator.v", "board_top.v"):
                text = uninitialised(path.read_text())
                path = self.build_dir / f"random_{path.name}"
                path.write_text(text)
            stripped.append(path)
        self.program = virtual.verilate(stripped, self.build_dir, [self.build_dir], options=netlist.OPTIONS)


def designed(kind, where):
    target, options = KINDS[kind]
    network = strategies.smallest_learner() if "learn" in options else strategies.smallest()
    return fbnn_hw.generate(network, target, out=where, **OPTIONS, **options)


def differences(board, design, seed):
    """What differs from the reference where a board starts from a seed."""
    board.port = None  # of the run before
    board.arguments = ("+spram-random", "+verilator+rand+reset+2", f"+verilator+seed+{seed}")
    with board, Serial(board.port) as line:
        found = prove(line, design, strategies.images(seed, 2, design.config.size)).differences
        fault = board.faults()
        when = re.search(r" at (\d+), ", fault)
        return [*found, *[fault] * bool(fault and not (when and int(when[1]) < RESET_PS))]


def test_what_is_taken_away():
    text = ("  reg [1:0] count = 2'h3;\n  reg one = 1'h0;\n  reg \\$1  = 1'h1;\n  always @(posedge clk)\n    count <= next;\n"
            "  always @(posedge clk)\n    \\$1  <= count;\n  wire two = 1'h0;\n  reg [7:0] ring [1:0];\n"
            "  initial begin\n    ring[0] = 8'h00;\n  end\n"
            "    if (up)\n      ring[at] <= word;\n  always @*\n    \\$3 [2] = 1'h0;\n  initial begin\n    \\table [0] = 8'h07;\n  end\n")
    assert uninitialised(text) == ("  reg [1:0] count;\n  reg one = 1'h0;\n  reg \\$1 ;\n  always @(posedge clk)\n    count <= next;\n"
                                   "  always @(posedge clk)\n    \\$1  <= count;\n  wire two = 1'h0;\n  reg [7:0] ring [1:0];\n"
                                   "    if (up)\n      ring[at] <= word;\n  initial\n    \\$3 [2] = 1'h0;\n"
                                   "  initial begin\n    \\table [0] = 8'h07;\n  end\n")


@pytest.mark.parametrize("kind", ["ice40", "nearest-mean"])
def test_any_power_up(kind, tmp_path):
    design = designed(kind, tmp_path / "out")
    board = Unprepared(design.folder, tmp_path / "board")
    for seed in range(SEED, SEED + 3):
        assert not differences(board, design, seed), f"seed {seed}"


def main():
    count, first = map(int, sys.argv[1:3])
    for kind in sys.argv[3:] or KINDS:
        with tempfile.TemporaryDirectory() as where:
            design = designed(kind, Path(where) / "out")
            board = Unprepared(design.folder, Path(where) / "board")
            failed = [seed for seed in range(first, first + count) if differences(board, design, seed)]
            print(f"{kind}: {count - len(failed)} of {count} seeds from {first} on equal, failed {failed}", flush=True)


if __name__ == "__main__":
    main()
