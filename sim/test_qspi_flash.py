"""The flash reader in Verilator against the model of a flash, which checks commands, waits and lines."""

import random

import pytest

from fbnn_hw.errors import UsageError
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
    "continuous": Case(0, 64, start=1), "awake": Case(8, 1, start=2), "once": Case(64, 0, taken=64),
    "sleeps": Case(14, 50, stall=15, sleep=9001, taken=150), "sleeps_quickly": Case(14, 50, latency=2, stall=8, sleep=1500, taken=100),
    "sleeps_for_good": Case(64, 0, taken=64, sleep=30_500),
    "cut_init": Case(14, 50, cut=13_011, offset=0xFFFFC0), "cut_read": Case(14, 50, cut=30_010), "cut_data": Case(14, 50, cut=30_077)}
"""30,000 cycles is when the first reads begin."""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """{name: ([byte], [its cycle], [first_done], faults of the model)}"""
    folder = tmp_path_factory.mktemp("flash")
    errors, log = readers.run(folder, text(CASES), "spi_flash.v", {"flash": [f"{byte:02x}" for byte in DATA]}, 200_000)
    return {name: (*readers.taken(folder, name), errors[n], log) for n, name in enumerate(CASES)}


@pytest.mark.parametrize("name", CASES)
def test_bytes(found, name):
    case = CASES[name]
    data, cycles, first_done, errors, log = found[name]
    assert errors == 0, log
    boot, frame = list(DATA[:case.first]), list(DATA[case.first:case.first + case.again])
    expected = boot + frame * (case.taken // max(1, case.again) + 1)
    data, first_done = readers.after_reset(case, cycles, data, first_done, expected)  # all comes from the start again
    assert data == expected[:len(data)] and len(data) > case.taken // 2
    # Bytes may wait: `first_done` comes with the last byte that is read, up to DEPTH before it is taken.
    at = first_done.index(1)
    assert case.first - FlashReader.DEPTH <= at <= max(case.first, 1) and all(first_done[at:])


def test_sleep(found):
    """It is there a wait after the last byte, and wakes up with time to spare: the model finds no fault in it.  A pause that is shorter
    than the waits is slept through.  After the last byte of all it is not woken again."""
    log = found["sleeps"][4]
    naps = {name: log.count(f"{name} sleeps\n") for name in CASES}
    assert naps["sleeps"] >= 1 and naps["sleeps_quickly"] >= 2 and naps["sleeps_for_good"] == 1 and sum(naps.values()) < 40


@pytest.mark.parametrize("name", ["plain", "latency3", "one_line", "delivered"])
def test_speed(found, name):
    """A byte in 8 / width clocks, and deselect + 32 + dummy of them between two reads."""
    case = CASES[name]
    data, cycles, *_ = found[name]
    steps = [b - a for a, b in zip(cycles, cycles[1:])]
    each = 8 // case.chip.width
    gaps = {n: step for n, step in enumerate(steps, start=1) if step != each}
    reader = FlashReader(case.chip, case.clock_hz, case.offset, case.first, case.again, case.latency)
    assert set(gaps) == set(range(64, case.taken, 50)) and set(gaps.values()) == {each + reader.deselect + 32 + case.chip.dummy}


@pytest.mark.parametrize("change, message", [
    ({"chip": FlashChip(width=8)}, "flash: 8 data lines, expected 1, 2, 4"), ({"latency": 4}, "flash: latency is 4, expected from 0 to 3"),
    ({"first": 0, "again": 0}, "flash: 0 bytes from 0x1000 on, expected at least one, below 0x1000000"),
    ({"again": 1 << 24}, "flash: 16777217 bytes from 0x1000 on, expected at least one, below 0x1000000")])
def test_refusals(change, message):
    with pytest.raises(UsageError) as error:
        FlashReader(**{"chip": FlashChip(), "clock_hz": 48e6, "offset": 4096, "first": 1, "again": 1} | change)
    assert str(error.value) == message
