// A serial NOR flash as the reader uses it: one-line commands, reads with 1, 2 or 4 data lines.  It starts asleep, as iCE40s leave it.
// Wrong timing, unknown commands and fights on the lines are counted in `errors` and written to the log.
// Only the bytes from BASE on are held, read from the file flash.hex; all others are FF.
`timescale 1ns / 1ps
`define FAULT(TEXT) begin \
    errors = errors + 1; \
    if (errors < 20) $display("flash: %s at %0t, %h after %0d clocks", TEXT, $realtime, head, count); \
end

module spi_flash #(
    parameter WIDTH = 4, parameter [7:0] READ = 8'h6B, parameter DUMMY = 8,
    parameter BASE = 0, parameter BYTES = 16,
    parameter START = 0,                // 0: asleep; 1: in continuous quad read; 2: just awake
    parameter QUAD_ENABLED = 0,         // set for good, as some chips are delivered
    parameter RESET_NS = 30000, parameter WAKE_NS = 3000, parameter DOWN_NS = 3000, parameter DESELECT_NS = 50
) (
    input wire select_n,
    input wire clk,
    input wire [3:0] from_board,        // what the board drives where `enable` is set
    input wire [3:0] enable,
    output wire [3:0] to_board,
    output reg [31:0] errors
);
    reg [7:0] memory [0:BYTES - 1];
    initial $readmemh("flash.hex", memory);

    reg asleep, continuous, quad, write_enabled, reset_enabled;
    real ready_at, deselected_at;
    reg [31:0] count;                   // clocks in this selection
    reg [31:0] head;
    reg [7:0] command;                  // its first 8 bits
    reg [23:0] address;
    reg [7:0] byte_;
    reg reading;
    reg [3:0] out;
    reg [3:0] driven;
    integer sub;
    initial begin
        errors = 0; asleep = START == 0; continuous = START == 1; quad = QUAD_ENABLED || START == 1; write_enabled = 0; reset_enabled = 0;
        ready_at = 0; deselected_at = -1000; count = 0; reading = 0; driven = 0; out = 4'hF; head = 0; command = 0; address = 0; sub = 0; byte_ = 8'hFF;
    end

    // A line that nobody drives is pulled up.
    wire [3:0] lines = (from_board & enable) | (out & driven) | ~(enable | driven);
    assign to_board = lines;

    function [7:0] at(input [23:0] place);
        at = place >= BASE && place - BASE < BYTES ? memory[place - BASE] : 8'hFF;
    endfunction

    always @(negedge select_n) begin
        if ($realtime - deselected_at < DESELECT_NS) `FAULT("selected too early")
        if (clk) `FAULT("selected while the clock is high")
        count = 0; head = 0; command = 0; reading = 0; driven = 0;
    end

    always @(posedge clk) if (!select_n) begin
        if (|(driven & enable)) `FAULT("both sides drive a line")
        count = count + 1;
        if (!reading) begin
            head = {head[30:0], lines[0]};
            if (count == 8) command = head[7:0];
            if (continuous && count == 7 && !head[0]) `FAULT("continuous read is not ended")
            if (!continuous && count == 8 && !asleep && $realtime < ready_at) `FAULT("busy")
            if (!continuous && count <= 32 && !enable[0]) `FAULT("nobody drives IO0")
            if (!continuous && !quad && WIDTH == 4 && count <= 32 && enable[3:2] != 3 ) `FAULT("hold or write protection floats")
            if (!continuous && !asleep && count == 32) begin
                address = head[23:0];
                if (command != READ) `FAULT("unknown read")
                else if (WIDTH == 4 && !quad) `FAULT("quad read without QE")
            end
        end
    end

    always @(negedge clk) if (!select_n && !asleep && !continuous) begin
        if (!reading && count == 32 + DUMMY) begin
            reading = 1;
            sub = 0;
        end
        if (reading) begin
            if (sub == 0) byte_ = at(address);
            driven = WIDTH == 4 ? 4'b1111 : WIDTH == 2 ? 4'b0011 : 4'b0010;
            case (WIDTH)
                4: out = byte_[7:4];
                2: out = {2'b11, byte_[7:6]};
                default: out = {2'b11, byte_[7], 1'b1};
            endcase
            byte_ = byte_ << WIDTH;
            sub = sub + 1;
            if (sub == 8 / WIDTH) begin
                sub = 0;
                address = address + 1;
            end
        end
    end

    always @(posedge select_n) begin
        deselected_at = $realtime;
        driven = 0;
        if (continuous) begin
            // Mode bits M5-4 come with the seventh clock; anything but 2 ends it.
            if (count >= 8) continuous = 0;
            else if (count != 0) `FAULT("continuous read goes on")
        end else if (asleep) begin
            if (count == 8 && head[7:0] == 8'hAB) begin
                if ($realtime < ready_at) `FAULT("woken before it is asleep")
                asleep = 0;
                ready_at = $realtime + WAKE_NS;
            end
        end else if (!reading && count != 0 && !(command == READ && count < 32 + DUMMY)) begin
            case (command)
                8'hFF: if (count != 8) `FAULT("wrong length")
                8'h66: if (count != 8) `FAULT("wrong length")
                8'h99: begin
                    if (count != 8) `FAULT("wrong length")
                    if (!reset_enabled) `FAULT("reset not enabled")
                    quad = QUAD_ENABLED;
                    ready_at = $realtime + RESET_NS;
                end
                8'hAB: begin
                    if (count != 8) `FAULT("wrong length")
                    ready_at = $realtime + WAKE_NS;
                end
                8'hB9: begin
                    if (count != 8) `FAULT("wrong length")
                    asleep = 1;
                    ready_at = $realtime + DOWN_NS;
                end
                8'h50: if (count != 8) `FAULT("wrong length")
                default:
                    if (count == 16 && command == 8'h31 && write_enabled) quad = quad | head[1];
                    else `FAULT("unknown command")
            endcase
            reset_enabled = command == 8'h66 && count == 8;
            write_enabled = command == 8'h50 && count == 8;
        end
        reading = 0;
    end
endmodule
