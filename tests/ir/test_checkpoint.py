"""Checkpoints: round trips, every kind of bad file with its whole message, and damage at random."""

import argparse
import collections
import gzip
import io
import os
import pickle
import random
import re
import subprocess
import sys
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from fbnn_hw.base.errors import InputError
from fbnn_hw.ir import checkpoint, models, shipped
from fbnn_hw.nn import checkpoint as writer
from fbnn_hw.reference import inference
from tests import strategies
from tests.reference import naive

ALONE = ", expected plain values and tensors alone; nothing was executed"
DOOR = "fbnn_hw.export(module, example, FILE) in Python makes a checkpoint of a module"
EXPORT = f"expected a checkpoint; {DOOR}"
DOCUMENT = Path(__file__).parents[2] / "docs" / "checkpoint.md"


def same(a, b):
    return (a.topology == b.topology and a.training == b.training and a.weights.keys() == b.weights.keys()
            and all(np.array_equal(a.weights[k], b.weights[k]) for k in a.weights) and a.thresholds.keys() == b.thresholds.keys()
            and all(np.array_equal(a.thresholds[k], b.thresholds[k]) for k in a.thresholds))


def content():
    """What a good file holds, with torch tensors."""
    values = checkpoint.to_plain(strategies.vgg_network(1, classes=3, latent=9, hidden=4, thresholds=1.0))
    for key in ("weights", "thresholds"):
        values[key] = {name: torch.from_numpy(array) for name, array in values[key].items()}
    return values


def stages(count):
    """A training record of as many stages, each of which went on from the one before."""
    training = {"epochs": 1, "config": {"lr": 0.001}}
    for _ in range(count - 1):
        training = {"epochs": 1, "init": {"source": "x.pt", "training": training}}
    return training


def test_a_training_of_many_stages_is_kept(tmp_path):
    network = replace(strategies.vgg_network(1, classes=3, latent=9, hidden=4), training=stages(40))
    writer.save(tmp_path / "x.pt", network)
    assert checkpoint.read(tmp_path / "x.pt").training == stages(40)


def saved(values, **options):
    buffer = io.BytesIO()
    torch.save(values, buffer, **options)
    return buffer.getvalue()


def scripted(module):
    buffer = io.BytesIO()
    with warnings.catch_warnings(action="ignore"):  # torch.jit is deprecated; such files are about
        torch.jit.save(torch.jit.trace(module, torch.zeros(1, 2)), buffer)
    return buffer.getvalue()


class _Foreign(torch.nn.Module):
    """A module of somebody's own."""


def refused(path, data=None):
    """The message of the InputError that reading gives, without the file's name.  data: the file's, or what makes it."""
    if data is not None:
        path.write_bytes(data() if callable(data) else data)
    with pytest.raises(InputError) as error:
        checkpoint.read(path)
    message = str(error.value)
    assert message.startswith(f"{path}: ") and "\n" not in message and len(message) < 400 + len(str(path))
    return message[len(f"{path}: "):]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.pt"


# Good files

@pytest.mark.parametrize("seed", range(30))
def test_round_trip(seed, path):
    network = strategies.network(seed) if seed < 10 else strategies.network_2(seed)
    writer.save(path, network)
    assert same(network, checkpoint.read(path))
    values = checkpoint.to_plain(checkpoint.read(path))
    assert values["architecture"] == [o.to_dict() for o in network.topology.ops] and values["version"] == network.topology.version()


@pytest.mark.parametrize("path", sorted(shipped.FOLDER.glob("*.pt")), ids=lambda path: path.name)
def test_shipped_files_would_be_written_as_they_are(path):
    values, written = torch.load(path, weights_only=True), checkpoint.to_plain(checkpoint.read(path))
    for key in ("weights", "thresholds"):
        if key in values:
            values[key] = {name: tensor.tolist() for name, tensor in values[key].items()}
            written[key] = {name: array.tolist() for name, array in written[key].items()}
    assert repr(written) == repr(values) and values["version"] == {"fast.pt": 2, "tiny.pt": 2}.get(path.name, 1)


def test_torch_reads_it_as_plain_values(path):
    network = strategies.vgg_network(1, thresholds=1.0)
    writer.save(path, network)
    values = torch.load(path, weights_only=True)
    assert list(values) == ["format", "version", "name", "architecture", "classes", "weights", "thresholds", "training"]
    assert all(w.dtype == torch.uint8 and w.ndim == 1 for w in values["weights"].values())
    for key in ("weights", "thresholds"):
        values[key] = {name: tensor.numpy() for name, tensor in values[key].items()}
    assert same(network, checkpoint.from_plain(values, "memory"))


def test_equal_networks_give_equal_bytes_under_any_file_name(tmp_path):
    for name in ("a.pt", "b.pt"):
        writer.save(tmp_path / name, strategies.network(3))
    assert (tmp_path / "a.pt").read_bytes() == (tmp_path / "b.pt").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["a.pt", "b.pt"]


def test_3mb_with_100_classes_is_small_and_read_without_torch(path):
    writer.save(path, strategies.fill(models.build("3mb", 100), 0))
    assert path.stat().st_size < 450_000
    program = f"import sys; from fbnn_hw.ir import checkpoint; checkpoint.read({str(path)!r}); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[2]).returncode == 0


def test_views_offsets_strides_and_shared_storages_of_torch(path):
    values = content()
    both = torch.cat([values["weights"]["conv1"], values["weights"]["conv2"]])
    first = len(values["weights"]["conv1"])
    values["weights"]["conv1"], values["weights"]["conv2"] = both[:first], both[first:]
    wide = torch.zeros(len(values["weights"]["conv3"]), 2, dtype=torch.uint8)
    wide[:, 1] = values["weights"]["conv3"]
    values["weights"]["conv3"] = wide[:, 1]
    values["thresholds"]["gap"] = i32(1).expand(len(values["thresholds"]["gap"]))
    path.write_bytes(saved(values))
    expected = strategies.vgg_network(1, classes=3, latent=9, hidden=4, thresholds=1.0)
    network = checkpoint.read(path)
    assert all(np.array_equal(network.weights[name], expected.weights[name]) for name in expected.weights)
    assert not network.thresholds["gap"].any() and network.thresholds["gap"].flags.writeable


def test_ordered_dicts_and_tuples_are_fine(path):
    values = collections.OrderedDict(content(), training={"tuple": (1, (2.5, None)), "flag": True, "big": -2 ** 63, "text": "\u00e9\n"})
    path.write_bytes(saved(values))
    assert checkpoint.read(path).training == {"tuple": [1, [2.5, None]], "flag": True, "big": -2 ** 63, "text": "\u00e9\n"}


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_pickle_protocols_are_those_of_torch(path):
    for protocol in (2, 3):
        path.write_bytes(saved(content(), pickle_protocol=protocol))
        torch.load(path, weights_only=True)
        checkpoint.read(path)
    message = "data.pkl uses the pickle operation FRAME, expected plain values and tensors alone; nothing was executed"
    assert refused(path, saved(content(), pickle_protocol=4)) == message  # torch refuses it too
    with pytest.raises(pickle.UnpicklingError):
        torch.load(path, weights_only=True)


def test_the_example_of_the_document_gives_the_logits_of_plain_loops(tmp_path):
    program = re.search(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)[1]
    small = "WIDTH, LATENT, HIDDEN, CLASSES, FILE = 1 / 64, 16, 6, 37, "
    program, count = re.subn("WIDTH, LATENT, HIDDEN, CLASSES, FILE = 1, 1024, 128, 37, ", small, program)
    assert count == 1
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
    values = torch.load(tmp_path / "random.pt", weights_only=True)
    network = checkpoint.read(tmp_path / "random.pt")
    image = strategies.images(5, 1)
    lists = {}
    for layer in values["architecture"]:  # unpacked here by the document's words, not by the package's functions
        if layer["name"] in values["weights"]:
            shape = network.topology.weight_shapes()[layer["name"]]
            packed = values["weights"][layer["name"]].tolist()
            lists[layer["name"]] = np.array([packed[i // 8] >> i % 8 & 1 for i in range(int(np.prod(shape)))]).reshape(shape).tolist()
    thresholds = {name: tensor.tolist() for name, tensor in values["thresholds"].items()}
    expected = naive.run(values["architecture"], lists, thresholds, image[0].tolist())["logits"]
    assert len(expected) == 37 and inference.logits(network, image).tolist() == [expected]


def test_the_example_as_it_stands_is_a_3mb_network(tmp_path):
    program = re.search(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)[1]
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
    network, expected = checkpoint.read(tmp_path / "random.pt"), models.build("3mb", 37)
    assert network.topology.ops == expected.ops


# Files that are no checkpoint

def test_missing_file(path):
    assert refused(path) == "not found, expected a checkpoint"


def test_directory(tmp_path):
    assert refused(tmp_path) == "is a directory, expected a checkpoint file"


def test_pipe(path):
    os.mkfifo(path)
    assert refused(path) == "is a pipe, expected a checkpoint file"


def test_no_file_name_at_all():
    with pytest.raises(InputError) as error:
        checkpoint.read("a\0b")
    assert str(error.value) == "a\0b: cannot be read (embedded null byte), expected a checkpoint"


def test_file_that_is_too_large(path):
    with open(path, "wb") as file:
        file.truncate(2 ** 40)
    assert refused(path) == "1099511627776 bytes, expected at most 67108864 in a checkpoint"


@pytest.mark.parametrize("data, message", [
    (b"", "file is empty, expected a checkpoint"),
    (b"hello", "begins with b'hell', expected a zip archive written by torch.save"),
    (saved({"a": 1}, _use_new_zipfile_serialization=False),
     f"is a file of torch.save in the format before torch 1.6, {EXPORT}"),
    (pickle.dumps({"a": 1}), f"is a pickle of Python, which nothing here runs, {EXPORT}"),
    (saved({"a": 1})[:300], "damaged zip archive (File is not a zip file), expected one written by torch.save"),
    (saved([1]), "found a list, expected a dict with format, version, name, architecture, classes, weights"),
    (saved(torch.zeros(3)), "found a tensor, expected a dict with format, version, name, architecture, classes, weights"),
    (saved({"a": 1}), "format is missing, expected 'fbnn-hw checkpoint'"),
    (saved(torch.nn.Linear(2, 2).state_dict()), f"is a state_dict with 'weight', 'bias', {EXPORT} that has loaded it"),
    (saved({"epoch": 3, "model": torch.nn.BatchNorm2d(2).state_dict()}),
     f"is a state_dict with 'weight', 'bias', ..., {EXPORT} that has loaded it"),
    (saved(torch.nn.Linear(2, 2)), f"data.pkl names 'torch.nn.modules.linear.Linear'{ALONE}; if it is a module saved whole, {DOOR}"),
    (saved(_Foreign()), f"data.pkl names '{__name__}._Foreign'{ALONE}; if it is a module saved whole, {DOOR}"),
    (lambda: scripted(torch.nn.Linear(2, 2)), f"is TorchScript, {EXPORT}"),
    (b"\x08\x07\x12\x07pytorch", "is an ONNX file, expected a checkpoint; fbnn-hw import FILE --out mine.pt makes one of it"),
    (saved({"format": "fbnn-hw training state", "model": torch.nn.Linear(2, 2).state_dict()}),
     "format is 'fbnn-hw training state', expected 'fbnn-hw checkpoint'"),
    (saved({"w": torch.nn.Parameter(torch.zeros(2))}),
     f"data.pkl names 'torch._utils._rebuild_parameter'{ALONE}; if it has a state_dict, {DOOR} that has loaded it"),
    (saved({"w": torch.zeros(2, dtype=torch.bfloat16)}),
     f"'data/0': found a tensor of torch.BFloat16Storage, expected uint8 or int32; if it is of a state_dict, {DOOR} that has loaded it"),
    (saved({"w": np.zeros(2)}),
     f"data.pkl names 'numpy._core.multiarray._reconstruct'{ALONE}; int, float and torch.from_numpy make plain values and tensors of those "
     f"of numpy; if it has a state_dict, {DOOR} that has loaded it"),
    (saved({"model": torch.nn.Linear(2, 2).state_dict(), "args": argparse.Namespace(lr=1)}),
     f"data.pkl names 'argparse.Namespace'{ALONE}; if it has a state_dict, {DOOR} that has loaded it"),
    (saved({1, 2}), "data.pkl names '__builtin__.set'" + ALONE),
])
def test_other_files(path, data, message):
    assert refused(path, data) == message


def zipped(*names, **options):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", **options) as archive:
        for name in names:
            archive.writestr(name, b"x" * 100)
    return buffer.getvalue()


def exported(module, *inputs):
    buffer = io.BytesIO()
    torch.export.save(torch.export.export(module, inputs), buffer)
    return buffer.getvalue()


OTHER = ("expected a checkpoint; fbnn-hw import takes an ONNX file of the network, and fbnn-hw help checkpoint says how to write a "
         "checkpoint")
UNPACK = "expected a checkpoint; unpack it, and name what it holds"
SAFETENSORS = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
HEADS = (64, ord("<"), 0x308)
"""Bytes of a header; those of the last two begin as a web page and as ONNX."""


@pytest.mark.parametrize("data, message", [
    *((size.to_bytes(8, "little") + SAFETENSORS.ljust(size) + bytes(4),
       f"is a safetensors file, weights without their network, {EXPORT} that has loaded it") for size in HEADS),
    (b"\x89HDF\r\n\x1a\n" + bytes(100), f"is an HDF5 file, as Keras writes it, {OTHER}"),
    (zipped("metadata.json", "config.json", "model.weights.h5"), f"is a model of Keras, {OTHER}"),
    (b"\x1c\0\0\0TFL3" + bytes(9), f"is a TensorFlow Lite file, {OTHER}"),
    (zipped("a.npy"), f"holds numpy arrays, 'a.npy', {OTHER}"),
    (zipped("cat/1.jpg", "cat/2.jpg", "cat/3.jpg", compression=zipfile.ZIP_DEFLATED),
     f"is a zip archive of 'cat/1.jpg', 'cat/2.jpg', ..., which torch.save did not write, {UNPACK}"),
    (zipped(), f"is an empty zip archive, {UNPACK}"),
    (lambda: exported(torch.nn.Linear(2, 2), torch.zeros(1, 2)), f"is a program of torch.export, {EXPORT}"),
    (gzip.compress(b"abc", mtime=0), f"is compressed by gzip, {UNPACK}"),
    (bytes(257) + b"ustar" + bytes(300), f"is a tar archive, {UNPACK}"),
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\n",
     "is the pointer of a file in Git LFS, expected a checkpoint; git lfs pull fetches the file itself"),
    (b'{"a": 1}', "is JSON text, expected a checkpoint; docs/ir.md says how network.json, the network of a design, becomes a checkpoint"),
    (b"<!DOCTYPE html>", "is a web page or XML, expected a checkpoint; download the file itself"),
    (b"\x80", "begins with b'\\x80', expected a zip archive written by torch.save")])
def test_files_of_other_programs_are_named_with_their_door(path, data, message):
    assert refused(path, data) == message


def test_large_files_of_other_programs_too(path, monkeypatch):
    monkeypatch.setattr(checkpoint, "MAX_BYTES", 1000)
    for data in (saved(torch.nn.Linear(20, 20)), saved(torch.nn.Linear(20, 20).state_dict()), scripted(torch.nn.Linear(2, 99))):
        assert refused(path, data) == (f"{len(data)} bytes, expected at most 1000 in a checkpoint; if it is a model of PyTorch, {DOOR}")
    assert refused(path, b"\x08\x07\x12\x07pytorch" + bytes(2000)).startswith("is an ONNX file")


@pytest.mark.parametrize("file, message", [
    ("0-0-weights.bin", "is a folder of FINN's parameters, expected a checkpoint; fbnn-hw import FOLDER --out mine.pt makes one of it"),
    ("saved_model.pb", f"is a SavedModel of TensorFlow, {OTHER}"),
    ("network.json", "is the folder of a design, expected a checkpoint; name the checkpoint that it was generated from"),
    ("other", "is a directory, expected a checkpoint file")])
def test_folders(path, file, message):
    path.mkdir()
    (path / file).touch()
    assert refused(path) == message


class Code:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", [2, 4])
def test_code_is_not_run(path, protocol):
    mark = path.with_name("executed")
    for code in (Code(os.system, f"touch {mark}"), Code(eval, f"open({str(mark)!r}, 'w')"), Code(open, str(mark), "w")):
        message = refused(path, saved({**content(), "training": {"x": code}}, pickle_protocol=protocol))
        assert message.startswith("data.pkl ") and message.endswith("expected plain values and tensors alone; nothing was executed")
        assert not mark.exists()


# Right files with wrong content

def change(*keys, to):
    def edit(values):
        for key in keys[:-1]:
            values = values[key]
        values[keys[-1]] = to
    return edit


def remove(*keys):
    def edit(values):
        for key in keys[:-1]:
            values = values[key]
        del values[keys[-1]]
    return edit


def u8(*numbers):
    return torch.tensor(numbers, dtype=torch.uint8)


def i32(count, value=0):
    return torch.full((count,), value, dtype=torch.int32)


WRONG = {
    "format is 'fbnn-hw training state', expected 'fbnn-hw checkpoint'": change("format", to="fbnn-hw training state"),
    "version is 3, expected 1 or 2": change("version", to=3),
    "version is True, expected 1 or 2": change("version", to=True),
    "weights is missing, expected format, version, name, architecture, classes, weights": remove("weights"),
    "unknown field 'extra', expected format, version, name, architecture, classes, weights, thresholds, training": change("extra", to=1),
    "content: key 3 is an integer, expected a string": change(3, to=1),
    "name: found a list, expected a str": change("name", to=["x"]),
    "name: found '../x', expected 1 to 64 letters, digits, '.', '_' and '-', a letter or digit first":
        change("name", to="../x"),
    "architecture: found a dict, expected a list": change("architecture", to={}),
    "architecture[0]: found str, expected a dict": change("architecture", 0, to="conv"),
    "architecture[1]: op is 'conv3', expected one of thermometer, conv, maxpool, gap, depthwise, dense, duplicate, concat, slice, shuffle":
        change("architecture", 1, "op", to="conv3"),
    "architecture[1]: unknown field 'dilation' of conv, expected name, inputs, out_channels, kernel, stride, groups":
        change("architecture", 1, "dilation", to=2),
    "architecture[1]: name is 'a b', expected at most 64 letters, digits and _, no digit first":
        change("architecture", 1, "name", to="a b"),
    "architecture[1]: inputs is 'input', expected a list of layer names": change("architecture", 1, "inputs", to="input"),
    "architecture[1]: out_channels of conv conv1 is missing, expected a number from 1": remove("architecture", 1, "out_channels"),
    "architecture[1]: out_channels is 8.0, expected an integer": change("architecture", 1, "out_channels", to=8.0),
    "architecture[0]: size is [32, 48], expected an integer": change("architecture", 0, "size", to=[32, 48]),
    "architecture[1]: op is 'flatten', expected one of thermometer, conv, maxpool, gap, depthwise, dense, duplicate, concat, slice, shuffle"
    " in version 1 of the format": change("architecture", 1, "op", to="flatten"),
    "architecture[1]: unknown field 'padding' of conv, expected name, inputs, out_channels, kernel, stride, groups"
    " in version 1 of the format": change("architecture", 1, "padding", to="same"),
    "layer conv1: kernel 5 needs version 2 of the format, version is 1": change("architecture", 1, "kernel", to=5),
    "layer input: size is 1000000, expected 2 to 512": change("architecture", 0, "size", to=10 ** 6),
    "layer input: encoder is 'rgb', expected 'tycc', 'trgb' or 'grey'": change("architecture", 0, "encoder", to="rgb"),
    "layer conv1: input 'nothing' is not an earlier layer": change("architecture", 1, "inputs", to=["nothing"]),
    "layer conv1: has 0 inputs, expected 1": change("architecture", 1, "inputs", to=[]),
    "layer conv1: 1000000000 channels, expected at most 65536": change("architecture", 1, "out_channels", to=10 ** 9),
    "layer conv2: groups is 3, expected a divisor of 8 inputs and 8 outputs": change("architecture", 2, "groups", to=3),
    "layer conv2: name is used twice, expected unique names": change("architecture", 1, "name", to="conv2"),
    "architecture: 1001 layers, expected at most 1000": change("architecture", to=[{}] * 1001),
    "model tiny: first layer is missing, expected thermometer, binarize or bits8": change("architecture", to=[]),
    "layer logits: 3 outputs, expected 2, one for each class name": change("classes", to=["a", "b"]),
    "classes[2]: 'a' is there twice, expected unique names": change("classes", to=["a", "b", "a"]),
    "classes[1]: found '', expected a name of 1 to 100 printable characters, not all of them blank": change("classes", to=["a", "", "c"]),
    "classes[1]: found 7, expected a name of 1 to 100 printable characters, not all of them blank": change("classes", to=["a", 7, "c"]),
    "weights.conv1: missing, expected the packed bits of shape (8, 64, 3, 3)": remove("weights", "conv1"),
    "weights.more: no layer of that name has weights, expected conv1, conv2, conv3, conv4, conv5, conv6, depthwise, latent, hidden, logits":
        change("weights", "more", to=u8(1)),
    "weights.conv1: 1 bytes, expected 576 for shape (8, 64, 3, 3)": change("weights", "conv1", to=u8(1)),
    "weights.conv1: found float32 (576,), expected uint8 with one dimension": change("weights", "conv1", to=torch.zeros(576)),
    "weights.conv1: found uint8 (8, 72), expected uint8 with one dimension":
        change("weights", "conv1", to=torch.zeros(8, 72, dtype=torch.uint8)),
    "weights.conv1: found a list, expected a tensor of uint8": change("weights", "conv1", to=[1, 2]),
    "weights.conv1: 1099511627776 bytes, expected 576 for shape (8, 64, 3, 3)": change("weights", "conv1", to=u8(0).expand(2 ** 40)),
    "weights.hidden: last byte is 16, expected 0 in its 4 fill bits": change("weights", "hidden", to=u8(0, 0, 0, 0, 16)),
    "thresholds.conv1: found int64 (8,), expected int32 with one dimension":
        change("thresholds", "conv1", to=torch.zeros(8, dtype=torch.int64)),
    "thresholds.conv1: found int32 (7,), expected integers (8,)": change("thresholds", "conv1", to=i32(7)),
    "thresholds.conv1: found int32 (1099511627776,), expected integers (8,)":
        change("thresholds", "conv1", to=i32(1).expand(2 ** 40)),
    "thresholds.conv1: found -2147483648, expected at most fan-in + 1 = 577 either way":
        change("thresholds", "conv1", to=i32(8, -2 ** 31)),
    "thresholds.gap: found 18, expected at most fan-in + 1 = 17 either way": change("thresholds", "gap", to=i32(32, 18)),
    "thresholds.logits: no layer of that name takes thresholds": change("thresholds", "logits", to=i32(3)),
    "training: found a list, expected a dict": change("training", to=[]),
    "training.history[1].loss: found nan, expected a finite number": change("training", to={"history": [{}, {"loss": float("nan")}]}),
    "training.a.b: found -inf, expected a finite number": change("training", to={"a": {"b": float("-inf")}}),
    "training.x: found 1267650600228...01496703205376, expected an integer from -2^63 to 2^63 - 1": change("training", to={"x": 2 ** 100}),
    "training.x: key 1 is an integer, expected a string": change("training", to={"x": {1: 2}}),
    "training.x: found a tensor, expected plain values": change("training", to={"x": torch.zeros(2)}),
    "training.x: text of 100001 characters, expected at most 100000": change("training", to={"x": "a" * 100_001}),
}


def content_2():
    """What a good file of version 2 holds: bytes, a convolution without padding, flatten, 2 classes."""
    layers = [{"op": "bits8", "name": "input", "inputs": [], "size": 5, "table": list(range(256))},
              {"op": "conv", "name": "conv", "inputs": ["input"], "out_channels": 2, "padding": 0},
              {"op": "flatten", "name": "flat", "inputs": ["conv"]},
              {"op": "dense", "name": "logits", "inputs": ["flat"], "out_channels": 2, "logits": True}]
    return {"format": "fbnn-hw checkpoint", "version": 2, "name": "two", "architecture": layers, "classes": ["a", "b"],
            "weights": {"conv": u8(*range(6), 0), "logits": u8(1, 2, 3, 4, 15)}, "thresholds": {"conv": i32(2, -6886)}}


WRONG_2 = {
    "architecture[0]: op is 'conv3', expected one of thermometer, binarize, bits8, conv, maxpool, gap, depthwise, flatten, dense, "
    "duplicate, concat, slice, shuffle": change("architecture", 0, "op", to="conv3"),
    "architecture[0]: unknown field 'levels' of bits8, expected name, inputs, size, table": change("architecture", 0, "levels", to=16),
    "architecture[0]: table is 'identity', expected a list of 256 integers": change("architecture", 0, "table", to="identity"),
    "architecture[0]: table is {}, expected a list of 256 integers": change("architecture", 0, "table", to={}),
    "layer input: table is 255 values, expected 256": change("architecture", 0, "table", to=[0] * 255),
    "layer input: table[3] is -1, expected an integer from 0 to 255": change("architecture", 0, "table", 3, to=-1),
    "layer input: table[3] is 1.0, expected an integer from 0 to 255": change("architecture", 0, "table", 3, to=1.0),
    "layer input: table[255] is [], expected an integer from 0 to 255": change("architecture", 0, "table", 255, to=[]),
    "architecture[0]: size is 5.0, expected an integer": change("architecture", 0, "size", to=5.0),
    "layer conv: padding is -1, expected 'same' or 0": change("architecture", 1, "padding", to=-1),
    "layer conv: padding is 'valid', expected 'same' or 0": change("architecture", 1, "padding", to="valid"),
    "layer conv: padding is [], expected 'same' or 0": change("architecture", 1, "padding", to=[]),
    "layer conv: padding is None, expected 'same' or 0": change("architecture", 1, "padding", to=None),
    "weights.conv: last byte is 64, expected 0 in its 2 fill bits": change("weights", "conv", to=u8(*range(6), 64)),
    "thresholds.conv: found 6887, expected at most 255 * fan-in + 1 = 6886 either way": change("thresholds", "conv", to=i32(2, 6887)),
    "thresholds.flat: no layer of that name takes thresholds": change("thresholds", "flat", to=i32(18)),
}


@pytest.mark.parametrize("message", WRONG_2)
def test_wrong_content_of_version_2(path, message):
    values = content_2()
    path.write_bytes(saved(values))
    network = checkpoint.read(path)
    assert network.topology.shapes == {"input": (3, 5, 5), "conv": (2, 3, 3), "flat": (18, 1, 1), "logits": (2, 1, 1)}
    WRONG_2[message](values)
    assert refused(path, saved(values)) == message


def test_a_file_of_version_2_that_needs_version_1_alone_is_read(path):
    path.write_bytes(saved({**content(), "version": 2}))
    assert checkpoint.to_plain(checkpoint.read(path))["version"] == 1


@pytest.mark.parametrize("message", WRONG)
def test_wrong_content(path, message):
    values = content()
    if "hidden" in message and "fill" in message:  # 4 x 9 bits
        values["weights"]["hidden"] = u8(0, 0, 0, 0, 0)
    WRONG[message](values)
    assert refused(path, saved(values)) == message


def test_numbers_of_weights_beyond_the_limit_are_refused_before_memory_is_asked_for(path):
    values = content()
    for index in (1, 2):
        values["architecture"][index]["out_channels"] = 65536
    assert refused(path, saved(values)) == "layer conv2: 38692454400 weight bits up to here, expected at most 268435456"


def recursive_list():
    values = []
    values.append(values)
    return values


def recursive_dict():
    values = {}
    values["again"] = values
    return values


def laughs():
    values = ["ha"] * 10
    for _ in range(12):
        values = [values] * 10
    return values


@pytest.mark.parametrize("build, message", [
    (recursive_list, "training: nested more than 100 deep, expected less"),
    (recursive_dict, "training: nested more than 100 deep, expected less"),
    (laughs, "more than 200000 values, 50 characters of text counted as one, expected a network")])
def test_endless_structures(path, build, message):
    assert refused(path, saved({**content(), "training": {"x": build()}})) == message


@pytest.mark.parametrize("key", [b")" + b"\x85" * 400_000, b"K\x01\x85q\x00" + b"h\x00\x86q\x00" * 60, b"N"])
def test_keys_that_no_hash_survives(path, key):
    """A tuple nested 400,000 deep, whose hash overflows the stack, and one of 2^60 parts that are the same."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", b"\x80\x02}" + key + b"K\x01s.")
        archive.writestr("a/version", "3\n")
    assert re.fullmatch("a key is a (tuple|NoneType), expected a string", refused(path))


# The archive

def repack(data, edit=lambda name, content: content, extra=(), **options):
    """The zip archive `data` again, each entry changed by `edit` (None: left out), with `extra` entries."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w", **options) as new:
        for info in old.infolist():
            changed = edit(info.filename.split("/", 1)[1], old.read(info))
            if changed is not None:
                new.writestr(info.filename, changed)
        for name, more in extra:
            new.writestr(name, more)
    return buffer.getvalue()


def only(target, value):
    return lambda name, data: value if name == target else data


def test_repacking_alone_changes_nothing(path):
    path.write_bytes(repack(saved(content())))
    checkpoint.read(path)


@pytest.mark.parametrize("edit, message", [
    (only("byteorder", b"big"), "byteorder is 'big', expected 'little'"),
    (only("data.pkl", None), "found 0 entries NAME/data.pkl in the zip archive, expected 1"),
    (only("data.pkl", b""), "data.pkl is damaged (ValueError), expected the pickle that torch.save writes"),
    (only("data.pkl", b"\x80\x02}"), "data.pkl is damaged (ValueError), expected the pickle that torch.save writes"),
    (only("data.pkl", b"\x80\x02."), "data.pkl is damaged (ValueError), expected the pickle that torch.save writes"),
    (only("data.pkl", b"\x80\x02NN."), "data.pkl is damaged (ValueError), expected the pickle that torch.save writes"),
    (only("data.pkl", b"\x80\x02N\x85R."), "data.pkl is damaged (ValueError), expected the pickle that torch.save writes"),
    (only("data/0", None), "'data/0': missing in the zip archive, expected 576 elements"),
    (only("data/0", b"123"), "'data/0': 3 bytes, expected 576")])
def test_damaged_archive(path, edit, message):
    assert refused(path, repack(saved(content()), edit)) == message


def test_compressed_entry_is_refused_before_it_is_unpacked(path):
    data = repack(saved(content()), only("data/0", bytes(10 ** 8)), compression=zipfile.ZIP_DEFLATED)
    assert refused(path, data) == "zip entry 'archive/data.pkl' is compressed or encrypted, expected it stored as torch.save does"


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_entry_twice(path):
    data = repack(saved(content()), extra=[("archive/data/0", b"")])
    assert refused(path, data) == "zip entry 'archive/data/0' is there twice, expected once"


def test_archive_of_very_many_entries(path):
    data = saved(content())
    assert refused(path, data + b"PK\x01\x02" * 10_000) == "more than 10000 entries in the zip archive, expected a few for each layer"


def test_pickle_of_very_many_operations(path, monkeypatch):
    monkeypatch.setattr(checkpoint, "MAX_OPERATIONS", 1000)
    data = repack(saved(content()), only("data.pkl", b"\x80\x02" + b"]" * 1000))
    assert refused(path, data) == "data.pkl: more than 1000 pickle operations, expected a network"


def test_tensor_beyond_its_storage(path):
    data = repack(saved(content()), lambda name, data: data.replace(b"M@\x02\x85", b"M@\x03\x85") if name == "data.pkl" else data)
    assert refused(path, data) == "data.pkl: a tensor of size (832,) reaches beyond its storage of 576 elements"


# Damage at random

def attempt(path, data):
    path.write_bytes(data)
    try:
        checkpoint.read(path)
    except InputError as error:
        assert str(error).startswith(f"{path}: ") and "\n" not in str(error) and len(str(error)) < 400 + len(str(path))
        return 1
    return 0


def damage(rng, data):
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data))
        match rng.randrange(5):
            case 0:
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                data[at] = rng.choice((0, 1, 0x7f, 0x80, 0xff, rng.randrange(256)))
            case 2:
                del data[at:at + rng.randint(1, 20)]
            case 3:
                data[at:at] = rng.randbytes(rng.randint(1, 8))
            case 4:
                other = rng.randrange(len(data))
                data[at:at + 8] = data[other:other + 8]
        if not data:
            data = bytearray(b"P")
    return bytes(data)


def test_truncation_anywhere(path):
    data = saved(content())
    for end in [*range(0, 64), *range(64, len(data), len(data) // 150)]:
        assert attempt(path, data[:end]) == 1


def test_random_damage_of_the_file(path):
    rng, data = random.Random(1), saved(content())
    assert sum(attempt(path, damage(rng, data)) for _ in range(400)) > 250


@pytest.mark.filterwarnings("ignore::DeprecationWarning:pickletools")
def test_random_damage_of_the_pickle_under_a_right_checksum(path):
    rng, data = random.Random(2), saved(content())
    assert sum(attempt(path, repack(data, lambda name, d: damage(rng, d) if name == "data.pkl" else d)) for _ in range(500)) > 300


def test_random_damage_of_the_central_directory(path):
    rng, data = random.Random(3), saved(content())
    start = data.index(b"PK\x01\x02")
    assert sum(attempt(path, data[:start] + damage(rng, data[start:])) for _ in range(300)) > 100


def test_random_exchange_of_values(path):
    """Any value of the content replaced by any other odd one."""
    rng = random.Random(4)
    odd = [None, True, 0, -1, 2 ** 62, 1e308, "", "x", "\ud800", [], {}, (), [[]], {"a": 1}, {1: 2}, u8(), u8(1), torch.zeros(2, 2),
           torch.zeros(0, 3), "a" * 5000, [None] * 50, torch.tensor(1, dtype=torch.int32)]

    def slots(value, places):
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, child in items:
            places.append((value, key))
            slots(child, places)
        return places

    for _ in range(400):
        values = content()
        holder, key = rng.choice(slots(values, []))
        holder[key] = rng.choice(odd)
        try:
            data = saved(values)
        except UnicodeEncodeError:
            continue
        attempt(path, data)


# Writing

def test_an_illegal_network_is_not_written(path):
    network = strategies.network(2)
    network.weights.pop(next(iter(network.weights)))
    with pytest.raises(InputError):
        writer.save(path, network)
    assert not path.exists()


def test_a_folder_that_is_a_file(path):
    path.write_text("x")
    with pytest.raises(InputError) as error:
        writer.save(path / "model.pt", strategies.network(2))
    assert str(error.value) == f"{path}/model.pt: cannot be written (File exists), expected a file name in a folder that can"


def test_not_a_number_in_the_training_record_is_not_written(path):
    network = strategies.network(2)
    network.training["loss"] = float("nan")
    with pytest.raises(InputError) as error:
        writer.save(path, network)
    assert str(error.value) == "training.loss: found nan, expected a finite number" and not path.exists()
