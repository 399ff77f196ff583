"""The machine, executed: program words, weight words and an image in, logits and the banks after each step out.

It reads what a folder has and knows neither the compiler nor the RTL, so it is their second reading.  What a program must not do raises
InputError: to read what it has written over, to leave a weight word over, to let an accumulator overflow.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import InputError
from ..reference.encode import encode, thermometer, unpacked, ycc
from .config import AcceleratorConfig, byte_planes
from .step import FIELD_VALUES, READ_FIELDS, decode

EXACT = 1 << 24
"""Sums below this are exact in float32."""
Fields = dict[str, int]
"""The fields of a step."""


def _require(holds: Any, what: str) -> None:
    """Raises InputError unless a program does what it must."""
    if not holds:
        raise InputError(f"the program: {what}, expected one that the engine can carry out; generate the folder again")


def memory_words(text: str, outputs: int, lanes: int) -> np.ndarray:
    """weights.hex of weights == "memory" -> bits (words, outputs, lanes)."""
    lines = text.split()
    _require(all(len(line) * 4 == outputs * lanes for line in lines), "a weight word has another width")
    raw = np.frombuffer(bytes.fromhex("".join(lines)), np.uint8).reshape(len(lines), -1)[:, ::-1]
    return np.unpackbits(raw, axis=1, bitorder="little").reshape(len(lines), outputs, lanes)


def streamed_words(boot: bytes, frame: bytes, config: AcceleratorConfig) -> np.ndarray:
    """Resident rows and frame bytes -> the words in the order in which the ring sees them, bits (words, outputs, lanes)."""
    size = config.outputs * config.lanes // 8
    resident, stream, words, rows = 0, 0, [], boot
    _require(len(boot) == config.resident_rows * config.row_bits // 8, "the resident rows have another length")
    plan = config.transfer_words()
    for low, high in zip(plan[::2], plan[1::2]):
        phase, share = 0, high >> 8 & 31
        if high >> 13:
            _require(high >> 13 == 1 and share == 0 and high & 255 <= len(config.program), "a late row comes after the last step")
            rows += frame[stream:stream + (low + 1) * size]
            stream += (low + 1) * size
            continue
        for _ in range((low | (high & 255) << 16) + 1):
            phase += share
            if phase >= 16:
                phase -= 16
                words.append(rows[resident:resident + size])
                _require(len(words[-1]) == size, "a late row is read before it is there")
                resident += size
            else:
                words.append(frame[stream:stream + size])
                stream += size
    _require(resident == len(rows) and stream == len(frame), "its transfers do not use the bytes of the weights")
    _require(len(rows) - len(boot) == config.late_rows * config.row_bits // 8, "its late rows are another number")
    raw = np.frombuffer(b"".join(words), np.uint8).reshape(len(words), size)
    return np.unpackbits(raw, axis=1, bitorder="little").reshape(len(words), config.outputs, config.lanes)


def place(height: int, width: int, across: int, base: int, down: int, right: int) -> tuple[np.ndarray, np.ndarray]:
    """(banks, addresses) of the first word of every pixel of a map, int (height, width); `across` pixels a row of a block."""
    y, x = np.mgrid[:height, :width]
    return y % 2 * across + x % across, base + y // 2 * down + x // across * right


@dataclass(frozen=True)
class Sums:
    """What is fixed of a step of the array: N = tiles x P sums of each pixel, from T lists of reads, one or one a tile.

    target, first: rows that are written, (height, width, words), and the first lane that is.
    """

    reads: np.ndarray  # row of `Machine.rows` of each read, (T, pixels, reads); the row behind the last is one of zeros
    matrix: np.ndarray  # what a 1 adds to a sum, (T, reads x L, N / T)
    start: np.ndarray  # what a sum is without any 1, (N)
    shape: tuple[int, int]  # of the map, (height, width)
    target: np.ndarray
    first: int


@dataclass(frozen=True)
class Pooled:
    """What is fixed of a step of global pooling.

    averages, matches: rows that are written, (tiles), of the average words and of the learned words; none where there are none.
    """

    reads: np.ndarray  # rows that are read, (pixels, tiles, blocks)
    learned: np.ndarray  # bits (pixels, tiles, blocks, L)
    averages: np.ndarray
    matches: np.ndarray


class Machine:
    """banks: bits (Q, feature words, L), random at first.  `run` gives the logits of an image.

    words: of the weights of a pass, bits (words, outputs, lanes).  Raises InputError for a program that the engine cannot carry out.
    """

    def __init__(self, config: AcceleratorConfig, words: np.ndarray, seed: int = 0):
        self.config, self.across = config, config.pixels // 2
        _require(0 < config.feature_words <= FIELD_VALUES, f"banks of {config.feature_words} words")
        self.steps, _ = decode(config.program_words(), config.lists)
        self.random = np.random.default_rng(seed + 1)
        self.none = config.pixels * config.feature_words
        """The row of `rows` that is all zeros."""
        self.rows = np.zeros((self.none + 1, config.lanes), np.uint8)
        self.banks = self.rows[:-1].reshape(config.pixels, config.feature_words, config.lanes)
        self.banks[:] = np.random.default_rng(seed).integers(0, 2, self.banks.shape, dtype=np.uint8)
        self.fields = self._read_fields()
        self.work: list[Sums | Pooled] = []
        try:
            for step in self.steps:
                count = step["tiles"] * step["tile_words"]
                _require(count <= len(words), "weight words are missing")
                own, words = words[:count].reshape(step["tiles"], -1, config.outputs, config.lanes), words[count:]
                self.work.append((self._pooled if step["lgap"] else self._sums)(step, own))
        except (IndexError, ValueError, MemoryError):
            _require(False, f"step {len(self.work)} has fields that contradict each other")
        _require(not len(words), "weight words are left over")

    @classmethod
    def of(cls, folder: str | Path) -> "Machine":
        """The machine of a generated folder.  Raises InputError where a file is missing or damaged."""
        path = Path(folder)
        try:
            config = AcceleratorConfig.from_json((path / "config.json").read_text())
            if config.loads:
                words = np.frombuffer((path / "weights.bin").read_bytes()[4:-4], np.uint8)
                words = np.unpackbits(words, bitorder="little").reshape(-1, config.outputs, config.lanes)[:config.shipped_base]
            elif config.weights == "memory":
                words = memory_words((path / "weights.hex").read_text(), config.outputs, config.lanes)[:config.shipped_base]
            else:
                data = (path / "weights.bin").read_bytes()
                first, boot = ((rows * config.row_bits // 8) for rows in (config.boot_rows - config.resident_rows, config.boot_rows))
                words = streamed_words(data[first:boot], data[boot:], config)
            return cls(config, words)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, AssertionError, OverflowError) as error:
            raise InputError(f"{path}: {error}, expected what `fbnn-hw generate` wrote; generate the folder again") from None

    # An image into the banks.

    def load(self, image: np.ndarray) -> None:
        """An image into the banks, from address 0 on: uint8 RGB (3, S, S), or where the design takes levels their bytes."""
        c = self.config
        if c.order:
            self._load_planes(image)
            return
        encoded = self._encoded(image)
        words = -(-len(encoded) // c.lanes)
        padded = np.zeros((words * c.lanes, c.size, c.size), np.uint8)
        padded[:len(encoded)] = encoded
        bank, address = place(c.size, c.size, self.across, 0, c.size // self.across * words, words)
        pixels = padded.transpose(1, 2, 0).reshape(c.size, c.size, words, c.lanes)
        self.banks[bank[..., None], address[..., None] + np.arange(words)] = pixels

    def _encoded(self, image: np.ndarray) -> np.ndarray:
        """The bits of the first layer, uint8 (channels, S, S)."""
        c = self.config
        if c.takes_levels:
            levels = unpacked(image[None], c.level_bits, c.size)
            return (levels if c.encoder == "binarize" else thermometer(levels, c.encoder, c.levels))[0].astype(np.uint8)
        if c.encoder == "binarize":
            return (ycc(image[None])[0, :1] >= c.threshold).astype(np.uint8)
        return encode(image[None], c.encoder, c.levels)[0]

    def _load_planes(self, image: np.ndarray) -> None:
        """The words of a pixel, each a plane further; with quarters in four images."""
        c = self.config
        if c.packed:
            bits = self._encoded(image).reshape(-1)
            vector = np.pad(bits, (0, -len(bits) % c.lanes)).reshape(-1, c.lanes)
            self.banks[0, :len(vector)] = vector
            return
        if c.encoder == "bits8":
            words = self._bytes(image)
        else:
            encoded = self._encoded(image)
            count = -(-len(encoded) // c.lanes)
            words = np.zeros((count * c.lanes, c.size, c.size), np.uint8)
            words[:len(encoded)] = encoded
            words = words.reshape(count, c.lanes, c.size, c.size)
        images = [words[:, :, y::2, x::2] for y in range(2) for x in range(2)] if c.quarters else [words]
        base = 0
        for part in images:
            height, width = part.shape[2:]
            columns = -(-width // self.across)
            plane = -(-height // 2) * columns
            bank, address = place(height, width, self.across, base, columns, 1)
            for number, word in enumerate(part):
                self.banks[bank, address + number * plane] = word.transpose(1, 2, 0)
            base += len(part) * plane

    def _bytes(self, image: np.ndarray) -> np.ndarray:
        """The words of an image of bytes, bits (words, L, S, S)."""
        c = self.config
        levels = np.array(c.table or range(256), np.uint8)[image]
        planes = byte_planes(c.lanes, c.word_pixels)
        words = np.zeros((-(-8 // planes), c.lanes, c.size, c.size), np.uint8)
        for number, word in enumerate(words):
            high = min(8, (number + 1) * planes) - 1
            pattern = [bit for bit in range(high, number * planes - 1, -1) for _ in range(2 ** (bit - number * planes))]
            lanes = [(left, colour, bit) for left in reversed(range(c.word_pixels)) for colour in range(3) for bit in pattern]
            for lane, (left, colour, bit) in enumerate(lanes):
                word[lane, :, left:] = levels[colour, :, :c.size - left] >> bit & 1
                word[lane, :, :left] = self.random.integers(0, 2, (c.size, left))  # of other rows; no output needs it
        return words

    # A pass.

    def run(self, image: np.ndarray, after: Callable[[np.ndarray], None] | None = None) -> list[int]:
        """The logits of an image; `after` is called with the banks once the image is in them, and after each step."""
        self.load(image)
        scores: list[int] = []
        late = self._late_rows()
        if after:
            after(self.banks)
        for begun, (step, work) in enumerate(zip(self.steps, self.work), start=1):
            for since, row, bits in late:
                if since == begun:  # rows that may come from this step on come at once
                    self.banks[:, row] = bits
            if isinstance(work, Pooled):
                self._pool(step, work)
            else:
                scores += self._array(step, work)
            if after:
                after(self.banks)
        for _, row, bits in late:
            _require(np.array_equal(self.banks[:, row], bits), f"late row {row} was overwritten")
        return [2 * score + int(self.config.logits_odd) for score in scores]

    def _late_rows(self) -> list[tuple[int, int, np.ndarray]]:
        """[(steps that must have begun, row, random bits)], in the order in which rows come."""
        c, row, rows = self.config, self.config.late_end, []
        for transfer in c.transfers:
            for _ in range(transfer.words * c.rows_per_word if transfer.after else 0):
                row -= 1
                rows.append((transfer.after, row, self.random.integers(0, 2, (c.pixels, c.lanes), np.uint8)))
        _require(len(rows) == c.late_rows, "its late rows are another number")
        return rows

    # A step of the array.

    def _sums(self, step: Fields, words: np.ndarray) -> Sums:
        """words: bits (tiles, words of a tile, P, L)."""
        c = self.config
        shape = (1, 1) if step["vector"] else (2 * step["rows"], self.across * step["columns"])
        _require(shape[0] * shape[1] <= self.none, "a map is larger than the banks")
        start, words = self._start(step, words)
        if c.order:
            reads, scale, words = self._listed(step, shape, words)
        else:
            reads = self._looped(step, shape)
            scale = np.ones(reads.shape[::2], np.int64)
        lists, _, count = reads.shape
        _require(words.shape[1] == count, "a tile has more or fewer weight words than reads")
        below = 0 if c.start_reads else c.lanes // 2  # what a read adds less than its matches
        zeros = c.lanes - words.sum(3, dtype=np.int64) - below  # what a read of zeros adds, (tiles, reads, P)
        start = start * scale[:, :1] + (zeros * scale[..., None]).sum(1)
        exact = np.float32 if scale.sum(1).max() * c.lanes < EXACT else np.float64
        matrix = (2 * words.astype(exact) - 1) * scale[..., None, None].astype(exact)
        matrix = matrix.reshape(lists, -1, count, c.outputs, c.lanes).transpose(0, 2, 4, 1, 3)
        target, first = (np.zeros(0, int), 0) if step["logits"] else self._target(step, shape)
        _require(not np.isin(target, reads).any(), "a step writes over what it reads")
        return Sums(reads, np.ascontiguousarray(matrix).reshape(lists, count * c.lanes, -1), start.reshape(-1), shape, target, first)

    def _start(self, step: Fields, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(start values (tiles, P), the other weight words)."""
        c = self.config
        bits = min(c.accumulator_bits, c.lanes)  # a wider accumulator repeats the word's last bit
        if not step["bias"]:
            return np.zeros((len(words), c.outputs), np.int64), words
        start = words[:, 0, :, :bits] @ (1 << np.arange(bits))
        start -= start >> bits - 1 << bits
        if not c.start_reads:
            return start, words[:, 1:]
        matches = c.lanes - words[:, 1].sum(2, dtype=np.int64)  # of a pixel of -1
        _require(matches.max() < c.lanes, "a start read has matches in all lanes")
        return start // c.lanes * c.lanes + matches, words[:, 2:]

    def _rows_read(self, step: Fields, y: np.ndarray, x: np.ndarray, base: np.ndarray, size: tuple[int, int], right: int) -> np.ndarray:
        """Rows of pixels (y, x) of a map of `size`, which begins at `base` and whose blocks are `right` words apart."""
        inside = (y >= 0) & (y < size[0]) & (x >= 0) & (x < size[1])
        address = base + y // 2 * step["row_stride"] + x // self.across * right
        _require(((address >= 0) & (address < self.config.feature_words) | ~inside).all(), "it reads behind the banks")
        bank = y % 2 * self.across + x % self.across
        return np.where(inside, bank * self.config.feature_words + address, self.none)

    def _looped(self, step: Fields, shape: tuple[int, int]) -> np.ndarray:
        """Rows of the reads by the loops over taps and words, (1, pixels, reads)."""
        y, x = (axis.reshape(-1, 1, 1) for axis in np.mgrid[:shape[0], :shape[1]])
        taps = np.mgrid[-1:2, -1:2].reshape(2, -1, 1) if step["window"] else np.zeros((2, 1, 1), int)
        base = step["source"] + step["stride"] * np.arange(step["words"]).repeat(step["repeat"])
        size = 2 * step["rows"], self.across * step["columns"]
        rows = self._rows_read(step, y + taps[0], x + taps[1], base, size, step["block_stride"])
        return rows.reshape(1, shape[0] * shape[1], -1)

    def _read_fields(self) -> dict[str, np.ndarray]:
        """{field: values} of all reads of the lists."""
        words, fields = np.array(self.config.order, np.int64), {}
        for name, bits in READ_FIELDS.items():
            fields[name], words = words & (1 << bits) - 1, words >> bits
        return fields

    def _listed(self, step: Fields, shape: tuple[int, int], words: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(rows of the reads (T, pixels, reads), what a match of each counts (T, reads), weight words)."""
        twice = 2 if step["spread"] and self.config.paired else 1
        count, lists = step["words"] // twice, 1 if step["rewind"] else step["tiles"]
        numbers = step["order"] + np.arange(lists * count).reshape(lists, count).repeat(twice, 1)
        reads = {name: values[numbers][:, None] for name, values in self.fields.items()}
        if step["spread"]:
            words = self._spread_words(step, words, reads["tile_slot"][:, 0])
        _require(step["vector"] or step["block_stride"] == step["target_block_stride"] == 1, "blocks of a map are not beside each other")
        y, x = (axis.reshape(1, -1, 1) for axis in np.mgrid[:shape[0], :shape[1]])
        row, column = reads["row"] - 1, reads["column"] - 1
        signed = reads["address"] - FIELD_VALUES * (reads["address"] >> 15)
        base = step["source"] + signed - row * step["row_stride"] - column  # of the block that is not moved
        size = (2 * step["source_rows"] - step["odd_height"], self.across * (step["source_columns"] - 1) + step["valid_columns"])
        rows = self._rows_read(step, y + 2 * row + reads["y"], x + self.across * column + reads["x"], base, size, 1)
        shifts = reads["shift"][:, 0] * byte_planes(self.config.lanes, self.config.word_pixels)
        later = shifts[:, ::-1].cumsum(1)[:, ::-1] - shifts  # of the reads behind each
        return rows, 1 << later, words

    def _spread_words(self, step: Fields, stored: np.ndarray, slots: np.ndarray) -> np.ndarray:
        """The weights of each read of a spread step, bits (tiles, reads, P, L).  slots: of the lists' reads, (T, reads)."""
        c, tiles, count = self.config, len(stored), slots.shape[1]
        _require(stored.shape[1] == (0 if step["ones"] else -(-count // (2 * c.lanes))), "a spread step has another number of weight words")
        words = np.zeros((tiles, count, c.outputs, c.lanes), np.uint8)
        words[:, 1::2] = 1
        own = (np.broadcast_to(slots, (tiles, count)) + step["stride"]) % (c.lanes // c.outputs) * c.outputs
        tile, read, output = np.ogrid[:tiles, :count, :c.outputs]
        weights = 1 if step["ones"] else stored[tile, read // 2 // c.lanes, output, read // 2 % c.lanes]
        words[tile, read, output, own[..., None] + output] = weights
        return words

    def _target(self, step: Fields, shape: tuple[int, int]) -> tuple[np.ndarray, int]:
        """(rows that are written (height, width, words), the first lane)."""
        c = self.config
        height, width = (size // 2 if step["pool"] else size for size in shape)
        word, slot = divmod(step["tile_slot"], c.lanes // c.outputs)
        words = word + np.arange(-(-(slot + step["tiles"]) * c.outputs // c.lanes))
        down, right, plane = step["target_row_stride"], step["target_block_stride"], 1
        if c.order:
            down, right, plane = -(-width // self.across), 1, step["plane"]
        bank, address = place(height, width, self.across, step["target"], down, right)
        rows = address[..., None] + words * plane
        _require((rows < c.feature_words).all(), "it writes behind the banks")
        return bank[..., None] * c.feature_words + rows, slot * c.outputs

    def _array(self, step: Fields, work: Sums) -> list[int]:
        """The step's writes; its logits, where it has some."""
        c, bits = self.config, self.config.accumulator_bits
        seen = self.rows[work.reads].reshape(*work.reads.shape[:2], -1).astype(work.matrix.dtype)
        sums = np.matmul(seen, work.matrix).astype(np.int64).transpose(1, 0, 2).reshape(-1, len(work.start)) + work.start
        if c.start_reads:  # as the accumulators hold them
            half = 1 << bits - 1
            sums = (sums + half) % (2 * half) - half
        real = (step["tiles"] - 1) * c.outputs + step["valid"]
        _require(np.abs(sums[:, :real]).max() < 1 << bits - 1, "an accumulator overflows")
        if step["logits"]:
            return sums[0, :real].tolist()
        result = (sums >= 0).reshape(*work.shape, -1)
        result[..., real:] = False
        if step["pool"]:
            height, width = work.shape
            parts = result.reshape(height // 2, 2, width // 2, 2, -1)
            result = parts[:, 0, :, 0] if step.get("first_pixel") else parts.any((1, 3))
        # The tiles fill the slots of their words from the first one on; the slots behind the last one become 0.
        words = np.zeros((*work.target.shape, c.lanes), np.uint8)
        words[..., 0, :work.first] = self.rows[work.target[..., 0], :work.first]
        words.reshape(*work.target.shape[:2], -1)[..., work.first:work.first + result.shape[-1]] = result
        self.rows[work.target] = words
        return []

    # A step of global pooling.

    def _pooled(self, step: Fields, words: np.ndarray) -> Pooled:
        c, tiles = self.config, len(words)
        used = np.array([q for q in range(c.pixels) if not c.map_pixels or c.map_pixels >> q & 1])
        _require(step["columns"] == c.lanes and step["rows"] == step["repeat"] == 1, "a step of global pooling has another number of lanes")
        address = step["source"] + np.arange(tiles)[:, None] + step["stride"] * np.arange(step["words"])
        _require((address < c.feature_words).all(), "it reads behind the banks")
        learned = np.zeros((0, tiles, step["words"], c.lanes), np.uint8)
        averages = matches = np.zeros(0, int)
        if step["gap"]:
            averages = step["target"] + np.arange(tiles)
        if step["depthwise"]:
            _require(words.shape[1] == -(-step["words"] // c.rows_per_word), "a tile has more or fewer weight words than reads")
            learned = words.reshape(tiles, -1, c.pixels, c.lanes)[:, :step["words"], used].transpose(2, 0, 1, 3)
            matches = (step["target"] + np.arange(tiles) + step["gap"] * step["target_row_stride"]) % FIELD_VALUES
        reads = used[:, None, None] * c.feature_words + address
        for rows in (averages, matches):
            _require((rows < c.feature_words).all(), "it writes behind the banks")
            _require(not np.isin(rows, reads).any(), "a step writes over what it reads")
        return Pooled(reads, learned, averages, matches)

    def _pool(self, step: Fields, work: Pooled) -> None:
        seen = self.rows[work.reads]
        half = len(seen) * step["words"] / 2
        if step["gap"]:
            self.rows[work.averages] = seen.sum((0, 2)) >= half
        if step["depthwise"]:
            self.rows[work.matches] = (seen == work.learned).sum((0, 2)) >= half
