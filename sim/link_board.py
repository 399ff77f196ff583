"""The host link with a toy for an accelerator, as the module `board` of the virtual board; and what must come back.

Image of 2 x 2 pixels, 3 classes, a learner or none.  The toy's answer depends on the sum of the image's bytes: `answer`.
A first byte of 0xEE means that no result comes, 0xED that none comes after the first logit, 0xEF that the second byte is not taken.
Its learner counts what it is asked for, and has 256 words, 32 in each space.
"""

from amaranth import Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from fbnn_hw.machine import protocol
from fbnn_hw.machine.learner import LearnPlan
from fbnn_hw.machine.protocol import Command, Fault, Opcode
from fbnn_hw.reference.learning import Head, LearnConfig
from fbnn_hw.rtl.host_link import HostLink

CLASSES, SIZE, LANES, WORDS = 3, 2, 16, 2
IMAGE = 3 * SIZE ** 2
MARK, MODEL = b"\x12\x34\x56\x78", b"\x9a\xbc\xde\xf0"
TIMEOUT_BITS, RESULT_BITS = 9, 10
MAX_CLASSES, SLOTS = 5, 100
WORDS_OF_SPACE = 32
ALL = 8 * WORDS_OF_SPACE - 1
"""The last word counts what was learned; it is not written."""


class LinkBoard(wiring.Component):
    """clocks: of a bit; learns: whether there is a learner; ahead: of the link."""

    def __init__(self, clocks, learns=False, ahead=False):
        plan = LearnPlan.of(Head(16), LearnConfig(MAX_CLASSES, SLOTS), 4, 16, CLASSES) if learns else None
        self.link = HostLink(classes=CLASSES, size=SIZE, lanes=LANES, latent_words=WORDS, score_bits=14, mark=MARK, model=MODEL,
                             clocks=clocks, plan=plan, timeout_bits=TIMEOUT_BITS, result_bits=RESULT_BITS, ahead=ahead)
        super().__init__({"rx": In(1), "tx": Out(1), "ready": Out(1), "active": Out(1), "errors": Out(32)})

    def elaborate(self, platform):
        board, m = Module(), Module()
        board.submodules.link = link = self.link
        # An abort puts the toy back, as it does an accelerator.
        abort = Signal()
        board.d.sync += abort.eq(link.abort)
        board.submodules.toy = ResetInserter(abort)(m)
        board.d.comb += [link.rx.eq(self.rx), self.tx.eq(link.tx), link.ready.eq(1), self.ready.eq(1), self.active.eq(link.active)]
        count, first, total, wait = Signal(range(IMAGE + 1)), Signal(8), Signal(12), Signal(6)
        word = Signal(3)
        shown = Signal(12)  # the total of the image whose answer is sent
        known = CLASSES
        if link.plan:
            known = self.learner(m, link)
        with m.FSM() as fsm:
            board.d.sync += link.busy.eq(~fsm.ongoing("LOAD") | (self.work.any() if link.plan else 0))
            with m.State("LOAD"):
                m.d.comb += link.pixels.ready.eq((first != 0xEF) | (count != 1))
                m.d.sync += [wait.eq(0), word.eq(0)]
                with m.If(link.pixels.valid & link.pixels.ready):
                    m.d.sync += [count.eq(count + 1), total.eq(total + link.pixels.payload)]
                    with m.If(count == 0):
                        m.d.sync += first.eq(link.pixels.payload)
                    with m.If(count == IMAGE - 1):
                        m.next = "RUN"
            with m.State("RUN"):
                m.d.sync += wait.eq(wait + (first != 0xEE))
                with m.If(wait == 63):
                    m.d.sync += [shown.eq(total), count.eq(0), total.eq(0)]
                    m.next = "LOGITS"
            with m.State("LOGITS"):
                m.d.comb += [link.logits.valid.eq((word == 0) | (first != 0xED)), link.logits.payload.last.eq(word == known - 1)]
                for number in range(MAX_CLASSES):
                    with m.If(word == number):
                        m.d.comb += link.logits.payload.value.eq(shown * (number - 1) - number)
                with m.If(link.logits.valid & link.logits.ready):
                    m.d.sync += word.eq(word + 1)
                    with m.If(word == known - 1):
                        m.d.sync += word.eq(0)
                        m.next = "RESULT"
                        with m.If(link.want_latent):
                            m.next = "LATENT"
            with m.State("LATENT"):
                m.d.comb += [link.latent.valid.eq(1), link.latent.payload.last.eq(word == 1),
                             link.latent.payload.word.eq(Cat(shown, ~shown[:4]) + word)]
                with m.If(link.latent.ready):
                    m.d.sync += word.eq(word + 1)
                    with m.If(word == 1):
                        m.next = "RESULT"
            with m.State("RESULT"):
                m.d.comb += [link.result.valid.eq(1), link.result.payload.eq(shown[:2] & ~(shown[:2] == 3).replicate(2))]
                with m.If(link.result.ready):
                    m.d.sync += [word.eq(0), first.eq(0)]
                    m.next = "LOAD"
        return board

    def learner(self, m, link):
        """The toy's learner; returns the number of classes known."""
        command, host = link.command, link.host
        known, used, frozen = Signal(range(MAX_CLASSES + 1), init=CLASSES), Signal(7), Signal()
        refused, self.work, looked = Signal(), Signal(6), Signal(2)
        m.submodules.words = words = Memory(shape=16, depth=8 * WORDS_OF_SPACE, init=[])
        read, write = words.read_port(), words.write_port()
        address = Cat(host.payload.address[:5], host.payload.space)
        m.d.comb += [link.class_count.eq(known), link.frozen.eq(frozen), link.refused.eq(refused),
                     command.ready.eq(self.work == 0), host.ready.eq(looked == 3), read.addr.eq(address), write.addr.eq(address),
                     write.data.eq(host.payload.data), write.en.eq(host.ready & host.payload.write)]
        m.d.sync += [looked.eq(Mux(host.valid & ~host.ready, looked + 1, 0)), self.work.eq(self.work - self.work.any())]
        with m.If(looked == 2):
            m.d.sync += link.host_reply.eq(Mux(address == ALL, used, read.data))
        asked, label = command.payload, command.payload.label
        with m.If(command.valid & command.ready):
            m.d.sync += refused.eq(0)
            with m.If(asked.command == Command.FREEZE):
                m.d.sync += frozen.eq(asked.count[0])
            with m.Elif(frozen | (asked.command == Command.LEARN) & ((label > known) | (label == MAX_CLASSES)) |
                        (asked.command == Command.STORE) & (label >= known)):
                m.d.sync += refused.eq(1)
            with m.Else():
                m.d.sync += [self.work.eq(60), used.eq(used + Mux(asked.command == Command.REHEARSE, asked.count[:2], 1)),
                             known.eq(known + ((asked.command == Command.LEARN) & (label == known)))]
        return known


def answer(image, flags, known=CLASSES):
    """Payload of the reply to CLASSIFY + flags."""
    total = sum(image)
    logits = b"".join((total * (n - 1) - n).to_bytes(2, "little", signed=True) for n in range(known))
    word = total | (~total & 15) << 12
    latent = b"".join(((word + n) & 0xFFFF).to_bytes(2, "little") for n in range(WORDS))
    best = 0 if total % 4 == 3 else total % 4
    return (logits if flags & protocol.LOGITS else b"") + (latent if flags & protocol.LATENT else b"") + best.to_bytes(2, "little")


class Twin:
    """What the link answers to bytes after which the line rests.  A byte is (value, damaged)."""

    def __init__(self, learns=False, ahead=False):
        self.learns, self.ahead = learns, ahead
        self.frames = self.errors = 0
        self.sequence, self.last = 0, None
        self.words = [0] * 8 * WORDS_OF_SPACE
        self.reset()

    def reset(self):
        """The toy's; memory stays."""
        self.sample = False
        self.known, self.used, self.frozen = CLASSES, 0, False

    def frame(self, opcode, payload=b""):
        return protocol.encode(opcode, payload, self.sequence)

    def error(self, reason, image=b""):
        """image: what was passed on of one, which a toy that learns is to finish."""
        self.errors += 1
        if image:
            self.sample = False
            if image[0] in (0xEE, 0xEF):
                self.reset()
        return self.frame(protocol.ERROR, bytes([reason]))

    def reply(self, text):
        """Bytes that come back; None if a frame was answered before all bytes were sent, so that their fate depends on time, or holds a
        time."""
        at = 0
        while at < len(text) and text[at] != (protocol.SYNC, False):
            at += 1
        if at == len(text):
            return b""
        body = text[at + 1:]
        fields = []
        opcode, length, extra = 0, 0, 0
        for value, damaged in body:
            number = len(fields)
            image = opcode in range(0x10, 0x14)
            taken = fields[4:] if image else b""
            if damaged:
                return self.error(Fault.LINE, taken)
            fields.append(value)
            if number == 0:
                opcode = value
                if value not in protocol.REQUESTS and not (self.learns and value in protocol.LEARNING_REQUESTS):
                    return self.error(Fault.OPCODE)
                length = IMAGE if value in range(0x10, 0x14) else 4 if value & 0x20 else 0
            elif number == 1:
                self.sequence = value
            elif number == 2 and value != length and opcode < Opcode.POKE or number == 3 and value:
                return self.error(Fault.LENGTH)
            elif number == 7 and opcode >= Opcode.PEEK:
                poke = opcode >= Opcode.POKE
                if not value or poke and value > 127:
                    return self.error(Fault.LENGTH)
                extra = 2 * value * poke
            if image and number == 6 and fields[4] == 0xEF:
                return self.error(Fault.TIMEOUT if self.ahead else Fault.BUSY, fields[4:])
            if number == 5 + length + extra:
                if protocol.crc(bytes(fields)):
                    return self.error(Fault.CRC, fields[4:-2] if image else b"")
                found = self.good(opcode, bytes(fields[4:-2]))
                return None if len(body) > number + 1 else found
        image = opcode in range(0x10, 0x14)
        return self.error(Fault.TIMEOUT, fields[4:] if image else b"")

    def good(self, opcode, payload):
        repeated, self.last = self.last == self.sequence, self.sequence
        data = b""
        if opcode == Opcode.IDENTIFY:
            self.last = None
            learner = (MAX_CLASSES, 2) if self.learns else (0, 0)
            data = protocol.Identity(3, MARK, CLASSES, SIZE, 2 * WORDS, protocol.FRAMES, *learner, MODEL).pack()
        elif opcode == Opcode.STATUS:
            return None  # holds a time; the caller checks the counters
        elif opcode & 0x20:
            data = self.learn(opcode, int.from_bytes(payload[:3], "little"), payload[3], payload[4:], repeated)
            if isinstance(data, Fault):
                self.last = None
                return self.error(data)
        elif payload[0] == 0xEE:
            return self.error(Fault.RESULT, payload)
        else:
            self.frames += 1
            data, self.sample = answer(payload, opcode & 3, self.known), True
        return self.frame(opcode | protocol.REPLY, data)

    def learn(self, opcode, number, count, data, repeated):
        """Payload of the reply, or a Fault."""
        if opcode >= Opcode.PEEK:
            places = [(opcode & 7) * WORDS_OF_SPACE + (number ^ i) % WORDS_OF_SPACE for i in range(count)]
            if opcode < Opcode.POKE:
                return protocol.words_bytes([self.used if place == ALL else self.words[place] for place in places], 2)
            for place, word in zip(places, protocol.words_from(data, 2)) if not repeated else ():
                self.words[place] = word
        elif repeated:
            pass
        elif opcode == Opcode.RESET:
            self.reset()
        elif opcode in (Opcode.LEARN, Opcode.STORE) and not self.sample:
            return Fault.SAMPLE
        elif opcode == Opcode.FREEZE:
            self.frozen = bool(count & 1)
        elif opcode in (Opcode.LEARN, Opcode.STORE) and number > 7:
            return Fault.LABEL
        elif self.frozen:
            return Fault.FROZEN
        elif opcode == Opcode.LEARN and number > self.known or opcode == Opcode.STORE and number >= self.known or (
                opcode == Opcode.LEARN and number == MAX_CLASSES):
            return Fault.LABEL
        else:
            self.used = (self.used + (count & 3 if opcode == Opcode.REHEARSE else 1)) % 128
            self.known += opcode == Opcode.LEARN and number == self.known
        return b""
