// The virtual board: what goes into the FPGA (board_top) and, with `define FLASH, the flash beside it.
`include "board.vh"
`timescale 1ns / 1ps

module board (
    input wire clk,
    input wire rst,
    input wire rx,
    output wire tx,
    output wire ready,
    output wire active,
    output wire fault,
    output wire [31:0] errors
);
`ifdef FLASH
    wire pulse, select_n;
    wire [3:0] from_board, enable, to_board;
    spi_flash #(.WIDTH(`WIDTH), .READ(`READ), .DUMMY(`DUMMY), .BASE(`BASE), .BYTES(`BYTES)) flash (
        .select_n(select_n), .clk(pulse & ~clk), .from_board(from_board), .enable(enable), .to_board(to_board), .errors(errors));
`else
    assign errors = 0;
`endif
    board_top top (
        .clk(clk), .rst(rst), .rx(rx), .tx(tx), .ready(ready), .active(active),
`ifdef FLASH
        .flash_pulse(pulse), .flash_select_n(select_n), .flash_output(from_board), .flash_enable(enable), .flash_input(to_board),
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
    // For emit/activity.py: what the board is at (S: starts, W: waits, L: bytes come or go, C: computes), and what its pins do.
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
        flash_edges <= flash_edges + $countones(flash_before ^ {select_n, to_board}) + {pulse, 1'b0};
        flash_clocks <= flash_clocks + pulse;
        flash_still <= pulse ? 0 : flash_still + !flash_still[9];
        flash_selected <= flash_selected + !select_n;
    end
`endif
    always @(activity_phase) begin
        $display("activity %0d pins %s %0d %0d %0d %0d", activity_cycle, phase_before, flash_edges, flash_clocks, flash_selected, line_edges);
        phase_before = activity_phase;
    end
`endif
endmodule
