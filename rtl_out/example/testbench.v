// The generated accelerator between sources and sinks: images from images.hex; weights from weights.hex as a 4-bit flash gives
// them; results into results.txt; the feature banks into features_<frame>_<steps done>_<bank>.hex after every step.
// A reset begins everything anew, the sources too.
`include "parameters.vh"
`timescale 1ns / 1ps

module testbench (
    input wire clk,
    input wire rst,
    input wire [31:0] images,       // frames to run
    input wire stall,               // random pauses on every stream
    input wire want_latent,
    input wire [1:0] ask,           // a design that learns: request is a command (1), an access of the host (2)
    input wire [63:0] request,
    output wire answered,
    output wire [63:0] found,
    output wire refused,
    output reg [31:0] frames,       // frames done
    output wire done,
    output reg recorded             // the waveform asked for is whole
);
    initial frames = 0;
    reg [31:0] cycle = 0;
    always @(posedge clk) cycle <= rst ? 0 : cycle + 1;

    reg [31:0] lfsr = 32'h2545F491;
    always @(posedge clk) lfsr <= {lfsr[30:0], lfsr[31] ^ lfsr[21] ^ lfsr[1] ^ lfsr[0]};
    wire [3:0] pause = stall ? {lfsr[3:0] == 0, lfsr[9:8] == 0, lfsr[17:16] == 0, lfsr[26:24] == 0} : 4'b0;

    // Images, byte after byte.
    reg [7:0] pixel_memory [0:`MAX_IMAGES * `IMAGE_BYTES - 1];
    initial $readmemh("images.hex", pixel_memory);
    reg [31:0] pixel = 0;
    reg pixel_held = 0;
    wire pixel_valid = !rst && pixel < images * `IMAGE_BYTES && (pixel_held || !pause[0]);
    wire pixel_ready;
    always @(posedge clk) begin
        pixel_held <= pixel_valid && !pixel_ready;
        if (rst) pixel <= 0;
        else if (pixel_valid && pixel_ready) pixel <= pixel + 1;
    end

`ifdef STREAM
    // Weights: the boot bytes once, the frame bytes over and over, in beats of BEAT_BYTES; a pause of a cycle follows BURST beats.
    localparam WEIGHT_BYTES = `BOOT_BYTES + `FRAME_BYTES;
    reg [7:0] weight_memory [0:WEIGHT_BYTES - 1];
    initial $readmemh("weights.hex", weight_memory);
    reg [31:0] weight = 0;
    reg [31:0] weight_run = 0;
    reg weight_gap = 0, weight_held = 0;
    wire weight_valid = !rst && !weight_gap && weight != WEIGHT_BYTES && (weight_held || !pause[1]);
    wire weight_ready;
    wire [8 * `BEAT_BYTES - 1:0] weight_beat;
    genvar lane;
    generate for (lane = 0; lane < `BEAT_BYTES; lane = lane + 1) begin : beat
        assign weight_beat[8 * lane +: 8] = weight_memory[weight + lane];
    end endgenerate
    always @(posedge clk) begin
        weight_held <= weight_valid && !weight_ready;
        weight_gap <= weight_valid && weight_ready && weight_run == `BURST - 1;
        if (rst) begin
            weight <= 0;
            weight_run <= 0;
        end else if (weight_valid && weight_ready) begin
            weight <= weight + `BEAT_BYTES == WEIGHT_BYTES && `FRAME_BYTES != 0 ? `BOOT_BYTES : weight + `BEAT_BYTES;
            weight_run <= weight_run == `BURST - 1 ? 0 : weight_run + 1;
        end
    end
`endif

    wire logit_valid, logit_last, result_valid, latent_valid, latent_last;
    wire signed [`SCORE_BITS - 1:0] logit;
    wire signed [31:0] score = logit;  // a port printed in part: Verilator 5.48 adds what stands above it, here logit_last
    wire [`CLASS_BITS - 1:0] result;
    wire [`LANES - 1:0] latent;
    wire [`STEP_BITS - 1:0] step;
    reg [`STEP_BITS - 1:0] last_step = 0;
    wire logit_ready = !pause[2];
    wire result_ready = !pause[3];
    wire latent_ready = !pause[2];

    wire [1:0] taken;
    assign answered = |(ask & taken);

    accelerator dut (
        .clk(clk), .rst(rst),
        .pixels__payload(pixel_memory[pixel]), .pixels__valid(pixel_valid), .pixels__ready(pixel_ready),
`ifdef STREAM
        .weights__payload(weight_beat), .weights__valid(weight_valid), .weights__ready(weight_ready),
`endif
`ifdef LEARN
        .command__valid(ask[0]), .command__payload(request), .command__ready(taken[0]),
        .host__valid(ask[1]), .host__payload(request), .host__ready(taken[1]), .found(found), .refused(refused),
`endif
        .logits__payload({logit_last, logit}), .logits__valid(logit_valid), .logits__ready(logit_ready),
        .result__payload(result), .result__valid(result_valid), .result__ready(result_ready),
        .latent__payload({latent_last, latent}), .latent__valid(latent_valid), .latent__ready(latent_ready),
`ifdef SLEEPS
        .standby(1'b0),
`endif
`ifdef KEEPS
        .pause(1'b0),
`endif
        .want_latent(want_latent), .step(step)
    );

    integer file;
    initial file = $fopen("results.txt", "w");
    always @(posedge clk) if (rst) begin
        last_step <= 0;
        frames <= 0;
        $fwrite(file, "reset\n");
    end else begin
        last_step <= step;
        // A step is counted when it begins: the ones before it are done.
        if (step != last_step && step != 0) begin
            $fwrite(file, "step %0d %0d\n", step - 1, cycle);
            `DUMP(step - 1)
        end
        if (logit_valid && logit_ready) $fwrite(file, "logit %0d\n", score);
        if (latent_valid && latent_ready) $fwrite(file, "latent %h\n", latent);
        if (result_valid && result_ready) begin
            $fwrite(file, "result %0d %0d\n", result, cycle);
            $fflush(file);
            `DUMP(step)
            frames <= frames + 1;
        end
    end
    assign done = frames == images;

    initial recorded = 0;
`ifdef WAVES
    // A waveform of some steps alone, from the cycle in which the first of them begins to the one in which the last has ended.
    integer waves_first, waves_last;
    string waves_file;
    reg wanted = 0, recording = 0;
    wire in_window = step >= waves_first && step <= waves_last && frames == 0;
    initial if ($value$plusargs("waves-first=%d", waves_first) && $value$plusargs("waves-last=%d", waves_last))
        if ($value$plusargs("waves-file=%s", waves_file)) wanted = 1;
    always @(posedge clk) if (wanted && !rst) begin
        if (!recording && in_window) begin
            $dumpfile(waves_file);
            $dumpvars(0, testbench);
            $fwrite(file, "waves %0d\n", cycle);
            recording <= 1;
        end
        if (recording && !in_window && !recorded) begin
            $fwrite(file, "waves %0d\n", cycle);
            $fflush(file);
            recorded <= 1;
        end
    end
`endif
endmodule
