"""Flash readers beside models of a flash (`readers`): the cases and their Verilog."""

from dataclasses import dataclass, field

from fbnn_hw.rtl.qspi_flash import READ_COMMANDS, FlashChip, FlashReader
from sim import readers

CASE = """
module {name} (
    input wire clk, input wire rst, output wire active, output wire [31:0] errors,
    output wire cut, output wire taken, output wire [{lines_last}:0] lines, input wire valid,
    input wire [{data_last}:0] data, input wire [{double}:0] pulse, input wire select_n,
    input wire [3:0] from_board, input wire [3:0] enable, input wire first_done, output wire sleep, input wire asleep
);
    wire [3:0] to_board;
    wire [{lines_last}:0] now;
    reg [{lines_last}:0] late1, late2, late3;
    reg [31:0] lfsr = 32'h2545F491, count = 0, cycle = 0;
    assign taken = {stall} == 0 || (lfsr[20] ? lfsr[11:8] >= {stall} : lfsr[15:9] == 0);
    integer file;
    initial file = $fopen("{name}.txt", "w");
    assign cut = {cut} != 0 && cycle >= {cut} && cycle < {cut} + 3;
    always @(posedge clk) begin
        lfsr <= {{lfsr[30:0], lfsr[31] ^ lfsr[21] ^ lfsr[1] ^ lfsr[0]}};
        {{late3, late2, late1}} <= {{late2, late1, now}};
        cycle <= cycle + 1;
        if (!rst && !cut && valid && taken && active) begin
            $fwrite(file, "%0x %0d %0d\\n", data, cycle, first_done);
            $fflush(file);
            count <= count + 1;
        end
    end
    assign active = count < {taken};
    assign sleep = {sleep} != 0 && cycle / {sleep} % 2 != 0;
    always @(posedge asleep) $display("{name} sleeps");
    assign lines = {lines};
    reg [3:0] first, second;
    always @(posedge board.quick) if (clk) first <= to_board; else second <= to_board;
    assign now = {double} ? {{second, first}} : second;
    spi_flash #(.WIDTH({chip.width}), .READ({read}), .DUMMY({chip.dummy}), .BASE({offset}), .BYTES({size}), .START({start}),
                .QUAD_ENABLED({quad_enabled})) flash (
        .select_n(select_n), .clk({clock}), .from_board(from_board), .enable(enable), .to_board(to_board), .errors(errors));
endmodule
"""


SCRIPT = """
module {name} (input wire clk, output wire active, output wire [31:0] errors);
    reg [9:0] words [0:{last}];
    initial $readmemh("{name}.hex", words);
    reg [31:0] at = 0;
    reg [9:0] pins = 10'h200;
    assign active = at <= {last};
    always @(posedge clk) if (active) begin
        pins <= words[at];
        at <= at + 1;
    end
    wire [3:0] to_board;
    spi_flash #(.BASE(4096), .BYTES(64), .START(2), .QUAD_ENABLED(1)) flash (
        .select_n(pins[9]), .clk(pins[8]), .from_board(pins[7:4]), .enable(pins[3:0]), .to_board(to_board), .errors(errors));
endmodule
"""
"""The model alone; a word is what select, clock, lines and their enables are in a cycle."""


@dataclass(frozen=True)
class Case:
    """stall: 0 takes every byte, up to 15 rarely any; start, quad_enabled: as spi_flash has them; cut: cycle in which the reader is
    reset, or 0; double: 1 at twice the clock; sleep: cycles after which it is asked to sleep, and again to read, over and over, or 0;
    yields: 1 where it is asked to let the flash go instead; taken: payloads."""

    first: int
    again: int
    chip: FlashChip = field(default_factory=FlashChip)
    offset: int = 4096
    latency: int = 0
    stall: int = 0
    start: int = 0
    quad_enabled: int = 0
    cut: int = 0
    double: int = 0
    sleep: int = 0
    yields: int = 0
    taken: int = 400
    size: int = 64
    clock_hz: float = 48e6


PINS = {"data__payload": ("data", 8), "data__valid": ("valid", 1), "data__ready": ("taken", 1), "pulse": ("pulse", 1),
        "select_n": ("select_n", 1), "lines_out": ("from_board", 4), "lines_enable": ("enable", 4), "lines_in": ("lines", 4),
        "first_done": ("first_done", 1)}


SLEEP_PINS = {"sleep": ("sleep", 1), "asleep": ("asleep", 1)}
YIELD_PINS = {"hold": ("sleep", 1), "held": ("asleep", 1)}


def pins(case):
    """{member of the reader: (wire, bits)}."""
    wide = {"data__payload": ("data", 16), "pulse": ("pulse", 2), "lines_in": ("lines", 8)} if case.double else {}
    return PINS | wide | (YIELD_PINS if case.yields else SLEEP_PINS if case.sleep else {})


def text(cases, scripts=None):
    """Verilog of {name: Case}, and of {name: number of words} for models alone."""
    scripts = scripts or {}
    by_name = {name: FlashReader(c.chip, c.clock_hz, c.offset, c.first, c.again, c.latency, c.sleep > 0 and not c.yields,
                                 c.double > 0, c.yields > 0)
               for name, c in cases.items()}
    modules = [CASE.format(**vars(case), name=name, read=READ_COMMANDS[case.chip.width], lines_last=7 if case.double else 3,
                           data_last=15 if case.double else 7, lines=f"late{case.latency}" if case.latency else "now",
                           clock="board.quick & (clk ? pulse[0] : pulse[1])" if case.double else "pulse & ~clk")
               for name, case in cases.items()]
    modules += [SCRIPT.format(name=name, last=count - 1) for name, count in scripts.items()]
    return readers.text(by_name, {name: pins(case) for name, case in cases.items()}, modules, scripts)
