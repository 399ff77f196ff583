"""The protocol between a host and a board: messages, requests and replies.

This module alone defines it, for host, hardware and simulation.  docs/link.md describes it for other implementers.

A message is SYNC, opcode, sequence, payload length (2 bytes), payload, CRC (2 bytes).  Numbers have
their low byte first.  The CRC is CRC-16/MCRF4XX over all but SYNC.  The host sends a request and
waits.  The board answers each request with one message, which has the sequence of the request.  Its
opcode is that of the request + REPLY, or ERROR with one byte of `Fault` as payload.

Each request takes a new sequence.  A request that is repeated because its reply was lost keeps its
sequence.  A request that changes a learner and has the sequence of the last good request is
answered again and not carried out again.
"""

import time
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, dataclass
from enum import IntEnum
from functools import lru_cache, reduce
from hashlib import sha256
from heapq import heappop, heappush
from operator import xor
from struct import Struct
from typing import Self

from ..base.errors import InputError
from .config import RGB_BITS, AcceleratorConfig, image_bytes

VERSION = 3
LEVELS_VERSION = 4
"""Of a board that takes images as levels: its identity has the bits of a pixel, the rest is as in `VERSION`."""
FRAMES = 1
"""A byte of the identity.  Designs of version 0.2 could take several images a pass."""
SYNC = 0xFB
REPLY = 0x80
ERROR = 0xFF
HEADER_BYTES = 5
CRC_BYTES = 2
LOGIT_BITS = 16
"""Bits of a logit in a reply."""
CRC_POLYNOMIAL = 0x8408
"""x^16 + x^12 + x^5 + 1, lowest bit first, as a UART sends."""
CRC_START = 0xFFFF
MODEL_BYTES = 4
MARK_BYTES = 4
"""Bytes of the configuration's mark, which precedes the model's mark at the front of a flash image."""
LONGEST_PAYLOAD = 0xFFFF
WORD_BYTES = (2, 4, 8, 16, 32, 64, 128)
"""Sizes that a word of a learner's memory may have."""


class Opcode(IntEnum):
    """The requests.

    IDENTIFY, STATUS: no payload.
    CLASSIFY: an image of `image_bytes`; LOGITS, LATENT or both may be added to the opcode, and UNKNOWN where a learner answers so.
    SEE: no payload; as CLASSIFY, of the next image of the board's own camera.

    The others are for designs that learn.  Their payload is `operand`, number and count:

    LEARN, STORE: number is the label; the sample is the image classified last.
    REHEARSE: count replays.
    FREEZE: count 1 or 0.
    RESET: to the shipped state.
    PEEK, POKE: a `Space` is added to the opcode; count words, word i at address number xor i.  The
    words of POKE follow its operand.
    """

    IDENTIFY = 0x01
    STATUS = 0x02
    CLASSIFY = 0x10
    SEE = 0x18
    LEARN = 0x21
    STORE = 0x22
    REHEARSE = 0x23
    FREEZE = 0x24
    RESET = 0x27
    PEEK = 0x30
    POKE = 0x38


class Command(IntEnum):
    """A command of a learner."""

    CLASSIFY = 0  # score the current sample
    LEARN = 1  # learn(x, label)
    STORE = 2  # store(x, label)
    REHEARSE = 3  # `count` replays
    FREEZE = 4  # frozen = count[0]


class Space(IntEnum):
    """A memory of a learner that PEEK and POKE address.  Its words agree with each other only while the learner rests."""

    BANKS = 0  # address: row * Q + bank
    LABELS = 1  # address: slot
    COUNTS = 2  # address: class
    PRESENTED = 3  # address: class; presentations, then prototype presentations left in the upper 8 bits
    SCALARS = 4  # address: 0 classes, 1 exemplars, 2 frozen
    NOISE = 5  # each access takes one bit, lowest first, and turns the register by one; n accesses restore it
    MASK = 6  # the mask register, accessed as NOISE is
    PICK = 7  # the pick register, accessed as NOISE is


LOGITS = 1
LATENT = 2
UNKNOWN = 4
"""Added to CLASSIFY: UNKNOWN_CLASS in the class says that the learner takes the image for none that it knows."""
UNKNOWN_CLASS = 1 << 15
FLAGS = LOGITS | LATENT | UNKNOWN
"""All that may be added to CLASSIFY and SEE."""
REQUESTS = (Opcode.IDENTIFY, Opcode.STATUS, *(Opcode.CLASSIFY | flags for flags in range(4)))
UNKNOWN_REQUESTS = tuple(Opcode.CLASSIFY | UNKNOWN | flags for flags in range(4))
CAMERA_REQUESTS = tuple(Opcode.SEE | flags for flags in range(4))
UNKNOWN_CAMERA_REQUESTS = tuple(Opcode.SEE | UNKNOWN | flags for flags in range(4))
COMMANDS = (Opcode.LEARN, Opcode.STORE, Opcode.REHEARSE, Opcode.FREEZE, Opcode.RESET)
LEARNING_REQUESTS = (*COMMANDS, *range(Opcode.PEEK, Opcode.POKE + len(Space)))
OPERAND_BYTES = 4
LONGEST_POKE = 0xFF
"""Most bytes of the payload of a POKE."""


class Fault(IntEnum):
    """Why a request was not answered."""

    CRC = 1  # the check sum is wrong
    OPCODE = 2  # no such request
    LENGTH = 3  # not the length that the request has
    TIMEOUT = 4  # the message ended early
    LINE = 5  # a byte without stop bit: noise, or another speed
    BUSY = 6  # an image came faster than it was taken, because the weights are not loaded
    RESULT = 7  # no result in time, or a learner that does not come to rest
    LABEL = 8  # no class known and not the next new one, or no row for it
    FROZEN = 9  # the learner is frozen
    SAMPLE = 10  # no image was classified before

    @property
    def meaning(self) -> str:
        """The fault in words, as part of a sentence."""
        return {
            Fault.CRC: "the check sum was wrong", Fault.OPCODE: "the request is unknown", Fault.LENGTH: "the length was wrong",
            Fault.TIMEOUT: "the message ended early", Fault.LINE: "a byte had no stop bit, the speed may differ",
            Fault.BUSY: "its weights were not loaded, or an image came too fast", Fault.RESULT: "no result came in time",
            Fault.LABEL: "the label is neither a class known nor the next free one", Fault.FROZEN: "the learner is frozen",
            Fault.SAMPLE: "no image was classified before"}[self]

    @property
    def repeat(self) -> bool:
        """Whether the same request may succeed when it is sent again."""
        return self < Fault.LABEL

    @property
    def damaged(self) -> bool:
        """Whether the message arrived damaged; its sequence may be damaged, too."""
        return self < Fault.BUSY


_CRC_TABLE = [reduce(lambda value, _: value >> 1 ^ CRC_POLYNOMIAL * (value & 1), range(8), byte) for byte in range(256)]
"""The CRC register after one byte, for each value of the byte and of the register's low byte, xored."""


def _registers(data: Iterable[int], value: int) -> Iterator[int]:
    """Yield the CRC register after each byte.  value: before the first."""
    for byte in data:
        value = value >> 8 ^ _CRC_TABLE[(value ^ byte) & 0xFF]
        yield value


def crc(data: Iterable[int]) -> int:
    """CRC-16/MCRF4XX of bytes; that of a message followed by its CRC, low byte first, is 0."""
    return reduce(lambda _, value: value, _registers(data, CRC_START), CRC_START)


@lru_cache(maxsize=1 << 12)
def _bits_after_zeros(count: int) -> list[int]:
    """The CRC register after `count` bytes of 0, one or more, for each bit that alone was 1 before."""
    if count == 1:
        return [bit >> 8 ^ _CRC_TABLE[bit & 0xFF] for bit in (1 << number for number in range(16))]
    return [_after_zeros(bit, count - count // 2) for bit in _bits_after_zeros(count // 2)]


def _after_zeros(value: int, count: int) -> int:
    """The CRC register `count` bytes of 0 later."""
    return reduce(xor, (bit for number, bit in enumerate(_bits_after_zeros(count)) if value >> number & 1), 0)


def encode(opcode: int, payload: bytes = b"", sequence: int = 0) -> bytes:
    """The bytes of a message."""
    body = bytes([opcode, sequence]) + len(payload).to_bytes(2, "little") + bytes(payload)
    return bytes([SYNC]) + body + crc(body).to_bytes(2, "little")


class Decoder:
    """Makes messages of bytes, and skips what belongs to no message.

    A message is reported as soon as its last byte has come, whatever came before it.  A message inside
    another one is reported only if its end is fed before the end of that one.  Time grows linearly with
    the bytes fed, memory with `limit` and the longest piece fed.

    limit: longest payload of a message, bytes.
    """

    def __init__(self, limit: int = LONGEST_PAYLOAD):
        self.limit = min(limit, LONGEST_PAYLOAD)
        self._bytes = bytearray()
        # The CRC register, from 0, before each of `_bytes` and behind the last.  Two of them give the CRC of the bytes between.
        self._registers = array("H", [0])
        # Numbers of bytes count from the first one ever fed; `_bytes` begins with number `_base`.
        self._base = self._searched = 0
        self._begun: list[tuple[int, int]] = []  # heap of (end, start) of messages whose header has come
        self._reported = 0, 0  # start and end of the last message reported

    def feed(self, data: bytes) -> list[tuple[int, int, bytes]]:
        """[(opcode, sequence, payload)] of the messages that `data` completes."""
        self._bytes += data
        self._registers.extend(_registers(bytes(data), self._registers[-1]))
        self._begin()
        messages = []
        for start, end in sorted(self._complete()):
            if self._reported[0] < start < self._reported[1]:
                continue
            text = self._bytes[start - self._base:end - self._base]
            messages.append((text[1], text[2], bytes(text[HEADER_BYTES:-CRC_BYTES])))
            self._reported = start, end
        self._forget()
        return messages

    def listen(self, read: Callable[[float], bytes], seconds: float) -> Iterator[tuple[int, int, bytes]]:
        """Yield the messages that come within some seconds.  read(seconds): the next bytes, or none where none come."""
        until = time.monotonic() + seconds
        while (remaining := until - time.monotonic()) > 0:
            yield from self.feed(read(remaining))

    def _begin(self) -> None:
        """Note where messages whose header is whole would end."""
        text, at = self._bytes, self._searched - self._base
        while (at := text.find(SYNC, at)) >= 0 and at + HEADER_BYTES <= len(text):
            length = text[at + 3] | text[at + 4] << 8
            if length <= self.limit:
                start = self._base + at
                heappush(self._begun, (start + HEADER_BYTES + length + CRC_BYTES, start))
            at += 1
        self._searched = self._base + (at if at >= 0 else len(text))

    def _complete(self) -> Iterator[tuple[int, int]]:
        """(start, end) of messages that have come and whose CRC is right."""
        total = self._base + len(self._bytes)
        while self._begun and self._begun[0][0] <= total:
            end, start = heappop(self._begun)
            first, last = start + 1 - self._base, end - self._base
            if _after_zeros(CRC_START ^ self._registers[first], last - first) == self._registers[last]:
                yield start, end

    def _forget(self) -> None:
        """Drop the bytes that belong to no message that may still be completed."""
        total = self._base + len(self._bytes)
        oldest = total - (HEADER_BYTES + self.limit + CRC_BYTES) if self._begun else self._searched
        count = min(oldest, self._searched) - self._base
        if 2 * count > len(self._bytes):  # seldom, since it moves the others
            del self._bytes[:count], self._registers[:count]
            self._base += count


def operand(number: int = 0, count: int = 0) -> bytes:
    """Payload of a request to a learner; POKE's words follow."""
    return number.to_bytes(3, "little") + bytes([count])


def words_bytes(words: Iterable[int], word_bytes: int) -> bytes:
    """Words of a learner's memory as bytes."""
    return b"".join(int(word).to_bytes(word_bytes, "little") for word in words)


def words_from(data: bytes, word_bytes: int) -> list[int]:
    """Inverse of `words_bytes`."""
    return [int.from_bytes(data[i:i + word_bytes], "little") for i in range(0, len(data), word_bytes)]


def config_mark(config_id: str) -> bytes:
    """The 4 bytes that name a hardware configuration, from its 8 hexadecimal digits."""
    return bytes.fromhex(config_id)


def model_mark(ir_text: bytes) -> bytes:
    """The 4 bytes that name a network with its weights, from the bytes of its network.json."""
    return sha256(ir_text).digest()[:MODEL_BYTES]


_IDENTITY = Struct("<B4sHHHBHB4s")
"""The fields of `Identity` but `pixel_bits`, in their order."""
_IDENTITY_OF_LEVELS = Struct("<B4sHHHBHBB4s")
"""The same, with `pixel_bits` before the model mark."""
IDENTITY_BYTES = _IDENTITY.size
STATUS_BYTES = 8


@dataclass(frozen=True)
class Identity:
    """The reply to IDENTIFY."""

    version: int  # of the protocol: `VERSION`, or `LEVELS_VERSION` where pixels are levels
    config: bytes  # the configuration id, 4 bytes
    classes: int  # in the shipped state
    size: int  # pixels a side of an image
    latent_bytes: int  # 0 if the design has no latent
    frames: int  # `FRAMES`; up to version 0.2, images of a pass
    max_classes: int  # that the learner has room for; 0 without a learner
    word_bytes: int  # of the learner's memory; 0 without a learner
    model: bytes  # the model mark, 4 bytes; zeros until it has been read from the flash
    pixel_bits: int = RGB_BITS  # fewer where pixels are levels

    @classmethod
    def of(cls, config: AcceleratorConfig, model: bytes = bytes(MODEL_BYTES)) -> Self:
        """The identity of a board of a configuration; model: its mark."""
        learner = (config.learning.max_classes, config.learning.host_bits // 8) if config.learning else (0, 0)
        return cls(LEVELS_VERSION if config.takes_levels else VERSION, config_mark(config.id), config.classes, config.size,
                   config.latent_words * config.lanes // 8, FRAMES, *learner, model, config.pixel_bits)

    def pack(self) -> bytes:
        *fields, model, pixel_bits = astuple(self)
        if self.version == LEVELS_VERSION:
            return _IDENTITY_OF_LEVELS.pack(*fields, pixel_bits, model)
        return _IDENTITY.pack(*fields, model)

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """Read a payload.  Raises InputError where the length or the version is wrong, or a field has a value that no board has."""
        if not data or data[0] not in (VERSION, LEVELS_VERSION):
            raise InputError(f"the board speaks version {data[0] if data else 'nothing'} of the protocol, expected {VERSION} or "
                             f"{LEVELS_VERSION}; use the fbnn-hw that built its bitstream")
        layout = _IDENTITY_OF_LEVELS if data[0] == LEVELS_VERSION else _IDENTITY
        if len(data) != layout.size:
            raise InputError(f"the board's identity has {len(data)} bytes, expected {layout.size}")
        *fields, model = layout.unpack(data)
        identity = cls(*fields[:8], model, *fields[8:])  # type: ignore[call-arg]  # of a length that mypy does not know
        identity._verify()
        return identity

    def _verify(self) -> None:
        for name, value, legal, expected in (
                ("classes", self.classes, self.classes > 0 or self.max_classes > 0, "1 or more"),
                ("bits of a pixel", self.pixel_bits, 0 < self.pixel_bits <= RGB_BITS, f"1 to {RGB_BITS}"),
                ("pixels a side", self.size, 0 < self.image_bytes <= LONGEST_PAYLOAD, "an image of at most 65535 bytes"),
                ("images of a pass", self.frames, self.frames == FRAMES, f"{FRAMES}; the design of another number is of version 0.2"),
                ("most classes", self.max_classes, not self.max_classes or self.max_classes >= self.classes,
                 f"0 or at least its {self.classes} classes"),
                ("bytes of a word", self.word_bytes, self.word_bytes in WORD_BYTES if self.max_classes else not self.word_bytes,
                 "a power of two from 2 to 128" if self.max_classes else "0 of a design that does not learn"),
                ("bytes of a result", self.result_bytes, self.result_bytes <= LONGEST_PAYLOAD, "at most 65535")):
            if not legal:
                raise InputError(f"the board's identity is damaged or a lie: {name}: {value}, expected {expected}")

    def compare(self, config: AcceleratorConfig, where: str = "the board") -> None:
        """Compare with the identity of a board of this configuration.  The model mark is not compared, since it names the weights.

        Raises InputError, which names the first field that differs.  where: the board, in that message.
        """
        own = Identity.of(config)
        for name, told, expected in (
                ("configuration", self.config.hex(), own.config.hex()), ("classes", self.classes, own.classes),
                ("pixels a side", self.size, own.size), ("bits of a pixel", self.pixel_bits, own.pixel_bits),
                ("bytes of the latent", self.latent_bytes, own.latent_bytes), ("most classes", self.max_classes, own.max_classes),
                ("bytes of a word", self.word_bytes, own.word_bytes)):
            if told != expected:
                raise InputError(f"{where}: says {name} {told}, the design has {expected}; build and flash that design, "
                                 "or name the board's")

    @property
    def image_bytes(self) -> int:
        return image_bytes(self.size, self.pixel_bits)

    @property
    def result_bytes(self) -> int:
        """Longest payload of a reply to CLASSIFY."""
        return classify_bytes(LOGITS | LATENT, max(self.classes, self.max_classes), self.latent_bytes)

    @property
    def reply_limit(self) -> int:
        """Longest payload of a reply."""
        return max(len(self.pack()), STATUS_BYTES, self.result_bytes, 255 * self.word_bytes)

    @property
    def poke_words(self) -> int:
        """Words that a POKE holds."""
        return (LONGEST_POKE - OPERAND_BYTES) // self.word_bytes


@dataclass(frozen=True)
class Status:
    """The reply to STATUS."""

    ready: bool  # the weights are loaded
    wrong_flash: bool  # the flash holds no image of this configuration
    frames: int  # images answered since power-up, modulo 2^16
    errors: int  # faults, likewise
    cycles: int  # of the last image, from its last byte to the first logit
    frozen: bool = False  # the learner is frozen
    ahead: bool = False  # the board hears the next request while it works on one
    camera: bool = False  # the board has a camera of its own and knows SEE

    def pack(self) -> bytes:
        flags = self.ready | self.wrong_flash << 1 | self.frozen << 2 | self.ahead << 3 | self.camera << 4
        numbers = (self.frames, 2), (self.errors, 2), (self.cycles, 3)
        return bytes([flags]) + b"".join(number.to_bytes(size, "little") for number, size in numbers)

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """Read a payload.  Raises InputError where its length is wrong, or where an unknown flag is set."""
        if len(data) != STATUS_BYTES:
            raise InputError(f"the board's status has {len(data)} bytes, expected {STATUS_BYTES}")
        if data[0] > 31:
            raise InputError(f"the board's status has the flags {data[0]:#x}, expected at most 0x1f")
        frames, errors, cycles = (int.from_bytes(part, "little") for part in (data[1:3], data[3:5], data[5:8]))
        return cls(bool(data[0] & 1), bool(data[0] & 2), frames, errors, cycles, bool(data[0] & 4), bool(data[0] & 8), bool(data[0] & 16))


def classify_bytes(flags: int, classes: int, latent_bytes: int) -> int:
    """Bytes of a result: logits (2 bytes each, signed; of the classes known) if asked for, the latent if asked for, the class (2 bytes)."""
    return 2 * classes * bool(flags & LOGITS) + latent_bytes * bool(flags & LATENT) + 2


@dataclass(frozen=True)
class Result:
    """The result of CLASSIFY for one image.  Logits and latent are None where they were not asked for."""

    index: int | None  # the class, or where `unknown` the nearest one; None where the board knows no class
    logits: tuple[int, ...] | None  # one for each class known
    latent: bytes | None  # its words in memory; channel c is bit `latent_bits[c]`, a list in layout.json
    unknown: bool = False  # whether the learner answers so

    @classmethod
    def unpack(cls, data: bytes, flags: int, classes: int | None, latent_bytes: int, most: int = 0xFFFF) -> Self:
        """Read the result of an image from the reply to it.

        flags: LOGITS, LATENT and UNKNOWN, as asked for.  classes: how many there are; None where a learner may
        know any number up to `most`.  Raises InputError where the length is wrong, a class does not
        exist, or a class is not the first one with the largest logit.
        """
        if classes is None:
            classes = max(0, len(data) - 2 - latent_bytes * bool(flags & LATENT)) // 2 if flags & LOGITS else most
            if classes > most:
                raise InputError(f"the board sent {classes} logits, expected at most {most}")
        size, at = classify_bytes(flags, classes, latent_bytes), 2 * classes if flags & LOGITS else 0
        if len(data) != size:
            raise InputError(f"the board's result has {len(data)} bytes, expected {size}")
        logits = tuple(int.from_bytes(data[i:i + 2], "little", signed=True) for i in range(0, at, 2)) if flags & LOGITS else None
        index = int.from_bytes(data[-2:], "little")
        unknown = bool(flags & UNKNOWN and index & UNKNOWN_CLASS)
        index &= ~(UNKNOWN_CLASS * unknown)
        nothing = logits == () and not index and not unknown  # no class is known
        if index >= classes and not nothing:
            raise InputError(f"the board found class {index}, expected one below {classes}")
        if logits and index != logits.index(max(logits)):
            raise InputError(f"the board found class {index}, expected {logits.index(max(logits))}, whose logit is the largest")
        return cls(None if nothing else index, logits, data[at:-2] if flags & LATENT else None, unknown)
