"""A state machine with a register for each state."""

from functools import reduce
from operator import or_

from amaranth import Cat, Signal


class OneHot:
    """A state machine whose states are bits, so that nothing waits until the number of the state is decoded.

    It is used as `m.FSM` is, in the domain sync: as a context, with `state` in the place of `m.State` and `go` in
    the place of `m.next`.  The last `go` of a clock counts.
    """

    def __init__(self, m, init):
        self.m, self.init = m, init  # the state after reset
        self.bits = {}  # {state: its register}
        self.targets = {}  # {state: {following state: whether it follows}}
        self.leaves = {}  # {state: it is left}
        self.current = None

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        if failure[0] is None:
            for name, bit in self.bits.items():
                enters = [self.bits[state] & targets[name] for state, targets in self.targets.items() if name in targets]
                self.m.d.sync += bit.eq(reduce(or_, enters, bit & ~self.leaves[name]))

    def ongoing(self, name):
        """The bit of a state."""
        if name not in self.bits:
            self.bits[name] = Signal(init=name == self.init, name=f"in_{name.lower()}")
        return self.bits[name]

    def any(self, *names):
        """Whether it is in one of the states."""
        return Cat(self.ongoing(name) for name in names).any()

    def state(self, name):
        """The context of what a state does."""
        self.current = name
        self.targets[name], self.leaves[name] = {}, Signal(name=f"leave_{name.lower()}")
        return self.m.If(self.ongoing(name))

    def go(self, name):
        """The state is followed by `name`."""
        self.ongoing(name)
        targets = self.targets[self.current]
        self.m.d.comb += [self.leaves[self.current].eq(1), *(other.eq(0) for target, other in targets.items() if target != name)]
        if name not in targets:
            targets[name] = Signal(name=f"{self.current.lower()}_to_{name.lower()}")
        self.m.d.comb += targets[name].eq(1)
