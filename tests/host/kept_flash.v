// The flash of a virtual board, which can be erased and programmed: kept_flash.cpp.
`timescale 1ns / 1ps
module spi_flash #(parameter WIDTH = 4, READ = 0, DUMMY = 0, BASE = 0, BYTES = 0) (
    input wire select_n, input wire clk, input wire [3:0] from_board, input wire [3:0] enable, output reg [3:0] to_board,
    output wire [31:0] errors);
    import "DPI-C" function int kept_flash(input longint ps, input int pins);
    assign errors = 0;
    int lines;
    always @(select_n, clk, from_board, enable) begin
        lines = kept_flash(longint'($realtime * 1000.0), {20'b0, enable, from_board, 2'b0, clk, select_n});
        to_board = lines[3:0];
    end
endmodule
