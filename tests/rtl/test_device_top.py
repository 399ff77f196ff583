"""The device's machine and signs beside their tables, `machine.device`, with camera, accelerator and keeper driven at random."""

import os
import random
from pathlib import Path
from types import SimpleNamespace

import pytest
from amaranth.hdl import Elaboratable, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from fbnn_hw.base.errors import UsageError
from fbnn_hw.machine import device
from fbnn_hw.machine.protocol import Command, Space
from fbnn_hw.rtl import device_top
from fbnn_hw.rtl.camera.panel import FAST_BIT, SLOW_BIT, SensorClock, tick_bits
from fbnn_hw.rtl.camera.sensors import HM01B0, OV7670
from fbnn_hw.rtl.learning.learner import command_layout, host_layout
from tests.quick import quick

SEED = int(os.environ.get("FBNN_SEED", random.randrange(1 << 30)))
CLOCKS = 16000
CONDITIONS = {
    "ready": "the weights are there, the learner rests, what was kept is loaded, and the sensor has its registers",
    "image": "an image has begun",
    "wish": "a lesson has ended, or forget or undo was pressed",
    "undo": "undo was pressed",
    "forget": "forget was pressed, and the chosen class is known",
    "taught": "an image was learned, and teach is let go",
    "nothing": "none of these",
    "torn": "a class has come, and its image was torn",
    "lesson": "a class has come, and teach is held",
    "answer": "a class has come",
    "taken": "the learner has taken the command",
    "rests": "the learner rests",
    "last": "the class is marked as forgotten, and it was the last one",
    "marked": "the class is marked as forgotten",
    "fewer": "the number of classes is written",
    "kept": "all is kept",
    "restored": "what was kept before is loaded",
    "called": "a computer asks for something",
    "changed": "the link is silent, and the learner is not as it was",
    "silent": "the link has been silent for a second",
}
"""{condition: when it holds}"""
HELD = {"HOLD", "LEARN", "FORGET", "SHRINK"}
"""States in which a choice holds."""


class Stand(Elaboratable):
    """Stands for a component: signals alone."""

    def __init__(self, **widths):
        for name, width in widths.items():
            setattr(self, name, Signal(width, name=name))

    def elaborate(self, platform):
        return Module()


class Keeper(wiring.Component):
    def __init__(self, plan):
        super().__init__({
            "save": In(1), "undo": In(1), "busy": Out(1), "wants": Out(1), "ready": Out(1), "failed": Out(1), "may_erase": In(1),
            "host": Out(stream.Signature(host_layout(plan, 14))), "host_reply": In(16)})

    def elaborate(self, platform):
        return Module()


class Bench(device_top.DeviceTop):
    """A device whose surroundings the test drives."""

    def __init__(self, learns, forgets, keeps):
        plan = SimpleNamespace(max_classes=5, pixels=4, host_bits=16, forget=forgets, adds=True) if learns else None
        config = SimpleNamespace(
            camera="ov7670", display="", size=32, learning=plan, id="00112233", weights="memory", way="memory", loads=False,
            result_classes=5, score_bits=9, result_bits=3 + learns)
        super().__init__(config, clock_hz=36e6, keep_base=0 if keeps else None)
        self.tick_bits = 0  # each clock is a tick
        self.camera = Stand(pclk=1, href=1, vsync=1, data=8, tick=1, skip=1, active=1, torn=1, absent=1)
        self.sccb = Stand(tick=1, clock_low=1, data_low=1, done=1)

    def _keeper(self, config, *others):
        return Keeper(config.learning)

    def _accelerator(self, m, s):
        self.s = s
        names = {"result_valid": 1, "take": 1, "busy": 1, "loaded": 1, "wrong": 1, "command_valid": 1, "command_ready": 1, "host_valid": 1,
                 "host_ready": 1, "refused": 1}
        for name, width in names.items():
            setattr(s, name, Signal(width, name=name))
        s.result, s.known, s.found = Signal(self.config.result_bits), Signal(range(6)), Signal(16)
        if plan := self.config.learning:
            s.command, s.host = Signal(command_layout(plan)), Signal(host_layout(plan, 14))


def conditions(dut, get):
    """{condition: whether it holds}, from the definitions in `CONDITIONS`."""
    s, camera = dut.s, dut.camera
    valid = get(s.result_valid)
    keeping = get(dut.keeper.busy) or not get(dut.keeper.ready) if dut.keeper else 0
    held = {"ready": get(s.loaded) and not get(s.busy) and not keeping and get(dut.sccb.done), "image": get(camera.active), "nothing": 1,
            "torn": valid and get(camera.torn), "answer": valid, "rests": not get(s.busy)}
    if dut.config.learning:
        teach = get(dut.panel.held) & 1
        asks = {name: get(signal) for name, signal in s.asks.items()}
        last = get(dut.choice) + 1 == get(s.known)
        held |= {"taught": get(s.learned) and not teach, "undo": asks.get("undo"), "lesson": valid and teach,
                 "forget": asks.get("forget") and get(dut.choice) < get(s.known), "taken": get(s.command_ready),
                 "last": get(s.host_ready) and last, "marked": get(s.host_ready), "fewer": get(s.host_ready),
                 "kept": not dut.keeper or not get(s.saves) and not get(dut.keeper.busy),
                 "restored": dut.keeper and not get(s.undoes) and not get(dut.keeper.busy)}
        held["wish"] = held["taught"] or any(asks.values())
    return held


def expected_sign(dut, get, state):
    """The first sign whose condition holds."""
    s = dut.s
    holds = {"wrong flash": get(s.wrong), "starting": state == "START",
             "keeping": dut.keeper and (get(dut.keeper.busy) or not get(dut.keeper.ready)),
             "no camera": get(dut.camera.absent), "waiting": not get(s.answered), "unknown": get(s.unknown), "class": 1}
    if dut.config.learning:
        holds |= {"full": get(s.full), "learning": get(dut.panel.held) & 1, "choosing": get(s.choosing), "kept": get(s.shows_kept),
                  "not kept": dut.keeper and get(dut.keeper.failed)}
    return next(number for number, sign in enumerate(dut.signs) if holds[sign.name])


def lit(sign, value, beat):
    level = {"off": 0, "on": 1, "slow": beat >> SLOW_BIT & 1, "fast": beat >> FAST_BIT & 1}
    return value * level[sign.number] & 15, *(level[getattr(sign, led)] for led in ("flag", "ready", "fault"))


@pytest.mark.parametrize("has", quick(["", "learn", "learn forget", "learn forget keep"], "", "learn forget keep"))
def test_the_machine_is_its_table(has):
    print("FBNN_SEED", SEED)
    source = random.Random(f"{SEED} {has}")
    dut = Bench("learn" in has, "forget" in has, "keep" in has)
    visited, signs = set(), set()

    def missing():
        # What needs an image, or the press of a button, in one clock may not have come.
        steps = {(step.state, step.condition) for step in dut.steps} - visited - {("HOLD", "image"), ("HOLD", "nothing")}
        return steps | {sign.name for sign in dut.signs} - signs

    async def bench(ctx):
        get, state, new, held = ctx.get, "START", True, 0
        for clock in range(4 * CLOCKS):
            if clock >= CLOCKS and not missing():
                break
            s = dut.s
            drive(ctx, dut, source, clock, state, new)
            if source.random() < 0.02:  # in the second half of each time they rest, until nothing that they did is shown any more
                held = source.randrange(1 << len(dut.buttons)) if clock % 8000 < 4000 and source.random() < 0.6 else 0
                ctx.set(dut.pressed, held)
            ones = [name for name in dict.fromkeys(step.state for step in dut.steps) if get(s.on(name))]
            assert ones == [state], (clock, ones, state)
            found = conditions(dut, get)
            step = next((step for step in dut.steps if step.state == state and found[step.condition]), None)
            sign = expected_sign(dut, get, state)
            assert get(dut.sign) == sign, (clock, dut.signs[get(dut.sign)].name, dut.signs[sign].name)
            assert get(dut.camera.skip) == (state != "LOOK") and get(s.take) == (state == "SEE")
            if dut.config.learning:
                orders(dut, get, state, new)
            value = get(dut.choice if dut.signs[sign].value == "choice" else dut.answer)
            after = lit(dut.signs[sign], value, get(dut.panel.beat))
            answer = get(s.result) & 7 if state == "SEE" and step and step.condition != "torn" else None
            choice = get(dut.choice)
            await ctx.tick()
            assert (get(dut.number), get(dut.flag), get(dut.ready), get(dut.fault)) == after, clock
            assert state not in HELD or get(dut.choice) == choice
            if answer is not None:
                assert get(s.answered) and get(dut.answer) == answer
            elif get(dut.camera.absent):
                assert not get(s.answered)
            new = step is not None
            visited.add((state, step.condition) if step else (state, ""))
            signs.add(dut.signs[sign].name)
            state = step.then if step else state

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert not missing()


def drive(ctx, dut, source, clock, state, new):
    """Levels of all that surrounds the device, some of them rare."""
    s = dut.s
    calm = clock % 500 < 100
    ctx.set(s.loaded, clock > 20)
    ctx.set(dut.sccb.done, clock > 30)
    ctx.set(s.wrong, CLOCKS // 2 < clock < CLOCKS // 2 + 20)
    ctx.set(s.busy, source.random() < 0.3)
    ctx.set(s.result_valid, source.random() < 0.3)
    ctx.set(s.result, source.randrange(5) | (source.random() < 0.3) << 3 if dut.config.learning else source.randrange(5))
    ctx.set(dut.camera.active, not calm and source.random() < 0.2)
    ctx.set(dut.camera.torn, source.random() < 0.2)
    ctx.set(dut.camera.absent, clock % 1000 > 960)
    if dut.config.learning:
        if state not in HELD:  # the learner rests then
            ctx.set(s.known, clock // 50 % 6)
        ctx.set(s.refused, clock % 700 > 500)
        ctx.set(s.command_ready, source.random() < 0.3)
        ctx.set(s.host_ready, source.random() < 0.3)
    if dut.keeper:
        ctx.set(dut.keeper.busy, clock % 400 < 30 or state in ("KEEP", "UNDO") and not new and source.random() < 0.9)
        ctx.set(dut.keeper.wants, ctx.get(dut.keeper.busy) or source.random() < 0.2)
        ctx.set(dut.keeper.ready, clock > 15)
        ctx.set(dut.keeper.failed, clock % 3000 > 2900)


def orders(dut, get, state, new):
    """What learner and keeper are told in a state."""
    s = dut.s
    wants = dut.keeper and get(dut.keeper.wants)
    assert get(s.command_valid) == (state == "LEARN")
    assert get(s.command.command) == Command.LEARN and get(s.command.label) == get(dut.choice) & 7
    assert get(s.saves) == (state == "KEEP" and new) and get(s.undoes) == (state == "UNDO" and new)
    if dut.keeper:
        assert get(dut.keeper.save) == get(s.saves) and get(dut.keeper.undo) == get(s.undoes)
        assert get(dut.keeper.may_erase) == (state == "LOOK")
    assert get(s.host_valid) == (state in ("FORGET", "SHRINK") and not wants)
    if state in ("FORGET", "SHRINK"):
        assert get(s.host.write)
        last = get(dut.choice) + 1 == get(s.known)
        shrinks = state == "SHRINK"
        found = get(s.host.space), get(s.host.address), get(s.host.data)
        assert found == ((Space.SCALARS, 0, get(dut.choice)) if shrinks else (Space.PRESENTED, get(dut.choice), 0 if last else 0x8000))


def test_tables_belong_together():
    states = {step.state for step in device.STEPS}
    assert {step.then for step in device.STEPS} == states - {"START"}
    assert {step.condition for step in device.STEPS} == set(CONDITIONS)
    assert {sign.value for sign in device.SIGNS} == {"", "answer", "choice"} and device.SIGNS[-1].name == "class"
    shown = {(sign.number, sign.value, sign.flag, sign.ready, sign.fault) for sign in device.SIGNS}
    assert len(shown) == len(device.SIGNS), "each sign looks otherwise"


def test_the_pages_have_the_tables():
    page, inside = ((Path(__file__).parents[2] / "docs" / name).read_text(encoding="utf-8") for name in ("device.md", "device-hardware.md"))
    for sign in device.SIGNS:
        number = "off" if not sign.value else sign.value if sign.number == "on" else f"{sign.value}, {sign.number}"
        assert f"| {sign.name} | {number} | {sign.flag} | {sign.ready} | {sign.fault} | {sign.meaning} |\n" in page
    for step in device.STEPS:
        assert f"| {step.state} | {step.condition}: {CONDITIONS[step.condition]} | {step.then} |\n" in inside


@pytest.mark.parametrize("mhz, divisor", [(30, 3), (33, 3), (36, 3), (48, 4), (60, 5)])
def test_the_clock_of_a_sensor(mhz, divisor):
    clock = SensorClock(OV7670, mhz * 1e6)
    assert clock.divisor == divisor
    levels = []

    async def bench(ctx):
        for _ in range(60):
            await ctx.tick()
            levels.append(ctx.get(clock.xclk))
            await ctx.delay(0.5e-6)  # the other half of the clock
            levels.append(ctx.get(clock.xclk))

    simulator = Simulator(clock)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    levels = levels[20:]
    rises = [n for n in range(1, len(levels)) if levels[n] > levels[n - 1]]
    assert {b - a for a, b in zip(rises, rises[1:])} == {2 * divisor}
    assert sum(levels[rises[0]:rises[-1]]) * 2 == rises[-1] - rises[0]  # high for half of the time


@pytest.mark.parametrize("camera, clock_hz, cycles, rate", [
    ("ov7670", 36e6, 175_233, 30.01), ("ov7670", 33e6, 175_233, 27.51), ("ov7670", 36e6, 1_000_000, 15.01),
    ("hm01b0", 36e6, 175_233, 61.37)])
def test_frames_that_get_an_answer(camera, clock_hz, cycles, rate):
    """All of them where the accelerator is done when the next window begins, else each second one."""
    assert device_top.frames_per_second(camera, clock_hz, cycles) == pytest.approx(rate, abs=0.01)


def test_clocks_that_no_sensor_takes():
    with pytest.raises(UsageError, match="gets 9.75 MHz of a clock of 39 MHz, expected from 10 to 12; choose a --clock from 40 to 48"):
        SensorClock(OV7670, 39e6)
    assert SensorClock(HM01B0, 36e6).divisor == 3 and 1e-3 <= 2 ** tick_bits(36e6) / 36e6 < 2e-3
