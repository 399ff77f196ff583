"""The machine, executed: program words, weight words and an image in, logits and the banks after each step out.

It reads what a folder has and knows neither the compiler nor the RTL, so it is their second reading.
"""

import numpy as np

from ..reference.encode import encode, ycc
from .config import byte_planes
from .step import READ_FIELDS, decode, read_field


def memory_words(text, outputs, lanes):
    """weights.hex of weights == "memory" -> bits (words, outputs, lanes)."""
    lines = text.split()
    assert all(len(line) * 4 == outputs * lanes for line in lines)
    raw = np.frombuffer(bytes.fromhex("".join(line for line in lines)), np.uint8).reshape(len(lines), -1)[:, ::-1]
    return np.unpackbits(raw, axis=1, bitorder="little").reshape(len(lines), outputs, lanes)


def streamed_words(boot, frame, config):
    """Boot and frame bytes -> the words in the order in which the ring sees them, bits (words, outputs, lanes)."""
    size = config.outputs * config.lanes // 8
    resident, stream, words, rows = 0, 0, [], boot
    assert len(boot) == config.resident_rows * config.pixels * config.lanes // 8
    plan = config.transfer_words()
    for low, high in zip(plan[::2], plan[1::2]):
        phase, share = 0, high >> 8 & 31
        if high >> 13:
            assert high >> 13 == 1 and share == 0 and high & 255 <= len(config.program)
            rows += frame[stream:stream + (low + 1) * size]
            stream += (low + 1) * size
            continue
        for _ in range((low | (high & 255) << 16) + 1):
            phase += share
            if phase >= 16:
                phase -= 16
                words.append(rows[resident:resident + size])
                assert len(words[-1]) == size, "a late row is read before it is there"
                resident += size
            else:
                words.append(frame[stream:stream + size])
                stream += size
    assert resident == len(rows) and stream == len(frame)
    assert len(rows) - len(boot) == config.late_rows * config.pixels * config.lanes // 8
    raw = np.frombuffer(b"".join(words), np.uint8).reshape(len(words), size)
    return np.unpackbits(raw, axis=1, bitorder="little").reshape(len(words), config.outputs, config.lanes)


def place(height, width, across, base, down, right):
    """(banks, addresses) of the first word of every pixel of a map, int (height, width); `across` pixels a row of a block."""
    y, x = np.mgrid[:height, :width]
    return y % 2 * across + x % across, base + y // 2 * down + x // across * right


class Machine:
    """banks: bits (Q, feature words, L), random at first.  `run` gives the logits of an image and a copy of the banks after each step."""

    def __init__(self, config, words, seed=0):
        self.config, self.words = config, words
        self.steps, _ = decode(config.program_words(), config.lists)
        self.random = np.random.default_rng(seed + 1)
        self.banks = np.random.default_rng(seed).integers(0, 2, (config.pixels, config.feature_words, config.lanes), dtype=np.uint8)

    def load(self, image):
        """uint8 (3, S, S) into the banks, from address 0 on."""
        c = self.config
        if c.order:
            self._load_planes(image)
            return
        encoded = encode(image[None], c.encoder, c.levels)[0]
        words = -(-len(encoded) // c.lanes)
        padded = np.zeros((words * c.lanes, c.size, c.size), np.uint8)
        padded[:len(encoded)] = encoded
        across = c.pixels // 2
        bank, address = place(c.size, c.size, across, 0, c.size // across * words, words)
        pixels = padded.transpose(1, 2, 0).reshape(c.size, c.size, words, c.lanes)
        self.banks[bank[..., None], address[..., None] + np.arange(words)] = pixels

    def _load_planes(self, image):
        """The words of a pixel, each a plane further; with quarters in four images."""
        c = self.config
        across = c.pixels // 2
        if c.packed:
            bits = (ycc(image[None])[0, 0] >= c.threshold).reshape(-1)
            bits = np.pad(bits, (0, -len(bits) % c.lanes)).reshape(-1, c.lanes)
            self.banks[0, :len(bits)] = bits
            return
        if c.encoder == "bits8":
            levels = np.array(c.table or range(256), np.uint8)[image]
            planes = byte_planes(c.lanes, c.word_pixels)
            words = np.zeros((-(-8 // planes), c.lanes, c.size, c.size), np.uint8)
            for number, word in enumerate(words):
                high = min(8, (number + 1) * planes) - 1
                pattern = [bit for bit in range(high, number * planes - 1, -1) for _ in range(2 ** (bit - number * planes))]
                for lane, (left, colour, bit) in enumerate(
                        (left, colour, bit) for left in reversed(range(c.word_pixels)) for colour in range(3) for bit in pattern):
                    word[lane, :, left:] = levels[colour, :, :c.size - left] >> bit & 1
                    word[lane, :, :left] = self.random.integers(0, 2, (c.size, left))  # of other rows; no output needs it
        else:
            encoded = (ycc(image[None])[0, :1] >= c.threshold) if c.encoder == "binarize" else encode(image[None], c.encoder, c.levels)[0]
            count = -(-len(encoded) // c.lanes)
            words = np.zeros((count * c.lanes, c.size, c.size), np.uint8)
            words[:len(encoded)] = encoded
            words = words.reshape(count, c.lanes, c.size, c.size)
        images = [words[:, :, y::2, x::2] for y in range(2) for x in range(2)] if c.quarters else [words]
        base = 0
        for part in images:
            height, width = part.shape[2:]
            columns = -(-width // across)
            plane = -(-height // 2) * columns
            bank, address = place(height, width, across, base, columns, 1)
            for number, word in enumerate(part):
                self.banks[bank, address + number * plane] = word.transpose(1, 2, 0)
            base += len(part) * plane

    def run(self, image):
        self.load(image)
        self.at: int = 0
        self.scores: list[int] = []
        after = [self.banks.copy()]
        late = self._late_rows()
        for begun, step in enumerate(self.steps, start=1):
            self._fill_late_rows(late, begun)
            for tile in range(step["tiles"]):
                words = self._take(step["tile_words"])
                if self.config.order:
                    self._listed(step, tile, words)
                else:
                    (self._pool if step["lgap"] else self._convolution)(step, tile, words)
            after.append(self.banks.copy())
        for _, row, bits in late:
            assert np.array_equal(self.banks[:, row], bits), f"late row {row} was overwritten"
        assert self.at == len(self.words), "the pass uses all weight words once"
        return [2 * s + int(self.config.logits_odd) for s in self.scores], after

    def _late_rows(self):
        """[(steps that must have begun, row, random bits)], in the order in which rows come."""
        c, row, rows = self.config, self.config.late_end, []
        for transfer in c.transfers:
            for _ in range(transfer.words * (c.outputs // c.pixels) if transfer.after else 0):
                row -= 1
                rows.append((transfer.after, row, self.random.integers(0, 2, (c.pixels, c.lanes), np.uint8)))
        assert len(rows) == c.late_rows
        return rows

    def _fill_late_rows(self, late, begun):
        """Rows that may come from this step on come at once."""
        for after, row, bits in late:
            if after == begun:
                self.banks[:, row] = bits

    def _take(self, count):
        self.at += count
        return self.words[self.at - count:self.at]

    def _convolution(self, step, tile, words):
        c = self.config
        across = c.pixels // 2
        height, width = 2 * step["rows"], across * step["columns"]
        bank, address = place(height, width, across, step["source"], step["row_stride"], step["block_stride"])
        padded = np.zeros((height + 2, width + 2, step["words"], c.lanes), np.uint8)  # 0 outside the map
        padded[1:-1, 1:-1] = self.banks[bank[..., None], address[..., None] + step["stride"] * np.arange(step["words"])]
        taps = [(ky, kx) for ky in range(3) for kx in range(3)] if step["window"] else [(1, 1)]
        # (height, width, reads, L): what the array sees.
        seen = np.concatenate([padded[ky:ky + height, kx:kx + width].repeat(step["repeat"], 2) for ky, kx in taps], 2)
        signs = seen.astype(np.float32).reshape(height, width, -1) * 2 - 1
        if step["vector"]:
            signs = signs[:1, :1]  # the other pixels are whatever lies in the other banks
        start, words = self._start(step, words)
        assert len(words) == seen.shape[2]
        matrix = words.transpose(1, 0, 2).reshape(c.outputs, -1).astype(np.float32) * 2 - 1
        sums = start + (signs @ matrix.T / 2).astype(np.int64) + len(words) * (c.lanes // 2 - self._below())
        self._results(step, tile, self._wrapped(sums))

    def _start(self, step, words):
        """(start values, weight words)."""
        lanes = self.config.lanes
        bits = min(self.config.accumulator_bits, lanes)  # a wider accumulator repeats the word's last bit
        start = np.zeros(self.config.outputs, np.int64)
        if step["bias"]:
            low = [int("".join(map(str, lane[bits - 1::-1])), 2) for lane in words[0]]
            start = np.array([v - (1 << bits) if v >> bits - 1 else v for v in low])
            words = words[1:]
            if self.config.start_reads:
                matches = lanes - words[0].sum(1, dtype=np.int64)  # of a pixel of -1
                assert matches.max() < lanes
                start = start // lanes * lanes + matches
                words = words[1:]
        return start, words

    def _below(self):
        """What a read adds less than its matches."""
        return 0 if self.config.start_reads else self.config.lanes // 2

    def _wrapped(self, sums):
        """Sums as the accumulators hold them."""
        half = 1 << self.config.accumulator_bits - 1
        return (sums + half) % (2 * half) - half if self.config.start_reads else sums

    def _listed(self, step, tile, words):
        """A tile by its list of reads."""
        c = self.config
        across = c.pixels // 2
        twice = 2 if step["spread"] and c.paired else 1
        count = step["words"] // twice
        begin = step["order"] + (0 if step["rewind"] else tile * count)
        start, words = self._start(step, words)
        reads = [read for read in c.order[begin:begin + count] for _ in range(twice)]
        if step["spread"]:
            slots = c.lanes // c.outputs
            words = self._spread_words(step, words, [(read_field(read, "tile_slot") + step["stride"]) % slots for read in reads])
        assert len(words) == step["words"]
        height, width = 2 * step["rows"], across * step["columns"]
        if step["vector"]:
            height = width = 1
        y, x = np.mgrid[:height, :width]
        valid_height = 2 * step["source_rows"] - step["odd_height"]
        valid_width = across * (step["source_columns"] - 1) + step["valid_columns"]
        sums = np.zeros((height, width, c.outputs), np.int64)
        planes = byte_planes(c.lanes, c.word_pixels)
        for number, read in enumerate(reads):
            address, down, right, row, column, shift, _ = (read_field(read, name) for name in READ_FIELDS)
            rows, columns = row - 1, column - 1
            address += step["source"] - 0x10000 * (address >> 15)
            base = address - rows * step["row_stride"] - columns  # of the block that is not moved
            at_y, at_x = y + 2 * rows + down, x + across * columns + right
            inside = (at_y >= 0) & (at_y < valid_height) & (at_x >= 0) & (at_x < valid_width)
            bank = at_y % 2 * across + at_x % across
            place = np.where(inside, base + at_y // 2 * step["row_stride"] + at_x // across, 0)
            seen = self.banks[bank, place] * inside[..., None].astype(np.int64)
            matches = (seen[..., None, :] == words[number]).sum(-1) - self._below()
            sums = (start if not number else sums << shift * planes) + matches
        assert step["vector"] or step["block_stride"] == step["target_block_stride"] == 1
        self._results(step, tile, self._wrapped(sums))

    def _spread_words(self, step, stored, slots):
        """The weights of each read of a spread step."""
        c = self.config
        words = np.zeros((len(slots), c.outputs, c.lanes), np.uint8)
        for number, slot in enumerate(slots):
            words[number] = number % 2
            for p in range(c.outputs):
                pair = number // 2
                words[number, p, slot * c.outputs + p] = 1 if step["ones"] else stored[pair // c.lanes, p, pair % c.lanes]
        assert len(stored) == (0 if step["ones"] else -(-len(slots) // (2 * c.lanes)))
        return words

    def _results(self, step, tile, sums):
        c, bits = self.config, self.config.accumulator_bits
        real = step["valid"] if tile == step["tiles"] - 1 else c.outputs
        assert np.abs(sums[..., :real]).max() < 1 << bits - 1, "the accumulator overflows"
        if step["logits"]:
            self.scores += sums[0, 0, :real].tolist()
            return
        result = (sums >= 0) & (np.arange(c.outputs) < real)
        if step["pool"]:
            height, width = result.shape[:2]
            parts = result.reshape(height // 2, 2, width // 2, 2, -1)
            result = parts[:, 0, :, 0] if step.get("first_pixel") else parts.any((1, 3))
        self._write(step, *divmod(step["tile_slot"] + tile, c.lanes // c.outputs), result)

    def _write(self, step, word, slot, values):
        """P bits of each pixel into their slot of a word; the slots after it become 0."""
        c = self.config
        across = c.pixels // 2
        if c.order:
            bank, address = place(*values.shape[:2], across, step["target"] + word * step["plane"], -(-values.shape[1] // across), 1)
        else:
            bank, address = place(*values.shape[:2], across, step["target"] + word, step["target_row_stride"], step["target_block_stride"])
        first, last = slot * c.outputs, (slot + 1) * c.outputs
        self.banks[bank, address, first:last] = values
        self.banks[bank, address, last:] = 0

    def _pool(self, step, tile, words):
        c = self.config
        used = [q for q in range(c.pixels) if not c.map_pixels or c.map_pixels >> q & 1]
        per_word = c.outputs // c.pixels
        half = len(used) * step["words"] / 2
        assert step["columns"] == c.lanes and step["rows"] == step["repeat"] == 1
        address = step["source"] + tile + step["stride"] * np.arange(step["words"])
        seen = self.banks[used][:, address]  # (pixels, blocks, L)
        if step["gap"]:
            self.banks[0, step["target"] + tile] = seen.sum((0, 1)) >= half
        if step["depthwise"]:
            rows = words.reshape(-1, c.pixels, c.lanes)[:step["words"], used].transpose(1, 0, 2)
            assert len(words) == -(-step["words"] // per_word)
            place = (step["target"] + tile + (step["target_row_stride"] if step["gap"] else 0)) % (1 << 16)
            self.banks[0, place] = (seen == rows).sum((0, 1)) >= half


def layer_bits(banks, entry, across):
    """Bits (C, H, W) of a layer, by its entry in layout.json; lanes without a channel must be 0."""
    channels, height, width = entry["shape"]
    bank, address = place(height, width, across, *entry["base"], entry["columns"] * entry["pitch"], entry["pitch"])
    stride = entry.get("word_stride", 1)
    stored = np.full((channels, height, width), 2, np.uint8)
    for number, word in enumerate(entry["lanes"]):
        bits = banks[bank, address + number * stride]
        for lane, channel in enumerate(word):
            if channel >= 0:
                stored[channel] = bits[..., lane]
            else:
                assert not bits[..., lane].any(), f"lane {lane} of word {number} holds no channel, but 1"
    return stored
