"""The flash reader in Verilator against the model of a flash, which checks commands, waits and lines."""

import os
import random

import pytest

from fbnn_hw.base.errors import UsageError
from fbnn_hw.rtl.qspi_flash import FlashChip, FlashReader
from sim import readers
from sim.flash_board import Case, text

SIZE = 64
DATA = random.Random(3).randbytes(SIZE)
CASES = {
    "plain": Case(14, 50), "stalls": Case(14, 50, stall=8), "rare": Case(14, 50, latency=1, stall=15, taken=150),
    "latency3": Case(14, 50, latency=3), "latency3_stalls": Case(14, 50, latency=3, stall=6),
    "one_line": Case(14, 50, FlashChip(width=1)), "two_lines": Case(14, 50, FlashChip(width=2), latency=2, stall=3),
    "delivered": Case(14, 50, FlashChip(quad_enable=(), dummy=10), quad_enabled=1),
    "double": Case(14, 50, double=1), "double_late": Case(14, 50, latency=3, double=1), "double_rare": Case(
        14, 50, latency=2, stall=8, double=1, taken=100), "cut_double": Case(14, 50, cut=28_860, double=1),
    "double_sleeps": Case(14, 50, latency=2, stall=8, sleep=1500, taken=100, double=1),
    "continuous": Case(0, 64, start=1), "qpi": Case(14, 50, start=3), "qpi_double": Case(14, 50, start=3, double=1),
    "cut_qpi": Case(14, 50, start=3, cut=4_000), "awake": Case(8, 1, start=2), "once": Case(64, 0, taken=64),
    "sleeps": Case(14, 50, stall=15, sleep=9001, taken=150), "sleeps_quickly": Case(14, 50, latency=2, stall=8, sleep=1500, taken=100),
    "sleeps_for_good": Case(64, 0, taken=64, sleep=30_500),
    "yields": Case(14, 50, latency=2, stall=8, sleep=170, yields=1, taken=300),
    "double_yields": Case(14, 50, latency=2, stall=8, sleep=170, yields=1, taken=100, double=1), "yields_all": Case(
        64, 0, taken=64, sleep=170, yields=1),
    "cut_init": Case(14, 50, cut=13_011, offset=0xFFFFC0), "cut_read": Case(14, 50, cut=28_760), "cut_data": Case(14, 50, cut=28_860)}
"""After 28,740 cycles the first reads begin, 40 cycles later come their data."""
SEED = 67
CUTS = sorted(random.Random(SEED).sample(range(1, 29_500), 12 if os.environ.get("FBNN_SLOW") else 4))
CASES |= {f"cut{cut}": Case(14, 50, start=cut % 4, cut=cut) for cut in CUTS}
"""A reset at any clock of boot, with the flash in any of its states before."""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """{name: ([byte], [its cycle], [first_done], faults of the model)}"""
    folder = tmp_path_factory.mktemp("flash")
    errors, log = readers.run(folder, text(CASES), "spi_flash.v", {"flash": [f"{byte:02x}" for byte in DATA]}, 200_000)
    return {name: (*readers.taken(folder, name), errors[n], log) for n, name in enumerate(CASES)}


def payloads(case, data):
    """What the reader of a case gives of some bytes: these, or at twice the clock pairs of them."""
    return [int.from_bytes(data[i:i + 1 + case.double], "little") for i in range(0, len(data), 1 + case.double)]


@pytest.mark.parametrize("name", CASES)
def test_bytes(found, name):
    case = CASES[name]
    data, cycles, first_done, errors, log = found[name]
    assert errors == 0, log
    boot, frame = payloads(case, DATA[:case.first]), payloads(case, DATA[case.first:case.first + case.again])
    expected = boot + frame * (case.taken // max(1, len(frame)) + 1)
    data, first_done = readers.after_reset(case, cycles, data, first_done, expected)  # all comes from the start again
    assert data == expected[:len(data)] and len(data) > case.taken // 2
    # Bytes may wait: `first_done` comes with the last byte that is read, up to DEPTH before it is taken.
    at = first_done.index(1)
    assert len(boot) - FlashReader.DEPTH <= at <= max(len(boot), 1) and all(first_done[at:])


def test_sleep(found):
    """It is there a wait after the last byte, and wakes up with time to spare: the model finds no fault in it.  A pause that is shorter
    than the waits is slept through.  After the last byte of all it is not woken again."""
    log = found["sleeps"][4]
    naps = {name: log.count(f"{name} sleeps\n") for name in CASES}
    assert naps["yields"] > 20 and naps["double_yields"] > 5 and naps["yields_all"] == 1
    naps = {name: count for name, count in naps.items() if not CASES[name].yields}
    assert naps["sleeps"] >= 1 and naps["sleeps_quickly"] >= 2 and naps["sleeps_for_good"] == 1 and sum(naps.values()) < 80
    assert naps["double_sleeps"] >= 2


@pytest.mark.parametrize("name", ["plain", "latency3", "one_line", "delivered", "double", "double_late"])
def test_speed(found, name):
    """A byte, or at twice the clock two, in 8 / width cycles, and deselect + 32 + dummy of them between two reads."""
    case = CASES[name]
    data, cycles, *_ = found[name]
    steps = [b - a for a, b in zip(cycles, cycles[1:])]
    each = 8 // case.chip.width
    gaps = {n: step for n, step in enumerate(steps, start=1) if step != each}
    reader = FlashReader(case.chip, case.clock_hz, case.offset, case.first, case.again, case.latency, double=case.double > 0)
    assert set(gaps) == set(range(64 // reader.bytes, case.taken, 50 // reader.bytes))
    assert set(gaps.values()) == {each + reader.deselect + 32 + case.chip.dummy}


def script(low=5, high=5, change=0, select=5, deselect=10, hands_over=True, let_go=10, pause=60):
    """Words for a read of four data and another one, a word a nanosecond.

    low, high: ns of the clock.  change: ns from a falling clock until a line changes, negative while it is still high.  select, deselect:
    from select to the first rising clock, and from the last one to the end of select.  hands_over: the lines are let go after the
    address.  let_go, pause: ns from the end of select until lines are driven again, and until the next select.
    """
    words, line, enable = [], 1, 0

    def hold(count, select_n, clock):
        words.extend([select_n << 9 | clock << 8 | (line | 0b1110) << 4 | enable] * count)

    for _ in range(2):
        hold(let_go, 1, 0)
        enable = 0b1101
        hold(pause - let_go, 1, 0)
        hold(select - low if change >= 0 else select, 0, 0)
        for n in range(44):
            early, following = max(0, -change), (0x6B << 24 | 4096) >> 31 - n & 1 if n < 32 else 1
            if not early:
                hold(min(change, low), 0, 0)
                line, enable = following, enable if n < 32 or not hands_over else 0
            hold(low - max(0, change), 0, 0)
            if early:
                hold(high - early, 0, 1)
                line = ~following & 1 if n < 32 else 1
                hold(early, 0, 1)
            else:
                hold(high if n < 43 else min(high, deselect), 0, 1)
        hold(max(0, deselect - high), 0, 0)
    return words


FAULTS = {
    "": {}, "the clock is too fast": {"low": 3, "high": 4}, "the clock is low too briefly": {"low": 3, "high": 7},
    "the clock is high too briefly": {"low": 7, "high": 3}, "a line changes too late": {"change": 4},
    "a line changes too early": {"change": -3}, "clocked too early after select": {"select": 4, "low": 4, "high": 6},
    "select ends too early": {"deselect": 2}, "both sides drive a line": {"hands_over": False},
    "a line is driven before the flash lets go": {"let_go": 3}, "selected too early": {"pause": 40}}


def test_the_model_notices_each_rule(tmp_path):
    scripts = {f"s{n}": script(**change) for n, change in enumerate(FAULTS.values())}
    contents = {name: [f"{word:03x}" for word in words] for name, words in scripts.items()} | {"flash": [f"{byte:02x}" for byte in DATA]}
    verilog = text({}, {name: len(words) for name, words in scripts.items()})
    errors, log = readers.run(tmp_path, verilog, "spi_flash.v", contents, 300_000, 1000)
    assert [count > 0 for count in errors] == [bool(message) for message in FAULTS], (errors, log)
    for message in FAULTS:
        assert not message or any(line.startswith(f"flash: {message}") for line in log.splitlines()), message


@pytest.mark.parametrize("change, message", [
    ({"chip": FlashChip(width=8)}, "flash: 8 data lines, expected 1, 2, 4"), ({"latency": 4}, "flash: latency is 4, expected from 0 to 3"),
    ({"first": 0, "again": 0}, "flash: 0 bytes from 0x1000 on, expected at least one, below 0x1000000"),
    ({"double": True}, "flash: 1 and 1 bytes on 4 data lines at twice the clock, expected even numbers on 4"),
    ({"double": True, "again": 3, "chip": FlashChip(width=2)},
     "flash: 1 and 3 bytes on 2 data lines at twice the clock, expected even numbers on 4"),
    ({"again": 1 << 24}, "flash: 16777217 bytes from 0x1000 on, expected at least one, below 0x1000000")])
def test_refusals(change, message):
    with pytest.raises(UsageError) as error:
        FlashReader(**{"chip": FlashChip(), "clock_hz": 48e6, "offset": 4096, "first": 1, "again": 1} | change)
    assert str(error.value) == message
