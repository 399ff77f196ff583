"""How many cycles a frame takes: the schedule is static, so they are computed, and a simulation must give the same.

Conditions: pixels are always on offer, results are always taken, and the weight stream comes from a flash of 4 bits a
clock: after a byte is taken, the next one is on offer two cycles later.
"""

from dataclasses import dataclass, field
from itertools import product

from . import timing

NEVER = 1 << 62
LOGITS = "logits"
"""Name of what a learner does in a frame."""
BYTE_CYCLES = 2
"""A 4-bit flash gives a byte in two cycles."""


@dataclass
class LayerCycles:
    """Cycles of one layer: `reads` of the array, `drain` for writing blocks, `move` given to resident rows, `wait` for
    weights, `other` (steps, tiles, logits)."""

    reads: int = 0
    drain: int = 0
    move: int = 0
    wait: int = 0
    other: int = 0

    @property
    def total(self):
        return self.reads + self.drain + self.move + self.wait + self.other


@dataclass
class Frame:
    """One pass, of one frame or more.  load: cycles from LOAD to START, of all its images; layers: {name: LayerCycles}; total: from
    the last result of a pass to that of the next."""

    load: int = 0
    total: int = 0
    layers: dict = field(default_factory=dict)


class _NoMover:
    """All weights are at hand."""

    def next(self, now):
        return NEVER, False

    def run(self, until, blocked):
        pass

    def level_time(self, words, now, blocked):
        return now

    def pop(self, words, now):
        pass


class _Mover:
    """The weight mover, event by event."""

    def __init__(self, config):
        self.config = config
        self.rows = config.rows_per_word
        self.row_bytes = config.row_bits // 8
        self.depth = config.weight_words
        self.reserved, self.level = 0, 0
        self.frees = []  # (cycle from which the words can be reserved again, words)
        self.lands = []  # (cycle from which a resident word counts, 1)
        self.row = self.phase = self.transfer = 0
        self.flying = -1  # cycle of the last request
        self.full = self.row_bytes * BYTE_CYCLES - BYTE_CYCLES + 1  # first row of the stream, its first byte taken in cycle 0
        for _ in range(config.boot_rows):
            self._take(self.full)
        self.booted = self.full - self.row_bytes * BYTE_CYCLES + 1 if config.boot_rows else 0
        self._load(self.booted if config.boot_rows else 0)

    def _take(self, now):
        """The packed row is taken in cycle `now`."""
        self.full = now + 1 + (self.row_bytes - 1) * BYTE_CYCLES + 1

    def _load(self, address):
        """A new transfer; `address`: cycle of the state ADDRESS."""
        transfers = self.config.transfers
        if self.transfer == len(transfers):
            self.transfer = 0
            address += 1
        self.left = transfers[self.transfer].words
        self.share = transfers[self.transfer].resident
        self.transfer += 1
        self.phase = 0
        self.ready = address + 3

    def next(self, now):
        """(cycle >= now of the next move unless the port is taken, whether it uses the port); NEVER: it waits for space."""
        resident = self.phase + self.share >= 16
        when = max(now - resident, self.ready)  # a resident row is decided on a cycle before
        if self.row == 0:
            while self.frees and self.frees[0][0] <= when:
                self.reserved -= self.frees.pop(0)[1]
            if self.reserved == self.depth:
                if not self.frees:
                    return NEVER, resident
                when = self.frees[0][0]
        if not resident:
            when = max(when, self.full, self.flying + timing.READ + 1)
        return when + resident, resident

    def _move(self, now, resident):
        if self.row == 0:
            while self.frees and self.frees[0][0] <= now - resident:
                self.reserved -= self.frees.pop(0)[1]
            self.reserved += 1
        if resident:
            self.flying = now
        else:
            self._take(now)
        self.ready = now + 1 - resident
        self.row += 1
        if self.row == self.rows:
            self.row = 0
            self.phase = (self.phase + self.share) & 15
            self.left -= 1
            self.lands.append(now + (timing.READ + 1 if resident else 1))
            if self.left == 0:
                self._load(now + 1 - resident)

    def run(self, until, blocked):
        """Act in all cycles < until.  blocked(cycle): first cycle >= it in which the port is free."""
        while True:
            when, resident = self.next(0)
            if resident and when < until:
                when = blocked(when)
            if when >= until:
                self.ready = max(self.ready, until - resident)
                return
            self._move(when, resident)

    def level_time(self, words, now, blocked):
        """First cycle >= now in which at least `words` words are at hand."""
        while True:
            while self.lands and self.lands[0] <= now:
                self.lands.pop(0)
                self.level += 1
            if self.level >= words:
                return now
            if self.lands:
                now = self.lands[0]
            else:
                when, resident = self.next(0)
                assert when != NEVER, "a tile is larger than the ring"
                self._move(blocked(when) if resident else when, resident)

    def pop(self, words, now):
        while self.lands and self.lands[0] <= now:
            self.lands.pop(0)
            self.level += 1
        self.level -= words
        if words:
            self.frees.append((now + timing.READ + 1, words))


def frames(config, count=3):
    """`count` passes, one after the other from reset."""
    load = timing.load_cycles(config.size ** 2, config.planes, config.lanes, config.encoder_bits)
    mover = _Mover(config) if config.weights == "stream" else _NoMover()
    now = 0  # cycle in which LOAD is entered
    found = []
    for _ in range(count):
        frame = Frame()
        begin = now
        for step, following in zip(config.program, (*config.program[1:], None)):
            if step.load:
                entered = now
                if config.weights == "stream":
                    mover.run(now, lambda c: c)
                    booted = max(now, mover.booted)
                else:
                    booted = now
                if config.learning:
                    booted = max(booted, config.learning.boot_cycles)
                start = booted + load[booted > 0]
                frame.load += start - entered
                # While pixels come in, resident rows wait, and one cycle more.
                mover.run(start + 1, lambda c, start=start: max(c, start + 1))
                now = start + 1  # ADDRESS
            layer = frame.layers.setdefault(step.layer, LayerCycles())
            now = _step(config, step, layer, mover, now)
            end = timing.END + timing.STOP * (config.frames > 1)
            if step.result and config.learning:
                scores = frame.layers.setdefault(LOGITS, LayerCycles())
                scores.other = timing.CLASSIFY + config.learning.classify_cycles(config.classes)
                now += scores.other
            if step.result:
                now += end + 1  # RESULT, then LOAD or START
                now += following is not None and not following.load  # ADDRESS
            elif following.load:
                now += end  # LOAD
        frame.total = now - begin
        found.append(frame)
    return found


def _step(config, step, layer, mover, now):
    """One step that begins (ADDRESS) in cycle `now`; returns the cycle in which the next one begins."""
    drains = step.kind == "conv" and not step.logits
    reads = step.words * step.repeat * step.taps
    blocks = step.rows * step.columns
    pending = []  # cycles in which a drain takes the port

    def free(cycle):
        while cycle in pending:
            cycle += 1
        return cycle

    flush, bias = timing.flush(config.lanes), timing.bias(config.lanes)
    tile_at = now + timing.FETCH
    layer.other += timing.FETCH
    members = config.frames if step.shared else 1
    for tile, member in product(range(step.tiles), range(members)):
        mover.run(tile_at, free)
        ready = mover.level_time(step.tile_words, tile_at, free) if config.weights == "stream" else tile_at
        layer.wait += ready - tile_at
        begin = timing.TILE + timing.LEVEL * (config.weights == "stream")
        layer.other += begin
        cycle = ready + begin
        mover.run(cycle, free)
        if step.bias:
            layer.other += bias
            cycle += bias
            mover.run(cycle, free)
        layer.reads += reads * blocks
        for _ in range(blocks):
            left = reads
            while left:
                pending[:] = [p for p in pending if p >= cycle]
                hold = pending[0] if pending else NEVER
                move, uses_port = mover.next(cycle)
                event = min(hold, move)
                if event >= cycle + left:
                    cycle += left
                    break
                left -= event - cycle
                cycle = event
                mover.run(event + 1, free)
                if hold <= move:
                    layer.drain += 1
                    cycle += 1
                elif uses_port:
                    layer.move += 1
                    cycle += 1
                else:  # a row of the stream came in beside a read
                    left -= 1
                    cycle += 1
            mover.run(cycle, free)
            if drains:
                pending.append(cycle - 1 + timing.drained(config.lanes) - 1)
        if member == members - 1:
            mover.pop(step.tile_words, cycle - 1)
        tile_at = cycle
        last = tile == step.tiles - 1 and member == members - 1
        if last or step.logits or step.kind == "lgap":
            tile_at += flush
            layer.other += flush
            if step.logits:
                scores = step.valid if last else config.outputs
                layer.other += scores
                tile_at += scores
            elif step.kind == "lgap":
                layer.other += timing.POOL_WRITE
                pending += [tile_at - 1, tile_at]
                tile_at += timing.POOL_WRITE
            mover.run(tile_at, free)
    return tile_at
