// Memories of the accelerator that an ASIC flow replaces by its own macros: same ports, same latency of one cycle.

module fbnn_weight_memory #(
    parameter WIDTH = 128,
    parameter DEPTH = 1024,
    parameter ADDRESS = 10,
    parameter IMAGE = "weights.hex"
) (
    input wire clk,
    input wire [ADDRESS - 1:0] address,
    output reg [WIDTH - 1:0] data
);
    reg [WIDTH - 1:0] memory [0:DEPTH - 1];
    initial $readmemh(IMAGE, memory);
    always @(posedge clk) data <= memory[address];
endmodule
