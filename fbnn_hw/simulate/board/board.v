// The virtual board: what goes into the FPGA (board_top) and, with `define FLASH and `define SDRAM, the flash and the SDRAM beside it.
`include "board.vh"
`timescale 1ns / 1ps

module board (
    input wire clk,
    input wire rst,
    input wire rx,
`ifdef DOUBLE
    input wire quick,
`endif
    output wire tx,
    output wire ready,
    output wire active,
    output wire fault,
    output wire [31:0] errors
);
`ifdef FLASH
    wire select_n;
    wire [3:0] from_board, enable, to_board;
    wire [31:0] flash_errors;
`ifdef DOUBLE
    // `quick`, at twice the clock, is high in the second and the last quarter of a cycle.
    wire [1:0] pulse;
    wire flash_clock = quick & (clk ? pulse[0] : pulse[1]);
    reg [3:0] first, second;
    wire [7:0] flash_input = {second, first};
    always @(posedge quick) if (clk) first <= to_board; else second <= to_board;
`else
    wire pulse;
    wire flash_clock = pulse & ~clk;
    wire [3:0] flash_input = to_board;
`endif
    spi_flash #(.WIDTH(`WIDTH), .READ(`READ), .DUMMY(`DUMMY), .BASE(`BASE), .BYTES(`BYTES)) flash (
        .select_n(select_n), .clk(flash_clock), .from_board(from_board), .enable(enable), .to_board(to_board), .errors(flash_errors));
`ifdef SDRAM
    // Its clock is the inverse of that of the board; its data is taken a cycle after it was launched.
    wire [2:0] command;
    wire [1:0] bank;
    wire [`SDRAM_ADDRESS_BITS - 1:0] address;
    wire [`SDRAM_LINES - 1:0] written, read;
    wire mask, write, dry;
    wire [31:0] sdram_errors;
    reg [31:0] dries = 0;
    reg [`SDRAM_LINES - 1:0] taken;
    always @(negedge clk) taken <= read;
    always @(posedge clk) if (!rst && dry) begin
        dries <= dries + 1;
        if (dries < 20) $display("sdram: no beat is there in time at %0t", $realtime);
    end
    sdram #(
        .LINES(`SDRAM_LINES), .COLUMN_BITS(`SDRAM_COLUMN_BITS), .ADDRESS_BITS(`SDRAM_ADDRESS_BITS), .BEATS(`SDRAM_BEATS), .CAS(`SDRAM_CAS),
        .REFRESHES(`SDRAM_REFRESHES), .MODE_CLOCKS(`SDRAM_MODE_CLOCKS), .RCD(`SDRAM_RCD), .RP(`SDRAM_RP), .RAS(`SDRAM_RAS), .RC(`SDRAM_RC),
        .RFC(`SDRAM_RFC), .WR(`SDRAM_WR), .REFRESH(`SDRAM_REFRESH), .POWER(`SDRAM_POWER)) sdram (
        .clk(~clk), .command(command), .bank(bank), .address(address), .mask(mask), .from_board(written), .enable(write), .to_board(read),
        .errors(sdram_errors));
    assign errors = flash_errors + sdram_errors + dries;
`else
    assign errors = flash_errors;
`endif
`else
    assign errors = 0;
`endif
    board_top top (
        .clk(clk), .rst(rst), .rx(rx), .tx(tx), .ready(ready), .active(active),
`ifdef FLASH
        .flash_pulse(pulse), .flash_select_n(select_n), .flash_output(from_board), .flash_enable(enable), .flash_input(flash_input),
`endif
`ifdef SDRAM
        .sdram_command(command), .sdram_bank(bank), .sdram_address(address), .sdram_mask(mask), .sdram_output(written),
        .sdram_enable(write), .sdram_input(taken), .sdram_dry(dry),
`endif
        .fault(fault));

`ifdef SLEEPS
    `define CORE top.core
`ifndef ACTIVITY  // a netlist has no `gate`
    // Each time the clock of the design stops (0) or goes on (1), and when.
    reg [63:0] clock_cycle = 0;
    always @(posedge clk) clock_cycle <= clock_cycle + 1;
    always @(top.gate) $display("clock %0d %0d", top.gate, clock_cycle);
`endif
`else
    `define CORE top
`endif
`ifdef ACTIVITY
    // For simulate/activity.py: what the board is at (S: starts, W: waits, L: bytes come or go, C: computes), and what its pins do.
    reg [63:0] activity_cycle = 0, flash_edges = 0, flash_clocks = 0, flash_selected = 0, line_edges = 0;
    reg [9:0] flash_still = 0;  // cycles without a clock of the flash
    wire [7:0] activity_phase = `CORE.accelerator.step != 0 ? "C" : !ready ? "S" : active || !flash_still[9] ? "L" : "W";
    reg [7:0] phase_before = "S";
    reg [1:0] line_before = 3;
    always @(posedge clk) begin
        activity_cycle <= activity_cycle + 1;
        line_before <= {rx, tx};
        line_edges <= line_edges + $countones(line_before ^ {rx, tx});
    end
`ifndef FLASH
    always @(posedge clk) flash_still <= 1 << 9;
`else
    reg [4:0] flash_before = 5'h1F;
    always @(posedge clk) begin
        flash_before <= {select_n, to_board};
        flash_edges <= flash_edges + $countones(flash_before ^ {select_n, to_board}) + 2 * $countones(pulse);
        flash_clocks <= flash_clocks + $countones(pulse);
        flash_still <= |pulse ? 0 : flash_still + !flash_still[9];
        flash_selected <= flash_selected + !select_n;
    end
`endif
    always @(activity_phase) begin
        $display("activity %0d pins %s %0d %0d %0d %0d", activity_cycle, phase_before, flash_edges, flash_clocks, flash_selected, line_edges);
        phase_before = activity_phase;
    end
`endif
endmodule
