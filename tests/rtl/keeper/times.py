"""How long a keeper takes: simulated in typical times of the flash's data sheet, and with the longest ones computed from that.

    python -m tests.rtl.keeper.times            0.5mb on an iCE40UP5K at 36 MHz, 16 classes
"""

import tempfile
from pathlib import Path

from fbnn_hw import design as designs
from fbnn_hw.ir.shipped import load
from fbnn_hw.rtl.sequencer import Widths
from tests.rtl.keeper.puppet import Case, Puppet, build

LEARNERS = {"nearest-mean": {"learn": "nearest-mean", "unknown": True, "forget": True},
            "replay, 100 exemplars": {"learn": True, "exemplars": 100}, "replay": {"learn": True}}


def took(keeper, act):
    """Milliseconds that an act takes."""
    start = keeper.state().cycles
    act()
    return (keeper.state().cycles - start) / keeper.case.clock_hz * 1000


PROGRAM_MS, ERASE_MS = 3 - 0.7, 400 - 45
"""By how much the longest times of a page and of a sector are longer."""


def measure(case, program):
    """{what: milliseconds}"""
    with Puppet(case, program, 1, scale=1) as keeper:
        keeper.say("erase 0")
        keeper.run(until=3)
        keeper.fill(1)
        found = {"erased and kept": took(keeper, keeper.save)}
        keeper.say("erase 1")
        found["erased"] = took(keeper, lambda: keeper.run(until=2))
        keeper.say("erase 0")
        keeper.fill(2)
        found |= {"kept": took(keeper, keeper.save), "loaded": took(keeper, keeper.restart)}
        state = keeper.state()
        assert state.ready and state.undoable and not state.failed and not keeper.faults()
        return found


def main():
    for name, options in LEARNERS.items():
        config = designs.plan(load("0.5mb.pt"), "ice40", weights="flash", keep=True, max_classes=16, **options).config
        case = Case(config.learning, base=0x100000, address_bits=Widths(config).row)
        slot = case.slot
        print(f"{name}: {slot.bytes:,} bytes, {slot.sectors} sectors, {slot.pages} programs")
        with tempfile.TemporaryDirectory() as folder:
            program = build(case, Path(folder))
            times = measure(case, program)
        longer = {"kept": slot.pages * PROGRAM_MS, "erased": slot.sectors * ERASE_MS + PROGRAM_MS}
        for what, ms in times.items():
            print(f"    {what}: {ms:.0f} ms, at most {ms + sum(longer.get(word, 0) for word in what.split()):.0f} ms", flush=True)


if __name__ == "__main__":
    main()
