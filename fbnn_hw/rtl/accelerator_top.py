"""The accelerator: an RGB image goes in, the class, the integer logits and on request the latent come out."""

from functools import reduce
from operator import or_
from types import SimpleNamespace

from amaranth import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..machine import timing
from ..machine.learner import ACT_LATENCY, score_latency
from ..machine.protocol import Command
from .argmax import Argmax
from .array import MacArray
from .drain import Drain
from .fanout import copy_of
from .learning.learner import Learner
from .lgap import Lgap
from .loader import Loader
from .mover import WeightMover
from .sequencer import EDGE, Sequencer, Widths, read_layout
from .signals import unnamed
from .spram import SinglePortMemory, TwoPortMemory, WeightMemory
from .states import OneHot
from .weight_file import FILE_STATE, WeightFile
from .window import ListedAddress, ListedAlign, WindowAddress, WindowAlign, flags_early

FORWARD = timing.READ + 1 - ACT_LATENCY + 1
"""Stage of the read pipeline that a row of the learner enters, one cycle after its acceptance."""

SHARE = 8
"""Outputs whose start values one copy of the strobe sets to 0."""

LEARNER_PORTS = {"command": "command", "refused": "refused", "known": "class_count", "used": "used", "frozen": "frozen",
                 "host": "host", "found": "host_reply"}
"""{port of accelerator.v: member of the `Learner` behind it}.  The names of the ports are those of existing folders."""


def stream_ports(name, port, into):
    """The ports of the stream `name` of the module `accelerator`, for an Instance.  into: the accelerator takes its words."""
    there, back = "io" if into else "oi"
    return {f"{there}_{name}__payload": Value.cast(port.payload), f"{there}_{name}__valid": port.valid, f"{back}_{name}__ready": port.ready}


class Accelerator(wiring.Component):
    """One image after the other: loads and encodes it, runs the program, gives the result.

    Twin: `fbnn_hw.reference.inference`.

    Timing: `fbnn_hw.machine.cycles`, exactly, while nobody stalls.
    """

    def __init__(self, config):
        self.config = config
        members = {
            # RGB bytes in raster order, or packed levels; taken between two results, with config.loads_beside also during the program.
            "pixels": In(stream.Signature(8)),
            # A signed integer a class, in order, `last` with the final one.
            "logits": Out(stream.Signature(data.StructLayout({"value": signed(config.score_bits), "last": 1}))),
            # The class, after its logits; where config.learning.unknown, above it whether the answer is "unknown".
            "result": Out(stream.Signature(config.result_bits)),
            # The words of the latent, before the result: channel i in word i / lanes, bit i % lanes.
            "latent": Out(stream.Signature(data.StructLayout({"word": config.lanes, "last": 1}))),
            "want_latent": In(1),  # 1 when the last logit leaves: the latent is sent
            "busy": Out(1),  # 0 while it waits for an image or takes one
            "step": Out(range(len(config.program) + 1))}  # steps begun in this pass, for observers
        if config.weights == "stream":
            members["weights"] = In(stream.Signature(config.beat_bits))  # the boot image once, then the frame image over and over
        if config.loads:  # a file after reset, before which no image is taken; what became of it (`WeightFile`)
            members |= {"weights": In(stream.Signature(8)), **{name: Out(bits) for name, bits in FILE_STATE.items()}}
        if config.sleeps:
            members["standby"] = In(1)  # 1 puts the banks into standby; only while it waits for an image
        if config.keeps:
            members["pause"] = In(1)  # no image is loaded while it is 1: the learner's memory is read or written, word by word
        if config.learning:
            # Reads of the learner come a register later than its rows: the address stands at the banks, then data, then pixels.
            self.learner = Learner(config.learning, config.score_bits - 1, act_latency=ACT_LATENCY - 1,
                                   score_latency=score_latency(config.lanes), address_bits=Widths(config).row)
            members |= {port: self.learner.signature.members[name] for port, name in LEARNER_PORTS.items()}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        s = self._parts(m)
        self._banks(m, s)
        self._pipeline(m, s)
        self._weights(m, s)
        self._products(m, s, platform)
        if not self.config.lists:
            self._pooling(m, s)
        self._drain(m, s)
        if self.config.learning:
            self._learner_results(m, s)
        else:
            self._scores(m, s)
        self._frame(m, s)
        if self.config.learning:
            self._learner_turn(m, s)
        self._port(m, s)
        return m

    def _parts(self, m):
        """The submodules and the signals between them, as a namespace."""
        c, s = self.config, self._signals()
        m.submodules.sequencer = s.sequencer = Sequencer(c)
        m.submodules.loader = s.loader = Loader(c)
        m.submodules.address = s.address = ListedAddress(c) if c.lists else WindowAddress(c)
        m.submodules.align = s.align = ListedAlign(c) if c.lists else WindowAlign(c)
        s.array = MacArray(c.pixels, c.lanes, c.outputs, c.accumulator_bits, c.thresholds, c.popcount, c.shift, c.start_reads)
        m.submodules["shared_array" if c.learning else "array"] = s.array  # `fpga.toolchain` goes by this name
        m.submodules.drain = s.drain = Drain(c)
        if not c.lists:
            of_a_word = c.map_pixels.bit_count() if c.map_pixels else c.pixels
            size = next((step.words * of_a_word for step in c.program if step.kind == "lgap"), 1)
            m.submodules.lgap = s.lgap = Lgap(c.pixels, c.lanes, c.word_bits, size, split=timing.large(c.lanes))
        wiring.connect(m, wiring.flipped(self.pixels), s.loader.pixels)
        s.step = s.sequencer.step
        return s

    def _signals(self):
        """The namespace.  A group names the methods that drive it."""
        c, w, s = self.config, Widths(self.config), SimpleNamespace()
        s.arrival = timing.read(c.memory_registers)  # stage of a read beside the data of banks and weights

        # The banks' port: `_port`, `_two_ports`.  A write under way at a reset does no harm.
        s.port = Signal(data.StructLayout({
            "address": data.ArrayLayout(w.row, c.pixels), "write": c.pixels, "data": c.row_bits, "mask": c.lanes // c.outputs}),
            reset_less=c.loads_beside)
        s.opened = unnamed()  # the port takes a request; else the banks rest
        s.written = Signal(w.row, reset_less=True)  # address of a port for writes alone
        s.taught_address = Signal(w.row) if c.learning else None  # the learner's, 0 while it rests: it comes late, so it has a register

        # Reads under way: `_pipeline`, `_weights`.
        s.blank = unnamed()  # beside the data of the banks: a start read
        s.weights = Signal(c.word_bits, reset_less=timing.large(c.lanes))  # at the array

        # Whose the port is in the next cycles: `_learner_turn`, `_drain`, `_frame`.
        s.ready = unnamed()  # the learner may have the port and the array two cycles later
        s.turn = Signal()  # the learner has the port and the array
        s.drains_next = unnamed()  # the port is taken two cycles later, so no read may be issued in this one
        s.drains = Signal()  # a block is finished
        s.drained = unnamed()  # the port for writes is the drain's in the next cycle
        s.closed = Signal()  # the port is closed to resident rows: from the end of the program until an image is loaded

        # The frame: the states of `_run`, `_latent`, `_classify`; `_frame`, `_learner_turn`.
        s.loading = unnamed()  # the loader may write
        s.was_loading = Signal()
        s.loaded = Signal()  # the next image is in the banks
        s.reading = unnamed()  # words of the latent are read
        s.was_reading = Signal()
        s.word = Signal(range(c.latent_words + 1))  # of the latent
        s.wait = Signal(range(s.arrival + 2))  # cycles until that word can be read
        s.teaching = Signal()  # the learner works between two frames, or a host asks for it
        return s

    def _banks(self, m, s):
        """The banks and their one port, which takes one request a cycle.

        A read passes the tap offsets and reaches the port one cycle after it is issued.  A write reaches it
        at once, so the sequencer issues no read in the cycle before a write (`reserve`).  With
        config.loads_beside writes have a port of their own, with an address for all banks.
        """
        c = self.config
        s.banks = []
        for q in range(c.pixels):
            if c.loads_beside:
                bank = TwoPortMemory(c.feature_words, c.lanes, c.outputs, c.memory_registers)
                m.d.comb += bank.write_address.eq(s.written)
            else:
                bank = SinglePortMemory(c.feature_words, c.lanes, c.outputs, c.technology, c.sleeps, c.memory_registers)
                m.d.comb += bank.enable.eq(s.opened)
            m.submodules[f"bank{q}"] = bank
            m.d.comb += [
                bank.address.eq(s.port.address[q] | s.taught_address if c.learning else s.port.address[q]),
                bank.write_data.eq(s.port.data.word_select(q, c.lanes)),
                bank.write_mask.eq(s.port.mask), bank.write_enable.eq(s.port.write[q])]
            if c.sleeps:
                m.d.comb += bank.standby.eq(self.standby)
            s.banks.append(bank.read_data)
        s.row = Cat(*s.banks)

    def _pipeline(self, m, s):
        """The stages of a read: its flags move one stage a cycle, beside its data."""
        c = self.config
        issue = Signal(data.StructLayout({"valid": 1, "read": read_layout(c)}))
        m.d.comb += [issue.valid.eq(s.sequencer.valid), issue.read.eq(s.sequencer.read)]
        s.stages = [issue]
        for t in range(1, timing.accumulated(c.lanes, c.memory_registers) + 1):
            stage = Signal(issue.shape(), name=f"stage{t}")
            m.d.sync += stage.eq(s.stages[-1])
            if t == 2 and c.lists and timing.large(c.lanes):  # the edges come a cycle late
                m.d.sync += [stage.read[name].eq(issue.read[name]) for name in ("upper", "lower", "left", "right")]
            s.stages.append(stage)
        if c.start_reads:
            m.d.comb += s.blank.eq(s.stages[s.arrival].read.first & s.step.bias & ~s.turn)
        if c.learning:
            m.submodules.learner = s.learner = self.learner
            rows = s.learner.rows
            # The learner's rows enter the pipeline where reads are that the sequencer issued two cycles before, as the centre of a window.
            centre = s.stages[FORWARD].read
            if c.lists:  # as a block that is not moved and touches no edge
                fixed = [getattr(centre, edge).eq(EDGE.const({"inside": 1})) for edge in ("upper", "lower", "left", "right")]
                fixed += [getattr(centre, name).eq(0) for name in ("y", "x", *["shift"] * bool(c.shift))]
            else:
                fixed = [centre.ky.eq(1), centre.kx.eq(1)]
            with m.If(s.turn):
                m.d.sync += [
                    s.stages[FORWARD].valid.eq(rows.ready & rows.payload.forward), centre.first.eq(rows.payload.first),
                    centre.last.eq(0), *fixed]

    def _weights(self, m, s):
        """The weight word of each read, from a memory or from the mover's ring."""
        c = self.config
        read = s.stages[timing.READ - 1].read
        if c.weights == "memory":
            memory = self._memory(m, s)
            weight_word = memory.data
            if c.learning:
                word = s.learner.boot_address
                part = Signal(range(c.outputs))  # L lanes of the weight word
                m.d.sync += part.eq(word)
                with m.If(s.turn):
                    m.d.comb += memory.address.eq(c.shipped_base + (word >> len(part)))
                m.d.comb += s.learner.boot_word.eq(memory.data.word_select(part, c.lanes))
            s.booted = self.loaded if c.loads else Const(1)
            s.moves_next, s.moves, s.boot_writes = (Const(0, 1) for _ in range(3))
        else:
            m.submodules.mover = memory = WeightMover(c)
            wiring.connect(m, wiring.flipped(self.weights), memory.weights)
            m.d.comb += [
                memory.address_read.eq(read.weight), memory.read.eq(s.stages[timing.READ - 1].valid | read.bias), memory.row.eq(s.row),
                memory.pop.eq(s.sequencer.pop), memory.pop_words.eq(s.sequencer.pop_words), s.sequencer.level.eq(memory.level)]
            if c.late_rows:
                m.d.comb += memory.steps.eq(self.step)
            weight_word = memory.word
            s.booted, s.moves_next, s.moves, s.boot_writes = memory.booted, memory.request_next, memory.request, memory.write
        s.memory = memory
        if c.spreads:
            weight_word = self._spread(s, weight_word)
        m.d.sync += s.weights.eq(weight_word)
        if c.learning:
            with m.If(s.turn):
                m.d.sync += s.weights[:c.lanes].eq(s.learner.act)

    def _memory(self, m, s):
        """The memory of all weights, and the address of each read."""
        c = self.config
        memory = m.submodules.weights = WeightMemory(c.weight_words, c.word_bits, 2 * c.memory_registers, c.loads)
        m.d.comb += memory.address.eq(s.stages[timing.READ - 1 - c.memory_registers].read.weight)
        if c.loads:
            m.submodules.weight_file = file = WeightFile(c)
            wiring.connect(m, wiring.flipped(self.weights), file.bytes)
            m.d.comb += [getattr(self, name).eq(getattr(file, name)) for name in FILE_STATE]
            m.d.comb += [memory.write_enable.eq(file.write), memory.write_mask.eq(file.mask), memory.write_data.eq(file.byte.replicate(
                c.word_bits // 8))]
            with m.If(~file.loaded):
                m.d.comb += memory.address.eq(file.address)
        return memory

    def _spread(self, s, word):
        """The weight word of a spread step.

        Output p has the weight of its pair in lane p of the slot.  All other lanes have 0 in the first read
        of a pair and 1 in the second, so they cancel.
        """
        c, read = self.config, s.stages[s.arrival].read
        spread = []
        for p in range(c.outputs):
            own = s.step.ones | word.word_select(p, c.lanes).bit_select(read.pair, 1)
            spread += [Mux(read.slot == lane // c.outputs, own, read.second) if lane % c.outputs == p else read.second
                       for lane in range(c.lanes)]
        whole = read.bias | s.blank if c.start_reads else read.bias
        return Mux(s.step.spread & ~whole, Cat(*spread), word)

    def _products(self, m, s, platform):
        """Pixels times weights."""
        c, align, array = self.config, s.align, s.array
        early = flags_early(c)
        aligned = s.stages[s.arrival - early]
        names = ("y", "x", "upper", "lower", "left", "right") if c.lists else ("ky", "kx", "top", "bottom", "left", "right")
        m.d.comb += [align.data.eq(s.row), *(getattr(align, name).eq(aligned.read[name]) for name in names)]
        if not early:
            m.d.comb += align.valid.eq(aligned.valid)
        if c.start_reads:
            m.d.comb += align.blank.eq(aligned.read.first & s.step.bias if early else s.blank)
        if c.lists:
            m.d.comb += [align.odd_height.eq(s.step.odd_height), align.valid_columns.eq(s.step.valid_columns)]
        operands = s.stages[s.arrival + 1]
        m.d.comb += [
            array.pixels.eq(align.pixels), array.weights.eq(s.weights), array.valid.eq(operands.valid),
            array.first.eq(operands.read.first)]
        if c.shift:
            m.d.comb += array.shifted.eq(operands.read.shift)
        if c.start_reads:
            self._upper_starts(m, s, operands)
        elif c.thresholds:
            bias = Signal(data.ArrayLayout(signed(c.accumulator_bits), c.outputs))
            with m.If(operands.read.bias):
                m.d.sync += [bias[p].eq(s.weights.word_select(p, c.lanes).as_signed()) for p in range(c.outputs)]
            # A step may have no bias words.
            if c.memory_registers:  # no learner; one wire to all start values is long
                for first in range(0, c.outputs, SHARE):
                    with m.If(copy_of(m, platform, f"copy_begin_{first}", s.sequencer.begin)):
                        m.d.sync += [bias[p].eq(0) for p in range(first, min(first + SHARE, c.outputs))]
            else:
                with m.If(s.sequencer.begin | s.turn):
                    m.d.sync += bias.eq(0)
            m.d.comb += array.start.eq(bias)

    def _upper_starts(self, m, s, operands):
        """With start reads: the start values of a tile but for the bits below L, which its start word gives."""
        c = self.config
        low = c.lanes.bit_length() - 1
        width = c.accumulator_bits - low
        more = max(0, c.accumulator_bits - c.lanes)  # bits that a word does not hold
        words = [s.weights.word_select(p, c.lanes) for p in range(c.outputs)]
        given = Cat(Cat(word[low:c.accumulator_bits], word[-1].replicate(more)) for word in words)
        # A learner's sums are those of matches - L / 2, and it has no start reads.
        learners = -(c.learning.fan_in_words * c.learning.planes // 2) % (1 << width) if c.learning else 0
        if c.start_bits:
            attributes = {"ram_style": "block", "no_rw_check": 1}  # what is read while it is written is not used
            m.submodules.starts = memory = Memory(shape=c.start_bits, depth=2, init=[0, learners], attrs=attributes)
            write, read = memory.write_port(), memory.read_port()
            # The bias word comes without `valid`, so it is written to row 0.  With a constant there yosys would make registers of it.
            m.d.comb += [write.en.eq(operands.read.bias), write.addr.eq(operands.valid), write.data.eq(given), read.addr.eq(s.turn)]
            upper = read.data
        else:
            upper = Signal(len(given))
            with m.If(operands.read.bias):
                m.d.sync += upper.eq(given)
            with m.If(s.turn):
                m.d.sync += upper.eq(learners)
        m.d.comb += s.array.start.eq(Cat(Cat(Const(0, low), upper.word_select(p, width)) for p in range(c.outputs)))

    def _pooling(self, m, s):
        """Global pooling: the same operands, one lane at a time."""
        c, lgap = self.config, s.lgap
        operands = s.stages[s.arrival + 1]
        mask = c.map_pixels or (1 << c.pixels) - 1
        m.d.comb += [
            lgap.valid.eq(operands.valid & s.step.lgap), lgap.act.eq(s.align.pixels), lgap.weight.eq(s.weights),
            lgap.lane.eq(operands.read.lane), lgap.first.eq(operands.read.first), lgap.last.eq(operands.read.last), lgap.mask.eq(mask)]
        if c.rows_per_word > 1:
            m.d.comb += lgap.sub.eq(operands.read.word)

    def _drain(self, m, s):
        """Results of blocks and tiles."""
        c, drain = self.config, s.drain
        accumulated = timing.accumulated(c.lanes, c.memory_registers)
        done, bits = s.stages[accumulated], c.accumulator_bits
        m.d.comb += [
            drain.signs.eq(Cat(s.array.accumulators[(i + 1) * bits - 1] for i in range(c.pixels * c.outputs))),
            drain.row_end.eq(done.read.row_end), drain.tile_end.eq(done.read.tile_end), drain.begin.eq(s.sequencer.begin),
            drain.step.eq(s.step), drain.pool_write.eq(s.sequencer.pool_write)]
        if not c.lists:
            m.d.comb += [drain.average.eq(s.lgap.gap), drain.learned.eq(s.lgap.depthwise)]
        before = s.stages[accumulated - 2]
        m.d.sync += [
            s.drains_next.eq(before.valid & before.read.last & ~s.step.logits & ~s.step.lgap), s.drains.eq(s.drains_next)]
        m.d.comb += drain.strobe.eq(s.drains)

    def _learner_results(self, m, s):
        """Connect the learner's logits and class to the outputs, and its state to the ports."""
        c, learner, bits = self.config, s.learner, self.config.score_bits - 1
        stride = c.accumulator_bits * c.outputs  # from one pixel's accumulator of output 0 to the next one's
        answer = Cat(learner.best, learner.unknown) if c.learning.unknown else learner.best
        m.d.comb += [
            learner.scores.eq(Cat(s.array.accumulators[q * stride:q * stride + bits] for q in range(c.pixels))), learner.read.eq(s.row),
            self.result.payload.eq(answer), self.logits.valid.eq(learner.logits.valid),
            learner.logits.ready.eq(self.logits.ready), self.logits.payload.eq(learner.logits.payload),
            *(getattr(self, port).eq(getattr(learner, name)) for port, name in LEARNER_PORTS.items() if port not in ("command", "host"))]

    def _scores(self, m, s):
        """Send the logits of a tile of the last layer, one by one, and find the largest."""
        c, bits = self.config, self.config.accumulator_bits
        sequencer = s.sequencer
        m.submodules.argmax = argmax = Argmax(c.score_bits, c.classes)
        values, index = s.array.accumulators[:c.pixels * c.outputs * bits], sequencer.score_index
        value = values.word_select(index, bits)
        if timing.large(c.lanes):  # one of each four, then one of these: `timing.CHOICE` registers
            fours = [values[first * bits:(first + 4) * bits].word_select(index[:2], bits) for first in range(0, c.outputs, 4)]
            near = unnamed(len(fours) * bits)
            chosen = unnamed(bits)
            m.d.sync += [near.eq(Cat(fours)), chosen.eq(near.word_select(index[2:], bits) if len(index) > 2 else near)]
            value = chosen
        count = Signal(range(c.classes + 1))  # number of logits that have been taken
        last = count == c.classes - 1
        m.d.comb += [
            self.logits.valid.eq(sequencer.score_valid), sequencer.score_ready.eq(self.logits.ready),
            self.logits.payload.value.eq(Cat(int(c.logits_odd), value).as_signed()), self.logits.payload.last.eq(last),
        ]
        # The result is read timing.end cycles after the last logit, so there is time for a register.
        m.d.sync += [argmax.valid.eq(self.logits.valid & self.logits.ready), argmax.first.eq(sequencer.score_first)]
        with m.If(self.logits.valid & self.logits.ready):
            m.d.sync += [count.eq(Mux(last, 0, count + 1)), argmax.score.eq(self.logits.payload.value)]
        m.d.comb += self.result.payload.eq(argmax.best)

    def _frame(self, m, s):
        """The states of a frame, from its image to its result."""
        c = self.config
        m.d.sync += [s.was_reading.eq(s.reading), s.was_loading.eq(s.loading)]
        m.d.comb += s.loader.enable.eq(s.loading)
        if c.loads_beside:
            m.d.sync += s.drained.eq(s.drains_next | s.sequencer.reserve)
            m.d.comb += s.loader.enable.eq(s.loading & ~s.drained)
        m.d.comb += [self.latent.payload.word.eq(s.banks[0]), self.latent.payload.last.eq(s.word == c.latent_words - 1)]
        with m.If(s.sequencer.begin):
            m.d.sync += self.step.eq(self.step + 1)
        with OneHot(m, "LOAD") as s.states:
            self._run(m, s)
            if c.learning:
                self._classify(m, s)
            self._latent(m, s)
        m.d.comb += self.busy.eq(~s.states.ongoing("LOAD"))

    def _run(self, m, s):
        """States that load an image, then run the program."""
        c, sequencer = self.config, s.sequencer
        with s.states.state("LOAD"):
            m.d.sync += [s.loading.eq(s.booted & ~s.teaching), s.closed.eq(s.booted), self.step.eq(0)]
            loaded = s.loader.done
            if c.loads_beside:
                loaded = s.loader.done | s.loaded
            with m.If(loaded):
                m.d.sync += [s.loading.eq(0), s.closed.eq(0)]
                s.states.go("START")
        if c.loads_beside:
            with m.If(s.loader.done | s.states.ongoing("LOAD")):
                m.d.sync += s.loaded.eq(~s.states.ongoing("LOAD"))
            with m.If(sequencer.begin & (self.step == c.image_steps)):
                m.d.sync += s.loading.eq(1)
            with m.If(s.loader.done):
                m.d.sync += s.loading.eq(0)
        with s.states.state("START"):
            m.d.comb += sequencer.start.eq(1)
            s.states.go("RUN")
        with s.states.state("RUN"):
            m.d.sync += s.word.eq(0)
            with m.If(sequencer.done):
                m.d.sync += s.closed.eq(1)
                s.states.go("CLASSIFY" if c.learning else "RESULT")
                with m.If(self.want_latent & (c.latent_words > 0) & (not c.learning)):
                    s.states.go("CLOSE" if c.weights == "stream" and not c.learning else "ASK")

    def _classify(self, m, s):
        """States in which the learner scores the latent."""
        with s.states.state("CLASSIFY"):
            m.d.comb += s.learner.command.valid.eq(s.turn)
            with m.If(s.turn & s.learner.command.ready):
                s.states.go("SCORES")
        with s.states.state("SCORES"):
            with m.If(~s.learner.busy):
                s.states.go("RESULT")
                with m.If(self.want_latent & (self.config.latent_words > 0)):
                    s.states.go("ASK")

    def _latent(self, m, s):
        """States that read the latent from the banks and send it, word by word, then the result."""
        if self.config.weights == "stream" and not self.config.learning:
            with s.states.state("CLOSE"):  # the port closed a cycle ago, so a resident row may still be on its way
                s.states.go("ASK")
        with s.states.state("ASK"):
            m.d.sync += s.wait.eq(s.wait + 1)
            m.d.comb += s.reading.eq(1)
            with m.If(s.wait == s.arrival + 1):
                m.d.sync += s.wait.eq(0)
                s.states.go("LATENT")
        with s.states.state("LATENT"):
            m.d.comb += [s.reading.eq(1), self.latent.valid.eq(1)]
            with m.If(self.latent.ready):
                m.d.sync += s.word.eq(s.word + 1)
                s.states.go("ASK")
                with m.If(self.latent.payload.last):
                    s.states.go("RESULT")
        with s.states.state("RESULT"):
            m.d.comb += self.result.valid.eq(1)
            with m.If(self.result.ready):
                s.states.go("LOAD")

    def _learner_turn(self, m, s):
        """Give the learner its turn: it gets the port and the array while engine, loader and mover have no request under way."""
        ongoing, learner = s.states.ongoing, s.learner
        was_ready = Signal()
        own = ongoing("CLASSIFY") | ongoing("SCORES")
        m.d.comb += s.ready.eq((own | ongoing("LOAD") & ~s.loading & ~s.was_loading & s.teaching) & s.booted)
        m.d.sync += [was_ready.eq(s.ready), s.turn.eq(s.ready & was_ready)]
        asked = s.turn & ongoing("LOAD")
        given, taken = self.command.payload, learner.command.payload
        teaching = self.command.valid | self.host.valid | learner.busy
        if self.config.keeps:
            teaching |= self.pause
        m.d.comb += [
            taken.command.eq(Mux(ongoing("CLASSIFY"), Command.CLASSIFY, given.command)), taken.label.eq(given.label),
            taken.count.eq(given.count), s.teaching.eq(teaching),
            self.busy.eq(~ongoing("LOAD") | learner.busy), learner.host.valid.eq(self.host.valid & asked),
            learner.host.payload.eq(self.host.payload), self.host.ready.eq(learner.host.ready),
            self.command.ready.eq(learner.command.ready & asked),
            learner.rows.ready.eq(s.turn)]
        with m.If(asked):
            m.d.comb += learner.command.valid.eq(self.command.valid)

    def _port(self, m, s):
        """Choose whose request the banks' port takes.

        Reads of the sequencer have an address for each bank, all other requests one for all banks.  A writer
        without a request offers 0, so that writers are joined by OR.
        """
        c, w = self.config, Widths(self.config)
        sequencer, drain, loader, address, memory = s.sequencer, s.drain, s.loader, s.address, s.memory
        if c.weights == "stream":
            m.d.comb += memory.blocked.eq(s.drains_next | sequencer.reserve | s.closed)
        if not c.loads_beside:
            m.d.sync += sequencer.hold.eq(s.drains_next | s.moves_next)
        names = ("address", "y", "x") if c.lists else ("address", "ky", "kx")
        m.d.comb += [*(getattr(address, name).eq(sequencer.read[name]) for name in names), address.row.eq(s.step.row)]
        if not c.lists:
            m.d.comb += address.advance.eq(s.step.advance)
        if c.loads_beside:
            self._two_ports(m, s)
            return
        use_common = unnamed()  # one address for all banks
        draining = unnamed()  # the drain has the port
        moving = unnamed()  # the mover has the port, as it has until the resident rows are loaded
        reserved = unnamed()  # the drain writes words of global pooling
        opened = s.stages[1].valid | draining | loader.write.any() | s.was_reading | moving
        m.d.sync += [s.opened.eq(opened | s.turn if c.learning else opened)]
        m.d.sync += [moving.eq(s.moves | ~s.booted), reserved.eq(sequencer.reserve), draining.eq(s.drains | reserved),
                     use_common.eq(s.drains | reserved | s.loading | s.reading | s.moves | ~s.booted | s.ready)]
        addresses = [(drain.address, draining), (loader.address, s.was_loading), (c.latent_base + s.word, s.was_reading)]
        word = loader.word
        everywhere = s.was_loading
        write = drain.write | loader.write
        if c.weights == "stream":
            addresses.append((memory.address, moving))
            everywhere = everywhere | s.boot_writes
            write = write | s.boot_writes.replicate(c.pixels)
        if c.learning:
            rows = s.learner.rows
            taught = Signal(c.pixels)  # banks that the learner writes
            m.d.comb += taught.eq(rows.payload.write & (rows.valid & rows.ready).replicate(c.pixels))
            word = word | rows.payload.word  # 0 while it rests
            everywhere = everywhere | s.turn
            write = write | taught
        common = reduce(or_, (address[:w.row] & chosen.replicate(w.row) for address, chosen in addresses))
        words = drain.data | word.replicate(c.pixels)
        if c.weights == "stream":
            words = words | memory.write_data & s.boot_writes.replicate(c.row_bits)
        m.d.sync += s.port.write.eq(write)
        m.d.sync += [s.port.data.eq(words), s.port.mask.eq(drain.mask | everywhere.replicate(len(s.port.mask)))]
        m.d.sync += [s.port.address[q].eq(Mux(use_common, common, address.banks.word_select(q, w.address))) for q in range(c.pixels)]
        if c.learning:
            m.d.sync += s.taught_address.eq(rows.payload.address)

    def _two_ports(self, m, s):
        """As `_port`, for a port for reads, of the sequencer or of the latent, and one for writes, of the drain before the loader."""
        c, w, drain, loader = self.config, Widths(self.config), s.drain, s.loader
        draining = unnamed()
        reading = unnamed()
        place = unnamed(w.row)
        m.d.sync += [draining.eq(s.drained), reading.eq(s.reading), place.eq(c.latent_base + s.word)]
        words = Mux(draining, drain.data, loader.word.replicate(c.pixels))
        m.d.sync += [s.port.write.eq(drain.write | loader.write), s.port.data.eq(words),
                     s.port.mask.eq(drain.mask | (~draining).replicate(len(s.port.mask))),
                     s.written.eq(Mux(draining, drain.address, loader.address))]
        m.d.sync += [s.port.address[q].eq(Mux(reading, place, s.address.banks.word_select(q, w.address))) for q in range(c.pixels)]
