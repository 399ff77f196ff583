"""What a legal network is: every refusal of `verify` with its whole text."""

import numpy as np
import pytest

from fbnn_hw.base import bits
from fbnn_hw.base.errors import InputError, show
from fbnn_hw.ir import ops as op
from fbnn_hw.ir.network import Network, Topology
from tests import strategies

INPUT = op.Thermometer("input", (), "tycc", 8, 2)
BYTES = op.Bits8("input", (), 8)
GAP = op.Gap("gap", ("input",))
LOGITS = op.Dense("logits", ("gap",), 2, 1, True)


def message_of(*ops, classes=("a", "b"), name="net"):
    with pytest.raises(InputError) as error:
        Topology(name, ops, classes).verify()
    return str(error.value)


@pytest.mark.parametrize("ops, message", [
    ((), "model net: first layer is missing, expected thermometer, binarize or bits8"),
    ((GAP, LOGITS), "model net: first layer is gap, expected thermometer, binarize or bits8"),
    ((INPUT, GAP, GAP, LOGITS), "layer gap: name is used twice, expected unique names"),
    ((INPUT, op.Gap("gap", ()), LOGITS), "layer gap: has 0 inputs, expected 1"),
    ((INPUT, op.Gap("gap", ("input", "input")), LOGITS), "layer gap: has 2 inputs, expected 1"),
    ((INPUT, op.Concat("gap", ("input",)), LOGITS), "layer gap: has 1 inputs, expected 2 or more"),
    ((INPUT, op.Gap("gap", ("later",)), LOGITS), "layer gap: input 'later' is not an earlier layer"),
    ((INPUT, op.Gap("gap", ("gap",)), LOGITS), "layer gap: input 'gap' is not an earlier layer"),
    ((INPUT, GAP, LOGITS, op.Duplicate("more", ("logits",))), "layer more: input 'logits' gives logits, expected bits"),
    ((INPUT, GAP), "layer gap: last layer is gap, expected a dense layer with logits=True"),
    ((INPUT, GAP, op.Dense("logits", ("gap",), 4), op.Dense("last", ("logits",), 2, 1, True)),
     "layer logits: is not the last one, expected another name"),
    ((INPUT, op.Thermometer("again"), GAP, LOGITS), "model net: more than one of thermometer, binarize, bits8, expected one input"),
    ((INPUT, op.Bits8("again"), GAP, LOGITS), "model net: more than one of thermometer, binarize, bits8, expected one input"),
    ((INPUT, GAP, op.Dense("logits", ("gap",), 3, 1, True)), "layer logits: 3 outputs, expected 2, one for each class name"),
    ((INPUT, GAP, op.Dense("logits", ("gap",), 2, 2, True)), "layer logits: groups is 2, expected 1 in the layer of the logits"),
    ((INPUT, GAP, op.Dense("logits", ("gap",), 0, 1, True)), "layer logits: out_channels is 0, expected at least 1"),
    ((INPUT, op.Dense("dense", ("input",), 2)), "layer dense: input size is 8x8, expected 1x1"),
    ((op.Thermometer("input", (), "tycc", 8, 3),), "layer input: levels is 3, expected 2, 4, 8, 16, 32 or 64 with tycc"),
    ((op.Thermometer("input", (), "trgb", 8, 129),), "layer input: levels is 129, expected 2 to 128 with trgb"),
    ((op.Thermometer("input", (), "grey", 8, 1),), "layer input: levels is 1, expected 2 to 128 with grey"),
    ((op.Thermometer("input", (), "YUV", 8, 2),), "layer input: encoder is 'YUV', expected 'tycc', 'trgb' or 'grey'"),
    ((op.Thermometer("input", (), "trgb", 1, 9),), "layer input: size is 1, expected 2 to 512"),
    ((op.Binarize("input", (), 513),), "layer input: size is 513, expected 2 to 512"),
    ((op.Binarize("input", (), 8, 0),), "layer input: threshold is 0, expected 1 to 255"),
    ((op.Bits8("input", (), 0),), "layer input: size is 0, expected 2 to 512"),
    ((op.Bits8("input", (), 8, (0, 1)),), "layer input: table is 2 values, expected 256"),
    ((op.Bits8("input", (), 8, (256, *range(255))),), "layer input: table[0] is 256, expected an integer from 0 to 255"),
    ((op.Bits8("input", (), 8, (*range(255), True)),), "layer input: table[255] is True, expected an integer from 0 to 255"),
    ((BYTES, op.Gap("gap", ("input",)), LOGITS),
     "layer gap: input 'input' gives bytes, which gap does not read; expected conv, flatten or dense"),
    ((BYTES, op.Flatten("flat", ("input",)), op.Duplicate("twice", ("flat",))),
     "layer twice: input 'flat' gives bytes, which duplicate does not read; expected conv, flatten or dense"),
    ((BYTES, op.Conv("conv", ("input",), 1, 1, 8), op.Concat("both", ("conv", "input"))), "layer conv: stride is 8, expected 1 or 2"),
    ((BYTES, op.Conv("conv", ("input",), 1), op.Concat("both", ("conv", "input"))),
     "layer both: input 'input' gives bytes, which concat does not read; expected conv, flatten or dense"),
    ((BYTES, op.Conv("conv", ("input",), 3, groups=3)), "layer conv: groups is 3, expected 1 where the input is bytes"),
    ((op.Bits8("input", (), 74), op.Flatten("flat", ("input",)), op.Dense("logits", ("flat",), 2, 1, True)),
     "layer logits: 16428 bytes summed into an output, expected at most 16384"),
    ((op.Bits8("input", (), 512), op.Flatten("flat", ("input",))), "layer flat: 786432 channels, expected at most 65536"),
    ((INPUT, op.Conv("conv", ("input",), 4, 2)), "layer conv: kernel is 2, expected 1, 3 or 5"),
    ((INPUT, op.Conv("conv", ("input",), 4, padding=1)), "layer conv: padding is 1, expected 'same' or 0"),
    ((INPUT, op.Conv("conv", ("input",), 4, padding=False)), "layer conv: padding is False, expected 'same' or 0"),
    ((INPUT, op.Conv("conv", ("input",), 4, padding=0.0)), "layer conv: padding is 0.0, expected 'same' or 0"),
    ((INPUT, GAP, op.Conv("conv", ("gap",), 4, padding=0)), "layer conv: input size is 1x1, expected at least 3x3 without padding"),
    ((INPUT, op.Conv("conv", ("input",), 4, 3, 3)), "layer conv: stride is 3, expected 1 or 2"),
    ((INPUT, op.Conv("conv", ("input",), 0)), "layer conv: out_channels is 0, expected at least 1"),
    ((INPUT, op.Conv("conv", ("input",), 4, groups=3)), "layer conv: groups is 3, expected a divisor of 8 inputs and 4 outputs"),
    ((INPUT, GAP, op.MaxPool("pool", ("gap",))), "layer pool: input size is 1x1, expected at least 2x2"),
    ((INPUT, GAP, op.Duplicate("twice", ("gap",), 9)), "layer twice: times is 9, expected 1 to 8"),
    ((INPUT, GAP, op.Concat("both", ("gap", "input"))), "layer both: input sizes is [(1, 1), (8, 8)], expected all equal"),
    ((INPUT, op.Slice("part", ("input",), 3, 3)), "layer part: start..stop is 3..3, expected inside 0..8"),
    ((INPUT, op.Slice("part", ("input",), 0, 9)), "layer part: start..stop is 0..9, expected inside 0..8"),
    ((INPUT, op.Shuffle("mix", ("input",), 3)), "layer mix: groups is 3, expected a divisor of 8"),
    ((INPUT, GAP, op.Dense("wide", ("gap",), 65537)), "layer wide: 65537 channels, expected at most 65536"),
    ((INPUT, GAP, *(op.Duplicate(f"d{i}", (f"d{i - 1}" if i else "gap",), 8) for i in range(9))),
     "layer d4: 262144 channels, expected at most 65536"),
    ((INPUT, GAP, op.Dense("a", ("gap",), 65536), op.Dense("b", ("a",), 65536)),
     "layer b: 4295491584 weight bits up to here, expected at most 268435456"),
])
def test_illegal_topologies(ops, message):
    assert message_of(*ops) == message


def test_a_huge_architecture_is_refused():
    many = tuple(f"d{i}" for i in range(900))
    layers = [INPUT, GAP, *(op.Dense(name, ("gap",), 1) for name in many), *(op.Concat(f"c{i}", many * 2) for i in range(90))]
    assert message_of(*layers) == "layer c89: last layer is concat, expected a dense layer with logits=True"


@pytest.mark.parametrize("name", ["", "a/b", ".hidden", "-x", "a b", "x" * 65, None, "\u00e9"])
def test_names_that_could_not_be_a_folder(name):
    assert message_of(INPUT, GAP, LOGITS, name=name) == (
        f"name: found {show(name)}, expected 1 to 64 letters, digits, '.', '_' and '-', a letter or digit first")


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 101, 7, None])
def test_class_names(name):
    expected = f"classes[1]: found {show(name)}, expected a name of 1 to 100 printable characters, not all of them blank"
    assert message_of(INPUT, GAP, LOGITS, classes=("a", name)) == expected


def wrong(weights=None, thresholds=None):
    topology = Topology("net", (INPUT, GAP, LOGITS), ("a", "b"))
    good = {"logits": np.zeros((2, 8), np.uint8)}
    with pytest.raises(InputError) as error:
        Network(topology, good if weights is None else weights, thresholds or {}).verify()
    return str(error.value)


def test_wrong_arrays():
    zeros = np.zeros((2, 8), np.uint8)
    assert wrong({}) == "weights.logits: missing, expected shape (2, 8)"
    assert wrong({"logits": zeros[:1]}) == "weights.logits: found uint8 (1, 8), expected uint8 (2, 8)"
    assert wrong({"logits": zeros.astype(int)}) == "weights.logits: found int64 (2, 8), expected uint8 (2, 8)"
    assert wrong({"logits": zeros + 2}) == "weights.logits: found the value 2, expected 0 and 1 alone"
    assert wrong({"logits": zeros, "gap": zeros}) == "weights.gap: no layer of that name has weights, expected logits"
    assert wrong(thresholds={"logits": np.zeros(2, int)}) == "thresholds.logits: no layer of that name takes thresholds"
    assert wrong(thresholds={"none": np.zeros(2, int)}) == "thresholds.none: no layer of that name takes thresholds"
    assert wrong(thresholds={"gap": np.zeros(8)}) == "thresholds.gap: found float64 (8,), expected integers (8,)"
    assert wrong(thresholds={"gap": np.full(8, 66)}) == "thresholds.gap: found 66, expected at most fan-in + 1 = 65 either way"
    lowest = np.full(8, -2 ** 31, np.int32)
    assert wrong(thresholds={"gap": lowest}) == "thresholds.gap: found -2147483648, expected at most fan-in + 1 = 65 either way"


def test_thresholds_of_sums_of_bytes():
    topology = Topology("net", (BYTES, op.Conv("conv", ("input",), 2), op.Gap("gap", ("conv",)), LOGITS), ("a", "b"))
    weights = {"conv": np.zeros((2, 3, 3, 3), np.uint8), "logits": np.zeros((2, 2), np.uint8)}
    limit = 255 * 27 + 1
    Network(topology, weights, {"conv": np.array([-limit, limit])}).verify()
    with pytest.raises(InputError) as error:
        Network(topology, weights, {"conv": np.array([0, -limit - 1])}).verify()
    assert str(error.value) == "thresholds.conv: found -6887, expected at most 255 * fan-in + 1 = 6886 either way"


@pytest.mark.parametrize("layer, size, shape", [
    (op.Conv("c", ("x",), 4), 7, 7), (op.Conv("c", ("x",), 4, 3, 2), 7, 4), (op.Conv("c", ("x",), 4, 3, 2), 8, 4),
    (op.Conv("c", ("x",), 4, 1, 2), 1, 1), (op.Conv("c", ("x",), 4, 5), 1, 1), (op.Conv("c", ("x",), 4, 3, 1, padding=0), 7, 5),
    (op.Conv("c", ("x",), 4, 5, 1, padding=0), 5, 1), (op.Conv("c", ("x",), 4, 3, 2, padding=0), 8, 3),
    (op.Conv("c", ("x",), 4, 1, 2, padding=0), 7, 4), (op.MaxPool("c", ("x",)), 7, 3), (op.MaxPool("c", ("x",)), 2, 1)])
def test_output_sizes(layer, size, shape):
    assert layer.output_shape((4, size, size)) == (4, shape, shape)


FIRST, LAST = op.Thermometer("input", (), "trgb", 9, 2), op.Dense("logits", ("x",), 2, 1, True)


@pytest.mark.parametrize("ops, message", [
    ((FIRST, op.Gap("x", ("input",)), LAST), "layer input: size 9 needs version 2 of the format"),
    ((op.Thermometer("input", (), "grey", 8, 2), op.Gap("x", ("input",)), LAST), "layer input: encoder grey needs version 2 of the format"),
    ((op.Binarize("input", (), 8), op.Gap("x", ("input",)), LAST), "layer input: op binarize needs version 2 of the format"),
    ((BYTES, op.Conv("a", ("input",), 4), op.Gap("x", ("a",)), LAST), "layer input: op bits8 needs version 2 of the format"),
    ((INPUT, op.Flatten("x", ("input",)), LAST), "layer x: op flatten needs version 2 of the format"),
    ((INPUT, op.Conv("a", ("input",), 4, 5), op.Gap("x", ("a",)), LAST), "layer a: kernel 5 needs version 2 of the format"),
    ((INPUT, op.Conv("a", ("input",), 4, padding=0), op.Gap("x", ("a",)), LAST), "layer a: padding 0 needs version 2 of the format"),
    ((INPUT, op.MaxPool("a", ("input",)), op.MaxPool("b", ("a",)), op.Conv("c", ("b",), 8, 3, 2), op.Conv("x", ("c",), 8, 1, 2), LAST),
     "layer x: stride 2 of a map of 1x1 needs version 2 of the format"),
    ((op.Thermometer("input", (), "trgb", 6, 2), op.MaxPool("a", ("input",)), op.MaxPool("x", ("a",)), LAST),
     "layer x: pooling of a map of 3x3 needs version 2 of the format"),
])
def test_what_version_1_does_not_have(ops, message):
    topology = Topology("net", ops, ("a", "b"))
    topology.verify()
    assert (topology.beyond_version_1(), topology.version()) == (message, 2)


def test_fields_of_version_2_are_left_out_of_what_version_1_can_say():
    values = op.Conv("conv", ("input",), 4).to_dict()
    assert list(values) == ["op", "name", "inputs", "out_channels", "kernel", "stride", "groups"]
    assert op.Conv("conv", ("input",), 4, padding=0).to_dict() == {**values, "padding": 0}
    assert op.Bits8("input").to_dict()["table"] == list(range(256))


@pytest.mark.parametrize("seed", range(60))
def test_random_networks_are_legal_and_equal_for_equal_seeds(seed):
    make = strategies.network if seed < 30 else strategies.network_2
    one, two = make(seed), make(seed)
    assert one.verify() == two.verify()
    assert all(np.array_equal(one.weights[name], two.weights[name]) for name in one.weights)
    for layer in one.topology.ops:
        assert op.from_dict(layer.to_dict()) == layer


def test_sizes():
    network = strategies.vgg_network(0)
    assert network.bits() == network.topology.weight_bits() == sum(w.size for w in network.weights.values())
    network.thresholds["conv1"] = np.full(8, 5, np.int32)
    assert network.bits() == network.topology.weight_bits() + 8 * 4  # -5..5 takes 4 bits


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 100])
def test_packing(count):
    values = np.random.default_rng(count).integers(0, 2, count, dtype=np.uint8)
    packed = bits.pack(values)
    assert len(packed) == (count + 7) // 8
    assert [int(packed[i // 8]) >> i % 8 & 1 for i in range(count)] == values.tolist()
    assert np.array_equal(bits.unpack(packed, (count,)), values)
    with pytest.raises(ValueError, match=f"{len(packed) + 1} bytes, expected {len(packed)}"):
        bits.unpack(np.zeros(len(packed) + 1, np.uint8), (count,))


def test_sign_of_zeros():
    assert bits.to_bits(np.array([0.0, -0.0, -1e-9])).tolist() == [1, 1, 0]
    assert bits.from_bits(np.array([0, 1], np.uint8)).tolist() == [-1, 1]


def test_an_unknown_op_is_a_key_error():
    topology = Topology("net", (INPUT, GAP, LOGITS), ("a", "b"))
    assert topology["gap"] is GAP
    with pytest.raises(KeyError, match="latent"):
        topology["latent"]
