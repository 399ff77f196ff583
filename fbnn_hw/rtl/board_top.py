"""The design in the FPGA: the generated accelerator, the host link and the readers of flash and SDRAM, down to abstract pins."""

from amaranth import Array, Cat, ClockDomain, ClockSignal, Const, DomainRenamer, EnableInserter, Instance, Module, Mux, ResetSignal, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..base.errors import UsageError
from ..machine import cycles, protocol
from ..machine.kept import SlotPlan
from .accelerator_top import LEARNER_PORTS, stream_ports
from .host_link import CYCLES_BITS, HostLink, learner_ports
from .keeper import Keeper
from .qspi_flash import FlashReader
from .sdram import SdramReader
from .sequencer import Widths
from .signals import unnamed


def weight_bytes(config):
    """(boot bytes, frame bytes) of the weight stream; (0, 0) where the design has none.  Raises UsageError where a program loads the
    weights, which no board does."""
    if config.loads:
        raise UsageError("--weights ram: a program of yours loads the weights, and no board has one; expected --weights chip or flash")
    if config.weights != "stream":
        return 0, 0
    streamed = sum(t.streamed for t in config.transfers)
    return config.boot_rows * config.row_bits // 8, streamed * config.word_bits // 8


def keep_room(config, offset):
    """(address of room 0 of what is kept, end of the rooms) in a flash whose image begins at `offset`."""
    slot, image = SlotPlan(config.learning), sum(weight_bytes(config)) + protocol.MARK_BYTES + protocol.MODEL_BYTES
    base = slot.base(offset + image)
    return base, base + 4 * slot.room


class FlashImage(wiring.Component):
    """Checks the marks at the front of a flash image and passes the rest on.

    Parameters:
    - mark, bytes: the mark that the configuration must have.
    - beat: bytes that come at once, 1 or 2.

    Timing: A beat a clock.
    """

    def __init__(self, mark, beat=1):
        self.mark, self.beat = mark, beat
        super().__init__({
            # The image, lowest byte first: the configuration's mark, the model's mark, weights.
            "bytes": In(stream.Signature(8 * beat)),
            "weights": Out(stream.Signature(8 * beat)),  # the bytes behind the marks
            # The first mark was, or was not, `mark`.  After a wrong beat at most one more is taken.
            "good": Out(1), "wrong": Out(1),
            "model": Out(8),  # the model's mark, lowest byte first
            "next": In(1)})  # rotates it by a byte

    def elaborate(self, platform):
        m = Module()
        beat, bits = self.beat, 8 * self.beat
        mark = [int.from_bytes(self.mark[i:i + beat], "little") for i in range(0, protocol.MARK_BYTES, beat)]
        marks = len(mark) + protocol.MODEL_BYTES // beat
        count = Signal(range(marks + 1))  # beats
        model = Signal(8 * protocol.MODEL_BYTES)
        checks = unnamed()  # the beat before was one of the mark
        differs = unnamed(2 * beat)  # which halves of its bytes are not those of the mark
        m.d.comb += [self.model.eq(model[:8]), self.good.eq(count[-1])]  # the marks have a power of two of bytes
        rotates = unnamed()  # `next` a clock before
        m.d.sync += rotates.eq(self.next)
        expected = Signal(bits)
        m.d.comb += expected.eq(Array(mark)[count[:2 // beat]])
        m.d.sync += [self.wrong.eq(self.wrong | checks & differs.any()), checks.eq(self.bytes.valid & ~self.wrong & (count < len(mark))),
                     differs.eq(Cat((self.bytes.payload ^ expected)[half:half + 4].any() for half in range(0, bits, 4)))]
        with m.If(self.good):
            wiring.connect(m, wiring.flipped(self.bytes), wiring.flipped(self.weights))
            with m.If(rotates):
                m.d.sync += model.eq(model.rotate_right(8))
        with m.Else():
            m.d.comb += self.bytes.ready.eq(~self.wrong)
            with m.If(self.bytes.valid & ~self.wrong):
                m.d.sync += count.eq(count + 1)
                with m.If(count >= len(mark)):
                    m.d.sync += model.eq(Cat(model[bits:], self.bytes.payload))
        return m


QUIET_BITS = 22
"""What was learned is kept when the link has been quiet for so many cycles, 2^n: a tenth of a second."""
SDRAM_PINS = {"command": "command", "bank": "bank", "address": "address", "mask": "mask", "output": "lines_out",
              "enable": "lines_enable", "input": "lines_in", "dry": "dry"}
"""{port of `BoardTop` without its prefix: member of `SdramReader`}."""


class FromFlash:
    """What reads the weights of a board's design and keeps what it learns: part of its top module."""

    def _readers(self, config, clock_hz, chip, offset, latency, sdram=None, sdram_latency=0, flash_ratio=1, keep_base=None,
                 keep_blocks=True):
        """Make `reader`, `store` and `keeper`, None where there are none; returns the members at their pins.

        Parameters: as `BoardTop` has them.
        """
        self.reader = self.store = None
        yields = keep_base is not None
        self.keeper = self._keeper(config, clock_hz, chip, latency, keep_base, keep_blocks) if yields else None
        self.flash_ratio = flash_ratio
        members = {}
        double = config.way == "double"
        boot, frame = weight_bytes(config)
        if config.weights == "stream":
            marks = protocol.MARK_BYTES + protocol.MODEL_BYTES
            if config.sdram:
                self.reader = FlashReader(chip, clock_hz / flash_ratio, offset, marks + boot + frame, 0, latency // flash_ratio)
                self.store = SdramReader(sdram, clock_hz, boot, frame, sdram_latency)
            else:
                self.reader = FlashReader(chip, clock_hz, offset, marks + boot, frame, latency, config.sleeps, double, yields)
            members |= {"flash_pulse": Out(1 + double), "flash_select_n": Out(1, init=1), "flash_output": Out(4), "flash_enable": Out(4),
                        "flash_input": In(4 << double)}  # pins of `FlashReader`
        if self.store:
            pins = {name: self.store.signature.members[member] for name, member in SDRAM_PINS.items()}
            members |= {f"sdram_{name}": pin for name, pin in pins.items()}
        return members

    def _keeper(self, config, clock_hz, chip, latency, keep_base, keep_blocks):
        return Keeper(SlotPlan(config.learning), Widths(config).row, keep_base, self.mark, clock_hz, latency, keep_blocks)

    def _flash(self, m, ports, abort, link):
        """Weights from the flash, or from an SDRAM that is filled from it, as `ports` of the accelerator.

        link: has what `HostLink` has of the flash: ready, wrong_flash, model, model_next.
        """
        m.domains.weights = ClockDomain(local=True)
        m.d.comb += [ClockSignal("weights").eq(ClockSignal()), ResetSignal("weights").eq(abort)]
        reader, image = self.reader, FlashImage(self.mark, self.reader.bytes)
        turn = Signal()  # a cycle of the flash reader
        parts = EnableInserter(turn)(reader) if self.flash_ratio > 1 else reader, image
        m.submodules.reader, m.submodules.image = (DomainRenamer("weights")(part) for part in parts)
        pulse, weights, loaded = reader.pulse, image.weights, reader.first_done
        if self.flash_ratio > 1:
            cycle = Signal(range(self.flash_ratio))
            m.d.weights += cycle.eq(cycle + 1)
            m.d.comb += turn.eq(cycle == self.flash_ratio - 1)
            pulse = reader.pulse & turn
            m.d.comb += [image.bytes.payload.eq(reader.data.payload), image.bytes.valid.eq(reader.data.valid & turn),
                         reader.data.ready.eq(image.bytes.ready)]
        else:
            wiring.connect(m, reader.data, image.bytes)
        if self.store:
            m.submodules.store = DomainRenamer("weights")(self.store)
            wiring.connect(m, image.weights, self.store.fill)
            weights, loaded = self.store.beats, self.store.first_done
            for name, member in SDRAM_PINS.items():
                inside, outside = getattr(self.store, member), getattr(self, f"sdram_{name}")
                m.d.comb += inside.eq(outside) if name == "input" else outside.eq(inside)
        ports |= {"i_weights__payload": weights.payload, "i_weights__valid": weights.valid, "o_weights__ready": weights.ready}
        # Registers, so that no path leads through two of these parts.
        m.d.sync += [
            image.next.eq(link.model_next), link.ready.eq(image.good & loaded), link.wrong_flash.eq(image.wrong)]
        select_n, output, enable = reader.select_n, reader.lines_out, reader.lines_enable
        if reader.yields:
            keeper = self.keeper
            m.d.comb += [reader.hold.eq(keeper.wants), keeper.given.eq(reader.held), keeper.lines_in.eq(self.flash_input)]
            mine = Signal()  # the keeper has the flash
            m.d.comb += mine.eq(keeper.wants & reader.held)
            pulse, select_n = Mux(mine, keeper.pulse, pulse), Mux(mine, keeper.select_n, select_n)
            output, enable = Mux(mine, keeper.lines_out, output), Mux(mine, keeper.lines_enable, enable)
            self._model(m, image)
        m.d.comb += [
            link.model.eq(image.model),
            self.flash_pulse.eq(pulse), self.flash_select_n.eq(select_n),
            self.flash_output.eq(output), self.flash_enable.eq(enable), reader.lines_in.eq(self.flash_input)]

    def _model(self, m, image):
        """The model's mark for the keeper."""
        m.d.comb += self.keeper.model.eq(image.model)


def host_link(config, streams_model, **options):
    """The `HostLink` of a design.

    streams_model: the 4 bytes of `protocol.model_mark`.  options: of `HostLink`; result_bits None: from the cycles of a frame and of a
    lesson.
    """
    if options["result_bits"] is None:
        longest = 4 * cycles.Run(config).passes(1).first.total
        if plan := config.learning:  # bound: 255 replays of a class with one exemplar
            longest = max(longest, 2 * plan.learn_cycles(plan.max_classes, 255, 256, 255 << plan.slot_bits, True))
        options["result_bits"] = max(options["timeout_bits"], min(CYCLES_BITS, longest.bit_length()))
    return HostLink(
        classes=config.classes, size=config.size, lanes=config.lanes, latent_words=config.latent_words, score_bits=config.score_bits,
        mark=protocol.config_mark(config.id), model=None if config.weights == "stream" else streams_model, plan=config.learning,
        address_bits=Widths(config).row, pixel_bits=config.pixel_bits, **options)


def link_results(m, config, link, abort):
    """(latent, result) of a `HostLink` as they come from the accelerator.  abort: resets it."""
    if config.technology != "wrapper":
        return link.latent, link.result
    # Block RAM answers late in a clock, so its words wait in a register until the link picks their bytes.  SPRAM answers early.
    latent = stream.Signature(link.latent.payload.shape()).create()
    m.d.comb += latent.ready.eq(~link.latent.valid)
    with m.If(latent.ready):
        m.d.sync += [link.latent.payload.eq(latent.payload), link.latent.valid.eq(latent.valid)]
    with m.If(link.latent.valid & link.latent.ready | abort):
        m.d.sync += link.latent.valid.eq(0)
    # The link takes whatever is valid, so the result must not come beside the last word.
    result = stream.Signature(link.result.payload.shape()).create()
    m.d.comb += [link.result.payload.eq(result.payload), link.result.valid.eq(result.valid & ~link.latent.valid),
                 result.ready.eq(link.result.ready & ~link.latent.valid)]
    return latent, result


class BoardTop(FromFlash, wiring.Component):
    """The module `accelerator` of accelerator.v, the link and, where weights are streamed, the readers of flash and SDRAM.

    An aborted image resets the accelerator and the readers; the weights are then loaded again.  With an
    SDRAM the flash is read once, into it, and the accelerator takes its weights from there.

    Parameters:
    - config: AcceleratorConfig.
    - model, bytes: the 4 bytes of `protocol.model_mark`; ignored where a flash holds them.
    - clock_hz: frequency of sync.
    - clocks: clocks of a bit on the serial line (`uart.divider`).
    - chip, offset, latency: as `FlashReader` has them.
    - sdram, SdramChip: with config.sdram: the chip.
    - sdram_latency: as `SdramReader` has its latency.
    - flash_ratio, 1, 2 or 4: with config.sdram: cycles of sync to one of the flash.  `latency` is in cycles of sync, even with a
      ratio of 2.
    - keep_base, int or None: with config.keeps: address of the slots in the flash (`SlotPlan.base`).  None: nothing is kept, as
      in a simulated board.
    - keep_blocks: `blocks` of the keeper.
    - timeout_bits, result_bits, ahead: as `HostLink` has them.  result_bits None: from the cycles of a frame and of a lesson.

    Timing: `HostLink` and `Accelerator` determine it.
    """

    def __init__(self, config, *, model, clock_hz, clocks, chip=None, offset=0, latency=0, sdram=None, sdram_latency=0, flash_ratio=1,
                 keep_base=None, keep_blocks=True, timeout_bits=21, result_bits=None, ahead=False):
        self.config, self.model = config, model
        self.mark = protocol.config_mark(config.id)
        self.link = host_link(config, model, clocks=clocks, keeps=keep_base is not None, timeout_bits=timeout_bits,
                              result_bits=result_bits, ahead=ahead)
        members = {
            "rx": In(1, init=1), "tx": Out(1, init=1),  # the serial line
            "ready": Out(1), "active": Out(1), "fault": Out(1)}  # LEDs
        members |= self._readers(config, clock_hz, chip, offset, latency, sdram, sdram_latency, flash_ratio, keep_base, keep_blocks)
        if keep_base is not None:
            self.unkept = Signal()  # something is to be kept, or is being kept
            members["keeping"] = Out(1)  # what was learned is being kept or loaded, and answers wait
        if config.sleeps:
            members |= {
                "sleep": In(1),  # 1 puts the banks into standby and sends the flash into deep power-down
                "idle": Out(1),  # nothing is at work
                "asleep": Out(1)}  # the flash is in deep power-down
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        m.submodules.link = link = self.link
        m.d.comb += [link.rx.eq(self.rx), self.tx.eq(link.tx), self.ready.eq(link.ready),
                     self.active.eq(link.active if self.keeper is None else link.active | self.unkept),
                     self.fault.eq(link.fault | link.wrong_flash)]
        # One register drives the reset, so that it reaches thousands of others in time.
        abort = Signal(init=1)
        if self.keeper is None:
            m.d.sync += abort.eq(link.abort)
        ports = {"i_clk": ClockSignal(), "i_rst": abort, "i_want_latent": link.want_latent}
        latent, result = link_results(m, self.config, link, abort)
        for name, port in (("pixels", link.pixels), ("logits", link.logits), ("result", result), ("latent", latent)):
            ports |= stream_ports(name, port, name == "pixels")
        names = {member: port for port, member in LEARNER_PORTS.items()}
        for member in learner_ports(self.config.learning, 0) if self.config.learning else ():
            name, port = names[member], getattr(link, member)
            ports |= stream_ports(name, port, True) if member in ("command", "host") else {f"o_{name}": port}
        if self.keeper is not None:
            self._keep(m, ports, abort)
        elif self.config.keeps:
            ports["i_pause"] = Const(0)
        if self.reader is None:
            m.d.comb += link.ready.eq(~link.busy)  # a learner writes its tables first
        else:
            self._flash(m, ports, abort, link)
        if self.keeper is not None:
            with m.If(self.keeper.busy | ~self.keeper.ready | self.pending):
                m.d.sync += link.ready.eq(0)
        busy = Signal()
        if self.config.learning:
            ports["o_busy"] = busy
            m.d.sync += link.busy.eq(busy)
        if self.config.sleeps:
            ports |= {"o_busy": busy, "i_standby": self.sleep}
            m.d.sync += self.idle.eq(link.ready & ~link.active & ~busy)
            m.d.comb += self.asleep.eq(1 if self.reader is None else self.reader.asleep)
            if self.reader is not None:
                m.d.comb += self.reader.sleep.eq(self.sleep)
        m.submodules.accelerator = Instance("accelerator", **ports)
        return m

    def _keep(self, m, ports, abort):
        """The keeper: it shares the learner's port for a host with the link, and saves what changed once the link is quiet."""
        link, keeper = self.link, self.keeper
        m.submodules.keeper = keeper
        self.pending = pending = Signal()  # a reset waits until the flash is at rest
        m.d.sync += [pending.eq((pending | link.abort) & ~abort), abort.eq((pending | link.abort) & ~keeper.wants & ~keeper.busy)]
        commands = link.command.valid & ~keeper.busy
        changes = commands & (link.command.payload.command != protocol.Command.CLASSIFY) | link.host.valid & link.host.payload.write
        changed = Signal()  # and not kept
        quiet = Signal(QUIET_BITS + 1)
        m.d.sync += [quiet.eq(Mux(link.active | changes, 0, quiet + ~quiet[-1])),
                     changed.eq((changed | changes | abort & keeper.ready) & ~keeper.save)]
        m.d.comb += [
            keeper.save.eq(changed & quiet[-1] & link.ready), keeper.may_erase.eq(~link.active & ~link.busy),
            link.hold.eq(keeper.wants if self.reader.again else keeper.busy),
            keeper.host_reply.eq(link.host_reply), self.keeping.eq(keeper.busy),
            self.unkept.eq(changed | keeper.busy | keeper.wants)]
        ready = Signal()  # of the learner's port for a host
        m.d.comb += [link.host.ready.eq(ready & ~keeper.busy), keeper.host.ready.eq(ready & keeper.busy)]
        ports |= {
            "i_pause": keeper.busy, "i_command__valid": commands, "o_host__ready": ready,
            "i_host__valid": Mux(keeper.busy, keeper.host.valid, link.host.valid),
            "i_host__payload": Mux(keeper.busy, keeper.host.payload.as_value(), link.host.payload.as_value())}

    def _model(self, m, image):
        """A copy of the model's mark for the keeper, since the link turns the image's."""
        model = Signal(8 * protocol.MODEL_BYTES)
        m.d.comb += self.keeper.model.eq(model[:8])
        with m.If(self.keeper.model_next):
            m.d.sync += model.eq(model.rotate_right(8))
        with m.If(image.bytes.valid & image.bytes.ready & ~image.good):  # the mark is what comes last
            m.d.sync += model.eq(Cat(model[8 * image.beat:], image.bytes.payload))
