"""QONNX files: networks trained in Brevitas and exported by it, against qonnx's own executor; files made by hand; refusals.

FBNN_FOREIGN_IMAGES=1000 compares that many images of each network in place of 20.
"""

import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from fbnn_hw.base.errors import InputError
from fbnn_hw.foreign import onnx_graph, read
from fbnn_hw.reference import inference
from tests.quick import quick

from .test_finn import MODELS

COUNT = int(os.environ.get("FBNN_FOREIGN_IMAGES", 20))
NAMES = ("dense", "cnv", "groups", "strided", "branches", "zeros")


@pytest.fixture(scope="module")
def nets():
    for package in ("brevitas", "qonnx", "onnxoptimizer", "onnxscript"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install 'fbnn-hw[foreign]'")
    from . import brevitas_nets

    return brevitas_nets


def rgb(pixels):
    return np.broadcast_to(pixels, (len(pixels), 3, *pixels.shape[2:]))


def same(imported, pixels, theirs):
    """Asserts that the logits are equal after the scale; returns the maps."""
    maps = inference.layers(imported.network, rgb(pixels))
    logits = maps["logits"].reshape(len(pixels), -1)
    if imported.scale is None:
        assert (inference.classify(maps["logits"]) == theirs.reshape(len(pixels), -1).argmax(1)).all()
    else:
        assert np.abs((theirs - imported.shift) / imported.scale - logits).max() < 0.01
    return maps


@pytest.mark.parametrize("name", quick(NAMES, "dense", "groups", "zeros"))
def test_what_brevitas_exports(nets, tmp_path, name):
    module, colours, size = nets.trained(name)
    nets.exported(module, colours, size, tmp_path / "net.onnx")
    imported = read(tmp_path / "net.onnx")
    pixels, _ = nets.images(colours, size, COUNT, 1000)
    maps = same(imported, pixels, nets.executed(tmp_path / "net.onnx", pixels))
    assert len(np.unique(maps["logits"].reshape(COUNT, -1), axis=0)) > 10
    hidden = [op.name for op in imported.network.topology.ops if op.name in imported.network.weights and op.name != "logits"]
    assert all(0.02 < maps[layer].mean() < 0.98 for layer in hidden)
    assert imported.format == "QONNX" and {op for part in imported.parts for op in part.layers} >= {*hidden, "logits"}


def test_every_architecture_is_tried(nets):
    assert set(NAMES) == set(nets.ARCHITECTURES)


def test_tfc_of_the_model_zoo(nets):
    path = MODELS / "qonnx" / "TFC_1W1A.onnx"
    if not path.is_file():
        pytest.skip("TFC_1W1A.onnx of the QONNX model zoo is not there; FBNN_MODELS names the folder with qonnx")
    imported = read(path)
    assert imported.network.topology.weight_bits() == 59_008 and imported.network.topology.macs() == 59_008
    rng = np.random.default_rng(2)
    strokes = np.kron(rng.integers(0, 2, (COUNT, 1, 7, 7)), np.ones((4, 4)))
    pixels = np.clip(255 * strokes + rng.normal(0, 60, (COUNT, 1, 28, 28)), 0, 255).astype(np.uint8)
    maps = same(imported, pixels, nets.executed(path, pixels))
    assert len(set(inference.classify(maps["logits"]).tolist())) > 3


# Files made by hand

RNG = np.random.default_rng(11)


def constant(name, values):
    return numpy_helper.from_array(np.asarray(values, np.float32 if np.asarray(values).dtype.kind == "f" else np.int64), name)


def signs(*shape):
    return RNG.choice([-1.0, 1.0], shape)


def model(path, nodes, constants, shape=(1, 3, 8, 8), output="y", kind=TensorProto.FLOAT, opset=17):
    """Writes an ONNX file.  nodes: (op, inputs, output, attributes).  kind: type of the input."""
    domain = {"BipolarQuant", "Quant", "IntQuant", "MultiThreshold"}
    made = [helper.make_node(op, inputs, outputs if isinstance(outputs, list) else [outputs],
                             domain="qonnx.custom_op.general" if op in domain else "", **attributes)
            for op, inputs, outputs, attributes in nodes]
    graph = helper.make_graph(made, "net", [helper.make_tensor_value_info("x", kind, shape)],
                              [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
                              [constant(name, values) for name, values in constants.items()])
    written = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("qonnx.custom_op.general", 1)])
    written.ir_version = 9
    path.write_bytes(written.SerializeToString())
    return path


def end(source, size):
    """Nodes and constants of a dense end that reads `source`, `size` values."""
    return [("Flatten", [source], "flat", {}), ("MatMul", ["flat", "w_end"], "y", {})], {"w_end": signs(size, 3)}


def two_steps(step, constants, middle=()):
    """A convolution, nodes, a step of "a" to "b", another layer, and the end."""
    last, end_constants = end("e", 6)
    more = [("Flatten", ["b"], "b1", {}), ("MatMul", ["b1", "w_more"], "d", {}), ("BipolarQuant", ["d", "one"], "e", {})]
    return ([("Conv", ["x", "w"], "a0", {}), *middle, step, *more, *last],
            {"w": signs(4, 3, 3, 3), "w_more": signs(4 * 36, 6), "one": [1.0], **constants, **end_constants})


SCALE = {"s": [0.5]}
QUANT = {"s": [1.0], "z": [0.0], "n": [1.0]}
BY_HAND = {
    "multithreshold": two_steps(("MultiThreshold", ["a0", "t"], "b", {"out_dtype": "BIPOLAR", "out_scale": 2.0, "out_bias": -1.0}),
                                {"t": RNG.normal(0, 2, (4, 1))}),
    "quant_of_one_signed_bit": two_steps(("Quant", ["a", "s", "z", "n"], "b", {"signed": 1, "narrow": 1, "rounding_mode": "ROUND"}), QUANT,
                                         [("Add", ["a0", "c"], "a", {})]) ,
    "quant_of_one_unsigned_bit": two_steps(("Quant", ["a", "s", "z", "n"], "b", {"signed": 0, "narrow": 0, "rounding_mode": "ROUND"}),
                                           QUANT, [("Add", ["a0", "c"], "a", {})]),
    "quant_to_two_bits_before": two_steps(("BipolarQuant", ["a", "s"], "b", {}), {**QUANT, "two": [2.0], "s": [0.75]},
                                          [("Add", ["a0", "c"], "a1", {}), ("Quant", ["a1", "s", "z", "two"], "a2", {"signed": 1,
                                            "narrow": 0, "rounding_mode": "FLOOR"}), ("Add", ["a2", "c"], "a", {})]),
    "clip_and_negative_scale": two_steps(("BipolarQuant", ["a", "s"], "b", {}), {**SCALE, "minus": [[[[-2.0]]]], "lo": -3.0, "hi": 3.0},
                                         [("Mul", ["a0", "minus"], "a1", {}), ("Add", ["a1", "c"], "a2", {}),
                                          ("Clip", ["a2", "lo", "hi"], "a", {})]),
}
for _nodes, _constants in BY_HAND.values():
    _constants["c"] = RNG.normal(0, 1, (1, 4, 1, 1))


@pytest.mark.parametrize("name", BY_HAND)
def test_quantisers(nets, tmp_path, name):
    path = model(tmp_path / "n.onnx", *BY_HAND[name])
    pixels = np.random.default_rng(4).integers(0, 256, (COUNT, 3, 8, 8)).astype(np.uint8)
    maps = same(read(path, None, -1.0, 1.0), pixels, nets.executed(path, pixels, (-1.0, 1.0)))
    assert 0.05 < maps["conv1"].mean() < 0.95


def test_orders_of_channels(nets, tmp_path):
    """A picture with the channels last, a map flattened with the channels last, branches that are split and joined."""
    nodes = [("Transpose", ["x"], "x1", {"perm": [0, 3, 1, 2]}), ("Conv", ["x1", "w"], "a", {}), ("BipolarQuant", ["a", "s"], "b", {}),
             ("Split", ["b", "sizes"], ["b1", "b2"], {"axis": 1}), ("Concat", ["b2", "b1", "b"], "b3", {"axis": 1}),
             ("Transpose", ["b3"], "b4", {"perm": [0, 2, 3, 1]}), ("Reshape", ["b4", "to"], "v", {}),
             ("Gemm", ["v", "w2"], "d", {"transB": 1}), ("BatchNormalization", ["d", "g", "h", "m", "v2"], "d2", {}),
             ("BipolarQuant", ["d2", "s"], "d3", {}), ("MatMul", ["d3", "w_end"], "y", {})]
    constants = {"w": signs(6, 3, 3, 3), "s": [1.0], "sizes": np.array([2, 4]), "to": np.array([1, -1]), "w2": signs(8, 12 * 36),
                 "g": signs(8), "h": RNG.normal(0, 1, 8), "m": RNG.normal(0, 9, 8), "v2": RNG.uniform(50, 200, 8), "w_end": signs(8, 3)}
    path = model(tmp_path / "n.onnx", nodes, constants, (1, 8, 8, 3))
    pixels = np.random.default_rng(4).integers(0, 256, (COUNT, 3, 8, 8)).astype(np.uint8)
    imported = read(path, ("a", "b", "c"), -1.0, 1.0)
    same(imported, pixels, nets.executed(path, np.ascontiguousarray(pixels.transpose(0, 2, 3, 1)), (-1.0, 1.0)))
    assert imported.network.topology.classes == ("a", "b", "c") and "latent" in imported.network.topology


LAST = ("Transpose", ["a0"], "a1", {"perm": [0, 2, 3, 1]})
FIRST = ("Transpose", ["a2"], "b", {"perm": [0, 3, 1, 2]})
NORM = {name: RNG.uniform(0.5, 2, 6) for name in ("g", "h", "m", "v")}


def laid_out(path, step, middle):
    """A map of 6 channels, 6 x 6 pixels, in which a wrong axis fits."""
    nodes, constants = two_steps(step, {"t": RNG.normal(0, 2, (6, 1)), "w": signs(6, 3, 3, 3), "w_more": signs(6 * 36, 6), **NORM}, middle)
    return model(path, nodes, constants)


def test_thresholds_of_channels_that_lie_last(nets, tmp_path):
    step = ("MultiThreshold", ["a1", "t"], "a2", {"out_dtype": "BIPOLAR", "out_scale": 2.0, "out_bias": -1.0, "data_layout": "NHWC"})
    path = laid_out(tmp_path / "n.onnx", FIRST, [LAST, step])
    pixels = np.random.default_rng(4).integers(0, 256, (COUNT, 3, 8, 8)).astype(np.uint8)
    same(read(path, None, -1.0, 1.0), pixels, nets.executed(path, pixels, (-1.0, 1.0)))


@pytest.mark.parametrize("step, middle, message", [
    (FIRST, [LAST, ("MultiThreshold", ["a1", "t"], "a2", {"out_scale": 2.0, "out_bias": -1.0})],
     "MultiThreshold a2: has channels along axis 1 by its data_layout 'NCHW', expected axis 3, where the map has them"),
    (("MultiThreshold", ["a0", "t"], "b", {"out_scale": 2.0, "out_bias": -1.0, "data_layout": "NHWC"}), [],
     "MultiThreshold b: has channels along axis 3 by its data_layout 'NHWC', expected axis 1, where the map has them"),
    (FIRST, [LAST, ("BatchNormalization", ["a1", "g", "h", "m", "v"], "n", {}), ("BipolarQuant", ["n", "one"], "a2", {})],
     "BatchNormalization n: takes rows as channels, for the map has its channels last, expected a map with the channels first")])
def test_a_node_that_takes_another_axis_as_channels_is_named(tmp_path, step, middle, message):
    assert refusal(laid_out(tmp_path / "n.onnx", step, middle)) == message


def test_a_grey_picture_with_a_frame_of_its_own(nets, tmp_path):
    """Grey stands three times in the map of bytes; a Pad before the first convolution reads that map."""
    last, constants = end("b", 4 * 64)
    nodes = [("Pad", ["x", "frame", "zero"], "p", {}), ("Conv", ["p", "w"], "a", {}),
             ("BatchNormalization", ["a", "g", "h", "m", "v"], "n", {}), ("BipolarQuant", ["n", "s"], "b", {}), *last]
    constants |= {"frame": np.array([0, 0, 1, 1, 0, 0, 1, 1]), "zero": 0.0, "w": signs(4, 1, 3, 3), "g": signs(4), "h": RNG.normal(0, 1, 4),
                  "m": RNG.normal(0, 2, 4), "v": RNG.uniform(1, 2, 4), "s": [1.0]}
    path = model(tmp_path / "n.onnx", nodes, constants, (1, 1, 8, 8))
    pixels = np.random.default_rng(4).integers(0, 256, (COUNT, 1, 8, 8)).astype(np.uint8)
    same(read(path), pixels, nets.executed(path, pixels))


def test_standard_onnx_alone(tmp_path):
    """Sign and batch norm, against ONNX's own evaluator; a softmax at the end leaves the class."""
    last, constants = end("b", 64)
    nodes = [("Conv", ["x", "w", "bias"], "a", {}), ("MaxPool", ["a"], "p", {"kernel_shape": [2, 2], "strides": [2, 2]}),
             ("BatchNormalization", ["p", "g", "h", "m", "v"], "n", {}), ("Sign", ["n"], "b", {}),
             last[0], ("MatMul", ["flat", "w_end"], "z", {}), ("Softmax", ["z"], "y", {})]
    constants |= {"w": signs(8, 3, 3, 3) * 0.25, "bias": RNG.normal(0, 1, 8), "g": signs(8), "h": RNG.normal(0, 1, 8),
                  "m": RNG.normal(0, 1, 8), "v": RNG.uniform(0.5, 2, 8), "w_end": signs(72, 3)}
    path = model(tmp_path / "n.onnx", nodes, constants)
    pixels = np.random.default_rng(4).integers(0, 256, (20, 3, 8, 8)).astype(np.uint8)
    imported = read(path)
    assert imported.exact == "classes"
    same(imported, pixels, evaluated(path, pixels))


def split(*sizes, source, to, made):
    """A Reshape of a map of 3 x 3 pixels to channels of `sizes`, and its constant."""
    return ("Reshape", [source, made], to, {}), {made: np.array([1, *sizes, 3, 3])}


SWAP = {"perm": [0, 2, 1, 3, 4]}
CHAINS = {"one": [(2, 4), "turn", (8,)], "another_split_before_the_end": [(2, 4), "turn", (4, 2), (8,)],
          "the_middle_reshapes_are_one": [(2, 4), "turn", (2, 4), "turn", (8,)], "to_a_vector": [(2, 4), "turn"],
          "turned_back": [(2, 4), "turn", "turn", (8,)], "split_twice": [(2, 4), (4, 2), "turn", (8,)],
          "a_size_of_0": [(2, 4), "turn", (0, 0), (8,)], "signs_by_group": [(2, 4), "turn", "signs", (8,)]}


def chained(path, steps, rng, channels=8):
    """A network whose map of bits goes through `steps`: a tuple of sizes of the channels, "turn", or "signs" of each channel."""
    nodes, constants = [("Conv", ["x", "w"], "a", {}), ("Add", ["a", "c"], "a1", {}), ("Sign", ["a1"], "b", {})], {}
    source, sizes = "b", (channels,)
    for number, step in enumerate(steps):
        to, made = f"b{number}", f"k{number}"
        if step == "turn":
            node, sizes = ("Transpose", [source], to, SWAP), sizes[::-1]
        elif step == "signs":
            node, constants[made] = ("Mul", [source, made], to, {}), rng.choice([-1.0, 1.0], (1, *sizes, 1, 1))
        else:
            node, own = split(*step, source=source, to=to, made=made)
            sizes, constants = sizes if 0 in step else step, constants | own
        nodes.append(node)
        source = to
    flat = [("Flatten", [source], "flat", {}), ("MatMul", ["flat", "w_end"], "y", {})]
    constants |= {"w": rng.choice([-1.0, 1.0], (channels, 3, 3, 3)), "w_end": rng.choice([-1.0, 1.0], (9 * channels, 5)),
                  "c": rng.normal(0, 1, (1, channels, 1, 1))}
    return model(path, [*nodes, *flat], constants, (1, 3, 5, 5))


def evaluated(path, pixels):
    """What ONNX's own evaluator gives for images with bytes from 0 to 1."""
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(onnx.load(path))
    return np.concatenate([evaluator.run(None, {"x": np.float32(image[None] / 255)})[0] for image in pixels])


@pytest.mark.parametrize("name", CHAINS)
def test_shuffles_of_channels(tmp_path, name):
    rng = np.random.default_rng(8)
    path = chained(tmp_path / "n.onnx", CHAINS[name], rng)
    pixels = rng.integers(0, 256, (20, 3, 5, 5)).astype(np.uint8)
    same(read(path), pixels, evaluated(path, pixels))


@pytest.mark.parametrize("sizes", [(-1, 8, 1, 1), (-1, 1, 1, 8), (-1, 8)])
def test_a_shuffle_of_a_map_of_one_pixel(tmp_path, sizes):
    """The channels lie in another order afterwards, whatever the reshape behind the shuffle leaves of the pixel."""
    rng = np.random.default_rng(8)
    nodes = [("Conv", ["x", "w"], "a", {}), ("Add", ["a", "c"], "a1", {}), ("Sign", ["a1"], "b", {}), ("Reshape", ["b", "apart"], "s", {}),
             ("Transpose", ["s"], "t", SWAP), ("Reshape", ["t", "together"], "u", {}), ("Flatten", ["u"], "flat", {}),
             ("MatMul", ["flat", "w_end"], "y", {})]
    path = model(tmp_path / "n.onnx", nodes, {
        "w": rng.choice([-1.0, 1.0], (8, 3, 5, 5)), "w_end": rng.choice([-1.0, 1.0], (8, 5)), "c": rng.normal(0, 1, (1, 8, 1, 1)),
        "apart": np.array([-1, 2, 4, 1, 1]), "together": np.array(sizes)}, (1, 3, 5, 5))
    pixels = rng.integers(0, 256, (20, 3, 5, 5)).astype(np.uint8)
    same(read(path), pixels, evaluated(path, pixels))


@pytest.mark.parametrize("seed", range(40))
def test_random_chains_of_shuffles(tmp_path, seed):
    rng = np.random.default_rng(seed)
    channels, steps, sizes = int(rng.choice([8, 12])), [], 1
    for _ in range(rng.integers(2, 9)):
        steps.append(["turn", "signs", "split", "split", "join"][rng.integers(5)])
        if steps[-1] == "split" or steps[-1] == "turn" and sizes == 1:
            groups = int(rng.choice([n for n in range(1, channels + 1) if channels % n == 0]))
            steps[-1:] = [(groups, channels // groups), *["turn"] * (steps[-1] == "turn")]
            sizes = 2
        elif steps[-1] == "join":
            steps[-1], sizes = (channels,), 1
    path = chained(tmp_path / "n.onnx", steps, rng, channels)
    pixels = rng.integers(0, 256, (10, 3, 5, 5)).astype(np.uint8)
    same(read(path), pixels, evaluated(path, pixels))


@pytest.mark.parametrize("steps, node, message", [
    ([(2, 4)], ("Slice", ["b0", "lo", "hi", "axis"], {}), "Slice z: reads 2x4x3x3, channels that a Reshape split, expected Reshape,"),
    ([(2, 4), "turn"], ("GlobalAveragePool", ["b1"], {}), "GlobalAveragePool z: reads 4x2x3x3, channels that a Reshape split"),
    ([(2, 4)], ("Mul", ["b0", "two"], {}), "Mul z: has a constant of 2x1x1x1x1 for a map of 5 axes, which makes more images of one"),
    ([], ("Mul", ["b", "two"], {}), "Mul z: has a constant of 2x1x1x1x1 for a map of 4 axes, which makes more images of one")])
def test_what_a_split_map_is_not_for_is_named(tmp_path, steps, node, message):
    path = chained(tmp_path / "n.onnx", steps, np.random.default_rng(8))
    written = onnx.load(path)
    nodes = [n for n in written.graph.node if n.op_type not in ("Flatten", "MatMul")]
    more = [helper.make_node(node[0], node[1], ["z"], **node[2]), helper.make_node("Flatten", ["z"], ["flat"]),
            helper.make_node("MatMul", ["flat", "w_end"], ["y"])]
    written.graph.ClearField("node")
    written.graph.node.extend([*nodes, *more])
    written.graph.initializer.extend([constant("lo", np.array([0])), constant("hi", np.array([1])), constant("axis", np.array([1])),
                                      constant("two", np.ones((2, 1, 1, 1, 1)))])
    path.write_bytes(written.SerializeToString())
    assert refusal(path).startswith(message)


CASTS = [("Cast", ["x"], "f", {"to": TensorProto.FLOAT}), ("Div", ["f", "top"], "x1", {})]


def of_bytes(path, *before, kind=TensorProto.UINT8):
    """A network whose input is of type uint8; before: nodes that give x1, which the first layer reads."""
    nodes, constants = two_steps(("BipolarQuant", ["a", "one"], "b", {}), {"top": 255.0, "c": RNG.normal(0, 1, (1, 4, 1, 1))},
                                 [("Add", ["a0", "c"], "a", {})])
    nodes[0] = ("Conv", ["x1", "w"], "a0", {})
    return model(path, [*before, *nodes], constants, kind=kind)


def test_an_input_of_bytes_takes_them_as_they_are(nets, tmp_path):
    path = of_bytes(tmp_path / "n.onnx", *CASTS)
    pixels = np.random.default_rng(4).integers(0, 256, (COUNT, 3, 8, 8)).astype(np.uint8)
    imported = read(path)
    same(imported, pixels, nets.executed(path, pixels, None))
    assert imported.notes[0] == "the input is of type uint8, so its bytes are taken as they are, 0 to 255"
    assert read(path, None, 0.0, 255.0).notes == imported.notes[1:]
    with pytest.raises(InputError, match="of type UINT8, so its bytes are taken as they are, expected no --range, or --range 0 255$"):
        read(path, None, 0.0, 1.0)


@pytest.mark.parametrize("before, kind, message", [
    ([("Mul", ["x", "two"], "x0", {}), ("Cast", ["x0"], "x1", {"to": 1})], TensorProto.UINT8,
     "Mul x0: computes with uint8, which wraps, expected a Cast to FLOAT before it"),
    ([("Identity", ["x"], "x1", {})], TensorProto.INT8, "the input: is of type INT8, expected FLOAT or UINT8"),
    ([("Cast", ["x"], "h", {"to": 10}), ("Cast", ["h"], "x1", {"to": 1})], TensorProto.FLOAT,
     "Cast h: casts a map to FLOAT16, which rounds or wraps, expected FLOAT"),
    ([("Cast", ["two"], "h", {"to": 16}), ("Mul", ["x", "h"], "x1", {})], TensorProto.FLOAT,
     "Cast h: casts a constant to BFLOAT16, expected FLOAT, FLOAT16 or integers")])
def test_numbers_of_few_bits_are_named(tmp_path, before, kind, message):
    path = of_bytes(tmp_path / "n.onnx", *before, kind=kind)
    loaded = onnx.load(path)
    loaded.graph.initializer.append(constant("two", 2.0))
    path.write_bytes(loaded.SerializeToString())
    assert refusal(path) == message


@pytest.mark.parametrize("domain", ["qonnx.custom_op.channels_last", "com.example", "com.microsoft"])
def test_an_operator_of_another_set_is_not_taken_for_its_namesake(tmp_path, domain):
    nodes, constants = two_steps(("BipolarQuant", ["a0", "one"], "b", {}), {})
    path = model(tmp_path / "net.onnx", nodes, constants)
    read(path)
    written = onnx.load(path)
    next(node for node in written.graph.node if node.op_type == "Conv").domain = domain
    onnx.save(written, path)
    with pytest.raises(InputError, match=rf"{domain}\.Conv.*has no counterpart"):
        read(path)


def test_a_threshold_on_a_rounded_sum_is_noted(tmp_path):
    nodes, constants = two_steps(("BipolarQuant", ["a2", "s"], "b", {}), {"s": [1.0], "w1": signs(4, 4, 1, 1) * 0.1},
                                 [("BipolarQuant", ["a0", "s"], "a1", {}), ("Conv", ["a1", "w1"], "a2", {})])
    note = "BipolarQuant b: the threshold of 4 channels lies on a sum, where the source rounds and may give the other bit"
    assert note in read(model(tmp_path / "n.onnx", nodes, constants)).notes
    constants["w1"] *= 5  # 0.5: no rounding
    assert note not in read(model(tmp_path / "n.onnx", nodes, constants)).notes


# Refusals

def refusal(path):
    with pytest.raises(InputError) as error:
        read(path)
    text = str(error.value)
    assert text.startswith(f"{path}: ") and "\n" not in text
    return text.removeprefix(f"{path}: ")


STEP = ("BipolarQuant", ["a", "s"], "b", {})


@pytest.mark.parametrize("middle, step, more, message", [
    ([("Conv", ["x", "w"], "a", {"pads": [1, 1, 1, 1]})], STEP, {},  # of a picture of 0 to 1: exact, so the end does not fit
     "MatMul : reads"),
    ([("Add", ["a0", "c"], "a0", {}), ("Identity", ["a0"], "a", {})], STEP, {}, "Add a0: gives 'a0', which is there before it"),
    ([("Dropout", ["a0", "half", "yes"], "a", {})], STEP, {"half": 0.5, "yes": [1.0]}, "Dropout a: drops in evaluation too"),
    ([("Erf", ["a0"], "a", {})], STEP, {}, "Erf a: Erf has no counterpart among +1 and -1; expected Conv, Gemm,"),
    ([("Add", ["a0", "a0"], "a", {})], STEP, {}, "Add a: takes real numbers of two layers, a shortcut"),
    ([("Relu", ["a0"], "a", {})], ("Identity", ["a"], "b", {}), {}, "Relu a: gives real numbers to"),
    ([("Identity", ["a0"], "a", {})], ("Quant", ["a", "s", "z", "n"], "b", {}), {"z": [0.0], "n": [40.0]},
     "Quant b: 40.0 bits, expected one whole number from 1 to 32 for all values"),
    ([("Add", ["a0", "nan"], "a", {})], STEP, {"nan": [np.nan]}, "Add a: divides by the map, or has a constant that is NaN"),
    ([("Mul", ["a0", "wide"], "a", {})], STEP, {"wide": np.ones((1, 4, 6, 6))}, "Mul a: is no function of each value alone"),
    ([("Identity", ["missing"], "a", {})], STEP, {}, "Identity a: reads 'missing', which no node before it gives"),
    ([("MaxPool", ["a0"], "a", {"kernel_shape": [3, 3], "strides": [3, 3]})], STEP, {},
     "MaxPool a: pools [3, 3] by [3, 3] with pads [0, 0, 0, 0], expected 2x2 blocks without pads"),
    ([("MaxPool", ["a0"], "p", {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
      ("MaxPool", ["p"], "a", {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"})], STEP, {},
     "MaxPool a: pools [2, 2] by [2, 2] with pads [0, 0, 0, 0], auto_pad SAME_UPPER on a map of odd size, expected 2x2 blocks"),
    ([("MaxPool", ["a0"], "a", {"kernel_shape": 2})], STEP, {}, "MaxPool a: cannot be read (TypeError: 'int' object is not iterable)"),
    ([("LeakyRelu", ["a0"], "l", {"alpha": -1.0}), ("Sub", ["l", "three"], "a", {})], STEP, {"three": [3.0]},
     "Sub a: rises and falls with the sums of channel 0, expected a function of single values that only rises or only falls"),
    ([("Add", ["row", "column"], "table", {}), ("Identity", ["a0"], "a", {})], STEP,
     {"row": np.ones((1, 2 ** 13)), "column": np.ones((2 ** 13, 1))}, "Add table: makes a constant of more than 33554432 values"),
])
def test_what_has_no_counterpart_is_named(tmp_path, middle, step, more, message):
    nodes, constants = two_steps(step, {"s": [1.0], "c": [1.0], **more}, middle)
    if message.startswith("MatMul :"):
        nodes = [n for n in nodes if n[2] != "a0"]
        message = "MatMul d: weights of 6x144 for 256 values, expected one for each"
    assert refusal(model(tmp_path / "n.onnx", nodes, constants)).startswith(message)


@pytest.mark.parametrize("op, inputs, attributes, message", [
    ("ArgMax", ["sums"], {}, "along axis 0 of Nx3"), ("Softmax", ["sums"], {"axis": 0}, "along axis 0 of Nx3"),
    ("ArgMax", ["sums"], {"axis": 1, "select_last_index": 1}, "the last of equal logits"),
    ("TopK", ["sums", "k"], {"largest": 0}, "the smallest")])
def test_an_end_that_does_not_keep_the_class_is_named(tmp_path, op, inputs, attributes, message):
    nodes, constants = two_steps(("BipolarQuant", ["a0", "one"], "b", {}), {"k": np.array([1])})
    nodes[-1] = ("MatMul", ["flat", "w_end"], "sums", {})
    path = model(tmp_path / "n.onnx", [*nodes, (op, inputs, ["z", "y"] if op == "TopK" else "y", attributes)], constants)
    assert f": takes {message}, expected the largest logit of each image, the first of equal ones" in refusal(path)


ENDS = [("Softmax", {}), ("LogSoftmax", {}), ("ArgMax", {}), *((op, {"axis": axis}) for op in ("Softmax", "LogSoftmax", "ArgMax", "TopK")
                                                                 for axis in (-3, -1, 1, 2, 3))]
MOVES = [(), ((0, 2, 3, 1),), ((0, 2, 1, 3),), ((0, 1, 3, 2),), ((0, 3, 1, 2), (0, 2, 1, 3)), ((0, 2, 3, 1), (0, 2, 1, 3)),
         ((0, 3, 2, 1), (0, 3, 2, 1)), ((0, 2, 3, 1), (0, 3, 1, 2))]


def of_one_pixel(path, perms, op, attributes, opset=17):
    """A network with logits (N, 5, 1, 1), transposed by `perms`, and an end."""
    rng = np.random.default_rng(3)
    constants = {"w": rng.choice([-1.0, 1.0], (4, 3, 3, 3)), "w_end": rng.choice([-1.0, 1.0], (5, 4, 6, 6)), "k": np.array([1])}
    constants["c"] = (rng.normal(0, 0.3, 4) - constants["w"].sum((1, 2, 3)) / 2).reshape(1, 4, 1, 1)
    nodes = [("Conv", ["x", "w"], "a", {}), ("Add", ["a", "c"], "a1", {}), ("Sign", ["a1"], "b", {}), ("Conv", ["b", "w_end"], "t0", {})]
    nodes += [("Transpose", [f"t{i}"], f"t{i + 1}", {"perm": perm}) for i, perm in enumerate(perms)]
    last = f"t{len(perms)}"
    nodes.append((op, [last, "k"], ["z", "y"], attributes) if op == "TopK" else (op, [last], "y", attributes))
    return model(path, nodes, constants, opset=opset)


@pytest.mark.parametrize("perms", MOVES)
def test_an_end_of_logits_of_one_pixel(tmp_path, perms):
    """It is taken where the logits lie along its axis, else refused."""
    pixels = np.random.default_rng(4).integers(0, 256, (12, 3, 8, 8)).astype(np.uint8)
    for op, attributes in ENDS:
        path, places = of_one_pixel(tmp_path / "n.onnx", perms, op, attributes), [1]
        for perm in perms:
            places.append(perm.index(places[-1]))
        axis = attributes.get("axis", 0 if op == "ArgMax" else -1) % 4
        if 2 in places or axis != places[-1]:
            text = refusal(path)
            assert "transposes by" in text if 2 in places else f"; the logits lie along axis {places[-1]}" in text
            continue
        theirs, imported = evaluated(path, pixels).reshape(12, -1), read(path)
        classes = theirs[:, 0] if op in ("ArgMax", "TopK") else theirs.argmax(1)
        found = inference.classify(inference.layers(imported.network, pixels)["logits"])
        assert imported.exact == "classes" and (found == classes).all() and len({*found}) > 2


def test_softmax_before_opset_13_takes_all_axes_from_its_own_on(tmp_path):
    for op in ("Softmax", "LogSoftmax"):
        for attributes in ({}, {"axis": 1}):
            assert read(of_one_pixel(tmp_path / "n.onnx", (), op, attributes, 11)).exact == "classes"
        assert "along axis -1 of Nx5x1x1" in refusal(of_one_pixel(tmp_path / "n.onnx", (), op, {"axis": -1}, 11))
        assert "along axis -1 of Nx5x1x1" in refusal(of_one_pixel(tmp_path / "n.onnx", (), op, {}, 13))


def test_a_map_of_one_pixel_between_the_orders_of_its_axes(tmp_path):
    """Constants of each channel find it wherever a Transpose or Reshape puts it."""
    nodes = [("Conv", ["x", "w"], "a", {}), ("Transpose", ["a"], "a1", {"perm": [0, 2, 3, 1]}), ("Add", ["a1", "c"], "a2", {}),
             ("Transpose", ["a2"], "a3", {"perm": [0, 2, 1, 3]}), ("Reshape", ["a3", "first"], "a4", {}), ("Sign", ["a4"], "b", {}),
             ("Conv", ["b", "w1"], "d", {}), ("Reshape", ["d", "last"], "d1", {}), ("Add", ["d1", "c"], "d2", {}),
             ("Sign", ["d2"], "e", {}), ("Flatten", ["e"], "flat", {}), ("MatMul", ["flat", "w_end"], "y", {})]
    rng = np.random.default_rng(3)
    path = model(tmp_path / "n.onnx", nodes, {
        "w": rng.choice([-1.0, 1.0], (16, 3, 8, 8)), "w1": rng.choice([-1.0, 1.0], (16, 16, 1, 1)),
        "w_end": rng.choice([-1.0, 1.0], (16, 5)), "c": rng.normal(0, 1, 16), "first": np.array([1, 16, 1, 1]),
        "last": np.array([1, 1, 1, 16])})
    pixels = np.random.default_rng(4).integers(0, 256, (20, 3, 8, 8)).astype(np.uint8)
    same(read(path), pixels, evaluated(path, pixels))


@pytest.mark.parametrize("op, inputs, attributes", [
    ("Clip", ["low", "high"], {}), ("Tanh", [], {}), ("Sigmoid", [], {}),
    ("Quant", ["coarse", "z", "bits"], {"signed": 1, "narrow": 1, "rounding_mode": "ROUND"})])
def test_a_function_at_the_end_that_is_no_scale_is_named(tmp_path, op, inputs, attributes):
    """Each is the same at the two ends and in the middle as a scale."""
    nodes, constants = two_steps(("BipolarQuant", ["a0", "one"], "b", {}), {"low": -2.0, "high": 2.0, "coarse": 6 / 7, "z": 0.0,
                                                                           "bits": 4.0})
    nodes[-1] = ("MatMul", ["flat", "w_end"], "sums", {})
    path = model(tmp_path / "n.onnx", [*nodes, (op, ["sums", *inputs], "y", attributes)], constants)
    assert f"{op} y: is no scale of the logits, expected the sums of the last layer times one number; leave" in refusal(path)


@pytest.mark.parametrize("op, constants, attributes, what", [
    ("MultiThreshold", ["t"], {}, "0 to 1"),
    ("Quant", ["half", "z", "bits"], {"signed": 0, "narrow": 0, "rounding_mode": "ROUND"}, "0 to 0.5"),
    ("MultiThreshold", ["t"], {"out_scale": 2.0, "out_bias": -1.0}, "")])
def test_bits_of_0_and_1_before_the_last_layer_are_named(tmp_path, op, constants, attributes, what):
    nodes, own = two_steps(("BipolarQuant", ["a0", "one"], "b", {}), {"half": 0.5, "z": 0.0, "bits": 1.0, "t": np.zeros((6, 1))})
    nodes[nodes.index(("BipolarQuant", ["d", "one"], "e", {}))] = (op, ["d", *constants], "e", attributes)
    own["w_end"] = np.array([[1, 1, 1], [1, 1, -1], [1, -1, -1], [1, -1, 1], [1, 1, -1], [1.0, 1, 1]])
    path = model(tmp_path / "n.onnx", nodes, own)
    if not what:
        return read(path)
    text = refusal(path)
    assert text.startswith(f"MatMul y: the last layer reads values of {what}, which gives each class a bias of its own, ")
    assert text.endswith("a BipolarQuant, or a MultiThreshold with out_scale 2 and out_bias -1 before it")


def test_functions_without_end(tmp_path):
    nodes, constants = two_steps(("BipolarQuant", ["a", "one"], "b", {}), {})
    nodes[1:1] = [("Tanh", [f"a{i}"], f"a{i + 1}" if i < 3000 else "a", {}) for i in range(3001)]
    assert refusal(model(tmp_path / "n.onnx", nodes, constants)).startswith("Tanh a65: is one of more than 64 functions in a row")


def test_numbers_without_end(tmp_path, monkeypatch):
    """In the file, and made by nodes of few numbers."""
    nodes, constants = two_steps(STEP, {"s": [1.0], "row": np.ones((1, 32)), "column": np.ones((32, 1))},
                                 [("Add", ["row", "column"], "table", {}), ("Identity", ["a0"], "a", {})])
    path = model(tmp_path / "n.onnx", nodes, constants)
    read(path)
    count = sum(np.size(values) for values in constants.values())
    monkeypatch.setattr(onnx_graph, "MAX_VALUES", count + 1000)
    assert refusal(path) == f"Add table: the constants up to here are more than {count + 1000} numbers, expected fewer"
    monkeypatch.setattr(onnx_graph, "MAX_VALUES", count - 1)
    assert refusal(path) == f"{count} numbers in its tensors, expected at most {count - 1}"
    monkeypatch.setattr(onnx_graph, "MAX_LISTED", -1)
    monkeypatch.setattr(onnx_graph, "MAX_VALUES", count)
    assert refusal(path) == "0 numbers in lists of attributes, expected at most -1"


def test_a_layer_that_nothing_reads_is_in_no_network(tmp_path):
    nodes, constants = two_steps(("BipolarQuant", ["a0", "one"], "b", {}), {"w_dead": signs(5, 4, 3, 3)})
    nodes.insert(2, ("Conv", ["b", "w_dead"], "nobody", {}))
    imported = read(model(tmp_path / "dead.onnx", nodes, constants))
    assert {part.source: part.layers for part in imported.parts}["Conv nobody"] == ()
    assert {name for part in imported.parts for name in part.layers} <= {op.name for op in imported.network.topology.ops}


def test_zero_padding_of_bits_is_named(tmp_path):
    nodes, constants = two_steps(("BipolarQuant", ["a2", "s"], "b", {}), {"s": [1.0], "w1": signs(4, 4, 3, 3)},
                                 [("BipolarQuant", ["a0", "s"], "a1", {}), ("Conv", ["a1", "w1"], "a2", {"pads": [1, 1, 1, 1]})])
    assert refusal(model(tmp_path / "n.onnx", nodes, constants)).startswith("Conv a2: pads with 0 a map of bits that are -1 to 1")


def test_a_kernel_of_another_size_than_the_weights_is_named(tmp_path):
    nodes, constants = two_steps(("BipolarQuant", ["a0", "s"], "b", {}), {"s": [1.0]})
    nodes[0] = ("Conv", ["x", "w"], "a0", {"kernel_shape": [5, 5]})
    assert refusal(model(tmp_path / "n.onnx", nodes, constants)) == (
        "Conv a0: kernel_shape [5, 5] and weights of 3x3, expected the same in both")


def test_groups_of_bytes_are_named(tmp_path):
    nodes, constants = two_steps(("BipolarQuant", ["a0", "s"], "b", {}), {"s": [1.0]})
    nodes[0], constants["w"] = ("Conv", ["x", "w"], "a0", {"group": 3}), signs(6, 1, 3, 3)
    assert refusal(model(tmp_path / "n.onnx", nodes, constants)).startswith("Conv a0: 3 groups of channels that are bytes, expected one")


def test_weights_in_another_file(tmp_path):
    nodes, constants = BY_HAND["multithreshold"]
    path = model(tmp_path / "n.onnx", nodes, constants)
    loaded = onnx.load(path)
    tensor = loaded.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "/etc/hostname"
    path.write_bytes(loaded.SerializeToString())
    assert "lie in another file, expected all in one" in refusal(path)


def test_inputs_that_are_no_images(tmp_path):
    nodes, constants = BY_HAND["multithreshold"]
    for shape in ((1, 4, 8, 8), (1, 3, 8, 9), (1, 3, None, None), (1, 3, 513, 513), (8,), (), (1, -5)):
        assert "expected square images" in refusal(model(tmp_path / "n.onnx", nodes, constants, shape))


def test_damaged_files_are_one_line(tmp_path):
    """A byte in places drawn from a seed, and files that end early: each is read, or refused in one line that names it."""
    path = model(tmp_path / "n.onnx", *BY_HAND["multithreshold"])
    data, rng = path.read_bytes(), np.random.default_rng(3)
    refused = 0
    for trial in range(150):
        changed = bytearray(data[:len(data) if trial % 5 else int(rng.integers(1, len(data)))])
        changed[int(rng.integers(3, len(changed)) if len(changed) > 3 else 0)] = int(rng.integers(256))
        path.write_bytes(changed)
        try:
            read(path)
        except InputError as error:
            refused += 1
            assert "\n" not in str(error) and str(error).startswith(str(path))
    assert refused > 30
