import pytest
from amaranth import Const

from fbnn_hw.build import pads, plls
from fbnn_hw.compile.plan import plan
from fbnn_hw.errors import UsageError
from fbnn_hw.targets import TARGETS
from fbnn_hw.targets.boards import board, boards
from tests import strategies


def values(pll):
    return {name: value.value if isinstance(value, Const) else value for name, value in pll.parameters.items()}


@pytest.mark.parametrize("mhz, got", [(36, 36), (48, 48), (42, 42), (30.1, 30), (17, 16.875)])
def test_ice40(mhz, got):
    pll = plls.nearest(board("icebreaker"), mhz * 1e6)
    v = values(pll)
    assert pll.hz == got * 1e6 == 12e6 * (v["DIVF"] + 1) / (v["DIVR"] + 1) / 2 ** v["DIVQ"]


@pytest.mark.parametrize("name, mhz, got", [("ulx3s-85f", 75, 75), ("ulx3s-85f", 80, 80), ("orangecrab-85f", 80, 80)])
def test_ecp5(name, mhz, got):
    pll = plls.nearest(board(name), mhz * 1e6)
    v = values(pll)
    assert pll.hz == got * 1e6 == board(name).clock_hz / v["CLKI_DIV"] * v["CLKFB_DIV"]
    assert 400e6 <= pll.hz * v["CLKOP_DIV"] <= 800e6


@pytest.mark.parametrize("name, mhz, got", [("tangnano9k", 40, 40.5), ("tangnano9k", 27, 27), ("tangnano20k", 60, 60.75)])
def test_gowin(name, mhz, got):
    pll = plls.nearest(board(name), mhz * 1e6)
    v = values(pll)
    assert abs(pll.hz - got * 1e6) <= abs(got - mhz) * 1e6 + 1 and pll.hz == 27e6 / (v["IDIV_SEL"] + 1) * (v["FBDIV_SEL"] + 1)
    _, _, _, low, high = plls.GOWIN[board(name).target]
    assert low <= pll.hz * v["ODIV_SEL"] <= high and v["FCLKIN"] == "27"


@pytest.mark.parametrize("mhz, got", [(100, 100), (80, 80), (72, 72)])
def test_xilinx7(mhz, got):
    pll = plls.nearest(board("arty-a7-100"), mhz * 1e6)
    v = values(pll)
    assert pll.hz == pytest.approx(got * 1e6) and v["CLKIN1_PERIOD"] == 10
    assert pll.hz == pytest.approx(100e6 / v["DIVCLK_DIVIDE"] * v["CLKFBOUT_MULT"] / v["CLKOUT0_DIVIDE"])


def test_a_clock_that_no_pll_makes():
    with pytest.raises(UsageError) as error:
        plls.nearest(board("icebreaker"), 5e6)
    assert str(error.value) == "--clock 5: the PLL makes 16.125 MHz at best of 12 MHz; take another frequency"


CELLS = {"ice40": "SB_IO", "ecp5": "OB", "gowin": "OBUF", "xilinx7": "OBUF"}
CLOCKS = {"ice40": "SB_PLL40_", "ecp5": "EHXPLLL", "gowin": "rPLL", "xilinx7": "PLLE2_BASE"}


@pytest.mark.parametrize("name", boards())
def test_every_port_has_a_pin_and_a_cell(name):
    one = board(name)
    network = strategies.smallest()
    config = plan(network, TARGETS[one.target], 4, 16, 4).config
    top = pads.Pads(config, one, plls.nearest(one, one.part.clock_hz), 1_000_000, bytes(4))
    text, placed = pads.to_verilog(top), pads.constraints(top)
    assert set(top.pins()) == set(top.ports) and "clock" in top.ports
    for port, pin in top.pins().items():
        assert port in placed and pin in placed and f" {port};" in text
    assert text.count(f" {CELLS[top.family]} ") >= len(top.ports) - (4 if top.family != "ice40" else 1)
    assert f" {CLOCKS[top.family]}" in text and "\\accelerator" not in text and "accelerator " in text
    assert top.streams == one.target.startswith("ice40") * (one.target == "ice40")


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_no_flash_reader_on_other_families():
    network = strategies.smallest()
    config = plan(network, TARGETS["ice40"], 4, 16, 4).config
    one = board("ulx3s-85f")
    with pytest.raises(UsageError) as error:
        pads.to_verilog(pads.Pads(config, one, plls.nearest(one, 80e6), 1_000_000, bytes(4)))
    assert str(error.value) == "--board ulx3s-85f: has no flash reader, expected a design with its weights on the chip"
