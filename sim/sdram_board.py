"""SDRAM readers beside models of an SDRAM, and models alone under lists of commands (`readers`): the cases and their Verilog."""

from dataclasses import dataclass, field, replace

from fbnn_hw.rtl.sdram import CHIPS, SdramChip, SdramReader
from fbnn_hw.simulate import virtual
from sim import readers

BOARD_NS = 2 * (20_834 // 2) / 1000
"""Period of the simulated clock; the times of a chip are stretched by it over that of the case's own clock."""

CHIP = replace(CHIPS["256Mbit-16"], wr=30e-9)
"""Of the models alone: of each time a command could come too early."""

CASE = """
module {name} (
    input wire clk, input wire rst, output wire active, output wire [31:0] errors, output wire cut,
    output wire fill_valid, output wire [7:0] fill, input wire fill_ready, output wire taken, input wire valid,
    input wire [{high}:0] data, input wire first_done, input wire dry, input wire [2:0] command, input wire [1:0] bank,
    input wire [{address_bits} - 1:0] address, input wire mask, input wire [{high}:0] from_board, input wire enable,
    output wire [{high}:0] lines
);
    wire [{high}:0] to_board;
    reg [{high}:0] captured, late1, late2;
    reg [31:0] lfsr = 32'h2545F491, count = 0, cycle = 0, at = 0, dries = 0, clock = 0;
    reg [7:0] bytes [0:{size} - 1];
    initial $readmemh("{name}.hex", bytes);
    assign taken = {stall} == 0 || (lfsr[20] ? lfsr[11:8] >= {stall} : lfsr[15:9] == 0);
    assign fill = bytes[at];
    assign fill_valid = at < {size} && (lfsr[3] || {slow} == 0);
    assign cut = {cut} != 0 && cycle >= {cut} && cycle < {cut} + 3;
    assign lines = {lines};
    integer file;
    initial file = $fopen("{name}.txt", "w");
    always @(negedge clk) captured <= to_board;  // the next edge of the chip's clock
    always @(posedge clk) begin
        lfsr <= {{lfsr[30:0], lfsr[31] ^ lfsr[21] ^ lfsr[1] ^ lfsr[0]}};
        {{late2, late1}} <= {{late1, captured}};
        cycle <= cycle + 1;
        at <= rst || cut ? 0 : at + (fill_valid && fill_ready);
        if (!rst && !cut && dry) dries <= dries + 1;
        if (!rst && !cut && valid && taken && active) begin
            $fwrite(file, "%0x %0d %0d\\n", data, cycle, first_done);
            $fflush(file);
            count <= count + 1;
        end
    end
    assign active = count < {taken} && cycle < {limit};
    wire [31:0] faults;
    assign errors = faults + dries;
    sdram #({parameters}) chip (
        .clk(~clk), .command(command), .bank(bank), .address(address), .mask(mask), .from_board(from_board), .enable(enable),
        .to_board(to_board), .errors(faults));
endmodule
"""
SCRIPT = """
module {name} (input wire clk, output reg active, output wire [31:0] errors);
    reg [47:0] words [0:{last}];
    initial $readmemh("{name}.hex", words);
    reg [31:0] at = 0, left = 0;
    reg [2:0] command = 7;
    reg [1:0] bank = 0;
    reg [12:0] address = 0;
    reg mask = 0, enable = 0;
    initial active = 1;
    always @(posedge clk) begin
        command <= 7;
        enable <= 0;
        if (left != 0) left <= left - 1;
        else if (at > {last}) active <= 0;
        else begin  // the first field is the cycles until the next command
            {{left, mask, enable, bank}} <= {{12'b0, words[at][47:28], words[at][17], words[at][16], words[at][15:14]}};
            {{command, address}} <= {{words[at][20:18], words[at][12:0]}};
            at <= at + 1;
        end
    end
    sdram #({parameters}) chip (
        .clk(~clk), .command(command), .bank(bank), .address(address), .mask(mask), .from_board(16'd0), .enable(enable), .to_board(),
        .errors(errors));
endmodule
"""


@dataclass(frozen=True)
class Case:
    """first, again: bytes.  stall: 0 takes every beat, up to 15 rarely any; slow: bytes to write come with pauses; cut: cycle in which
    the reader is reset, or 0; taken: beats."""

    first: int
    again: int
    chip: SdramChip = field(default_factory=lambda: CHIPS["256Mbit-16"])
    clock_hz: float = 48e6
    latency: int = 0
    stall: int = 0
    slow: int = 0
    cut: int = 0
    taken: int = 3000
    limit: int = 60_000

    @property
    def reader(self):
        return SdramReader(self.chip, self.clock_hz, self.first, self.again, self.latency)


def pins(case, reader):
    """{member of the reader: (wire, bits)}."""
    lines = case.chip.lines
    return {"fill__payload": ("fill", 8), "fill__valid": ("fill_valid", 1), "fill__ready": ("fill_ready", 1),
            "beats__payload": ("data", lines), "beats__valid": ("valid", 1), "beats__ready": ("taken", 1), "first_done": ("first_done", 1),
            "dry": ("dry", 1), "command": ("command", 3), "bank": ("bank", 2), "address": ("address", len(reader.address)),
            "mask": ("mask", 1), "lines_out": ("from_board", lines), "lines_enable": ("enable", 1), "lines_in": ("lines", lines)}


def parameters(chip, clock_hz, cas, beats, rrd=14e-9):
    """Verilog of the model's parameters.  rrd: from ACTIVE to that of another bank."""
    stretch = BOARD_NS * clock_hz
    values = virtual.sdram_parameters(chip, beats, cas, stretch) | {"RRD": f"{rrd * stretch:.9f}"}
    return ", ".join(f".{name}({value})" for name, value in values.items())


def text(cases, scripts=None):
    """Verilog of {name: Case}, and of {name: number of commands} for models alone at 48 MHz."""
    scripts, modules = scripts or {}, []
    by_name = {name: case.reader for name, case in cases.items()}
    for name, case in cases.items():
        reader = by_name[name]
        beats = (reader.first_rows + reader.again_rows) * case.chip.columns
        modules.append(CASE.format(
            **vars(case) | {"lines": f"late{case.latency}" if case.latency else "captured"}, name=name, high=case.chip.lines - 1,
            address_bits=len(reader.address), size=case.first + case.again,
            parameters=parameters(case.chip, case.clock_hz, reader.timing.cas, beats)))
    modules += [SCRIPT.format(name=name, last=count - 1, parameters=parameters(CHIP, 1e9 / BOARD_NS, 2, 4096, 30e-9))
                for name, count in scripts.items()]
    return readers.text(by_name, {name: pins(case, by_name[name]) for name, case in cases.items()}, modules, scripts)
