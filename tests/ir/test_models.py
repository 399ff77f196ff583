"""Sizes of the named models, in bits and multiply-accumulates, as computed by hand in the paper's structure."""

import math

import numpy as np
import pytest

from fbnn_hw.base.errors import UsageError
from fbnn_hw.ir import models


def test_3mb_has_the_bits_and_macs_of_the_paper():
    topology = models.build("3mb", 100)
    shapes = topology.weight_shapes()
    extractor = [name for name in shapes if name not in ("hidden", "logits")]
    assert sum(math.prod(shapes[name]) for name in extractor) == 2_605_056
    assert topology.weight_bits() == 2_966_528
    assert round(topology.macs() / 1e6, 1) == 397.8
    assert topology.shapes["latent"] == (1024, 1, 1) and topology.shapes["skip_twice"] == (2304, 1, 1)


@pytest.mark.parametrize("name, mbit", [("0.5mb", 0.53), ("1mb", 1.09), ("3mb", 2.76), ("9mb", 8.31), ("24mb", 28.3)])
def test_true_sizes_are_those_in_the_docstring(name, mbit):
    bits = models.build(name).weight_bits()
    assert float(f"{bits / 1e6:.3g}") == mbit or round(bits / 1e6, 2) == mbit


@pytest.mark.parametrize("name, stem, second, third, last, latent, mmac", [
    ("fast", 96, 128, 192, 384, 512, 59.5), ("tiny", 48, 64, 160, 384, 256, 22.4)])
def test_the_layers_of_ours(name, stem, second, third, last, latent, mmac):
    topology = models.build(name)
    shapes = topology.shapes
    assert [shapes[layer] for layer in ("conv1", "conv2", "pool1", "pool2", "conv4", "pool3", "flatten", "latent")] == [
        (stem, 16, 16), (second, 16, 16), (second, 8, 8), (third, 4, 4), (last, 2, 2), (last, 1, 1), (last, 1, 1), (latent, 1, 1)]
    assert topology.weight_bits() == (
        9 * (64 * stem + stem * second + second * third + third * last) + last * latent + latent * 32 + 2 * (latent + 32) * 10)
    assert round(topology.macs() / 1e6, 1) == mmac


@pytest.mark.parametrize("name", ["fast", "tiny"])
def test_the_last_map_is_padded_where_it_is_small(name):
    for size in range(16, 66):
        topology = models.build(name, size=size)
        side = topology.shapes["conv4"][1]
        assert side == topology.shapes["pool2"][1] - 2 * (size >= 31), size
        assert topology.ops[[o.name for o in topology.ops].index("conv4")].padding == (0 if size >= 31 else "same"), size
        assert topology.shapes["pool3"][1] == side // 2 >= 1


def test_convolutions_of_a_block():
    blocks = (((16, 2, 2, "same"), models.Convolution(32, groups=4, padding=0, shuffle=2)),)
    ops = models.blockwise("drawn", models.CIFAR10, blocks, pooling="depthwise").ops
    assert [o.name for o in ops[:6]] == ["input", "conv1", "shuffle2", "conv2", "pool1", "depthwise"]
    assert (ops[1].groups, ops[1].stride, ops[1].padding) == (2, 2, "same")
    assert (ops[3].groups, ops[3].stride, ops[3].padding, ops[2].groups) == (4, 1, 0, 2)


@pytest.mark.parametrize("classes", [2, 37])
def test_any_number_of_classes(classes):
    assert len(models.build("0.5mb", classes).classes) == classes


def test_unknown_model():
    with pytest.raises(UsageError) as error:
        models.build("4mb")
    assert str(error.value) == "--model 4mb: no such model, expected one of 0.5mb, 1mb, 3mb, 9mb, 24mb, res3mb, res-small, fast, tiny"


@pytest.mark.parametrize("classes, options, line", [
    (None, {}, "classes: found None, expected a list of names or their number"),
    ("abc", {}, "classes: found 'abc', expected"), (0, {}, "classes: found 0, expected"), (("a", 5), {}, "classes: found "),
    (10, {"size": "32"}, "size: found '32', expected a whole number from 1"),
    (10, {"width": float("nan")}, "width: found nan, expected a number above 0"),
    (10, {"encoder": "TYCC"}, "encoder: found 'TYCC', expected one of tycc, trgb, grey"),
    (10, {"pooling": ["lgap"]}, r"pooling: found \['lgap'\], expected one of lgap, gap, depthwise, flatten")])
def test_classes_and_options_that_will_not_do(classes, options, line):
    with pytest.raises(UsageError, match=f"^{line}"):
        models.build("tiny" if "pooling" in options else "3mb", classes, **options)


def test_a_number_of_numpy_is_a_number_of_classes():
    assert models.build("tiny", np.int64(3)) == models.build("tiny", 3)


def test_images_that_are_too_small():
    with pytest.raises(UsageError) as error:
        models.build("fast", size=12)
    assert str(error.value) == "--model fast for images of 12 x 12 pixels: layer pool3: input size is 1x1, expected at least 2x2"


@pytest.mark.parametrize("depth, read", [(0, 2 * 1024), (1, 2 * 1152), (3, 2 * 1408)])
def test_the_depth_of_the_classifier(depth, read):
    topology = models.build("0.5mb", 10, depth=depth)
    shapes = topology.weight_shapes()
    assert [name for name in shapes if name.startswith("hidden")] == ["hidden", "hidden2", "hidden3"][:depth]
    assert math.prod(shapes["logits"]) == 10 * read
    assert (depth != 1) == (topology != models.build("0.5mb", 10))


def test_global_average_pooling_alone():
    topology = models.build("0.5mb", 10, pooling="gap")
    assert topology.shapes["gap"] == (128, 1, 1) and "depthwise" not in topology.shapes
    assert math.prod(topology.weight_shapes()["latent"]) == 1024 * 128


@pytest.mark.parametrize("name, options, line", [
    ("res3mb", dict(pooling="gap"), "--model res3mb: has no pooling to choose, expected none"),
    ("0.5mb", dict(depth=-1), "depth: found -1, expected a whole number from 0")])
def test_what_a_model_does_not_have(name, options, line):
    with pytest.raises(UsageError, match=f"^{line}$"):
        models.build(name, **options)
