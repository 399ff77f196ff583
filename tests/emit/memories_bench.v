`timescale 1ns / 1ps
module testbench (input wire clk, output reg [31:0] cycles, output reg [5:0] wrong, output reg [5:0] seen);
    initial {cycles, wrong, seen} = 0;
    reg [63:0] lfsr = 64'h123456789ABCDEF1;
    always @(posedge clk) begin
        lfsr <= {lfsr[62:0], lfsr[63] ^ lfsr[62] ^ lfsr[60] ^ lfsr[59]} ^ (cycles << 40);
        cycles <= cycles + 1;
    end
    // Every address once with random data, then anything.
    wire fill = cycles < 8192;
    wire [12:0] address = fill ? cycles[12:0] : lfsr[12:0];
    wire write = fill || lfsr[20];
    wire [7:0] mask = fill ? 8'hFF : lfsr[31:24];
    wire [63:0] wide [0:1];
    wire [8:0] narrow [0:1];
    wire [1:0] deep [0:1];
    wire [15:0] bank [0:1];
    wire [31:0] paired [0:1];
    wire [7:0] bytes [0:1];
    memories rtl (clk, address, write, mask, lfsr[63:32], wide[0], narrow[0], deep[0], bank[0], paired[0], bytes[0]);
    memories_netlist netlist (.clk(clk), .address(address), .write(write), .mask(mask), .data(lfsr[63:32]),
        .wide(wide[1]), .narrow(narrow[1]), .deep(deep[1]), .bank(bank[1]), .paired(paired[1]), .bytes(bytes[1]));
    reg [12:0] last;
    reg read = 0;
    always @(posedge clk) begin
        last <= address; read <= !write;
        if (cycles > 8193) begin
            // After a write nobody may look at what a bank gives.
            wrong <= wrong | {read && bytes[0] != bytes[1], read && paired[0] != paired[1], read && bank[0] != bank[1],
                last < 5000 && deep[0] != deep[1], last[10:0] < 1500 && narrow[0] != narrow[1], last[8:0] < 300 && wide[0] != wide[1]};
            seen <= seen | {|bytes[0], |paired[0], |bank[0], |deep[0], |narrow[0], |wide[0]};
        end
    end
endmodule
