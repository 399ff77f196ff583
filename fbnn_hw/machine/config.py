"""AcceleratorConfig: all that the hardware is built from.  Plain, frozen, hashable; no checkpoint, no weights.

One engine works through a program of `Step`s.  It handles `pixels` (Q) pixels x `lanes` (L) input channels x `outputs` (P)
output channels a cycle.  Feature maps lie in Q banks: a block is 2 x Q/2 pixels and pixel (y, x) lies in bank
(y % 2) * Q/2 + x % (Q/2), L channels a word.  A vector lies in bank 0.
"""

import json
from collections.abc import Iterable
from dataclasses import MISSING, dataclass, field, fields
from hashlib import sha256

from ..base.errors import UsageError
from ..ir.ops import level_bits, planes
from . import timing
from .learner import LearnPlan
from .step import FIELD_VALUES, LOAD, RESULT, REWIND, Step, read_field, step_words, without_defaults
from .transfers import Sources, Transfer

RGB_BITS = 24
"""Bits of a pixel, where images come as RGB bytes."""


def image_bytes(size: int, pixel_bits: int = RGB_BITS) -> int:
    """Bytes of an image of size x size pixels.  pixel_bits: of a pixel; pixels follow each other without a gap."""
    return -(-size ** 2 * pixel_bits // 8)


def byte_planes(lanes: int, pixels: int = 1) -> int:
    """Number of bits of each byte that one word holds, which has bits of so many pixels."""
    return max(n for n in range(1, 9) if 3 * pixels * (2 ** n - 1) <= lanes)


def byte_words(lanes: int, pixels: int = 1) -> tuple[tuple[int, ...], ...]:
    """Return for each word of a pixel the bits of one byte that its lanes hold.

    A bit stands in several lanes, so that a read counts it by its value: the lowest bit of the word
    once, the next one twice, the next one four times.  Red has the first lanes of the word, then come
    green and blue.  A word of several pixels begins with the leftmost one; the last is the pixel itself.
    """
    planes = byte_planes(lanes, pixels)
    return tuple(tuple(bit for bit in range(min(8, low + planes) - 1, low - 1, -1) for _ in range(1 << bit - low))
                 for low in range(0, 8, planes))


@dataclass(frozen=True)
class AcceleratorConfig:
    """The hardware's parameters, all of them.  config.json holds the fields that differ from their defaults."""

    pixels: int
    lanes: int
    outputs: int
    encoder: str
    levels: int
    size: int
    encoder_bits: int | None  # bits of a colour's byte that the encoder takes a cycle; 0: a byte, by multipliers; None: pixels are levels
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
    late_base: int = 0  # first row that the stream fills anew in each pass
    late_rows: int = 0  # number of late rows; resident rows are used before them, all from the last one down
    latent_base: int = 0
    latent_words: int = 0
    map_pixels: int = 0  # mask of the pixels of a block that the globally pooled map has
    logits_odd: bool = False  # fan-in of the logits is odd
    logit_bits: int = 0  # of a logit; 0: one more than an accumulator has
    order: tuple[int, ...] = ()  # lists of reads, see `read_word`; none: the loops over taps and words
    quarters: bool = False  # the image is stored as four, of its even and odd rows and columns
    packed: bool = False  # the image, of one bit a pixel, is stored as a vector
    word_pixels: int = 1  # that a word of an image of bytes has bits of: the word's own and those to the left of it
    threshold: int = 0  # of the grey image, with encoder "binarize"
    table: tuple[int, ...] = ()  # of the bytes, with encoder "bits8"; none: the bytes as they are
    memory_registers: int = 0  # that the data of banks and weights passes on its way to the array
    image_steps: int = 0  # after so many steps of the program the next image is loaded beside the rest; 0: it is loaded between passes
    start_reads: bool = False  # with thresholds: all steps of the array have bias words, and each block begins with a start read
    sleeps: bool = False  # between frames: clock stopped, flash in deep power-down, banks in standby
    beat_bits: int = 8  # of a beat of the weight stream: a byte of a flash, two of one at twice the clock, a word of an SDRAM
    burst: int = 1  # beats of the weight stream that can be taken in a row; a pause of a cycle follows
    loads: bool = False  # the memory of all weights is filled through the weight stream after reset, with a weight file
    keeps: bool = False  # a keeper saves what the learner knows in the flash, and loads it after reset
    camera: str = ""  # sensor whose images it takes on a board, of `device.CAMERAS`; none: they come over the link
    display: str = ""  # beside the sensor, of `device.DISPLAYS`; none: LEDs alone
    learning: LearnPlan | None = None  # a learner classifies; the program ends with the latent, or the layer beside it
    text: str = field(default="", init=False, repr=False, compare=False)  # config.json as it was read; not part of the hardware

    @property
    def sdram(self) -> bool:
        """Whether the weight stream comes from an SDRAM."""
        return self.burst > 1

    @property
    def way(self) -> str:
        """How it has its weights, a key of `targets.WAYS`."""
        return "sdram" if self.sdram else "double" if self.beat_bits > 8 else "ram" if self.loads else self.weights

    @property
    def takes_weights(self) -> bool:
        """Whether weights come through a port, `weights`."""
        return self.weights == "stream" or self.loads

    @property
    def load_bytes(self) -> int:
        """Bytes of a weight file: the configuration's mark, the weight words, a CRC-32."""
        return 4 + self.weight_words * self.word_bits // 8 + 4

    @property
    def stream_bits_per_cycle(self) -> float:
        """Bits that a weight stream brings in a cycle, on average."""
        return self.beat_bits * self.burst / (self.burst + 1)

    @property
    def loads_beside(self) -> bool:
        """Whether the next image is loaded while the program runs, so that the banks have a port for writes of their own."""
        return self.image_steps > 0

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
    def lists(self) -> bool:
        """Whether steps have lists of reads."""
        return bool(self.order)

    @property
    def step_words(self) -> int:
        """16-bit words of a step."""
        return step_words(self.lists)

    @property
    def shift(self) -> int:
        """Places by which accumulators are shifted between two words of a pixel's bytes; 0 where the network reads no bytes."""
        return byte_planes(self.lanes, self.word_pixels) if self.encoder == "bits8" else 0

    @property
    def spreads(self) -> bool:
        """Whether some steps are spread, see `Step.spread`."""
        return any(step.spread for step in self.program)

    @property
    def paired(self) -> bool:
        """Whether a spread step makes each read of its list twice."""
        return any(step.paired for step in self.program)

    def listed_words(self, step: Step) -> set[tuple[int, int]]:
        """{(first word, words)} of a bank that the lists of a step read."""
        lists = 1 if step.rewind else step.tiles
        places = set()
        for word in self.order[step.order:step.order + lists * step.listed]:
            address, row, column = read_field(word, "address"), read_field(word, "row") - 1, read_field(word, "column") - 1
            if step.vector:
                places.add(((address + step.source) % FIELD_VALUES, 1))
            else:
                first = (address + step.source - row * step.row_stride - column) % FIELD_VALUES
                places.add((first, step.source_rows * step.source_columns))
        return places

    @property
    def planes(self) -> tuple[int, ...]:
        """Levels of each plane of a pixel."""
        return {"binarize": (1,), "bits8": (256,) * 3}.get(self.encoder) or planes(self.encoder, self.levels)

    @property
    def takes_levels(self) -> bool:
        """Whether an image comes as the packed levels of its pixels (`reference.encode.packed`), not as RGB bytes."""
        return self.encoder_bits is None

    @property
    def level_bits(self) -> tuple[int, ...]:
        """Bits of each level of a pixel, where an image comes as levels."""
        return level_bits(self.encoder, self.levels)

    @property
    def pixel_bits(self) -> int:
        """Bits of a pixel, as it comes in."""
        return sum(self.level_bits) if self.takes_levels else RGB_BITS

    @property
    def image_bytes(self) -> int:
        """Bytes of an image, as it comes in."""
        return image_bytes(self.size, self.pixel_bits)

    @property
    def score_bits(self) -> int:
        """Bits of a logit, as it comes out."""
        return self.logit_bits or self.accumulator_bits + 1

    @property
    def encoder_rate(self) -> int | None:
        """Bits of a byte that the encoder takes a cycle, as `timing` counts them: bytes that are not summed up are taken whole."""
        return 0 if self.encoder == "bits8" else self.encoder_bits

    @property
    def pieces(self) -> tuple[timing.Piece, ...]:
        """The words that the encoder gives for a pixel, one a cycle."""
        if self.encoder == "bits8":
            return tuple((0, 0, 0, 3 * self.word_pixels * len(word), True) for word in byte_words(self.lanes, self.word_pixels))
        return timing.encoder_pieces(self.planes, self.lanes)

    @property
    def input_words(self) -> int:
        """Words of one encoded pixel."""
        return len(byte_words(self.lanes, self.word_pixels)) if self.encoder == "bits8" else -(-sum(self.planes) // self.lanes)

    @property
    def feature_end(self) -> int:
        """First word of a bank behind the feature maps."""
        bounds = [self.feature_words, self.resident_base or self.feature_words]
        return min(bounds + ([self.learning.learn_base] if self.learning else []))

    @property
    def late_end(self) -> int:
        """The row behind the late ones."""
        return self.late_base + self.late_rows

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
        """Address of the first shipped weight in the weight memory; a learner that boots from "words" reads them from there."""
        return sum(step.tiles * step.tile_words for step in self.program)

    @property
    def result_classes(self) -> int:
        """Classes that a result can name."""
        return self.learning.max_classes if self.learning else self.classes

    @property
    def result_bits(self) -> int:
        """Bits of a result: the class, and above it whether the learner answers "unknown"."""
        return (max(2, self.result_classes) - 1).bit_length() + bool(self.learning and self.learning.unknown)

    @property
    def thresholds(self) -> bool:
        """Whether a tile may begin with a bias word, which holds start values of its accumulators."""
        return any(step.bias for step in self.program)

    @property
    def start_bits(self) -> int:
        """Bits of the block RAM for a tile's start values, but for those below L; 0: they are in registers.

        A design with streamed weights has block RAM to spare, and registers beside no LUT take cells.
        """
        return self.outputs * (self.accumulator_bits - self.lanes.bit_length() + 1) if self.start_reads and self.weights == "stream" else 0

    def block_reads(self, step: Step) -> int:
        """Reads of a block."""
        return step.words * step.repeat * step.taps + (self.start_reads and step.bias)

    def program_words(self) -> list[int]:
        """The program as 16-bit words: steps, and a stop behind them."""
        words = [word for step in self.program for word in step.encode(self.lists)]
        return [*words, REWIND | RESULT * self.program[-1].result | LOAD * self.program[0].load]

    def sources(self, fetches: Iterable[int]) -> list[Sources]:
        """Where the words of a pass's fetches come from.  fetches: words of each, in order."""
        coming = iter([transfer for transfer in self.transfers if not transfer.after])
        once, result = self.resident_rows // self.rows_per_word, []
        for words in fetches:
            left, stay = words, 0
            while left > 0:
                transfer = next(coming)
                left, stay = left - transfer.words, stay + transfer.words - transfer.streamed
            resident = min(stay, once)
            once -= resident
            result.append(Sources(words, resident, stay - resident))
        return result

    def transfer_words(self) -> list[int]:
        """The transfers as pairs of 16-bit words."""
        return [word for transfer in self.transfers for word in transfer.encode()]

    def to_json(self) -> str:
        """The text of config.json.  A configuration that was read gives back the text that it was read from."""
        if self.text:
            return self.text
        values = without_defaults(self) | {"program": [step.to_json() for step in self.program]}
        if self.transfers:
            values["transfers"] = [without_defaults(transfer) for transfer in self.transfers]
        if self.learning:
            values["learning"] = without_defaults(self.learning)
        return json.dumps(values, indent=1, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "AcceleratorConfig":
        """Inverse of `to_json`, for the text of any version; fields that the text leaves out have their defaults.

        Raises ValueError, KeyError, TypeError or AttributeError for a text that is no configuration.
        """
        values = json.loads(text)
        values["program"] = tuple(map(Step.from_json, values["program"]))
        values["transfers"] = tuple(Transfer(**transfer) for transfer in values.get("transfers", ()))
        values["learning"] = LearnPlan(**values["learning"]) if "learning" in values else None
        for name in ("order", "table"):
            values[name] = tuple(values.get(name, ()))
        hardware = [f for f in fields(cls) if f.init]
        config = cls(**{f.name: values[f.name] for f in hardware if f.default is MISSING or f.name in values})
        object.__setattr__(config, "text", text)
        return config

    @property
    def id(self) -> str:
        """8 hexadecimal digits that name this hardware: the first ones of the SHA-256 of config.json (docs/architecture.md)."""
        return sha256(self.to_json().encode()).hexdigest()[:8]


def check_shape(pixels: int, lanes: int, outputs: int) -> None:
    """Raises UsageError unless these are legal dimensions of the engine."""
    if pixels not in (4, 8, 16):
        raise UsageError(f"--pixels {pixels}: expected 4, 8 or 16 (blocks of 2x2, 2x4 or 2x8 pixels)")
    if lanes not in (16, 32, 64, 128):
        raise UsageError(f"--lanes {lanes}: expected 16, 32, 64 or 128")
    if outputs.bit_count() != 1 or not pixels <= outputs <= lanes:
        raise UsageError(f"--outputs {outputs}: expected a power of two from --pixels ({pixels}) to --lanes ({lanes})")
