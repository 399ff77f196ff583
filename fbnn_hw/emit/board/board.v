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
endmodule
