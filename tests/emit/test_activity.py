"""What is counted in a netlist, on one that is small enough to count by hand; energies of counts; what is refused."""

import json
import subprocess
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from fbnn_hw.base.errors import MismatchError, UsageError
from fbnn_hw.simulate import activity, energy, netlist, virtual
from fbnn_hw.simulate.activity import Activity, Counts
from fbnn_hw.targets import TARGETS
from fbnn_hw.targets.power import BY_NAME, CAMERAS, CONSTANTS, Bounds
from tests import schemas, strategies

# A counter of two bits in a module of its own, a memory that is read in every fourth cycle, and a board that runs for 1000 cycles.
TOY = """
module pair (input clk, output reg [1:0] count);
    initial count = 0;
    always @(posedge clk) count <= count + 1;
endmodule
module board_top (input clk, output [15:0] out);
    wire [1:0] count;
    pair accelerator (clk, count);
    reg [7:0] place = 0;
    reg [15:0] memory [0:255], word = 0;
    initial $readmemh("memory.hex", memory);
    always @(posedge clk) begin
        place <= place + 1;
        if (count == 2'd3) word <= memory[place];
    end
    assign out = word;
endmodule
"""
BOARD = """
module board (input wire clk, input wire rst, input wire rx, output wire tx, output wire ready, output wire active, output wire fault,
              output wire [31:0] errors);
    assign {ready, active, fault, errors} = {2'b10, 33'd0};
    assign tx = 1;
    reg [63:0] activity_cycle = 0;
    reg activity_phase = 0;
    always @(posedge clk) begin
        activity_cycle <= activity_cycle + 1;
        activity_phase <= activity_cycle >= 1000;
    end
    always @(activity_phase) $display("activity %0d pins %s 1 2 3 4", activity_cycle, "W");
    board_top top (.clk(clk), .out());
endmodule
"""


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory):
    """(flip-flops, Counts) of the toy's 1000 cycles."""
    build = tmp_path_factory.mktemp("activity")
    (build / "board_top.v").write_text(TOY)
    (build / "accelerator.v").write_text("")
    (build / "memory.hex").write_text("".join(f"{n * 257 & 0xFFFF:04x}\n" for n in range(256)))
    (build / "board.v").write_text(BOARD)
    counted, flip_flops = activity.netlist_of([build / "board_top.v", build / "accelerator.v"], build)
    share, _ = netlist._yosys()
    program = virtual.verilate([build / "board.v", share / "ice40" / "cells_sim.v", counted], build,
                               options=("-DNO_ICE40_DEFAULT_ASSIGNMENTS",))
    (build / "script").write_bytes((2000).to_bytes(2, "little") + bytes([0, 0]) + bytes([0, 0, 0, 2]))
    done = subprocess.run([program, "4", "10000", "script", "100000"], cwd=build, capture_output=True, text=True, check=True)
    snapshots = activity.snapshots_of(line.split() for line in done.stdout.splitlines() if line.startswith("activity"))
    return flip_flops, dict((counts.cycles >= 1000, counts) for _, counts in snapshots)[True]


def test_toggles_of_each_part(snapshot):
    """A counter of two bits: bit 0 changes in each cycle, bit 1 in each second one, and so do the LUTs in front of them."""
    flip_flops, counts = snapshot
    assert flip_flops["accelerator.control"] == 2 and flip_flops["top"] in (8, 9)  # yosys may keep the memory's enable in one
    assert counts.toggles["accelerator.control"] == pytest.approx(3 * counts.cycles, abs=8)
    assert 2 * 2 * counts.cycles - 20 < counts.toggles["top"] < 12 * counts.cycles


def test_accesses_of_a_memory(snapshot):
    """Only cycles in which it is enabled count."""
    _, counts = snapshot
    assert counts.blocks["top"] == pytest.approx(counts.cycles / 4, abs=2)
    assert not +counts.banks and not +counts.multiplies and counts.pins == dict(zip(activity.PINS, (1, 2, 3, 4)))


@pytest.mark.slow
@pytest.mark.parametrize("duty_cycle", [True, False])
def test_a_whole_board(duty_cycle, tmp_path):
    """The smallest design that learns: answers of the netlist are those of the reference, and each part is at work when it should be."""
    from fbnn_hw import design
    from fbnn_hw.data import datasets

    network = strategies.smallest_learner(24)
    written = design.generate(network, "ice40", out=tmp_path, learn=True, exemplars=4, max_classes=3, duty_cycle=duty_cycle)
    found = activity.measure(written, datasets.load("fixture").images[:2, :, ::4, ::4])
    compute = written.estimate["cycles"] - written.estimate["load_cycles"]
    # The first frame waits for weights, and each until the link has sent its logits.
    assert compute < found.compute.cycles < found.first[1].cycles + 1 < written.estimate["first_cycles"] and found.lesson.cycles > 500
    assert found.compute.toggles["accelerator.array"] > 10 * found.line.toggles["accelerator.array"]
    assert found.lesson.toggles["accelerator.learner"] > found.compute.toggles["accelerator.learner"] / 10 > 0
    assert found.start.pins["flash_clocks"] > 2 * len(written.read("weights.bin")) and not found.compute.pins["flash_clocks"]
    # Memories rest where nothing reads them: all of them while it waits, but for those of the learner and of its requests.
    resting = ("accelerator.bank", "accelerator.mover", "accelerator.sequencer")
    assert not any(found.waiting.banks[part] + found.waiting.blocks[part] for part in resting)
    assert found.line.banks["accelerator.bank"] < found.line.cycles
    assert 2 * found.compute.cycles < found.compute.banks["accelerator.bank"] < 4 * found.compute.cycles


@pytest.mark.slow
def test_a_whole_device(tmp_path):
    """A learner that knows all its classes from the flash, before a camera: the netlist's answers are the reference's."""
    from fbnn_hw import design
    from fbnn_hw.data import datasets
    from fbnn_hw.ir import shipped

    written = design.generate(shipped.load("tiny.pt"), "ice40", out=tmp_path, learn="nearest-mean", max_classes=3, camera="hm01b0",
                              keep=True, weights="flash", outputs=4)
    found = activity.measure(written, datasets.load("fixture").images[:2])
    compute = written.estimate["cycles"] - written.estimate["load_cycles"]
    assert 0 <= found.compute.cycles - compute < 1000 and found.lesson is None and not found.line_bytes
    assert found.line.toggles["camera"] > found.compute.toggles["camera"] > 0
    assert found.start.pins["flash_clocks"] > 2 * len(written.read("weights.bin")) and not found.waiting.pins["flash_clocks"]


@pytest.mark.parametrize("path, part", [
    ("", "top"), (".link.receiver", "link"), (".core.link", "link"), (".core", "top"), (".accelerator", "accelerator.control"),
    (".accelerator.bank3", "accelerator.bank"), (".accelerator.address$155", "accelerator.address"),
    (".accelerator.array.popcount_3_1", "accelerator.array"), (".core.accelerator.shared_array", "accelerator.array"), (".line$37", "top")])
def test_the_part_of_an_instance(path, part):
    assert activity.part_of(activity.OWN + path) == part


def counted(**changed):
    """An `Activity` with round numbers."""
    frame = Counts(1000, Counter({"accelerator.array": 4000, "link": 500}), Counter({"accelerator.sequencer": 1000}),
                   Counter({"accelerator.bank": 4000}), Counter({"accelerator.loader": 3}),
                   Counter(flash_edges=20, flash_clocks=10, line_edges=5))
    waiting = Counts(1, Counter({"link": 2}), Counter(), Counter({"accelerator.bank": 4}))
    values = {"images": 2, "start": Counts(), "waiting": waiting, "first": (Counts(500), Counts().add(frame).add(Counts(200))),
              "line": Counts(400), "compute": frame, "lesson": None, "line_bytes": 10, "lesson_bytes": 0, "clocks": 4,
              "flip_flops": Counter({"link": 100})} | changed
    return Activity(**values)


DESIGN = SimpleNamespace(folder="a", config=SimpleNamespace(weights="stream", learning=None, size=8, sleeps=False, camera=""),
                         estimate={"clock_hz": 12_000_000, "part": "a part", "target": "ice40"})


@pytest.mark.parametrize("baud, cycles", [(1_000_000, 400 + 80 * 8), (3_000_000, 400), (4_000_000, 400 - 80)])
def test_a_line_of_another_speed(baud, cycles):
    """12 MHz over the speed is the clocks of a bit, of which 4 are simulated."""
    assert energy.stretched(counted(), Counts(400), 8, 12e6, baud).cycles == pytest.approx(cycles)


def test_energy_is_counts_times_constants():
    """Each part by hand, and the sums; a line of 1 Mbaud at 12 MHz takes 12 clocks a bit, 8 more than simulated."""
    report = energy.estimate(DESIGN, None, activity=counted(), baud=1_000_000, rates=(1.0, 1e5))
    parts = report["frame"]["parts_mj"]
    cycles = 1000 + 400 + 10 * 10 * 8
    assert report["frame"]["cycles"] == cycles and report["compute"]["cycles"] == 1000
    for bound in ("low", "typical", "high"):
        value = {name: getattr(bounds, bound) * 1e3 for name, bounds in BY_NAME.items()}
        assert parts["clock"][bound] == pytest.approx(cycles * (value["clock"] + 100 * value["flip_flop"]))
        assert parts["accelerator.array"][bound] == pytest.approx(4000 * value["toggle"])
        assert parts["link"][bound] == pytest.approx((500 + 2 * 800) * value["toggle"])
        assert parts["feature memory (SPRAM)"][bound] == pytest.approx((4000 + 4 * 800) * value["bank"])
        assert report["frame"]["total_mj"][bound] == pytest.approx(sum(values[bound] for values in parts.values()))
        idle = 12e6 * (value["clock"] + 100 * value["flip_flop"] + 2 * value["toggle"] + 4 * value["bank"])
        always = value["static"] + value["pll"] + value["flash_standby"]
        assert report["waiting_mw"][bound] == pytest.approx(idle + always)
        share = cycles / 12e6
        expected = report["frame"]["total_mj"][bound] + idle * (1 - share) + always
        assert report["rates"][0]["clock_runs_mw"][bound] == pytest.approx(expected)
    assert [rate["possible"] for rate in report["rates"]] == [True, False]
    assert "lesson" not in report and report["kind"].startswith("estimated")


def test_a_board_that_sleeps():
    """It draws less asleep than waiting; a frame a second is that, the frame and a nap."""
    design = SimpleNamespace(**{**vars(DESIGN), "config": SimpleNamespace(**{**vars(DESIGN.config), "sleeps": True})})
    report = energy.estimate(design, None, activity=counted(), baud=1_000_000, rates=(1.0,))
    value = {name: bounds.typical * 1e3 for name, bounds in BY_NAME.items()}
    asleep = value["static"] + value["pll"] + value["flash_asleep"] + 12e6 * value["clock"]
    assert report["asleep_mw"]["typical"] == pytest.approx(asleep) and asleep < report["waiting_mw"]["typical"]
    share = report["frame"]["seconds"]
    expected = (report["frame"]["total_mj"]["typical"] + (value["static"] + value["pll"] + value["flash_standby"]) * share
                + report["nap_mj"]["typical"] + asleep * (1 - share))
    assert report["rates"][0]["sleeps_mw"]["typical"] == pytest.approx(expected)
    assert expected < report["rates"][0]["clock_runs_mw"]["typical"] and report["asleep_mw"]["low"] < 0.2


def test_the_line_is_one_that_a_board_of_that_clock_has():
    """Without --baud the line is that of `build`, slower for a design that wakes in a bit; 16.5 MHz has no 6 Mbaud."""
    assert energy.estimate(DESIGN, None, activity=counted(), clock_hz=16.5e6)["baud"] == TARGETS["ice40"].baud(16.5e6) == 4_571_429
    with pytest.raises(UsageError, match="--baud 6000000: a clock of 16.5 MHz allows at most 4714285"):
        energy.estimate(DESIGN, None, activity=counted(), clock_hz=16.5e6, baud=6_000_000)
    sleeps = SimpleNamespace(**{**vars(DESIGN), "config": SimpleNamespace(**{**vars(DESIGN.config), "sleeps": True})})
    with pytest.raises(UsageError, match="--duty-cycle: a bit on the line takes 6 clocks, expected at least 10 to wake up in"):
        energy.estimate(sleeps, None, activity=counted(), clock_hz=16.5e6, baud=2_742_857)
    assert energy.estimate(sleeps, None, activity=counted(), clock_hz=16.5e6)["baud"] == 1_655_172


def test_a_device_with_a_camera():
    """No line, so nothing is stretched; the sensor's power comes on top, and what is beside the accelerator is the camera's."""
    design = SimpleNamespace(**{**vars(DESIGN), "config": SimpleNamespace(**{**vars(DESIGN.config), "camera": "ov7670"})})
    frame = Counts(1000, Counter({"accelerator.array": 4000, "camera": 500, "keeper": 20}), pins=Counter(line_edges=5))
    activity_of = counted(compute=frame, line_bytes=0, clocks=0, waiting=Counts(1, Counter(camera=1)))
    report = energy.estimate(design, None, activity=activity_of, rates=(1.0,))
    assert report["baud"] is None and report["frame"]["cycles"] == 1400
    assert set(energy.groups(report["frame"]["parts_mj"])) == {"clock", "accelerator", "camera"}
    rate = report["rates"][0]
    for bound, power in CAMERAS["ov7670"].bounds.values().items():
        assert rate["with_camera_mw"][bound] == pytest.approx(rate["clock_runs_mw"][bound] + 1e3 * power)
    schemas.check("energy", json.dumps({"json_version": 2} | report) + "\n")
    with pytest.raises(UsageError, match="a: has a camera and no link, expected no --baud"):
        energy.estimate(design, None, activity=activity_of, baud=1_000_000)


def test_groups_hold_every_part():
    report = energy.estimate(DESIGN, None, activity=counted())
    sums = energy.groups(report["frame"]["parts_mj"])
    assert set(sums) == {"clock", "accelerator", "memories", "flash", "link"}
    assert Bounds.total(list(sums.values())).high * 1e3 == pytest.approx(report["frame"]["total_mj"]["high"])


def test_constants_are_in_order_and_have_a_source():
    for constant in (*CONSTANTS, *CAMERAS.values()):
        bounds = constant.bounds
        assert 0 <= bounds.low <= bounds.typical <= bounds.high > 0 and len(constant.source) > 20, constant.name
        assert constant.kind in ("datasheet", "measured by others", "derived", "assumed")
    assert len(BY_NAME) == len(CONSTANTS)


@pytest.mark.parametrize("estimate, adds, message", [
    ({"target": "ice40"}, True, "a: its learner begins with no class, expected --learn replay or none"),
    ({"target": "ecp5"}, None, "a: a design for --target ecp5, expected ice40: energies are known of the iCE40UP5K alone")])
def test_what_is_refused(estimate, adds, message):
    learning = adds and SimpleNamespace(adds=adds)
    design = SimpleNamespace(folder="a", estimate=estimate, config=SimpleNamespace(size=8, learning=learning, camera=""))
    with pytest.raises(UsageError) as error:
        activity.measure(design, np.zeros((2, 3, 8, 8), np.uint8))
    assert str(error.value) == message


def test_one_image_is_refused():
    """The first frame fetches what later ones find."""
    design = SimpleNamespace(folder="a", estimate={"target": "ice40"}, config=SimpleNamespace(size=8, learning=None, camera=""))
    with pytest.raises(UsageError, match="images: found one, expected two or more"):
        activity.measure(design, np.zeros((1, 3, 8, 8), np.uint8))


def test_a_netlist_that_errs_is_no_estimate(monkeypatch):
    """The answers of the simulation are compared with the reference."""
    from fbnn_hw.machine import protocol

    monkeypatch.setattr(activity.inference, "logits", lambda network, images: np.array([[3, -1]], np.int32))
    design = SimpleNamespace(folder="a", network=None)
    reply = protocol.encode(0x91, np.array([3, -1, 0], "<i2").tobytes())
    activity._check(design, [None], [reply])
    with pytest.raises(MismatchError, match=r"a: image 0: the netlist's logits are \[3, -2\], expected \[3, -1\]"):
        activity._check(design, [None], [protocol.encode(0x91, np.array([3, -2, 0], "<i2").tobytes())])
    with pytest.raises(MismatchError, match="image 0: the netlist answered 0 messages, expected 1"):
        activity._check(design, [None], [b""])


def test_the_json_is_that_of_its_schema():
    learning = SimpleNamespace(weights="stream", size=8, classes=4, sleeps=True, camera="",
                               learning=SimpleNamespace(replays=9, slot_bits=4, slots=10, learn_cycles=lambda *_: 5000))
    design = SimpleNamespace(**{**vars(DESIGN), "config": learning})
    for one, lesson in ((DESIGN, None), (design, Counts(100, Counter({"link": 3})))):
        report = energy.estimate(one, None, activity=counted(lesson=lesson, lesson_bytes=20), baud=1_000_000)
        assert ("lesson" in schemas.check("energy", json.dumps({"json_version": 2} | report) + "\n")) is (lesson is not None)


def test_stretches_belong_to_requests():
    """Three images, then two lessons: what follows the start or a frame, such as weights for the next one, belongs to it.  The first
    frame counts alone."""
    frames = [[("L", 30), ("C", compute), ("L", 5), ("W", 8)] for compute in (700, 400, 600)]
    lengths = [("S", 100), ("L", 20), ("W", 7), *(stretch for frame in frames for stretch in frame), *[("L", 40), ("W", 9)] * 2]
    at, snapshots = 0, []
    for phase, cycles in lengths:
        at += cycles
        snapshots.append((phase, Counts(at, Counter(link=2 * at))))
    design = SimpleNamespace(config=SimpleNamespace(sleeps=False))
    found = activity._activity(design, 3, [*[b"image"] * 3, b"learn!", b"learn!"], [b"answer", b"", b"", b"", b"ok"], snapshots, Counter())
    assert [c.cycles for c in found.first] == [35, 700]
    assert [c.cycles for c in (found.start, found.line, found.compute, found.lesson, found.waiting)] == [120, 35, 500, 40, pytest.approx(1)]
    assert found.compute.toggles == {"link": 1000} and found.waiting.toggles["link"] == pytest.approx(2)
    assert (found.line_bytes, found.lesson_bytes, found.clocks) == (11, 8, 4)
