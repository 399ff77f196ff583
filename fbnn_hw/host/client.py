"""What a program says to a board."""

import time

from .. import protocol
from ..errors import InputError
from ..protocol import Fault, Opcode

RETRIES = 3
WAIT_S = 2.0
READY_S = 5.0
POLL_S = 0.05


class Client:
    """Requests over a transport (`write(data, timeout)`, `read(timeout)`, `discard()`), repeated when one is lost.

    wait_s: how long an answer may take; ready_s: how long the board may load its weights.
    Every method raises InputError, in one line, if the board does not answer `retries` + 1 times, or answers nonsense.
    """

    def __init__(self, transport, wait_s=WAIT_S, ready_s=READY_S, retries=RETRIES):
        self.transport, self.wait_s, self.ready_s, self.retries = transport, wait_s, ready_s, retries
        self.name = getattr(transport, "path", "the board")
        self.identity = None
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
        return protocol.Result.unpack(answers[-1], flags, identity.classes, identity.latent_bytes, identity.frames)

    def _ask(self, *requests, limit=None):
        """Payloads of the replies to requests, (opcode, payload), of which all are sent again if one fails."""
        limit = limit or (self.identity.reply_limit if self.identity else 0xFFFF)
        reason = ""
        for attempt in range(self.retries + 1):
            self.repeated += attempt > 0
            if attempt and len(requests) > 1:  # what the board has of the pass is given up
                self.identify()
                self.wait_ready()
            found = []
            for opcode, payload in requests:
                self.transport.discard()
                self.transport.write(protocol.encode(opcode, payload), self.wait_s)
                reason = self._reply(opcode, limit)
                if not isinstance(reason, bytes):
                    break
                found.append(reason)
            else:
                return found
            if reason == Fault.BUSY.meaning:
                self.wait_ready()
        raise InputError(f"{self.name}: {reason}, {self.retries + 1} times")

    def _reply(self, opcode, limit):
        """Payload of the reply to `opcode`, or a text: why there is none."""
        decoder, heard = protocol.Decoder(limit), False
        until = time.monotonic() + self.wait_s
        while (left := until - time.monotonic()) > 0:
            data = self.transport.read(left)
            heard |= bool(data)
            for found, payload in decoder.feed(data):
                if found == opcode | protocol.REPLY:
                    return payload
                if found == protocol.ERROR and len(payload) == 1:
                    return Fault(payload[0]).meaning if payload[0] in list(Fault) else f"the board reported error {payload[0]}"
        if heard:
            return "what came back was no frame of the protocol; is the speed right (--baud)"
        return "no answer; is this the board's serial port, and was the bitstream loaded"
