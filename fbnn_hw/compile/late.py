"""Late rows: weights of later layers take the place of maps that a pass needs no more.

The stream fills the ring first, since the ring holds the words that the array uses next.  Once the
ring is full, the stream fills late rows, from the highest row of the features downwards.  Resident
rows are used before late rows, and all rows are read from the last one down.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..machine import cycles
from ..machine.config import AcceleratorConfig
from ..machine.transfers import MOST_STEPS, Transfer, residents_of
from .schedule import Program

Residents = Callable[[int], tuple[tuple[Transfer, ...], int]]

GRID = 16
"""A transfer may be cut at every 16th word: the pieces then mix their two sources as the whole does."""

MOST_TRANSFERS = 120
"""Transfers of a design, so that their list fits into a block RAM of 4 kbit."""

MOST_TRIES = 3
"""Numbers of late rows that `improved` tries for each end."""


def needed(program: Program) -> list[int]:
    """Return for each word of the features the number of the last step that needs it.

    The number is -1 for a word that no step needs.  It is the number of steps for a word that stays
    until the next frame.
    """
    last = {step.layer: number for number, step in enumerate(program.steps)}
    last_of = [-1]  # for each layer, the last step of all layers up to it
    for layer in program.layers:
        last_of.append(max(last_of[-1], last.get(layer.label, -1)))
    words = [-1] * program.used
    for tensor in program.tensors.values():
        end = tensor.until + 1
        until = last_of[end] if end < len(last_of) else len(program.steps)
        span = slice(tensor.base, tensor.base + tensor.size)
        words[span] = [max(until, word) for word in words[span]]
    return words


class _Late(NamedTuple):
    """A late word."""

    after: int  # steps that must have begun
    low: int  # least number of words for the array that come before it
    high: int  # largest such number: its own place among them


class _Filler(cycles.Mover):
    """A mover that chooses in the first pass when the words of late rows come: whenever the ring has no room."""

    def __init__(self, config, late):
        self.late, self.first = late, config.resident_rows // config.rows_per_word
        self.place = self.mixed = 0  # words for the array that were moved; words from rows among them
        self.places: list[int] = []  # for each late word, the number of words before it
        self.idle = 0  # late words that came while the ring was full
        self.late_word_due = False  # the next word for the array is a late one that has not come yet
        self.low = late[0].low  # least place of the next late word
        self.total = sum(transfer.words for transfer in config.transfers)
        super().__init__(config)

    def next(self, now):
        if not self.row:
            self.after = 0
            if self.low <= self.place < self.total:
                self._choose(now)
        return super().next(now)

    def _choose(self, now):
        """Choose whether the next word of the stream goes to a late row."""
        number = len(self.places)
        after = self.late[number].after
        self.late_word_due = self.phase + self.share >= 16 and self.mixed - self.first >= number
        if self.late_word_due:
            self.after = after
        elif self.reserved == self.depth and after <= len(self.opened):
            when = max(now, self.ready, self.full)
            if self.opened[after - 1] <= when and not (self.frees and self.frees[0][0] <= when):  # the ring has no room
                self.after = after

    def repeats(self, words):
        return super().repeats(words) and self.place + words < self.low

    def become(self, state, now, words):
        self.place += words
        self.mixed += (self.phase + words * self.share) >> 4
        super().become(state, now, words)

    def move(self, now, resident):
        after, phase, share = self.after, self.phase, self.share
        self.words_left += after > 0 and self.row == self.rows - 1  # a late word is none of the transfer's words
        super().move(now, resident)
        if self.row:
            return
        if after:
            self.places.append(self.place)
            self.low = math.inf if len(self.places) == len(self.late) else self.late[len(self.places)].low
            self.loaded += 1
            self.idle += not self.late_word_due
            self.after, self.phase, self.share = 0, phase, share
        else:
            self.place += 1
            self.mixed += resident


def _late_words(config, need, end):
    """Return the late words of a configuration in the order of their use, or None where they cannot be placed.

    The transfers of the configuration name more words of rows than are resident; the surplus are the
    late words.  They cannot be placed where a map needs a row until after the word's use.
    need: see `needed`.  end: the row behind the late rows.
    """
    ends, total = [0], 0
    for step in config.program:
        total += step.tiles * step.tile_words
        ends.append(total)
    per_word, first = config.rows_per_word, config.resident_rows // config.rows_per_word
    grid = _grid(config.transfers)
    late: list[_Late] = []
    sources = np.concatenate([residents_of(transfer) for transfer in config.transfers])
    for high in np.flatnonzero(sources)[first:].tolist():
        top = end - len(late) * per_word
        if top < per_word:
            return None
        step = max(need[top - per_word:top])
        if step >= len(config.program) - 1 or step + 2 > MOST_STEPS:
            return None
        low = max(ends[step + 1], config.weight_words + 1, *(word.low for word in late[-1:]))
        at = bisect_left(grid, low)
        if at == len(grid) or grid[at] > high:
            return None
        late.append(_Late(max(step + 2, *(word.after for word in late[-1:]), 0), grid[at], high))
    return late


def _grid(transfers):
    """Places, counted in words for the array, where a transfer begins or may be cut."""
    places: list[int] = []
    start = 0
    for transfer in transfers:
        places += range(start, start + transfer.words, GRID)
        start += transfer.words
    return places


def _cut(transfers, late, places):
    """Return all transfers: those for the array, cut where transfers for late rows come between.  places: of the late words."""
    grid, step = _grid(transfers), 1
    while True:
        allowed = grid[::step]
        cuts: dict[int, list[tuple[int, int]]] = {}
        for (after, low, high), place in zip(late, places):
            at = max(low, allowed[bisect_right(allowed, place) - 1])
            at = min(at, grid[bisect_right(grid, high) - 1])
            runs = cuts.setdefault(at, [])
            if runs and runs[-1][0] == after:
                runs[-1] = after, runs[-1][1] + 1
            else:
                runs.append((after, 1))
        result = list(_joined(transfers, cuts))
        if len(result) <= max(MOST_TRANSFERS, 2 * len(transfers)):
            return tuple(result)
        step *= 2


def _joined(transfers, cuts):
    """Yield the transfers for the array with those for late rows between them.  cuts: {place: [(steps, late words), ..]}."""
    start = 0
    for transfer in transfers:
        inside = [place for place in sorted(cuts) if start <= place < start + transfer.words]
        edges = sorted({start, *inside, start + transfer.words})
        for low, high in zip(edges, edges[1:]):
            for after, words in cuts.get(low, ()):
                yield Transfer(words, 16, after)
            yield replace(transfer, words=high - low)
        start += transfer.words


def _filled(config, program, need, end):
    """Fill late rows up to the row `end`, by a simulation of the mover.

    Returns None where it cannot be done, else (cycles of a pass with this filler, configuration, late
    words, those of them that came while the ring was full).
    """
    late = _late_words(config, need, end)
    if not late:
        return None
    run = cycles.Run(config)
    run.mover = filler = _Filler(config, late)
    frame, _ = run.one_pass(0)
    rows = len(late) * config.rows_per_word
    transfers = _cut(config.transfers, late, filler.places)
    filled = replace(config, transfers=transfers, late_base=end - rows, late_rows=rows, resident_base=program.used)
    return frame.total, filled, len(late), filler.idle


def improved(config: AcceleratorConfig, program: Program, residents: Residents, passes: cycles.Passes
             ) -> tuple[AcceleratorConfig, cycles.Passes]:
    """Return (configuration, passes) with late rows where these save cycles, else the arguments.

    residents(rows): the transfers for that many rows of the banks.  The largest number of rows that can
    be filled in time is tried first, then as many rows as were filled while the ring was full.
    """
    if config.weights != "stream" or config.learning or not sum(layer.wait for layer in passes.later.layers.values()):
        return config, passes
    need, candidates = needed(program), []
    for end in _ends(need):
        sizes, tries = _sizes(need[:end], len(config.program)), MOST_TRIES
        while sizes and tries:
            filled = _filled(replace(config, transfers=residents(config.resident_rows + sizes.pop())[0]), program, need, end)
            if filled is not None:
                candidates.append(filled)
                _, _, words, useful = filled
                tries -= 1
                least = 1 if tries == MOST_TRIES - 1 else GRID  # words less that are worth another try
                sizes = [useful * config.rows_per_word] if 0 < useful <= words - least else []
    if not candidates:
        return config, passes
    best = min(candidates, key=lambda each: each[0])[1]
    late = cycles.passes(best)
    return (best, late) if late.later.total < passes.later.total else (config, passes)


def _ends(need):
    """Rows to try as the end of the late rows.

    The end of the features is one.  Where one run of rows that are free earlier takes a quarter of the
    features, its end is tried too.
    """
    last, best, start = need[-1], (0, 0), None
    for row, step in enumerate([*need, last]):
        if step < last:
            start = row if start is None else start
        elif start is not None:
            best, start = max(best, (row - start, row)), None
    return [len(need), best[1]] if 4 * best[0] > len(need) else [len(need)]


def _sizes(need, steps):
    """Numbers of late rows to try, ascending.

    For each step, the number is that of the rows at the top which no later step needs.
    """
    sizes, latest = {}, -1
    for rows, step in enumerate(reversed(need), start=1):
        latest = max(latest, step)
        if latest >= steps - 1:
            break
        sizes[latest] = rows
    return sorted(sizes.values())
