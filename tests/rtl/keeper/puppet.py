"""The keeper alone beside the model of a flash, compiled by Verilator and driven line by line."""

import random
import subprocess
from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path

from fbnn_hw.machine.kept import SlotPlan
from fbnn_hw.machine.learner import LearnPlan
from fbnn_hw.machine.protocol import Space
from fbnn_hw.reference.learning import Head, LearnConfig
from fbnn_hw.rtl.keeper import Keeper
from fbnn_hw.rtl.verilog import convert
from fbnn_hw.simulate import simulator
from fbnn_hw.simulate.device.device import SOURCES

HERE = Path(__file__).parent
MARK, MODEL = bytes.fromhex("cdbb5b03"), bytes.fromhex("11223344")  # the model as bench.cpp gives it
ADDRESS_BITS = 8
FOREVER = 100_000_000

State = namedtuple("State", "cycles busy ready done failed foreign undoable wants accesses stray")


def plan(classes=4, slots=8, latent=64, **options):
    """A learner of 8 exemplars and 4 classes."""
    return LearnPlan.of(Head(latent), LearnConfig(classes, slots, 4, confidence=3, **options), 4, 16, 2, learn_base=8)


@dataclass
class Case:
    plan: LearnPlan
    latency: int = 2
    clock_hz: float = 36e6
    base: int = 0x100000
    address_bits: int = ADDRESS_BITS

    @property
    def slot(self):
        return SlotPlan(self.plan)


def build(case, folder):
    """The program of a case."""
    keeper = Keeper(case.slot, case.address_bits, case.base, MARK, case.clock_hz, latency=case.latency)
    folder = Path(folder).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "keeper.v"
    source.write_text(convert(keeper, "keeper"))
    program = simulator.executable("keeper")
    device, address = SOURCES.absolute(), case.address_bits + 2
    command = [*simulator.translation("keeper", folder), "--exe", "-o", program, "-CFLAGS", f"-I{device} -DHOST_ADDRESS_BITS={address}",
               str(source), str(HERE / "bench.cpp")]
    texts = [source.read_text(), (HERE / "bench.cpp").read_text(), (device / "flash.h").read_text(), (device / "part.h").read_text()]
    simulator.compiled(command, texts, folder, program, "the keeper's bench", "-O2", lambda: None)
    return folder / program


class Puppet:
    """A keeper, its flash and a learner's memory.  seed: of what the flash does at random, and of how long an access takes."""

    def __init__(self, case, program, seed=0, **values):
        self.case = case
        period = round(1e12 / case.clock_hz)
        tables = [str(number) for space, first, count in case.slot.tables
                  for number in (int(space), first, count, 1 if space >= Space.NOISE else case.plan.host_bits)]
        self.process = subprocess.Popen([program, str(case.latency), str(period), str(seed), *tables], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1)
        for name, value in ({"scale": 1000} | values).items():
            self.say(f"value {name} {value}")

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def run(self, cycles=FOREVER, until=1):
        """So many cycles; until 1: a task is done, 2: nothing is at work, 3: the learner is free, 0: all of them."""
        return State(*map(int, self.say(f"run {cycles} {until}").split()))

    def state(self):
        return State(*map(int, self.say("nothing").split()))

    def save(self):
        self.say("save")
        return self.run()

    def undo(self):
        self.say("undo")
        return self.run()

    def restart(self):
        """Cut the power, and boot."""
        self.say("off")
        self.say("on")
        return self.run(until=3)

    def fill(self, seed):
        """Fill the learner's memory -> its words."""
        self.say(f"fill {seed}")
        return self.words()

    def words(self):
        return [int(word, 16) for word in self.say("get").split()]

    def faults(self):
        return {text.split(" ", 1)[1]: int(text.split(" ", 1)[0]) for text in self.say("faults").split(";") if text}

    def value(self, name):
        return int(self.say(f"value {name} 0"))

    def slots(self):
        """The bytes of the three slots."""
        slot = self.case.slot
        return [bytes(map(int, self.say(f"read {place} {slot.bytes}").split())) for place in slot.places(self.case.base)]


def rng(seed):
    print(f"seed {seed}")  # for a failure
    return random.Random(seed)
