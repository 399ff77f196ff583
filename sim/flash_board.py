"""Flash readers beside models of a flash, all in the module `board` of the virtual board; the bytes of each go into a file."""

from dataclasses import dataclass, field

from amaranth import Module, ResetInserter
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from fbnn_hw.rtl.qspi_flash import READ_COMMANDS, FlashChip, FlashReader
from fbnn_hw.rtl.verilog import convert

CASE = """
module {name} (
    input wire clk, input wire rst, output wire active, output wire [31:0] errors,
    output wire cut, output wire taken, output wire [3:0] lines, input wire valid,
    input wire [7:0] data, input wire pulse, input wire select_n, input wire [3:0] from_board, input wire [3:0] enable,
    input wire first_done, output wire sleep, input wire asleep
);
    wire [3:0] to_board;
    reg [3:0] late1, late2, late3;
    reg [31:0] lfsr = 32'h2545F491, count = 0, cycle = 0;
    assign taken = {stall} == 0 || (lfsr[20] ? lfsr[11:8] >= {stall} : lfsr[15:9] == 0);
    integer file;
    initial file = $fopen("{name}.txt", "w");
    assign cut = {cut} != 0 && cycle >= {cut} && cycle < {cut} + 3;
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
    assign sleep = {sleep} != 0 && cycle / {sleep} % 2 != 0;
    always @(posedge asleep) $display("{name} sleeps");
    assign lines = {lines};
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
{wires}
    readers readers (.clk(clk), .rst(rst){ports});
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
    reset, or 0; sleep: cycles after which it is asked to sleep, and again to read, over and over, or 0; taken: bytes."""

    first: int
    again: int
    chip: FlashChip = field(default_factory=FlashChip)
    offset: int = 4096
    latency: int = 0
    stall: int = 0
    start: int = 0
    quad_enabled: int = 0
    cut: int = 0
    sleep: int = 0
    taken: int = 400
    size: int = 64
    clock_hz: float = 48e6


PINS = {"data__payload": ("data", 8), "data__valid": ("valid", 1), "data__ready": ("taken", 1), "pulse": ("pulse", 1),
        "select_n": ("select_n", 1), "lines_out": ("from_board", 4), "lines_enable": ("enable", 4), "lines_in": ("lines", 4),
        "first_done": ("first_done", 1)}


SLEEP_PINS = {"sleep": ("sleep", 1), "asleep": ("asleep", 1)}


def pins(case):
    """{member of the reader: (wire, bits)}."""
    return PINS | (SLEEP_PINS if case.sleep else {})


class Readers(wiring.Component):
    """All readers in one module; member `name`, and `name`_cut, its reset."""

    def __init__(self, readers):
        self.readers = readers
        super().__init__({name: Out(reader.signature) for name, reader in readers.items()} | {f"{name}_cut": In(1) for name in readers})

    def elaborate(self, platform):
        m = Module()
        for name, reader in self.readers.items():
            m.submodules[name] = ResetInserter(getattr(self, f"{name}_cut"))(reader)
            wiring.connect(m, reader, wiring.flipped(getattr(self, name)))
        return m


def text(cases):
    """Verilog of {name: Case}."""
    readers = {name: FlashReader(c.chip, c.clock_hz, c.offset, c.first, c.again, c.latency, c.sleep > 0) for name, c in cases.items()}
    parts = [convert(Readers(readers), "readers")]
    wires, ports, instances = [], [], []
    for number, (name, case) in enumerate(cases.items()):
        parts.append(CASE.format(**vars(case), name=name, read=READ_COMMANDS[case.chip.width],
                                 lines=f"late{case.latency}" if case.latency else "to_board"))
        wires += [f"    wire {name}_cut;"] + [f"    wire [{width - 1}:0] {name}_{wire};" for wire, width in pins(case).values()]
        ports += [f".{name}_cut({name}_cut)"] + [f".{name}__{port}({name}_{wire})" for port, (wire, _) in pins(case).items()]
        instances.append(f"    {name} {name}_ (.clk(clk), .rst(rst), .active(going[{number}]), .errors(wrong[{number}]), .cut({name}_cut), "
                         + ", ".join(f".{wire}({name}_{wire})" for wire, _ in pins(case).values()) + ");")
    return "\n".join(parts) + TOP.format(last=len(cases) - 1, wires="\n".join(wires), ports="".join(", " + port for port in ports),
                                         cases="\n".join(instances))
