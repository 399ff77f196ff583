"""The memorizer: a buffer of exemplars with a fixed number of bits.  No torch here.

A sample is (3, S, S) levels of a thermometer code, or a latent of bits; either may have a teacher's answer
beside it.  It is packed into as many bits as are counted.  The buffer follows two rules (paper, section
`bg`, balanced reservoir): it is always full, and every class has the same share.  At a new task the
shares shrink.  Which exemplars leave and which samples enter is random.  A class with fewer samples than
its share leaves the rest to others.

Labels are not in the capacity, as in the paper; the ledger states their bits.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.errors import UsageError

MEGABIT = 10 ** 6


@dataclass(frozen=True)
class LevelCode:
    """Code of levels (planes, S, S), where plane p has planes[p] levels.

    A pixel takes 5 + 4 + 4 = 13 bits with TYCC, 3 * 7 = 21 with TRGB.
    """

    planes: tuple
    size: int

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(max(1, (count - 1).bit_length()) for count in self.planes)

    @property
    def bits(self) -> int:
        return sum(self.widths) * self.size ** 2

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.planes), self.size, self.size)

    def to_bits(self, samples: np.ndarray) -> np.ndarray:
        """uint8 (N, 3, S, S) -> {0, 1} (N, bits), plane by plane, each value's lowest bit first."""
        parts = [((samples[:, p, ..., None] >> np.arange(width, dtype=np.uint8)) & 1).reshape(len(samples), width * self.size ** 2)
                 for p, width in enumerate(self.widths)]
        return np.concatenate(parts, 1)

    def from_bits(self, rows: np.ndarray) -> np.ndarray:
        parts = np.split(rows, np.cumsum(self.widths)[:-1] * self.size ** 2, 1)
        return np.stack([np.packbits(part.reshape(len(rows), self.size, self.size, width), -1, "little")[..., 0]
                         for part, width in zip(parts, self.widths)], 1)


@dataclass(frozen=True)
class BitCode:
    """Code of a latent of `bits` bits; samples are uint8 {0, 1} (N, bits)."""

    bits: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.bits,)

    def to_bits(self, samples: np.ndarray) -> np.ndarray:
        return samples

    def from_bits(self, rows: np.ndarray) -> np.ndarray:
        return rows


@dataclass(frozen=True)
class TaughtCode:
    """Code of samples, each with the answer of a teacher: `code` of the sample, and 16 bits for each of `classes`.

    Samples are records with the fields `sample` and `answer`, as `join` makes them.
    """

    code: LevelCode | BitCode
    classes: int

    @property
    def bits(self) -> int:
        return self.code.bits + 16 * self.classes

    def join(self, samples: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """uint8 samples (N, ...), float16 answers (N, classes) -> records (N,)."""
        records = np.empty(len(samples), [("sample", np.uint8, self.code.shape), ("answer", "<f2", (self.classes,))])
        records["sample"], records["answer"] = samples, answers
        return records

    def to_bits(self, records: np.ndarray) -> np.ndarray:
        answers = np.ascontiguousarray(records["answer"]).view(np.uint8)
        return np.concatenate([self.code.to_bits(records["sample"]), np.unpackbits(answers, axis=1, bitorder="little")], 1)

    def from_bits(self, rows: np.ndarray) -> np.ndarray:
        answers = np.packbits(rows[:, self.code.bits:], axis=1, bitorder="little")
        return self.join(self.code.from_bits(rows[:, :self.code.bits]), answers.view("<f2"))


def shares(available: Sequence[int] | np.ndarray, slots: int) -> np.ndarray:
    """Return the slots of each class, as equal as the samples allow; all `slots` are used if they can be.

    available: samples of each class.  Where equal shares leave a remainder, the first classes get one slot
    more, so the largest shares differ by one at most.
    """
    available = np.asarray(available, np.int64)
    shares = np.zeros_like(available)
    slots_left = min(int(slots), int(available.sum()))
    while slots_left:
        hungry = np.flatnonzero(available > shares)
        each = slots_left // len(hungry)
        if not each:
            shares[hungry[:slots_left]] += 1
            break
        step = np.minimum(available[hungry] - shares[hungry], each)
        shares[hungry] += step
        slots_left -= int(step.sum())
    return shares


def check_room(capacity_bits: int, size: int, classes: int, noun: str) -> None:
    """Raises UsageError where a buffer has no room for an entry of `size` bits of each of `classes`.  noun: of the entries."""
    if capacity_bits // size < classes:
        need = classes * size / MEGABIT
        raise UsageError(f"--buffer-mb {capacity_bits / MEGABIT:g}: holds {capacity_bits // size} {noun} of {size} bits, expected "
                         f"one for each of {classes} classes; use at least {math.ceil(need * 1000) / 1000:g}")


class Memorizer:
    """A buffer of exemplars that holds `capacity_bits` bits.

    code: a `LevelCode`, `BitCode` or `TaughtCode`, which packs a sample.  seed: of the draws of what
    enters and leaves.
    """

    def __init__(self, capacity_bits: int, code: LevelCode | BitCode | TaughtCode, seed: Any = 0) -> None:
        self.capacity_bits, self.code = int(capacity_bits), code
        self.slots = self.capacity_bits // code.bits
        self.rng = np.random.default_rng(seed)
        self.packed = np.zeros((0, (code.bits + 7) // 8), np.uint8)
        self.labels = np.zeros(0, np.int64)

    def __len__(self):
        return len(self.labels)

    def check(self, classes: int) -> None:
        """Raises UsageError where not even one sample of each of `classes` fits."""
        check_room(self.capacity_bits, self.code.bits, classes, "samples")

    def samples(self) -> tuple[np.ndarray, np.ndarray]:
        """(samples in the code's form, labels)."""
        return self.code.from_bits(np.unpackbits(self.packed, axis=1, count=self.code.bits, bitorder="little")), self.labels.copy()

    def update(self, samples: np.ndarray, labels: np.ndarray) -> None:
        """Take in what the shares allow of a task's (samples, labels); classes seen before may come again.

        A class whose share shrinks loses exemplars at random, one whose share grows gains new samples at random.
        """
        labels = np.asarray(labels, np.int64)
        classes = np.unique(np.concatenate([self.labels, labels]))
        stored = np.array([(self.labels == c).sum() for c in classes], np.int64)
        fresh = np.array([(labels == c).sum() for c in classes], np.int64)
        staying, entering_places = [], []
        for c, have, new, share in zip(classes, stored, fresh, shares(stored + fresh, self.slots)):
            # of a class in both, each sample has the same chance
            keep = share if not new else have if not have else self.rng.hypergeometric(have, new, share)
            keep = min(int(keep), int(have))
            staying.append(np.sort(self.rng.permutation(np.flatnonzero(self.labels == c))[:keep]))
            entering_places.append(np.sort(self.rng.permutation(np.flatnonzero(labels == c))[:share - keep]))
        kept, taken = np.concatenate(staying).astype(np.int64), np.concatenate(entering_places).astype(np.int64)
        entering = np.packbits(self.code.to_bits(samples[taken]), axis=1, bitorder="little")
        self.packed = np.concatenate([self.packed[kept], entering])
        self.labels = np.concatenate([self.labels[kept], labels[taken]])

    def ledger(self, classes: int) -> dict[str, Any]:
        """The cost of the buffer in bits and samples.  classes: how many share it."""
        label_bits = max(1, math.ceil(math.log2(classes)))
        return {"capacity_bits": self.capacity_bits, "bits_per_sample": self.code.bits, "slots": self.slots, "samples": len(self),
                "classes": classes, "samples_per_class": self.slots / classes, "used_bits": len(self) * self.code.bits,
                "label_bits_per_sample": label_bits, "used_bits_with_labels": len(self) * (self.code.bits + label_bits),
                "slots_if_labels_counted": self.capacity_bits // (self.code.bits + label_bits)}

    def state(self) -> dict[str, Any]:
        return {"packed": self.packed, "labels": self.labels, "rng": self.rng.bit_generator.state}

    def restore(self, state: dict[str, Any]) -> None:
        packed = fitting(np.asarray(state["packed"], np.uint8), self.packed, rows=True)
        labels = fitting(np.asarray(state["labels"], np.int64), self.labels, rows=True)
        if len(labels) != len(packed):
            raise ValueError("not as many labels as samples")
        self.packed, self.labels = packed, labels
        self.rng.bit_generator.state = state["rng"]


def fitting(value: Any, like: Any, rows: bool = False) -> Any:
    """Return `value`, an array or a tensor, if its shape and type are those of `like`; with `rows` it may have more or fewer rows.

    Raises ValueError where it has another shape or type.
    """
    if value.dtype != like.dtype or value.ndim != like.ndim or value.shape[rows:] != like.shape[rows:]:
        raise ValueError("an array of another shape or type")
    return value
