import json
import sys

import pytest

from fbnn_hw.cli import _doctor_board, doctor
from fbnn_hw.fpga import programmer
from fbnn_hw.link import transport
from fbnn_hw.targets import boards


def test_on_this_machine(cli):
    code, out, _ = cli("doctor", "--json")
    found = json.loads(out)
    assert code == (0 if found["ok"] else 5)
    checks = {check["name"]: check for check in found["checks"]}
    assert {"Python", "torch", "amaranth", "pyosys", "cocotb", "verilator", "C++ compiler", "make", "data cifar10"} <= set(checks)
    assert checks["Python"]["ok"] and checks["torch"]["ok"] and set(found["missing"]) == {
        check["name"] for check in found["checks"] if check["needed"] and not check["ok"]}


def missing():
    raise doctor.Missing("no g++ on PATH")


def broken():
    raise ValueError("odd")


def test_what_is_missing(cli, monkeypatch):
    fix = doctor.system("g++", "gcc-c++", "xcode-select --install")
    checks = (doctor.Check("compiler", "simulate", missing, fix), doctor.Check("other", "nothing", broken, doctor.everywhere("x"), False),
              doctor.Check("fine", "everything", lambda: "1.0", {}))
    monkeypatch.setattr(doctor, "CHECKS", checks)
    code, out, err = cli("doctor")
    assert code == 5 and err == "fbnn-hw doctor: missing: compiler; the lines above say how to get them\n"
    assert [line.split() for line in out.splitlines()] == [
        "MISSING compiler no g++ on PATH".split(), "for simulate".split(), "Debian, Ubuntu: sudo apt-get install -y g++".split(),
        "Fedora: sudo dnf install -y gcc-c++".split(), "macOS: xcode-select --install".split(),
        "Windows: wsl --install -d Debian, then in it: sudo apt-get install -y g++".split(),
        "absent other ValueError: odd".split(), "for nothing".split(), "get it: x".split(), "ok fine 1.0".split()]
    found = json.loads(cli("doctor", "--json")[1])
    assert not found["ok"] and found["missing"] == ["compiler"] and found["checks"][0]["fix"] == fix[doctor.this_platform()]


def test_every_check_has_a_way_out_on_every_platform():
    for check in doctor.CHECKS:
        assert set(check.fix) == set(doctor.PLATFORMS) and all(check.fix.values()), check.name


def test_platforms(monkeypatch):
    for release, expected in (({"ID": "ubuntu", "ID_LIKE": "debian"}, "debian"), ({"ID": "fedora"}, "fedora"),
                              ({"ID": "rocky", "ID_LIKE": "rhel centos fedora"}, "fedora"), ({"ID": "arch"}, "debian")):
        monkeypatch.setattr(doctor.platform, "freedesktop_os_release", lambda release=release: release)
        assert doctor.this_platform() == expected


def test_absent_is_said_at_the_end(cli, monkeypatch):
    checks = (doctor.Check("other", "waves", missing, doctor.everywhere("x"), False), doctor.Check("fine", "everything", lambda: "1.0", {}))
    monkeypatch.setattr(doctor, "CHECKS", checks)
    code, out, err = cli("doctor")
    assert code == 0 and not err and out.splitlines()[-2:] == [
        "everything that is always needed is here; absent: other (waves)",
        "to program a board and talk to it, see fbnn-hw doctor --board NAME"]


def test_lz4(monkeypatch, tmp_path):
    for text, expected in (("exit 0", "lz4.h"), ("exit 1", "no lz4.h; waves are VCD then, which is large")):
        (tmp_path / "g++").write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "g++").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
        assert _found(doctor.lz4) == expected
    monkeypatch.setenv("PATH", "/nowhere")
    assert _found(doctor.lz4) == "cannot be looked for without g++"


def _found(probe):
    try:
        return probe()
    except doctor.Missing as lack:
        return str(lack)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine without boards and programmers; returns the folder that stands for /sys and /dev/bus/usb, and is on PATH."""
    monkeypatch.setattr(_doctor_board, "DEVICES", tmp_path)
    monkeypatch.setattr(_doctor_board, "NODES", tmp_path / "nodes")
    monkeypatch.setattr(transport, "ports", list)
    monkeypatch.setattr(programmer, "WHEELS", {})
    monkeypatch.setenv("PATH", str(tmp_path))  # a machine that has programmers has them in /bin, too
    return tmp_path


def state(name):
    return {check.name: (_found(check.probe), check.fix["debian"]) for check in _doctor_board.checks(boards.board(name))}


def test_a_board_that_is_not_there(machine):
    found = state("icebreaker")
    text, fix = found["programmer for iCEBreaker"]
    assert text == "no iceprog on PATH" and fix.startswith("sudo apt-get install -y fpga-icestorm, or: ") and "'fbnn-hw[flash]'" in fix
    text, fix = found["board at USB"]
    assert text == "no USB device 0403:6010" and 'ATTRS{idProduct}=="6010", MODE="0666"' in fix and "udevadm trigger" in fix
    assert found["serial ports"][0] == "none; iCEBreaker usually has /dev/ttyUSB1" and "usermod -aG dialout" in found["serial ports"][1]
    assert "place and route for iCEBreaker" in found


def test_a_board_that_is_there(machine, monkeypatch):
    device, node = machine / "1-2", machine / "nodes" / "001" / "007"
    device.mkdir()
    node.parent.mkdir(parents=True)
    for name, text in (("idVendor", "0403"), ("idProduct", "6010"), ("busnum", "1"), ("devnum", "7")):
        (device / name).write_text(f"{text}\n")
    for path in (node, machine / "ttyUSB0", machine / "ttyUSB1", machine / "iceprog"):
        path.touch()
        path.chmod(0o755)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(transport, "ports", lambda: [
        transport.Port("/dev/ttyS0"), *(transport.Port(str(machine / f"ttyUSB{n}"), "0403:6010", "", "iCEBreaker") for n in (0, 1))])
    found = state("icebreaker")
    assert found["programmer for iCEBreaker"][0] == "iceprog"
    assert found["board at USB"][0] == f"USB 0403:6010 is {node}, which you may write to"
    assert found["serial ports"][0].endswith(
        "ttyUSB1 (0403:6010 iCEBreaker); iCEBreaker usually has /dev/ttyUSB1; --port auto finds it")
    monkeypatch.setattr(_doctor_board.os, "access", lambda path, mode: "ttyUSB1" not in str(path) and path != node)
    found = state("icebreaker")
    assert found["board at USB"][0] == f"USB 0403:6010 is {node}, which you may not write to"
    assert found["serial ports"][0].endswith("ttyUSB1: you may not open it")


def test_a_programmer_without_its_libraries(machine):
    program = machine / "openFPGALoader"
    lack = "openFPGALoader: error while loading shared libraries: libusb-1.0.so.0: cannot open"
    program.write_text(f"#!/bin/sh\necho '{lack}' >&2; exit 127\n")
    program.chmod(0o755)
    assert state("ulx3s-85f")["programmer for ULX3S with LFE5U-85F"][0] == (
        "openFPGALoader does not start without the library libusb-1.0.so.0; sudo apt-get install -y libusb-1.0-0 libftdi1-2")
    program.write_text("#!/bin/sh\necho openFPGALoader v1.1.1\n")
    assert state("ulx3s-85f")["programmer for ULX3S with LFE5U-85F"][0] == "openFPGALoader v1.1.1 (openFPGALoader)"


@pytest.mark.parametrize("name", boards.boards())
def test_every_check_of_a_board_has_a_way_out_on_every_platform(name):
    for check in _doctor_board.checks(boards.board(name)):
        assert set(check.fix) == set(doctor.PLATFORMS) and all(check.fix.values()), check.name


def test_doctor_of_a_board(cli, monkeypatch):
    monkeypatch.setattr(doctor, "CHECKS", ())
    code, out, _ = cli("doctor", "--board", "arty-a7-100", "--json")
    names = [check["name"] for check in json.loads(out)["checks"]]
    assert names == ["Vivado", "programmer for Arty A7-100T", "board at USB", "serial ports"] and code in (0, 5)
    assert cli("doctor", "--board", "fomu")[0] == 2
