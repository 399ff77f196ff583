"""The SDRAM reader in Verilator against the model of an SDRAM, which checks order, times, refreshes and lines; and that model."""

import random
from dataclasses import replace

import pytest

from fbnn_hw.base.errors import UsageError
from fbnn_hw.compile.cycles import BURST
from fbnn_hw.rtl.sdram import CHIPS, SdramReader, Timing
from sim import readers
from sim.sdram_board import Case, text

QUICK = {name: replace(chip, power_up=10e-6) for name, chip in CHIPS.items()}
WIDE, NARROW = QUICK["64Mbit-32"], QUICK["256Mbit-16"]
CASES = {
    # Rows of 1024 bytes; the frame image ends amid a row, with a row, a beat behind one; without first bytes, or with them alone.
    "plain": Case(1030, 3000, NARROW), "power_up": Case(200, 100, CHIPS["256Mbit-16"], taken=100), "whole_row": Case(1024, 2048, NARROW),
    "beat_more": Case(1026, 1026, NARROW, 80e6, latency=2), "one_row": Case(8, 48, NARROW, 100e6, latency=2),
    "no_first": Case(0, 2050, NARROW, 25e6), "once": Case(1500, 0, NARROW, taken=750), "tiny": Case(2, 2, NARROW, 80e6),
    # Clocks from that of a slow design to that of the fastest, both kinds of chips.
    "slow": Case(500, 1026, NARROW, 25e6, latency=1), "fast": Case(500, 1026, NARROW, 100e6, latency=2),
    "eighty": Case(4000, 5000, NARROW, 80e6),
    "wide": Case(1028, 1028, WIDE, 60e6, latency=2), "wide_slow": Case(1024, 3000, WIDE, 25e6),
    "wide_fast": Case(256, 1028, WIDE, 100e6, 2),
    "long": Case(600, 1026, NARROW, 100e6, latency=2, taken=20_000),
    # Who takes beats pauses, now and then or for long; bytes to write come with pauses.
    "stalls": Case(1030, 1500, NARROW, 80e6, latency=2, stall=8, slow=1),
    "rare": Case(1032, 1500, WIDE, 60e6, stall=15, slow=1, taken=1000),
    # A reset amid power-up, the first refreshes, filling, reading.
    "cut_power": Case(700, 1026, NARROW, 80e6, cut=500),
    "cut_start": Case(700, 1026, NARROW, 80e6, cut=1840),
    **{f"cut_fill{n}": Case(700, 1026, NARROW, 80e6, slow=1, cut=2000 + 37 * n) for n in range(4)},
    **{f"cut_read{n}": Case(700, 1026, NARROW, 80e6, latency=2, cut=7000 + 41 * n, taken=6000) for n in range(6)}}


def image(name):
    case = CASES[name]
    return random.Random(name).randbytes(case.first + case.again)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """{name: ([beat], [its cycle], [first_done], faults, log)}"""
    folder = tmp_path_factory.mktemp("sdram")
    errors, log = readers.run(folder, text(CASES), "sdram.v", {name: [f"{byte:02x}" for byte in image(name)] for name in CASES}, 300_000)
    return {name: (*readers.taken(folder, name), errors[n], log) for n, name in enumerate(CASES)}


@pytest.mark.parametrize("name", CASES)
def test_beats(found, name):
    """The image's beats in their order, without a complaint of the model and without an empty buffer."""
    case = CASES[name]
    data, cycles, first_done, errors, log = found[name]
    assert errors == 0, log
    size = case.chip.lines // 8
    beats = [int.from_bytes(image(name)[at:at + size], "little") for at in range(0, case.first + case.again, size)]
    first = case.first // size
    expected = beats[:first] + beats[first:] * (case.taken // max(1, case.again // size) + 1)
    data, first_done = readers.after_reset(case, cycles, data, first_done, expected)  # all comes from the start again
    assert data == expected[:len(data)] and len(data) > case.taken // 2
    at = first_done.index(1)  # beats may wait
    assert first - Timing(case.chip, case.clock_hz, case.latency).depth <= at <= first and all(first_done[at:])


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.stall and not case.cut])
def test_pace(found, name):
    """A beat in each cycle, but for a pause of one after each eighth: across rows, frames and refreshes."""
    cycles = found[name][1]
    assert [b - a for a, b in zip(cycles, cycles[1:])] == [2 if n % BURST == 0 else 1 for n in range(1, len(cycles))]


def command(code, bank=0, address=0, wait=0, mask=0, enable=0):
    """A word of a script: the command, then `wait` cycles without one."""
    return wait << 28 | code << 18 | mask << 17 | enable << 16 | bank << 14 | address


ACT, RD, WR, PRE, REF, MRS = 0b011, 0b101, 0b100, 0b010, 0b001, 0b000
START = [command(0b111, wait=9700), command(PRE, address=1024, wait=1), *[command(REF, wait=3)] * 8, command(MRS, address=2 << 4, wait=1)]
BODY = [command(ACT, 1, 0, 1), command(WR, 1, 5, enable=1), command(RD, 1, 5, 1), command(PRE, 1, 0, 1), command(REF, wait=3),
        command(ACT, 1, 0, 1), command(RD, 1, 5, 3), command(PRE, 0, 1024, 1), command(REF, wait=3)]
# At 48 MHz: tRCD, tRP 2 cycles, tRAS 3, tRC and tRFC 4, tWR 1, CAS latency 2.
FAULTS = {
    "none": ("", START + BODY),
    "power-up": ("power-up", [command(0b111, wait=9000), *START[1:], *BODY]),
    "order": ("refresh before the rows are closed", [START[0], *START[2:], *BODY]),
    "few": ("too few refreshes", [*START[:2], *START[3:], *BODY]),
    "mode": ("another mode", [*START[:-1], command(MRS, address=3 << 4, wait=1), *BODY]),
    "no_mode": ("not initialised", [*START[:-1], *BODY]),
    "mode_early": ("tMRD", [*START[:-1], command(MRS, address=2 << 4), *BODY]),
    "rcd": ("tRCD", [*START, command(ACT, 1), *BODY[1:]]),
    "rp": ("tRP", [*START, *BODY[:3], command(PRE, 1), *BODY[4:]]),
    "ras": ("tRAS", [*START, command(ACT, 1, 0, 1), command(PRE, 1, 0, 1)]),
    "rc": ("tRC", [*START, command(ACT, 1, 0, 1), command(PRE, 1), command(ACT, 1)]),
    "rrd": ("tRRD", [*START, command(ACT, 1), command(ACT, 2)]),
    "rfc": ("tRFC", [*START, *BODY[:4], command(REF, wait=2), *BODY[5:]]),
    "wr": ("tWR", [*START, command(ACT, 1, 0, 3), command(WR, 1, 5, enable=1), command(PRE, 1)]),
    "twice": ("the bank's row is open", [*START, command(ACT, 1, 0, 9), command(ACT, 1, 4)]),
    "closed": ("no row is open", [*START, command(RD, 1, 5, 1)]),
    "bank": ("no row is open", [*START, command(ACT, 1, 0, 1), command(RD, 2, 5, 1)]),
    "open": ("a row is open", [*START, command(ACT, 1, 0, 9), command(REF)]),
    "own": ("precharge of its own", [*START, command(ACT, 1, 0, 1), command(WR, 1, 1024, enable=1)]),
    "masked": ("masked", [*START, command(ACT, 1, 0, 1), command(WR, 1, 5, mask=1, enable=1)]),
    "nobody": ("nobody drives", [*START, command(ACT, 1, 0, 1), command(WR, 1, 5)]),
    "both": ("both sides drive", [*START, command(ACT, 1, 0, 1), command(RD, 1, 5, 1), command(WR, 1, 5, enable=1)]),
    "outside": ("outside of the image", [*START, command(ACT, 1, 2, 1), command(RD, 1, 5, 1)]),
    "late": ("refresh is late", [*START, command(REF, wait=380), command(ACT, 1, 0, 1), command(RD, 1, 5)]),
    "late_before": ("refresh is late", [*START, command(REF, wait=380), command(REF, wait=3), command(ACT, 1, 0, 1), command(RD, 1, 5)]),
    "anew": ("", [*START, command(REF, wait=380), *START[1:], *BODY])}


def test_the_model_notices_each_rule(tmp_path):
    scripts = {f"s{n}": words for n, (_, words) in enumerate(FAULTS.values())}
    verilog = text({}, {name: len(words) for name, words in scripts.items()})
    contents = {name: [f"{word:012x}" for word in words] for name, words in scripts.items()}
    errors, log = readers.run(tmp_path, verilog, "sdram.v", contents, 300_000)
    assert {name: count > 0 for name, count in zip(FAULTS, errors)} == {name: bool(message) for name, (message, _) in FAULTS.items()}, log
    for message, _ in FAULTS.values():
        assert not message or any(line.startswith(f"sdram: {message}") for line in log.splitlines()), message


@pytest.mark.parametrize("change, message", [
    ({"first": 3}, "SDRAM: 3 and 64 bytes, expected at least one beat of 2 and no part of one"),
    ({"first": 0, "again": 0}, "SDRAM: 0 and 0 bytes, expected at least one beat of 2 and no part of one"),
    ({"again": 1 << 25}, "SDRAM: 33,554,434 bytes, expected at most 33,554,432"),
    ({"clock_hz": 5e6}, "SDRAM: a clock of 5 MHz leaves refreshes no time; expected a faster one"),
    ({"clock_hz": 150e6}, "SDRAM: a clock of 150 MHz, expected at most 133")])
def test_refusals(change, message):
    with pytest.raises(UsageError) as error:
        SdramReader(**{"chip": CHIPS["256Mbit-16"], "clock_hz": 48e6, "first": 2, "again": 64} | change)
    assert str(error.value) == message


@pytest.mark.parametrize("chip", CHIPS.values(), ids=CHIPS)
@pytest.mark.parametrize("mhz", [25, 33, 48, 60, 80, 100])
def test_the_share_of_cycles_that_is_lost(chip, mhz):
    """Far below the pauses, of which a ninth of the cycles are."""
    assert Timing(chip, mhz * 1e6, 2).lost < 0.08
