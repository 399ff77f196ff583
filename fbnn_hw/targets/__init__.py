"""Parts: their LUTs, memories and clocks.  One table; a line per part, its datasheet cited."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations_with_replacement
from typing import Any

from ..base.errors import FitError, UsageError, nearest, show
from ..machine.config import AcceleratorConfig
from ..machine.step import READ_BITS
from .bridges import BRIDGES

Shape = tuple[int, int, int]
"""(pixels, lanes, outputs) of the engine."""


WAYS = {"memory": "chip", "stream": "flash", "double": "flash-2x", "sdram": "sdram", "ram": "ram"}
"""Ways to have weights, and what the user calls them: all on the chip, a stream from a flash at the clock of the design, from one at twice
that clock, from an SDRAM; all on the chip, in a memory that a program fills."""
ON_CHIP = "memory", "ram"
CHOSEN = "double", "sdram", "ram"
"""Ways that are taken only where they are asked for."""


def used_bits(width: int, granularity: int = 0) -> int:
    """Bits of a block RAM's word that a memory uses.  granularity: bits that are written apart, which it must not split; 0: none are."""
    if not granularity:
        return width
    bits = width // 9 * 8 or width  # of 9 bits a byte, 8
    return bits if granularity % bits == 0 else 0


def blocks_in(rows: Iterable[tuple[int, int]], bits: int, granularity: int = 0) -> int:
    """Block RAMs of a memory of words of `bits` bits in rows of (words, bits of a block RAM)."""
    return sum(-(-bits // used_bits(width, granularity)) for _, width in rows)


@cache
def _fewest_rows(shapes: tuple[tuple[int, int], ...], words: int, bits: int, granularity: int, most: int) -> tuple[tuple[int, int], ...]:
    """The fewest rows of block RAMs of some `shapes`, deepest first, that hold a memory in `most` block RAMs; () if none do."""
    each = {shape: blocks_in((shape,), bits, granularity) for shape in shapes}
    for count in range(1, 1 + -(-words // shapes[-1][0])):
        fitting = {rows: total for rows in combinations_with_replacement(shapes, count)
                   if (total := sum(each[shape] for shape in rows)) <= most and sum(depth for depth, _ in rows) >= words}
        if fitting:
            return min(fitting, key=fitting.__getitem__)
    return ()


@dataclass(frozen=True)
class Target:
    """A part, and what the planner tries on it."""

    name: str
    part: str  # full name
    datasheet: str
    clock_hz: int  # that frames/s are quoted at
    lut4: int | None  # LUTs for the accelerator; None: no limit
    banks: int | None  # single-port RAM for features: banks of bank_words words of bank_bits bits; None: block RAM, as needed
    bank_words: int | None
    bank_bits: int | None
    blocks: int | None  # block RAMs of block_bits bits; None: no limit
    block_bits: int | None
    block_width: int | None  # bits of a block RAM's widest word
    technology: str  # of the banks, see rtl.spram
    weights: tuple[str, ...]  # ways to have weights (WAYS), in the order in which they are tried; CHOSEN where asked for
    shapes: tuple[Shape, ...]  # largest first
    ring_words: int = 0  # of the weight ring
    encoder_bits: int | None = 8  # of a colour byte, that the encoder multiplies a cycle; 0: all, by multipliers; None: levels come in
    flash_hz: int | None = None  # fastest clock of the flash, and so of a design that streams from it without an SDRAM
    double_hz: int = 0  # clock of a design whose flash has twice its clock
    sdram_lines: int = 0  # data lines of an SDRAM beside the part, or inside its package
    sdram_hz: int = 0  # clock of a design with its weights in an SDRAM, if faster
    sdram_lut4: int = 0  # LUTs for the accelerator of such a design, if fewer: a larger one was not routed at that clock, or did not fit
    popcount: str = "lut4"  # "lut4": for LUTs of four inputs; "sum"
    memory_registers: int = 0  # of the memories of a large array (machine.timing), where a block RAM's own delay binds its clock
    learn_hz: int | None = None  # clock of a design that learns, if slower
    limits_hz: int | None = None  # of one that learns limits (--unknown), or before a camera, if slower
    starts: tuple[str, ...] = ("word",)  # ways to start values (machine.starts): "read", where their choice takes LUTs, and "word"
    lists_lut4: int = 0  # LUTs more for a design with lists of reads, which has fewer flip-flops in cells of their own
    replay_lut4: int = 0  # LUTs less for a design that learns by replay, which has more of those
    device_lut4: int = 0  # LUTs less for a design with a camera that keeps what it learns: both have logic beside the accelerator
    bridge: str = "FT2232H"  # name in bridges.BRIDGES: the fastest one on its boards in boards/, if there are any

    @property
    def family(self) -> str:
        """Name of the family: its parts have the same kind of LUTs, carry chains and memories."""
        return self.name.split("-")[0]

    def clock_of(self, config: AcceleratorConfig) -> int:
        """Clock in Hz by which frames/s of a design are stated where no other clock is asked for."""
        learning = config.learning
        hz = (learning and (learning.unknown or config.camera) and self.limits_hz) or (learning and self.learn_hz) or self.clock_hz
        if config.sdram:
            return hz if config.learning else self.sdram_hz or hz
        if config.way == "double":
            return self.double_hz or hz
        return min(hz, self.flash_hz or hz) if config.weights == "stream" else hz

    def baud(self, clock_hz: float, sleeps: bool = False) -> int:
        """Bits a second of the link on the fastest of its boards.  clock_hz: of the design.  sleeps: whether it does."""
        return BRIDGES[self.bridge].best(clock_hz, sleeps)

    def lut4_of(self, config: AcceleratorConfig) -> int | None:
        """LUTs that an accelerator may have; None: no limit."""
        replay = config.learning is not None and not config.learning.adds
        if config.sdram and self.sdram_lut4:
            return self.sdram_lut4
        less = self.replay_lut4 * replay + self.device_lut4 * bool(config.camera and config.keeps)
        return self.lut4 + self.lists_lut4 * bool(config.order) - less if self.lut4 else None

    def _block_shapes(self) -> Iterator[tuple[int, int, int, int]]:
        """Return (words, bits, blocks, cost) of each block that yosys can make a memory of.

        It is one block RAM in each of its shapes, or two block RAMs as one.
        """
        assert self.block_bits and self.block_width
        cost = 64 if self.block_bits == 4096 else 128
        pairs = self.family == "xilinx7"
        for blocks in (1, 2)[:1 + pairs]:
            width = 2 if self.block_bits == 4096 else 1
            while width <= self.block_width * blocks:
                # Of 9 bits a byte, narrow words can only use 8.
                bits = self.block_bits if width >= 9 or self.block_bits % 9 else self.block_bits // 9 * 8
                yield blocks * bits // width, width, blocks, blocks * cost + pairs
                width = 9 if width == 4 and self.block_bits % 9 == 0 else width * 2

    def block_count(self, words: int, bits: int, groups: int = 0) -> int:
        """Block RAMs of a memory of `words` words of `bits` bits.  groups: parts of a word that are written apart; 0: it is only read."""
        return self._stack(words, bits, groups)[0]

    def _stack(self, words: int, bits: int, groups: int = 0) -> tuple[int, int]:
        """Return (block RAMs, how many lie above one another) of a memory.

        yosys chooses their number: it weighs blocks against the multiplexers that many shallow ones need.
        Ref: yosys, passes/memory/memory_libmap.cc, handle_geom.
        """
        assert self.block_bits
        best, cost = (0, 0), None
        for depth, width, blocks, each in self._block_shapes():
            byte = min(9, width) if groups and self.block_bits % 9 == 0 else 1
            rows, row_bits = -(-words // depth), max(1, groups) * -(-bits // max(1, groups) // byte) * byte
            count = -(-rows * row_bits // width)
            spent = int(each * count + (rows - 1) * bits / 2 + (rows > 1) * rows * groups / 2)
            if cost is None or spent < cost:
                best, cost = (blocks * count, rows), spent
        return best

    def rows_of(self, config: AcceleratorConfig) -> dict[str, list[tuple[int, int]]]:
        """{"weights", "bank": (words, bits) of the block RAMs of each row} of the memories that the build makes itself (`targets.blocks`).

        Rows are counted from address 0 on.  There are as few as there are block RAMs for, since each takes a multiplexer, and of those
        the fewest block RAMs.  A memory that does not fit in this way is not among them: yosys makes it.
        """
        if not config.memory_registers or self.blocks is None:
            return {}
        counts, rows_of = self._blocks_beside(config), {}
        weights = self._weight_blocks(config)[0] if config.weights == "memory" else counts["weight ring"]
        if config.sdram:  # its clock is not bound by a flash, so all block RAMs beside the ring may be made in this way
            weights = 0
        most = (self.blocks - sum(counts.values()) + counts["features"] - weights) // config.pixels
        if rows := self._rows(config.feature_words, config.lanes, config.outputs, most):
            rows_of["bank"] = rows
            counts["features"] = config.pixels * blocks_in(rows, config.lanes, config.outputs)
        if config.weights == "memory":
            most = self.blocks - sum(counts.values())
            if rows := self._rows(config.weight_words, config.word_bits, 0, most):
                rows_of["weights"] = rows
        return rows_of

    def _rows(self, words: int, bits: int, granularity: int, most: int) -> list[tuple[int, int]]:
        assert self.block_bits
        if words * bits > most * self.block_bits:
            return []
        shapes = ((depth, width) for depth, width, *_ in self._block_shapes() if width <= 18 and used_bits(width, granularity))
        return list(_fewest_rows(tuple(shapes), words, bits, granularity, most))

    def _bank(self, config: AcceleratorConfig, words: int) -> tuple[int, int]:
        """`_stack` of one bank of `words` words for features."""
        return self._stack(words, config.lanes, config.lanes // config.outputs)

    def _weight_blocks(self, config: AcceleratorConfig) -> tuple[int, int]:
        """`_stack` of a memory of all weights."""
        return self._stack(config.weight_words, config.word_bits, config.word_bits // 8 * config.loads)

    def stacked_bits(self, config: AcceleratorConfig) -> int:
        """Bits that multiplexers choose among because block RAMs are stacked.

        A memory that is deeper than a block RAM has several rows of them.  Each row above the first counts
        with the memory's width, for the banks and for the weight memory.
        """
        if self.blocks is None:
            return 0
        bits, rows = 0, {name: len(found) for name, found in self.rows_of(config).items()}
        if self.banks is None:
            bits += config.pixels * config.lanes * (rows.get("bank", self._bank(config, config.feature_words)[1]) - 1)
        if config.weights == "memory":
            bits += config.word_bits * (rows.get("weights", self._weight_blocks(config)[1]) - 1)
        return bits

    def bank_words_beside(self, config: AcceleratorConfig) -> int:
        """Words that a bank can have beside the other memories of a configuration; 0 where they leave no room."""
        assert self.blocks is not None
        counts = self._blocks_beside(config)
        weights = self._weight_blocks(config)[0] if config.weights == "memory" else 0
        blocks = (self.blocks - weights - sum(counts.values()) + counts["features"]) // config.pixels
        depths = {depth for depth, *_ in self._block_shapes()}
        sizes = {depth * count for depth in depths for count in range(1, 1 + blocks)}
        if config.sdram and config.memory_registers:  # banks that `rows_of` makes, whose blocks have a register of their own
            return max((words for words in sizes if self._rows(words, config.lanes, config.outputs, blocks)), default=0)
        return max((words for words in sizes if self._bank(config, words)[0] <= blocks), default=0)

    def blocks_of(self, config: AcceleratorConfig) -> dict[str, int]:
        """{memory: block RAMs} of an accelerator; {} where the part has no such limit."""
        counts, rows = self._blocks_beside(config), self.rows_of(config)
        if "bank" in rows:
            counts["features"] = config.pixels * blocks_in(rows["bank"], config.lanes, config.outputs)
        if counts and config.weights == "memory":
            yosys = self._weight_blocks(config)[0]
            counts["weights"] = blocks_in(rows["weights"], config.word_bits) if "weights" in rows else yosys
        return counts

    def _blocks_beside(self, config: AcceleratorConfig) -> dict[str, int]:
        """`blocks_of` without a weight memory, as yosys makes them."""
        if self.blocks is None:
            return {}
        counts = {"program": self.block_count(len(config.program_words()), 16)}
        if config.order:
            counts["lists of reads"] = self.block_count(len(config.order), READ_BITS)
        if config.table or config.word_pixels > 1:
            counts["bytes"] = bool(config.table) + (config.word_pixels > 1)
        if config.start_bits:
            counts["start values"] = self.block_count(2, config.start_bits)
        if self.banks is None:
            counts["features"] = config.pixels * self._bank(config, config.feature_words)[0]
        if config.weights == "stream":
            counts["weight ring"] = config.rows_per_word * self.block_count(config.weight_words, config.row_bits, 1)
            counts["transfers"] = self.block_count(len(config.transfer_words()), 16)
        learning = config.learning
        if learning:  # noise, the sample, counts, presentations, labels
            counts["learner"] = sum(self.block_count(words, bits) for words, bits in (
                (256, 16), (learning.words, learning.lanes), (learning.max_classes, learning.slots.bit_length()),
                (learning.max_classes, 16), (learning.slots, learning.class_bits)))
        return counts

    def check(self, config: AcceleratorConfig) -> None:
        """Raises FitError if the block RAMs of a configuration are more than the part has."""
        counts = self.blocks_of(config)
        need = sum(counts.values())
        if self.blocks is None or need <= self.blocks:
            return
        assert self.block_bits
        memories = ", ".join(f"{count} for {name}" for name, count in counts.items())
        banks = config.pixels, config.lanes
        larger = [t.name for t in TARGETS.values() if t is not self and (t.banks is None or (t.banks, t.bank_bits) == banks) and (
            "stream" in t.weights or t.blocks and t.block_bits and t.blocks * t.block_bits >= need * self.block_bits)]
        ways = ["fewer --exemplars or --max-classes"] * bool(config.learning and counts["learner"] > self.blocks // 4)
        if counts.get("weight ring", 0) > self.blocks:  # of the array's width, whatever the network
            ways += ["fewer --outputs", *(f"--target {name}" for name in larger[:3])]
        else:
            ways += [f"--weights {WAYS[way]}" for way in self.weights if config.weights == "memory" != way]
            ways += [f"--target {name}" for name in larger[:3]] + ["a smaller network"]
        alone = "" if "stream" in self.weights or config.weights != "memory" else " and weights only there, not from a flash"
        raise FitError(f"{config.pixels} pixels x {config.lanes} lanes x {config.outputs} outputs need {need:,} block RAMs ({memories}), "
                       f"{self.part} has {self.blocks}{alone}; use {' or '.join(ways)}")


# (pixels, lanes, outputs), fastest first.
LARGE = ((8, 64, 32), (8, 64, 16), (4, 64, 16), (8, 32, 16), (4, 32, 16), (4, 32, 8), (4, 16, 16), (4, 16, 8))
MIDDLE = LARGE[2:]
SMALL = LARGE[4:]

# At 50 MHz the flash's data is back within a cycle: 5 ns for the clock to leave through USRMCLK, 7 ns in the flash (W25Q: tCLQV 6 to
# 7 ns), 3 ns to come in.  With a ring of 512 words a block RAM is used at its widest.
ECP5: dict[str, Any] = {"ring_words": 512, "flash_hz": 50_000_000, "memory_registers": 2, "sdram_lines": 16}

# Gowin: with an SDRAM, 1mb at 4 x 64 x 16 (17,604 LUTs here, 18,583 with link and readers) does not fit: nextpnr adds LUTs before
# flip-flops that follow none, and then needs 20,972 places of 20,736.  3mb at 4 x 32 x 16 (11,649, 12,623) needs 15,024.
# The registers at the flash are in the fabric, so 33 ns are left for twice 5 ns of its wires (fpga.plls.ROUTE), twice 4 ns of pads
# and 7 ns in the flash.
# LUTs: about 85 % of the part; on the iCE40, where a flip-flop beside no LUT takes a cell of its own, 5280 / 1.22 less 700 for link and
# flash reader (3196 that learn by replay became 5132 cells, 3271 with start reads 5172, 3439 of an earlier version 5483, 3131 that do
# not learn 4595, 3734 with lists of reads 5256);
# clock_hz and learn_hz are at most 0.95 of what the worst of three seeds reached with 0.5mb and 3mb: docs/benchmarks.md.  limits_hz is
# what one seed reached with teach.pt before a camera, which keeps what it learns: docs/device-hardware.md.
# On ECP5 each design was routed from one seed; the slowest is res3mb.  With an SDRAM, of 3mb on the LFE5U-25F, 8 x 32 x 16 (17,381 LUTs
# here, 19,118 with link and readers) was not routed at 80 MHz, nor 4 x 64 x 16 (15,911 here) at 85 MHz: thousands of wires stayed in
# conflict.
# Clocks of other families are goals, not routed.
TARGETS = {t.name: t for t in (
    Target(
        "ice40", "iCE40UP5K-SG48", "Lattice FPGA-DS-02008, iCE40 UltraPlus Family: 5280 LUTs, 30 EBR of 4 kbit, 4 SPRAM of 256 kbit",
        43_500_000, 3650, 4, 16384, 16, 30, 4096, 16, "ice40-spram", ("stream", "double"), ((4, 16, 16), (4, 16, 8), (4, 16, 4)),
        ring_words=512, double_hz=45_000_000, encoder_bits=0, starts=("read", "word"), learn_hz=36_000_000, limits_hz=33_000_000,
        lists_lut4=90, replay_lut4=300, device_lut4=150),
    Target(
        "ice40-hx8k", "iCE40HX8K-CT256", "Lattice FPGA-DS-02029, iCE40 LP/HX Family: 7680 LUTs, 32 EBR of 4 kbit",
        60_000_000, 6800, None, None, None, 32, 4096, 16, "wrapper", ("memory", "ram"), SMALL, encoder_bits=2,
        starts=("read", "word")),
    Target(
        "ecp5", "LFE5U-85F", "Lattice FPGA-DS-02012, ECP5 Family: 84k LUTs, 208 EBR of 18 kbit, up to 36 bits wide",
        42_000_000, 71_000, None, None, None, 208, 18432, 36, "wrapper", ("memory", "stream", "sdram"),
        (*LARGE[1:4], (16, 16, 16), *LARGE[4:]), **ECP5, bridge="FT231X"),
    Target(
        "ecp5-45f", "LFE5U-45F", "Lattice FPGA-DS-02012, ECP5 Family: 44k LUTs, 108 EBR of 18 kbit, up to 36 bits wide",
        42_000_000, 37_000, None, None, None, 108, 18432, 36, "wrapper", ("memory", "stream", "sdram"), LARGE[1:], **ECP5),
    Target(
        "ecp5-25f", "LFE5U-25F", "Lattice FPGA-DS-02012, ECP5 Family: 24k LUTs, 56 EBR of 18 kbit, up to 36 bits wide",
        42_000_000, 20_000, None, None, None, 56, 18432, 36, "wrapper", ("memory", "stream", "sdram"), MIDDLE, **ECP5,
        sdram_hz=80_000_000, sdram_lut4=15_000, bridge="FT231X"),
    Target(
        "gowin", "GW2AR-LV18QN88C8/I7", "Gowin DS226, GW2AR series: 20,736 LUT4, 46 BSRAM of 18 kbit, up to 36 bits wide",
        60_000_000, 17_600, None, None, None, 46, 18432, 36, "wrapper", ("memory", "sdram"), MIDDLE, ring_words=512, sdram_lines=32,
        sdram_hz=60_000_000, flash_hz=30_000_000, sdram_lut4=14_500, bridge="other"),
    Target(
        "gowin-gw1nr9", "GW1NR-LV9QN88PC6/I5", "Gowin DS117, GW1NR series: 8640 LUT4, 26 BSRAM of 18 kbit, up to 36 bits wide",
        40_000_000, 7300, None, None, None, 26, 18432, 36, "wrapper", ("memory",), SMALL, encoder_bits=2, bridge="other"),
    Target(
        "xilinx7", "XC7A100T", "AMD DS180, 7 Series: 63,400 LUT6, 135 RAMB36, each two RAMB18 of 18 kbit, up to 36 bits wide",
        100_000_000, 54_000, None, None, None, 270, 18432, 36, "wrapper", ("memory",), LARGE, popcount="sum"),
    Target(
        "xilinx7-35t", "XC7A35T", "AMD DS180, 7 Series: 20,800 LUT6, 50 RAMB36, each two RAMB18 of 18 kbit, up to 36 bits wide",
        100_000_000, 17_600, None, None, None, 100, 18432, 36, "wrapper", ("memory",), MIDDLE, popcount="sum"),
    Target(
        "generic", "memories of any size, no vendor primitives", "none", 100_000_000, None, None, None, None, None, None, None,
        "wrapper", ("memory", "ram"), ((4, 64, 16), (4, 32, 16), (4, 16, 16)), popcount="sum"),
)}


def target(name: str) -> Target:
    """The target of that name; raises UsageError with the list."""
    if not isinstance(name, str) or name not in TARGETS:
        found = name if isinstance(name, str) else show(name)
        raise UsageError(f"--target {found}: no such target, expected one of {', '.join(TARGETS)}{nearest(str(name), TARGETS)}")
    return TARGETS[name]
