"""The learner: presents samples, moves counters, keeps exemplars."""

from functools import reduce
from operator import or_
from types import SimpleNamespace

from amaranth import Array, Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ...machine.learner import READ_LATENCY
from ...machine.protocol import Command, Space
from ..signals import unnamed
from ..states import OneHot
from .classes import ClassTable, Scan
from .counters import CounterMover
from .host_port import HostPort
from .lfsr import Registers
from .replay_buffer import MASK_REGISTER, PICK_REGISTER, ReplayBuffer, Table
from .sample import SampleMemory
from .scorer import NOISE_BITS, Scorer
from .sign_update import SignUpdate


def command_layout(plan):
    """Layout of a command; `label` holds every number up to max_classes."""
    return data.StructLayout({"command": 3, "label": range(plan.max_classes + 1), "count": 8})


def host_layout(plan, address_bits):
    """Layout of a host's access.  address_bits: bits of a row's number."""
    address = address_bits + (plan.pixels - 1).bit_length()
    return data.StructLayout({"write": 1, "space": 3, "address": address, "data": plan.host_bits})


BEFORE = {Table.LATENT: ("DECIDE", "NEXT"), Table.SLOTS: ("CHECK_SLOT", "STORE", "REMOVE"), Table.CLASSES: ("LOADED", "RANK", "ROW")}
"""The states that make ready for a loop over the words of a table, whether it follows or not."""


class Learner(Scorer, ReplayBuffer, CounterMover, HostPort, wiring.Component):
    """Learns, rehearses, stores, freezes and classifies.

    docs/learner.md defines it.  Twin: `fbnn_hw.reference.learning.Learner`.

    All words lie in the rows of the feature banks (`LearnPlan`).  The learner reaches them through
    `rows`, one row a clock.  In learning mode the array's operands swap: weight rows enter at the
    pixel input, Q classes at once, and the sample's words, `act`, enter at the weight input of
    output 0.  XNOR is symmetric, so the sums stay the same.

    Parameters:
    - plan: LearnPlan.
    - score_bits: width of an accumulator.
    - act_latency: clocks from a row's acceptance to the clock in which the array takes `act` with it.
    - score_latency: clocks from the acceptance of the last row of a group of Q classes to the first clock in
      which `scores` are whole.
    - address_bits: bits of a row's number.

    Timing: docs/learner-hardware.md; clocks: `LearnPlan`.

    Resources: Block RAM for the sample, the classes' counts and their presentations, the labels of the slots,
    and with noise its table.  docs/benchmarks.md gives the cells of whole designs.
    """

    def __init__(self, plan, score_bits, act_latency, score_latency, address_bits):
        self.plan, self.score_bits, self.address_bits = plan, score_bits, address_bits
        self.act_latency, self.score_latency = act_latency, score_latency
        self.bank_bits = (plan.pixels - 1).bit_length()
        self.noisy = not plan.adds
        label = range(max(2, plan.max_classes))
        members = {
            # Taken when the learner rests.  LEARN, STORE and CLASSIFY expect the sample's words in bank 0 from latent_base on.
            "command": In(stream.Signature(command_layout(plan))),
            "refused": Out(1),  # the last command had an illegal label, which changes nothing, or the learner was frozen
            "busy": Out(1),  # a command is being carried out
            "class_count": Out(range(plan.max_classes + 1), init=plan.shipped),  # that have been learned or shipped
            "used": Out(range(plan.slots + 1)),  # slots that hold an exemplar
            "frozen": Out(1),  # LEARN, STORE and REHEARSE are refused
            # write: the banks that `word` is written to; 0 reads.  forward: the array takes the row.  first: the row begins a sum.
            "rows": Out(stream.Signature(data.StructLayout({
                "address": address_bits, "write": plan.pixels, "word": plan.lanes, "forward": 1, "first": 1}))),
            "read": In(plan.pixels * plan.lanes),  # data of a row, `READ_LATENCY` clocks after its acceptance, in that clock alone
            "act": Out(plan.lanes),  # the fan-in's word that meets the row in the array; ones for the last of several planes
            "scores": In(plan.pixels * score_bits),  # half of each class's dot product, plus an offset that all classes share
            # After CLASSIFY: the scores of all learned classes, in order, each twice its accumulator.
            "logits": Out(stream.Signature(data.StructLayout({"value": signed(score_bits + 1), "last": 1}))),
            "best": Out(label),  # the class with the largest score; holds until the next command
            "host": In(stream.Signature(host_layout(plan, address_bits))),  # while the learner rests; `ready` strobes when it is done
            "host_reply": Out(plan.host_bits)}  # the word that was read, with `host.ready`
        if plan.unknown:
            members["unknown"] = Out(1)  # beside `best`: its score is below its limit
        if plan.boot == "words":  # those of the shipped weights, class by class, a clock later
            members |= {"boot_address": Out(range(max(2, plan.shipped * plan.fan_in_words))), "boot_word": In(plan.lanes)}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        s = self._parts(m)
        self._signals(s)
        s.states = OneHot(m, "CLEAR")
        self._draws(m, s)
        self._row_port(m, s)
        self._loops(m, s)
        self._operands(m, s)
        self._scores(m, s)
        self._class_table(m, s)
        with s.states:
            m.d.comb += [self.busy.eq(~s.states.ongoing("REST")), s.registers.restart.eq(s.states.ongoing("CLEAR"))]
            self._rest(m, s)
            self._load(m, s)
            self._new_class(m, s)
            self._score(m, s)
            self._choose(m, s)
            self._move_counters(m, s)
            self._replay(m, s)
            self._store(m, s)
            self._host(m, s)
        return m

    # Parts and signals.

    def _parts(self, m):
        """The submodules, as a namespace."""
        p = self.plan
        s = SimpleNamespace()
        m.submodules.registers = s.registers = Registers(p.seed)
        m.submodules.sample = s.sample = SampleMemory(p.words, p.lanes, p.copies)
        m.submodules.classes = s.classes = ClassTable(
            p.max_classes, self._sum_bits if p.unknown else p.slots.bit_length(), p.prototype, p.config.most_presented if p.averages else 0,
            p.unknown, p.forget)
        m.submodules.update = s.update = SignUpdate(p.per_word, p.counter_bits, p.stored_bits, p.confidence, p.averages)
        m.submodules.labels = labels = Memory(shape=p.class_bits, depth=max(2, p.slots), init=[], attrs={"ram_style": "block"})
        label_read, label_write = labels.read_port(), labels.write_port()  # by these names in the Verilog
        s.label_read, s.label_write = label_read, label_write
        return s

    def _signals(self, s):
        """Add the Signals to the namespace, and names for parts of them.  A group names the methods that drive it."""
        p = self.plan
        label = range(max(2, p.max_classes))

        # The command: `_rest`; `_new_class`, `_score`, `_replay`, `_store`, `_row_done` go on from class to class.
        s.request_label = Signal(label)  # the label of the command
        s.label = Signal(label)  # the class of the current sample: that of the command or of a replay
        s.rival = Signal(label)  # the class with the largest score
        s.classifies = Signal()  # the command is CLASSIFY
        s.learns = Signal()  # LEARN: a store follows the replays
        s.stores = Signal()  # STORE, and the store of LEARN
        s.rehearses = Signal()  # REHEARSE
        s.freezes = Signal()  # FREEZE
        s.legal = Signal()  # the command's label is one that LEARN or STORE takes
        s.new = Signal()  # LEARN has not yet made the new class of its label
        s.count = Signal(8)  # replays left

        # Random bits enter at the top.  They push a mark down, whose place tells how many have come: `_draws`, as states ask for it.
        s.longest = max(NOISE_BITS, p.slot_bits, p.per_word)
        s.draw = Signal(s.longest + 1)
        s.word8, s.word_slot, s.kept = (s.draw[-n:] for n in (NOISE_BITS, p.slot_bits, p.per_word))
        s.push = unnamed()  # a bit comes in
        s.redraw = unnamed()  # begin a new draw

        # A row's address, a block's first row and a place in it, and its data: `_loops`, `_row_port`, `_operands`; the states that move
        # rows, in `_load`, `_score`, `_move_counters`, `_store`, `_host`.
        s.block = unnamed(self.address_bits)  # first row of the block
        s.index = Signal(range(max(2, p.fan_in_words)))  # number of the word in the loop
        s.part = Signal(range(p.stored_bits))  # of the words that hold the counters of a word of weights
        s.bank, s.chunk = s.part[:self.bank_bits], s.part[self.bank_bits:]
        s.arrives = Signal.like(s.part)  # the part whose row is read, or was read last
        s.target = unnamed(p.pixels)  # the bank that is written, one bit each
        s.values = unnamed(p.per_word)  # what the counters that arrive move by
        s.moved = unnamed(p.lanes)  # a word of moved counters, to be written
        s.waits = Signal()  # it has not been written
        s.moved_chunk = Signal.like(s.chunk)  # its chunk
        s.weights = [Signal(p.lanes, name=f"weights{plane or ''}") for plane in range(p.planes)]  # of the counters moved so far
        if p.planes > 1:
            s.plane = Signal(range(p.planes))  # of the mirror; it ends at 0
        if p.averages:
            s.strong = unnamed(p.per_word)  # weights of the counters in `moved` that are strong
            s.odd = Signal()  # the row has an odd number of strong weights before them
        s.word = self.rows.payload.word
        s.source = unnamed(p.pixels)  # the bank of that part, one bit each; none where counters start at 0
        s.bank_word = reduce(or_, (self.read.word_select(q, p.lanes) & s.source[q].replicate(p.lanes) for q in range(p.pixels)))
        s.rival_turn = Signal()  # the rival's row moves, not the label's
        s.row = Signal(label)  # the class whose row moves
        s.moves = Signal()  # the row that is read or written is one of its counters
        s.of_slot = Signal()  # the loop is over the words of an exemplar
        s.writes = unnamed()  # the row is written: a word of a bank
        s.slot = Signal(p.slot_bits)  # where an exemplar is read or written
        s.reads = unnamed()  # the row's data is wanted
        s.last = Signal()  # the row is the last one of a forward pass

        # Loops over the words of a table: `_loops`; the states strobe `advance`.
        s.of_latent = Signal()  # the loop is over the words of the sample in bank 0
        s.advance = unnamed()  # go on to the next word

        # Counters: `_rest`, `_new_class`, `_row_done`.
        s.starting = Signal()  # a new row, or with `shipping` a shipped one
        s.shipping = Signal()  # a row of shipped weights
        if p.boot == "words":
            s.boot_place = Signal.like(self.boot_address)  # word of the shipped weights, which `_move_counters` moves on

        # Scores: `_scores`, `_score`; `_rest` and `_load` begin.
        s.place = Signal(range(p.max_classes + 1))  # the class whose score is compared
        s.score = unnamed(signed(self.score_bits))
        s.best = unnamed(signed(self._sum_bits))  # the largest score so far, with its noise
        s.candidate = unnamed(signed(self._sum_bits))  # the score of `place`, with its noise
        s.fresh = Signal()  # nothing has been compared yet
        s.place_last = Signal()  # `place` is the last class
        s.larger = Signal()  # the candidate is larger than the largest one so far
        if p.forget:
            s.first = Signal()  # the sample of the command has not been loaded yet

        # Scans of the class table: `_visit`, `_class_table`.
        s.scan = Signal(Scan, name="table_scan")
        s.visiting = unnamed()  # a state waits for a scan
        s.begun = unnamed()  # the scan has been started

    # Logic beside the states.

    def _draws(self, m, s):
        """The register that collects drawn bits."""
        states, registers, host = s.states, s.registers, self.host.payload
        m.d.comb += registers.select.eq(_one_of(
            (states.any("READ", "READ_WAIT"), Const(MASK_REGISTER, 2)), (states.ongoing("DRAW_SLOT"), Const(PICK_REGISTER, 2)),
            (states.ongoing("HOST_LOOK"), host.space - Space.NOISE)))
        with m.If(s.push):
            m.d.sync += s.draw.eq(Cat(s.draw[1:], registers.bit))
        with m.If(s.redraw):
            m.d.sync += s.draw.eq(1 << s.longest)

    def _row_port(self, m, s):
        """Address and masks of the current row, and the flags that follow an accepted row."""
        p, rows = self.plan, self.rows
        host = self.host.payload
        writes, mirrors, forward = s.states.any("READ_WAIT", "AGAIN", "WRITE_LAST"), s.states.ongoing("MIRROR"), s.states.ongoing("FORWARD")
        m.d.sync += s.row.eq(Mux(s.rival_turn, s.rival, s.label))

        def row(chunk, label):  # chunk number p.chunks is the mirror
            return _times_plus(chunk, p.max_classes, label)

        def mirror(label):
            first = row(Const(p.chunks), label[self.bank_bits:])
            return first + s.plane * p.groups if p.planes > 1 else first
        s.offset = _one_of(
            (s.moves, row(Mux(writes, s.moved_chunk, s.chunk), s.row)), (forward, mirror(s.place)), (mirrors, mirror(s.row)),
            (s.of_slot, s.slot),
            (s.states.ongoing("HOST_ROW"), host.address[self.bank_bits:]))
        m.d.comb += s.word.eq(_one_of(
            (writes, s.moved), (mirrors, Array(s.weights)[s.plane] if p.planes > 1 else s.weights[0]),
            (s.states.ongoing("SAVE"), s.sample.word), (s.states.ongoing("HOST_ROW"), host.data)))
        with m.If(s.states.any("LOAD", "READ", "MOVE")):
            m.d.sync += [s.arrives.eq(s.part), s.source.eq(Mux(s.starting, 0, 1 << s.bank))]
        m.d.comb += [
            rows.payload.address.eq(s.block + s.offset[:self.address_bits]), rows.payload.first.eq(self._of_plane(s, 0, s.index == 0)),
            rows.payload.forward.eq(forward), rows.payload.write.eq(s.target & s.writes.replicate(p.pixels))]
        s.forwards = forward & rows.ready
        s.arrived = _later(m, rows.valid & rows.ready & s.reads, READ_LATENCY, "arrived")  # data stands at `read`
        s.scored = _later(m, s.forwards & s.last, self.score_latency - 1, "scored")  # scores are whole

    def _loops(self, m, s):
        """Loops over the words of a table: `advance` goes on to the next word."""
        p = self.plan
        with m.If(s.advance):
            m.d.sync += s.index.eq(s.index + 1)
            with m.If(s.of_slot):
                m.d.sync += s.part.eq(s.part + 1)
            with m.If(~s.of_slot | (s.bank == p.pixels - 1)):
                m.d.sync += s.block.eq(s.block + Mux(s.of_slot, p.slots, Mux(s.of_latent, 1, p.block_rows)))
        with m.If(s.states.any("LOADED", "RANK", "ROW_DONE", "ADD")):  # each loop is left through one of them
            m.d.comb += s.sample.restart.eq(1)
            m.d.sync += [s.index.eq(0), s.part.eq(0)]
        before = {table: s.states.any(*states) for table, states in BEFORE.items()}
        with m.If(reduce(or_, before.values())):
            bases = {Table.LATENT: p.latent_base, Table.SLOTS: p.slots_base, Table.CLASSES: p.learn_base}
            m.d.sync += [
                s.moves.eq(s.states.ongoing("ROW")), s.of_slot.eq(before[Table.SLOTS]), s.of_latent.eq(before[Table.LATENT]),
                s.block.eq(reduce(or_, (Const(bases[table], self.address_bits) & chosen.replicate(self.address_bits)
                                        for table, chosen in before.items())))]
        with m.If(s.states.ongoing("REST")):  # the port takes the OR of all addresses
            m.d.sync += [s.block.eq(0), s.moves.eq(0), s.of_slot.eq(0)]

    def _operands(self, m, s):
        """The words of the sample, the labels, and the counters that move."""
        p = self.plan
        sample, update = s.sample, s.update
        # The sample's word is due `act_latency` clocks after the row that it meets was accepted.
        with m.If(_later(m, self._of_plane(s, -1, s.forwards), self.act_latency - 1, "forwarded")):
            m.d.comb += sample.advance.eq(1)
        act = sample.act
        if p.planes > 1:
            act |= _later(m, self._of_plane(s, -1, s.forwards), self.act_latency, "ones").replicate(p.lanes)
        m.d.comb += [
            self.act.eq(act), sample.data.eq(s.bank_word), s.label_write.addr.eq(s.slot),
            s.label_read.addr.eq(Mux(s.states.ongoing("HOST_ADDRESS"), s.slot, s.word_slot)), s.label_write.data.eq(s.request_label)]
        m.d.sync += s.values.eq(sample.act.word_select(s.arrives, p.per_word))
        unthinned = 1 if not p.thinning else s.classes.starting if p.prototype else 0
        s.everything = ~s.starting & unthinned  # all counters move, none is drawn
        keep = (s.kept | s.everything.replicate(p.per_word)) ^ s.starting.replicate(p.per_word)
        if p.boot == "words":
            m.d.comb += self.boot_address.eq(s.boot_place)
            keep = Mux(s.shipping, ~self.boot_word.word_select(s.arrives, p.per_word), keep)
        m.d.comb += [
            update.counters.eq(s.bank_word), update.values.eq(s.values),
            update.negative.eq(s.rival_turn), update.start.eq(s.starting), update.shipped.eq(s.shipping), update.keep.eq(keep)]
        if p.averages:
            counters = [s.moved.word_select(n, p.stored_bits)[:p.counter_bits] for n in range(p.per_word)]
            least = s.classes.presents[1:p.counter_bits - 1]
            m.d.comb += [update.halve.eq(s.classes.halves & ~s.starting),
                         s.strong.eq(Cat((h[:-1] ^ h[-1].replicate(p.counter_bits - 1)) >= least for h in counters))]

    def _class_table(self, m, s):
        """The inputs of the class table."""
        classes, host = s.classes, self.host.payload
        index = host.address
        if self.plan.unknown or self.plan.forget:
            index = Mux(s.states.any("HOST_ADDRESS", "HOST_LOOK"), host.address[:len(s.place)], s.place)
        m.d.comb += [
            classes.label.eq(s.label), classes.host_index.eq(index), classes.data.eq(host.data)]
        m.d.comb += classes.start.eq(s.visiting & ~s.begun)
        m.d.sync += [s.begun.eq(s.visiting & ~classes.done), classes.scan.eq(s.scan)]
        s.first_steps = classes.starting if self.plan.prototype else Const(0)  # a prototype presentation

    # What states do in common.

    def _drawn(self, s, bits):
        """Whether exactly `bits` bits have been drawn."""
        return s.draw[s.longest - bits]

    def _take(self, m, s, register):
        """Draw the next bit of the state's register."""
        m.d.comb += [s.registers.shift[register].eq(1), s.push.eq(1)]

    def _visit(self, m, s, state, scan, then):
        """Make a state that scans the class table, then calls `then`."""
        with s.states.state(state):
            m.d.comb += [s.visiting.eq(1), s.scan.eq(scan)]
            with m.If(s.classes.done):
                then()

    def _of_plane(self, s, plane, condition):
        """`condition` in the first plane of the mirror, 0, or in the last one, -1."""
        planes = self.plan.planes
        return condition & (s.plane == plane % planes) if planes > 1 else condition

    def _next_plane(self, m, s):
        """Go on to the next plane of the mirror."""
        if self.plan.planes > 1:
            m.d.sync += s.plane.eq(s.plane + 1)

    def _planes(self, s):
        """The planes of the counters in `moved`; `LearnPlan.planes` says what they are."""
        p = self.plan
        signs = ~s.moved[p.counter_bits - 1::p.stored_bits]
        if p.planes == 1:
            return [signs]
        if p.averages:
            odd = Cat(s.odd ^ s.strong[:n].xor() for n in range(p.per_word))
            return [signs, s.strong & signs, ~s.strong | signs, ~(s.strong & odd)]
        below = s.moved[p.counter_bits - 2::p.stored_bits], s.moved[p.counter_bits - 3::p.stored_bits]
        high, low = signs & below[0] & below[1], ~signs & ~below[0] & ~below[1]
        return [signs, high, ~low, ~(high | low)]

    # Chapters of the state machine.

    def _rest(self, m, s):
        """The state CLEAR after reset, REST, which takes commands and accesses, and DECIDE, which begins a command."""
        p, request = self.plan, self.command.payload
        learns, unknown = request.command == Command.LEARN, request.label == self.class_count
        legal = (request.label < self.class_count) | learns & unknown & (request.label < p.max_classes)
        if self.plan.adds:
            legal &= learns  # a learner of prototypes stores nothing

        def cleared():
            s.states.go("REST")
            if p.boot == "words" and p.shipped:
                m.d.sync += [s.starting.eq(1), s.shipping.eq(1)]
                s.states.go("ROW")
        self._visit(m, s, "CLEAR", Scan.CLEAR, cleared)
        with s.states.state("REST"):
            m.d.comb += [self.command.ready.eq(1), s.redraw.eq(1)]
            m.d.sync += [
                s.request_label.eq(request.label), s.label.eq(request.label), s.classifies.eq(request.command == Command.CLASSIFY),
                s.learns.eq(learns), s.stores.eq(request.command == Command.STORE), s.rehearses.eq(request.command == Command.REHEARSE),
                s.freezes.eq(request.command == Command.FREEZE),
                s.new.eq(learns & unknown), s.count.eq(Mux(learns, p.replays, request.count)), s.rival_turn.eq(0), s.starting.eq(0),
                s.shipping.eq(0), s.legal.eq(legal)]
            if p.unknown or p.forget:
                m.d.sync += s.place.eq(request.label)
            with m.If(self.command.valid):
                m.d.sync += self.refused.eq(0)
                s.states.go("DECIDE")
            with m.Elif(self.host.valid):
                s.states.go("HOST")
        with s.states.state("DECIDE"):
            changes = s.learns | s.stores | s.rehearses
            refused = changes & (self.frozen | ~s.rehearses & ~s.legal)
            m.d.sync += self.refused.eq(refused)
            if p.forget:
                m.d.sync += s.first.eq(1)
            s.states.go("REST")
            with m.If(s.rehearses):
                with m.If(~self.frozen):
                    s.states.go("NEXT")
            with m.Elif(s.classifies | changes & ~refused):
                s.states.go("LOAD")
            with m.Elif(s.freezes):
                m.d.sync += self.frozen.eq(s.count[0])

    def _load(self, m, s):
        """States that read a sample's words into the sample memory, one row each."""
        rows, sample = self.rows, s.sample
        with s.states.state("LOAD"):
            m.d.comb += [rows.valid.eq(1), s.reads.eq(1)]
            with m.If(rows.ready):
                s.states.go("LOAD_WAIT")
        with s.states.state("LOAD_WAIT"):
            with m.If(s.arrived):
                m.d.comb += [sample.write.eq(1), sample.advance.eq(1), sample.raw.eq(1), s.advance.eq(1)]
                s.states.go("LOAD")
                with m.If(s.index == self.plan.words - 1):
                    s.states.go("LOADED")
        with s.states.state("LOADED"):
            new = s.new
            if self.plan.forget:
                m.d.sync += s.first.eq(0)
                new |= s.first & s.learns & s.classes.gone
            with m.If(s.stores):
                s.states.go("STORE")
                if self.plan.forget:
                    with m.If(s.first & s.classes.gone):
                        m.d.sync += self.refused.eq(1)
                        s.states.go("REST")
            with m.Elif(new):
                s.states.go("NEW")
            with m.Elif(s.classifies & (self.class_count == 0)):
                s.states.go("REST")
                if not self.plan.shipped:  # a host may write a state without classes, in which the last winner is none
                    m.d.sync += s.rival.eq(0)
                if self.plan.unknown:
                    m.d.sync += self.unknown.eq(0)
            if self.plan.unknown:
                with m.Elif(~s.classifies):
                    s.states.go("FORWARD")  # for the score of `place`, the sample's class
            elif self.plan.adds:
                with m.Elif(~s.classifies):
                    s.states.go("PRESENTED")
            with m.Else():
                m.d.sync += [s.place.eq(0), s.fresh.eq(1)]
                s.states.go("FORWARD")

    def _choose(self, m, s):
        """The state after the scores, which decides whether counters move."""
        def presented():
            if self.plan.adds:
                s.states.go("ROW")
                return
            with m.If((s.rival == s.label) & ~s.first_steps):
                s.states.go("NEXT")
            with m.Else():
                s.states.go("ROW")
        self._visit(m, s, "PRESENTED", Scan.PRESENT, presented)


def _one_of(*choices):
    """The value that is chosen; 0 if none is.  choices: (whether, value)."""
    return reduce(or_, (value & chosen.replicate(len(value)) for chosen, value in choices))


def _times_plus(value, unit, rest):
    """value * unit + rest, for a rest below unit; no adder where unit is a power of two."""
    bits = unit.bit_length() - 1
    if unit != 1 << bits:
        return value * unit + rest
    return Cat((rest | Const(0, max(1, bits)))[:bits], value)


def _later(m, signal, clocks, name):
    """Delay a signal by so many clocks."""
    for t in range(clocks):
        register = Signal(name=f"{name}{t}")
        m.d.sync += register.eq(signal)
        signal = register
    return signal
