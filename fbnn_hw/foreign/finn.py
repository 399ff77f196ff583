"""Parameter folders of FINN's published networks with one bit for weights and activations: CNV and LFC.

A folder has for each layer L and processing element PE the files `L-PE-weights.bin` and, where the layer has thresholds,
`L-PE-thres.bin`, 64-bit words, little-endian, and classes.txt with a name a line.  Neuron n belongs to element n mod PEs; the words of
a neuron follow each other, and bit i of its word g is the weight of input g * SIMD + i, 1 for +1.  The inputs of a convolution are in
the order row, column, channel.  A neuron's bit is 1 where the popcount of equal bits exceeds its threshold.  The first layer of CNV
reads bytes p as q = round(128 (2 p / 255 - 1)), at most 127: its bit is 1 where 2 sum(w q) exceeds the threshold.

    Ref: https://github.com/Xilinx/BNN-PYNQ, bnn/src/training/finnthesizer.py and bnn/src/network
"""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..base import bits, files
from ..base.errors import LONGEST_NAME, InputError, is_name, require, show
from ..ir import ops
from ..ir.network import LATENT, Network, Topology
from .imported import CLASSES, LOGITS, Imported, Part

MAX_LAYERS, MAX_ELEMENTS, MAX_BYTES = 32, 1024, 2 ** 24
MAX_THRESHOLD = 2 ** 40
"""Beyond every sum: a threshold that is farther away means as much as this one."""
WORD = 64
OUTPUTS = 64
"""Outputs of the last layer, of which the first ones are the classes'."""

CNV = ("conv", "conv", "pool", "conv", "conv", "pool", "conv", "conv", "dense", "dense", "dense")
LFC_LAYERS = 4
FILE = re.compile(r"([0-9]{1,4})-([0-9]{1,4})-(weights|thres)\.bin")
CNV_SIZE, LFC_SIZE = 32, 28
TABLE = tuple(min(p + (p >> 7), 255) for p in range(256))
"""u of byte p, so that 2 u - 255 is 2 q + 1."""


class _Layer:
    """The words of one layer: weights uint64 (neurons, words a neuron), thresholds int64 (neurons,) or None."""

    def __init__(self, folder, number, elements, with_thresholds):
        self.number, self.elements = number, elements
        weights = [_words(folder / f"{number}-{e}-weights.bin", "<u8") for e in range(elements)]
        thresholds = [_words(folder / f"{number}-{e}-thres.bin", "<i8") for e in range(elements)] if with_thresholds else None
        if len({len(w) for w in weights}) > 1 or (thresholds and len({len(t) for t in thresholds}) > 1):
            raise InputError(f"{folder}: the files of layer {number} have different lengths, expected equal ones")
        self.thresholds = np.stack(thresholds, 1).reshape(-1).clip(-MAX_THRESHOLD, MAX_THRESHOLD) if thresholds else None
        neurons = len(self.thresholds) if thresholds else OUTPUTS
        if not neurons or neurons % elements or not len(weights[0]) or len(weights[0]) * elements % neurons:
            raise InputError(f"{folder}: layer {number} has {len(weights[0]) * elements} weight words for {neurons} neurons, expected a "
                             "multiple; is it a network with more than one bit?")
        self.weights = np.stack(weights, 1).reshape(neurons // elements, -1, elements).swapaxes(1, 2).reshape(neurons, -1)

    def padded(self, fan_in):
        """Inputs of a neuron, with those that fill up the last of its words: FINN's published LFC has 13 words of 64 for 784 inputs."""
        words = self.weights.shape[1]
        lanes = 1 << (-(-fan_in // words) - 1).bit_length()
        return words * lanes if words * lanes - fan_in < lanes else fan_in

    def matrix(self, folder, fan_in):
        """Bits (neurons, fan_in) of the weights."""
        words = self.weights.shape[1]
        lanes = -(-fan_in // words)
        used = int(np.bitwise_or.reduce(self.weights, axis=None)).bit_length()
        if lanes > WORD or fan_in % words or used != lanes:
            raise InputError(f"{folder}: layer {self.number} has {words} words of {used} bits for the {fan_in} inputs of a neuron, "
                             "expected a network of FINN with 1 bit for weights and activations, CNV-W1A1 or LFC-W1A1")
        octets = np.ascontiguousarray(self.weights, "<u8").view(np.uint8).reshape(*self.weights.shape, WORD // 8)
        return np.unpackbits(octets, axis=-1, bitorder="little", count=lanes).reshape(-1, fan_in)


def read(folder: Path, classes: tuple[str, ...] | None = None) -> Imported:
    """The network of a folder.  Raises InputError where it is not such a folder, or one of a network with more bits."""
    layers = _layers(folder)
    names, notes = (classes, ()) if classes else _class_names(folder)
    source = "--classes" if classes else folder / "classes.txt"
    way_out = "" if classes else "; or give --classes"
    require(1 <= len(names) <= OUTPUTS, source, f"{len(names)} names of classes", f"1 to {OUTPUTS}{way_out}")
    for index, name in enumerate(names):
        if not is_name(name) or names.index(name) != index:
            fault = "is there twice" if is_name(name) else f"is no text of 1 to {LONGEST_NAME} printable characters"
            raise InputError(f"{source}: the name of class {index}, {show(name)}, {fault}, expected one of its own{way_out}")
    if (used := _used(layers[-1])) not in (None, len(names)):
        notes = (*notes, f"{len(names)} classes have names, and {used} of the {OUTPUTS} outputs of the last layer have weights of their "
                 "own")
    bare = [layer.number for layer in layers if layer.thresholds is None]
    if len(layers) == CNV.count("conv") + CNV.count("dense") and bare == [len(layers) - 1]:
        imported = _cnv(folder, layers, names)
    elif len(layers) == LFC_LAYERS and not bare:
        imported = _lfc(folder, layers, names)
    else:
        raise InputError(f"{folder}: {len(layers)} layers, {len(bare)} of them without thresholds, expected CNV-W1A1 (9, the last "
                         f"without) or LFC-W1A1 ({LFC_LAYERS}, all with); are files missing?")
    imported.network.verify()
    return replace(imported, notes=(*imported.notes, *notes))


def _used(layer):
    """How many outputs of the last layer come before those that fill it up, which have equal weights; None where that does not tell."""
    different = np.flatnonzero((layer.weights != layer.weights[-1]).any(1))
    return int(different[-1]) + 1 if len(different) and different[-1] < len(layer.weights) - 2 else None


def _layers(folder):
    elements, size = {}, 0  # elements: {layer: {kind: numbers}}
    for path in folder.iterdir():
        if match := FILE.fullmatch(path.name):
            size += path.stat().st_size if path.exists() else 0
            elements.setdefault(int(match[1]), {}).setdefault(match[3], set()).add(int(match[2]))
    require(size <= MAX_BYTES, folder, f"{size:,} bytes of parameters", f"at most {MAX_BYTES:,}")
    require(0 in elements.get(0, {}).get("weights", ()), folder, "has no 0-0-weights.bin", "the parameters of a network of FINN")
    last = max(elements)
    require(last < MAX_LAYERS, folder, f"has files of layer {last}", f"at most {MAX_LAYERS} layers, the first one 0")
    layers = []
    for number in range(last + 1):
        own = {"weights": set()} | elements.get(number, {})
        count = max((element for numbers in own.values() for element in numbers), default=0) + 1
        require(count <= MAX_ELEMENTS, folder, f"has files of element {count - 1} of layer {number}",
                f"at most {MAX_ELEMENTS} elements, the first one 0")
        for kind, numbers in own.items():
            if missing := set(range(count)) - numbers:
                raise InputError(f"{folder}: has no {number}-{min(missing)}-{kind}.bin, expected weights of layers 0 to {last}, here of "
                                 f"elements 0 to {count - 1}, and thresholds of all elements of a layer or of none")
        layers.append(_Layer(folder, number, count, "thres" in own))
    return layers


def _words(path, kind):
    data = files.read(path, MAX_BYTES, "parameters of FINN, 64-bit words")
    require(not len(data) % 8, path, f"{len(data)} bytes", "64-bit words")
    return np.frombuffer(data, kind)


def _class_names(folder):
    """(names, notes) of classes.txt."""
    data = files.read(folder / "classes.txt", 2 ** 16, "the names of the classes, one a line; or give --classes")
    try:
        names = [line.strip() for line in data.decode("utf-8-sig").splitlines() if line.strip()]
    except UnicodeDecodeError:
        raise InputError(f"{folder / 'classes.txt'}: is not UTF-8, expected the names of the classes, one a line") from None
    short = tuple(name if len(name) <= 100 else f"{name[:97]}..." for name in names)
    cut = [f"class {show(name)} is cut off at 100 characters" for name in names if len(name) > 100]
    return short, tuple(cut)


def _limited(thresholds, limit):
    """Thresholds of dot products of at most `limit`, int32: what is out of reach is at limit + 1 and -limit."""
    return np.clip(thresholds, -limit, limit + 1).astype(np.int32)


def _of_popcount(thresholds, fan_in):
    """popcount > t as a threshold of the dot product 2 * popcount - fan_in."""
    return _limited(2 * (thresholds + 1) - fan_in, fan_in)


def _cnv(folder, layers, classes):
    """CNV: convolutions of 3 x 3 without padding, of which the first reads bytes."""
    network_ops, weights, thresholds, parts = [ops.Bits8("input", (), CNV_SIZE, TABLE)], {}, {}, []
    shape, below, remaining = (3, CNV_SIZE, CNV_SIZE), "input", iter(layers)
    counts = {"conv": 0, "pool": 0, "dense": 0}
    for kind in CNV:
        counts[kind] += 1
        name = f"{kind}{counts[kind]}"
        if kind == "pool":
            op = ops.MaxPool(name, (below,))
        else:
            layer = next(remaining)
            if layer is layers[-1]:
                op = ops.Dense("logits", (below,), len(classes), logits=True)
            elif kind == "dense":
                op = ops.Dense(LATENT if layer is layers[-2] else name, (below,), len(layer.thresholds))
            else:
                op = ops.Conv(name, (below,), len(layer.thresholds), padding=0)
            name, fan_in = op.name, op.fan_in(shape)
            matrix = layer.matrix(folder, fan_in)[:op.out_channels]
            own = op.weight_shape(shape)
            weights[name] = matrix if kind == "dense" else matrix.reshape(own[0], 3, 3, -1).transpose(0, 3, 1, 2).copy()
            if layer.thresholds is not None and below == "input":
                limit = fan_in * ops.BYTE
                thresholds[name] = _limited(layer.thresholds + 1 + bits.from_bits(matrix, np.int64).sum(1), limit)
            elif layer.thresholds is not None:
                thresholds[name] = _of_popcount(layer.thresholds, fan_in)
            parts.append(Part(f"layer {layer.number}", (name,), "reads bytes" if below == "input" else ""))
        network_ops.append(op)
        shape, below = op.output_shape(shape), name
    parts.insert(0, Part("input", ("input",), "round(128 (2 p / 255 - 1)) of byte p, at most 127"))
    topology = Topology("cnv-w1a1", tuple(network_ops), classes)
    network = Network(topology, weights, thresholds, {"source": "FINN's published parameters of CNV-W1A1"})
    return Imported(network, "FINN", tuple(parts), LOGITS, 0.5, topology.largest_sum(network_ops[-1]) / 2)  # popcounts


def _lfc(folder, layers, classes):
    """LFC: dense layers on 28 x 28 pixels of one bit.  FINN's class is the highest bit of the last layer's that is 1, or 0.

    So the classes are in reverse order, the lowest index winning, and the row of class 0 wins where no bit is 1.
    """
    network_ops = [ops.Binarize("input", (), LFC_SIZE), ops.Flatten("pixels", ("input",))]
    weights, thresholds, parts = {}, {}, [Part("input", ("input", "pixels"), "+1 from grey 128 on")]
    below, fan_in = "pixels", LFC_SIZE ** 2
    if (outputs := len(layers[-1].thresholds)) != OUTPUTS:
        raise InputError(f"{folder}: the last layer has {outputs} outputs, expected {OUTPUTS}, the first ones for the classes; are files "
                         "missing?")
    for layer in layers:
        last = layer is layers[-1]
        name = "class_bits" if last else f"dense{layer.number + 1}"
        padded = layer.padded(fan_in)
        order = slice(len(classes) - 1, None, -1) if last else slice(None)
        weights[name] = layer.matrix(folder, padded)[order, :fan_in].copy()
        thresholds[name] = _of_popcount(layer.thresholds[order], fan_in)
        network_ops.append(ops.Dense(name, (below,), len(weights[name])))
        parts.append(Part(f"layer {layer.number}", (name,), "classes in reverse order" if last else ""))
        below, fan_in = name, len(weights[name])
    rows = np.eye(len(classes), dtype=np.uint8)
    rows[-1] = 0
    weights["logits"] = rows
    network_ops.append(ops.Dense("logits", (below,), len(classes), logits=True))
    parts.append(Part("class of the bits", ("logits",), "the highest bit that is 1, class 0 where none is"))
    topology = Topology("lfc-w1a1", tuple(network_ops), classes[::-1])
    network = Network(topology, weights, thresholds, {"source": "FINN's published parameters of LFC-W1A1"})
    note = "FINN's answer is a bit for each class; the logits say which one it takes"
    return Imported(network, "FINN", tuple(parts), CLASSES, None, None, (note,))
