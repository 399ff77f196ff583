"""The models of buttons and of an SSD1306 against sequences written by hand."""

import numpy as np
import pytest

from tests.device.parts import Buttons, Ssd1306
from tests.device.wires import CLOCK, MS, US, bits_read, frame


def test_a_button_bounces_and_comes_to_rest():
    buttons = Buttons(4)
    levels = []
    for n in range(3000):
        if n in (500, 1500):
            buttons["pressed"] = (n == 500) << 2
        levels.append(buttons.at(n * 20 * US).levels)
    levels = np.array(levels)
    assert set(levels) == {0, 4}
    changes = np.flatnonzero(np.diff(levels)) + 1
    assert not levels[:500].any() and (levels[1000:1500] == 4).all() and not levels[2000:].any()
    assert len(changes) > 4 and all(500 <= n <= 750 or 1500 <= n <= 1750 for n in changes)  # 5 ms at most


def test_another_seed_bounces_otherwise_and_none_where_it_may_not():
    def course(seed, bounce):
        buttons = Buttons(seed, bounce=bounce)
        buttons.at(0)
        buttons["pressed"] = 1
        return [buttons.at(n * 20 * US).levels for n in range(1, 400)]

    assert course(1, 5 * MS) == course(1, 5 * MS) != course(2, 5 * MS)
    assert course(1, 0) == [1] * 399


class Display:
    def __init__(self, seed=1):
        self.part, self.t = Ssd1306(seed), 0

    def send(self, *data, **options):
        clock, line = frame(0x3C, data, **options)
        out = self.part.run(self.t, CLOCK, scl=clock, sda=line)
        self.t += (len(clock) + 100) * CLOCK
        return list(bits_read(clock, out.pulls)[8::9])

    def command(self, *data):
        return self.send(0x00, *data)


START = (0xAE, 0xD5, 0x80, 0xA8, 0x3F, 0xD3, 0x00, 0x40, 0x8D, 0x14, 0x20, 0x00, 0xA1, 0xC8, 0xDA, 0x12, 0x81, 0xCF, 0xD9, 0xF1, 0xDB, 0x40,
         0xA4, 0xA6, 0xAF)
"""The start-up of the data sheet's application note for 128 x 64, with horizontal addressing."""


@pytest.fixture
def display():
    display = Display()
    assert display.command(*START) == [0] * (len(START) + 2)
    assert display.command(0x21, 0, 127, 0x22, 0, 7) == [0] * 8
    return display


def test_what_is_written_is_seen(display):
    picture = np.random.default_rng(1).integers(0, 2, (64, 128)).astype(bool)
    columns = np.packbits(picture.reshape(8, 8, 128), axis=1, bitorder="little").reshape(-1)
    for first in range(0, 1024, 128):
        display.send(0x40, *columns[first:first + 128].tolist())
    assert (display.part.picture() == picture).all() and not display.part.faults
    display.command(0xA7)
    assert (display.part.picture() == ~picture).all()
    display.command(0xA6, 0xA0)
    assert (display.part.picture() == picture[:, ::-1]).all()
    display.command(0xA1, 0x40 | 5)
    assert (display.part.picture() == np.roll(picture, -5, 0)).all()
    display.command(0xA5)
    assert display.part.picture().all()
    display.command(0xAE)
    assert not display.part.picture().any()
    display.command(0x8D, 0x10, 0xAF)
    assert not display.part.picture().any()


@pytest.mark.parametrize("mode, places", [(0, [(2, 126), (2, 127), (3, 120), (3, 121)]), (1, [(2, 126), (3, 126), (2, 127), (3, 127)]),
                                          (2, [(2, 126), (2, 127), (2, 0), (2, 1)])])
def test_modes_of_addressing(display, mode, places):
    ram = display.part.memory().reshape(8, 128)
    ram[:] = 0
    display.command(0x20, mode, 0x21, 120, 127, 0x22, 2, 3)
    if mode == 2:
        display.command(0xB2, 0x0E, 0x17)
    else:  # go to column 126 of page 2 by writing
        display.send(0x40, *[0] * (6 if mode == 0 else 12))
    display.send(0x40, 1, 2, 3, 4)
    assert [ram[place] for place in places] == [1, 2, 3, 4] and ram.sum() == 10


def test_single_commands_and_data_with_control_bytes(display):
    display.part.memory()[:] = 0
    assert display.send(0x80, 0x81, 0x80, 0x22, 0xC0, 0x77, 0x40, 0x55) == [0] * 9
    assert display.part["contrast"] == 0x22 and list(display.part.memory()[:3]) == [0x77, 0x55, 0]


def test_its_faults(display):
    display.command(0x81)
    display.command(0xF5)
    display.send(0x20, 0xAF)
    assert set(display.part.faults) == {"SSD1306: a command without all its parameters", "SSD1306: an unknown command",
                                        "SSD1306: a control byte with bits that are not 0"}
    assert display.send(0x00, 0xAF, half=20) and any("1.3 us" in fault for fault in display.part.faults)


def test_power(display):
    display.part.power(display.t, False)
    assert display.command(0xAF) == [1, 1, 1]
    display.part.power(display.t, True)
    assert display.part["on"] == 0 and len(set(display.part.memory())) > 100  # anything
    assert display.command(0xAF) == [0, 0, 0] and display.part["on"] == 1
    assert Display().send(0x00, 0xAF) == [0, 0, 0] and [1, 1] == [*frame(0x3D, [0])[:, -1]]
