"""What a design with a camera does in an image, counted in its netlist among the models of its parts."""

import numpy as np
from amaranth import Shape
from amaranth.lib.wiring import In

from ...base.errors import MismatchError, UsageError
from ...link.chip import ChipState
from ...machine.kept import SlotMemory, SlotPlan
from ...reference import camera, inference
from ...rtl.camera.sensors import SENSORS
from .. import activity, netlist, simulator, virtual
from .device import STEP, SimulatedDevice

STARTS = "wrong flash", "starting", "keeping"
"""Signs before the first image."""
BOARD = """
module board ({ports});
    device_top top ({connections});
    // As in board.v: S: starts, W: waits, L: an image comes, or weights for the next one, C: computes.  A phase ends each line.
    reg [63:0] activity_cycle = 0, flash_edges = 0, flash_clocks = 0, flash_selected = 0, driven_edges = 0;
    reg [9:0] flash_still = 0;
    reg started = 0;
    reg seeing = 0;  // an image has begun, and has no class
    wire [7:0] activity_phase = !started ? "S" : top.accelerator.step != 0 ? "C" :
        top.camera.active || seeing || !flash_still[9] ? "L" : "W";
    reg [7:0] phase_before = "S";
    reg [2:0] driven_before = 0;
    wire [2:0] driven = {{xclk, sioc_low, siod_low}};
    always @(posedge clk) begin
        activity_cycle <= activity_cycle + 1;
        started <= started || !({starting});
        seeing <= top.camera.active || seeing && !taken;
        driven_before <= driven;
        driven_edges <= driven_edges + $countones(driven_before ^ driven);
        {flash}
    end
    always @(activity_phase) begin
        $display("activity %0d pins %s %0d %0d %0d %0d", activity_cycle, phase_before, flash_edges, flash_clocks, flash_selected,
            driven_edges);
        phase_before = activity_phase;
    end
endmodule
"""
FLASH = """
        flash_before <= {flash_select_n, flash_input};
        flash_edges <= flash_edges + $countones(flash_before ^ {flash_select_n, flash_input}) + 2 * flash_pulse;
        flash_clocks <= flash_clocks + flash_pulse;
        flash_still <= flash_pulse ? 0 : flash_still + !flash_still[9];
        flash_selected <= flash_selected + !flash_select_n;
    end
    reg [4:0] flash_before = 5'h1F;
    always @(posedge clk) begin"""


def board(top):
    """Verilog of a module `board` with the ports of a `DeviceTop`, which counts what its pins do."""
    members = top.signature.members
    ports = ["input wire clk", "input wire rst"] + [
        f"{'input' if member.flow == In else 'output'} wire [{Shape.cast(member.shape).width - 1}:0] {name}"
        for name, member in members.items()]
    starting = " || ".join(f"sign == {number}" for number, sign in enumerate(top.signs) if sign.name in STARTS)
    return BOARD.format(
        ports=", ".join(ports), connections=", ".join(f".{name}({name})" for name in ("clk", "rst", *members)),
        starting=f"rst || {starting}", flash=FLASH if "flash_pulse" in members else "flash_still <= 1 << 9;")


class CountedDevice(SimulatedDevice):
    """A simulated device whose top module is a netlist with counters.

    learner: reference `Learner` with what the flash slots hold, of a design with a keeper; or None.
    """

    module, options = "board", ("-DNO_ICE40_DEFAULT_ASSIGNMENTS",)

    def __init__(self, design, build, learner, note):
        super().__init__(design, note=note, build_dir=build)
        self.counted = []  # the words of the lines that the counters printed
        if learner is not None:
            path = self.build_dir / self.flash
            path.write_bytes(path.read_bytes().ljust(self.keep_base - virtual.OFFSET, b"\xff") + _slots(design, learner))
        verilog, self.flip_flops = activity.netlist_of(self._sources, self.build_dir, "device_top")
        share, _ = netlist._yosys()
        wrapper = simulator.write(self.build_dir / "device.v", board(self.top))
        self._sources = [wrapper, share / "ice40" / "cells_sim.v", verilog]

    def _line(self):
        while (line := super()._line()).startswith("activity"):
            self.counted.append(line.split())
        return line


def _slots(design, learner):
    """The rooms of a flash: the first slot has the learner's state, the others are erased, so that the keeper rests."""
    slot = SlotPlan(design.config.learning)
    memory = SlotMemory(slot)
    ChipState(design.config.learning, design.learner(), memory.peek, memory.poke).restore(learner.snapshot())
    rooms = [b"", memory.pack(*design.marks), b"\0", b"\0"]
    return b"".join(room.ljust(slot.room, b"\xff") for room in rooms)


def measure(design, images, build, progress, note):
    """`activity.measure` of a design with a camera: each image is seen by its sensor.

    A learner that begins with no class has been taught as many as it has room for, each by one image; its state lies in the flash.

    Raises UsageError for a learner that begins with no class and keeps none, MismatchError where an answer is not the reference's.
    """
    grey, plan, learner = SENSORS[design.config.camera].grey, design.config.learning, None
    if plan and plan.adds:
        if not design.config.keeps:
            raise UsageError(f"{design.folder}: its learner begins with no class, expected one made with --keep, so that the flash holds "
                             "some")
        taught = np.random.default_rng(1).integers(0, 256, (plan.max_classes, 3, 8, 8), np.uint8)
        learner = design.learner()
        learner.learn(inference.latents(design.network, camera.through(taught, grey)), list(range(plan.max_classes)))
    seen = camera.through(images, grey)
    expected = learner.logits(inference.latents(design.network, seen)) if learner else inference.logits(design.network, seen)
    with progress(total=2 + len(images), desc="synthesise, compile, simulate") as bar:
        device = CountedDevice(design, build, learner, note)
        bar.update()
        with device:
            bar.update()
            for number, image in enumerate(images):
                device.show(image)
                if number:
                    device.following()  # its frame may have begun before
                _check(design, number, device.following()[0], expected[number].tolist())
                bar.update()
            device.until(device.now + STEP)  # so that what it computes has ended
    start, waiting, first, (line, compute), _ = activity.stretches(activity.snapshots_of(device.counted))
    return activity.Activity(len(images), start, waiting, first, line, compute, None, 0, 0, 0, device.flip_flops)


def _check(design, number, logits, expected):
    """Raise MismatchError where the netlist's answer to an image differs from the reference's."""
    if logits != expected:
        raise MismatchError(f"{design.folder}: image {number}: the netlist's logits are {logits}, expected {expected}")
