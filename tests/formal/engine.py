"""What is proven of the engine's parts: PROPERTIES, as `properties` has them.

What a part must do is said by loops over pixels, channels and words, those of `sim.engine_checks` where it has them.
"""

from functools import partial

from amaranth.hdl import Array, Assert, Assume, Cat, Const, Mux, Signal, signed

from fbnn_hw.machine import timing
from fbnn_hw.machine.config import byte_words
from fbnn_hw.rtl.array import MacArray
from fbnn_hw.rtl.bitplanes import BitPlanes
from fbnn_hw.rtl.drain import Drain
from fbnn_hw.rtl.lgap import Lgap
from fbnn_hw.rtl.loader import Loader
from fbnn_hw.rtl.mover import WeightMover
from fbnn_hw.rtl.sequencer import Sequencer, step_layout
from fbnn_hw.rtl.window import ListedAddress, ListedAlign, WindowAddress, WindowAlign
from sim.engine import config, conv, moves, step
from sim.engine_checks import events, step_fields, weight_order
from tests.formal.properties import ANY, around, constant
from tests.formal.prove import Property


def byte_planes(lanes):
    """A word has some bits of each byte, a bit of twice the value twice, the lowest bits first; pauses of both sides in any clock."""
    dut = BitPlanes(lanes)
    m, clock = around(dut)
    pixel = constant(m, clock, 24, "pixel")
    words = byte_words(lanes)
    expected = Array(Cat(pixel.word_select(colour, 8)[bit] for colour in range(3) for bit in word) for word in words)
    given, taken = Signal(2), Signal(range(len(words) + 1))
    m.d.comb += [dut.pixels.payload.eq(pixel.word_select(given, 8)), Assume(~dut.pixels.valid | (given < 3))]
    with m.If(dut.pixels.valid & dut.pixels.ready):
        m.d.sync += given.eq(given + 1)
    with m.If(dut.words.valid):
        m.d.comb += [Assert(taken < len(words)), Assert((taken >= len(words)) | (dut.words.payload == expected[taken]))]
        with m.If(dut.words.ready):
            m.d.sync += taken.eq(taken + 1)
    return Property(m, [pixel, dut.pixels.valid, dut.words.ready], 8 + len(words))


def array(pixels, lanes, outputs, bits, starts, shift=0, depth=9, start_reads=False):
    """After a block's reads its accumulators are the start, or 0, and matches - L / 2 of each read; from any state, with pauses.

    With start reads they are a multiple of L and the matches of each read, of which the first has less than L.
    """
    dut = MacArray(pixels, lanes, outputs, bits, starts, shift=shift, start_reads=start_reads)
    below, kept = (0, -lanes) if start_reads else (lanes // 2, -1)
    m, clock = around(dut)
    delay = timing.array(lanes)
    begun = Signal()
    m.d.comb += Assume(~dut.valid | begun | dut.first)
    with m.If(dut.valid):
        m.d.sync += begun.eq(1)
    inputs = [dut.pixels, dut.weights, dut.valid, dut.first]
    start = Const(0, outputs * bits)
    if starts:  # it counts in the clock in which the read is added
        inputs.append(dut.start)
        start = dut.start
    if shift:
        inputs.append(dut.shifted)
    for q in range(pixels):
        for p in range(outputs):
            act, weight = dut.pixels.word_select(q, lanes), dut.weights.word_select(p, lanes)
            matches = sum(((a == w) for a, w in zip(act, weight)), Const(0, 1))
            stages = [(dut.valid, dut.first, matches, dut.shifted if shift else Const(0, 1))]
            for number in range(delay - 1):
                later = [Signal.like(value, name=f"later{number}") for value in stages[-1]]
                m.d.sync += [after.eq(before) for after, before in zip(later, stages[-1])]
                stages.append(later)
            valid, first, count, shifted = stages[-1]
            total, known = Signal(signed(bits), name=f"sum_{q}_{p}"), Signal(name=f"known_{q}_{p}")
            if start_reads:
                m.d.comb += Assume(~(dut.valid & dut.first) | (matches < lanes))
            with m.If(valid):
                m.d.sync += [total.eq(Mux(first, (start.word_select(p, bits) & kept).as_signed(), Mux(shifted, total << shift, total))
                                      + count - below), known.eq(known | first)]
            found = dut.accumulators.word_select(q * outputs + p, bits).as_signed()
            m.d.comb += Assert(~known | (found == total))
    return Property(m, inputs, depth, ANY)


def lgap(pixels, lanes, weight_bits, size, presentations, split=False):
    """The bits of a lane are the signs of its sums, a clock each; from any state, all lanes and blocks, with pauses."""
    dut = Lgap(pixels, lanes, weight_bits, size, split)
    m, clock = around(dut)
    number, ones, matches = Signal(range(presentations)), Signal(range(size + 1)), Signal(range(size + 1))
    last = number == presentations - 1
    block = dut.weight
    if dut.blocks > 1:
        m.d.comb += Assume(dut.sub < dut.blocks)
        block = dut.weight.word_select(dut.sub, pixels * lanes)
    act = [dut.act.word_select(q, lanes).bit_select(dut.lane, 1) for q in range(pixels)]
    equal = [a == block.word_select(q, lanes).bit_select(dut.lane, 1) for q, a in enumerate(act)]
    before = [Mux(number == 0, 0, value) for value in (ones, matches)]
    sums = [before[0] + sum(act, Const(0, 1)), before[1] + sum(equal, Const(0, 1))]
    m.d.comb += [dut.first.eq(number == 0), dut.last.eq(last), Assume(dut.lane < lanes)]
    with m.If(dut.valid):
        m.d.sync += [number.eq(Mux(last, 0, number + 1)), ones.eq(sums[0]), matches.eq(sums[1])]
    stage = [dut.valid & last, 2 * sums[0] >= size, 2 * sums[1] >= size]
    for late in range(dut.latency):
        later = [Signal(name=f"late{late}_{i}") for i in range(3)]
        m.d.sync += [after.eq(value) for after, value in zip(later, stage)]
        stage = later
    m.d.comb += [Assert((clock < dut.latency) | (dut.done == stage[0])),
                 Assert(~stage[0] | (dut.gap[-1] == stage[1]) & (dut.depthwise[-1] == stage[2]))]
    inputs = [dut.valid, dut.act, dut.weight, dut.lane] + ([dut.sub] if dut.blocks > 1 else [])
    return Property(m, inputs, dut.latency + presentations + 3, ANY)


def window_address(pixels):
    """The bank of each pixel of a moved block gets the pixel's word; for all addresses, strides and taps."""
    cfg = config(pixels, 4)
    dut = WindowAddress(cfg)
    m, clock = around(dut)
    columns, width = cfg.columns, len(dut.address)
    m.d.comb += [Assume(dut.ky < 3), Assume(dut.kx < 3)]
    ky, kx = Signal(2), Signal(2)
    address, row, advance = (Signal(width, name=name) for name in ("address_before", "row_before", "advance_before"))
    m.d.sync += [ky.eq(dut.ky), kx.eq(dut.kx), address.eq(dut.address), row.eq(dut.row), advance.eq(dut.advance)]
    with m.If(clock > 0):
        for y in range(3):
            for x in range(3):
                for dy in range(2):
                    for dx in range(columns):
                        down, right = dy + y - 1, dx + x - 1
                        bank = down % 2 * columns + right % columns
                        word = (address + down // 2 * row + right // columns * advance)[:width]
                        m.d.comb += Assert((ky != y) | (kx != x) | (dut.banks.word_select(bank, width) == word))
    return Property(m, [dut.address, dut.ky, dut.kx, dut.row, dut.advance], 2, ANY)


def _rests(m, clock, dut):
    """Whether what an align gave a clock before counted; its pixels stay where it did not."""
    counted, pixels = Signal(), Signal.like(dut.pixels)
    m.d.sync += [counted.eq(dut.valid), pixels.eq(dut.pixels)]
    m.d.comb += Assert((clock == 0) | counted | (dut.pixels == pixels))
    return counted


def window_align(pixels, start_reads=False):
    """Pixels of a moved block in order, 0 for those outside the map and of start reads; for all words, taps and edges."""
    cfg = config(pixels, 4, start_reads=start_reads)
    dut = WindowAlign(cfg)
    m, clock = around(dut)
    columns, lanes = cfg.columns, cfg.lanes
    names = ("data", "ky", "kx", "top", "bottom", "left", "right", *["blank"] * start_reads)
    before = {}
    for name in names:
        before[name] = Signal.like(getattr(dut, name), name=f"{name}_before")
        m.d.sync += before[name].eq(getattr(dut, name))
    m.d.comb += [Assume(dut.ky < 3), Assume(dut.kx < 3)]
    with m.If((clock > 0) & _rests(m, clock, dut)):
        for y in range(3):
            for x in range(3):
                at = (before["ky"] == y) & (before["kx"] == x)
                for dy in range(2):
                    for dx in range(columns):
                        down, right = dy + y - 1, dx + x - 1
                        inside = ~before["blank"] if start_reads else Const(1, 1)
                        for beyond, edge in ((down < 0, "top"), (down > 1, "bottom"), (right < 0, "left"), (right >= columns, "right")):
                            inside = inside & ~before[edge] if beyond else inside
                        word = before["data"].word_select(down % 2 * columns + right % columns, lanes)
                        found = dut.pixels.word_select(dy * columns + dx, lanes)
                        m.d.comb += Assert(~at | (found == Mux(inside, word, 0)))
    return Property(m, [dut.valid, *(getattr(dut, name) for name in names)], 2, ANY)


def sequencer(program, depth, **options):
    """The reads, begins of steps, returns of weights and scores are those of nested loops, in their order, whenever the banks' port is
    taken, weights are late and scores wait; two passes of the program."""
    cfg = config(program=program, **options)
    dut = Sequencer(cfg)
    m, clock = around(dut)
    plan = events(cfg, 2)
    kinds = {"read": dut.valid, "pop": dut.pop, "score": dut.score_valid & dut.score_ready, "begin": dut.begin, "done": dut.done}
    busy, count = Signal(), {}
    m.d.comb += [dut.start.eq(~busy)]
    with m.If(dut.start):
        m.d.sync += busy.eq(1)
    with m.If(dut.done):
        m.d.sync += busy.eq(0)
    m.d.comb += [Assert(~(dut.valid & dut.hold)), Assert(~dut.begin | busy)]
    for kind, strobe in kinds.items():
        wanted = [value for name, value in plan if name == kind]
        count[kind] = Signal(range(len(wanted) + 2), name=f"{kind}s")
        with m.If(strobe):
            m.d.sync += count[kind].eq(count[kind] + 1)
            m.d.comb += Assert(count[kind] < len(wanted))
        if kind == "read":
            names = [name for name in wanted[0] if name not in ("word", "lane")]
            found = Cat(dut.read[name] for name in names)
            values = [sum(int(one[name]) << sum(len(dut.read[other]) for other in names[:i]) for i, name in enumerate(names))
                      for one in wanted]
        elif kind == "pop":
            found, values = dut.pop_words, wanted
        elif kind == "score":
            found, values = Cat(dut.score_index, dut.score_first), [index | first << len(dut.score_index) for index, first in wanted]
        else:
            continue
        if values:
            m.d.comb += Assert(~strobe | (found == Array(Const(value, len(found)) for value in values)[count[kind]]))
    # What comes after what: the reads before each return of weights, and before each end.
    for kind in ("pop", "done"):
        reads = [sum(name == "read" for name, _ in plan[:at]) for at, (name, _) in enumerate(plan) if name == kind]
        total = count["read"] + dut.valid
        m.d.comb += Assert(~kinds[kind] | (total == Array(Const(n, len(count["read"]) + 1) for n in reads)[count[kind]]))
    inputs = [dut.hold, dut.score_ready]
    if cfg.weights == "stream":
        inputs.append(dut.level)
    return Property(m, inputs, depth)


def listed_address(pixels):
    """The bank of each pixel of a block that is moved by y and x gets the pixel's word; for all addresses and moves."""
    cfg = config(pixels, 4)
    dut = ListedAddress(cfg)
    m, clock = around(dut)
    columns, width = cfg.columns, len(dut.address)
    before = {name: Signal.like(getattr(dut, name), name=f"{name}_before") for name in ("address", "y", "x", "row")}
    m.d.sync += [signal.eq(getattr(dut, name)) for name, signal in before.items()]
    m.d.comb += Assume(dut.x < columns)
    with m.If(clock > 0):
        for y in range(2):
            for x in range(columns):
                for dy in range(2):
                    for dx in range(columns):
                        bank = (dy + y) % 2 * columns + (dx + x) % columns
                        word = (before["address"] + (dy + y) // 2 * before["row"] + (dx + x) // columns)[:width]
                        here = (before["y"] == y) & (before["x"] == x)
                        m.d.comb += Assert(~here | (dut.banks.word_select(bank, width) == word))
    return Property(m, [dut.address, dut.y, dut.x, dut.row], 2, ANY)


def listed_align(pixels, start_reads=False):
    """Pixels of a moved block in order, 0 for those outside a map of any size and of start reads; for all words, moves and edges."""
    cfg = config(pixels, 4, start_reads=start_reads)
    dut = ListedAlign(cfg)
    m, clock = around(dut)
    columns, lanes = cfg.columns, cfg.lanes
    names = ("data", "y", "x", "upper", "lower", "left", "right", "odd_height", "valid_columns", *["blank"] * start_reads)
    signals = {name: getattr(dut, name) if name not in ("upper", "lower", "left", "right") else getattr(dut, name).as_value()
               for name in names}
    before = {name: Signal(len(signal), name=f"{name}_before") for name, signal in signals.items()}
    m.d.sync += [before[name].eq(signal) for name, signal in signals.items()]
    m.d.comb += Assume(dut.x < columns)
    with m.If((clock > 0) & _rests(m, clock, dut)):
        for y in range(2):
            for x in range(columns):
                for dy in range(2):
                    for dx in range(columns):
                        row, row_of = divmod(dy + y, 2)
                        column, column_of = divmod(dx + x, columns)
                        inside, last = before[("upper", "lower")[row]]
                        across, end = before[("left", "right")[column]]
                        inside = inside & ~(last & before["odd_height"] & row_of)
                        if start_reads:
                            inside = inside & ~before["blank"]
                        across = across & (~end | (column_of <= before["valid_columns"]))
                        word = before["data"].word_select(row_of * columns + column_of, lanes)
                        found = dut.pixels.word_select(dy * columns + dx, lanes)
                        here = (before["y"] == y) & (before["x"] == x)
                        m.d.comb += Assert(~here | (found == Mux(inside & across, word, 0)))
    return Property(m, [dut.valid, *signals.values()], 2, ANY)


def loader(depth):
    """Each word of an image of 2 x 2 pixels comes once, at its place; `done` a clock before the last; pauses of the port."""
    cfg = config(encoder="trgb", levels=2, size=2, encoder_bits=8)
    dut = Loader(cfg)
    m, clock = around(dut)
    bright = Const(0b101100111000, 12)  # the highest bit of each byte; the encoder's proofs are for all bytes
    given, written = Signal(range(13)), Signal(range(5))
    m.d.comb += [dut.pixels.payload.eq(bright.bit_select(given, 1) << 7), dut.pixels.valid.eq(given < 12)]
    with m.If(dut.pixels.valid & dut.pixels.ready):
        m.d.sync += given.eq(given + 1)
    enabled, done = Signal(), Signal()
    m.d.sync += [enabled.eq(dut.enable), done.eq(dut.done)]
    words = Array(Cat(bit for colour in range(3) for bit in (Const(1, 1), bright[3 * pixel + colour])) for pixel in range(4))
    with m.If(dut.write.any()):
        m.d.sync += written.eq(written + 1)
        m.d.comb += [Assert(enabled), Assert(written < 4), Assert(dut.write == 1 << written[:2]), Assert(dut.address == 0),
                     Assert(dut.word == words[written[:2]]), Assert(done == (written == 3))]
    with m.Else():
        m.d.comb += [Assert(~done), Assert(dut.word == 0)]
    return Property(m, [dut.enable], depth)


def drain(one, depth):
    """Each block's bits are written where they belong, a clock later, and zeros into the slots behind them; from any state, from the second
    clock after `begin` on, whenever blocks come."""
    cfg = config(program=[one], feature_words=60)
    dut = Drain(cfg)
    m, clock = around(dut)
    columns, lanes, outputs = cfg.columns, cfg.lanes, cfg.outputs
    blocks = [(tile, row, column) for tile in range(one.tiles) for row in range(one.rows) for column in range(one.columns)]
    number, struck, ended, signs = Signal(range(len(blocks) + 1)), Signal(), Signal(), Signal.like(dut.signs, name="signs_before")
    ends = Array(column == one.columns - 1 for _, _, column in blocks)
    last = Array((row, column) == (one.rows - 1, one.columns - 1) for _, row, column in blocks)
    values = step_fields(cfg, one)
    packed = sum(value << step_layout(cfg)[name].offset for name, value in values.items())
    m.d.comb += [dut.step.as_value().eq(packed), dut.begin.eq(clock == 0), dut.row_end.eq(ends[number]), dut.tile_end.eq(last[number]),
                 Assume(~dut.strobe | (clock > 1) & ~ended & (number < len(blocks)))]
    m.d.sync += [struck.eq(dut.strobe), signs.eq(dut.signs), ended.eq(dut.strobe & dut.tile_end)]
    with m.If(dut.strobe):
        m.d.sync += number.eq(number + 1)
    with m.If((clock > 1) & ~struck):
        m.d.comb += Assert(~dut.write.any() & (dut.data == 0))
    for index, (tile, row, column) in enumerate(blocks):
        word, lane = divmod((one.tile_slot + tile) * outputs, lanes)
        real = one.valid if tile == one.tiles - 1 else outputs
        bits = [[~signs[q * outputs + p] & (p < real) for p in range(outputs)] for q in range(cfg.pixels)]
        if one.pool:
            kept = {}
            for j in range(columns // 2):
                square = [y * columns + 2 * j + x for y in range(2) for x in range(2)]
                pooled = [Cat(bits[q][p] for q in square).any() for p in range(outputs)]
                kept[row % 2 * columns + (column * columns // 2 + j) % columns] = pooled
            place = row // 2 * one.target_row_stride + column // 2 * one.target_block_stride
        else:
            kept = dict(enumerate(bits))
            place = row * one.target_row_stride + column * one.target_block_stride
        here = struck & (number == index + 1)
        slot = lane // outputs
        m.d.comb += [Assert(~here | (dut.address == one.target + word + place)),
                     Assert(~here | (dut.write == sum(1 << q for q in kept))), Assert(~here | (dut.mask[:slot] == 0) if slot else Const(1)),
                     Assert(~here | dut.mask[slot])]
        for q, values_of in kept.items():
            found = dut.data.word_select(q, lanes)
            m.d.comb += Assert(~here | (found[lane:lane + outputs] == Cat(values_of)))
            for later in range(slot + 1, lanes // outputs):
                cleared = dut.mask[later] & (found.word_select(later, outputs) == 0)
                m.d.comb += Assert(~here | cleared if dut.partial_words else ~here | ~dut.mask[later] | cleared)
    return Property(m, [dut.signs, dut.strobe], depth, ANY)


def mover(transfers, depth, ring=2, pauses=True):
    """The ring keeps the planned order and never overflows: each word that is at hand, or was given back two clocks before, is the one
    that the plan says; the resident rows are loaded first; the port is asked for only where it is free.  From reset, with pauses of the
    stream, of the port and of who takes the words."""
    cfg = moves(transfers, [(1, 1)], ring, base=3, pixels=4, lanes=4, outputs=4)
    dut = WeightMover(cfg)
    m, clock = around(dut)
    streamed = sum(t.streamed for t in cfg.transfers)
    # The mover does not look at weights, so numbers stand for them.
    rows = [Const((2 * i + 2) << 8 | 2 * i + 1, cfg.row_bits) for i in range(cfg.resident_rows + streamed)]
    boot = rows[:cfg.resident_rows]
    order = weight_order(cfg, iter(range(cfg.resident_rows)), iter(range(cfg.resident_rows, len(rows))))
    size = cfg.row_bits // 8
    byte = Signal(range(len(rows) * size))
    m.d.comb += dut.weights.payload.eq(Cat(*rows).word_select(byte, 8))
    with m.If(dut.weights.valid & dut.weights.ready):
        m.d.sync += byte.eq(Mux(byte == len(rows) * size - 1, len(boot) * size, byte + 1))
    # The rows of the banks: what was written comes back `timing.read` clocks after a request.
    written, asked = Signal(range(len(boot) + 2)), Signal()
    m.d.sync += asked.eq(dut.request)
    with m.If(dut.write):
        m.d.sync += written.eq(written + 1)
        m.d.comb += [Assert(written < len(boot)), Assert(dut.address == cfg.resident_base + written), Assert(~dut.booted)]
        if boot:
            m.d.comb += Assert(dut.write_data == Array(boot)[written])
    m.d.comb += Assert(~dut.booted | (written == len(boot)))
    found = [Signal(cfg.row_bits, name=f"found{i}") for i in range(timing.read(cfg.memory_registers) - 1)]
    known = [Signal(name=f"known{i}") for i in range(timing.read(cfg.memory_registers) - 1)]
    if boot:
        m.d.sync += [found[0].eq(Array(boot)[(dut.address - cfg.resident_base)[:4]]), known[0].eq(asked)]
        m.d.sync += [b.eq(a) for a, b in (*zip(found, found[1:]), *zip(known, known[1:]))]
        m.d.comb += [Assume(~known[-1] | (dut.row == found[-1])),
                     Assert(~asked | (dut.address >= cfg.resident_base) & (dut.address < cfg.resident_base + len(boot)))]
    announced = Signal()
    m.d.sync += announced.eq(dut.request_next)
    m.d.comb += [Assert(~(dut.blocked & dut.request_next)), Assert(dut.request == announced), Assert(dut.level <= ring)]
    # Who takes the words, and looks at any that it may look at.
    head, before = Signal(4), [Signal(4, name=f"head{i}") for i in range(2)]
    number, checked, which = Signal(4), Signal(), Signal(range(2 * ring + 1))
    m.d.sync += [head.eq(head + dut.pop), before[0].eq(head), before[1].eq(before[0])]
    m.d.comb += [dut.pop_words.eq(1), Assume(~dut.pop | (dut.level > 0)), number.eq(before[1] + which),
                 dut.address_read.eq(number[:(ring - 1).bit_length()])]
    looked = Signal(4)
    m.d.sync += [checked.eq(number < head + dut.level), looked.eq(number)]
    expected = Array(Array(rows)[order[i % len(order)]] for i in range(16))
    m.d.comb += Assert(~checked | (dut.word == expected[looked]))
    if not pauses:
        m.d.comb += Assume(dut.weights.valid)
    return Property(m, [dut.weights.valid, dut.blocked, dut.row, dut.pop, which], depth)


PROPERTIES = {
    "byte_planes": partial(byte_planes, 16),
    "array": partial(array, 2, 4, 2, 5, False),
    "array_starts": partial(array, 1, 4, 2, 5, True),
    "array_shift": partial(array, 1, 4, 1, 6, False, 1),
    "array_start_reads": partial(array, 1, 4, 2, 6, True, start_reads=True),
    "lgap": partial(lgap, 2, 2, 8, 4, 2),
    "window_address_4": partial(window_address, 4),
    "window_align_4": partial(window_align, 4),
    "window_align_blank": partial(window_align, 4, start_reads=True),
    "listed_address_4": partial(listed_address, 4),
    "listed_align_4": partial(listed_align, 4),
    "listed_align_blank": partial(listed_align, 4, start_reads=True),
    "loader": partial(loader, 20),
    "drain": partial(drain, conv(2, 1, 11, 4, 8, 3), 11),
    "drain_slot": partial(drain, conv(2, 2, 4, 4, 8, 7, tile_slot=1), 9),
    "drain_pooled": partial(drain, conv(2, 2, 5, 4, 8, 2, pool=True), 13),
    "mover_mixed": partial(mover, [(3, 8)], 20, pauses=False),
    "sequencer": partial(sequencer, [step(columns=1, rows=1, taps=9, tiles=1, tile_words=9)], 31),
    "sequencer_start_reads": partial(sequencer, [step(columns=2, tiles=2, tile_words=3, bias=True)], 33, start_reads=True),
}

LONG = {
    "mover_stream": partial(mover, [(3, 0)], 16),
    "sequencer_wide": partial(sequencer, [step(columns=2, rows=1, taps=9, tiles=1, tile_words=9)], 42),
    "listed_address_8": partial(listed_address, 8),
    "window_align_8": partial(window_align, 8),
    "window_address_8": partial(window_address, 8),
    "mover_stream_long": partial(mover, [(3, 0)], 22),
    "mover_mixed_long": partial(mover, [(3, 8)], 22),
    "sequencer_logits": partial(sequencer, [step(columns=2, rows=1, taps=9, tiles=1, tile_words=9),
                                            step(vector=True, logits=True, tiles=1, valid=2, tile_words=1)], 90),
}
