"""Buttons and LEDs of a device, and the clock of its sensor."""

import math

from amaranth import ClockDomain, ClockSignal, Elaboratable, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from ...base.errors import UsageError
from ...machine.device import FAST, NUMBER_LEDS, OFF, ON, SLOW

LEDS = "flag", "ready", "fault"
SAMPLE_BITS = 3
"""A button is looked at every 2^3 ticks: seldom enough that it bounces once at most."""
SLOW_BIT, FAST_BIT = 8, 5
SHOWN_BITS = 11
"""What a button did is shown for 2^11 ticks, two to four seconds."""


def tick_bits(clock_hz):
    """Bits of the counter of a tick: one to two milliseconds."""
    return math.ceil(math.log2(clock_hz / 1e3))


class SensorClock(Elaboratable):
    """XCLK of a sensor: the design's clock by a whole number, high for half of the time.

    Of an odd number, a register of each edge is high for the smaller half; they overlap but for half a clock, so their OR has no glitch.

    Parameters:
    - sensor: Sensor.
    - clock_hz: of sync.

    Timing: A period takes `divisor` clocks.

    Raises UsageError if no number gives a clock that the sensor takes: the front end needs three clocks of PCLK.
    """

    LEAST = 10e6 / 12e6
    """Of the sensor's own clock: an OV7670 takes 10 MHz and more."""

    def __init__(self, sensor, clock_hz):
        most = sensor.xclk_hz * 1.001
        self.divisor = max(math.ceil(3 * sensor.pclk_hz / sensor.xclk_hz), math.ceil(clock_hz / most))
        self.hz = clock_hz / self.divisor
        if self.hz < self.LEAST * sensor.xclk_hz:
            least, top = (self.divisor * hz / 1e6 for hz in (self.LEAST * sensor.xclk_hz, sensor.xclk_hz))
            raise UsageError(f"--camera {sensor.name}: gets {self.hz / 1e6:.2f} MHz of a clock of {clock_hz / 1e6:g} MHz, expected from "
                             f"{self.LEAST * sensor.xclk_hz / 1e6:g} to {sensor.xclk_hz / 1e6:g}; "
                             f"choose a --clock from {least:g} to {top:g}")
        self.xclk = Signal()  # out

    def elaborate(self, platform):
        m = Module()
        count = Signal(range(self.divisor))
        high = Signal()
        m.d.sync += [count.eq(Mux(count == self.divisor - 1, 0, count + 1)), high.eq(count < self.divisor // 2)]
        m.d.comb += self.xclk.eq(high)
        if self.divisor % 2:
            m.domains.falling = falling = ClockDomain(clk_edge="neg", reset_less=True, local=True)
            late = Signal()
            m.d.comb += [falling.clk.eq(ClockSignal()), self.xclk.eq(high | late)]
            m.d.falling += late.eq(high)
        return m


class Panel(wiring.Component):
    """Buttons without their bouncing, and LEDs that show a sign.

    Parameters:
    - buttons: sequence of str.
    - signs, sequence of Sign: of `machine.device`; the first one whose condition holds is shown.
    - bits: of the numbers; LEDs have the lowest four.

    Timing: A button is seen within 2^4 ticks, an LED follows a clock later.
    """

    def __init__(self, buttons, signs, bits=NUMBER_LEDS):
        self.buttons, self.signs, self.bits = tuple(buttons), tuple(signs), max(bits, NUMBER_LEDS)
        count = len(self.buttons)
        super().__init__({
            "tick": In(1),  # strobes every one to two milliseconds
            "pins": In(count),  # 1 of a button that is pressed, as it comes from the pin
            "held": Out(count), "pressed": Out(count),  # a button is held; strobes when it begins to be
            "holds": In(len(self.signs) - 1),  # whether the condition of a sign holds; the last sign has none
            "values": In(2 * self.bits),  # the answer's number, then that of the choice
            "restart": In(1), "shown": Out(1),  # begins the time that something is shown; it has ended
            "number": Out(NUMBER_LEDS), **{led: Out(1) for led in LEDS},  # 1 for lit
            "sign": Out(range(len(self.signs)))})  # number of the sign, for observers
        self.value = Signal(self.bits, name="value")  # that the sign shows, if it shows one

    def elaborate(self, platform):
        m = Module()
        self.beat = beat = Signal(SHOWN_BITS + 1)  # ticks; its highest bit ends what is shown
        with m.If(self.restart):
            m.d.sync += beat.eq(0)
        with m.Elif(self.tick):
            m.d.sync += beat.eq(beat + 1)
        m.d.comb += self.shown.eq(beat[-1])
        if self.buttons:
            self._buttons(m)
        sign = self.sign
        m.d.comb += sign.eq(len(self.signs) - 1)
        for number in reversed(range(len(self.signs) - 1)):
            with m.If(self.holds[number]):
                m.d.comb += sign.eq(number)
        level = {OFF: 0, ON: 1, SLOW: beat[SLOW_BIT], FAST: beat[FAST_BIT]}
        lit = {led: Signal(name=f"{led}_lit") for led in ("number", *LEDS)}
        m.d.comb += self.value.eq(self.values[:self.bits])
        with m.Switch(sign):
            for number, shown in enumerate(self.signs):
                with m.Case(number):
                    m.d.comb += [signal.eq(level[getattr(shown, led)]) for led, signal in lit.items()]
                    if shown.value == "choice":
                        m.d.comb += self.value.eq(self.values[self.bits:])
        m.d.sync += [self.number.eq(self.value[:NUMBER_LEDS] & lit["number"].replicate(NUMBER_LEDS)),
                     *(getattr(self, led).eq(lit[led]) for led in LEDS)]
        return m

    def _buttons(self, m):
        levels = Signal(len(self.buttons))
        seldom = Signal(SAMPLE_BITS)
        m.submodules.levels = FFSynchronizer(self.pins, levels)
        m.d.sync += self.pressed.eq(0)
        with m.If(self.tick):
            m.d.sync += seldom.eq(seldom + 1)
            with m.If(seldom == 0):
                m.d.sync += [self.held.eq(levels), self.pressed.eq(levels & ~self.held)]
