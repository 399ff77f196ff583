import json

from fbnn_hw.cli import doctor


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
