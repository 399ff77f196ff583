"""A bitstream against the netlist that was placed, by the real tools; that of an UltraPlus is in tests/cli/test_build.py."""

import json
import subprocess

import pytest

from fbnn_hw.fpga import compared, placement, toolchain, unpacked
from fbnn_hw.targets import synthesis
from tests.fpga import turned

TARGET, PACKAGE = "ice40-hx8k", "ct256"
VERILOG = """
module top (input wire oscillator, output reg q);
    wire clk, lock;
    reg [7:0] count = 0;
    SB_PLL40_CORE #(.FEEDBACK_PATH("SIMPLE"), .DIVR(4'd0), .DIVF(7'd79), .DIVQ(3'd4), .FILTER_RANGE(3'd1)) pll (
        .REFERENCECLK(oscillator), .PLLOUTGLOBAL(clk), .LOCK(lock), .RESETB(1'b1), .BYPASS(1'b0));
    always @(posedge clk) begin
        count <= count + lock;
        q <= ^count;
    end
endmodule
"""


@pytest.mark.skipif(not unpacked.icebox(), reason="icebox is not installed")
def test_a_pll_whose_reference_is_no_pad(tmp_path):
    """Its clock enters the chip through a pad of no cell, on each board with an HX8K."""
    tools, flow = toolchain.find(TARGET), toolchain.FLOWS[TARGET]
    script, place, pack = toolchain.commands(TARGET, PACKAGE, 12, 1, ["top.v"], own=["--pcf-allow-unconstrained"])
    (tmp_path / "top.v").write_text(VERILOG)
    (tmp_path / "pins.txt").write_text("set_io oscillator J3\n")
    seed = tmp_path / toolchain.seed_folder(1)
    seed.mkdir()
    synthesis.synthesise(script, tmp_path)
    subprocess.run([tools.nextpnr(flow), *place], cwd=tmp_path, check=True, capture_output=True)
    toolchain.pack(flow, pack, tmp_path, tools)
    placement.keep(seed / toolchain.PLACED, kept := seed / toolchain.CELLS)
    assert compared.cells(tmp_path / flow.bitstream, kept)["ICESTORM_PLL"] == 1
    chip, netlist = unpacked.unpack(tmp_path / flow.bitstream), json.loads(kept.read_text())
    [(x, y, pad)] = [place for place, cell in chip.cells.items() if cell.settings == unpacked.PASSES_CLOCK]
    for entry in chip.config.tile_db(x, y):
        if entry[1] == f"IOB_{pad[-1]}":
            place = chip.config.tile(x, y), *map(int, turned.PLACES.match(entry[0][0]).groups())
            turned.turn(place)
            chip.read()
            assert compared.Comparison(chip, netlist).differences, entry
            turned.turn(place)
