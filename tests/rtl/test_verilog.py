"""Verilog of components: the same bytes wherever the package lies, and errors that say what happened."""

import re

import pytest

from fbnn_hw.compile.plan import plan
from fbnn_hw.errors import ToolError
from fbnn_hw.reference.learning import Head, LearnConfig
from fbnn_hw.rtl import verilog
from fbnn_hw.rtl.popcount import XnorPopcount
from fbnn_hw.targets import TARGETS
from tests import strategies


@pytest.mark.parametrize("target", ["generic", "ice40"])
def test_verilog_names_no_file_of_the_machine_that_made_it(target):
    network = strategies.vgg_network(1)
    learn = Head.of(network.topology), LearnConfig(12, 0)
    text = verilog.to_verilog(plan(network, TARGETS[target], 4, 16, 4, learn=learn).config)
    assert "module accelerator" in text and not re.search(r"\bsrc\s*=|\.py\b", text)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, AttributeError])
def test_an_error_that_is_not_of_yosys_passes_through(error, monkeypatch):
    from amaranth.back import verilog as amaranth_verilog

    def convert(*args, **options):
        raise error

    monkeypatch.setattr(amaranth_verilog, "convert", convert)
    with pytest.raises(error):
        verilog.convert(XnorPopcount(4), "popcount")


def test_without_yosys_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setenv("AMARANTH_USE_YOSYS", "system")
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("YOSYS", raising=False)
    with pytest.raises(ToolError, match=r"pip install 'amaranth\[builtin-yosys\]'$"):
        verilog.convert(XnorPopcount(4), "popcount")
