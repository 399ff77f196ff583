"""The registers by which a processor drives an accelerator over a bus of 32 bits: `generate --wrapper wishbone` and `axi-lite`.

From this table come the hardware (`rtl.registers`), and registers.h, registers.json and registers.md of a design (`design.registers`).
Offsets count bytes.  A read outside the table gives 0, a write outside it changes nothing, and both are answered.
"""

from typing import NamedTuple

from .config import AcceleratorConfig
from .learner import LearnPlan
from .protocol import Command, Space, config_mark

VERSION = 1
MAGIC = int.from_bytes(b"nbf", "little")
ADDRESS_BITS = 13
"""Of a byte."""
LOGITS, MOST_LOGITS = 0x1000, 1 << ADDRESS_BITS - 3
"""Offset of the window of logits, a word each, and how many it holds."""
PATIENCE = 255
"""Clocks that a write to PIXELS waits for room before it is dropped."""
MOST_WORDS = 4
"""Words of 32 bits of the longest word of a learner's memory, that of 128 lanes."""


class Field(NamedTuple):
    """Some bits of a register.  low: the number of the lowest."""

    name: str
    low: int
    bits: int
    meaning: str

    @property
    def mask(self) -> int:
        return (1 << self.bits) - 1 << self.low


class Register(NamedTuple):
    """32 bits at an offset.

    access: "constant", "read", "write", "read, write" or "read, clear", where a 1 that is written clears the bit.  learns: only designs
    that learn have it.  words: that follow each other.  loads: only designs whose weights are loaded have it.
    streams: only those whose images come as a stream have it, or with False only the others.
    """

    name: str
    offset: int
    access: str
    meaning: str
    fields: tuple[Field, ...] = ()
    learns: bool = False
    words: int = 1
    loads: bool = False
    streams: bool | None = None

    def pack(self, *values: int) -> int:
        """The word with these values of its fields, in their order."""
        word = 0
        for field, value in zip(self.fields, values, strict=True):
            if not 0 <= value < 1 << field.bits:
                raise ValueError(f"{self.name}.{field.name}: {value} has no place in {field.bits} bits")
            word |= value << field.low
        return word


REGISTERS = (
    Register("ID", 0x00, "constant", "what this is", (
        Field("VERSION", 0, 8, f"of the registers, {VERSION}"), Field("MAGIC", 8, 24, f"{MAGIC:#x}, the letters fbn"))),
    Register("CONFIG", 0x04, "constant", "the configuration id of config.json, which names the hardware"),
    Register("IMAGE", 0x08, "constant", "of an image", (
        Field("BYTES", 0, 24, "bytes, as PIXELS takes them"), Field("PIXEL_BITS", 24, 5, "bits of a pixel: 24 of RGB, fewer of levels"),
        Field("STREAMS", 29, 1, "images come at the port s_axis_image, and there is no PIXELS"),
        Field("LOADS", 30, 1, "its weights are loaded, by WEIGHTS"), Field("LEARNS", 31, 1, "the design learns"))),
    Register("CLASSES", 0x0C, "constant", "numbers of classes", (
        Field("SHIPPED", 0, 16, "known after reset"), Field("MOST", 16, 16, "that there is room for"))),
    Register("CONTROL", 0x20, "write", "", (
        Field("RESTART", 0, 1, "1: a reset of the accelerator and of these registers; a learner begins again"),
        Field("FILL", 1, 1, "1: zeros complete the image that was begun; nothing where none was"))),
    Register("STATUS", 0x24, "read, clear", "", (
        Field("DONE", 0, 1, "RESULT and the logits are those of an image; a 1 takes the result, and only then comes the next image's"),
        Field("FINISHED", 1, 1, "a command ended; a 1 clears it"),
        Field("LOST", 2, 1, "a write was dropped: pixels without room, a command or an access while PENDING, a part of a word; "
              "a 1 clears it"),
        Field("ROOM", 3, 1, "PIXELS has room for a word"), Field("INSIDE", 4, 1, "an image was begun and is not complete"),
        Field("BUSY", 5, 1, "the result of a whole image is to come"),
        Field("PENDING", 6, 1, "a command or an access is not over"),
        Field("REFUSED", 7, 1, "the last command had an illegal label, or the learner was frozen"),
        Field("FROZEN", 8, 1, "the learner is frozen"),
        Field("LOADED", 9, 1, "the weights are loaded, of a design with LOADS; before, no image is taken"),
        Field("STRANGE", 10, 1, "the weights are of another configuration; nothing was loaded"),
        Field("DAMAGED", 11, 1, "the check sum of the weights is wrong"),
        Field("KNOWN", 16, 16, "classes that the learner knows now; so many logits are there"))),
    Register("INTERRUPT", 0x28, "read, write", "bits of STATUS that raise `irq`, a level", (
        Field("DONE", 0, 1, "a result is there"), Field("FINISHED", 1, 1, "a command ended"))),
    Register("PIXELS", 0x2C, "write", f"four bytes of an image, the first lowest; waits up to {PATIENCE} clocks for room.  An image begins "
             "with a word; bytes of its last word that are too many are dropped", streams=False),
    Register("RESULT", 0x30, "read", "while DONE", (
        Field("CLASS", 0, 16, "the class"), Field("UNKNOWN", 16, 1, "the learner takes the image for none that it knows"),
        Field("WRONG", 17, 1, "with STREAMS: the packet of the image had another length"))),
    Register("CYCLES", 0x34, "read", "clocks from an image's last byte to its result, modulo 2^24; while DONE"),
    Register("IMAGES", 0x38, "read", "results taken since reset, modulo 2^16"),
    Register("WEIGHTS", 0x3C, "read, write", "writes: four bytes of weights.bin, the first lowest, from its first byte on after a reset; "
             "reads: the CRC-32 of what has come, without the file's own", loads=True),
    Register("COMMAND", 0x40, "write", "a command to the learner; dropped while PENDING", (
        Field("NUMBER", 0, 3, ", ".join(f"{c.value} {c.name.lower()}" for c in Command if c) + "; send no 0, others do nothing"),
        Field("LABEL", 8, 16, "learn, store: the class number"),
        Field("COUNT", 24, 8, "rehearse: replays; freeze: 1 or 0")), True),
    Register("ACCESS", 0x48, "write", "a word of the learner's memory is read into DATA, or written from it; dropped while PENDING", (
        Field("SPACE", 0, 3, ", ".join(f"{s.value} {s.name.lower()}" for s in Space)), Field("WRITE", 7, 1, "1: written"),
        Field("ADDRESS", 8, 24, "of the word")), True),
    Register("DATA", 0x60, "read, write", "reads: the word that the last access read; writes: the one that the next writes.  The lowest 32 "
             "bits come first", learns=True, words=MOST_WORDS),
    Register("LOGITS", LOGITS, "read", "a signed number a class, while DONE; behind the last class anything", words=MOST_LOGITS))
"""In the order of their offsets."""

BY_NAME = {register.name: register for register in REGISTERS}


def of_design(config: AcceleratorConfig, streams: bool = False) -> list[Register]:
    """The registers that a design has, with as many words as it uses.  streams: its images come as a stream."""
    words = {"LOGITS": config.result_classes, "DATA": data_words(config.learning) if config.learning else 0}
    return [register._replace(words=words.get(register.name, register.words)) for register in REGISTERS
            if (config.learning or not register.learns) and (config.loads or not register.loads) and register.streams in (None, streams)]


def data_words(plan: LearnPlan) -> int:
    """Words of 32 bits of a word of a learner's memory."""
    return -(-plan.host_bits // 32)


def constants(config: AcceleratorConfig, streams: bool = False) -> dict[str, int]:
    """{name: value} of the constant registers of a design.  streams: its images come as a stream."""
    plan = config.learning
    values: dict[str, tuple[int, ...]] = {
        "ID": (VERSION, MAGIC), "IMAGE": (config.image_bytes, config.pixel_bits, streams, config.loads, plan is not None),
        "CLASSES": (config.classes, config.result_classes)}
    words = {name: BY_NAME[name].pack(*fields) for name, fields in values.items()}
    return words | {"CONFIG": int.from_bytes(config_mark(config.id), "big")}


def geometry(config: AcceleratorConfig) -> dict[str, tuple[int, str]]:
    """{name: (value, meaning)} of how the state of a design's learner lies in its memory; none of one that does not learn.

    No register has them: for a program they are constants of the configuration, and in hardware they would cost LUTs.
    """
    plan = config.learning
    return {} if plan is None else {
        "WORD_BITS": (plan.lanes, "L, bits of a word of a bank"), "BANKS": (plan.pixels, "Q, words of a row"),
        "CHUNKS": (plan.chunks, "rows of counters of a class behind a word of its weights"),
        "PLANES": (plan.planes, "planes of the mirror of the weights"), "FORGETS": (int(plan.forget), "1: a class can be forgotten"),
        "TABLE": (plan.learn_base, "the first row of the classes: counters and mirror"), "TABLE_ROWS": (plan.class_rows, "how many"),
        "SLOTS": (plan.slots, "exemplars that there is room for"), "SLOTS_BASE": (plan.slots_base, "the first row of the exemplars"),
        "SLOT_ROWS": (plan.slot_rows, "rows of an exemplar"),
        "SNAPSHOT_BYTES": (snapshot_bytes(plan), "most bytes of a snapshot of the driver")}


def snapshot_bytes(plan: LearnPlan) -> int:
    """Bytes of a snapshot of the driver fbnn.c where every slot has an exemplar; a learner of means or prototypes keeps none."""
    row = plan.pixels * -(-plan.lanes // 8)
    exemplars = 0 if plan.adds else plan.slots
    return 37 + 4 * plan.max_classes + plan.class_rows * row + exemplars * (2 + plan.slot_rows * row)
