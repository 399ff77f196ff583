"""A learner's counters and exemplars, read from a chip word by word: beside `ChipState.read`, which reads runs of rows."""

import numpy as np

from fbnn_hw.machine.learner_memory import bits_of, counters_of
from fbnn_hw.machine.protocol import Space


def counters(chip, label):
    """Counters of a class, int64 (fan_in,)."""
    p, parts = chip.plan, []
    for i in range(p.fan_in_words):
        for h in range(p.chunks):
            words = chip.peek(Space.BANKS, p.counter_row(label, i, h) * p.pixels, p.pixels)
            parts.append(counters_of(p, bits_of(words, p.lanes).reshape(-1, p.stored_bits)))
    return np.concatenate(parts)


def slot(chip, number):
    """Bits of an exemplar: latent, then hidden."""
    p, words = chip.plan, []
    for first in range(0, p.words, p.pixels):
        words += chip.peek(Space.BANKS, p.slot_row(number, first)[0] * p.pixels, min(p.pixels, p.words - first))
    return bits_of(words, p.lanes)
