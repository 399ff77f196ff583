"""What is proven of the components: PROPERTIES, {name: () -> prove.Property}.

Each function builds a component, drives it and says what must hold, from the definition and not from the component's own arithmetic.
Registers of the property itself begin at their initial values; `clock` counts from 0.
"""

from dataclasses import replace
from functools import partial

from amaranth.hdl import Array, Assert, Assume, Cat, Const, Module, Mux, Signal, signed

from fbnn_hw.reference.learning.lfsr import MASK, NOISE, PICK
from fbnn_hw.rtl.argmax import Argmax
from fbnn_hw.rtl.camera.front_end import CameraFrontEnd
from fbnn_hw.rtl.camera.sensors import HM01B0, OV7670
from fbnn_hw.rtl.learning.classes import ClassTable, Scan
from fbnn_hw.rtl.learning.lfsr import Registers
from fbnn_hw.rtl.learning.sample import SampleMemory
from fbnn_hw.rtl.learning.sign_update import SignUpdate
from fbnn_hw.rtl.popcount import XnorPopcount
from fbnn_hw.rtl.spram import SinglePortMemory
from fbnn_hw.rtl.thermometer import ThermometerEncoder
from fbnn_hw.rtl.uart import UartReceiver, UartTransmitter
from sim.checks import encoder_cycles
from tests.formal.prove import Property

ANY = ("dut.*",)


def around(dut):
    """(Module with the component `dut`, Signal that counts clocks from 0 to 1023 and stays there)."""
    m = Module()
    m.submodules.dut = dut
    clock = Signal(10, name="property_clock")
    m.d.sync += clock.eq(Mux(clock == 1023, 1023, clock + 1))
    return m, clock


def one_state(link, clock):
    """A `HostLink` whose machine begins in any one of its states: it is always in one."""
    index = link._index

    def watched(m, s):
        index(m, s)
        bits = Cat(s.states.bits.values())
        one = bits.any() & ((bits & (bits - 1)) == 0)
        m.d.comb += [Assume((clock != 0) | one), Assert(one)]
    link._index = watched


def constant(m, clock, width, name):
    """An input that keeps its value."""
    value, before = Signal(width, name=name), Signal(width, name=f"{name}_before")
    m.d.sync += before.eq(value)
    m.d.comb += Assume((clock == 0) | (value == before))
    return value


def popcount(width):
    """The count is the number of equal bits, for all words; the style whose adders the synthesis tool chooses."""
    dut = XnorPopcount(width, 0, "sum")
    m, _ = around(dut)
    total = Const(0, 1)
    for a, b in zip(dut.act, dut.weight):
        total = total + (a == b)
    m.d.comb += Assert(dut.count == total)
    return Property(m, [dut.act, dut.weight])


def encoder(levels, lanes, bits):
    """The words of a pixel are its thermometer, for all bytes, with pauses of both sides in any clock."""
    dut = ThermometerEncoder("trgb", levels, lanes, bits)
    m, clock = around(dut)
    pixel = constant(m, clock, 24, "pixel")
    red, green, blue = (pixel[8 * i:8 * i + 8] for i in range(3))
    channels = Cat(((value * levels) >> 8) >= k for value in (red, green, blue) for k in range(levels))
    expected = Array(channels[at:at + lanes] for at in range(0, len(channels), lanes))
    words = len(range(0, len(channels), lanes))
    given, taken = Signal(2), Signal(range(words + 1))
    m.d.comb += [dut.pixels.payload.eq(pixel.word_select(given, 8)), Assume(~dut.pixels.valid | (given < 3))]
    with m.If(dut.pixels.valid & dut.pixels.ready):
        m.d.sync += given.eq(given + 1)
    with m.If(dut.words.valid):
        m.d.comb += [Assert(taken < words), Assert((taken >= words) | (dut.words.payload == expected[taken]))]
        with m.If(dut.words.ready):
            m.d.sync += taken.eq(taken + 1)
    return Property(m, [pixel, dut.pixels.valid, dut.words.ready], encoder_cycles(dut, 1) + 3)


def stable(dut, inputs, out, depth):
    """What a stream offers stays until it is taken."""
    m, _ = around(dut)
    offered, payload = Signal(), Signal.like(out.payload)
    m.d.sync += [offered.eq(out.valid & ~out.ready), payload.eq(out.payload)]
    m.d.comb += Assert(~offered | out.valid & (out.payload == payload))
    return Property(m, [*inputs, out.ready], depth, ANY)


def stable_encoder(name, levels, lanes, bits):
    """The encoder's words stay until they are taken, from any state."""
    dut = ThermometerEncoder(name, levels, lanes, bits)
    return stable(dut, [dut.pixels.valid, dut.pixels.payload], dut.words, 2)


def sign_update(bits, stored, confidence, halves=False):
    """Counters move by one towards their input or not at all, stay in their range, and their signs are the weights; for all counters,
    inputs and commands.  New and shipped rows begin with counters of 0.  With `halves` they may be halved before, and the move that is
    asked for stays in their range."""
    count = 2
    dut = SignUpdate(count, bits, stored, confidence, halves)
    m, _ = around(dut)
    m.d.comb += Assume(~dut.shipped | dut.start)
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    for n in range(count):
        h = Signal(signed(bits), name=f"h{n}")
        updated = Signal(signed(bits), name=f"updated{n}")
        m.d.comb += [h.eq(dut.counters.word_select(n, stored)), updated.eq(dut.updated.word_select(n, stored)),
                     Assume(~dut.start | (h == 0))]
        up = (dut.values[n] ^ dut.negative) & ~dut.start
        free = (Mux(dut.halve, h >> 1, h) if halves else h) + Mux(dut.keep[n], Mux(up, 1, -1), 0)
        if halves:
            m.d.comb += Assume((free <= high) & (free >= low))
        moved = Mux(free > high, high, Mux(free < low, low, free))
        expected = Mux(dut.shipped, Mux(moved < 0, -1 - confidence, confidence), moved)
        m.d.comb += [Assert(updated == expected), Assert(dut.weights[n] == (updated >= 0))]
        if stored > bits:
            m.d.comb += Assert(dut.updated.word_select(n, stored)[bits:] == 0)
    return Property(m, [dut.counters, dut.values, dut.keep, dut.negative, dut.start, dut.shipped, *([dut.halve] if halves else [])])


def argmax(width, classes):
    """After each score `best` is the first of the largest scores so far, from any state, for all scores, with pauses in any clock."""
    dut = Argmax(width, classes)
    m, clock = around(dut)
    seen, best, largest = Signal(range(classes + 1)), Signal(range(classes + 1)), Signal(signed(width))
    m.d.comb += [Assume(dut.first == (seen == 0)), Assume(~dut.valid | (seen < classes))]
    with m.If(dut.valid):
        m.d.sync += seen.eq(seen + 1)
        with m.If((seen == 0) | (dut.score > largest)):
            m.d.sync += [best.eq(seen), largest.eq(dut.score)]
    m.d.comb += Assert((seen == 0) | (dut.best == best) & (dut.best_score == largest))
    return Property(m, [dut.valid, dut.first, dut.score], classes + 3, ANY)


def receiver(clocks):
    """From any state, after a line that was idle for as long as a byte, the next byte is received, alone and without error."""
    dut = UartReceiver(clocks)
    m, clock = around(dut)
    byte = constant(m, clock, 8, "byte")
    idle, delay = 12 * clocks, 5
    frame = Cat(0, byte, 1)
    heard = Signal()
    with m.If((clock >= idle) & (clock < idle + 10 * clocks)):
        m.d.comb += dut.line.eq(frame.bit_select(((clock - idle) // clocks)[:4], 1))
    with m.Else():
        m.d.comb += dut.line.eq(1)
    with m.If(clock >= idle):
        m.d.comb += Assert(~dut.error)
        with m.If(dut.strobe):
            m.d.sync += heard.eq(1)
            m.d.comb += [Assert(dut.byte == byte), Assert(~heard)]
        m.d.comb += Assert((clock < idle + 10 * clocks + delay) | heard)
    return Property(m, [byte], idle + 10 * clocks + delay + 4, ANY)


def transmitter(clocks):
    """Two bytes, offered at any time, leave in order: a start bit, eight bits and a stop bit each, and the line is idle otherwise."""
    dut = UartTransmitter(clocks)
    m, clock = around(dut)
    data = constant(m, clock, 16, "data")
    given, since = Signal(2), Signal(6, init=63)  # clocks since the byte at work was taken
    at_work = Signal(8)
    m.d.comb += [dut.bytes.payload.eq(data.word_select(given[0], 8)), Assume(~dut.bytes.valid | (given < 2))]
    with m.If(since != 63):
        m.d.sync += since.eq(since + 1)
    with m.If(dut.bytes.valid & dut.bytes.ready):
        m.d.sync += [given.eq(given + 1), since.eq(0), at_work.eq(dut.bytes.payload)]
        m.d.comb += Assert(since >= 10 * clocks - 1)  # the stop bit is whole when the next start bit begins
    frame = Cat(0, at_work, 1)
    m.d.comb += Assert(dut.line == Mux(since < 10 * clocks, frame.bit_select(since // clocks, 1), 1))
    return Property(m, [data, dut.bytes.valid], 22 * clocks)


def registers(seed, depth=4):
    """From any state, after a restart, each register gives the bits of its definition, whatever is selected, shifted and loaded."""
    dut = Registers(seed)
    m, clock = around(dut)
    m.d.comb += dut.restart.eq(clock == 0)
    outputs = []
    for index, taps in enumerate((NOISE, MASK, PICK)):
        state = Signal(taps.width, name=f"state{index}")
        with m.If(clock == 0):
            m.d.sync += state.eq(taps.start(seed, index))
        with m.Elif(dut.shift[index]):
            top = Mux(dut.load, dut.data, state[0] ^ state[taps.tap])
            m.d.sync += state.eq((state >> 1) | (top << taps.width - 1))
        outputs.append(state[0])
    m.d.comb += Assert((clock == 0) | (dut.select == 3) | (dut.bit == Array(outputs)[dut.select]))
    return Property(m, [dut.select, dut.shift, dut.load, dut.data], depth, ANY)


def law(index):
    """From any state: a register that shifts on gives bit n + width = bit n xor bit n + tap, and what was loaded after `width` shifts."""
    dut, taps = Registers(1), (NOISE, MASK, PICK)[index]
    m, clock = around(dut)
    load = constant(m, clock, 1, "load")
    given, put = Signal(taps.width), Signal(taps.width)  # the last ones, the newest lowest
    m.d.comb += [dut.select.eq(index), dut.shift.eq(1 << index), dut.load.eq(load)]
    m.d.sync += [given.eq(Cat(dut.bit, given)), put.eq(Cat(dut.data, put))]
    expected = Mux(load, put[-1], given[-1] ^ given[-1 - taps.tap])
    m.d.comb += Assert((clock < taps.width) | (dut.bit == expected))
    return Property(m, [load, dut.data], taps.width + 2, ANY)


def sample(words, lanes, copies):
    """From any state: words that were written are read back in order, and repeated bit by bit for the fan-in."""
    dut = SampleMemory(words, lanes, copies)
    m, clock = around(dut)
    bits = constant(m, clock, words * lanes, "bits")
    writing = (clock >= 1) & (clock <= words)
    again = words + 1  # the clock of the second restart
    m.d.comb += [dut.restart.eq((clock == 0) | (clock == again)), dut.write.eq(writing), dut.raw.eq(writing),
                 dut.advance.eq(writing | (clock > again)), dut.data.eq(bits.word_select((clock - 1)[:4], lanes))]
    wide = Cat(bit.replicate(copies) for word in range(words) for bit in bits[word * lanes:(word + 1) * lanes])
    place = (clock - again - 2)[:5]  # of the word that stands at `act`
    with m.If((clock >= again + 2) & (clock < again + 2 + words * copies)):
        m.d.comb += Assert(dut.act == wide.word_select(place, lanes))
    return Property(m, [bits], again + 3 + words * copies, ANY)


def bank(technology, depth=6, width=4, granularity=2, clocks=6):
    """From any contents: a word that was written is read as its parts were last written, whatever happens at other addresses and while
    the bank rests.
    """
    dut = SinglePortMemory(depth, width, granularity, technology)
    m, clock = around(dut)
    place = constant(m, clock, len(dut.address), "place")
    held, expected, reading = Signal(width), Signal(width), Signal()
    m.d.comb += [Assume(dut.address < depth), Assume(place < depth),
                 Assume((clock != 0) | dut.write_enable & dut.write_mask.all() & (dut.address == place)),
                 Assume((clock != 0) | dut.enable)]
    hit = dut.enable & (dut.address == place)
    with m.If(hit & dut.write_enable):
        for part in range(width // granularity):
            with m.If(dut.write_mask[part]):
                m.d.sync += held.word_select(part, granularity).eq(dut.write_data.word_select(part, granularity))
    m.d.sync += [reading.eq(hit & ~dut.write_enable & (clock > 0)), expected.eq(held)]
    m.d.comb += Assert(~reading | (dut.read_data == expected))
    return Property(m, [place, dut.address, dut.write_data, dut.write_mask, dut.write_enable, dut.enable], clocks, ANY)


def scan(kind, classes=3, count_bits=2):
    """From any contents: a scan finds the class that its definition names, or changes the one count that it should."""
    dut = ClassTable(classes, count_bits, 0)
    m, clock = around(dut)
    label = constant(m, clock, len(dut.label), "label")
    m.d.comb += [dut.scan.eq(kind), dut.label.eq(label), Assume(label < classes), dut.host_index.eq(clock[:2]),
                 dut.start.eq(clock == classes + 1)]
    counts = [Signal(count_bits, name=f"count{c}") for c in range(classes)]
    presented = [Signal(8, name=f"presented{c}") for c in range(classes)]
    ended, checked = Signal(), Signal(range(classes + 3))
    for c in range(classes):  # what is in the table, by the host's port, before the scan
        with m.If(clock == c + 1):
            m.d.sync += [counts[c].eq(dut.counts), presented[c].eq(dut.presented_left[:8])]
            m.d.comb += Assume(dut.presented_left[:8] != 255)  # PRESENT halves what comes to 255
    with m.If(ended & (checked <= classes)):
        m.d.comb += dut.host_index.eq(checked)
        m.d.sync += checked.eq(checked + 1)
    with m.If(dut.done & (clock > classes + 1)):
        m.d.sync += ended.eq(1)
        best = dut.best
        if kind == Scan.FULLEST:
            m.d.comb += Assert(best < classes)
            for c in range(classes):
                with m.If(best == c):
                    own = counts[c] != 0
                    largest = Cat(counts[c] >= other for other in counts).all()
                    first = Mux(label == c, 1, (Array(counts)[label] != counts[c]) & Cat(counts[c] > x for x in counts[:c]).all())
                    m.d.comb += Assert(~Cat(x != 0 for x in counts).any() | own & largest & first)
        if kind == Scan.LEAST:
            for c in range(classes):
                with m.If(best == c):
                    least = Cat((counts[i] == 0) | (presented[c] <= presented[i]) for i in range(classes)).all()
                    first = Cat((counts[i] == 0) | (presented[c] < presented[i]) for i in range(c)).all()
                    m.d.comb += Assert(~Cat(x != 0 for x in counts).any() | (counts[c] != 0) & least & first)
    if kind in (Scan.ADD, Scan.REMOVE):
        step = 1 if kind == Scan.ADD else -1
        for c in range(classes):
            with m.If(ended & (checked == c + 1)):
                m.d.comb += Assert(dut.counts == (counts[c] + Mux(label == c, step, 0))[:count_bits])
    return Property(m, [label], 4 * classes + 7 + (classes + 2) * (kind in (Scan.ADD, Scan.REMOVE)),
                    ("dut.counts*", "dut.presented_left*"))


def camera_byte():
    """The byte of a box's sum is its high bits with the highest ones copied down, for all sums of six bits, and of five taken twice."""
    m, _ = around(Module())
    total, six = Signal(10, name="total"), Signal(name="six")
    byte = CameraFrontEnd.byte(total, six)
    five = total[1:]
    m.d.comb += Assert(byte == Mux(six, (total >> 2 | total >> 8)[:8], (five >> 1 | five >> 6)[:8]))
    return Property(m, [total, six])


def camera_adds(sensor):
    """What a colour of a pixel leaves in the sum of its box, from any state: the colour alone where the box begins, else one more."""
    dut = CameraFrontEnd(sensor, 5, 4)
    add = dut._add

    def watched(m, s):
        add(m, s)
        window = s.within & (s.x[4:] == 0)
        word = Cat(s.low, s.high) if not sensor.grey else s.low
        value = s.low if sensor.grey else Array([0, word[11:16] << 1, word[5:11], word[:5] << 1])[s.step]
        begins = ~(s.x[:2].any() | s.y[:2].any())
        m.d.comb += Assert(s.write.en == (window & (s.step != 0)))
        with m.If(s.write.en):
            m.d.comb += [Assert(s.write.data == (Mux(begins, 0, s.read.data) + value)[:len(s.write.data)]),
                         Assert(s.write.addr == Cat(*([] if sensor.grey else [s.step]), s.x[2:4], s.y[2]))]
    dut._add = watched
    m, _ = around(dut)
    return Property(m, [dut.pclk, dut.href, dut.vsync, dut.data, dut.tick, dut.skip, dut.pixels.ready], 2, ANY)


PROPERTIES = {
    "camera_byte": camera_byte,
    "camera_adds": partial(camera_adds, replace(OV7670, width=23, height=20)),
    "camera_adds_grey": partial(camera_adds, replace(HM01B0, width=20, height=19)),
    **{f"popcount_sum_{width}": partial(popcount, width) for width in (1, 8, 9)},
    "encoder_trgb_multiplied": partial(encoder, 3, 4, 0),
    "stable_encoder": partial(stable_encoder, "trgb", 5, 16, 8),
    "stable_encoder_multiplied": partial(stable_encoder, "tycc", 2, 8, 0),
    **{f"sign_update_{bits}": partial(sign_update, bits, stored, confidence)
       for bits, stored, confidence in ((1, 1, 0), (2, 2, 1), (3, 4, 2), (4, 4, 7), (8, 8, 32))},
    "sign_update_halved": partial(sign_update, 6, 8, 0, True),
    "argmax": partial(argmax, 5, 5),
    "receiver": partial(receiver, 2),
    "transmitter": partial(transmitter, 1),
    "registers": partial(registers, 1),
    "sample": partial(sample, 3, 4, 1),
    "sample_copies": partial(sample, 2, 4, 2),
    "bank": partial(bank, "generic"),
    **{f"classes_{kind.name.lower()}": partial(scan, kind) for kind in (Scan.FULLEST, Scan.LEAST, Scan.ADD)},
}

LONG = {
    "encoder_trgb": partial(encoder, 3, 4, 8),
    "receiver_4": partial(receiver, 4),
    "transmitter_2": partial(transmitter, 2),
    "classes_remove": partial(scan, Scan.REMOVE),
    "law_0": partial(law, 0),
    "law_1": partial(law, 1),
    "law_2": partial(law, 2),
}
"""Those that take longer, behind FBNN_FORMAL=long."""
