"""The keeper: it keeps the state of a learner in three slots of a flash, and loads it after reset."""

from enum import IntEnum
from types import SimpleNamespace

from amaranth import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..base.errors import UsageError
from ..machine.kept import BEGUN, CRC_BYTES, CRC_POLYNOMIAL, ERASED, PAGE, SECTOR, SEQUENCE, SEQUENCE_BITS, SLOTS, VOID, SlotPlan
from ..machine.protocol import Space
from .learning.learner import host_layout
from .states import OneHot

ENABLE, READ, PROGRAM, ERASE, STATUS = 0x06, 0x03, 0x02, 0x20, 0x05
MOST_HZ = 200e6
"""Its flash has at most a quarter of this clock, which command 03 allows."""


class Task(IntEnum):
    """What the keeper is about: a bit each."""

    BOOT = 0  # find the newest state, and load it
    SAVE = 1  # write a state into the spare slot
    UNDO = 2  # make the newest state void, and load the one before
    CLEAN = 3  # look at the spare slot, and erase it; or nothing at all


class Job(IntEnum):
    """A step of a task, in which the flash gets one command that counts: a bit each."""

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

    Parameters:
    - slot: SlotPlan.
    - address_bits: bits of a row's number in the banks.
    - base: address of room 0 in the flash (`SlotPlan.base`).
    - mark, bytes: the 4 bytes of `protocol.config_mark`.
    - model, bytes or None: the 4 bytes of `protocol.model_mark`.  None: they arrive at the member `model`.
    - clock_hz: frequency of sync.
    - latency: as `FlashReader` has it, up to 2.

    Timing: A bit of the flash takes 4 cycles, a word of the learner's memory 4 + the access more.  docs/device.md has the times of a save.
    """

    def __init__(self, slot: SlotPlan, address_bits, base, mark, model, clock_hz, latency=0):
        if not 0 <= latency <= 2:
            raise UsageError(f"keeper: latency is {latency}, expected from 0 to 2")
        if base % (4 * slot.room) or base + 4 * slot.room > 1 << 24 or clock_hz > MOST_HZ:
            raise UsageError(f"keeper: base is {base:#x}, the clock {clock_hz / 1e6:g} MHz; expected a multiple of {4 * slot.room:#x} in "
                             f"16 MiB, and at most {MOST_HZ / 1e6:g} MHz")
        self.slot, self.base, self.mark, self.model_mark, self.latency = slot, base, mark, model, latency
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
            **({} if model else {"model": In(8), "model_next": Out(1)}),  # as `FlashImage` has them
            "wants": Out(1), "given": In(1),  # it needs the flash, and has it; it is done with it where `wants` ends
            # As `FlashReader` has them.
            "pulse": Out(1), "select_n": Out(1, init=1), "lines_out": Out(4), "lines_enable": Out(4), "lines_in": In(4)})

    def elaborate(self, platform):
        m = Module()
        s = self._signals()
        m.d.sync += [self.done.eq(0), s.save.eq(s.save | self.save), s.undo.eq(s.undo | self.undo)]
        s.states = OneHot(m, "QUIET")
        s.clear = s.states.ongoing("DONE") & ~s.page  # the next job begins in front
        self._segments(m, s)
        self._beats(m, s)
        self._bits(m, s)
        with s.states:
            self._begin(m, s)
            self._command(m, s)
            self._units(m, s)
            self._end(m, s)
            selected = s.clocking | s.states.any("UNIT", "HOST", "STEP")
            m.d.comb += [
                self.select_n.eq(~selected), self.wants.eq(~s.states.any("REST", "QUIET")), self.undoable.eq(s.has_before),
                self.busy.eq(~s.task[Task.CLEAN] | s.save | s.undo), self.foreign.eq(s.foreign & ~s.has_newest)]
        return m

    def _signals(self):
        """The registers, those of data without a reset, as a namespace."""
        s = SimpleNamespace()
        word = self.slot.plan.host_bits
        # What is done.
        s.task = Signal(len(Task), init=1 << Task.BOOT)
        s.job = Signal(len(Job), init=1 << Job.CHECK)
        s.writing = s.job[Job.MARK:].any()
        s.save = Signal()  # asked for
        s.undo = Signal()
        s.again = Signal()  # the slot is written for the second time
        # Slots, by their rooms 1 to 3.
        s.room = Signal(2, init=1)  # of the job
        s.newest = Signal(2, init=3)
        s.has_newest = Signal()
        s.has_before = Signal()
        both = s.newest.all()
        s.spare, s.before = Cat(s.newest[1], ~both), Cat(~both, s.newest[0])  # the rooms behind and before it, in a ring
        s.blank = Signal()  # the spare slot is erased and says so
        s.sequence = Signal(SEQUENCE_BITS, reset_less=True)  # of the newest state
        s.found = Signal(SEQUENCE_BITS, reset_less=True)  # in the slot that is read
        # The place in a slot.
        s.place = Signal(range(self.slot.room))  # byte; of a job that erases the sector
        s.segment = Signal(range(len(self.slot.tables) + 5))  # MARKS, SEQUENCE, marks of the design, tables, CRC
        s.address = Signal(max(8, len(self.host.payload.address)))  # of the unit in its segment: a byte, or a word
        s.last = Signal()  # the unit is the last one of its segment
        s.wide = Signal()  # the unit is a word
        # Bits.
        s.shift = Signal(word)
        s.crc = Signal(8 * CRC_BYTES, reset_less=True)
        s.beat = Signal(range(4 * max(32, word)))  # cycle of a command or a unit, 4 for each bit
        s.bad = Signal(reset_less=True)  # the slot has no state of this design
        s.raw = Signal(reset_less=True)  # it has no mark that it is erased
        s.begun = Signal(reset_less=True)  # it has a mark that a state was begun
        s.foreign = Signal()  # a slot has marks of another design
        s.page = s.job[Job.PROGRAM] & (s.segment != len(self.slot.tables) + 4)  # the job programs, and not the last page
        s.end = Signal()  # the last cycle of what is sent
        s.clocking = Signal()  # a state sends bits
        s.body = Signal()  # those of a unit
        s.commands = Signal()  # those of a command and its address
        return s

    def _segments(self, m, s):
        """The segments of a slot and of its units: [(space, first address, last address)]; bytes where the space is None."""
        segments = [(None, 0, SEQUENCE - 1), (None, 0, 0), (None, 0, 7),
                    *((space, first, first + count - 1) for space, first, count in self.slot.tables), (None, 0, CRC_BYTES - 1)]
        s.of_marks, s.of_sequence, s.of_design = (s.segment == number for number in range(3))
        s.of_crc = s.segment == len(segments) - 1
        space = Signal(Space, reset_less=True)
        lasts = [last for *_, last in segments]
        # The upper bits are 0 in most segments.
        large = Cat(s.segment == n for n, last in enumerate(lasts) if last > 255).any()
        upper = Array(last >> 8 for last in lasts)[s.segment] if len({last >> 8 for last in lasts}) > 2 else max(lasts) >> 8
        m.d.sync += s.last.eq((s.address[:8] == Array(last & 255 for last in lasts)[s.segment]) & (~large | (s.address[8:] == upper)))
        step, clear = s.states.ongoing("STEP"), s.clear
        with m.If(step):
            m.d.sync += s.address.eq(s.address + 1)
        with m.If(step & s.last | clear):
            m.d.sync += s.address.eq(0)
        for number, (_, first, _) in enumerate(segments[1:]):
            with m.If(step & s.last & (s.segment == number)):
                m.d.sync += [bit.eq(1) for place, bit in enumerate(s.address) if first >> place & 1]
        with m.If(clear):
            m.d.sync += s.segment.eq(0)
        with m.Elif(step & s.last):
            m.d.sync += s.segment.eq(s.segment + 1)
        m.d.comb += s.wide.eq(~(s.of_marks | s.of_sequence | s.of_design | s.of_crc))
        # A register: two cycles lie between a step and an access.
        m.d.sync += space.eq(Mux(clear, 0, Array(each or 0 for each, *_ in segments)[s.segment]))
        host = self.host.payload
        m.d.comb += [host.write.eq(s.job[Job.LOAD]), host.space.eq(space), host.address.eq(s.address), host.data.eq(s.shift)]

    def _beats(self, m, s):
        """The cycles of a unit or of a command: four for each bit, in one of which the clock of the flash rises."""
        byte = s.beat[:5].all()  # a byte has passed
        word = (4 * self.slot.plan.host_bits - 1).bit_length()
        s.strobe = s.clocking & s.beat[:2].all()  # a bit has come
        m.d.comb += [self.pulse.eq(s.clocking & (s.beat[:2] == 3 - self.latency)),
                     s.end.eq(byte & (~s.commands | s.beat[5:7].all()) & (~(s.body & s.wide) | s.beat[5:word].all()))]
        with m.If(s.strobe):
            m.d.sync += s.shift.eq(Cat(self.lines_in[1], s.shift))
        with m.If(s.states.ongoing("HOST") & s.job[Job.PROGRAM]):
            m.d.sync += s.shift.eq(self.host_reply)
        with m.If(s.clear):
            m.d.sync += s.shift.eq(0)
        erases = s.job[Job.ERASE]
        step = Cat(~erases, Const(0, SECTOR.bit_length() - 2), erases)  # one adder for both
        done = s.states.ongoing("DONE")
        s.erased = s.place[SECTOR.bit_length() - 1:] == self.slot.sectors - 1  # with this sector all of the slot is
        with m.If(done & ~s.page & (~erases | s.erased) | s.states.ongoing("REST") & s.undo & s.has_before & ~s.save):
            m.d.sync += s.place.eq(0)
        with m.Elif(s.body & byte | done & erases):
            m.d.sync += s.place.eq(s.place + step)

    def _bits(self, m, s):
        """The bit that goes out, or that is expected, the CRC, and what the bits of a slot say."""
        line, ongoing, erases = self.lines_in[1], s.states.ongoing, s.job[Job.ERASE]
        marks = Cat(s.job[Job.MARK] & s.task[Task.SAVE] & s.blank, s.job[Job.MARK] & s.task[Task.UNDO])  # BEGUN, VOID or ERASED
        low = (PAGE - 1).bit_length()  # a command's address begins a page, or is that of a mark
        upper = Const(self.base >> len(s.place) + 2, max(0, 22 - len(s.place)))
        address = Cat(marks, Const(0, low - len(marks)), s.place[low:], s.room, upper)[:24]
        sent = [(ongoing("ENABLE"), ENABLE), (ongoing("POLL"), STATUS), (s.commands & ~s.writing, READ),
                (s.commands & s.writing & ~erases, PROGRAM), (s.commands & erases, ERASE)]
        opcode = [Cat(state for state, byte in sent if byte >> bit & 1).any() for bit in range(8)]
        command = Array([*reversed(opcode), *reversed(list(address))])[s.beat[2:7]]
        place = s.beat[2:5]
        mark = Array(Const(byte >> 7 - bit & 1, 1) for byte in self.mark for bit in range(8))[Cat(place, s.address[:2])]
        if self.model_mark:
            model = Array(Const(byte >> 7 - bit & 1, 1) for byte in self.model_mark for bit in range(8))[Cat(place, s.address[:2])]
        else:
            model = Array(reversed(self.model))[place]
            m.d.comb += self.model_next.eq(s.body & s.end & s.of_design & s.address[2])
        number = (s.sequence + 1)[:SEQUENCE_BITS]
        sequence = Array([*[Const(0, 1)] * (8 - SEQUENCE_BITS), *reversed(list(number))])[place]
        out = Mux(s.body, (s.of_crc & s.crc[-1]) | (s.of_design & Mux(s.address[2], model, mark)) | (s.of_sequence & sequence)
                  | (s.wide & s.shift[-1]) | (s.of_marks & s.job[Job.PROGRAM]), command)
        differs = out ^ line
        m.d.comb += [self.lines_out.eq(Cat(out, Const(0b111, 3))), self.lines_enable.eq(0b1101)]
        with m.If(s.body & s.strobe):
            feedback = s.crc[-1] ^ Mux(s.job[Job.PROGRAM], out, line)
            m.d.sync += s.crc.eq((s.crc << 1) ^ Mux(feedback, CRC_POLYNOMIAL, 0))
            with m.If(s.of_marks & (s.address[:2] == ERASED) & (s.address[2:8] == 0)):
                m.d.sync += s.raw.eq(s.raw | line)
            with m.If(s.of_marks & (s.address[:2] == BEGUN) & (s.address[2:8] == 0)):
                m.d.sync += s.begun.eq(s.begun | ~line)
            with m.If(s.of_marks & (s.address[:2] == VOID) & (s.address[2:8] == 0) & ~line | (s.of_design | s.of_crc) & differs):
                m.d.sync += s.bad.eq(1)
            with m.If(s.task[Task.BOOT] & s.of_design & differs):
                m.d.sync += s.foreign.eq(1)
        with m.If(s.of_marks):
            m.d.sync += s.crc.eq(-1)

    # What the states do in common.

    def _start(self, m, s, job, room=None):
        """Begin a job with the flash."""
        m.d.sync += s.job.eq(1 << job)
        if room is not None:
            m.d.sync += s.room.eq(room)
        s.states.go("OPEN")

    def _send(self, m, s, state, following, clocked=True):
        """A state that sends bits, or with `clocked` False lets the time of a byte pass; following: a state, or a function."""
        with s.states.state(state):
            m.d.comb += s.clocking.eq(clocked)
            m.d.sync += s.beat.eq(s.beat + 1)
            with m.If(s.end):
                m.d.sync += s.beat.eq(0)
                if callable(following):
                    following()
                else:
                    s.states.go(following)

    # States.

    def _begin(self, m, s):
        """The states before the first command: the keeper rests, waits until the learner does, takes the flash, and begins a job."""
        with s.states.state("REST"):
            m.d.sync += [s.again.eq(0), s.task.eq(1 << Task.CLEAN), s.undo.eq(self.undo)]
            with m.If(s.save):
                m.d.sync += [s.task.eq(1 << Task.SAVE), s.save.eq(self.save), s.undo.eq(s.undo | self.undo), s.room.eq(s.spare)]
                s.states.go("QUIET")
            with m.Elif(s.undo & s.has_before):
                m.d.sync += [s.task.eq(1 << Task.UNDO), s.room.eq(s.newest)]
                s.states.go("QUIET")
            with m.Elif(~s.blank & self.may_erase):
                m.d.sync += s.room.eq(s.spare)
                s.states.go("TAKE")
        with s.states.state("QUIET"):
            # A read that is not needed: it ends when the learner rests.
            m.d.comb += self.host.valid.eq(1)
            m.d.sync += s.job.eq(1 << Job.CHECK)
            with m.If(self.host.ready):
                s.states.go("TAKE")
        with s.states.state("TAKE"):
            with m.If(self.given):
                self._start(m, s, Job.ERASE)
                with m.If(s.task[Task.UNDO] | s.blank):
                    self._start(m, s, Job.MARK)
                with m.If(s.task[Task.BOOT]):
                    self._start(m, s, Job.CHECK)

    def _command(self, m, s):
        """The states of a command up to its address."""
        def opened():
            m.d.sync += [s.bad.eq(0), s.raw.eq(0), s.begun.eq(0)]
            s.states.go("COMMAND")
            with m.If(s.writing):
                s.states.go("ENABLE")
        self._send(m, s, "OPEN", opened, clocked=False)
        self._send(m, s, "ENABLE", "GAP")
        self._send(m, s, "GAP", "COMMAND", clocked=False)

        def addressed():
            s.states.go("UNIT")
            with m.If(s.job[Job.ERASE]):
                s.states.go("CLOSE")
        m.d.comb += s.commands.eq(s.states.ongoing("COMMAND"))
        self._send(m, s, "COMMAND", addressed)

    def _units(self, m, s):
        """The states of a unit: a byte of the slot, or a word of the learner's memory."""
        with s.states.state("UNIT"):
            s.states.go("BODY")
            with m.If(s.job[Job.PROGRAM] & s.wide):
                s.states.go("HOST")
        with s.states.state("HOST"):
            m.d.comb += self.host.valid.eq(1)
            with m.If(self.host.ready):
                s.states.go("STEP")
                with m.If(s.job[Job.PROGRAM]):
                    s.states.go("BODY")

        def sent():
            s.states.go("STEP")
            with m.If(s.job[Job.LOAD] & s.wide):
                s.states.go("HOST")
        self._send(m, s, "BODY", sent)
        m.d.comb += s.body.eq(s.states.ongoing("BODY"))
        nothing = s.of_marks & (s.raw | ~s.begun) & ~s.job[Job.PROGRAM]  # what follows need not be read
        with s.states.state("STEP"):
            s.states.go("UNIT")
            with m.If(s.of_sequence):
                m.d.sync += s.found.eq(s.shift)
            with m.If(s.last):
                m.d.sync += s.bad.eq(s.bad | nothing)
            with m.If(s.job[Job.MARK] | s.last & (s.of_crc | nothing) | s.job[Job.PROGRAM] & (s.place[:(PAGE - 1).bit_length()] == 0)):
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
        self._send(m, s, "CLOSE", closed, clocked=False)
        self._send(m, s, "POLL", "STATUS")
        self._send(m, s, "STATUS", polled)
        with s.states.state("DONE"):
            with m.If(s.job[Job.CHECK]):
                self._checked(m, s)
            with m.If(s.job[Job.LOAD]):
                m.d.sync += [s.sequence.eq(s.found), self.failed.eq(s.bad)]
                self._loaded(m, s)
            with m.If(s.job[Job.MARK]):
                m.d.sync += s.blank.eq(~s.blank & ~s.task[Task.UNDO])
                s.states.go("REST")
                with m.If(s.task[Task.SAVE]):
                    self._start(m, s, Job.MARK)
                    with m.If(s.blank):
                        self._start(m, s, Job.PROGRAM)
                with m.If(s.task[Task.UNDO]):
                    m.d.sync += [s.newest.eq(s.before), s.has_before.eq(0)]
                    self._start(m, s, Job.LOAD, s.before)
            with m.If(s.job[Job.PROGRAM]):
                s.states.go("OPEN")
                with m.If(~s.page):
                    self._start(m, s, Job.CHECK)
            with m.If(s.job[Job.ERASE]):
                s.states.go("REST")
                with m.If(s.task[Task.SAVE]):
                    s.states.go("OPEN")
                with m.If(s.erased):
                    self._start(m, s, Job.MARK)
        with s.states.state("BOOTED"):
            self._start(m, s, Job.LOAD, s.newest)
            with m.If(~s.has_newest):
                self._loaded(m, s)

    def _loaded(self, m, s):
        """The learner has what it shall have; after a boot the spare slot is looked at."""
        m.d.sync += [self.ready.eq(1), self.done.eq(~s.task[Task.BOOT])]
        s.states.go("REST")
        with m.If(s.task[Task.BOOT]):
            m.d.sync += s.task.eq(1 << Task.CLEAN)
            self._start(m, s, Job.CHECK, s.spare)

    def _checked(self, m, s):
        """After a slot was read: of the states that are whole the newest two are found."""
        older = (s.found - s.sequence)[:SEQUENCE_BITS]
        with m.If(~s.bad & ~s.task[Task.CLEAN]):
            with m.If(~s.has_newest | ~older[-1]):
                m.d.sync += [s.newest.eq(s.room), s.has_newest.eq(1), s.sequence.eq(s.found), s.has_before.eq(s.has_newest)]
            with m.Elif(older.all()):
                m.d.sync += s.has_before.eq(1)
        with m.If(s.task[Task.BOOT]):
            self._start(m, s, Job.CHECK, s.room + 1)
            with m.If(s.room == SLOTS):
                s.states.go("BOOTED")
        with m.If(s.task[Task.CLEAN]):
            m.d.sync += s.blank.eq(~s.raw & ~s.begun)
            s.states.go("REST")
        with m.If(s.task[Task.SAVE]):
            m.d.sync += [s.again.eq(1), self.failed.eq(s.bad)]
            self._start(m, s, Job.ERASE)
            with m.If(~s.bad | s.again):
                m.d.sync += self.done.eq(1)
                s.states.go("REST")
