"""Checks of the leaf components, written once for every simulator.

A check is a coroutine that gets `cycle`: `await cycle(inputs)` drives the named inputs, lets the logic settle, returns the
outputs as integers as they are before the clock edge, and passes the edge.  An input keeps its value until driven again.
All values are unsigned integers; a signed member is driven and read modulo 2^width.  Random ones come from the seed alone.
"""

import random
from itertools import product

from fbnn_hw.rtl.popcount import XnorPopcount


async def popcount(cycle, width, registers, words=400, seed=1):
    """All pairs of words where there are at most 2^10, else the corners and `words` random ones; one word a clock."""
    ones = (1 << width) - 1
    if width <= 5:
        pairs = list(product(range(1 << width), repeat=2))
    else:
        source = random.Random(seed)
        pairs = [(0, 0), (ones, ones), (0, ones), (ones, 0)]
        pairs += [(1 << i, 0) for i in range(width)] + [(ones, ones ^ (1 << i)) for i in range(width)]
        for _ in range(words):
            act, other = source.getrandbits(width), source.getrandbits(width)
            pairs.append((act, other) if source.random() < 0.5 else (act, act ^ (other & source.getrandbits(width))))
    pairs += [(0, 0)] * registers
    counts = [bin(ones ^ act ^ weight).count("1") for act, weight in pairs]
    for time, (act, weight) in enumerate(pairs):
        found = (await cycle({"act": act, "weight": weight}))["count"]
        if time >= registers:
            expected = counts[time - registers]
            assert found == expected, f"popcount {width}, registers {registers}: word {time - registers} gave {found}, expected {expected}"
            assert expected == XnorPopcount.compute(*pairs[time - registers], width)
