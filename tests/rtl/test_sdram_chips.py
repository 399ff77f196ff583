"""The times of `rtl.sdram.CHIPS` beside those of chips that the boards have been sold with."""

import pytest

from fbnn_hw.fpga.plls import COMMANDS
from fbnn_hw.rtl.sdram import CHIPS, Timing

KEYS = "rc", "rfc", "ras", "rcd", "rp", "wr", "access", "hold", "setup", "after"
SHEETS = {
    # 256 Mbit and 512 Mbit, 16 lines.  Alliance, "Electrical Characteristics and Recommended A.C. Operating Conditions", -7.
    ("AS4C16M16SA-7", "256Mbit-16"): (63, 63, 42, 21, 21, 14, 5.4, 2.5, 1.5, 0.8),
    ("AS4C32M16SB-7", "256Mbit-16"): (63, 63, 42, 21, 21, 14, 5.4, 2.5, 1.5, 0.8),
    # Winbond, "AC Characteristics and Operating Condition", -75; tWR is two clocks, which `Timing.wr` never goes below.
    ("W9825G6JH-75", "256Mbit-16"): (65, 65, 45, 20, 20, 0, 5.4, 3, 1.5, 1.0)}
"""{(part and speed grade, name of its SdramChip): tRC, tRFC, tRAS, tRCD, tRP, tWR, tAC at CAS latency 3, tOH, tIS, tIH in ns}."""


@pytest.mark.parametrize("part, name", SHEETS)
def test_no_chip_is_slower(part, name):
    chip, sheet = CHIPS[name], dict(zip(KEYS, SHEETS[part, name], strict=True))
    for key in ("rc", "rfc", "ras", "rcd", "rp", "wr", "access"):
        assert round(1e9 * getattr(chip, key), 3) >= sheet[key], key
    assert round(1e9 * chip.hold, 3) <= sheet["hold"]
    assert sheet["setup"] <= COMMANDS[0] and sheet["after"] <= COMMANDS[1]


@pytest.mark.parametrize("name", CHIPS)
@pytest.mark.parametrize("mhz", range(25, 101, 5))
def test_cycles_are_never_shorter_than_the_times(name, mhz):
    chip, timing = CHIPS[name], Timing(CHIPS[name], mhz * 1e6)
    cycle = 1 / (mhz * 1e6) * (1 + 1e-6)
    for key in ("rcd", "rp", "rfc", "wr"):
        assert getattr(timing, key) * cycle >= getattr(chip, key), key
    assert timing.open * cycle >= chip.ras
    assert (timing.open + timing.rp) * cycle >= chip.rc
    assert timing.wr >= 2
