"""A learner with banks and an array of its own, for simulation, and designs of it: name -> `Case`."""

import os
from dataclasses import dataclass

import numpy as np
from amaranth import Cat, Module, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In

from fbnn_hw.machine import timing
from fbnn_hw.machine.learner import LearnPlan
from fbnn_hw.reference.learning import Head, LearnConfig, Learner
from fbnn_hw.rtl.array import MacArray
from fbnn_hw.rtl.learning.learner import Learner as LearnerHardware
from fbnn_hw.rtl.spram import SinglePortMemory

ALIGNED = 3
STEPS = 70 if os.environ.get("FBNN_SLOW") else 35
"""Commands of a run, unless the case says so."""


@dataclass(frozen=True)
class Case:
    """head, config: of the reference.  shipped: classes it starts with.  shape: Q, L.  steps: commands of a run.  noise: share of bits
    that differ from the class's own pattern.  grows: share of samples that are of a new class, as long as there is room.
    gaps: rows before the latent, the tables of the classes, the slots."""

    head: Head
    config: LearnConfig
    shipped: int = 0
    shape: tuple = (4, 16)
    boot: str = "rows"
    steps: int = STEPS
    noise: float = 0.45
    grows: float = 0
    gaps: tuple = (0, 0, 0)

    def plan(self):
        latent, learn, slots = self.gaps
        base = latent + (self.head.latent + self.head.hidden) // self.shape[1] + learn
        first = LearnPlan.of(self.head, self.config, *self.shape, self.shipped, latent, base, boot=self.boot)
        return LearnPlan.of(self.head, self.config, *self.shape, self.shipped, latent, base, first.slots_base + slots, self.boot)

    def learner(self):
        """The reference, with shipped weights of its own."""
        source = np.random.default_rng(self.config.seed)
        hidden = source.integers(0, 2, (self.head.hidden, self.head.hidden_fan_in), dtype=np.uint8)
        return Learner(self.head, self.config, hidden, source.integers(0, 2, (self.shipped, self.head.fan_in), dtype=np.uint8))


def _case(latent, max_classes, slots, head=None, case=None, **config):
    return Case(Head(latent, **(head or {})), LearnConfig(max_classes, slots, **config), **(case or {}))


CASES = {
    "one": _case(32, 1, 1, counter_bits=1, temperature=4, seed=2, replays=2),
    "full": _case(48, 9, 20, {"copies": 3}, {"shipped": 9, "boot": "words", "gaps": (7, 3, 5), "noise": 0.1}, temperature=20,
                  counter_bits=3, confidence=3, seed=5),
    "skip": _case(64, 13, 24, {"copies": 2, "hidden": 16, "groups": 2, "hidden_copies": 2}, {"shipped": 3, "gaps": (1, 1, 1)},
                  temperature=10, seed=11, confidence=1),
    "thinned": _case(64, 4, 12, case={"shipped": 1, "noise": 0.2}, thinning=1, temperature=10, seed=6),
    "wide": _case(32, 4, 6, case={"shape": (4, 32)}, counter_bits=4, thinning=0, temperature=10, seed=7),
    "begun": _case(64, 5, 16, case={"shape": (8, 16)}, counter_bits=4, temperature=6, seed=4, prototype=5),
    "means": _case(64, 11, 1, {"copies": 2}, {"noise": 0.2, "gaps": (3, 1, 2)}, rule="means", counter_bits=3, replays=0,
                   thinning=0, seed=9),
    "nearest": _case(64, 7, 1, {"copies": 2}, {"noise": 0.3, "gaps": (2, 3, 1)}, rule="nearest-mean", counter_bits=4, replays=0,
                          thinning=0, seed=10, unknown=True, forget=True),
    "nearest_wide": _case(32, 5, 1, case={"noise": 0.3, "shape": (8, 32)}, rule="nearest-mean", counter_bits=3, replays=0, thinning=0,
                          seed=12),
    "forgets": _case(32, 5, 7, {"copies": 2}, {"shipped": 2, "noise": 0.2}, temperature=6, counter_bits=4, prototype=3, seed=13,
                     forget=True),
    "prototypes": _case(32, 100, 1, case={"noise": 0.3, "steps": 320, "grows": 0.9}, rule="prototypes", counter_bits=4, replays=0,
                        thinning=0, seed=8),
}


class LearningBoard(wiring.Component):
    """The learner, Q banks and an array of Q x 1.  stall: pauses of the rows, from 0, never, to 15, mostly.  cut: reset.

    Inputs are registered, which halves what Verilator makes of it: what is asked for is taken as it comes and held until it is done.
    """

    def __init__(self, case):
        self.case, self.plan = case, case.plan()
        self.score_bits = (self.plan.fan_in_words * self.plan.planes).bit_length() + self.plan.lanes.bit_length() + 1
        depth = max(self.plan.slots_base + self.plan.slot_rows * self.plan.slots, 2)
        self.depth = depth
        self.learner = LearnerHardware(self.plan, self.score_bits, ALIGNED,
                                       ALIGNED + timing.accumulated(self.plan.lanes) - timing.READ - 1, (depth - 1).bit_length())
        names = ("command", "refused", "busy", "class_count", "used", "frozen", "logits", "best", "host", "host_reply",
                 *["unknown"] * self.plan.unknown)
        super().__init__({name: self.learner.signature.members[name] for name in names} | {"stall": In(4), "cut": In(1)})

    def elaborate(self, platform):
        board, m = Module(), Module()
        p = self.plan
        m.submodules.learner = learner = self.learner
        stall, cut = Signal(4), Signal()
        board.d.sync += [stall.eq(self.stall), cut.eq(self.cut)]
        board.submodules.inside = ResetInserter(cut)(m)
        for name in ("refused", "class_count", "used", "frozen", "best", "host_reply", *["unknown"] * p.unknown):
            m.d.comb += getattr(self, name).eq(getattr(learner, name))
        for name in ("command", "host"):
            asked, inside = getattr(self, name), getattr(learner, name)
            with m.If(inside.ready):
                m.d.sync += inside.valid.eq(0)
            with m.If(asked.valid):
                m.d.sync += [inside.valid.eq(1), inside.payload.eq(asked.payload)]
            m.d.comb += asked.ready.eq(inside.valid & inside.ready)
        m.d.comb += [self.busy.eq(learner.busy | learner.command.valid), self.logits.valid.eq(learner.logits.valid),
                     self.logits.payload.eq(learner.logits.payload)]
        m.d.sync += learner.logits.ready.eq(self.logits.ready)
        random = Signal(16, init=1)
        m.d.sync += random.eq(Cat(random[1:], random[0] ^ random[2] ^ random[3] ^ random[5]))
        rows = learner.rows
        m.d.comb += rows.ready.eq(random[:4] >= stall)
        address, write, word = Signal.like(rows.payload.address), Signal(p.pixels), Signal(p.pixels * p.lanes)
        # Whoever else uses the port in a pause reads somewhere.
        m.d.sync += [address.eq(random), write.eq(0), word.eq(rows.payload.word.replicate(p.pixels))]
        with m.If(rows.valid & rows.ready):
            m.d.sync += [address.eq(rows.payload.address), write.eq(rows.payload.write)]
        banks = []
        for q in range(p.pixels):
            m.submodules[f"bank{q}"] = bank = SinglePortMemory(self.depth, p.lanes, p.lanes, "wrapper")
            m.d.comb += [bank.address.eq(address), bank.write_data.eq(word.word_select(q, p.lanes)), bank.write_mask.eq(1),
                         bank.write_enable.eq(write[q])]
            banks.append(bank.read_data)
        m.d.comb += learner.read.eq(Cat(banks))

        m.submodules.array = array = MacArray(p.pixels, p.lanes, 1, self.score_bits)
        flags = [rows.valid & rows.ready & rows.payload.forward, rows.payload.first]
        for t in range(ALIGNED):
            later = [Signal(name=f"valid{t}"), Signal(name=f"first{t}")]
            m.d.sync += [a.eq(b) for a, b in zip(later, flags)]
            flags = later
        pixels = Signal(p.pixels * p.lanes)
        m.d.sync += pixels.eq(learner.read)
        m.d.comb += [array.pixels.eq(pixels), array.weights.eq(learner.act), array.valid.eq(flags[0]), array.first.eq(flags[1]),
                     learner.scores.eq(array.accumulators)]
        if "start" in array.signature.members:
            m.d.comb += array.start.eq(-(p.fan_in_words * p.lanes // 2))
        if p.boot == "words":
            shipped = self.case.learner().shipped.reshape(-1, p.lanes)
            init = [int(sum(int(b) << i for i, b in enumerate(row))) for row in shipped]
            m.submodules.shipped = memory = Memory(shape=p.lanes, depth=max(2, len(init)), init=init)
            read = memory.read_port()
            m.d.comb += [read.addr.eq(learner.boot_address), learner.boot_word.eq(read.data)]
        return board
