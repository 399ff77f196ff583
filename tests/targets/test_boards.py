import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fbnn_hw.errors import UsageError
from fbnn_hw.fpga import plls, programmer
from fbnn_hw.host.transport import DEFAULT_BAUD
from fbnn_hw.rtl.uart import divider
from fbnn_hw.targets.boards import Board, board, boards

ROOT = Path(__file__).parents[2]
BITSTREAM_BYTES = {"ice40": 104_090, "ice40-hx8k": 135_100, "ecp5": 1_900_000, "ecp5-25f": 580_000,
                   "gowin-gw1nr9": 450_000, "gowin": 900_000, "xilinx7": 3_825_900}
NAMES = ["arty-a7-100", "ice40hx8k-b-evn", "icebreaker", "icesugar", "icesugar-pro", "orangecrab-85f", "tangnano20k", "tangnano9k",
         "ulx3s-85f"]
DESCRIBED = [name for name in NAMES if board(name).platform]


def test_the_boards():
    assert list(boards()) == NAMES


def test_unknown_board():
    with pytest.raises(UsageError) as error:
        board("fomu")
    assert str(error.value) == f"--board fomu: no such board, expected one of {', '.join(NAMES)}"


@pytest.fixture(params=DESCRIBED)
def one(request) -> Board:
    """A board of amaranth-boards."""
    return board(request.param)


@pytest.fixture
def resources(one):
    """{(resource, number): {subsignal or "": pins}} of the board in amaranth-boards, and the platform."""
    module, name = one.platform.split(":")
    platform = getattr(importlib.import_module(module), name)
    pins_of = {}
    for resource in platform.resources:
        for part in resource.ios:
            if hasattr(part, "ios") and hasattr(part.ios[0], "names"):
                pins_of[resource.name, resource.number, part.name] = part.ios[0].names
            elif hasattr(part, "names"):
                pins_of[resource.name, resource.number, ""] = part.names
    return platform, pins_of


def test_clock(one, resources):
    platform, pins_of = resources
    assert pins_of[platform.default_clk, 0, ""] == [one.pins["clock"]]
    clock = next(r for r in platform.resources if r.name == platform.default_clk).clock
    assert clock.frequency == one.clock_hz


def test_link(one, resources):
    platform, pins_of = resources
    if one.name == "orangecrab-85f":  # has none; two pins of its header
        assert (one.pins["rx"], one.pins["tx"]) == tuple(platform.connectors[0].mapping[pin] for pin in "01")
    else:
        assert (pins_of["uart", 0, "rx"], pins_of["uart", 0, "tx"]) == ([one.pins["rx"]], [one.pins["tx"]])


def test_leds(one, resources):
    _, pins_of = resources
    leds = [pin for (name, _, _), pins in pins_of.items() if name in ("led", "rgb_led") for pin in pins]
    assert {one.pins["ready"], one.pins["fault"]} <= set(leds)
    assert one.pins["lit"] in (0, 1)


def test_flash(one, resources):
    _, pins_of = resources
    flash = one.flash
    assert len(flash["io"]) == flash["lines"]
    named = f"spi_flash_{flash['lines']}x"
    if (named, 0, "cs") in pins_of:
        assert pins_of[named, 0, "cs"] == [flash["select"]]
        assert flash["clock"] in (pins_of[named, 0, "clk"][0], "USRMCLK")
        assert pins_of[named, 0, "dq"] == flash["io"]
    else:
        assert [pins_of["spi_flash", 0, name][0] for name in ("copi", "cipo", "wp", "hold")] == flash["io"]
    assert (flash["clock"] == "USRMCLK") == one.target.startswith("ecp5")  # of whose configuration clock no pin is left


def test_what_amaranth_boards_lacks():
    """No board is called that there: Tang Nano 20K has a page of its own, checked against the part by test_gowin_pins."""
    assert set(NAMES) - set(DESCRIBED) == {"tangnano20k"}
    with pytest.raises(ImportError):
        importlib.import_module("amaranth_boards.tang_nano_20k")


@pytest.mark.parametrize("name", ["tangnano9k", "tangnano20k"])
def test_gowin_pins(name):
    """The part has these pins, and the oscillator is at one that leads to a PLL or a clock net."""
    chipdb = pytest.importorskip("apycula.chipdb", reason="pip install 'fbnn-hw[gowin]' tests the pins against the part's data")
    one = board(name)
    package, device, _ = chipdb.load_chipdb(Path(chipdb.__file__).parent / f"{CHIPS[name]}.msgpack.xz").packages[one.part.part]
    pins = chipdb.load_chipdb(Path(chipdb.__file__).parent / f"{CHIPS[name]}.msgpack.xz").pinout[device][package]
    used = [value for key, value in one.pins.items() if key != "lit"] + [one.flash["select"], one.flash["clock"], *one.flash["io"]]
    assert set(used) <= set(pins) and len(set(used)) == len(used)
    assert any("PLL" in function or "GCLK" in function for function in pins[one.pins["clock"]][1])


CHIPS = {"tangnano9k": "GW1N-9C", "tangnano20k": "GW2A-18C"}


@pytest.mark.parametrize("name", NAMES)
def test_the_page(name):
    one = board(name)
    text = (ROOT / "boards" / f"{one.name}.toml").read_text()
    assert text.startswith("# Ref: ")
    assert len(text.splitlines()) <= 45
    assert re.fullmatch("[0-9a-f]{4}:[0-9a-f]{4}", one.usb)
    assert one.part.name == one.target
    assert ("weights" in one.program or "both" in one.program) == ("stream" in one.part.weights)
    assert len(one.flash["io"]) == one.flash["lines"] and one.flash["bytes"] & (one.flash["bytes"] - 1) == 0
    assert one.program.get("start", 0) + BITSTREAM_BYTES[one.target] <= one.flash["offset"] < one.flash["bytes"]
    assert set(one.pins) == {"clock", "rx", "tx", "ready", "fault", "lit"}
    assert one.program["bitstream"][0] in programmer.GET


@pytest.mark.parametrize("name", NAMES)
def test_the_default_clock_suits_pll_and_link(name):
    """The PLL comes within 2.5 %, and the link's usual speed is less than 1.5 % off."""
    one = board(name)
    for wanted in {one.part.clock_hz, one.part.learn_hz or one.part.clock_hz}:
        hz = plls.nearest(one, wanted).hz
        assert abs(hz / wanted - 1) < 0.025
        assert abs(hz / divider(hz, DEFAULT_BAUD) / DEFAULT_BAUD - 1) < 0.015


def test_an_installed_package_has_them(tmp_path):
    program = "import sys; from setuptools import setup; setup(script_args=['-q', 'build_py', '--build-lib', sys.argv[1]])"
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "lib")], cwd=ROOT, check=True, capture_output=True)
    pages = sorted(path.stem for path in (tmp_path / "lib" / "fbnn_hw" / "boards").glob("*.toml"))
    assert pages == NAMES
