"""The loops of the engine, run by the program."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..compile import timing
from ..compile.config import REWIND, STEP_WORDS
from .signals import unnamed


def bits_for(values):
    """Width of an unsigned signal for all of `values`."""
    return max(1, *(int(v).bit_length() for v in values))


class Widths:
    """Widths of the addresses and counters that a configuration needs."""

    def __init__(self, config):
        steps = config.program
        self.row = bits_for([config.feature_words - 1])
        self.address = bits_for([config.feature_end - 1])  # of features alone
        self.weight = bits_for([config.weight_words - 1])
        self.words = bits_for(s.words - 1 for s in steps)
        self.columns = bits_for(s.columns - 1 for s in steps)
        self.rows = bits_for(s.rows - 1 for s in steps)
        self.tiles = bits_for(s.tiles for s in steps)
        self.repeat = bits_for(s.repeat - 1 for s in steps)
        self.slots = bits_for([config.lanes // config.outputs - 1])
        self.valid = bits_for([config.outputs])
        self.tile_words = bits_for(s.tile_words for s in steps)


def step_layout(config):
    """The step at work, as fields."""
    w = Widths(config)
    return data.StructLayout({
        "lgap": 1, "pool": 1, "vector": 1, "logits": 1, "window": 1, "gap": 1, "depthwise": 1, "bias": 1, "shared": 1, "repeat": w.repeat,
        "source": w.address, "step": w.address, "advance": w.address, "row": w.address, "words": w.words, "columns": w.columns,
        "rows": w.rows, "target": w.address, "target_advance": w.address, "target_row": w.address, "tiles": w.tiles,
        "slot": w.slots, "valid": w.valid, "tile_words": w.tile_words})


def read_layout(config):
    """One read of the feature banks and the weight word that goes with it.

    address: the block's own word; ky, kx: the tap, 1 the centre; edges: the block lies at the top, bottom, left, right of
    the map.  word, lane: counters, for global pooling.  first, last: of a block's reads; row_end, tile_end: at `last`.
    """
    w = Widths(config)
    return data.StructLayout({
        "address": w.address, "ky": 2, "kx": 2, "top": 1, "bottom": 1, "left": 1, "right": 1, "weight": w.weight,
        "word": w.words, "lane": w.columns, "first": 1, "last": 1, "row_end": 1, "tile_end": 1, "bias": 1})


def frame_of_a_tile(config, step):
    """For a shared step: (counter of the frame at work, whether the same tile of another frame follows, words back from the last
    frame's map to the first one's)."""
    member = Signal(range(config.frames))
    if config.frames == 1:
        return member, Const(0, 1), 0
    return member, step.shared & (member != config.frames - 1), Mux(step.shared, (config.frames - 1) * config.frame_stride, 0)


class Sequencer(wiring.Component):
    """Fetches steps and issues their reads, one a cycle while `hold` is 0.

    Twin: the loop order in `fbnn_hw.compile.schedule`; its cycles: `fbnn_hw.compile.cycles`.

    start: begins the program, or goes on with it; begin: strobes before a step's first read; done: strobes at a stop, with its flags in
    `stop` from then on.  hold: the banks' port is taken this cycle.
    level: weight words at hand (ignored with weights == "memory"); pop, pop_words: a tile's weights are used up.
    valid, read: a read is issued.  step: fields of the step at work.
    pool_write: 1 strobes the average word out, 2 the learned word (in the following cycle); reserve: 1 two cycles before each of these
    cycles.  score_valid, score_ready, score_index: the logits of a tile are taken one by one.
    """

    def __init__(self, config):
        self.config = config
        self.scores = any(step.logits for step in config.program)  # else a learner makes the logits
        w = Widths(config)
        super().__init__({
            "start": In(1), "begin": Out(1), "done": Out(1), "stop": Out(3, init=REWIND), "hold": In(1),
            "level": In(range(config.weight_words + 1)), "pop": Out(1), "pop_words": Out(w.tile_words), "valid": Out(1),
            "read": Out(read_layout(config)), "step": Out(step_layout(config)), "pool_write": Out(2), "reserve": Out(1),
            "score_valid": Out(1), "score_ready": In(1), "score_index": Out(range(config.outputs)), "score_first": Out(1)})

    def elaborate(self, platform):
        m = Module()
        config, w = self.config, Widths(self.config)
        step, read = self.step, self.read

        words = config.program_words()
        m.submodules.program = program = Memory(shape=16, depth=len(words), init=words, attrs={"ram_style": "block"})
        fetch = program.read_port()
        pc = Signal(range(len(words) + 1))
        m.d.comb += fetch.addr.eq(pc)

        block = unnamed(w.address)
        current = unnamed(w.address)
        tile_source = Signal(w.address)
        weight = unnamed(w.weight)
        weight_base = Signal(w.weight)
        repeat = unnamed(w.repeat)
        word = unnamed(w.words)
        kx = unnamed(2)
        ky = unnamed(2)
        column = unnamed(w.columns)
        row = unnamed(w.rows)
        tile = Signal(w.tiles)
        flush, bias = timing.flush(config.lanes), timing.bias(config.lanes)
        pause = Signal(range(bias + 1))

        # Whether a counter stands at its end is known a cycle before: registers, so that `hold` alone decides late.
        ends = {}
        for name, counter, limit in (("repeat", repeat, step.repeat), ("word", word, step.words), ("column", column, step.columns),
                                     ("row", row, step.rows)):
            last = Signal(name=f"{name}_last")
            single = Signal(name=f"{name}_single")
            m.d.sync += single.eq(limit == 0)
            ends[name] = last, single, Mux(last, single, (counter + 1)[:len(counter)] == limit)
        repeat_last, word_last, column_last, row_last = (end[0] for end in ends.values())
        first = unnamed()
        tap_last = unnamed()
        tile_last = unnamed()
        finished = unnamed()
        m.d.sync += tile_last.eq(tile == step.tiles)
        first_tap = ~step.window  # a single tap is the centre, 1
        block_last = unnamed()
        map_last = Signal()
        m.d.comb += [
            block_last.eq(repeat_last & word_last & tap_last),
            map_last.eq(column_last & row_last),
            read.address.eq(current), read.ky.eq(ky), read.kx.eq(kx),
            read.top.eq(row == 0), read.bottom.eq(row_last), read.left.eq(column == 0), read.right.eq(column_last),
            read.weight.eq(weight), read.word.eq(word), read.lane.eq(column), read.first.eq(first), read.last.eq(block_last),
            read.row_end.eq(column_last), read.tile_end.eq(map_last)]

        # A tile of a shared step goes through the maps of all frames.
        member, more, back = frame_of_a_tile(config, step)

        # Weight words advance with every read; in global pooling only when a word's blocks are used up.
        per_word = config.outputs // config.pixels
        used_up = (word[:bits_for([per_word - 1])] == per_word - 1) if per_word > 1 else 1

        score = Signal(range(config.outputs))
        scores_left = Signal(range(config.outputs + 1))
        m.d.comb += [self.score_index.eq(score), self.pop_words.eq(step.tile_words)]
        running = Signal()
        reading = running & ~self.hold
        tile_done = Signal()
        m.d.comb += [self.valid.eq(reading), tile_done.eq(reading & block_last & map_last), self.pop.eq(tile_done & ~more)]
        with m.If(reading):
            m.d.sync += [first.eq(block_last), weight.eq(weight + Mux(step.lgap, used_up, 1)), repeat.eq(repeat + 1),
                         repeat_last.eq(ends["repeat"][2])]
            with m.If(repeat_last):
                m.d.sync += [repeat.eq(0), word.eq(word + 1), current.eq(current + step.step), word_last.eq(ends["word"][2])]
                with m.If(word_last):
                    m.d.sync += [word.eq(0), current.eq(block), kx.eq(kx + 1),
                                 tap_last.eq(Mux(tap_last, first_tap, (kx == 1) & (ky == 2)))]
                    with m.If(kx == 2):
                        m.d.sync += [kx.eq(0), ky.eq(ky + 1)]
                    with m.If(tap_last):
                        m.d.sync += [
                            kx.eq(first_tap), ky.eq(first_tap), weight.eq(weight_base + step.bias), block.eq(block + step.advance),
                            current.eq(block + step.advance), column.eq(column + 1), column_last.eq(ends["column"][2])]
                        with m.If(column_last):
                            m.d.sync += [column.eq(0), row.eq(row + 1), row_last.eq(ends["row"][2])]
                            with m.If(row_last):
                                m.d.sync += row.eq(0)
        with m.If(tile_done):
            m.d.sync += [
                running.eq(0), pause.eq(0), score.eq(0), tile_source.eq(tile_source + Mux(more, config.frame_stride, step.lgap - back)),
                scores_left.eq(Mux(tile_last, step.valid, config.outputs)), finished.eq(tile_last & ~more)]
            with m.If(~more):
                m.d.sync += [weight_base.eq(weight_base + step.tile_words), tile.eq(tile + 1)]
            if config.frames > 1:
                m.d.sync += member.eq(Mux(more, member + 1, 0))

        # A one runs along `arrived` while the words of a step come in.
        arrived = Signal(STEP_WORDS)
        fetching = Signal()
        m.d.sync += [arrived.eq(Cat(fetching, arrived)), self.begin.eq(0), self.done.eq(0)]
        flags = fetch.data
        with m.If(arrived[0]):
            m.d.sync += [
                step.lgap.eq(flags[0]), step.pool.eq(flags[1]), step.vector.eq(flags[2]), step.logits.eq(flags[3] & self.scores),
                step.window.eq(flags[4]), step.gap.eq(flags[5]), step.depthwise.eq(flags[6]), step.bias.eq(flags[7]),
                step.repeat.eq(flags[8:11]), step.shared.eq(flags[11] & (config.frames > 1))]
        for number, name in enumerate(("source", "step", "advance", "row", "words", "columns", "rows", "target", "target_advance",
                                       "target_row", "tiles", "slot", "valid", "tile_words"), start=1):
            with m.If(arrived[number]):
                m.d.sync += step[name].eq(fetch.data)

        def begin_tile():
            m.d.sync += running.eq(~step.bias if config.thresholds else 1)
            m.next = "RUN"
            if config.thresholds:
                with m.If(step.bias):
                    m.next = "BIAS"

        with m.FSM():
            with m.State("IDLE"):
                with m.If(self.start):
                    m.next = "ADDRESS"
            with m.State("ADDRESS"):
                m.d.sync += pc.eq(pc + 1)
                m.d.comb += fetching.eq(1)
                m.next = "FETCH"
            with m.State("FETCH"):
                with m.If(~arrived[-1]):  # with the last word `pc` already is at the next step
                    m.d.sync += pc.eq(pc + 1)
                with m.Else():
                    m.next = "SETUP"
                with m.If(arrived[0] & ~flags[15]):
                    m.d.sync += [self.done.eq(1), arrived.eq(0)]
                    if config.frames > 1:
                        m.d.sync += [self.stop.eq(flags), pc.eq(Mux(flags & REWIND, 0, pc))]
                    else:
                        m.d.sync += pc.eq(0)
                    if config.weights == "memory":
                        m.d.sync += weight_base.eq(0)
                    m.next = "IDLE"
            with m.State("SETUP"):
                m.d.sync += [tile.eq(0), tile_source.eq(step.source), self.begin.eq(1)]
                m.next = "TILE"
            with m.State("TILE"):
                m.d.sync += [
                    block.eq(tile_source), current.eq(tile_source), weight.eq(weight_base), kx.eq(first_tap), ky.eq(first_tap),
                    pause.eq(0), first.eq(1), tap_last.eq(first_tap), *(last.eq(single) for last, single, _ in ends.values())]
                if config.weights == "memory":
                    begin_tile()
                else:
                    m.next = "LEVEL"
            if config.weights == "stream":
                enough = Signal()
                m.d.sync += enough.eq(self.level >= step.tile_words)
                with m.State("LEVEL"):
                    with m.If(enough):
                        begin_tile()
            if config.thresholds:
                with m.State("BIAS"):
                    # The tile before may still accumulate with its own bias: let it finish, then read.
                    m.d.sync += pause.eq(pause + 1)
                    m.d.comb += read.bias.eq(pause == flush)
                    with m.If(pause == bias - 1):
                        m.d.sync += [weight.eq(weight_base + 1), running.eq(1)]
                        m.next = "RUN"
            with m.State("RUN"):
                with m.If(tile_done):
                    m.next = "TILE"
                    with m.If(tile_last & ~more | step.lgap | step.logits):
                        m.next = "FLUSH"
            with m.State("FLUSH"):
                m.d.sync += pause.eq(pause + 1)
                with m.If(pause == flush - 3):
                    m.d.sync += self.reserve.eq(step.lgap)
                with m.If(pause == flush - 1):
                    m.d.sync += self.reserve.eq(0)
                    with m.If(step.logits):
                        m.next = "SCORES" if self.scores else "ADDRESS"
                    with m.Elif(step.lgap):
                        m.d.sync += self.pool_write.eq(step.gap)
                        m.next = "AVERAGE"
                    with m.Else():
                        m.next = "ADDRESS"
            if self.scores:
                with m.State("SCORES"):
                    m.d.comb += [self.score_valid.eq(1), self.score_first.eq((tile == 1) & (score == 0))]
                    with m.If(self.score_ready):
                        m.d.sync += [score.eq(score + 1), scores_left.eq(scores_left - 1)]
                        with m.If(scores_left == 1):
                            m.next = "TILE"
                            with m.If(finished):
                                m.next = "ADDRESS"
            with m.State("AVERAGE"):
                m.d.sync += self.pool_write.eq(step.depthwise << 1)
                m.next = "LEARNED"
            with m.State("LEARNED"):
                m.d.sync += self.pool_write.eq(0)
                m.next = "TILE"
                with m.If(finished):
                    m.next = "ADDRESS"
        return m
