"""Netlists after synthesis: smallest designs for UP5K and ECP5 against the reference, and the model of the ECP5's block RAM."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from fbnn_hw import design
from fbnn_hw.base.errors import UsageError
from fbnn_hw.compile.plan import plan
from fbnn_hw.data import datasets
from fbnn_hw.design import output
from fbnn_hw.ir.network import LATENT
from fbnn_hw.rtl import verilog
from fbnn_hw.simulate import netlist, simulator
from fbnn_hw.simulate.bench import bench
from fbnn_hw.simulate.expected import expected_layers
from fbnn_hw.targets import TARGETS, synthesis
from tests import strategies
from tests.rtl.test_accelerator import GAP, POOL, conv, dense, topology

HERE = Path(__file__).parent
COUNT, SEED = 5, 24
"""Images, and a network that does not give all of them one class."""


@pytest.mark.slow
@pytest.mark.parametrize("target, cells", [("ice40", {"SB_SPRAM256KA": 4, "SB_MAC16": 3}), ("ecp5", {"DP16KD": 7})])
def test_a_netlist_gives_the_bits_of_the_reference(target, cells, tmp_path):
    """Logits, classes and cycles of real images; what the vendor leaves undefined is random."""
    network, part = strategies.smallest(SEED), TARGETS[target]
    images = datasets.load("fixture").images[:COUNT, :, ::4, ::4]
    planned = plan(network, part, 4, 16, 4)
    folder = output.write(planned, network, part, tmp_path, images).folder
    sources, counts = netlist.synthesise(folder, target, tmp_path / "netlist")
    assert cells.items() <= counts.items() and not any(name.startswith("$_") for name in counts)
    built = simulator.build(sources, "testbench", tmp_path / "netlist", options=netlist.OPTIONS)
    work = tmp_path / "run"
    work.mkdir()
    shutil.copy(folder / "weights.hex", work)
    (work / "layout.json").write_text((folder / "layout.json").read_text())
    bench.write_images(work, images)
    limit = 10 * (planned.first.total + COUNT * planned.frame.total)
    done = built.run("bench", directory=work, search=[Path(bench.__file__).parent], arguments=netlist.ARGUMENTS,
                     env={"BENCH_IMAGES": COUNT, "BENCH_STALL": 0, "BENCH_LATENT": 0, "BENCH_CYCLES": limit})
    assert not done.failed, done.failed
    logits = expected_layers(network, images, ())["logits"]
    run = bench.read_results(work, planned.config.lanes, 2)
    assert np.array_equal(run.logits, logits) and len(set(np.argmax(logits, axis=1))) == 2
    assert run.classes == np.argmax(logits, axis=1).tolist()
    assert run.first == planned.first.total and set(run.periods) == {planned.frame.total}


@pytest.mark.slow
def test_a_learner_s_netlist_gives_the_bits_of_the_reference(tmp_path, monkeypatch):
    """Its last score is positive: Verilator took the bit beside it, which says last, for a part of it."""
    layers = topology(8, 2, conv(16), POOL, GAP, dense(32, name=LATENT))
    made = design.generate(strategies.on_engine(strategies.fill(layers, 5)), "ice40", out=tmp_path, learn=True, max_classes=4, exemplars=6,
                           outputs=4)
    monkeypatch.setenv("FBNN_OPTIMISE", "-O0")
    done = made.simulate(strategies.images(3, 1, 8), netlist=True)
    assert done.equal, done.differences
    assert done.logits.tolist() == [[8, 4]]


MEMORIES = """
module memories (input clk, input [12:0] address, input write, input [7:0] mask, input [31:0] data,
    output [63:0] wide, output [8:0] narrow, output [1:0] deep, output [15:0] bank, output [31:0] paired, output [7:0] bytes);
  fbnn_weight_memory #(.WIDTH(64), .DEPTH(300), .ADDRESS(9), .IMAGE("wide.hex")) a (clk, address[8:0], wide);
  fbnn_weight_memory #(.WIDTH(9), .DEPTH(1500), .ADDRESS(11), .IMAGE("narrow.hex")) b (clk, address[10:0], narrow);
  fbnn_weight_memory #(.WIDTH(2), .DEPTH(5000), .ADDRESS(13), .IMAGE("deep.hex")) c (clk, address, deep);
  fbnn_bank #(.WIDTH(16), .DEPTH(1024), .ADDRESS(10), .GRANULARITY(4)) d (clk, address[9:0], write, mask[3:0], data[15:0], bank);
  fbnn_bank #(.WIDTH(32), .DEPTH(512), .ADDRESS(9), .GRANULARITY(16)) e (clk, address[8:0], write, mask[1:0], data, paired);
  fbnn_bank #(.WIDTH(8), .DEPTH(1024), .ADDRESS(10), .GRANULARITY(8)) f (clk, address[9:0], write, mask[0], data[7:0], bytes);
endmodule
"""


def test_the_block_ram_of_the_ecp5(tmp_path):
    """Our memories as DP16KD of 2, 9, 18 and 36 bits against their Verilog, at random addresses."""
    rng = np.random.default_rng(0)
    for name, bits, words in (("wide", 64, 300), ("narrow", 9, 1500), ("deep", 2, 5000)):
        values = rng.integers(0, 1 << min(bits, 63), words)
        (tmp_path / f"{name}.hex").write_text("".join(f"{value:x}\n" for value in values))
    (tmp_path / "memories.v").write_text(MEMORIES + verilog.MEMORIES.read_text())
    script = (f"read_verilog memories.v\n{synthesis.COMMANDS['ecp5']} -top memories\nrename memories memories_netlist\n"
              "write_verilog -noattr netlist.v\ntee -q -o cells.json stat -json\n")
    cells = synthesis.synthesise(script, tmp_path)
    assert cells["DP16KD"] == 8
    widths = (tmp_path / "netlist.v").read_text()
    assert all(f".DATA_WIDTH_A(32'd{width})" in widths for width in (2, 9, 18, 36))
    lut = tmp_path / "lut4.v"
    lut.write_text("module LUT4(input A, B, C, D, output Z); parameter [15:0] INIT = 0; assign Z = INIT[{D, C, B, A}]; endmodule\n")
    sources = [HERE / "memories_bench.v", tmp_path / "memories.v", tmp_path / "netlist.v", netlist.BENCH / "DP16KD.v", lut]
    built = simulator.build(sources, "testbench", tmp_path / "build")
    done = built.run("memories_bench", directory=tmp_path, search=[HERE])
    assert not done.failed, done.failed


def test_a_target_without_models():
    with pytest.raises(UsageError) as error:
        netlist.family("gowin-gw1nr9")
    assert str(error.value) == (
        "--netlist: yosys has no complete cell models for --target gowin-gw1nr9, expected a design for ice40 or ecp5")
