"""The model of a flash against sequences written by hand from the data sheet of the W25Q128JV."""

import random

import numpy as np
import pytest

from tests.device.parts import Flash
from tests.device.wires import MS, NS, US, Spi


@pytest.fixture
def spi():
    return Spi(Flash(1))


def faults(spi):
    return list(spi.flash.faults)


def test_ids_and_status(spi):
    assert spi.command(0x9F, read=3) == [0xEF, 0x40, 0x18]
    assert spi.command(0xAB, 0, 0, 0, read=1) == [0x17]
    spi.wait(3 * US)
    assert spi.status() == 0
    spi.command(0x06)
    assert spi.command(0x05, read=3) == [2, 2, 2]
    spi.command(0x04)
    assert spi.status() == 0 and not faults(spi)


@pytest.mark.parametrize("maximum, erase, program", [(0, 45 * MS, 700 * US), (1, 400 * MS, 3 * MS)])
def test_a_sector_is_erased_and_a_page_programmed_in_their_time(spi, maximum, erase, program):
    spi.flash["maximum"] = maximum
    memory = spi.flash.memory()
    memory[0x1F00:0x3100] = 0x35
    spi.erase(0x2ABC)
    assert spi.status() == 3 and spi.just_ready_after(erase)
    assert (memory[0x2000:0x3000] == 0xFF).all() and (memory[0x1F00:0x2000] == 0x35).all() and (memory[0x3000:0x3100] == 0x35).all()
    spi.program(0x2100, range(256))
    assert spi.status() == 3 and spi.just_ready_after(program) and spi.status() == 0
    assert spi.read(0x2100, 256) == bytes(range(256)) and not faults(spi)
    assert spi.flash["erased"] == spi.flash["programmed"] == 1 and spi.flash.memory(1, "u4")[2] == 1


def test_time_can_be_scaled(spi):
    spi.flash["scale"] = 1000
    spi.erase(0)
    spi.wait(30 * US)
    assert spi.status() == 3
    spi.wait(20 * US)
    assert spi.status() == 0


def test_programming_clears_bits_alone_and_wraps_in_its_page(spi):
    spi.program(0x10F8, range(1, 17))
    spi.until_ready()
    assert spi.read(0x10F8, 8) == bytes(range(1, 9)) and spi.read(0x1000, 8) == bytes(range(9, 17)) and spi.read(0x1100, 8) == b"\xFF" * 8
    spi.program(0x2000, [*range(256), 0xA0, 0xA1])  # of more than a page, the last 256 count
    spi.until_ready()
    assert spi.read(0x2000, 4) == bytes([0xA0, 0xA1, 2, 3])
    assert not faults(spi)
    spi.program(0x2000, [0x0F, 0xFF])
    spi.until_ready()
    assert spi.read(0x2000, 2) == bytes([0xA0 & 0x0F, 0xA1]) and faults(spi) == ["programmed over what is not erased"]


def test_without_write_enable_nothing_is_written(spi):
    spi.flash.memory()[:4] = 7
    spi.place(0x20, 0)
    spi.place(0x02, 0, 1, 2)
    assert spi.status() == 0 and spi.read(0, 4) == b"\7\7\7\7" and spi.flash.faults == {"written without write enable": 2}
    spi.erase(0)
    spi.until_ready()
    spi.place(0x02, 0, 1, 2)  # each write takes an enable of its own
    assert spi.status() == 0 and spi.read(0, 4) == b"\xFF" * 4


def test_of_a_busy_flash_nothing_valid_is_read(spi):
    spi.flash.memory()[:4096] = 0x5A
    spi.erase(0x4000)
    found = [spi.read(0, 8) for _ in range(20)]
    spi.program(0, [0])
    assert spi.flash.faults == {"read while busy": 20, "a command while busy": 2} and len(set(found)) > 15
    spi.until_ready()
    assert spi.read(0, 8) == b"\x5A" * 8


def test_quad_reads_need_qe_until_the_power_goes(spi):
    spi.flash.memory()[:6] = [0x12, 0x34, 0x56, 0x78, 0x9A, 0xBC]
    spi.command(0x50)
    spi.command(0x31, 2)
    assert spi.command(0x35, read=1) == [2]
    assert spi.place(0x6B, 0, read=6, lanes=4, dummy=8) == [0x12, 0x34, 0x56, 0x78, 0x9A, 0xBC]
    assert spi.place(0x3B, 1, read=2, lanes=2, dummy=8) == [0x34, 0x56] and spi.place(0x03, 5, read=1) == [0xBC]
    assert spi.place(0x03, 0xFFFFFF, read=2) == [0xFF, 0x12] and not faults(spi)
    spi.command(0x66)
    spi.command(0x99)
    spi.wait(30 * US)
    assert spi.command(0x35, read=1) == [0]
    spi.place(0x6B, 0, read=1, lanes=4, dummy=8)
    assert "quad read without QE" in faults(spi)


def test_what_is_kept_of_qe(spi):
    spi.command(0x06)
    spi.command(0x31, 2)
    assert spi.status() == 3 and spi.just_ready_after(10 * MS)
    spi.flash.power(spi.t, False)
    spi.flash.power(spi.t + MS, True)
    spi.t += 10 * MS
    assert spi.command(0x35, read=1) == [2] and spi.status() == 0 and not faults(spi)


def test_an_erasure_is_suspended_and_resumed(spi):
    memory = spi.flash.memory()
    memory[:64] = range(64)
    spi.erase(0x1000)
    spi.wait(20 * MS)
    spi.command(0x75)
    assert spi.command(0x35, read=1) == [0x80] and spi.status() == 1
    spi.wait(20 * US)
    assert spi.status() == 0 and spi.read(0, 64) == bytes(range(64)) and not faults(spi)
    spi.command(0x75)  # ignored
    spi.read(0x1FFF, 1)
    spi.erase(0x5000)
    assert spi.flash.faults == {"read of what is being erased or programmed": 1, "written while suspended": 1}
    spi.wait(500 * MS)
    spi.command(0x7A)
    assert spi.status() == 3 and spi.command(0x35, read=1) == [0]
    assert spi.just_ready_after(25 * MS) and (memory[0x1000:0x2000] == 0xFF).all()
    spi.command(0x7A)  # ignored
    assert spi.status() == 0


def test_suspended_too_soon_after_a_resume(spi):
    spi.program(0, [1])
    for _ in range(2):
        spi.command(0x75)
        spi.wait(20 * US)
        spi.command(0x7A)
    assert faults(spi) == ["suspended less than 20 us after a resume (tSUS)"]
    spi.until_ready()
    assert spi.read(0, 1) == b"\1"


def test_power_down_hears_its_release_alone(spi):
    spi.flash.memory()[0] = 9
    spi.command(0xB9)
    spi.wait(3 * US)
    for byte in (0x66, 0x99, 0xFF, 0x06):
        spi.command(byte)
    assert spi.flash["asleep"] == 1 and spi.read(0, 16) != spi.read(0, 16)
    spi.command(0xAB)
    spi.wait(3 * US)
    assert spi.read(0, 1) == b"\t" and spi.status() == 0 and not faults(spi)


def test_a_late_cut_leaves_a_sector_half_erased(spi):
    memory = spi.flash.memory()
    old = np.frombuffer(random.Random(2).randbytes(4096), np.uint8)
    shares, whole = [], 0
    for part in (0.0, 0.05, 0.15, 0.5, 0.8, 0.97, 0.99):
        memory[:4096] = old
        memory[4096:4100] = 0x77
        spi.erase(0)
        spi.wait(int(45 * MS * part))
        spi.flash.power(spi.t, False)
        shares.append(np.unpackbits(memory[:4096]).mean())
        whole += (memory[:4096] == 0xFF).all()
        assert (memory[4096:4100] == 0x77).all()
        spi.flash.power(spi.t, True)
        spi.t += 6 * MS
        assert spi.status() == 0
    assert abs(shares[0] - 0.5) < 0.02 and 0.3 < shares[1] < 0.45 and shares[2] < 0.25 and 0.3 < shares[3] < 0.5 and 0.6 < shares[4] < 0.9
    assert spi.flash["cuts"] == 7
    spi.program(0, [0])
    assert faults(spi) == ["programmed in a sector whose erasure was cut"]
    spi.until_ready()
    spi.erase(0)
    spi.until_ready()
    spi.program(0, [0])
    assert spi.flash.faults["programmed in a sector whose erasure was cut"] == 1


def test_a_cut_sector_may_look_erased():
    looks = []
    for seed in range(40):
        spi = Spi(Flash(seed))
        spi.flash.memory()[:4096] = 0
        spi.erase(0)
        spi.wait(44 * MS)
        spi.flash.power(spi.t, False)
        looks.append(bool((spi.flash.memory()[:4096] == 0xFF).all()))
    assert 2 < sum(looks) < 25


def test_a_cut_leaves_a_page_half_programmed_and_a_seed_repeats_it():
    found = []
    for seed in (3, 3, 4):
        spi = Spi(Flash(seed))
        spi.program(0x100, bytes(256))
        spi.wait(350 * US)
        spi.flash.power(spi.t, False)
        found.append(spi.flash.memory()[:0x300].copy())
    assert (found[0] == found[1]).all() and (found[0] != found[2]).any()
    assert 0.4 < np.unpackbits(found[0][0x100:0x200]).mean() < 0.6 and (found[0][:0x100] == 0xFF).all() and (found[0][0x200:] == 0xFF).all()


def test_a_suspended_erasure_is_cut_too(spi):
    spi.flash.memory()[:4096] = 0
    spi.erase(0)
    spi.wait(30 * MS)
    spi.command(0x75)
    spi.wait(100 * MS)
    spi.flash.power(spi.t, False)
    assert 0.3 < np.unpackbits(spi.flash.memory()[:4096]).mean() < 0.9 and spi.flash["suspended"] == 0


def test_a_worn_sector(spi):
    spi.flash["worn"] = 3
    for address in (0x1000, 0x2000):
        spi.erase(address)
        spi.until_ready()
    memory = spi.flash.memory()
    assert (memory[0x1000:0x2000] == 0xFF).all() and 0 < (memory[0x2000:0x3000] != 0xFF).sum() <= 16


def reset(spi):
    spi.command(0x66)
    spi.command(0x99)


def rising_late(spi):
    spi.select()
    spi.step(0, io=14)
    spi.step(1 * NS, clk=1)


def held_briefly(spi):
    spi.select()
    spi.step(0, io=14)
    spi.step(14 * NS, clk=1)
    spi.step(2 * NS, io=15)


def powered(spi, pause, *command):
    spi.flash.power(spi.t, False)
    spi.flash.power(spi.t, True)
    spi.wait(pause)
    spi.command(0x06)
    spi.command(*command)


def select_again(spi, pause):
    spi.command(0x06)
    spi.t -= 60 * NS
    spi.step(pause, select_n=0)


MISTAKES = {
    "a command while busy": lambda s: (s.program(0, [0]), s.command(0x06)),
    "a command less than 30 us after a reset (tRST)": lambda s: (reset(s), s.wait(20 * US), s.status()),
    "a command less than 3 us after power-down (tDP)": lambda s: (s.command(0xB9), s.command(0xAB)),
    "a command less than 3 us after release (tRES1)": lambda s: (s.command(0xAB), s.status()),
    "a command less than 20 us after power-up (tVSL)": lambda s: powered(s, 10 * US, 0x06),
    "written less than 5 ms after power-up (tPUW)": lambda s: powered(s, MS, 0x20, 0, 0, 0),
    "reset without 66": lambda s: s.command(0x99),
    "reset while busy or suspended": lambda s: (s.erase(0), reset(s)),
    "an unknown command": lambda s: s.command(0x42),
    "a command of a wrong length": lambda s: (s.command(0x06), s.command(0x20, 0, 0)),
    "a command of less than 8 clocks": lambda s: (s.select(), s.bit(1), s.deselect()),
    "selected less than 50 ns after a command (tSHSL2)": lambda s: select_again(s, 49 * NS),
    "selected less than 10 ns after a read (tSHSL1)": lambda s: select_again(s, 9 * NS),
    "clocked less than 5 ns after select (tSLCH)": lambda s: (s.step(0, select_n=0), s.step(4 * NS, clk=1)),
    "select ends less than 3 ns after the clock (tCHSH)": lambda s: (s.select(), s.step(14 * NS, clk=1), s.step(2 * NS, select_n=1)),
    "selected while the clock is high": lambda s: (s.step(0, clk=1), s.step(14 * NS, select_n=0)),
    "a line changes less than 2 ns before the clock (tDVCH)": rising_late,
    "a line changes less than 3 ns after the clock (tCHDX)": held_briefly,
    "both sides drive a line": lambda s: (s.select(), [s.bit(i) for i in (0, 0, 0, 0, 0, 1, 0, 1)], s.bit(1, 15)),
    "a line is driven less than 7 ns after select ends (tSHQZ)": lambda s: (
        s.select(), [s.bit(i) for i in (0, 0, 0, 0, 0, 1, 0, 1)], s.step(6 * NS, select_n=1), s.step(6 * NS, enable=15)),
    "nobody drives IO0": lambda s: (s.select(), s.bit(1, 12)),
    "write protection or hold is not high": lambda s: (s.select(), s.bit(1, 1)),
    "the clock is faster than 133 MHz (fR)": lambda s: (s.select(), s.step(9 * NS, clk=1), s.step(3500, clk=0), s.step(3500, clk=1)),
    "the clock is high for less than 45 % of its period (tCLH)": lambda s: (s.select(), s.step(9 * NS, clk=1), s.step(3 * NS, clk=0)),
    "the clock is low for less than 45 % of its period (tCLL)": lambda s: (
        s.select(), s.step(9 * NS, clk=1), s.step(9 * NS, clk=0), s.step(3 * NS, clk=1)),
    "read data (03) faster than 50 MHz": lambda s: (setattr(s, "period", 14 * NS), s.place(0x03, 0, read=1)),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_each_rule_of_the_data_sheet(spi, name):
    MISTAKES[name](spi)
    assert name in faults(spi), faults(spi)
