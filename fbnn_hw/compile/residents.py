"""Which weights stay on the chip where weights are streamed: resident rows, and late rows beside them."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from itertools import product
from types import MappingProxyType

from ..machine import cycles
from ..machine.config import AcceleratorConfig
from ..machine.transfers import Transfer
from . import late
from .schedule import Program

MOVING = 5
"""Layers whose resident words are chosen by trial beside a flash at twice the clock."""


def residents(program: Program, word_cycles: int, free_words: int, left: Mapping[str, int] = MappingProxyType({}),
              ahead: Mapping[str, int] = MappingProxyType({})) -> tuple[tuple[Transfer, ...], int]:
    """Choose the weights that stay on the chip; return (transfers, rows of the banks).

    word_cycles: in which the stream brings a weight word.  free_words: rows of the banks that may hold
    weights.  Convolutions are served first, the last one before the others; each gets as many rows as
    it needs to run at the speed of the array beside the stream.  The other layers share the rest, the
    largest one first.  A layer takes left[its name] sixteenths of its words less than it could.  Its
    first ahead[its name] words come from the stream.
    """
    pixels, _, outputs = program.shape
    per_word = outputs // pixels
    order = program.fetched()
    names = [layer.name for layer in order]
    begins = {name: ahead.get(name, 0) for name in names}
    words = {layer.name: program.layer_words(layer) - begins[layer.name] for layer in order}
    free = free_words // per_word
    share = dict.fromkeys(names, 0)

    def used(name, sixteenths):
        return words[name] * sixteenths // 16

    if not ahead and sum(words.values()) <= free:
        share = dict.fromkeys(names, 16)
    else:
        reads = {layer.name: _reads(program, layer) for layer in order}
        convolutions = [n for n in names if reads[n] > words[n]]
        for name in reversed(convolutions):
            need = -(-16 * (words[name] * word_cycles - reads[name]) // (words[name] * word_cycles))
            share[name] = max(0, min(need, 16 * free // words[name]) - left.get(name, 0))
            free -= used(name, share[name])
        for name in sorted((n for n in names if n not in convolutions), key=lambda n: -words[n]):
            share[name] = max(0, min(16, 16 * free // words[name]) - left.get(name, 0))
            free -= used(name, share[name])
    transfers = tuple(Transfer(*part) for layer in order
                      for part in ((begins[layer.name], 0), (words[layer.name], share[layer.name])) if part[0])
    return transfers, sum(used(n, share[n]) for n in names) * per_word


def _reads(program, layer):
    """Cycles for which the array uses a layer's weights."""
    return sum(s.tiles * s.rows * s.columns * s.taps * s.words * s.repeat for s in program.layer_steps(layer))


def with_late_rows(config: AcceleratorConfig, program: Program, passes: cycles.Passes
                   ) -> tuple[AcceleratorConfig, cycles.Passes]:
    """(configuration, passes) with late rows where these save cycles.

    Of a flash at twice the clock, the first words with rows come from the stream instead, as many as nearly fill the ring: it has time for
    them while the layers before compute.  Then the largest layers in turn leave rows to those that are served after them, a sixteenth or
    two of their words at a time, or take one back, while that saves cycles.  At half the rate the flash binds wherever the rows are.
    """
    word_cycles = cycles.stream_cycles(config.word_bits, config.beat_bits, config.burst)
    plain = late.improved(config, program, partial(residents, program, word_cycles), passes)
    resident = {layer.name: transfer.words for layer, transfer in zip(program.fetched(), config.transfers) if transfer.resident}
    if config.way != "double" or config.learning or not resident:
        return plain
    first = next(iter(resident))
    ahead = {first: min(config.weight_words * 7 // 8, resident[first] // 2)}
    names = sorted(resident, key=resident.__getitem__)[-MOVING:]

    @cache
    def leaving(*left):
        shares = partial(residents, program, word_cycles, left=dict(zip(names, left)), ahead=ahead)
        transfers, rows = shares(config.feature_words - program.used)
        moved = replace(config, transfers=transfers, resident_rows=rows)
        return late.improved(moved, program, shares, cycles.passes(moved))

    def cycles_of(choice):
        return choice[1].later.total

    best, before = [0] * len(names), None
    while best != before:
        before = best
        for layer, more in product(range(len(names)), (1, 2, -1)):
            left = [max(0, value + more * (number == layer)) for number, value in enumerate(best)]
            best = min(best, left, key=lambda choice: cycles_of(leaving(*choice)))
    return min(plain, leaving(*best), key=cycles_of)
