"""Readers of a flash or an SDRAM beside models of it, in the module `board` of the virtual board; the words of each go into a file."""

import subprocess

from amaranth import Module, ResetInserter
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from fbnn_hw.rtl.verilog import convert
from fbnn_hw.simulate import virtual

TOP = """
`timescale 1ns / 1ps
module board (
    input wire clk, input wire quick, input wire rst, input wire rx, output wire tx, output wire ready, output wire active,
    output wire [31:0] errors
);
    wire [{last}:0] going;
    wire [31:0] wrong [0:{last}];
    assign tx = 1, ready = 1, active = |going, errors = 0;
{wires}
{readers}
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


def text(readers, pins, modules, alone=()):
    """Verilog of the board.

    readers: {name: reader}.  pins: {name: {member of the reader: (wire, bits)}}.  modules: Verilog of a module for each name, which has
    these wires.  alone: names of modules without a reader.
    """
    wires, ports, instances = [], [], []
    for number, name in enumerate(readers):
        wires += [f"    wire {name}_cut;"] + [f"    wire [{width - 1}:0] {name}_{wire};" for wire, width in pins[name].values()]
        ports += [f".{name}_cut({name}_cut)"] + [f".{name}__{port}({name}_{wire})" for port, (wire, _) in pins[name].items()]
        instances.append(f"    {name} {name}_ (.clk(clk), .rst(rst), .active(going[{number}]), .errors(wrong[{number}]), .cut({name}_cut), "
                         + ", ".join(f".{wire}({name}_{wire})" for wire, _ in pins[name].values()) + ");")
    for number, name in enumerate(alone, start=len(readers)):
        instances.append(f"    {name} {name}_ (.clk(clk), .active(going[{number}]), .errors(wrong[{number}]));")
    joined = f"    readers readers (.clk(clk), .rst(rst){''.join(', ' + port for port in ports)});" if readers else ""
    own = [convert(Readers(readers), "readers")] if readers else []
    return "\n".join([*own, *modules]) + TOP.format(
        last=len(instances) - 1, wires="\n".join(wires), readers=joined, cases="\n".join(instances))


def run(folder, verilog, model, contents, cycles, period=20834):
    """([faults of each case], the log) of a board.

    model: name of the model's file.  contents: {name: [word of NAME.hex, hexadecimal]}.  period: of the clock, ps.
    """
    (folder / "board.v").write_text(verilog)
    program = virtual.verilate([folder / "board.v", virtual.BOARD / model], folder / "build")
    for name, words in contents.items():
        (folder / f"{name}.hex").write_text("".join(f"{word}\n" for word in words))
    (folder / "script").write_bytes(b"")
    done = subprocess.run([program, "4", str(period), "script", str(cycles)], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return list(map(int, (folder / "errors.txt").read_text().split())), done.stdout


def taken(folder, name):
    """([word], [its cycle], [first_done]) of what a case took."""
    lines = [line.split() for line in (folder / f"{name}.txt").read_text().splitlines()]
    return [int(line[0], 16) for line in lines], *([int(line[i]) for line in lines] for i in (1, 2))


def after_reset(case, cycles, words, first_done, expected):
    """(words, first_done) since the reset of a case.  Asserts that those before it are the expected ones."""
    before = next((n for n, cycle in enumerate(cycles) if cycle >= case.cut), 0) if case.cut else 0
    assert words[:before] == expected[:before]
    return words[before:], first_done[before:]
