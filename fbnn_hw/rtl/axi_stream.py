"""AXI4-Stream around an accelerator: packets of image bytes in, packets of logits and classes out."""

from amaranth import Cat, ClockDomain, ClockSignal, Const, Instance, Module, Mux, ResetSignal, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..machine.protocol import UNKNOWN_CLASS
from .accelerator_top import stream_ports
from .learning.learner import command_layout, host_layout
from .sequencer import Widths
from .signals import unnamed
from .weight_file import FILE_STATE

CLASS_BITS = UNKNOWN_CLASS.bit_length()
"""Bits of tdata of the results: a class number, and in the highest bit whether the answer is "unknown"."""
COMMAND_BYTES, HOST_BYTES = (1, 2, 1), (1, 3)
"""Bytes of the fields of tdata: of a command its number, label and count; of an access its space and address, before the data."""


def logit_bits(config):
    """Bits of tdata of the logits: whole bytes, a power of two of them."""
    return 16 if config.score_bits <= 16 else 32


class RegisterSlice(wiring.Component):
    """A stream with registers at both ends: no combinational path leads from an input to an output.

    Parameters: `shape` of a word.

    Timing: A word a clock, latency 1 clock.  i.ready, o.valid and o.payload are registers.

    Resources: Two registers of a word and two flags: 22 LUT4 and 34 FF for 16 bits, synthesised for iCE40 by yosys.
    """

    def __init__(self, shape):
        super().__init__({
            "i": In(stream.Signature(shape)),
            "o": Out(stream.Signature(shape))})  # the same words in the same order

    def elaborate(self, platform):
        m = Module()
        held = Signal.like(self.i.payload, name="$like")  # the word that came in the clock in which the output stalled
        full = Signal()  # `held` has a word
        m.d.comb += self.i.ready.eq(~full)
        with m.If(self.o.ready | ~self.o.valid):
            m.d.sync += [self.o.valid.eq(self.i.valid | full), full.eq(0)]
            m.d.sync += self.o.payload.eq(Mux(full, held, self.i.payload))
        with m.Elif(self.i.valid & ~full):
            m.d.sync += [held.eq(self.i.payload), full.eq(1)]
        return m


WAITING = 3
"""Images without an answer: one in the accelerator, one that comes in beside its program, one whose result waits."""


PACKET = data.StructLayout({"byte": 8, "last": 1})
"""A byte of an image's packet; the packet ends with `last`."""


class ImagePackets(wiring.Component):
    """Packets of bytes -> images, each of exactly `length` bytes.

    Zeros fill up a packet that is too short.  Of a packet that is too long the rest is dropped.  So a
    source that loses or doubles bytes spoils one image, and the next packet is the next image.

    Parameters:
    - length: bytes of an image.
    - images: most images whose answers have not been taken.

    Timing: A byte a clock; no register between `packet` and `pixels`.

    Resources: 48 LUT4 and 19 FF for images of 32 x 32 pixels, three without answers, synthesised for iCE40 by yosys.
    """

    def __init__(self, length, images=1):
        self.length, self.images = length, images
        super().__init__({
            "packet": In(stream.Signature(PACKET)),  # a packet ends with `last`
            "pixels": Out(stream.Signature(8)),  # the images
            "last": Out(1),  # the byte at `pixels` is an image's last one
            "wrong": Out(1),  # the oldest image without an answer came in a packet of another length
            "answered": In(1)})  # strobes when the answer to that image is taken

    def elaborate(self, platform):
        m = Module()
        count = unnamed(range(self.length))  # bytes of the image that have passed
        final = unnamed()  # the next byte is the image's last
        passes = unnamed()  # a byte of the image passes
        spoiled = unnamed()  # the packet of this image is too short or too long
        packet, pixels = self.packet, self.pixels
        m.d.comb += [final.eq(count == self.length - 1), self.last.eq(final), passes.eq(pixels.valid & pixels.ready)]
        with m.If(passes):
            m.d.sync += count.eq(Mux(final, 0, count + 1))
        with m.FSM():
            with m.State("PASS"):
                m.d.comb += [pixels.valid.eq(packet.valid), pixels.payload.eq(packet.payload.byte), packet.ready.eq(pixels.ready),
                             spoiled.eq(~packet.payload.last)]
                with m.If(passes & packet.payload.last & ~final):
                    m.next = "FILL"
                with m.If(passes & final & ~packet.payload.last):
                    m.next = "DROP"
            with m.State("FILL"):
                m.d.comb += [pixels.valid.eq(1), spoiled.eq(1)]
                with m.If(passes & final):
                    m.next = "PASS"
            with m.State("DROP"):
                m.d.comb += packet.ready.eq(1)
                with m.If(packet.valid & packet.payload.last):
                    m.next = "PASS"
        flags = unnamed(self.images)  # of the images without an answer, the oldest first: whether the packet was spoiled
        waiting = Signal(range(self.images + 1))  # images without an answer
        taken = unnamed()
        before = unnamed(range(self.images + 1))  # of the images without an answer, those that came before the one that ends now
        m.d.comb += [self.wrong.eq(flags[0]), taken.eq(self.answered & waiting.any()), before.eq(waiting - taken)]
        m.d.sync += [flags.eq(Mux(taken, flags >> 1, flags)), waiting.eq(before + (passes & final))]
        with m.If(passes & final):
            m.d.sync += flags.bit_select(before, 1).eq(spoiled)
        return m


def stream_members(name, bits, last=False):
    """Members of an AXI4-Stream; a name that begins with m leaves the module."""
    there, back = (Out, In) if name.startswith("m") else (In, Out)
    return {f"{name}_tdata": there(bits), f"{name}_tvalid": there(1), f"{name}_tready": back(1)} | (
        {f"{name}_tlast": there(1)} if last else {})


class AxiStreamWrapper(wiring.Component):
    """The module `accelerator` of accelerator.v with AXI4-Stream ports (Arm IHI 0051), each behind a `RegisterSlice`.

    Timing: As `Accelerator`, and a clock for each word at a port.
    """

    def __init__(self, config):
        self.config = config
        ports = {"aclk": In(1), "aresetn": In(1), "want_latent": In(1), "busy": Out(1)}  # the reset is synchronous and active low
        ports |= stream_members("s_axis_image", 8, last=True)  # bytes of an image, tlast with the last one (`ImagePackets`)
        ports |= stream_members("m_axis_logits", logit_bits(config), last=True)  # a signed integer a class, a packet an image
        # The class of each image, a packet of one word.  tuser: the packet of the image had another length.
        ports |= stream_members("m_axis_result", CLASS_BITS, last=True) | {"m_axis_result_tuser": Out(1)}
        ports |= stream_members("m_axis_latent", config.lanes, last=True)  # words of the latent where want_latent was 1, a packet an image
        if config.takes_weights:
            ports |= stream_members("s_axis_weights", config.beat_bits)
        if config.loads:
            ports |= {name: Out(bits) for name, bits in FILE_STATE.items()}
        if plan := config.learning:
            word = plan.host_bits
            # Command in 7:0, label in 23:8, count in 31:24.  A label that is too large is refused, an unknown command ignored.
            ports |= stream_members("s_axis_command", 8 * sum(COMMAND_BYTES))
            ports |= stream_members("m_axis_host", word)  # a word for each access once it is done; that of a read has the data
            # Space in 2:0, write in 7, address in 31:8, data above.  Address bits that `Learner.host` lacks are ignored.
            ports |= stream_members("s_axis_host", 8 * sum(HOST_BYTES) + word)
            ports |= {"refused": Out(1), "known": Out(range(plan.max_classes + 1)), "used": Out(range(plan.slots + 1)), "frozen": Out(1)}
        super().__init__(ports)

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = ClockDomain()
        m.d.comb += [ClockSignal().eq(self.aclk), ResetSignal().eq(~self.aresetn)]
        ports = {"i_clk": ClockSignal(), "i_rst": ResetSignal(), "i_want_latent": self.want_latent, "o_busy": self.busy}
        self._images(m, ports)
        if self.config.takes_weights:
            ports |= stream_ports("weights", self._source(m, "s_axis_weights", self.config.beat_bits), True)
        if self.config.loads:
            ports |= {f"o_{name}": getattr(self, name) for name in FILE_STATE}
        if self.config.learning:
            self._learner(m, ports)
        m.submodules.accelerator = Instance("accelerator", **ports)
        return m

    def _images(self, m, ports):
        """The way of an image and of what is said of it."""
        c = self.config
        source = self._source(m, "s_axis_image", PACKET)
        m.submodules.packets = packets = ImagePackets(c.image_bytes, WAITING)
        wiring.connect(m, source, packets.packet)
        ports |= stream_ports("pixels", packets.pixels, True)
        for name, bits in (("logits", c.score_bits), ("latent", c.lanes)):
            layout = data.StructLayout({"word": bits, "last": 1})
            words = self._outgoing(ports, name, layout)
            value = words.payload.word.as_signed() if name == "logits" else words.payload.word
            self._sink(m, f"m_axis_{name}", words, value, words.payload.last)
        result = self._outgoing(ports, "result", c.result_bits)
        m.d.comb += packets.answered.eq(result.valid & result.ready)
        answer = result.payload
        if c.learning and c.learning.unknown:
            answer = Cat(answer[:-1], Const(0, CLASS_BITS - len(answer)), answer[-1])
        self._sink(m, "m_axis_result", result, answer, 1, packets.wrong)

    def _learner(self, m, ports):
        """Commands, accesses of the host and the learner's state."""
        plan = self.config.learning
        for name in ("refused", "known", "used", "frozen"):
            ports[f"o_{name}"] = getattr(self, name)
        command = self._source(m, "s_axis_command", 8 * sum(COMMAND_BYTES))
        layout = command_layout(plan)
        fields = self._fields(command.payload, COMMAND_BYTES, (layout[name].width for name in ("command", "label", "count")))
        inner = stream.Signature(layout).create()
        m.d.comb += [inner.payload.as_value().eq(Cat(*fields)), inner.valid.eq(command.valid), command.ready.eq(inner.ready)]
        ports |= stream_ports("command", inner, True)
        word, layout = plan.host_bits, host_layout(plan, Widths(self.config).row)
        access = self._source(m, "s_axis_host", 8 * sum(HOST_BYTES) + word)
        inner = stream.Signature(layout).create()
        word_read, reply = Signal(word), stream.Signature(word).create()
        # The reply stands for one clock, so an access begins only where its reply has room.
        m.d.comb += [
            inner.payload.write.eq(access.payload[7]), inner.payload.space.eq(access.payload[:3]),
            inner.payload.address.eq(access.payload[8:32]), inner.payload.data.eq(access.payload[32:]),
            inner.valid.eq(access.valid & reply.ready), access.ready.eq(inner.ready & reply.ready),
            reply.payload.eq(word_read), reply.valid.eq(inner.valid & inner.ready)]
        ports |= stream_ports("host", inner, True)
        ports["o_found"] = word_read
        self._sink(m, "m_axis_host", reply, reply.payload)

    @staticmethod
    def _fields(word, sizes, widths):
        """The low bits of each field of whole bytes; all of them 1, which no command means, where the field says more than they can."""
        at = 0
        for size, width in zip(sizes, widths):
            low, high = word[8 * at:8 * at + width], word[8 * at + width:8 * (at + size)]
            yield low | high.any().replicate(width) if len(high) else low
            at += size

    def _source(self, m, name, shape):
        """The stream behind the slice of an incoming port."""
        m.submodules[name] = piece = RegisterSlice(shape)
        parts = [getattr(self, f"{name}_tdata")]
        if isinstance(shape, data.Layout):
            parts.append(getattr(self, f"{name}_tlast"))
        payload = piece.i.payload
        m.d.comb += [(payload.as_value() if len(parts) > 1 else payload).eq(Cat(*parts)),
                     piece.i.valid.eq(getattr(self, f"{name}_tvalid")), getattr(self, f"{name}_tready").eq(piece.i.ready)]
        return piece.o

    def _sink(self, m, name, source, value, *flags):
        """Connect a stream to the slice of an outgoing port.  flags: tlast and tuser, where the port has them."""
        tdata = getattr(self, f"{name}_tdata")
        members = [getattr(self, f"{name}_{flag}") for flag in ("tlast", "tuser")[:len(flags)]]
        m.submodules[name] = piece = RegisterSlice(len(tdata) + len(members))
        wide = Signal.like(tdata)
        m.d.comb += [wide.eq(value), piece.i.payload.eq(Cat(wide, *flags)), piece.i.valid.eq(source.valid), source.ready.eq(piece.i.ready),
                     Cat(tdata, *members).eq(piece.o.payload), getattr(self, f"{name}_tvalid").eq(piece.o.valid),
                     piece.o.ready.eq(getattr(self, f"{name}_tready"))]

    @staticmethod
    def _outgoing(ports, name, shape):
        """The stream at a port that gives one."""
        source = stream.Signature(shape).create()
        ports |= stream_ports(name, source, False)
        return source
