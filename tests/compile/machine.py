"""A second reading of the accelerator, for tests: runs program words, weight images and pixels, and knows neither the
compiler's code nor the RTL.  All it takes from a configuration is what the hardware is built from.
"""

import numpy as np

from fbnn_hw.reference.encode import encode

FIELDS = ("source", "word_stride", "block_stride", "row_stride", "words", "columns", "rows", "target", "target_block_stride",
          "target_row_stride", "tiles", "slot", "valid", "tile_words")
FLAGS = ("lgap", "pool", "vector", "logits", "window", "gap", "depthwise", "bias")
REWIND, RESULT, LOAD = 1, 2, 4


def decode(words):
    """Program words -> list of steps {field: value}, counts as they are meant, and of stops {"stop": flags}."""
    steps, at = [], 0
    while at < len(words):
        if not words[at] >> 15:
            assert words[at] < 8
            steps.append({"stop": words[at]})
            at += 1
            continue
        assert all(0 <= w < 1 << 16 for w in words[at:at + 15])
        step = {name: words[at] >> bit & 1 for bit, name in enumerate(FLAGS)}
        step["repeat"] = (words[at] >> 8 & 7) + 1
        step["shared"] = words[at] >> 11 & 1
        step.update(zip(FIELDS, words[at + 1:at + 15]))
        for name in ("words", "columns", "rows", "tiles"):
            step[name] += 1
        steps.append(step)
        at += 15
    assert [s["stop"] & REWIND for s in steps if "stop" in s][-1] and "stop" in steps[-1] and steps[-1]["stop"] & (RESULT | LOAD) == 6
    return steps


def memory_words(text, outputs, lanes):
    """weights.hex of weights == "memory" -> bits (words, outputs, lanes)."""
    lines = text.split()
    assert all(len(line) * 4 == outputs * lanes for line in lines)
    raw = np.frombuffer(bytes.fromhex("".join(line for line in lines)), np.uint8).reshape(len(lines), -1)[:, ::-1]
    return np.unpackbits(raw, axis=1, bitorder="little").reshape(len(lines), outputs, lanes)


def streamed_words(boot, frame, config):
    """Boot and frame bytes -> the words in the order in which the ring sees them, bits (words, outputs, lanes)."""
    size = config.outputs * config.lanes // 8
    resident, stream, words = 0, 0, []
    plan = config.transfer_words()
    for low, high in zip(plan[::2], plan[1::2]):
        phase, share = 0, high >> 8
        for _ in range((low | (high & 255) << 16) + 1):
            phase += share
            if phase >= 16:
                phase -= 16
                words.append(boot[resident:resident + size])
                resident += size
            else:
                words.append(frame[stream:stream + size])
                stream += size
    assert resident == len(boot) == config.resident_rows * config.pixels * config.lanes // 8 and stream == len(frame)
    raw = np.frombuffer(b"".join(words), np.uint8).reshape(len(words), size)
    return np.unpackbits(raw, axis=1, bitorder="little").reshape(len(words), config.outputs, config.lanes)


def place(height, width, across, base, down, right):
    """(banks, addresses) of the first word of every pixel of a map, int (height, width); `across` pixels a row of a block."""
    y, x = np.mgrid[:height, :width]
    return y % 2 * across + x % across, base + y // 2 * down + x // across * right


class Machine:
    """banks: bits (Q, feature words, L), random at first.  `run` gives the logits of a pass's images and a copy of the banks after each
    step."""

    def __init__(self, config, words, seed=0):
        self.config, self.words = config, words
        self.steps = decode(config.program_words())
        self.banks = np.random.default_rng(seed).integers(0, 2, (config.pixels, config.feature_words, config.lanes), dtype=np.uint8)

    def load(self, image):
        """uint8 (3, S, S) into the banks, from address 0 on."""
        c = self.config
        encoded = encode(image[None], c.encoder, c.levels)[0]
        words = -(-len(encoded) // c.lanes)
        padded = np.zeros((words * c.lanes, c.size, c.size), np.uint8)
        padded[:len(encoded)] = encoded
        across = c.pixels // 2
        bank, address = place(c.size, c.size, across, 0, c.size // across * words, words)
        pixels = padded.transpose(1, 2, 0).reshape(c.size, c.size, words, c.lanes)
        self.banks[bank[..., None], address[..., None] + np.arange(words)] = pixels

    def run(self, images):
        """images: as many as a pass has."""
        images, odd = list(images), int(self.config.logits_odd)
        self.load(images.pop(0))
        self.at, self.scores, logits = 0, [], []
        after = [self.banks.copy()]
        for step in self.steps:
            if "stop" in step:
                if step["stop"] & RESULT:
                    logits.append([2 * s + odd for s in self.scores])
                    self.scores = []
                if step["stop"] & LOAD and not step["stop"] & REWIND:
                    self.load(images.pop(0))
                    after[-1] = self.banks.copy()
                continue
            for tile in range(step["tiles"]):
                words = self._take(step["tile_words"])
                for member in range(self.config.frames if step["shared"] else 1):
                    moved = step | {name: step[name] + member * self.config.frame_stride for name in ("source", "target")}
                    (self._pool if step["lgap"] else self._convolution)(moved, tile, words)
            after.append(self.banks.copy())
        assert not images and not self.scores
        assert self.at == len(self.words), "the pass uses all weight words once"
        return logits, after

    def _take(self, count):
        self.at += count
        return self.words[self.at - count:self.at]

    def _convolution(self, step, tile, words):
        c = self.config
        across, bits = c.pixels // 2, c.accumulator_bits
        height, width = 2 * step["rows"], across * step["columns"]
        bank, address = place(height, width, across, step["source"], step["row_stride"], step["block_stride"])
        padded = np.zeros((height + 2, width + 2, step["words"], c.lanes), np.uint8)  # 0 outside the map
        padded[1:-1, 1:-1] = self.banks[bank[..., None], address[..., None] + step["word_stride"] * np.arange(step["words"])]
        taps = [(ky, kx) for ky in range(3) for kx in range(3)] if step["window"] else [(1, 1)]
        # (height, width, reads, L): what the array sees.
        seen = np.concatenate([padded[ky:ky + height, kx:kx + width].repeat(step["repeat"], 2) for ky, kx in taps], 2)
        signs = seen.astype(np.float32).reshape(height, width, -1) * 2 - 1
        if step["vector"]:
            signs = signs[:1, :1]  # the other pixels are whatever lies in the other banks
        start = np.zeros(c.outputs, np.int64)
        if step["bias"]:
            low = [int("".join(map(str, lane[bits - 1::-1])), 2) for lane in words[0]]
            start = np.array([v - (1 << bits) if v >> bits - 1 else v for v in low])
            words = words[1:]
        assert len(words) == seen.shape[2]
        matrix = words.transpose(1, 0, 2).reshape(c.outputs, -1).astype(np.float32) * 2 - 1
        sums = start + (signs @ matrix.T / 2).astype(np.int64)
        real = step["valid"] if tile == step["tiles"] - 1 else c.outputs
        assert np.abs(sums[..., :real]).max() < 1 << bits - 1, "the accumulator overflows"
        if step["logits"]:
            self.scores += sums[0, 0, :real].tolist()
            return
        result = (sums >= 0) & (np.arange(c.outputs) < real)
        if step["pool"]:
            result = result.reshape(height // 2, 2, width // 2, 2, -1).any((1, 3))
        self._write(step, *divmod(step["slot"] + tile, c.lanes // c.outputs), result)

    def _write(self, step, word, slot, values):
        """P bits of each pixel into their slot of a word; the slots after it become 0."""
        c = self.config
        bank, address = place(*values.shape[:2], c.pixels // 2, step["target"] + word, step["target_row_stride"],
                              step["target_block_stride"])
        first, last = slot * c.outputs, (slot + 1) * c.outputs
        self.banks[bank, address, first:last] = values
        self.banks[bank, address, last:] = 0

    def _pool(self, step, tile, words):
        c = self.config
        used = [q for q in range(c.pixels) if not c.map_pixels or c.map_pixels >> q & 1]
        per_word = c.outputs // c.pixels
        half = len(used) * step["words"] / 2
        assert step["columns"] == c.lanes and step["rows"] == step["repeat"] == 1
        address = step["source"] + tile + step["word_stride"] * np.arange(step["words"])
        seen = self.banks[used][:, address]  # (pixels, blocks, L)
        if step["gap"]:
            self.banks[0, step["target"] + tile] = seen.sum((0, 1)) >= half
        if step["depthwise"]:
            rows = words.reshape(-1, c.pixels, c.lanes)[:step["words"], used].transpose(1, 0, 2)
            assert len(words) == -(-step["words"] // per_word)
            place = (step["target"] + tile + (step["target_row_stride"] if step["gap"] else 0)) % (1 << 16)
            self.banks[0, place] = (seen == rows).sum((0, 1)) >= half


def layer_bits(banks, entry, across, frame=0):
    """Bits (C, H, W) of a layer of a frame of the pass, by its entry in layout.json; lanes without a channel must be 0."""
    channels, height, width = entry["shape"]
    bank, address = place(height, width, across, entry["base"][frame], entry["columns"] * entry["pitch"], entry["pitch"])
    stored = np.full((channels, height, width), 2, np.uint8)
    for number, word in enumerate(entry["lanes"]):
        bits = banks[bank, address + number]
        for lane, channel in enumerate(word):
            if channel >= 0:
                stored[channel] = bits[..., lane]
            else:
                assert not bits[..., lane].any(), f"lane {lane} of word {number} holds no channel, but 1"
    return stored
