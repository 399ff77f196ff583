"""Parts: what there is on them.  One table; a line per part, its datasheet cited."""

from dataclasses import dataclass

from ..errors import FitError, UsageError


@dataclass(frozen=True)
class Target:
    """name; part: full name; datasheet; clock_hz: what frames/s are quoted at; lut4: LUTs for the accelerator (None: no limit);
    bank_words, bank_bits, banks: single-port RAM for features (None: as needed, of block RAM); blocks, block_bits: block RAM, and
    block_width, its widest word; technology: of the banks; weights: what is tried, in this order: "memory", all on the chip, "stream",
    from a flash; shapes: (pixels, lanes, outputs), largest first; ring_words: words of the weight ring; encoder_bits: bits of a colour
    byte that the encoder multiplies a cycle, 0: whole bytes, by multipliers of the part; flash_hz: fastest clock of a design with a
    stream, which is that of the flash too; popcount: "lut4" for LUTs of four inputs; learn_hz: clock
    of a design that learns, if slower."""

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
    weights: tuple
    shapes: tuple
    ring_words: int = 0
    encoder_bits: int = 8
    flash_hz: int | None = None
    popcount: str = "lut4"
    learn_hz: int | None = None

    @property
    def family(self):
        """Whose LUTs, carry chains and memories it has."""
        return self.name.split("-")[0]

    def clock_of(self, config):
        """Hz that frames/s of a design are quoted at, unless it is told another clock."""
        hz = (config.learning and self.learn_hz) or self.clock_hz
        return min(hz, self.flash_hz or hz) if config.weights == "stream" else hz

    def _block_shapes(self):
        """(words, bits, blocks, cost) of what yosys can make a memory of: a block in each of its shapes, and two that it has as one."""
        cost = 64 if self.block_bits == 4096 else 128
        pairs = self.family == "xilinx7"
        for blocks in (1, 2)[:1 + pairs]:
            width = 2 if self.block_bits == 4096 else 1
            while width <= self.block_width * blocks:
                # Of 9 bits a byte, narrow words can only use 8.
                bits = self.block_bits if width >= 9 or self.block_bits % 9 else self.block_bits // 9 * 8
                yield blocks * bits // width, width, blocks, blocks * cost + pairs
                width = 9 if width == 4 and self.block_bits % 9 == 0 else width * 2

    def block_count(self, words, bits, groups=0):
        """Block RAMs of a memory of `words` words of `bits` bits, of which `groups` parts are written apart; 0: it is only read."""
        return self._stack(words, bits, groups)[0]

    def _stack(self, words, bits, groups=0):
        """(block RAMs, how many lie above one another).

        Their number follows from yosys' choice, which weighs blocks against the multiplexers that many shallow ones need.
        Ref: yosys, passes/memory/memory_libmap.cc, handle_geom.
        """
        best = cost = None
        for depth, width, blocks, each in self._block_shapes():
            byte = min(9, width) if groups and self.block_bits % 9 == 0 else 1
            rows, row_bits = -(-words // depth), max(1, groups) * -(-bits // max(1, groups) // byte) * byte
            count = -(-rows * row_bits // width)
            spent = int(each * count + (rows - 1) * bits / 2 + (rows > 1) * rows * groups / 2)
            if best is None or spent < cost:
                best, cost = (blocks * count, rows), spent
        return best

    def _bank(self, config, words):
        """`_stack` of one bank of `words` words for features."""
        return self._stack(words, config.lanes, config.lanes // config.outputs)

    def stacked_bits(self, config):
        """Bits of the banks and of the weight memory, once for each row of block RAMs above the first: what multiplexers choose from."""
        if self.blocks is None:
            return 0
        found = 0
        if self.banks is None:
            found += config.pixels * config.lanes * (self._bank(config, config.feature_words)[1] - 1)
        if config.weights == "memory":
            found += config.word_bits * (self._stack(config.weight_words, config.word_bits)[1] - 1)
        return found

    def bank_words_beside(self, config):
        """Words that a bank can have beside the other memories of a configuration, at least 0."""
        found = self.blocks_of(config)
        blocks = (self.blocks - sum(found.values()) + found["features"]) // config.pixels
        depths = {depth for depth, *_ in self._block_shapes()}
        sizes = {depth * count for depth in depths for count in range(1, 1 + blocks)}
        return max((words for words in sizes if self._bank(config, words)[0] <= blocks), default=0)

    def blocks_of(self, config):
        """{what: block RAMs} of an accelerator; {} where the part has no such limit."""
        if self.blocks is None:
            return {}
        found = {"program": self.block_count(len(config.program_words()), 16)}
        if self.banks is None:
            found["features"] = config.pixels * self._bank(config, config.feature_words)[0]
        if config.weights == "memory":
            found["weights"] = self.block_count(config.weight_words, config.word_bits)
        else:
            found["weight ring"] = config.rows_per_word * self.block_count(config.weight_words, config.row_bits, 1)
            found["transfers"] = self.block_count(len(config.transfer_words()), 16)
        learning = config.learning
        if learning:  # noise, the sample, counts, presentations, labels
            found["learner"] = sum(self.block_count(words, bits) for words, bits in (
                (256, 16), (learning.words, learning.lanes), (learning.max_classes, learning.slots.bit_length()),
                (learning.max_classes, 16), (learning.slots, learning.class_bits)))
        return found

    def check(self, config):
        """Raises FitError if the block RAMs of a configuration are more than the part has."""
        found = self.blocks_of(config)
        need = sum(found.values())
        if found and need > self.blocks:
            what = ", ".join(f"{count} for {name}" for name, count in found.items())
            larger = [t.name for t in TARGETS.values() if t is not self and (
                "stream" in t.weights or t.blocks and t.blocks * t.block_bits >= need * self.block_bits)]
            ways = ["fewer --exemplars or --max-classes"] * bool(config.learning and found["learner"] > self.blocks // 4)
            if found.get("weight ring", 0) > self.blocks:  # of the array's width, whatever the network
                ways += ["fewer --outputs", *(f"--target {name}" for name in larger[:3])]
            else:
                ways += ["fewer --frames"] * (config.frames > 1) + [f"--target {name}" for name in larger[:3]] + ["a smaller network"]
            alone = "" if "stream" in self.weights else " and weights only there, not from a flash"
            raise FitError(f"{config.pixels} pixels x {config.lanes} lanes x {config.outputs} outputs need {need:,} block RAMs ({what}), "
                           f"{self.part} has {self.blocks}{alone}; use {' or '.join(ways)}")


# (pixels, lanes, outputs), fastest first.
LARGE = ((8, 64, 32), (8, 64, 16), (4, 64, 16), (8, 32, 16), (4, 32, 16), (4, 32, 8), (4, 16, 16), (4, 16, 8))
MIDDLE = LARGE[2:]
SMALL = LARGE[4:]

# At 50 MHz the flash's data is back within a cycle: 5 ns for the clock to leave through USRMCLK, 7 ns in the flash (W25Q: tCLQV 6 to
# 7 ns), 3 ns to come in.  With a ring of 512 words a block RAM is used at its widest.
FLASH_ECP5 = {"ring_words": 512, "flash_hz": 50_000_000}

# LUTs: about 85 % of the part; on the iCE40, where a flip-flop beside no LUT takes a cell of its own, 5280 / 1.22 less 700 for link and
# flash reader (3261 that learn became 5146 cells, 3131 that do not 4595); clock_hz and learn_hz are at
# most 0.95 of what the worst of three seeds reached with 0.5mb and 3mb: docs/benchmarks.md.
# On ECP5, 8 x 64 x 16 reached 59.7 MHz with one seed, 8 x 64 x 32 was not tried.  Clocks of other families are goals, not routed.
TARGETS = {t.name: t for t in (
    Target(
        "ice40", "iCE40UP5K-SG48", "Lattice FPGA-DS-02008, iCE40 UltraPlus Family: 5280 LUTs, 30 EBR of 4 kbit, 4 SPRAM of 256 kbit",
        33_000_000, 3650, 4, 16384, 16, 30, 4096, 16, "ice40-spram", ("stream",), ((4, 16, 16), (4, 16, 8), (4, 16, 4)),
        ring_words=512, encoder_bits=0, learn_hz=24_000_000),
    Target(
        "ice40-hx8k", "iCE40HX8K-CT256", "Lattice FPGA-DS-02029, iCE40 LP/HX Family: 7680 LUTs, 32 EBR of 4 kbit",
        60_000_000, 6800, None, None, None, 32, 4096, 16, "wrapper", ("memory",), SMALL, encoder_bits=2),
    Target(
        "ecp5", "LFE5U-85F", "Lattice FPGA-DS-02012, ECP5 Family: 84k LUTs, 208 EBR of 18 kbit, up to 36 bits wide",
        50_000_000, 71_000, None, None, None, 208, 18432, 36, "wrapper", ("memory", "stream"), LARGE[1:], **FLASH_ECP5),
    Target(
        "ecp5-45f", "LFE5U-45F", "Lattice FPGA-DS-02012, ECP5 Family: 44k LUTs, 108 EBR of 18 kbit, up to 36 bits wide",
        50_000_000, 37_000, None, None, None, 108, 18432, 36, "wrapper", ("memory", "stream"), LARGE[1:], **FLASH_ECP5),
    Target(
        "ecp5-25f", "LFE5U-25F", "Lattice FPGA-DS-02012, ECP5 Family: 24k LUTs, 56 EBR of 18 kbit, up to 36 bits wide",
        50_000_000, 20_000, None, None, None, 56, 18432, 36, "wrapper", ("memory", "stream"), MIDDLE, **FLASH_ECP5),
    Target(
        "gowin", "GW2AR-LV18QN88C8/I7", "Gowin DS226, GW2AR series: 20,736 LUT4, 46 BSRAM of 18 kbit, up to 36 bits wide",
        60_000_000, 17_600, None, None, None, 46, 18432, 36, "wrapper", ("memory",), MIDDLE),
    Target(
        "gowin-gw1nr9", "GW1NR-LV9QN88PC6/I5", "Gowin DS117, GW1NR series: 8640 LUT4, 26 BSRAM of 18 kbit, up to 36 bits wide",
        40_000_000, 7300, None, None, None, 26, 18432, 36, "wrapper", ("memory",), SMALL, encoder_bits=2),
    Target(
        "xilinx7", "XC7A100T", "AMD DS180, 7 Series: 63,400 LUT6, 135 RAMB36, each two RAMB18 of 18 kbit, up to 36 bits wide",
        100_000_000, 54_000, None, None, None, 270, 18432, 36, "wrapper", ("memory",), LARGE, popcount="sum"),
    Target(
        "xilinx7-35t", "XC7A35T", "AMD DS180, 7 Series: 20,800 LUT6, 50 RAMB36, each two RAMB18 of 18 kbit, up to 36 bits wide",
        100_000_000, 17_600, None, None, None, 100, 18432, 36, "wrapper", ("memory",), MIDDLE, popcount="sum"),
    Target(
        "generic", "memories of any size, no vendor primitives", "none", 100_000_000, None, None, None, None, None, None, None,
        "wrapper", ("memory",), ((4, 64, 16), (4, 32, 16), (4, 16, 16)), popcount="sum"),
)}


def target(name):
    """The target of that name; raises UsageError with the list."""
    if name not in TARGETS:
        raise UsageError(f"--target {name}: no such target, expected one of {', '.join(TARGETS)}")
    return TARGETS[name]
