from dataclasses import replace

import numpy as np
import pytest

from fbnn_hw.base.errors import FitError, UsageError
from fbnn_hw.compile.plan import Attempt, configure, plan
from fbnn_hw.design import plan as generate_plan
from fbnn_hw.ir.models import build
from fbnn_hw.ir.network import Network
from fbnn_hw.machine.config import AcceleratorConfig
from fbnn_hw.reference.learning import Head, LearnConfig
from fbnn_hw.targets import TARGETS, WAYS, target


def network(name):
    topology = build(name)
    return Network(topology, {k: np.zeros(s, np.uint8) for k, s in topology.weight_shapes().items()}, {})


@pytest.mark.parametrize("words, bits, blocks", [
    (512, 36, 1), (513, 36, 2), (1024, 18, 1), (2048, 9, 1), (4096, 4, 1), (16384, 1, 1), (16385, 1, 1), (2708, 1024, 171),
    (1376, 2048, 171)])
def test_blocks_of_18_kbit(words, bits, blocks):
    assert TARGETS["ecp5"].block_count(words, bits) == blocks


@pytest.mark.parametrize("words, bits, blocks", [(256, 16, 1), (512, 64, 8), (500, 16, 2), (2048, 2, 1), (4096, 1, 1)])
def test_blocks_of_4_kbit(words, bits, blocks):
    assert TARGETS["ice40"].block_count(words, bits) == blocks


@pytest.mark.parametrize("name, words, lanes, outputs, blocks", [
    ("ecp5", 9872, 16, 4, 12),  # four bits written apart would take nine: rather 4096 x 4, three times as deep
    ("ecp5", 1536, 16, 8, 2), ("ecp5", 768, 32, 16, 2), ("ecp5", 20, 16, 4, 1), ("ice40-hx8k", 20, 16, 4, 1), ("gowin", 768, 32, 8, 2)])
def test_blocks_of_a_bank(name, words, lanes, outputs, blocks):
    """As yosys 0.70 makes them: docs/benchmarks.md."""
    assert TARGETS[name].block_count(words, lanes, lanes // outputs) == blocks


@pytest.mark.parametrize("model, name, shape, blocks", [
    ("3mb", "ice40", (4, 16, 8), 19), ("3mb", "ecp5", (8, 64, 16), 204), ("0.5mb", "ecp5-25f", (8, 32, 16), 52),
    ("0.5mb", "gowin", (4, 32, 8), 45), ("0.5mb", "xilinx7-35t", (4, 64, 16), 66), ("3mb", "generic", (4, 64, 16), 0)])
def test_the_first_shape_that_fits(model, name, shape, blocks):
    part = target(name)
    config = plan(network(model), part).config
    assert (config.pixels, config.lanes, config.outputs) == shape
    assert sum(part.blocks_of(config).values()) == blocks


@pytest.mark.parametrize("shape, rows", [
    ((4, 32, 16), {"bank": [(2048, 9)], "weights": [(4096, 4), (2048, 9)]}),  # 4 x 4 and 128 + 57 of 208 block RAMs
    ((8, 64, 16), {"bank": [(1024, 18)], "weights": [(2048, 9), (1024, 18)]}),  # 8 x 4 and 114 + 57; 1,024 bits of 4 would need 256
    ((4, 16, 8), {})])
def test_the_rows_of_block_rams_that_a_build_makes(shape, rows):
    config = plan(network("3mb"), target("ecp5"), *shape).config
    assert target("ecp5").rows_of(config) == rows


def test_what_does_not_fit_says_what_would():
    with pytest.raises(FitError) as error:
        plan(network("3mb"), target("gowin"))
    assert str(error.value) == (
        "4 pixels x 16 lanes x 8 outputs need 170 block RAMs (1 for program, 12 for features, 157 for weights), GW2AR-LV18QN88C8/I7 has 46 "
        "and weights only there, not from a flash; use --weights sdram or --target ice40 or --target ecp5 or --target ecp5-45f "
        "or a smaller network")


@pytest.mark.parametrize("model, name, clock, shape", [
    ("3mb", "ecp5-25f", 80, (4, 32, 16)), ("1mb", "gowin", 60, (4, 32, 16)), ("3mb", "gowin", 60, (4, 32, 16))])
def test_weights_from_an_sdram(model, name, clock, shape):
    """With its own clock, and several times as fast as what the flash gives; only where it is asked for."""
    part = target(name)
    planned = plan(network(model), part, weights="sdram")
    config = planned.config
    assert (config.pixels, config.lanes, config.outputs) == shape and part.clock_of(config) == clock * 1e6
    assert (config.weights, config.beat_bits, config.burst, config.sdram) == ("stream", part.sdram_lines, 8, True)
    assert sum(part.blocks_of(config).values()) <= part.blocks
    streamed = sum(t.streamed for t in config.transfers) * config.word_bits
    assert streamed / config.beat_bits * 9 / 8 <= planned.frame.total and part.clock_of(config) / planned.frame.total > 250
    assert '"burst": 8' in config.to_json() and AcceleratorConfig.from_json(config.to_json()).id == config.id


def test_a_way_that_a_target_lacks():
    for name, way, has in (("ice40", "sdram", "flash or flash-2x"), ("ecp5", "double", "chip or flash or sdram"),
                           ("gowin", "stream", "chip or sdram"), ("ecp5-25f", "memory", "")):
        with pytest.raises(UsageError if has else FitError) as error:
            plan(network("3mb"), target(name), weights=way)
        expected = f"--weights {WAYS[way]}: {name} has no way to it, expected {has}" if has else "use --weights flash or --weights sdram or"
        assert str(error.value) == expected if has else expected in str(error.value)


@pytest.mark.parametrize("model, name, weights", [
    ("3mb", "ecp5", "memory"), ("3mb", "ecp5-45f", "stream"), ("1mb", "ecp5-45f", "memory"), ("1mb", "ecp5-25f", "stream")])
def test_weights_that_do_not_fit_on_an_ecp5_come_from_the_flash(model, name, weights):
    part = target(name)
    planned = plan(network(model), part)
    config = planned.config
    assert config.weights == weights and part.clock_of(config) == 42e6
    used = sum(part.blocks_of(config).values())
    assert used <= part.blocks
    if weights == "stream":  # what is free holds weights, and the flash hardly ever waits for the array
        assert part.blocks - used < config.pixels * 4 and 0 < config.resident_rows <= config.feature_words - planned.program.used
        streamed = sum(t.streamed for t in config.transfers) * config.word_bits
        assert streamed / 4 <= planned.frame.total < 1.12 * streamed / 4


def test_a_design_that_learns_has_a_clock_of_its_own():
    net = network("0.5mb")
    learn = Head.of(net.topology), LearnConfig(12, 200)
    plain, learns = (plan(net, target("ice40"), learn=learn).config for learn in (None, learn))
    unknown = generate_plan(net, "ice40", learn="nearest-mean", max_classes=12, unknown=True).config
    configs = plain, learns, unknown, replace(plain, camera="ov7670"), replace(learns, camera="ov7670")
    assert [target("ice40").clock_of(config) for config in configs] == [43.5e6, 36e6, 33e6, 43.5e6, 33e6]
    assert target("ecp5").clock_of(unknown) == target("ecp5").clock_of(learns)


def test_a_camera_and_a_keeper_take_room_from_the_accelerator():
    """`tiny` that learns before a camera and keeps it: 4 x 16 x 8 took more cells than the part has, 4 x 16 x 4 takes 4,627 (routed)."""
    flags = dict(learn="nearest-mean", max_classes=16, unknown=True, forget=True)
    shapes = [[generate_plan(network(name), "ice40", **flags, **device).config.outputs for device in ({}, dict(camera="ov7670", keep=True))]
              for name in ("tiny", "0.5mb")]
    assert shapes == [[8, 4], [4, 4]]


def test_the_words_of_a_bank_are_those_that_the_blocks_hold():
    part = target("ecp5-25f")
    for shape in ((4, 16, 4), (4, 64, 16), (8, 32, 16)):
        config = configure(network("0.5mb"), part, Attempt(shape, "stream"))[0]
        words = part.bank_words_beside(config)
        assert words >= config.feature_words
        assert sum(part.blocks_of(replace(config, feature_words=words)).values()) <= part.blocks
        assert sum(part.blocks_of(replace(config, feature_words=words + 512)).values()) > part.blocks


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


@pytest.mark.parametrize("name, lanes, learns, registers", [
    ("ecp5", 64, False, 2), ("ecp5", 32, False, 2), ("ecp5", 16, False, 0), ("ecp5", 64, True, 0), ("generic", 64, False, 0),
    ("xilinx7", 64, False, 0)])
def test_memory_registers(name, lanes, learns, registers):
    """A large array on an ECP5 that does not learn has registers behind its memories; config.json of any other design does not say so."""
    net = network("0.5mb")
    config = plan(net, target(name), 4, lanes, 16, learn=(Head.of(net.topology), LearnConfig(12, 20)) if learns else None).config
    assert config.memory_registers == registers and ("memory_registers" in config.to_json()) == bool(registers)
    assert AcceleratorConfig.from_json(config.to_json()) == config
