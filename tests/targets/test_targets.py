import numpy as np
import pytest

from fbnn_hw.compile.plan import plan
from fbnn_hw.errors import FitError, UsageError
from fbnn_hw.ir.network import Network
from fbnn_hw.nn.models import build
from fbnn_hw.targets import TARGETS, target


def network(name):
    topology = build(name)
    return Network(topology, {k: np.zeros(s, np.uint8) for k, s in topology.weight_shapes().items()}, {})


@pytest.mark.parametrize("words, bits, blocks", [
    (512, 36, 1), (513, 36, 2), (1024, 18, 1), (2048, 9, 1), (4096, 4, 1), (16384, 1, 1), (16385, 1, 2), (2708, 1024, 171),
    (1376, 2048, 171)])
def test_blocks_of_18_kbit(words, bits, blocks):
    assert TARGETS["ecp5"].block_count(words, bits) == blocks


@pytest.mark.parametrize("words, bits, blocks", [(256, 16, 1), (512, 64, 8), (500, 16, 2), (2048, 2, 1), (4096, 1, 1)])
def test_blocks_of_4_kbit(words, bits, blocks):
    assert TARGETS["ice40"].block_count(words, bits) == blocks


@pytest.mark.parametrize("model, name, shape, blocks", [
    ("3mb", "ice40", (4, 16, 8), 19), ("3mb", "ecp5", (8, 64, 32), 188), ("0.5mb", "ecp5-25f", (4, 32, 16), 54),
    ("0.5mb", "gowin", (4, 16, 8), 45), ("0.5mb", "xilinx7-35t", (4, 64, 16), 66), ("3mb", "generic", (4, 64, 16), 0)])
def test_the_first_shape_that_fits(model, name, shape, blocks):
    part = target(name)
    config = plan(network(model), part).config
    assert (config.pixels, config.lanes, config.outputs) == shape
    assert sum(part.blocks_of(config).values()) == blocks


def test_what_does_not_fit_says_what_would():
    with pytest.raises(FitError) as error:
        plan(network("3mb"), target("ecp5-45f"))
    assert str(error.value) == (
        "4 pixels x 16 lanes x 8 outputs need 178 block RAMs (1 for program, 12 for features, 165 for weights), LFE5U-45F has 108; "
        "use --target ice40 or --target ecp5 or --target xilinx7 or a smaller network")


def test_unknown_target():
    with pytest.raises(UsageError, match="^--target ecp6: no such target, expected one of ice40, ice40-hx8k, ecp5, "):
        target("ecp6")


@pytest.mark.parametrize("part", TARGETS.values(), ids=lambda p: p.name)
def test_the_table(part):
    assert TARGETS[part.name] is part
    assert part.shapes and (part.encoder_bits == 0 or 8 % part.encoder_bits == 0)
    macs = [q * lanes * p for q, lanes, p in part.shapes]
    assert macs == sorted(macs, reverse=True)
    if part.blocks:
        assert any(text in part.datasheet for text in ("FPGA-DS-", "DS226", "DS117", "DS180"))
        assert part.lut4 and part.block_bits in (4096, 18432)
