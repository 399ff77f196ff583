"""A register bus around an accelerator: Wishbone or AXI4-Lite, 32 bits; the registers are those of `machine.registers`."""

from amaranth import Cat, ClockDomain, ClockSignal, Const, Instance, Module, Mux, ResetInserter, ResetSignal, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..machine import registers
from ..machine.registers import ADDRESS_BITS, BY_NAME
from .accelerator_top import LEARNER_PORTS, stream_ports
from .axi_stream import PACKET, ImagePackets, RegisterSlice, stream_members
from .learning.learner import command_layout, host_layout
from .sequencer import Widths
from .weight_file import FILE_STATE

CYCLES_BITS, IMAGES_BITS = 24, 16
WORD = ADDRESS_BITS - 2
"""Bits of the number of a 32-bit word."""


class ImageWords(wiring.Component):
    """Words of four bytes -> images, each of exactly `length` bytes and beginning with a word.

    Parameters: `length`, bytes of an image.

    Timing: A byte a clock, and a clock more for each word.
    """

    def __init__(self, length):
        self.length = length
        super().__init__({
            "word": In(32), "put": In(1), "room": Out(1),  # put: `word` is taken; only while `room` is 1
            "inside": Out(1), "fill": In(1),  # an image was begun and is not complete; strobes: zeros complete it
            "pixels": Out(stream.Signature(8)), "last": Out(1)})  # last: the byte there is an image's last one

    def elaborate(self, platform):
        m = Module()
        held = Signal(32)  # the word whose bytes leave
        full = Signal()  # there is one
        place = Signal(2)  # of the byte that leaves next
        filling = Signal()  # zeros leave behind it
        count = Signal(range(self.length))  # bytes of the image that have passed
        passes = Signal()
        m.d.comb += [
            self.room.eq(~full & ~filling), self.inside.eq(full | count.any()), self.last.eq(count == self.length - 1),
            self.pixels.valid.eq(full | filling), self.pixels.payload.eq(held.word_select(place, 8) & full.replicate(8)),
            passes.eq(self.pixels.valid & self.pixels.ready)]
        with m.If(passes):
            m.d.sync += [count.eq(Mux(self.last, 0, count + 1)), place.eq(Mux(self.last, 0, place + 1))]
        m.d.sync += [full.eq(self.put | full & ~(passes & (self.last | place.all()))),
                     filling.eq((filling | self.fill & self.inside) & ~(passes & self.last))]
        with m.If(self.put):
            m.d.sync += held.eq(self.word)
        return m


class RegisterBus(wiring.Component):
    """The registers around the module `accelerator` of accelerator.v.

    Parameters: `config`; `streams`, whether images come as a stream, in place of the register PIXELS.

    Timing: `ack` comes 2 clocks after the request of a read and 1 after that of a write; of a write to PIXELS once there is room, or
    `registers.PATIENCE` clocks later.

    Resources: docs/integration.md; the logits lie in a block RAM.
    """

    def __init__(self, config, streams=False):
        self.config, self.streams = config, streams
        members = {
            "request": In(1), "write": In(1), "ack": Out(1),  # an access, held until it is done; the next cycle may begin another
            "address": In(WORD), "data": In(32), "whole": In(1),  # number of a word, what is written to it, whether all its bytes are
            "read": Out(32),  # beside `ack`, and until the next access is done
            "irq": Out(1), "restart": Out(1)}  # restart: resets the accelerator, and is to reset this component
        if config.weights == "stream":
            members["weights"] = In(stream.Signature(config.beat_bits))  # as `Accelerator` has it
        if streams:
            members["packet"] = In(stream.Signature(PACKET))  # as `ImagePackets` has it
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        self.ports = {"i_clk": ClockSignal(), "i_rst": ResetSignal() | self.restart, "i_want_latent": Const(0), "i_latent__ready": Const(1)}
        self.values = {}  # {number of a word: what a read gives}
        self.strobes = {}  # {name of a register: it is written}
        self._bus(m)
        self.pending = Signal()
        if self.config.learning:
            self._learner(m)
        self._images(m)
        self.file = self._file(m) if self.config.loads else None
        self._status(m)
        if self.config.weights == "stream":
            self.ports |= stream_ports("weights", self.weights, True)
        with m.Switch(self.address):
            for number, value in self.values.items():
                with m.Case(number):
                    m.d.comb += self.value.eq(value)
        m.submodules.accelerator = Instance("accelerator", **self.ports)
        return m

    def strobe(self, name):
        """The register `name` is written in this clock."""
        self.strobes[name] = Signal(name=f"write_{name.lower()}")
        return self.strobes[name]

    def port(self, name, bits=1):
        """An output of the accelerator."""
        self.ports[f"o_{name}"] = signal = Signal(bits, name=name)
        return signal

    def field(self, register, name):
        """The bits of `data` that are a field."""
        return self.within(register, name, self.data)

    @staticmethod
    def within(register, name, word):
        """The bits of a word that are a field."""
        low, bits = next((field.low, field.bits) for field in BY_NAME[register].fields if field.name == name)
        return word[low:low + bits]

    def _bus(self, m):
        """Accesses: when they are done, and what a read gives."""
        for name, value in registers.constants(self.config, self.streams).items():
            self.values[BY_NAME[name].offset // 4] = Const(value, 32)
        asked = Signal()
        looked = Signal()  # a read has had a clock for the memory of the logits
        waited = Signal(range(registers.PATIENCE + 1))  # clocks of a write
        self.value = Signal(32)  # what a read gives but for the logits
        self.logit = Signal(32)
        self.to_pixels = Signal()
        self.room = Signal()
        self.full = Signal()  # what is written has no room yet
        done = Signal()
        m.d.comb += [
            asked.eq(self.request & ~self.ack), self.to_pixels.eq(self.address == BY_NAME["PIXELS"].offset // 4),
            done.eq(asked & Mux(self.write, ~self.full | ~self.whole | (waited == registers.PATIENCE), looked))]
        m.d.sync += [self.ack.eq(done), looked.eq(asked & ~looked), waited.eq(Mux(asked & self.write, waited + 1, 0))]
        self.written = Signal()  # a write is done
        m.d.comb += self.written.eq(done & self.write)
        with m.If(done & ~self.write):
            m.d.sync += self.read.eq(Mux(self.address[-1], self.logit, self.value))

    def writes(self, m, *names):
        """Signals that strobe as the registers are written, all their bytes."""
        for name in names:
            m.d.comb += self.strobe(name).eq(self.written & self.whole & (self.address == BY_NAME[name].offset // 4))
        return [self.strobes[name] for name in names]

    def _images(self, m):
        """Images in, logits and classes out, and their counters."""
        c = self.config
        [control] = self.writes(m, "CONTROL")
        m.d.sync += self.restart.eq(control & self.field("CONTROL", "RESTART"))
        self.computed = Signal()  # from the last byte of an image until its result is taken: no other begins
        self.take = Signal()
        result, self.done = self.port("result__payload", c.result_bits), self.port("result__valid")
        if self.streams:
            source, wrong = self._packets(m), self.packets.wrong
        else:
            source, wrong = self._words(m, control & self.field("CONTROL", "FILL")), Const(0)
        self.ports |= stream_ports("pixels", source.pixels, True)

        m.submodules.logits = memory = Memory(shape=c.score_bits, depth=c.result_classes, init=[], attrs={"ram_style": "block"})
        port, look = memory.write_port(), memory.read_port()
        payload, valid = self.port("logits__payload", c.score_bits + 1), self.port("logits__valid")
        place = Signal(range(c.result_classes))
        self.ports["i_logits__ready"] = Const(1)
        m.d.comb += [port.addr.eq(place), port.data.eq(payload), port.en.eq(valid), look.addr.eq(self.address), look.en.eq(1),
                     self.logit.eq(look.data.as_signed())]
        with m.If(valid):
            m.d.sync += place.eq(Mux(payload[-1], 0, place + 1))

        self.ports["i_result__ready"] = self.take
        unknown = bool(c.learning and c.learning.unknown)
        number = Signal(16)
        m.d.comb += number.eq(result[:c.result_bits - unknown])
        cycles = Signal(CYCLES_BITS)
        images = Signal(IMAGES_BITS)
        self.values |= {BY_NAME["RESULT"].offset // 4: Cat(number, result[-1] & unknown, wrong), BY_NAME["CYCLES"].offset // 4: cycles,
                        BY_NAME["IMAGES"].offset // 4: images}
        begins = source.last & source.pixels.valid & source.pixels.ready
        m.d.sync += self.computed.eq(begins | self.computed & ~(self.take & self.done))
        with m.If(begins):
            m.d.sync += cycles.eq(0)
        with m.Elif(~self.done):
            m.d.sync += cycles.eq(cycles + 1)
        with m.If(self.take & self.done):
            m.d.sync += images.eq(images + 1)

    def _words(self, m, fill):
        """Images by the register PIXELS.  fill: as `ImageWords` has it."""
        m.submodules.words = words = ImageWords(self.config.image_bytes)
        [put] = self.writes(m, "PIXELS")
        m.d.comb += [words.word.eq(self.data), words.put.eq(put & self.room), self.room.eq(words.room & ~self.computed),
                     words.fill.eq(fill), self.full.eq(self.to_pixels & ~self.room)]
        self.inside = words.inside
        return words

    def _packets(self, m):
        """Images by the stream `packet`, of which none begins while `computed`."""
        m.submodules.packets = self.packets = packets = ImagePackets(self.config.image_bytes)
        given, taken = self.packet, packets.packet
        self.inside = Signal()
        m.d.comb += [taken.payload.eq(given.payload), taken.valid.eq(given.valid & ~self.computed),
                     given.ready.eq(taken.ready & ~self.computed), packets.answered.eq(self.take & self.done)]
        with m.If(packets.pixels.valid & packets.pixels.ready):
            m.d.sync += self.inside.eq(~packets.last)
        return packets

    def _file(self, m):
        """The weight file in; what became of it, as `WeightFile` names it."""
        m.submodules.file_words = words = ImageWords(self.config.load_bytes)
        state = {name: self.port(name, bits) for name, bits in FILE_STATE.items()}
        [put] = self.writes(m, "WEIGHTS")
        self.ports |= stream_ports("weights", words.pixels, True)
        to_file = self.address == BY_NAME["WEIGHTS"].offset // 4
        self.over = state["loaded"] | state["strange"] | state["damaged"]  # no more words are taken
        m.d.comb += [words.word.eq(self.data), words.put.eq(put & words.room & ~self.over)]
        with m.If(to_file):
            m.d.comb += self.full.eq(~words.room & ~self.over)
        self.values[BY_NAME["WEIGHTS"].offset // 4] = state["checksum"]
        return state

    def _status(self, m):
        """STATUS and the interrupt."""
        status, enables = self.writes(m, "STATUS", "INTERRUPT")
        finished = Signal()
        lost = Signal()
        enable = Signal(2)
        busy = self.port("busy")
        lines = {"DONE": self.done, "FINISHED": finished, "LOST": lost, "ROOM": self.room, "INSIDE": self.inside,
                 "BUSY": self.computed & ~self.done}
        ended, known, dropped = Const(0), Const(0), self.written & (~self.whole | self.full)
        if self.file:
            lines |= {name.upper(): self.file[name] for name in ("loaded", "strange", "damaged")}
            dropped |= self.strobes["WEIGHTS"] & self.over
        if self.config.learning:
            lines |= {"PENDING": self.pending, "REFUSED": self.port("refused"), "FROZEN": self.port("frozen")}
            ended = self.commanded & ~self.command_waits & ~busy
            m.d.sync += self.commanded.eq(self.strobes["COMMAND"] & ~self.pending | self.commanded & ~ended)
            dropped |= self.pending & (self.strobes["COMMAND"] | self.strobes["ACCESS"])
            known = self.port("known", range(self.config.learning.max_classes + 1))
        m.d.comb += [self.take.eq(status & self.data[0]), self.irq.eq((Cat(self.done, finished) & enable).any())]
        m.d.sync += [finished.eq(finished & ~(status & self.data[1]) | ended), lost.eq(lost & ~(status & self.data[2]) | dropped)]
        with m.If(enables):
            m.d.sync += enable.eq(self.data)
        *flags, last = BY_NAME["STATUS"].fields
        assert [flag.low for flag in flags] == list(range(len(flags))) and last.name == "KNOWN"
        bits = Cat(lines.get(flag.name, Const(0, 1)) for flag in flags)
        self.values |= {BY_NAME["STATUS"].offset // 4: Cat(bits, Const(0, last.low - len(bits)), known),
                        BY_NAME["INTERRUPT"].offset // 4: enable}

    def _learner(self, m):
        """Commands, and accesses to the learner's memory."""
        plan = self.config.learning
        assert {"command", "host", "found", "refused", "known", "used", "frozen"} == set(LEARNER_PORTS)
        command, access = self.writes(m, "COMMAND", "ACCESS")
        self.commanded = Signal()  # a command is not over
        self.command_waits = Signal()  # the learner has not taken it
        accessed = Signal()  # an access is not done
        m.d.comb += self.pending.eq(self.commanded | accessed)
        taken = stream.Signature(command_layout(plan)).create()
        asked = stream.Signature(host_layout(plan, Widths(self.config).row)).create()
        m.d.comb += [taken.valid.eq(self.command_waits), asked.valid.eq(accessed)]
        self.ports |= stream_ports("command", taken, True) | stream_ports("host", asked, True)
        m.d.sync += [self.command_waits.eq(command & ~self.pending | self.command_waits & ~taken.ready),
                     accessed.eq(access & ~self.pending | accessed & ~asked.ready)]

        held = Signal(32)  # the command, or what is accessed
        label = self.within("COMMAND", "LABEL", held)[:len(taken.payload.label)]
        m.d.comb += [taken.payload[name].eq(self.within("COMMAND", field, held))
                     for name, field in (("command", "NUMBER"), ("label", "LABEL"), ("count", "COUNT"))]
        m.d.comb += [asked.payload[name].eq(self.within("ACCESS", name.upper(), held)) for name in ("space", "write", "address")]
        with m.If((command | access) & ~self.pending):
            m.d.sync += held.eq(self.data)
            with m.If(command & self.field("COMMAND", "LABEL")[len(label):].any()):
                m.d.sync += label.eq(~0)  # which no class has
        found = self.port("found", plan.host_bits)  # stays until the next access
        first = BY_NAME["DATA"].offset // 4
        for part in range(registers.data_words(plan)):
            bits = slice(32 * part, min(32 * part + 32, plan.host_bits))
            self.values[first + part] = found[bits]
            with m.If(self.written & self.whole & ~self.pending & (self.address == first + part)):
                m.d.sync += asked.payload.data[bits].eq(self.data)
        self.port("used", range(plan.slots + 1))  # a word of Space.SCALARS too


def _streams(config, streams):
    """Ports of the streams that stand beside the bus, of weights and of images.  restart: 1 for a clock, after which the weights begin
    again, with the boot image."""
    weights = stream_members("s_axis_weights", config.beat_bits) | {"restart": Out(1)} if config.weights == "stream" else {}
    return weights | (stream_members("s_axis_image", 8, last=True) if streams else {})


def _within(m, wrapper, clock, reset):
    """The registers of a wrapper, in a domain of its own ports."""
    m.domains.sync = ClockDomain()
    inside = RegisterBus(wrapper.config, wrapper.streams)
    m.submodules.registers = ResetInserter(inside.restart)(inside)  # not the bus: a write to CONTROL has its answer
    m.d.comb += [ClockSignal().eq(clock), ResetSignal().eq(reset)]
    if wrapper.config.weights == "stream":
        m.d.comb += [wrapper.restart.eq(inside.restart), inside.weights.payload.eq(wrapper.s_axis_weights_tdata),
                     inside.weights.valid.eq(wrapper.s_axis_weights_tvalid), wrapper.s_axis_weights_tready.eq(inside.weights.ready)]
    if wrapper.streams:
        piece = RegisterSlice(PACKET)
        m.submodules.s_axis_image = ResetInserter(inside.restart)(piece)
        m.d.comb += [piece.i.payload.as_value().eq(Cat(wrapper.s_axis_image_tdata, wrapper.s_axis_image_tlast)),
                     piece.i.valid.eq(wrapper.s_axis_image_tvalid), wrapper.s_axis_image_tready.eq(piece.i.ready)]
        wiring.connect(m, piece.o, inside.packet)
    return inside


class WishboneWrapper(wiring.Component):
    """`RegisterBus` on Wishbone B4, classic cycles: a slave with a port of 32 bits.

    Parameters: as `RegisterBus`.

    Members: As Wishbone names them; wb_adr_i counts bytes, and its two lowest bits are ignored.  irq_o is a level, see INTERRUPT.  Those of
    `_streams` with streamed weights, and with `streams` of images.

    Timing: As `RegisterBus`.  wb_ack_o and wb_dat_o are registers.
    """

    def __init__(self, config, streams=False):
        self.config, self.streams = config, streams
        super().__init__({
            "wb_clk_i": In(1), "wb_rst_i": In(1), "wb_cyc_i": In(1), "wb_stb_i": In(1), "wb_we_i": In(1), "wb_adr_i": In(ADDRESS_BITS),
            "wb_sel_i": In(4), "wb_dat_i": In(32), "wb_dat_o": Out(32), "wb_ack_o": Out(1), "irq_o": Out(1)} | _streams(config, streams))

    def elaborate(self, platform):
        m = Module()
        inside = _within(m, self, self.wb_clk_i, self.wb_rst_i)
        m.d.comb += [
            inside.request.eq(self.wb_cyc_i & self.wb_stb_i), inside.write.eq(self.wb_we_i), inside.address.eq(self.wb_adr_i[2:]),
            inside.data.eq(self.wb_dat_i), inside.whole.eq(self.wb_sel_i.all()), self.wb_dat_o.eq(inside.read),
            self.wb_ack_o.eq(inside.ack), self.irq_o.eq(inside.irq)]
        return m


class AxiLiteWrapper(wiring.Component):
    """`RegisterBus` on AXI4-Lite (Arm IHI 0022), 32 bits.  Every response is OKAY.  A write waits for its address and its data; one access
    is at work at a time, and of a read and a write that come together the write is first.

    Parameters: as `RegisterBus`.

    Members: As AXI4-Lite names them; irq and those of `_streams` as of `WishboneWrapper`.

    Timing: As `RegisterBus`, and a clock for the response.  No path leads from an input to an output without a register.
    """

    def __init__(self, config, streams=False):
        self.config, self.streams = config, streams
        super().__init__({
            "aclk": In(1), "aresetn": In(1),
            "s_axi_awaddr": In(ADDRESS_BITS), "s_axi_awvalid": In(1), "s_axi_awready": Out(1),
            "s_axi_wdata": In(32), "s_axi_wstrb": In(4), "s_axi_wvalid": In(1), "s_axi_wready": Out(1),
            "s_axi_bresp": Out(2), "s_axi_bvalid": Out(1), "s_axi_bready": In(1),
            "s_axi_araddr": In(ADDRESS_BITS), "s_axi_arvalid": In(1), "s_axi_arready": Out(1),
            "s_axi_rdata": Out(32), "s_axi_rresp": Out(2), "s_axi_rvalid": Out(1), "s_axi_rready": In(1), "irq": Out(1)}
            | _streams(config, streams))

    def elaborate(self, platform):
        m = Module()
        inside = _within(m, self, self.aclk, ~self.aresetn)
        reading = Signal()  # an access is at work
        writing = Signal()
        free = ~(reading | writing | self.s_axi_bvalid | self.s_axi_rvalid)
        with m.If(free):
            m.d.sync += [writing.eq(self.s_axi_awvalid & self.s_axi_wvalid),
                         reading.eq(self.s_axi_arvalid & ~(self.s_axi_awvalid & self.s_axi_wvalid))]
        with m.If(inside.ack):
            m.d.sync += [reading.eq(0), writing.eq(0)]
        m.d.sync += [self.s_axi_bvalid.eq(writing & inside.ack | self.s_axi_bvalid & ~self.s_axi_bready),
                     self.s_axi_rvalid.eq(reading & inside.ack | self.s_axi_rvalid & ~self.s_axi_rready)]
        m.d.comb += [
            inside.request.eq(reading | writing), inside.write.eq(writing), inside.data.eq(self.s_axi_wdata),
            inside.address.eq(Mux(writing, self.s_axi_awaddr, self.s_axi_araddr)[2:]), inside.whole.eq(self.s_axi_wstrb.all()),
            self.s_axi_awready.eq(writing & inside.ack), self.s_axi_wready.eq(writing & inside.ack),
            self.s_axi_arready.eq(reading & inside.ack), self.s_axi_rdata.eq(inside.read), self.irq.eq(inside.irq)]
        return m
