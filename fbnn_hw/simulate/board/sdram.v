// An SDRAM as its reader uses it: single reads and writes, rows closed by PRECHARGE, refreshes in time.  Times are in nanoseconds.
// Wrong timing, an initialisation out of order, late refreshes and fights on the lines are counted in `errors` and written to the log.
// Only the first BEATS places are held, counted along the columns, then the banks, then the rows.
`timescale 1ns / 1ps
`define SDRAM_FAULT(TEXT) begin \
    errors = errors + 1; \
    if (errors < 20) $display("sdram: %s at %0t, command %b bank %0d address %h", TEXT, $realtime, command, bank, address); \
end
`define SDRAM_SINCE(MOMENT, LEAST) ($realtime - (MOMENT) < (LEAST) - 0.01)

module sdram #(
    parameter LINES = 16, COLUMN_BITS = 9, ADDRESS_BITS = 13, BEATS = 1024, CAS = 3, REFRESHES = 8, MODE_CLOCKS = 2,
    parameter real RCD = 21, RP = 21, RAS = 45, RC = 67.5, RFC = 70, WR = 15, RRD = 15, REFRESH = 7812.5, POWER = 200000
) (
    input wire clk,
    input wire [2:0] command,           // RAS#, CAS#, WE#; CS# is low, CKE high
    input wire [1:0] bank,
    input wire [ADDRESS_BITS - 1:0] address,
    input wire mask,
    input wire [LINES - 1:0] from_board,
    input wire enable,                  // the board drives the lines
    output wire [LINES - 1:0] to_board,
    output reg [31:0] errors
);
    localparam NOP = 3'b111, ACTIVE = 3'b011, READ = 3'b101, WRITE = 3'b100, PRECHARGE = 3'b010, REFRESH_ = 3'b001, MODE = 3'b000;
    localparam [31:0] GARBAGE = 32'hDEADBEEF;

    reg [LINES - 1:0] memory [0:BEATS - 1];
    reg [3:0] open;                     // banks with an open row
    reg [ADDRESS_BITS - 1:0] row [0:3];
    real activated [0:3], closed [0:3], written [0:3];
    real any_activated, refreshed, started, moded, period, edge_before;
    integer refreshes;                  // since the rows were closed for the first time
    reg closed_all, ready, stale, running;
    reg [LINES - 1:0] coming [0:3], out;
    reg [3:0] comes;
    reg driven;
    reg [31:0] place;
    integer i;
    initial begin
        errors = 0; open = 0; closed_all = 0; ready = 0; stale = 0; running = 0; refreshes = 0; comes = 0; driven = 0;
        any_activated = -1e6; refreshed = -1e6; moded = -1e6; started = 0; period = 0; edge_before = 0;
        out = GARBAGE[LINES - 1:0];
        for (i = 0; i < 4; i = i + 1) begin
            activated[i] = -1e6; closed[i] = -1e6; written[i] = -1e6; row[i] = 0; coming[i] = 0;
        end
    end
    assign to_board = enable ? from_board : out;

    // What holds for each command that works on all banks.
    task at_rest;
        begin
            if (open != 0) `SDRAM_FAULT("a row is open")
            for (i = 0; i < 4; i = i + 1) if `SDRAM_SINCE(closed[i], RP) `SDRAM_FAULT("tRP")
            if `SDRAM_SINCE(refreshed, RFC) `SDRAM_FAULT("tRFC")
            if `SDRAM_SINCE(moded, MODE_CLOCKS * period) `SDRAM_FAULT("tMRD")
        end
    endtask

    always @(posedge clk) begin
        if (!running) started = $realtime;
        else period = $realtime - edge_before;
        edge_before = $realtime;
        running = 1;
        if (command != NOP && $realtime - started < POWER - 0.01) `SDRAM_FAULT("power-up")
        if (driven && enable) `SDRAM_FAULT("both sides drive the lines")
        place = {row[bank], bank, address[COLUMN_BITS - 1:0]};
        comes = comes >> 1;
        for (i = 0; i < 3; i = i + 1) coming[i] = coming[i + 1];
        case (command)
            NOP: ;
            ACTIVE: begin
                if (!ready) `SDRAM_FAULT("not initialised")
                if (open[bank]) `SDRAM_FAULT("the bank's row is open")
                if `SDRAM_SINCE(closed[bank], RP) `SDRAM_FAULT("tRP")
                if `SDRAM_SINCE(activated[bank], RC) `SDRAM_FAULT("tRC")
                if `SDRAM_SINCE(any_activated, RRD) `SDRAM_FAULT("tRRD")
                if `SDRAM_SINCE(refreshed, RFC) `SDRAM_FAULT("tRFC")
                if `SDRAM_SINCE(moded, MODE_CLOCKS * period) `SDRAM_FAULT("tMRD")
                open[bank] = 1; row[bank] = address; activated[bank] = $realtime; any_activated = $realtime;
            end
            READ, WRITE: begin
                if (!open[bank]) `SDRAM_FAULT("no row is open")
                if `SDRAM_SINCE(activated[bank], RCD) `SDRAM_FAULT("tRCD")
                if (address[10]) `SDRAM_FAULT("precharge of its own")
                if (mask) `SDRAM_FAULT("masked")
                if (stale || $realtime - refreshed > REFRESH + 0.01) `SDRAM_FAULT("refresh is late")
                if (place >= BEATS) `SDRAM_FAULT("outside of the image")
                if (command == WRITE) begin
                    if (!enable) `SDRAM_FAULT("nobody drives the lines")
                    if (place < BEATS) memory[place] = from_board;
                    written[bank] = $realtime;
                end else begin
                    comes[CAS - 1] = 1;
                    coming[CAS - 1] = place < BEATS ? memory[place] : 0;
                end
            end
            PRECHARGE: begin
                for (i = 0; i < 4; i = i + 1) if (address[10] || bank == i) begin
                    if (open[i] && `SDRAM_SINCE(activated[i], RAS)) `SDRAM_FAULT("tRAS")
                    if (open[i] && `SDRAM_SINCE(written[i], WR)) `SDRAM_FAULT("tWR")
                    if `SDRAM_SINCE(refreshed, RFC) `SDRAM_FAULT("tRFC")
                    open[i] = 0; closed[i] = $realtime;
                end
                if (address[10]) closed_all = 1;
            end
            REFRESH_: begin
                at_rest;
                if (!closed_all) `SDRAM_FAULT("refresh before the rows are closed")
                // Contents are lost, until the mode is set anew.
                if (ready && $realtime - refreshed > REFRESH + 0.01) stale = 1;
                refreshed = $realtime;
                refreshes = refreshes + 1;
            end
            MODE: begin
                at_rest;
                if (refreshes < REFRESHES) `SDRAM_FAULT("too few refreshes")
                if (bank != 0 || address != CAS << 4) `SDRAM_FAULT("another mode than single beats")
                ready = 1; stale = 0; refreshes = 0; moded = $realtime;
            end
            default: `SDRAM_FAULT("unknown command")
        endcase
        driven <= comes[0];
        out <= comes[0] ? coming[0] : GARBAGE[LINES - 1:0];
    end
endmodule
