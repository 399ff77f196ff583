"""`fbnn-hw import`: what it prints and writes, and sources that it refuses."""

import re

import numpy as np
import pytest

from fbnn_hw.ir import checkpoint
from tests.foreign import finn_folder
from tests.foreign.test_qonnx import BY_HAND
from tests.foreign.test_qonnx import model as onnx_file


def test_the_verb(answer, cli, tmp_path):
    folder = tmp_path / "folder"
    finn_folder.cnv(finn_folder.with_classes(folder), np.random.default_rng(3))
    result = answer("import", folder, "--out", tmp_path / "x.pt")
    network = checkpoint.read(tmp_path / "x.pt")
    assert result["bits"] == network.bits() and result["classes"] == list("abcdefghij") and result["scale"] == 0.5
    assert sum(part["weight_bits"] for part in result["parts"]) == network.topology.weight_bits()
    assert sum(part["macs"] for part in result["parts"]) == network.topology.macs()
    code, text, _ = cli("import", folder, "--out", tmp_path / "y.pt", "--classes", '"q, r", b,c,d,e,f,g,h,i,j')
    assert code == 0 and "layer 0  conv1           108   97,200  reads bytes" in text and "classes    10: q, r, b, c" in text
    assert "exact      the other program's logits are 0.5 times these integers + 16" in text
    assert cli("import", folder, "--out", tmp_path / "z.pt", "--range", "-1", "1")[::2] == (
        2, "fbnn-hw import: --range: has no meaning with a folder of FINN's parameters; leave it out\n")


def damaged(folder, kind):
    """A folder that is wrong in one way."""
    finn_folder.cnv(finn_folder.with_classes(folder), np.random.default_rng(3))
    first = folder / "0-0-weights.bin"
    match kind:
        case "none":
            for path in folder.glob("0-*"):
                path.unlink()
        case "gap":
            (folder / "1-2-weights.bin").unlink()
        case "layer":
            for path in folder.glob("3-*"):
                path.unlink()
        case "bytes":
            first.write_bytes(first.read_bytes()[:-3])
        case "short":
            first.write_bytes(first.read_bytes()[:-8])
        case "bits":
            first.write_bytes(b"\xff" * len(first.read_bytes()))
        case "classes":
            (folder / "classes.txt").unlink()
        case "last":
            (folder / "8-0-thres.bin").write_bytes(bytes(128))
        case "many":
            finn_folder.with_classes(folder, [f"c{i}" for i in range(65)])
        case "neurons":
            for path in folder.glob("0-*-thres.bin"):
                path.write_bytes(b"")
        case "large":
            with open(first, "wb") as file:
                file.truncate(2 ** 24 + 8)
        case "no class":
            (folder / "classes.txt").write_text("\n \n")
        case "text":
            (folder / "classes.txt").write_bytes(b"\xff\xfe")


COMPLETE = "expected weights of layers 0 to 8, here of elements 0 to {}, and thresholds of all elements of a layer or of none"


@pytest.mark.parametrize("kind, message", [
    ("none", "{}: has no 0-0-weights.bin, expected the parameters of a network of FINN"),
    ("gap", f"{{}}: has no 1-2-weights.bin, {COMPLETE.format(3)}"),
    ("layer", f"{{}}: has no 3-0-weights.bin, {COMPLETE.format(0)}"),
    ("bytes", "{}/0-0-weights.bin: 69 bytes, expected 64-bit words"),
    ("short", "{}: the files of layer 0 have different lengths, expected equal ones"),
    ("bits", "{}: layer 0 has 9 words of 64 bits for the 27 inputs of a neuron, expected a network of FINN with 1 bit for weights and "
             "activations, CNV-W1A1 or LFC-W1A1"),
    ("classes", "{}/classes.txt: not found, expected the names of the classes, one a line; or give --classes"),
    ("last", f"{{}}: has no 8-1-thres.bin, {COMPLETE.format(3)}"),
    ("many", "{}/classes.txt: 65 names of classes, expected 1 to 64; or give --classes"),
    ("no class", "{}/classes.txt: 0 names of classes, expected 1 to 64; or give --classes"),
    ("neurons", "{}: layer 0 has 36 weight words for 0 neurons, expected a multiple; is it a network with more than one bit?"),
    ("text", "{}/classes.txt: is not UTF-8, expected the names of the classes, one a line"),
])
def test_a_damaged_folder_is_one_line(refused, tmp_path, kind, message):
    folder = tmp_path / "folder"
    damaged(folder, kind)
    assert refused("import", folder, "--out", tmp_path / "x.pt") == (3, f"fbnn-hw import: {message.format(folder)}")
    assert not (tmp_path / "x.pt").exists()


def test_a_folder_that_is_too_large_is_not_read(refused, tmp_path):
    folder = tmp_path / "folder"
    damaged(folder, "large")
    code, message = refused("import", folder, "--out", tmp_path / "x.pt")
    assert code == 3 and re.fullmatch(rf"fbnn-hw import: {folder}: 16,[0-9,]+ bytes of parameters, expected at most 16,777,216", message)


def test_a_network_with_fewer_outputs_than_classes(refused, tmp_path):
    folder = tmp_path / "folder"
    finn_folder.lfc(finn_folder.with_classes(folder, "0123456789"), np.random.default_rng(5))
    names = ",".join(map(str, range(64)))
    for path in folder.glob("3-*"):
        path.write_bytes(path.read_bytes()[:len(path.read_bytes()) // 4])
    assert refused("import", folder, "--out", tmp_path / "x.pt", "--classes", names) == (
        3, f"fbnn-hw import: {folder}: the last layer has 16 outputs, expected 64, the first ones for the classes; are files missing?")


def test_other_sources_are_named(refused, tmp_path, model):
    path = model[0]
    out = "--out", tmp_path / "x.pt"
    assert refused("import", path, *out) == (3, f"fbnn-hw import: {path}: is a checkpoint already, expected a QONNX file or a folder of "
                                                "FINN's parameters; use it as it is")
    (tmp_path / "words").write_bytes(b"hello")
    kinds = "expected a QONNX file or a folder of FINN's parameters"
    assert refused("import", tmp_path / "words", *out) == (3, f"fbnn-hw import: {tmp_path}/words: begins with b'hell', {kinds}")
    assert refused("import", tmp_path / "none.onnx", *out) == (3, f"fbnn-hw import: {tmp_path}/none.onnx: not found, {kinds}")
    for name in ("renamed.onnx", "RENAMED.ONNX"):
        (tmp_path / name).write_bytes(path.read_bytes())
        assert refused("import", tmp_path / name, *out) == (
            3, f"fbnn-hw import: {tmp_path / name}: is a checkpoint already, {kinds}; use it as it is")
    (tmp_path / "picture.onnx").write_bytes(b"\x89PNG\r\n\x1a\n")
    assert refused("import", tmp_path / "picture.onnx", *out) == (
        3, f"fbnn-hw import: {tmp_path}/picture.onnx: is a picture, {kinds}; fbnn-hw train makes a checkpoint")
    (tmp_path / "damaged.onnx").write_bytes(b"\xffonnx")
    assert "is a damaged ONNX file" in refused("import", tmp_path / "damaged.onnx", *out)[1]
    assert refused("import", tmp_path, "--out", tmp_path / "x.onnx") == (
        2, f"fbnn-hw import: --out {tmp_path}/x.onnx: expected a file name that ends in .pt")
    for low, high, text in (("1", "0", "1 0"), ("0", "inf", "0 inf"), ("-1e308", "-1E308", "-1e+308 -1e+308"),
                            ("-inf", "-.5", "-inf -0.5")):
        assert refused("import", tmp_path, *out, "--range", low, high)[1] == (
            f"fbnn-hw import: --range {text}: expected two numbers, the smaller one first, up to 3.4e+38")


def test_a_qonnx_file(answer, refused, tmp_path):
    """`--range` and `--classes`, which the file does not say, and a file that is damaged."""
    path = onnx_file(tmp_path / "net.onnx", *BY_HAND["multithreshold"])
    result = answer("import", path, "--out", tmp_path / "x.pt", "--range", "-1", "1", "--classes", "a,b,c")
    assert result["format"] == "QONNX" and result["classes"] == ["a", "b", "c"] and result["scale"] == 1
    assert [part["layers"] for part in result["parts"]][:2] == [["input"], ["conv1"]]
    assert checkpoint.read(tmp_path / "x.pt").topology.name == "net"
    assert refused("import", path, "--out", tmp_path / "y.pt", "--classes", "a,b")[1].endswith(
        ": has 3 outputs, found 2 names of classes, expected one for each output")
    path.write_bytes(path.read_bytes()[:-100])
    code, message = refused("import", path, "--out", tmp_path / "y.pt")
    assert code == 3 and message.startswith(f"fbnn-hw import: {path}: ") and not (tmp_path / "y.pt").exists()
