"""The host's side of the link: requests to a board, repeated when one is lost."""

import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from ..base.errors import InputError, show
from ..machine import protocol
from ..machine.config import RGB_BITS
from ..machine.learner import MOST_EXEMPLARS
from ..machine.protocol import Fault, Opcode

RETRIES = 3
WAIT_S = 2.0
READY_S = 5.0
POLL_S = 0.05
REHEARSE = 64
"""Most replays of one request, since its reply must come within `wait_s`."""
PEEK_WORDS = 128
AHEAD = 2
"""Most images without an answer: the one that a board works on, and the one that finds room meanwhile."""
LISTEN_S = 0.5
"""Seconds of listening after an interrupt before the board is first asked to identify itself.  Each later wait is twice as long."""
LONGEST_IDENTITY = 0xFF
"""Most bytes of an identity, in any version of the protocol."""


def aligned(first: int, count: int, most: int) -> Iterator[tuple[int, int]]:
    """Split the addresses first .. first + count - 1 into pieces (first, count) of at most `most` addresses.

    In each piece, first xor i is first + i for all i below its count, as PEEK and POKE need it.
    """
    end, most = first + count, 1 << most.bit_length() - 1
    while first < end:
        count = min(first & -first or most, most, end - first)
        yield first, count
        first += count


class Transport(Protocol):
    """The line that a `Client` uses.  Each method ends within its timeout or soon after, and lets KeyboardInterrupt pass."""

    def write(self, data: bytes, timeout: float) -> None:
        """Send all of `data`; InputError if it is not taken within `timeout` seconds."""

    def read(self, timeout: float) -> bytes:
        """At least one byte, or b"" after `timeout` seconds."""

    def discard(self) -> None:
        """Drop all bytes that have come in."""


class Client:
    """Sends requests to a board, and repeats those whose reply is lost.

    KeyboardInterrupt, or any other exception, may come while a request has no reply yet; `unsettled`
    is then True.  The board has carried that request out, will do so, or has not heard it: never
    half.  It hears nothing while it works, so the next request first settles the link (`settle`),
    within `wait_s`.  `within` bounds both.

    transport: the line, such as `link.transport.Serial`.  wait_s: seconds that a reply may take.
    ready_s: seconds that the board may take to load its weights.  retries: how often a request is
    repeated.  Every method raises InputError where the board does not answer `retries` + 1 times,
    refuses the request, or answers what no board can send.
    """

    def __init__(self, transport: Transport, wait_s: float = WAIT_S, ready_s: float = READY_S, retries: int = RETRIES):
        self.transport, self.wait_s, self.ready_s, self.retries = transport, wait_s, ready_s, retries
        self.name: str = getattr(transport, "path", "the board")
        self.identity: protocol.Identity | None = None
        self.sequence = 0
        self.repeated = 0
        """Requests that were sent again."""
        self.asks_unknown = False
        """Whether a result says that the learner answers "unknown"; for a design made with --unknown alone."""
        self._unanswered: int | None = None  # sequence of a request whose reply may still come
        self._deadline = math.inf

    # Time.

    @property
    def unsettled(self) -> bool:
        """Whether the reply to an interrupted request may still come."""
        return self._unanswered is not None

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Bound the time of all requests in the block together.

        The request that is not done after `seconds` raises InputError, and `unsettled` is then True.
        """
        before = self._deadline
        self._deadline = min(before, time.monotonic() + seconds)
        try:
            yield
        finally:
            self._deadline = before

    def _remaining(self, seconds: float) -> float:
        """`seconds`, or less where the time of `within` ends before; InputError where it is over."""
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise InputError(f"{self.name}: no answer in the time that there was")
        return min(seconds, remaining)

    def settle(self, timeout: float) -> None:
        """Bring the link back after an interrupted request, so that the board hears the next one.

        The client listens until the board answers that request.  Now and then it sends IDENTIFY, which
        also gives up a pass that lacks images.  Where no reply is missing, nothing is sent.  Raises
        InputError where no reply comes within `timeout` seconds.
        """
        if self._unanswered is None:
            return
        sequences, pause = {self._unanswered}, LISTEN_S
        try:
            with self.within(timeout):
                decoder = protocol.Decoder(self._limit)
                while not self._hear(decoder, sequences, pause):
                    pause *= 2
                    self.sequence = (self.sequence + 1) & 0xFF
                    sequences.add(self.sequence)
                    self.transport.write(protocol.encode(Opcode.IDENTIFY, sequence=self.sequence), self._remaining(self.wait_s))
                self._unanswered = None
                self.identify()
                self.wait_ready()
        except InputError as error:
            raise InputError(f"{error}, {timeout:g} s after a request that was interrupted") from None

    def _hear(self, decoder: protocol.Decoder, sequences: set[int], seconds: float) -> bool:
        """Whether a reply to one of some requests comes within `seconds`."""
        return any(opcode & protocol.REPLY and (number in sequences or opcode == protocol.ERROR)
                   for opcode, number, _ in decoder.listen(self.transport.read, self._remaining(seconds)))

    # Any board.

    def identify(self) -> protocol.Identity:
        """Ask the board for its `protocol.Identity`."""
        self.identity = protocol.Identity.unpack(self._ask(Opcode.IDENTIFY, limit=LONGEST_IDENTITY))
        return self.identity

    def status(self) -> protocol.Status:
        """Ask the board for its `protocol.Status`."""
        status = protocol.Status.unpack(self._ask(Opcode.STATUS))
        if status.frozen and self.identity and not self.identity.max_classes:
            raise InputError(f"{self.name}: says that its learner is frozen, but its design does not learn")
        return status

    def wait_ready(self) -> protocol.Status:
        """Wait until the weights are loaded; returns the `protocol.Status` that says so.

        Raises InputError where the flash holds no weights of this design, or after `ready_s` seconds.
        """
        until = time.monotonic() + self.ready_s
        while not (status := self.status()).ready:
            if status.wrong_flash:
                raise InputError(f"{self.name}: the flash holds no weights of this design; "
                                 "run fbnn-hw flash with the folder that was built")
            if time.monotonic() > until:
                raise InputError(f"{self.name}: the board has not loaded its weights after {self.ready_s:g} s; is the flash written?")
            time.sleep(self._remaining(POLL_S))
        return status

    def classify(self, image: bytes, logits: bool = True, latent: bool = False) -> protocol.Result:
        """Classify an image.  If the request fails, it is sent again.

        image: 3 S S bytes, R, G, B of each pixel, row by row; or packed levels, `identity.image_bytes` (`reference.encode.packed`).
        logits, latent: what the result holds beside the class.
        """
        identity, flags = self._checked(image, logits, latent)
        return self._result(identity, flags, self._ask(Opcode.CLASSIFY | flags, bytes(image)))

    def see(self, logits: bool = True, latent: bool = False) -> protocol.Result:
        """Classify the next image of the board's own camera, as `classify` does.  Raises InputError where it has none."""
        if not self.status().camera:
            raise InputError(f"{self.name}: has no camera, expected a bitstream of fbnn-hw build --link, of a design with one")
        identity, flags = self._flags(logits, latent)
        return self._result(identity, flags, self._ask(Opcode.SEE | flags))

    def classify_all(self, images: Sequence[bytes], logits: bool = True,
                     latent: bool = False) -> Iterator[tuple[protocol.Result, protocol.Status]]:
        """Classify any number of images; yields (result, `protocol.Status`) of each, as `classify` and `status` give them.

        A board that hears ahead gets an image while it works on the one before.  Where a reply is lost, the image is
        sent again alone, and those behind it after it.
        """
        ahead = len(images) > 1 and self.status().ahead
        done = 0
        while done < len(images):
            for answer in self._classify_ahead(images[done:], logits, latent) if ahead else ():
                done += 1
                yield answer
            if done < len(images):
                self.repeated += ahead
                answer = self.classify(images[done], logits, latent), self.status()
                done += 1
                yield answer

    def _classify_ahead(self, images: Sequence[bytes], logits: bool,
                        latent: bool) -> Iterator[tuple[protocol.Result, protocol.Status]]:
        """Yield (result, status) of images until all are done or a reply fails; at most `AHEAD` images are on their way."""
        upcoming: deque[tuple[int, bytes]] = deque()
        for image in images:
            identity, flags = self._checked(image, logits, latent)
            upcoming += [(Opcode.CLASSIFY | flags, bytes(image)), (Opcode.STATUS, b"")]
        if self.unsettled:
            self.settle(self.wait_s)
        self.transport.discard()
        decoder, heard = protocol.Decoder(self._limit), deque[tuple[int, int, bytes]]()
        sent: deque[tuple[int, int]] = deque()  # (opcode, sequence) of requests without a reply
        last = b""
        while upcoming or sent:
            while upcoming and (upcoming[0][0] == Opcode.STATUS or sum(opcode != Opcode.STATUS for opcode, _ in sent) < AHEAD):
                opcode, payload = upcoming.popleft()
                self._unanswered = self.sequence = (self.sequence + 1) & 0xFF
                sent.append((opcode, self.sequence))
                self.transport.write(protocol.encode(opcode, payload, self.sequence), self._remaining(self.wait_s))
            until = time.monotonic() + self.wait_s
            while not heard and (seconds := until - time.monotonic()) > 0:
                heard += decoder.feed(self.transport.read(self._remaining(seconds)))
            opcode, sequence = sent.popleft()
            if not heard or heard[0][:2] != (opcode | protocol.REPLY, sequence):
                return
            if not sent and not upcoming:
                self._unanswered = None
            before, last = last, heard.popleft()[2]
            if opcode == Opcode.STATUS:
                yield self._result(identity, flags, before), protocol.Status.unpack(last)

    def _checked(self, image: bytes, logits: bool, latent: bool) -> tuple[protocol.Identity, int]:
        """(identity, LOGITS and LATENT as asked for) of a request for an image."""
        identity = self.identity or self.identify()
        if len(image) != identity.image_bytes:
            kind = "RGB" if identity.pixel_bits == RGB_BITS else f"levels of {identity.pixel_bits} bits a pixel"
            raise InputError(f"{self.name}: the image has {len(image)} bytes, expected {identity.image_bytes} "
                             f"({identity.size} x {identity.size} pixels, {kind})")
        return self._flags(logits, latent)

    def _flags(self, logits: bool, latent: bool) -> tuple[protocol.Identity, int]:
        """(identity, LOGITS and LATENT as asked for)."""
        identity = self.identity or self.identify()
        if latent and not identity.latent_bytes:
            raise InputError(f"{self.name}: this design has no latent")
        return identity, protocol.LOGITS * bool(logits) | protocol.LATENT * bool(latent) | protocol.UNKNOWN * self.asks_unknown

    @staticmethod
    def _result(identity: protocol.Identity, flags: int, reply: bytes) -> protocol.Result:
        learns = identity.max_classes > 0
        return protocol.Result.unpack(reply, flags, None if learns else identity.classes, identity.latent_bytes, identity.max_classes)

    # A learner.

    def learn(self, label: int) -> None:
        """Learn the image classified last as class `label`: the number of a known class, or of the next new one."""
        self._learner(Opcode.LEARN, label)

    def store(self, label: int) -> None:
        """Keep the image classified last as an exemplar of the known class `label`, without learning it."""
        self._learner(Opcode.STORE, label)

    def rehearse(self, count: int) -> None:
        """Replay `count` exemplars that the learner draws."""
        for begun in range(0, count, REHEARSE):
            self._learner(Opcode.REHEARSE, count=min(REHEARSE, count - begun))

    def freeze(self, frozen: bool = True) -> None:
        """Make the learner refuse `learn`, `store` and `rehearse`; with False, let it learn again."""
        self._learner(Opcode.FREEZE, count=int(frozen))

    def reset(self) -> None:
        """Put the learner back into its shipped state.  What it learned is lost."""
        self._learner(Opcode.RESET)
        self.wait_ready()

    def learned(self) -> tuple[int, int, bool]:
        """Ask the learner for (classes known, exemplars, whether it is frozen)."""
        most = self._learns().max_classes
        classes, exemplars, frozen = self.peek(protocol.Space.SCALARS, 0, 3)
        if classes > most or exemplars > MOST_EXEMPLARS or frozen > 1:
            raise InputError(f"{self.name}: knows {show(classes)} classes and {show(exemplars)} exemplars, frozen {show(frozen)}, "
                             f"expected at most {most}, {MOST_EXEMPLARS} and 1")
        return classes, exemplars, bool(frozen)

    def peek(self, space: int, address: int, count: int) -> list[int]:
        """Read `count` words of a learner's memory.

        space: a `protocol.Space`.  address: of the first word.  A shift register must be read whole,
        lowest bit first; else it stays turned.
        """
        size = self._learns().word_bytes
        words: list[int] = []
        for first, part in aligned(address, count, PEEK_WORDS):
            data = self._learner(Opcode.PEEK | space, first, part)
            if len(data) != part * size:
                raise InputError(f"{self.name}: the board sent {len(data)} bytes of {part} words, expected {part * size}")
            words += protocol.words_from(data, size)
        return words

    def poke(self, space: int, address: int, words: Sequence[int]) -> None:
        """Write words, integers of `identity.word_bytes` bytes, to a learner's memory from `address` on.  space: a `protocol.Space`."""
        identity = self._learns()
        for first, count in aligned(address, len(words), identity.poke_words):
            part = words[first - address:first - address + count]
            self._learner(Opcode.POKE | space, first, count, protocol.words_bytes(part, identity.word_bytes))

    def _learns(self) -> protocol.Identity:
        """The identity of a board with a learner."""
        identity = self.identity or self.identify()
        if not identity.max_classes:
            raise InputError(f"{self.name}: this design does not learn; expected one made with fbnn-hw generate --learn")
        return identity

    def _learner(self, opcode: int, number: int = 0, count: int = 0, words: bytes = b"") -> bytes:
        self._learns()
        return self._ask(opcode, protocol.operand(number, count) + words)

    # Requests.

    @property
    def _limit(self) -> int:
        """Longest payload that a reply can have."""
        return self.identity.reply_limit if self.identity else protocol.LONGEST_PAYLOAD

    def _ask(self, opcode: int, payload: bytes = b"", limit: int | None = None) -> bytes:
        """Send a request and return the payload of its reply; one that fails is sent again, with its sequence."""
        if self.unsettled:
            self.settle(self.wait_s)
        sequence = self.sequence = (self.sequence + 1) & 0xFF
        reason = ""
        for attempt in range(self.retries + 1):
            self.repeated += attempt > 0
            reply = self._send(opcode, payload, sequence, limit or self._limit)
            self._unanswered = None
            if isinstance(reply, bytes):
                return reply
            reason = reply.meaning if isinstance(reply, Fault) else str(reply)
            if isinstance(reply, Fault) and not reply.repeat:
                raise InputError(f"{self.name}: {reason}")
            if reply == Fault.BUSY and opcode not in (Opcode.IDENTIFY, Opcode.STATUS):  # these two wait for nothing
                self.wait_ready()
        raise InputError(f"{self.name}: {reason}, {self.retries + 1} times")

    def _send(self, opcode: int, payload: bytes, sequence: int, limit: int) -> bytes | Fault | str:
        """Payload of the reply to a request, or why there is none: a `Fault` or a text."""
        wait_s = self._remaining(self.wait_s)
        self.transport.discard()
        self._unanswered = sequence
        self.transport.write(protocol.encode(opcode, payload, sequence), wait_s)
        heard = False

        def read(seconds):
            nonlocal heard
            data = self.transport.read(self._remaining(seconds))
            heard |= bool(data)
            return data

        for told, number, payload in protocol.Decoder(limit).listen(read, self.wait_s):
            if (told, number) == (opcode | protocol.REPLY, sequence):
                return payload
            if told == protocol.ERROR and len(payload) == 1:
                fault = Fault(payload[0]) if payload[0] in list(Fault) else None
                # A request that is repeated for no reason does no harm.
                if number == sequence or fault and fault.damaged:
                    return fault or f"the board reported error {payload[0]}"
        if heard:
            return "what came back was no message of the protocol; is the speed right (--baud)"
        return "no answer; is this the board's serial port, and was the bitstream loaded"
