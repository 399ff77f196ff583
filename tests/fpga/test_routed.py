"""The timing of routed iCE40 designs: small ones by hand, and one by nextpnr beside icetime."""

import json
import re
import shutil
import subprocess
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from fbnn_hw.base.errors import ToolError
from fbnn_hw.fpga import routed, toolchain
from fbnn_hw.targets import synthesis
from tests.fpga.nextpnr import NAMES, delays, design
from tests.quick import quick

UP5K = routed.DELAYS["ice40"]
ICESTORM = [folder for folder in map(Path, ("/usr/share/fpga-icestorm/chipdb", "/usr/share/icebox", "/usr/local/share/icebox"))
            if folder.is_dir()]
icetime = pytest.mark.skipif(shutil.which("icetime") is None, reason="icetime is not installed")


def ns(text=None, made=None, halved="", parts=UP5K):
    """The period of `nextpnr.design`, its first wire 2 ns and its second one 3 ns."""
    return 1000 / routed.analyse(made or design(), text or delays(2000, 3000), parts, halved).fmax_mhz


def cell(made, name):
    return made["modules"]["top"]["cells"][name]


@pytest.mark.parametrize("taken, inside", [((0, 0), 1285 + 1232), ((3, 0), 874 + 1232), ((1, 2), 1232 + 980), ((2, 3), 1205 + 728)])
def test_the_pins_that_the_router_took_count(taken, inside):
    """clock to output, wire, LUT, wire, set-up."""
    assert ns(made=design(taken=taken)) == pytest.approx((1391 + 2000 + 3000 + inside) / 1000)


def test_an_input_that_the_function_does_not_need_does_not_count():
    """I1, whose wire comes from the same register without a delay, is all that a LUT of I1 depends on."""
    only = "1100" * 4
    assert ns(made=design(init=only, taken=(3, 0))) == pytest.approx((1391 + 0 + 1232 + 3000 + 1232) / 1000)
    with pytest.raises(ToolError, match="^the design has no path between registers$"):
        ns(made=design(init="0" * 16))


def test_a_lut_that_passes_a_net_on():
    """It was timed by I3, and the router took I0 of it; on the way to the LUT alone, or to a pin whose wire is not known."""
    whole, made = ns(), design()
    net = made["modules"]["top"]["netnames"]["a"]["attributes"]
    way = ("X3/Y6/lutff_7:in_0;X3/Y6/3.6.local_g0_0.->.3.6.lutff_7:in_0;1;X3/Y6/lutff_7:in_3_lut;"
           "X3/Y6/3.6.lutff_7:in_0.->.3.6.lutff_7:in_3_lut;1;X3/Y6/lutff_7:out;X3/Y6/3.6.lutff_7:in_3_lut.->.3.6.lutff_7:out;1;")
    last = "X3/Y5/lutff_1:in_0;X3/Y5/3.6.{}.->.3.5.lutff_1:in_0;1;X3/Y5/lutff_1:in_0_lut;X3/Y5/3.5.lutff_1:in_0.->.3.5.lutff_1:in_0_lut;1"
    net["ROUTING"] = way + last.format("lutff_7:out")
    assert ns(made=made) == pytest.approx(whole + 1.285 - 0.874)
    net["ROUTING"] = way + last.format("local_g0_0")  # beside it
    assert ns(made=made) == pytest.approx(whole)
    net["ROUTING"] = way.removesuffix(";")  # of another cell
    assert ns(made=made) == pytest.approx(whole + 1.285 - 0.874)


@pytest.mark.parametrize("zero, one, more", [
    ("sp4_h_r_0", "sp4_v_b_1", 0.106), ("sp4_v_b_0", "sp4_h_r_1", 0), ("local_g1_0", "sp4_v_b_1", 0)])
def test_a_cell_that_drives_a_wire_across(zero, one, more):
    """nextpnr counts the wire's multiplexer, icetime the driver, which takes as long as a wire up or down.  The slowest path is by I0."""
    steps = [(f"lutff_1:in_{n}_lut", f"lutff_1:in_{n}") for n in (0, 1)] + [(f"lutff_1:in_{n}", f"local_g0_{n}") for n in (0, 1)]
    steps += [("local_g0_0", zero), (zero, "lutff_0:out"), ("local_g0_1", one), (one, "lutff_0:out")]
    made = design()
    made["modules"]["top"]["netnames"]["a"]["attributes"]["ROUTING"] = "X3/Y5/lutff_0:out;;1;" + ";".join(
        f"X3/Y5/{wire};X3/Y5/3.5.{before}.->.3.5.{wire};1" for wire, before in steps)
    assert ns(made=made) == pytest.approx(ns() + more)


def test_the_path_and_the_arrivals():
    timing = routed.analyse(design(), delays(2000, 3000), UP5K)
    first, lut, last = NAMES
    assert [(step["type"], step["from"], step["to"], step["delay_ns"]) for step in timing.path] == [
        ("clk-to-q", first, first, 1.391), ("routing", first, lut, 2), ("logic", lut, lut, 1.285), ("routing", lut, last, 3),
        ("setup", last, last, 0.728)]
    assert timing.arrivals == [{"part": "pins and clock", "arrival_ns": 8.404, "into": "data", "cell": last}]
    assert sum(step["delay_ns"] for step in timing.path) == pytest.approx(1000 / timing.fmax_mhz)


def test_half_a_cycle_between_opposite_edges_and_to_a_clock_of_twice_the_frequency():
    whole = ns()
    falling = design()
    cell(falling, NAMES[2])["parameters"]["NEG_CLK"] = "1"
    assert ns(made=falling) == pytest.approx(2 * whole)
    other = design()
    other["modules"]["top"]["netnames"]["quick"] = {"bits": [9], "attributes": {}}
    cell(other, NAMES[2])["connections"]["CLK"] = [9]
    assert ns(made=other, halved="quick") == pytest.approx(2 * whole)
    with pytest.raises(ToolError, match="no path between registers"):
        ns(made=other)


def test_a_clock_enable_through_a_global_buffer():
    made = design()
    top = made["modules"]["top"]
    top["cells"]["buffer"] = {
        "type": "SB_GB", "parameters": {}, "attributes": {"NEXTPNR_BEL": "X0/Y0/gb"},
        "port_directions": {"USER_SIGNAL_TO_GLOBAL_BUFFER": "input", "GLOBAL_BUFFER_OUTPUT": "output"},
        "connections": {"USER_SIGNAL_TO_GLOBAL_BUFFER": [3], "GLOBAL_BUFFER_OUTPUT": [5]}}
    last = cell(made, NAMES[2])
    last["connections"]["CEN"], last["port_directions"]["CEN"] = [5], "input"
    text = delays(2000, 0) + f"(INTERCONNECT buffer/O {NAMES[2]}/CEN (700:700:700) (700:700:700))\n"
    assert ns(text, made) == pytest.approx((1391 + 2000 + 1285 + 1589 + 278 + 700) / 1000)
    assert routed.analyse(made, text, UP5K).arrivals[0]["into"] == "clock enable"


def multiplied(**parameters):
    """`design` with a multiplier, from whose bit 9 the last register takes its value, in place of the LUT."""
    made = design()
    made["modules"]["top"]["cells"][NAMES[1]] = {
        "type": "ICESTORM_DSP", "parameters": parameters, "attributes": {"NEXTPNR_BEL": "X0/Y5/mac16_0"},
        "port_directions": {"A_3": "input", "D_0": "input", "CLK": "input", "O_9": "output"},
        "connections": {"A_3": [2], "D_0": [2], "CLK": [1], "O_9": [3]}}
    return made


def test_multipliers():
    """Of the product's bit 9, at once or from registers inside; the way in ends at these."""
    text = delays(0, 3000) + f"(INTERCONNECT a/O {NAMES[1]}/A_3 (5000:5000:5000) (5000:5000:5000))\n"
    behind = 3000 + 728
    assert ns(text, multiplied()) == pytest.approx((1391 + 5000 + 6356 + behind) / 1000)
    assert ns(text, multiplied(A_REG="1")) == pytest.approx((1391 + 6356 + behind) / 1000)
    assert ns(text, multiplied(A_REG="1", D_REG="1")) == pytest.approx((1391 + 6356 + behind) / 1000)
    assert 1000 / routed.analyse(multiplied(), text + "(INTERCONNECT a/O x/D_0 (0:0:0))", UP5K).fmax_mhz > 16
    with pytest.raises(ToolError, match="no path between registers"):
        ns(text, multiplied(), parts=replace(UP5K, product=(), total=()))


def test_a_multiplier_that_sums():
    """Its output comes from the register of the sum, and its inputs end there, or at their own registers."""
    text = delays(0, 3000) + f"(INTERCONNECT a/O {NAMES[1]}/A_3 (9000:9000:9000) (9000:9000:9000))\n"
    text += f"(INTERCONNECT a/O {NAMES[1]}/OLOADBOT (20000:20000:20000) (20000:20000:20000))\n"
    made = multiplied(BOTOUTPUT_SELECT="01")
    assert ns(text, made) == pytest.approx((1391 + 9000 + 6339) / 1000)
    assert ns(text, multiplied(BOTOUTPUT_SELECT="01", A_REG="1")) == pytest.approx((1391 + 9000 + 14) / 1000)
    assert ns(delays(0, 9000), multiplied(BOTOUTPUT_SELECT="01", A_REG="1", D_REG="1")) == pytest.approx((1978 + 9000 + 728) / 1000)
    last = cell(made, NAMES[1])
    last["connections"]["OLOADBOT"], last["port_directions"]["OLOADBOT"] = [2], "input"
    assert ns(text, made) == pytest.approx((1391 + 20000 + 453) / 1000)
    last["connections"]["O_20"], last["port_directions"]["O_20"] = [6], "output"
    assert ns(text, made) == pytest.approx((1391 + 9000 + 6356 + 3000 + 728) / 1000), "half of it is no register"


def test_a_loop():
    made = design()
    cell(made, NAMES[1])["connections"]["I1"] = [3]
    with pytest.raises(ToolError, match="^a loop of LUTs through b$"):
        ns(made=made)


@pytest.mark.parametrize("placed, text", [("", ""), ("[]", ""), ("{}", ""), ('{"modules": {"top": {"cells": {"a": 1}}}}', "")])
def test_damaged_files(tmp_path, placed, text):
    (tmp_path / "placed.json").write_text(placed)
    (tmp_path / "delays.sdf").write_text(text)
    with pytest.raises(ToolError, match="placed.json: not a placed and routed design .*; build again with --rebuild$"):
        routed.read(tmp_path / "placed.json", tmp_path / "delays.sdf", "ice40")


def timings(device):
    """{(cell, from, to): ps, the longer of both edges} and {(cell, pin): ps of set-up} of a file of Project IceStorm."""
    ways, setups, kind = defaultdict(float), defaultdict(float), ""
    for words in map(str.split, (ICESTORM[0] / f"timings_{device}.txt").read_text().splitlines()):
        if words[:1] == ["CELL"]:
            kind = words[1]
        elif words[:1] in (["IOPATH"], ["SETUP"]):
            ps = max(float(word.split(":")[2]) for word in words[3:] if word.split(":")[2] != "*") if "*" not in words[3] else 0
            start, end = (re.sub(r"^\w+edge:|\[\d+\]$", "", word) for word in words[1:3])
            name = (kind, start, words[2] if start in "ABCD" and kind.startswith("SB_MAC16") else end)
            table, key = (ways, name) if words[0] == "IOPATH" else (setups, (kind, start))
            table[key] = max(table[key], ps)
    return ways, setups


@pytest.mark.skipif(not ICESTORM, reason="the tables of Project IceStorm are not installed")
@pytest.mark.parametrize("target, device", [("ice40", "up5k"), ("ice40-hx8k", "hx8k")])
def test_delays_are_those_of_project_icestorm(target, device):
    own, (ways, setups) = routed.DELAYS[target], timings(device)
    logic = "LogicCell40"
    pads = {"D_OUT": "DOUT0", "OUTPUT_ENABLE": "OUTPUTENABLE", "CLOCK_ENABLE": "CLOCKENABLE"}
    names = {"ICESTORM_LC": (logic, {f"I{i}": f"in{i}" for i in range(4)} | {"SR": "sr", "CEN": "ce"}), "SB_IO": ("PRE_IO", pads),
             "ICESTORM_RAM": ("SB_RAM40_4K", {}), "ICESTORM_SPRAM": ("SB_SPRAM256KA", {}),
             "ICESTORM_DSP": ("SB_MAC16_MUL_U_16X16_ALL_PIPELINE", {})}
    pairs = [(ps, ways[logic, f"in{i}", "lcout"]) for i, ps in enumerate(own.lut)]
    pairs += [(ps, ways[logic, {"CIN": "carryin"}.get(pin, pin.replace("I", "in")), "carryout"]) for pin, ps in own.carry.items()]
    pairs += [(own.driver, ways["Odrv4", "I", "O"] - ways["Span4Mux_h4", "I", "O"])]
    pairs += [(own.buffer, ways["ICE_GB", "USERSIGNALTOGLOBALBUFFER", "GLOBALBUFFEROUTPUT"] + ways["GlobalMux", "I", "O"])]
    after = {"ICESTORM_LC": (logic, "clk", "lcout"), "ICESTORM_RAM": ("SB_RAM40_4K", "RCLK", "RDATA"),
             "ICESTORM_SPRAM": ("SB_SPRAM256KA", "CLOCK", "DATAOUT"), "SB_IO": ("PRE_IO", "INPUTCLK", "DIN0"),
             "ICESTORM_DSP": (logic, "clk", "lcout")}
    pairs += [(ps, ways[after[kind]]) for kind, ps in own.after.items()]
    pairs += [(ps, setups[names[kind][0], names[kind][1].get(pin, pin)]) for kind, pins in own.before.items() for pin, ps in pins.items()]
    for row, kind, pins in ((own.product, "MUL_U_16X16", "AB"), (own.total, "ADS_U_32P32", "CD")):
        pairs += [(ps, max(ways[f"SB_MAC16_{kind}_BYPASS", pin, f"O[{bit}]"] for pin in pins)) for bit, ps in enumerate(row)]
    if own.summed:
        summing = "SB_MAC16_MAC_U_16X16_BYPASS"
        pairs += [(own.summed[0], ways[summing, "CLK", "O"])]
        pairs += [(ps, max(own.total) if pin in "CD" else setups[summing, pin]) for pin, ps in own.summed[1].items()]
    assert len(pairs) > 25 and all(abs(ps - table) <= 1 for ps, table in pairs), [pair for pair in pairs if abs(pair[0] - pair[1]) > 1]


VERILOG = """
module top (input wire clk, input wire d_pin, input wire up_pin, output reg q);
    reg [9:0] at = 0;
    reg d = 0, up = 0;
    reg [15:0] store [0:1023], word = 0;
    reg [23:0] sum = 0, other = 0;
    always @(posedge clk) begin
        {d, up} <= {d_pin, up_pin};
        at <= {at[8:0], at[9] ^ at[6] ^ d};
        word <= store[at];
        if (up) store[~at] <= word ^ sum[15:0];
        sum <= (sum ^ {other[7:0], word}) + (up ? other : {other[11:0], other[23:12]});
        if (sum[3:0] == at[3:0]) other <= other + {word, sum[7:0]};
        q <= ^(other & sum);
    end
endmodule
"""
"""Adders, a block RAM, a clock enable and LUTs in a row.  Registers take the pins, at which icetime has paths begin."""


@icetime
@pytest.mark.parametrize("target, package", quick([("ice40", "sg48"), ("ice40-hx8k", "ct256")], ("ice40", "sg48")))
def test_a_routed_design_has_the_clock_that_icetime_finds(target, package, tmp_path):
    """Within 1 %, not above nextpnr's; other pins of the LUTs are another clock."""
    tools, flow = toolchain.find(target), toolchain.FLOWS[target]
    script, place, _ = toolchain.commands(target, package, 12, 1, ["top.v"], own=["--pcf-allow-unconstrained"])
    (tmp_path / "top.v").write_text(VERILOG)
    (tmp_path / "pins.txt").touch()
    where = tmp_path / toolchain.seed_folder(1)
    where.mkdir()
    synthesis.synthesise(script, tmp_path)
    subprocess.run([tools.nextpnr(flow), *place], cwd=tmp_path, check=True, capture_output=True)
    result = toolchain.timed(toolchain.read_report((where / "report.json").read_text(), 12), target, where)
    found = toolchain.icetime(target, package, where / "placed.txt")
    assert result.fmax_mhz == pytest.approx(found, rel=0.01) and result.fmax_mhz < 1.005 * result.nextpnr_mhz
    made, text = (json.loads((where / "placed.json").read_text()), (where / "delays.sdf").read_text())
    for net in made["modules"]["top"]["netnames"].values():  # as if the router had kept the netlist's pins
        net["attributes"]["ROUTING"] = re.sub(r"(in_)\d(\.->\.[^;]*in_(\d)_lut)", r"\g<1>\3\2", net["attributes"].get("ROUTING", ""))
    assert routed.analyse(made, text, routed.DELAYS[target]).fmax_mhz != result.fmax_mhz
