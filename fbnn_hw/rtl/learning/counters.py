"""The chapters of the learner that move counters, and set those of a new class."""

from amaranth import Cat, Const

from .classes import Scan
from .replay_buffer import MASK_REGISTER


class CounterMover:
    """Part of `Learner`: m is its Module, s the namespace of its signals."""

    def _new_class(self, m, s):
        """States that set the counters of a new class to their start values."""
        def created():
            m.d.sync += [self.class_count.eq(self.class_count + (s.new if self.plan.forget else 1)), s.starting.eq(1), s.new.eq(0)]
            s.states.go("ROW")
        self._visit(m, s, "NEW", Scan.NEW, created)

    def _move_counters(self, m, s):
        """States that move the counters of a class, one word of one bank at a time.

        A word is written while the data of the next one is on its way.  Without a mask the next one is
        read while the word before is moved.  A word is read again where the write before it had to wait.
        """
        p, rows, update = self.plan, self.rows, s.update
        # The last bits of the mask are drawn while the word is read.
        drawing = ~s.everything & ~s.shipping & ~self._drawn(s, p.per_word)
        late = range(p.per_word - p.drawn_late, p.per_word)
        last = s.arrives == p.stored_bits - 1

        def read():
            m.d.comb += [rows.valid.eq(1), s.reads.eq(1)]
            with m.If(rows.ready):
                m.d.sync += s.part.eq(s.part + 1)
                s.states.go("READ_WAIT")

        def write():
            m.d.comb += [rows.valid.eq(s.waits), s.writes.eq(1)]
            with m.If(rows.ready):
                m.d.sync += s.waits.eq(0)
                with m.If(s.waits):
                    m.d.sync += [weights.eq(Cat(weights, plane)[p.per_word:]) for weights, plane in zip(s.weights, self._planes(s))]
                    if p.averages:
                        m.d.sync += s.odd.eq(s.odd ^ s.strong.xor())
        with s.states.state("ROW"):
            m.d.comb += s.redraw.eq(1)
            if p.averages:
                m.d.sync += s.odd.eq(0)
            s.states.go("READ")
        with s.states.state("READ"):
            with m.If(drawing):
                self._take(m, s, MASK_REGISTER)
            with m.If(~drawing | Cat(self._drawn(s, bits) for bits in late).any()):
                read()
        with s.states.state("READ_WAIT"):
            if p.drawn_late:
                with m.If(drawing):
                    self._take(m, s, MASK_REGISTER)
            write()
            s.states.go("MOVE")
            with m.If(s.waits & ~rows.ready):
                s.states.go("AGAIN")
        with s.states.state("AGAIN"):
            write()
            m.d.sync += s.part.eq(s.arrives)
            with m.If(rows.ready):
                s.states.go("READ")
        with s.states.state("MOVE"):
            m.d.comb += s.redraw.eq(1)
            m.d.sync += [
                s.moved.eq(update.updated), s.waits.eq(1), s.moved_chunk.eq(s.arrives[self.bank_bits:]),
                s.target.eq(1 << s.arrives[:self.bank_bits])]
            s.states.go("READ")
            with m.If(last):
                s.states.go("WRITE_LAST")
            with m.Elif(s.everything):
                read()
        with s.states.state("WRITE_LAST"):
            write()
            with m.If(rows.ready):
                m.d.sync += [s.target.eq(1 << s.row[:self.bank_bits]), s.moves.eq(0)]
                s.states.go("MIRROR")
        with s.states.state("MIRROR"):
            m.d.comb += [rows.valid.eq(1), s.writes.eq(1)]
            with m.If(rows.ready):
                self._next_plane(m, s)
            with m.If(self._of_plane(s, -1, rows.ready)):
                m.d.comb += [s.sample.advance.eq(1), s.advance.eq(1)]
                m.d.sync += s.moves.eq(1)
                if p.boot == "words":
                    m.d.sync += s.boot_place.eq(s.boot_place + s.shipping)
                s.states.go("READ")
                with m.If(s.index == p.fan_in_words - 1):
                    s.states.go("ROW_DONE")
        self._row_done(m, s)

    def _row_done(self, m, s):
        """Choose the row that moves next: the next shipped one, the rival's, or none."""
        with s.states.state("ROW_DONE"):
            with m.If(s.shipping):
                m.d.sync += s.label.eq(s.label + 1)
                s.states.go("REST")
                with m.If(s.label != self.plan.shipped - 1):
                    s.states.go("ROW")
            with m.Elif(s.starting):
                m.d.sync += s.starting.eq(0)
                if self.plan.adds:
                    s.states.go("PRESENTED")
                else:
                    s.states.go("LOADED")
            with m.Elif(Const(1) if self.plan.adds else s.rival_turn | s.first_steps):
                m.d.sync += s.rival_turn.eq(0)
                s.states.go("NEXT")
            with m.Else():
                m.d.sync += s.rival_turn.eq(1)
                s.states.go("ROW")
