"""The whole state of a learner as bytes; docs/learner.md, section "Snapshots", gives the layout."""

import struct
import zlib
from dataclasses import dataclass
from typing import Self

import numpy as np

from ...base import bits
from ...base.errors import InputError
from .config import NEAREST_MEAN, PICKS, Head, LearnConfig
from .lfsr import REGISTERS
from .rules import RULES

MAGIC, VERSION = b"FBNNLRN\0", 2
"""Version 1, which fbnn-hw 0.1.0 wrote, differs in the check value of the design alone, see `Design.old_design`."""
EXTENDED = 3
"""The version of learners that answer "unknown" or forget; it has limits and forgotten classes."""
HEADER = struct.Struct("<8sHI")  # magic, version, CRC-32 of what follows
SCALARS = struct.Struct("<IHBIQQQ")  # check value of the design, classes known, frozen, slots used, states of noise, mask and pick
FORMAT = "snapshot of a learner"
DESIGN = b"FBNNDSN\0"


class Design:
    """What must be equal for a state of a learner to mean the same: its head, its configuration and its shipped weights.

    shipped, shipped_hidden: weights of the classes and of the hidden layer, uint8 bits (rows, fan-in).
    """

    def __init__(self, head: Head, config: LearnConfig, shipped: np.ndarray, shipped_hidden: np.ndarray):
        self.head, self.config, self.shipped, self.shipped_hidden = head, config, shipped, shipped_hidden

    @property
    def version(self) -> int:
        """Version of its snapshots."""
        return EXTENDED if self.config.unknown or self.config.forget else VERSION

    @property
    def design(self) -> int:
        """Check value of the design, a CRC-32; docs/learner.md, section "Snapshots", has its bytes.

        A snapshot of a design with another check value is refused.
        """
        head, config = self.head, self.config
        numbers = (
            head.latent, head.copies, head.hidden, head.groups, head.hidden_copies,
            config.max_classes, config.slots, config.counter_bits, config.hidden_counter_bits, list(RULES).index(config.rule),
            config.temperature, config.margin, config.thinning, config.hidden_thinning, config.gate, config.confidence, config.replays,
            PICKS.index(config.pick), config.weighted, config.prototype, config.seed, len(self.shipped),
            *((config.unknown, config.forget) if self.version == EXTENDED else ()))
        rows = b"".join(np.packbits(weights, axis=1, bitorder="little").tobytes() for weights in (self.shipped, self.shipped_hidden))
        return zlib.crc32(DESIGN + struct.pack(f"<{len(numbers)}I", *numbers) + rows)

    @property
    def old_design(self) -> int:
        """Check value of version 1: the CRC-32 of the text that Python 3 showed for both objects in fbnn-hw 0.1.0, and of the weights.

        The text is fixed here, so that later changes of the classes leave it as it was.
        """
        head, config = self.head, self.config
        text = (
            f"Head(latent={head.latent}, copies={head.copies}, hidden={head.hidden}, groups={head.groups}, "
            f"hidden_copies={head.hidden_copies}) LearnConfig(max_classes={config.max_classes}, slots={config.slots}, "
            f"counter_bits={config.counter_bits}, hidden_counter_bits={config.hidden_counter_bits}, rule='{config.rule}', "
            f"temperature={config.temperature}, margin={config.margin}, thinning={config.thinning}, "
            f"hidden_thinning={config.hidden_thinning}, gate={config.gate}, confidence={config.confidence}, replays={config.replays}, "
            f"pick='{config.pick}', weighted={bool(config.weighted)}, prototype={config.prototype}, seed={config.seed})")
        return zlib.crc32(text.encode() + bits.pack(self.shipped).tobytes() + bits.pack(self.shipped_hidden).tobytes())


def _refuse(where: str, name: str, value: object, expected: str) -> InputError:
    return InputError(f"{where}: {name}: {value}, expected {expected}")


@dataclass(frozen=True)
class State:
    """The whole state of a learner.  presented, left: of each of max_classes."""

    design: int  # check value of what must be equal for a state to mean the same
    known: int  # number of classes with a row
    frozen: bool
    registers: tuple[int, ...]  # noise, mask, pick
    presented: list[int]
    left: list[int]
    labels: list[int]  # of the used slots
    latents: np.ndarray  # uint8 bits (used, latent)
    output: np.ndarray  # counters, int8 (known, fan-in)
    hidden: np.ndarray | None  # int8 (hidden, hidden fan-in), or None where the hidden layer does not learn
    limits: list[int] | None = None  # of each of max_classes, or None in a design without "unknown"
    forgotten: frozenset[int] | None = None  # class numbers, or None in one that cannot forget

    def pack(self) -> bytes:
        """The snapshot."""
        body = SCALARS.pack(self.design, self.known, self.frozen, len(self.labels), *self.registers)
        body += bytes(self.presented) + bytes(self.left)
        if self.limits is not None:
            body += np.array(self.limits, "<i2").tobytes()
        if self.forgotten is not None:
            body += bytes(label in self.forgotten for label in range(len(self.presented)))
        body += np.array(self.labels, "<u2").tobytes()
        body += np.packbits(self.latents, axis=1, bitorder="little").tobytes()
        if self.hidden is not None:
            body += self.hidden.astype(np.int8).tobytes()
        body += self.output.astype(np.int8).tobytes()
        version = VERSION if self.limits is self.forgotten is None else EXTENDED
        return HEADER.pack(MAGIC, version, zlib.crc32(body)) + body

    @classmethod
    def unpack(cls, data: bytes, learner: Design, where: str = "snapshot") -> Self:
        """The state for a `Learner` of its design; InputError for anything but a state that such a learner can be in."""
        if len(data) < HEADER.size + SCALARS.size or data[:8] != MAGIC:
            raise InputError(f"{where}: not a {FORMAT}, expected one that this chip or its reference wrote")
        _, version, crc = HEADER.unpack_from(data)
        body = memoryview(data)[HEADER.size:]
        if not (version == learner.version or 1 <= version < learner.version < EXTENDED):
            raise InputError(f"{where}: version {version} of a {FORMAT}, expected {'at most ' * (learner.version < EXTENDED)}"
                             f"{learner.version}")
        if crc != zlib.crc32(body):
            raise InputError(f"{where}: damaged {FORMAT}, its checksum does not fit")
        design, known, frozen, used, *registers = SCALARS.unpack_from(body)
        if design != (learner.old_design if version == 1 else learner.design):
            raise InputError(f"{where}: {FORMAT} of another design, expected one of the same classifier and the same configuration")
        head, config, at = learner.head, learner.config, SCALARS.size
        _verify_sizes(learner, known, used, frozen, where)
        sizes = [config.max_classes, config.max_classes, 2 * config.max_classes * config.unknown, config.max_classes * config.forget,
                 2 * used, used * ((head.latent + 7) // 8),
                 head.hidden * head.hidden_fan_in if config.hidden_counter_bits else 0, known * head.fan_in]
        if len(body) != at + sum(sizes):
            raise _refuse(where, "bytes", len(data), f"{HEADER.size + at + sum(sizes)} with {known} classes and {used} exemplars")
        parts = []
        for size in sizes:
            parts.append(np.frombuffer(body[at:at + size], np.uint8))
            at += size
        presented, left, limits, forgotten, labels, latents, hidden, output = parts
        if forgotten.size and forgotten.max() > 1:
            raise _refuse(where, "forgotten", forgotten.max(), "0 or 1")
        packed = latents.reshape(used, -1) if used else np.zeros((0, (head.latent + 7) // 8), np.uint8)
        unpacked = np.unpackbits(packed, axis=1, bitorder="little")
        if unpacked[:, head.latent:].any():
            raise _refuse(where, "bits behind a latent", "1", "0")
        state = cls(
            learner.design, known, bool(frozen), tuple(registers), presented.tolist(), left.tolist(), labels.view("<u2").tolist(),
            unpacked[:, :head.latent], output.view(np.int8).reshape(known, head.fan_in),
            hidden.view(np.int8).reshape(head.hidden, head.hidden_fan_in) if config.hidden_counter_bits else None,
            limits.view("<i2").tolist() if config.unknown else None,
            frozenset(np.flatnonzero(forgotten).tolist()) if config.forget else None)
        state.verify(learner, where)
        return state

    def verify(self, learner: Design, where: str = "snapshot") -> None:
        """InputError unless a `Learner` of this design can be in this state."""
        config = learner.config
        _verify_sizes(learner, self.known, len(self.labels), self.frozen, where)
        for (name, taps), value in zip(REGISTERS.items(), self.registers):
            if not 0 < value < 1 << taps.width:
                raise _refuse(where, f"register {name}", value, f"1 to {(1 << taps.width) - 1}")
        self._verify_forgotten(learner, where)
        forgotten = self.forgotten or ()
        for name, values, most in (("presentations", self.presented, config.most_presented),
                                   ("prototype presentations to come", self.left, config.prototype),
                                   ("limit", map(abs, self.limits or ()), 3 * learner.head.fan_in)):
            for label, value in enumerate(values):
                none = (f"0, with {self.known} classes known" if label >= self.known else
                        "0 of a forgotten class" if label in forgotten else "")
                if value > (0 if none else most):
                    raise _refuse(where, f"{name} of class {label}", value, none or f"at most {most}")
        label = next((n for n, left in enumerate(self.left[:len(learner.shipped)]) if left), None)
        if label is not None and not config.forget:  # where one was forgotten, another class may have its number
            raise _refuse(where, f"prototype presentations to come of class {label}", self.left[label], "0 of a class that ships")
        for slot, label in enumerate(self.labels):
            if label >= self.known:  # no replay of its class would ever be found
                raise _refuse(where, f"class of exemplar {slot}", label, f"one below {self.known}, the classes known")
        for name, counters, width in (("counter", self.output, config.counter_bits),
                                      ("hidden counter", self.hidden, config.hidden_counter_bits)):
            if counters is not None and counters.size:
                top = 1 << width - 1
                for value in (int(counters.min()), int(counters.max())):
                    if not -top <= value < top:
                        raise _refuse(where, name, value, f"{-top} to {top - 1}")
        if config.rule == NEAREST_MEAN:
            for label, (row, count) in enumerate(zip(self.output, self.presented)):
                if not count and label not in forgotten:
                    raise _refuse(where, f"presentations of class {label}", 0, "at least 1 of a class known")
                for value in (int(row.min()), int(row.max())):
                    if not -1 - count <= value <= count:
                        raise _refuse(where, f"counter of class {label}", value, f"{-1 - count} to {count} after {count} presentations")

    def _verify_forgotten(self, learner: Design, where: str) -> None:
        """InputError unless a learner of this design can have forgotten these classes."""
        shipped = len(learner.shipped)
        for label in sorted(self.forgotten or ()):
            if label >= max(shipped, self.known - 1):
                raise _refuse(where, "forgotten class", label, f"one below the last of {self.known} classes known")
            if label in self.labels:
                raise _refuse(where, f"class of exemplar {self.labels.index(label)}", label, "one that is not forgotten")
            if self.output[label].any():
                raise _refuse(where, f"counters of class {label}", int(abs(self.output[label]).max()), "0 of a forgotten class")
        if self.forgotten and len(self.forgotten) == self.known:
            raise _refuse(where, "forgotten classes", len(self.forgotten), "one less at least than are known")


def _verify_sizes(learner: Design, known: int, used: int, frozen: int, where: str) -> None:
    """InputError unless the numbers that determine the sizes of the other parts are legal."""
    config, shipped = learner.config, len(learner.shipped)
    if not shipped <= known <= config.max_classes:
        raise _refuse(where, "classes known", known, f"{shipped} to {config.max_classes}")
    if used > config.slots:
        raise _refuse(where, "exemplars", used, f"at most {config.slots}")
    if used and config.adds:
        raise _refuse(where, "exemplars", used, f"0, which --learn {config.rule} keeps")
    if used and not known:
        raise _refuse(where, "exemplars", used, "0, with no class known")
    if frozen > 1:
        raise _refuse(where, "frozen", frozen, "0 or 1")
