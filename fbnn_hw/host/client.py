"""What a program says to a board."""

import time

from .. import protocol
from ..errors import InputError
from ..protocol import Fault, Opcode

RETRIES = 3
WAIT_S = 2.0
READY_S = 5.0
POLL_S = 0.05
REHEARSE = 64
"""Replays of a request: their number has no limit, the time until an answer has."""
PEEK_WORDS = 128


def aligned(first, count, most):
    """Pieces (first, count) of a range of addresses in which first xor i is first + i, for all i below count; `most` of them at most."""
    end, most = first + count, 1 << most.bit_length() - 1
    while first < end:
        count = min(first & -first or most, most, end - first)
        yield first, count
        first += count


class Client:
    """Requests over a transport (`write(data, timeout)`, `read(timeout)`, `discard()`), repeated when one is lost.

    wait_s: how long an answer may take; ready_s: how long the board may load its weights.
    Every method raises InputError, in one line, if the board does not answer `retries` + 1 times, or answers nonsense.
    """

    def __init__(self, transport, wait_s=WAIT_S, ready_s=READY_S, retries=RETRIES):
        self.transport, self.wait_s, self.ready_s, self.retries = transport, wait_s, ready_s, retries
        self.name = getattr(transport, "path", "the board")
        self.identity = None
        self.sequence = 0
        self.repeated = 0
        """Requests that were sent again."""

    def identify(self):
        """The board's `protocol.Identity`."""
        self.identity = protocol.Identity.unpack(self._ask((Opcode.IDENTIFY, b""), limit=0xFFFF)[0])
        return self.identity

    def status(self):
        """The board's `protocol.Status`."""
        return protocol.Status.unpack(self._ask((Opcode.STATUS, b""))[0])

    def wait_ready(self):
        """Until the weights are loaded; InputError if they will not be."""
        until = time.monotonic() + self.ready_s
        while not (status := self.status()).ready:
            if status.wrong_flash:
                raise InputError(f"{self.name}: the flash holds no weights of this design; "
                                 "run fbnn-hw flash with the folder that was built")
            if time.monotonic() > until:
                raise InputError(f"{self.name}: the board has not loaded its weights after {self.ready_s:g} s; is the flash written?")
            time.sleep(POLL_S)
        return status

    def classify(self, images, logits=True, latent=False):
        """[`protocol.Result`] of the images of a pass, at most `identity.frames`, each the bytes of RGB pixels in raster order.

        A pass that lacks images is filled up with its last one.  If a request fails, the whole pass is sent again.
        """
        identity = self.identity or self.identify()
        for image in images:
            if len(image) != identity.image_bytes:
                raise InputError(f"{self.name}: the image has {len(image)} bytes, expected {identity.image_bytes} "
                                 f"({identity.size} x {identity.size} pixels, RGB)")
        if not 1 <= len(images) <= identity.frames:
            raise InputError(f"{self.name}: {len(images)} images in a pass, expected 1 to {identity.frames}")
        if latent and not identity.latent_bytes:
            raise InputError(f"{self.name}: this design has no latent")
        flags = protocol.LOGITS * bool(logits) | protocol.LATENT * bool(latent)
        images = [*images, *[images[-1]] * (identity.frames - len(images))]
        answers = self._ask(*((Opcode.CLASSIFY | flags, bytes(image)) for image in images))
        classes = None if identity.max_classes else identity.classes
        return protocol.Result.unpack(answers[-1], flags, classes, identity.latent_bytes, identity.frames)

    # A learner.

    def learn(self, label):
        """Learn the image classified last as class `label`: one known or the next new one."""
        self._learner(Opcode.LEARN, label)

    def store(self, label):
        """Keep the image classified last as an exemplar of a class known, without learning it."""
        self._learner(Opcode.STORE, label)

    def rehearse(self, count):
        """`count` replays."""
        for done in range(0, count, REHEARSE):
            self._learner(Opcode.REHEARSE, count=min(REHEARSE, count - done))

    def freeze(self, frozen=True):
        self._learner(Opcode.FREEZE, count=int(frozen))

    def reset(self):
        """To the shipped state: what was learned is gone."""
        self._learner(Opcode.RESET)
        self.wait_ready()

    def learned(self):
        """(classes known, exemplars, whether it is frozen)."""
        known, used, frozen = self.peek(protocol.Space.SCALARS, 0, 3)
        return known, used, bool(frozen)

    def peek(self, space, address, count):
        """List of words of a learner's memory.  A register is read whole, lowest bit first, or it is not as before."""
        size, found = self._learns().word_bytes, []
        for first, part in aligned(address, count, PEEK_WORDS):
            data = self._learner(Opcode.PEEK | space, first, part)
            if len(data) != part * size:
                raise InputError(f"{self.name}: the board sent {len(data)} bytes of {part} words, expected {part * size}")
            found += protocol.words_from(data, size)
        return found

    def poke(self, space, address, words):
        """Write words of a learner's memory."""
        identity = self._learns()
        for first, count in aligned(address, len(words), identity.poke_words):
            part = words[first - address:first - address + count]
            self._learner(Opcode.POKE | space, first, count, protocol.words_bytes(part, identity.word_bytes))

    def _learns(self):
        """The identity of a board with a learner."""
        identity = self.identity or self.identify()
        if not identity.max_classes:
            raise InputError(f"{self.name}: this design does not learn; expected one made with fbnn-hw generate --learn")
        return identity

    def _learner(self, opcode, number=0, count=0, words=b""):
        self._learns()
        return self._ask((opcode, protocol.operand(number, count) + words))[0]

    def _ask(self, *requests, limit=None):
        """Payloads of the replies to requests, (opcode, payload), of which all are sent again if one fails, each with its own sequence."""
        limit = limit or (self.identity.reply_limit if self.identity else 0xFFFF)
        numbered = []
        for request in requests:
            self.sequence = (self.sequence + 1) & 0xFF
            numbered.append((self.sequence, *request))
        reason = ""
        for attempt in range(self.retries + 1):
            self.repeated += attempt > 0
            if attempt and len(requests) > 1:  # what the board has of the pass is given up
                self.identify()
                self.wait_ready()
            found = []
            for sequence, opcode, payload in numbered:
                self.transport.discard()
                self.transport.write(protocol.encode(opcode, payload, sequence), self.wait_s)
                reason = self._reply(opcode, sequence, limit)
                if not isinstance(reason, bytes):
                    break
                found.append(reason)
            else:
                return found
            if isinstance(reason, Fault):
                if not reason.repeat:
                    raise InputError(f"{self.name}: {reason.meaning}")
                if reason == Fault.BUSY:
                    self.wait_ready()
                reason = reason.meaning
        raise InputError(f"{self.name}: {reason}, {self.retries + 1} times")

    def _reply(self, opcode, sequence, limit):
        """Payload of the reply to a request, or why there is none: a `Fault` or a text."""
        decoder, heard = protocol.Decoder(limit), False
        until = time.monotonic() + self.wait_s
        while (left := until - time.monotonic()) > 0:
            data = self.transport.read(left)
            heard |= bool(data)
            for found, number, payload in decoder.feed(data):
                if (found, number) == (opcode | protocol.REPLY, sequence):
                    return payload
                if found == protocol.ERROR and len(payload) == 1:
                    fault = Fault(payload[0]) if payload[0] in list(Fault) else None
                    # A request that is repeated for no reason does no harm.
                    if number == sequence or fault and fault.damaged:
                        return fault or f"the board reported error {payload[0]}"
        if heard:
            return "what came back was no frame of the protocol; is the speed right (--baud)"
        return "no answer; is this the board's serial port, and was the bitstream loaded"
