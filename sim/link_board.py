"""The host link with a toy for an accelerator, as the module `board` of the virtual board; and what must come back.

Image of 2 x 2 pixels, 3 classes, a frame or more a pass.  The toy's answer depends on the sum of the image's bytes: `answer`.
A first byte of 0xEE means that no result comes, 0xED in the last image of a pass that none comes after the first logit, 0xEF that
the second byte is not taken.
"""

from amaranth import Array, Cat, Module, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from fbnn_hw import protocol
from fbnn_hw.protocol import Fault
from fbnn_hw.rtl.host_link import HostLink

CLASSES, SIZE, LANES, WORDS = 3, 2, 16, 2
IMAGE = 3 * SIZE ** 2
MARK, MODEL = b"\x12\x34\x56\x78", b"\x9a\xbc\xde\xf0"
TIMEOUT_BITS, RESULT_BITS = 9, 10


class LinkBoard(wiring.Component):
    """clocks: of a bit; frames: of a pass."""

    def __init__(self, clocks, frames=1):
        self.frames = frames
        self.link = HostLink(classes=CLASSES, size=SIZE, lanes=LANES, latent_words=WORDS, score_bits=14, mark=MARK, model=MODEL,
                             clocks=clocks, frames=frames, timeout_bits=TIMEOUT_BITS, result_bits=RESULT_BITS)
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
        word = Signal(2)
        totals = Array(Signal(12, name=f"total{n}") for n in range(self.frames))  # of the images of a pass
        member = Signal(range(self.frames + 1))
        shown = totals[member]
        with m.FSM() as fsm:
            board.d.comb += link.busy.eq(~fsm.ongoing("LOAD"))
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
                    m.d.sync += [shown.eq(total), count.eq(0), total.eq(0), first.eq(0), member.eq(member + 1)]
                    m.next = "LOAD"
                    with m.If(member == self.frames - 1):
                        m.d.sync += [member.eq(0), first.eq(first)]
                        m.next = "LOGITS"
            with m.State("LOGITS"):
                m.d.comb += [link.logits.valid.eq((word == 0) | (first != 0xED)), link.logits.payload.last.eq(word == 2)]
                for number in range(CLASSES):
                    with m.If(word == number):
                        m.d.comb += link.logits.payload.value.eq(shown * (number - 1) - number)
                with m.If(link.logits.valid & link.logits.ready):
                    m.d.sync += word.eq(word + 1)
                    with m.If(word == 2):
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
                    m.d.sync += [word.eq(0), member.eq(member + 1)]
                    m.next = "LOGITS"
                    with m.If(member == self.frames - 1):
                        m.d.sync += [first.eq(0), member.eq(0)]
                        m.next = "LOAD"
        return board


def answer(image, flags):
    """Payload of the reply to CLASSIFY + flags."""
    total = sum(image)
    logits = b"".join((total * (n - 1) - n).to_bytes(2, "little", signed=True) for n in range(CLASSES))
    word = total | (~total & 15) << 12
    latent = b"".join(((word + n) & 0xFFFF).to_bytes(2, "little") for n in range(WORDS))
    best = 0 if total % 4 == 3 else total % 4
    return (logits if flags & protocol.LOGITS else b"") + (latent if flags & protocol.LATENT else b"") + best.to_bytes(2, "little")


class Twin:
    """What the link answers to bytes after which the line rests.  A byte is (value, damaged)."""

    def __init__(self, frames=1):
        self.pass_frames = frames
        self.frames = self.errors = 0
        self.waiting = []
        """Images of a pass that is not complete."""

    def error(self, reason, abort=False):
        self.errors += 1
        if abort:
            self.waiting = []
        return protocol.encode(protocol.ERROR, bytes([reason]))

    def reply(self, text):
        """Bytes that come back; None if a frame was answered before all bytes were sent, so that their fate depends on time."""
        at = 0
        while at < len(text) and text[at] != (protocol.SYNC, False):
            at += 1
        if at == len(text):
            return b""
        body = text[at + 1:]
        fields = []
        for value, damaged in body:
            number = len(fields)
            passed_on = number > 2 and fields[0] in range(0x10, 0x14)  # to the accelerator
            if damaged:
                return self.error(Fault.LINE, passed_on)
            fields.append(value)
            image = fields[0] in range(0x10, 0x14)
            if number == 0 and value not in protocol.REQUESTS:
                return self.error(Fault.OPCODE)
            if number == 1 and value != (IMAGE if image else 0) or number == 2 and value:
                return self.error(Fault.LENGTH)
            length = IMAGE if image else 0
            if image and number == 5 and fields[3] == 0xEF:
                return self.error(Fault.BUSY, True)
            if number == 4 + length:
                if protocol.crc(bytes(fields)):
                    return self.error(Fault.CRC, image)
                if len(body) > number + 1:
                    return None
                return self.good(fields[0], bytes(fields[3:-2]))
        return self.error(Fault.TIMEOUT, len(fields) > 2 and fields[0] in range(0x10, 0x14))

    def good(self, opcode, payload):
        if opcode == protocol.Opcode.IDENTIFY:
            self.waiting = []
            data = protocol.Identity(2, MARK, CLASSES, SIZE, 2 * WORDS, self.pass_frames, MODEL).pack()
        elif opcode == protocol.Opcode.STATUS:
            return None  # holds a time; the caller checks the counters
        elif payload[0] == 0xEE:
            return self.error(Fault.RESULT, True)
        else:
            self.frames += 1
            self.waiting.append(payload)
            data = b""
            if len(self.waiting) == self.pass_frames:
                data = b"".join(answer(image, opcode & 3) for image in self.waiting)
                self.waiting = []
        return protocol.encode(opcode | protocol.REPLY, data)
