"""The board's end of the host protocol, between a UART and an accelerator."""

from amaranth import Array, Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .. import protocol
from ..errors import UsageError
from ..protocol import Fault
from .uart import UartReceiver, UartTransmitter

CYCLES_BITS = 24


class HostLink(wiring.Component):
    """Requests in, replies out; twin: `fbnn_hw.protocol`.

    An image is passed on while it comes, so that no memory holds it; if its frame then turns out bad, or no result comes in
    time, `abort` strobes, and whoever owns the accelerator resets it.  After a fault the link waits until the line has been quiet for
    the time-out, then sends the error frame.  Between frames everything but SYNC is skipped.  One CRC register serves both directions.

    config: classes, size, lanes and latent_words of an AcceleratorConfig, and the width of a logit, score_bits.
    mark: the 4 bytes that name the configuration.  model: those that name the network, or None: they come in `model`, rotated by one byte
    each time `model_next` strobes.  clocks: of a bit on the line.
    frames: images of a pass; all but its last are answered with nothing as soon as the accelerator, `busy` with them, waits again.
    timeout_bits: a frame with a pause of 2^timeout_bits cycles is given up.  result_bits: so is a result after 2^result_bits cycles.

    rx, tx: pins.  pixels, logits, result, latent, want_latent: as the accelerator has them.  ready: weights are loaded.  wrong_flash: they
    never will be.  active: a request is being worked on.  fault: the last request ended with one.
    """

    def __init__(self, *, classes, size, lanes, latent_words, score_bits, mark, model=None, clocks, frames=1, timeout_bits=21,
                 result_bits=24):
        if score_bits > 16 or lanes % 8 or len(mark) != protocol.MARK_BYTES or model is not None and len(model) != protocol.MODEL_BYTES:
            raise UsageError(f"host link: score_bits {score_bits}, lanes {lanes}, mark {mark!r}, model {model!r}: "
                             "expected at most 16, a multiple of 8, and 4 bytes each")
        if not 3 * size ** 2 < 1 << 16:
            raise UsageError(f"host link: image of {size} pixels a side, expected at most 147, so that a frame holds it")
        if not timeout_bits <= result_bits <= CYCLES_BITS:
            raise UsageError(f"host link: result_bits {result_bits}, expected from timeout_bits, {timeout_bits}, to {CYCLES_BITS}")
        self.classes, self.size, self.lanes, self.latent_words, self.score_bits = classes, size, lanes, latent_words, score_bits
        self.mark, self.model_mark, self.clocks, self.frames = mark, model, clocks, frames
        self.timeout_bits, self.result_bits = timeout_bits, result_bits
        super().__init__({
            "rx": In(1, init=1), "tx": Out(1, init=1),
            "pixels": Out(stream.Signature(8)),
            "logits": In(stream.Signature(data.StructLayout({"value": signed(score_bits), "last": 1}))),
            "result": In(stream.Signature(range(max(2, classes)))),
            "latent": In(stream.Signature(data.StructLayout({"word": lanes, "last": 1}))),
            "want_latent": Out(1), "busy": In(1), "abort": Out(1), "ready": In(1), "wrong_flash": In(1),
            "model": In(8), "model_next": Out(1), "active": Out(1), "fault": Out(1)})

    @property
    def latent_bytes(self):
        return self.latent_words * self.lanes // 8

    def elaborate(self, platform):
        m = Module()
        m.submodules.receiver = rx = UartReceiver(self.clocks)
        m.submodules.transmitter = tx = UartTransmitter(self.clocks)
        m.d.comb += [rx.line.eq(self.rx), self.tx.eq(tx.line)]
        image_bytes = 3 * self.size ** 2

        # A byte stands still for long: what it means is known a cycle after it came, from registers.
        strobe, broken, sync, legal, low_wrong, high_wrong, late_pixel = (Signal() for _ in range(7))
        opcode, fault = Signal(5), Signal(3)
        classify, status, with_logits, with_latent = opcode[4], opcode[1], opcode[0], opcode[1]
        frames, errors, cycles = Signal(16), Signal(16), Signal(CYCLES_BITS)
        index = Signal(range(max(16, image_bytes)))
        image_whole = Signal()
        m.d.sync += image_whole.eq(index == image_bytes - 1)
        m.d.comb += [self.want_latent.eq(with_latent), self.fault.eq(fault != 0)]

        # One check sum for both directions.  When its own low byte is sent, it shifts itself out.
        crc, sending = Signal(16), Signal()
        bit = Mux(sending, tx.bit, rx.bit)
        with m.If(Mux(sending, tx.bit_strobe, rx.bit_strobe)):
            m.d.sync += crc.eq(Cat(crc[1:], 0) ^ Mux(crc[0] ^ bit, protocol.CRC_POLYNOMIAL, 0))

        # Cycles since the last byte, and since the image was complete.
        timer, keep = Signal(self.result_bits + 1), Signal()
        send, byte = Signal(), Signal(8)
        m.d.comb += [tx.bytes.payload.eq(byte), tx.bytes.valid.eq(send)]
        sent = send & tx.bytes.ready
        quiet, late = Signal(), Signal()
        m.d.sync += [timer.eq(timer + 1), quiet.eq(timer[self.timeout_bits]), late.eq(timer[self.result_bits])]
        with m.If(sent | (strobe | broken) & ~keep):
            m.d.sync += [timer.eq(0), quiet.eq(0), late.eq(0)]

        # The image of the pass that is at work, then the result that is sent; whether the accelerator has begun with the image.
        member, begun = Signal(range(self.frames)), Signal()
        more, partial = member != self.frames - 1, Signal()
        m.d.sync += begun.eq((begun | self.busy) & self.active)

        # A byte of an image waits here until it is taken, for as long as the next one takes to come.
        pixel, held = Signal(8), Signal()
        m.d.comb += [self.pixels.payload.eq(pixel), self.pixels.valid.eq(held)]
        m.d.sync += [
            strobe.eq(rx.strobe), broken.eq(rx.error), sync.eq(rx.byte == protocol.SYNC),
            low_wrong.eq(rx.byte != Mux(classify, image_bytes & 0xFF, 0)), high_wrong.eq(rx.byte != Mux(classify, image_bytes >> 8, 0)),
            legal.eq(Cat(rx.byte == request for request in protocol.REQUESTS).any()), late_pixel.eq(held | ~self.ready)]
        with m.If(self.pixels.ready):
            m.d.sync += held.eq(0)

        # What the accelerator gives, one thing at a time, is seen a cycle late and taken a cycle after its last byte, so that no path
        # leads through both.
        there, taken = Signal(), Signal()
        outputs = self.logits, self.latent, self.result
        m.d.sync += [there.eq(Cat(port.valid for port in outputs).any() & ~taken), taken.eq(0)]
        m.d.comb += [port.ready.eq(taken) for port in outputs]

        failed = Signal()
        m.d.sync += [failed.eq(0), errors.eq(errors + failed)]

        def fail(reason, abort=0):
            m.d.sync += [fault.eq(reason), failed.eq(1)]
            m.d.comb += self.abort.eq(abort)
            m.next = "QUIET"

        def receive(state, take, abort=0):
            """A state that takes a byte, unless it comes too late or damaged."""
            with m.State(state):
                with m.If(broken):
                    fail(Fault.LINE, abort)
                with m.Elif(quiet):
                    fail(Fault.TIMEOUT, abort)
                with m.Elif(strobe):
                    take()

        def step(last, following):
            """Count `index` up to `last`, then go on."""
            m.d.sync += index.eq(index + 1)
            with m.If(index == last):
                m.d.sync += index.eq(0)
                m.next = following

        def take_opcode():
            m.d.sync += opcode.eq(rx.byte)
            m.next = "LENGTH_LOW"
            with m.If(~legal):
                fail(Fault.OPCODE)

        def take_length_low():
            m.next = "LENGTH_HIGH"
            with m.If(low_wrong):
                fail(Fault.LENGTH)

        def take_length_high():
            m.next = "CRC"
            with m.If(high_wrong):
                fail(Fault.LENGTH)
            with m.Elif(classify):
                m.next = "IMAGE"

        def take_pixel():
            # `index` stands still for many cycles before a byte comes.
            m.d.sync += index.eq(index + 1)
            with m.If(image_whole):
                m.d.sync += index.eq(0)
                m.next = "CRC"
            with m.If(late_pixel):
                fail(Fault.BUSY, self.ready)
            with m.Else():
                m.d.sync += [pixel.eq(rx.byte), held.eq(1)]

        with m.FSM(init="HUNT") as fsm:
            m.d.comb += self.active.eq(~fsm.ongoing("HUNT"))
            with m.State("HUNT"):
                m.d.sync += [crc.eq(protocol.CRC_START), index.eq(0)]
                with m.If(strobe & sync):
                    m.d.sync += fault.eq(0)
                    m.next = "OPCODE"
            receive("OPCODE", take_opcode)
            receive("LENGTH_LOW", take_length_low)
            receive("LENGTH_HIGH", take_length_high)
            receive("IMAGE", take_pixel, abort=1)
            receive("CRC", lambda: step(1, "CHECK"), abort=classify)
            with m.State("CHECK"):
                m.next = "WAIT"
                with m.If(crc != 0):
                    fail(Fault.CRC, classify)
                with m.Elif(~classify & ~status):
                    m.d.comb += self.abort.eq(member != 0)
            with m.State("WAIT"):
                with m.If(~classify | there | more & begun & ~self.busy):
                    m.next = "SYNC"
                    with m.If(classify):
                        m.d.sync += [cycles.eq(timer), frames.eq(frames + 1), partial.eq(more), member.eq(Mux(more, member + 1, 0))]
                with m.Elif(late):
                    fail(Fault.RESULT, 1)
            with m.State("QUIET"):
                with m.If(quiet):
                    m.next = "SYNC"
            m.d.comb += keep.eq(fsm.ongoing("CRC") | fsm.ongoing("CHECK") | fsm.ongoing("WAIT"))

            # Replies.
            lengths = [self.frames * protocol.classify_bytes(flags, self.classes, self.latent_bytes) for flags in range(4)]
            length = Signal(16)
            m.d.comb += length.eq(Mux(
                fault != 0, 1, Mux(classify, Mux(partial, 0, Array(Const(n, 16) for n in lengths)[opcode[:2]]),
                                   Mux(status, protocol.STATUS_BYTES, protocol.IDENTITY_BYTES))))
            with m.State("SYNC"):
                m.d.comb += [send.eq(1), byte.eq(protocol.SYNC)]
                m.d.sync += index.eq(0)
                with m.If(sent):
                    m.next = "HEAD"
            with m.State("HEAD"):
                m.d.comb += [send.eq(1), byte.eq(Array([Cat(opcode, Const(protocol.REPLY >> 5, 3)), length[:8], length[8:], 0])[index[:2]])]
                with m.If((index == 0) & (fault != 0)):
                    m.d.comb += byte.eq(protocol.ERROR)
                with m.If((index == 0) & ~sent):
                    m.d.sync += crc.eq(protocol.CRC_START)  # the bits of SYNC are no part of it
                with m.If(sent):
                    step(2, "BYTES")
                    with m.If((index == 2) & classify & (fault == 0)):
                        m.next = "LOGITS"
                        with m.If(partial):
                            m.next = "END"

            model = self.model_mark or bytes(protocol.MODEL_BYTES)
            identity = protocol.Identity(protocol.VERSION, self.mark, self.classes, self.size, self.latent_bytes, self.frames, model).pack()
            identity = Array(Const(value, 8) for value in identity.ljust(16, b"\0"))[index[:4]]
            counters = Array([Cat(self.ready, self.wrong_flash, Const(0, 6)), *(
                counter.word_select(i, 8) for counter in (frames, errors, cycles) for i in range(len(counter) // 8))])[index[:3]]
            with m.State("BYTES"):
                m.d.comb += [send.eq(1), byte.eq(Mux(status, counters, identity))]
                if self.model_mark is None:
                    with m.If(~status & (index[:4] >= protocol.IDENTITY_BYTES - protocol.MODEL_BYTES)):
                        m.d.comb += [byte.eq(self.model), self.model_next.eq(sent & (fault == 0))]
                with m.If(fault != 0):
                    m.d.comb += byte.eq(fault)
                with m.If(sent):
                    step(Mux(fault != 0, 0, Mux(status, protocol.STATUS_BYTES - 1, protocol.IDENTITY_BYTES - 1)), "END")

            def give_up():
                """Too late for an error frame: the host finds that this one ends early."""
                with m.If(late):
                    m.d.comb += self.abort.eq(1)
                    m.d.sync += failed.eq(1)
                    m.next = "HUNT"

            def pass_on(state, source, wanted, value, following):
                """The words of a stream as bytes, or dropped, up to the last word."""
                count = len(value) // 8
                with m.State(state):
                    m.d.comb += [send.eq(there & wanted & ~taken), byte.eq(value.word_select(index[:(count - 1).bit_length()], 8))]
                    m.d.sync += taken.eq(there & ~taken & (~wanted | sent & (index == count - 1)))
                    with m.If(sent):
                        step(count - 1, state)
                    with m.If(taken & source.payload.last):
                        following()
                    give_up()

            def after_logits():
                m.next = "CLASS"
                if self.latent_words:
                    with m.If(with_latent):
                        m.next = "LATENT"

            def after_latent():
                m.next = "CLASS"

            score = Signal(signed(16))
            best = Signal(16)
            m.d.comb += [score.eq(self.logits.payload.value), best.eq(self.result.payload)]
            pass_on("LOGITS", self.logits, with_logits, score.as_unsigned(), after_logits)
            if self.latent_words:
                pass_on("LATENT", self.latent, 1, self.latent.payload.word, after_latent)
            with m.State("CLASS"):
                m.d.comb += [send.eq(there & ~taken), byte.eq(best.word_select(index[0], 8))]
                m.d.sync += taken.eq(sent & (index == 1))
                with m.If(sent):
                    step(1, "CLASS")
                with m.If(taken):
                    m.d.sync += member.eq(Mux(more, member + 1, 0))
                    m.next = "END"
                    with m.If(more):
                        m.next = "LOGITS"
                give_up()
            with m.State("END"):
                m.d.comb += [send.eq(1), byte.eq(crc[:8])]
                with m.If(sent):
                    step(1, "HUNT")
            replying = ["HEAD", "BYTES", "LOGITS", "CLASS", "END", *(["LATENT"] if self.latent_words else ())]
            m.d.comb += sending.eq(Cat(fsm.ongoing(state) for state in replying).any())
        with m.If(self.abort):
            m.d.sync += [held.eq(0), member.eq(0)]
        return m
