"""`fbnn-hw import`: what it prints and writes, and sources that it refuses."""

import numpy as np
import pytest

from fbnn_hw.ir import checkpoint
from tests.foreign import finn_folder


def test_the_verb(answer, cli, tmp_path):
    folder = tmp_path / "folder"
    finn_folder.cnv(finn_folder.with_classes(folder), np.random.default_rng(3))
    result = answer("import", folder, "--out", tmp_path / "x.pt")
    network = checkpoint.read(tmp_path / "x.pt")
    assert result["bits"] == network.bits() and result["classes"] == list("abcdefghij") and result["scale"] == 0.5
    assert sum(part["weight_bits"] for part in result["parts"]) == network.topology.weight_bits()
    assert sum(part["macs"] for part in result["parts"]) == network.topology.macs()
    code, text, _ = cli("import", folder, "--out", tmp_path / "y.pt", "--classes", "q,b,c,d,e,f,g,h,i,j")
    assert code == 0 and "layer 0  conv1           108   97,200  reads bytes" in text and "classes    10: q, b, c" in text
    assert "exact      the other program's logits are 0.5 times these integers + 16" in text


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
        case "text":
            (folder / "classes.txt").write_bytes(b"\xff\xfe")


@pytest.mark.parametrize("kind, message", [
    ("none", "{}: has no 0-0-weights.bin, expected the parameters of a network of FINN"),
    ("gap", "{}: layer 1 has 3 files of weights, the last one 1-3-weights.bin; expected all from 0, at most 1024"),
    ("layer", "{}: weights of layers 0, 1, 2, 4, 5, 6, 7, 8, expected all from 0, at most 32"),
    ("bytes", "{}/0-0-weights.bin: 69 bytes, expected 64-bit words"),
    ("short", "{}: the files of layer 0 have different lengths, expected equal ones"),
    ("bits", "{}: layer 0 has 9 words of 64 bits for the 27 inputs of a neuron, expected a network of FINN with 1 bit for weights and "
             "activations, CNV-W1A1 or LFC-W1A1"),
    ("classes", "{}/classes.txt: not found, expected the names of the classes, one a line; or give --classes"),
    ("last", "{}/8-1-thres.bin: not found, expected parameters of FINN, 64-bit words"),
    ("many", "{}: 65 classes, expected at most 64"),
    ("text", "{}/classes.txt: is not UTF-8, expected the names of the classes, one a line"),
])
def test_a_damaged_folder_is_one_line(refused, tmp_path, kind, message):
    folder = tmp_path / "folder"
    damaged(folder, kind)
    assert refused("import", folder, "--out", tmp_path / "x.pt") == (3, f"fbnn-hw import: {message.format(folder)}")
    assert not (tmp_path / "x.pt").exists()


def test_other_sources_are_named(refused, tmp_path, model):
    path = model[0]
    out = "--out", tmp_path / "x.pt"
    assert refused("import", path, *out) == (3, f"fbnn-hw import: {path}: is a checkpoint already, expected a QONNX file or a folder of "
                                                "FINN's parameters; use it as it is")
    (tmp_path / "words").write_bytes(b"hello")
    assert refused("import", tmp_path / "words", *out)[1].startswith(f"fbnn-hw import: {tmp_path}/words: begins with b'hell', expected")
    assert refused("import", tmp_path, "--out", tmp_path / "x.onnx") == (
        2, f"fbnn-hw import: --out {tmp_path}/x.onnx: expected a name that ends in .pt")
    assert refused("import", tmp_path, *out, "--range", "1", "0")[1] == "fbnn-hw import: --range 1 0: expected a smaller number first"
