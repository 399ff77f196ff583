"""The board's end of the host protocol, between a UART and an accelerator."""

from contextlib import contextmanager
from math import isqrt
from types import SimpleNamespace

from amaranth import Array, Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..base.errors import UsageError
from ..machine import protocol
from ..machine.config import RGB_BITS
from ..machine.protocol import Fault
from .ahead import ReadAhead
from .host_reply import Replies
from .host_request import Requests
from .learning.learner import command_layout, host_layout
from .signals import unnamed
from .states import OneHot
from .uart import UartReceiver, UartTransmitter

CYCLES_BITS = 24
"""Width of the counter of cycles in STATUS."""


def learner_ports(plan, address_bits):
    """Members through which the link reaches a `Learner`; the streams first."""
    return {
        "command": Out(stream.Signature(command_layout(plan))),
        "host": Out(stream.Signature(host_layout(plan, address_bits))),
        "refused": In(1),
        "class_count": In(range(plan.max_classes + 1)),
        "frozen": In(1),
        "host_reply": In(plan.host_bits)}


def link_signals(link):
    """The namespace of a `HostLink`, whose signals all parts of the link share.  A group names the methods that drive it."""
    s = SimpleNamespace()
    # The received byte: `_byte_flags`; `_accept` says `bad` and its cause.  Registers hold its meaning a cycle after it has come, and
    # another cycle later what it is for the state; the next byte is many cycles away.
    s.strobe = unnamed()  # a byte has come
    s.broken = unnamed()  # a byte without stop bit has come
    s.bad = unnamed(init=1)  # the state does not take it
    s.cause = unnamed(4)  # why not, a Fault
    s.accept = unnamed()  # the cycle after: a byte is taken
    s.trouble = unnamed()  # the cycle after: the request ends with a fault
    s.why = unnamed(4)  # that Fault
    s.sync = unnamed()  # it is SYNC
    s.legal = unnamed()  # it is an opcode
    s.low_wrong = unnamed()  # it is not the low byte of the request's length
    s.high_wrong = unnamed()  # it is not the high byte of the request's length
    s.late_pixel = unnamed()  # the byte before is still held, or the weights are not loaded

    # The request: `_receive`, `_execute`, `_refuse`, `_accelerator_flags`.
    s.opcode = unnamed(6)
    s.sequence = unnamed(8)
    s.fault = unnamed(4)  # a Fault, or 0
    s.status, s.with_logits, s.with_latent = s.opcode[1], s.opcode[0], s.opcode[1]
    s.learning = s.opcode[5] if link.learns else Const(0, 1)
    s.classify = s.opcode[4] & ~s.learning
    s.sees = s.opcode[3] & s.classify if link.camera else Const(0, 1)
    s.access = s.learning & s.opcode[4]  # PEEK, POKE
    s.poke = s.access & s.opcode[3]
    s.last_sequence = unnamed(8)  # sequence of the last good request
    s.remembered = unnamed()  # that request was carried out
    s.repeated = unnamed()  # this request repeats it

    # What makes the owner reset the accelerator, a fault, a result that does not come, an image that begins a pass anew: `_fail`,
    # `_give_up`, `_dispatch`, `_execute_learning`.
    s.abort = unnamed(3)
    s.aborts = unnamed(3)  # a cycle later

    # Counters of STATUS, and places: `_execute`, `_accelerator_flags`, `_fail`; `_index`, as states ask for it.
    s.frames = unnamed(16)
    s.errors = unnamed(16)
    s.failed = Signal()  # strobes with a fault, a cycle before `fault` has it
    s.reason = unnamed(4)  # with `failed`: the new `fault`
    s.cycles = Signal(CYCLES_BITS)
    s.index = Signal(range(max(256 * link.identity.word_bytes, 32, link.image_bytes)))  # place of the byte in its field
    s.at_start = unnamed()  # `index` was 0 by the state of the cycle before
    s.step = unnamed()  # `index` goes on, where no byte moves it
    s.step_word = unnamed()  # `index` goes on by a word
    s.clear = unnamed()  # `index` goes back to 0
    s.ends = unnamed()  # `index` is the last place of the state's field
    s.at_end = unnamed()  # it was a cycle before

    _line_signals(link, s)
    if link.learns:
        _learning_signals(link, s)
    return s


def _line_signals(link, s):
    """Signals of the line, of time, and of what stands between line and accelerator."""
    s.crc = unnamed(16)  # `_check_sum`; `_receive` and `_reply` begin
    s.wrong = unnamed()  # it is not 0
    s.sending = Signal()  # the check sum is that of the reply
    # A byte that is sent: `_source`, `_timers`, `_reply`, `elaborate`.  Registers hold what it may be at `index`, another one which of
    # them the state sends, another one the byte.
    s.offer = unnamed()  # the state has a byte
    s.offered = unnamed()  # and had it a cycle before
    s.send = unnamed()  # `byte` is offered to the transmitter
    s.byte = unnamed(8)
    s.source = unnamed(range(8))  # number in `sources`
    s.next_source = unnamed(range(8))
    s.sources = [Const(protocol.SYNC, 8)]  # registers
    s.length = Signal(16)  # of the reply's payload

    # Time: `_timers`.
    s.timer = unnamed(link.result_bits + 1)  # cycles since the last byte, or since the image was complete
    s.keep = Signal()  # received bytes do not restart the timer
    s.quiet = unnamed()  # the line has been quiet for the time-out
    s.late = unnamed()  # no result has come in time

    # The byte of an image waits until it is taken, at most until the next one has come: `_receive`, `_execute_learning`, `_byte_flags`.
    s.pixel = unnamed(8)
    s.held = unnamed()

    # The accelerator's outputs: `_accelerator_flags`; the replies acknowledge.
    s.result_waiting = unnamed()
    s.result_ack = unnamed()

    # With a learner: `_receive`, `_execute_learning`, `_reply_result`.
    s.image_started = unnamed()  # an image has begun, and its result has not left
    s.image_received = unnamed()  # its last byte was taken
    s.sample = unnamed()  # its result has left: it is the sample


def _learning_signals(link, s):
    """Signals of a learner's requests: `_receive_operand`, `_learner_ports`, `_execute_learning`, `_reply_peek`."""
    s.word_bits = (link.identity.word_bytes - 1).bit_length()
    s.number = unnamed(len(link.host.payload.address))  # address or label
    s.count = unnamed(8)  # words or replays
    s.illegal_count = unnamed()  # the received byte is no legal number of words
    s.too_large = unnamed()  # the number is no label
    s.place = s.index[s.word_bits:]  # number of the word in its request
    s.all_words = unnamed()  # `place` is behind the last word, as of the cycle before
    s.settled = unnamed()  # and the learner has not answered since
    s.asking = Signal()  # the learner is asked for a word, or given one


class HostLink(Requests, Replies, wiring.Component):
    """Requests in, replies out; twin: `fbnn_hw.machine.protocol`.

    The link passes an image on while it arrives, so no memory holds it.  If the message turns out
    damaged, or no result comes in time, `abort` strobes and the owner resets the accelerator.
    After a fault the link waits until the line has been quiet for the time-out, then sends the
    error message.  Between messages it skips every byte but SYNC.  One CRC register serves both
    directions.

    A reset would erase what a learner has learned.  A design that learns therefore completes a
    damaged image with zeros and drops its result; `abort` strobes only for RESET and where no
    result comes.  The words of a POKE wait in a block RAM until their CRC has been checked.

    Parameters:
    - classes, size, lanes, latent_words, pixel_bits: of the `AcceleratorConfig`.
    - score_bits: width of a logit, at most 16.
    - mark, bytes: the 4 bytes that name the configuration.
    - model, bytes or None: the 4 bytes that name the network.  None: they arrive at the member `model`.
    - clocks: clocks of a bit on the line.
    - plan, LearnPlan or None: of a design that learns.
    - keeps: the member `hold` exists: while it is 1 no time passes that a result may take.
    - address_bits: bits of a row's number in the banks.
    - timeout_bits: a pause of 2^timeout_bits clocks ends a message.
    - result_bits: the link waits 2^result_bits clocks for a result.
    - ahead: the link hears the next requests, an image's and two short ones, while one is carried out and
      answered.
    - camera: the owner has images of its own, which a host asks for by SEE.

    Timing: A byte takes 10 bits of the line in either direction.  A reply begins a few clocks after its
    result.

    Raises UsageError if a width, a mark or the image's size does not fit the protocol.
    """

    def __init__(self, *, classes, size, lanes, latent_words, score_bits, mark, model=None, clocks, plan=None, keeps=False,
                 address_bits=14, timeout_bits=21, result_bits=24, ahead=False, pixel_bits=RGB_BITS, camera=False):
        if score_bits > protocol.LOGIT_BITS:
            raise UsageError(f"host link: logits of {score_bits} bits, expected at most {protocol.LOGIT_BITS}; use fewer inputs to a class")
        if lanes % 8 or len(mark) != protocol.MARK_BYTES or model is not None and len(model) != protocol.MODEL_BYTES:
            raise UsageError(f"host link: lanes {lanes}, mark {mark!r}, model {model!r}: expected a multiple of 8, and 4 bytes each")
        self.image_bytes = protocol.image_bytes(size, pixel_bits)
        if self.image_bytes > protocol.LONGEST_PAYLOAD:
            most = isqrt(8 * protocol.LONGEST_PAYLOAD // pixel_bits)
            raise UsageError(f"host link: image of {size} pixels a side, expected at most {most}, so that a frame holds it")
        if not timeout_bits <= result_bits <= CYCLES_BITS:
            raise UsageError(f"host link: result_bits {result_bits}, expected from timeout_bits, {timeout_bits}, to {CYCLES_BITS}")
        self.classes, self.model_mark, self.clocks, self.plan = classes, model, clocks, plan
        self.timeout_bits, self.result_bits, self.ahead = timeout_bits, result_bits, ahead
        self.camera = camera
        self.learns, self.keeps, self.latent_bytes = plan is not None, keeps, latent_words * lanes // 8
        self.unknown = self.learns and plan.unknown
        learner = (plan.max_classes, plan.host_bits // 8) if plan else (0, 0)
        version = protocol.VERSION if pixel_bits == RGB_BITS else protocol.LEVELS_VERSION
        self.identity = protocol.Identity(version, mark, classes, size, self.latent_bytes, protocol.FRAMES, *learner,
                                          model or bytes(protocol.MODEL_BYTES), pixel_bits)  # zeros where only the flash names the model
        super().__init__((learner_ports(plan, address_bits) if plan else {}) | {
            "rx": In(1, init=1), "tx": Out(1, init=1),  # the serial line
            # As `Accelerator` has them; `busy` is used where the design learns.
            "pixels": Out(stream.Signature(8)),
            "logits": In(stream.Signature(data.StructLayout({"value": signed(score_bits), "last": 1}))),
            "result": In(stream.Signature((max(2, plan.max_classes if plan else classes) - 1).bit_length() + self.unknown)),
            "latent": In(stream.Signature(data.StructLayout({"word": lanes, "last": 1}))),
            "want_latent": Out(1), "busy": In(1),
            "abort": Out(1),  # strobes to reset the accelerator
            "ready": In(1),  # the weights are loaded
            **({"hold": In(1)} if keeps else {}),
            # `look` asks for an image of the owner's own, whose result comes as that of any other; `seen` strobes when it has begun and
            # when it is complete.  `away`: the owner has the accelerator for itself, and what was classified is no sample any more.
            **({"look": Out(1), "seen": In(1), "away": In(1)} if camera else {}),
            "wrong_flash": In(1),  # the flash holds no weights of this configuration
            "model": In(8),  # a byte of the network's name
            "model_next": Out(1),  # strobes to rotate to the next
            "active": Out(1),  # a request is being received, carried out or answered
            "fault": Out(1)})  # the last request ended with a fault

    def elaborate(self, platform):
        m = Module()
        s = link_signals(self)
        m.submodules.receiver = s.rx = receiver = UartReceiver(self.clocks)
        m.submodules.transmitter = s.tx = UartTransmitter(self.clocks)
        m.d.comb += [receiver.line.eq(self.rx), self.tx.eq(s.tx.line)]
        if self.ahead:
            m.submodules.ahead = s.rx = ReadAhead(self.image_bytes + 3 * (protocol.HEADER_BYTES + protocol.CRC_BYTES))
            m.d.comb += [s.rx.byte_in.eq(receiver.byte), s.rx.strobe_in.eq(receiver.strobe), s.rx.error_in.eq(receiver.error),
                         s.rx.hold.eq(s.held)]
        m.d.comb += [self.want_latent.eq(s.with_latent), self.fault.eq(s.fault != 0)]
        self._check_sum(m, s)
        self._timers(m, s)
        self._byte_flags(m, s)
        self._accelerator_flags(m, s)
        with OneHot(m, "HUNT") as s.states:
            if self.learns:
                self._learner_ports(m, s)
            busy = ~s.states.ongoing("HUNT")
            m.d.comb += self.active.eq(busy | s.rx.waiting if self.ahead else busy)
            self._receive(m, s)
            self._execute(m, s)
            working = ["CRC", "CHECK", "WAIT"]
            if self.learns:
                working += ["DISPATCH", "COMMAND", "SETTLE", "REST", "POKE"]
                self._execute_learning(m, s)
            m.d.sync += s.keep.eq(s.states.any(*working))
            self._reply(m, s)
            self._reply_status(m, s)
            self._reply_result(m, s)
            with s.states.state("END"):
                m.d.comb += s.offer.eq(1)
                self._source(m, s, s.crc[:8])
                self._send_to(m, s, 1, "HUNT")
            if self.learns:
                self._reply_peek(m, s)
            replying = ["HEAD", "BYTES", "LOGITS", "CLASS", "END", *(["LATENT"] if self.latent_bytes else ()),
                        *(["PEEK", "PEEK_WORD"] if self.learns else ())]
            m.d.sync += s.sending.eq(s.states.any(*replying))
            starts = "HUNT", "OPCODE", "SEQUENCE", "LENGTH_LOW", "LENGTH_HIGH", "SYNC"
            m.d.sync += s.at_start.eq(s.states.any(*starts))
            if self.ahead:
                receiving = "HUNT", "OPCODE", "SEQUENCE", "LENGTH_LOW", "LENGTH_HIGH", "IMAGE", "CRC", "QUIET", *(
                    ["OPERAND", "DATA"] if self.learns else ())
                m.d.comb += s.rx.take.eq(s.states.any(*receiving))
        self._index(m, s)
        m.d.sync += [s.source.eq(s.next_source), s.byte.eq(Array(s.sources)[s.source])]
        if self.camera:
            m.d.comb += self.look.eq(s.sees & s.states.ongoing("WAIT"))
            with m.If(self.away):
                m.d.sync += s.sample.eq(0)
        with m.If(self.abort):
            m.d.sync += [s.held.eq(0), s.image_started.eq(0), s.image_received.eq(0), s.sample.eq(0)]
        return m

    # Logic beside the states.

    def _index(self, m, s):
        """Count `index` with each byte that is taken or sent.  Bytes are many cycles apart, so what it is compared with is registered."""
        addend = [s.step | s.accept | s.sent]
        if self.learns:
            addend += [Const(0, s.word_bits - 1), s.step_word]
        m.d.sync += [s.at_end.eq(s.ends), s.index.eq(s.index + Cat(*addend))]
        with m.If(s.at_start | s.clear | (s.accept | s.sent) & s.at_end):
            m.d.sync += s.index.eq(0)

    def _check_sum(self, m, s):
        """The check sum of both directions.

        While its own low byte is sent, each bit on the line equals the register's lowest bit.  So the register only shifts, and its
        high byte follows.
        """
        bit = unnamed()
        strobe = unnamed()  # it comes in
        m.d.sync += [bit.eq(Mux(s.sending, s.tx.bit, s.rx.bit)), strobe.eq(Mux(s.sending, s.tx.bit_strobe, s.rx.bit_strobe))]
        with m.If(strobe):
            m.d.sync += s.crc.eq(Cat(s.crc[1:], 0) ^ Mux(s.crc[0] ^ bit, protocol.CRC_POLYNOMIAL, 0))

    def _timers(self, m, s):
        """Count the cycles since the last byte, and since the image was complete."""
        m.d.comb += [s.tx.bytes.payload.eq(s.byte), s.tx.bytes.valid.eq(s.send)]
        s.sent = s.send & s.tx.bytes.ready
        m.d.sync += [s.offered.eq(s.offer & ~s.sent), s.send.eq(s.offered & s.offer & ~s.sent), s.wrong.eq(s.crc != 0)]
        passes = ~self.hold if self.keeps else 1
        m.d.sync += [s.timer.eq(s.timer + passes), s.quiet.eq(s.timer[self.timeout_bits]), s.late.eq(s.timer[self.result_bits])]
        begins = s.sent | (s.strobe | s.broken) & ~s.keep
        with m.If(begins | self.seen if self.camera else begins):
            m.d.sync += [s.timer.eq(0), s.quiet.eq(0), s.late.eq(0)]

    def _byte_flags(self, m, s):
        """Set the flags that say what the received byte means."""
        requests = *protocol.REQUESTS, *(protocol.UNKNOWN_REQUESTS * self.unknown), *(protocol.LEARNING_REQUESTS * self.learns)
        low, high = self.image_bytes & 0xFF, self.image_bytes >> 8
        if self.camera:
            requests += *protocol.CAMERA_REQUESTS, *(protocol.UNKNOWN_CAMERA_REQUESTS * self.unknown)
            low, high = Mux(s.sees, 0, low), Mux(s.sees, 0, high)
        m.d.comb += [self.pixels.payload.eq(s.pixel), self.pixels.valid.eq(s.held)]
        m.d.sync += [
            s.accept.eq(s.strobe & ~s.bad), s.trouble.eq(s.broken | Mux(s.strobe, s.bad, s.quiet)),
            s.why.eq(Mux(s.broken, Fault.LINE, Mux(s.strobe, s.cause, Fault.TIMEOUT))),
            s.strobe.eq(s.rx.strobe), s.broken.eq(s.rx.error), s.sync.eq(s.rx.byte == protocol.SYNC),
            s.low_wrong.eq(s.rx.byte != Mux(s.classify, low, Mux(s.learning, protocol.OPERAND_BYTES, 0))),
            s.high_wrong.eq(s.rx.byte != Mux(s.classify, high, 0)),
            s.legal.eq(Cat(s.rx.byte == request for request in requests).any()),
            s.late_pixel.eq(s.held | ~self.ready)]
        with m.If(self.pixels.ready):
            m.d.sync += s.held.eq(0)

    def _accelerator_flags(self, m, s):
        """Register the accelerator's valid and our ready, so that no combinational path crosses both modules."""
        outputs = self.logits, self.latent, self.result
        m.d.sync += [s.result_waiting.eq(Cat(port.valid for port in outputs).any() & ~s.result_ack), s.result_ack.eq(0)]
        m.d.comb += [port.ready.eq(s.result_ack) for port in outputs]
        m.d.sync += [s.aborts.eq(s.abort), self.abort.eq(s.aborts.any()), s.failed.eq(0), s.reason.eq(0), s.errors.eq(s.errors + s.failed)]
        with m.If(s.failed):
            m.d.sync += s.fault.eq(s.reason)
        m.d.sync += s.repeated.eq(s.remembered & (s.sequence == s.last_sequence))

    def _learner_ports(self, m, s):
        """Connect a learner: the operand and the words of a request become its inputs."""
        command, host = self.command, self.host
        word_bytes = self.identity.word_bytes
        depth_bits = (protocol.LONGEST_POKE // word_bytes).bit_length()
        m.d.sync += [s.asking.eq(0), host.payload.address.eq(s.number ^ s.place)]
        buffer = Memory(shape=len(self.host_reply), depth=1 << depth_bits, init=[], attrs={"ram_style": "block"})
        m.submodules.buffer = buffer
        s.buffer_read, s.buffer_write = buffer.read_port(), buffer.write_port(granularity=8)
        m.d.sync += s.illegal_count.eq((s.rx.byte == 0) | s.poke & s.rx.byte[depth_bits:].any())
        asks, counts = s.states.any("PEEK", "POKE"), s.states.any("PEEK", "POKE", "DATA")
        m.d.sync += [s.all_words.eq(counts & (s.place == s.count)), s.settled.eq(asks & ~host.ready)]
        m.d.comb += [
            s.buffer_read.addr.eq(s.place), s.buffer_write.addr.eq(s.place),
            s.buffer_write.data.eq(s.rx.byte.replicate(word_bytes)),
            command.payload.command.eq(s.opcode[:3]), command.payload.label.eq(s.number), command.payload.count.eq(s.count),
            host.valid.eq(s.asking), host.payload.write.eq(s.poke), host.payload.space.eq(s.opcode[:3]),
            host.payload.data.eq(s.buffer_read.data)]

    # What states do in common.

    def _fail(self, m, s, reason, abort=0):
        """End the request with a fault."""
        m.d.sync += [s.reason.eq(reason), s.failed.eq(1)]
        s.states.go("QUIET")
        if not self.learns:
            m.d.comb += s.abort[0].eq(abort)
            return
        with m.If(s.image_started):
            s.states.go("FLUSH")

    def _refuse(self, m, s, reason):
        """End a request that is not carried out.  It is not remembered, so a repetition is carried out."""
        m.d.sync += s.remembered.eq(0)
        self._fail(m, s, reason)

    @contextmanager
    def _accept(self, m, s, bad=0, reason=0, abort=0):
        """The context in which a byte is taken, unless it comes too late or damaged, or is `bad` for the `reason`."""
        m.d.comb += [s.bad.eq(bad), s.cause.eq(reason)]
        with m.If(s.trouble):
            self._fail(m, s, s.why, abort)
        with m.Elif(s.accept):
            yield

    def _source(self, m, s, byte):
        """The state sends a byte that this one, or the one a cycle before, is."""
        m.d.comb += s.next_source.eq(len(s.sources))
        s.sources.append(byte)

    def _send_to(self, m, s, last, following):
        """Count `index` up to `last` while bytes are sent, then go on."""
        m.d.comb += s.ends.eq(s.index[:5] == last)
        with m.If(s.sent & s.at_end):
            s.states.go(following)
