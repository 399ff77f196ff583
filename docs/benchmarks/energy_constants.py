"""What a toggle of an iCE40UP5K costs, from published currents of small designs and their toggles as counted here.

    python docs/benchmarks/energy_constants.py

The currents are those of `SOURCE`, measured on a breakout board.  The designs are rebuilt here: a counter of 28 bits, once and
eight times, and two counters of 8 bits whose product is used in every cycle.  Glitches are in the currents and not in the toggles.
"""

import json
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

from fbnn_hw.simulate import activity, netlist, virtual
from fbnn_hw.targets import synthesis

SOURCE = "https://github.com/tinyvision-ai-inc/ice40_power"
VOLT, HZ = 1.219, 12e6
COUNTERS_UA = 613.5, 641.3  # one and eight counters of 28 bits, an external clock of 12 MHz
PRODUCT_UA = 645.0, 996.0  # a counter of 24 bits, without and with the product of two more of 8, the internal oscillator at 12 MHz
CYCLES = 60_000

BOARD = """
module board (input wire clk, input wire rst, input wire rx, output wire tx, output wire ready, output wire active, output wire fault,
              output wire [31:0] errors);
    assign {ready, active, fault, errors} = {2'b10, 33'd0};
    reg [63:0] activity_cycle = 0;
    reg activity_phase = 0;
    always @(posedge clk) begin
        activity_cycle <= activity_cycle + 1;
        activity_phase <= activity_cycle == CYCLES;
    end
    wire out;
    assign tx = 1;
    toy top (.clk(clk), .out(out));
endmodule
"""
COUNTERS = """
module toy (input clk, output out);
    reg [27:0] c [COUNT - 1:0];
    integer i;
    initial for (i = 0; i < COUNT; i = i + 1) c[i] = 7919 * i;
    always @(posedge clk) for (i = 0; i < COUNT; i = i + 1) c[i] <= c[i] + 1;
    wire [COUNT - 1:0] tops;
    genvar g;
    generate for (g = 0; g < COUNT; g = g + 1) assign tops[g] = c[g][27]; endgenerate
    assign out = ^tops;
endmodule
"""
PRODUCT = """
module toy (input clk, output out);
    reg [23:0] f = 0;
    reg [7:0] a = 0, b = 0;
    always @(posedge clk) begin f <= f + 1; a <= a + 3; b <= b + 5; end
    wire [15:0] product = a * b;
    assign out = f[23] | ^product;
endmodule
"""


def toggles(verilog):
    """(toggles a cycle, {cell: count}) of the module toy."""
    with tempfile.TemporaryDirectory() as folder:
        build = Path(folder)
        (build / "toy.v").write_text(verilog)
        (build / "board.v").write_text(BOARD.replace("CYCLES", str(CYCLES)))
        share, version = netlist._yosys()
        script = "read_verilog toy.v\nsynth_ice40 -device u -top toy\nwrite_json netlist.json\ntee -q -o cells.json stat -json\n"
        cells = synthesis.synthesise(script, build)
        counted = activity.count(build, build / "netlist.json")
        program = virtual.verilate([build / "board.v", share / "ice40" / "cells_sim.v", counted], build, level="-O0",
                                   options=("-DNO_ICE40_DEFAULT_ASSIGNMENTS",))
        gaps = b"".join((CYCLES // 2).to_bytes(2, "little") + bytes([0x55, 0]) for _ in range(3)) + bytes([0, 0, 0, 2])
        (build / "script").write_bytes(gaps)
        done = subprocess.run([program, "4", "10000", "script", "1000000"], cwd=build, capture_output=True, text=True, check=True)
    line = next(line.split() for line in done.stdout.splitlines() if line.startswith("activity") and int(line.split()[1]) >= CYCLES)
    return int(line[3]) / int(line[1]), cells


def main():
    one, eight = (toggles(COUNTERS.replace("COUNT", str(count)))[0] for count in (1, 8))
    product, cells = toggles(PRODUCT)
    plain = toggles(PRODUCT.replace("^product", "1'b0"))[0]
    print(json.dumps(Counter(cells)))
    for name, (low, high), count in (("counters", COUNTERS_UA, eight - one), ("product", PRODUCT_UA, product - plain)):
        picojoules = (high - low) * 1e-6 * VOLT / HZ * 1e12
        print(f"{name}: {picojoules:.2f} pJ and {count:.2f} toggles a cycle more: {picojoules / count:.3f} pJ a toggle")


if __name__ == "__main__":
    main()
