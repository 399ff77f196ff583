"""Checks of the engine's parts, in the manner of checks.py; the input "rst" is the reset.

A configuration names the part's size, and the steps of its program are the work.  Maps, banks and weights are plain lists and
dictionaries here, and what the part must do with them is said by loops over pixels and channels.
"""

import random
from itertools import chain, product

import numpy as np

from fbnn_hw.machine import timing
from fbnn_hw.reference import encode
from fbnn_hw.rtl.drain import Drain
from fbnn_hw.rtl.sequencer import Widths, read_layout, step_layout

STEP_FLAGS = ("pool", "vector", "logits", "gap", "depthwise", "bias")
STEP_COUNTS = ("words", "columns", "rows", "tiles", "repeat")
STEP_NUMBERS = {"source": "source", "step": "word_stride", "advance": "block_stride", "row": "row_stride", "target": "target",
                "target_advance": "target_block_stride", "target_row": "target_row_stride", "slot": "tile_slot", "valid": "valid",
                "tile_words": "tile_words"}
"""Fields of `step_layout`, and what a Step calls them."""


def fields(layout, value):
    """{name: unsigned integer} of a packed structure."""
    return {name: value >> field.offset & (1 << field.width) - 1 for name, field in layout}


def step_fields(config, step):
    """What the hardware must hold of a step; counts are stored minus one, numbers modulo the width of their field."""
    layout = step_layout(config)
    found = {name: int(getattr(step, name)) for name in STEP_FLAGS}
    found.update({name: getattr(step, field) for name, field in STEP_NUMBERS.items()})
    found.update({name: getattr(step, name) - 1 for name in STEP_COUNTS}, lgap=int(step.kind == "lgap"), window=int(step.taps == 9))
    return {name: found[name] & (1 << field.width) - 1 for name, field in layout}


def pack_step(config, step):
    return sum(value << step_layout(config)[name].offset for name, value in step_fields(config, step).items())


def split(value, count, bits):
    """`count` words of `bits` bits, lowest first."""
    return [value >> i * bits & (1 << bits) - 1 for i in range(count)]


def join(words, bits):
    return sum(word << i * bits for i, word in enumerate(words))


async def reset(cycle, inputs):
    await cycle({**inputs, "rst": 1})
    await cycle({"rst": 0})


async def array(cycle, pixels, lanes, outputs, bits, biased, start_reads=False, blocks=30, idle=0.0, seed=1):
    """Blocks of random length, and start where there is one; the accumulators are compared in every clock, and after a reset.

    start_reads: the first read of a block gives the bits of the start value below `lanes`; a read adds its matches.
    """
    source = random.Random(seed)
    ones = (1 << lanes) - 1
    delay = timing.array(lanes)
    below = 0 if start_reads else lanes // 2

    def noise():
        return {"valid": 0, "first": source.getrandbits(1), "pixels": source.getrandbits(pixels * lanes),
                "weights": source.getrandbits(outputs * lanes), **({"start": source.getrandbits(outputs * bits)} if biased else {})}

    inputs, expected = [], {}
    for number in range(blocks):
        reads = source.randint(1, 5)
        low, high = -(1 << bits - 1) + reads * below, (1 << bits - 1) - 1 - reads * below
        starts = [source.choice([low, -1, 0, high, source.randint(low, high)]) if biased else 0 for _ in range(outputs)]
        if start_reads:
            reads += 1
            # The low log2(lanes) bits of a start do not count.
            starts = [start // lanes * lanes + source.getrandbits(lanes.bit_length() - 1) for start in starts]
        sums = [start // lanes * lanes if start_reads else start for _ in range(pixels) for start in starts]
        for read in range(reads):
            while source.random() < idle:
                inputs.append(noise())
            here = {**noise(), "valid": 1, "first": int(read == 0)}
            if source.random() < 0.3:
                here["pixels"], here["weights"] = source.choice([(0, 0), (ones, ones), (ones, 0), (0, ones)])
                here["pixels"] *= sum(1 << q * lanes for q in range(pixels))
                here["weights"] *= sum(1 << p * lanes for p in range(outputs))
            if start_reads and read == 0:
                here["pixels"] = 0
                here["weights"] = join([source.choice([1, ones, source.randint(1, ones)]) for _ in range(outputs)], lanes)
            inputs.append(here)
            for q, pixel in enumerate(split(here["pixels"], pixels, lanes)):
                for p, weight in enumerate(split(here["weights"], outputs, lanes)):
                    sums[q * outputs + p] += lanes - below - (pixel ^ weight).bit_count()
            expected[len(inputs) - 1 + delay] = join([s % (1 << bits) for s in sums], bits), number
            if read == 0:
                starts_at = len(inputs) + delay - 2, join([s % (1 << bits) for s in starts], bits)
        if biased:
            inputs += [noise() for _ in range(max(0, starts_at[0] + 1 - len(inputs)))] if idle else []
            expected["starts", starts_at[0]] = starts_at[1]
    value = None
    for time in range(len(inputs) + delay + 1):
        here = dict(inputs[time]) if time < len(inputs) else noise()
        if biased:
            here["start"] = expected.get(("starts", time), here["start"])
        found = (await cycle(here))["accumulators"]
        value, number = expected.get(time, (value, None))
        assert value is None or found == value, (
            f"array {pixels}x{lanes}x{outputs}: clock {time}, block {number} gave {found:#x}, expected {value:#x}")
    await cycle({**noise(), "valid": 1, "first": 1})
    await reset(cycle, noise())
    if timing.large(lanes):  # its accumulators have no reset, the reads on their way have
        value = [(await cycle(noise()))["accumulators"] for _ in range(3)][-1]
    else:
        value = 0
    for _ in range(2 * delay):
        assert (await cycle(noise()))["accumulators"] == value, "array: a read from before the reset came through"


def _blocks_of_taps(config, shapes):
    """Every block of maps of `shapes` (rows, columns in blocks) under every tap: (rows, columns, by, bx, ky, kx)."""
    return [(rows, columns, by, bx, ky, kx) for rows, columns in shapes for by in range(rows) for bx in range(columns)
            for ky in range(3) for kx in range(3)]


SHAPES = ((3, 3), (1, 1), (1, 3), (2, 1))


async def window_address(cycle, config, seed=1):
    """The bank of every pixel that a moved block needs gets the pixel's address; one tap a clock, in any order."""
    source = random.Random(seed)
    columns, width = config.columns, Widths(config).address
    cases = _blocks_of_taps(config, SHAPES)
    source.shuffle(cases)
    expected = {}
    for case in [*cases, None]:
        inputs = {}
        after = {}
        if case:
            rows, blocks, by, bx, ky, kx = case
            advance, word = source.choice([(1, 0), (3, 2), (5, 1)])
            base = source.randrange((1 << width) - rows * blocks * advance)
            inputs = {
                "address": base + word + (by * blocks + bx) * advance, "ky": ky, "kx": kx, "row": blocks * advance, "advance": advance}
            for dy in range(2):
                for dx in range(columns):
                    y, x = 2 * by + dy + ky - 1, columns * bx + dx + kx - 1
                    if 0 <= y < 2 * rows and 0 <= x < columns * blocks:
                        after[y % 2 * columns + x % columns] = base + word + (y // 2 * blocks + x // columns) * advance, case
        found = split((await cycle(inputs))["banks"], config.pixels, width)
        for bank, (address, about) in expected.items():
            assert found[bank] == address, f"window Q={config.pixels}, {about}: bank {bank} at {found[bank]}, expected {address}"
        expected = after


async def window_align(cycle, config, seed=1):
    """Pixels of every block under every tap, from an image in its banks; what lies outside is 0, whatever the banks give."""
    source, blanks = random.Random(seed), random.Random(seed + 1)
    columns, lanes = config.columns, config.lanes
    cases = _blocks_of_taps(config, SHAPES)
    source.shuffle(cases)
    expected = about = None
    for case in [*cases, None]:
        inputs, after = {}, None
        if case:
            rows, blocks, by, bx, ky, kx = case
            image = [[source.getrandbits(lanes) for _ in range(columns * blocks)] for _ in range(2 * rows)]
            data = [source.getrandbits(lanes) for _ in range(config.pixels)]
            after = []
            for dy in range(2):
                for dx in range(columns):
                    y, x = 2 * by + dy + ky - 1, columns * bx + dx + kx - 1
                    inside = 0 <= y < 2 * rows and 0 <= x < columns * blocks
                    after.append(image[y][x] if inside else 0)
                    if inside:
                        data[y % 2 * columns + x % columns] = image[y][x]
            inputs = {"data": join(data, lanes), "ky": ky, "kx": kx, "top": int(by == 0), "bottom": int(by == rows - 1),
                      "left": int(bx == 0), "right": int(bx == blocks - 1)}
            if config.start_reads:
                after = _blanked(inputs, after, blanks)
        found = split(await _counting(cycle, inputs, blanks), config.pixels, lanes)
        assert expected is None or found == expected, f"window Q={config.pixels}, {about}: pixels {found}, expected {expected}"
        expected, about = after, case


def _blanked(inputs, pixels, source):
    """Return the pixels, or -1 for all of them; `blank` among the inputs says which."""
    inputs["blank"] = int(source.random() < 0.2)
    return [0] * len(pixels) if inputs["blank"] else pixels


async def _counting(cycle, inputs, source):
    """The pixels beside inputs that count; at times the inputs stand there a clock before, without counting."""
    for _ in range(source.random() < 0.3):
        await cycle(inputs | {"valid": 0})
    return (await cycle(inputs | {"valid": 1}))["pixels"]


def _moved_blocks(config, source, count=400):
    """Blocks that are moved by pixels, on and beside maps of any size: (height, width, by, bx, y, x)."""
    columns = config.columns
    for _ in range(count):
        height, width = source.randint(1, 7), source.randint(1, 3 * columns)
        yield (height, width, source.randint(-1, -(-height // 2)), source.randint(-1, -(-width // columns)), source.randrange(2),
               source.randrange(columns))


def _pixels_of_moved(config, case):
    """(place in the block, y, x, whether it is on the map) of each pixel of a moved block."""
    height, width, by, bx, y, x = case
    for place in range(config.pixels):
        dy, dx = divmod(place, config.columns)
        py, px = 2 * by + y + dy, config.columns * bx + x + dx
        yield place, py, px, 0 <= py < height and 0 <= px < width


async def listed_address(cycle, config, seed=1):
    """The bank of every pixel of a moved block gets the pixel's address; one block a clock."""
    source = random.Random(seed)
    columns, width = config.columns, Widths(config).address
    expected, about = {}, None
    for case in [*_moved_blocks(config, source), None]:
        inputs, after = {}, {}
        if case:
            _, across, by, bx, y, x = case
            row = -(-across // columns)
            base = source.randrange(1 << width)
            inputs = {"address": (base + by * row + bx) % (1 << width), "y": y, "x": x, "row": row}
            for _, py, px, inside in _pixels_of_moved(config, case):
                if inside:
                    after[py % 2 * columns + px % columns] = (base + py // 2 * row + px // columns) % (1 << width)
        found = split((await cycle(inputs))["banks"], config.pixels, width)
        for bank, address in expected.items():
            assert found[bank] == address, f"list Q={config.pixels}, {about}: bank {bank} at {found[bank]}, expected {address}"
        expected, about = after, case


async def listed_align(cycle, config, seed=1):
    """The pixels of moved blocks from maps of any size in their banks; what lies outside is 0, whatever the banks give."""
    source, blanks = random.Random(seed), random.Random(seed + 1)
    columns, lanes = config.columns, config.lanes
    expected = about = None
    for case in [*_moved_blocks(config, source), None]:
        inputs, after = {}, None
        if case:
            height, width, by, bx, y, x = case
            rows, across = -(-height // 2), -(-width // columns)
            data = [source.getrandbits(lanes) for _ in range(config.pixels)]
            after = [data[py % 2 * columns + px % columns] if inside else 0 for _, py, px, inside in _pixels_of_moved(config, case)]
            edges = {"upper": (by, rows), "lower": (by + 1, rows), "left": (bx, across), "right": (bx + 1, across)}
            inputs = {"data": join(data, lanes), "y": y, "x": x, "odd_height": height % 2, "valid_columns": (width - 1) % columns,
                      **{name: int(0 <= place < count) | (place == count - 1) << 1 for name, (place, count) in edges.items()}}
            if config.start_reads:
                after = _blanked(inputs, after, blanks)
        found = split(await _counting(cycle, inputs, blanks), config.pixels, lanes)
        assert expected is None or found == expected, f"list Q={config.pixels}, {about}: pixels {found}, expected {expected}"
        expected, about = after, case


def _map_of(config, step, source):
    """Random results of a step -> (bits {(channel, y, x)} of the unpooled map, words {(bank, address): (bits, mask)} it must leave)."""
    columns, lanes, outputs = config.columns, config.lanes, config.outputs
    channels = (step.tiles - 1) * outputs + step.valid
    height, width = (1, 1) if step.vector else (2 * step.rows, columns * step.columns)
    bits = {(c, y, x): int(source.random() < 0.4) for c in range(channels) for y in range(height) for x in range(width)}
    last_lane = step.tile_slot * outputs + channels
    words = {}
    across, down = step.target_block_stride, step.target_row_stride
    for y in range(height // 2 if step.pool else height):
        for x in range(width // 2 if step.pool else width):
            for lane in range(step.tile_slot * outputs, -(-last_lane // lanes) * lanes):
                channel = lane - step.tile_slot * outputs
                if channel >= channels:
                    bit = 0
                elif step.pool:
                    bit = max(bits[channel, 2 * y + i, 2 * x + j] for i in range(2) for j in range(2))
                else:
                    bit = bits[channel, y, x]
                place = y % 2 * columns + x % columns, step.target + lane // lanes + y // 2 * down + x // columns * across
                value, mask = words.get(place, (0, 0))
                words[place] = value | bit << lane % lanes, mask | 1 << lane % lanes
    return bits, words


async def drain(cycle, config, idle=0.0, seed=1):
    """Every step of the program twice: afterwards the banks hold the map and are otherwise as before."""
    source = random.Random(seed)
    columns, lanes, outputs = config.columns, config.lanes, config.outputs
    slots = Drain(config).slots
    quiet = {"strobe": 0, "begin": 0, "pool_write": 0}
    banks = {(q, a): source.getrandbits(lanes) for q in range(config.pixels) for a in range(config.feature_words)}

    struck = [0]

    async def clock(inputs):
        found = await cycle({**quiet, **inputs})
        writes = struck[0] or inputs.get("pool_write")
        struck[0] = inputs.get("strobe") and not inputs.get("rst")
        assert writes or not (found["write"] or found["data"]), "drain: writes without being told to"
        mask = join([((1 << outputs) - 1) * (found["mask"] >> s & 1) for s in range(slots)], outputs)
        for q, word in enumerate(split(found["data"], config.pixels, lanes)):
            if found["write"] >> q & 1:
                place = q, found["address"]
                banks[place] = banks[place] & ~mask | word & mask

    async def pause():
        while source.random() < idle:
            widths = {"row_end": 1, "tile_end": 1, "signs": config.pixels * outputs, "average": lanes, "learned": lanes}
            await clock({name: source.getrandbits(width) for name, width in widths.items()})

    for number, step in enumerate([*config.program, *config.program]):
        expected = dict(banks)
        await clock({"begin": 1, "step": pack_step(config, step)})
        await clock({})
        if step.kind == "lgap":
            for tile in range(step.tiles):
                average, learned = source.getrandbits(lanes), source.getrandbits(lanes)
                await pause()
                await clock({"average": average, "learned": learned, "pool_write": int(step.gap)})
                await clock({"pool_write": 2 * step.depthwise})
                target = step.target + tile
                if step.gap:
                    expected[0, target] = average
                if step.depthwise:
                    expected[0, target + step.target_row_stride] = learned
        else:
            bits, words = _map_of(config, step, source)
            for place, (value, mask) in words.items():
                expected[place] = expected[place] & ~mask | value
            blocks = list(product(range(step.tiles), range(step.rows), range(step.columns)))
            if number == 1:  # broken off by a reset, and begun again
                for _ in range(len(blocks) // 2):
                    await clock({"strobe": 1, "signs": -1 % (1 << config.pixels * outputs), "row_end": 0, "tile_end": 0})
                await clock({})
                await reset(clock, {})
                expected = {place: banks[place] & ~words[place][1] | words[place][0] if place in words else banks[place] for place in banks}
                await clock({"begin": 1})
            for tile, by, bx in blocks:
                await pause()
                signs = 0
                for q in range(config.pixels):
                    for p in range(outputs):
                        where = tile * outputs + p, 2 * by + q // columns, columns * bx + q % columns
                        signs |= (1 - bits.get(where, source.getrandbits(1))) << q * outputs + p
                await clock({"strobe": 1, "signs": signs, "row_end": int(bx == step.columns - 1),
                             "tile_end": int((by, bx) == (step.rows - 1, step.columns - 1))})
                if (by, bx) == (step.rows - 1, step.columns - 1):
                    await clock({})
        await pause()
        wrong = [place for place in banks if banks[place] != expected[place]]
        assert not wrong, f"drain: step {number} ({step.layer}) left {banks[wrong[0]]:#x} at {wrong[0]}, expected {expected[wrong[0]]:#x}"


async def loader(cycle, config, images=2, idle=0.0, wait=0.0, seed=1):
    """Images one after the other, the first broken off by a reset: every word once at its place."""
    source = random.Random(seed)
    size, columns, count = config.size, config.columns, config.input_words
    for image in range(-1, images):
        data = [source.choice([0, 255, source.randrange(256)]) for _ in range(3 * size * size)]
        pixels = np.array(data, np.uint8).reshape(1, size, size, 3).transpose(0, 3, 1, 2)
        channels = encode.encode(pixels, config.encoder, config.levels)[0]
        expected = {}
        for y in range(size):
            for x in range(size):
                for w in range(count):
                    word = join([int(b) for b in channels[w * config.lanes:(w + 1) * config.lanes, y, x]], 1)
                    expected[y % 2 * columns + x % columns, (y // 2 * (size // columns) + x // columns) * count + w] = word
        sent, time, offered, done, finishing, enabled = 0, 0, False, False, False, 0
        while not done:
            offered = sent < len(data) and (offered or source.random() >= idle)
            enable = int(source.random() >= wait)
            found = await cycle({
                "pixels__payload": data[sent] if offered else source.randrange(256), "pixels__valid": int(offered), "enable": enable})
            if offered and found["pixels__ready"]:
                sent, offered = sent + 1, False
            assert enabled or not found["write"], "loader: writes while the port is not free"
            done, finishing, enabled = finishing, bool(found["done"]), enable
            if found["write"]:
                bank = found["write"].bit_length() - 1
                assert found["write"] == 1 << bank, f"loader: writes into banks {found['write']:#x} at once"
                assert expected.pop((bank, found["address"]), None) == found["word"], (
                    f"loader Q={config.pixels}: image {image}, bank {bank}, address {found['address']}: {found['word']:#x}")
                assert done == (not expected), f"loader: done is {done} with {len(expected)} words to come"
            else:
                assert not done and not found["word"], "loader: done, or a word, without a write"
            time += 1
            assert time < 1000 * size * size * count, "loader: no more words"
            if image < 0 and len(expected) < size * size * count // 2:
                await reset(cycle, {"pixels__valid": 0, "enable": 0})
                break
        assert image < 0 or sent == len(data)


def weight_order(config, resident, streamed):
    """One frame's words in the order of use, of iterators over the resident rows and the rows of the stream."""
    def word(rows):
        return join([next(rows) for _ in range(config.rows_per_word)], config.row_bits)

    found = []
    late = []
    resident = chain(resident, iter(lambda: late.pop(0), None))
    for transfer in config.transfers:
        if transfer.after:
            late += [next(streamed) for _ in range(transfer.words * config.rows_per_word)]
            continue
        for i in range(transfer.words):
            found.append(word(resident if (i + 1) * transfer.resident // 16 != i * transfer.resident // 16 else streamed))
    return found


async def mover(cycle, config, frames=3, idle=0.0, blocked=0.0, wait=0.0, seed=1):
    """Tiles of the program's sizes are read and popped, frame after frame: the words are those planned, none is lost.

    A row is read at the address that stands a clock after its request, and comes `timing.read` clocks after it; a tile's last word is
    addressed two clocks after its pop.
    """
    source = random.Random(seed)
    row_bits, depth = config.row_bits, config.weight_words
    tiles = [step.tile_words for step in config.program for _ in range(step.tiles)]
    steps = [number for number, step in enumerate(config.program, start=1) for _ in range(step.tiles)]
    late = [t.after for t in config.transfers for _ in range(t.words * config.rows_per_word) if t.after]
    boot = [source.getrandbits(row_bits) for _ in range(config.resident_rows)]
    per_frame = sum(t.words for t in config.transfers if not t.after) * config.rows_per_word
    total = per_frame - config.resident_rows
    assert sum(tiles) * config.rows_per_word == per_frame
    rows = [source.getrandbits(row_bits) for _ in range(total)]
    late_rows, place = [], 0
    for transfer in config.transfers:
        size = transfer.streamed * config.rows_per_word
        late_rows += rows[place:place + size] if transfer.after else []
        place += size
    order = weight_order(config, iter(boot), iter(rows))

    def stream():
        yield from boot
        while rows:
            yield from rows

    for attempt in range(2):  # the first is broken off by a reset
        bank, on_the_way, requested = {}, [None] * (timing.read(config.memory_registers) - 1), 0
        written, begun = 0, [0] * 4  # late rows; steps that had begun in the clocks before
        bits = config.beat_bits
        bytes_left = (row >> bits * i & (1 << bits) - 1 for row in stream() for i in range(row_bits // bits))
        byte, offered = next(bytes_left, None), False
        todo = [(number, size) for number in range(frames) for size in tiles]
        place = head = 0  # of the words read; of those given back
        addresses, checks, level, tile = [None, None], [None] * (1 + config.memory_registers), 0, None
        taken = quiet = time = pause = announced = size = kept = 0
        while todo or tile is not None or any(a is not None for a in addresses) or quiet < 60:
            quiet += 1
            if attempt == 0 and head > sum(tiles):
                await reset(cycle, {"pop": 0, "weights__valid": 0, "blocked": 1})
                break
            offered = byte is not None and (offered or source.random() >= idle)
            stalled = source.random() < blocked
            # A tile begins when all its words are there, reads one a clock, and gives them back with the last.
            if tile is None and todo and pause == 0 and kept == 0 and level >= todo[0][1]:
                tile = list(range(todo[0][1]))
                pause = 1
            elif tile is None and pause:
                pause = int(source.random() < wait)
            address, pop = None, 0
            if tile is not None and source.random() >= wait:
                if tile:
                    address = place
                    place += 1
                    tile.pop(0)
                if not tile:
                    pop, size = 1, todo.pop(0)[1]
                    tile, kept = None, timing.read(config.memory_registers) + 1
            addresses.append(address)
            now = addresses.pop(0)
            found = await cycle({
                "weights__payload": byte if offered else source.getrandbits(bits), "weights__valid": int(offered), "blocked": int(stalled),
                "row": source.getrandbits(row_bits) if on_the_way[-1] is None else on_the_way[-1], "pop": pop,
                "pop_words": size if kept else source.getrandbits(1),
                "address_read": source.randrange(depth) if now is None else now % depth,
                "read": source.getrandbits(1) if now is None else 1, **({"steps": begun[-1]} if late else {})})
            check, *checks = *checks, now
            if check is not None:
                expected = order[check % len(order)]
                assert found["word"] == expected, f"mover: word {check} is {found['word']:#x}, expected {expected:#x}"
            if offered and found["weights__ready"]:
                byte, offered = next(bytes_left, None), False
                taken, quiet = taken + 1, 0
            quiet *= 1 - found["request"]
            kept = max(0, kept - 1)
            assert not (stalled and found["request_next"]), "mover: takes a port that is not free"
            assert found["request"] == announced, "mover: a request was not announced"
            announced = found["request_next"]
            assert found["request"] <= found["booted"], "mover: boots and moves at once"
            assert not (found["booted"] and found["write"]) or late and requested, "mover: writes without a request"
            if found["write"] and found["booted"]:
                turn, row = divmod(written, len(late))
                assert found["address"] == config.late_end - 1 - row, f"mover: late row {row} at {found['address']}"
                assert found["write_data"] == late_rows[row], f"mover: late row {row} is {found['write_data']:#x}"
                assert begun[0] >= late[row] and turn == (frames - 1 if not todo else todo[0][0]), f"mover: late row {row} came early"
                bank[found["address"]] = found["write_data"]
                written += 1
            elif found["write"]:
                expected = config.resident_base + (config.resident_rows - 1 - len(bank) if late else len(bank))
                assert found["address"] == expected, f"mover: boot row {len(bank)} at {found['address']}"
                assert found["write_data"] == boot[len(bank)], f"mover: boot row {len(bank)} is {found['write_data']:#x}"
                bank[found["address"]] = found["write_data"]
            assert not found["booted"] or len(bank) >= config.resident_rows, f"mover: booted after {len(bank)} rows"
            on_the_way = [bank[found["address"]] if requested and not found["write"] else None, *on_the_way[:-1]]
            requested = found["request"]
            begun = [*begun[1:], steps[-len(todo) % len(steps)] if todo and tile is None else begun[-1]]
            if pop:
                head += size
            level = found["level"] - (size if pop else 0)
            assert 0 <= found["level"] <= depth, f"mover: {found['level']} words in a ring of {depth}"
            time += 1
            assert time < 10_000, f"mover: no more words after {head}"
        if attempt:
            assert place == head == frames * sum(tiles)
            # Left alone it fills the ring, and waits with one row of the stream in hand.
            assert level == depth, f"mover: {level} words stay in a ring of {depth}"
            assert written == frames * len(late), f"mover: wrote {written} late rows"
            moved = sum(_streamed_rows(config, i) for i in range(head + depth)) + written
            expected = config.resident_rows + moved + 1 if rows else config.resident_rows
            assert taken == expected * row_bits // bits, f"mover: took {taken} beats, expected {expected} rows"


def _streamed_rows(config, number):
    """Rows that word `number`, counted over all frames, takes from the stream."""
    transfers = [t for t in config.transfers if not t.after]
    number %= sum(t.words for t in transfers)
    for t in transfers:
        if number < t.words:
            return 0 if (number + 1) * t.resident // 16 != number * t.resident // 16 else config.rows_per_word
        number -= t.words


def events(config, frames, weight=0):
    """What a sequencer must do, from nested loops: (what, values)."""
    w = Widths(config)
    found = []
    for _ in range(frames):
        if config.weights == "memory":
            weight = 0
        for step in config.program:
            found.append(("begin", step_fields(config, step)))
            lgap = step.kind == "lgap"
            for tile in range(step.tiles):
                if step.bias:
                    found.append(("bias", weight % (1 << w.weight)))
                for row in range(step.rows):
                    for column in range(step.columns):
                        number = step.bias
                        taps = [(ky, kx) for ky in range(3) for kx in range(3)] if step.taps == 9 else [(1, 1)]
                        reads = [(ky, kx, word) for ky, kx in taps for word in range(step.words) for _ in range(step.repeat)]
                        start_read = config.start_reads and step.bias
                        if start_read:  # at the place of the first read
                            reads.insert(0, reads[0])
                        for i, (ky, kx, word) in enumerate(reads):
                            last = i == len(reads) - 1
                            address = (step.source + tile * lgap + (row * step.columns + column) * step.block_stride
                                       + word * step.word_stride)
                            found.append(("read", {
                                "address": address % (1 << w.address), "ky": ky, "kx": kx, "top": row == 0, "bottom": row == step.rows - 1,
                                "left": column == 0, "right": column == step.columns - 1, "word": word, "lane": column,
                                "weight": (weight + (word // config.rows_per_word if lgap else number)) % (1 << w.weight),
                                "first": i == 0, "last": last, "row_end": column == step.columns - 1,
                                "tile_end": (row, column) == (step.rows - 1, step.columns - 1), "bias": 0}))
                            number += 1
                found.append(("pop", step.tile_words))
                weight += step.tile_words
                if lgap:
                    found.append(("average", int(step.gap)))
                    found.append(("learned", 2 * step.depthwise))
                if step.logits:
                    scores = step.valid if tile == step.tiles - 1 else config.outputs
                    found += [("score", (i, int((tile, i) == (0, 0)))) for i in range(scores)]
        found.append(("done", 1))
    return found


def sequencer_cycles(config):
    """Cycles from ADDRESS to the end of the program when nothing is held."""
    total = timing.end(config.memory_registers)
    begin = timing.TILE + timing.LEVEL * (config.weights == "stream")
    lanes, registers = config.lanes, config.memory_registers
    flush, bias = timing.flush(lanes, registers), timing.start(lanes) if config.start_reads else timing.bias(lanes, registers)
    for step in config.program:
        reads = (step.words * step.repeat * step.taps + (config.start_reads and step.bias)) * step.rows * step.columns
        flushes = step.tiles if step.logits or step.kind == "lgap" else 1
        scores = sum(timing.scores(count, lanes) for count in [config.outputs] * (step.tiles - 1) + [step.valid] if step.logits)
        pools = timing.POOL_WRITE * step.tiles if step.kind == "lgap" else 0
        fetch = timing.fetch(config.memory_registers) + config.step_words
        total += fetch + step.tiles * (begin + bias * step.bias + reads) + flushes * flush + scores + pools
    return total


async def sequencer(cycle, config, frames=2, hold=0.0, wait=0.0, seed=1):
    """The events of whole frames in order, after one that a reset broke off; hold, a low level and an unready score at random."""
    source = random.Random(seed)
    layout, steps = read_layout(config), step_layout(config)
    expected, cycles = events(config, frames), sequencer_cycles(config)
    for attempt in range(2):
        left = list(reversed(expected))
        level = frame = 0
        begun, flush, busy, fresh, time, began = None, None, False, True, 0, 0
        while left:
            start = int(not busy and source.random() < 0.3)
            held, ready = int(source.random() < hold), int(source.random() >= wait)
            # The pace at which words come; what is asked for is there sometime.
            before = level
            level = min(config.weight_words, level + (source.random() < 1 - wait))
            if not wait:
                before = level = config.weight_words
            found = await cycle({"start": start, "hold": held, "score_ready": ready, "level": level})
            time += 1
            seen = []
            read = fields(layout, found["read"])
            if found["begin"]:
                begun = fields(steps, found["step"])
                seen.append(("begin", begun))
            if begun and busy and not found["begin"]:
                kept = fields(steps, found["step"]) == begun or left[-1][0] in ("begin", "done")
                assert kept, "sequencer: the step changed while it was at work"
            if found["valid"]:
                assert not held, "sequencer: reads while it is held"
                seen.append(("read", read))
            elif read["bias"]:
                seen.append(("bias", read["weight"]))
            if fresh and seen and seen[-1][0] in ("bias", "read"):
                at_hand = config.weights == "memory" or before >= begun["tile_words"]
                assert at_hand, f"sequencer: begins a tile of {begun['tile_words']} words with {before} at hand"
                fresh = False
            if found["begin"] or found["pop"]:
                fresh = True
            if found["valid"] and read["last"] and read["tile_end"]:
                flush = time + timing.flush(config.lanes, config.memory_registers)
            if found["pop"]:
                seen.append(("pop", found["pop_words"]))
                level = max(0, level - found["pop_words"])
            if left[-1][0] in ("average", "learned"):
                # The words of global pooling: at a fixed time after the last read, the port reserved a clock before.
                first = left[-1][0] == "average"
                assert found["reserve"] == (flush - 1 <= time <= flush), "sequencer: reserve"
                if time == flush + (1 if first else 2):
                    seen.append((left[-1][0], found["pool_write"]))
                else:
                    assert found["pool_write"] == 0, "sequencer: pool_write too early or too late"
            else:
                assert (found["reserve"], found["pool_write"]) == (0, 0), "sequencer: reserve or pool_write without a pooling"
            if found["score_valid"]:
                score = found["score_index"], found["score_first"]
                assert ("score", score) == left[-1], f"sequencer: score {score}, expected {left[-1]}"
                if ready:
                    seen.append(("score", score))
            if found["done"]:
                seen.append(("done", found["done"]))
                assert hold or wait or time - began == cycles, (
                    f"sequencer: {time - began} clocks of frame {frame}, expected {cycles}")
                busy, frame = False, frame + 1
            for event in seen:
                wanted = left.pop()
                assert event == wanted, f"sequencer: frame {frame}, event {len(expected) - len(left)}: {event}, expected {wanted}"
            if start:
                busy, began = True, time
            assert time < 60 * len(expected) + 4000, f"sequencer: stands still before {left[-1]}"
            if attempt == 0 and len(left) < 0.7 * len(expected):
                await reset(cycle, {"start": 0})
                break
    for _ in range(30):
        found = await cycle({"start": 0, "hold": 0})
        assert not (found["valid"] or found["begin"] or found["pop"] or found["done"]), "sequencer: works without a start"
