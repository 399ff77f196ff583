"""The block RAMs that a build makes of an ECP5's memories, against memories.v."""

from pathlib import Path

import numpy as np

from fbnn_hw.rtl import verilog
from fbnn_hw.simulate import netlist, simulator
from fbnn_hw.targets import blocks

WEIGHTS = ((40, 1500, [(1024, 18), (1024, 18)]), (7, 5000, [(4096, 4), (1024, 18)]), (33, 300, [(2048, 9)]),
           (3, 9000, [(8192, 2), (1024, 18)]), (18, 1025, [(1024, 18), (1024, 18)]), (2, 13000, [(8192, 2), (4096, 4), (1024, 18)]))
"""Width, words and rows of block RAMs."""
BANKS = ((32, 1536, 16, [(1024, 18), (1024, 18)]), (32, 1536, 8, [(2048, 9)]), (16, 5000, 4, [(4096, 4), (4096, 4)]),
         (64, 200, 32, [(1024, 18)]), (8, 3000, 8, [(2048, 9), (2048, 9)]))
"""Width, words, granularity and rows."""
RINGS = ((40, 512), (72, 64))
"""Width and words."""
BENCH = """`timescale 1ns / 1ps
module testbench (input wire clk, output reg [31:0] cycles, output reg [{last}:0] wrong, output reg [{last}:0] seen);
    initial {{cycles, wrong, seen}} = 0;
    reg [63:0] lfsr = 64'h123456789ABCDEF1;
    reg [13:0] latest, earlier, oldest;
    reg read = 0, ago = 0, older = 0;
    wire fill = cycles < 16384;
    wire [13:0] address = fill ? cycles[13:0] : lfsr[13:0];
    wire write = fill || lfsr[20];
    wire [15:0] mask = fill ? 16'hFFFF : lfsr[36:21];
    wire [63:0] data = {{lfsr[40:0], lfsr[63:41]}};
{instances}
    always @(posedge clk) begin
        lfsr <= {{lfsr[62:0], lfsr[63] ^ lfsr[62] ^ lfsr[60] ^ lfsr[59]}} ^ (cycles << 40);
        cycles <= cycles + 1;
        oldest <= earlier; earlier <= latest; latest <= address; older <= ago; ago <= read; read <= !write;
        if (cycles > 16390) begin
{checks}        end
    end
endmodule
"""


def test_they_hold_and_give_what_memories_v_does(tmp_path):
    rng = np.random.default_rng(0)
    texts, instances, checks = [verilog.MEMORIES.read_text()], [], []

    def compare(number, width, valid):
        instances.append(f"    wire [{width - 1}:0] a{number}, b{number};\n")
        checks.append(f"            if ({valid}) begin wrong[{number}] <= wrong[{number}] | a{number} != b{number}; "
                      f"seen[{number}] <= seen[{number}] | |a{number}; end\n")

    for number, (width, words, rows) in enumerate(WEIGHTS):
        contents = [int(word) for word in rng.integers(0, 1 << width, words)]
        (tmp_path / f"image{number}.hex").write_text("".join(f"{word:x}\n" for word in contents))
        text = blocks.weight_memory(rows, contents, width)
        texts.append(text.replace("module fbnn_weight_memory", f"module made{number}").replace("copy_", f"copy{number}_"))
        bits = (words - 1).bit_length()
        compare(number, width, f"later{number} < {words}")
        instances.append(f"    reg [{bits - 1}:0] first{number}, second{number}, third{number}, fourth{number}, later{number};\n"
                         f"    always @(posedge clk) begin first{number} <= address; second{number} <= first{number}; "
                         f"third{number} <= second{number}; fourth{number} <= third{number}; later{number} <= fourth{number}; end\n"
                         f"    fbnn_weight_memory #(.WIDTH({width}), .DEPTH({words}), .ADDRESS({bits}), .IMAGE(\"image{number}.hex\"), "
                         f".REGISTERS(4)) c{number} (clk, address[{bits - 1}:0], a{number});\n"
                         f"    made{number} d{number} (clk, address[{bits - 1}:0], b{number});\n")
    for number, (width, words, granularity, rows) in enumerate(BANKS, start=len(WEIGHTS)):
        bits = (words - 1).bit_length()
        texts.append(blocks.bank(rows, words, width, granularity).replace("module fbnn_bank", f"module made{number}"))
        compare(number, width, f"older && oldest[{bits - 1}:0] < {words}")
        ports = f"(clk, address[{bits - 1}:0], write, mask[{width // granularity - 1}:0], data[{width - 1}:0]"
        instances.append(f"    fbnn_bank #(.WIDTH({width}), .DEPTH({words}), .ADDRESS({bits}), .GRANULARITY({granularity}), .REGISTERS(2)) "
                         f"c{number} {ports}, a{number});\n"
                         f"    made{number} d{number} {ports}, b{number});\n")
    for number, (width, words, granularity, rows) in enumerate(BANKS, start=len(WEIGHTS) + len(BANKS)):
        bits = (words - 1).bit_length()
        text = blocks.bank(rows, words, width, granularity, two_ports=True)
        texts.append(text.replace("module fbnn_two_port_bank", f"module made{number}"))
        compare(number, width, f"oldest[{bits - 1}:0] < {words} && !met{number}[2]")  # a word that is read while it is written may be any
        ports = f"(clk, address[{bits - 1}:0], to{number}, write, mask[{width // granularity - 1}:0], data[{width - 1}:0]"
        instances.append(f"    reg [2:0] met{number};\n"
                         f"    wire [{bits - 1}:0] to{number} = fill ? address[{bits - 1}:0] : lfsr[60 -: {bits}];\n"
                         f"    always @(posedge clk) met{number} <= {{met{number}[1:0], write && to{number} == address[{bits - 1}:0]}};\n"
                         f"    fbnn_two_port_bank #(.WIDTH({width}), .DEPTH({words}), .ADDRESS({bits}), .GRANULARITY({granularity}), "
                         f".REGISTERS(2)) c{number} {ports}, a{number});\n"
                         f"    made{number} d{number} {ports}, b{number});\n")
    for number, (width, words) in enumerate(RINGS, start=len(WEIGHTS) + 2 * len(BANKS)):
        bits = (words - 1).bit_length()
        texts.append(blocks.ring(words, width).replace("module fbnn_ring", f"module made{number}"))
        compare(number, width, f"!met{number}[1]")  # a word that is read while it is written may be any
        ports = f"(clk, write, to{number}, {{data, data}}, address[{bits - 1}:0]"
        instances.append(f"    reg [1:0] met{number};\n"
                         f"    wire [{bits - 1}:0] to{number} = fill ? address[{bits - 1}:0] : lfsr[59 -: {bits}];\n"
                         f"    always @(posedge clk) met{number} <= {{met{number}[0], write && to{number} == address[{bits - 1}:0]}};\n"
                         f"    fbnn_ring #(.WIDTH({width}), .DEPTH({words}), .ADDRESS({bits})) c{number} {ports}, a{number});\n"
                         f"    made{number} d{number} {ports}, b{number});\n")
    (tmp_path / "made.v").write_text("".join(texts))
    last = len(WEIGHTS) + 2 * len(BANKS) + len(RINGS) - 1
    (tmp_path / "bench.v").write_text(BENCH.format(last=last, instances="".join(instances), checks="".join(checks)))
    built = simulator.build([tmp_path / "bench.v", tmp_path / "made.v", netlist.BENCH / "DP16KD.v"], "testbench", tmp_path / "build")
    done = built.run("memories_bench", directory=tmp_path, search=[Path(__file__).parent])
    assert not done.failed, done.failed
