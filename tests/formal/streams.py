"""What is proven of streams: what is offered stays until it is taken, and buffers keep the order.  PROPERTIES, as `properties` has them."""

from functools import partial

from amaranth.hdl import Array, Assert, Assume, Cat, Const, Mux, Signal

from fbnn_hw.reference.learning.rules import gumbel_table
from fbnn_hw.rtl.axi_stream import ImagePackets, RegisterSlice
from fbnn_hw.rtl.board_top import FlashImage
from fbnn_hw.rtl.host_link import HostLink
from fbnn_hw.rtl.learning.noise import NoiseTable
from fbnn_hw.rtl.qspi_flash import FlashChip, FlashReader
from tests.formal.properties import ANY, around, one_state, stable
from tests.formal.prove import Property


def slice_stable():
    """From any state."""
    dut = RegisterSlice(4)
    return stable(dut, [dut.i.valid, dut.i.payload], dut.o, 2)


def slice_order(depth=8):
    """The n-th word out is the n-th word in, whatever the words and the pauses; at most two are held."""
    dut = RegisterSlice(2)
    m, clock = around(dut)
    came, left = Signal(range(depth + 1)), Signal(range(depth + 1))
    words = [Signal(2, name=f"word{i}") for i in range(depth)]
    with m.If(dut.i.valid & dut.i.ready):
        m.d.sync += [came.eq(came + 1), Array(words)[came].eq(dut.i.payload)]
    m.d.comb += [Assert(left <= came), Assert(came <= left + 2), Assert(~dut.o.valid | (left < came))]
    with m.If(dut.o.valid):
        m.d.comb += Assert(dut.o.payload == Array(words)[left])
        with m.If(dut.o.ready):
            m.d.sync += left.eq(left + 1)
    return Property(m, [dut.i.valid, dut.i.payload, dut.o.ready], depth)


def packets(length=3, depth=10):
    """Every packet becomes one image of `length` bytes: too short ones end in zeros, of too long ones the rest is dropped; what was wrong
    is said of the image that it was wrong with.  From reset, all packets, with pauses; an image's answer is not taken in the clock in which
    another image ends, since the accelerator takes none before."""
    dut = ImagePackets(length, 2)
    m, clock = around(dut)
    given, image, ended = Signal(range(length)), Signal(2), Signal()
    packet, pixels = dut.packet, dut.pixels
    takes, gives = packet.valid & packet.ready, pixels.valid & pixels.ready
    whole = gives & (given == length - 1)
    # `ended`: the packet's last byte has come, before its image was whole.  `over`: its image was whole before.
    over = Signal()
    m.d.comb += Assert(~(takes & gives) | (pixels.payload == packet.payload.byte))
    m.d.comb += [Assert(~(gives & ~takes) | ended & (pixels.payload == 0)), Assert(~(takes & ~gives) | over),
                 Assert(~(gives & takes) | ~ended & ~over)]
    with m.If(gives):
        m.d.sync += given.eq(Mux(whole, 0, given + 1))
    with m.If(takes & ~over):
        m.d.sync += [ended.eq(packet.payload.last & ~whole), over.eq(~packet.payload.last & whole)]
    with m.If(takes & over & packet.payload.last):
        m.d.sync += over.eq(0)
    with m.If(ended & whole):
        m.d.sync += ended.eq(0)
    # The first two images and what is said of them.
    wrong, answers = Signal(3), Signal(2)
    with m.If(whole & (image < 3)):
        m.d.sync += [image.eq(image + 1), wrong.bit_select(image, 1).eq(~(takes & packet.payload.last))]
    m.d.comb += [Assume(~dut.answered | (answers < image) & ~whole), Assume(image < answers + 2), Assume(answers < 3)]
    with m.If(dut.answered):
        m.d.sync += answers.eq(answers + 1)
        m.d.comb += Assert(dut.wrong == wrong.bit_select(answers, 1))
    return Property(m, [packet.valid, packet.payload.as_value(), pixels.ready, dut.answered], depth)


def flash_image():
    """The first four bytes must be the mark, the next four are the model's, all others pass as they come; for all bytes, with pauses.
    Behind a wrong byte at most one more is taken."""
    mark = b"\x12\x34\x56\x78"
    dut = FlashImage(mark)
    m, clock = around(dut)
    count, wrong, stopped = Signal(range(9)), Signal(), Signal()
    taken = dut.bytes.valid & dut.bytes.ready
    model = Signal(32)
    with m.If(taken & (count < 8)):
        m.d.sync += count.eq(count + 1)
        with m.If(count < 4):
            m.d.sync += wrong.eq(wrong | (dut.bytes.payload != Array(mark)[count]))
        with m.Else():
            m.d.sync += model.eq(Cat(model[8:], dut.bytes.payload))
    m.d.sync += stopped.eq(wrong)
    m.d.comb += [Assert(dut.wrong == stopped), Assert(~stopped | ~dut.bytes.ready), Assert(~wrong | ~dut.good),
                 Assert(dut.good == (count == 8)),
                 Assert(~dut.weights.valid | dut.good), Assert(~dut.good | (dut.weights.valid == dut.bytes.valid)),
                 Assert(~dut.good | (dut.weights.payload == dut.bytes.payload) & (dut.bytes.ready == dut.weights.ready)),
                 Assert(~dut.good | (dut.model == model[:8]))]
    return Property(m, [dut.bytes.valid, dut.bytes.payload, dut.weights.ready], 12)


def watched(reader):
    """A flash reader whose signals can be seen, of the class `reader`."""
    class Reader(reader):
        def _read(self, m, s):
            super()._read(m, s)
            self.seen = s

    return Reader


Watched = watched(FlashReader)


def flash_fifo(latency, depth=6):
    """From any state in which each of the DEPTH places is spare, on its way or taken: that stays so, the buffer never overflows, and each
    byte leaves as it came, behind those that came before it."""
    dut = Watched(FlashChip(width=4, deselect_s=0), 1e6, 0, 3, 5, latency)
    m, clock = around(dut.elaborate(None))
    s = dut.seen
    coming = sum((flag[1] for flag in s.flying[1:]), Const(0, 1)) + s.whole
    balance = (s.spare + s.level + coming + (s.phase != 0) == dut.DEPTH) & (s.level <= dut.DEPTH) & (s.spare <= dut.DEPTH)
    # Any byte that comes is watched: how many are before it, and what it is.
    mark, watched, before, byte = Signal(name="mark"), Signal(), Signal(range(dut.DEPTH + 1)), Signal(8)
    m.d.comb += [Assume((clock != 0) | balance), Assert(balance), Assert(~watched | (before < s.level)),
                 Assert(~s.whole | (s.level < dut.DEPTH))]
    with m.If(s.whole & mark & ~watched):
        m.d.sync += [watched.eq(1), before.eq(s.level - s.taken), byte.eq(s.shift)]
    with m.If(watched & s.taken):
        m.d.sync += before.eq(before - 1)
        with m.If(before == 0):
            m.d.sync += watched.eq(0)
            m.d.comb += Assert(dut.data.payload == byte)
    return Property(m, [dut.data.ready, dut.lines_in, mark], depth, ANY)


def flash_stable(depth=4):
    """A byte that is offered stays until it is taken, from any state in which the places add up."""
    dut = Watched(FlashChip(width=4, deselect_s=0), 1e6, 0, 3, 5)
    m, clock = around(dut.elaborate(None))
    s, out = dut.seen, dut.data
    balance = (s.spare + s.level + s.whole + (s.phase != 0) == dut.DEPTH) & (s.level <= dut.DEPTH) & (s.spare <= dut.DEPTH)
    offered, payload = Signal(), Signal.like(out.payload)
    m.d.sync += [offered.eq(out.valid & ~out.ready), payload.eq(out.payload)]
    m.d.comb += [Assume((clock != 0) | balance), Assert(~offered | out.valid & (out.payload == payload))]
    return Property(m, [out.ready, dut.lines_in], depth, ANY)


def noise(temperature):
    """The table, for all indices."""
    dut = NoiseTable(temperature)
    m, clock = around(dut)
    before = Signal(8)
    m.d.sync += before.eq(dut.index)
    for index, value in enumerate(gumbel_table(temperature)):
        m.d.comb += Assert((clock == 0) | (before != index) | (dut.value == value))
    return Property(m, [dut.index], 2)


def a_link(**options):
    return HostLink(**{"classes": 2, "size": 2, "lanes": 8, "latent_words": 1, "score_bits": 8, "mark": b"mark", "model": b"name",
                       "clocks": 1, "timeout_bits": 4, "result_bits": 5} | options)


def link_pixels():
    """A pixel that is offered stays until it is taken or the image is given up; from any state, once the bytes are over
    that a receiver in any state may give at once."""
    dut = a_link()
    m, clock = around(dut)
    one_state(dut, clock)
    out = dut.pixels
    offered, payload = Signal(), Signal(8)
    m.d.sync += [offered.eq(out.valid & ~out.ready & ~dut.abort & (clock > 5)), payload.eq(out.payload)]
    # A board whose weights are not there takes no pixel.
    m.d.comb += [Assume(dut.ready), Assert(~offered | out.valid & (out.payload == payload))]
    return Property(m, [dut.rx, out.ready, dut.ready, dut.busy], 18, ANY)


PROPERTIES = {
    "slice_stable": slice_stable,
    "slice_order": slice_order,
    "packets": packets,
    "flash_image": flash_image,
    "flash_fifo": partial(flash_fifo, 0),
    "flash_fifo_late": partial(flash_fifo, 2),
    "flash_stable": flash_stable,
    "link_pixels": link_pixels,
    "noise": partial(noise, 8),
}
