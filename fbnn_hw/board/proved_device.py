"""A device that shows its LEDs alone against the reference: pictures before the lens, lessons by the buttons, and the flash's slots."""

from dataclasses import dataclass, field

import numpy as np

from ..base.errors import InputError
from ..base.progress import silent
from ..design import Design
from ..machine import device as signs
from ..reference import camera, inference
from ..simulate.device.chip import ChipDevice, lit
from ..simulate.device.device import PS
from . import slots

SIGNS = {sign.name: sign for sign in signs.SIGNS}
STEP_S = 2e-3
START_S = 0.1
"""Within which a device has its weights, and its sensor the registers."""
PRESS_S = 0.06
"""That a button is held or let go: more than a frame of either sensor."""
LESSON = 5
"""Images of a lesson at most, while the button is held so long."""
KEEP_S, LOAD_S = 10.0, 0.5
"""Within which what was learned is in the flash, and is loaded."""


@dataclass
class DeviceProof:
    """What was compared."""

    answers: list = field(default_factory=list)  # of each picture that was shown: its class, None for unknown
    lesson: int | None = None  # how many classes were taught, a picture each; None where the design does not learn
    learned: int = 0  # images in these lessons, by the slots
    snapshot: int | None = None  # bytes of the state that lay in the flash after the last lesson; None where none is kept
    differences: list = field(default_factory=list)  # a line each


class Prover:
    """Shows pictures to a device and compares what its LEDs say.

    `possible` are the learners that it may have: how many images of a lesson it learned is known where they are kept, and by answers.
    """

    def __init__(self, device: ChipDevice, design: Design, pictures: np.ndarray) -> None:
        self.device, self.design, self.pictures, self.proof = device, design, pictures, DeviceProof()
        through = camera.through(pictures, design.config.camera == "hm01b0")
        self.possible = [design.learner()] if design.config.learning else []
        self.latents = inference.latents(design.network, through) if self.possible else None
        self.answers = inference.classify(inference.logits(design.network, through)) if not self.possible else None
        self.seen_s = 2.1 * device.frame_s + 2 * design.estimate["cycles"] / device.clock_hz  # from a picture to its answer, at most
        self.leds: int | None = None

    def wait(self, seconds: float) -> None:
        """Go on for so long."""
        for one in self.device.until(self.device.now + round(seconds * PS)):
            self.leds = one.value

    def show(self, number: int) -> None:
        """Put a picture before the lens."""
        self.device.show(self.pictures[number])

    def press(self, *buttons: str) -> None:
        """Hold buttons, or none, for a while."""
        self.device.press(*buttons)
        self.wait(PRESS_S)

    def restart(self) -> None:
        """Cut the power, and restore it."""
        self.device.power(0)
        self.wait(STEP_S)
        self.device.power(1)

    def _answer(self, number, learner):
        """(answer of the reference to a picture, what the LEDs show then)."""
        if learner is None:
            answer = int(self.answers[number])
        else:
            own = self.latents[number:number + 1]
            answer = None if not learner.known or learner.unknown(own)[0] else int(learner.classify(own)[0])
        return answer, lit(SIGNS["unknown"]) if answer is None else lit(SIGNS["class"], answer)

    def answer(self, number: int, what: str, seconds: float = 0) -> None:
        """Wait until the picture before the lens must have its answer, and compare that.  seconds: more time.

        LEDs that begin to show what is expected and nothing else shows have answered at once.
        """
        expected = {id(learner): self._answer(number, learner) for learner in self.possible or [None]}
        wanted = {value for _, value in expected.values()} - {lit(SIGNS["waiting"]), self.leds}
        until = self.device.now + round((seconds + self.seen_s) * PS)
        while self.device.now < until and self.leds not in wanted:
            self.wait(STEP_S)
        found = [answer for answer, value in expected.values() if value == self.leds]
        if not found:
            shown = "nothing" if self.leds is None else f"{self.leds:07b}"
            texts = sorted({f"{value:07b}" for _, value in expected.values()})
            self.proof.differences.append(f"{what}: LEDs fault, ready, flag, number {shown}, expected {' or '.join(texts)}")
            return
        self.proof.answers.append(found[0])
        self.possible = [learner for learner in self.possible if expected[id(learner)][1] == self.leds]

    def teach(self, number: int, label: int) -> None:
        """Hold the button while a picture is before the lens, and compare what the flash then has."""
        before = self._kept() if self.design.config.keeps else None
        self.press("teach")
        self.press()
        after = {}
        for learner in self.possible:
            for count in range(1, LESSON + 1):
                learner.learn(self.latents[number:number + 1], [label])
                after[learner.snapshot()] = count, self.design.learner()
        for snapshot, (_, learner) in after.items():
            learner.restore(snapshot)
        self.possible = [learner for _, learner in after.values()]
        if not self.design.config.keeps:
            return
        until = self.device.now + round(KEEP_S * PS)
        while (kept := self._kept()) == before and self.device.now < until:
            self.wait(10 * STEP_S)
        if kept not in after:
            what = "nothing new" if kept == before else "another state than the reference's"
            self.proof.differences.append(f"lesson {label}: the flash has {what}")
            return
        count, learner = after[kept]
        self.possible = [learner]
        self.proof.learned += count
        self.proof.snapshot = len(kept)

    def _kept(self):
        """The snapshot in the newest slot; None where there is none."""
        try:
            return slots.unpack(self.device.room(), "the flash", self.design).snapshot
        except InputError:
            return None


def prove_device(device: ChipDevice, design: Design, pictures: np.ndarray, progress=silent) -> DeviceProof:
    """Compare a device that has just got its power with the reference.

    pictures: uint8 RGB (N, 3, H, W).  One that learns is then taught them by the buttons, as a class each and as many as it has room for,
    what it keeps is read from the flash, its power is cut, and the pictures come once more.  One that knows no class sees one picture
    before.
    """
    prover = Prover(device, design, pictures)
    learns = design.config.learning
    taught = min(len(pictures), learns.max_classes) if learns else 0
    before = 1 if prover.possible and not prover.possible[0].known else len(pictures)
    with progress(total=before + 2 * taught, desc="pictures") as bar:
        for number in range(before):
            prover.show(number)
            prover.answer(number, f"picture {number}", 0 if number else START_S)
            bar.update()
        for number in range(taught):
            prover.show(number)
            prover.press(*["choose"] * (number > 0))
            prover.press()
            prover.teach(number, number)
            bar.update()
        if taught and design.config.keeps:  # else LEDs would say for a while that all is kept
            prover.restart()
        for number in reversed(range(taught)):
            prover.show(number)
            prover.answer(number, f"picture {number} after the lessons", (START_S + LOAD_S) * (number == taught - 1))
            bar.update()
    prover.proof.lesson = taught if learns else None
    prover.proof.differences += [f"{what}, {count} times" for what, count in device.faults.items()]
    return prover.proof
