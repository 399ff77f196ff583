// The images of golden.npz through testbench.v in any simulator of SystemVerilog: each logit against expected.hex.  FuseSoC's target `sim`.
`include "parameters.vh"
`timescale 1ns / 1ps

module sim;
    reg clk = 0, rst = 1;
    always #5 clk = !clk;
    initial #40 rst = 0;

    wire done;
    testbench bench (.clk(clk), .rst(rst), .images(`GOLDEN_IMAGES), .stall(1'b0), .want_latent(1'b0), .ask(2'b0), .request(64'b0), .done(done));

    reg [31:0] expected [0:`GOLDEN_LOGITS];  // and a word behind the last
    initial $readmemh("expected.hex", expected);
    integer seen = 0, wrong = 0;
    always @(posedge clk) if (!rst) begin
        if (bench.logit_valid && bench.logit_ready) begin
            if (bench.score !== $signed(expected[seen])) begin
                $display("logit %0d: found %0d, expected %0d", seen, bench.score, $signed(expected[seen]));
                wrong = wrong + 1;
            end
            seen = seen + 1;
        end
        if (done) begin
            if (wrong != 0 || seen != `GOLDEN_LOGITS) $fatal(1, "%0d logits of %0d, %0d wrong", seen, `GOLDEN_LOGITS, wrong);
            $display("all %0d logits are the reference's", seen);
            $finish;
        end
    end
endmodule
