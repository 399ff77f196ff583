import json
import os

import pytest

from fbnn_hw.build import toolchain


@pytest.fixture(scope="module")
def design(model, tmp_path_factory):
    """A small generated design for the UP5K."""
    from fbnn_hw.cli import main

    root = tmp_path_factory.mktemp("rtl_out")
    assert main(["generate", "--model", str(model[0]), "--target", "ice40", "--out", str(root), "--json"]) == 0
    return next(root.iterdir())


@pytest.fixture
def tools(monkeypatch):
    """Tools that take no time; returns what they were asked for and lets a test set the clock reached."""
    calls = {"place": 0, "mhz": 41.5}

    def place(target, package, folder, clock_mhz, seed, tools):
        calls["place"] += 1
        steps = [{"type": "routing", "from": "here", "to": "there", "delay_ns": 9.0}]
        return toolchain.Result(clock_mhz, calls["mhz"], {"ICESTORM_LC": 4000}, {"ICESTORM_LC": 5280}, steps)
    monkeypatch.setattr(toolchain, "find", lambda target, native=False: toolchain.Tools(native, {"pyosys": "0.70"}))
    monkeypatch.setattr(toolchain, "synthesise", lambda *a: {"SB_LUT4": 3900})
    monkeypatch.setattr(toolchain, "place", place)
    monkeypatch.setattr(toolchain, "pack", lambda target, folder, name, tools: (folder / name).write_bytes(b"bits"))
    return calls


def test_build_once(design, tools, answer, cli):
    made = answer("build", design, "--board", "icebreaker")
    where = design / "build-icebreaker"
    assert made["kind"] == "placed and routed" and made["fmax_mhz"] == 41.5 and made["met"]
    assert made["frames_per_second"] == pytest.approx(36e6 / made["cycles"])
    assert (where / "bitstream.bin").exists() and (where / "flash.bin").read_bytes()[8:] == (design / "weights.bin").read_bytes()
    assert "set_io flash_clock 15\n" in (where / "pins.txt").read_text()
    code, text, _ = cli("build", design, "--board", "icebreaker")
    assert code == 0 and "built before, nothing has changed" in text and tools["place"] == 1
    assert "pyosys 0.70" in text and "41.5 MHz reached, 36 MHz wanted (placed and routed)" in text
    answer("build", design, "--board", "icebreaker", "--rebuild")
    answer("build", design, "--board", "icebreaker", "--seed", "2")
    assert tools["place"] == 3


def test_missed_timing_fails(design, tools, cli):
    tools["mhz"] = 31.25
    code, _, err = cli("build", design, "--board", "icesugar")
    assert code == 5
    assert err.split("fbnn-hw build: ")[-1] == (
        f"{design / 'build-icesugar'}: timing missed, 36 MHz wanted, 31.2 MHz reached; the slowest path goes from here to there "
        "through 0 levels of logic; take --clock 31 or another --seed\n")
    code, _, err = cli("flash", design, "--board", "icesugar")
    assert code == 3 and "was built and missed its timing (31.2 of 36 MHz)" in err
    assert not (design / "build-icesugar" / "bitstream.bin").exists()


def test_a_board_with_another_part(design, refused):
    assert refused("build", design, "--board", "ulx3s-85f") == (2, (
        f"fbnn-hw build: --board ulx3s-85f: has the part of --target ecp5, {design} is for ice40; run fbnn-hw generate --target ecp5"))


def test_not_generated(tmp_path, refused):
    code, line = refused("build", tmp_path, "--board", "icebreaker")
    assert code == 3 and line.endswith("config.json: not found or not text, expected a folder that `fbnn-hw generate` wrote")


def test_flash(design, tools, answer, refused, cli, tmp_path, monkeypatch):
    assert refused("flash", design, "--board", "ice40hx8k-b-evn")[0] == 3
    answer("build", design, "--board", "icebreaker")
    where = design / "build-icebreaker"
    planned = answer("flash", design, "--board", "icebreaker", "--dry-run")
    assert planned["commands"] == [f"iceprog -o 0x100000 {where / 'flash.bin'}", f"iceprog {where / 'bitstream.bin'}"]
    assert not planned["done"]

    monkeypatch.setenv("PATH", str(tmp_path))
    code, _, err = cli("flash", design, "--board", "icebreaker")
    assert code == 5 and err == ("fbnn-hw flash: iceprog: not found on PATH, iCEBreaker is programmed with it; "
                                 "sudo apt-get install -y fpga-icestorm\n")
    program = tmp_path / "iceprog"
    for words, status, expected in (
            ("init.. ABORT: LIBUSB_ERROR_ACCESS", 2, "iceprog: may not open iCEBreaker (USB 0403:6010); echo 'SUBSYSTEM==\"usb\", "
             "ATTRS{idVendor}==\"0403\", ATTRS{idProduct}==\"6010\", MODE=\"0666\"' | sudo tee "
             "/etc/udev/rules.d/99-fbnn-icebreaker.rules && sudo udevadm control --reload && sudo udevadm trigger; then plug it in again"),
            ("Can't find iCE FTDI USB device", 2, "iceprog: found no iCEBreaker (USB 0403:6010): Can't find iCE FTDI USB device; plug "
             "it in"),
            ("VERIFY ERROR", 1, "iceprog: VERIFY ERROR"), ("done", 0, "")):
        program.write_text(f"#!/bin/sh\necho \"{words}\"\nexit {status}\n")
        program.chmod(0o755)
        code, text, err = cli("flash", design, "--board", "icebreaker")
        assert code == (5 if status else 0) and expected in err, err
    assert "next: fbnn-hw classify IMAGE --port /dev/ttyUSB1" in text


def test_the_record_is_json(design, tools, answer):
    answer("build", design, "--board", "icebreaker")
    record = json.loads((design / "build-icebreaker" / "build.json").read_text())
    assert record["tools"] == {"pyosys": "0.70"} and record["seed"] == 1 and os.sep not in record["bitstream"]
