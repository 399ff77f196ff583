"""Layouts, refusals and what a configuration is as text."""

import dataclasses
import subprocess
import sys
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fbnn_hw.base.errors import FitError, UsageError
from fbnn_hw.compile import graph, late, loops
from fbnn_hw.compile.configure import _check_words
from fbnn_hw.compile.plan import plan
from fbnn_hw.compile.residents import residents
from fbnn_hw.design import output, weights
from fbnn_hw.ir import models
from fbnn_hw.ir import ops as op
from fbnn_hw.ir.network import LATENT, Topology
from fbnn_hw.machine import cycles, timing
from fbnn_hw.machine.config import AcceleratorConfig
from fbnn_hw.machine.transfers import residents_of
from fbnn_hw.nn import checkpoint
from fbnn_hw.reference.learning import Head, LearnConfig
from fbnn_hw.targets import TARGETS
from tests import strategies

GENERIC, ICE40 = TARGETS["generic"], TARGETS["ice40"]


def network(*ops, size=16, levels=16, seed=0, thresholds=0):
    """Ops after a TYCC thermometer "input" and before a "logits" layer of 10 classes that reads the last one."""
    layers = (op.Thermometer("input", (), "tycc", size, levels), *ops, op.Dense("logits", (ops[-1].name,), 10, 1, True))
    return strategies.fill(Topology("tiny", layers, tuple(f"class{i}" for i in range(10))), seed, thresholds)


def pooled(*ops, **options):
    return network(*ops, op.Gap("gap", (ops[-1].name,)), **options)


def interleaved(topology, pixels, lanes, outputs, **options):
    """The interleaved arrangement, or why there is none."""
    return loops.arranged(graph.build(topology, lanes), pixels, lanes, outputs, **options)


CONV = op.Conv("conv", ("input",), 16)
POOLED = (CONV, op.Gap("a", ("conv",)))
LISTED = {
    "stride": (pooled(op.Conv("conv", ("input",), 16, 3, 2)), GENERIC, "conv: kernel 3, stride 2, padding same"),
    "kernel": (pooled(op.Conv("conv", ("input",), 16, 5)), GENERIC, "conv: kernel 5, stride 1, padding same"),
    "padding": (pooled(op.Conv("conv", ("input",), 16, padding=0)), GENERIC, "conv: kernel 3, stride 1, padding 0"),
    "flatten": (pooled(op.Flatten("flat", ("input",)), size=8), GENERIC, "flat: flatten"),
    "maxpool": (pooled(op.MaxPool("pool", ("input",))), GENERIC, "pool: pools what no convolution stored"),
    "slice": (pooled(CONV, op.Slice("half", ("conv",), 0, 8)), GENERIC, "half: slice"),
    "shuffle": (pooled(CONV, op.Shuffle("mix", ("conv",), 2)), GENERIC, "mix: shuffle"),
    "concat": (pooled(CONV, op.Concat("join", ("conv", "input"))), GENERIC,
               "join: concatenates maps"),
    "fork": (network(CONV, op.MaxPool("pool", ("conv",)), op.Gap("gap", ("conv",))), GENERIC,
             "conv: feeds pool and another layer"),
    "second map": (network(*POOLED, op.Gap("b", ("input",)), op.Concat("join", ("a", "b"))), GENERIC,
                   "b: is a second map to be pooled globally"),
    "a slice twice": (network(CONV, op.Slice("half", ("conv",), 0, 8), op.Gap("a", ("half",)), op.Gap("b", ("half",)),
                              op.Concat("join", ("a", "b"))), GENERIC, "half: slice"),
    "second time": (network(*POOLED, op.Gap("b", ("conv",)), op.Concat("join", ("a", "b"))), GENERIC,
                    "b: pools conv a second time"),
    "duplicated map": (pooled(CONV, op.Duplicate("twice", ("conv",))), GENERIC,
                       "gap: pools a duplicated or concatenated map"),
    "copies": (pooled(CONV, op.Duplicate("a", ("conv",), 3), op.Duplicate("b", ("a",), 3), op.Conv("c", ("b",), 8)), GENERIC,
               "b: repeats every channel 9 times, at most 8"),
    "between copies": (pooled(op.Conv("a", ("input",), 3), op.Duplicate("b", ("a",), 2), op.Conv("c", ("b",), 2, 3, 1, 2)), GENERIC,
                       "c: a group ends between the copies of a duplicated channel"),
    "split lanes": (pooled(CONV, op.Conv("other", ("input",), 16, 3, 1, 2)), (GENERIC, 4, 64),
                    "input: groups split the 64 lanes of an encoded pixel"),
    "input pooled, split": (network(op.Gap("gap", ("input",)), op.Dense("dense", ("gap",), 16, 2)), (GENERIC, 4, 64),
                            "input: groups split the 64 lanes of an encoded pixel"),
    "side by side": (network(*POOLED, op.Dense("b", ("a",), 8), op.Concat("ab", ("a", "b")), op.Dense("c", ("ab",), 8),
                             op.Concat("ba", ("b", "a"))), GENERIC,
                     "logits: b and a cannot lie side by side"),
    "odd map": (pooled(CONV, op.MaxPool("half", ("conv",)), op.Conv("next", ("half",), 8), size=6), GENERIC,
                "half: blocks of 2x2 pixels do not tile its 3x3 output"),
    "pooled to a pixel": (pooled(CONV, op.MaxPool("half", ("conv",)), size=2), GENERIC,
                          "gap: blocks of 2x2 pixels do not tile its 1x1 input"),
    "wide blocks": (pooled(CONV, size=12), (GENERIC, 16), "input: blocks of 2x8 pixels do not tile its 12x12 output"),
}
"""Networks that the loops over taps and words cannot read, and why."""

FITS = {
    "features": (pooled(op.Conv("large", ("input",), 256), size=128), ICE40,
                 "layer large: its output takes 65,536 words of the 81,920 that all feature maps need in each bank, at most 16,384 "
                 "with ice40; the banks hold the maps of images of 48x48"),
    "features, width": (pooled(op.Conv("large", ("input",), 1024), size=64), ICE40,
                        "layer large: its output takes 65,536 words of the 69,632 that all feature maps need in each bank, at most 16,384 "
                        "with ice40; the banks hold the maps of a network of 0.19 times this width or images of 16x16"),
    "addresses": (pooled(op.Conv("large", ("input",), 64), size=512), (GENERIC, 4, 16),
                  "layer input: its output takes 262,144 words of the 524,288 that all feature maps need in each bank, at most 65,536 "
                  "with generic; the banks hold the maps of images of 176x176"),
    "ring": (pooled(op.Conv("wide", ("input",), 1024), op.Conv("end", ("wide",), 16), size=8), ICE40,
             "layer end: one tile needs 576 weight words, ice40 has room for 512; at most 8,192 inputs to an output fit"),
    "sums": (pooled(op.Conv("wide", ("input",), 8192), op.Conv("end", ("wide",), 1), size=4), GENERIC,
             "layer end: 73,728 inputs to an output need sums of more than 16 bits; at most 65,534 fit"),
}


def test_a_copy_whose_tile_is_larger_than_the_ring_is_refused_by_name():
    """A shuffle has no products, so its fan-in is None."""
    layers = (op.Thermometer("input", (), "tycc", 8, 4), op.Shuffle("mix", ("input",), 2), op.Gap("gap", ("mix",)),
              op.Dense("logits", ("gap",), 2, 1, True))
    net = strategies.fill(Topology("net", layers, ("a", "b")), 0)
    step = SimpleNamespace(layer="mix.copy", tile_words=600, words=1, tiles=1)
    layer = SimpleNamespace(label="mix.copy", ops=(net.topology["mix"],))
    program = SimpleNamespace(used=0, steps=[step], layers=[layer], shape=(4, 16, 8))
    with pytest.raises(FitError, match="^layer mix: one tile needs 600 weight words, ice40 has room for 512; at most 8,192 inputs"):
        _check_words(net.topology, program, ICE40, "stream")


@pytest.mark.parametrize("name", FITS)
def test_what_does_not_fit_is_refused_by_name(name):
    net, target, text = FITS[name]
    target, *shape = target if isinstance(target, tuple) else (target,)
    with pytest.raises(FitError) as error:
        plan(net, target, *shape)
    assert str(error.value) == text


@pytest.mark.parametrize("name", LISTED)
def test_what_the_loops_cannot_read_gets_lists_of_reads(name):
    net, target, text = LISTED[name]
    target, *shape = target if isinstance(target, tuple) else (target,)
    planned = plan(net, target, *shape)
    config = planned.config
    assert config.lists
    assert interleaved(net.topology, config.pixels, config.lanes, config.outputs) == text


@pytest.mark.parametrize("layer, text", [
    (op.Thermometer("input", (), "grey", 16, 4), "thermometer"),
    (op.Binarize("input", (), 16), "binarize"), (op.Bits8("input", (), 16), "bits8")])
def test_inputs_that_need_lists(layer, text):
    topology = Topology("net", (layer, CONV, op.Gap("gap", ("conv",)), op.Dense("logits", ("gap",), 2, 1, True)), ("a", "b"))
    assert interleaved(topology, 4, 64, 16) == f"input: {text}"


@pytest.mark.parametrize("size", [4, 8, 16])
def test_a_latent_that_is_a_map_is_not_sent(size):
    """Also where the map is one block: its pixels lie in several banks, and words of the latent are read from one."""
    ops = [CONV, op.MaxPool("pool", ("conv",)), op.MaxPool("half", ("pool",)), op.Conv(LATENT, ("half",), 16), op.Flatten("end", (LATENT,))]
    assert plan(network(*ops, size=size), GENERIC, 4, 16, 16).config.latent_words == (size == 4)


def test_a_latent_read_in_groups_takes_more_words():
    """The figure of docs/timing.md, section "Timing"."""
    ops = [CONV, op.Gap("gap", ("conv",)), op.Dense(LATENT, ("gap",), 72), op.Dense("hidden", (LATENT,), 24, 3)]
    grouped, whole = (plan(network(*layers), GENERIC, 4, 16, 16).config.latent_words for layers in (ops, ops[:3]))
    assert (whole, grouped) == (5, 6)
    text = (Path(__file__).parents[2] / "docs" / "timing.md").read_text()
    assert f"72 bits that are read in 3 groups take {grouped} words of 16 lanes" in " ".join(text.split())


def test_thresholds_of_global_pooling_need_lists():
    net = pooled(CONV)
    net = dataclasses.replace(net, thresholds={"gap": np.ones(16, np.int32)})
    assert plan(net, GENERIC).config.lists
    assert interleaved(net.topology, 4, 64, 16, thresholds=tuple(net.thresholds)) == "gap: thresholds of global pooling"


@pytest.mark.parametrize("shape, text", [
    ((5, 16, 16), "--pixels 5: expected 4, 8 or 16 (blocks of 2x2, 2x4 or 2x8 pixels)"),
    ((4, 48, 16), "--lanes 48: expected 16, 32, 64 or 128"),
    ((4, 16, 32), "--outputs 32: expected a power of two from --pixels (4) to --lanes (16)"),
    ((8, 16, 4), "--outputs 4: expected a power of two from --pixels (8) to --lanes (16)"),
    ((4, 16, 12), "--outputs 12: expected a power of two from --pixels (4) to --lanes (16)"),
    ((None, None, 128), "--outputs 128: expected a power of two from --pixels (4) to --lanes (64)")])
def test_illegal_shapes(shape, text):
    with pytest.raises(UsageError) as error:
        plan(pooled(CONV), GENERIC, *shape)
    assert str(error.value) == text


@pytest.mark.parametrize("shape, text", [
    ((8, None, None), "--pixels 8 --lanes 16: iCE40UP5K-SG48 has 4 feature banks of 16 bits, expected --pixels 4 --lanes 16"),
    ((None, 32, None), "--pixels 4 --lanes 32: iCE40UP5K-SG48 has 4 feature banks of 16 bits, expected --pixels 4 --lanes 16")])
def test_shapes_that_a_part_does_not_have(shape, text):
    with pytest.raises(UsageError) as error:
        plan(pooled(CONV), ICE40, *shape)
    assert str(error.value) == text


@pytest.mark.parametrize("wanted, shape", [((None, None, 4), (4, 64, 4)), ((4, None, None), (4, 64, 32)), ((None, 16, None), (8, 16, 16))])
def test_the_other_sizes_follow_one_that_the_target_has_no_shape_for(wanted, shape):
    target = replace(GENERIC, shapes=((8, 64, 32),))
    config = plan(pooled(CONV), target, *wanted).config
    assert (config.pixels, config.lanes, config.outputs) == shape


def test_a_learner_has_lanes_that_its_latent_fills():
    network = strategies.vgg_network(1, latent=96, hidden=32)
    assert plan(network, TARGETS["ecp5"], learn=(Head.of(network.topology), LearnConfig(12, 20))).config.lanes == 16


def test_one_word_of_features_lies_in_a_memory_of_two():
    layers = op.Thermometer("input", (), "grey", 2, 4), op.Flatten("flat", ("input",)), op.Dense("logits", ("flat",), 2, logits=True)
    assert plan(strategies.fill(Topology("word", layers, ("a", "b")), 1), GENERIC).config.feature_words == 2


@pytest.mark.parametrize("flags, code, text", [
    (("res.pt", "--target", "ice40"), 4,
     "layer input: its output takes 16,384 words of the 20,480 that all feature maps need in each bank, at most 16,384 with ice40; "
     "the banks hold the maps of images of 112x112"),
    (("big.pt", "--target", "ice40"), 4,
     "layer conv1: its output takes 32,768 words of the 49,152 that all feature maps need in each bank, at most 16,384 with ice40; "
     "the banks hold the maps of images of 64x64"),
    (("big.pt", "--target", "nowhere"), 2, f"--target nowhere: no such target, expected one of {', '.join(TARGETS)}"),
    (("big.pt", "--target", "generic", "--outputs", "5"), 2, "--outputs 5: expected a power of two from --pixels (4) to --lanes (64)")])
def test_a_refusal_loads_no_torch(tmp_path, flags, code, text):
    for name, topology in (("res", models.build("res3mb")), ("big", models.build("3mb", size=128))):
        checkpoint.save(tmp_path / f"{name}.pt", strategies.fill(topology, 1))
    program = ("import sys; from fbnn_hw.cli import main; code = main(sys.argv[1:]); "
               "print('torch' in sys.modules or 'amaranth' in sys.modules); sys.exit(code)")
    done = subprocess.run([sys.executable, "-c", program, "generate", "--model", *flags, "--out", "out"], cwd=tmp_path,
                          capture_output=True, text=True)
    assert (done.returncode, done.stderr, done.stdout) == (code, f"fbnn-hw generate: {text}\n", "False\n")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("seed", range(20))
def test_words_hold_every_channel_once_and_begin_where_groups_do(seed):
    rng = np.random.default_rng(seed)
    topology = strategies.engine_network(seed, (16,)).topology
    lanes = int(rng.choice([16, 32]))
    outputs = int(rng.choice([o for o in (4, 8, 16, 32) if o <= lanes]))
    placed = interleaved(topology, 4, lanes, outputs)
    if isinstance(placed, str):
        return
    for tensor in placed.tensors.values():
        assert [c for word in tensor.lanes for c in word if c >= 0] == list(range(tensor.shape[0]))
        assert all(len(word) == lanes and word[0] >= 0 for word in tensor.lanes)
        assert all(sorted(word, key=lambda c: c < 0) == list(word) for word in tensor.lanes), "gaps only at a word's end"
        assert 0 <= tensor.base and tensor.base + tensor.pitch * tensor.rows * tensor.columns <= placed.used
    assert {op for layer in placed.layers for op in layer.ops} == {op for op in topology.ops if op.kind not in ("concat", "duplicate")}


def test_tensors_that_live_at_the_same_time_do_not_overlap():
    """Each feature word's owner at each step, replayed."""
    for seed in range(40):
        topology = strategies.engine_network(seed, (16,)).topology
        placed = interleaved(topology, 4, 16, 4)
        if isinstance(placed, str):
            continue
        owner = {}
        for layer in placed.layers:
            for part in layer.parts:
                tensor = placed.tensors[part]
                for word in range(tensor.base, tensor.base + tensor.pitch * tensor.rows * tensor.columns):
                    assert owner.get(word) == part, (seed, layer.name, part, word)
            for name in layer.stores:
                tensor = placed.tensors[name]
                owner.update(dict.fromkeys(range(tensor.base, tensor.base + tensor.pitch * tensor.rows * tensor.columns), name))
        if LATENT in placed.tensors:
            assert LATENT in owner.values(), "the latent can be read at the end"


def test_residents_are_spread_evenly():
    from fbnn_hw.machine.transfers import Transfer

    for words in (1, 5, 16, 33):
        for share in range(17):
            resident = residents_of(Transfer(words, share))
            assert sum(resident) == words * share // 16
            for first in range(words):
                for last in range(first, words):
                    assert abs(sum(resident[first:last]) - (last - first) * share / 16) < 1


def test_configuration_as_json():
    net = strategies.vgg_network(1, width=1 / 4, size=16, thresholds=0)
    for target in (GENERIC, ICE40, dataclasses.replace(ICE40, bank_words=400)):
        config = plan(net, target).config
        again = AcceleratorConfig.from_json(config.to_json())
        assert again == config and again.to_json() == config.to_json() and again.id == config.id and hash(again) == hash(config)
    assert len({plan(net, GENERIC, *shape).config.id for shape in ((4, 16, 4), (4, 16, 8), (4, 32, 8))}) == 3


def test_equal_inputs_give_equal_plans_and_weights():
    nets = [strategies.vgg_network(5, width=1 / 4, size=16) for _ in range(2)]
    for target in (GENERIC, dataclasses.replace(ICE40, bank_words=500)):
        first, second = (plan(n, target) for n in nets)
        assert first.config == second.config and first.frame == second.frame
        if target is GENERIC:
            assert weights.memory(nets[0], first.program) == weights.memory(nets[1], second.program)
        else:
            assert weights.split(nets[0], first.program, first.config) == weights.split(nets[1], second.program, second.config)


def test_weights_do_not_change_the_hardware():
    """`rtl` takes a configuration, never a checkpoint."""
    first, second = (plan(strategies.vgg_network(seed, width=1 / 4, size=16), ICE40).config for seed in (1, 2))
    assert first == second


def test_estimate_adds_up():
    for net in (strategies.vgg_network(1, width=1 / 4, size=16), network(op.Gap("gap", ("input",)))):
        for target in (GENERIC, ICE40):
            planned = plan(net, target)
            estimate = output.estimate(planned, target)
            spent = sum(layer["cycles"] for layer in estimate["layers"])
            # START, the end of the program, RESULT are nobody's.
            assert estimate["cycles"] - estimate["load_cycles"] - spent == timing.end(0) + 2
            assert sum(layer["macs"] for layer in estimate["layers"]) == net.topology.macs()
            for layer in estimate["layers"]:
                assert sum(layer[key] for key in ("reads", "drain", "move", "wait", "other")) == layer["cycles"]
            assert 0 <= estimate["convolution_array_use"] <= estimate["convolution_array_busy"] <= 1


@pytest.mark.parametrize("target", [GENERIC, ICE40])
def test_a_layer_has_one_name(target):
    """In estimate.json, in the cycles that the diagram shows, and in the steps of config.json."""
    net = strategies.vgg_network(1, width=1 / 4, size=16)
    planned = plan(net, target)
    names = [layer["layer"] for layer in output.estimate(planned, target)["layers"]]
    assert names == list(planned.frame.layers) == list(dict.fromkeys(step.layer for step in planned.config.program))
    assert {"conv2+pool1", "gap+depthwise", "latent"} <= set(names) and not any(" " in name for name in names)


@pytest.mark.parametrize("kind, spent, bound", [
    ("conv", cycles.LayerCycles(reads=100, drain=40, move=30, wait=99, other=9), "compute"),
    ("dense", cycles.LayerCycles(reads=100, other=99), "memory"),
    ("logits", cycles.LayerCycles(reads=100), "memory"),
    ("lgap", cycles.LayerCycles(reads=100, other=99), "pooling"),
    ("conv", cycles.LayerCycles(reads=99, wait=100), "flash"),
    ("dense", cycles.LayerCycles(reads=99, move=100), "memory"),
    ("conv", cycles.LayerCycles(reads=99, drain=100), "control"),
    ("logits", cycles.LayerCycles(other=100), "control")])
def test_what_binds_a_layer(kind, spent, bound):
    assert spent.bound(kind) == bound and bound in cycles.BOUNDS
    assert spent.bound(kind, "sdram") == bound.replace("flash", "sdram") in cycles.BOUNDS


def test_rows_go_where_they_save_cycles_beside_a_fast_flash():
    """Beside late rows too it takes fewer cycles than with the first shares; the largest dense layer leaves the most rows."""
    chosen = plan(strategies.fill(models.build("1mb"), seed=0), TARGETS["ice40"], 4, 16, 8, weights="double")
    free = chosen.config.feature_words - chosen.program.used
    word_cycles = cycles.stream_cycles(chosen.config.word_bits, chosen.config.beat_bits, chosen.config.burst)
    greedy, rows = residents(chosen.program, word_cycles, free)
    assert chosen.frame.total < cycles.passes(replace(chosen.config, transfers=greedy, resident_rows=rows)).later.total
    shares = partial(residents, chosen.program, word_cycles)
    plain = replace(chosen.config, transfers=greedy, resident_rows=rows, late_base=0, late_rows=0, resident_base=chosen.program.used)
    assert chosen.frame.total < late.improved(plain, chosen.program, shares, cycles.passes(plain))[1].later.total

    def resident_words(transfers):
        """{layer: its resident words}; a layer may have several transfers."""
        sources = iter([resident for transfer in transfers if not transfer.after for resident in residents_of(transfer)])
        return {layer.name: sum(islice(sources, chosen.program.layer_words(layer))) for layer in chosen.program.fetched()}

    before, after = resident_words(greedy), resident_words(chosen.config.transfers)
    assert after["latent"] < before["latent"]
    assert after["hidden"] / before["hidden"] > after["latent"] / before["latent"]


def test_the_estimate_says_what_binds_each_layer():
    planned = plan(strategies.vgg_network(1, width=1 / 4, size=16), ICE40)
    layers = output.estimate(planned, ICE40)["layers"]
    kinds = {layer.label: layer.kind for layer in planned.program.layers}
    assert [x["bound"] for x in layers] == [planned.frame.layers[x["layer"]].bound(kinds[x["layer"]]) for x in layers]
