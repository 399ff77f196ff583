"""A plain sensor with any timing, and the check of the camera front end beside it: an image is right, or said to be torn."""

import os
import random
from dataclasses import dataclass, field, replace

import numpy as np

from fbnn_hw.reference import camera, encode
from fbnn_hw.rtl.camera.sensors import HM01B0, OV7670

SIZE = 4 if os.environ.get("FBNN_SLOW") else 2
"""Pixels a side of the images of a small sensor."""
SMALL = {"ov7670": replace(OV7670, width=4 * SIZE + 7, height=4 * SIZE + 4),
         "hm01b0": replace(HM01B0, width=4 * SIZE + 4, height=4 * SIZE + 3, href=0)}
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


async def watch(cycle, waveform, source, patience=0.0, busy=(0, 0)):
    """(Images, numbers of frames whose window may have begun while none could, clocks at which `absent` changed).

    patience: how often a reader lets a byte wait.  busy: clocks that the accelerator computes after an image.
    """
    images, absences, skipped = [], [], set()
    image, free, absent, number = None, 0, 0, None
    for clock, (pclk, href, vsync, data, frame) in enumerate(waveform):
        ready = source.random() >= patience
        found = await cycle({"pclk": pclk, "href": href, "vsync": vsync, "data": data, "tick": int(clock % TICK == 0),
                             "skip": int(clock < free), "pixels__ready": int(ready)})
        if found["active"] and image is None:
            image = Image(number)
            images.append(image)
        elif image and not found["active"]:
            image.torn, image, free = bool(found["torn"]), None, clock + source.randint(*busy)
        number = frame
        if clock < free or image:
            skipped.add(number)
        if ready and found["pixels__valid"]:
            image.data.append(found["pixels__payload"])
        if found["absent"] != absent:
            absent = 1 - absent
            absences.append(clock)
    assert image is None, "the last image has no end"
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


async def camera_frames(cycle, sensor, size=SIZE, period=3.0, jitter=0.2, seed=1):
    """Frames of every kind, whole and torn; the reader takes each byte at once."""
    source = random.Random(seed)
    frames = faults(sensor, source)
    waveform = levels(sensor, frames, period, jitter, source, 40 * TICK)
    images, skipped, _ = await watch(cycle, waveform, source)
    compare(sensor, size, frames, images, skipped)
    assert sum(not image.torn for image in images) >= 7 and sum(image.torn for image in images) >= 1
