import re
from dataclasses import replace

import numpy as np
import pytest
from amaranth import Const
from amaranth.sim import Simulator

from fbnn_hw import design
from fbnn_hw.base.errors import UsageError
from fbnn_hw.compile.plan import Attempt, configure, plan
from fbnn_hw.design.options import Options
from fbnn_hw.fpga import pads, plls
from fbnn_hw.ir import shipped
from fbnn_hw.rtl.qspi_flash import VOLATILE_QE
from fbnn_hw.rtl.sdram import CHIPS
from fbnn_hw.targets import TARGETS
from fbnn_hw.targets.boards import board, boards
from tests import strategies

PERIOD = 1e-6


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
    assert pll.hz == got * 1e6 == board(name).clock_hz / v["CLKI_DIV"] * v["CLKFB_DIV"] * v["CLKOS3_DIV"] / v["CLKOP_DIV"]


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
    assert top.streams == (one.target == "ice40")


@pytest.mark.parametrize("name", [name for name, one in boards().items() if one.camera])
def test_the_pins_of_a_camera(name):
    """In the place of the link: each pin of the page once, and the two wires of SCCB pulled to ground or let go."""
    one = board(name)
    network = strategies.smallest_learner()
    config = plan(network, TARGETS[one.target], 4, 16, 4, Options(learn="prototypes", forget=True).learner(network.topology)).config
    config = replace(config, camera="ov7670", size=32)
    top = pads.Pads(config, one, plls.nearest(one, 36e6), 1_000_000, bytes(4))
    text, placed = pads.to_verilog(top), pads.constraints(top)
    assert set(top.pins()) == set(top.ports) and not {"rx", "tx", "panel_undo"} & set(top.ports)
    for table, names in (("camera", one.camera), ("panel", set(one.panel) - {"undo"})):
        for port in names:
            assert top.pins()[f"{table}_{port}"] == getattr(one, table)[port] and f" {table}_{port};" in text
    assert (placed.count("PULLMODE=UP") if top.family == "ecp5" else text.count("PULLUP(1'h1)")) == 2
    pads.Pads(replace(config, camera="hm01b0"), one, plls.nearest(one, 36e6), 1_000_000, bytes(4))
    # With the link beside it, rx and tx are where a design without a camera has them.
    linked = pads.Pads(config, one, plls.nearest(one, 36e6), 1_000_000, bytes(4), link=True)
    assert set(linked.ports) == set(top.ports) | {"rx", "tx"} == set(linked.pins()) and "pad_tx" in pads.to_verilog(linked)
    assert {linked.pins()[name] for name in ("rx", "tx")} == {one.pins["rx"], one.pins["tx"]}
    # With a display the level of the data wire is looked at, and that of the clock's is not.
    seen = pads.Pads(replace(config, display="ssd1306"), one, plls.nearest(one, 36e6), 1_000_000, bytes(4))
    cells = pads.to_verilog(seen).split("pad_camera_")[1:]
    output = {"ice40": ".D_IN_0(", "ecp5": ".O("}[top.family]
    assert [name for cell in cells if output in cell.split(");\n")[0] and (name := cell.split()[0]) in ("sioc", "siod")] == ["siod"]
    assert pads.constraints(seen) == placed and set(seen.ports) == set(top.ports)


@pytest.mark.parametrize("name, target, ahead, blocks", [
    ("0.5mb", "ice40", False, True), ("0.5mb", "ice40", True, True), ("tiny", "ice40", False, False), ("1mb", "ecp5-25f", False, False)])
def test_where_the_program_of_the_keeper_lies(name, target, ahead, blocks):
    """In block RAM where there is some left, else in LUTs."""
    planned = design.plan(shipped.load(f"{name}.pt"), target, weights="flash", keep=True, learn="nearest-mean")
    one = board({"ice40": "icebreaker", "ecp5-25f": "ulx3s-25f"}[target])
    top = pads.Pads(planned.config, one, plls.nearest(one, 30e6), 1_000_000, bytes(4), ahead)
    assert top.core.keeper.blocks == blocks


def test_a_board_without_a_place_for_a_camera():
    config = replace(plan(strategies.smallest(), TARGETS["ice40"], 4, 16, 4).config, camera="ov7670", size=32)
    one = board("icebreaker")
    for other, clock, words in (
            (board("icesugar"), 36, "--board icesugar: has no place for a camera, expected a board whose page has the table camera"),
            (one, 39, "--camera ov7670: gets 9.75 MHz of a clock of 39 MHz, expected from 10 to 12; choose a --clock from 40 to 48")):
        with pytest.raises(UsageError, match=words):
            pads.Pads(config, other, plls.nearest(other, clock * 1e6), 1_000_000, bytes(4))


def streamed(target="ecp5"):
    return configure(strategies.smallest(), TARGETS[target], Attempt((4, 16, 4), "stream"))[0]


@pytest.mark.parametrize("name", [name for name, one in boards().items() if one.target.startswith("ecp5")])
def test_the_flash_of_an_ecp5(name):
    """Its clock leaves through the primitive; its other pins are those of the page, each behind a register."""
    one = board(name)
    config = streamed(one.target)
    top = pads.Pads(config, one, plls.nearest(one, one.part.clock_of(config)), 1_000_000, bytes(4))
    text, placed = pads.to_verilog(top), pads.constraints(top)
    assert set(top.pins()) == set(top.ports) and "flash_clock" not in top.ports and "USRMCLK" not in placed
    assert [text.count(f" {cell} ") for cell in ("USRMCLK", "BB", "OFS1P3BX", "IFS1P3DX")] == [1, 4, 9, 4]
    for i, pin in enumerate(one.flash["io"]):
        assert f'LOCATE COMP "flash_io{i}" SITE "{pin}";' in placed
    assert top.core.reader.chip.quad_enable == (((0x50,), (0x01, 0x40), (0x50,), (0x31, 0x02)) if name.startswith("ulx3s") else VOLATILE_QE)


@pytest.mark.parametrize("mhz, latency", [(115, 2), (80, 2), (50, 1)])
@pytest.mark.parametrize("name", [name for name, one in boards().items() if one.sdram and one.target.startswith("ecp5")])
def test_the_sdram_of_an_ecp5(name, mhz, latency):
    """Its pins are those of the class, each of a register; its clock is the PLL's second output, within the budget of `plls.sdram`."""
    one = board(name)
    config = configure(strategies.smallest(), one.part, Attempt((4, 16, 4), "sdram"))[0]
    pll = plls.nearest(one, mhz * 1e6)
    top = pads.Pads(config, one, pll, 1_000_000, bytes(4))
    text, placed = pads.to_verilog(top), pads.constraints(top)
    assert set(top.pins()) == set(top.ports)
    for port, pin in one.sdram["pins"].items():
        assert f'LOCATE COMP "sdram_{port}" SITE "{pin}";' in placed and f" sdram_{port};" in text
    # WE#, CAS#, RAS#, two lines of the bank, 13 of the address, two masks; of each data line out, its enable and in.
    registers = 9 + 3 + 2 + 13 + 2 + 2 * 16
    assert [text.count(f" {cell} ") for cell in ("DCCA", "ODDRX1F", "BB", "OFS1P3BX", "IFS1P3DX")] == [1, 1, 20, registers, 20]
    assert top.sdram_clock[1] == latency and top.core.flash_ratio == 1 + (mhz > 50) + 2 * (mhz > 100)
    chip, period = CHIPS[one.sdram["chip"]], 1e9 / pll.hz
    parameters, _ = plls.sdram(pll, chip)
    steps = parameters["CLKOS_CPHASE"] - pll.parameters["CLKOP_CPHASE"] + parameters["CLKOS_FPHASE"] / 8
    shift = steps / parameters["CLKOS_DIV"] % 1 * period
    assert 2.0 <= shift <= period - 1.5
    assert shift + 1e9 * chip.access + 6.3 <= latency * period <= shift + period + 1e9 * chip.hold + 2.5


def doubled(mhz, name="icebreaker"):
    """`Pads` of the smallest network whose flash has twice the clock of the design."""
    one = board(name)
    config = configure(strategies.smallest(), TARGETS["ice40"], Attempt((4, 16, 4), "double"))[0]
    return pads.Pads(config, one, plls.nearest(one, mhz * 1e6), 1_000_000, bytes(4))


@pytest.mark.parametrize("name", ["icebreaker", "icesugar"])
@pytest.mark.parametrize("mhz", [42, 45, 48, 49.5, 51])
def test_a_flash_at_twice_the_clock(name, mhz):
    """One PLL makes both clocks; the pins of clock and select have the faster one; all data is taken within the budget of `plls.flash`."""
    top = doubled(mhz, name)
    text = pads.to_verilog(top)
    pll = values(top.flash_clock)
    assert top.clock.hz == mhz * 1e6 == 12e6 * (pll["DIVF"] + 1) / (pll["DIVR"] + 1) / 2 ** pll["DIVQ"] / 2
    assert 533e6 <= mhz * 2e6 * 2 ** pll["DIVQ"] <= 1066e6
    assert (pll["PLLOUT_SELECT_PORTA"], pll["PLLOUT_SELECT_PORTB"]) == ("GENCLK", "GENCLK_HALF") and "SB_PLL40_2F_PAD" in text
    assert text.count(".OUTPUT_CLK(flash_clk)") == 2 and text.count(".D_IN_1(") == 4
    steps, half = pll["FDA_RELATIVE"] + 1, 500 / mhz
    assert 1.5 * half - 0.2 * steps >= 3.5 + 0.5 + 6 + 3.75 and 1.5 * half - 0.1 * steps <= half + 1.5 + 0.42 * 7.25
    assert top.flash_clock.record == {"delay_steps": steps, "late_margin_ns": round(top.flash_clock.late, 3),
                                      "early_margin_ns": round(top.flash_clock.early, 3)}
    assert min(top.flash_clock.late, top.flash_clock.early) >= 0


@pytest.mark.parametrize("mhz", [33, 40.5, 52.5, 54])
def test_a_clock_at_which_no_edge_takes_the_data(mhz):
    with pytest.raises(UsageError) as error:
        doubled(mhz)
    assert str(error.value) == (f"--clock {mhz:g}: no edge takes the data of a flash at twice the clock safely, "
                                "expected from 41.25 to 51.75; or generate the design with --weights flash")


def test_a_board_whose_flash_is_not_read_at_twice_the_clock():
    one = board("icebreaker")
    config = configure(strategies.smallest(), TARGETS["ice40"], Attempt((4, 16, 4), "double"))[0]
    slow = replace(one, flash={name: value for name, value in one.flash.items() if name != "double"})
    with pytest.raises(UsageError) as error:
        pads.Pads(config, slow, plls.nearest(one, 45e6), 1_000_000, bytes(4))
    assert str(error.value) == ("--board icebreaker: its flash is not read at twice the clock of the design, expected a design with "
                                "--weights flash")


def on_gowin(mhz):
    """`Pads` of the smallest network for the Tang Nano 20K."""
    one = board("tangnano20k")
    config = configure(strategies.smallest(), one.part, Attempt((4, 16, 4), "sdram"))[0]
    return pads.Pads(config, one, plls.nearest(one, mhz * 1e6), 1_000_000, bytes(4))


@pytest.mark.parametrize("mhz, latency, ratio", [(60, 2, 2), (48, 2, 2), (27, 1, 1), (72, 2, 4)])
def test_the_sdram_of_a_gowin(mhz, latency, ratio):
    """Its pads are those of the class, each of a register in the fabric; its clock is the PLL's second output, of another phase."""
    top = on_gowin(mhz)
    text, placed = pads.to_verilog(top), pads.constraints(top)
    assert set(top.pins()) == set(top.ports)
    for port, pin in top.board.sdram["pins"].items():
        assert f'IO_LOC "sdram_{port}" {pin};' in placed and f" sdram_{port};" in text
    assert "SLEWRATE" not in placed
    # Of the SDRAM: WE#, CAS#, RAS#, two lines of the bank, 11 of the address, four masks; of each data line out and its enable.  Of the
    # flash: its select, and of each line out and its enable.
    counts = [text.count(f" {cell} ") for cell in ("ODDR", "IOBUF", "DFFS", "DFF", "OBUF")]
    assert counts == [1, 32 + 2, 3 + 2 + 11 + 4 + 2 * 32 + 1 + 2 * 2, 32 + 2, 3 + 3 + 3 + 2 + 11 + 4 + 2]
    assert text.count(".SET(1'h0)") == counts[2]
    # Each register of the SDRAM is in the tile beside its pad, of two pads: out and enable of A, of B, in of A, of B.
    beside = dict(re.findall(r'\(\* BEL = "(\w+/DFF\d)" \*\)\s+DFFS? register_(\w+) ', text))
    assert len(beside) == counts[2] + counts[3] - 1 - 3 * 2
    assert [beside[f"X54Y4/DFF{n}"] for n in range(6)] == [
        "sdram_out12", "sdram_enable12", "sdram_out10", "sdram_enable10", "sdram_in12", "sdram_in10"]
    assert beside["X1Y11/DFF2"] == "sdram_we"
    assert (top.sdram_clock[1], top.core.flash_ratio) == (latency, ratio)


@pytest.mark.parametrize("mhz", [18, 27, 33, 40, 45, 48, 54, 60, 66, 72, 78])
def test_the_phase_of_an_sdram_s_clock_on_gowin(mhz):
    """By hand: each margin of the budget of `plls.sdram`, with wires of any length up to 5 ns before a pad or behind one."""
    chip, pll = CHIPS["64Mbit-32"], plls.nearest(board("tangnano20k"), mhz * 1e6)
    parameters, latency = plls.sdram(pll, chip)
    period = 1e9 / pll.hz
    shift = int(parameters["PSDA_SEL"], 2) / 16 * period
    assert list(parameters) == ["PSDA_SEL"] and len(parameters["PSDA_SEL"]) == 4
    for wire in (0, 5):
        assert wire + 2.0 <= shift <= period + wire - 1.5
        assert shift + 1e9 * chip.access + 6.3 + wire <= latency * period <= shift + period + 1e9 * chip.hold + 2.5 + wire


def test_a_clock_that_leaves_an_sdram_on_gowin_no_time():
    with pytest.raises(UsageError) as error:
        plls.sdram(plls.nearest(board("tangnano20k"), 81e6), CHIPS["64Mbit-32"])
    assert str(error.value) == "--clock 81: leaves no time for an SDRAM's commands and data at its pins; take another frequency"


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
@pytest.mark.parametrize("name, change, message", [
    ("orangecrab-85f", {}, "--board orangecrab-85f: has no SDRAM that is read, expected a design without --weights sdram"),
    ("ulx3s-85f", {"mhz": 150}, "--clock 150: leaves no time for an SDRAM's commands and data at its pins; take another frequency"),
    ("ulx3s-85f", {"beat_bits": 32}, "--board ulx3s-85f: its SDRAM has 16 lines, the design reads 32"),
    ("ulx3s-85f", {"chip": "x"}, "--board ulx3s-85f: sdram.chip is x, expected 256Mbit-16 or 64Mbit-32")])
def test_an_sdram_that_does_not_fit(name, change, message):
    one = board(name)
    config = configure(strategies.smallest(), one.part, Attempt((4, 16, 4), "sdram"))[0]
    config = replace(config, beat_bits=change.get("beat_bits", config.beat_bits))
    if "chip" in change:
        one = replace(one, sdram=one.sdram | {"chip": change["chip"]})
    with pytest.raises(UsageError) as error:
        pads.Pads(config, one, plls.nearest(one, change.get("mhz", 80) * 1e6), 1_000_000, bytes(4))
    assert str(error.value) == message


def test_the_clock_of_an_ecp5_s_flash():
    """High in the second half of the cycle after each pulse."""
    dut = pads.FlashClock()
    pulses = np.random.default_rng(0).integers(0, 2, 200).tolist()
    halves = []

    async def drive(ctx):
        for pulse in pulses:
            ctx.set(dut.pulse, pulse)
            await ctx.tick()

    async def watch(ctx):
        await ctx.delay(PERIOD * 3 / 4)  # Amaranth's clocks rise in the middle of a period
        while len(halves) < 2 * len(pulses):
            halves.append(ctx.get(dut.clock))
            await ctx.delay(PERIOD / 2)
    sim = Simulator(dut)
    sim.add_clock(PERIOD)
    sim.add_testbench(drive)
    sim.add_testbench(watch)
    sim.run()
    assert halves[::2] == [0] * len(pulses) and halves[1::2] == pulses


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_a_flash_that_is_not_read():
    name = "tangnano9k"
    with pytest.raises(UsageError) as error:
        pads.Pads(streamed(), board(name), plls.nearest(board(name), 40e6), 1_000_000, bytes(4))
    assert str(error.value) == f"--board {name}: has no flash reader, expected a design with its weights on the chip"


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_a_clock_too_fast_for_the_flash():
    one = board("ulx3s-85f")
    with pytest.raises(UsageError) as error:
        pads.Pads(streamed(), one, plls.nearest(one, 80e6), 1_000_000, bytes(4))
    assert str(error.value) == "--clock 80: the flash of ULX3S with LFE5U-85F has the design's clock, expected at most 50"
