"""Power cuts of a whole device at the flash's own times: camera, buttons, learner, keeper and flash.

    python -m tests.device.cuts 50 1        cuts, seed

Each round boots the device, teaches a class by the button, and cuts the power at a random time of the lesson, of the save or of the
erasure that follows.  The slots must then hold the state that was kept, or one more lesson of the picture that was before the lens.
After the next boot the first image must have the logits of that state.
"""

import random
import sys
import tempfile
from collections import Counter

import numpy as np

from fbnn_hw import design
from fbnn_hw.ir import shipped
from fbnn_hw.link.chip import ChipState
from fbnn_hw.machine import protocol
from fbnn_hw.machine.kept import SlotMemory, SlotPlan, newest
from fbnn_hw.reference import camera, inference
from fbnn_hw.simulate.device.device import PS, SimulatedDevice

MS = PS // 1000
CLASSES = 3
LESSON = 4
"""Images of a lesson at most: the button is held for less than three frames."""


def made(out):
    """tiny.pt that learns and keeps three classes, with an OV7670."""
    return design.generate(shipped.load("tiny.pt"), "ice40", out=out, learn="nearest-mean", max_classes=CLASSES, unknown=True,
                           forget=True, keep=True, camera="ov7670", weights="flash", outputs=4)


def pictures(count):
    """uint8 (count, 3, 128, 128)"""
    shades = np.random.default_rng(1).integers(0, 256, (count, 3, 8, 8), np.uint8)
    return shades.repeat(16, 2).repeat(16, 3)


class Rounds:
    """Rounds of a device, and what it must know."""

    def __init__(self, device, design, seed):
        self.device, self.design, self.random = device, design, random.Random(seed)
        self.slot = SlotPlan(design.config.learning)
        self.marks = protocol.config_mark(design.config.id), protocol.model_mark((design.folder / "network.json").read_bytes())
        self.pictures = pictures(CLASSES)
        self.latents = inference.latents(design.network, camera.through(self.pictures, False))
        self.known = None  # the snapshot that is kept

    def learner(self, snapshot):
        learner = self.design.learner()
        if snapshot is not None:
            learner.restore(snapshot)
        return learner

    def kept(self):
        """The snapshot that a boot loads, None where there is none."""
        slots = self.device.slots()
        best = newest(self.slot, slots, *self.marks)
        if best is None:
            return None
        memory, _ = SlotMemory.unpack(self.slot, slots[best], *self.marks)
        return ChipState(self.design.config.learning, self.design.learner(), memory.peek, memory.poke).snapshot()

    def wait(self, ms):
        return self.device.until(self.device.now + round(ms * MS))

    def boot(self):
        """Boot, and compare the logits of the first image with those of what must be known."""
        device, before = self.device, len(self.device.images)
        number = self.random.randrange(CLASSES)
        device.show(self.pictures[number])
        device.power(1)
        for _ in range(20):
            self.wait(10)
            if len(device.images) > before:
                break
        learner = self.learner(self.known)
        expected = learner.logits(self.latents[number:number + 1])[0].tolist() if learner.known else []
        assert device.images[before][2][:learner.known] == expected, (device.images[before], expected)

    def cut(self):
        """A boot, a lesson and a cut -> what was cut."""
        device, random = self.device, self.random
        self.boot()
        known, choice = self.learner(self.known).known, 0
        while random.random() < 0.5 and choice < min(known, CLASSES - 1):
            device.press("choose")
            self.wait(20)
            device.press()
            self.wait(20)
            choice += 1
        device.show(self.pictures[choice])
        self.wait(35)  # the image that began before
        device.press("teach")
        held = random.uniform(20, 75)
        after = random.uniform(0, 200)
        seen = self.wait(min(held, after))
        device.press()
        seen += self.wait(max(0, after - held))
        device.power(0)
        possible, learner = {self.known: "kept before"}, self.learner(self.known)
        for count in range(LESSON):
            learner.learn(self.latents[choice:choice + 1], [choice])
            possible[learner.snapshot()] = f"{count + 1} images more"
        found = self.kept()
        assert found in possible, (choice, held, after, [one.sign for one in seen])
        assert not device.faults, device.faults
        if any(one.sign == "kept" for one in seen):
            assert found != self.known, "what the LEDs called kept was lost"
        self.known = found
        return seen[-1].sign if seen else "class"


def cuts(count, seed, out, note=print):
    """So many cuts -> Counter of the sign that was shown when the power went."""
    made_design, found = made(out), Counter()
    with SimulatedDevice(made_design, seed=seed, note=note) as device:
        rounds = Rounds(device, made_design, seed)
        device.power(0)
        for number in range(count):
            try:
                found[rounds.cut()] += 1
            except AssertionError as error:
                raise AssertionError(f"cut {number} of seed {seed}: {error}") from None
        rounds.boot()
        note(f"{count} cuts, seed {seed}, {device.now / PS:.2f} s of the device: {dict(found)}; no state lost, none invented")
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        cuts(int(sys.argv[1]), int(sys.argv[2]), folder)
