"""The accelerator: an RGB image goes in, the class, the integer logits and on request the latent come out."""

from amaranth import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..compile import timing
from ..compile.config import LOAD, RESULT, REWIND
from ..compile.learn_plan import ACT_LATENCY, score_latency
from .argmax import Argmax
from .array import MacArray
from .drain import Drain
from .learning.learner import Command, Learner
from .lgap import Lgap
from .loader import Loader
from .mover import WeightMover
from .sequencer import Sequencer, Widths, read_layout
from .spram import SinglePortMemory
from .weights import WeightMemory
from .window import WindowAddress, WindowAlign


def score_bits(config):
    """Width of a logit."""
    return config.accumulator_bits + 1


FORWARD = timing.READ + 1 - ACT_LATENCY + 1
"""Stage of the pipeline in the cycle after a row of the learner was accepted."""

LEARNING = ("command", "refused", "known", "used", "frozen", "host", "found")
"""What the outside has of a learner, see there."""


class Accelerator(wiring.Component):
    """One image after the other: load and encode, work through the program, give the result.

    Twin: `fbnn_hw.reference.inference`.  Cycles: `fbnn_hw.compile.cycles`, exactly, while nobody stalls.

    With config.frames > 1 the images of a pass come one after the other, each when the layers that are not shared are done with the
    one before, and the results of a pass leave together, in the same order.

    pixels: RGB bytes, raster order, taken between two results.  weights (weights == "stream"): the boot image once,
    then the frame image over and over.  logits: one signed integer a class, in order, `last` with the final one.
    busy: 0 while it waits for an image or takes it.  result: the class, after its logits.  latent: if want_latent is 1 when the last
    logit leaves, the words of the latent (channel i in word i / lanes, bit i % lanes), before the result.  step: number of steps
    begun in this pass, for observers.
    """

    def __init__(self, config):
        self.config = config
        members = {
            "pixels": In(stream.Signature(8)),
            "logits": Out(stream.Signature(data.StructLayout({"value": signed(score_bits(config)), "last": 1}))),
            "result": Out(stream.Signature(range(max(2, config.result_classes)))),
            "latent": Out(stream.Signature(data.StructLayout({"word": config.lanes, "last": 1}))),
            "want_latent": In(1), "busy": Out(1), "step": Out(range(len(config.program) + 1))}
        if config.weights == "stream":
            members["weights"] = In(stream.Signature(8))
        if config.learning:
            # Reads of the learner come a register later than its rows: the address stands at the banks, then data, then pixels.
            self.learner = Learner(config.learning, config.accumulator_bits, act_latency=ACT_LATENCY - 1,
                                   score_latency=score_latency(config.lanes), address_bits=Widths(config).row)
            members |= {name: self.learner.signature.members[name] for name in LEARNING}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        c, w = self.config, Widths(self.config)

        m.submodules.sequencer = sequencer = Sequencer(c)
        m.submodules.loader = loader = Loader(c)
        m.submodules.address = address = WindowAddress(c)
        m.submodules.align = align = WindowAlign(c)
        m.submodules.array = array = MacArray(
            c.pixels, c.lanes, c.outputs, c.accumulator_bits, c.thresholds, c.popcount)
        m.submodules.drain = drain = Drain(c)
        m.submodules.lgap = lgap = Lgap(c.pixels, c.lanes, c.word_bits, self._pooled_size(), split=timing.wide(c.lanes))
        wiring.connect(m, wiring.flipped(self.pixels), loader.pixels)
        step = sequencer.step

        # The port of the banks: one request a cycle.  Reads come through the tap offsets, one cycle after they are
        # issued; writes at once, so a reader keeps quiet in the cycle before (`reserve`).
        port = Signal(data.StructLayout({
            "address": data.ArrayLayout(w.row, c.pixels), "write": c.pixels, "data": c.row_bits, "mask": c.lanes // c.outputs}))
        banks = []
        for q in range(c.pixels):
            m.submodules[f"bank{q}"] = bank = SinglePortMemory(c.feature_words, c.lanes, c.outputs, c.technology)
            m.d.comb += [
                bank.address.eq(port.address[q]), bank.write_data.eq(port.data.word_select(q, c.lanes)),
                bank.write_mask.eq(port.mask), bank.write_enable.eq(port.write[q])]
            banks.append(bank.read_data)
        row = Cat(*banks)

        # The pipeline of a read: flags travel with it.
        issue = Signal(data.StructLayout({"valid": 1, "read": read_layout(c)}))
        m.d.comb += [issue.valid.eq(sequencer.valid), issue.read.eq(sequencer.read)]
        stages = [issue]
        accumulated = timing.accumulated(c.lanes)
        for t in range(1, accumulated + 1):
            stage = Signal(issue.shape(), name=f"stage{t}")
            m.d.sync += stage.eq(stages[-1])
            stages.append(stage)
        ready, turn = Signal(), Signal()  # the learner's, of the port and of the array, two cycles later
        if c.learning:
            m.submodules.learner = learner = self.learner
            rows = learner.rows
            # Its rows go the way of the reads that the sequencer issued two cycles before, to the centre of a window.
            centre = stages[FORWARD].read
            with m.If(turn):
                m.d.sync += [stages[FORWARD].valid.eq(rows.valid & rows.ready & rows.payload.forward), centre.first.eq(rows.payload.first),
                             centre.last.eq(0), centre.ky.eq(1), centre.kx.eq(1)]

        # Weights.
        weights = Signal(c.word_bits, reset_less=timing.wide(c.lanes))
        if c.weights == "memory":
            m.submodules.weights = memory = WeightMemory(c.weight_words, c.word_bits)
            m.d.comb += memory.address.eq(stages[timing.READ - 1].read.weight)
            taken = memory.data
            if c.learning:
                word, part = learner.boot_address, Signal(range(c.outputs))
                m.d.sync += part.eq(word)
                with m.If(turn):
                    m.d.comb += memory.address.eq(c.shipped_base + (word >> len(part)))
                m.d.comb += learner.boot_word.eq(memory.data.word_select(part, c.lanes))
            booted, moves_next, moves, writes = (Const(value, 1) for value in (1, 0, 0, 0))
        else:
            m.submodules.mover = memory = WeightMover(c)
            wiring.connect(m, wiring.flipped(self.weights), memory.weights)
            m.d.comb += [
                memory.address_read.eq(stages[timing.READ - 1].read.weight), memory.row.eq(row),
                memory.pop.eq(sequencer.pop), memory.pop_words.eq(sequencer.pop_words), sequencer.level.eq(memory.level)]
            taken = memory.word
            booted, moves_next, moves, writes = memory.booted, memory.request_next, memory.request, memory.write

        m.d.sync += weights.eq(taken)
        if c.learning:
            with m.If(turn):
                m.d.sync += weights[:c.lanes].eq(learner.act)

        # Pixels x weights.
        here = stages[timing.READ]
        m.d.comb += [align.data.eq(row), *(
            getattr(align, name).eq(here.read[name]) for name in ("ky", "kx", "top", "bottom", "left", "right"))]
        here = stages[timing.READ + 1]
        m.d.comb += [
            array.pixels.eq(align.pixels), array.weights.eq(weights), array.valid.eq(here.valid), array.first.eq(here.read.first)]
        if c.thresholds:
            bias = Signal(data.ArrayLayout(signed(c.accumulator_bits), c.outputs))
            with m.If(here.read.bias):
                m.d.sync += [bias[p].eq(weights.word_select(p, c.lanes)) for p in range(c.outputs)]
            with m.If(sequencer.begin | turn):  # the step may have none
                m.d.sync += bias.eq(0)
            m.d.comb += array.start.eq(bias)
        per_word = c.rows_per_word
        mask = c.map_pixels or (1 << c.pixels) - 1
        m.d.comb += [
            lgap.valid.eq(here.valid & step.lgap), lgap.act.eq(align.pixels), lgap.weight.eq(weights), lgap.lane.eq(here.read.lane),
            lgap.first.eq(here.read.first), lgap.last.eq(here.read.last), lgap.mask.eq(mask)]
        if per_word > 1:
            m.d.comb += lgap.sub.eq(here.read.word)

        # Results of blocks and tiles.
        done = stages[accumulated]
        bits = c.accumulator_bits
        m.d.comb += [
            drain.signs.eq(Cat(array.accumulators[(i + 1) * bits - 1] for i in range(c.pixels * c.outputs))),
            drain.row_end.eq(done.read.row_end), drain.tile_end.eq(done.read.tile_end), drain.begin.eq(sequencer.begin),
            drain.step.eq(step), drain.pool_write.eq(sequencer.pool_write), drain.average.eq(lgap.gap), drain.learned.eq(lgap.depthwise)]
        before = stages[accumulated - 2]
        drains_next, drains = Signal(), Signal()  # the port is taken two cycles later, so no read may be issued in this one
        m.d.sync += [drains_next.eq(before.valid & before.read.last & ~step.logits & ~step.lgap), drains.eq(drains_next)]
        m.d.comb += drain.strobe.eq(drains)

        # Logits, one by one.
        if c.learning:
            step_of = bits * c.outputs
            m.d.comb += [
                learner.scores.eq(Cat(array.accumulators[q * step_of:q * step_of + bits] for q in range(c.pixels))), learner.read.eq(row),
                self.result.payload.eq(learner.best), self.logits.valid.eq(learner.logits.valid),
                learner.logits.ready.eq(self.logits.ready), self.logits.payload.eq(learner.logits.payload),
                *(getattr(self, name).eq(getattr(learner, name)) for name in LEARNING if name not in ("command", "host"))]
        else:
            self._scores(m, sequencer, array)

        # One frame.
        loading, reading, was_reading = Signal(), Signal(), Signal()
        closed = Signal()  # to resident rows: from the end of the program until an image is loaded
        was_loading = Signal()
        teaching = Signal()  # the learner is at work between two frames, or is asked for
        m.d.sync += [was_reading.eq(reading), was_loading.eq(loading)]
        m.d.comb += loader.enable.eq(loading)
        word = Signal(range(c.latent_words + 1))
        wait = Signal(range(timing.READ + 2))
        m.d.comb += [self.latent.payload.word.eq(banks[0]), self.latent.payload.last.eq(word == c.latent_words - 1)]
        with m.If(sequencer.begin):
            m.d.sync += self.step.eq(self.step + 1)
        several = c.frames > 1
        latent_place = Signal(w.address, init=c.latent_base) if several else c.latent_base
        with m.FSM() as fsm:
            with m.State("LOAD"):
                m.d.sync += [loading.eq(booted & ~teaching), closed.eq(booted)]
                with m.If(sequencer.stop & REWIND):
                    m.d.sync += self.step.eq(0)
                with m.If(loader.done):
                    m.d.sync += [loading.eq(0), closed.eq(0)]
                    m.next = "START"
            with m.State("START"):
                m.d.comb += sequencer.start.eq(1)
                m.next = "RUN"
            with m.State("RUN"):
                m.d.sync += word.eq(0)
                with m.If(sequencer.done):
                    if several:
                        m.next = "STOP"
                    else:
                        m.d.sync += closed.eq(1)
                        m.next = "CLASSIFY" if c.learning else "RESULT"
                        with m.If(self.want_latent & (c.latent_words > 0) & (not c.learning)):
                            m.next = "ASK"
            if c.learning:
                with m.State("CLASSIFY"):
                    m.d.comb += [learner.command.valid.eq(turn), learner.command.payload.what.eq(Command.CLASSIFY)]
                    with m.If(turn & learner.command.ready):
                        m.next = "SCORES"
                with m.State("SCORES"):
                    with m.If(~learner.busy):
                        m.next = "RESULT"
                        with m.If(self.want_latent & (c.latent_words > 0)):
                            m.next = "ASK"
            if several:
                with m.State("STOP"):
                    m.d.sync += closed.eq(1)
                    m.next = "LOAD"
                    with m.If(sequencer.stop & RESULT):
                        m.d.sync += closed.eq((sequencer.stop & LOAD) | self.want_latent)
                        m.next = "RESULT"
                        with m.If(self.want_latent & (c.latent_words > 0)):
                            m.next = "ASK"
            with m.State("ASK"):
                m.d.sync += wait.eq(wait + 1)
                m.d.comb += reading.eq(1)
                with m.If(wait == timing.READ + 1):
                    m.d.sync += wait.eq(0)
                    m.next = "LATENT"
            with m.State("LATENT"):
                m.d.comb += [reading.eq(1), self.latent.valid.eq(1)]
                with m.If(self.latent.ready):
                    m.d.sync += word.eq(word + 1)
                    m.next = "ASK"
                    with m.If(self.latent.payload.last):
                        m.next = "RESULT"
            with m.State("RESULT"):
                m.d.comb += self.result.valid.eq(1)
                with m.If(self.result.ready):
                    m.next = "LOAD"
                    if several:
                        m.d.sync += latent_place.eq(Mux(sequencer.stop & REWIND, c.latent_base, latent_place + c.frame_stride))
                        with m.If(~(sequencer.stop & LOAD).any()):
                            m.d.sync += closed.eq(0)
                            m.next = "START"
        m.d.comb += self.busy.eq(~fsm.ongoing("LOAD"))
        if c.learning:
            # Its turn is when nothing of the engine, of the loader or of the mover is on its way to the port.
            was_ready = Signal()
            own = fsm.ongoing("CLASSIFY") | fsm.ongoing("SCORES")
            m.d.comb += ready.eq((own | fsm.ongoing("LOAD") & ~loading & ~was_loading & teaching) & booted)
            m.d.sync += [was_ready.eq(ready), turn.eq(ready & was_ready)]
            asked = turn & fsm.ongoing("LOAD")
            m.d.comb += [teaching.eq(self.command.valid | self.host.valid | learner.busy),
                         self.busy.eq(~fsm.ongoing("LOAD") | learner.busy), learner.host.valid.eq(self.host.valid & asked),
                         learner.host.payload.eq(self.host.payload), self.host.ready.eq(learner.host.ready),
                         self.command.ready.eq(learner.command.ready & asked),
                         rows.ready.eq(turn)]
            with m.If(asked):
                m.d.comb += [learner.command.valid.eq(self.command.valid), learner.command.payload.eq(self.command.payload)]

        # The port.
        if c.weights == "stream":
            m.d.comb += memory.blocked.eq(drains_next | sequencer.reserve | closed)
        m.d.sync += sequencer.hold.eq(drains_next | moves_next)
        m.d.comb += [
            address.address.eq(sequencer.read.address), address.ky.eq(sequencer.read.ky), address.kx.eq(sequencer.read.kx),
            address.row.eq(step.row), address.advance.eq(step.advance)]
        # All but the reads of the sequencer use one address for all banks.  What writes nothing offers 0.
        common, use_common, moving, reserved = Signal(w.row), Signal(), Signal(), Signal()
        m.d.sync += [moving.eq(moves), reserved.eq(sequencer.reserve),
                     use_common.eq(drains | reserved | loading | reading | moves | ~booted | ready)]
        m.d.comb += common.eq(drain.address)
        with m.If(was_loading):
            m.d.comb += common.eq(loader.address)
        with m.If(was_reading):  # a resident row may be on its way in the first cycle
            m.d.comb += common.eq(latent_place + word)
        word = loader.word
        everywhere = was_loading
        write = drain.write | loader.write
        if c.weights == "stream":
            with m.If(moving | ~booted):
                m.d.comb += common.eq(memory.address)
            everywhere = everywhere | writes
            write = write | writes.replicate(c.pixels)
        if c.learning:
            taught = Signal(c.pixels)
            m.d.comb += taught.eq(rows.payload.write & (rows.valid & rows.ready).replicate(c.pixels))
            with m.If(turn):
                m.d.comb += common.eq(rows.payload.address)
            word = word | rows.payload.word & turn.replicate(c.lanes)
            everywhere = everywhere | turn
            write = write | taught
        words = drain.data | word.replicate(c.pixels)
        if c.weights == "stream":
            words = words | memory.write_data & writes.replicate(c.row_bits)
        m.d.sync += port.write.eq(write)
        m.d.sync += [port.data.eq(words), port.mask.eq(drain.mask | everywhere.replicate(len(port.mask)))]
        m.d.sync += [port.address[q].eq(Mux(use_common, common, address.banks.word_select(q, w.address))) for q in range(c.pixels)]
        return m

    def _scores(self, m, sequencer, array):
        """The logits of a tile of the last layer, one by one, and the largest."""
        c, bits = self.config, self.config.accumulator_bits
        m.submodules.argmax = argmax = Argmax(score_bits(c), c.classes)
        value = array.accumulators[:c.pixels * c.outputs * bits].word_select(sequencer.score_index, bits)
        count = Signal(range(c.classes + 1))
        last = count == c.classes - 1
        m.d.comb += [
            self.logits.valid.eq(sequencer.score_valid), sequencer.score_ready.eq(self.logits.ready),
            self.logits.payload.value.eq(Cat(int(c.logits_odd), value).as_signed()), self.logits.payload.last.eq(last),
        ]
        # The result is looked at timing.END cycles after the last logit, so there is time for a register.
        m.d.sync += [
            argmax.valid.eq(self.logits.valid & self.logits.ready), argmax.score.eq(self.logits.payload.value),
            argmax.first.eq(sequencer.score_first)]
        with m.If(self.logits.valid & self.logits.ready):
            m.d.sync += count.eq(Mux(last, 0, count + 1))
        m.d.comb += self.result.payload.eq(argmax.best)

    def _pooled_size(self):
        """Pixels of the map that is pooled globally (1 where there is none)."""
        for s in self.config.program:
            if s.kind == "lgap":
                return s.words * (bin(self.config.map_pixels).count("1") if self.config.map_pixels else self.config.pixels)
        return 1
