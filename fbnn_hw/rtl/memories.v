// Memories of the accelerator that an ASIC flow replaces by its own macros: same ports, same latency (one cycle, one more for each of
// REGISTERS).
// Block RAM, also where they are small: LUTs would be as many as the contents of a table need, which no plan knows.

module fbnn_weight_memory #(
    parameter WIDTH = 128,
    parameter DEPTH = 1024,
    parameter ADDRESS = 10,
    parameter IMAGE = "",
    parameter REGISTERS = 0  // 2: one before the memory and one behind it, where it is so large that wires across it are long
) (
    input wire clk,
    input wire [ADDRESS - 1:0] address,
    output wire [WIDTH - 1:0] data
);
    (* ram_style = "block" *) reg [WIDTH - 1:0] memory [0:DEPTH - 1];
    // The guard is for yosys, which also reads the module on its own, with the parameters above.
    generate if (IMAGE != "") initial $readmemh(IMAGE, memory); endgenerate
    reg [ADDRESS - 1:0] asked;
    reg [WIDTH - 1:0] word, second;
    always @(posedge clk) begin
        asked <= address;
        word <= memory[REGISTERS == 2 ? asked : address];
        second <= word;
    end
    assign data = REGISTERS == 2 ? second : word;
endmodule

// One feature bank: a single port, writes under a mask.  After a write read_data keeps its value.
module fbnn_bank #(
    parameter WIDTH = 16,
    parameter DEPTH = 1024,
    parameter ADDRESS = 10,
    parameter GRANULARITY = 8,
    parameter REGISTERS = 0
) (
    input wire clk,
    input wire [ADDRESS - 1:0] address,
    input wire write_enable,
    input wire [WIDTH / GRANULARITY - 1:0] write_mask,
    input wire [WIDTH - 1:0] write_data,
    output wire [WIDTH - 1:0] read_data
);
    (* ram_style = "block" *) reg [WIDTH - 1:0] memory [0:DEPTH - 1];
    reg [WIDTH - 1:0] word, second;
    integer i;
    always @(posedge clk) second <= word;
    assign read_data = REGISTERS != 0 ? second : word;
    always @(posedge clk)
        if (write_enable) begin
            for (i = 0; i < WIDTH / GRANULARITY; i = i + 1)
                if (write_mask[i]) memory[address][i * GRANULARITY +: GRANULARITY] <= write_data[i * GRANULARITY +: GRANULARITY];
        end else word <= memory[address];
endmodule
