"""Verilog of components: the same bytes wherever the package lies, and errors that say what happened."""

import re
import subprocess
import sys

import pytest

from fbnn_hw.base.errors import ToolError
from fbnn_hw.compile.plan import plan
from fbnn_hw.reference.learning import Head, LearnConfig
from fbnn_hw.rtl import verilog
from fbnn_hw.rtl.array import MacArray
from fbnn_hw.rtl.popcount import XnorPopcount
from fbnn_hw.targets import TARGETS
from tests import strategies


@pytest.mark.parametrize("target", ["generic", "ice40"])
def test_verilog_names_no_file_of_the_machine_that_made_it(target):
    network = strategies.vgg_network(1)
    learn = Head.of(network.topology), LearnConfig(12, 0)
    text = verilog.to_verilog(plan(network, TARGETS[target], 4, 16, 4, learn=learn).config)
    assert "module accelerator" in text and not re.search(r"\bsrc\s*=|\.py\b", text)


def test_every_always_block_is_started():
    """By a register of its module, which changes when all blocks wait; an initial value may be there before."""
    text = verilog.to_verilog(plan(strategies.smallest(), TARGETS["generic"], 4, 16, 4).config)
    for module in re.split(r"^module ", text, flags=re.M):
        blocks = re.findall(r"^  always @\* begin\n    if \((.*?)\) begin end$", module, re.M)
        assert len(blocks) == module.count("always @*") and len(set(blocks)) <= 1
        for guard in set(blocks):
            assert f"  reg {guard};\n  initial {guard}<= 0;\n" in module


def test_equal_popcounts_are_one_module():
    text = verilog.convert(MacArray(2, 4, 3, 8), "array")
    assert re.findall(r"^module (.*?)\(", text, re.M) == ["array", r"\array.popcount_4_2_lut4 "]
    assert re.findall(r"^  \\array.popcount_4_2_lut4  (\S+) \(", text, re.M) == [f"popcount_{q}_{p}" for q in (0, 1) for p in (0, 1, 2)]


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, AttributeError])
def test_an_error_that_is_not_of_yosys_passes_through(error, monkeypatch):
    from amaranth.back import rtlil

    def convert(*args, **options):
        raise error

    monkeypatch.setattr(rtlil, "convert", convert)
    with pytest.raises(error):
        verilog.convert(XnorPopcount(4), "popcount")


def test_without_yosys_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setenv("AMARANTH_USE_YOSYS", "system")
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("YOSYS", raising=False)
    with pytest.raises(ToolError, match=r"pip install 'amaranth\[builtin-yosys\]'$"):
        verilog.convert(XnorPopcount(4), "popcount")


def test_a_limit_of_memory_is_not_a_missing_yosys():
    """WebAssembly reserves gigabytes of addresses."""
    program = ("import resource\nfrom amaranth.back import rtlil\nfrom fbnn_hw.rtl import uart, verilog\n"
               "resource.setrlimit(resource.RLIMIT_AS, (2 ** 31, 2 ** 31))\nverilog.convert(uart.UartTransmitter(4), 'x')\n")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert re.search(r"ToolError: amaranth's yosys failed \(\S.*ulimit -v", done.stderr.splitlines()[-1]), done.stderr
