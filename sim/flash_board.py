"""Flash readers beside models of a flash, all in the module `board` of the virtual board; the bytes of each go into a file."""

from dataclasses import dataclass, field

from amaranth.back import verilog

from fbnn_hw.rtl.qspi_flash import READ_COMMANDS, FlashChip, FlashReader

CASE = """
module {name} (input wire clk, input wire rst, output wire active, output wire [31:0] errors);
    wire pulse, select_n, valid, first_done;
    wire [3:0] from_board, enable, to_board;
    wire [7:0] data;
    reg [3:0] late1, late2, late3;
    reg [31:0] lfsr = 32'h2545F491, count = 0, cycle = 0;
    wire taken = {stall} == 0 || (lfsr[20] ? lfsr[11:8] >= {stall} : lfsr[15:9] == 0);
    integer file;
    initial file = $fopen("{name}.txt", "w");
    wire cut = {cut} != 0 && cycle >= {cut} && cycle < {cut} + 3;
    always @(posedge clk) begin
        lfsr <= {{lfsr[30:0], lfsr[31] ^ lfsr[21] ^ lfsr[1] ^ lfsr[0]}};
        {{late3, late2, late1}} <= {{late2, late1, to_board}};
        cycle <= cycle + 1;
        if (!rst && !cut && valid && taken && active) begin
            $fwrite(file, "%02x %0d %0d\\n", data, cycle, first_done);
            $fflush(file);
            count <= count + 1;
        end
    end
    assign active = count < {taken};
    {name}_reader reader (
        .clk(clk), .rst(rst | cut), .data__payload(data), .data__valid(valid), .data__ready(taken), .pulse(pulse), .select_n(select_n),
        .lines_out(from_board), .lines_enable(enable), .lines_in({lines}), .first_done(first_done));
    spi_flash #(.WIDTH({chip.width}), .READ({read}), .DUMMY({chip.dummy}), .BASE({offset}), .BYTES({size}), .START({start}),
                .QUAD_ENABLED({quad_enabled})) flash (
        .select_n(select_n), .clk(pulse & ~clk), .from_board(from_board), .enable(enable), .to_board(to_board), .errors(errors));
endmodule
"""
TOP = """
`timescale 1ns / 1ps
module board (
    input wire clk, input wire rst, input wire rx, output wire tx, output wire ready, output wire active, output wire [31:0] errors
);
    wire [{last}:0] going;
    wire [31:0] wrong [0:{last}];
    assign tx = 1, ready = 1, active = |going, errors = 0;
{cases}
    // The faults of each model, when all is done.
    reg was_active = 0;
    integer file, i;
    always @(posedge clk) begin
        was_active <= active;
        if (was_active && !active) begin
            file = $fopen("errors.txt", "w");
            for (i = 0; i <= {last}; i = i + 1) $fwrite(file, "%0d\\n", wrong[i]);
            $fclose(file);
        end
    end
endmodule
"""


@dataclass(frozen=True)
class Case:
    """stall: 0 takes every byte, up to 15 rarely any; start, quad_enabled: as spi_flash has them; cut: cycle in which the reader is
    reset, or 0; taken: bytes."""

    first: int
    again: int
    chip: FlashChip = field(default_factory=FlashChip)
    offset: int = 4096
    latency: int = 0
    stall: int = 0
    start: int = 0
    quad_enabled: int = 0
    cut: int = 0
    taken: int = 400
    size: int = 64
    clock_hz: float = 48e6


def text(cases):
    """Verilog of {name: Case}."""
    parts = []
    for name, case in cases.items():
        reader = FlashReader(case.chip, case.clock_hz, case.offset, case.first, case.again, case.latency)
        parts.append(verilog.convert(reader, name=f"{name}_reader", strip_internal_attrs=True))
        parts.append(CASE.format(**vars(case), name=name, read=READ_COMMANDS[case.chip.width],
                                 lines=f"late{case.latency}" if case.latency else "to_board"))
    instances = "".join(
        f"    {name} {name}_ (.clk(clk), .rst(rst), .active(going[{n}]), .errors(wrong[{n}]));\n" for n, name in enumerate(cases))
    return "\n".join(parts) + TOP.format(last=len(cases) - 1, cases=instances)
