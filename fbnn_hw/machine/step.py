"""A step of the program, its fields, and the reads of its lists, each packed and unpacked in one place."""

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, NamedTuple

FIELD_VALUES = 1 << 16
"""Values that a word of the program can hold: addresses, counts."""

REWIND, RESULT, LOAD = 1, 2, 4
"""Flags of a stop, the word where a step could begin with bit 15 clear.

REWIND: the program starts again.  RESULT: a result leaves.  LOAD: the next image is loaded after that.
"""


class Field(NamedTuple):
    """A value of an encoded step: its place in the program, its register in the hardware, its meaning.

    bit, bits: place in the word.
    """

    name: str  # attribute of `Step`
    word: int  # number of the 16-bit word
    width: str | int  # of the register, as `rtl.sequencer.Widths` names it, or its bits
    meaning: str
    bit: int = 0
    bits: int = 16
    less: int = 0  # the value is stored less this
    listed: bool = False  # only designs with lists of reads have it
    rtl: str = ""  # name of the register, which config.json of version 0.1.0 had as its key; "": as `name`

    @property
    def register(self) -> str:
        return self.rtl or self.name

    def stored(self, step: "Step") -> int:
        """The bits that stand for the step's value."""
        return getattr(step, self.name) - self.less

    def read(self, words: Sequence[int]) -> int:
        """The value in the words of a step."""
        return (words[self.word] >> self.bit & (1 << self.bits) - 1) + self.less


def _flag(name: str, bit: int, meaning: str, listed: bool = False) -> Field:
    """A field of one bit in the first word."""
    return Field(name, 0, 1, meaning, bit, 1, listed=listed)


FIELDS = (
    _flag("lgap", 0, "global pooling, by the same loops: a tile is a word of channels, a block is a lane, a word is a block of the map"),
    _flag("pool", 1, "the OR of 2 x 2 pixels is kept"),
    _flag("vector", 2, "one pixel: bank 0 alone"),
    _flag("logits", 3, "the sums leave as logits"),
    _flag("window", 4, "nine taps, else one"),
    _flag("gap", 5, "lgap: the average word is written"),
    _flag("depthwise", 6, "lgap: the learned word is written"),
    _flag("bias", 7, "a tile's weight words begin with those of its accumulators' start values"),
    Field("repeat", 0, "repeat", "uses of each word (duplicated inputs)", 8, 3, 1),
    Field("source", 1, "address", "address of the first word read"),
    Field("stride", 2, "address", "words from one word to the next inside a tap; spread: tile slot that the first tile reads", rtl="step"),
    Field("block_stride", 3, "address", "words from one block to the next", rtl="advance"),
    Field("row_stride", 4, "address", "words from one row of blocks to the next", rtl="row"),
    Field("words", 5, "words", "words in one tap; with lists, reads of a tile", less=1),
    Field("columns", 6, "columns", "blocks in a row", less=1),
    Field("rows", 7, "rows", "rows of blocks", less=1),
    Field("target", 8, "address", "address of the first word written"),
    Field("target_block_stride", 9, "address", "words from one written block to the next", rtl="target_advance"),
    Field("target_row_stride", 10, "address", "the same of rows; lgap: from the average word to the learned word", rtl="target_row"),
    Field("tiles", 11, "tiles", "tiles of P output channels", less=1),
    Field("tile_slot", 12, "slots", "tile slot of the first tile, in its word", rtl="slot"),
    Field("valid", 13, "valid", "outputs of the last tile that are real"),
    Field("tile_words", 14, "tile_words", "weight words of a tile"),
    _flag("rewind", 12, "all tiles have one list, else the next tile's list follows", True),
    _flag("first_pixel", 13, "pool: the first of four pixels is kept, not their OR", True),
    _flag("odd_height", 14, "the last row of the blocks that are read has one row of pixels", True),
    Field("order", 15, "order", "place of the first list of reads", listed=True),
    Field("plane", 16, "address", "words from one word of a written block to the next", listed=True),
    Field("source_rows", 17, "source_rows", "rows of blocks of the maps that are read", less=1, listed=True),
    Field("source_columns", 18, "source_columns", "blocks in such a row", less=1, listed=True),
    Field("valid_columns", 19, "column", "columns of pixels in the last of these blocks", less=1, listed=True),
    _flag("spread", 8, "output p reads lane p of a tile slot, in two reads in which all other lanes cancel", True),
    _flag("ones", 9, "spread: all weights are +1, and there are no weight words", True))
"""The words of a step, in the order of the registers.  Bit 15 of the first word is 1, else it is a stop."""

RENAMED = {field.rtl: field.name for field in FIELDS if field.rtl} | {"step": "word_stride", "source_slot": "source_tile_slot"}
"""Keys of a step as config.json has, or in version 0.1.0 had, them, and their names here."""

WRITTEN = {RENAMED[key]: key for key in ("slot", "source_slot")}
"""Attributes of a step that config.json still writes by the older key, since the configuration id is made of its bytes."""


def step_fields(lists: bool) -> list[Field]:
    """The fields of a design with or without lists of reads."""
    return [field for field in FIELDS if lists or not field.listed]


def step_words(lists: bool) -> int:
    """16-bit words of an encoded step; one is read each cycle."""
    return 1 + max(field.word for field in step_fields(lists))


@dataclass(frozen=True)
class Step:
    """One run of the engine: `tiles` tiles of P output channels over a whole map, all in one group.

    For every tile, block row, block, tap, word and repeat the engine reads L channels of Q pixels once.  Addresses and strides count words
    of a bank.  FIELDS says what the fields mean that the program has; a spread step has the weights of L pairs of reads in a weight word,
    lane j of output p for pair j.
    """

    kind: str  # "conv", "lgap"
    layer: str  # label of the layer, for reports alone
    source: int
    word_stride: int
    block_stride: int
    row_stride: int
    words: int
    repeat: int
    taps: int  # 9 or 1
    rows: int
    columns: int
    target: int
    target_block_stride: int
    target_row_stride: int
    tiles: int
    tile_slot: int
    valid: int
    tile_words: int
    pool: bool = False
    vector: bool = False
    logits: bool = False
    gap: bool = False
    depthwise: bool = False
    bias: bool = False
    order: int = 0
    rewind: bool = False
    plane: int = 0
    source_rows: int = 1
    source_columns: int = 1
    odd_height: bool = False
    valid_columns: int = 1
    first_pixel: bool = False
    spread: bool = False
    source_tile_slot: int = 0  # spread: the one that the first tile reads; those of the list's reads count from it on
    paired: bool = False  # spread: a read of the list is made twice; else the list has both
    ones: bool = False
    load: bool = False  # an image is loaded first
    result: bool = False  # a result leaves afterwards

    @property
    def lgap(self) -> bool:
        return self.kind == "lgap"

    @property
    def window(self) -> bool:
        return self.taps == 9

    @property
    def stride(self) -> int:
        return self.source_tile_slot if self.spread else self.word_stride

    @property
    def listed(self) -> int:
        """Reads in the list of a tile."""
        return self.words // 2 if self.paired else self.words

    def encode(self, lists: bool = False) -> list[int]:
        """`step_words` 16-bit words."""
        words = [1 << 15, *[0] * (step_words(lists) - 1)]
        for field in step_fields(lists):
            stored = field.stored(self)
            if not 0 <= stored < 1 << field.bits:  # no assert: config.json may be another's
                raise ValueError(f"{field.name} of {self} has no place in {field.bits} bits")
            words[field.word] |= stored << field.bit
        return words

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Step":
        """Inverse of `to_json`, for the keys of any version."""
        if values.pop("shared", False):  # version 0.1.0 wrote it of every step
            raise ValueError("a step that several frames share")
        return cls(**{RENAMED.get(key, key): value for key, value in values.items()})

    def to_json(self) -> dict[str, Any]:
        """The step as config.json has it."""
        return {WRITTEN.get(name, name): value for name, value in without_defaults(self).items()}


def decode(words: Sequence[int], lists: bool = False) -> tuple[list[dict[str, int]], int]:
    """([{field: value} of each step], the stop) of a program, counts as they are meant."""
    steps, at, count = [], 0, step_words(lists)
    while words[at] >> 15:
        steps.append({field.name: field.read(words[at:at + count]) for field in step_fields(lists)})
        at += count
    assert len(words) == at + 1
    return steps, words[at]


def without_defaults(part: Any) -> dict[str, Any]:
    """{field: value} of a dataclass, for the fields whose value is not the default."""
    values = {f.name: (getattr(part, f.name), f.default) for f in fields(part) if f.init}
    return {name: value for name, (value, default) in values.items() if default is MISSING or value != default}


READ_FIELDS = {"address": 16, "y": 1, "x": 3, "row": 2, "column": 2, "shift": 1, "tile_slot": 3}
"""Bits of the fields of a read in a list, lowest first (`read_word`)."""

READ_BITS = sum(READ_FIELDS.values())

TILE_SLOTS = 1 << READ_FIELDS["tile_slot"]
"""Tile slots of a word that a read of a spread step can name."""


def read_word(address: int, y: int, x: int, row: int = 0, column: int = 0, shift: bool = False, tile_slot: int = 0) -> int:
    """Pack a read of a list into an integer, the address in its lowest bits.

    address: distance in words, modulo 2^16, from the block at work to the word of pixel 0 of the
    moved block.  row, column: blocks by which the block is moved, -1 to 2.  y, x: pixels by which it
    is moved besides.  shift: the accumulator is shifted before the read.  tile_slot: the one that a
    spread step reads, counted from its `source_tile_slot` on.
    """
    word, at = 0, 0
    for value, width in zip((address % FIELD_VALUES, y, x, row + 1, column + 1, int(shift), tile_slot), READ_FIELDS.values()):
        if not 0 <= value < 1 << width:
            raise ValueError(f"no read {address, y, x, row, column, tile_slot}")
        word |= value << at
        at += width
    return word


def moved_read(word: int, distance: int, tile_slots: int = 0) -> int:
    """The read `word` with its address `distance` words and its tile slot `tile_slots` further on."""
    tile_slot = read_field(word, "tile_slot")
    moved = (tile_slot + tile_slots) % TILE_SLOTS - tile_slot
    return word - word % FIELD_VALUES + (word + distance) % FIELD_VALUES + (moved << READ_BITS - READ_FIELDS["tile_slot"])


def read_field(word: int, name: str) -> int:
    """Return the field `name` of a read that `read_word` packed."""
    low = sum(list(READ_FIELDS.values())[:list(READ_FIELDS).index(name)])
    return word >> low & (1 << READ_FIELDS[name]) - 1
