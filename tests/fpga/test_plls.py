"""The settings of PLLs, for every board and every clock that `build` takes, against the ranges of the data sheets."""

import os
import random
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from amaranth import Const

from fbnn_hw.base.errors import UsageError
from fbnn_hw.compile.plan import plan
from fbnn_hw.fpga import pads, plls
from fbnn_hw.rtl.sdram import CHIPS
from fbnn_hw.rtl.verilog import to_verilog
from fbnn_hw.simulate.bench import bench
from fbnn_hw.targets.boards import board, boards
from tests import strategies

FASTEST = {"ice40": 300, "ecp5": 450, "gowin": 700, "xilinx7": 900}
"""MHz that no PLL of the family makes."""
STEP = 1 if os.environ.get("FBNN_SLOW") else 8
"""Of so many clocks one is tried; all with FBNN_SLOW=1."""
SEED = int(os.environ.get("FBNN_SEED", random.randrange(1 << 30)))


def within(low, value, high):
    return low * (1 - 1e-9) <= value <= high * (1 + 1e-9)


def ice40(v, mhz):
    """The clock of an SB_PLL40, MHz.  Ref: FPGA-DS-02008, sysCLOCK PLL timing; TN1251: DIVR 4, DIVF 7 bits, DIVQ 1 to 6; the filter's
    range by the phase detector's frequency, as Project IceStorm's icepll has it."""
    phase = mhz / (v["DIVR"] + 1)
    vco = phase * (v["DIVF"] + 1)
    out = vco / 2 ** v["DIVQ"]
    assert within(10, mhz, 133) and within(10, phase, 133) and within(533, vco, 1066) and within(16, out, 275)
    assert 0 <= v["DIVR"] <= 15 and 0 <= v["DIVF"] <= 127 and 1 <= v["DIVQ"] <= 6 and v["FEEDBACK_PATH"] == "SIMPLE"
    limits = {1: (10, 17), 2: (17, 26), 3: (26, 44), 4: (44, 66), 5: (66, 101), 6: (101, 133)}
    assert within(limits[v["FILTER_RANGE"]][0], phase, limits[v["FILTER_RANGE"]][1])
    return out


def ecp5(v, mhz):
    """That of an EHXPLLL.  Ref: FPGA-DS-02012, sysCLOCK PLL timing: input 8 to 400 MHz, output 3.125 to 400, VCO 400 to 800, phase detector
    10 to 400; FPGA-TN-02200: dividers to 128, CLKFB_DIV to 80, a phase of 7 bits.  An output, CLKOS3, feeds back, divided by CLKFB_DIV."""
    assert v["FEEDBK_PATH"] == "INT_OS3" and v["CLKOS3_ENABLE"] == v["CLKOP_ENABLE"] == "ENABLED"
    phase = mhz / v["CLKI_DIV"]
    feedback = phase * v["CLKFB_DIV"]
    vco = feedback * v["CLKOS3_DIV"]
    out = vco / v["CLKOP_DIV"]
    assert within(8, mhz, 400) and within(10, phase, 400) and within(400, vco, 800)
    assert within(3.125, out, 400) and within(3.125, feedback, 400)
    assert all(1 <= v[name] <= 128 for name in ("CLKI_DIV", "CLKOP_DIV", "CLKOS3_DIV")) and 1 <= v["CLKFB_DIV"] <= 80
    assert all(0 <= v[name] <= 127 for name in ("CLKOP_CPHASE", "CLKOS3_CPHASE"))
    return out


def gowin(v, mhz):
    """That of an rPLL.  Ref: DS117 (GW1NR-9, C6/I5) and DS226 (GW2AR-18, C8/I7): input and phase detector, VCO, output; UG286: 6 bits."""
    phases, vcos, outs = {"GW1NR-9C": ((3, 400), (400, 1200), (3.125, 600)),
                          "GW2AR-18C": ((3, 500), (500, 1250), (3.90625, 625))}[v["DEVICE"]]
    phase = mhz / (v["IDIV_SEL"] + 1)
    out = phase * (v["FBDIV_SEL"] + 1)
    assert within(phases[0], mhz, phases[1]) and within(phases[0], phase, phases[1]) and within(outs[0], out, outs[1])
    assert within(vcos[0], out * v["ODIV_SEL"], vcos[1]) and v["ODIV_SEL"] in (2, 4, 8, *range(16, 129, 16))
    assert 0 <= v["IDIV_SEL"] <= 63 and 0 <= v["FBDIV_SEL"] <= 63 and float(v["FCLKIN"]) == mhz
    return out


def xilinx7(v, mhz):
    """That of a PLLE2.  Ref: DS181, speed grade -1: input 19 to 800 MHz, phase detector 19 to 450, VCO 800 to 1600, output 6.25 to 800;
    UG472: the dividers."""
    phase = mhz / v["DIVCLK_DIVIDE"]
    vco = phase * v["CLKFBOUT_MULT"]
    out = vco / v["CLKOUT0_DIVIDE"]
    assert within(19, mhz, 800) and within(19, phase, 450) and within(800, vco, 1600) and within(6.25, out, 800)
    assert 1 <= v["DIVCLK_DIVIDE"] <= 56 and 2 <= v["CLKFBOUT_MULT"] <= 64 and 1 <= v["CLKOUT0_DIVIDE"] <= 128
    assert v["CLKIN1_PERIOD"] * mhz == pytest.approx(1000)
    return out


RANGES = {"ice40": ice40, "ecp5": ecp5, "gowin": gowin, "xilinx7": xilinx7}


def settings(one, *always):
    """(MHz wanted, `Pll`) of the clocks that a board takes, in steps of 0.25 MHz; always: MHz that are among those tried."""
    print("FBNN_SEED", SEED)
    tried = np.arange(2, FASTEST[one.part.family] + 0.25, 0.25)[SEED % STEP::STEP]
    for wanted in sorted({*tried, *always}):
        try:
            yield wanted, plls.nearest(one, wanted * 1e6)
        except UsageError as error:
            assert str(error).startswith(f"--clock {wanted:g}: the PLL makes ")


@pytest.mark.parametrize("name", boards())
def test_every_clock_is_within_the_data_sheet(name):
    """The default and one and a half of it are among those taken."""
    one, taken = board(name), {}
    default = one.part.clock_hz / 1e6
    usual, fastest = {round(4 * default) / 4, round(6 * default) / 4}, FASTEST[one.part.family]
    for wanted, pll in settings(one, *usual, fastest):
        values = {key: value.value if isinstance(value, Const) else value for key, value in pll.parameters.items()}
        out = RANGES[one.part.family](values, one.clock_hz / 1e6)
        assert out * 1e6 == pytest.approx(pll.hz) and abs(out / wanted - 1) <= 0.05
        taken[wanted] = pll
    assert usual <= set(taken) and fastest not in taken


def test_clocks_of_records_are_kept():
    one = board("ulx3s-85f")
    assert [plls.nearest(one, mhz * 1e6).hz / 1e6 for mhz in (115, 84.375, 59.375, 112.5, 50, 42)] == [
        115, 84.375, 59.375, 112.5, 50, pytest.approx(587.5 / 14)]


def test_a_clock_above_the_range_is_refused():
    with pytest.raises(UsageError, match=r"^--clock 300: the PLL makes 270 MHz at best of 12 MHz; take another frequency$"):
        plls.nearest(board("icebreaker"), 300e6)


@pytest.mark.parametrize("name", [name for name, one in boards().items() if one.sdram and one.part.family == "ecp5"])
def test_the_second_output_has_the_phase(name):
    """CLKOS has the divider of CLKOP, so its delay is the difference of the phases, whatever feeds back: at an edge that
    `test_pads.test_the_sdram_of_an_ecp5` checks, and here within the counters of the part."""
    one, chip, found = board(name), CHIPS[board(name).sdram["chip"]], 0
    for _, pll in settings(one):
        try:
            second, latency = plls.sdram(pll, chip)
        except UsageError:
            continue
        v, period, found = pll.parameters | second, 1e9 / pll.hz, found + 1
        assert v["CLKOS_DIV"] == v["CLKOP_DIV"] and 0 <= v["CLKOS_CPHASE"] <= 127 and 0 <= v["CLKOS_FPHASE"] <= 7
        shift = (v["CLKOS_CPHASE"] - v["CLKOP_CPHASE"] + v["CLKOS_FPHASE"] / 8) / v["CLKOS_DIV"] % 1 * period
        assert 2.0 <= shift <= period - 1.5
        assert shift + 1e9 * chip.access + 6.3 <= latency * period <= shift + period + 1e9 * chip.hold + 2.5
    assert found > 200 / STEP - 1


def test_the_loop_filter_is_set():
    """Names and values as in Project Trellis' libtrellis/tools/ecppll.cpp."""
    text = pads.to_verilog(top("ulx3s-25f"))
    for name, value in (("ICP_CURRENT", 12), ("LPF_RESISTOR", 8), ("MFG_ENABLE_FILTEROPAMP", 1), ("MFG_GMCREF_SEL", 2)):
        assert f'(* {name} = "{value}" *)' in text


CELLS = """
module PLL(input in, output out, lock);
    assign out = in && drive.lock;
    assign lock = drive.lock;
endmodule
module IB(input I, output O); assign O = I; endmodule
module IBUF(input I, output O); assign O = I; endmodule
module BUFG(input I, output O); assign O = I; endmodule
module OB(input I, output O); assign O = I; endmodule
module OBUF(input I, output O); assign O = I; endmodule
module SB_IO #(parameter PIN_TYPE = 6'd0, PULLUP = 1'b0, IO_STANDARD = "SB_LVCMOS") (
    inout PACKAGE_PIN, input D_OUT_0, D_OUT_1, OUTPUT_ENABLE, INPUT_CLK, OUTPUT_CLK, output D_IN_0, D_IN_1);
    assign PACKAGE_PIN = PIN_TYPE[5:2] == 4'b0110 ? D_OUT_0 : 1'bz;
    assign D_IN_0 = PACKAGE_PIN;
endmodule
"""
PLLS = {"ice40": ("SB_PLL40_PAD", "PACKAGEPIN", "PLLOUTGLOBAL", "LOCK"),
        "ecp5": ("EHXPLLL", "CLKI", "CLKOP", "LOCK"), "gowin": ("rPLL", "CLKIN", "CLKOUT", "LOCK"),
        "xilinx7": ("PLLE2_BASE", "CLKIN1", "CLKOUT0", "LOCKED")}
DRIVE = """
module drive;
    reg clock = 0, lock = 0;
    wire tx, ready, fault;
    wire oscillator = clock, rx = 1;
    always #5 clock = !clock;
    top top(.clock(oscillator), .rx(rx), .tx(tx), .ready(ready), .fault(fault));
    initial begin
        #40000 $display("%b", fault);
        lock = 1;
        #40000 $display("%b", fault);
        $finish;
    end
endmodule
"""


def top(name):
    one = board(name)
    return pads.Pads(plan(strategies.smallest(), one.part, 4, 16, 4).config, one, plls.nearest(one, one.part.clock_hz), 1_000_000, bytes(4))


@pytest.mark.parametrize("name", ["icebreaker", "ulx3s-25f", "tangnano9k", "arty-a7-100"])
def test_a_pll_that_never_locks_lights_the_led(name, tmp_path):
    """With and without a clock: it goes out 1024 cycles after the lock."""
    if not shutil.which("iverilog"):
        pytest.skip("no Icarus on PATH; Debian: apt-get install iverilog")
    made, (kind, clock, output, lock) = top(name), PLLS[board(name).part.family]
    text = pads.to_verilog(made)
    # The cells of the part, with the ports and parameters that the text names.
    text = re.sub(rf"{kind} #\(.*?\) pll \(.*?\n  \);", lambda found: (
        f"PLL pll (.in({port(found[0], clock)}), .out({port(found[0], output)}), .lock({port(found[0], lock)}));"), text, flags=re.S)
    for file, content in (("top.v", text), ("accelerator.v", to_verilog(made.core.config)), ("cells.v", CELLS), ("drive.v", DRIVE)):
        (tmp_path / file).write_text(content)
    (tmp_path / "weights.hex").write_text("")
    sources = [tmp_path / file for file in ("top.v", "accelerator.v", "cells.v", "drive.v")]
    sources.append(Path(bench.__file__).parent / "SB_SPRAM256KA.v")
    command = ["iverilog", "-g2012", "-s", "drive", "-o", "a.vvp", *sources]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    done = subprocess.run(["vvp", "-n", "a.vvp"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    lit, out = "01" if "fault" in board(name).low else "10"
    assert [line for line in done.stdout.splitlines() if line in "01"] == [lit, out], done.stdout + done.stderr


def port(text, name):
    return re.search(rf"\.{name}\((.*?)\)", text)[1]
