"""Power cuts at random clocks of what a keeper does.

    python -m tests.rtl.keeper.cuts 10000 1        cuts, seed

Each round changes the learner's memory and has it saved, or undoes the newest state, and cuts the power at a random clock of that: of
the save, of the erasure after it, or of the boot.  After the next boot the learner must know the newest state that was kept, or the one
that was under way; the state before must not be lost either.
"""

import sys
import tempfile
from collections import Counter

from tests.rtl.keeper.puppet import Case, Puppet, build, plan, rng

UNKNOWN = 7
"""Seed of what a learner's memory has after power-up."""


class Log:
    """The states that were kept, in order, as seeds of `Puppet.fill`; `words` of each that may still be met."""

    def __init__(self, puppet):
        self.puppet, self.kept, self.words, self.count = puppet, [], {}, 100
        self.empty = puppet.fill(UNKNOWN)

    def new(self):
        self.count += 1
        self.words[self.count] = self.puppet.fill(self.count)
        return self.count

    def newest(self):
        return self.words[self.kept[-1]] if self.kept else self.empty

    def boot(self):
        """Cut the power, boot -> (state, words that the learner has)."""
        self.puppet.say("off")
        self.puppet.fill(UNKNOWN)
        self.puppet.say("on")
        state = self.puppet.run(until=3)
        return state, self.puppet.words()


def round_of(log, random, durations):
    """One cut -> what it was a cut of.  durations: cycles of a save and of all that follows it, of an undo and of a boot."""
    puppet, kind = log.puppet, random.choices(["save", "clean", "undo", "boot"], [70, 12, 12, 6])[0]
    if kind == "undo" and not (puppet.state().undoable and len(log.kept) > 1):
        kind = "save"
    under_way = None
    before = log.kept[-2] if len(log.kept) > 1 else None
    sure = log.sure  # the state before the newest one must be there
    if kind in ("save", "clean"):
        under_way = log.new()
        puppet.say("save")
        done = puppet.run(until=1) if kind == "clean" else puppet.run(random.randrange(durations["save"]), 1)
        if done.done:
            assert not done.failed
            log.kept.append(under_way)
            under_way, sure = None, len(log.kept) > 1
            puppet.run(random.randrange(durations["clean"]), 0)
    elif kind == "undo":
        puppet.say("undo")
        done = puppet.run(random.randrange(durations["undo"]), 1)
        if done.done:
            log.kept.pop()
            assert puppet.words() == log.newest() and not done.failed
            sure, before = False, None
        else:
            under_way, sure = before, None
    else:
        puppet.say("off"), puppet.say("on")
        puppet.run(random.randrange(durations["boot"]), 0)
    state, words = log.boot()
    if words == log.newest():
        pass
    elif under_way is not None and words == log.words[under_way]:
        if kind == "undo":
            log.kept.pop()
            sure = False
        else:
            log.kept.append(under_way)
            sure = len(log.kept) > 1
    else:
        raise AssertionError(f"{kind}: lost {log.kept[-3:]}, under way {under_way}; knows "
                             f"{[n for n, known in log.words.items() if known == words]}")
    if sure is None:  # the undo has not begun
        sure = log.sure
    assert state.undoable or not sure, (kind, log.kept[-3:])
    assert not (state.failed or state.foreign or state.stray) and (state.undoable is not None)
    log.sure = sure
    return kind


def cut(case, program, cuts, seed, **values):
    """So many cuts -> Counter of what they cut."""
    random, found = rng(seed), Counter()
    with Puppet(case, program, seed, **values) as puppet:
        log = Log(puppet)
        log.sure = False
        puppet.run(until=3)
        durations = {}
        start = puppet.run(until=2).cycles
        for _ in range(2):
            log.kept.append(log.new())
            saved = puppet.save().cycles
            cleaned = puppet.run(until=2).cycles
            durations |= {"save": saved - start + 1000, "clean": cleaned - saved + 1000}
            start = cleaned
        log.sure = True
        assert puppet.words() == log.newest()
        start = puppet.state().cycles
        log.boot()
        durations["boot"] = durations["undo"] = puppet.state().cycles - start
        durations["undo"] //= 2
        for number in range(cuts):
            try:
                found[round_of(log, random, durations)] += 1
            except AssertionError as error:
                raise AssertionError(f"cut {number} of seed {seed}: {error}") from None
        faults = puppet.faults()
        # What a cut leaves half done is erased before it is programmed.
        assert not faults, faults
        print(f"{cuts} cuts, seed {seed}, slots of {case.slot.bytes} bytes, {puppet.state().cycles:,} cycles: {dict(found)}, "
              f"{puppet.value('cuts')} of them amid an erasure or a program; no state lost, none invented")
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        case = Case(plan())
        cut(case, build(case, folder), int(sys.argv[1]), int(sys.argv[2]))
