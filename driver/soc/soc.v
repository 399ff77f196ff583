// A system on a chip: the processor picorv32, a memory, and an accelerator on Wishbone.  An example to begin with.
//   0x00000000  the memory, which holds program and data    0x10000000  write: a word leaves at `out`
//   0x10000004  read: clocks since reset                    0x30000000  the registers of the accelerator
`timescale 1ns / 1ps
module soc #(
    parameter WORDS = 1 << 17
) (
    input clk,
    input rst,
    output reg [31:0] out,
    output reg out_valid,
    output trap
`ifdef STREAM
    , input [`STREAM - 1:0] weights_tdata, input weights_tvalid, output weights_tready
`endif
);
    wire valid, interrupt;
    wire [31:0] address, write_data;
    wire [3:0] strobe;
    wire in_memory = valid && address[31:28] == 0;
    wire in_console = valid && address[31:28] == 1;
    wire in_accelerator = valid && address[31:28] == 3;
    reg ready;
    reg [31:0] read_data, clocks, memory [0:WORDS - 1];
    initial $readmemh("program.hex", memory);
    wire [31:0] word = memory[address[31:2] % WORDS];

    always @(posedge clk) begin
        clocks <= rst ? 0 : clocks + 1;
        ready <= (in_memory || in_console) && !ready && !rst;
        read_data <= in_console ? clocks : word;
        if (in_memory && !ready)
            memory[address[31:2] % WORDS] <= {strobe[3] ? write_data[31:24] : word[31:24], strobe[2] ? write_data[23:16] : word[23:16],
                                              strobe[1] ? write_data[15:8] : word[15:8], strobe[0] ? write_data[7:0] : word[7:0]};
        out <= write_data;
        out_valid <= in_console && ready && strobe != 0;
    end

    wire acknowledge;
    wire [31:0] answer;
    // The interrupt wakes nothing here: the driver's `wait` reads it in picorv32's own way, or polls.
    picorv32 #(.COMPRESSED_ISA(1), .ENABLE_MUL(1), .ENABLE_DIV(1), .BARREL_SHIFTER(1), .ENABLE_IRQ(0), .STACKADDR(4 * WORDS)) processor (
        .clk(clk), .resetn(!rst), .trap(trap), .mem_valid(valid), .mem_ready(in_accelerator ? acknowledge : ready), .mem_addr(address),
        .mem_wdata(write_data), .mem_wstrb(strobe), .mem_rdata(in_accelerator ? answer : read_data), .irq(32'd0), .pcpi_wr(1'b0),
        .pcpi_rd(32'd0), .pcpi_wait(1'b0), .pcpi_ready(1'b0));

`ifndef SOFTWARE
    accelerator_wb accelerator_wb (
        .wb_clk_i(clk), .wb_rst_i(rst), .wb_cyc_i(in_accelerator), .wb_stb_i(in_accelerator), .wb_we_i(strobe != 0),
        .wb_adr_i(address[12:0]), .wb_sel_i(strobe == 0 ? 4'hf : strobe), .wb_dat_i(write_data), .wb_dat_o(answer),
        .wb_ack_o(acknowledge),
`ifdef STREAM
        .s_axis_weights_tdata(weights_tdata), .s_axis_weights_tvalid(weights_tvalid), .s_axis_weights_tready(weights_tready),
`endif
        .irq_o(interrupt));
`else
    assign acknowledge = in_accelerator;
    assign answer = 0;
`endif
endmodule
