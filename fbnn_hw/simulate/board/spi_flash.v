// A serial NOR flash as the reader uses it: one-line commands, reads with 1, 2 or 4 data lines.  It starts asleep, as iCE40s leave it.
// Wrong timing, unknown commands and fights on the lines are counted in `errors` and written to the log.  The numbers of the parameters
// that end in _NS are meant to be those of a W25Q128JV, 3.0 to 3.6 V.  Data changes with the falling clock, without a delay: what it takes to
// leave the chip (tCLQX to tCLQV) is part of the way to the board.
// Only the bytes from BASE on are held, read from the file flash.hex; all others are FF.
`timescale 1ns / 1ps
`define FAULT(TEXT) begin \
    errors = errors + 1; \
    if (errors < 20) $display("flash: %s at %0t, %h after %0d clocks", TEXT, $realtime, head, count); \
end

module spi_flash #(
    parameter WIDTH = 4, parameter [7:0] READ = 8'h6B, parameter DUMMY = 8,
    parameter BASE = 0, parameter BYTES = 16,
    parameter START = 0,                // 0: asleep; 1: in continuous quad read; 2: just awake; 3: in QPI, which takes commands on four lines
    parameter QUAD_ENABLED = 0,         // set for good, as some chips are delivered
    parameter RESET_NS = 30000, parameter WAKE_NS = 3000, parameter DOWN_NS = 3000, parameter DESELECT_NS = 50,
    parameter real PERIOD_NS = 7.5, parameter real HALF_NS = 3.375,         // of the clock; high or low
    parameter real SETUP_NS = 2, parameter real HELD_NS = 3,                // of an input, around a rising clock (tDVCH, tCHDX)
    parameter real SELECT_NS = 5, parameter real SELECTED_NS = 3,           // from select to a rising clock, and back (tSLCH, tCHSH)
    parameter real FLOAT_NS = 7                                             // from the end of select until no line is driven (tSHQZ)
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

    reg asleep, continuous, qpi, quad, write_enabled, reset_enabled;
    reg ends_qpi;                       // all lines were high at each clock of this selection
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
    real rose, fell, changed, selected_at, floats_at;
    reg [3:0] last_driven;
    initial begin
        rose = -1000; fell = -1000; changed = -1000; selected_at = -1000; floats_at = 0; last_driven = 0;
        errors = 0; asleep = START == 0; continuous = START == 1; qpi = START == 3; ends_qpi = 1;
        quad = QUAD_ENABLED || START == 1 || START == 3; write_enabled = 0; reset_enabled = 0;
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
        selected_at = $realtime;
        count = 0; head = 0; command = 0; reading = 0; driven <= 0; ends_qpi = 1;
    end

    // Inputs keep still around a rising clock; no line is driven by both sides.
    wire heading = !select_n && !reading;
    always @(from_board or enable) begin
        changed = $realtime;
        if (heading && $realtime - rose < HELD_NS) `FAULT("a line changes too early after the clock")
    end
    always @(driven or enable) begin
        if (|(driven & enable)) `FAULT("both sides drive a line")
        if (|(last_driven & enable) && $realtime < floats_at) `FAULT("a line is driven before the flash lets go")
    end

    always @(posedge clk) if (!select_n) begin
        if ($realtime - rose < PERIOD_NS) `FAULT("the clock is too fast")
        if ($realtime - fell < HALF_NS) `FAULT("the clock is low too briefly")
        if ($realtime - selected_at < SELECT_NS) `FAULT("clocked too early after select")
        if (heading && $realtime - changed < SETUP_NS) `FAULT("a line changes too late before the clock")
        rose = $realtime;
        count = count + 1;
        if (!reading) begin
            head = {head[30:0], lines[0]};
            if (count == 8) command = head[7:0];
            ends_qpi = ends_qpi && lines == 4'hF;
            if (continuous && count == 7 && !head[0]) `FAULT("continuous read is not ended")
            if (!continuous && count == 8 && !asleep && $realtime < ready_at) `FAULT("busy")
            if (!continuous && count <= 32 && !enable[0]) `FAULT("nobody drives IO0")
            if (!continuous && !quad && WIDTH == 4 && count <= 32 && enable[3:2] != 3 ) `FAULT("hold or write protection floats")
            if (!continuous && !qpi && !asleep && count == 32) begin
                address = head[23:0];
                if (command != READ) `FAULT("unknown read")
                else if (WIDTH == 4 && !quad) `FAULT("quad read without QE")
            end
        end
    end

    always @(negedge clk) if (!select_n) begin
        if ($realtime - rose < HALF_NS) `FAULT("the clock is high too briefly")
        fell = $realtime;
    end

    always @(negedge clk) if (!select_n && !asleep && !continuous && !qpi) begin
        if (!reading && count == 32 + DUMMY) begin
            reading = 1;
            sub = 0;
        end
        if (reading) begin
            if (sub == 0) byte_ = at(address);
            driven <= WIDTH == 4 ? 4'b1111 : WIDTH == 2 ? 4'b0011 : 4'b0010;
            case (WIDTH)
                4: out <= byte_[7:4];
                2: out <= {2'b11, byte_[7:6]};
                default: out <= {2'b11, byte_[7], 1'b1};
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
        if ($realtime - rose < SELECTED_NS && count != 0) `FAULT("select ends too early after the clock")
        if (|driven) floats_at = $realtime + FLOAT_NS;
        last_driven = driven;
        driven <= 0;
        if (continuous) begin
            // Mode bits M5-4 come with the seventh clock; anything but 2 ends it.
            if (count >= 8) continuous = 0;
            else if (count != 0) `FAULT("continuous read goes on")
        end else if (qpi) begin
            // FF on four lines, two clocks, ends it, and so do more of them.
            if (count >= 2 && ends_qpi) qpi = 0;
            else if (count != 0) `FAULT("QPI is not ended")
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
