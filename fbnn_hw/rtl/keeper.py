"""The keeper: it keeps the state of a learner in three slots of a flash, and loads it after reset."""

from types import SimpleNamespace

from amaranth import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..base.errors import UsageError
from ..machine.kept import CRC_BYTES, CRC_POLYNOMIAL, PAGE, SECTOR, SEQUENCE_BITS, SlotPlan
from .keeper_program import CODE_BITS, Act, Condition, Flag, Order, Program, Sent
from .keeper_program import Out as Source
from .learning.learner import host_layout

MOST_HZ = 200e6
"""Its flash has at most a quarter of this clock, which command 03 allows."""


class Keeper(wiring.Component):
    """Keeps the state of a `Learner` in a flash: `fbnn_hw.machine.kept` says what lies where.

    Of the three slots one has the newest state, one the state before, and one is spare.  The spare one is erased while nothing else is
    to be done, a sector at a time.  A state that was saved is read back; where it differs, the slot is erased and written once more.  A
    slot whose writing was cut off has a wrong CRC, and one whose erasure was cut off has no mark that it is erased.

    `keeper_program.Program` says what it does, a word for each step; this component carries the words out.

    Parameters:
    - slot: SlotPlan.
    - address_bits: bits of a row's number in the banks.
    - base: address of room 0 in the flash (`SlotPlan.base`).
    - mark, bytes: the 4 bytes of `protocol.config_mark`.
    - clock_hz: frequency of sync.
    - latency: as `FlashReader` has it, up to 2.
    - blocks: whether its program lies in block RAM.  Else it is logic, some 600 LUT4.

    Timing: A bit of the flash takes 4 cycles, a word of the learner's memory 2 + the access more.
    docs/device-hardware.md has the times of a save.

    Resources: Three block RAMs of an iCE40.
    """

    def __init__(self, slot: SlotPlan, address_bits, base, mark, clock_hz, latency=0, blocks=True):
        if not 0 <= latency <= 2:
            raise UsageError(f"keeper: latency is {latency}, expected from 0 to 2")
        if base % (4 * slot.room) or base + 4 * slot.room > 1 << 24 or clock_hz > MOST_HZ:
            raise UsageError(f"keeper: base is {base:#x}, the clock {clock_hz / 1e6:g} MHz; expected a multiple of {4 * slot.room:#x} in "
                             f"16 MiB, and at most {MOST_HZ / 1e6:g} MHz")
        self.slot, self.base, self.mark, self.latency, self.blocks = slot, base, mark, latency, blocks
        host = host_layout(slot.plan, address_bits)
        super().__init__({
            # Strobes: save the state; make the newest one void and load the one before.  They are remembered while it works.
            "save": In(1), "undo": In(1),
            "may_erase": In(1),  # it may begin to erase a sector
            # It reads or writes the learner's memory, or is about to.  Nobody else may command the learner, and no image may be loaded.
            "busy": Out(1),
            "ready": Out(1),  # what the flash held after reset has been loaded
            "done": Out(1),  # strobes at the end of a save or an undo
            "failed": Out(1),  # the last save was read back wrongly twice, or the last load was wrong: the flash is worn, or not there
            "foreign": Out(1),  # after reset no state was found but one of another design
            "undoable": Out(1),  # there is a state before the newest one
            # As `Learner` has them, in the other direction.  Space, address and data are 0 while `wants` is.
            "host": Out(stream.Signature(host)), "host_reply": In(slot.plan.host_bits),
            "model": In(8), "model_next": Out(1),  # `protocol.model_mark`, as `FlashImage` has it
            "wants": Out(1), "given": In(1),  # it needs the flash, and has it; it is done with it where `wants` ends
            # As `FlashReader` has them.
            "pulse": Out(1), "select_n": Out(1, init=1), "lines_out": Out(4), "lines_enable": Out(4), "lines_in": In(4)})

    def elaborate(self, platform):
        m = Module()
        s = self._signals()
        self._program(m, s)
        self._flags(m, s)
        self._beats(m, s)
        self._place(m, s)
        self._learner(m, s)
        self._sent(m, s)
        self._slots(m, s)
        self._asked(m, s)
        return m

    def _signals(self):
        """What several methods use, as a namespace; registers of data have no reset."""
        s = SimpleNamespace()
        room = (self.slot.room - 1).bit_length()
        s.program = Program(self.slot, self.mark, self.base >> room + 2, 22 - room, len(self.host.payload.address))
        s.step = Signal(s.program.layout)  # the word that is carried out
        s.begun = Signal()  # the first one has been read
        s.beat = Signal(2 + len(s.step.length))  # cycle of a step that sends, 4 for each bit
        s.advance = Signal()  # to the next word
        s.holds = Signal()  # the condition
        s.sends = Signal()  # the step takes the time of some bits
        s.order = Signal(len(Order))
        s.flags = Signal(max(Flag) + 1)
        s.busy = Signal(init=1)  # the learner is used
        s.place = Signal(range(self.slot.room))  # byte in the slot that is written, or its sector that is erased
        s.address = Signal(max(8, len(self.host.payload.address)))  # of the unit in its table: a byte, or a word
        s.last = Signal()  # the unit is the last one of its table
        s.word = Signal(self.slot.plan.host_bits)
        s.crc = Signal(8 * CRC_BYTES, reset_less=True)
        s.bad = Signal(reset_less=True)
        s.out = Signal()  # the bit that goes out, or that is expected
        s.save = Signal()  # asked for
        s.undo = Signal()
        s.again = Signal()
        # Slots, by their rooms 1 to 3.
        s.room = Signal(2, init=1)  # of what is done
        s.newest = Signal(2, init=3)
        s.has_newest = Signal()
        s.has_before = Signal()
        s.blank = Signal()  # the spare slot is erased and says so
        s.sequence = Signal(SEQUENCE_BITS, reset_less=True)  # of the newest state
        s.found = Signal(SEQUENCE_BITS, reset_less=True)  # in the slot that is read
        s.foreign = Signal()  # a slot has marks of another design
        return s

    def _program(self, m, s):
        """The next word, by what the one before asks."""
        step, attributes = s.step, {"ram_style": "block" if self.blocks else "logic"}
        m.submodules.program = memory = Memory(
            shape=s.program.layout, depth=1 << len(step.to), init=s.program.words, attrs=attributes)
        read = memory.read_port()
        code = s.flags[:CODE_BITS]
        to = Cat(step.to[0] ^ (step.asks & s.holds), step.to[1:])
        to = Cat(Mux(step.returns, code, to[:CODE_BITS]), to[CODE_BITS:])
        m.d.sync += s.begun.eq(1)
        m.d.comb += [step.eq(read.data), read.en.eq(s.advance), read.addr.eq(to & s.begun.replicate(len(to))),
                     s.sends.eq(step.sends & s.begun)]
        s.acts = [s.step.acts[act] & ~s.step.sends & s.begun for act in Act]
        m.d.comb += s.order.eq(Mux(s.acts[Act.ORDER], s.step.constant, 0))

    def _flags(self, m, s):
        """What a task has set."""
        with m.If(s.acts[Act.SET]):
            m.d.sync += s.flags.eq(s.step.constant)
        with m.If(s.order[Order.BUSY]):
            m.d.sync += s.busy.eq(s.step.constant[Order.VALUE])
        m.d.comb += [self.busy.eq(s.busy | s.save | s.undo), self.wants.eq(s.flags[Flag.WANTS]), self.select_n.eq(~s.step.selects)]

    def _beats(self, m, s):
        """The cycles of a step that sends bits: four for each, in one of which the clock of the flash rises."""
        last = s.beat[:2].all()
        m.d.comb += [s.advance.eq(~s.sends | last & (s.beat[2:] == s.step.length)),
                     self.pulse.eq(s.sends & s.step.selects & (s.beat[:2] == 3 - self.latency))]
        m.d.sync += s.beat.eq(Mux(s.advance, 0, s.beat + 1))
        s.strobe = s.sends & last  # a bit has come
        s.sent = [s.step.acts[act] & s.strobe for act in Sent]
        s.number = s.beat[2:5]  # of a bit in its byte

    def _place(self, m, s):
        """The place in the slot."""
        sector = s.order[Order.SECTOR]
        step = Cat(~sector, Const(0, SECTOR.bit_length() - 2), sector)  # one adder for both
        with m.If(s.order[Order.HOME]):
            m.d.sync += s.place.eq(0)
        with m.Elif(s.sent[Sent.COUNT] & s.number.all() | sector):
            m.d.sync += s.place.eq(s.place + step)

    def _learner(self, m, s):
        """The units of the tables, and the learner's memory."""
        tables, host, constant = self.slot.tables, self.host.payload, s.step.constant
        step = s.acts[Act.STEP]
        # Addresses rise, so the first one that has all bits of the last one is the last one.
        m.d.sync += s.last.eq((constant[:len(s.address)] & ~s.address & s.program.lasts) == 0)
        with m.If(s.order[Order.CLEAR] | step & s.last):
            m.d.sync += s.address.eq(0)
        with m.Elif(step):
            m.d.sync += s.address.eq(s.address + 1)
        for order, first in zip((Order.FIRST, Order.SECOND), (first for _, first, _ in tables if first)):
            with m.If(s.order[order]):
                m.d.sync += [bit.eq(1) for number, bit in enumerate(s.address) if first >> number & 1]
        m.d.comb += [self.host.valid.eq(s.acts[Act.HOST]), host.write.eq(s.flags[Flag.LOADS]), host.space.eq(s.step.out[:3]),
                     host.address.eq(s.address), host.data.eq(s.word)]
        with m.If(s.strobe):
            m.d.sync += s.word.eq(Cat(self.lines_in[1], s.word))
        with m.If(s.acts[Act.HOST] & s.flags[Flag.PROGRAMS]):
            m.d.sync += s.word.eq(self.host_reply)
        with m.If(s.order[Order.CLEAR]):
            m.d.sync += s.word.eq(0)

    def _sent(self, m, s):
        """The bit that goes out, or that is expected, the CRC, and whether a bit is wrong."""
        line, page = self.lines_in[1], s.place[(PAGE - 1).bit_length():]

        def bit(value, count=None):
            """A bit of a value, the highest one first."""
            return Array([*reversed(list(value[:count]))])[s.number]
        sources = {
            Source.ZERO: Const(0, 1), Source.CONSTANT: bit(s.step.constant, 8), Source.PLACE: bit(page, 8), Source.ROOM: bit(s.room),
            Source.SEQUENCE: bit(Cat((s.sequence + 1)[:SEQUENCE_BITS], Const(0, 8 - SEQUENCE_BITS))), Source.MODEL: bit(self.model),
            Source.CRC: s.crc[-1], Source.WORD: s.word[-1]}
        if len(page) > 8:
            sources[Source.PLACE_HIGH] = bit(page[8:])
        m.d.comb += [s.out.eq(Array(sources[source] for source in sorted(sources))[s.step.out]),
                     self.lines_out.eq(Cat(s.out, Const(0b111, 3))), self.lines_enable.eq(0b1101),
                     self.model_next.eq(s.order[Order.TURN])]
        differs = s.sent[Sent.CHECK] & (s.out ^ line)
        with m.If(differs):
            m.d.sync += s.bad.eq(1)
        with m.If(differs & s.step.acts[Sent.DESIGN] & s.flags[Flag.BOOTS]):
            m.d.sync += s.foreign.eq(1)
        with m.If(s.sent[Sent.CRC]):
            feedback = s.crc[-1] ^ Mux(s.flags[Flag.PROGRAMS], s.out, line)
            m.d.sync += s.crc.eq((s.crc << 1) ^ Mux(feedback, CRC_POLYNOMIAL, 0))
        with m.If(s.order[Order.FRESH]):
            m.d.sync += [s.crc.eq(-1), s.bad.eq(s.order[Order.VALUE])]

    def _slots(self, m, s):
        """What is known of the slots."""
        order, value = s.order, s.step.constant[Order.VALUE]
        with m.If(order[Order.NEXT] | order[Order.BACK]):
            m.d.sync += s.room.eq(Mux(s.step.constant[Order.BACK], s.newest, Cat(s.room[1], ~s.room.all())))
        with m.If(order[Order.FOUND]):
            m.d.sync += s.found.eq(s.word)
        with m.If(order[Order.ADOPT]):
            m.d.sync += [s.newest.eq(s.room), s.sequence.eq(s.found), s.has_newest.eq(1)]
        with m.If(order[Order.ADOPT] | order[Order.BEFORE]):
            m.d.sync += s.has_before.eq(value & s.has_newest)
        with m.If(order[Order.JUDGE]):
            m.d.sync += [self.failed.eq(s.bad), self.ready.eq(1)]
        with m.If(order[Order.BLANK]):
            m.d.sync += s.blank.eq(value)
        m.d.sync += self.done.eq(order[Order.DONE])
        m.d.comb += [self.undoable.eq(s.has_before), self.foreign.eq(s.foreign & ~s.has_newest)]

    def _asked(self, m, s):
        """What is asked for, and what the program asks."""
        order = s.order
        m.d.sync += [s.save.eq(self.save | s.save & ~order[Order.TAKE]),
                     s.undo.eq(self.undo | s.undo & ~(order[Order.DROP] & ~s.has_before))]
        with m.If(order[Order.TAKE] | order[Order.AGAIN]):
            m.d.sync += s.again.eq(order[Order.AGAIN])
        older = self._difference(s.found, s.sequence)
        conditions = {
            Condition.READY: Mux(s.step.acts[Act.HOST], self.host.ready, self.given), Condition.SAVE: s.save,
            Condition.UNDO: s.undo & s.has_before, Condition.WISH: self.may_erase & ~s.blank, Condition.LINE: self.lines_in[1],
            Condition.LAST: s.last, Condition.FULL: s.place[:(PAGE - 1).bit_length()].all(),
            Condition.LOADS: Mux(s.step.selects, s.flags[Flag.LOADS], s.busy), Condition.BAD: s.bad, Condition.BLANK: s.blank,
            Condition.HAS_NEWEST: s.has_newest, Condition.ERASED: s.place[SECTOR.bit_length() - 1:] == self.slot.sectors - 1,
            Condition.NEWER: ~s.has_newest | ~older[-1], Condition.BEFORE: older.all(), Condition.AGAIN: s.again,
            Condition.PROGRAMS: s.flags[Flag.PROGRAMS]}
        m.d.comb += s.holds.eq(Array(conditions[condition] for condition in Condition)[s.step.condition])

    @staticmethod
    def _difference(a, b):
        """a - b, bit by bit: without a carry chain, which would take more LUTs."""
        found, borrow = [], Const(0, 1)
        for x, y in zip(a, b):
            found.append(x ^ y ^ borrow)
            borrow = ~x & y | ~(x ^ y) & borrow
        return Cat(found)
