"""AcceleratorConfig: all that the hardware is built from.  Plain, frozen, hashable; no checkpoint, no weights.

One engine works through a program of `Step`s.  It handles `pixels` (Q) pixels x `lanes` (L) input channels x `outputs` (P)
output channels a cycle.  Feature maps lie in Q banks: a block is 2 x Q/2 pixels and pixel (y, x) lies in bank
(y % 2) * Q/2 + x % (Q/2), L channels a word.  A vector lies in bank 0.
"""

import json
from dataclasses import asdict, dataclass, fields
from hashlib import sha256

from ..errors import UsageError
from ..ir.ops import planes
from .learning import LearnPlan

STEP_WORDS = 15
"""16-bit words of one encoded step; one is read each cycle."""

REWIND, RESULT, LOAD = 1, 2, 4
"""Flags of a stop, the word where a step could begin with bit 15 clear: the program starts again; a result leaves; then the next
image is loaded."""


@dataclass(frozen=True)
class Step:
    """One run of the engine: `tiles` tiles of P output channels over a whole map, all in one group.

    For every tile, block row, block, tap, word and repeat: one read of L channels of Q pixels.  A pooling step ("lgap")
    uses the same loops: a tile is one word of channels, a block is one lane, a word is one block of the map.  A `shared` step
    does each tile for the maps of all frames of the pass, which lie `frame_stride` words apart, before its weights are given back.

    kind: "conv", "lgap".  layer: IR name, for reports.  Addresses and strides count words of a bank.
    """

    kind: str
    layer: str
    source: int  # address of the first word read
    step: int  # from one word to the next inside a tap
    advance: int  # from one block to the next
    row: int  # from one row of blocks to the next
    words: int  # words in one tap
    repeat: int  # uses of each word (duplicated inputs)
    taps: int  # 9 or 1
    rows: int  # rows of blocks
    columns: int  # blocks in a row
    target: int  # address of the first word written
    target_advance: int
    target_row: int
    tiles: int
    slot: int  # first tile's place inside its word, in tiles
    valid: int  # outputs of the last tile that are real
    tile_words: int  # weight words of one tile
    pool: bool = False
    vector: bool = False  # one pixel: bank 0 alone
    logits: bool = False
    gap: bool = False  # lgap: write the average word
    depthwise: bool = False  # lgap: write the learned word, target_row words after the average
    bias: bool = False  # the first weight word of a tile holds its accumulators' start values
    shared: bool = False
    load: bool = False  # an image is loaded first
    result: bool = False  # a result leaves afterwards

    def encode(self):
        """STEP_WORDS 16-bit words.  Counts are stored minus one."""
        flags = (int(self.kind == "lgap") | self.pool << 1 | self.vector << 2 | self.logits << 3 | (self.taps == 9) << 4
                 | self.gap << 5 | self.depthwise << 6 | self.bias << 7 | (self.repeat - 1) << 8 | self.shared << 11)
        words = [flags | 1 << 15, self.source, self.step, self.advance, self.row, self.words - 1, self.columns - 1, self.rows - 1,
                 self.target, self.target_advance, self.target_row, self.tiles - 1, self.slot, self.valid, self.tile_words]
        assert len(words) == STEP_WORDS and all(0 <= w < 1 << 16 for w in words), self
        return words


@dataclass(frozen=True)
class Transfer:
    """`words` weight words for the array, of which `resident` in 16 are read from the feature banks' free rows and the
    rest from the weight stream, evenly mixed."""

    words: int
    resident: int


@dataclass(frozen=True)
class AcceleratorConfig:
    pixels: int
    lanes: int
    outputs: int
    encoder: str
    levels: int
    size: int
    encoder_bits: int  # bits of a colour byte multiplied a cycle; 0: a byte, by multipliers
    classes: int
    program: tuple  # of Step
    accumulator_bits: int
    feature_words: int  # depth of a bank
    technology: str  # of the banks, see rtl.spram
    popcount: str  # style of the popcounts, see rtl.popcount
    weights: str  # "memory": all in one memory; "stream": through a ring filled by the weight stream
    weight_words: int  # depth of that memory or ring
    transfers: tuple = ()  # of Transfer, one frame (weights == "stream")
    resident_base: int = 0  # first resident row, behind all features; 0: there are none
    resident_rows: int = 0  # rows of pixels * lanes bits, loaded once after reset
    latent_base: int = 0
    latent_words: int = 0
    map_pixels: int = 0  # pixels of a block that exist in the map that is pooled globally (a mask)
    logits_odd: bool = False  # fan-in of the logits is odd
    frames: int = 1  # images of one pass through the program
    frame_stride: int = 0  # words from a map of a frame to that of the next one in the same pass
    learning: LearnPlan | None = None  # the program then ends with the latent, or the layer beside it, and a learner classifies

    @property
    def columns(self):
        """Pixels of a block row."""
        return self.pixels // 2

    @property
    def word_bits(self):
        return self.outputs * self.lanes

    @property
    def row_bits(self):
        return self.pixels * self.lanes

    @property
    def rows_per_word(self):
        return self.outputs // self.pixels

    @property
    def planes(self):
        """Levels of each plane of a pixel."""
        return planes(self.encoder, self.levels)

    @property
    def input_words(self):
        """Words of one encoded pixel."""
        return -(-sum(self.planes) // self.lanes)

    @property
    def feature_end(self):
        """Words of a bank from address 0 on in which all features lie."""
        bounds = [self.feature_words, self.resident_base or self.feature_words]
        return min(bounds + ([self.learning.learn_base] if self.learning else []))

    @property
    def boot_rows(self):
        """Rows that the weight stream brings right after reset: the tables of a learner's classes, then the resident rows."""
        return self.resident_rows + (self.learning.class_rows if self.learning and self.learning.boot == "rows" else 0)

    @property
    def boot_base(self):
        return self.resident_base - (self.boot_rows - self.resident_rows)

    @property
    def shipped_base(self):
        """Of the shipped weights in the memory of weights, for a learner that boots from "words"."""
        return sum(step.tiles * step.tile_words for step in self.program)

    @property
    def result_classes(self):
        """Classes that a result can name."""
        return self.learning.max_classes if self.learning else self.classes

    @property
    def thresholds(self):
        return any(step.bias for step in self.program)

    def program_words(self):
        """The program as 16-bit words: steps, and a stop wherever something else happens."""
        words = []
        for step, following in zip(self.program, (*self.program[1:], None)):
            words += step.encode()
            if following is None:
                words.append(REWIND | RESULT * step.result | LOAD * self.program[0].load)
            elif step.result or following.load:
                words.append(RESULT * step.result | LOAD * following.load)
        return words

    def transfer_words(self):
        """Transfers as 16-bit words: count - 1 in pairs (low 16 bits, then high bits and the share); 0xFFFF ends."""
        words = []
        for t in self.transfers:
            count = t.words - 1
            words += [count & 0xFFFF, count >> 16 | t.resident << 8]
        return words

    def to_json(self):
        values = asdict(self)
        if self.learning is None:
            del values["learning"]
        return json.dumps(values, indent=1, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text):
        values = json.loads(text)
        values["program"] = tuple(Step(**s) for s in values["program"])
        values["transfers"] = tuple(Transfer(**t) for t in values["transfers"])
        values["learning"] = LearnPlan(**values["learning"]) if "learning" in values else None
        return cls(**{f.name: values[f.name] for f in fields(cls)})

    @property
    def id(self):
        """8 hexadecimal digits that name this hardware."""
        return sha256(self.to_json().encode()).hexdigest()[:8]


def check_shape(pixels, lanes, outputs):
    """The engine's legal dimensions; UsageError otherwise."""
    def power(n):
        return n >= 1 and n & (n - 1) == 0

    if pixels not in (4, 8, 16):
        raise UsageError(f"--pixels {pixels}: expected 4, 8 or 16 (blocks of 2x2, 2x4 or 2x8 pixels)")
    if lanes not in (16, 32, 64, 128):
        raise UsageError(f"--lanes {lanes}: expected 16, 32, 64 or 128")
    if not power(outputs) or not pixels <= outputs <= lanes:
        raise UsageError(f"--outputs {outputs}: expected a power of two from --pixels ({pixels}) to --lanes ({lanes})")
