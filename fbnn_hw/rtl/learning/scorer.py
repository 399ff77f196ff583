"""The scores: the chapters of the learner that score a sample for its classes, and know what it does not know.

Q classes are scored in one pass over the words of the sample.  Noise is added to each score, and the largest one so far is kept with its
class.  With `LearnPlan.unknown` a class has a limit in `ClassTable`, which a sample that is learned moves.
Twin: `fbnn_hw.reference.learning.Learner.logits` and its `unknown`.
"""

from amaranth import Const, Mux, signed

from ...reference.learning.learner import EARLY, FAST, SLOW
from ...reference.learning.rules import gumbel_table
from ..signals import unnamed
from . import noise
from .noise import NoiseTable
from .replay_buffer import NOISE_REGISTER

NOISE_BITS = 8
"""Bits of one draw of noise."""


class Scorer:
    """Part of `Learner`: m is its Module, s the namespace of its signals."""

    @property
    def _sum_bits(self):
        """Width of a score with its noise."""
        bits = self.score_bits + 1
        return max(bits, noise.width(gumbel_table(self.plan.temperature))) + 1 if self.noisy else bits

    def _scores(self, m, s):
        """The current score, and the outputs for scores."""
        p = self.plan
        if self.noisy:
            m.submodules.noise = s.noise = NoiseTable(p.temperature)
            m.d.comb += s.noise.index.eq(s.word8)
        score, larger = self.scores.word_select(s.place[:self.bank_bits], self.score_bits), s.fresh | (s.best - s.candidate)[-1]
        if p.forget:
            least = p.config.forgotten_score(p.fan_in_words * p.lanes) // 2
            score, larger = Mux(s.classes.gone, Const(least, self.score_bits), score), larger & ~s.classes.gone
        m.d.comb += s.score.eq(score)
        m.d.sync += [s.place_last.eq(s.place + 1 == self.class_count), s.larger.eq(larger)]
        if p.unknown:
            self._limit(m, s)
        m.d.comb += [self.logits.payload.value.eq(s.score << 1), self.logits.payload.last.eq(s.place_last), self.best.eq(s.rival)]

    def _limit(self, m, s):
        """Compare the candidate with the limit of its class and with the score of what is known, and compute the next limit."""
        p, limit, above = self.plan, s.classes.counts.as_signed(), unnamed(signed(self._sum_bits + 1))
        below, early = above[-1], s.classes.presented_left[:8] < EARLY
        s.strange = below & (s.candidate < p.config.known_score(p.fan_in_words * p.lanes))
        m.d.comb += [above.eq(s.candidate - limit), s.classes.limit.eq(limit + Mux(below | early, above >> FAST, above >> SLOW))]

    def _score(self, m, s):
        """States that score Q classes at a time, add noise to each score, and compare."""
        p, rows = self.plan, self.rows
        with s.states.state("FORWARD"):
            m.d.comb += [
                rows.valid.eq(1), s.redraw.eq(1), s.last.eq(self._of_plane(s, -1, s.index == p.fan_in_words - 1))]
            with m.If(rows.ready):
                m.d.comb += s.advance.eq(self._of_plane(s, -1, Const(1)))
                self._next_plane(m, s)
                with m.If(s.last):
                    s.states.go("SCORES_WAIT")
        with s.states.state("SCORES_WAIT"):
            with m.If(s.scored):
                s.states.go("DRAW_NOISE")
        with s.states.state("DRAW_NOISE"):
            if self.noisy:
                with m.If(s.classifies | self._drawn(s, NOISE_BITS)):
                    s.states.go("ADD_NOISE")
                with m.Else():
                    self._take(m, s, NOISE_REGISTER)
            else:
                s.states.go("ADD_NOISE")
        with s.states.state("ADD_NOISE"):
            # CLASSIFY draws nothing, so its noise is the same for all classes.
            m.d.sync += s.candidate.eq((s.score << 1) + (s.noise.value if self.noisy else 0))
            s.states.go("COMPARE")
        with s.states.state("COMPARE"):
            m.d.comb += s.redraw.eq(1)
            s.states.go("RANK")
        with s.states.state("RANK"):
            m.d.comb += self.logits.valid.eq(s.classifies)
            with m.If(~s.classifies | self.logits.ready):
                m.d.sync += s.place.eq(s.place + 1)
                with m.If(s.larger):
                    m.d.sync += [s.fresh.eq(0), s.best.eq(s.candidate), s.rival.eq(s.place)]
                    if p.unknown:
                        m.d.sync += self.unknown.eq(s.strange)
                s.states.go("DRAW_NOISE")
                with m.If(s.place_last):
                    s.states.go("PRESENTED")
                    with m.If(s.classifies):
                        s.states.go("REST")
                with m.Elif(s.place[:self.bank_bits] == p.pixels - 1):
                    s.states.go("FORWARD")
            if p.unknown:
                with m.If(~s.classifies):
                    m.d.comb += s.classes.move.eq(1)
                    s.states.go("PRESENTED")
