"""Whole accelerators in Verilator: every layer's bits, logits, classes and the latent are the reference's; cycles are the
estimate's while nobody stalls.  Random memories and registers at the start, random pauses, a reset in the middle of a frame."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from fbnn_hw.base.errors import FitError
from fbnn_hw.ir import ops as op
from fbnn_hw.ir.network import LATENT, Topology
from fbnn_hw.targets import TARGETS
from tests import strategies
from tests.quick import quick
from tests.rtl import whole


def topology(size, classes, *layers, encoder=("tycc", 4)):
    """Ops in a row, each (op, fields); an op's input is the one before unless it is named."""
    ops = [op.Thermometer("input", (), encoder[0], size, encoder[1])]
    for number, (kind, fields) in enumerate(layers):
        fields = dict(fields)
        ops.append(kind(fields.pop("name", f"{kind.kind}{number}"), fields.pop("inputs", (ops[-1].name,)), **fields))
    ops.append(op.Dense("logits", (ops[-1].name,), classes, 1, True))
    return Topology("tiny", tuple(ops), tuple(f"class{i}" for i in range(classes)))


def conv(channels, **fields):
    return op.Conv, {"out_channels": channels, **fields}


def dense(channels, **fields):
    return op.Dense, {"out_channels": channels, **fields}


POOL, GAP, DEPTHWISE = (op.MaxPool, {}), (op.Gap, {"name": "gap"}), (op.Depthwise, {"name": "depthwise"})

WIDE = topology(12, 100, conv(72), conv(36, groups=4), DEPTHWISE, dense(50, name="before"), dense(9, name=LATENT, inputs=("before",)),
                (op.Concat, {"inputs": (LATENT, "before")}))


@dataclass(frozen=True)
class Case:
    topology: Topology
    shape: tuple
    thresholds: float = 0
    spare: int | None = None  # words of a bank beyond those of the features; None: weights in a memory
    ring: int = 1  # size of the ring, in largest tiles
    part: dict = field(default_factory=dict)
    blocks: int = 0  # an ECP5 with so many block RAMs, which does not hold all weights
    lines: int = 0  # of an SDRAM that the weights come from, instead of a flash
    double: bool = False  # the flash has twice the clock


CASES = {
    # The paper's structure, some weights resident, some in the place of maps that were read, a ring that holds one tile; on SPRAM.
    "stream": Case(strategies.vgg_network(1, width=1 / 16, size=16, latent=40, hidden=12).topology, (4, 16, 4), spare=60,
                   part={"technology": "ice40-spram", "encoder_bits": 4}),
    # Thresholds by start reads, with partly filled words, and a ring of two tiles, mixed.
    "starts": Case(strategies.vgg_network(2, width=3 / 32, size=16, latent=40, hidden=12).topology, (4, 16, 4), thresholds=0.5, spare=150,
                   ring=2, part={"technology": "ice40-spram", "encoder_bits": 2, "starts": ("read",)}),
    # Block RAM for the ring, and what is left of it for some weights beside the features; some in the place of maps that were read.
    "blocks": Case(strategies.vgg_network(3, width=1 / 4, size=16, latent=40, hidden=12).topology, (4, 16, 4), blocks=12),
    # The same weights from a flash at twice the clock, two bytes at a time; thresholds by start reads.
    "double": Case(strategies.vgg_network(1, width=1 / 16, size=16, latent=40, hidden=12).topology, (4, 16, 8), thresholds=0.5, spare=60,
                   part={"technology": "ice40-spram", "encoder_bits": 4, "starts": ("read",)}, double=True),
    # From an SDRAM of 16 lines, mixed and late rows as above; from one of 32 lines, of which two beats are a row of the banks.
    "sdram": Case(strategies.vgg_network(1, width=1 / 16, size=16, latent=40, hidden=12).topology, (4, 32, 16), spare=60, ring=2,
                  part={"encoder_bits": 4}, lines=16),
    "sdram_short": Case(strategies.vgg_network(2, width=3 / 16, size=16, latent=40, hidden=12).topology, (4, 16, 16), thresholds=0.5,
                        spare=60, part={"encoder_bits": 4, "starts": ("read",)}, lines=32),
    # Nothing resident, thresholds, triples, odd fan-in, kernel 1, learned pooling alone, no latent, groups that do not fill words.
    "thresholds": Case(topology(
        8, 37, conv(12), (op.Duplicate, {"times": 3}), conv(22, groups=2, kernel=1), POOL, DEPTHWISE, dense(27),
        encoder=("trgb", 5)), (4, 16, 8), thresholds=1, spare=0, ring=4, part={"encoder_bits": 1}),
    # All resident; average alone; two classes; a latent that is duplicated.
    "resident": Case(topology(8, 2, conv(17), GAP, dense(33, name=LATENT), (op.Duplicate, {"times": 2})), (4, 16, 4), spare=4000, ring=2,
                     part={"encoder_bits": 2}),
    # Weights in a memory; blocks of 2x4; a map narrower than a block, pooled in the other order.
    "narrow": Case(topology(
        8, 10, conv(16), POOL, conv(20, groups=2), (op.MaxPool, {"name": "map"}), DEPTHWISE, (op.Gap, {"name": "gap", "inputs": ("map",)}),
        (op.Concat, {"inputs": ("depthwise", "gap")}), dense(19, name=LATENT)), (8, 16, 8)),
    # Words of 64 lanes, partly filled; popcounts of more registers; thresholds; 100 classes; the vector before the latent lies beside it.
    "wide": Case(WIDE, (4, 64, 4), thresholds=1, part={"encoder_bits": 8, "popcount": "lut4"}),
    # The same words in memories with registers behind them: all weights in one; from a stream, some resident, without thresholds.
    "registers": Case(WIDE, (4, 64, 4), thresholds=1, part={"encoder_bits": 8, "popcount": "lut4", "memory_registers": 2}),
    # 32 lanes: an encoder with registers within, for pixels of two words that are four pieces; logits of three tiles.
    "pipelined": Case(topology(8, 37, conv(40), POOL, DEPTHWISE, dense(27), encoder=("trgb", 17)), (4, 32, 16),
                      part={"encoder_bits": 8, "popcount": "lut4", "memory_registers": 2}),
    "registers_stream": Case(topology(8, 10, conv(72), POOL, conv(40), GAP, dense(50, name=LATENT)), (4, 64, 4), spare=40, ring=2,
                             part={"encoder_bits": 8, "popcount": "lut4", "memory_registers": 2}),
}


LATE = "stream", "starts", "blocks", "double", "sdram"
QUICK = "starts", "double", "sdram"


def part_of(case, network):
    """The part the case asks for."""
    if case.blocks:
        return replace(TARGETS["ecp5-25f"], weights=("stream",), blocks=case.blocks)
    if case.spare is None:
        return whole.target(**case.part)
    way = {"weights": ("sdram",), "sdram_lines": case.lines} if case.lines else {"weights": ("double" if case.double else "stream",)}
    large = whole.target(**way, ring_words=1 << 12, bank_words=1 << 14)
    program = whole.plan(network, large, *case.shape).program
    largest = max(step.tile_words for step in program.steps)
    ring = 1 << (largest * case.ring - 1).bit_length()
    return whole.target(**way, ring_words=ring, bank_words=program.used + case.spare, **case.part)


@pytest.mark.parametrize("name", quick(CASES, *QUICK))
def test_bits_and_cycles(name, tmp_path):
    case = CASES[name]
    network = strategies.on_engine(strategies.fill(case.topology, len(name), case.thresholds))
    images = strategies.images(3, 3, case.topology.image_size)
    design = whole.Design(network, part_of(case, network), case.shape, tmp_path, images)
    config = design.plan.config
    assert config.thresholds == (case.thresholds > 0) and config.start_reads == (name in ("starts", "double", "sdram_short"))
    shares = {transfer.resident for transfer in config.transfers if not transfer.after}
    assert (config.late_rows > 0) == (name in LATE)
    assert (config.beat_bits, config.burst) == ((case.lines, 8) if case.lines else (16 if case.double else 8, 1))
    if name in (*LATE, "sdram_short", "registers_stream"):
        assert shares - {0, 16}, "some weights must be mixed"
    else:
        assert shares == {"thresholds": {0}, "resident": {16}}.get(name, set())
    assert (config.map_pixels != 0) == (name == "narrow")
    assert config.logits_odd == (name in ("thresholds", "narrow", "wide", "registers", "pipelined"))
    assert config.memory_registers == case.part.get("memory_registers", 0)

    found = design.check_cycles()
    stalled = design.run(stall=True, latent=config.latent_words > 0, reset=design.known["first_cycles"] // 2)
    assert len(found.latents[0]) == 0 and (stalled.latents.shape[1] > 0) == (config.latent_words > 0)
    assert sum(stalled.cycles) > sum(found.cycles), "pauses cost time"
    assert np.array_equal(found.logits, stalled.logits)


def test_passes_that_get_shorter_after_a_start(tmp_path):
    """Where a pass is over before the ring is full, each one finds more of its words there."""
    ops = (op.Binarize("input", (), 8), op.Flatten("flat", ("input",)), op.Dense("hidden", ("flat",), 64),
           op.Dense("logits", ("hidden",), 10, 1, True))
    network = strategies.on_engine(strategies.fill(Topology("short", ops, tuple(f"class{i}" for i in range(10))), 1))
    design = whole.Design(network, TARGETS["ice40"], (4, 16, 8), tmp_path, strategies.images(3, 6, 8))
    first, second, later = design.known["pass_cycles"]
    assert first > second > later == design.known["cycles"]
    design.check_cycles()


@pytest.mark.parametrize("seed", quick(range(8)))
def test_the_cycles_of_random_designs_with_an_sdram(seed, tmp_path):
    """Shapes, rings, resident and late rows and lines at random; the weights come at the pace of an SDRAM."""
    rng = np.random.default_rng(seed)
    shapes = (4, 16, 4), (4, 16, 8), (4, 16, 16), (4, 32, 8), (4, 32, 16), (8, 32, 16), (8, 16, 16)
    for _ in range(20):  # to a network that waits for its weights
        width, latent = float(rng.choice([1 / 16, 1 / 8, 3 / 16])), int(rng.integers(20, 90))
        case = Case(
            strategies.vgg_network(1, width=width, size=16, latent=latent, hidden=12).topology, shapes[rng.integers(len(shapes))],
            float(rng.choice([0, 0.5])), spare=int(rng.choice([0, 40, 200])), ring=int(rng.choice([1, 2])),
            part={"encoder_bits": 4, "starts": (str(rng.choice(["read", "word"])),)}, lines=int(rng.choice([16, 32])))
        network = strategies.on_engine(strategies.fill(case.topology, seed, case.thresholds))
        part = part_of(case, network)
        if sum(layer.wait for layer in whole.plan(network, part, *case.shape).frame.layers.values()):
            whole.Design(network, part, case.shape, tmp_path, strategies.images(seed, 2, 16)).check_cycles()
            return
    pytest.fail("20 networks wait for nothing")


@pytest.mark.parametrize("seed", quick(range(10), 2))
def test_images_loaded_beside_the_program(seed, tmp_path):
    """Shapes and networks at random, with lists of reads and without: the banks have a port for writes, a frame takes no time to load."""
    rng = np.random.default_rng(seed)
    part = whole.target(encoder_bits=8, memory_registers=2, starts=(("read",), ("word",))[seed % 2])
    for number in range(200):
        shape = [(4, 32, 4), (4, 32, 16), (8, 32, 16), (4, 64, 8)][rng.integers(4)]
        make = strategies.network_2 if seed % 4 // 2 else strategies.engine_network
        network = strategies.on_engine(make(1000 * seed + number))
        try:
            config = whole.plan(network, part, *shape).config
        except FitError:
            continue
        if config.loads_beside and config.lists == bool(seed % 4 // 2):
            break
    else:
        pytest.fail("200 networks have no time to load an image")
    design = whole.Design(network, part, shape, tmp_path, strategies.images(seed, 4, network.topology.image_size))
    found = design.check_cycles()
    assert design.known["load_cycles"] == 1 and design.known["first_cycles"] > design.known["cycles"]
    stalled = design.run(stall=True, latent=config.latent_words > 0, reset=design.known["first_cycles"] // 2)
    assert np.array_equal(found.logits, stalled.logits)
