import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from fbnn_hw.base.errors import UsageError
from fbnn_hw.compile.plan import plan
from fbnn_hw.fpga import pads, plls, programmer
from fbnn_hw.machine.line import bit_clocks
from fbnn_hw.rtl.uart import divider
from fbnn_hw.targets import TARGETS
from fbnn_hw.targets import boards as boards_module
from fbnn_hw.targets.boards import board, boards, names
from fbnn_hw.targets.bridges import BRIDGES
from tests import strategies

ROOT = Path(__file__).parents[2]
BITSTREAM_BYTES = {"ice40": 104_090, "ice40-hx8k": 135_100, "ecp5": 1_900_000, "ecp5-25f": 580_000,
                   "gowin-gw1nr9": 450_000, "gowin": 900_000, "xilinx7": 3_825_900}
NAMES = ["arty-a7-100", "ice40hx8k-b-evn", "icebreaker", "icesugar", "icesugar-pro", "orangecrab-85f", "pico-ice", "tangnano20k",
         "tangnano9k", "ulx3s-25f", "ulx3s-85f"]
PINS = {  # clock, rx, tx, ready, fault; select, clock and data of the flash.  From the schematics that the pages name.
    "arty-a7-100": ("E3 A9 D10 H5 J5", "L13 L16 K17 K18 L14 M14"),
    "ice40hx8k-b-evn": ("J3 B10 B12 C3 B3", "R12 R11 P12 P11"),
    "icebreaker": ("35 6 9 37 11", "16 15 14 17 12 13"),
    "icesugar": ("35 4 6 41 40", "16 15 14 17 12 13"),
    "icesugar-pro": ("P6 A9 B9 A12 A11", "N8 USRMCLK T8 T7 M7 N7"),
    "orangecrab-85f": ("A9 N17 M18 M3 K4", "U17 USRMCLK U18 T18 R18 N18"),
    "pico-ice": ("35 27 25", "16 15 14 17 12 13"),
    "tangnano20k": ("4 70 69 15 16", "60 59 61 62"),
    "tangnano9k": ("52 18 17 10 11", "60 59 61 62"),
    "ulx3s-25f": ("G2 M1 L4 B2 C2", "R2 USRMCLK W2 V2 Y2 W1"),
    "ulx3s-85f": ("G2 M1 L4 B2 C2", "R2 USRMCLK W2 V2 Y2 W1")}
SDRAM = {  # clk, cke, cs, ras, cas, we; ba; a; dq; dqm.  ULX3S: doc/constraints/ulx3s_v20.lpf; iCESugar-Pro: schematic v1.3; Tang Nano
    # 20K: the chip's data in apycula 0.35, see test_gowin_pins.
    "tangnano20k": "IOR11B IOL13A IOL14B IOL13B IOL14A IOL12B IOR13A IOR12A IOR14A IOR13B IOR14B IOR15A IOL16B IOL17B IOL16A IOL17A "
                   "IOL15B IOL15A IOR12B IOL3A IOL3B IOL8A IOL8B IOL9A IOL9B IOL11A IOL11B IOR9B IOR9A IOR5B IOR6A IOR5A IOR4B IOR3B "
                   "IOR3A IOL39B IOL39A IOL35B IOL35A IOL30B IOL30A IOL20A IOL18B IOR17A IOR16A IOR16B IOR17B IOR18A IOR18B IOR44A "
                   "IOR44B IOL12A IOR11A IOL18A IOR15B",
    "icesugar-pro": "R15 L16 A14 B16 G16 A15 G15 B14 H15 B13 B12 J16 J15 R12 K16 R13 T13 K15 A13 R14 T14 "
                    "F16 E15 F15 D14 E16 C15 D16 B15 R16 P16 P15 N16 N14 M16 M15 L15 C16 T15",
    **dict.fromkeys(("ulx3s-25f", "ulx3s-85f"), "F19 F20 P20 R20 T19 T20 P19 N20 M20 M19 L20 L19 K20 K19 K18 J20 J19 H20 N19 G20 G19 "
                    "J16 L18 M18 N18 P18 T18 T17 U20 E19 D20 D19 C20 E18 F18 J18 J17 U19 E20")}
PARTS = {
    "arty-a7-100": ("xilinx7", "xc7a100tcsg324-1", 100e6), "ice40hx8k-b-evn": ("ice40-hx8k", "ct256", 12e6),
    "icebreaker": ("ice40", "sg48", 12e6), "icesugar": ("ice40", "sg48", 12e6), "icesugar-pro": ("ecp5-25f", "CABGA256", 25e6),
    "orangecrab-85f": ("ecp5", "CSFBGA285", 48e6), "pico-ice": ("ice40", "sg48", 12e6),
    "tangnano20k": ("gowin", "", 27e6), "tangnano9k": ("gowin-gw1nr9", "", 27e6),
    "ulx3s-25f": ("ecp5-25f", "CABGA381", 25e6), "ulx3s-85f": ("ecp5", "CABGA381", 25e6)}
DRIVE = dict.fromkeys(("ulx3s-25f", "ulx3s-85f"), {"L2": 1})  # wifi_gpio0 of ulx3s_v20.lpf, see the page
LOW = {"icebreaker", "icesugar", "icesugar-pro", "orangecrab-85f", "tangnano20k", "tangnano9k"}
MINE = """title = "Mine"
platform = "amaranth_boards.icebreaker:ICEBreakerPlatform"
usb = "0403:6010"
console = "/dev/ttyUSB1"
flash = { bytes = 0x1000000, offset = 0x100000 }
"""


def test_the_boards():
    assert names() == list(boards()) == NAMES


def test_unknown_board():
    with pytest.raises(UsageError) as error:
        board("fomu")
    assert str(error.value) == (f"--board fomu: no such board, expected one of {', '.join(NAMES)}, or a page NAME.toml of your own")


def test_a_board_is_a_name_or_a_path(tmp_path):
    (page := tmp_path / "mine.toml").write_text(MINE)
    assert board(page) == board(str(page)) and board(Path("icebreaker")) == board("icebreaker")
    with pytest.raises(UsageError, match="^--board None: expected the name of a board or a page NAME.toml, as text or as a Path$"):
        board(None)


@pytest.mark.parametrize("name", NAMES)
def test_what_the_platform_class_says(name):
    """A newer amaranth-boards that says something else is seen here."""
    one = board(name)
    assert (" ".join(one.pins[port] for port in ("clock", "rx", "tx", "ready", "fault") if port in one.pins),
            " ".join([one.flash["select"], one.flash["clock"], *one.flash["io"]])) == PINS[name]
    assert (one.target, one.package, one.clock_hz) == PARTS[name]
    assert " ".join(one.sdram.get("pins", {}).values()) == SDRAM.get(name, "") and (name in SDRAM) == ("chip" in one.sdram)
    assert one.low - set(one.panel) == (frozenset(("ready", "fault")) if name in LOW else frozenset())
    assert "{bitstream}" in one.program["bitstream"][-1]
    assert one.drive == DRIVE.get(name, {})


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("name, pin, form", [
    ("ulx3s-25f", "L2", 'LOCATE COMP "drive0" SITE "L2";'), ("icebreaker", "39", "set_io drive0 39"),
    ("tangnano9k", "13", 'IO_LOC "drive0" 13;'), ("arty-a7-100", "T9", "PACKAGE_PIN T9 ")])
def test_a_pin_that_a_board_must_drive(name, pin, form, level):
    """Of every family: the pin has the level, whatever the design does."""
    one = replace(board(name), drive={pin: level})
    top = pads.Pads(plan(strategies.smallest(), one.part, 4, 16, 4).config, one, plls.nearest(one, one.part.clock_hz), 1_000_000, bytes(4))
    assert form in pads.constraints(top) and top.pins()["drive0"] == pin
    cell = re.search(r"\w+ (?:#\([^;]*?\) )?pad_drive0 \((.*?)\);", pads.to_verilog(top), re.S)[1]
    assert f"(1'h{level})" in cell and "(drive0)" in cell


def test_the_pins_to_drive_of_a_page(tmp_path):
    page = tmp_path / "mine.toml"
    page.write_text('drive = [{ pin = ["led_g", 0], level = 1 }, { pin = ["rgb_led", 0, "r"], level = 0 }]\n' + MINE)
    with pytest.raises(UsageError, match="Platform gives no rgb_led 0"):
        board(page)
    for wrong in ('[{ pin = ["led_g", 0] }]', '[{ pin = ["led_g", 0], level = 2 }]', '[{ pin = "37", level = 1 }]', '["37"]', '"37"'):
        page.write_text(f"drive = {wrong}\n{MINE}")
        with pytest.raises(UsageError, match="mine.toml: drive is .*, expected a list of { pin = "):
            board(page)
    page.write_text('drive = [{ pin = ["led_g", 0], level = 0 }]\n' + MINE)
    assert board(page).drive == {"37": 0}
    page.write_text('ready = ["led_g", 0]\ndrive = [{ pin = ["led_g", 0], level = 0 }]\n' + MINE)
    with pytest.raises(UsageError, match="ready and drive 0 have the same pin 37, expected one of their own$"):
        board(page)


def test_a_page_has_only_what_the_class_lacks():
    for path in (ROOT / "boards").glob("*.toml"):
        page = tomllib.loads(path.read_text())
        assert not {"pins", "clock_hz", "target"} & set(page) and set(page["flash"]) <= {"bytes", "offset", "quad_enable", "double"}
        assert page["flash"].get("double", False) == (path.stem in ("icebreaker", "icesugar"))
    assert board("icebreaker").program["bitstream"] == ["iceprog", "{bitstream}"]  # the class's, written down and not run


def test_a_board_of_one_s_own(tmp_path):
    page = tmp_path / "mine.toml"
    page.write_text(MINE)
    mine = board(str(page))
    assert mine.name == "mine" and mine.flash["io"] == board("icebreaker").flash["io"]
    assert set(mine.pins) == {"clock", "rx", "tx"} and mine.low == frozenset()
    assert "led" not in pads.constraints(pads.Pads(
        plan(strategies.smallest(), mine.part, 4, 16, 4).config, mine, plls.nearest(mine, 24e6), 1_000_000, bytes(4)))


def test_the_pages_of_the_documentation(tmp_path, monkeypatch):
    """The boards of docs/own-board.md load as they stand there."""
    text = (ROOT / "docs" / "own-board.md").read_text(encoding="utf-8")
    files, file = {}, []
    for line in text.splitlines():
        if found := re.fullmatch(r"    # ([\w-]+\.(?:py|toml))", line):
            file = files.setdefault(found[1], [])
        elif line.startswith("    ") or not line:
            file.append(line[4:])
        else:
            file = []
    for name, lines in files.items():
        (tmp_path / name).write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    bought, mine = board(str(tmp_path / "up5k-b-evn.toml")), board(str(tmp_path / "my-board.toml"))
    assert (bought.target, bought.pins["rx"], bought.flash["lines"], bought.pins["ready"]) == ("ice40", "26", 2, "40")
    assert (mine.target, mine.pins["fault"], mine.low, mine.program["bitstream"][0]) == ("ice40", "27", {"ready", "fault"}, "iceprog")
    carrier = board(str(tmp_path / "carrier.toml"))
    assert (carrier.target, carrier.package, carrier.flash["clock"]) == ("ecp5-25f", "CABGA381", "USRMCLK")
    design = replace(plan(strategies.smallest(), carrier.part, 4, 16, 4).config, camera="ov7670", size=32)
    text = pads.constraints(pads.Pads(design, carrier, plls.nearest(carrier, 42e6), 1_000_000, bytes(4)))
    assert all(f'LOCATE COMP "{port}" SITE "{pin}";' in text for port, pin in (
        ("camera_pclk", "U18"), ("camera_data7", "C17"), ("panel_number3", "E2"), ("panel_flag", "E1")))
    assert set(files) == {"up5k-b-evn.toml", "my_boards.py", "my-board.toml", "carriers.py", "carrier.toml"}


CLASS = """
import os
import subprocess
from subprocess import check_call

from amaranth.build import Attrs, Clock, DiffPairs, Pins, Resource
from amaranth.vendor import LatticeICE40Platform
from amaranth_boards.resources import SPIFlashResources, UARTResource


class One(LatticeICE40Platform):
    device = "iCE40UP5K"
    package = "SG48"
    default_clk = "clk12"
    resources = [Resource("clk12", 0, Pins("35", dir="i"), Clock(12e6)), UARTResource(0, rx="43", tx="38"),
                 *SPIFlashResources(0, cs_n="16", clk="15", copi="14", cipo="17")]
    connectors = []

    def toolchain_program(self, products, name):
        with products.extract(f"{name}.bin") as bitstream:
            subprocess.check_call(["false", bitstream])
"""
OWN = MINE.replace("amaranth_boards.icebreaker:ICEBreakerPlatform", "NAME:One")


@pytest.fixture
def of_class(tmp_path, monkeypatch):
    """of_class(changes) -> the page of a board whose class is CLASS with them."""
    def make(*changes):
        text = CLASS
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        name = f"one_{len(list(tmp_path.iterdir()))}_{abs(hash(text))}"
        (tmp_path / f"{name}.py").write_text(text)
        (page := tmp_path / "one.toml").write_text(OWN.replace("NAME", name))
        return str(page)

    monkeypatch.syspath_prepend(tmp_path)
    return make


@pytest.mark.parametrize("call", [
    'subprocess.check_call(["false", bitstream])', 'check_call(["false", bitstream])', 'subprocess.run(["false", bitstream], check=True)',
    'subprocess.Popen(["false", bitstream]).wait()', 'assert subprocess.check_output(["false", bitstream], text=True) == ""'])
def test_the_command_of_a_class_is_written_down_and_not_run(of_class, call):
    made = board(of_class(('subprocess.check_call(["false", bitstream])', call)))
    assert made.program["bitstream"] == ["false", "{bitstream}"] and made.flash["lines"] == 2 and made.flash["io"] == ["14", "17"]


@pytest.mark.parametrize("old, new, expected", [
    ('subprocess.check_call(["false", bitstream])', 'os.system(f"touch ran {bitstream}")', "programs with a line of the shell"),
    ('subprocess.check_call(["false", bitstream])', "raise OSError(5)", "does not say what it programs with (OSError: 5); give program"),
    ("    def toolchain_program", "    def another", "does not say what it programs with (NotImplementedError"),
    ("connectors = []", "connectors = []\n\n    def __init__(self):\n        raise RuntimeError(3)", "RuntimeError in "),
    ("connectors = []", "connectors = []\n\n    def __init__(self, pins):\n        pass", "missing 1 required positional argument"),
    ("    connectors = []", "", "TypeError: Can't instantiate"),
    ('    device = "iCE40UP5K"', "", "TypeError: Can't instantiate"), ("iCE40UP5K", "", "has the part without a name, expected one of"),
    ('    default_clk = "clk12"', "", "names no oscillator, expected default_clk"), ('"clk12"\n', '"clk13"\n', "gives no clk13 0"),
    ("Clock(12e6)", "Clock(0)", "expected"), ('Pins("35", dir="i")', 'DiffPairs("35", "37", dir="i")', "has its clock clk12 at two pins"),
    ('rx="43", tx="38"', 'rx="43", tx="43"', "gives no uart 0 ("),
    ("import os\n", "import os\nraise SystemExit(3)\n", "SystemExit: 3")])
def test_a_class_that_will_not_do(of_class, old, new, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = of_class((old, new))
    with pytest.raises(UsageError) as error:
        board(page)
    assert str(error.value).startswith(f"{page}: ") and expected in str(error.value), str(error.value)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("change, expected", [
    (("icebreaker:ICEB", "icebreaker:IceB"), "icebreaker.py has no IceBreakerPlatform, expected one that it defines"),
    (("amaranth_boards.ice", "amaranth_bords.ice"), "No module named 'amaranth_bords', expected module:Name"),
    (('"amaranth', '".amaranth'), "platform is '.amaranth_boards.icebreaker:ICEBreakerPlatform', expected module:class"),
    (("amaranth_boards.icebreaker:ICEBreakerPlatform", "json:JSONDecoder"), "is no platform class"),
    (("icebreaker:ICEBreaker", "icestick:ICEStick"), "ICEStickPlatform has the part iCE40HX1K, expected one of"),
    (("icebreaker:ICEBreaker", "upduino_v3:UpduinoV3"), "UpduinoV3Platform gives no uart 0"),
    (("title", "tilte"), "key 'tilte', expected"),
    (("usb =", "ready = ['led', 7]\nusb ="), "gives no led 7"),
    (("usb =", "ready = ['led_r', 0]\nfault = ['led_r', 0]\nusb ="), "ready and fault have the same pin"),
    (("usb =", "ready = ['uart', 0]\nusb ="), "gives no single pin of uart 0"),
    (("usb =", "ready = [[1], 0]\nusb ="), "ready is [[1], 0], expected"),
    (("usb =", "link = { rx = '0' }\nusb ="), "no link.connector and no link.tx, expected"),
    (("usb =", "link = 5\nusb ="), "link is 5, expected a table of connector, rx, tx"),
    (("usb =", "link = { connector = ['pmod', 0], rx = '1', tx = '2' }\nusb ="), "has a uart 0, expected no link beside it"),
    (("0x100000 }", "'x' }"), "flash.offset is 'x', expected an address behind the bitstream, a multiple of 4096 below 0x1000000"),
    (("0x100000 }", "0 }"), "flash.offset is 0, expected an address behind the bitstream"),
    (("0x100000 }", "-4096 }"), "flash.offset is -4096, expected an address"),
    (("0x100000 }", "0x100001 }"), "flash.offset is 1048577, expected an address"),
    (("0x1000000,", "0x80000,"), "flash.offset is 0x100000, expected an address in a flash of 524,288 bytes"),
    (("0x1000000,", "-5,"), "flash.bytes is -5, expected its size, a whole number from 4096"),
    ((", offset", ", ofset"), "key 'flash.ofset', expected flash.bytes, flash.offset, flash.double, flash.quad_enable; did you"),
    (("0x100000 }", "0x100000, quad_enable = 5 }"), "flash.quad_enable is 5, expected a list of commands"),
    (("0x100000 }", "0x100000, double = 1 }"), "flash.double is 1, expected true or false"),
    (('"0403:6010"', '"hello"'), "usb is 'hello', expected vendor:product"),
    (('"Mine"', "5"), "title is 5, expected text"), (("=", "", 1), "no page of a board"),
    *(((MINE, f"{MINE}[program]\n{line}\n"), f"program.{said}") for line, said in (
        ("bitstream = 7", "bitstream is 7, expected a list of words, a program and what it is told, with {bitstream}; other braces are"),
        ("bitstream = []", "bitstream is [], expected a list"),
        ("bitstream = ['a', 5]", "bitstream is ['a', 5], expected a list"),
        ("bitstream = ['a', '{nope}', '{bitstream}']", "bitstream is ['a', '{nope}', '{bitstream}'], expected a list"),
        ("bitstream = ['a', '{', '{bitstream}']", "bitstream is ['a', '{', '{bitstream}'], expected a list"),
        ("weights = 'iceprog {offset} {weights}'", "weights is 'iceprog {offset} {weights}', expected a list"),
        ("weights = ['a', '{bitstream}']", "weights is ['a', '{bitstream}'], expected a list"),
        ("weigths = ['a', '{weights}']", "weigths', expected program.bitstream"),
        ("both = ['a', '{both}']", "both stands alone, expected both and start together"),
        ("start = 5", "start stands alone, expected both and start together"),
        ("start = 0x100000\nboth = ['a', '{both}']", "start is 0x100000, expected an address before flash.offset = 0x100000"),
        ("also = 5", "also is 5, expected a table of bitstream, weights, both"),
        ("also = { weights = ['a', '{weights}'] }", "also.bitstream, expected as in boards/icebreaker.toml"),
        ("weights = ['a', '{weights}']\nalso = { bitstream = ['a', '{bitstream}'] }", "also has no command weights, expected the same")))])
def test_a_page_that_will_not_do(tmp_path, change, expected):
    page = tmp_path / "mine.toml"
    page.write_text(MINE.replace(*change))
    with pytest.raises(UsageError) as error:
        board(str(page))
    assert str(error.value).startswith(f"{page}: ") and expected in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("change", [('["io", 0]', '["zz", 0]'), ('rx = "0"', 'rx = "99"'), ('rx = "0"', 'rx = "0 1"')])
def test_a_link_at_pins_that_are_none(tmp_path, change):
    page = tmp_path / "mine.toml"
    page.write_text((ROOT / "boards" / "orangecrab-85f.toml").read_text().replace(*change))
    with pytest.raises(UsageError, match="Platform has no such link .*, expected one pin each for rx and tx of a connector$"):
        board(str(page))


def test_a_platform_class_with_an_error(tmp_path, monkeypatch):
    """The error of a module of one's own is told with its line."""
    (tmp_path / "my_own_boards.py").write_text("x = 1\nraise RuntimeError('no such thing')\n")
    (page := tmp_path / "mine.toml").write_text(MINE.replace("amaranth_boards.icebreaker", "my_own_boards"))
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError) as error:
        board(str(page))
    assert str(error.value) == (f"{page}: platform 'my_own_boards:ICEBreakerPlatform': RuntimeError in {tmp_path / 'my_own_boards.py'}, "
                                "line 2: no such thing; expected a module that can be imported")


def test_the_commands_of_a_page(tmp_path):
    """Weights for which a page has no command, and a bitstream that does not fit before them, are refused."""
    (page := tmp_path / "mine.toml").write_text(MINE)
    bitstream, weights = tmp_path / "a.bin", tmp_path / "b.bin"
    bitstream.write_bytes(bytes(0x100000))
    assert programmer.commands(board(str(page)), bitstream) == [["iceprog", str(bitstream)]]
    with pytest.raises(UsageError, match="^Mine: no command writes the weights, expected program.weights in the board's page$"):
        programmer.commands(board(str(page)), bitstream, weights)
    page.write_text(MINE + "[program]\nweights = ['prog', '-o', '{offset}', '{weights}']\n")
    assert programmer.commands(board(str(page)), bitstream, weights)[0] == ["prog", "-o", "0x100000", str(weights)]
    bitstream.write_bytes(bytes(0x100001))
    with pytest.raises(UsageError, match="^Mine: the bitstream has 1,048,577 bytes, 1,048,576 fit before the weights; expected a larger "):
        programmer.commands(board(str(page)), bitstream, weights)


@pytest.mark.parametrize("name", ["tangnano9k", "tangnano20k"])
def test_gowin_pins(name):
    """The part has these pins, and the oscillator is at one that leads to a PLL or a clock net."""
    chipdb = pytest.importorskip("apycula.chipdb", reason="pip install 'fbnn-hw[gowin]' tests the pins against the part's data")
    one = board(name)
    data = chipdb.load_chipdb(Path(chipdb.__file__).parent / f"{CHIPS[name]}.msgpack.xz")
    package, device, _ = data.packages[one.part.part]
    pins = data.pinout[device][package]
    used = [*one.pins.values(), one.flash["select"], one.flash["clock"], *one.flash["io"]]
    assert set(used) <= set(pins) and len(set(used)) == len(used)
    assert any("PLL" in function or "GCLK" in function for function in pins[one.pins["clock"]][1])
    if one.sdram:  # inside the package: (name in Gowin's tools, row, column, pad)
        sides = {0: "L", data.cols - 1: "R"}
        inside = {port: f"IO{sides[column]}{row + 1}{pad}" for port, row, column, pad, _ in data.sip_cst[device][package]}
        names = {"clk": "O_sdram_clk", "cke": "O_sdram_cke", "cs": "O_sdram_cs_n", "ras": "O_sdram_ras_n", "cas": "O_sdram_cas_n",
                 "we": "O_sdram_wen_n"}
        for short, line in (("a", "O_sdram_addr"), ("ba", "O_sdram_ba"), ("dqm", "O_sdram_dqm"), ("dq", "IO_sdram_dq")):
            names |= {f"{short}{i}": f"{line}[{i}]" for i in range(32) if f"{line}[{i}]" in inside}
        assert {names[port]: pin for port, pin in one.sdram["pins"].items()} == inside


CHIPS = {"tangnano9k": "GW1N-9C", "tangnano20k": "GW2A-18C"}


@pytest.mark.parametrize("name", NAMES)
def test_the_page(name):
    one = board(name)
    text = (ROOT / "boards" / f"{one.name}.toml").read_text()
    assert text.startswith("# Ref: ")
    assert len(text.splitlines()) <= 45
    assert re.fullmatch("[0-9a-f]{4}:[0-9a-f]{4}", one.usb)
    assert ("weights" in one.program or "both" in one.program) == bool({"stream", "sdram"} & set(one.part.weights))
    assert len(one.flash["io"]) == one.flash["lines"] and one.flash["bytes"] & (one.flash["bytes"] - 1) == 0
    assert one.program.get("start", 0) + BITSTREAM_BYTES[one.target] <= one.flash["offset"] < one.flash["bytes"]
    assert set(one.pins) == {"clock", "rx", "tx"} | ({"ready", "fault"} if name != "pico-ice" else set())
    assert one.program["bitstream"][0] in programmer.GET


@pytest.mark.parametrize("name", NAMES)
def test_the_default_clock_suits_pll_and_link(name):
    """The PLL comes within 2.5 %; the link's default speed is less than 1.5 % off."""
    one = board(name)
    for wanted in {one.part.clock_hz, one.part.learn_hz or one.part.clock_hz}:
        hz = plls.nearest(one, wanted).hz
        assert abs(hz / wanted - 1) < 0.025
        baud = one.baud(hz)
        assert abs(hz / divider(hz, baud) / baud - 1) < 0.015 and 1_000_000 <= baud <= 12_000_000


def test_default_speeds():
    """By hand: 48 MHz / 4 is an FT2232H's 12 Mbaud, 46.5 MHz / 3.875 too, 36 MHz / 4.5 and 33 MHz / 4.125 its 8 Mbaud; 33 MHz / 10 is 0.3 %
    from 12 MHz / 3.625, for a design that sleeps; 50 MHz / 16.625 is 0.25 % from the 3 Mbaud of an FT231X; others have 1 Mbaud."""
    icebreaker = board("icebreaker")
    assert [icebreaker.baud(hz) for hz in (48e6, 46.5e6, 36e6, 33e6)] == [12_000_000, 12_000_000, 8_000_000, 8_000_000]
    assert icebreaker.baud(33e6, sleeps=True) == TARGETS["ice40"].baud(33e6, sleeps=True) == 3_310_345
    assert board("ulx3s-85f").baud(50e6) == board("ulx3s-85f").baud(48e6) == 3_000_000
    assert board("icesugar").baud(33e6) == 1_000_000 and board("icesugar").baud(3e6) == 460_800
    assert TARGETS["ice40"].baud(33e6) == 8_000_000 and TARGETS["generic"].baud(96e6) == 12_000_000


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_s_bridge_is_the_fastest_on_its_boards(name):
    own = [board for board in boards_module.boards().values() if board.target == name]
    for hz in range(3_000_000, 120_000_000, 1_500_000):
        for sleeps in (False, True):
            assert not own or TARGETS[name].baud(hz, sleeps) == max(board.baud(hz, sleeps) for board in own)


def test_a_bit_of_whole_clocks_or_eighths():
    """By hand: whole clocks where they are at most 1.5 % off, else the nearest eighth."""
    wanted = {(48e6, 12e6): 4, (48.75e6, 8e6): 6.125, (46.5e6, 12e6): 3.875, (33e6, 3e6): 11, (50e6, 3e6): 16.625, (12e6, 115200): 104}
    assert {clock: bit_clocks(*clock) for clock in wanted} == wanted


@pytest.mark.parametrize("sleeps, fewest", [(False, 3.5), (True, 10)])
@pytest.mark.parametrize("chip", BRIDGES)
@pytest.mark.parametrize("clock_hz", [5e6, 12e6, 20.1e6, 23.25e6, 27e6, 33e6, 39.9e6, 61.3e6, 97.5e6, 133.3e6])
def test_a_default_speed_is_the_chip_s_and_within_its_error(chip, clock_hz, sleeps, fewest):
    bridge = BRIDGES[chip]
    baud = bridge.best(clock_hz, sleeps)
    speeds = list(bridge.speeds())
    assert baud in speeds and speeds == sorted(speeds, reverse=True) and speeds[0] == (bridge.base or 1_000_000)
    assert abs(clock_hz / divider(clock_hz, baud) / baud - 1) <= 0.015
    for faster in speeds[:speeds.index(baud)]:
        clocks = bit_clocks(clock_hz, faster)
        assert clocks < fewest or abs(clock_hz / clocks / faster - 1) > 0.015


def test_an_installed_package_has_them(tmp_path):
    program = "import sys; from setuptools import setup; setup(script_args=['-q', 'build_py', '--build-lib', sys.argv[1]])"
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "lib")], cwd=ROOT, check=True, capture_output=True)
    pages = sorted(path.stem for path in (tmp_path / "lib" / "fbnn_hw" / "boards").glob("*.toml"))
    assert pages == NAMES
