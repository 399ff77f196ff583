"""The loops of the engine, run by the program."""

from contextlib import nullcontext
from functools import reduce
from operator import or_
from types import SimpleNamespace

from amaranth import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..machine import timing
from ..machine.step import READ_BITS, READ_FIELDS, step_fields
from .signals import unnamed
from .states import OneHot


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
        self.order = bits_for([len(config.order)])
        self.source_rows = bits_for(s.source_rows - 1 for s in steps)
        self.source_columns = bits_for(s.source_columns - 1 for s in steps)
        self.column = bits_for([config.columns - 1])  # pixels of a block row
        self.lane = bits_for([config.lanes - 1])


EDGE = data.StructLayout({"inside": 1, "last": 1})
"""Where a row or column of blocks lies.  inside: in the map.  last: it is the last one of the map."""


def step_layout(config):
    """The fields of the current step."""
    w = Widths(config)
    return data.StructLayout({
        field.register: getattr(w, field.width) if isinstance(field.width, str) else field.width for field in step_fields(config.lists)})


def read_layout(config):
    """One read of the feature banks, and the weight word that goes with it.

    With lists of reads the sequencer of a large array gives the four edges a cycle after the rest of the read.
    """
    w = Widths(config)
    common = {
        "first": 1, "last": 1,  # the first, the last read of a block
        "row_end": 1, "tile_end": 1,  # with `last`: the block ends a row of blocks, a tile
        "bias": 1}
    if config.lists:
        return data.StructLayout({
            "address": w.address,  # word of pixel 0 of the moved block, without the move by y and x
            "y": 1, "x": w.column,  # pixels by which the block is moved besides
            "upper": EDGE, "lower": EDGE,  # of the row of blocks in which it lies, of the next one
            "left": EDGE, "right": EDGE,  # of the column of blocks in which it lies, of the next one
            "weight": w.weight,  # address of the weight word
            **common, **({"shift": 1} if config.shift else {}),
            # Of a spread step: tile slot, second read of a pair, pair mod L.
            **({"slot": w.slots, "second": 1, "pair": w.lane} if config.spreads else {})})
    return data.StructLayout({
        "address": w.address,  # word of the block
        "ky": 2, "kx": 2,  # the tap; 1 is the centre
        "top": 1, "bottom": 1, "left": 1, "right": 1,  # the block touches this edge of the map
        "weight": w.weight,  # address of the weight word
        "word": w.words, "lane": w.columns,  # counters, for global pooling
        **common})


class End:
    """Registers that know a cycle before whether a counter of the loops is at its end, so that `hold` is the only late signal."""

    def __init__(self, name, counter):
        self.last = Signal(name=f"{name}_last")  # it is at its end
        self.single = Signal(name=f"{name}_single")  # its end is 0
        self.place = Signal(len(counter), name=f"{name}_before")  # the value before the end
        self.before = counter == self.place  # its next value is the end, where that is not 0
        self.following = Mux(self.last, self.single, counter == self.place)  # `last` after the counter has counted


class Sequencer(wiring.Component):
    """Fetches steps and issues their reads, one a cycle while `hold` is 0.

    Twin: the order of the loops in `fbnn_hw.compile.loops`.

    Timing: `fbnn_hw.machine.cycles`, exactly.
    """

    def __init__(self, config):
        self.config = config
        self.scores = any(step.logits for step in config.program)  # else a learner computes the logits
        w = Widths(config)
        super().__init__({
            "start": In(1),  # begins the program
            "begin": Out(1),  # strobes before the first read of a step
            "done": Out(1),  # strobes at the end of the program
            "hold": In(1),  # the banks' port is taken in this cycle
            "level": In(range(config.weight_words + 1)),  # weight words at hand; ignored with weights == "memory"
            "pop": Out(1), "pop_words": Out(w.tile_words),  # the weights of a tile, so many words, are used up
            "valid": Out(1), "read": Out(read_layout(config)),  # a read is issued
            "step": Out(step_layout(config)),  # fields of the step at work
            "pool_write": Out(2),  # 1 strobes the average word out, 2 the learned word in the following cycle
            "reserve": Out(1),  # 1 two cycles before each cycle of `pool_write`
            # The logits of a tile are taken one by one.
            "score_valid": Out(1), "score_ready": In(1), "score_index": Out(range(config.outputs)), "score_first": Out(1)})

    def elaborate(self, platform):
        m = Module()
        s = self._signals(m)
        with OneHot(m, "IDLE") as s.states:
            self._weight_word(m, s)
            self._read(m, s)
            self._advance(m, s)
            self._fetch(m, s, self._step_fields(m, s))
            self._begin(m, s)
            self._end(m, s)
            self._score_states(m, s)
        return m

    def _signals(self, m):
        """The memories, and the namespace of all signals.  A group names the methods that drive it."""
        config, w, step = self.config, Widths(self.config), self.step
        s = SimpleNamespace()
        if config.lists:
            # The table of reads, which offers the read that may be issued in this cycle, and the place in it: `_advance_list`.
            m.submodules.order = order = Memory(shape=READ_BITS, depth=len(config.order), init=config.order,
                                                attrs={"ram_style": "block"})
            s.lookup = order.read_port()
            s.entry = data.View(data.StructLayout(READ_FIELDS), s.lookup.data)
            s.list_start = Signal(range(len(config.order) + 1))  # first place of the tile's list
            s.list_end = Signal.like(s.list_start)  # first place behind it
            s.list_next = Signal.like(s.list_start)  # place of the read after the one that is offered
            s.line = Signal(w.address)  # first block of the row
            m.d.comb += s.lookup.en.eq(0)

        # The program: `_fetch`.
        words = config.program_words()
        m.submodules.program = program = Memory(shape=16, depth=len(words), init=words, attrs={"ram_style": "block"})
        s.fetch = program.read_port()
        s.pc = Signal(range(len(words) + 1))
        s.fetching = Signal()
        # A one runs along while the words of a step are `asked` for; behind registers they have `arrived` some cycles later.
        late = config.memory_registers
        s.asked = Signal(config.step_words + late, name="asked" if late else "arrived")
        s.arrived = s.asked[late:]

        # The loops: `_begin` sets them, `_advance_list` or `_advance_loops` moves them on.
        s.block = unnamed(w.address)
        s.current = unnamed(w.address)
        s.repeat = unnamed(w.repeat)
        s.word = unnamed(w.words)
        s.kx = unnamed(2)
        s.ky = unnamed(2)
        s.column = unnamed(w.columns)
        s.row = unnamed(w.rows)
        s.first = unnamed()
        s.tap_last = unnamed()
        s.first_tap = ~step.window  # a single tap is the centre, 1
        s.ends = {name: End(name, getattr(s, name)) for name in ("repeat", "word", "column", "row")}
        s.repeat_last, s.word_last, s.column_last, s.row_last = (end.last for end in s.ends.values())

        # The read that is issued: `_read`.
        s.block_last = unnamed()
        s.map_last = Signal()
        s.blank = unnamed()  # a start read
        s.running = Signal()  # also `_begin`, `_advance`
        s.reading = s.running & ~self.hold
        s.tile_done = Signal()

        # The weight word: `_weight_word`, by what the loops and `_begin` ask for.
        s.weight = unnamed(w.weight)
        s.weight_start = Signal(w.weight)  # the weight word of a block's first read, behind the bias word
        s.weight_counts = unnamed()  # it goes on
        s.weight_restarts = unnamed()  # to `weight_start`
        s.weight_begins = unnamed()  # it is the tile's first word

        # The tile: `_advance` at its end, `_fetch` at the beginning of a step.
        s.tile = Signal(w.tiles)
        s.tile_source = Signal(w.address)
        s.weight_base = Signal(w.weight)
        s.tile_last = unnamed()
        s.finished = unnamed()
        s.enough = Signal()  # its weights are at hand: `_begin`

        # Waits, and scores that leave: `_end`, `_bias`, `_score_states`.
        s.flush, s.bias = (cycles(config.lanes, config.memory_registers) for cycles in (timing.flush, timing.bias))
        s.pause = Signal(range(max(s.flush, s.bias) + 1))
        s.flushed = unnamed()  # `pause`, which goes on in each cycle of FLUSH, is at its end there
        s.score = Signal(range(config.outputs))
        s.scores_left = Signal(range(config.outputs + 1))
        s.score_last = unnamed()  # it is 1
        # A bit for each register on a score's way; the last one says that the score is there.
        s.chosen = Signal(timing.CHOICE, init=-1) if timing.large(config.lanes) else Const(1, 1)
        return s

    def _weight_word(self, m, s):
        with m.If(s.weight_counts | s.weight_begins):
            following = Mux(s.weight_begins, s.weight_base, s.weight_start)
            m.d.sync += s.weight.eq(Mux(s.weight_begins | s.weight_restarts, following, s.weight + 1))
        m.d.sync += [s.flushed.eq(s.pause == s.flush - 2), s.weight_start.eq(s.weight_base + self.step.bias)]

    def _read(self, m, s):
        """The read at the place of the loops, and what follows from it."""
        step, read = self.step, self.read
        for end, limit in zip(s.ends.values(), (step.repeat, step.words, step.columns, step.rows)):
            m.d.sync += [end.single.eq(limit == 0), end.place.eq(limit - 1)]
        m.d.sync += s.tile_last.eq(s.tile == step.tiles)
        if self.config.start_reads:
            m.d.comb += s.blank.eq(s.first & step.bias)
        if self.config.lists:
            self._listed_read(m, s)
        else:
            m.d.comb += [
                s.block_last.eq(self._of_the_map(s, s.repeat_last & s.word_last & s.tap_last)),
                s.map_last.eq(s.column_last & s.row_last),
                read.address.eq(s.current), read.ky.eq(s.ky), read.kx.eq(s.kx),
                read.top.eq(s.row == 0), read.bottom.eq(s.row_last), read.left.eq(s.column == 0), read.right.eq(s.column_last),
                read.weight.eq(s.weight), read.word.eq(s.word), read.lane.eq(s.column), read.first.eq(s.first), read.last.eq(s.block_last),
                read.row_end.eq(s.column_last), read.tile_end.eq(s.map_last)]
        m.d.comb += [self.score_index.eq(s.score), self.pop_words.eq(step.tile_words)]
        m.d.sync += s.score_last.eq(s.scores_left == 1)
        m.d.comb += [self.valid.eq(s.reading), s.tile_done.eq(s.reading & s.block_last & s.map_last), self.pop.eq(s.tile_done)]

    def _of_the_map(self, s, condition):
        """The condition, for a read that is no start read."""
        return condition & ~s.blank if self.config.start_reads else condition

    def _moves_loops(self, m, s):
        """For `with`: a start read leaves the loops where they are."""
        return m.If(~s.blank) if self.config.start_reads else nullcontext()

    def _listed_read(self, m, s):
        """Move a read of a list to the current block."""
        step, read, entry = self.step, self.read, s.entry
        m.d.comb += [
            s.block_last.eq(self._of_the_map(s, s.word_last)), s.map_last.eq(s.column_last & s.row_last),
            read.address.eq(s.block + entry.address), read.y.eq(entry.y), read.x.eq(entry.x), read.weight.eq(s.weight),
            read.first.eq(s.first), read.last.eq(s.block_last), read.row_end.eq(s.column_last), read.tile_end.eq(s.map_last)]
        if self.config.shift:
            m.d.comb += read.shift.eq(entry.shift)
        if self.config.spreads:
            moved = any(each.source_tile_slot for each in self.config.program)
            slot = entry.tile_slot + step.step if moved else entry.tile_slot  # modulo those of a word
            m.d.comb += [read.slot.eq(slot), read.second.eq(s.word[0]), read.pair.eq(s.word[1:])]
        for counter, moved, last, near, far in (
                (s.row, entry.row, step.source_rows, read.upper, read.lower),
                (s.column, entry.column, step.source_columns, read.left, read.right)):
            place = Signal(signed(max(len(counter), len(last)) + 3))  # row or column of the block of pixel 0, plus one
            m.d["sync" if timing.large(self.config.lanes) else "comb"] += place.eq(counter + moved)
            m.d.comb += [
                near.inside.eq((place > 0) & (place <= last + 1)), near.last.eq(place == last + 1),
                far.inside.eq((place >= 0) & (place <= last)), far.last.eq(place == last)]

    def _advance(self, m, s):
        """After each read, move the loops on; the last read of a tile ends it."""
        config, step = self.config, self.step
        if config.lists:
            self._advance_list(m, s)
        else:
            self._advance_loops(m, s)
        with m.If(s.tile_done):
            m.d.sync += s.running.eq(0)
        # `tile_done` is a late signal.  With a weight stream the state LEVEL leaves a cycle to what the next tile begins with.
        ended = s.tile_done
        if config.weights == "stream":
            ended = unnamed()  # a cycle late: the tile is done
            m.d.sync += ended.eq(s.tile_done)
        with m.If(ended):
            m.d.sync += [
                s.tile_source.eq(s.tile_source + step.lgap), s.scores_left.eq(Mux(s.tile_last, step.valid, config.outputs)),
                s.finished.eq(s.tile_last), s.weight_base.eq(s.weight_base + step.tile_words), s.tile.eq(s.tile + 1)]

    def _advance_list(self, m, s):
        """Repeat the list for each block.  After a tile's last block, take the next list or the same one.

        The table's address is a register, one place ahead, and only its enable waits for `hold`.
        """
        step = self.step
        # A weight word of a spread step has the weights of L pairs of reads.
        pair = s.word[:Widths(self.config).lane + 1]
        used_up = ~step.spread | (pair.all() if len(pair) > Widths(self.config).lane else Const(0, 1))
        if self.config.start_reads:
            used_up = used_up | s.blank
        begins = s.states.ongoing("TILE")
        counts = unnamed()  # the list goes on
        m.d.comb += s.lookup.addr.eq(Mux(begins, s.list_start, s.list_next))
        m.d.comb += [s.weight_restarts.eq(s.block_last), s.weight_counts.eq(s.reading & (used_up | s.block_last))]
        with m.If(begins):
            m.d.comb += [counts.eq(1), s.lookup.en.eq(1)]
        with m.If(s.reading):
            m.d.sync += s.first.eq(s.block_last)
            with self._moves_loops(m, s):
                m.d.comb += [counts.eq(1), s.lookup.en.eq(~step.spread | s.word[0] | s.word_last if self.config.paired else 1)]
                m.d.sync += [s.word.eq(s.word + 1), s.word_last.eq(s.ends["word"].following)]
                with m.If(s.word_last):
                    m.d.sync += [s.word.eq(0), s.block.eq(s.block + 1), s.column.eq(s.column + 1),
                                 s.column_last.eq(s.ends["column"].following)]
                    with m.If(s.column_last):
                        m.d.sync += [s.column.eq(0), s.row.eq(s.row + 1), s.row_last.eq(s.ends["row"].following),
                                     s.line.eq(s.line + step.row),
                                     s.block.eq(s.line + step.row)]
                        with m.If(s.row_last):
                            m.d.sync += s.row.eq(0)
        following = Signal.like(s.list_next)  # place of the read that the table does not yet offer
        end = s.ends["word"]
        m.d.comb += following.eq(s.lookup.addr + s.lookup.en)
        with m.If(counts):  # the read before `following` may be the last one of a block
            m.d.sync += s.list_next.eq(Mux(Mux(begins, end.single, end.following), s.list_start, following))
        with m.If(begins | end.before):  # the last time before it is used, `following` is right
            m.d.sync += s.list_end.eq(following)
        with m.If(s.tile_done & ~step.rewind):
            m.d.sync += s.list_start.eq(s.list_end)

    def _advance_loops(self, m, s):
        """The inner loops: taps, words of a tap, uses of a word."""
        step = self.step
        # Weight words advance with every read; in global pooling only when a word's blocks are used up.
        per_word = self.config.outputs // self.config.pixels
        used_up = (s.word[:bits_for([per_word - 1])] == per_word - 1) if per_word > 1 else 1
        m.d.comb += [s.weight_restarts.eq(s.block_last), s.weight_counts.eq(s.reading & (~step.lgap | used_up | s.block_last))]
        with m.If(s.reading):
            m.d.sync += s.first.eq(s.block_last)
            with self._moves_loops(m, s):
                m.d.sync += [s.repeat.eq(s.repeat + 1), s.repeat_last.eq(s.ends["repeat"].following)]
                with m.If(s.repeat_last):
                    m.d.sync += [s.repeat.eq(0), s.word.eq(s.word + 1), s.current.eq(s.current + step.step),
                                 s.word_last.eq(s.ends["word"].following)]
                    with m.If(s.word_last):
                        m.d.sync += [s.word.eq(0), s.current.eq(s.block), s.kx.eq(s.kx + 1),
                                     s.tap_last.eq(Mux(s.tap_last, s.first_tap, (s.kx == 1) & (s.ky == 2)))]
                        with m.If(s.kx == 2):
                            m.d.sync += [s.kx.eq(0), s.ky.eq(s.ky + 1)]
                        with m.If(s.tap_last):
                            m.d.sync += [
                                s.kx.eq(s.first_tap), s.ky.eq(s.first_tap),
                                s.block.eq(s.block + step.advance),
                                s.current.eq(s.block + step.advance), s.column.eq(s.column + 1),
                                s.column_last.eq(s.ends["column"].following)]
                            with m.If(s.column_last):
                                m.d.sync += [s.column.eq(0), s.row.eq(s.row + 1), s.row_last.eq(s.ends["row"].following)]
                                with m.If(s.row_last):
                                    m.d.sync += s.row.eq(0)

    def _step_fields(self, m, s):
        """The fields of a step as its words come in; return the word."""
        config, step = self.config, self.step
        m.d.sync += [s.asked.eq(Cat(s.fetching, s.asked)), self.begin.eq(0), self.done.eq(0)]
        flags = s.fetch.data
        for _ in range(config.memory_registers):
            before, flags = flags, Signal(16, name="flags", reset_less=True)
            m.d.sync += flags.eq(before)
        # Bits that no step sets are constants, so that synthesis removes what follows from them.
        used = [reduce(or_, words) for words in zip(*(one.encode(config.lists) for one in config.program))]
        for number, bits in enumerate(used):
            word = flags & bits
            with m.If(s.arrived[number]):
                for field in step_fields(config.lists):
                    if field.word == number:
                        value = word[field.bit:field.bit + field.bits] if field.bits < 16 else word
                        m.d.sync += step[field.register].eq(value & self.scores if field.name == "logits" else value)
        return flags

    def _fetch(self, m, s, flags):
        """States that read a step from the program.  flags: the word of a step that comes in."""
        config, step = self.config, self.step
        m.d.comb += [s.fetch.addr.eq(s.pc), s.fetch.en.eq(s.states.any("ADDRESS", "FETCH"))]
        with s.states.state("IDLE"):
            with m.If(self.done):  # words behind that of the stop were asked for
                m.d.sync += s.pc.eq(0)
            with m.If(self.start):
                s.states.go("ADDRESS")
        with s.states.state("ADDRESS"):
            m.d.sync += s.pc.eq(s.pc + 1)
            m.d.comb += s.fetching.eq(1)
            s.states.go("FETCH")
        with s.states.state("FETCH"):
            with m.If(~s.arrived[-1]):  # with the last word, `pc` is already at the next step
                with m.If(~s.asked[config.step_words - 1:-1].any()) if config.memory_registers else nullcontext():
                    m.d.sync += s.pc.eq(s.pc + 1)
            with m.Else():
                s.states.go("SETUP")
            with m.If(s.arrived[0] & ~flags[15]):
                m.d.sync += [self.done.eq(1), s.asked.eq(0)]
                if config.weights == "memory":
                    m.d.sync += s.weight_base.eq(0)
                s.states.go("IDLE")
        with s.states.state("SETUP"):
            m.d.sync += [s.tile.eq(0), s.tile_source.eq(step.source), self.begin.eq(1)]
            if config.lists:
                m.d.sync += s.list_start.eq(step.order)
            s.states.go("TILE")

    def _begin_tile(self, m, s):
        """Start to read, after the bias word where there is one."""
        config, step = self.config, self.step
        m.d.sync += s.running.eq(~step.bias if config.thresholds else 1)
        s.states.go("RUN")
        if config.thresholds:
            with m.If(step.bias):
                s.states.go("BIAS")

    def _begin(self, m, s):
        """States that begin a tile: they wait for its weights, then read its bias word."""
        config, step = self.config, self.step
        first_block = [s.block.eq(s.tile_source), s.current.eq(s.tile_source)]
        if config.lists:
            first_block.append(s.line.eq(s.tile_source))
        with s.states.state("TILE"):
            m.d.sync += [
                s.kx.eq(s.first_tap), s.ky.eq(s.first_tap),
                s.pause.eq(0), s.first.eq(1), s.tap_last.eq(s.first_tap), *(end.last.eq(end.single) for end in s.ends.values())]
            if config.weights == "memory":
                m.d.comb += s.weight_begins.eq(1)
                m.d.sync += first_block
                self._begin_tile(m, s)
            else:
                s.states.go("LEVEL")
        if config.weights == "stream":
            m.d.sync += s.enough.eq(self.level >= step.tile_words)
            with s.states.state("LEVEL"):
                m.d.comb += s.weight_begins.eq(1)
                m.d.sync += first_block
                with m.If(s.enough):
                    self._begin_tile(m, s)
        if config.thresholds:
            with s.states.state("BIAS"):
                self._bias(m, s)

    def _bias(self, m, s):
        """The state that reads a bias word.

        The tile before may still accumulate from its own start values, so the word is read after it: after its last read, or, with start
        reads or registers behind the memories, after its last block has begun.
        """
        early = self.config.start_reads or self.config.memory_registers > 0
        wait = (timing.start(self.config.lanes) if self.config.start_reads else s.bias) - 1 if early else s.flush
        m.d.sync += s.pause.eq(s.pause + 1)
        m.d.comb += self.read.bias.eq(s.pause == wait)
        with m.If(s.pause == (wait if early else s.bias - 1)):
            m.d.comb += [s.weight_counts.eq(1), s.weight_restarts.eq(1)]
            m.d.sync += s.running.eq(1)
            s.states.go("RUN")

    def _end(self, m, s):
        """States that run a tile, then wait until its results have left."""
        step = self.step
        with s.states.state("RUN"):
            m.d.sync += [s.pause.eq(0), s.score.eq(0)]
            with m.If(s.tile_done):
                s.states.go("TILE")
                with m.If(s.tile_last | step.lgap | step.logits):
                    s.states.go("FLUSH")
        with s.states.state("FLUSH"):
            m.d.sync += s.pause.eq(s.pause + 1)
            with m.If(s.pause == s.flush - 3):
                m.d.sync += self.reserve.eq(step.lgap)
            with m.If(s.flushed):
                m.d.sync += self.reserve.eq(0)
                with m.If(step.logits):
                    s.states.go("SCORES" if self.scores else "ADDRESS")
                with m.Elif(step.lgap):
                    m.d.sync += self.pool_write.eq(step.gap)
                    s.states.go("AVERAGE")
                with m.Else():
                    s.states.go("ADDRESS")

    def _score_states(self, m, s):
        """States that send logits, and words of global pooling."""
        step = self.step
        if self.scores:
            with s.states.state("SCORES"):
                m.d.comb += [self.score_valid.eq(s.chosen[-1]), self.score_first.eq((s.tile == 1) & (s.score == 0))]
                taken = self.score_ready & s.chosen[-1]
                if timing.large(self.config.lanes):
                    m.d.sync += s.chosen.eq(Mux(taken, Mux(s.score_last, (1 << timing.CHOICE) - 1, 0), Cat(1, s.chosen)))
                with m.If(taken):
                    m.d.sync += [s.score.eq(s.score + 1), s.scores_left.eq(s.scores_left - 1), s.score_last.eq(s.scores_left == 2)]
                    with m.If(s.score_last):
                        s.states.go("TILE")
                        with m.If(s.finished):
                            s.states.go("ADDRESS")
        with s.states.state("AVERAGE"):
            m.d.sync += self.pool_write.eq(step.depthwise << 1)
            s.states.go("LEARNED")
        with s.states.state("LEARNED"):
            m.d.sync += self.pool_write.eq(0)
            s.states.go("TILE")
            with m.If(s.finished):
                s.states.go("ADDRESS")
