"""The replay buffer: the chapters of the learner that store exemplars and draw them for replay.

An exemplar is a sample with its label.  Its words lie in the rows of the feature banks, from
`LearnPlan.slots_base` on: word w of slot n in bank w mod Q of row slots_base + (w div Q) * slots + n.
Its label lies in a memory of its own.  `Learner.used` slots hold an exemplar.  When all do, a new
exemplar takes the place of one of the fullest class.
Twin: `fbnn_hw.reference.learning.buffer.ReplayBuffer`.
"""

from enum import IntEnum
from functools import partial

from amaranth import Const, Signal

from .classes import Scan

NOISE_REGISTER, MASK_REGISTER, PICK_REGISTER = range(3)
"""Values of `Registers.select`."""


class Table(IntEnum):
    """The tables that a loop of the learner runs over."""

    CLASSES = 0  # the blocks of mirror and counters
    SLOTS = 1  # the words of an exemplar
    LATENT = 2  # the words of the sample, where the engine leaves them


class ReplayBuffer:
    """Part of `Learner`: m is its Module, s the namespace of its signals."""

    def _replay(self, m, s):
        """The next replay: of the class presented least, its slot by draws."""
        p = self.plan
        with s.states.state("NEXT"):
            m.d.comb += s.redraw.eq(1)
            m.d.sync += s.count.eq(s.count - 1)
            with m.If((s.count == 0) | (self.used == 0)):
                s.states.go("REST")
                with m.If(Const(0) if self.plan.adds else s.learns):
                    m.d.sync += [s.stores.eq(1), s.label.eq(s.request_label)]
                    s.states.go("LOAD")
            with m.Else():
                s.states.go("LEAST")
        self._visit(m, s, "LEAST", Scan.LEAST, lambda: self._class_chosen(m, s))
        with s.states.state("DRAW_SLOT"):
            with m.If(self._drawn(s, p.slot_bits)):
                s.states.go("LOOK_SLOT")
            with m.Else():
                self._take(m, s, PICK_REGISTER)
        suits = Signal()  # the slot drawn holds an exemplar of the class
        with s.states.state("LOOK_SLOT"):
            m.d.sync += s.slot.eq(s.word_slot)
            m.d.sync += suits.eq((s.word_slot < self.used) & (s.label_read.data == s.label))
            s.states.go("CHECK_SLOT")
        with s.states.state("CHECK_SLOT"):
            m.d.comb += s.redraw.eq(1)
            with m.If(suits):
                m.d.sync += s.label.eq(s.label_read.data)
                s.states.go("REMOVE")
                with m.If(~s.stores):
                    s.states.go("LOAD")
            with m.Else():
                s.states.go("DRAW_SLOT")

    def _class_chosen(self, m, s):
        """Draw a slot of the class that a scan chose."""
        m.d.sync += s.label.eq(s.classes.best)
        s.states.go("DRAW_SLOT")

    def _store(self, m, s):
        """A store: into a free slot, or in the place of an exemplar of the fullest class."""
        rows, sample = self.rows, s.sample
        with s.states.state("STORE"):
            with m.If(self.used == self.plan.slots):
                s.states.go("FULLEST")
            with m.Else():
                m.d.sync += [s.slot.eq(self.used), self.used.eq(self.used + 1)]
                s.states.go("SAVE_READ")
        self._visit(m, s, "FULLEST", Scan.FULLEST, lambda: self._class_chosen(m, s))
        self._visit(m, s, "REMOVE", Scan.REMOVE, partial(s.states.go, "SAVE_READ"))
        with s.states.state("SAVE_READ"):
            m.d.sync += [s.target.eq(1 << s.bank), s.label.eq(s.request_label)]
            s.states.go("SAVE")
        with s.states.state("SAVE"):
            m.d.comb += [rows.valid.eq(1), s.writes.eq(1), s.label_write.en.eq(1)]
            with m.If(rows.ready):
                m.d.comb += [sample.advance.eq(1), sample.raw.eq(1), s.advance.eq(1)]
                s.states.go("SAVE_READ")
                with m.If(s.index == self.plan.words - 1):
                    s.states.go("ADD")

        def added():
            s.states.go("REST")
        self._visit(m, s, "ADD", Scan.ADD, added)
