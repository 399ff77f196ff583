"""Random networks of all ops, sizes and groups, with lists of reads, executed by a machine that knows nothing of the compiler."""

import dataclasses

import numpy as np
import pytest

from fbnn_hw.base.errors import FitError
from fbnn_hw.compile import graph, lists, weights
from fbnn_hw.compile.arrangement import Places
from fbnn_hw.compile.plan import plan
from fbnn_hw.ir import models
from fbnn_hw.ir import ops as op
from fbnn_hw.ir.network import Topology
from fbnn_hw.machine.config import byte_words
from fbnn_hw.targets import TARGETS
from tests import strategies
from tests.compile.test_machine import SHAPES, run, stream
from tests.compile.test_plan import LISTED
from tests.quick import quick

GENERIC = TARGETS["generic"]


@pytest.mark.parametrize("seed", quick(range(60), *range(20)))
def test_random_networks_give_the_reference_s_bits(seed):
    rng = np.random.default_rng(seed)
    shape = SHAPES[rng.integers(len(SHAPES))]
    run(strategies.network_2(seed), GENERIC if seed % 2 else stream(1 << 16, 1 << 13), shape, seed)


def test_the_example_of_the_page():
    """The list and the weights in the table of docs/engine.md, section "Lists of reads": every other lane cancels."""
    layers = [
        op.Thermometer("input", (), "tycc", 8, 4), op.Conv("a", ("input",), 16), op.Conv("b", ("input",), 16),
        op.Concat("both", ("a", "b")), op.Shuffle("mixed", ("both",)), op.Conv("c", ("mixed",), 16, 1, 1, 4),
        op.Gap("gap", ("c",)), op.Dense("logits", ("gap",), 2, 1, True)]
    network = strategies.fill(Topology("net", tuple(layers), ("a", "b")), 0)
    placed = lists.plan(network.topology, 4, 16, 8)
    reads = next(tiles[0].reads for each, tiles in placed.tiles.items() if each.layer.name == "c")
    assert [placed.stored[number].name for number in reads.places.tensor.repeat(reads.times)] == ["a", "a", "b", "b"]
    words = weights.weight_words(network, placed, ())["c"].reshape(-1, 8, 16)[:4, 0]
    own = network.weights["c"].reshape(16, 4, 2)[0].T  # those of a0 to a3, those of b0 to b3
    for read, word in enumerate(words):
        assert (word[:4] == own[read // 2]).all() and (word[4:] == read % 2).all()


@pytest.mark.parametrize("seed", range(5))
def test_the_code_of_a_place_has_all_of_it_and_the_order_of_a_list(seed):
    rng = np.random.default_rng(seed)
    places = Places(*(rng.integers(low, high, 500) for low, high in ((0, 2), (0, 3), (-600, 600), (-2, 3), (0, 8))))
    codes = places.codes()
    assert all(np.array_equal(part, again) for part, again in zip(places, Places.of(codes)))
    order = np.argsort(codes, kind="stable").tolist()
    rows = list(zip(-places.power, places.tensor, places.down, places.right, places.word))
    assert order == sorted(range(500), key=rows.__getitem__)


def test_a_stride_over_a_flattened_map():
    """An independent generator's: the one pixel of such a layer reads a whole map, farther than a block may be moved."""
    layers = [op.Thermometer("input", (), "grey", 10, 9), op.Flatten("flat", ("input",)), op.Conv("conv", ("flat",), 20, 1, 2, 20),
              op.Dense("logits", ("conv",), 3, 1, True)]
    run(strategies.fill(Topology("net", tuple(layers), ("a", "b", "c")), 0), GENERIC, (4, 16, 4), 0)


@pytest.mark.parametrize("kind", [op.Gap, op.Depthwise])
def test_tiles_that_read_alike_from_other_words_share_a_list(kind):
    """Ten tiles of four channels, one list of the 64 pixels, and a step for each tile."""
    layers = [op.Thermometer("input", (), "tycc", 8, 4), op.Conv("conv", ("input",), 40, 3, 1, 2), kind("sums", ("conv",)),
              op.Dense("logits", ("sums",), 3, 1, True)]
    planned = run(strategies.fill(Topology("net", tuple(layers), ("a", "b", "c")), 0), GENERIC, (4, 16, 4), 0)
    steps = [step for step in planned.config.program if step.layer.startswith("sums")]
    assert len(steps) == 10 and len({step.order for step in steps}) == 1
    assert len({step.source for step in steps}) == 3 and {step.source_tile_slot for step in steps} == {0, 1, 2, 3}
    assert all((step.words, step.listed) == (128, 64) for step in steps)


@pytest.mark.parametrize("name", LISTED)
def test_networks_that_the_loops_cannot_read(name):
    network, target, _ = LISTED[name]
    target, *shape = target if isinstance(target, tuple) else (target,)
    shape = [wanted or other for wanted, other in zip([*shape, None, None, None], (4, 16, 16))]
    run(network, target, shape, 0)


@pytest.mark.parametrize("sharing", lists.SHARINGS)
@pytest.mark.parametrize("seed", range(2))
def test_every_sharing_of_words_gives_the_same_bits(seed, sharing, monkeypatch):
    monkeypatch.setattr(lists, "SHARINGS", (sharing,))
    monkeypatch.setattr(lists, "plan", lists.plan.__wrapped__)  # without its cache
    run(residual(seed), GENERIC, (4, 16, 8), seed)


def residual(seed, size=16):
    """Two blocks as in res3mb, of few channels."""
    topology = models.build("res3mb", 4, size=size, latent=24, hidden=8)
    narrow = []
    for layer in topology.ops:
        if layer.kind == "conv":
            layer = dataclasses.replace(layer, out_channels=max(layer.groups, layer.out_channels // 4))
        if layer.kind == "slice":
            layer = dataclasses.replace(layer, start=layer.start // 4, stop=layer.stop // 4)
        narrow.append(layer)
    return strategies.fill(Topology("narrow", tuple(narrow), topology.classes), seed)


def test_a_tensor_s_channels_lie_in_its_words_once():
    made = lists.plan(residual(0).topology, 4, 16, 8)
    for tensor in made.stored:
        channels = [channel for word in tensor.lanes for channel in word if channel >= 0]
        assert sorted(channels) == list(range(tensor.shape[0]))
        assert all(len(word) == 16 for word in tensor.lanes)


def test_scattered_bits_are_copied_before_a_convolution_reads_them_nine_times(monkeypatch):
    topology = residual(0).topology
    made = lists.plan(topology, 4, 16, 8)
    copies = [each.layer for each in made.graph.sums if each.layer.kind == "copy" and not each.vector]
    assert [layer.name for layer in copies] == ["s1b5_shuffle.copy", "s2b5_shuffle.copy"]
    monkeypatch.setattr(graph, "scattered", lambda graph: ())
    assert lists.cost(made) < lists.cost(lists.plan.__wrapped__(topology, 4, 16, 8))


def test_an_image_read_with_stride_2_alone_is_stored_in_quarters():
    first, stem = models.build("res3mb", 4, size=16).ops[:2]
    layers = first, stem, op.Gap("gap", ("stem",)), op.Dense("logits", ("gap",), 2, 1, True)
    assert graph.build(Topology("net", layers, ("a", "b")), 16).image.quarters
    both = *layers[:2], op.Conv("other", ("input",), 8), op.Gap("gap", ("other",)), layers[-1]
    assert not graph.build(Topology("net", both, ("a", "b")), 16).image.quarters


@pytest.mark.parametrize("kernel, padding, lanes, expected", [
    (3, 0, 16, 1), (3, 0, 32, 3), (3, 0, 64, 1), (3, 0, 128, 3), (5, 0, 32, 5), (1, 0, 32, 1), (3, "same", 32, 1)])
def test_a_word_has_the_bytes_of_a_row_of_the_kernel(kernel, padding, lanes, expected):
    """A row of the kernel is read at once where no pixel lies outside the map, and the padding lanes suffice for every start value."""
    layers = [op.Bits8("input", (), 16), op.Conv("stem", ("input",), 16, kernel=kernel, padding=padding), op.Gap("gap", ("stem",)),
              op.Dense("logits", ("gap",), 2, 1, True)]
    topology = Topology("bytes", tuple(layers), ("a", "b"))
    planned = lists.plan(topology, 4, lanes, 8)
    assert planned.graph.image.word_pixels == expected
    assert all(len(word) == lanes for word in planned.stored[0].lanes)
    words = len(byte_words(lanes, expected))
    assert {tile.reads.count for tile in next(iter(planned.tiles.values()))} == {words * kernel * kernel // expected}


@pytest.mark.parametrize("lanes", [16, 32, 64, 128])
@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_convolutions_of_bytes_without_padding(kernel, lanes):
    layers = (op.Bits8("input", (), 8), op.Conv("first", ("input",), 9, kernel=kernel, padding=0), op.Flatten("flat", ("first",)),
              op.Dense("logits", ("flat",), 3, 1, True))
    network = strategies.fill(Topology("bytes", layers, ("a", "b", "c")), kernel, 1)
    most = 3 * 255 * kernel ** 2
    thresholds = np.random.default_rng(lanes).integers(-most, most, 9)
    run(dataclasses.replace(network, thresholds={"first": thresholds.astype(np.int32)}), GENERIC, (4, lanes, 8), lanes)


def test_a_word_has_the_bytes_of_one_pixel_where_another_reader_needs_that():
    layers = [op.Bits8("input", (), 16), op.Conv("stem", ("input",), 16, padding=0), op.Conv("other", ("input",), 16, kernel=1),
              op.Gap("gap", ("stem",)), op.Gap("rest", ("other",)), op.Concat("both", ("gap", "rest")),
              op.Dense("logits", ("both",), 2, 1, True)]
    assert graph.word_pixels(Topology("bytes", tuple(layers), ("a", "b")), 32) == (1,)


def test_lists_that_are_too_long_are_refused_by_name(monkeypatch):
    layers = [op.Thermometer("input", (), "tycc", 32, 16), op.Flatten("flat", ("input",)), op.Dense("logits", ("flat",), 2, 1, True)]
    with pytest.raises(FitError, match="^model long: lists of [0-9,]+ reads are more than 100; use more --lanes or fewer groups$"):
        monkeypatch.setattr(lists, "FIELD_VALUES", 100)
        plan(strategies.fill(Topology("long", tuple(layers), ("a", "b")), 0), GENERIC, 4, 16, 16)


@pytest.mark.parametrize("lanes, starts", [(16, ("word",)), (16, ("read",)), (64, ("word",))])
def test_sums_of_bytes_may_have_more_bits_than_a_word(lanes, starts):
    """A dense layer of 768 bytes sums to 195,840; its logits have the bits of their own sums."""
    layers = (op.Bits8("input", (), 16), op.Flatten("flat", ("input",)), op.Dense("first", ("flat",), 20),
              op.Dense("logits", ("first",), 3, 1, True))
    network = strategies.fill(Topology("wide", layers, ("a", "b", "c")), 1, 1)
    network = dataclasses.replace(network, thresholds={"first": np.linspace(-195_841, 195_841, 20).astype(np.int64)})
    config = run(network, dataclasses.replace(GENERIC, starts=starts), (4, lanes, 8), 0).config
    assert (config.accumulator_bits, config.logit_bits, config.start_reads) == (19, 6, starts == ("read",))


def test_start_values_that_no_word_holds_are_refused(monkeypatch):
    layers = (op.Bits8("input", (), 4), op.Flatten("flat", ("input",)), op.Dense("logits", ("flat",), 2, 1, True))
    monkeypatch.setattr(weights, "_largest_threshold", lambda *_: 1 << 30)
    with pytest.raises(FitError, match="^layer logits: start values of more than 16 bits; use 4 x 64 x 16, which is chosen without "):
        plan(strategies.fill(Topology("wide", layers, ("a", "b")), 0), GENERIC, 4, 16, 8)


def test_thresholds_within_reach_of_empty_lanes_need_no_bias_word():
    layers = (op.Thermometer("input", (), "trgb", 8, 3), op.Conv("conv", ("input",), 8, padding=0), op.Flatten("flat", ("conv",)),
              op.Dense("logits", ("flat",), 2, 1, True))
    network = strategies.fill(Topology("net", layers, ("a", "b")), 0)
    for most, biased in ((20, False), (80, True)):  # 9 reads of 7 empty lanes
        thresholds = {"conv": np.linspace(-most, most, 8).astype(np.int64)}
        planned = run(dataclasses.replace(network, thresholds=thresholds), GENERIC, (4, 16, 8), 0)
        assert planned.config.thresholds == biased


def test_every_map_is_read_by_a_later_layer():
    """The reads that a report draws: from the words of lists, without the compiler's knowledge of tensors."""
    planned = plan(residual(0), GENERIC, 4, 16, 8)
    config, program = planned.config, planned.program
    for name, tensor in program.tensors.items():
        words = set(range(tensor.base, tensor.base + tensor.size))
        readers = {step.layer for step in config.program for first, count in config.listed_words(step)
                   if words & set(range(first, first + count))}
        labels = {layer.label for layer in program.layers if name in layer.parts}
        assert labels <= readers, name


def test_a_view_that_names_too_many_bits_is_refused():
    """Twelve concatenations of a map with itself, 15 kB of a checkpoint, took more than 2 GB and did not end."""
    layers = [op.Thermometer("input", (), "trgb", 32, 4)]
    for number in range(12):
        layers.append(op.Concat(f"double{number}", (layers[-1].name,) * 2))
    layers += [op.Gap("gap", (layers[-1].name,)), op.Dense("logits", ("gap",), 2, logits=True)]
    with pytest.raises(FitError, match="^layer gap: sums 50,331,648 bits in lists of reads, expected at most 2,097,152$"):
        lists.plan(Topology("wide", tuple(layers), ("a", "b")), 4, 16, 4)
