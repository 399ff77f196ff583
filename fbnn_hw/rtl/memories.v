// Memories of the accelerator that an ASIC flow replaces by its own macros: same ports, same latency (one cycle, one more for each of
// REGISTERS).
// Block RAM, also where they are small: LUTs would be as many as the contents of a table need, which no plan knows.

module fbnn_weight_memory #(
    parameter WIDTH = 128,
    parameter DEPTH = 1024,
    parameter ADDRESS = 10,
    parameter IMAGE = "",
    parameter REGISTERS = 0  // 4: two before the memory and two behind it, where it is so large that wires across it are long
) (
    input wire clk,
    input wire [ADDRESS - 1:0] address,
    output wire [WIDTH - 1:0] data
);
    (* ram_style = "block" *) reg [WIDTH - 1:0] memory [0:DEPTH - 1];
    // The guard is for yosys, which also reads the module on its own, with the parameters above.
    generate if (IMAGE != "") initial $readmemh(IMAGE, memory); endgenerate
    reg [ADDRESS - 1:0] came, asked;
    reg [WIDTH - 1:0] word, second, third;
    always @(posedge clk) begin
        came <= address;
        asked <= came;
        word <= memory[REGISTERS == 4 ? asked : address];
        second <= word;
        third <= second;
    end
    assign data = REGISTERS == 4 ? third : word;
endmodule

// One row of each word of the weight ring.  It has a register behind it.  No word is read while it is written.
module fbnn_ring #(
    parameter WIDTH = 128,
    parameter DEPTH = 512,
    parameter ADDRESS = 9
) (
    input wire clk,
    input wire write_enable,
    input wire [ADDRESS - 1:0] write_address,
    input wire [WIDTH - 1:0] write_data,
    input wire [ADDRESS - 1:0] address,
    output reg [WIDTH - 1:0] data
);
    (* ram_style = "block", no_rw_check *) reg [WIDTH - 1:0] memory [0:DEPTH - 1];
    reg [WIDTH - 1:0] word;
    always @(posedge clk) begin
        if (write_enable) memory[write_address] <= write_data;
        word <= memory[address];
        data <= word;
    end
endmodule

// One feature bank: a single port, writes under a mask.  After a write read_data keeps its value.
module fbnn_bank #(
    parameter WIDTH = 16,
    parameter DEPTH = 1024,
    parameter ADDRESS = 10,
    parameter GRANULARITY = 8,
    parameter REGISTERS = 0  // or 2
) (
    input wire clk,
    input wire [ADDRESS - 1:0] address,
    input wire write_enable,
    input wire [WIDTH / GRANULARITY - 1:0] write_mask,
    input wire [WIDTH - 1:0] write_data,
    output wire [WIDTH - 1:0] read_data
);
    (* ram_style = "block" *) reg [WIDTH - 1:0] memory [0:DEPTH - 1];
    reg [WIDTH - 1:0] word, second, third;
    integer i;
    always @(posedge clk) begin
        second <= word;
        third <= second;
    end
    assign read_data = REGISTERS == 2 ? third : word;
    always @(posedge clk)
        if (write_enable) begin
            for (i = 0; i < WIDTH / GRANULARITY; i = i + 1)
                if (write_mask[i]) memory[address][i * GRANULARITY +: GRANULARITY] <= write_data[i * GRANULARITY +: GRANULARITY];
        end else word <= memory[address];
endmodule

// One feature bank with a port for reads and one for writes, which are under a mask.  No word is read while it is written.
module fbnn_two_port_bank #(
    parameter WIDTH = 16,
    parameter DEPTH = 1024,
    parameter ADDRESS = 10,
    parameter GRANULARITY = 8,
    parameter REGISTERS = 0  // or 2
) (
    input wire clk,
    input wire [ADDRESS - 1:0] address,
    input wire [ADDRESS - 1:0] write_address,
    input wire write_enable,
    input wire [WIDTH / GRANULARITY - 1:0] write_mask,
    input wire [WIDTH - 1:0] write_data,
    output wire [WIDTH - 1:0] read_data
);
    (* ram_style = "block", no_rw_check *) reg [WIDTH - 1:0] memory [0:DEPTH - 1];
    reg [WIDTH - 1:0] word, second, third;
    integer i;
    always @(posedge clk) begin
        word <= memory[address];
        second <= word;
        third <= second;
    end
    assign read_data = REGISTERS == 2 ? third : word;
    always @(posedge clk)
        if (write_enable)
            for (i = 0; i < WIDTH / GRANULARITY; i = i + 1)
                if (write_mask[i]) memory[write_address][i * GRANULARITY +: GRANULARITY] <= write_data[i * GRANULARITY +: GRANULARITY];
endmodule
