"""The models of OV7670 and HM01B0 against sequences written by hand from their data sheets."""

import numpy as np
import pytest

from tests.device.parts import Hm01b0, Ov7670
from tests.device.wires import CLOCK, MS, Bench, frames_of

OV, HM = 0x21, 0x24
RATE = [(0x11, 0x01), (0x6B, 0x4A)]  # CLKRC: by 2; DBLV: PLL by 4
FORMAT = [(0x12, 0x04), (0x40, 0xD0), (0x8C, 0x00)]  # RGB, RGB565 from 00 to FF
HALVES = [(0x0C, 0x04), (0x3E, 0x19), (0x72, 0x11), (0x73, 0xF1)]  # DCW, PCLK by 2, both directions by 2
WINDOW = [(0x17, 0x16), (0x18, 0x04), (0x32, 0x24), (0x19, 0x02), (0x1A, 0x7A), (0x03, 0x0A)]
QVGA = [*RATE, *FORMAT, *HALVES, *WINDOW]
PREDEFINED = [*RATE, (0x12, 0x14), (0x40, 0xD0), (0x3E, 0x00), *WINDOW]
RIGHT = "320 x 240 RGB565, PCLK 12.00 MHz, 30.0 frames/s"


@pytest.fixture
def words():
    return np.random.default_rng(5).integers(0, 1 << 16, (240, 320), np.uint16)


def ready(kind=Ov7670, seed=2, faster=1, **options):
    """A bench.  faster: samples in a clock of 36 MHz, of which XCLK is a third."""
    bench = Bench(kind(seed, **options), 3 * faster, CLOCK // faster)
    bench.run(100)
    return bench


def words_of(rows):
    return np.array([row[::2] << 8 | row[1::2] for row in rows], np.uint16)


def started(words, registers=QVGA, **options):
    """A bench whose sensor has its registers and shows a picture."""
    bench = ready(**options)
    bench.write(OV, *registers)
    bench.sensor.show(words)
    return bench


def test_it_answers_on_two_wires():
    bench = ready()
    assert list(bench.transfer(OV, [0x11, 0x05])) == [0, 0, 0]  # each byte is acknowledged
    assert list(bench.transfer(0x3C, [0x11, 0x07])) == [1, 1, 1]
    assert bench.sensor.memory(1)[0x11] == 5
    bench.transfer(OV, [0x0A])
    assert list(bench.transfer(OV, [], read=1)[:8]) == [0, 1, 1, 1, 0, 1, 1, 0]  # PID, 76
    bench.write(OV, (0x0A, 0x12))
    assert bench.sensor.memory(1)[0x0A] == 0x76 and not bench.sensor.faults and bench.sensor["writes"] == 2


@pytest.mark.parametrize("name, act", {
    "two wires: the clock is low for less than 1.3 us": lambda b: b.transfer(OV, [0x11, 1], half=20),
    "two wires: the clock is high for less than 0.6 us": lambda b: b.transfer(OV, [0x11, 1], half=20),
    "two wires: data changes less than 100 ns before the clock": lambda b: b.transfer(OV, [0x11, 0x55], half=2),
    "two wires: a start without a stop": lambda b: (b.transfer(OV, [0x0A], stop=False), b.transfer(OV, [], read=1)),
    "two wires: a stop amid a byte": lambda b: (
        b.run(50, sioc=np.ones(50, int), siod=np.zeros(50, int)), b.run(50, sioc=np.zeros(50, int), siod=np.zeros(50, int)),
        b.run(50, sioc=np.ones(50, int), siod=np.ones(50, int)), b.run(50, sioc=np.zeros(50, int), siod=np.zeros(50, int)),
        b.run(50, sioc=np.ones(50, int), siod=np.zeros(50, int)), b.run(50, sioc=np.ones(50, int), siod=np.ones(50, int))),
    "OV7670: a write of more than three phases": lambda b: b.transfer(OV, [0x11, 1, 2]),
    "OV7670: a register that it has not": lambda b: b.transfer(OV, [0xFE, 1]),
    "OV7670: written within 1 ms of a reset": lambda b: (b.transfer(OV, [0x12, 0x80]), b.transfer(OV, [0x11, 1])),
    "OV7670: written while XCLK rests": lambda b: (setattr(b, "divider", 0), b.run(2000), b.transfer(OV, [0x11, 1])),
}.items())
def test_each_rule_of_the_wires(name, act):
    bench = ready()
    act(bench)
    assert name in bench.sensor.faults, bench.sensor.faults


def test_a_reset_takes_a_millisecond(words):
    bench = started(words)
    assert str(bench.sensor) == RIGHT
    bench.write(OV, (0x12, 0x80), (0x11, 0x3F))
    registers = bench.sensor.memory(1)
    assert (registers[0x11], registers[0x12], registers[0x40]) == (0x80, 0, 0xC0) and bench.sensor["resets"] == 1
    bench.run(MS // CLOCK + 1)
    bench.write(OV, (0x11, 0x3F))
    assert registers[0x11] == 0x3F and bench.sensor.faults == {"OV7670: written within 1 ms of a reset": 1}  # of its two bytes, the first


@pytest.mark.parametrize("registers", [QVGA, PREDEFINED])
def test_a_picture(words, registers):
    bench = started(words, registers)
    assert str(bench.sensor) == RIGHT
    out = bench.record(1)
    assert (words_of(frames_of(out)[-1]) == words).all() and not bench.sensor.faults
    times(out)


def times(out):
    """Those of the data sheet, in periods of PCLK, two of which are a tP here: 784 tP a line, of which an output line takes two."""
    rises = np.flatnonzero((out.pclk[1:] == 1) & (out.pclk[:-1] == 0)) + 1
    steps = np.diff(out.href[rises].astype(int))
    up, down = np.flatnonzero(steps == 1), np.flatnonzero(steps == -1)
    vsync = np.diff(out.vsync[rises].astype(int))
    frame, over = np.flatnonzero(vsync == 1), np.flatnonzero(vsync == -1)
    over = over[over > frame[0]][0]
    up, down = up[up > frame[0]], down[down > frame[0]]
    assert frame[1] - frame[0] == 784 * 510 and over - frame[0] == 3 * 784 and up[0] - over == 17 * 784
    assert down[0] - up[0] == 640 and up[1] - up[0] == 2 * 784 and frame[1] - up[239] == 12 * 784  # the last line and one that is left out


def test_rgb_bytes_become_their_high_bits():
    sensor = Ov7670()
    picture = np.zeros((240, 320, 3), np.uint8)
    picture[0, :4] = (255, 255, 255), (8, 4, 8), (7, 3, 7), (0x80, 0x40, 0x20)
    assert list(sensor.show(picture)[0, :4]) == [0xFFFF, 0x0821, 0, 0x8204]
    assert list(sensor.memory()[:4]) == [0xFF, 0xFF, 0x21, 0x08]


@pytest.mark.parametrize("change, text", [
    ((0x11, 0x00), "320 x 240 RGB565, PCLK 24.00 MHz, 60.0 frames/s"), ((0x11, 0x03), "320 x 240 RGB565, PCLK 6.00 MHz, 15.0 frames/s"),
    ((0x11, 0x43), "320 x 240 RGB565, PCLK 24.00 MHz, 60.0 frames/s"), ((0x6B, 0x0A), "320 x 240 RGB565, PCLK 3.00 MHz, 7.5 frames/s"),
    ((0x12, 0x00), "320 x 240 of another format, PCLK 12.00 MHz, 30.0 frames/s"),
    ((0x12, 0x05), "320 x 240 of another format, PCLK 12.00 MHz, 30.0 frames/s"),
    ((0x40, 0xC0), "320 x 240 of another format, PCLK 12.00 MHz, 30.0 frames/s"),
    ((0x40, 0xF0), "320 x 240 of another format, PCLK 12.00 MHz, 30.0 frames/s"),
    ((0x8C, 0x02), "320 x 240 of another format, PCLK 12.00 MHz, 30.0 frames/s"),
    ((0x0C, 0x20), "392 x 480 of another format, PCLK 12.00 MHz, 30.0 frames/s"),
    ((0x3E, 0x00), "320 x 240 of another format, PCLK 24.00 MHz, 30.0 frames/s"),
    ((0x72, 0x12), "160 x 240 of another format, PCLK 12.00 MHz, 30.0 frames/s"),
    ((0x73, 0xF2), "320 x 240 of another format, PCLK 12.00 MHz, 30.0 frames/s"),
    ((0x18, 0x03), "316 x 240 RGB565, PCLK 12.00 MHz, 30.0 frames/s"), ((0x1A, 0x70), "320 x 220 RGB565, PCLK 12.00 MHz, 30.0 frames/s")])
def test_each_register_matters(words, change, text):
    bench = started(words, [*QVGA, change], faster=1 + 2 * ("24.00" in text))  # 36 MHz cannot sample a PCLK of 24
    assert str(bench.sensor) == text
    rows = frames_of(bench.record(1))[-1]
    if text.startswith("392"):  # more bytes than a line has clocks: HREF stays
        assert len(rows) == 1
    else:
        assert len(rows) == int(text.split()[2]) and all(len(row) == 2 * int(text.split()[0]) for row in rows)
    if "RGB565" not in text and len(rows) == 240:
        assert not np.array_equal(words_of(rows), words)


def test_windows_beside_the_picture_show_its_surroundings(words):
    bench = started(words)
    bench.write(OV, (0x17, 0x17), (0x18, 0x05))  # eight columns of VGA to the right, beyond what drivers use by six
    rows = frames_of(bench.record(1))[-1]
    assert (words_of(rows)[:, :317] == words[:, 3:]).all() and not words_of(rows)[:, 317:].any()


def test_mirrored_swapped_and_bars(words):
    bench = started(words)
    bench.write(OV, (0x1E, 0x30), (0x0C, 0x44))
    rows = frames_of(bench.record(1))[-1]
    assert (words_of(rows).byteswap() == words[::-1, ::-1]).all()
    bench.write(OV, (0x1E, 0), (0x0C, 4), (0x12, 6))
    rows = frames_of(bench.record(1))[-1]
    assert [words_of(rows)[100, 20 + 40 * n] for n in range(8)] == [0xFFFF, 0xFFE0, 0x07FF, 0x07E0, 0xF81F, 0xF800, 0x001F, 0]


def test_polarities_and_a_clock_that_rests(words):
    bench = started(words)
    bench.write(OV, (0x15, 0x3A))  # PCLK rests and is reversed, HREF and VSYNC are negative
    out = bench.record(1)
    out = out._replace(pclk=1 - out.pclk, href=1 - out.href, vsync=1 - out.vsync)
    rises = np.flatnonzero((out.pclk[1:] == 1) & (out.pclk[:-1] == 0)) + 1
    assert out.href[rises].mean() > 0.99
    data = out.data[rises][out.href[rises] == 1][-2 * words.size:]
    assert len(data) == 2 * words.size


@pytest.mark.parametrize("seed, jitter, blanking", [(1, 5_000, 0), (2, 0, 300), (3, 6_000, 2000)])
def test_random_timing(words, seed, jitter, blanking):
    bench = started(words, seed=seed, jitter=jitter, blanking=blanking)
    out = bench.record(1)
    assert (words_of(frames_of(out)[-1]) == words).all()
    hrefs = np.diff(np.flatnonzero((out.href[1:] == 1) & (out.href[:-1] == 0)))[-200:]
    assert (hrefs[hrefs < 50_000].std() > 100) == (blanking > 0)
    bench.n, bench.clock, bench.divider = bench.t // 1000 + 1, 1000, 83  # seen by a nanosecond
    rises = np.diff(np.flatnonzero(np.diff(bench.run(100_000).pclk.astype(int)) == 1))[50:]
    assert abs(rises - 83).max() <= 2 * jitter / 1000 + 2 and (abs(rises - 83).max() > 2) == (jitter > 0)


@pytest.mark.parametrize("place", [1, 639, 640, 100_001])
def test_a_torn_frame(words, place):
    bench = started(words)
    while bench.sensor["sent"] <= place:
        bench.run(10_000)
    bench.sensor["torn"] = place
    frames = frames_of(bench.record(3))
    torn, = [n for n, rows in enumerate(frames) if sum(map(len, rows)) == place]
    assert (words_of(frames[torn + 1]) == words).all() and bench.sensor["torn"] == 0


def test_the_picture_of_a_frame_is_that_at_its_start(words):
    bench = started(words)
    bench.record(0)
    bench.run(600_000)
    bench.sensor.show(~words)
    bench.run(400_000)
    assert (words_of(frames_of(bench.record(1))[-1]) == ~words).all()


def test_a_sensor_that_stops_and_one_that_is_not_there(words):
    bench = started(words)
    bench.record(0)
    bench.sensor["stopped"] = 1
    out = bench.run(100_000)
    assert all(len(set(lines)) == 1 for lines in out)
    bench.sensor["stopped"] = 0
    assert (words_of(frames_of(bench.record(2))[-1]) == words).all()
    bench.sensor.power(bench.t, False)
    assert not any(lines.any() for lines in bench.run(10_000))
    absent = ready(absent=1)
    assert list(absent.transfer(OV, [0x12, 0x80])) == [1, 1, 1]
    assert not any(lines.any() for lines in absent.run(10_000)) and absent.sensor["frames"] == 0


def test_without_its_clock_it_stands_still(words):
    bench = started(words)
    bench.record(0)
    bench.divider = 0
    bench.run(1000)
    assert all(len(set(lines)) == 1 for lines in bench.run(10_000)) and str(bench.sensor) == "no clock"
    bench.divider = 3
    bench.run(1000)
    assert str(bench.sensor) == RIGHT


@pytest.mark.parametrize("levels", [{"reset_n": 0}, {"pwdn": 1}])
def test_reset_and_power_down_by_their_pins(words, levels):
    bench = started(words)
    bench.sensor.at(bench.t, **levels)
    assert all(len(set(lines)) == 1 for lines in bench.run(10_000))
    assert (bench.sensor.memory(1)[0x40] == 0xC0) == ("reset_n" in levels)


GREY = [(0x0340, 0x01), (0x0341, 0x04), (0x0342, 0x01), (0x0343, 0x78), (0x3010, 0x01), (0x3059, 0x02), (0x3060, 0x0A)]


def grey(registers=GREY, **options):
    bench = ready(Hm01b0, **options)
    picture = np.random.default_rng(6).integers(0, 256, (324, 324), np.uint8)
    bench.sensor.show(picture)
    bench.write(HM, *registers, (0x0100, 0x01))
    return bench, picture


def test_hm01b0_streams_when_it_is_told():
    bench, picture = grey()
    assert str(bench.sensor) == "324 x 244 grey, PCLK 6.00 MHz, 61.4 frames/s"
    out = bench.record(2)
    assert (np.array(frames_of(out)[-1]) == picture[40:284]).all() and not bench.sensor.faults
    rises = np.flatnonzero((out.pclk[1:] == 1) & (out.pclk[:-1] == 0)) + 1
    starts = np.flatnonzero(np.diff(out.vsync[rises].astype(int)) == 1)
    assert starts[1] - starts[0] == 376 * 260
    bench.write(HM, (0x0100, 0x00))
    assert all(len(set(lines)) == 1 for lines in bench.run(10_000))


@pytest.mark.parametrize("change, text, size", [
    ((0x3010, 0), "324 x 258 grey", (258, 324)), ((0x3060, 0x09), "324 x 244 grey, PCLK 3.00", (244, 324)),
    ((0x3059, 0x42), "324 x 244 of another format", (244, 324))])
def test_hm01b0_registers(change, text, size):
    bench, picture = grey([*GREY, change])
    assert str(bench.sensor).startswith(text)
    rows = frames_of(bench.record(2))[-1]
    assert np.array(rows).shape == size
    top = 40 if size[0] == 244 else 0
    assert np.array_equal(rows, picture[top:top + size[0]]) == ("grey" in text)


def test_hm01b0_gates_its_clock():
    bench, _ = grey([*GREY, (0x3060, 0x2A)])
    out = bench.record(1)
    rises = np.flatnonzero((out.pclk[1:] == 1) & (out.pclk[:-1] == 0)) + 1
    assert out.href[rises].all() and len(rises) > 324 * 244


def test_hm01b0_reset_and_ids():
    bench, _ = grey()
    bench.transfer(HM, [0x00, 0x00], stop=False)
    bits = bench.transfer(HM, [], read=2)
    assert list(np.packbits(np.concatenate([bits[:8], bits[9:17]]))) == [0x01, 0xB0]
    bench.write(HM, (0x0103, 0))
    assert bench.sensor.memory(1)[0x100] == 0 and bench.sensor["resets"] == 1
    bench.transfer(HM, [0x03, 0x40, 0x02, 0x33])  # places go on
    assert list(bench.sensor.memory(1)[0x340:0x342]) == [2, 0x33]
