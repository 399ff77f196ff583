"""The learner's table of classes: slots, presentations, prototype presentations to come."""

from enum import IntEnum

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..signals import unnamed

TOP = 255
"""A class presented so often has all counts halved."""


class Scan(IntEnum):
    """The purpose of a scan of all classes; `label` is one of them."""

    CLEAR = 0  # all zero
    NEW = 1  # presented = 0 for all, or with `most` for the label; left[label] = prototype
    PRESENT = 2  # presented[label] += 1, left[label] -= 1 unless 0; if presented[label] is then 255, a second round halves all
    # With `most` presented[label] is halved before, where it is `most`.
    LEAST = 3  # best = the class with slots that is presented least
    FULLEST = 4  # best = the class with the most slots, `label` if it is among them
    ADD = 5  # counts[label] += 1
    REMOVE = 6  # counts[label] -= 1


class ClassTable(wiring.Component):
    """counts, presented and left of each class in block RAM; a scan visits all classes.

    counts: slots of the class.  presented: presentations.  left: prototype presentations to come.
    Twin: `presented`, `prototypes_left` and `ReplayBuffer.counts` of the reference.

    Parameters:
    - classes: rows of the table.
    - count_bits: width of a count, with `unknown` of a limit.
    - prototype: prototype presentations of a new class.
    - most: count of presentations that is halved before the next one, alone; 0: see `Scan`.
    - unknown, forget: of the `LearnPlan`.  With `unknown` each class has a limit in the place of its slots, which are none.

    Timing: A scan takes two clocks a class, and `done` comes in the second clock after it.  PRESENT takes a second round where
    it halves all counts.

    Resources: Two block RAMs.
    """

    def __init__(self, classes, count_bits, prototype, most=0, unknown=False, forget=False):
        self.classes, self.count_bits, self.prototype, self.most = classes, count_bits, prototype, most
        self.unknown, self.forget = unknown, forget
        index = range(max(2, classes))
        self.key_bits = 8 if unknown else max(count_bits, 8)
        super().__init__({
            # Begin a scan, not during one; `label` from `start` and `scan` from the clock after hold until `done`.
            "start": In(1), "scan": In(Scan), "label": In(index),
            "done": Out(1),  # strobes after a scan; `best` and `starting` are then valid, and hold until the next scan
            "best": Out(index), "starting": Out(1),  # starting: after PRESENT, left[label] was not 0
            **({"presents": Out(8), "halves": Out(1)} if most else {}),  # after PRESENT: presented[label]; it was halved before
            **({"gone": Out(1)} if forget else {}),  # entry `host_index` is of a forgotten class, by the highest bit of presented_left
            **({"move": In(1), "limit": In(count_bits)} if unknown else {}),  # write the limit of that entry; `counts` reads it
            # Entry `host_index`, a clock later, between scans: presented, then left.  host_write: of counts, presented_left.
            "host_index": In(index), "counts": Out(count_bits), "presented_left": Out(16), "host_write": In(2), "data": In(16)})

    def elaborate(self, platform):
        m = Module()
        depth = max(2, self.classes)
        attributes = {"ram_style": "block"}
        m.submodules.counts = counts = Memory(shape=self.count_bits, depth=depth, init=[], attrs=attributes)
        shape = 16 if self.prototype else 8 + self.forget
        m.submodules.presented_left = presented_left = Memory(shape=shape, depth=depth, init=[], attrs=attributes)
        read, write = [m_.read_port() for m_ in (counts, presented_left)], [m_.write_port() for m_ in (counts, presented_left)]
        place = Signal(range(depth))
        running = unnamed()
        second = unnamed()
        halve = unnamed()
        scan = self.scan
        at_label = unnamed()  # in the second clock of a class, as the next ones: it is that of `label`
        adds = unnamed()
        removes = unnamed()
        presents = unnamed()
        renews = unnamed()
        address = Mux(running, place, self.host_index)
        m.d.comb += [*(port.addr.eq(address) for port in (*read, *write)), self.counts.eq(read[0].data),
                     self.presented_left.eq(self._word(read[1].data))]
        is_label = place == self.label
        m.d.sync += [at_label.eq(is_label), adds.eq(is_label & (scan == Scan.ADD)), removes.eq(is_label & (scan == Scan.REMOVE)),
                     presents.eq(is_label & (scan == Scan.PRESENT) & ~halve), renews.eq(is_label & (scan == Scan.NEW))]

        count, presented = Const(0, 1) if self.unknown else read[0].data, read[1].data[:8]
        left = read[1].data[8:15 if self.forget else None]
        new_count = count + Cat(adds | removes, removes.replicate(self.count_bits - 1))
        more = Signal(8)
        halves = presented == self.most
        if self.most:
            m.d.comb += more.eq(Mux(presents & halves, presented >> 1, presented) + presents)
            new_presented = Mux((scan == Scan.CLEAR) | renews, 0, more)
        else:
            m.d.comb += more.eq(presented + presents)
            new_presented = Mux((scan == Scan.CLEAR) | (scan == Scan.NEW), 0, Mux(halve, more >> 1, more))
        new_left = []
        if self.prototype:
            less = Mux(left.any(), left - presents, 0)
            new_left = [Mux(scan == Scan.CLEAR, 0, Mux(renews, self.prototype, less))[:7 if self.forget else 8]]
        if self.forget:
            m.d.comb += self.gone.eq(read[1].data[-1])
            new_left.append(self.gone & (scan != Scan.CLEAR) & ~renews)
        m.d.comb += [
            write[0].data.eq(Mux(running, Mux(scan == Scan.CLEAR, 0, new_count), self.data)),
            write[1].data.eq(Mux(running, Cat(new_presented[:8], *new_left), self._stored(self.data))),
            *(port.en.eq(Mux(running, second, self.host_write[i])) for i, port in enumerate(write))]
        if self.unknown:
            self._limits(m, write[0], running, second & ((scan == Scan.CLEAR) | renews))
        # The least key wins, the first of equals; of the counts complements are keys, and `label` comes before its equals.
        fullest = scan == Scan.FULLEST
        key = Cat(~(at_label & fullest), Mux(fullest, ~(count | Const(0, self.key_bits)), presented))
        least = Signal(self.key_bits + 1)
        full = Signal()  # presented[label] has come to TOP
        last = place == self.classes - 1
        # A key that wins counts a clock later, when it is still there, for the comparison takes long.
        wins = unnamed()
        before = Signal.like(place, name="$like")  # `place` a clock before
        ends = Signal()  # the scan has ended
        m.d.sync += [wins.eq(0), before.eq(place), ends.eq(0), self.done.eq(ends)]
        with m.If(wins):
            m.d.sync += [self.best.eq(before), least.eq(key)]
        with m.If(running):
            m.d.sync += second.eq(~second)
            with m.If(second):
                m.d.sync += [place.eq(place + 1), wins.eq((count != 0) & (key < least))]
                with m.If(presents):
                    m.d.sync += [full.eq(Const(0) if self.most else presented == TOP - 1),
                                 self.starting.eq(left.any() if self.prototype else 0)]
                    if self.most:
                        m.d.sync += [self.presents.eq(more), self.halves.eq(halves)]
                with m.If(last):
                    m.d.sync += place.eq(0)
                    with m.If(Const(0) if self.most else ~halve & full | presents & (presented == TOP - 1)):
                        m.d.sync += halve.eq(1)
                    with m.Else():
                        m.d.sync += [running.eq(0), ends.eq(1)]
        with m.If(self.start):
            m.d.sync += [running.eq(1), place.eq(0), second.eq(0), least.eq(-1), halve.eq(0), full.eq(0)]
        return m

    def _word(self, stored):
        """The word of a host from what is stored: without prototype presentations a forgotten class has one bit behind `presented`."""
        return Cat(stored[:8], Const(0, 7), stored[8]) if self.forget and not self.prototype else stored

    def _stored(self, word):
        """Inverse of `_word`."""
        return Cat(word[:8], word[15]) if self.forget and not self.prototype else word

    def _limits(self, m, write, running, renews):
        """The writes of limits: 0 of a class that begins, one of the learner, or one of the host."""
        m.d.comb += [write.data.eq(Mux(self.move, self.limit, self.data[:self.count_bits] & ~running.replicate(self.count_bits))),
                     write.en.eq(Mux(running, renews, self.host_write[0] | self.move))]
