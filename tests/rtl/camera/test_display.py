"""The display beside the model of an SSD1306: what it shows is drawn once more here, from the letters of the table alone."""

import os
import random
import subprocess
from pathlib import Path

import numpy as np
import pytest

from fbnn_hw.machine import device
from fbnn_hw.rtl.camera import display
from fbnn_hw.rtl.camera.display import Display
from fbnn_hw.rtl.verilog import convert
from fbnn_hw.simulate import simulator
from fbnn_hw.simulate.device.device import SOURCES
from tests.device.drawing import drawn
from tests.quick import quick

SEED = int(os.environ.get("FBNN_SEED", random.randrange(1 << 30)))
SIGNS = device.of_design(device.SIGNS, {"", "learn", "forget", "keep"})
TICK = 60
"""Clocks, far shorter than a picture."""


def build(folder, numbers=16, mhz=1.3):
    """The program of a display with its part, display.cpp."""
    folder.mkdir(parents=True, exist_ok=True)
    source, own, program = folder / "display.v", Path(__file__).with_name("display.cpp"), simulator.executable("display")
    source.write_text(convert(Display(SIGNS, numbers, mhz * 1e6), "display"))
    command = [*simulator.translation("display", folder), "--exe", "-o", program, "-CFLAGS", f"-I{SOURCES.absolute()}",
               str(source), str(own)]
    simulator.compiled(command, [path.read_text() for path in (source, own, SOURCES / "panel.h", SOURCES / "part.h")], folder, program,
                       "the display's bench", "-O1")
    return folder / program, mhz


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return build(tmp_path_factory.mktemp("display"))


class Bench:
    """A display and its part.  busy: clocks in which a wire was low so far.  tick: clocks of a tick."""

    def __init__(self, built, tick=TICK):
        path, mhz = built
        self.process = subprocess.Popen([path, str(round(1e6 / mhz)), str(tick), str(SEED)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, bufsize=1)
        self.busy, self.on = 0, False

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.process.kill()
        self.process.communicate()

    def _ask(self, line):
        print(line, file=self.process.stdin, flush=True)
        return self.process.stdout.readline().strip()

    def tell(self, *words):
        self.busy, self.on, rests = map(int, self._ask(" ".join(map(str, words))).split())
        assert rests, "the wires never rest"

    def show(self, sign, number=0, score=0):
        self.tell("show", SIGNS.index(sign), number, score)

    def draws(self):
        """Whether something is sent until the wires rest."""
        before = self.busy
        self.tell("rest")
        return self.busy > before

    def seen(self):
        return np.array([digit == "1" for digit in self._ask("seen")]).reshape(64, 128)

    def faults(self):
        return self._ask("faults")


def every():
    """(sign, number, score) of each sign and number; of those with a score, each one."""
    for sign in SIGNS:
        for step in range(64 if sign.name in display.SCORED else 16 if sign.value else 1):
            yield sign, step % 16, step


def test_each_sign_is_drawn(program):
    """With its word, its number and the score, without a fault by the data sheet; and nothing is sent twice."""
    with Bench(program) as bench:
        for sign, number, score in every():
            bench.show(sign, number, score)
            assert bench.draws()
            assert (bench.seen() == drawn(sign, number, score)).all(), (sign.name, number, score)
            assert not bench.draws()
        assert not bench.faults()


@pytest.mark.parametrize("numbers", quick([2, 10, 100, 1024], 2, 1024))
def test_numbers_of_all_lengths(numbers, tmp_path):
    print("FBNN_SEED", SEED)
    with Bench(build(tmp_path, numbers)) as bench:
        for number in [numbers - 1, 0, *random.Random(SEED).sample(range(numbers), min(numbers, 30)), numbers // 10]:
            bench.show(SIGNS[-1], number, 20)
            bench.draws()
            assert (bench.seen() == drawn(SIGNS[-1], number, 20, len(str(numbers - 1)))).all(), number
        assert not bench.faults()


@pytest.mark.parametrize("mhz", quick([1, 12, 30, 36, 60], 36))
def test_the_wires_keep_the_times_of_the_data_sheet(mhz, tmp_path):
    with Bench(build(tmp_path, mhz=mhz), 1000 * mhz) as bench:
        bench.show(SIGNS[-1], 12, 63)
        assert bench.draws() and (bench.seen() == drawn(SIGNS[-1], 12, 63)).all() and not bench.faults()


def test_what_is_not_shown_is_no_change(program):
    with Bench(program) as bench:
        for sign in SIGNS:
            bench.show(sign, 3, 3)
            bench.draws()
            bench.show(sign, 3, 33)
            assert bench.draws() == (sign.name in display.SCORED)
            bench.show(sign, 4, 33)
            assert bench.draws() == bool(sign.value)


@pytest.mark.parametrize("round", range(8))
def test_a_change_within_a_picture(program, round):
    """The picture that is under way stays that of one sign; the next one is drawn behind it."""
    print("FBNN_SEED", SEED)
    source = random.Random(f"{SEED} {round}")
    one, other = [(source.choice(SIGNS), source.randrange(16), source.randrange(64)) for _ in range(2)]
    with Bench(program) as bench:
        bench.show(*one)
        bench.tell("run", 2 * TICK + source.randrange(35_000))
        bench.show(*other)
        bench.tell("pin", "tick", 0)  # so that the next picture does not begin
        bench.draws()
        assert (bench.seen() == drawn(*one)).all()
        bench.tell("pin", "tick", 1)
        bench.draws()
        assert (bench.seen() == drawn(*other)).all() and not bench.faults()


@pytest.mark.parametrize("round", range(8))
def test_a_display_that_comes_and_goes(program, round):
    """It is asked at each tick until it answers; where it goes amid a picture, all is sent again, commands and picture."""
    print("FBNN_SEED", SEED)
    source = random.Random(f"{SEED} {round}")
    one, other = (SIGNS[-1], 11, 33), (SIGNS[-1], source.randrange(11), 63)
    with Bench(program) as bench:
        bench.tell("part", "absent", 1)
        bench.show(*one)
        bench.tell("run", 20 * TICK)
        asked = bench.busy
        bench.tell("run", 20 * TICK)
        assert 0 < asked < bench.busy and not bench.on
        bench.tell("part", "absent", 0)
        assert bench.draws() and (bench.seen() == drawn(*one)).all()
        bench.show(*other)
        bench.tell("run", TICK + source.randrange(200, 35_000))
        bench.tell("power", 0)
        bench.tell("run", 10 * TICK)
        assert not bench.seen().any()
        bench.tell("power", 1)
        assert bench.draws() and bench.on and (bench.seen() == drawn(*other)).all()


def test_the_wires_of_others(program):
    """Nothing is sent before they are free."""
    with Bench(program) as bench:
        bench.tell("pin", "free", 0)
        bench.show(SIGNS[-1], 2, 2)
        bench.tell("run", 5 * TICK)
        assert not bench.busy
        bench.tell("pin", "free", 1)
        assert bench.draws()


def test_the_memory():
    """Each word has its two lines, each letter is there, and the commands end with the memory."""
    held = display.contents(SIGNS)
    assert len(held) == 512 and list(display.FONT)[display.BLANK] == " " and list(display.FONT)[:10] == list("0123456789")
    assert len(display.commands()) <= 64 and bytes(held[-len(display.commands()):]) == display.commands()
    assert all(len(line) <= display.LETTERS for sign in device.SIGNS for line in sign.name.split(" ")) and len(display.FONT) <= 32
    assert all(len(sign.name.split(" ")) == 1 for sign in SIGNS if sign.name in display.SCORED)
    assert 256 + 16 * len([sign for sign in device.SIGNS if sign.needs != "link"]) <= 512 - 64  # `build` refuses a link beside a display
