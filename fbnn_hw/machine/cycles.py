"""The cycles of a frame.  The schedule is static, so they are computed, and a simulation must give the same.

Pixels are assumed to be always on offer and results to be always taken.  A beat of the weight stream is on offer in the cycle after
the one before it was taken, but for a pause of a cycle after each `config.burst` beats.  From a flash of 4 bits a clock a pause follows
each byte; `rtl.sdram` keeps the pace of an SDRAM, `timing.BURST` beats.
"""

from dataclasses import dataclass, field
from typing import Any

from . import timing
from .config import AcceleratorConfig

NEVER = 1 << 62
LOGITS = "logits"
"""Label of the work that a learner does in a frame: the logits."""
HORIZON = 16
"""Cycles after which a moment of the past has no effect: a mover that has run up to a cycle looks back by less."""
MOST_TILES = 1 << 16
"""Tiles that are remembered."""

BOUNDS = {
    "compute": "the array is at work in most cycles",
    "flash": "most cycles are spent waiting for weights from the flash",
    "sdram": "most cycles are spent waiting for weights from the SDRAM",
    "memory": "a dense layer uses each weight for one pixel, so weights leave the memory on the chip as fast as it can give them",
    "pooling": "the pooling unit works on one channel at a time",
    "control": "most cycles go to setting up steps and writing results"}
"""What can bind a layer, and what each word means."""


@dataclass
class LayerCycles:
    """Cycles of one layer in one pass."""

    reads: int = 0  # of the array
    drain: int = 0  # for writing blocks
    move: int = 0  # given to resident rows
    wait: int = 0  # for weights
    other: int = 0  # steps, tiles, logits

    @property
    def total(self) -> int:
        return self.reads + self.drain + self.move + self.wait + self.other

    def add(self, other: "LayerCycles") -> None:
        """Count the cycles of another one too."""
        self.reads += other.reads
        self.drain += other.drain
        self.move += other.move
        self.wait += other.wait
        self.other += other.other

    def bound(self, kind: str, stream: str = "flash") -> str:
        """The resource that most cycles of the layer go to, a key of BOUNDS.

        kind: the layer's `graph.Layer.kind`.  stream: where the weight stream comes from, "flash" or "sdram".
        """
        most = max(vars(self), key=vars(self).__getitem__)
        if most == "reads":
            return {"lgap": "pooling", "dense": "memory", "logits": "memory"}.get(kind, "compute")
        return {"wait": stream, "move": "memory"}.get(most, "control")


@dataclass
class PassCycles:
    """One pass, of one frame or more."""

    load: int = 0  # cycles from LOAD to START, of all its images
    total: int = 0  # cycles from the last result of a pass to that of the next
    layers: dict[str, LayerCycles] = field(default_factory=dict)  # by label


def stream_cycles(bits: int, beat_bits: int, burst: int) -> int:
    """Cycles in which a weight stream brings so many bits, on average and rounded up."""
    return -(-bits * (burst + 1) // (beat_bits * burst))


class _NoMover:
    """Takes the mover's place in a design whose weights all lie in memory: every word is at hand, nothing moves."""

    def __init__(self, config):
        self.opened = []
        self.booted = (2 * config.load_bytes - 1) * config.loads  # of a source that gives a byte in two cycles, as a flash does

    def begin(self, now):
        return ()

    def next(self, now):
        return NEVER, False

    def run(self, until, blocked):
        pass

    def pop(self, words, now):
        pass


class Mover:
    """The weight mover, event by event."""

    def __init__(self, config: AcceleratorConfig):
        self.config = config
        self.rows = config.rows_per_word
        self.read = timing.read(config.memory_registers)
        self.landing = min(1, config.memory_registers)  # cycles from a row's coming until the ring has it, beyond one
        self.beats = config.row_bits // config.beat_bits  # of a row; two at least, since the mover's registers need a cycle between rows
        self.depth = config.weight_words
        self.reserved, self.level = 0, 0
        self.frees: list[tuple[int, int]] = []  # (cycle from which the words can be reserved again, words)
        self.lands: list[int] = []  # for each word, the cycle from which it counts as being in the ring
        self.row = self.phase = self.transfer = self.after = 0
        self.loaded = 0  # transfers that have begun, and late words that a filler chose
        self.opened: list[int] = []  # for each step of the pass, the cycle from which rows that it frees may be written
        self.flying = -1  # cycle of the last request
        booting = config.boot_rows * self.beats  # beats, from cycle 0 on without a stop
        self.taken = (booting + self.beats) % config.burst  # beats since the last pause
        # The cycles in which the last boot row has left, and in which the row behind it is whole.
        self.booted, self.full = (count + (count - 1) // config.burst for count in (booting, booting + self.beats))
        self.booted += 1
        self._load(self.booted)

    def _take(self, now):
        """Note when the next row of the stream is whole: its first beat may come in cycle `now`, in which the row before leaves."""
        first = self.full + (self.taken == 0)
        pauses = (self.taken + self.beats - 1) // self.config.burst  # between its beats
        self.full = (now if now > first else first) + self.beats + pauses
        self.taken = (self.taken + self.beats) % self.config.burst

    def _load(self, address):
        """Begin the next transfer.  address: cycle of the state ADDRESS."""
        transfers = self.config.transfers
        if self.transfer == len(transfers):
            self.transfer = 0
            address += 1
        self.words_left = transfers[self.transfer].words
        self.share = transfers[self.transfer].resident
        self.after = transfers[self.transfer].after
        self.transfer += 1
        self.loaded += 1
        self.phase = 0
        self.ready = address + 3 + (self.after > 0)

    def next(self, now):
        """Return (cycle, uses_port) of the next move.

        cycle: `now` or later, where the port is free then; NEVER while the mover waits for space in
        the ring, or for a step to begin.  uses_port: whether the move reads or writes the banks.
        """
        if self.after:
            if self.after > len(self.opened):
                return NEVER, True
            return max(now, 2 + max(self.ready, self.full, self.opened[self.after - 1])), True
        resident = self.phase + self.share >= 16
        # What allows a move is known a cycle before it: a resident row is then requested, for others a register notes it.
        when = now - 1 if now > self.ready else self.ready
        if self.row == 0:
            while self.frees and self.frees[0][0] <= when:
                self.reserved -= self.frees.pop(0)[1]
            if self.reserved == self.depth:
                if not self.frees:
                    return NEVER, resident
                when = self.frees[0][0]
        if not resident:
            if when < self.full - 1:
                when = self.full - 1
            if when < self.flying + self.read + 1:
                when = self.flying + self.read + 1
        return when + 1, resident

    def move(self, now, resident):
        """Move a row in cycle `now`: a resident one from the banks to the ring, else one of the stream."""
        if self.row == 0 and not self.after:
            while self.frees and self.frees[0][0] < now:
                self.reserved -= self.frees.pop(0)[1]
            self.reserved += 1
        if self.after:
            self._take(now + 1)  # it is written in the next cycle
        elif resident:
            self.flying = now
        else:
            self._take(now)
        self.ready = now + 1 - resident
        self.row += 1
        if self.row == self.rows:
            self.row = 0
            self.phase = (self.phase + self.share) & 15
            self.words_left -= 1
            if not self.after:
                self.lands.append(now + self.landing + (self.read + 1 if resident else 1))
            if self.words_left == 0:
                self._load(now + (not resident or self.after > 0))

    def run(self, until, blocked):
        """Make all moves of the cycles before `until`.  blocked(cycle): the first cycle from `cycle` on in which the port is free."""
        while True:
            when, resident = self.next(0)
            if resident and when < until:
                when = blocked(when)
            if when >= until:
                self.ready = max(self.ready, until - 1 - (self.after > 0))
                return
            self.move(when, resident)

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
                if when == NEVER:
                    raise ValueError("a tile is larger than the ring")
                self.move(blocked(when) if resident else when, resident)

    def state(self, now):
        """All that decides what comes from cycle `now` on while `repeats` holds, with cycles counted from `now`."""
        opened = None
        if self.after:
            opened = max(self.opened[self.after - 1] - now, -HORIZON) if self.after <= len(self.opened) else NEVER
        return (self.row, self.phase, self.reserved, self.level, self.taken, self.share, opened,
                max(self.ready - now, -HORIZON), max(self.full - now, -HORIZON), max(self.flying - now, -HORIZON),
                tuple((max(cycle - now, -HORIZON), words) for cycle, words in self.frees),
                tuple(max(cycle - now, 0) for cycle in self.lands))

    def begin(self, now):
        """Begin a pass in cycle `now`; return all that decides what comes from there on."""
        self.opened.clear()
        self.run(now, lambda cycle: cycle)
        return self.state(now), self.transfer, self.words_left

    def repeats(self, words):
        """Whether the next `words` words of the transfer come as they came from an equal `state`."""
        return words < self.words_left

    def become(self, state, now, words):
        """Take over a `state` of the same transfer, in cycle `now`, after moving `words` more of its words."""
        self.row, self.phase, self.reserved, self.level, self.taken, _, _, ready, full, flying, frees, lands = state
        self.ready, self.full, self.flying = now + ready, now + full, now + flying
        self.frees = [(now + cycle, words) for cycle, words in frees]
        self.lands = [now + cycle for cycle in lands]
        self.words_left -= words

    def pop(self, words, now):
        """Give `words` words of the ring back in cycle `now`."""
        while self.lands and self.lands[0] <= now:
            self.lands.pop(0)
            self.level += 1
        self.level -= words
        if words:
            self.frees.append((now + self.read + 1, words))


@dataclass
class _Tile:
    """What came of a tile."""

    cycles: int
    spent: LayerCycles
    words: int  # of the mover's transfer
    state: tuple  # of the mover, at the end
    pending: list[int]  # cycles of drains, counted from the end


_kinds: dict[tuple, int] = {}
"""Numbers of the kinds of tiles: all that decides what comes of one, but for the state in which it begins."""
_tiles: dict[tuple, _Tile] = {}
"""What came of tiles, by their kind and that state."""


@dataclass(frozen=True)
class Passes:
    """Passes one after the other from reset, up to the first one that began as an earlier one did."""

    each: list[PassCycles]
    period: int = 0  # so many of the last ones come again and again; 0 where none of them began as an earlier one

    @property
    def first(self) -> PassCycles:
        return self.each[0]

    @property
    def later(self) -> PassCycles:
        """The pass that stands for all later ones: the longest of those that come again, or the last."""
        return max(self.each[-self.period or -1:], key=lambda each: each.total)


MOST_PASSES = 100
"""Passes that are simulated until one comes again.  It is the third one, but where passes are over before the ring of weights is full."""


def passes(config: AcceleratorConfig) -> Passes:
    """Cycles of the passes of a design."""
    return Run(config).passes(MOST_PASSES)


def loads_in_time(config: AcceleratorConfig, frame: PassCycles) -> bool:
    """Whether an image is loaded beside the program by the end of a pass, whoever else writes to the banks.

    frame: the cycles of a pass.  A write of the drain takes a cycle from the loader at most.
    """
    steps = config.program[config.image_steps:]
    rest = sum(frame.layers[name].total for name in {step.layer for step in steps})
    writes = sum(step.tiles * (step.rows * step.columns if step.kind == "conv" else timing.POOL_WRITE) for step in steps)
    first, later = timing.load_cycles(config.size ** 2, config.pieces, config.encoder_rate, config.lanes)
    return max(first, later) + writes + HORIZON < rest


def learn_cycles(config: AcceleratorConfig) -> int:
    """Cycles that learning one new sample of a known class takes, its replays included.

    Every presentation moves counters, the buffer is full with equal shares of the classes, and the number of draws is the average.
    """
    learning = config.learning
    assert learning
    draws = (1 + learning.replays) * config.classes * 2 ** learning.slot_bits / learning.slots
    return learning.learn_cycles(config.classes, learning.replays, 1 + learning.replays, round(draws), True)


class Run:
    """The sequencer and the weight mover together, from reset on."""

    def __init__(self, config, mover=Mover):
        self.config = config
        self.streams = config.weights == "stream"
        self.mover: Any = mover(config) if self.streams else _NoMover(config)
        self.load = timing.load_cycles(config.size ** 2, config.pieces, config.encoder_rate, config.lanes)
        self.pending = []  # cycles in which a drain of the current step takes the port
        self.image_came = False  # during the pass before
        self.sizes = (config.lanes, config.outputs, config.memory_registers, config.start_reads, config.rows_per_word, config.row_bits,
                      config.beat_bits, config.burst, config.weight_words, config.loads_beside)

    def passes(self, most):
        now = 0  # cycle in which LOAD is entered
        began: dict[tuple, int] = {}  # {what decides a pass: its number}
        each: list[PassCycles] = []
        while len(each) < most:
            begins = self.mover.begin(now)
            if begins in began:
                return Passes(each, len(each) - began[begins])
            if each:  # the first pass begins without an image
                began[begins] = len(each)
            frame, now = self.one_pass(now)
            each.append(frame)
        return Passes(each)

    def one_pass(self, now):
        """Return (`PassCycles` of the pass that begins in cycle `now`, cycle in which the next pass begins)."""
        config = self.config
        frame, begin = PassCycles(), now
        closed = now  # cycle from which resident rows have no port
        for step in config.program:
            if step.load:
                start = self.image_loaded(now, closed)
                frame.load += start - now
                now = start + 1  # ADDRESS
            now = self.step(step, frame.layers.setdefault(step.layer, LayerCycles()), now)
            if step.result and config.learning:
                scores = frame.layers.setdefault(LOGITS, LayerCycles())
                scores.other = timing.CLASSIFY + config.learning.classify_cycles(config.classes)
                now += scores.other
            if step.result:
                closed = now = now + timing.end(config.memory_registers) + 1  # RESULT, then LOAD or START
        frame.total = now - begin
        self.image_came = config.loads_beside
        return frame, now

    def image_loaded(self, now, closed):
        """Return the cycle in which an image is in the banks.

        now: cycle in which the state LOAD of that image is entered.  closed: cycle from which resident rows have no port.
        """
        if self.image_came:
            return now + 1
        self.mover.run(closed, lambda cycle: cycle)
        booted = max(now, self.mover.booted)
        if self.config.learning:
            plan = self.config.learning
            booted = max(booted, plan.boot_cycles)
            if self.config.loads and (shipped := plan.boot_cycles - plan.pass_cycles):  # which come when all weights are there
                booted = max(booted, self.mover.booted + 1 + shipped)
        start = booted + self.load[booted > 0]
        # Resident rows wait while pixels come in, and one cycle longer.
        self.mover.run(start + 1, lambda cycle: max(cycle, start + 1))
        return start

    def free(self, cycle):
        """First cycle >= `cycle` in which no drain takes the port."""
        while cycle in self.pending:
            cycle += 1
        return cycle

    def step(self, step, layer, now):
        """Run a step whose state ADDRESS is in cycle `now`; return the cycle in which the next step begins."""
        self.pending = []
        fetch = timing.fetch(self.config.memory_registers) + self.config.step_words
        tile_at = now + fetch
        self.mover.opened.append(tile_at + timing.OPEN)
        layer.other += fetch
        self.kind = _kinds.setdefault((
            self.sizes, self.config.block_reads(step), step.rows * step.columns, step.kind, step.logits, step.valid, step.bias > 0,
            step.tile_words), len(_kinds))
        run = self.tile_again if self.streams else self.tile
        for tile in range(step.tiles):
            tile_at = run(step, layer, tile_at, tile == step.tiles - 1)
        return tile_at

    def tile(self, step, layer, tile_at, last):
        """Run a tile; return the cycle in which the next one begins.

        tile_at: cycle in which the tile before it ended.  last: it is the last one of its step.
        """
        cycle = self.tile_reads(step, layer, self.tile_begins(step, layer, tile_at))
        self.mover.pop(step.tile_words, cycle - 1)
        return self.tile_ends(step, layer, cycle, last)

    def tile_again(self, step, layer, tile_at, last):
        """As `tile`; a tile that begins as an earlier one did, of this or of another design, takes as long."""
        mover, pending = self.mover, [drain - tile_at for drain in self.pending if drain >= tile_at - HORIZON]
        mover.run(tile_at, self.free)  # so that it looks back by less than HORIZON
        key = self.kind, last, tuple(pending), mover.state(tile_at)
        tile = _tiles.get(key)
        if tile and mover.repeats(tile.words):
            end = tile_at + tile.cycles
            mover.become(tile.state, end, tile.words)
            self.pending = [end + drain for drain in tile.pending]
            layer.add(tile.spent)
            return end
        spent, loaded, words = LayerCycles(), mover.loaded, mover.words_left
        end = self.tile(step, spent, tile_at, last)
        layer.add(spent)
        if mover.loaded == loaded and mover.repeats(0):
            if len(_tiles) >= MOST_TILES:  # kinds are few
                _tiles.clear()
            _tiles[key] = _Tile(end - tile_at, spent, words - mover.words_left, mover.state(end), [drain - end for drain in self.pending])
        return end

    def tile_begins(self, step, layer, tile_at):
        """Return the cycle of a tile's first read.  tile_at: cycle in which the tile before it ended."""
        mover = self.mover
        mover.run(tile_at, self.free)
        ready = mover.level_time(step.tile_words, tile_at, self.free) if self.streams else tile_at
        layer.wait += ready - tile_at
        begin = timing.TILE + timing.LEVEL * self.streams
        layer.other += begin
        cycle = ready + begin
        mover.run(cycle, self.free)
        if step.bias:
            lanes = self.config.lanes
            bias = timing.start(lanes) if self.config.start_reads else timing.bias(lanes, self.config.memory_registers)
            layer.other += bias
            cycle += bias
            mover.run(cycle, self.free)
        return cycle

    def tile_reads(self, step, layer, cycle):
        """Make all reads of a tile from `cycle` on; return the cycle after the last one."""
        reads, blocks = self.config.block_reads(step), step.rows * step.columns
        drains = step.kind == "conv" and not step.logits and not self.config.loads_beside  # else they take a port of their own
        layer.reads += reads * blocks
        before = None
        while blocks:
            begin, drained, still = cycle, layer.drain, self.mover.next(cycle)[0] == NEVER
            cycle = self.block_reads(layer, reads, cycle)
            self.mover.run(cycle, self.free)
            if drains:
                self.pending.append(cycle - 1 + timing.drained(self.config.lanes, self.config.memory_registers) - 1)
            blocks -= 1
            coming = [drain - cycle for drain in self.pending if drain >= cycle]
            if still and coming == before:  # the mover stands still until the tile's end, so all later blocks equal this one
                layer.drain += blocks * (layer.drain - drained)
                cycle += blocks * (cycle - begin)
                self.pending = [cycle + drain for drain in coming]
                self.mover.run(cycle, self.free)
                break
            before = coming
        return cycle

    def block_reads(self, layer, count, cycle):
        """Make `count` reads of a block from `cycle` on; return the cycle after the last one.

        A drain or a move of a resident row takes the port first; the read then waits for a cycle.
        """
        while count:
            if self.pending:
                self.pending = [drain for drain in self.pending if drain >= cycle]
            hold = self.pending[0] if self.pending else NEVER
            when, uses_port = self.mover.next(cycle)
            event = min(hold, when)
            if event >= cycle + count:
                return cycle + count
            count -= event - cycle
            cycle = event + 1
            self.mover.run(cycle, self.free)
            if hold <= when:
                layer.drain += 1
            elif uses_port:
                layer.move += 1
            else:  # a row of the stream moved beside a read
                count -= 1
        return cycle

    def tile_ends(self, step, layer, cycle, last):
        """Return the cycle in which the next tile begins.

        cycle: the one after the tile's last read.  last: the tile is the last one of its step.
        """
        if not (last or step.logits or step.kind == "lgap"):
            return cycle
        flush = timing.flush(self.config.lanes, self.config.memory_registers)
        layer.other += flush
        cycle += flush
        if step.logits:
            scores = timing.scores(step.valid if last else self.config.outputs, self.config.lanes)
            layer.other += scores
            cycle += scores
        elif step.kind == "lgap":
            layer.other += timing.POOL_WRITE
            self.pending += [cycle - 1, cycle]
            cycle += timing.POOL_WRITE
        self.mover.run(cycle, self.free)
        return cycle
