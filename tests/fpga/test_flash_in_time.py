"""The top module of an iCEBreaker whose flash has twice the clock of the design, beside the model of the flash, with the delays of pads,
PLL, board and chip: what `plls.flash` counts on.

The simulated clock is 64 times that of the design, so a 64th of a period is a step of time.
"""

import math
import re
from itertools import product

import pytest

from fbnn_hw.fpga import pads, plls
from fbnn_hw.rtl.qspi_flash import FlashChip
from fbnn_hw.targets.boards import board
from tests.fpga import in_time
from tests.quick import quick

STEPS = 64
TAKEN = 2200
"""Beats that the stand-in of an accelerator takes."""
LIMIT = 4_000_000
PATH = 5.0
"""ns from a register to a pad's register at least, with the slowest delays: a flip-flop's, a LUT's and two wires'."""
NOW_AND_THEN = "turn[9:4] != 5"
"""For a while it takes no beat, so that the flash's clock stops."""
MODEL = """
module SB_PLL40_2F_PAD #(
    parameter FEEDBACK_PATH = "", DIVR = 0, DIVF = 0, DIVQ = 0, FILTER_RANGE = 0, PLLOUT_SELECT_PORTA = "", PLLOUT_SELECT_PORTB = "",
    DELAY_ADJUSTMENT_MODE_RELATIVE = "", FDA_RELATIVE = 0
) (input wire PACKAGEPIN, RESETB, BYPASS, output wire PLLOUTGLOBALA, PLLOUTGLOBALB, LOCK);
    reg [5:0] at = 0;
    always @(posedge PACKAGEPIN) at <= at + 1;
    wire [5:0] late = at - {delay};
    assign PLLOUTGLOBALA = !late[4], PLLOUTGLOBALB = !at[5], LOCK = 1;
endmodule
module SB_IO #(parameter [5:0] PIN_TYPE = 0, parameter PULLUP = 0) (
    inout wire PACKAGE_PIN, input wire OUTPUT_CLK, INPUT_CLK, OUTPUT_ENABLE, D_OUT_0, D_OUT_1, output wire D_IN_0, output wire D_IN_1
);
    wire d0, d1, enabled, pin, shows, drives;
    later #({path}, 3) wires ({{OUTPUT_ENABLE, D_OUT_1, D_OUT_0}}, {{enabled, d1, d0}});
    reg q0 = 1, q1 = 0, qe = 0, i0, i1;
    always @(posedge OUTPUT_CLK) {{qe, q0}} <= {{enabled, d0}};
    always @(negedge OUTPUT_CLK) q1 <= d1;
    wire level = PIN_TYPE[5:2] == 4'b0110 ? D_OUT_0 : PIN_TYPE[5:2] == 4'b0100 ? (OUTPUT_CLK ? q0 : q1) : q0;
    later #({out}, 2) pad ({{PIN_TYPE[5:2] == 4'b1101 ? qe : |PIN_TYPE[5:2], level}}, {{drives, shows}});
    assign PACKAGE_PIN = drives ? shows : 1'bz;
    later #({into}) taken (PACKAGE_PIN, pin);
    always @(posedge INPUT_CLK) i0 <= pin;
    always @(negedge INPUT_CLK) i1 <= pin;
    assign D_IN_0 = PIN_TYPE[0] ? pin : i0, D_IN_1 = i1;
endmodule
module board (
    input wire clk, input wire rst, input wire rx, output wire tx, output wire ready, output wire active, output wire fault,
    output wire [31:0] errors
);
    reg [31:0] count = 0;
    assign active = count < {taken};
    wire flash_select, flash_clock, lit, wrong;
    wire [3:0] flash_io, old, new_, from_flash;
    wire oscillator = clk, received = rx;  // pins are of both directions
    assign ready = !lit, fault = !wrong;
    // What the board drives is taken at the pads, since a line says neither who drives it nor whether two do.
    wire [3:0] drives = {{top.pad_flash_io3.drives, top.pad_flash_io2.drives, top.pad_flash_io1.drives, top.pad_flash_io0.drives}};
    wire [3:0] shows = {{top.pad_flash_io3.shows, top.pad_flash_io2.shows, top.pad_flash_io1.shows, top.pad_flash_io0.shows}};
    spi_flash #(.BASE({base}), .BYTES({bytes})) flash (
        .select_n(flash_select), .clk(flash_clock), .from_board(shows), .enable(drives), .to_board(from_flash), .errors(errors));
    // From tCLQX to tCLQV after a falling clock the lines are neither the old data nor the new one.
    later #({hold}, 4) hold (from_flash, old);
    later #({access}, 4) access (from_flash, new_);
    wire [3:0] answer = old == new_ ? new_ : ~(old ^ new_);
    assign flash_io[0] = drives[0] ? 1'bz : answer[0], flash_io[1] = drives[1] ? 1'bz : answer[1];
    assign flash_io[2] = drives[2] ? 1'bz : answer[2], flash_io[3] = drives[3] ? 1'bz : answer[3];
    reg said = 0;
    always @(posedge clk) if (!active && !said) begin
        said <= 1;
        $display("errors %0d", errors);
    end
    top top (.clock(oscillator), .rx(received), .tx(tx), .ready(lit), .fault(wrong), .flash_select(flash_select), .flash_clock(flash_clock),
             .flash_io0(flash_io[0]), .flash_io1(flash_io[1]), .flash_io2(flash_io[2]), .flash_io3(flash_io[3]));
endmodule
"""


def beats(mhz, delays, tmp_path):
    """([beat that the accelerator got], [beat of the image], the log).  delays: "early" or "late", of PLL, pads, board and chip."""
    one = board("icebreaker")
    config, data, image = in_time.streamed("ice40", "double", bank_words=1536)
    pll = plls.nearest(one, mhz * 1e6)
    text = pads.to_verilog(pads.Pads(config, one, pll, 1_000_000, bytes(4)))
    step, late, chip = 1e9 / pll.hz / STEPS, delays == "late", FlashChip()
    share, wires, access = (1, plls.WIRES, chip.access) if late else (plls.FASTEST, 0, chip.hold)
    delay = (1 + int(re.search(r"\.FDA_RELATIVE\(4'h(\w)\)", text)[1], 16)) * plls.FINE[late]
    parts = {"delay": delay, "out": share * plls.PADS[0], "into": share * plls.PADS[1]}
    counts = {name: int(ns / step) for name, ns in parts.items()}
    for name, ns in (("hold", chip.hold), ("access", access)):
        # Sums are rounded, not their parts.  A register takes what is there since its own step: data that changes later in it is late.
        total = (sum(parts.values()) + wires + 1e9 * ns) / step
        counts[name] = (int(total) if late else math.ceil(total)) - counts["delay"] - counts["out"] - counts["into"]
    model = MODEL.format(**counts, path=int(share * PATH / step), taken=TAKEN, base=one.flash["offset"], bytes=len(image))
    taken, log = in_time.run(tmp_path, in_time.LATER + model + in_time.accelerator(text, 16, NOW_AND_THEN), text, image, ["spi_flash.v"],
                             2 * round(step * 500), LIMIT)
    return taken, in_time.beats(config, data, TAKEN), log


@pytest.mark.parametrize("mhz, delays", quick(product([42, 45, 49.5, 51], ["early", "late"]), (51, "late")))
def test_beats_from_a_flash_at_twice_the_clock(mhz, delays, tmp_path):
    """Every beat of the image in its order, without a complaint of the model, with the longest and the shortest delays of the budget."""
    taken, expected, log = beats(mhz, delays, tmp_path)
    assert taken == expected and "errors 0\n" in log, log[-2000:]


@pytest.mark.parametrize("delays, steps", quick([("early", 1), ("late", 16)], ("late", 16)))
def test_another_delay_of_the_clock_is_noticed(delays, steps, tmp_path, monkeypatch):
    monkeypatch.setattr(plls, "delay_steps", lambda hz, chip: (steps, 0, 0))
    taken, expected, log = beats(49.5, delays, tmp_path)
    assert taken != expected
