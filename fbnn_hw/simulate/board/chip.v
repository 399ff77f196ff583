// The virtual board of a bitstream: the disassembled chip with its PLL, a flash beside it, and the clock of the design as `clk`.
// A chip has no reset: it begins as configuration leaves it, its PLL locks some time after, and it hears nothing until `SETTLES clocks later.
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
    output wire deaf,
    output wire [31:0] errors
);
    localparam LOCKS = 512;
    reg [31:0] started = 0;
    assign deaf = started < LOCKS + `SETTLES;
    always @(posedge clk) if (deaf) started <= started + 1;
    // Nothing outside says whether the chip is at work, so it is never taken to rest.
    assign active = 1;
    wire select, flash_clock;
    wire [3:0] from_board, enable, to_board;
    chip chip (
`ifdef DOUBLE
        .pll_a(~quick), .pll_b(clk),
`else
        .pll_a(clk), .pll_b(clk),
`endif
        .locked(started >= LOCKS), .rx(rx), .tx(tx), .ready(ready), .fault(fault), .flash_select(select), .flash_clock(flash_clock),
        .flash_in(to_board), .flash_out(from_board), .flash_enable(enable));
`ifdef FLASH
    spi_flash #(.WIDTH(`WIDTH), .READ(`READ), .DUMMY(`DUMMY), .BASE(`BASE), .BYTES(`BYTES)) flash (
        .select_n(select), .clk(flash_clock), .from_board(from_board), .enable(enable), .to_board(to_board), .errors(errors));
`else
    assign to_board = 4'hF, errors = 0;
`endif
endmodule
