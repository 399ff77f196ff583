"""A display with an SSD1306 on the two wires of a sensor: the sign, the number and the score.  ssd1306.toml has commands and letters."""

import math
import tomllib
from pathlib import Path

from amaranth import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..states import OneHot

SCORE_BITS = 6
CELLS = 4
"""Digits that the display has room for."""
LETTERS = 8
"""Of a line."""
BLANK = 15
"""Number of the letter that is dark; all ones of a digit."""
SCORED = "class", "unknown"
"""Signs beside whose word the score is a bar."""
BYTES, GLYPHS = 512, 256
"""Of the memory: letters of eight columns, behind them the words of sixteen letters, and up to its end the commands."""
_PAGE = tomllib.loads(Path(__file__).with_name("ssd1306.toml").read_text(encoding="utf-8"))
FONT = {letter: bytes.fromhex(rows) for letter, rows in _PAGE["font"].items()}
"""{letter: its eight rows, bit 0 at the left}"""


def commands():
    """The bytes before a picture: the address, each byte of a command behind a control byte of its own, then that of the picture."""
    sent = bytes.fromhex(" ".join(command for command, _ in _PAGE["commands"]))
    return bytes([_PAGE["address"], *(byte for command in sent for byte in (0x80, command)), 0x40])


def word(sign):
    """The two lines of a sign's name, of eight letters each."""
    return "".join(line.ljust(LETTERS) for line in sign.name.partition(" ")[::2])


def contents(signs):
    """The bytes of the memory; raises KeyError for a letter that has no picture."""
    codes = {letter: code for code, letter in enumerate(FONT)}
    columns = [sum((row >> x & 1) << y for y, row in enumerate(rows)) for rows in FONT.values() for x in range(8)]
    words = [codes[letter] for sign in signs for letter in word(sign)]
    sent = commands()
    head = [*columns, *[0] * (GLYPHS - len(columns)), *words]
    return [*head, *[0] * (BYTES - len(head) - len(sent)), *sent]


class Display(wiring.Component):
    """Draws the whole picture where something has changed, and again from the commands on where the display has not answered.

    The upper half of the picture has the sign's word in two lines, or a word and the score as a bar, the lower half the number: letters
    twice as large as they are in the memory, digits four times.  Where a byte is not acknowledged, a display is not there: the picture
    ends, and begins anew with the next tick.

    Parameters:
    - signs, sequence of Sign: of `machine.device`.
    - numbers: how many there are, from 0 on; at most 10,000.
    - clock_hz, rate: frequency of sync; bits a second.

    Timing: A picture takes 1,080 bytes of nine bits, 29 ms.  It begins at a tick.

    Resources: One block RAM.
    """

    def __init__(self, signs, numbers, clock_hz, rate=333e3):
        self.signs = tuple(signs)
        self.digits = len(str(max(1, numbers - 1)))
        label = (max(2, numbers) - 1).bit_length()
        self.places = 1 << (label - 1).bit_length()  # bits of the number, a power of two
        self.quarter = math.ceil(clock_hz / rate / 4)
        super().__init__({
            "tick": In(1),  # strobes about once a millisecond
            "free": In(1),  # the wires are
            "sign": In(range(len(self.signs))), "number": In(label), "score": In(SCORE_BITS),  # to be shown
            "data": In(1),  # level of the data wire
            "clock_low": Out(1), "data_low": Out(1)})  # pull the wire to ground

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = Memory(shape=8, depth=BYTES, init=contents(self.signs), attrs={"ram_style": "block"})
        read = memory.read_port()
        sign = Signal.like(self.sign)  # of the picture, as the next two
        score = Signal(SCORE_BITS)
        number = Signal(self.places)
        digits = [Signal(4, name=f"digit{i}") for i in range(self.digits)]  # the lowest first
        # Seven bits of a column, three of a page, a carry behind the picture.  Before it 64 bytes, of which the last ones are sent.
        place = Signal(12)
        page, draws, drawn = place[7:10], place[10], place[11]
        bit = Signal(3, init=7)
        ninth = Signal()
        missed = Signal()  # a ninth bit was not pulled low
        stale = Signal(init=1)  # the picture is not what it should be
        wait = Signal(range(self.quarter))
        phase = Signal(2)
        machine = OneHot(m, "REST")
        rest, start, send, stop = map(machine.ongoing, ("REST", "START", "SEND", "STOP"))
        begins = Signal()
        passes = Signal()
        ends = Signal()
        byte_ends = Signal()
        changed = (self.sign != sign) | (self._numbered(self.sign) & (self.number != number)
                                         | self._of(self.sign, SCORED) & (self.score != score))
        m.d.comb += [begins.eq(rest & self.tick & self.free & (stale | changed)), passes.eq((wait == 0) & ~rest),
                     ends.eq(passes & phase.all()), byte_ends.eq(passes & (phase == 0) & ninth)]
        m.d.sync += [wait.eq(Mux(wait == 0, self.quarter - 1, wait - 1)), phase.eq(phase + passes)]
        with machine:
            for state, condition, then in (("REST", begins, "START"), ("START", ends, "SEND"), ("STOP", ends, "REST"),
                                           ("SEND", ends & ninth & (missed | drawn), "STOP")):
                with machine.state(state), m.If(condition):
                    machine.go(then)
        with m.If(begins):
            m.d.sync += [sign.eq(self.sign), score.eq(self.score), number.eq(self.number), stale.eq(1), place.eq(1024 - len(commands())),
                         *(digit.eq(0) for digit in digits)]
        with m.If(ends & stop):
            m.d.sync += stale.eq(missed)
        with m.If(ends & send):
            m.d.sync += [ninth.eq((bit == 0) & ~ninth), bit.eq(bit - ~ninth)]
        with m.If(passes & (phase == 2) & ninth):
            m.d.sync += missed.eq(self.data)  # it has a quarter of a bit to settle
        with m.If(byte_ends):
            m.d.sync += place.eq(place + 1)
            with m.If(~draws & place[self.places.bit_length() - 1:6].all()):  # as many bytes as the number has bits
                self._convert(m, number, digits)
        # Before a byte is sent: what lies at its place after quarter 1, and after quarter 2 the column of that letter, or of a digit.
        word_or_command = Mux(draws, Cat(place[4:7], page[1], sign), Cat(place[:6], Const(3, 2)))
        m.d.comb += [
            read.en.eq(passes & (start | ninth) & Mux(phase[1], ~phase[0] & draws, phase[0])),
            read.addr.eq(Mux(phase[1], Mux(page[2], Cat(place[2:5], self._digit(sign, place[5:7], digits)), Cat(place[1:4], read.data[:5])),
                             GLYPHS | word_or_command))]
        row = Mux(draws, Mux(page[2], Cat(bit[2], page[:2]), Cat(bit[1:], page[0])), bit)
        pixel = Mux(self._of(sign, SCORED) & draws & (page[1:] == 1), place[1:7] < score, read.data.bit_select(row, 1))
        # Registers, as in `SccbWriter`: the clock is low in quarters 0 and 3 of a bit, 3 of the start, 0 of the stop.
        m.d.sync += [self.clock_low.eq(send & (phase[0] == phase[1]) | start & (phase == 3) | stop & (phase == 0)),
                     self.data_low.eq(send & ~ninth & ~pixel | start & phase[1] | stop & ~phase[1])]
        return m

    def _of(self, sign, names):
        """Whether a sign is one of these."""
        return Const(sum(1 << i for i, each in enumerate(self.signs) if each.name in names), 1 << len(sign)).bit_select(sign, 1)

    def _numbered(self, sign):
        """Whether it has a number."""
        return self._of(sign, [each.name for each in self.signs if each.value])

    @staticmethod
    def _convert(m, number, digits):
        """A step from the number, which goes round, to its digits: they are doubled, and the number's next bit is added."""
        carry = number[-1]
        m.d.sync += number.eq(number.rotate_left(1))
        for digit in digits:
            m.d.sync += digit.eq(Cat(carry, Mux(digit >= 5, digit - 5, digit)[:3]))
            carry = digit >= 5

    def _digit(self, sign, cell, digits):
        """The letter of a cell of the lower half: digits in the middle, without leading zeros, and none of a sign without a number."""
        cells, blank = [Const(BLANK, 4)] * CELLS, ~self._numbered(sign)
        left, leads = (CELLS - len(digits)) // 2, Const(1)
        for at, digit in enumerate(reversed(digits), start=left):
            leads &= digit == 0
            cells[at] = digit | (blank | (leads if digit is not digits[0] else 0)).replicate(4)
        return Cat(Array(cells)[cell], Const(0, 1))
