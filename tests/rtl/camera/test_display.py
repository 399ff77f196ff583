"""The display beside the model of an SSD1306: what it shows is drawn once more here, from the letters of the table alone."""

import os
import random

import numpy as np
import pytest
from amaranth.sim import Simulator

from fbnn_hw.machine import device
from fbnn_hw.rtl.camera import display
from fbnn_hw.rtl.camera.display import Display
from tests.device.parts import Ssd1306
from tests.quick import quick

SEED = int(os.environ.get("FBNN_SEED", random.randrange(1 << 30)))
SIGNS = device.of_design(device.SIGNS, {"", "learn", "forget", "keep"})
TICK = 60


def drawn(sign, number, score, digits=2):
    """The picture, (64, 128) of bool."""
    picture = np.zeros((64, 128), bool)

    def put(letter, top, left, scale):
        rows = np.array([[row >> x & 1 for x in range(8)] for row in display.FONT[letter]], bool)
        picture[top:top + 8 * scale, left:left + 8 * scale] = np.kron(rows, np.ones((scale, scale), bool))

    for line, text in enumerate(sign.name.split()):
        for at, letter in enumerate(text):
            put(letter, 16 * line, 16 * at, 2)
    if sign.name in ("class", "unknown"):
        picture[16:32, :2 * score] = True
    if sign.value:
        for at, digit in enumerate(str(number).rjust(digits), start=(4 - digits) // 2):
            put(digit, 32, 32 * at, 4)
    return picture


class Bench:
    """A display and its part, in an own simulation.  script: an async function of it, which awaits `clocks`."""

    def __init__(self, script, numbers=16, mhz=1.3, signs=SIGNS, **options):
        self.dut, self.part = Display(signs, numbers, mhz * 1e6), Ssd1306(SEED, **options)
        self.period, self.n, self.busy, self.tick = round(1e6 / mhz), 0, 0, True
        self.pulls = 0

        async def bench(ctx):
            self.ctx = ctx
            ctx.set(self.dut.free, 1)
            await script(self)

        simulator = Simulator(self.dut)
        simulator.add_clock(1e-6)
        simulator.add_testbench(bench)
        simulator.run()

    def show(self, sign, number=0, score=0, signs=SIGNS):
        number = number if sign.value else 0
        for name, value in (("sign", signs.index(sign)), ("number", number), ("score", score)):
            self.ctx.set(getattr(self.dut, name), value)

    async def clocks(self, count, until=None):
        """So many clocks, or until the wires have been at rest for two ticks."""
        quiet = 0
        for _ in range(count):
            self.n += 1
            ctx, dut = self.ctx, self.dut
            ctx.set(dut.tick, self.tick and self.n % TICK == 0)
            low = ctx.get(dut.clock_low), ctx.get(dut.data_low)
            self.pulls = self.part.at(self.n * self.period, scl=1 - low[0], sda=1 - low[1]).pulls
            ctx.set(dut.data, not (low[1] or self.pulls))
            await ctx.tick()
            quiet = 0 if any(low) else quiet + 1
            self.busy += any(low)
            if until and quiet > 2 * TICK:
                return
        assert not until, "it goes on"

    async def draws(self):
        before = self.busy
        await self.clocks(60_000, until=True)
        return self.busy > before


EVERY = [(sign, number, score) for sign in SIGNS for number, score in
         ([(n, 9 * n % 64) for n in range(16)] if sign.name == "class" else [(0, 0), (5, 63)] if sign.name == "unknown" else [(12, 40)])]


@pytest.mark.parametrize("part", quick(range(4), 0))
def test_each_sign_is_drawn(part):
    """With its word, its number and the score, without a fault by the data sheet; and nothing is sent twice."""
    async def script(bench):
        for sign, number, score in EVERY[part::4]:
            bench.show(sign, number, score)
            assert await bench.draws()
            assert (bench.part.picture() == drawn(sign, number, score)).all(), (sign.name, number, score)
            assert not await bench.draws()

    assert not Bench(script).part.faults


@pytest.mark.parametrize("numbers, shown", [(2, [1, 0]), (10, [9]), (100, [7, 40, 99]), (1000, [0, 305, 999]), (1024, [1023, 60])])
def test_numbers_of_all_lengths(numbers, shown):
    sign = SIGNS[-1]

    async def script(bench):
        for number in shown:
            bench.show(sign, number, 20)
            await bench.draws()
            assert (bench.part.picture() == drawn(sign, number, 20, len(str(numbers - 1)))).all(), number

    assert not Bench(script, numbers).part.faults


@pytest.mark.parametrize("mhz", [4, 36])
def test_the_wires_keep_the_times_of_the_data_sheet(mhz):
    """Up to the first bytes of a picture; a later change of the score of a sign without one is no change."""
    async def script(bench):
        bench.show(SIGNS[0])
        await bench.clocks(int(mhz * 3 * 9 * 70))
        assert bench.part["on"] and bench.part["pump"] and bench.part["mirrored"] and bench.part["flipped"]

    assert not Bench(script, mhz=mhz).part.faults


def test_a_change_within_a_picture():
    """The picture that is under way stays that of one sign; the next one is drawn behind it."""
    print("FBNN_SEED", SEED)
    source = random.Random(SEED)
    one, other = (SIGNS[-1], 3, 10), (source.choice(SIGNS[:-1]), 14, 50)

    async def script(bench):
        bench.show(*one)
        await bench.clocks(source.randrange(2 * TICK, 38_000))
        bench.show(*other)
        bench.tick = False  # so that the next picture does not begin
        await bench.draws()
        assert (bench.part.picture() == drawn(*one)).all()
        bench.tick = True
        await bench.draws()
        assert (bench.part.picture() == drawn(*other)).all()

    assert not Bench(script).part.faults


def test_a_display_that_comes_and_goes():
    """It is asked at each tick until it answers; where it goes amid a picture, all is sent again to the next one."""
    print("FBNN_SEED", SEED)
    source = random.Random(SEED)
    one, other = (SIGNS[-1], 11, 33), (SIGNS[-1], 9, 63)

    async def script(bench):
        bench.show(*one)
        await bench.clocks(20 * TICK)
        assert bench.busy > 0 and not bench.part["on"]
        bench.part["absent"] = 0
        await bench.draws()
        assert (bench.part.picture() == drawn(*one)).all()
        bench.show(*other)
        await bench.clocks(TICK + source.randrange(200, 38_000))
        bench.part.power(bench.n * bench.period, False)
        before = bench.busy
        await bench.clocks(10 * TICK)
        bench.part.power(bench.n * bench.period, True)
        assert bench.busy > before
        await bench.draws()
        assert (bench.part.picture() == drawn(*other)).all()

    Bench(script, absent=1)


def test_the_wires_of_others():
    """Nothing is sent before they are free."""
    async def script(bench):
        bench.ctx.set(bench.dut.free, 0)
        bench.show(SIGNS[-1], 2, 2)
        await bench.clocks(5 * TICK)
        assert not bench.busy
        bench.ctx.set(bench.dut.free, 1)
        assert await bench.draws()

    Bench(script)


def test_the_memory():
    """Each word has its two lines, each letter is there, and the commands end with the memory."""
    held = display.contents(SIGNS)
    assert len(held) == 512 and list(display.FONT)[display.BLANK] == " " and list(display.FONT)[:10] == list("0123456789")
    assert len(display.commands()) <= 64 and bytes(held[-len(display.commands()):]) == display.commands()
    assert all(len(line) <= display.LETTERS for sign in device.SIGNS for line in sign.name.split(" ")) and len(display.FONT) <= 32
    assert all(len(sign.name.split(" ")) == 1 for sign in SIGNS if sign.name in display.SCORED)
    assert 256 + 16 * len(device.SIGNS) <= 512 - 64
