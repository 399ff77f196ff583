"""The whole state of a learner as bytes; docs/on-chip-learning.md, section "Snapshots"."""

import struct
import zlib
from dataclasses import dataclass

import numpy as np

from ...errors import InputError

MAGIC, VERSION = b"FBNNLRN\0", 1
HEADER = struct.Struct("<8sHI")  # magic, version, CRC-32 of what follows
SCALARS = struct.Struct("<IHBIQQQ")  # design, classes known, frozen, slots used, states of noise, mask and pick
FORMAT = "snapshot of a learner"


@dataclass(frozen=True)
class State:
    """design: CRC-32 of what must be equal for a state to mean the same.  registers: noise, mask, pick.

    presented, left: of each of max_classes.  labels: list, of the used slots.  latents: uint8 bits (used, latent).  output: counters,
    int8 (known, fan-in).  hidden: int8 (hidden, hidden fan-in), or None where the hidden layer does not learn.
    """

    design: int
    known: int
    frozen: bool
    registers: tuple
    presented: list
    left: list
    labels: list
    latents: np.ndarray
    output: np.ndarray
    hidden: np.ndarray | None

    def pack(self):
        body = SCALARS.pack(self.design, self.known, self.frozen, len(self.labels), *self.registers)
        body += bytes(self.presented) + bytes(self.left) + np.array(self.labels, "<u2").tobytes()
        body += np.packbits(self.latents, axis=1, bitorder="little").tobytes()
        if self.hidden is not None:
            body += self.hidden.astype(np.int8).tobytes()
        body += self.output.astype(np.int8).tobytes()
        return HEADER.pack(MAGIC, VERSION, zlib.crc32(body)) + body

    @classmethod
    def unpack(cls, data, learner, where="snapshot"):
        """The state for a `Learner` of its design; InputError for anything else."""
        if len(data) < HEADER.size + SCALARS.size or data[:8] != MAGIC:
            raise InputError(f"{where}: not a {FORMAT}, expected one that this chip or its reference wrote")
        _, version, crc = HEADER.unpack_from(data)
        body = memoryview(data)[HEADER.size:]
        if version != VERSION:
            raise InputError(f"{where}: version {version} of a {FORMAT}, expected {VERSION}")
        if crc != zlib.crc32(body):
            raise InputError(f"{where}: damaged {FORMAT}, its checksum does not fit")
        design, known, frozen, used, *registers = SCALARS.unpack_from(body)
        if design != learner.design:
            raise InputError(f"{where}: {FORMAT} of another design, expected one of the same classifier and the same configuration")
        head, at = learner.head, SCALARS.size

        def take(dtype, *shape):
            nonlocal at
            count = int(np.prod(shape))
            found = np.frombuffer(body, dtype, count, at)
            at += found.nbytes
            return found.reshape(shape)

        presented, left = take(np.uint8, learner.config.max_classes), take(np.uint8, learner.config.max_classes)
        labels, latents = take("<u2", used), take(np.uint8, used, (head.latent + 7) // 8)
        latents = np.unpackbits(latents, axis=1, count=head.latent, bitorder="little")
        hidden = take(np.int8, head.hidden, head.hidden_fan_in) if learner.config.hidden_counter_bits else None
        return cls(design, known, bool(frozen), tuple(registers), presented.tolist(), left.tolist(), labels.tolist(), latents,
                   take(np.int8, known, head.fan_in), hidden)
