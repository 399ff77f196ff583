"""The progress of yosys and nextpnr, read from their output."""

import re

HEADING = re.compile(r"(\d+)\.(\d+)\. Executing ")
PASSES = 60
"""Number in the last heading that yosys' synth_ice40 prints; other families have about as many."""
ITERATION = re.compile(r"at iteration #(\d+)(, type|:)")
ARCS = re.compile(r"Routing (\d+) arcs")
ROUTER1 = re.compile(r"Info:\s+\d+ \|[^|]*\|[^|]*\|\s*(\d+)\|")
ROUTER2 = re.compile(r"iter=\d+ wires=\d+ overused=(\d+)")
PLACED, REFINED, ROUTED = 0.2, 0.3, 0.98
"""Shares of the time that have passed after the analytic placement, after its refinement and after the routing.

Measured: 0.5mb that learns on the UP5K, 105 s.
"""
CONFLICTS, ROUNDS = 1000, 6
"""A router with more wires in conflict, whose fewest were so many rounds ago, is stuck.

Measured on an LFE5U-85F at 8 x 64 x 16: the conflicts of a streamed 0.5mb rose for six rounds; those of 3mb were fewer within two, in
all of 35.
"""


class SynthesisProgress:
    """share: of the synthesis that is done, 0 to 1; phase: in a word."""

    def __init__(self):
        self.share, self.phase = 0.0, "synthesis"

    def hear(self, line):
        """A line of yosys."""
        if match := HEADING.match(line):
            self.share = max(self.share, min(0.95, int(match[2]) / PASSES))


class PlaceProgress:
    """share: of place and route that is done, 0 to 1; phase: in a few words; stuck: wires in conflict where they stay, else None."""

    def __init__(self):
        self.share, self.phase, self.stuck = 0.0, "packing", None
        self._rounds: list[int] = []  # wires in conflict
        self._arcs = None

    def hear(self, line):
        """A line of nextpnr."""
        if match := ITERATION.search(line):
            count = int(match[1])  # how many come is not known
            if match[2] == ":":
                self._reach(PLACED + (REFINED - PLACED) * count / (count + 10), "placing")
            else:
                self._reach(PLACED * count / (count + 15), "placing")
        elif match := ARCS.search(line):
            self._arcs = int(match[1])
            self._reach(REFINED, "routing")
        elif self._arcs and (match := ROUTER1.search(line)):
            self._routed(int(match[1]), self._arcs, "arcs")
        elif match := ROUTER2.search(line):
            self._rounds.append(int(match[1]))
            fewest = min(self._rounds)
            if fewest > CONFLICTS and len(self._rounds) > self._rounds.index(fewest) + ROUNDS:
                self.stuck = fewest
            self._routed(self._rounds[-1], self._rounds[0], "wires")
        elif "Program finished normally" in line:
            self._reach(1.0, "placed and routed")

    def _routed(self, unrouted, total, unit):
        share = 1 - min(unrouted, total) / total if total else 1
        self._reach(REFINED + (ROUTED - REFINED) * share, f"routing, {unrouted:,} {unit} left")

    def _reach(self, share, phase):
        self.share, self.phase = max(self.share, share), phase
