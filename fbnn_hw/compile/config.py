"""AcceleratorConfig: all that the hardware is built from.  Plain, frozen, hashable; no checkpoint, no weights.

One engine works through a program of `Step`s.  It handles `pixels` (Q) pixels x `lanes` (L) input channels x `outputs` (P)
output channels a cycle.  Feature maps lie in Q banks: a block is 2 x Q/2 pixels and pixel (y, x) lies in bank
(y % 2) * Q/2 + x % (Q/2), L channels a word.  A vector lies in bank 0.
"""

import json
from dataclasses import MISSING, asdict, dataclass, field, fields
from hashlib import sha256
from typing import Any

from ..errors import UsageError
from ..ir.ops import planes
from .learn_plan import LearnPlan

STEP_WORDS = 15
"""16-bit words of one encoded step; one is read each cycle."""

REWIND, RESULT, LOAD = 1, 2, 4
"""Flags of a stop, the word where a step could begin with bit 15 clear.

REWIND: the program starts again.  RESULT: a result leaves.  LOAD: the next image is loaded after that.
"""

RENAMED = {"step": "word_stride", "advance": "block_stride", "row": "row_stride", "target_advance": "target_block_stride",
           "target_row": "target_row_stride"}
"""Fields of a step as version 0.1.0 wrote them into config.json, and their names now."""


@dataclass(frozen=True)
class Step:
    """One run of the engine: `tiles` tiles of P output channels over a whole map, all in one group.

    For every tile, block row, block, tap, word and repeat the engine reads L channels of Q pixels once.  A pooling step ("lgap")
    uses the same loops: a tile is one word of channels, a block is one lane, a word is one block of the map.  A `shared` step
    does each tile for the maps of all frames of the pass before it gives the tile's weights back; these maps lie `frame_stride`
    words apart.

    Addresses and strides count words of a bank.
    """

    kind: str  # "conv", "lgap"
    layer: str  # label of the layer, for reports alone
    source: int  # address of the first word read
    word_stride: int  # from one word to the next inside a tap
    block_stride: int  # from one block to the next
    row_stride: int  # from one row of blocks to the next
    words: int  # words in one tap
    repeat: int  # uses of each word (duplicated inputs)
    taps: int  # 9 or 1
    rows: int  # rows of blocks
    columns: int  # blocks in a row
    target: int  # address of the first word written
    target_block_stride: int
    target_row_stride: int  # lgap: from the average word to the learned word
    tiles: int
    slot: int  # first tile's place inside its word, in tiles
    valid: int  # outputs of the last tile that are real
    tile_words: int  # weight words of one tile
    pool: bool = False
    vector: bool = False  # one pixel: bank 0 alone
    logits: bool = False
    gap: bool = False  # lgap: write the average word
    depthwise: bool = False  # lgap: write the learned word
    bias: bool = False  # the first weight word of a tile holds its accumulators' start values
    shared: bool = False
    load: bool = False  # an image is loaded first
    result: bool = False  # a result leaves afterwards

    def encode(self) -> list[int]:
        """STEP_WORDS 16-bit words.  Counts are stored minus one."""
        flags = (int(self.kind == "lgap") | self.pool << 1 | self.vector << 2 | self.logits << 3 | (self.taps == 9) << 4
                 | self.gap << 5 | self.depthwise << 6 | self.bias << 7 | (self.repeat - 1) << 8 | self.shared << 11)
        words = [flags | 1 << 15, self.source, self.word_stride, self.block_stride, self.row_stride, self.words - 1, self.columns - 1,
                 self.rows - 1, self.target, self.target_block_stride, self.target_row_stride, self.tiles - 1, self.slot, self.valid,
                 self.tile_words]
        assert len(words) == STEP_WORDS and all(0 <= w < 1 << 16 for w in words), self
        return words


@dataclass(frozen=True)
class Transfer:
    """`words` weight words for the array.  `resident` in 16 of them are read from the feature banks' free rows, the rest from
    the weight stream, evenly mixed."""

    words: int
    resident: int


@dataclass(frozen=True)
class AcceleratorConfig:
    """What the hardware is built from.  config.json holds the fields that differ from their defaults."""

    pixels: int
    lanes: int
    outputs: int
    encoder: str
    levels: int
    size: int
    encoder_bits: int  # bits of a colour byte multiplied a cycle; 0: a byte, by multipliers
    classes: int
    program: tuple[Step, ...]
    accumulator_bits: int
    feature_words: int  # depth of a bank
    technology: str  # of the banks, see rtl.spram
    popcount: str  # style of the popcounts, see rtl.popcount
    weights: str  # "memory": all in one memory; "stream": through a ring filled by the weight stream
    weight_words: int  # depth of that memory or ring
    transfers: tuple[Transfer, ...] = ()  # of one frame (weights == "stream")
    resident_base: int = 0  # first resident row, behind all features; 0: there are none
    resident_rows: int = 0  # rows of pixels * lanes bits, loaded once after reset
    latent_base: int = 0
    latent_words: int = 0
    map_pixels: int = 0  # pixels of a block that exist in the map that is pooled globally (a mask)
    logits_odd: bool = False  # fan-in of the logits is odd
    frames: int = 1  # images of one pass through the program
    frame_stride: int = 0  # words from a map of a frame to that of the next one in the same pass
    learning: LearnPlan | None = None  # the program then ends with the latent, or the layer beside it, and a learner classifies
    text: str = field(default="", init=False, repr=False, compare=False)  # config.json as it was read; not part of the hardware

    @property
    def columns(self) -> int:
        """Pixels of a block row."""
        return self.pixels // 2

    @property
    def word_bits(self) -> int:
        """Bits of a weight word."""
        return self.outputs * self.lanes

    @property
    def row_bits(self) -> int:
        """Bits at one address of all banks."""
        return self.pixels * self.lanes

    @property
    def rows_per_word(self) -> int:
        """Rows of the banks that hold one weight word."""
        return self.outputs // self.pixels

    @property
    def planes(self) -> tuple[int, int, int]:
        """Levels of each plane of a pixel."""
        return planes(self.encoder, self.levels)

    @property
    def input_words(self) -> int:
        """Words of one encoded pixel."""
        return -(-sum(self.planes) // self.lanes)

    @property
    def feature_end(self) -> int:
        """Words of a bank from address 0 on in which all features lie."""
        bounds = [self.feature_words, self.resident_base or self.feature_words]
        return min(bounds + ([self.learning.learn_base] if self.learning else []))

    @property
    def boot_rows(self) -> int:
        """Rows that the weight stream brings right after reset: the tables of a learner's classes, then the resident rows."""
        return self.resident_rows + (self.learning.class_rows if self.learning and self.learning.boot == "rows" else 0)

    @property
    def boot_base(self) -> int:
        """First of the boot rows."""
        return self.resident_base - (self.boot_rows - self.resident_rows)

    @property
    def shipped_base(self) -> int:
        """First word of the shipped weights in the memory of weights, for a learner that boots from "words"."""
        return sum(step.tiles * step.tile_words for step in self.program)

    @property
    def result_classes(self) -> int:
        """Classes that a result can name."""
        return self.learning.max_classes if self.learning else self.classes

    @property
    def thresholds(self) -> bool:
        """Whether accumulators begin with start values."""
        return any(step.bias for step in self.program)

    def program_words(self) -> list[int]:
        """The program as 16-bit words: steps, and a stop wherever something else happens."""
        words: list[int] = []
        for step, following in zip(self.program, (*self.program[1:], None)):
            words += step.encode()
            if following is None:
                words.append(REWIND | RESULT * step.result | LOAD * self.program[0].load)
            elif step.result or following.load:
                words.append(RESULT * step.result | LOAD * following.load)
        return words

    def transfer_words(self) -> list[int]:
        """Transfers as 16-bit words in pairs: low 16 bits of the count minus one, then its high bits and the share."""
        words = []
        for t in self.transfers:
            count = t.words - 1
            words += [count & 0xFFFF, count >> 16 | t.resident << 8]
        return words

    def to_dict(self) -> dict[str, Any]:
        """All fields of the hardware as plain values, defaults included."""
        values = asdict(self)
        del values["text"]
        return values

    def to_json(self) -> str:
        """The text of config.json.  A configuration that was read gives back the text that it was read from."""
        if self.text:
            return self.text
        values = _chosen(self) | {"program": [_chosen(step) for step in self.program]}
        if self.transfers:
            values["transfers"] = [_chosen(transfer) for transfer in self.transfers]
        if self.learning:
            values["learning"] = _chosen(self.learning)
        return json.dumps(values, indent=1, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "AcceleratorConfig":
        """Inverse of `to_json`, for the text of any version; fields that the text leaves out have their defaults.

        Raises ValueError, KeyError, TypeError or AttributeError for a text that is no configuration.
        """
        values = json.loads(text)
        values["program"] = tuple(Step(**{RENAMED.get(key, key): value for key, value in step.items()}) for step in values["program"])
        values["transfers"] = tuple(Transfer(**transfer) for transfer in values.get("transfers", ()))
        values["learning"] = LearnPlan(**values["learning"]) if "learning" in values else None
        hardware = [f for f in fields(cls) if f.init]
        config = cls(**{f.name: values[f.name] for f in hardware if f.default is MISSING or f.name in values})
        object.__setattr__(config, "text", text)
        return config

    @property
    def id(self) -> str:
        """8 hexadecimal digits that name this hardware: the first ones of the SHA-256 of config.json (docs/architecture.md)."""
        return sha256(self.to_json().encode()).hexdigest()[:8]


def _chosen(part: Any) -> dict[str, Any]:
    """{field: value} of a dataclass, without the fields that have their default."""
    values = {f.name: (getattr(part, f.name), f.default) for f in fields(part) if f.init}
    return {name: value for name, (value, default) in values.items() if default is MISSING or value != default}


def check_shape(pixels: int, lanes: int, outputs: int) -> None:
    """Raises UsageError unless these are legal dimensions of the engine."""
    def is_power_of_two(n):
        return n >= 1 and n & (n - 1) == 0

    if pixels not in (4, 8, 16):
        raise UsageError(f"--pixels {pixels}: expected 4, 8 or 16 (blocks of 2x2, 2x4 or 2x8 pixels)")
    if lanes not in (16, 32, 64, 128):
        raise UsageError(f"--lanes {lanes}: expected 16, 32, 64 or 128")
    if not is_power_of_two(outputs) or not pixels <= outputs <= lanes:
        raise UsageError(f"--outputs {outputs}: expected a power of two from --pixels ({pixels}) to --lanes ({lanes})")
