"""The keeper: it keeps the state of a learner in three slots of a flash, and loads it after reset."""

from enum import IntEnum
from types import SimpleNamespace

from amaranth import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..base.errors import UsageError
from ..machine.kept import BEGUN, CRC_BYTES, CRC_POLYNOMIAL, ERASED, SECTOR, SEQUENCE, SEQUENCE_BITS, SLOTS, VOID, SlotPlan
from ..machine.protocol import Space
from .learning.learner import host_layout
from .qspi_flash import RELEASE
from .states import OneHot

ENABLE, READ, PROGRAM, ERASE, STATUS = 0x06, 0x03, 0x02, 0x20, 0x05
MOST_HZ = 200e6
"""Its flash has at most a quarter of this clock, which command 03 allows."""


class Task(IntEnum):
    """What the keeper is about."""

    BOOT = 0  # find the newest state, and load it
    SAVE = 1  # write a state into the spare slot
    UNDO = 2  # make the newest state void, and load the one before
    CLEAN = 3  # erase the spare slot


class Job(IntEnum):
    """A step of a task, in which the flash gets one command that counts."""

    CHECK = 0  # read a slot
    LOAD = 1  # read it into the learner
    MARK = 2  # program one byte
    PROGRAM = 3  # program a page
    ERASE = 4  # erase a sector


class Keeper(wiring.Component):
    """Keeps the state of a `Learner` in a flash: `fbnn_hw.machine.kept` says what lies where.

    Of the three slots one has the newest state, one the state before, and one is spare.  The spare one is erased while nothing else is
    to be done, a sector at a time.  A state that was saved is read back; where it differs, the slot is erased and written once more.  A
    slot whose writing was cut off has a wrong CRC, and one whose erasure was cut off has no mark that it is erased.

    Parameters
    ----------
    slot : SlotPlan
    address_bits : int
        Bits of a row's number in the banks.
    base : int
        Address of room 0 in the flash (`SlotPlan.base`).
    mark : bytes
        The 4 bytes of `protocol.config_mark`.
    model : bytes or None
        The 4 bytes of `protocol.model_mark`.  None: they arrive at the member `model`.
    clock_hz : float
        Frequency of sync.
    wait_s : float
        The longest that the flash takes to wake up.
    latency : int
        As `FlashReader` has it, up to 2.

    Members
    -------
    save, undo : In(1)
        Strobes: save the state; make the newest one void and load the one before.  They are remembered while it works.
    may_erase : In(1)
        It may begin to erase a sector.
    busy : Out(1)
        It reads or writes the learner's memory, or is about to.  Nobody else may command the learner, and no image may be loaded.
    ready : Out(1)
        What the flash held after reset has been loaded.
    done : Out(1)
        Strobes at the end of a save or an undo.
    failed : Out(1)
        The last save was read back wrongly twice, or the last load was wrong: the flash is worn, or not there.
    foreign : Out(1)
        After reset no state was found but one of another design.
    undoable : Out(1)
        There is a state before the newest one.
    host, host_reply
        As `Learner` has them, in the other direction.
    model : In(8), model_next : Out(1)
        With model None, as `FlashImage` has them.
    wants : Out(1), given : In(1)
        It needs the flash, and has it.  It is done with it where `wants` ends.
    pulse, select_n, lines_out, lines_enable, lines_in
        As `FlashReader` has them, of one bit for `pulse` and 4 lines.

    Timing
    ------
    A bit of the flash takes 4 cycles, a word of the learner's memory 4 + the access more.  docs/device.md has the times of a save.
    """

    def __init__(self, slot: SlotPlan, address_bits, base, mark, model, clock_hz, wait_s=60e-6, latency=0):
        if not 0 <= latency <= 2:
            raise UsageError(f"keeper: latency is {latency}, expected from 0 to 2")
        if base % (4 * slot.room) or base + 4 * slot.room > 1 << 24 or clock_hz > MOST_HZ:
            raise UsageError(f"keeper: base is {base:#x}, the clock {clock_hz / 1e6:g} MHz; expected a multiple of {4 * slot.room:#x} in 16 MiB, "
                             f"at most {MOST_HZ / 1e6:g} MHz")
        self.slot, self.base, self.mark, self.model_mark, self.latency = slot, base, mark, model, latency
        self.waits = max(1, int(wait_s * clock_hz / 32))  # bytes of the flash
        host = host_layout(slot.plan, address_bits)
        super().__init__({
            "save": In(1), "undo": In(1), "may_erase": In(1), "busy": Out(1), "ready": Out(1), "done": Out(1), "failed": Out(1),
            "foreign": Out(1), "undoable": Out(1),
            "host": Out(stream.Signature(host)), "host_reply": In(slot.plan.host_bits),
            **({} if model else {"model": In(8), "model_next": Out(1)}),
            "wants": Out(1), "given": In(1),
            "pulse": Out(1), "select_n": Out(1, init=1), "lines_out": Out(4), "lines_enable": Out(4), "lines_in": In(4)})

    def elaborate(self, platform):
        m = Module()
        s = self._signals()
        self._segments(m, s)
        self._beats(m, s)
        self._bits(m, s)
        m.d.sync += [self.done.eq(0), s.save.eq(s.save | self.save), s.undo.eq(s.undo | self.undo)]
        s.states = OneHot(m, "QUIET")
        with s.states:
            self._begin(m, s)
            self._command(m, s)
            self._units(m, s)
            self._end(m, s)
            s.rests, selected = s.states.ongoing("REST") | s.states.ongoing("QUIET"), [s.states.ongoing(state) for state in ("UNIT", "HOST", "STEP")]
        m.d.comb += [self.select_n.eq(~(s.clocking | Cat(selected).any())), self.wants.eq(~s.rests), self.undoable.eq(s.has_before),
                     self.busy.eq(s.busy | s.save | s.undo),                     self.foreign.eq(s.foreign & ~s.has_newest)]
        return m

    def _signals(self):
        s = SimpleNamespace()
        # What is done.
        s.task, s.job = Signal(Task), Signal(Job)
        s.save, s.undo = Signal(), Signal()  # asked for
        s.busy = Signal(init=1)  # about anything but cleaning
        s.again = Signal()  # the slot is written for the second time
        s.reading, s.writing = s.job <= Job.LOAD, s.job > Job.LOAD
        # Slots, by their rooms 1 to 3.
        s.room = Signal(2, init=1)  # of the job
        s.newest, s.before = Signal(2, init=3), Signal(2, init=1)
        s.has_newest, s.has_before = Signal(), Signal()
        s.spare = s.newest ^ s.before
        s.blank = Signal(SLOTS + 1)  # slots that are erased and say so
        s.sector = Signal(range(max(2, self.slot.sectors)))  # of the spare slot, the next to be erased
        s.sequence, s.found = Signal(SEQUENCE_BITS), Signal(SEQUENCE_BITS)  # of the newest state, and in the slot that is read
        # The place in a slot.
        s.place = Signal(range(self.slot.room))  # byte
        s.segment = Signal(range(len(self.slot.tables) + 5))  # MARKS, SEQUENCE, marks of the design, tables, CRC
        s.address = Signal(max(8, len(self.host.payload.address)))  # of the unit in its segment: a byte, or a word of the learner
        # Bits.
        s.shift = Signal(self.slot.plan.host_bits)
        s.crc = Signal(8 * CRC_BYTES)
        s.beat = Signal(range(4 * self.slot.plan.host_bits))  # cycle of a unit, 4 for each bit
        s.bad, s.raw, s.begun = Signal(), Signal(), Signal()  # the slot has no state of this design; no mark that it is erased; one that
        # a state was begun
        s.foreign = Signal()  # a slot has marks of another design
        s.end, s.byte, s.clocking, s.body = Signal(), Signal(8), Signal(), Signal()
        return s

    def _segments(self, m, s):
        """The segments of a slot and of its units: [(space, first address, last address)]; bytes where the space is None."""
        segments = [(None, 0, SEQUENCE - 1), (None, 0, 0), (None, 0, 7),
                    *((space, first, first + count - 1) for space, first, count in self.slot.tables), (None, 0, CRC_BYTES - 1)]
        s.of_marks, s.of_sequence, s.of_design = (s.segment == number for number in range(3))
        s.of_crc = s.segment == len(segments) - 1
        s.last = Signal()  # the unit is the last one of its segment
        s.first = Signal.like(s.address)  # address of the first unit of the next segment
        s.wide = Signal()  # the unit is a word
        space = Signal(Space)
        m.d.sync += s.last.eq(s.address == Array(last for *_, last in segments)[s.segment])
        m.d.comb += [s.wide.eq(~(s.of_marks | s.of_sequence | s.of_design | s.of_crc)),
                     s.first.eq(Array([first for _, first, _ in segments[1:]] + [0])[s.segment]),
                     space.eq(Array(each or 0 for each, *_ in segments)[s.segment])]
        host = self.host.payload
        m.d.comb += [host.write.eq(s.job == Job.LOAD), host.space.eq(space), host.address.eq(s.address), host.data.eq(s.shift)]

    def _beats(self, m, s):
        """The cycles of a unit or of a byte: four for each bit, the clock of the flash rises in one of them."""
        wide = s.body & s.wide
        m.d.comb += [s.end.eq(s.beat[:5].all() & (~wide | s.beat[5:].all())), self.pulse.eq(s.clocking & (s.beat[:2] == 3 - self.latency))]
        s.strobe = s.clocking & s.beat[:2].all()  # a bit has come
        with m.If(s.strobe):
            m.d.sync += s.shift.eq(Cat(self.lines_in[1], s.shift))
        with m.If(s.clocking & (s.beat == 0) & ~wide):
            m.d.sync += s.shift[-8:].eq(s.byte)
        with m.If(s.body & s.beat[:5].all()):
            m.d.sync += s.place.eq(s.place + 1)

    def _bits(self, m, s):
        """The bit that goes out, or that is expected, the CRC, and what the bits of a slot say."""
        out, line = Mux(s.body & s.of_crc, s.crc[-1], s.shift[-1]), self.lines_in[1]
        differs = out ^ line
        m.d.comb += [self.lines_out.eq(Cat(out, Const(0b111, 3))), self.lines_enable.eq(0b1101)]
        with m.If(s.of_marks):
            m.d.sync += s.crc.eq(-1)
        with m.Elif(s.body & s.strobe):
            feedback = s.crc[-1] ^ Mux(s.reading, line, out)
            m.d.sync += s.crc.eq((s.crc << 1) ^ Mux(feedback, CRC_POLYNOMIAL, 0))
        with m.If(s.body & s.strobe):
            with m.If(s.of_marks & (s.address == ERASED) & line):
                m.d.sync += [s.bad.eq(1), s.raw.eq(1)]
            with m.If(s.of_marks & (s.address == BEGUN) & ~line):
                m.d.sync += s.begun.eq(1)
            with m.If(s.of_marks & (s.address == VOID) & ~line | (s.of_design | s.of_crc) & differs):
                m.d.sync += s.bad.eq(1)
            with m.If((s.task == Task.BOOT) & s.of_design & differs & s.begun & ~s.raw):
                m.d.sync += s.foreign.eq(1)
        mark = Array(self.mark)[s.address[:2]]
        model = Array(self.model_mark)[s.address[:2]] if self.model_mark else self.model
        if not self.model_mark:
            m.d.comb += self.model_next.eq(s.body & s.end & s.of_design & s.address[2])
        s.unit = Mux(s.of_design, Mux(s.address[2], model, mark), Mux(s.of_sequence, s.sequence + 1, 0))

    # What the states do in common.

    def _start(self, m, s, job, room=None, place=0):
        """Begin a job with the flash."""
        m.d.sync += [s.job.eq(job), s.place.eq(place), s.segment.eq(1 if job == Job.PROGRAM else 0), s.address.eq(0)]
        if room is not None:
            m.d.sync += s.room.eq(room)
        s.states.go("OPEN")

    def _byte(self, m, s, state, byte, following, clocked=True):
        """A state that sends a byte, or with `clocked` False lets its time pass; following: a state, or a function."""
        with s.states.state(state):
            m.d.comb += [s.byte.eq(byte), s.clocking.eq(clocked), s.body.eq(state == "BODY")]
            m.d.sync += s.beat.eq(s.beat + 1)
            with m.If(s.end):
                m.d.sync += s.beat.eq(0)
                if callable(following):
                    following()
                else:
                    s.states.go(following)

    # States.

    def _begin(self, m, s):
        """The states before the first command: the keeper rests, waits until the learner does, and takes the flash."""
        with s.states.state("REST"):
            m.d.sync += [s.busy.eq(0), s.again.eq(0)]
            with m.If(s.undo | s.save):
                m.d.sync += [s.task.eq(Mux(s.save, Task.SAVE, Task.UNDO)), s.save.eq(0), s.undo.eq(s.undo & s.save),
                             s.busy.eq(s.save | s.has_before), self.failed.eq(0), s.room.eq(Mux(s.save, s.spare, s.newest))]
                with m.If(s.save | s.has_before):
                    s.states.go("QUIET")
            with m.Elif(~s.blank.bit_select(s.spare, 1) & self.may_erase):
                m.d.sync += [s.task.eq(Task.CLEAN), s.room.eq(s.spare)]
                s.states.go("TAKE")
        with s.states.state("QUIET"):
            # A read that is not needed: it ends when the learner rests.
            m.d.sync += [s.job.eq(Job.CHECK), s.segment.eq(0)]
            m.d.comb += self.host.valid.eq(1)
            with m.If(self.host.ready):
                s.states.go("TAKE")
        with s.states.state("TAKE"):
            with m.If(self.given):
                with m.Switch(s.task):
                    with m.Case(Task.BOOT):
                        m.d.sync += s.place.eq(0)
                        s.states.go("WAKE")
                    with m.Case(Task.UNDO):
                        self._start(m, s, Job.MARK, place=VOID)
                    with m.Default():
                        self._start(m, s, Job.ERASE)
                        with m.If(s.blank.bit_select(s.room, 1)):
                            self._start(m, s, Job.MARK, place=BEGUN)
        self._byte(m, s, "WAKE", RELEASE, "WAKING")

        def waited():
            m.d.sync += s.place.eq(s.place + 1)
            with m.If(s.place == self.waits):
                self._start(m, s, Job.CHECK)
        self._byte(m, s, "WAKING", 0, waited, False)

    def _command(self, m, s):
        """The states of a command up to its address."""
        def opened():
            m.d.sync += [s.bad.eq(0), s.raw.eq(0), s.begun.eq(0)]
            s.states.go("COMMAND")
            with m.If(s.writing):
                s.states.go("ENABLE")
        sector = (SECTOR - 1).bit_length()
        place = Mux(s.job == Job.ERASE, Cat(Const(0, sector), s.sector)[:len(s.place)], s.place)
        address = Cat(place, s.room, Const(self.base >> len(s.place) + 2, max(0, 22 - len(s.place))))[:24]
        opcode = Mux(s.reading, READ, Mux(s.job == Job.ERASE, ERASE, PROGRAM))
        self._byte(m, s, "OPEN", 0, opened, False)
        self._byte(m, s, "ENABLE", ENABLE, "GAP")
        self._byte(m, s, "GAP", 0, "COMMAND", False)
        self._byte(m, s, "COMMAND", opcode, "HIGH")
        self._byte(m, s, "HIGH", address[16:], "MIDDLE")
        self._byte(m, s, "MIDDLE", address[8:16], "LOW")

        def addressed():
            s.states.go("UNIT")
            with m.If(s.job == Job.ERASE):
                s.states.go("CLOSE")
        self._byte(m, s, "LOW", address[:8], addressed)

    def _units(self, m, s):
        """The states of a unit: a byte of the slot, or a word of the learner's memory."""
        with s.states.state("UNIT"):
            s.states.go("BODY")
            with m.If((s.job == Job.PROGRAM) & s.wide):
                s.states.go("HOST")
        with s.states.state("HOST"):
            m.d.comb += self.host.valid.eq(1)
            with m.If(self.host.ready):
                with m.If(s.job == Job.PROGRAM):
                    m.d.sync += s.shift.eq(self.host_reply)
                    s.states.go("BODY")
                with m.Else():
                    s.states.go("STEP")

        def sent():
            s.states.go("STEP")
            with m.If((s.job == Job.LOAD) & s.wide):
                s.states.go("HOST")
        self._byte(m, s, "BODY", s.unit, sent)
        with s.states.state("STEP"):
            s.states.go("UNIT")
            m.d.sync += s.address.eq(s.address + 1)
            with m.If(s.of_sequence):
                m.d.sync += s.found.eq(s.shift)
            with m.If(s.last):
                m.d.sync += [s.address.eq(s.first), s.segment.eq(s.segment + 1)]
            with m.If((s.job == Job.MARK) | s.of_crc & s.last | (s.job == Job.PROGRAM) & (s.place[:8] == 0)):
                s.states.go("CLOSE")

    def _end(self, m, s):
        """The states after a command: wait until the flash has done it, then choose what follows."""
        def closed():
            s.states.go("DONE")
            with m.If(s.writing):
                s.states.go("POLL")

        def polled():
            with m.If(~self.lines_in[1]):
                s.states.go("DONE")
        self._byte(m, s, "CLOSE", 0, closed, False)
        self._byte(m, s, "POLL", STATUS, "STATUS")
        self._byte(m, s, "STATUS", 0, polled)
        with s.states.state("BOOTED"):
            self._start(m, s, Job.LOAD, s.newest)
            with m.If(~s.has_newest):
                m.d.sync += self.ready.eq(1)
                s.states.go("REST")
        with s.states.state("DONE"):
            with m.Switch(s.job):
                with m.Case(Job.CHECK):
                    self._checked(m, s)
                with m.Case(Job.LOAD):
                    m.d.sync += [s.sequence.eq(s.found), self.failed.eq(s.bad), self.ready.eq(1), self.done.eq(s.task != Task.BOOT)]
                    s.states.go("REST")
                with m.Case(Job.MARK):
                    self._marked(m, s)
                with m.Case(Job.PROGRAM):
                    s.states.go("OPEN")
                    with m.If(s.segment == len(self.slot.tables) + 4):
                        self._start(m, s, Job.CHECK)
                with m.Case(Job.ERASE):
                    s.states.go("REST")
                    m.d.sync += s.sector.eq(s.sector + 1)
                    with m.If(s.sector == self.slot.sectors - 1):
                        m.d.sync += s.sector.eq(0)
                        self._start(m, s, Job.MARK, place=ERASED)
                    with m.Elif(s.task == Task.SAVE):
                        s.states.go("OPEN")

    def _marked(self, m, s):
        """After a mark."""
        with m.If(s.task == Task.UNDO):
            m.d.sync += [s.newest.eq(s.before), s.before.eq(s.newest), s.has_before.eq(0)]
            self._start(m, s, Job.LOAD, s.before)
        with m.Elif(s.blank.bit_select(s.room, 1)):
            m.d.sync += s.blank.bit_select(s.room, 1).eq(0)
            self._start(m, s, Job.PROGRAM, place=SEQUENCE)
        with m.Else():
            m.d.sync += s.blank.bit_select(s.room, 1).eq(1)
            self._start(m, s, Job.MARK, place=BEGUN)
            with m.If(s.task == Task.CLEAN):
                s.states.go("REST")

    def _checked(self, m, s):
        """After a slot was read: of the states that are whole the newest two are found."""
        older = s.found - s.sequence
        boots = s.task == Task.BOOT
        with m.If(~s.bad):
            with m.If(~s.has_newest | ~older[SEQUENCE_BITS - 1]):
                m.d.sync += [s.newest.eq(s.room), s.has_newest.eq(1), s.sequence.eq(s.found), s.has_before.eq(s.has_newest),
                             s.before.eq(Mux(s.has_newest, s.newest, Cat(s.room[1], s.room.xor())))]
            with m.Elif(older[:SEQUENCE_BITS].all()):
                m.d.sync += [s.before.eq(s.room), s.has_before.eq(1)]
        with m.Elif(boots & ~s.raw & ~s.begun):
            m.d.sync += s.blank.bit_select(s.room, 1).eq(1)
            with m.If((s.room == s.before) & ~s.has_before):
                m.d.sync += s.before.eq(s.spare)
        with m.If(boots):
            with m.If(s.room != SLOTS):
                self._start(m, s, Job.CHECK, s.room + 1)
            with m.Else():
                s.states.go("BOOTED")
        with m.Else():
            m.d.sync += [s.again.eq(1), self.failed.eq(s.bad)]
            with m.If(s.bad & ~s.again):
                self._start(m, s, Job.ERASE)
            with m.Else():
                m.d.sync += self.done.eq(1)
                s.states.go("REST")
