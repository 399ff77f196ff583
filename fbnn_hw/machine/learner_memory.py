"""A learner's state as rows of the banks: packed from its counters and exemplars, and unpacked."""

from collections.abc import Iterable

import numpy as np

from ..base import bits
from ..reference.learning.learner import Learner
from .learner import LearnPlan

Rows = dict[int, dict[int, int]]
"""{row: {bank: word}}."""


def words_of(lists: np.ndarray, lanes: int) -> np.ndarray:
    """Lists of bits (..., n) -> integers (..., n / lanes), bit l of a word is lane l."""
    lists = np.asarray(lists, np.uint8)
    packed = np.packbits(lists.reshape(*lists.shape[:-1], -1, lanes), axis=-1, bitorder="little")
    flat = packed.reshape(-1, packed.shape[-1])
    return np.array([int.from_bytes(row.tobytes(), "little") for row in flat], object).reshape(packed.shape[:-1])


def bits_of(words: Iterable[int], lanes: int) -> np.ndarray:
    """Inverse of `words_of`, for one list."""
    text = b"".join(int(word).to_bytes(lanes // 8, "little") for word in words)
    return np.unpackbits(np.frombuffer(text, np.uint8), bitorder="little")


def counter_rows(plan: LearnPlan, label: int, counters: np.ndarray, presented: int = 0) -> Rows:
    """The rows of a class: its counters, int (fan-in,), and the mirror of its weights.  presented: its count of presentations."""
    rows: Rows = {}
    values = np.asarray(counters, np.int64) & (1 << plan.counter_bits) - 1
    stored = (values[:, None] >> np.arange(plan.stored_bits) & 1).reshape(plan.fan_in_words * plan.chunks, plan.pixels * plan.lanes)
    packed = words_of(stored, plan.lanes).reshape(plan.fan_in_words, plan.chunks, plan.pixels)
    for i in range(plan.fan_in_words):
        for h in range(plan.chunks):
            rows[plan.counter_row(label, i, h)] = dict(enumerate(packed[i, h].tolist()))
    return rows | mirror_rows(plan, label, counters, presented)


def mirror_rows(plan: LearnPlan, label: int, counters: np.ndarray, presented: int) -> Rows:
    """The words of the mirror of a class."""
    counters = np.asarray(counters)
    planes = [counters >= 0]
    if plan.planes > 1:
        least = plan.config.strong(presented)
        high, not_low = counters >= least, counters >= -least
        strong = high | ~not_low
        planes += [high, not_low, ~strong | (np.cumsum(strong) % 2 > 0 if plan.averages else False)]
    rows: Rows = {}
    for plane, words in enumerate(words_of(np.stack(planes), plan.lanes)):
        for i, word in enumerate(words):
            row, bank = plan.mirror_row(label, i, plane)
            rows.setdefault(row, {})[bank] = word
    return rows


def exemplar_rows(plan: LearnPlan, samples: np.ndarray) -> Rows:
    """The rows of exemplars from slot 0 on: bits (N, latent + hidden)."""
    rows: Rows = {}
    for slot, exemplar in enumerate(words_of(samples, plan.lanes)):
        for number, word in enumerate(exemplar.tolist()):
            row, bank = plan.slot_row(slot, number)
            rows.setdefault(row, {})[bank] = word
    return rows


def counters_of(plan: LearnPlan, stored: np.ndarray) -> np.ndarray:
    """Bits in memory, uint8 (..., stored_bits), lowest first -> counters, int64 (...).

    The lowest counter_bits of them are the counter, in two's complement.
    """
    width = plan.counter_bits
    values = (stored[..., :width].astype(np.int64) << np.arange(width)).sum(-1)
    return values - (values >> width - 1 << width)


def boot_rows(plan: LearnPlan, learner: Learner) -> list[int]:
    """The rows of the tables of the classes from learn_base on, integers of Q L bits, with the shipped classes in them; 0 elsewhere."""
    rows = [0] * plan.class_rows
    weights = bits.from_bits(learner.shipped, np.int64)
    far = learner.config.confidence
    for label, row in enumerate(weights):
        for at, words in counter_rows(plan, label, np.where(row > 0, far, -1 - far)).items():
            for bank, word in words.items():
                rows[at - plan.learn_base] |= word << bank * plan.lanes
    return rows
