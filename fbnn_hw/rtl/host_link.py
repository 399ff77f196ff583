"""The board's end of the host protocol, between a UART and an accelerator."""

from amaranth import Array, Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from .. import protocol
from ..errors import UsageError
from ..protocol import Fault, Opcode
from .learning.learner import command_layout, host_layout
from .signals import unnamed
from .uart import UartReceiver, UartTransmitter

CYCLES_BITS = 24


def learner_ports(plan, address_bits):
    """What the link has of a `Learner`; the streams first."""
    return {"command": Out(stream.Signature(command_layout(plan))), "host": Out(stream.Signature(host_layout(plan, address_bits))),
            "refused": In(1), "class_count": In(range(plan.max_classes + 1)), "frozen": In(1), "host_reply": In(max(16, plan.lanes))}


class HostLink(wiring.Component):
    """Requests in, replies out; twin: `fbnn_hw.protocol`.

    An image is passed on while it comes, so that no memory holds it; if its frame then turns out bad, or no result comes in
    time, `abort` strobes, and whoever owns the accelerator resets it.  After a fault the link waits until the line has been quiet for
    the time-out, then sends the error frame.  Between frames everything but SYNC is skipped.  One CRC register serves both directions.

    Where the accelerator learns, a reset would lose what it learned.  There an image whose frame is bad is filled up and its
    result dropped; `abort` strobes for RESET and where no result comes.  Words to be written wait in a block RAM for their check sum.

    config: classes, size, lanes and latent_words of an AcceleratorConfig, and the width of a logit, score_bits.
    mark: the 4 bytes that name the configuration.  model: those that name the network, or None: they come in `model`, rotated by one byte
    each time `model_next` strobes.  clocks: of a bit on the line.
    plan: the `LearnPlan` of a design that learns, or None.  address_bits: of a row of its banks.
    frames: images of a pass; all but its last are answered with nothing as soon as the accelerator, `busy` with them, waits again.
    timeout_bits: a frame with a pause of 2^timeout_bits cycles is given up.  result_bits: so is a result after 2^result_bits cycles.

    rx, tx: pins.  pixels, logits, result, latent, want_latent: as the accelerator has them.  ready: weights are loaded.  wrong_flash: they
    never will be.  active: a request is being worked on.  fault: the last request ended with one.  command, host, refused, known, frozen,
    found: as the learner has them; `busy` is then the accelerator's also where a pass has one image.
    """

    def __init__(self, *, classes, size, lanes, latent_words, score_bits, mark, model=None, clocks, frames=1, plan=None,
                 address_bits=14, timeout_bits=21, result_bits=24):
        if score_bits > 16 or lanes % 8 or len(mark) != protocol.MARK_BYTES or model is not None and len(model) != protocol.MODEL_BYTES:
            raise UsageError(f"host link: score_bits {score_bits}, lanes {lanes}, mark {mark!r}, model {model!r}: "
                             "expected at most 16, a multiple of 8, and 4 bytes each")
        if not 3 * size ** 2 < 1 << 16:
            raise UsageError(f"host link: image of {size} pixels a side, expected at most 147, so that a frame holds it")
        if not timeout_bits <= result_bits <= CYCLES_BITS:
            raise UsageError(f"host link: result_bits {result_bits}, expected from timeout_bits, {timeout_bits}, to {CYCLES_BITS}")
        self.classes, self.size, self.lanes, self.latent_words, self.score_bits = classes, size, lanes, latent_words, score_bits
        self.mark, self.model_mark, self.clocks, self.frames, self.plan = mark, model, clocks, frames, plan
        self.timeout_bits, self.result_bits = timeout_bits, result_bits
        super().__init__((learner_ports(plan, address_bits) if plan else {}) | {
            "rx": In(1, init=1), "tx": Out(1, init=1),
            "pixels": Out(stream.Signature(8)),
            "logits": In(stream.Signature(data.StructLayout({"value": signed(score_bits), "last": 1}))),
            "result": In(stream.Signature(range(max(2, plan.max_classes if plan else classes)))),
            "latent": In(stream.Signature(data.StructLayout({"word": lanes, "last": 1}))),
            "want_latent": Out(1), "busy": In(1), "abort": Out(1), "ready": In(1), "wrong_flash": In(1),
            "model": In(8), "model_next": Out(1), "active": Out(1), "fault": Out(1)})

    @property
    def latent_bytes(self):
        return self.latent_words * self.lanes // 8

    @property
    def identity(self):
        """`protocol.Identity`, the model as zeros where it is not known."""
        learner = (self.plan.max_classes, len(self.host_reply) // 8) if self.plan else (0, 0)
        return protocol.Identity(protocol.VERSION, self.mark, self.classes, self.size, self.latent_bytes, self.frames, *learner,
                                 self.model_mark or bytes(protocol.MODEL_BYTES))

    def elaborate(self, platform):
        m = Module()
        m.submodules.receiver = rx = UartReceiver(self.clocks)
        m.submodules.transmitter = tx = UartTransmitter(self.clocks)
        m.d.comb += [rx.line.eq(self.rx), self.tx.eq(tx.line)]
        image_bytes = 3 * self.size ** 2
        learns = self.plan is not None

        # A byte stands still for long: what it means is known a cycle after it came, from registers.
        strobe = unnamed()
        broken = unnamed()
        sync = unnamed()
        legal = unnamed()
        low_wrong = unnamed()
        high_wrong = unnamed()
        late_pixel = unnamed()
        opcode = unnamed(6)
        sequence = unnamed(8)
        fault = unnamed(4)
        status, with_logits, with_latent = opcode[1], opcode[0], opcode[1]
        learning = opcode[5] if learns else Const(0, 1)
        classify = opcode[4] & ~learning
        access = learning & opcode[4]
        poke = access & opcode[3]
        resets = ~access & (opcode[:3] == Opcode.RESET & 7)
        of_sample = ~opcode[2] & (opcode[:2] != Opcode.REHEARSE & 3)  # LEARN, STORE
        frames = unnamed(16)
        errors = unnamed(16)
        cycles = Signal(CYCLES_BITS)
        word_bytes = self.identity.word_bytes
        word_bits = (word_bytes - 1).bit_length()
        index = Signal(range(max(256 * word_bytes, 32, image_bytes)))
        image_whole = Signal()
        m.d.sync += image_whole.eq(index == image_bytes - 1)
        m.d.comb += [self.want_latent.eq(with_latent), self.fault.eq(fault != 0)]

        # One check sum for both directions.  When its own low byte is sent, it shifts itself out.
        crc = unnamed(16)
        sending = Signal()
        bit = Mux(sending, tx.bit, rx.bit)
        with m.If(Mux(sending, tx.bit_strobe, rx.bit_strobe)):
            m.d.sync += crc.eq(Cat(crc[1:], 0) ^ Mux(crc[0] ^ bit, protocol.CRC_POLYNOMIAL, 0))

        # Cycles since the last byte, and since the image was complete.
        timer = unnamed(self.result_bits + 1)
        keep = Signal()
        send = unnamed()
        byte = unnamed(8)
        m.d.comb += [tx.bytes.payload.eq(byte), tx.bytes.valid.eq(send)]
        sent = send & tx.bytes.ready
        quiet = unnamed()
        late = unnamed()
        m.d.sync += [timer.eq(timer + 1), quiet.eq(timer[self.timeout_bits]), late.eq(timer[self.result_bits])]
        with m.If(sent | (strobe | broken) & ~keep):
            m.d.sync += [timer.eq(0), quiet.eq(0), late.eq(0)]

        # The image of the pass that is at work, then the result that is sent; whether the accelerator has begun with the image.
        member = unnamed(range(self.frames))
        begun = Signal()
        more = member != self.frames - 1
        partial = Signal()
        m.d.sync += begun.eq((begun | self.busy) & self.active)

        # A byte of an image waits here until it is taken, for as long as the next one takes to come.
        pixel = unnamed(8)
        held = unnamed()
        m.d.comb += [self.pixels.payload.eq(pixel), self.pixels.valid.eq(held)]
        m.d.sync += [
            strobe.eq(rx.strobe), broken.eq(rx.error), sync.eq(rx.byte == protocol.SYNC),
            low_wrong.eq(rx.byte != Mux(classify, image_bytes & 0xFF, Mux(learning, protocol.OPERAND_BYTES, 0))),
            high_wrong.eq(rx.byte != Mux(classify, image_bytes >> 8, 0)),
            legal.eq(Cat(rx.byte == request for request in (*protocol.REQUESTS, *(protocol.LEARNING_REQUESTS * learns))).any()),
            late_pixel.eq(held | ~self.ready)]
        with m.If(self.pixels.ready):
            m.d.sync += held.eq(0)

        # What the accelerator gives, one thing at a time, is seen a cycle late and taken a cycle after its last byte, so that no path
        # leads through both.
        result_waiting = unnamed()
        result_ack = unnamed()
        outputs = self.logits, self.latent, self.result
        m.d.sync += [result_waiting.eq(Cat(port.valid for port in outputs).any() & ~result_ack), result_ack.eq(0)]
        m.d.comb += [port.ready.eq(result_ack) for port in outputs]

        failed = Signal()
        m.d.sync += [failed.eq(0), errors.eq(errors + failed)]

        # Of a learner: an image was begun, its last byte was taken, its result has left and is the sample.
        image_started = unnamed()
        image_received = unnamed()
        sample = unnamed()

        def fail(reason, abort=0):
            m.d.sync += [fault.eq(reason), failed.eq(1)]
            m.next = "QUIET"
            if not learns:
                m.d.comb += self.abort.eq(abort)
                return
            with m.If(image_started):
                m.next = "FLUSH"

        def accept(take, abort=0):
            """Take a byte, unless it comes too late or damaged."""
            with m.If(broken):
                fail(Fault.LINE, abort)
            with m.Elif(quiet):
                fail(Fault.TIMEOUT, abort)
            with m.Elif(strobe):
                take()

        def receive(state, take, abort=0):
            """A state that does."""
            with m.State(state):
                accept(take, abort)

        def step(last, following):
            """Count `index` up to `last`, then go on."""
            m.d.sync += index.eq(index + 1)
            with m.If(index == last):
                m.d.sync += index.eq(0)
                m.next = following

        def take_opcode():
            m.d.sync += opcode.eq(rx.byte)
            m.next = "SEQUENCE"
            with m.If(~legal):
                fail(Fault.OPCODE)

        def take_sequence():
            m.d.sync += sequence.eq(rx.byte)
            m.next = "LENGTH_LOW"

        def take_length_low():
            m.next = "LENGTH_HIGH"
            with m.If(low_wrong & ~poke):
                fail(Fault.LENGTH)

        def take_length_high():
            m.next = "CRC"
            with m.If(high_wrong):
                fail(Fault.LENGTH)
            with m.Elif(classify):
                m.next = "IMAGE"
            if learns:
                with m.Elif(learning):
                    m.next = "OPERAND"

        def take_pixel():
            # `index` stands still for many cycles before a byte comes.
            with m.If(late_pixel):
                fail(Fault.BUSY, self.ready)
            with m.Else():
                m.d.sync += [pixel.eq(rx.byte), held.eq(1), index.eq(index + 1), image_started.eq(1), image_received.eq(image_whole),
                             sample.eq(0)]
                with m.If(image_whole):
                    m.d.sync += index.eq(0)
                    m.next = "CRC"

        # A repetition has the sequence of the last good request.
        last_sequence = unnamed(8)
        remembered = unnamed()
        repeated = unnamed()
        m.d.sync += repeated.eq(remembered & (sequence == last_sequence))
        if learns:
            command, host = self.command, self.host
            number = unnamed(len(host.payload.address))
            count = unnamed(8)
            illegal_count = unnamed()
            too_large = unnamed()
            place = index[word_bits:]  # of a word in its request
            all_words = unnamed()
            asking = Signal()
            m.d.sync += asking.eq(0)
            depth_bits = (protocol.LONGEST_POKE // word_bytes).bit_length()
            buffer = Memory(shape=len(self.host_reply), depth=1 << depth_bits, init=[], attrs={"ram_style": "block"})
            m.submodules.buffer = buffer
            buffer_read, buffer_write = buffer.read_port(), buffer.write_port(granularity=8)
            m.d.sync += illegal_count.eq((rx.byte == 0) | poke & rx.byte[depth_bits:].any())
            m.d.comb += [
                all_words.eq(place == count), buffer_read.addr.eq(place), buffer_write.addr.eq(place),
                buffer_write.data.eq(rx.byte.replicate(word_bytes)),
                command.payload.command.eq(opcode[:3]), command.payload.label.eq(number), command.payload.count.eq(count),
                host.valid.eq(asking), host.payload.write.eq(poke), host.payload.space.eq(opcode[:3]),
                host.payload.address.eq(number ^ place),
                host.payload.data.eq(buffer_read.data)]

            def take_operand():
                label_bits = len(command.payload.label)
                step(protocol.OPERAND_BYTES - 1, "CRC")
                with m.Switch(index[:2]):
                    for place in range(3):
                        with m.Case(place):
                            if 8 * place < len(number):
                                m.d.sync += number[8 * place:8 * place + 8].eq(rx.byte)
                            m.d.sync += too_large.eq(too_large & (place > 0) | rx.byte[max(0, label_bits - 8 * place):].any())
                    with m.Case(3):
                        m.d.sync += count.eq(rx.byte)
                        with m.If(poke):
                            m.next = "DATA"
                        with m.If(access & illegal_count):
                            fail(Fault.LENGTH)

            def take_word():
                m.d.comb += buffer_write.en.eq(1 << index[:word_bits])
                m.d.sync += index.eq(index + 1)

            def refuse(reason):
                """A request that is not carried out is not remembered."""
                m.d.sync += remembered.eq(0)
                fail(reason)

            def carry_out():
                """A good request to the learner."""
                with m.If(access & ~poke):
                    m.next = "SYNC"
                    with m.If(~self.ready):
                        refuse(Fault.BUSY)
                with m.Elif(repeated):
                    m.next = "WAIT"
                with m.Elif(resets):
                    m.d.comb += self.abort.eq(1)
                    m.next = "SYNC"
                with m.Elif(~self.ready):
                    refuse(Fault.BUSY)
                with m.Elif(poke):
                    m.next = "POKE"
                with m.Elif(of_sample & ~sample):
                    refuse(Fault.SAMPLE)
                with m.Elif(of_sample & too_large):
                    refuse(Fault.LABEL)
                with m.Else():
                    m.next = "COMMAND"

        with m.FSM(init="HUNT") as fsm:
            m.d.comb += self.active.eq(~fsm.ongoing("HUNT"))
            with m.State("HUNT"):
                m.d.sync += [crc.eq(protocol.CRC_START), index.eq(0)]
                with m.If(strobe & sync):
                    m.d.sync += fault.eq(0)
                    m.next = "OPCODE"
            receive("OPCODE", take_opcode)
            receive("SEQUENCE", take_sequence)
            receive("LENGTH_LOW", take_length_low)
            receive("LENGTH_HIGH", take_length_high)
            receive("IMAGE", take_pixel, abort=1)
            if learns:
                receive("OPERAND", take_operand)
                with m.State("DATA"):
                    accept(take_word)
                    with m.If(all_words):
                        m.d.sync += index.eq(0)
                        m.next = "CRC"
            receive("CRC", lambda: step(1, "CHECK"), abort=classify)
            with m.State("CHECK"):
                m.next = "WAIT"
                with m.If(crc != 0):
                    fail(Fault.CRC, classify)
                with m.Else():
                    m.d.sync += [last_sequence.eq(sequence), remembered.eq(1)]
                    with m.If(~classify & ~status & ~learning):
                        m.d.sync += remembered.eq(0)
                        m.d.comb += self.abort.eq(member != 0)
                    if learns:
                        with m.If(learning):
                            carry_out()
            with m.State("WAIT"):
                with m.If(~classify | result_waiting | more & begun & ~self.busy):
                    m.next = "SYNC"
                    with m.If(classify):
                        m.d.sync += [cycles.eq(timer), frames.eq(frames + 1), partial.eq(more), member.eq(Mux(more, member + 1, 0))]
                with m.Elif(late):
                    fail(Fault.RESULT, 1)
            with m.State("QUIET"):
                with m.If(quiet):
                    m.next = "SYNC"
            working = ["CRC", "CHECK", "WAIT"]
            if learns:
                working += ["COMMAND", "SETTLE", "REST", "POKE"]
                with m.State("COMMAND"):
                    m.d.comb += command.valid.eq(1)
                    with m.If(command.ready):
                        m.next = "SETTLE"
                    with m.Elif(late):
                        refuse(Fault.RESULT)
                with m.State("SETTLE"):  # until `busy` and `refused` are those of the command
                    step(3, "REST")
                with m.State("REST"):
                    with m.If(~self.busy):
                        m.next = "SYNC"
                        with m.If(self.refused):
                            refuse(Mux(self.frozen, Fault.FROZEN, Fault.LABEL))
                    with m.Elif(late):
                        fail(Fault.RESULT)
                with m.State("POKE"):
                    m.d.sync += asking.eq(~all_words & ~host.ready)
                    with m.If(all_words):
                        m.next = "SYNC"
                    with m.Elif(host.ready):
                        m.d.sync += index.eq(index + word_bytes)
                    with m.Elif(late):
                        refuse(Fault.RESULT)
                with m.State("FLUSH"):
                    m.d.sync += result_ack.eq(result_waiting & ~result_ack)
                    with m.If(~image_received & ~held):
                        m.d.sync += [held.eq(1), index.eq(index + 1), image_received.eq(image_whole)]
                    with m.If(result_ack & self.result.valid):
                        m.d.sync += image_started.eq(0)
                        m.next = "QUIET"
                    with m.Elif(late):
                        m.d.comb += self.abort.eq(1)
                        m.next = "QUIET"
            m.d.comb += keep.eq(Cat(fsm.ongoing(state) for state in working).any())

            # Replies.
            lengths = [self.frames * protocol.classify_bytes(flags, self.classes, self.latent_bytes) for flags in range(4)]
            length = Signal(16)
            classified = Array(Const(n, 16) for n in lengths)[opcode[:2]]
            fixed_length = Mux(status, protocol.STATUS_BYTES, protocol.IDENTITY_BYTES)
            if learns:
                lengths = [protocol.classify_bytes(flags, 0, self.latent_bytes) for flags in range(4)]
                classified = Array(Const(n, 16) for n in lengths)[opcode[:2]] + Mux(with_logits, self.class_count << 1, 0)
                fixed_length = Mux(learning, Mux(access & ~poke, count << word_bits, 0), fixed_length)
            m.d.comb += length.eq(Mux(fault != 0, 1, Mux(classify, Mux(partial, 0, classified), fixed_length)))
            with m.State("SYNC"):
                m.d.comb += [send.eq(1), byte.eq(protocol.SYNC)]
                m.d.sync += index.eq(0)
                with m.If(sent):
                    m.next = "HEAD"
            with m.State("HEAD"):
                m.d.comb += [send.eq(1), byte.eq(Array([
                    Cat(opcode, Const(protocol.REPLY >> 6, 2)), sequence, length[:8], length[8:]])[index[:2]])]
                with m.If((index == 0) & (fault != 0)):
                    m.d.comb += byte.eq(protocol.ERROR)
                with m.If((index == 0) & ~sent):
                    m.d.sync += crc.eq(protocol.CRC_START)  # the bits of SYNC are no part of it
                with m.If(sent):
                    step(3, "BYTES")
                    with m.If((index == 3) & classify & (fault == 0)):
                        m.next = "LOGITS"
                        with m.If(partial):
                            m.next = "END"
                    if learns:
                        with m.If((index == 3) & learning & (fault == 0)):
                            m.next = "END"
                            with m.If(access & ~poke):
                                m.next = "PEEK"

            identity = Array(Const(value, 8) for value in self.identity.pack().ljust(32, b"\0"))[index[:5]]
            counters = Array([Cat(self.ready, self.wrong_flash, self.frozen if learns else Const(0), Const(0, 5)), *(
                counter.word_select(i, 8) for counter in (frames, errors, cycles) for i in range(len(counter) // 8))])[index[:3]]
            with m.State("BYTES"):
                m.d.comb += [send.eq(1), byte.eq(Mux(status, counters, identity))]
                if self.model_mark is None:
                    with m.If(~status & (index[:5] >= protocol.IDENTITY_BYTES - protocol.MODEL_BYTES)):
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
                    m.d.comb += [send.eq(result_waiting & wanted & ~result_ack),
                                 byte.eq(value.word_select(index[:(count - 1).bit_length()], 8))]
                    m.d.sync += result_ack.eq(result_waiting & ~result_ack & (~wanted | sent & (index == count - 1)))
                    with m.If(sent):
                        step(count - 1, state)
                    with m.If(result_ack & source.payload.last):
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
                m.d.comb += [send.eq(result_waiting & ~result_ack), byte.eq(best.word_select(index[0], 8))]
                m.d.sync += result_ack.eq(sent & (index == 1))
                with m.If(sent):
                    step(1, "CLASS")
                with m.If(result_ack):
                    m.d.sync += [member.eq(Mux(more, member + 1, 0)), image_started.eq(0), sample.eq(1)]
                    m.next = "END"
                    with m.If(more):
                        m.next = "LOGITS"
                give_up()
            with m.State("END"):
                m.d.comb += [send.eq(1), byte.eq(crc[:8])]
                with m.If(sent):
                    step(1, "HUNT")
            if learns:
                with m.State("PEEK"):
                    m.d.sync += asking.eq(~all_words & ~host.ready)
                    with m.If(all_words):
                        m.d.sync += index.eq(0)
                        m.next = "END"
                    with m.Elif(host.ready):
                        m.next = "PEEK_WORD"
                    with m.Elif(late):
                        m.d.sync += failed.eq(1)
                        m.next = "HUNT"
                with m.State("PEEK_WORD"):
                    m.d.comb += [send.eq(1), byte.eq(self.host_reply.word_select(index[:word_bits], 8))]
                    with m.If(sent):
                        m.d.sync += index.eq(index + 1)
                        with m.If(index[:word_bits].all()):
                            m.next = "PEEK"
            replying = ["HEAD", "BYTES", "LOGITS", "CLASS", "END", *(["LATENT"] if self.latent_words else ()),
                        *(["PEEK", "PEEK_WORD"] if learns else ())]
            m.d.comb += sending.eq(Cat(fsm.ongoing(state) for state in replying).any())
        with m.If(self.abort):
            m.d.sync += [held.eq(0), member.eq(0), image_started.eq(0), image_received.eq(0), sample.eq(0)]
        return m
