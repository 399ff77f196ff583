"""The learner: presents samples, moves counters, keeps exemplars."""

from enum import IntEnum

from amaranth import Array, Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..signals import unnamed
from .classes import ClassTable, Scan
from .lfsr import Registers
from .noise import NoiseTable
from .sample import SampleMemory
from .sign_update import SignUpdate


class Command(IntEnum):
    """What a learner does."""

    CLASSIFY = 0  # scores of the sample at hand
    LEARN = 1  # learn(x, label)
    STORE = 2  # store(x, label)
    REHEARSE = 3  # `count` replays
    FREEZE = 4  # frozen = count[0]


class Table(IntEnum):
    """What a loop runs over."""

    CLASSES = 0  # the blocks of mirror and counters
    SLOTS = 1  # the words of an exemplar
    LATENT = 2  # those of the sample where the engine leaves them


class Space(IntEnum):
    """What a host looks into; the state of one is whole only while the learner rests."""

    BANKS = 0  # address: row * Q + bank
    LABELS = 1  # address: slot
    COUNTS = 2  # address: class
    PRESENTED = 3  # address: class; presented, then left in the upper 8 bits
    SCALARS = 4  # address: 0 known, 1 used, 2 frozen
    NOISE = 5  # one bit an access, lowest first, each turns the register by one; all n of them, and it is as before
    MASK = 6
    PICK = 7


def command_layout(plan):
    """Of a command; `label` holds every number up to max_classes."""
    return data.StructLayout({"command": 3, "label": range(plan.max_classes + 1), "count": 8})


def host_layout(plan, address_bits):
    """Of an access; address_bits: of a row."""
    address = address_bits + (plan.pixels - 1).bit_length()
    return data.StructLayout({"write": 1, "space": 3, "address": address, "data": max(16, plan.lanes)})


class Learner(wiring.Component):
    """learn, rehearse, store, freeze and classification; definition: docs/on-chip-learning.md, twin: `fbnn_hw.reference.learning.Learner`.

    All words lie in the rows of the feature banks (`LearnPlan`), reached through `rows`, one row a clock.  The forward pass is that
    of the engine with operands exchanged: XNOR is symmetric, so the rows of the mirror take the way of the pixels, Q classes at once,
    and the words of the sample, `act`, stand at the weights of output 0.

    Parameters
    ----------
    plan : LearnPlan
    score_bits : int
        Of an accumulator.
    read_latency : int
        Clocks from a row's acceptance to its data.
    act_latency : int
        From its acceptance to the clock in which the array takes `act` with it.
    score_latency : int
        From the acceptance of the last row of a pass to the first clock in which `scores` are whole.
    address_bits : int
        Of a row.

    Members
    -------
    command : In(stream of what: Command, label, count)
        Taken when the learner rests.  LEARN, STORE and CLASSIFY find the sample's words in bank 0 from latent_base on.  A label that is
        not legal changes nothing.
    refused : Out(1)
        The last command had a label that was not legal, or found the learner frozen.
    busy : Out(1)
    known, used, frozen : Out
    rows : Out(stream)
        address; write: Q bits, the banks that `word` is written to, 0 reads; forward: the array takes the row, first: of a sum.
    read : In(Q * L)
        Data of a row, read_latency clocks after its acceptance, in that clock alone.
    act : Out(L), scores : In(Q * score_bits)
        scores: half of each class's dot product, the same for all classes more or less.
    logits : Out(stream of value, last), best : Out
        After CLASSIFY: the scores of the classes known, in order, each twice its accumulator; best holds until the next command.
    boot_address : Out, boot_word : In(L)  (plan.boot == "words")
        Words of the shipped weights, class by class, a clock later.
    host : In(stream of write, space, address, data)
        Look or write while the learner rests; `ready` strobes when it is done.
    found : Out
        What was looked at, with `host.ready`.

    Timing
    ------
    docs/on-chip-learning.md, section "In hardware".
    """

    def __init__(self, plan, score_bits, read_latency=2, act_latency=3, score_latency=7, address_bits=14):
        self.plan, self.score_bits, self.address_bits = plan, score_bits, address_bits
        self.latency = read_latency, act_latency, score_latency
        label = range(max(2, plan.max_classes))
        members = {
            "command": In(stream.Signature(command_layout(plan))),
            "refused": Out(1), "busy": Out(1),
            "class_count": Out(range(plan.max_classes + 1), init=plan.shipped), "used": Out(range(plan.slots + 1)), "frozen": Out(1),
            "rows": Out(stream.Signature(data.StructLayout({
                "address": address_bits, "write": plan.pixels, "word": plan.lanes, "forward": 1, "first": 1}))),
            "read": In(plan.pixels * plan.lanes), "act": Out(plan.lanes), "scores": In(plan.pixels * score_bits),
            "logits": Out(stream.Signature(data.StructLayout({"value": signed(score_bits + 1), "last": 1}))), "best": Out(label),
            "host": In(stream.Signature(host_layout(plan, address_bits))), "host_reply": Out(max(16, plan.lanes))}
        if plan.boot == "words":
            members |= {"boot_address": Out(range(max(2, plan.shipped * plan.fan_in_words))), "boot_word": In(plan.lanes)}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        p = self.plan
        lanes, at_once = p.lanes, p.per_word
        bank_bits = (p.pixels - 1).bit_length()
        read_latency, act_latency, score_latency = self.latency
        noisy = p.rule != "margin"

        m.submodules.registers = registers = Registers(p.seed)
        m.submodules.sample = sample = SampleMemory(p.words, lanes, p.copies)
        m.submodules.classes = classes = ClassTable(p.max_classes, p.slots.bit_length(), p.prototype, p.weighted)
        m.submodules.update = update = SignUpdate(at_once, p.counter_bits, p.stored_bits, p.confidence, p.rule == "flip")
        m.submodules.labels = labels = Memory(shape=p.class_bits, depth=max(2, p.slots), init=[], attrs={"ram_style": "block"})
        label_read, label_write = labels.read_port(), labels.write_port()

        request, host, rows = self.command.payload, self.host.payload, self.rows
        label_shape = range(max(2, p.max_classes))
        request_label = Signal(label_shape)
        label = Signal(label_shape)
        rival = Signal(label_shape)
        class_count, used, frozen = self.class_count, self.used, self.frozen
        command = Signal(3)  # a Command; LEARN becomes REHEARSE, then STORE
        learning = Signal()  # LEARN: a store follows the replays
        new = Signal()  # its label is that of a new class
        count = Signal(8)

        # Drawn bits come in at the top and push a mark down that tells how many they are.
        longest = max(8, p.slot_bits, p.class_bits, at_once)
        draw = Signal(longest + 1)
        word8, word_slot, word_class, kept = (draw[-n:] for n in (8, p.slot_bits, p.class_bits, at_once))
        push = unnamed()
        redraw = unnamed()
        pushed = unnamed()
        m.d.comb += pushed.eq(registers.bit)
        with m.If(push):
            m.d.sync += draw.eq(Cat(draw[1:], pushed))
        with m.If(redraw):
            m.d.sync += draw.eq(1 << longest)

        def drawn(bits):
            """Whether there are as many, and no more."""
            return draw[longest - bits]

        def take(select):
            """The next bit of a register."""
            m.d.comb += [registers.select.eq(select), registers.shift.eq(1), push.eq(1)]

        if p.thinning:
            thin = unnamed(range(p.thinning))
            all_ones = unnamed(init=1)

        def take_mask():
            """A bit of `kept`: the next bit of mask, or 1 where `thinning` bits in a row are 1."""
            if not p.thinning:
                take(1)
                return
            m.d.comb += [registers.select.eq(1), registers.shift.eq(1), pushed.eq(all_ones & registers.bit)]
            m.d.sync += [thin.eq(thin + 1), all_ones.eq(pushed)]
            with m.If(starting | (thin == p.thinning - 1)):
                m.d.comb += push.eq(1)
                m.d.sync += [thin.eq(0), all_ones.eq(1)]

        # Addresses: a block's first row, and a place in it.
        block = unnamed(self.address_bits)
        offset = Signal(self.address_bits)
        index = Signal(range(max(2, p.fan_in_words)))
        part = Signal(range(p.stored_bits))  # of the words that hold the counters of a word of weights
        bank, chunk = part[:bank_bits], part[bank_bits:]
        weights = Signal(lanes)
        word = rows.payload.word
        bank_word = self.read.word_select(bank, lanes)
        rival_turn = Signal()  # the rival's row
        row = Mux(rival_turn, rival, label)
        # a word of a bank; that of the mirror of `row`
        writes = unnamed()
        mirrors = Signal()
        m.d.comb += [rows.payload.address.eq(block + offset), rows.payload.first.eq(index == 0),
                     rows.payload.write.eq(writes << Mux(mirrors, row[:bank_bits], bank))]
        appends = Signal()  # a store into a free slot
        slot = Mux(appends, used, word_slot)

        def later(signal, clocks, name):
            for t in range(clocks):
                following = Signal(name=f"{name}{t}")
                m.d.sync += following.eq(signal)
                signal = following
            return signal

        reads = unnamed()
        last = Signal()
        accepted = rows.valid & rows.ready
        arriving = later(accepted & reads, read_latency - 1, "arriving")
        arrived = later(arriving, 1, "arrived")
        scored = later(accepted & rows.payload.forward & last, score_latency - 1, "scored")

        # Loops over the words of a table: `begin` one over `table`, `advance` to the next word.
        begin = unnamed()
        table = unnamed(Table)
        loop = unnamed(Table)
        advance = unnamed()
        with m.If(advance):
            m.d.sync += index.eq(index + 1)
            with m.If(loop == Table.SLOTS):
                m.d.sync += part.eq(part + 1)
            with m.If((loop != Table.SLOTS) | (bank == p.pixels - 1)):
                m.d.sync += block.eq(block + Array([p.block_rows, p.slots, 1])[loop])
        with m.If(begin):
            m.d.comb += sample.restart.eq(1)
            bases = Array([p.learn_base, p.slots_base, p.latent_base])
            m.d.sync += [loop.eq(table), index.eq(0), part.eq(0), block.eq(bases[table])]

        # The word of the sample that meets a row in the array comes act_latency clocks after the row was accepted.
        with m.If(later(accepted & rows.payload.forward, act_latency - 1, "forwarded")):
            m.d.comb += sample.advance.eq(1)
        m.d.comb += [self.act.eq(sample.act), sample.data.eq(bank_word), label_read.addr.eq(word_slot), label_write.addr.eq(slot),
                     label_write.data.eq(request_label)]

        # Counters.
        starting = Signal()  # a new row, or with `shipping` a shipped one
        shipping = Signal()
        zeroed = Signal()  # a new row's counters are written as 0 first, then stepped
        unthinned = 1 if not p.thinning else classes.starting if p.prototype else 0
        everything = ~starting & unthinned
        keep = (kept | everything.replicate(at_once)) ^ starting.replicate(at_once)
        if p.boot == "words":
            boot_place = Signal.like(self.boot_address)
            m.d.comb += self.boot_address.eq(boot_place)
            keep = Mux(shipping, ~self.boot_word.word_select(part, at_once), keep)
        m.d.comb += [update.counters.eq(bank_word), update.values.eq(sample.act.word_select(part, at_once)), update.negative.eq(rival_turn),
                     update.start.eq(starting), update.shipped.eq(shipping), update.keep.eq(keep)]

        # Scores.
        sum_bits = self.score_bits + 1
        if noisy:
            m.submodules.noise = noise = NoiseTable(p.temperature)
            m.d.comb += noise.index.eq(word8)
            sum_bits = max(sum_bits, len(noise.value)) + 1
        place = Signal(range(p.max_classes + 1))
        score = unnamed(signed(self.score_bits))
        best = unnamed(signed(sum_bits))
        candidate = unnamed(signed(sum_bits))
        m.d.comb += score.eq(self.scores.word_select(place[:bank_bits], self.score_bits))
        contends = 1
        own = None
        if p.rule == "margin":
            own = Signal(signed(sum_bits))
            contends = (command == Command.CLASSIFY) | (place != label)
        fresh = Signal()  # nothing has been compared yet
        place_last = place + 1 == class_count
        m.d.comb += [self.logits.payload.value.eq(score << 1), self.logits.payload.last.eq(place_last), self.best.eq(rival)]

        table_scan = Signal(Scan)
        m.d.comb += [classes.scan.eq(table_scan), classes.label.eq(label), classes.class_count.eq(class_count),
                     classes.host_index.eq(host.address),
                     classes.data.eq(host.data)]

        visiting = unnamed()
        begun = unnamed()
        m.d.comb += classes.start.eq(visiting & ~begun)
        m.d.sync += begun.eq(visiting & ~classes.done)

        def visit(state, which, then):
            """A state that runs a pass over the classes."""
            with m.State(state):
                m.d.comb += [visiting.eq(1), table_scan.eq(which)]
                with m.If(classes.done):
                    then()

        first_steps = classes.starting if p.prototype else Const(0)

        def loop_over(which):
            m.d.comb += [begin.eq(1), table.eq(which)]

        def load(latent):
            """Read a sample's words: from bank 0, or from `slot`."""
            loop_over(Table.LATENT if latent else Table.SLOTS)
            m.next = "LOAD"

        def move_counters():
            """Move the counters of `row`."""
            loop_over(Table.CLASSES)
            m.d.comb += redraw.eq(1)
            m.next = "READ"

        def forward():
            m.d.sync += [place.eq(0), fresh.eq(1)]
            loop_over(Table.CLASSES)
            m.next = "FORWARD"

        def save():
            """Write the sample at hand to `slot`."""
            loop_over(Table.SLOTS)
            m.next = "SAVE_READ"

        def finish():
            m.next = "REST"

        def following():
            """After a presentation: the next replay, then a store."""
            m.d.sync += command.eq(Command.REHEARSE)
            m.next = "NEXT"

        mirror = p.chunks * p.max_classes
        learns, unknown = request.command == Command.LEARN, request.label == class_count
        legal = (request.label < class_count) | learns & unknown & (request.label < p.max_classes)
        from_slot = command == Command.REHEARSE

        with m.FSM(init="CLEAR") as fsm:
            m.d.comb += [self.busy.eq(~fsm.ongoing("REST")), registers.restart.eq(fsm.ongoing("CLEAR"))]

            def cleared():
                m.next = "REST"
                if p.boot == "words" and p.shipped:
                    m.d.sync += [starting.eq(1), shipping.eq(1)]
                    move_counters()
            visit("CLEAR", Scan.CLEAR, cleared)

            with m.State("REST"):
                m.d.comb += [self.command.ready.eq(1), redraw.eq(1)]
                m.d.sync += [request_label.eq(request.label), label.eq(request.label), command.eq(request.command), learning.eq(learns),
                             new.eq(unknown),
                             count.eq(Mux(learns, p.replays, request.count)), rival_turn.eq(0), starting.eq(0), shipping.eq(0),
                             appends.eq(0)]
                with m.If(self.command.valid):
                    m.d.sync += self.refused.eq(0)
                    with m.Switch(request.command):
                        with m.Case(Command.CLASSIFY):
                            load(latent=True)
                        with m.Case(Command.LEARN, Command.STORE):
                            with m.If(frozen | ~legal):
                                m.d.sync += self.refused.eq(1)
                            with m.Else():
                                load(latent=True)
                        with m.Case(Command.REHEARSE):
                            with m.If(frozen):
                                m.d.sync += self.refused.eq(1)
                            with m.Else():
                                m.next = "NEXT"
                        with m.Case(Command.FREEZE):
                            m.d.sync += frozen.eq(request.count[0])
                with m.Elif(self.host.valid):
                    m.next = "HOST"

            # A sample's words, one row each.
            with m.State("LOAD"):
                m.d.comb += [rows.valid.eq(1), reads.eq(1), offset.eq(Mux(loop == Table.SLOTS, slot, 0))]
                with m.If(rows.ready):
                    m.next = "LOAD_WAIT"
            with m.State("LOAD_WAIT"):
                with m.If(arrived):
                    m.d.comb += [sample.write.eq(1), sample.advance.eq(1), sample.raw.eq(1), advance.eq(1)]
                    m.next = "LOAD"
                    with m.If(index == p.words - 1):
                        m.next = "LOADED"
            with m.State("LOADED"):
                with m.If(command == Command.STORE):
                    m.next = "STORE"
                with m.Elif((command == Command.LEARN) & new):
                    m.next = "NEW"
                with m.Elif((command == Command.CLASSIFY) & (class_count == 0)):
                    finish()
                with m.Else():
                    forward()

            # A new class.
            def created():
                m.d.sync += [class_count.eq(class_count + 1), starting.eq(1)]
                move_counters()
            visit("NEW", Scan.NEW, created)

            # Forward, Q classes at a time.
            with m.State("FORWARD"):
                m.d.comb += [rows.valid.eq(1), rows.payload.forward.eq(1), offset.eq(mirror + place[bank_bits:]), redraw.eq(1),
                             last.eq(index == p.fan_in_words - 1)]
                with m.If(rows.ready):
                    m.d.comb += advance.eq(1)
                    with m.If(last):
                        m.next = "SCORES_WAIT"
            with m.State("SCORES_WAIT"):
                with m.If(scored):
                    m.next = "DRAW_NOISE"
            with m.State("DRAW_NOISE"):
                if noisy:
                    with m.If((command == Command.CLASSIFY) | drawn(8)):
                        m.next = "ADD_NOISE"
                    with m.Else():
                        take(0)
                else:
                    m.next = "ADD_NOISE"
            with m.State("ADD_NOISE"):
                # CLASSIFY draws nothing, so its noise is the same for all classes.
                m.d.sync += candidate.eq((score << 1) + (noise.value if noisy else 0))
                m.next = "COMPARE"
            with m.State("COMPARE"):
                m.d.comb += self.logits.valid.eq(command == Command.CLASSIFY)
                with m.If((command != Command.CLASSIFY) | self.logits.ready):
                    m.d.comb += redraw.eq(1)
                    m.d.sync += place.eq(place + 1)
                    with m.If(contends & (fresh | (candidate > best))):
                        m.d.sync += [fresh.eq(0), best.eq(candidate), rival.eq(place)]
                    if own is not None:
                        with m.If(place == label):
                            m.d.sync += own.eq(score << 1)
                    m.next = "DRAW_NOISE"
                    with m.If(place_last):
                        m.next = "PRESENTED"
                        with m.If(command == Command.CLASSIFY):
                            finish()
                    with m.Elif(place[:bank_bits] == p.pixels - 1):
                        loop_over(Table.CLASSES)
                        m.next = "FORWARD"

            # Choose, then move the rows.
            def presented():
                nothing = rival == label
                if own is not None:
                    nothing = fresh | (own - best >= p.margin)
                with m.If(nothing & ~first_steps):
                    following()
                with m.Else():
                    move_counters()
                    if p.weighted:
                        with m.If(~first_steps):
                            m.next = "MINIMUM"
            visit("PRESENTED", Scan.PRESENT, presented)
            if p.weighted:
                # accept where u (presented + 1) / 256, rounded down, is at most the least presented
                share = Signal(9)

                def minimum():
                    m.d.sync += share.eq(0)
                    m.next = "ACCEPT"
                visit("MINIMUM", Scan.MINIMUM, minimum)
                with m.State("ACCEPT"):
                    with m.If(drawn(8)):
                        m.d.comb += redraw.eq(1)
                        m.next = "READ"
                        with m.If(share > classes.minimum):
                            following()
                    with m.Else():
                        take(0)
                        m.d.sync += share.eq((share + Mux(registers.bit, classes.presented + 1, 0)) >> 1)

            # Counters, a word of one bank at a time, two reads before two writes.  A word whose write has to wait is read again.
            counters = offset.eq(chunk * p.max_classes + row)
            # Bits of the mask that are still to come while a word is read are drawn in the meantime.
            drawing = ~everything & ~shipping & ~drawn(at_once)
            late = range(at_once - p.drawn_late, at_once)
            with m.State("READ"):
                m.d.comb += counters
                with m.If(starting & ~zeroed):
                    m.d.comb += [rows.valid.eq(1), writes.eq(1)]
                    m.d.sync += zeroed.eq(rows.ready)
                with m.Else():
                    with m.If(drawing):
                        take_mask()
                    with m.If(~drawing | Cat(drawn(bits) for bits in late).any()):
                        m.d.comb += [rows.valid.eq(1), reads.eq(1)]
                        with m.If(rows.ready):
                            m.next = "READ_SECOND"
            with m.State("READ_SECOND"):
                if p.drawn_late:
                    with m.If(drawing):
                        take_mask()
                m.d.comb += [counters, rows.valid.eq(~part[0] & everything), reads.eq(1)]
                m.next = "UPDATE"
            with m.State("UPDATE"):
                with m.If(arrived):
                    m.d.comb += [rows.valid.eq(1), counters, writes.eq(1), word.eq(update.updated)]
                    m.next = "READ"
                    with m.If(rows.ready):
                        m.d.comb += redraw.eq(1)
                        m.d.sync += [weights.eq(Cat(weights, update.weights)[at_once:]), part.eq(part + 1), zeroed.eq(0)]
                        with m.If(arriving):
                            m.next = "UPDATE"
                        with m.Elif(part == p.stored_bits - 1):
                            m.next = "MIRROR"
            with m.State("MIRROR"):
                m.d.comb += [rows.valid.eq(1), offset.eq(mirror + row[bank_bits:]), word.eq(weights), writes.eq(1), mirrors.eq(1)]
                with m.If(rows.ready):
                    m.d.comb += [sample.advance.eq(1), advance.eq(1)]
                    if p.boot == "words":
                        m.d.sync += boot_place.eq(boot_place + shipping)
                    m.next = "READ"
                    with m.If(index == p.fan_in_words - 1):
                        m.next = "ROW_DONE"
            with m.State("ROW_DONE"):
                with m.If(shipping):
                    m.d.sync += label.eq(label + 1)
                    m.next = "REST"
                    with m.If(label != p.shipped - 1):
                        move_counters()
                with m.Elif(starting):
                    m.d.sync += starting.eq(0)
                    forward()
                with m.Elif(rival_turn | first_steps):
                    m.d.sync += rival_turn.eq(0)
                    following()
                with m.Else():
                    m.d.sync += rival_turn.eq(1)
                    move_counters()

            # The next replay.
            with m.State("NEXT"):
                m.d.comb += redraw.eq(1)
                m.d.sync += count.eq(count - 1)
                with m.If((count == 0) | (used == 0)):
                    m.next = "REST"
                    with m.If(learning):
                        m.d.sync += [command.eq(Command.STORE), label.eq(request_label)]
                        load(latent=True)
                with m.Else():
                    m.next = {"least": "LEAST", "class": "DRAW_CLASS", "slot": "DRAW_SLOT"}[p.pick]
            any_label = from_slot if p.pick == "slot" else 0

            def chosen():
                m.d.sync += label.eq(classes.best)
                m.next = "DRAW_SLOT"
            if p.pick == "least":
                visit("LEAST", Scan.LEAST, chosen)
            if p.pick == "class":
                with m.State("DRAW_CLASS"):
                    m.d.comb += classes.host_index.eq(word_class)
                    with m.If(drawn(p.class_bits)):
                        m.next = "CHECK_CLASS"
                    with m.Else():
                        take(2)
                with m.State("CHECK_CLASS"):
                    m.d.comb += redraw.eq(1)
                    m.d.sync += label.eq(word_class)
                    m.next = "DRAW_CLASS"
                    with m.If((word_class < class_count) & (classes.counts != 0)):
                        m.next = "DRAW_SLOT"
            with m.State("DRAW_SLOT"):
                with m.If(drawn(p.slot_bits)):
                    m.next = "CHECK_SLOT"
                with m.Else():
                    take(2)
            with m.State("CHECK_SLOT"):
                with m.If((word_slot < used) & ((label_read.data == label) | any_label)):
                    m.d.sync += label.eq(label_read.data)
                    m.next = "REMOVE"
                    with m.If(from_slot):
                        load(latent=False)
                with m.Else():
                    m.d.comb += redraw.eq(1)
                    m.next = "DRAW_SLOT"

            # A store.
            with m.State("STORE"):
                with m.If(used == p.slots):
                    m.next = "FULLEST"
                with m.Else():
                    m.d.sync += appends.eq(1)
                    save()
            visit("FULLEST", Scan.FULLEST, chosen)
            visit("REMOVE", Scan.REMOVE, save)
            with m.State("SAVE_READ"):
                m.next = "SAVE"
            with m.State("SAVE"):
                m.d.comb += [rows.valid.eq(1), offset.eq(slot), word.eq(sample.word), writes.eq(1), label_write.en.eq(1)]
                with m.If(rows.ready):
                    m.d.comb += [sample.advance.eq(1), sample.raw.eq(1), advance.eq(1)]
                    m.next = "SAVE_READ"
                    with m.If(index == p.words - 1):
                        m.d.sync += [used.eq(used + appends), label.eq(request_label)]
                        m.next = "ADD"
            visit("ADD", Scan.ADD, finish)

            # The host looks in.
            space = host.space
            scalars = Array([class_count, used, frozen, 0])[host.address[:2]]
            with m.State("HOST"):
                m.d.sync += [block.eq(0), part.eq(host.address[:bank_bits]), word_slot.eq(host.address), self.host_reply.eq(0)]
                m.next = "HOST_ADDRESS"
                with m.If(space == Space.BANKS):
                    m.next = "HOST_ROW"
            with m.State("HOST_ADDRESS"):
                m.next = "HOST_LOOK"
            with m.State("HOST_LOOK"):
                m.next = "HOST_DONE"
                m.d.comb += [
                    registers.select.eq(space - Space.NOISE), registers.load.eq(1),
                    registers.data.eq(Mux(host.write, host.data[0], registers.bit)), label_write.data.eq(host.data)]
                with m.Switch(space):
                    with m.Case(Space.LABELS):
                        m.d.comb += label_write.en.eq(host.write)
                        m.d.sync += self.host_reply[:p.class_bits].eq(label_read.data)
                    with m.Case(Space.COUNTS):
                        m.d.comb += classes.host_write[0].eq(host.write)
                        m.d.sync += self.host_reply[:len(classes.counts)].eq(classes.counts)
                    with m.Case(Space.PRESENTED):
                        m.d.comb += classes.host_write[1].eq(host.write)
                        m.d.sync += self.host_reply[:16].eq(classes.presented_left)
                    with m.Case(Space.SCALARS):
                        m.d.sync += self.host_reply[:len(scalars)].eq(scalars)
                        with m.If(host.write):
                            for number, scalar in enumerate((class_count, used, frozen)):
                                with m.If(host.address[:2] == number):
                                    m.d.sync += scalar.eq(host.data)
                    with m.Default():
                        m.d.comb += registers.shift.eq(1)
                        m.d.sync += self.host_reply[0].eq(registers.bit)
            with m.State("HOST_ROW"):
                m.d.comb += [rows.valid.eq(1), reads.eq(1), offset.eq(host.address[bank_bits:]), word.eq(host.data),
                             writes.eq(host.write)]
                with m.If(rows.ready):
                    m.next = "HOST_WAIT"
                    with m.If(host.write):
                        m.next = "HOST_DONE"
            with m.State("HOST_WAIT"):
                with m.If(arrived):
                    m.d.sync += self.host_reply.eq(bank_word)
                    m.next = "HOST_DONE"
            with m.State("HOST_DONE"):
                m.d.comb += self.host.ready.eq(1)
                m.next = "REST"
        return m
