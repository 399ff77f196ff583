"""The pins of a camera's sensor -> images as the accelerator takes them."""

from types import SimpleNamespace

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ...base.errors import UsageError
from ...reference.camera import BOX, SIZE
from ..signals import unnamed


class CameraFrontEnd(wiring.Component):
    """Samples a sensor's pins, adds up the boxes of the window in the middle of a frame, and gives the image.

    An image begins with the first pixel of the window, and then always has all its bytes.  Where its frame is torn, what lacks is filled
    with any bytes, and `torn` says so at its end.  An image is torn by

    - VSYNC, or a sensor that stops, amid the window,
    - a line of the window with more or fewer pixels than the sensor's lines have,
    - a reader who has not taken a row of boxes when the next one is complete, or the last one when the next window begins.

    A frame whose window begins while `skip` is 1, or while the image before is given, is skipped whole, and so is one that ends before its
    window.  A sensor that leaves a line out and goes on to VSYNC as if nothing were missing gives the lines that follow.

    Sums lie in a block RAM, two rows of boxes: one is added up while the other one is given.

    Twin: `fbnn_hw.reference.camera`.

    Parameters:
    - sensor: Sensor.
    - timeout_bits: the sensor is absent when no window has begun for 2^timeout_bits ticks.
    - size: pixels a side of the image, a power of two from 2 to 32; the window has four times as many.

    Timing: The clock is at least three times PCLK: pins are sampled, two registers each, and a byte is taken at PCLK's rising edge.  A
    pixel takes four clocks of the five that there are at least; of a grey sensor two of two.  A row of boxes is given once its last line
    has ended, and the next four lines are the time for it: a byte takes three clocks where it is taken at once, some more where it meets
    a pixel.  So an image ends some 300 clocks after the last line of the window.

    Resources: One block RAM.

    Raises UsageError if the sensor's frame has no room for the window.
    """

    def __init__(self, sensor, timeout_bits=6, size=SIZE):
        window = BOX * size
        if sensor.width < window or sensor.height < window + 2:
            raise UsageError(f"camera: {sensor.name} has {sensor.width} x {sensor.height} pixels, expected {window} x {window + 2} or more")
        self.sensor, self.timeout_bits, self.size, self.window = sensor, timeout_bits, size, window
        super().__init__({
            "pclk": In(1), "href": In(1), "vsync": In(1), "data": In(8),  # straight from the pins
            "tick": In(1),  # strobes about once a millisecond
            "skip": In(1),  # no image may begin, such as `busy` of an `Accelerator`
            # R, G, B of each pixel in raster order, as `Accelerator` takes them; three equal bytes of a grey sensor.
            "pixels": Out(stream.Signature(8)),
            "active": Out(1),  # from the first pixel of a window until the last byte of its image is taken
            "torn": Out(1),  # the image that ended last was torn: its answer is to be dropped; it changes when `active` ends alone
            "absent": Out(1)})  # no window has begun for so long

    @staticmethod
    def byte(total, six):
        """The byte of a box's sum of sixteen values of six bits; of five bits, where `six` is 0, each taken twice."""
        return (total >> 2 | Mux(six, total >> 8, total >> 7))[:8]

    def elaborate(self, platform):
        m = Module()
        s = SimpleNamespace()
        self._sample(m, s)
        self._place(m, s)
        self._add(m, s)
        self._give(m, s)
        self._watch(m, s)
        return m

    def _sample(self, m, s):
        """The pins in step with the clock, and a pixel's bytes."""
        pins = Signal(11)
        m.submodules.synchronizer = FFSynchronizer(Cat(self.data, self.pclk, self.href, self.vsync), pins)
        before = Signal()
        m.d.sync += before.eq(pins[8])
        s.line = pins[9] == self.sensor.href  # within a line
        s.between = pins[10] == self.sensor.vsync  # between two frames
        taken = pins[8] & ~before & s.line
        s.low = Signal(8)
        if self.sensor.grey:
            s.pixel, s.odd = taken, 0
            with m.If(taken):
                m.d.sync += s.low.eq(pins[:8])
            return
        s.high = Signal(8)
        s.odd = Signal()  # the next byte is the second of its pixel
        s.pixel = taken & s.odd
        with m.If(~s.line):
            m.d.sync += s.odd.eq(0)
        with m.If(taken):
            m.d.sync += s.odd.eq(~s.odd)
            with m.If(s.odd):
                m.d.sync += s.low.eq(pins[:8])
            with m.Else():
                m.d.sync += s.high.eq(pins[:8])

    def _counter(self, length):
        """(Number of a pixel or line of `length`, 0 at the window's first; its first value).  High bits of 0 are the window."""
        before = (length - self.window) // 2
        number = unnamed((length - before).bit_length())
        return number, (-before) % (1 << len(number))

    def _place(self, m, s):
        """Where in the frame the sensor is."""
        inner = (self.window - 1).bit_length()
        s.x, first_x = self._counter(self.sensor.width)
        s.y, first_y = self._counter(self.sensor.height)
        s.step = Signal(1 if self.sensor.grey else 2)  # of a pixel: the number of the colour that is added, from 1 on
        m.d.sync += s.step.eq(Mux(s.pixel | (s.step != 0), s.step + 1, 0))
        s.column, s.row = s.x[2:inner], s.y[2:inner]
        s.within = Signal()  # the line is one of the window's
        s.inside = Signal()  # so is the pixel
        m.d.comb += [s.within.eq(s.y[inner:] == 0), s.inside.eq(s.within & (s.x[inner:] == 0))]
        in_line = Signal()
        s.ends = Signal()  # strobes when the line has ended and its last pixel is added
        m.d.comb += s.ends.eq(in_line & ~s.line & (s.step == 0))
        m.d.sync += in_line.eq(s.line | in_line & ~s.ends)
        s.whole = (s.x == (first_x + self.sensor.width) % (1 << len(s.x))) & (s.odd == 0)
        with m.If(s.ends):
            m.d.sync += [s.x.eq(first_x), s.y.eq(s.y + 1)]
        with m.Elif(s.step.all()):
            m.d.sync += s.x.eq(s.x + 1)
        with m.If(s.between):
            m.d.sync += s.y.eq(first_y)

    def _add(self, m, s):
        """Add the colours of a pixel to the sums of their box, one a clock; the sum is read in the clock before."""
        grey = self.sensor.grey
        words = 2 * self.size * (1 if grey else 4)
        attributes = {"ram_style": "block", "no_rw_check": 1}  # what is read while it is written is not used
        m.submodules.sums = memory = Memory(shape=12 if grey else 10, depth=words, init=[], attrs=attributes)
        s.read, s.write = memory.read_port(), memory.write_port()
        value = Signal(8 if grey else 6)
        if grey:
            m.d.comb += value.eq(s.low)
            s.reads = s.pixel
            here, there = [], []
        else:
            with m.Switch(s.step):
                with m.Case(1):
                    m.d.comb += value[1:].eq(s.high[3:])
                with m.Case(2):
                    m.d.comb += value.eq(Cat(s.low[5:], s.high[:3]))
                with m.Default():
                    m.d.comb += value[1:].eq(s.low[:5])
            s.reads = s.pixel | (s.step == 1) | (s.step == 2)
            following = Cat(~s.step[0], s.step[0] ^ s.step[1])
            here, there = [following], [s.step]
        first = (s.x[:2] == 0) & (s.y[:2] == 0)
        s.address = Cat(*here, s.column, s.row[0])
        m.d.comb += [s.write.addr.eq(Cat(*there, s.column, s.row[0])), s.write.en.eq(s.inside & (s.step != 0)),
                     s.write.data.eq(Mux(first, value, s.read.data + value))]

    def _give(self, m, s):
        """Give the rows of boxes that are complete, byte by byte, in clocks in which no pixel reads."""
        bits = (self.size - 1).bit_length()
        s.active, s.broken = self.active, Signal()
        column = Signal(bits)
        row = Signal(bits)
        colour = Signal(2, init=1)
        s.behind = Signal()  # a row of boxes is still to be given
        fetch = Signal()
        fetched = Signal()
        last = unnamed()  # of the image
        m.d.comb += [
            s.behind.eq((row != s.row) | ~s.within),
            fetch.eq(s.active & (s.broken | s.behind) & ~self.pixels.valid & ~fetched & ~s.reads),
            s.read.addr.eq(Mux(s.reads, s.address, Cat(*([] if self.sensor.grey else [colour]), column, row[0]))),
            last.eq((colour == 3) & Cat(column, row).all())]
        m.d.sync += fetched.eq(fetch)
        with m.If(fetched):
            m.d.sync += [self.pixels.valid.eq(1),
                         self.pixels.payload.eq(s.read.data >> 4 if self.sensor.grey else self.byte(s.read.data, colour == 2))]
        s.done = self.pixels.valid & self.pixels.ready & last
        with m.If(self.pixels.valid & self.pixels.ready):
            m.d.sync += [self.pixels.valid.eq(0), colour.eq(Mux(colour == 3, 1, colour + 1)),
                         Cat(column, row).eq(Cat(column, row) + (colour == 3))]

    def _watch(self, m, s):
        """Begin and end images, and see whether they are whole."""
        armed = Signal()  # no window of the frame has begun
        begins = Signal()
        silence = Signal(self.timeout_bits + 1)  # ticks since a window began
        m.d.comb += [begins.eq(armed & s.inside & s.pixel), self.absent.eq(silence[-1])]
        missed = s.ends & (~s.whole | (s.y[:2] == BOX - 1) & s.behind)
        m.d.sync += s.broken.eq(s.active & (s.broken | begins | s.within & (s.between | self.absent | missed)))
        with m.If(s.done):
            m.d.sync += [s.active.eq(0), self.torn.eq(s.broken)]
        with m.If(begins):
            m.d.sync += [armed.eq(0), silence.eq(0)]
            with m.If(~self.skip):
                m.d.sync += s.active.eq(1)
        with m.Else():
            with m.If(self.tick & ~self.absent):
                m.d.sync += silence.eq(silence + 1)
            with m.If(s.ends & s.within):  # without a window that began in its first line
                m.d.sync += armed.eq(0)
        with m.If(s.between):
            m.d.sync += armed.eq(1)
