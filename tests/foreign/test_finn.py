"""FINN's parameter folders: random ones against FINN's arithmetic, the published ones where a checkout has them."""

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from fbnn_hw.base.errors import InputError
from fbnn_hw.data import datasets
from fbnn_hw.foreign import finn, read
from fbnn_hw.reference import inference
from tests import strategies
from tests.foreign import finn_folder

MODELS = Path(os.environ.get("FBNN_MODELS", Path(__file__).parents[3] / "shared" / "models"))
"""Folder with bnn-pynq and qonnx: networks that their authors published."""

PUBLISHED = MODELS / "bnn-pynq" / "bnn" / "params"


def published(name):
    if not (PUBLISHED / name).is_dir():
        pytest.skip(f"{name} of FINN's published parameters is not there; FBNN_MODELS names the folder with bnn-pynq")
    return PUBLISHED / name


def test_cnv_equals_finns_popcounts(tmp_path):
    layers = finn_folder.cnv(finn_folder.with_classes(tmp_path), np.random.default_rng(3))
    imported = read(tmp_path)
    images = strategies.images(1, 3)
    logits = inference.logits(imported.network, images)
    counts = np.array([finn_folder.cnv_answer(layers, image) for image in images])
    assert np.array_equal(logits * imported.scale + imported.shift, counts)
    maps = inference.layers(imported.network, images)
    assert all(0.02 < maps[name].mean() < 0.98 for name in ("conv1", "conv6", "dense1", "latent"))
    assert imported.network.topology.classes == tuple("abcdefghij") and imported.exact == "logits"
    assert [part.layers for part in imported.parts[:3]] == [("input",), ("conv1",), ("conv2",)]


def test_lfc_answers_as_finn_does(tmp_path):
    layers = finn_folder.lfc(finn_folder.with_classes(tmp_path, "0123456789"), np.random.default_rng(5))
    imported = read(tmp_path)
    rng = np.random.default_rng(6)
    grey = np.concatenate([rng.integers(0, 256, (150, 28, 28)), rng.integers(100, 160, (150, 28, 28))]).astype(np.uint8)
    images = np.repeat(grey[:, None], 3, 1)
    maps = inference.layers(imported.network, images)
    answers = [imported.network.topology.classes[i] for i in inference.classify(maps["logits"])]
    assert answers == [str(finn_folder.lfc_answer(layers, image)) for image in grey]
    set_bits = Counter(maps["class_bits"].sum((1, 2, 3)).tolist())
    assert set_bits[0] > 3 and set_bits[1] > 3 and sum(set_bits.values()) - set_bits[0] - set_bits[1] > 3  # none, one, several
    assert imported.exact == "classes" and imported.scale is None


@pytest.mark.parametrize("network, last, message", [
    (finn_folder.lfc, 3, "3 layers, 0 of them without thresholds, expected CNV-W1A1 (9, the last without) or LFC-W1A1 (4, all with); are "
                         "files missing?"),
    (finn_folder.cnv, 8, "8 layers, 0 of them without thresholds, expected CNV-W1A1 (9, the last without) or LFC-W1A1 (4, all with); are "
                         "files missing?")])
def test_a_folder_without_its_last_layer_is_no_network(tmp_path, network, last, message):
    network(finn_folder.with_classes(tmp_path), np.random.default_rng(5))
    for path in tmp_path.glob(f"{last}-*.bin"):
        path.unlink()
    assert refusal(tmp_path) == message


def test_a_layer_too_many_before_the_missing_last_is_no_network(tmp_path):
    finn_folder.lfc(finn_folder.with_classes(tmp_path), np.random.default_rng(5), (64, 48, 32, 32))
    for path in tmp_path.glob("4-*.bin"):
        path.unlink()
    assert refusal(tmp_path) == "the last layer has 32 outputs, expected 64, the first ones for the classes; are files missing?"


def test_names_of_classes(tmp_path):
    finn_folder.lfc(finn_folder.with_classes(tmp_path, "0123456789"), np.random.default_rng(5))
    (tmp_path / "classes.txt").write_bytes("\ufeff0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n".encode())
    imported = read(tmp_path)
    assert imported.network.topology.classes == tuple("9876543210") and len(imported.notes) == 1
    way_out = "expected one of its own; or give --classes"
    finn_folder.with_classes(tmp_path, ["0", "b\x1b", *"23456789"])
    names = tmp_path / "classes.txt"
    assert refusal(tmp_path, names) == rf"the name of class 1, 'b\x1b', is no text of 1 to 100 printable characters, {way_out}"
    finn_folder.with_classes(tmp_path, "0121456789")
    assert refusal(tmp_path, names) == f"the name of class 3, '1', is there twice, {way_out}"
    assert refusal(tmp_path, "--classes", ("a", "a")) == "the name of class 1, 'a', is there twice, expected one of its own"
    assert refusal(tmp_path, "--classes", ("a",) * 65) == "65 names of classes, expected 1 to 64"
    finn_folder.with_classes(tmp_path, "")
    assert refusal(tmp_path, names) == "0 names of classes, expected 1 to 64; or give --classes"
    finn_folder.with_classes(tmp_path, "abc")
    assert read(tmp_path).notes[-1] == "3 classes have names, and 10 of the 64 outputs of the last layer have weights of their own"
    (tmp_path / "classes.txt").unlink()
    os.mkfifo(tmp_path / "classes.txt")
    with pytest.raises(InputError, match="classes.txt: is a pipe, expected the names of the classes"):
        read(tmp_path)


def refusal(folder, source=None, classes=None):
    """What follows the source in the refusal of a folder."""
    with pytest.raises(InputError) as error:
        read(folder, classes)
    source = f"{source or folder}: "
    assert "\n" not in str(error.value) and str(error.value).startswith(source)
    return str(error.value).removeprefix(source)


@pytest.mark.parametrize("missing", ["0-1-weights", "3-0-weights", "3-1-weights", "3-3-weights", "3-0-thres", "3-2-thres", "8-0-weights"])
def test_a_missing_file_is_named(tmp_path, missing):
    finn_folder.cnv(finn_folder.with_classes(tmp_path), np.random.default_rng(3))
    (tmp_path / f"{missing}.bin").unlink()
    assert refusal(tmp_path) == (f"has no {missing}.bin, expected weights of layers 0 to 8, here of elements 0 to 3, and thresholds of all "
                                 "elements of a layer or of none")


def test_files_of_a_layer_without_its_weights(tmp_path):
    """The whole layer is missing, or has thresholds alone, or one element alone has thresholds."""
    finn_folder.cnv(finn_folder.with_classes(tmp_path), np.random.default_rng(3))
    (tmp_path / "8-1-thres.bin").write_bytes(bytes(8))
    assert refusal(tmp_path).startswith("has no 8-0-thres.bin, ")
    (tmp_path / "8-1-thres.bin").unlink()
    for path in tmp_path.glob("4-*-weights.bin"):
        path.unlink()
    assert refusal(tmp_path).startswith("has no 4-0-weights.bin, ")
    for path in tmp_path.glob("4-*-thres.bin"):
        path.unlink()
    assert refusal(tmp_path).startswith("has no 4-0-weights.bin, ")


def test_one_file_of_a_folder_is_not_enough(tmp_path):
    finn_folder.cnv(finn_folder.with_classes(tmp_path), np.random.default_rng(3))
    with pytest.raises(InputError, match=f"0-0-weights.bin: is one file of FINN's parameters, expected their folder; give {tmp_path}$"):
        read(tmp_path / "0-0-weights.bin")


@pytest.mark.parametrize("lanes", [16, 49, 56])
def test_lfc_with_words_that_are_whole(tmp_path, lanes):
    layers = finn_folder.lfc(finn_folder.with_classes(tmp_path, "0123456789"), np.random.default_rng(5))
    finn_folder.write(tmp_path, 0, *layers[0], elements=16, lanes=lanes)
    assert np.array_equal(read(tmp_path).network.weights["dense1"], layers[0][0])


def test_thresholds_beyond_every_sum(tmp_path):
    finn_folder.cnv(finn_folder.with_classes(tmp_path), np.random.default_rng(3))
    for layer in (0, 1):
        for element, far in enumerate((2 ** 63 - 1, -2 ** 63)):
            path = tmp_path / f"{layer}-{element}-thres.bin"
            words = np.fromfile(path, "<i8")
            words[0] = far
            words.tofile(path)
    network = finn.read(tmp_path).network
    assert network.thresholds["conv1"][:2].tolist() == [27 * 255 + 1, -27 * 255]
    assert network.thresholds["conv2"][:2].tolist() == [36 + 1, -36]


def test_a_class_that_was_cut_is_told(tmp_path):
    finn_folder.cnv(finn_folder.with_classes(tmp_path, ["a" * 101, *"bcdefghij"]), np.random.default_rng(3))
    imported = finn.read(tmp_path)
    assert imported.network.topology.classes[0] == "a" * 97 + "..." and "is cut off at 100 characters" in imported.notes[-1]


def test_published_cnv():
    """The first 100 test images of CIFAR-10; docs/finn.md has the command for all 10,000, of which 7,922 are right."""
    imported = read(published("cifar10/cnvW1A1"))
    network = imported.network
    assert network.topology.weight_bits() == 1_542_848 and network.topology.macs() == 59_461_376
    images = datasets.load("fixture").first(100)
    right = inference.classify(inference.logits(network, images.images)) == images.labels
    assert right.sum() == 83


@pytest.mark.parametrize("name, bits, classes", [("road-signs/cnvW1A1", 1_560_256, 44), ("mnist/lfcW1A1", 2_910_308, 10)])
def test_other_published_networks(name, bits, classes):
    network = read(published(name)).network
    assert network.topology.weight_bits() == bits and len(network.topology.classes) == classes
