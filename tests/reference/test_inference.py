"""numpy == plain loops == torch, every layer, bit for bit; and the definition's corner cases by hand."""

import numpy as np
import pytest
import torch

from fbnn_hw.base.errors import InputError, UsageError
from fbnn_hw.ir import ops as op
from fbnn_hw.ir.network import MAX_CHANNELS, Network, Topology
from fbnn_hw.nn import network as nn_network
from fbnn_hw.reference import encode, inference
from fbnn_hw.train.predict import integer_logits
from tests import strategies
from tests.reference import naive

SEEDS = range(40)
SEEDS_2 = range(80)


def torch_layers(network, images):
    """Every layer's bits of the torch twin: maps without their frame, convolutions before their pooling by their sign."""
    model = nn_network.load(network)
    outputs, byte_maps = {}, network.topology.byte_maps()
    with torch.no_grad():
        x = torch.from_numpy(images)
        for o, y in model.activations(model.encode(x)):
            values = y.numpy()
            height = network.topology.shapes[o.name][1]
            frame = (values.shape[2] - height) // 2
            values = values[:, :, frame:frame + height, frame:frame + height]
            outputs[o.name] = (values[:, :, 0, 0].astype(np.int32) if getattr(o, "logits", False) else
                               ((values + 255) / 2).astype(np.uint8) if o.name in byte_maps else (values > 0).astype(np.uint8))
        assert np.array_equal(model.logits(x).numpy(), outputs[o.name])
    return outputs


def naive_layers(network, image):
    lists = {name: array.tolist() for name, array in network.weights.items()}
    thresholds = {name: array.tolist() for name, array in network.thresholds.items()}
    return naive.run([o.to_dict() for o in network.topology.ops], lists, thresholds, image.tolist())


def assert_same(expected, actual):
    assert list(expected) == list(actual)
    for name in expected:
        assert expected[name].dtype == actual[name].dtype and np.array_equal(expected[name], actual[name]), name


@pytest.mark.parametrize("seed", SEEDS_2)
def test_random_network_of_version_2_equals_torch_and_loops(seed):
    network = strategies.network_2(seed)
    images = strategies.images(seed, 3, network.topology.image_size)
    layers = inference.layers(network, images)
    assert_same(layers, torch_layers(network, images))
    expected = {name: np.array(value) for name, value in naive_layers(network, images[0]).items()}
    for name, value in layers.items():
        assert np.array_equal(value[0], expected[name]), name


@pytest.mark.parametrize("seed", SEEDS)
def test_random_network_equals_torch(seed):
    network = strategies.network(seed)
    images = strategies.images(seed, 3, network.topology.image_size)
    assert_same(inference.layers(network, images), torch_layers(network, images))


@pytest.mark.parametrize("seed", SEEDS)
def test_random_network_equals_loops(seed):
    network = strategies.network(seed)
    if network.topology.macs() > 200_000:
        pytest.skip("too many MACs for plain loops")
    image = strategies.images(seed, 1, network.topology.image_size)
    expected = {name: np.array(value) for name, value in naive_layers(network, image[0]).items()}
    for name, value in inference.layers(network, image).items():
        assert np.array_equal(value[0], expected[name]), name


def test_the_seeds_cover_version_2():
    networks = [strategies.network_2(seed) for seed in SEEDS_2]
    layers = [(o, n.topology.input_shapes(o)) for n in networks for o in n.topology.ops]
    assert {o.kind for o, _ in layers} == set(op.KINDS)
    assert {o.encoder for o, _ in layers if o.kind == "thermometer"} == {"tycc", "trgb", "grey"}
    convolutions = {(o.kernel, o.stride, o.padding) for o, _ in layers if o.kind == "conv"}
    assert convolutions == {(kernel, stride, padding) for kernel in (1, 3, 5) for stride in (1, 2) for padding in ("same", 0)}
    assert {(o.stride, x[1] % 2) for o, (x, *_) in ((o, x) for o, x in layers if o.kind == "conv")} == {(1, 0), (1, 1), (2, 0), (2, 1)}
    assert {x[1] % 2 for o, (x, *_) in ((o, x) for o, x in layers if o.kind == "maxpool")} == {0, 1}
    readers = {(o.kind, o.logits if o.kind == "dense" else o.padding if o.kind == "conv" else None, o.name in n.thresholds)
               for n in networks for o in n.topology.ops if not n.topology.byte_maps().isdisjoint(o.inputs)}
    assert readers >= {("conv", "same", True), ("conv", "same", False), ("conv", 0, True), ("dense", False, True), ("flatten", None, False)}
    assert {o.kind for n in networks for o in n.topology.ops if o.name in n.thresholds} == {"conv", "gap", "depthwise", "dense"}
    assert {n.topology.version() for n in networks} == {1, 2}


def test_the_seeds_cover_every_op_and_enough_networks_for_the_loops():
    networks = [strategies.network(seed) for seed in SEEDS]
    assert {o.kind for n in networks for o in n.topology.ops} == {kind for kind, cls in op.KINDS.items() if cls.version == 1}
    assert {n.topology.version() for n in networks} == {1}
    assert {o.stride for n in networks for o in n.topology.ops if o.kind == "conv"} == {1, 2}
    assert {o.kernel for n in networks for o in n.topology.ops if o.kind == "conv"} == {1, 3}
    assert max(len(o.inputs) for n in networks for o in n.topology.ops) >= 3
    assert {o.kind for n in networks for o in n.topology.ops if o.name in n.thresholds} == {"conv", "gap", "depthwise", "dense"}
    assert sum(n.topology.macs() <= 200_000 for n in networks) >= 20


@pytest.mark.parametrize("options", [dict(), dict(encoder="trgb"), dict(classes=37, width=1 / 8, thresholds=1.0), dict(classes=2, size=48)])
def test_paper_structure_equals_torch(options):
    network = strategies.vgg_network(7, **options)
    images = strategies.images(8, 4, network.topology.image_size)
    assert_same(inference.layers(network, images), torch_layers(network, images))


def test_logits_are_the_last_layer_in_any_batching():
    network = strategies.vgg_network(3)
    images = strategies.images(4, inference.BATCH + 3)
    seen = []

    def progress(batches):
        seen.extend(batches)
        return batches

    logits = inference.logits(network, images, progress)
    assert logits.dtype == np.int32 and seen == [0, inference.BATCH]
    assert np.array_equal(logits, inference.layers(network, images)["logits"])
    assert inference.logits(network, images[:0]).shape == (0, 10)


def test_ties_go_to_the_lowest_class():
    classes = inference.classify(np.array([[1, 3, 3], [-2, -2, -2], [0, -1, 5]], np.int32))
    assert classes.dtype == np.int64 and classes.tolist() == [1, 0, 2]


def test_sign_of_zero_padding_and_thresholds_by_hand():
    """A 2x2 image of black: channel 0 of each plane is +1, and so is Cb's and Cr's lower half, outside is -1."""
    ops = (op.Thermometer("input", (), "trgb", 2, 2), op.Slice("constant", ("input",), 0, 1), op.Conv("conv", ("constant",), 1),
           op.Gap("gap", ("conv",)), op.Dense("logits", ("gap",), 1, logits=True))
    weights = {"conv": np.ones((1, 1, 3, 3), np.uint8), "logits": np.ones((1, 1), np.uint8)}
    black = np.zeros((1, 3, 2, 2), np.uint8)
    for threshold, bit in ((-2, 1), (-1, 1), (0, 0)):  # each window sees 4 times +1 and 5 times -1: dot = -1
        network = Network(Topology("hand", ops, ("only",)), weights, {"conv": np.array([threshold])})
        assert inference.layers(network, black)["conv"].tolist() == [[[[bit] * 2] * 2]]
    half = np.array([[[[0, 0], [255, 255]]] * 3], np.uint8)  # channel 1 of R: two of four bits
    ops = (ops[0], op.Slice("half", ("input",), 1, 2), op.Gap("gap", ("half",)), ops[-1])
    network = Network(Topology("hand", ops, ("only",)), {"logits": np.zeros((1, 1), np.uint8)})
    layers = inference.layers(network, half)
    assert layers["half"].tolist() == [[[[0, 0], [1, 1]]]]
    assert layers["gap"].tolist() == [[[[1]]]]  # sum 0 -> +1
    assert layers["logits"].tolist() == [[-1]]


def test_every_dot_product_stays_where_float32_is_exact():
    assert MAX_CHANNELS * 25 < 2 ** 22  # torch forms 2 * (dot - threshold) + 1, in any order of its terms
    assert op.MAX_BYTES_IN * op.BYTE * 4 + 3 < 2 ** 24
    assert 512 ** 2 < 2 ** 23  # pooling over the largest map


@pytest.mark.parametrize("images, shape", [
    (np.zeros((1, 3, 32, 48), np.uint8), "uint8 (1, 3, 32, 48)"), (np.zeros((1, 1, 32, 32), np.uint8), "uint8 (1, 1, 32, 32)"),
    (np.zeros((3, 32, 32), np.uint8), "uint8 (3, 32, 32)"), (np.zeros((1, 3, 32, 32), np.float32), "float32 (1, 3, 32, 32)"),
    ([[0]], "list")])
@pytest.mark.parametrize("function", [inference.layers, inference.logits])
def test_wrong_images_are_refused(function, images, shape):
    with pytest.raises(InputError) as error:
        function(strategies.vgg_network(0), images)
    assert str(error.value) == f"images: found {shape}, expected uint8 (N, 3, 32, 32)"


def test_encoding_of_all_corner_colours_and_many_others():
    steps = np.array([0, 1, 2, 63, 64, 127, 128, 129, 191, 192, 253, 254, 255], np.uint8)
    r, g, b = np.meshgrid(steps, steps, steps, indexing="ij")
    colours = np.stack([r, g, b]).reshape(1, 3, 13, 169)
    ycc = encode.ycc(colours)
    assert ycc.min() >= 0 and ycc.max() <= 255
    levels = encode.levels(colours, "tycc", 16)
    assert np.array_equal(levels[:, 0], ycc[:, 0] >> 3) and np.array_equal(levels[:, 1:], ycc[:, 1:] >> 4)
    bits = encode.encode(colours, "tycc", 16)
    assert bits.shape == (1, 64, 13, 169)
    assert np.array_equal(bits[:, :32].sum(1), levels[:, 0] + 1)  # channel k is 1 iff level >= k
    assert np.array_equal(bits[:, 32:48].sum(1), levels[:, 1] + 1) and np.array_equal(bits[:, 48:].sum(1), levels[:, 2] + 1)
    assert (np.diff(bits[:, :32].astype(int), axis=1) <= 0).all()


@pytest.mark.parametrize("rgb, ycc", [((0, 0, 0), (0, 128, 128)), ((255, 255, 255), (255, 128, 128)), ((255, 0, 0), (77, 85, 255)),
                                      ((0, 255, 0), (149, 43, 21)), ((0, 0, 255), (29, 255, 107))])
def test_colours_by_hand(rgb, ycc):
    assert encode.ycc(np.array(rgb, np.uint8).reshape(1, 3, 1, 1)).reshape(3).tolist() == list(ycc)


def test_extreme_chrominance_over_all_colours():
    """Cb and Cr are monotone in each colour, so the corners bound them all."""
    corners = np.array(np.meshgrid(*[[0, 255]] * 3)).reshape(1, 3, 2, 4).astype(np.uint8)
    assert (encode.ycc(corners).min(), encode.ycc(corners).max()) == (0, 255)


def test_wide_images_are_worked_on_in_bands(monkeypatch):
    """A convolution whose windows of one image, or whose weights, are too many at a time gives the bits of one that has them all."""
    network = strategies.vgg_network(3, width=1 / 32)
    images = strategies.images(5, 3)
    whole = inference.layers(network, images)
    monkeypatch.setattr(inference, "SLAB_BYTES", 5000)
    monkeypatch.setattr(inference, "MATRIX_VALUES", 100)
    assert all(np.array_equal(output, whole[name]) for name, output in inference.layers(network, images).items())


def test_only_what_is_needed_is_kept(monkeypatch):
    """The latents, and the logits, are those of `layers`, in batches as large as the largest map allows."""
    network = strategies.vgg_network(3, width=1 / 32)
    images, name = strategies.images(5, 7), network.topology.ops[-1].name
    monkeypatch.setattr(inference, "BATCH_VALUES", 3 * network.topology.largest_map()[1])
    whole, seen = inference.layers(network, images), []
    assert np.array_equal(inference.logits(network, images, lambda starts: seen.extend(starts) or starts), whole[name])
    assert np.array_equal(inference.latents(network, images), whole["latent"].reshape(7, -1)) and seen == [0, 3, 6]


def test_a_network_whose_maps_no_memory_holds():
    """15 kB of a checkpoint may ask for gigabytes: concatenations double a map and have no weights."""
    layers = [op.Thermometer("input", (), "trgb", 512, 4)]
    for number in range(8):
        layers.append(op.Concat(f"double{number}", (layers[-1].name,) * 2))
    layers += [op.Gap("gap", (layers[-1].name,)), op.Dense("logits", ("gap",), 2, logits=True)]
    network = strategies.fill(Topology("wide", tuple(layers), ("a", "b")), 1)
    images = np.zeros((1, 3, 512, 512), np.uint8)
    for backend in ("reference", "torch"):
        with pytest.raises(InputError, match="layer double7: gives 805,306,368 values for an image, expected at most 33,554,432"):
            integer_logits(network, images, backend)
    with pytest.raises(InputError, match="layer double7: gives"):
        inference.layers(network, images)


@pytest.mark.parametrize("backend", ["reference", "torch"])
@pytest.mark.parametrize("images", [np.zeros((2, 3, 32, 32)), np.zeros((2, 3, 32, 31), np.uint8), np.zeros((0, 3, 32, 32), np.uint8),
                                    np.zeros((3, 32, 32), np.uint8), "images"])
def test_images_that_are_none(images, backend):
    network = strategies.vgg_network(3, width=1 / 32)
    with pytest.raises(InputError, match=r"^images: found .*, expected uint8 \(N, 3, 32, 32\) with N from 1$"):
        integer_logits(network, images, backend)


def test_a_backend_that_is_none():
    with pytest.raises(UsageError, match="^backend: found 'numpy', expected one of torch, reference$"):
        integer_logits(strategies.vgg_network(3, width=1 / 32), np.zeros((1, 3, 32, 32), np.uint8), "numpy")
