// Behaviour of the iCE40 UltraPlus SPRAM as SinglePortMemory uses it: one clock, no power modes.
// After a write, and while it is not selected, DATAOUT keeps its value.  The silicon promises neither that nor any contents after
// power-up, so with the run-time option +spram-random the contents start at random and DATAOUT is random then.
`timescale 1ns / 1ps

module SB_SPRAM256KA (
    input wire CLOCK,
    input wire [13:0] ADDRESS,
    input wire [15:0] DATAIN,
    input wire [3:0] MASKWREN,
    input wire WREN,
    input wire CHIPSELECT,
    input wire STANDBY,
    input wire SLEEP,
    input wire POWEROFF,
    output reg [15:0] DATAOUT
);
    reg [15:0] memory [0:16383];
    reg random;
    integer i;
    initial begin
        random = $test$plusargs("spram-random") != 0;
        for (i = 0; i < 16384; i = i + 1) memory[i] = random ? $urandom : 0;
        DATAOUT = random ? $urandom : 0;
        if (STANDBY || SLEEP || !POWEROFF) $display("SB_SPRAM256KA: this model has no power modes");
    end
    wire [15:0] bits = {{4{MASKWREN[3]}}, {4{MASKWREN[2]}}, {4{MASKWREN[1]}}, {4{MASKWREN[0]}}};
    always @(posedge CLOCK)
        if (CHIPSELECT) begin
            if (WREN) begin
                memory[ADDRESS] <= (memory[ADDRESS] & ~bits) | (DATAIN & bits);
                if (random) DATAOUT <= $urandom;
            end else DATAOUT <= memory[ADDRESS];
        end else if (random) DATAOUT <= $urandom;
endmodule
