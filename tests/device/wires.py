"""Masters of two wires and of a flash, which step the models of parts; nothing of fbnn_hw's own drivers is in them."""

import numpy as np

NS, US, MS = 1_000, 1_000_000, 1_000_000_000
CLOCK = 27_778
"""Picoseconds of a clock of 36 MHz, by which the sensor's wires are sampled; XCLK is a third of it."""


def frame(address, data, half=50, read=0, start=True, stop=True):
    """Levels of the clock and of the data wire, a sample each, for a transfer on two wires.

    address: of 7 bits.  data: bytes to write after it.  read: bytes to read instead, none of which but the last is refused.
    half: samples of half a clock.  start, stop: whether these conditions are made.
    """
    levels = []

    def hold(clock, line, count=half):
        levels.extend([(clock, line)] * count)

    if start:
        hold(1, 1), hold(1, 0), hold(0, 0)
    for n, byte in enumerate([address << 1 | (read > 0), *([0xFF] * read or data)]):
        acknowledged = read and 0 < n < read
        for bit in [*(byte >> i & 1 for i in reversed(range(8))), int(not acknowledged)]:
            hold(0, bit), hold(1, bit), hold(0, bit)
    if stop:
        hold(0, 0), hold(1, 0), hold(1, 1)
    return np.array(levels).T


def bits_read(clock, pulls):
    """The bits on the data wire at each rising clock, where only the part pulls it low."""
    rises = np.flatnonzero(np.diff(clock.astype(int)) == 1) + 1
    return 1 - pulls[rises].astype(int)


class Bench:
    """A sensor, its clock and a master on its wires.  n: samples so far, every `clock` ps; divider: of XCLK, 0 for none."""

    def __init__(self, sensor, divider=3, clock=CLOCK):
        self.sensor, self.divider, self.clock, self.n = sensor, divider, clock, 0

    @property
    def t(self):
        return self.n * self.clock

    def run(self, count, **levels):
        """The outputs of so many samples."""
        samples, start = np.arange(self.n, self.n + count), self.t
        self.n += count
        return self.sensor.run(start, self.clock, xclk=samples % self.divider == 0 if self.divider else samples * 0, **levels)

    def transfer(self, address, data, half=50, **options):
        """The acknowledging bits of a write, or the bits of a read after its address's.  half: of a clock, in samples at 36 MHz."""
        clock, line = frame(address, data, half * CLOCK // self.clock, **options)
        out = self.run(len(clock), sioc=clock, siod=line)
        bits = bits_read(clock, out.pulls)
        self.run(100)
        return bits[8::9] if not options.get("read") else bits[9:]

    def write(self, address, *registers):
        """Write (place, value) each; place is a byte or two."""
        for place, value in registers:
            places = [place] if address == 0x21 else [place >> 8, place & 255]
            self.transfer(address, [*places, value])

    def record(self, frames):
        """The outputs until so many frames have begun and the last of them has ended; more of them is an error of the test."""
        parts, last = [], self.sensor["frames"] + frames + 1
        while self.sensor["frames"] < last:
            parts.append(self.run(200_000))
            assert len(parts) < 200
        return type(parts[0])(*(np.concatenate(lines) for lines in zip(*parts)))


def frames_of(out):
    """[[bytes of a row, an array]] of each whole frame, from the rising PCLK, HREF and VSYNC alone."""
    rises = np.flatnonzero((out.pclk[1:] == 1) & (out.pclk[:-1] == 0)) + 1
    href, vsync, data = out.href[rises].astype(int), out.vsync[rises].astype(int), out.data[rises]
    starts = np.flatnonzero(np.diff(vsync) == 1) + 1
    found = []
    for first, last in zip(starts, starts[1:]):
        line = np.diff(np.concatenate([[0], href[first:last], [0]]))
        found.append([data[first + a:first + b] for a, b in zip(np.flatnonzero(line == 1), np.flatnonzero(line == -1))])
    return found


class Spi:
    """A master of a flash.  period: ps of its clock.  t: the time.  events: (ps, select_n, clk, io, enable, lines, driven by the flash)."""

    def __init__(self, flash, period=28_000, quad=False):
        self.flash, self.period, self.t, self.quad, self.events = flash, period, 1_000 * US, quad, []
        self.levels = {"select_n": 1, "clk": 0, "io": 15, "enable": 13}
        self.step(0)

    def step(self, ps, **levels):
        self.t += ps
        self.levels |= levels
        out = self.flash.at(self.t, **self.levels)
        self.events.append((self.t, *self.levels.values(), out.io, out.driven))
        return out

    def select(self):
        self.step(self.period, select_n=0)

    def deselect(self):
        self.step(self.period // 2, select_n=1, io=15, enable=13)
        self.step(60 * NS)

    def bit(self, bit, enable=13):
        """A clock; returns the four lines at its rising edge."""
        self.step(0, io=14 | bit, enable=enable)
        lines = self.step(self.period // 2, clk=1).io
        self.step(self.period // 2, clk=0)
        return lines

    def command(self, *sent, read=0, lanes=1, dummy=0):
        """Send bytes -> the bytes that came then, `read` of them on `lanes` lines, after `dummy` clocks."""
        self.select()
        for byte in sent:
            for i in reversed(range(8)):
                self.bit(byte >> i & 1)
        for _ in range(dummy):
            self.bit(1, 13 if lanes == 1 else 0)
        got = []
        for _ in range(read):
            byte = 0
            for _ in range(8 // lanes):
                lines = self.bit(1, 13 if lanes == 1 else 0)
                byte = byte << lanes | (lines if lanes == 4 else lines >> 1 & 1 if lanes == 1 else lines & 3)
            got.append(byte)
        self.deselect()
        return got

    def status(self):
        return self.command(0x05, read=1)[0]

    def wait(self, ps):
        self.step(ps)

    def until_ready(self):
        """The time until the status says that it is ready, looked for every millisecond, and at first often."""
        start, pause = self.t, 20 * US
        while self.status() & 1:
            self.wait(pause)
            pause = min(2 * pause, MS)
        return self.t - start

    def just_ready_after(self, ps):
        """Whether it is busy until so long after the last event, and ready then."""
        self.wait(ps - 100 * US)
        busy = self.status() & 1
        self.wait(100 * US)
        return busy and not self.status() & 1

    def place(self, command, address, *data, **options):
        return self.command(command, address >> 16, address >> 8 & 255, address & 255, *data, **options)

    def erase(self, address):
        self.command(0x06)
        self.place(0x20, address)

    def program(self, address, data):
        self.command(0x06)
        self.place(0x02, address, *data)

    def read(self, address, count):
        return bytes(self.place(0x0B, address, read=count, dummy=8))
