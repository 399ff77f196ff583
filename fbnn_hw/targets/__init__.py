"""Parts: what there is on them.  One table; a line per part, its datasheet cited."""

from dataclasses import dataclass

from ..errors import UsageError


@dataclass(frozen=True)
class Target:
    """name; part: full name; datasheet; clock_hz: what frames/s are quoted at; lut4: LUTs for the accelerator (None: no limit);
    bank_words, bank_bits, banks: single-port RAM for features (None: as needed); block_bits, blocks, block_width: block
    RAM; technology: of the banks; weights: "memory" or "stream"; shape: (pixels, lanes, outputs) tried in this order."""

    name: str
    part: str
    datasheet: str
    clock_hz: int
    lut4: int | None
    banks: int | None
    bank_words: int | None
    bank_bits: int | None
    blocks: int | None
    block_bits: int | None
    block_width: int | None
    technology: str
    weights: str
    shapes: tuple
    ring_words: int = 0
    encoder_bits: int = 8


TARGETS = {
    "ice40": Target(
        "ice40", "iCE40UP5K-SG48", "Lattice FPGA-DS-02008, iCE40 UltraPlus Family: 5280 LUTs, 30 EBR of 4 kbit, 4 SPRAM of 256 kbit",
        36_000_000, 4600, 4, 16384, 16, 30, 4096, 16, "ice40-spram", "stream", ((4, 16, 16), (4, 16, 8), (4, 16, 4)),
        ring_words=512, encoder_bits=4),
    "generic": Target(
        "generic", "memories of any size, no vendor primitives", "none", 100_000_000, None, None, None, None, None, None, None,
        "wrapper", "memory", ((4, 64, 16), (4, 32, 16), (4, 16, 16))),
}


def target(name):
    """The target of that name; raises UsageError with the list."""
    if name not in TARGETS:
        raise UsageError(f"--target {name}: no such target, expected one of {', '.join(TARGETS)}")
    return TARGETS[name]
