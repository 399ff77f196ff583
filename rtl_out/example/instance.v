// Template: wires and an instance of accelerator, to be copied.  The ports: docs/integration.md of fbnn-hw.
// Ports that you do not use: an output stays open, ready of a stream that leaves is 1, any other input is 0.

// clk: every register takes its rising edge
wire clk;  // input
// rst: synchronous, active high, at least one cycle
wire rst;  // input
// pixels: RGB bytes of an image, row by row; taken while valid and ready
wire [7:0] pixels__payload;  // input
wire pixels__valid;  // input
wire pixels__ready;  // output
// logits: a signed integer a class, in order; last with the final one
wire [9:0] logits__payload;  // output
wire logits__valid;  // output
wire logits__ready;  // input
// result: the class, after its logits
wire result__payload;  // output
wire result__valid;  // output
wire result__ready;  // input
// latent: words of the latent, before the result, where want_latent was 1
wire [16:0] latent__payload;  // output
wire latent__valid;  // output
wire latent__ready;  // input
// want_latent: sampled when the last logit leaves
wire want_latent;  // input
// busy: 0 while it waits for an image or takes one
wire busy;  // output
// step: steps of the program begun, for observers
wire [2:0] step;  // output

accelerator accelerator_instance (
    .clk(clk),
    .rst(rst),
    .pixels__payload(pixels__payload),
    .pixels__valid(pixels__valid),
    .pixels__ready(pixels__ready),
    .logits__payload(logits__payload),
    .logits__valid(logits__valid),
    .logits__ready(logits__ready),
    .result__payload(result__payload),
    .result__valid(result__valid),
    .result__ready(result__ready),
    .latent__payload(latent__payload),
    .latent__valid(latent__valid),
    .latent__ready(latent__ready),
    .want_latent(want_latent),
    .busy(busy),
    .step(step)
);
