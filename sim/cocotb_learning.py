"""cocotb: whole incremental sequences on each learner of learning.py, against the reference.

LEARNING_CASES: names.  LEARNING_STEPS: commands of a run, instead of the case's.  LEARNING_SEED.
"""

import json
import os
import traceback
from pathlib import Path

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.task import bridge, resume
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly, RisingEdge, with_timeout
from cocotb.utils import get_sim_time

from fbnn_hw.link.chip import ChipState
from fbnn_hw.machine.learner_memory import boot_rows
from fbnn_hw.machine.protocol import Command, Space
from sim.learning import CASES
from tests import chip_words

ASKED = 3
"""Cycles that LearningBoard and the bench add to a command."""

LONGEST = 20_000_000
"""Nanoseconds, of ten a clock, after which a command is given up."""


class Chip:
    """One learner of the bundle."""

    def __init__(self, dut, name):
        self.dut, self.name = dut, name

    def port(self, name):
        return getattr(self.dut, f"{self.name}__{name}")

    def get(self, name):
        return int(self.port(name).value)

    async def reset(self):
        for name in ("command__valid", "host__valid", "logits__ready", "stall"):
            self.port(name).value = 0
        self.port("cut").value = 1
        await ClockCycles(self.dut.clk, 2)
        self.port("cut").value = 0
        await self.rest()

    async def rest(self):
        """Until nothing is under way."""
        await ReadOnly()
        if self.get("busy"):
            await with_timeout(FallingEdge(self.port("busy")), LONGEST, "ns")
        await RisingEdge(self.dut.clk)

    async def command(self, what, label=0, count=0, wait=True):
        payload = self.port("command__payload")
        payload.value = what | label << 3 | count << 3 + CASES[self.name].config.max_classes.bit_length()
        self.port("command__valid").value = 1
        await RisingEdge(self.dut.clk)
        self.port("command__valid").value = 0
        if wait:
            await self.rest()

    async def host(self, write, space, address, data=0):
        """One access."""
        bits = len(self.port("host__payload"))
        data_bits = len(self.port("host_reply"))
        self.port("host__payload").value = write | space << 1 | address << 4 | data << bits - data_bits
        self.port("host__valid").value = 1
        await RisingEdge(self.dut.clk)
        self.port("host__valid").value = 0
        await RisingEdge(self.port("host__ready"))
        await RisingEdge(self.dut.clk)
        return self.get("host_reply")

    async def classify(self):
        """(logits, class)."""
        self.port("logits__ready").value = 0
        await self.command(Command.CLASSIFY, wait=False)
        found = []
        await ReadOnly()
        while self.get("busy"):
            if self.get("logits__valid"):
                word = self.get("logits__payload")
                bits = len(self.port("logits__payload")) - 1
                value = word & (1 << bits) - 1
                found.append(value - (value >> bits - 1 << bits))
                last = word >> bits
                await RisingEdge(self.dut.clk)
                await ClockCycles(self.dut.clk, len(found) % 3)
                self.port("logits__ready").value = 1
                await RisingEdge(self.dut.clk)
                self.port("logits__ready").value = 0
                await RisingEdge(self.dut.clk)
                await ReadOnly()
                continue
            await RisingEdge(self.dut.clk)
            await ReadOnly()
        best = self.get("best")
        await RisingEdge(self.dut.clk)
        assert not found or last
        return found, best


class Access:
    """peek and poke of `ChipState` as coroutines."""

    def __init__(self, chip):
        self.chip = chip

    async def peek(self, space, address, count):
        step = space not in (Space.NOISE, Space.MASK, Space.PICK)
        return [await self.chip.host(0, space, address + n * step) for n in range(count)]

    async def poke(self, space, address, words):
        step = space not in (Space.NOISE, Space.MASK, Space.PICK)
        for n, word in enumerate(words):
            await self.chip.host(1, space, address + n * step, int(word))


def state_of(plan, learner, chip):
    """A `ChipState` whose accesses run in the simulation."""
    access = Access(chip)
    return ChipState(plan, learner, resume(access.peek), resume(access.poke))


class Run:
    """Random commands for the chip and its twin, and the comparison of their states."""

    def __init__(self, chip, case, source):
        self.chip, self.case, self.source = chip, case, source
        self.learner, self.plan = case.learner(), case.plan()
        self.state = state_of(self.plan, self.learner, chip)
        self.centres = source.integers(0, 2, (case.config.max_classes, case.head.latent), dtype=np.uint8)

    async def begin(self, stall=0):
        await self.chip.reset()
        self.learner.reset()
        self.chip.port("stall").value = self.stall = stall
        if self.plan.boot == "rows":
            rows = boot_rows(self.state.plan, self.state.learner)
            for at, row in enumerate(rows):
                words = [row >> q * self.plan.lanes & (1 << self.plan.lanes) - 1 for q in range(self.plan.pixels)]
                await Access(self.chip).poke(Space.BANKS, (self.plan.learn_base + at) * self.plan.pixels, words)

    async def offer(self, latent):
        """The sample's words to bank 0, where the engine leaves them."""
        bits = self.learner.sample_bits(latent[None])[0]
        for number, word in enumerate(np.packbits(bits.reshape(-1, self.plan.lanes), axis=1, bitorder="little")):
            row = self.plan.latent_base + number
            await self.chip.host(1, Space.BANKS, row * self.plan.pixels, int.from_bytes(word.tobytes(), "little"))

    def sample(self):
        """(latent, label): a class known or the next one."""
        learner = self.learner
        new = learner.known == 0 or self.source.random() < 0.1
        top = min(learner.known - 1 + new, self.case.config.max_classes - 1)
        label = int(self.source.integers(0, top + 1))
        if self.source.random() < self.case.grows:
            label = min(learner.known, self.case.config.max_classes - 1)
        flips = self.source.random(self.case.head.latent) < self.case.noise
        return (self.centres[label] ^ flips).astype(np.uint8), label

    async def step(self):
        latent, label = self.sample()
        learner, chip = self.learner, self.chip
        what = self.source.choice(["learn", "learn", "learn", "learn", "store", "rehearse", "classify", "illegal", "freeze",
                                   *["classify", "forget"] * self.plan.forget])
        living = [c for c in range(learner.known) if c not in learner.forgotten]
        if what == "forget":
            if len(living) > 1:
                learner.forget(int(self.source.choice(living)))
                await bridge(self.state.write)(learner.state)
        elif what == "classify":
            await self.offer(latent)
            logits, best = await chip.classify()
            expected = learner.logits(latent[None])[0].tolist()
            assert logits == expected, f"logits {logits}, expected {expected}"
            assert not expected or best == learner.classify(latent[None])[0]
            assert not self.plan.unknown or chip.get("unknown") == learner.unknown(latent[None])[0]
        elif what == "rehearse":
            count = int(self.source.integers(0, 5))
            await chip.command(Command.REHEARSE, 0, count)
            learner.rehearse(count)
        elif what == "illegal":
            known = learner.known
            await self.offer(latent)
            await chip.command(Command.LEARN, known + (known < self.case.config.max_classes))
            assert chip.get("refused")
            await chip.command(Command.STORE, known)
            assert chip.get("refused")
        elif what == "freeze":
            await chip.command(Command.FREEZE, 0, 1)
            await self.offer(latent)
            for command in (Command.LEARN, Command.STORE, Command.REHEARSE):
                await chip.command(command, 0, 3)
                assert chip.get("refused") and chip.get("frozen")
            await chip.command(Command.FREEZE, 0, 0)
        elif what == "store" and (self.plan.adds or label in learner.forgotten):
            await self.offer(latent)
            await chip.command(Command.STORE, label)
            assert chip.get("refused")
        elif what == "learn" or label < learner.known:
            await self.offer(latent)
            begin = get_sim_time("ns")
            await chip.command(Command.LEARN if what == "learn" else Command.STORE, label)
            cycles = round((get_sim_time("ns") - begin) / 10)
            assert not chip.get("refused"), f"{what} {label}: refused, {chip.get('class_count')} classes known"
            expected = self.learn_cycles(latent, label) if what == "learn" else learner.store(latent[None], [label])
            assert self.stall or expected is None or cycles == expected, f"{cycles} cycles, expected {expected}"

    def learn_cycles(self, latent, label):
        """Have the twin learn; cycles of the chip where the plan tells them: no prototype presentations, no counts halved."""
        learner, plan = self.learner, self.plan
        new = label not in range(learner.known) or label in learner.forgotten
        full, replays = learner.buffer.used == plan.slots, plan.replays * bool(learner.buffer.used)
        updates, presented, pick = learner.updates, 0 if new else sum(learner.presented), learner.buffer.pick
        taken = pick.taken
        learner.learn(latent[None], [label])
        if plan.prototype or not plan.averages and sum(learner.presented) != presented + 1 + replays:
            return None
        return ASKED + plan.learn_cycles(
            learner.known, replays, learner.updates - updates, (pick.taken - taken) // plan.slot_bits, full, new)

    async def compare(self):
        await compare(self.chip, self.learner, self.plan)


async def compare(chip, learner, plan):
    """Every counter, mirrored weight, slot, label, count and register of a chip and of its twin."""
    state = state_of(plan, learner, chip)
    found = await bridge(state.read)()
    expected = learner.state
    for name in ("design", "known", "frozen", "registers", "presented", "left", "labels", "limits", "forgotten"):
        assert getattr(found, name) == getattr(expected, name), f"{name}: {getattr(found, name)}, expected {getattr(expected, name)}"
    assert np.array_equal(found.latents, expected.latents), "exemplars differ"
    assert np.array_equal(found.output, expected.output), "counters differ"
    counts = await Access(chip).peek(Space.COUNTS, 0, plan.max_classes)
    assert plan.unknown or counts == learner.buffer.counts, f"counts {counts}, expected {learner.buffer.counts}"
    hidden = learner.sample_bits(expected.latents)
    for slot in range(min(3, len(found.labels))):
        assert np.array_equal(await bridge(chip_words.slot)(state, slot), hidden[slot])
    for label in range(learner.known):
        mirror, counters = await bridge(state.read_mirror)(label), found.output[label]
        assert np.array_equal(mirror[0], counters >= 0), f"mirror of class {label} is not the counters' sign"
        if plan.planes > 1:
            top = learner.presented[label] // 2 if plan.rule == "nearest-mean" else 3 * 2 ** plan.counter_bits // 8
            strong = (counters >= top) | (counters < -top)
            last = ~strong
            if plan.rule == "nearest-mean":  # of the strong weights the first, the third and so on are 1
                last[np.flatnonzero(strong)[::2]] = True
            assert np.array_equal(mirror[1:], (counters >= top, counters >= -top, last)), f"mirror of class {label} is not its counters'"
    assert found.pack() == learner.snapshot()


async def sequence(dut, number, name):
    """From a reset to a comparison of everything; twice, without pauses, then with them and a reset in the middle of an update."""
    case = CASES[name]
    source = np.random.default_rng(number + int(os.environ.get("LEARNING_SEED", 0)))
    steps = int(os.environ.get("LEARNING_STEPS", case.steps))
    run = Run(Chip(dut, name), case, source)
    for stall in (0, 9):
        await run.begin(stall)
        if stall:
            for _ in range(5):
                await run.step()
            await run.offer(run.sample()[0])
            await run.chip.command(Command.LEARN, 0, 0, wait=False)
            await ClockCycles(dut.clk, int(source.integers(1, 1000)))
            await run.begin(stall)
            await run.compare()
        for _ in range(steps):
            await run.step()
        assert not case.grows or run.learner.known == case.config.max_classes
        await run.compare()
    # A snapshot, other things learned, the snapshot again: as if they had not been.
    kept = run.learner.snapshot()
    for _ in range(3):
        await run.step()
    await bridge(run.state.restore)(kept)
    run.learner.restore(kept)
    for _ in range(5):
        await run.step()
    await run.compare()
    dut._log.info("%s: %d presentations, %d updates", name, run.learner.presentations, run.learner.updates)


@cocotb.test()
async def sequences(dut):
    """All learners side by side; learning.json: {name: what went wrong, or ""}."""
    Clock(dut.clk, 10, "ns").start()
    names = os.environ.get("LEARNING_CASES", ",".join(CASES)).split(",")
    found = {}

    async def watched(name):
        try:
            await sequence(dut, list(CASES).index(name), name)
            found[name] = ""
        except Exception:
            found[name] = traceback.format_exc()

    dut.rst.value = 1
    await ClockCycles(dut.clk, 2)
    dut.rst.value = 0
    for task in [cocotb.start_soon(watched(name)) for name in names]:
        await task
    Path("learning.json").write_text(json.dumps(found))
    assert not any(found.values()), "\n".join(found.values())
