import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fbnn_hw.errors import UsageError
from fbnn_hw.targets.boards import Board, board, boards

ROOT = Path(__file__).parents[2]
BITSTREAM_BYTES = {"ice40": 104_090, "ice40-hx8k": 135_100, "ecp5": 1_900_000, "gowin-gw1nr9": 450_000}
NAMES = ["ice40hx8k-b-evn", "icebreaker", "icesugar", "orangecrab-85f", "tangnano9k", "ulx3s-85f"]


def test_the_boards():
    assert list(boards()) == NAMES


def test_unknown_board():
    with pytest.raises(UsageError) as error:
        board("fomu")
    assert str(error.value) == f"--board fomu: no such board, expected one of {', '.join(NAMES)}"


@pytest.fixture(params=NAMES)
def one(request) -> Board:
    return board(request.param)


@pytest.fixture
def resources(one):
    """{(resource, number): {subsignal or "": pins}} of the board in amaranth-boards, and the platform."""
    module, name = one.platform.split(":")
    platform = getattr(importlib.import_module(module), name)
    found = {}
    for resource in platform.resources:
        for part in resource.ios:
            if hasattr(part, "ios") and hasattr(part.ios[0], "names"):
                found[resource.name, resource.number, part.name] = part.ios[0].names
            elif hasattr(part, "names"):
                found[resource.name, resource.number, ""] = part.names
    return platform, found


def test_clock(one, resources):
    platform, found = resources
    assert found[platform.default_clk, 0, ""] == [one.pins["clock"]]
    clock = next(r for r in platform.resources if r.name == platform.default_clk).clock
    assert clock.frequency == one.clock_hz


def test_link(one, resources):
    platform, found = resources
    if one.name == "orangecrab-85f":  # has none; two pins of its header
        assert (one.pins["rx"], one.pins["tx"]) == tuple(platform.connectors[0].mapping[pin] for pin in "01")
    else:
        assert (found["uart", 0, "rx"], found["uart", 0, "tx"]) == ([one.pins["rx"]], [one.pins["tx"]])


def test_lamps(one, resources):
    _, found = resources
    lamps = [pin for (name, _, _), pins in found.items() if name in ("led", "rgb_led") for pin in pins]
    assert {one.pins["ready"], one.pins["fault"]} <= set(lamps)
    assert one.pins["lit"] in (0, 1)


def test_flash(one, resources):
    _, found = resources
    flash = one.flash
    assert len(flash["io"]) == flash["lines"]
    named = f"spi_flash_{flash['lines']}x"
    if (named, 0, "cs") in found:
        assert found[named, 0, "cs"] == [flash["select"]]
        assert found[named, 0, "clk"] == [flash["clock"]]
        assert found[named, 0, "dq"] == flash["io"]
    else:
        assert [found["spi_flash", 0, name][0] for name in ("copi", "cipo", "wp", "hold")] == flash["io"]
    assert flash["bytes"] & (flash["bytes"] - 1) == 0
    assert BITSTREAM_BYTES[one.target] <= flash["offset"] < flash["bytes"]


def test_the_page(one):
    text = (ROOT / "boards" / f"{one.name}.toml").read_text()
    assert text.startswith("# Ref: ")
    assert len(text.splitlines()) <= 45
    assert re.fullmatch("[0-9a-f]{4}:[0-9a-f]{4}", one.usb)
    assert one.part.name == one.target
    assert ("weights" in one.program) == (one.target.startswith("ice40"))


def test_an_installed_package_has_them(tmp_path):
    program = "import sys; from setuptools import setup; setup(script_args=['-q', 'build_py', '--build-lib', sys.argv[1]])"
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "lib")], cwd=ROOT, check=True, capture_output=True)
    found = sorted(path.stem for path in (tmp_path / "lib" / "fbnn_hw" / "boards").glob("*.toml"))
    assert found == NAMES
