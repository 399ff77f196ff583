"""Nodes of an ONNX file that read constants alone, against ONNX's own evaluator, and those that are refused."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from fbnn_hw.base.errors import InputError
from fbnn_hw.foreign import read

from .test_qonnx import evaluated, model, refusal, same

RNG = np.random.default_rng(3)
PIXELS = np.random.default_rng(4).integers(0, 256, (40, 3, 5, 5)).astype(np.uint8)


SMALL = {"small": np.array(0.001)}


def sign(source):
    """Nodes from `source` to "b", the sign of what is never 0."""
    return [("Add", [source, "small"], "off", {}), ("Sign", ["off"], "b", {})]


def thresholds(path, nodes, constants, shape=(None, 3, 5, 5), opset=17, typed=()):
    """A network whose thresholds, `c`, the nodes make.  typed: constants whose types are theirs."""
    weights = {"w": RNG.choice([-1.0, 1.0], (4, 3, 3, 3)), "w_end": RNG.choice([-1.0, 1.0], (36, 5))}
    layers = [("Conv", ["x", "w"], "a0", {}), ("Add", ["a0", "c"], "a", {}), *sign("a"), ("Flatten", ["b"], "flat", {}),
              ("MatMul", ["flat", "w_end"], "y", {})]
    model(path, [*nodes, *layers], weights | SMALL | constants, shape, opset=opset)
    written = onnx.load(path)
    written.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in typed)
    path.write_bytes(written.SerializeToString())
    return path


FLOAT = {"to": TensorProto.FLOAT}
RIGHT = {
    "an input that is left out": ([("Clip", ["c0", "", "most"], "c", {})], {"c0": RNG.normal(0, 2, (4, 1, 1)), "most": np.float32(-1)}),
    "integers are divided": ([("Div", ["seven", "two"], "q", {}), ("Cast", ["q"], "c", FLOAT)],
                             {"seven": np.array([[[7]], [[-7]], [[6]], [[-1]]]), "two": np.array(2)}),
    "a part of a constant's shape": ([("Shape", ["w"], "q", {"start": 1, "end": 2}), ("Cast", ["q"], "c", FLOAT)], {}),
    "a part of the image's shape": ([("Shape", ["x"], "q", {"start": -2, "end": -1}), ("Cast", ["q"], "c", FLOAT)], {}),
    "whether it is 0": ([("Cast", ["c0"], "q", {"to": TensorProto.BOOL}), ("Cast", ["q"], "c", FLOAT)],
                        {"c0": np.array([[[3.0]], [[0.0]], [[-2.0]], [[1.0]]])}),
    "a cut to integers": ([("Cast", ["c0"], "q", {"to": TensorProto.INT8}), ("Cast", ["q"], "c", FLOAT)],
                          {"c0": np.array([[[3.7]], [[0.2]], [[-2.7]], [[1.0]]])}),
    "every second one": ([("Slice", ["c0", "start", "most", "", "step"], "c", {})],
                         {"c0": RNG.normal(0, 2, (8, 1, 1)), "start": np.array([0]), "most": np.array([8]), "step": np.array([2])})}


@pytest.mark.parametrize("name", RIGHT)
def test_they_give_what_onnx_says(name, tmp_path):
    path = thresholds(tmp_path / "n.onnx", *RIGHT[name])
    same(read(path), PIXELS, evaluated(path, PIXELS))


BYTES = ("two", np.array([[[2]]], np.uint8)), ("three", np.array([[[3]]], np.uint8))


@pytest.mark.parametrize("nodes, constants, typed, message", [
    ([("Cast", ["c0"], "q", {"to": TensorProto.UINT8}), ("Cast", ["q"], "c", FLOAT)], {"c0": np.array([[[258.0]]])}, (),
     "Cast q: casts a constant to UINT8, which does not hold it, expected 0 to 255"),
    ([("Sub", ["two", "three"], "q", {}), ("Cast", ["q"], "c", FLOAT)], {}, BYTES,
     "Sub q: computes with integers of few bits, which wrap, expected a Cast to FLOAT before it"),
    ([("Div", ["one", "none"], "q", {}), ("Cast", ["q"], "c", FLOAT)], {"one": np.array([1]), "none": np.array([0])}, (),
     "Div q: divides by 0, expected another number"),
    ([("Shape", ["x"], "s", {}), ("Gather", ["s", "first"], "q", {}), ("Cast", ["q"], "c", FLOAT)], {"first": np.array(0)}, (),
     "Shape s: the network computes with the number of images, expected it in shapes alone")])
def test_what_cannot_be_known_is_refused(nodes, constants, typed, message, tmp_path):
    assert refusal(thresholds(tmp_path / "n.onnx", nodes, constants, typed=typed)) == message


def test_the_number_of_images_may_be_in_shapes(tmp_path):
    nodes = [("Conv", ["x", "w"], "a", {}), *sign("a"), ("Shape", ["b"], "s", {}), ("Slice", ["s", "none", "one"], "n", {}),
             ("Concat", ["n", "rest"], "to", {"axis": 0}), ("Reshape", ["b", "to"], "flat", {}), ("MatMul", ["flat", "w_end"], "y", {})]
    path = model(tmp_path / "n.onnx", nodes, {
        **SMALL, "w": RNG.choice([-1.0, 1.0], (4, 3, 3, 3)), "w_end": RNG.choice([-1.0, 1.0], (36, 5)),
        "none": np.array([0]), "one": np.array([1]), "rest": np.array([36])}, (None, 3, 5, 5))
    same(read(path), PIXELS, evaluated(path, PIXELS))


@pytest.mark.parametrize("opset, outputs, attributes", [
    (13, ["n", "m1", "v1", "m2", "v2"], {}), (6, ["n"], {}), (17, ["n"], {"training_mode": 1})])
def test_a_batch_norm_that_trains_is_refused(opset, outputs, attributes, tmp_path):
    nodes = [("Conv", ["x", "w"], "a", {}), ("BatchNormalization", ["a", *"ghmv"], outputs, attributes), ("Sign", ["n"], "b", {}),
             ("Flatten", ["b"], "flat", {}), ("MatMul", ["flat", "w_end"], "y", {})]
    path = model(tmp_path / "n.onnx", nodes, {
        "w": RNG.choice([-1.0, 1.0], (4, 3, 3, 3)), "w_end": RNG.choice([-1.0, 1.0], (36, 5)), **{name: np.ones(4) for name in "ghmv"}},
        (1, 3, 5, 5), opset=opset)
    assert refusal(path).endswith("has no constant statistics, expected an export in evaluation mode")


@pytest.mark.parametrize("biases, gains, expected", [
    (8e6 + np.array([0, 8, -8, 4, -4.0]), np.ones(5), "the logits have a bias for each class, 7999992 to 8000008, expected none"),
    (np.full(5, 8e6), 1 + np.array([0, 0, 5e-7, 0, 0]), "the logits have a gain for each class, 1 to 1.0000005, expected one"),
    (np.full(5, 8e6), np.ones(5), None)])
def test_classes_that_differ_by_little_beside_what_they_share(biases, gains, expected, tmp_path):
    nodes = [("Conv", ["x", "w"], "a", {}), *sign("a"), ("Flatten", ["b"], "flat", {}), ("MatMul", ["flat", "w_end"], "y0", {}),
             ("Add", ["y0", "c"], "y", {})]
    path = model(tmp_path / "n.onnx", nodes, {
        **SMALL, "w": RNG.choice([-1.0, 1.0], (4, 3, 3, 3)), "w_end": RNG.choice([-1.0, 1.0], (36, 5)) * gains, "c": biases}, (1, 3, 5, 5))
    if expected is None:
        imported = read(path)
        assert imported.shift == 8e6
        same(imported, PIXELS, evaluated(path, PIXELS))
    else:
        with pytest.raises(InputError) as error:
            read(path)
        assert expected in str(error.value)
