"""The program of a keeper: what `Keeper` does, clock by clock, as the words of a memory."""

from dataclasses import dataclass
from enum import IntEnum
from functools import reduce
from operator import or_

from amaranth.lib import data

from ..machine.kept import BEGUN, CRC_BYTES, ERASED, PAGE, SEQUENCE, SLOTS, VOID
from ..machine.protocol import MODEL_BYTES, Space

ENABLE, READ, PROGRAM, ERASE, STATUS = 0x06, 0x03, 0x02, 0x20, 0x05
"""Commands of the flash."""
START = "start"
"""Name of the first step."""


class Condition(IntEnum):
    """What a step can ask."""

    READY = 0  # of a step that commands the learner: it has taken that; of another one: the flash is given
    SAVE = 1  # a save is asked for
    UNDO = 2  # an undo is asked for, and there is a state before
    WISH = 3  # a sector may be erased, and one is to be
    LINE = 4  # the last bit from the flash
    LAST = 5  # the unit is the last one of its table: its address has the bits of the constant of the step before
    FULL = 6  # with this byte a page is full
    LOADS = 7  # of a step that selects the flash: what is read goes to the learner; of another one: the learner is used
    BAD = 8  # a bit was not the one that was expected
    BLANK = 9  # the spare slot is erased and says so
    HAS_NEWEST = 10
    ERASED = 11  # with this sector all of the slot is
    NEWER = 12  # the state that was read is newer than the newest one
    BEFORE = 13  # it is the one before
    AGAIN = 14  # the slot is written for the second time
    PROGRAMS = 15  # what is sent is programmed


class Out(IntEnum):
    """Where a step takes the bits that it sends, or expects, from: the highest ones first."""

    ZERO = 0
    CONSTANT = 1  # from bit 7 on
    PLACE = 2  # number of the page, its lowest eight bits
    ROOM = 3
    SEQUENCE = 4  # number of the next state
    MODEL = 5  # byte of the model's mark
    CRC = 6
    WORD = 7  # of the learner
    PLACE_HIGH = 8  # the other bits of the page's number, where it has more


class Sent(IntEnum):
    """What is done with the bits of a step that takes the time of some: a bit of `acts` each."""

    CHECK = 0  # they must be what is expected
    CRC = 1
    COUNT = 2  # the place goes on by a byte
    DESIGN = 3  # another bit than the expected one is that of another design


class Act(IntEnum):
    """What another step does: a bit of `acts` each."""

    HOST = 0  # command the learner until it is ready
    STEP = 1  # to the next address of a table, from its last one to 0
    SET = 2  # take the constant as `Flag`s
    ORDER = 3  # carry out the `Order`s in the constant


class Flag(IntEnum):
    """What holds from one SET to the next: bits of the constant behind the code of the step that one with `returns` leads to."""

    PROGRAMS = 5
    LOADS = 6
    BOOTS = 7
    WANTS = 8


class Order(IntEnum):
    """Bits of a constant."""

    CLEAR = 0  # address and word are 0
    FRESH = 1  # the CRC begins; nothing is bad, or with VALUE something is
    FIRST = 2  # the address is that of the classes' rows
    SECOND = 3  # that of the exemplars' rows
    HOME = 4  # the place is 0
    SECTOR = 5  # it goes on by a sector
    BEFORE = 6  # there is a state before
    ADOPT = 7  # this room has the newest state; there is one before, if there was a newest one, and with VALUE alone
    JUDGE = 8  # `failed` is whether something was bad; the learner has what it shall have
    BLANK = 9  # the spare slot is blank with VALUE
    VALUE = 10
    TAKE = 11  # the save that is asked for begins, for the first time
    DROP = 12  # an undo is forgotten where there is no state before
    DONE = 13
    FOUND = 14  # the word has a sequence number
    TURN = 15  # the next byte of the model's mark
    AGAIN = 16
    BUSY = 17  # the learner is used with VALUE
    NEXT = 18  # the next room in the ring: behind the newest one is the spare one, and behind that the one before
    BACK = 19  # the newest one


CODE_BITS = min(Flag)
"""Of the code of a step to which one returns."""


def program_size(word_bits):
    """(words, bits) of the memory of a program, at most.  word_bits: of a word of the learner's memory."""
    return 256, 44 + (word_bits - 1).bit_length()


@dataclass(frozen=True)
class Step:
    """A word of the program, which leads to `then`, or without the condition to `otherwise`; None: to the next one of the text.

    time: bits that it takes; 0: one clock.  returns: it leads to the place of the code in the flags.
    """

    then: str | None = None
    condition: Condition | None = None
    otherwise: str | None = None
    returns: bool = False
    time: int = 0
    out: Out = Out.ZERO
    acts: tuple[IntEnum, ...] = ()
    selects: bool = False
    space: Space = Space.BANKS
    constant: int = 0


def bits(numbers):
    """A number with these bits."""
    return sum(1 << number for number in numbers)


class Program:
    """The program of a keeper.

    Parameters:
    - slot, mark: as `Keeper` has them.
    - upper, upper_bits: the address of room 0 in units of four rooms, and its bits.
    - address_bits: of the learner's memory.

    Results:
    - layout: of a word.
    - words: contents of the memory, {field: value} each.
    - lasts: bits of which some are set in an address that is the last one of a table.
    """

    def __init__(self, slot, mark, upper, upper_bits, address_bits):
        self.slot, self.mark, self.upper, self.upper_bits = slot, mark, upper, upper_bits
        self.page_bits = (slot.room // PAGE - 1).bit_length()
        self.text = []  # steps
        self.names = {}  # {name: number of its step in the text}
        self.codes = {START: 0}  # {name of a step to which one returns: its code}
        for write in (self._boot, self._rest, self._clean, self._save, self._undo, self._commands, self._first_page, self._read,
                      self._write):
            write()
        self._place()
        self.layout = data.StructLayout({
            "to": (len(self.memory) - 1).bit_length(), "condition": 4, "asks": 1, "returns": 1,
            "out": max(step.out for step in self.text).bit_length(), "length": (8 * slot.word_bytes - 1).bit_length(), "sends": 1,
            "acts": 4, "selects": 1, "constant": max(len(Order), address_bits)})
        self.words = [self._word(number) for number in self.memory]
        self.lasts = reduce(or_, (step.constant for step in self.text if Act.STEP in step.acts))

    # Text.

    def _at(self, name):
        """The next step has a name."""
        self.names[name] = len(self.text)

    def _add(self, **fields):
        self.text.append(Step(**fields))

    def _send(self, time, out, *acts, selects=True, **fields):
        self._add(time=time, out=out, acts=acts, selects=selects, **fields)

    def _byte(self, value, *acts, **fields):
        """A byte that is the same each time, which needs no constant where it is 0."""
        self._send(8, Out.CONSTANT if value else Out.ZERO, *acts, **({"constant": value} if value else {}), **fields)

    def _pause(self, **fields):
        """The time of a byte, in which the flash is not selected."""
        self._send(8, Out.ZERO, selects=False, **fields)

    def _set(self, code, *flags, **fields):
        """Flags of a task that has the flash."""
        number = self.codes.setdefault(code, len(self.codes)) if code else 0
        self._add(acts=(Act.SET,), constant=number | bits([*flags, Flag.WANTS]), **fields)

    def _order(self, *orders, **fields):
        self._add(acts=(Act.ORDER,), constant=bits(orders), **fields)

    def _wait(self, condition, name, *acts, **fields):
        """Until a condition holds."""
        self._at(name)
        self._add(condition=condition, otherwise=name, acts=acts, **fields)

    # Tasks.

    def _boot(self):
        """Find the newest state, and load it."""
        self._task(START)
        for room in range(1, SLOTS + 1):
            self._at(f"boot {room}")
            self._set(f"checked {room}", Flag.BOOTS, then="read")
            self._at(f"checked {room}")
            self._set(f"boot {room + 1}", then="checked")
        self._at("checked")
        self._order(Order.CLEAR, Order.HOME, condition=Condition.BAD, then="next")
        self._add(condition=Condition.NEWER, then="newer")
        self._add(condition=Condition.BEFORE, otherwise="next")
        self._order(Order.BEFORE, Order.VALUE, then="next")
        self._at("newer")
        self._order(Order.ADOPT, Order.VALUE)
        self._at("next")
        self._order(Order.NEXT, returns=True)
        self._at(f"boot {SLOTS + 1}")
        self._order(Order.BACK, condition=Condition.HAS_NEWEST, then="load")
        self._order(Order.FRESH)
        self._at("booted")
        self._order(Order.JUDGE, Order.HOME, Order.CLEAR)
        self._at("look")  # whether the spare slot is blank
        self._order(Order.FRESH, Order.BUSY, Order.NEXT)
        self._set("marks")
        self._pause()
        self._byte(READ, then="address")
        self._at("marks")
        self._byte(0)
        self._byte(0, Sent.CHECK)
        self._add(selects=True, condition=Condition.BAD, then="looked")
        self._byte(255, Sent.CHECK)
        self._add(selects=True, condition=Condition.BAD, then="looked")
        self._order(Order.BLANK, Order.VALUE)
        self._at("looked")
        self._pause(then="rest")
        self._at("load")
        self._set("booted", Flag.LOADS, then="read")

    def _rest(self):
        """Between two tasks."""
        self._at("rest")
        self._order(Order.CLEAR, Order.BUSY, Order.BACK)
        self._add(acts=(Act.SET,))
        self._at("asked")
        self._add(condition=Condition.SAVE, then="save")
        self._order(Order.DROP, condition=Condition.UNDO, then="undo")
        self._add(condition=Condition.WISH, then="clean", otherwise="asked")

    def _task(self, name, *orders):
        """Wait until the learner rests, take the flash."""
        self._at(name)
        self._order(Order.BUSY, Order.VALUE, *orders)
        self._wait(Condition.READY, f"{name} waits", Act.HOST)  # a read that is not needed
        self._set(None)
        self._wait(Condition.READY, f"{name} takes")

    def _mark(self, name, byte):
        """Program a mark."""
        self._set(f"{name} addressed", then="program")
        self._at(f"{name} addressed")
        self._byte(byte)
        self._byte(0)
        self._set(f"{name} done", then="finish")
        self._at(f"{name} done")

    def _clean(self):
        """Erase a sector of the spare slot."""
        self._at("clean")
        self._order(Order.NEXT)
        self._set(None)
        self._wait(Condition.READY, "clean takes")
        self._at("sector")
        self._set("sector addressed", then="erase")
        self._at("sector addressed")
        self._byte(0)
        self._set("sector done", then="finish")
        self._at("sector done")
        self._add(condition=Condition.ERASED, then="erased")
        self._order(Order.SECTOR, condition=Condition.LOADS, then="sector", otherwise="rest")
        self._at("erased")
        self._order(Order.HOME)
        self._mark("erased", ERASED)
        self._order(Order.BLANK, Order.VALUE, condition=Condition.LOADS, then="begin", otherwise="rest")

    def _save(self):
        """Write a state into the spare slot, and read it back."""
        self._task("save", Order.TAKE, Order.NEXT)
        self._add(condition=Condition.BLANK, then="begin", otherwise="sector")
        self._at("begin")
        self._mark("begun", BEGUN)
        self._order(Order.BLANK)
        self._set("state", Flag.PROGRAMS, then="program")
        self._at("written")
        self._set("saved", then="finish")
        self._at("saved")
        self._order(Order.HOME)
        self._set("compared", then="read")
        self._at("compared")
        self._order(Order.JUDGE, Order.CLEAR, Order.HOME, condition=Condition.BAD, then="wrong")
        self._order(Order.ADOPT, Order.VALUE, Order.DONE, then="rest")
        self._at("wrong")
        self._order(Order.AGAIN, condition=Condition.AGAIN, otherwise="sector")
        self._order(Order.DONE, then="rest")

    def _undo(self):
        """Make the newest state void, and load the one before."""
        self._task("undo", Order.HOME)  # a slot that is partly erased is not the spare one any more
        self._mark("void", VOID)
        self._order(Order.NEXT)
        self._order(Order.NEXT)
        self._order(Order.ADOPT, Order.BLANK)
        self._set("restored", Flag.LOADS, then="read")
        self._at("restored")
        self._order(Order.ADOPT, Order.JUDGE, Order.CLEAR, Order.HOME, Order.DONE, then="rest")

    # Parts of tasks.

    def _address(self, **fields):
        """The address of the place, but for its lowest byte."""
        rest = self.upper_bits
        while rest:
            count = min(8, rest)
            rest -= count
            self._send(count, Out.CONSTANT, constant=(self.upper >> rest & (1 << count) - 1) << 8 - count)
        self._send(2, Out.ROOM)
        if self.page_bits > 8:
            self._send(self.page_bits - 8, Out.PLACE_HIGH)
        self._send(min(8, self.page_bits), Out.PLACE, **fields)

    def _commands(self):
        """Commands that write, up to the address but for its lowest byte; the wait until the flash has written."""
        self._at("erase")
        self._pause()
        self._byte(ENABLE)
        self._pause()
        self._byte(ERASE, then="address")
        self._at("program")
        self._pause()
        self._byte(ENABLE)
        self._pause()
        self._byte(PROGRAM)
        self._at("address")
        self._address(returns=True)
        self._at("finish")
        self._finish("finishes")
        self._add(returns=True)
        self._at("page")  # the next one
        self._finish("page ends", then="program")

    def _finish(self, name, then=None):
        self._pause()
        self._byte(STATUS)
        self._at(name)
        self._byte(0, condition=Condition.LINE, then=name, otherwise=then)

    def _first_page(self):
        """The start of reading; what lies before the tables, which is read and programmed alike."""
        self._at("read")
        self._order(Order.FRESH)
        self._pause()
        self._byte(READ)
        self._address()
        self._byte(0)
        # Marks: erased, begun, not void.
        self._byte(0, Sent.CHECK)
        self._add(selects=True, condition=Condition.BAD, then="read ends")
        self._byte(255, Sent.CHECK)
        self._add(selects=True, condition=Condition.BAD, then="is begun")
        self._order(Order.FRESH, Order.VALUE, then="read ends")
        self._at("is begun")
        self._order(Order.FRESH, selects=True)
        self._byte(255, Sent.CHECK, then="void")
        self._at("state")
        self._byte(0)
        for _ in range(VOID + 1):
            self._byte(255, Sent.COUNT)
        self._order(Order.FRESH, Order.CLEAR, selects=True)
        self._at("void")
        self._byte(255, Sent.COUNT)
        last = SEQUENCE - (VOID + 1) - 1
        self._add(constant=last, selects=True)
        self._step(last, "sequence", "void")
        self._at("sequence")
        self._send(8, Out.SEQUENCE, Sent.CRC, Sent.COUNT)
        self._order(Order.FOUND, selects=True)
        for byte in self.mark:
            self._byte(byte, Sent.CRC, Sent.CHECK, Sent.COUNT, Sent.DESIGN)
        self._at("model")
        self._send(8, Out.MODEL, Sent.CRC, Sent.CHECK, Sent.COUNT, Sent.DESIGN)
        self._order(Order.TURN, selects=True)  # the next byte is there three clocks later
        last = MODEL_BYTES - 1
        self._add(constant=last, selects=True)
        self._step(last, None, "model")
        self._add(selects=True, condition=Condition.PROGRAMS, then="page 1", otherwise="tables")

    def _step(self, last, then, otherwise):
        """To the next unit of a table, or behind it.  The step before has the same constant."""
        self._add(acts=(Act.STEP,), condition=Condition.LAST, then=then, otherwise=otherwise, constant=last, selects=True)

    def _tables(self, way):
        """(name, name of what follows, space, address of its last word, its first byte in a slot, the byte behind it) of each table.
        Where its first address is not 0, that is ordered."""
        at, orders = PAGE, iter([Order.FIRST, Order.SECOND])
        for number, (space, first, count) in enumerate(self.slot.tables):
            self._at(f"{way} {number}")
            if first:
                self._order(next(orders), selects=True)
            end = at + count * self.slot.word_bytes
            yield f"{way} word {number}", f"{way} {number + 1}", space, first + count - 1, at, end
            at = end
        self._at(f"{way} {len(self.slot.tables)}")

    def _read(self):
        """Read the tables and the CRC, and return."""
        self._at("tables")
        for name, following, space, last, *_ in self._tables("read"):
            self._at(name)
            self._send(8 * self.slot.word_bytes, Out.WORD, Sent.CRC, constant=last, condition=Condition.LOADS, otherwise=f"{name} steps")
            self._wait(Condition.READY, f"{name} loads", Act.HOST, space=space, selects=True, constant=last)
            self._at(f"{name} steps")
            self._step(last, following, name)
        last = CRC_BYTES - 1
        self._at("CRC")
        self._send(8, Out.CRC, Sent.CRC, Sent.CHECK, constant=last)
        self._step(last, None, "CRC")
        self._at("read ends")
        self._pause(returns=True)

    def _turn(self, name, following, **fields):
        """Go on with the next page."""
        self._at(name)
        self._set(f"{name} goes on", Flag.PROGRAMS, then="page")
        self._at(f"{name} goes on")
        self._byte(0, then=following, **fields)

    def _write(self):
        """Program the tables and the CRC."""
        self._turn("page 1", "write 0")
        end = PAGE
        for name, following, space, last, at, end in self._tables("write"):
            self._wait(Condition.READY, name, Act.HOST, space=space, selects=True)
            ends = at // PAGE != end // PAGE
            asks = {"condition": Condition.FULL, "then": f"{name} turns"} if ends else {}
            self._send(8 * self.slot.word_bytes, Out.WORD, Sent.CRC, Sent.COUNT, constant=last, **asks)
            self._at(f"{name} steps")
            self._step(last, following, name)
            if ends:
                self._turn(f"{name} turns", f"{name} steps", constant=last)
        before = min(CRC_BYTES, -end % PAGE or PAGE)  # bytes before the page is full
        self._crc(before, then="page in CRC" if before < CRC_BYTES else "written")
        if before < CRC_BYTES:
            self._turn("page in CRC", "rest of CRC")
            self._at("rest of CRC")
            self._crc(CRC_BYTES - before, then="written")

    def _crc(self, count, **fields):
        """Program bytes of the CRC."""
        for byte in range(count):
            self._send(8, Out.CRC, Sent.CRC, Sent.COUNT, **(fields if byte == count - 1 else {}))

    # Memory.

    def _place(self):
        """Which step lies in each word of the memory.

        A step that asks leads to one of two neighbours, and one that returns to one of the first words.  So some steps are there twice.
        """
        if len(self.codes) > 1 << CODE_BITS:
            raise AssertionError(f"keeper: one returns to {len(self.codes)} steps, expected at most {1 << CODE_BITS}")
        self.memory = [self.names[name] for name in self.codes]
        self.pairs, self.words_of = {}, {}
        if len(self.memory) % 2:
            self.memory.append(self.names["rest"])
        for word, number in enumerate(self.memory):
            self.words_of.setdefault(number, word)
        for number, step in enumerate(self.text):
            pair = self._following(number)[::-1]
            if step.condition is not None and pair not in self.pairs and pair[::-1] not in self.pairs:
                self.pairs[pair] = len(self.memory)
                for each in pair:
                    self.words_of.setdefault(each, len(self.memory))
                    self.memory.append(each)
        for number in range(len(self.text)):
            if number not in self.words_of:
                self.words_of[number] = len(self.memory)
                self.memory.append(number)

    def _following(self, number):
        """(step with the condition, step without it)"""
        step = self.text[number]
        return tuple(number + 1 if name is None else self.names[name] for name in (step.then, step.otherwise))

    def _word(self, number):
        step = self.text[number]
        if step.returns:
            to = 0
        elif step.condition is not None:
            pair = self._following(number)[::-1]
            to = self.pairs[pair] if pair in self.pairs else self.pairs[pair[::-1]] + 1
        else:
            to = self.words_of[self._following(number)[0]]
        return {"to": to, "condition": step.condition or 0, "asks": step.condition is not None, "returns": step.returns,
                "out": step.out if step.time else step.space, "length": max(0, step.time - 1), "sends": step.time > 0,
                "acts": bits(step.acts), "selects": step.selects, "constant": step.constant}
