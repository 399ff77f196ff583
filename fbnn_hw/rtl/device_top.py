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
from .accelerator_top import stream_ports
from .board_top import BoardTop, FromFlash, host_link, link_results
from .camera.display import SCORE_BITS, Display
from .camera.front_end import CameraFrontEnd
from .camera.panel import LEDS, Panel, SensorClock, tick_bits
from .camera.sccb import SccbWriter
from .camera.sensors import SENSORS
from .host_link import CYCLES_BITS
from .learning.learner import command_layout, host_layout
from .sequencer import Widths
from .states import OneHot

CALLED_BITS = 25
"""The accelerator is the link's for 2^n cycles after the last request, a second at 33 MHz."""


def frames_per_second(camera, clock_hz, cycles):
    """Images of a sensor that are answered each second.  cycles: of a frame of the accelerator.

    A window that begins while the accelerator computes is left out.
    """
    sensor = SENSORS[camera]
    period = sensor.xclk_hz / SensorClock(sensor, clock_hz).hz / sensor.frames
    computes = cycles / clock_hz + WINDOW / sensor.height * period  # from a window's beginning to the class, at most
    return 1 / period / max(1, math.ceil(computes / period))


class DeviceTop(FromFlash, wiring.Component):
    """The module `accelerator` of accelerator.v, the front end of a camera, buttons, LEDs, and the reader of a flash; a link, if wanted.

    `machine.device.STEPS` is its state machine, `machine.device.SIGNS` what its LEDs show.  An answer is shown until the next one, and
    goes out when no image comes.

    A request of a host gets the accelerator once the image under way has its answer, and the host has it until the link has been silent
    for 2^called_bits cycles.  Before that the link says that the board is not ready.  The host sends images of its own, asks for the
    camera's next one, teaches, and reads and writes the learner's memory.  What it has changed is kept afterwards.

    Parameters:
    - config, AcceleratorConfig: with `camera`.
    - clock_hz: frequency of sync.
    - chip, offset, latency, sdram, sdram_latency, flash_ratio, keep_base, keep_blocks, timeout_bits, result_bits, ahead: as `BoardTop` has
      them.
    - model, clocks: as `BoardTop` has them; clocks None: without a link.

    Timing: From the last line of a sensor's window to the loaded image some 300 clocks; then `machine.cycles` without the loading.
    """

    def __init__(self, config, *, clock_hz, chip=None, offset=0, latency=0, sdram=None, sdram_latency=0, flash_ratio=1, keep_base=None,
                 keep_blocks=True, model=None, clocks=None, timeout_bits=21, ahead=False, called_bits=CALLED_BITS,
                 result_bits=CYCLES_BITS):
        self.config, self.called_bits = config, called_bits
        self.mark = protocol.config_mark(config.id)
        self.sensor, plan = SENSORS[config.camera], config.learning
        self.link = None if clocks is None else host_link(
            config, model, clocks=clocks, keeps=keep_base is not None, timeout_bits=timeout_bits, result_bits=result_bits, ahead=ahead,
            camera=True)
        self.has = device.has(plan, keep_base is not None, self.link is not None)
        self.signs, self.steps = (device.of_design(table, self.has) for table in (device.SIGNS, device.STEPS))
        self.buttons = device.buttons(self.has)
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
            **({"rx": In(1, init=1), "tx": Out(1, init=1)} if self.link else {}),  # the serial line
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
        if self.link:
            self._called(m, s)
        self._accelerator(m, s)
        s.machine = OneHot(m, "START")
        s.on = s.machine.ongoing
        s.answered = Signal()  # `answer` and `unknown` are of an image that has been seen
        s.unknown = Signal()
        if "learn" in self.has:
            self._lessons(m, s)
        self._keeping(m, s)
        if self.link:
            self._linked(m, s)
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

    def _called(self, m, s):
        """What there is of the link before the accelerator and the state machine."""
        m.submodules.link = link = self.link
        m.d.comb += [link.rx.eq(self.rx), self.tx.eq(link.tx)]
        s.linked = Signal()  # the accelerator is the link's
        s.resets = Signal()  # the accelerator is to be reset
        s.begun = Signal()  # an image of the camera has begun for the link, and its result has not been taken
        s.gone = Signal()  # the link does not wait for it any more
        s.dropped = Signal()  # its result is for nobody
        s.taken = Signal()  # a result is taken

    def _accelerator(self, m, s):
        """The accelerator, fed by the camera, and by the link if there is one."""
        c, link = self.config, self.link
        s.result = Signal(c.result_bits)
        s.result_valid = Signal()
        s.take = Signal()
        s.busy = Signal()
        s.loaded = Signal()  # the weights that have to be there before the first image
        s.wrong = Signal()  # the flash holds none of this design
        reset = Signal(init=1)  # one register drives it, so that it reaches thousands of others in time
        m.d.sync += reset.eq(s.resets if link else 0)
        pixels = self.camera.pixels
        ports = {
            "i_clk": ClockSignal(), "i_rst": reset, "i_want_latent": Const(0), "i_latent__ready": Const(1), "i_logits__ready": Const(1),
            "i_pixels__payload": pixels.payload, "i_pixels__valid": pixels.valid, "o_pixels__ready": pixels.ready,
            "o_logits__payload": Cat(self.logit, Signal()), "o_logits__valid": self.logit_valid,
            "o_result__payload": s.result, "o_result__valid": s.result_valid, "i_result__ready": s.take, "o_busy": s.busy}
        if link:
            self._share(m, s, ports, reset)
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
            if link:
                self._share_learner(m, s, ports)
        if c.keeps:
            ports["i_pause"] = self.keeper.busy if self.keeper else Const(0)
        if self.reader is None:
            m.d.comb += s.loaded.eq(1)
        else:
            of_link = (link.model, link.model_next) if link else (Signal(8), self.keeper.model_next if self.keeper else Const(0))
            self._flash(m, ports, reset, SimpleNamespace(ready=s.loaded, wrong_flash=s.wrong, model=of_link[0], model_next=of_link[1]))
        m.submodules.accelerator = Instance("accelerator", **ports)

    def _share(self, m, s, ports, reset):
        """Give images of the link to the accelerator, and results to the link."""
        link, pixels = self.link, self.camera.pixels
        latent, result = link_results(m, self.config, link, reset)
        mine = Signal()  # an image of the camera is under way
        m.d.comb += mine.eq(self.camera.active | ~s.linked)
        taken = Signal()  # the accelerator takes a byte
        to_link = Signal()
        logits, latents = (stream_ports(name, port, False) for name, port in (("logits", link.logits), ("latent", latent)))
        m.d.comb += [pixels.ready.eq(taken & mine), to_link.eq(s.linked & ~s.dropped)]
        value = Signal.like(ports["o_logits__payload"])
        valid = Signal()
        found = Signal()  # there is a word of a latent
        word = Signal(len(latents["o_latent__payload"]))
        m.d.comb += [
            link.pixels.ready.eq(taken & ~mine), self.logit.eq(value), self.logit_valid.eq(valid & ~s.linked),
            logits["o_logits__payload"].eq(value), link.logits.valid.eq(valid & to_link),
            latents["o_latent__payload"].eq(word), latent.valid.eq(found & to_link),
            result.payload.eq(s.result), result.valid.eq(s.result_valid & to_link)]
        ports |= {
            "i_want_latent": link.want_latent & s.linked,
            "i_pixels__payload": Mux(mine, pixels.payload, link.pixels.payload),
            "i_pixels__valid": Mux(mine, pixels.valid, link.pixels.valid), "o_pixels__ready": taken,
            "o_logits__payload": value, "o_logits__valid": valid, "i_logits__ready": ~to_link | link.logits.ready,
            "o_latent__payload": word, "o_latent__valid": found, "i_latent__ready": ~to_link | latent.ready,
            "i_result__ready": s.taken}
        m.d.comb += s.taken.eq(Mux(to_link, result.ready, s.take))

    def _share_learner(self, m, s, ports):
        """Give the learner to the link while the accelerator is."""
        link = self.link
        m.d.comb += [link.busy.eq(s.busy), link.refused.eq(s.refused), link.class_count.eq(s.known), link.host_reply.eq(s.found),
                     link.command.ready.eq(s.command_ready & s.linked), link.host.ready.eq(s.host_ready & s.linked)]
        for name, own, valid, port in (("command", s.command, s.command_valid, link.command), ("host", s.host, s.host_valid, link.host)):
            ports |= {f"i_{name}__payload": Mux(s.linked, port.payload.as_value(), own.as_value()),
                      f"i_{name}__valid": Mux(s.linked, port.valid, valid)}
        ports["o_frozen"] = link.frozen

    def _linked(self, m, s):
        """When the accelerator is the link's, and what the host changes."""
        link, keeper, camera = self.link, self.keeper, self.camera
        quiet = Signal(self.called_bits + 1)
        active = Signal()  # of the camera, in the clock before
        m.d.sync += [active.eq(camera.active), quiet.eq(Mux(link.active, 0, quiet + ~quiet[-1])), s.resets.eq(link.abort)]
        m.d.comb += [
            s.linked.eq(s.on("LINK")), link.away.eq(~s.linked),
            link.ready.eq(s.linked & ~s.keeping & (s.loaded if self.reader else ~s.busy)),  # a learner writes its tables first
            link.wrong_flash.eq(s.wrong),
            link.seen.eq(s.linked & (active ^ camera.active)), s.dropped.eq(s.begun & (camera.torn | s.gone))]
        with m.If(s.linked & camera.active):
            m.d.sync += [s.begun.eq(1), s.gone.eq(s.gone | ~link.look)]
        with m.Elif(s.result_valid & s.taken):
            m.d.sync += [s.begun.eq(0), s.gone.eq(0)]
        s.silent = quiet[-1] & ~s.busy & s.loaded & ~camera.active & ~s.begun
        if keeper is not None:
            pending = Signal()  # a reset waits until the flash is at rest
            m.d.sync += [pending.eq((pending | link.abort) & ~s.resets),
                         s.resets.eq((pending | link.abort) & ~keeper.wants & ~keeper.busy & ~s.resets)]
            s.silent &= ~pending & ~s.resets
            m.d.comb += link.hold.eq(keeper.wants if self.reader.again else keeper.busy)
        if "learn" in self.has:
            s.altered = Signal()  # by the host, and not kept
            lesson = link.command.valid & (link.command.payload.command != Command.CLASSIFY)
            changes = lesson | link.host.valid & link.host.payload.write | s.resets
            m.d.sync += s.altered.eq((s.altered | s.linked & changes) & ~s.on("KEEP"))

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
        if self.link:
            conditions |= {"called": self.link.active, "silent": s.silent}
            if "learn" in self.has:
                conditions["changed"] = s.silent & s.altered
        with machine:
            for state in dict.fromkeys(step.state for step in self.steps):
                with machine.state(state):
                    for step in reversed([step for step in self.steps if step.state == state]):  # the last `go` counts
                        with m.If(conditions[step.condition]):
                            machine.go(step.then)
        m.d.sync += new.eq(Cat(machine.leaves.values()).any())
        on = s.on
        looks = on("LOOK") | (s.linked & self.link.look & ~s.begun) if self.link else on("LOOK")
        takes = on("SEE") | s.dropped if self.link else on("SEE")
        m.d.comb += [camera.skip.eq(~looks), s.take.eq(takes), self.taken.eq(on("SEE") & s.result_valid), self.torn.eq(torn)]
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
        if self.link:
            holds["linked"] = s.linked
        if "learn" in self.has:
            holds |= {"full": s.full, "learning": s.teach, "choosing": s.choosing, "kept": s.shows_kept, "not kept": s.failed}
        choice = self.choice if "learn" in self.has else Const(0, NUMBER_LEDS)
        m.d.comb += [*(self.panel.holds[i].eq(holds[sign.name]) for i, sign in enumerate(self.signs[:-1])),
                     self.panel.values.eq(Cat(_low(number, self.panel.bits) for number in (self.answer, choice)))]

    def _model(self, m, image):
        if self.link:  # which turns the model's mark, too
            BoardTop._model(self, m, image)
        else:
            super()._model(m, image)


def _low(number, bits):
    """The lowest bits of a number."""
    return (number | Const(0, bits))[:bits]
