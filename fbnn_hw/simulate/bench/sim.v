// The images of golden.npz through testbench.v in any simulator of SystemVerilog: each logit against expected.hex.  FuseSoC's target `sim`.
`include "parameters.vh"
`timescale 1ns / 1ps

// Each logit that is taken against a line of FILE.
module logits_compared #(parameter COUNT = 1, parameter FILE = "") (
    input wire clk, input wire taken, input wire signed [31:0] logit, output reg [31:0] seen, output reg [31:0] wrong
);
    reg [31:0] expected [0:COUNT];  // and a word behind the last
    initial $readmemh(FILE, expected);
    initial {seen, wrong} = 0;
    always @(posedge clk) if (taken) begin
        if (logit !== $signed(expected[seen])) begin
            $display("logit %0d: found %0d, expected %0d", seen, logit, $signed(expected[seen]));
            wrong <= wrong + 1;
        end
        seen <= seen + 1;
    end
endmodule

module sim;
    reg clk = 0, rst = 1;
    always #5 clk = !clk;
    initial #40 rst = 0;

    wire done;
    testbench bench (.clk(clk), .rst(rst), .images(`GOLDEN_IMAGES), .stall(1'b0), .want_latent(1'b0), .ask(2'b0), .request(64'b0), .done(done));

    wire [31:0] seen, wrong;
    logits_compared #(.COUNT(`GOLDEN_LOGITS), .FILE("expected.hex")) check (
        .clk(clk), .taken(!rst && bench.logit_valid && bench.logit_ready), .logit(bench.score), .seen(seen), .wrong(wrong));
    always @(posedge clk) if (!rst && done) begin
        if (wrong != 0 || seen != `GOLDEN_LOGITS) $fatal(1, "%0d logits of %0d, %0d wrong", seen, `GOLDEN_LOGITS, wrong);
        $display("all %0d logits are the reference's", seen);
        $finish;
    end
endmodule
