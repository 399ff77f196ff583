"""The protocol between a host and a board: frames, requests and replies.  Defined here once, for host, hardware and simulation.

A frame is SYNC, opcode, sequence, payload length (2 bytes), payload, CRC (2 bytes); all numbers have their low byte first.  The CRC
is CRC-16/MCRF4XX over all but SYNC.  The host sends a request and waits; the board answers each request with one frame: the
request's opcode + REPLY, or ERROR with one byte of `Fault`, and the sequence that the request had.  docs/link.md tells it to other
implementers.

A request has another sequence than the one before, unless it repeats that one because its answer was lost.  What changes a learner
and comes with the sequence of the last request that was good is answered again and not done again.
"""

from dataclasses import dataclass
from enum import IntEnum
from hashlib import sha256

from .errors import InputError

VERSION = 3
SYNC = 0xFB
REPLY = 0x80
ERROR = 0xFF
HEADER_BYTES = 5
CRC_BYTES = 2
CRC_POLYNOMIAL = 0x8408
"""x^16 + x^12 + x^5 + 1, lowest bit first, as a UART sends."""
CRC_START = 0xFFFF
MODEL_BYTES = 4
MARK_BYTES = 4
"""Of the configuration's mark, before the model's, at the front of a flash image."""


class Opcode(IntEnum):
    """Requests.  CLASSIFY carries an image and may be sent with LOGITS or LATENT or both added.  IDENTIFY and STATUS carry nothing.

    The others are for designs that learn and carry `operand`, POKE also words.  LEARN and STORE: number is the label, the sample is the
    image classified last.  REHEARSE: count replays.  FREEZE: count 1 or 0.  RESET: to the shipped state.  PEEK, POKE: added to a
    learner's `Space`; number is an address; count words, word i at address number xor i.

    Where a pass has several frames, the answer to the pass's last image holds the results of all, as that request asked for them, and
    those before are answered with nothing.  IDENTIFY, and every fault inside a CLASSIFY, gives up a pass that is not complete.
    """

    IDENTIFY = 0x01
    STATUS = 0x02
    CLASSIFY = 0x10
    LEARN = 0x21
    STORE = 0x22
    REHEARSE = 0x23
    FREEZE = 0x24
    RESET = 0x27
    PEEK = 0x30
    POKE = 0x38


LOGITS = 1
LATENT = 2
REQUESTS = (Opcode.IDENTIFY, Opcode.STATUS, *(Opcode.CLASSIFY | flags for flags in range(4)))
COMMANDS = (Opcode.LEARN, Opcode.STORE, Opcode.REHEARSE, Opcode.FREEZE, Opcode.RESET)
SPACES = 8
SCALARS = 4
"""The space whose words are: classes known, exemplars, frozen."""
LEARNING_REQUESTS = (*COMMANDS, *range(Opcode.PEEK, Opcode.POKE + SPACES))
OPERAND_BYTES = 4
LONGEST_POKE = 0xFF
"""Bytes of its payload."""


class Fault(IntEnum):
    """Why a request was not answered."""

    CRC = 1  # the check sum is wrong
    OPCODE = 2  # no such request
    LENGTH = 3  # not the length that the request has
    TIMEOUT = 4  # the frame ended early
    LINE = 5  # a byte without stop bit: noise, or another speed
    BUSY = 6  # an image came faster than it was taken: the weights are not loaded
    RESULT = 7  # no result in time, or a learner that does not come to rest
    LABEL = 8  # no class known and not the next new one, or no row for it
    FROZEN = 9  # the learner is frozen
    SAMPLE = 10  # no image was classified before

    @property
    def meaning(self):
        return {
            Fault.CRC: "the check sum was wrong", Fault.OPCODE: "the request is unknown", Fault.LENGTH: "the length was wrong",
            Fault.TIMEOUT: "the frame ended early", Fault.LINE: "a byte had no stop bit, the speed may differ",
            Fault.BUSY: "its weights were not loaded, or an image came too fast", Fault.RESULT: "no result came in time",
            Fault.LABEL: "the label is neither a class known nor the next free one", Fault.FROZEN: "the learner is frozen",
            Fault.SAMPLE: "no image was classified before"}[self]

    @property
    def repeat(self):
        """Whether the same request may succeed when it is sent again."""
        return self < Fault.LABEL

    @property
    def damaged(self):
        """Whether the frame did not come as it was sent; its sequence may be damaged, too."""
        return self < Fault.BUSY


def crc(data):
    """CRC-16/MCRF4XX of bytes; that of a message followed by its CRC, low byte first, is 0."""
    value = CRC_START
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (CRC_POLYNOMIAL if value & 1 else 0)
    return value


def encode(opcode, payload=b"", sequence=0):
    """The bytes of a frame."""
    body = bytes([opcode, sequence]) + len(payload).to_bytes(2, "little") + bytes(payload)
    return bytes([SYNC]) + body + crc(body).to_bytes(2, "little")


class Decoder:
    """Bytes in, frames out; what is no frame is skipped, one byte at a time.

    `limit`: longest payload that is believed.
    """

    def __init__(self, limit=0xFFFF):
        self.limit, self._bytes = limit, bytearray()

    def feed(self, data):
        """[(opcode, sequence, payload)] that `data` completes."""
        self._bytes += data
        found = []
        while self._bytes:
            at = self._bytes.find(SYNC)
            drop = len(self._bytes) if at < 0 else at
            if not drop:
                if len(self._bytes) < HEADER_BYTES:
                    break
                length = int.from_bytes(self._bytes[3:5], "little")
                end = HEADER_BYTES + length + CRC_BYTES
                if length <= self.limit:
                    if len(self._bytes) < end:
                        break
                    if not crc(self._bytes[1:end]):
                        found.append((self._bytes[1], self._bytes[2], bytes(self._bytes[HEADER_BYTES:end - CRC_BYTES])))
                        del self._bytes[:end]
                        continue
                drop = 1
            del self._bytes[:drop]
        return found


def operand(number=0, count=0):
    """Payload of a request to a learner; POKE's words follow."""
    return number.to_bytes(3, "little") + bytes([count])


def words_bytes(words, word_bytes):
    """Words of a learner's memory as bytes."""
    return b"".join(int(word).to_bytes(word_bytes, "little") for word in words)


def words_from(data, word_bytes):
    """The inverse: a list."""
    return [int.from_bytes(data[i:i + word_bytes], "little") for i in range(0, len(data), word_bytes)]


def config_mark(config_id):
    """The 4 bytes that name a hardware configuration, from its 8 hexadecimal digits."""
    return bytes.fromhex(config_id)


def model_mark(ir_text):
    """The 4 bytes that name a network with its weights, from the bytes of its network.json."""
    return sha256(ir_text).digest()[:MODEL_BYTES]


@dataclass(frozen=True)
class Identity:
    """Answer to IDENTIFY.  classes: as shipped; size: pixels a side of an image; latent_bytes: 0 if it has none; frames: images of a
    pass; max_classes: that a learner has room for, 0 without one; word_bytes: of its memory; model: zeros until a flash has told."""

    version: int
    config: bytes
    classes: int
    size: int
    latent_bytes: int
    frames: int
    max_classes: int
    word_bytes: int
    model: bytes

    def pack(self):
        numbers = (n.to_bytes(2, "little") for n in (self.classes, self.size, self.latent_bytes))
        learner = self.max_classes.to_bytes(2, "little") + bytes([self.word_bytes])
        return bytes([self.version]) + self.config + b"".join(numbers) + bytes([self.frames]) + learner + self.model

    @classmethod
    def unpack(cls, data):
        """InputError if the length or the version is another."""
        if not data or data[0] != VERSION:
            raise InputError(f"the board speaks version {data[0] if data else 'nothing'} of the protocol, expected {VERSION}; "
                             "use the fbnn-hw that built its bitstream")
        if len(data) != IDENTITY_BYTES:
            raise InputError(f"the board's identity has {len(data)} bytes, expected {IDENTITY_BYTES}")
        numbers = (int.from_bytes(data[i:i + n], "little") for i, n in ((5, 2), (7, 2), (9, 2), (11, 1), (12, 2), (14, 1)))
        return cls(data[0], data[1:5], *numbers, data[15:])

    @property
    def image_bytes(self):
        return 3 * self.size ** 2

    @property
    def reply_limit(self):
        """Longest payload of a reply."""
        classes = max(self.classes, self.max_classes)
        return max(IDENTITY_BYTES, STATUS_BYTES, self.frames * classify_bytes(LOGITS | LATENT, classes, self.latent_bytes),
                   255 * self.word_bytes)

    @property
    def poke_words(self):
        """Words that a POKE holds."""
        return (LONGEST_POKE - OPERAND_BYTES) // self.word_bytes


IDENTITY_BYTES = 15 + MODEL_BYTES
STATUS_BYTES = 8


@dataclass(frozen=True)
class Status:
    """Answer to STATUS.  ready: the weights are loaded; wrong_flash: the flash holds another configuration's image or none; frames,
    errors: images answered and faults since power-up, modulo 2^16; cycles: of the last image, from its last byte to the
    first logit, or until the next image of the pass is taken, in clocks; frozen: the learner is."""

    ready: bool
    wrong_flash: bool
    frames: int
    errors: int
    cycles: int
    frozen: bool = False

    def pack(self):
        flags = self.ready | self.wrong_flash << 1 | self.frozen << 2
        numbers = (self.frames, 2), (self.errors, 2), (self.cycles, 3)
        return bytes([flags]) + b"".join(number.to_bytes(size, "little") for number, size in numbers)

    @classmethod
    def unpack(cls, data):
        if len(data) != STATUS_BYTES:
            raise InputError(f"the board's status has {len(data)} bytes, expected {STATUS_BYTES}")
        frames, errors, cycles = (int.from_bytes(part, "little") for part in (data[1:3], data[3:5], data[5:8]))
        return cls(bool(data[0] & 1), bool(data[0] & 2), frames, errors, cycles, bool(data[0] & 4))


def classify_bytes(flags, classes, latent_bytes):
    """Bytes of a result: logits (2 bytes each, signed; of the classes known) if asked for, the latent if asked for, the class (2 bytes)."""
    return 2 * classes * bool(flags & LOGITS) + latent_bytes * bool(flags & LATENT) + 2


BITS_A_BYTE = 10
"""On the line: a start bit, eight bits, a stop bit."""


def pass_bytes(size, classes, frames=1, flags=LOGITS, latent_bytes=0):
    """(bytes to the board, bytes back) of a pass of `frames` images of size x size pixels; all its answers but the last are empty."""
    empty = len(encode(Opcode.CLASSIFY))
    return frames * (empty + 3 * size ** 2), frames * (empty + classify_bytes(flags, classes, latent_bytes))


def end_to_end_rate(cycles, load_cycles, clock_hz, baud, size, classes, frames=1, flags=LOGITS, latent_bytes=0):
    """frames/s that a host at the end of the line can see.

    A host sends an image, waits for the answer and sends the next one, so the bits on the line and the cycles add up.  The accelerator
    takes an image while it arrives: of the `cycles` of a pass, `load_cycles` pass meanwhile.  clock_hz: of the accelerator; baud: bits
    a second.  The host's own time, such as that of a USB adapter, is not in it.
    """
    line_seconds = BITS_A_BYTE * sum(pass_bytes(size, classes, frames, flags, latent_bytes)) / baud
    return frames / (line_seconds + (cycles - load_cycles) / clock_hz)


@dataclass(frozen=True)
class Result:
    """What CLASSIFY found in an image.  logits: tuple or None; latent: words of the feature memory as bytes, or None (layout.json's
    latent_bits says which bit is which channel)."""

    index: int
    logits: tuple | None
    latent: bytes | None

    @classmethod
    def unpack(cls, data, flags, classes, latent_bytes, frames=1):
        """The results of a pass, from the answer to its last image.  classes: None where a learner may know any number."""
        if classes is None:
            logits = max(0, len(data) - 2 - latent_bytes * bool(flags & LATENT)) // 2
            classes = logits if flags & LOGITS else 1 << 16
        size, at = classify_bytes(flags, classes, latent_bytes), 2 * classes if flags & LOGITS else 0
        if len(data) != frames * size:
            raise InputError(f"the board's result has {len(data)} bytes, expected {frames * size}")
        found = []
        for one in (data[start:start + size] for start in range(0, len(data), size)):
            logits = tuple(int.from_bytes(one[i:i + 2], "little", signed=True) for i in range(0, at, 2)) if flags & LOGITS else None
            index = int.from_bytes(one[-2:], "little")
            if index >= classes:
                raise InputError(f"the board found class {index}, expected one below {classes}")
            found.append(cls(index, logits, one[at:-2] if flags & LATENT else None))
        return found
