"""Checks of the leaf components, written once for every simulator.

A check is a coroutine that gets `cycle`: `await cycle(inputs)` drives the named inputs, lets the logic settle, returns the
outputs as integers as they are before the clock edge, and passes the edge.  An input keeps its value until driven again.
All values are unsigned integers; a signed member is driven and read modulo 2^width.  Random ones come from the seed alone.
"""

import random
from itertools import product

import numpy as np

from fbnn_hw.ir.ops import Binarize, Thermometer, level_bits
from fbnn_hw.machine import timing
from fbnn_hw.machine.config import image_bytes
from fbnn_hw.reference import encode
from fbnn_hw.rtl.popcount import XnorPopcount
from fbnn_hw.rtl.thermometer import ThermometerEncoder


async def popcount(cycle, width, registers, words=400, seed=1):
    """All pairs of words where there are at most 2^10, else the corners and `words` random ones; one word a clock."""
    ones = (1 << width) - 1
    if width <= 5:
        pairs = list(product(range(1 << width), repeat=2))
    else:
        source = random.Random(seed)
        pairs = [(0, 0), (ones, ones), (0, ones), (ones, 0)]
        pairs += [(1 << i, 0) for i in range(width)] + [(ones, ones ^ (1 << i)) for i in range(width)]
        for _ in range(words):
            act, other = source.getrandbits(width), source.getrandbits(width)
            pairs.append((act, other) if source.random() < 0.5 else (act, act ^ (other & source.getrandbits(width))))
    pairs += [(0, 0)] * registers
    counts = [bin(ones ^ act ^ weight).count("1") for act, weight in pairs]
    for time, (act, weight) in enumerate(pairs):
        found = (await cycle({"act": act, "weight": weight}))["count"]
        if time >= registers:
            expected = counts[time - registers]
            assert found == expected, f"popcount {width}, registers {registers}: word {time - registers} gave {found}, expected {expected}"
            assert expected == XnorPopcount.compute(*pairs[time - registers], width)


async def memory(cycle, depth, width, granularity, seed=1, accesses=600, kept=True, rests=True):
    """Words written first, then random reads and masked writes, against a list; after a write, and while it `rests`, the read word is
    kept if `kept`.
    """
    source = random.Random(seed)
    ones = (1 << width) - 1
    places = sorted({0, 1, depth - 1, depth // 2, *(source.randrange(depth) for _ in range(24))})
    model = {}
    steps = [(1, 1, place, source.getrandbits(width), -1) for place in places]
    for _ in range(accesses):
        steps.append((not rests or source.random() < 0.8, source.random() < 0.5, source.choice(places), source.getrandbits(width),
                      source.getrandbits(width // granularity)))
    expected = None
    for number, (enable, write, place, word, mask) in enumerate([*steps, (1, 0, 0, 0, 0)]):
        mask &= (1 << width // granularity) - 1
        found = (await cycle({"enable": int(enable), "address": place, "write_data": word, "write_mask": mask,
                              "write_enable": int(write)}))["read_data"]
        if expected is not None:
            assert found == expected, f"memory {depth}x{width}: access {number - 1} gave {found:#x}, expected {expected:#x}"
        if not enable:
            expected = expected if kept else None
        elif write:
            bits = sum(((1 << granularity) - 1) << i * granularity for i in range(width // granularity) if mask >> i & 1)
            model[place] = model.get(place, 0) & ~bits & ones | word & bits
            expected = expected if kept else None
        else:
            expected = model[place]


def pixels_of(source, count):
    """Pixels (R, G, B) with every extreme of a colour, then random ones."""
    corners = [c for c in product((0, 255), repeat=3)] + [(128, 127, 255), (3, 3, 3)]
    return (corners + [tuple(source.randrange(256) for _ in range(3)) for _ in range(count)])[:max(count, len(corners))]


def encoder_cycles(component, pixels):
    """Clocks from the one that takes the first byte to the one that takes the last word, inclusive, without stalls."""
    latency = timing.encoder_latency(len(component.pieces), component.bits_per_cycle, component.lanes)
    return (pixels - 1) * component.cycles_per_pixel + latency


async def thermometer(cycle, encoder, levels, lanes, bits_per_cycle, pixels=40, idle=0.0, wait=0.0, seed=1):
    """The words of pixels, and the clocks when nobody stalls."""
    source = random.Random(seed)
    image = pixels_of(source, pixels)
    channels = encode.encode(np.array(image, np.uint8).T.reshape(1, 3, 1, -1), encoder, levels)[0, :, 0].T
    count = -(-channels.shape[1] // lanes)
    expected = [sum(int(b) << i for i, b in enumerate(row[w * lanes:(w + 1) * lanes])) for row in channels for w in range(count)]
    clocks = await encoded(cycle, source, image, expected, f"thermometer {encoder} {levels}", idle, wait)
    if not idle and not wait:
        assert clocks == encoder_cycles(ThermometerEncoder(encoder, levels, lanes, bits_per_cycle), len(image))


async def packed_levels(cycle, encoder, levels, lanes, size=6, images=1, idle=0.0, wait=0.0, seed=1):
    """The words of images of size x size pixels in random bytes, so of levels beyond the highest too, and the clocks of one of whole bytes.

    Where images have no whole bytes, `end` says which word is the last one of its image.
    """
    source, sizes = random.Random(seed), level_bits(encoder, levels)
    op = Binarize("input", (), size) if encoder == "binarize" else Thermometer("input", (), encoder, size, levels)
    data = np.array([list(source.randbytes(image_bytes(size, sum(sizes)))) for _ in range(images)], np.uint8)
    rows = encode.packed_map(data, op).transpose(0, 2, 3, 1).reshape(images * size ** 2, -1)
    count = -(-rows.shape[1] // lanes)
    expected = [sum(int(b) << i for i, b in enumerate(row[w * lanes:(w + 1) * lanes])) for row in rows for w in range(count)]
    whole = size ** 2 * sum(sizes) % 8 == 0
    clocks = await encoded(cycle, source, data.tolist(), expected, f"levels of {encoder} {levels}", idle, wait, not whole)
    if whole and not idle and not wait:
        assert clocks == encoder_cycles(ThermometerEncoder(encoder, levels, lanes, None), images * size ** 2)


async def bit_planes(cycle, lanes, table, count=1, pixels=40, idle=0.0, wait=0.0, seed=1):
    """The words of pixels: 2^p - 1 lanes of each colour hold p bits of its byte, the highest first, a bit of value 2^i in 2^i lanes;
    of a pixel and the `count - 1` before it, the earliest first."""
    source = random.Random(seed)
    image = pixels_of(source, pixels)
    planes = max(p for p in range(1, 9) if 3 * count * (2 ** p - 1) <= lanes)
    expected = []
    for number in range(len(image)):
        seen = [(0, 0, 0)] * (count - 1 - number) + image[max(0, number - count + 1):number + 1]
        values = [table[byte] if table else byte for pixel in seen for byte in pixel]
        for low in range(0, 8, planes):
            here = range(min(8, low + planes) - 1, low - 1, -1)
            bits = [value >> bit & 1 for value in values for bit in here for _ in range(2 ** (bit - low))]
            expected.append(sum(b << i for i, b in enumerate(bits)))
    clocks = await encoded(cycle, source, image, expected, f"bit planes of {lanes} lanes", idle, wait)
    if not idle and not wait:
        words = len(expected) // len(image)
        assert (len(image) - 1) * max(4, words) < clocks <= len(image) * max(4, words) + 8


async def encoded(cycle, source, image, expected, subject, idle, wait, ends=False):
    """The words of the pixels `image` are those expected, none comes too much, a word stays until taken -> clocks from first to last.

    ends: `image` has images, and `end` is 1 when the last word of one is taken, which waits a clock for that.
    """
    data = [value for pixel in image for value in pixel]
    found, sent, time, first, count = [], 0, 0, None, len(expected) // len(image)
    offered = ready = False
    held = None
    while len(found) < len(expected):
        offered = sent < len(data) and (offered or source.random() >= idle)
        last_word = ends and (len(found) + 1) % count == 0
        ready = source.random() >= wait and (held is not None or not last_word)
        outputs = await cycle({
            "pixels__payload": data[sent] if offered else source.randrange(256), "pixels__valid": int(offered), "words__ready": int(ready),
            **({"end": int(ready and last_word)} if ends else {})})
        if held is not None:
            assert (outputs["words__valid"], outputs["words__payload"]) == (1, held), f"{subject}: a word that was not taken changed"
        held = outputs["words__payload"] if outputs["words__valid"] and not ready else None
        if outputs["words__valid"] and ready:
            assert outputs["words__payload"] == expected[len(found)], (
                f"{subject}: pixel {len(found) // count}, word {len(found) % count} is "
                f"{outputs['words__payload']:#x}, expected {expected[len(found)]:#x}")
            found.append(outputs["words__payload"])
            last = time
        if offered and outputs["pixels__ready"]:
            first = time if first is None else first
            sent, offered = sent + 1, False
        time += 1
        assert time < 400 * len(expected) + 1000, f"{subject}: no more words"
    assert sent == len(data)
    for _ in range(20):
        assert not (await cycle({"pixels__valid": 0, "words__ready": 1}))["words__valid"], f"{subject}: a word too many"
    return last - first + 1


async def lgap(cycle, pixels, lanes, weight_bits, size, presentations, latency=3, idle=0.0, seed=1):
    """Random maps, some all ones or near a tie, of `presentations` presentations; the last pixels may be masked."""
    source = random.Random(seed)
    blocks = weight_bits // (pixels * lanes)
    valid_pixels = -(-size // presentations)
    mask = (1 << valid_pixels) - 1
    assert valid_pixels * presentations == size and valid_pixels <= pixels
    inputs, expected = [], []
    for _ in range(2):
        acts = [source.getrandbits(pixels * lanes) for _ in range(presentations)]
        words = [source.getrandbits(weight_bits) for _ in range(-(-presentations // blocks))]
        if source.random() < 0.3:
            acts = [(1 << pixels * lanes) - 1] * presentations
        gaps = depthwises = 0
        for lane in range(lanes):
            ones = matches = 0
            for number, act in enumerate(acts):
                word, sub = words[number // blocks], number % blocks
                for q in range(valid_pixels):
                    a = act >> q * lanes + lane & 1
                    ones += a
                    matches += a == (word >> (sub * pixels + q) * lanes + lane & 1)
                while source.random() < idle:
                    inputs.append({
                        "valid": 0, "act": source.getrandbits(pixels * lanes), "first": source.getrandbits(1),
                        "last": source.getrandbits(1)})
                inputs.append({
                    "valid": 1, "act": act, "weight": word, "lane": lane, "mask": mask, "first": int(number == 0),
                    "last": int(number == presentations - 1), **({"sub": sub} if blocks > 1 else {})})
            gaps |= (2 * ones >= size) << lane
            depthwises |= (2 * matches >= size) << lane
        expected.append((len(inputs) - 1 + latency, gaps, depthwises))
    strobes = 0
    for time in range(len(inputs) + latency + 1):
        outputs = await cycle(inputs[time] if time < len(inputs) else {"valid": 0})
        strobes += outputs["done"]
        for moment, gaps, depthwises in expected:
            if time == moment:
                assert (outputs["done"], outputs["gap"], outputs["depthwise"]) == (1, gaps, depthwises), (
                    f"lgap {pixels}x{lanes}: gave {outputs['gap']:#x}, {outputs['depthwise']:#x}, expected {gaps:#x}, {depthwises:#x}")
    assert strobes == 2 * lanes


async def argmax(cycle, width, classes, sequences=40, idle=0.0, seed=1):
    """Random sequences with many ties, and the extremes."""
    source = random.Random(seed)
    low, high = -(1 << width - 1), (1 << width - 1) - 1
    for number in range(sequences):
        near = source.random() < 0.5
        scores = [source.randint(max(low, -2), min(high, 1)) if near else source.randint(low, high) for _ in range(classes)]
        if number < 2:
            scores = [(low, high)[number]] * classes
        for index, score in enumerate(scores):
            while source.random() < idle:
                await cycle({"valid": 0, "first": source.getrandbits(1), "score": source.getrandbits(width)})
            await cycle({"valid": 1, "first": int(index == 0), "score": score % (1 << width)})
        outputs = await cycle({"valid": 0})
        assert outputs["best"] == scores.index(max(scores)), f"argmax of {scores}: {outputs['best']}"
        assert outputs["best_score"] == max(scores) % (1 << width)
