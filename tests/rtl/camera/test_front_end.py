"""The camera front end beside a plain sensor: whatever the timing, an image equals the reference's or says that it is torn."""

import os
import random
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

from fbnn_hw.base.errors import UsageError
from fbnn_hw.reference import camera, encode
from fbnn_hw.rtl.camera.front_end import CameraFrontEnd, box_byte
from fbnn_hw.rtl.camera.sensors import HM01B0, OV7670

SEED = int(os.environ.get("FBNN_SEED", random.randrange(1 << 30)))
SMALL = {"ov7670": replace(OV7670, width=23, height=20), "hm01b0": replace(HM01B0, width=20, height=19, href=0)}
SIZE = 4
"""Pixels a side of the images of a small sensor."""
TICK = 400
"""Clocks of a tick."""


@dataclass
class Frame:
    """pixels: words or bytes (height, width).  lines: {row: bytes more or fewer than a line has}.  vsync: the row in whose place the frame
    ends.  stop: the row in whose middle the sensor stops for good, for clocks without end as far as the front end knows."""

    pixels: np.ndarray
    lines: dict = field(default_factory=dict)
    vsync: int | None = None
    stop: int | None = None

    def image(self, sensor, size):
        """The bytes that the accelerator gets."""
        side = 4 * size
        top, left = (sensor.height - side) // 2, (sensor.width - side) // 2
        window = np.zeros((1, 128, 128), self.pixels.dtype)
        window[0, :side, :side] = self.pixels[top:top + side, left:left + side]
        image = (camera.from_grey if sensor.grey else camera.from_rgb565)(window)[:, :, :size, :size]
        return encode.to_bytes(image)[0].tobytes()

    def torn(self, sensor, size):
        """None: no image begins."""
        top = (sensor.height - 4 * size) // 2
        ends = min(sensor.height if row is None else row for row in (self.vsync, self.stop))
        if self.vsync is not None and ends <= top or self.stop is not None and ends < top:
            return None
        if 2 * self.lines.get(top, 0) < -self.pixels[top].nbytes:  # the window's first line does not reach it
            return None
        return ends < top + 4 * size or any(top <= row < top + 4 * size for row in self.lines)


def drawn(sensor, source, **fault):
    values = np.random.default_rng(source.randrange(1 << 30))
    shape, dtype = (sensor.height, sensor.width), np.uint8 if sensor.grey else np.uint16
    most = np.iinfo(dtype).max
    return Frame(np.where(values.random(shape) < 0.3, most, values.integers(0, most, shape, endpoint=True)).astype(dtype), **fault)


def cycles(sensor, frames, source):
    """(vsync, href, byte, frame's number) of each cycle of PCLK; then None where the sensor stops."""
    def blank(count, vsync=1 - sensor.vsync):
        for _ in range(count):
            yield vsync, 1 - sensor.href, source.randrange(256), number

    for number, frame in enumerate(frames):
        yield from blank(source.randrange(3, 30), sensor.vsync)
        yield from blank(source.randrange(3, 30))
        for row, line in enumerate(frame.pixels):
            if row == frame.vsync:
                break
            data = line.astype(line.dtype.newbyteorder(">")).tobytes()
            change = frame.lines.get(row, 0)
            data = data[:change] if change < 0 else data + source.randbytes(change)
            for place, byte in enumerate(data):
                yield 1 - sensor.vsync, sensor.href, byte, number
                if row == frame.stop and place == len(data) // 2:
                    yield None
                    break
            else:
                yield from blank(source.randrange(3, 25))
                continue
            break
    yield from blank(30, sensor.vsync)


def levels(sensor, frames, period, jitter, source, silence):
    """(pclk, href, vsync, data, frame's number) at each clock; pins change shortly after PCLK falls, each edge at its own time."""
    clock, falls, held = 0, source.random(), (sensor.vsync, 1 - sensor.href, 0, 0)
    for cycle in cycles(sensor, frames, source):
        if cycle is None:
            for _ in range(silence):
                yield 1, held[1], held[0], *held[2:]
                clock, falls = clock + 1, falls + 1
            continue
        changes = falls + source.uniform(0, 0.2)
        rises = falls + period / 2 + source.uniform(-jitter, jitter)
        falls += period + source.uniform(-jitter, jitter) / 2
        while clock < falls:
            if clock >= changes:
                held = cycle
            yield int(clock >= rises), held[1], held[0], *held[2:]
            clock += 1


@dataclass
class Image:
    frame: int
    data: bytearray = field(default_factory=bytearray)
    torn: bool = False


def simulate(dut, waveform, source, patience=0.0, busy=(0, 0)):
    """(Images, numbers of frames whose window may have begun while none could, clocks at which `absent` changed).

    patience: how often a reader lets a byte wait.  busy: clocks that the accelerator computes after an image.
    """
    images, absences, skipped = [], [], set()

    async def bench(ctx):
        image, free, absent, before, number = None, 0, 0, None, 0
        for clock, (*pins, number) in enumerate(waveform):
            if pins != before:
                for signal, level in zip((dut.pclk, dut.href, dut.vsync, dut.data), pins):
                    ctx.set(signal, level)
                before = pins
            ready = source.random() >= patience
            ctx.set(dut.pixels.ready, ready)
            ctx.set(dut.tick, clock % TICK == 0)
            ctx.set(dut.skip, clock < free)
            if clock < free or image:
                skipped.add(number)
            if ready and ctx.get(dut.pixels.valid):
                image.data.append(ctx.get(dut.pixels.payload))
            await ctx.tick()
            if ctx.get(dut.active) and image is None:
                image = Image(number)
                images.append(image)
            elif image and not ctx.get(dut.active):
                image.torn, image, free = bool(ctx.get(dut.torn)), None, clock + source.randint(*busy)
            if ctx.get(dut.absent) != absent:
                absent = 1 - absent
                absences.append(clock)
        assert image is None

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return images, skipped, absences


def compare(sensor, size, frames, images, skipped=frozenset(), late=False):
    """late: the reader may be so slow that a whole frame's image is torn."""
    assert all(len(image.data) == 3 * size ** 2 for image in images)
    began = {image.frame: image for image in images}
    assert len(began) == len(images)
    for number, frame in enumerate(frames):
        torn, image = frame.torn(sensor, size), began.get(number)
        if torn is None:
            assert image is None
        elif image is None:
            assert number in skipped, f"frame {number} was skipped"
        else:
            assert image.torn == torn or late and image.torn, f"frame {number}"
            assert image.torn or bytes(image.data) == frame.image(sensor, size), f"frame {number}"


def faults(sensor, source):
    """Frames of every kind, a whole one after each."""
    top = (sensor.height - 4 * SIZE) // 2
    unit = 1 if sensor.grey else 2
    kinds = [{}, {"lines": {source.randrange(top, top + 4 * SIZE): source.choice([-1, 1, -unit, unit, -2 * unit, 5 * unit])}},
             {"lines": {source.choice([0, sensor.height - 1]): source.choice([-1, 3])}}, {"vsync": source.randrange(sensor.height)},
             {"vsync": top + 4 * SIZE}, {"stop": source.randrange(sensor.height)}, {"lines": {top: 1 - unit * sensor.width}}]
    source.shuffle(kinds)
    return [drawn(sensor, source, **kind) for fault in kinds for kind in (fault, {})]


@pytest.mark.parametrize("period, jitter", [(3, 0.2), (3.04, 0.1), (4.7, 0.3)])
@pytest.mark.parametrize("sensor", SMALL.values(), ids=SMALL)
def test_whole_and_torn_frames(sensor, period, jitter):
    print("FBNN_SEED", SEED)
    source = random.Random(f"{SEED} {sensor.name} {period}")
    frames = faults(sensor, source)
    waveform = list(levels(sensor, frames, period, jitter, source, 40 * TICK))
    images, skipped, _ = simulate(CameraFrontEnd(sensor, 5, SIZE), waveform, source)
    compare(sensor, SIZE, frames, images, skipped)
    assert sum(not image.torn for image in images) >= 7 and sum(image.torn for image in images) >= 1


@pytest.mark.parametrize("patience", [0.3, 0.97, 0.995])
@pytest.mark.parametrize("sensor", SMALL.values(), ids=SMALL)
def test_a_reader_that_lets_bytes_wait(sensor, patience):
    """Slow readers lose images, and each is marked; frames that begin while the accelerator computes are skipped whole."""
    print("FBNN_SEED", SEED)
    source = random.Random(f"{SEED} {sensor.name} {patience}")
    frames = [drawn(sensor, source) for _ in range(8)]
    waveform = list(levels(sensor, frames, 3.1, 0.1, source, 0))
    waveform += [waveform[-1]] * int(600 * SIZE ** 2 * (patience > 0.9))
    images, skipped, _ = simulate(CameraFrontEnd(sensor, 8, SIZE), waveform, source, patience, (0, len(waveform) // 8))
    compare(sensor, SIZE, frames, images, skipped, late=patience > 0.3)
    assert len(images) < 8 and (patience == 0.97 or any(image.torn for image in images) == (patience > 0.99))


def test_a_sensor_that_stops_and_comes_back():
    print("FBNN_SEED", SEED)
    source = random.Random(SEED)
    sensor = SMALL["ov7670"]
    frames = [drawn(sensor, source), drawn(sensor, source, stop=12), drawn(sensor, source)]
    waveform = list(levels(sensor, frames, 3, 0.1, source, 40 * TICK))
    images, _, absences = simulate(CameraFrontEnd(sensor, 5, SIZE), waveform, source)
    assert [image.torn for image in images] == [False, True, False]
    compare(sensor, SIZE, frames, images)
    stopped = next(clock for clock in range(len(waveform)) if waveform[clock:clock + 2 * TICK] == waveform[clock:clock + 1] * 2 * TICK)
    gone, back = absences
    assert stopped < gone < stopped + 33 * TICK < stopped + 40 * TICK < back < len(waveform)


def test_no_sensor_is_absent():
    dut = CameraFrontEnd(OV7670, 3)
    images, _, absences = simulate(dut, [(0, 0, 0, 0, 0)] * 10 * TICK, random.Random(1))
    assert not images and len(absences) == 1 and 7 * TICK <= absences[0] <= 8 * TICK


def test_an_image_of_full_size():
    """All 1,024 boxes, sums up to the largest; a frame whose window is as wide as its lines."""
    source = random.Random(5)
    sensor = replace(OV7670, width=128, height=130)
    frame = drawn(sensor, source)
    frame.pixels[1:33, :64] = 0xFFFF
    images, *_ = simulate(CameraFrontEnd(sensor, 9), levels(sensor, [frame], 3, 0.1, source, 0), source)
    compare(sensor, 32, [frame], images)
    assert len(images) == 1 and not images[0].torn


def test_the_byte_of_every_sum():
    m = Module()
    total, six, byte = Signal(10), Signal(), Signal(8)
    m.d.comb += byte.eq(box_byte(total, six))

    async def bench(ctx):
        for s in range(16 * 63 + 1):
            ctx.set(total, s)
            ctx.set(six, 1)
            assert ctx.get(byte) == s >> 2 | s >> 8
        ctx.set(six, 0)
        for s in range(16 * 31 + 1):
            ctx.set(total, 2 * s)
            assert ctx.get(byte) == s >> 1 | s >> 6
    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()


def test_frames_without_room_for_the_window():
    for sensor in (replace(OV7670, width=127), replace(OV7670, height=129)):
        with pytest.raises(UsageError, match="ov7670 has .* pixels, expected 128 x 130 or more"):
            CameraFrontEnd(sensor)
