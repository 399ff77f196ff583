"""The top module of the Tang Nano 20K beside models of flash and SDRAM, with the delays of pads and wires: what `plls.sdram` counts on.

The simulated clock is sixteen times that of the design, so a sixteenth of a period is a step of time and of the phase of the PLL.
"""

import pytest

from fbnn_hw.fpga import pads, plls
from fbnn_hw.rtl.board_top import weight_bytes
from fbnn_hw.rtl.sdram import CHIPS
from fbnn_hw.simulate import virtual
from fbnn_hw.targets.boards import board
from tests.fpga import in_time
from tests.quick import quick

STEPS = 16
TAKEN = 4000
"""Beats that the stand-in of an accelerator takes."""
LIMIT = 2_000_000
CELLS = """
module rPLL #(
    parameter FCLKIN = "", IDIV_SEL = 0, FBDIV_SEL = 0, ODIV_SEL = 0, DEVICE = "", DYN_IDIV_SEL = "", DYN_FBDIV_SEL = "", DYN_ODIV_SEL = "",
    CLKFB_SEL = "", DYN_DA_EN = "", PSDA_SEL = "", DUTYDA_SEL = "", DYN_SDIV_SEL = 0
) (
    input wire CLKIN, CLKFB, RESET, RESET_P, input wire [5:0] FBDSEL, IDSEL, ODSEL, input wire [3:0] PSDA, DUTYDA, FDLY,
    output wire CLKOUT, output wire CLKOUTP, output wire LOCK
);
    localparam [31:0] DIGITS = PSDA_SEL;
    localparam [3:0] PHASE = {DIGITS[24], DIGITS[16], DIGITS[8], DIGITS[0]};
    reg [3:0] at = 0;
    always @(posedge CLKIN) at <= at + 1;
    // No wire lies between the ODDR and its pad, as it does before the other pads.
    wire [3:0] shifted = at - PHASE + `WIRE;
    assign CLKOUT = !at[3], CLKOUTP = !shifted[3], LOCK = 1;
endmodule
module IBUF (input wire I, output wire O); assign O = I; endmodule
module OBUF (input wire I, output wire O); later #(`OUT + `WIRE) pad (I, O); endmodule
module IOBUF (input wire I, input wire OEN, output wire O, inout wire IO);
    wire late, floats;
    later #(`OUT + `WIRE, 2) pad ({OEN, I}, {floats, late});
    later #(`IN + `WIRE) into (IO, O);
    assign IO = floats ? 1'bz : late;
endmodule
module DFF (input wire D, CLK, output reg Q); initial Q = 0; always @(posedge CLK) Q <= D; endmodule
module DFFS (input wire D, CLK, SET, output reg Q); initial Q = 1; always @(posedge CLK) Q <= D || SET; endmodule
module ODDR (input wire D0, D1, TX, CLK, output wire Q0); assign Q0 = CLK ? D0 : D1; endmodule
"""
BOARD = """
module board (
    input wire clk, input wire rst, input wire rx, output wire tx, output wire ready, output wire active, output wire fault,
    output wire [31:0] errors
);
    reg [31:0] count = 0;
    assign active = count < {taken};
    wire flash_select, flash_clock, sdram_clk, sdram_we, sdram_cas, sdram_ras, lit, wrong;
    wire [1:0] flash_io;
    wire [31:0] dq;
{wires}
    assign ready = !lit, fault = !wrong;
    // What the board drives is taken before the pads, since a line says neither who drives it nor whether two do.
    wire [1:0] flash_enable, flash_output;
    wire dq_enable;
    later #(`OUT + `WIRE, 4) flash_pads ({{~top.floats1, ~top.floats0, top.out1, top.out0}}, {{flash_enable, flash_output}});
    later #(`OUT + `WIRE) dq_pads (~top.sdram_floats0, dq_enable);
    wire [3:0] from_flash;
    wire [31:0] flash_errors, sdram_errors, read;
    spi_flash #(.WIDTH(2), .READ(8'h3B), .DUMMY(8), .BASE({base}), .BYTES({bytes})) flash (
        .select_n(flash_select), .clk(flash_clock), .from_board({{2'b11, flash_output}}), .enable({{2'b00, flash_enable}}),
        .to_board(from_flash), .errors(flash_errors));
    wire [3:0] answer;
    later #(`FLASH, 4) flash_delay (from_flash, answer);
    assign flash_io[0] = flash_enable[0] ? 1'bz : answer[0], flash_io[1] = flash_enable[1] ? 1'bz : answer[1];
    sdram #({parameters}) sdram (
        .clk(sdram_clk), .command({{sdram_ras, sdram_cas, sdram_we}}), .bank(bank), .address(address), .mask(|mask), .from_board(dq),
        .enable(dq_enable), .to_board(read), .errors(sdram_errors));
    // From `HOLD` to `ACCESS` after an edge the lines are neither the old word nor the new one.
    wire [31:0] old, new_;
    later #(`HOLD, 32) hold (read, old);
    later #(`ACCESS, 32) access (read, new_);
    assign dq = dq_enable ? 32'bz : old == new_ ? new_ : ~(old ^ new_);
    assign errors = flash_errors + sdram_errors;
    always @(posedge clk) if (count == {taken} && !written) begin
        written <= 1;
        $display("errors %0d %0d", flash_errors, sdram_errors);
    end
    reg written = 0;
    top top (.clock(clk), .rx(rx), .tx(tx), .ready(lit), .fault(wrong), .flash_select(flash_select), .flash_clock(flash_clock),
             .flash_io0(flash_io[0]), .flash_io1(flash_io[1]), .sdram_clk(sdram_clk), .sdram_we(sdram_we), .sdram_cas(sdram_cas),
             .sdram_ras(sdram_ras), .sdram_cke(), .sdram_cs(){ports});
endmodule
"""


def beats(mhz, wire_ns, delays, tmp_path):
    """([beat that the accelerator got], [beat of the image], the log).  delays: "early" or "late", of pads and chip."""
    one = board("tangnano20k")
    config, data, image = in_time.streamed("gowin", "sdram", blocks=16)
    pll = plls.nearest(one, mhz * 1e6)
    top = pads.Pads(config, one, pll, 1_000_000, bytes(4))
    text, chip = pads.to_verilog(top), CHIPS[one.sdram["chip"]]
    step = 1e9 / pll.hz / STEPS

    def ways(sooner, later):  # sums are rounded, not their parts
        out, into = (round(ns / step) for ns in (3.5, 2.8)) if delays == "late" else (int(ns / step) for ns in (2.0, 0.5))
        total = -int(-later // step) if delays == "late" else int(sooner / step)
        return {"OUT": out, "IN": into, "ACCESS": total - out - into}
    hold, access = 1e9 * chip.hold, 1e9 * chip.access
    macros = ways(plls.WAYS[0] + hold, plls.WAYS[1] + access) | {"WIRE": round(wire_ns / step), "FLASH": round(7 / step)}
    macros["HOLD"] = int(hold / step) if delays == "late" else macros["ACCESS"]
    buses = {"bank": ("ba", 2), "address": ("a", 11), "mask": ("dqm", 4), "dq": ("dq", 32)}
    ports = "".join(f", .sdram_{port}{i}({name}[{i}])" for name, (port, count) in buses.items() for i in range(count))
    places = sum(map(chip.rows_of, weight_bytes(config))) * chip.columns
    # The simulation's period is a whole number of picoseconds.
    picoseconds = 2 * (round(step * 1000) // 2) * STEPS
    parameters = virtual.sdram_parameters(chip, places, chip.cas_latency(pll.hz), 1e9 * picoseconds / 1000 * pll.hz / 1e9)
    model = "".join(f"`define {name} {value}\n" for name, value in macros.items()) + in_time.LATER + CELLS + BOARD.format(
        taken=TAKEN, base=one.flash["offset"], bytes=len(image), ports=ports,
        wires="    wire [1:0] bank;\n    wire [10:0] address;\n    wire [3:0] mask;",
        parameters=", ".join(f".{name}({value})" for name, value in parameters.items()))
    taken, log = in_time.run(tmp_path, model + in_time.accelerator(text, 32), text, image, ["spi_flash.v", "sdram.v"],
                             picoseconds // STEPS, LIMIT)
    return taken, in_time.beats(config, data, TAKEN), log


@pytest.mark.parametrize("mhz, wire_ns, delays", quick(
    [(60, 0, "early"), (60, 4, "late"), (48, 4, "late"), (27, 2, "early")], (60, 4, "late")))
def test_beats_from_an_sdram_inside_a_gowin(mhz, wire_ns, delays, tmp_path):
    """Every beat of the image in its order, without a complaint of the models, with the longest and the shortest delays of the budget."""
    taken, expected, log = beats(mhz, wire_ns, delays, tmp_path)
    assert taken == expected and "errors 0 0" in log, log[-2000:]


@pytest.mark.parametrize("delays, phase", quick([("early", "1000"), ("late", "0001")], ("late", "0001")))
def test_a_wrong_phase_is_noticed(delays, phase, tmp_path, monkeypatch):
    monkeypatch.setattr(plls, "sdram", lambda pll, chip: ({"PSDA_SEL": phase}, 2))
    taken, expected, log = beats(60, 0, delays, tmp_path)
    assert taken != expected or "errors 0 0" not in log
