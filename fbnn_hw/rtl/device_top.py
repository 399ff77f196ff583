"""A device without a computer, in the FPGA: the accelerator between a camera's sensor, buttons and LEDs, down to abstract pins."""

import math
from functools import reduce
from operator import or_
from types import SimpleNamespace

from amaranth import Cat, ClockSignal, Const, Instance, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..machine import device, protocol
from ..machine.device import NUMBER_LEDS
from ..machine.protocol import Command, Space
from ..reference.camera import WINDOW
from ..reference.learning.config import FORGOTTEN
from .board_top import FromFlash
from .camera.display import SCORE_BITS, Display
from .camera.front_end import CameraFrontEnd
from .camera.panel import LEDS, Panel, SensorClock, tick_bits
from .camera.sccb import SccbWriter
from .camera.sensors import SENSORS
from .learning.learner import command_layout, host_layout
from .sequencer import Widths
from .states import OneHot


def frames_per_second(camera, clock_hz, cycles):
    """Images of a sensor that are answered each second.  cycles: of a frame of the accelerator.

    A window that begins while the accelerator computes is left out.
    """
    sensor = SENSORS[camera]
    period = sensor.xclk_hz / SensorClock(sensor, clock_hz).hz / sensor.frames
    computes = cycles / clock_hz + WINDOW / sensor.height * period  # from a window's beginning to the class, at most
    return 1 / period / max(1, math.ceil(computes / period))


class DeviceTop(FromFlash, wiring.Component):
    """The module `accelerator` of accelerator.v, the front end of a camera, buttons, LEDs, and the reader of a flash.

    `machine.device.STEPS` is its state machine, `machine.device.SIGNS` what its LEDs show.  An answer is shown until the next one, and
    goes out when no image comes.

    Parameters:
    - config, AcceleratorConfig: with `camera`.
    - clock_hz: frequency of sync.
    - chip, offset, latency, sdram, sdram_latency, flash_ratio, keep_base, keep_blocks: as `BoardTop` has them.

    Timing: From the last line of a sensor's window to the loaded image some 300 clocks; then `machine.cycles` without the loading.
    """

    def __init__(self, config, *, clock_hz, chip=None, offset=0, latency=0, sdram=None, sdram_latency=0, flash_ratio=1, keep_base=None,
                 keep_blocks=True):
        self.config = config
        self.mark = protocol.config_mark(config.id)
        self.sensor, plan = SENSORS[config.camera], config.learning
        self.has = device.has(plan, keep_base is not None)
        self.signs, self.steps = (device.of_design(table, self.has) for table in (device.SIGNS, device.STEPS))
        self.buttons = tuple(button for button, needs in device.BUTTONS.items() if needs in self.has)
        self.clock = SensorClock(self.sensor, clock_hz)
        self.tick_bits = tick_bits(clock_hz)
        ticks = 2 * self.sensor.xclk_hz / self.clock.hz / self.sensor.frames * clock_hz / 2 ** self.tick_bits  # of two frames
        self.camera = CameraFrontEnd(self.sensor, max(1, int(ticks).bit_length()), config.size)
        self.sccb = SccbWriter(self.sensor.writes, clock_hz)
        label = (max(2, config.result_classes) - 1).bit_length()
        self.panel = Panel(self.buttons, self.signs, label if config.display else NUMBER_LEDS)
        self.display = Display(self.signs, config.result_classes, clock_hz) if config.display else None
        members = {
            "pclk": In(1), "href": In(1), "vsync": In(1), "data": In(8), "xclk": Out(1),  # of the sensor
            "sioc_low": Out(1), "siod_low": Out(1),  # pull these wires to ground
            **({"siod": In(1)} if config.display else {}),  # level of that wire
            "pressed": In(len(self.buttons)),  # a bit each of `self.buttons`, 1 for pressed
            "number": Out(NUMBER_LEDS), **{led: Out(1) for led in LEDS},  # 1 for lit
            # For observers: the number in `self.signs` of the sign that the LEDs show, and what they say; the logits of an image, one
            # after the other, as integers with a sign; strobes when its class is taken; whether it is dropped, since the image was torn.
            "sign": Out(range(len(self.signs))), "answer": Out(label), "choice": Out(label + 1),
            "logit": Out(config.score_bits), "logit_valid": Out(1), "taken": Out(1), "torn": Out(1)}
        super().__init__(members | self._readers(
            config, clock_hz, chip, offset, latency, sdram, sdram_latency, flash_ratio, keep_base, keep_blocks))

    def elaborate(self, platform):
        m = Module()
        s = SimpleNamespace()
        tick = Signal()
        ticks = Signal(self.tick_bits)
        m.d.sync += Cat(ticks, tick).eq(ticks + 1)
        wired = [self.sccb, *([self.display] if self.display else [])]  # what is on the sensor's two wires
        m.submodules.clock, m.submodules.sccb = self.clock, self.sccb
        m.submodules.camera, m.submodules.panel = self.camera, self.panel
        m.d.comb += [
            self.xclk.eq(self.clock.xclk), self.sioc_low.eq(reduce(or_, (each.clock_low for each in wired))),
            self.siod_low.eq(reduce(or_, (each.data_low for each in wired))),
            *(getattr(self.camera, name).eq(getattr(self, name)) for name in ("pclk", "href", "vsync", "data")),
            self.sccb.tick.eq(tick), self.panel.tick.eq(tick), self.camera.tick.eq(tick & self.sccb.done),
            self.panel.pins.eq(self.pressed),
            *(getattr(self, name).eq(getattr(self.panel, name)) for name in ("number", *LEDS, "sign"))]
        self._accelerator(m, s)
        s.machine = OneHot(m, "START")
        s.on = s.machine.ongoing
        s.answered = Signal()  # `answer` and `unknown` are of an image that has been seen
        s.unknown = Signal()
        if "learn" in self.has:
            self._lessons(m, s)
        self._keeping(m, s)
        self._machine(m, s)
        self._show(m, s)
        if self.display:
            self._draw(m, tick)
        return m

    def _draw(self, m, tick):
        """What the display shows.  Its score has the high bits of the largest logit of the answer's image; 0 of one below 0."""
        m.submodules.display = display = self.display
        plan, bits = self.config.learning, self.config.score_bits - 1
        if plan:
            bits = min(bits, (plan.fan_in_words * plan.lanes * (3 if plan.planes > 1 else 1)).bit_length())  # of the largest logit
        top = self.logit[max(0, bits - SCORE_BITS):bits]
        best = Signal(SCORE_BITS)
        with m.If(self.logit_valid & ~self.logit[-1] & (top > best)):
            m.d.sync += best.eq(top)
        with m.If(self.taken):
            m.d.sync += best.eq(0)
        with m.If(self.taken & ~self.torn):
            m.d.sync += display.score.eq(best)
        m.d.comb += [
            display.tick.eq(tick), display.free.eq(self.sccb.done), display.data.eq(self.siod), display.sign.eq(self.panel.sign),
            display.number.eq(self.panel.value)]

    def _accelerator(self, m, s):
        """The accelerator, fed by the camera."""
        c = self.config
        s.result = Signal(c.result_bits)
        s.result_valid = Signal()
        s.take = Signal()
        s.busy = Signal()
        s.loaded = Signal()  # the weights that have to be there before the first image
        s.wrong = Signal()  # the flash holds none of this design
        reset = Signal(init=1)  # one register drives it, so that it reaches thousands of others in time
        m.d.sync += reset.eq(0)
        pixels = self.camera.pixels
        ports = {
            "i_clk": ClockSignal(), "i_rst": reset, "i_want_latent": Const(0), "i_latent__ready": Const(1), "i_logits__ready": Const(1),
            "i_pixels__payload": pixels.payload, "i_pixels__valid": pixels.valid, "o_pixels__ready": pixels.ready,
            "o_logits__payload": Cat(self.logit, Signal()), "o_logits__valid": self.logit_valid,
            "o_result__payload": s.result, "o_result__valid": s.result_valid, "i_result__ready": s.take, "o_busy": s.busy}
        if plan := c.learning:
            s.command = Signal(command_layout(plan))
            s.command_valid = Signal()
            s.command_ready = Signal()
            s.host = Signal(host_layout(plan, Widths(c).row))
            s.host_valid = Signal()
            s.host_ready = Signal()
            s.refused = Signal()
            s.known = Signal(range(plan.max_classes + 1))  # classes
            s.found = Signal(plan.host_bits)
            ports |= {"i_command__payload": s.command.as_value(), "i_command__valid": s.command_valid, "o_command__ready": s.command_ready,
                      "i_host__payload": s.host.as_value(), "i_host__valid": s.host_valid, "o_host__ready": s.host_ready,
                      "o_refused": s.refused, "o_known": s.known, "o_found": s.found}
        if c.keeps:
            ports["i_pause"] = self.keeper.busy if self.keeper else Const(0)
        if self.reader is None:
            m.d.comb += s.loaded.eq(1)
        else:
            link = SimpleNamespace(ready=s.loaded, wrong_flash=s.wrong, model=Signal(8),
                                   model_next=self.keeper.model_next if self.keeper else Const(0))
            self._flash(m, ports, reset, link)
        m.submodules.accelerator = Instance("accelerator", **ports)

    def _lessons(self, m, s):
        """The choice, and what buttons have asked for."""
        plan, panel = self.config.learning, self.panel
        pressed = dict(zip(self.buttons, panel.pressed))
        s.teach = dict(zip(self.buttons, panel.held))["teach"]
        s.learned = Signal()  # something that is not kept yet
        s.full = Signal()
        s.choosing = Signal()
        # A choice holds from the clock in which it is looked at until the learner has done what it was for.
        held = s.machine.any("HOLD", "LEARN", *(("FORGET", "SHRINK") if "forget" in self.has else ()))
        with m.If(pressed["choose"] & ~s.teach & ~held):
            m.d.comb += panel.restart.eq(1)
            m.d.sync += [s.choosing.eq(1),
                         self.choice.eq(Mux((self.choice >= s.known) | (self.choice == plan.max_classes - 1), 0, self.choice + 1))]
        with m.Elif(panel.shown | s.teach):
            m.d.sync += s.choosing.eq(0)
        with m.If(~s.teach):
            m.d.sync += s.full.eq(0)
        s.asks = {}
        for button in ("undo", "forget"):
            if button in pressed:
                s.asks[button] = asked = Signal(name=f"asks_{button}")
                others = s.asks.get("undo", Const(0)) if button == "forget" else Const(0)  # it comes first
                with m.If(pressed[button]):
                    m.d.sync += asked.eq(1)
                with m.Elif(s.on("HOLD") & ~self.camera.active & ~others):
                    m.d.sync += asked.eq(0)
        m.d.comb += [s.command.command.eq(Command.LEARN), s.command.label.eq(self.choice)]
        s.last = Signal()  # the choice is the last class
        m.d.sync += s.last.eq(self.choice + 1 == s.known)

    def _keeping(self, m, s):
        """The keeper, which has flash and learner while it is busy.  Without one a lesson is kept until the power goes."""
        s.saves = Signal()  # strobes when the state KEEP begins
        s.undoes = Signal()  # the same of UNDO
        s.shows_kept = Signal()
        s.keeping, s.kept, s.failed = Const(0), Const(1), Const(0)
        if "keep" not in self.has:
            return
        m.submodules.keeper = keeper = self.keeper
        s.keeping, s.failed = keeper.busy | ~keeper.ready, keeper.failed
        s.kept = ~(s.saves | s.undoes | keeper.busy)  # it is busy from the clock after a strobe on
        m.d.comb += [keeper.save.eq(s.saves), keeper.undo.eq(s.undoes), keeper.may_erase.eq(s.on("LOOK")),
                     keeper.host_reply.eq(s.found), keeper.host.ready.eq(s.host_ready & keeper.busy)]
        with m.If(s.on("KEEP") & s.kept):
            m.d.comb += self.panel.restart.eq(1)
            m.d.sync += s.shows_kept.eq(~keeper.failed)
        with m.Elif(self.panel.shown | s.undoes):
            m.d.sync += s.shows_kept.eq(0)

    def _machine(self, m, s):
        """The states of `machine.device.STEPS`, and what is done in them."""
        camera = self.camera
        machine, torn = s.machine, camera.torn
        new = Signal()  # the state began in this clock
        conditions = {
            "ready": s.loaded & ~s.busy & ~s.keeping & self.sccb.done, "image": camera.active, "nothing": Const(1),
            "torn": s.result_valid & torn, "lesson": s.result_valid, "answer": s.result_valid, "rests": ~s.busy}
        if "learn" in self.has:
            taught = s.learned & ~s.teach
            forgets = s.asks.get("forget", Const(0))
            undo = s.asks.get("undo", Const(0))
            conditions |= {
                "wish": taught | forgets | undo, "taught": taught, "undo": undo, "forget": forgets & (self.choice < s.known),
                "lesson": s.result_valid & s.teach, "taken": s.command_ready, "last": s.host_ready & s.last, "marked": s.host_ready,
                "fewer": s.host_ready, "kept": s.kept, "restored": s.kept}
        with machine:
            for state in dict.fromkeys(step.state for step in self.steps):
                with machine.state(state):
                    for step in reversed([step for step in self.steps if step.state == state]):  # the last `go` counts
                        with m.If(conditions[step.condition]):
                            machine.go(step.then)
        m.d.sync += new.eq(Cat(machine.leaves.values()).any())
        on = s.on
        m.d.comb += [camera.skip.eq(~on("LOOK")), s.take.eq(on("SEE")), self.taken.eq(on("SEE") & s.result_valid), self.torn.eq(torn)]
        with m.If(on("SEE") & s.result_valid & ~torn):
            label = len(self.answer)
            m.d.sync += [s.answered.eq(1), self.answer.eq(s.result[:label]),
                         s.unknown.eq(s.result[label:].any() | (s.known == 0 if "learn" in self.has else 0))]
        with m.Elif(camera.absent):
            m.d.sync += s.answered.eq(0)
        if "learn" in self.has:
            self._orders(m, s, new)

    def _orders(self, m, s, new):
        """What the learner and the keeper are told."""
        on = s.on
        m.d.comb += [s.command_valid.eq(on("LEARN")), s.saves.eq(on("KEEP") & new)]
        with m.If(on("WAIT") & ~s.busy):
            m.d.sync += [s.learned.eq(s.learned | ~s.refused), s.full.eq(s.refused)]
        with m.If(on("KEEP")):
            m.d.sync += s.learned.eq(0)
        if "keep" in self.has:
            m.d.comb += s.undoes.eq(on("UNDO") & new)
        own, keeper = Signal.like(s.host), self.keeper  # what is written where a class is forgotten
        writes = Signal()
        if "forget" in self.has:
            m.d.comb += writes.eq(on("FORGET") | on("SHRINK"))
            with m.If(on("FORGET")):
                m.d.comb += [own.write.eq(1), own.space.eq(Space.PRESENTED), own.address.eq(self.choice),
                             own.data.eq(Mux(s.last, 0, FORGOTTEN << 8))]
            with m.If(on("SHRINK")):
                m.d.comb += [own.write.eq(1), own.space.eq(Space.SCALARS), own.data.eq(self.choice)]
        if keeper is None:
            m.d.comb += [s.host.eq(own), s.host_valid.eq(writes)]
        else:  # each is 0 while the other one writes
            m.d.comb += [s.host.eq(own.as_value() | keeper.host.payload.as_value()),
                         s.host_valid.eq(writes & ~keeper.wants | keeper.host.valid)]

    def _show(self, m, s):
        """The sign whose condition holds."""
        holds = {
            "wrong flash": s.wrong, "starting": s.on("START"), "keeping": s.keeping, "no camera": self.camera.absent,
            "waiting": ~s.answered, "unknown": s.unknown}
        if "learn" in self.has:
            holds |= {"full": s.full, "learning": s.teach, "choosing": s.choosing, "kept": s.shows_kept, "not kept": s.failed}
        choice = self.choice if "learn" in self.has else Const(0, NUMBER_LEDS)
        m.d.comb += [*(self.panel.holds[i].eq(holds[sign.name]) for i, sign in enumerate(self.signs[:-1])),
                     self.panel.values.eq(Cat(_low(number, self.panel.bits) for number in (self.answer, choice)))]


def _low(number, bits):
    """The lowest bits of a number."""
    return (number | Const(0, bits))[:bits]
