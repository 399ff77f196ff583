// The chip of a device's bitstream, with the ports that its design has for pins.  A chip has no reset: it begins as configuration leaves it,
// and its PLL locks some time after.
`include "board.vh"
`timescale 1ns / 1ps

module device_top (
    input wire clk,
    input wire rst,
    input wire pclk,
    input wire href,
    input wire vsync,
    input wire [7:0] data,
    output wire xclk,
    output wire sioc_low,
    output wire siod_low,
`ifdef DISPLAY
    input wire siod,
`endif
`ifdef BUTTONS
    input wire [`BUTTONS - 1:0] pressed,
`endif
`ifdef FLASH
    output wire flash_select_n,
    output wire flash_clock,
    output wire [3:0] flash_output,
    output wire [3:0] flash_enable,
    input wire [3:0] flash_input,
`endif
    output wire [3:0] number,
    output wire flag,
    output wire ready,
    output wire fault
);
    reg [9:0] started = 0;
    always @(posedge clk) if (!started[9]) started <= started + 1;
`ifndef FLASH
    wire [3:0] flash_input = 4'hF;
`endif
    chip chip (
        .pll_a(clk), .pll_b(clk), .locked(started[9]), .rx(1'b1), .ready(ready), .fault(fault),
`ifdef FLASH
        .flash_select(flash_select_n), .flash_clock(flash_clock), .flash_out(flash_output), .flash_enable(flash_enable),
`endif
        .flash_in(flash_input),
`ifdef DISPLAY
        .camera_siod(siod),
`else
        .camera_siod(1'b1),
`endif
        .camera_pclk(pclk), .camera_href(href), .camera_vsync(vsync), .camera_xclk(xclk), .camera_sioc_low(sioc_low),
        .camera_siod_low(siod_low), .camera_data0(data[0]), .camera_data1(data[1]), .camera_data2(data[2]), .camera_data3(data[3]),
        .camera_data4(data[4]), .camera_data5(data[5]), .camera_data6(data[6]), .camera_data7(data[7]), `PANEL
        .panel_number0(number[0]), .panel_number1(number[1]), .panel_number2(number[2]), .panel_number3(number[3]), .panel_flag(flag));
endmodule
