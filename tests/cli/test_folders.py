"""Folders of pictures given to the verbs: train, pretrain, evaluate, classify; learn has its test in test_learn."""

import os
import sys

import numpy as np
import pytest

from fbnn_hw.data import datasets
from fbnn_hw.ir import checkpoint
from fbnn_hw.link import transport
from fbnn_hw.reference import inference
from tests.data.test_folder import Pipe, pictures

RECIPE = ("--model", "tiny", "--epochs", 1, "--batch", 4, "--threads", 1, "--resize", "--size", 16)


@pytest.fixture
def photos(tmp_path):
    """A folder with train and test."""
    for seed, split in enumerate(("train", "test")):
        pictures(tmp_path / "photos" / split, ("cat", "dog"), 6, seed=seed)
    return tmp_path / "photos"


def test_from_training_to_an_answer(photos, answer, cli, tmp_path, monkeypatch):
    path = tmp_path / "m.pt"
    result = answer("train", "--data", photos, *RECIPE, "--out", path)
    assert result["training"]["test_images"] == 12 and checkpoint.read(path).topology.classes == ("cat", "dog")
    evaluated = answer("evaluate", "--model", path, "--data", photos, "--resize")
    assert evaluated["reproduces"] is True and evaluated["images"] == 12
    assert answer("evaluate", "--model", path, "--data", photos / "train", "--resize")["images"] == 12

    found = answer("classify", photos / "test", "--model", path, "--resize")["images"]
    assert [entry["label"] for entry in found] == ["cat"] * 6 + ["dog"] * 6
    assert found[0]["file"] == str(photos / "test" / "cat" / "0.png")
    assert sum(entry["class"] == entry["label"] for entry in found) == evaluated["correct"]
    assert answer("classify", "--data", photos, "--model", path, "--resize")["images"][7]["logits"] == found[7]["logits"]
    flat = answer("classify", photos / "test" / "dog", "--model", path, "--resize")["images"]
    assert [entry["logits"] for entry in flat] == [entry["logits"] for entry in found[6:]] and "label" not in flat[0]
    monkeypatch.setattr(sys, "stdin", Pipe((photos / "test" / "cat" / "3.png").read_bytes()))
    code, text, _ = cli("classify", "-", "--model", path, "--crop", "--top", 2)
    assert code == 0 and text.startswith("-: ") and text.count("(") == 2


def test_a_folder_without_a_test(tmp_path, cli, answer):
    pictures(tmp_path / "p", ("a", "b"), 4)
    code, _, err = cli("train", "--data", tmp_path / "p", *RECIPE, "--out", tmp_path / "m.pt")
    assert code == 0 and "so the checkpoint states no test accuracy; such pictures go into a folder test beside train" in err
    result = answer("pretrain", "--data", tmp_path / "p", *RECIPE, "--out", tmp_path / "fe.pt")
    assert result["training"]["scenario"] == "p" and result["training"]["test_accuracy"] is None
    assert checkpoint.read(tmp_path / "fe.pt").topology.classes == ("a", "b")


@pytest.mark.parametrize("verb", ["train", "pretrain"])
def test_one_class_alone_is_nothing_to_train(tmp_path, refused, verb):
    pictures(tmp_path / "p", ("a",), 4)
    code, line = refused(verb, "--data", tmp_path / "p", *RECIPE, "--out", tmp_path / "m.pt")
    assert code == 3 and line.endswith(f"{tmp_path / 'p'}: has the class a alone, expected two or more to tell apart")
    assert [path.name for path in tmp_path.iterdir()] == ["p"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
@pytest.mark.parametrize("verb", ["train", "pretrain"])
def test_a_path_that_is_no_text_loses_no_epoch(tmp_path, cli, verb):
    folder = tmp_path / os.fsdecode(b"p\xff")
    pictures(folder, ("a", "b"), 4)
    code, _, err = cli(verb, "--data", folder, *RECIPE, "--out", tmp_path / "m.pt")
    assert code == 0, err
    assert "p\\udcff" in checkpoint.read(tmp_path / "m.pt").training["command"]


@pytest.mark.parametrize("verb", ["train", "pretrain"])
def test_the_classes_of_a_test_go_by_name(tmp_path, answer, refused, verb):
    """A test that lacks the first class of the training is numbered as it; a class that it alone has is refused before the training."""
    pictures(tmp_path / "p" / "train", ("cat", "dog", "emu"), 6)
    pictures(tmp_path / "p" / "test", ("dog", "emu"), 6, seed=0)
    for name in ("dog", "emu"):
        for file in (tmp_path / "p" / "train" / name).iterdir():
            (tmp_path / "p" / "test" / name / file.name).write_bytes(file.read_bytes())
    training = answer(verb, "--data", tmp_path / "p", *RECIPE, "--out", tmp_path / "m.pt")["training"]
    result = answer("evaluate", "--model", tmp_path / "m.pt", "--data", tmp_path / "p", "--resize")
    assert training["test_images"] == 12 and result["correct"] == round(training["test_accuracy"] * 12)
    pictures(tmp_path / "p" / "test", ("Cat",), 1)
    code, line = refused(verb, "--data", tmp_path / "p", *RECIPE, "--out", tmp_path / "n.pt")
    assert code == 3 and f"{tmp_path}/p/test: has the class Cat, which the training does not have, expected some of cat, dog, emu" in line
    assert not (tmp_path / "n.state").exists()


def test_chosen_classes_without_a_test_are_refused(tmp_path, refused):
    pictures(tmp_path / "p" / "train", ("cat", "dog", "emu"), 2)
    pictures(tmp_path / "p" / "test", ("emu",), 2)
    code, line = refused("train", "--data", tmp_path / "p", *RECIPE, "--out", tmp_path / "m.pt", "--classes", "cat,dog")
    assert code == 3 and "p/test: no image of cat,dog, expected some for the test" in line


@pytest.mark.parametrize("text, names", [
    ('"salt, pepper",cat', ["salt, pepper", "cat"]), ("dog house, cat", ["dog house", "cat"]), ('" emu","5"" pipe"', [" emu", '5" pipe'])])
def test_classes_with_blanks_commas_and_quotes(tmp_path, answer, text, names):
    pictures(tmp_path / "p", ("salt, pepper", "dog house", "cat", " emu", '5" pipe'), 4)
    answer("train", "--data", tmp_path / "p", "--classes", text, *RECIPE, "--out", tmp_path / "m.pt")
    assert list(checkpoint.read(tmp_path / "m.pt").topology.classes) == names


def test_names_of_the_files_come_from_the_folder(tmp_path, cli, monkeypatch):
    pictures(tmp_path / "p", ("a", "b"), 4)
    monkeypatch.chdir(tmp_path)
    assert cli("train", "--data", "p/", *RECIPE)[0] == 0
    assert (tmp_path / "tiny-p.pt").is_file()


def test_a_port_that_is_found(tmp_path, refused, monkeypatch):
    pictures(tmp_path, ("a",), 1)
    monkeypatch.setattr(transport, "ports", lambda: [transport.Port("/dev/ttyUSB7", "0403:6010"), transport.Port("/dev/ttyS0")])
    code, message = refused("classify", tmp_path / "a", "--port", "auto", "--resize")
    assert code == 3 and message.startswith("fbnn-hw classify: /dev/ttyUSB7: no such port")
    monkeypatch.setattr(transport, "ports", lambda: [transport.Port("/dev/ttyS0")])
    code, message = refused("classify", tmp_path / "a", "--port", "auto", "--resize")
    assert code == 3 and message.startswith("fbnn-hw classify: --port auto: no port of USB ")
    assert message.endswith("the ports are /dev/ttyS0")


def test_refusals(tmp_path, refused, monkeypatch, model):
    pictures(tmp_path / "p", ("a", "b"), 1)
    here = tmp_path / "p"
    monkeypatch.setattr(sys, "stdin", Pipe(b""))
    for words, line in (
            (("train", "--model", "tiny", "--data", "fixtur"), "--data fixtur: expected one of cifar10, "),
            (("train", "--model", "tiny", "--data", here, "--resize", "--crop"), "found both --resize and --crop, expected one of them"),
            *((("train", "--model", "tiny", "--data", "tiny", *flag), "--size and --resize: with the data set tiny expected both, or none")
              for flag in (("--resize",), ("--size", 9))),
            (("train", "--model", "tiny", "--data", "tiny", "--crop"), "--crop: has no meaning with the data set tiny, expected a folder"),
            (("train", "--model", "tiny", "--data", here, "--data-dir", "x"), "--data-dir: has no meaning with a folder of pictures"),
            (("train", "--model", "tiny", "--data", here, "--size", 600), "--size: found '600', expected a whole number from 1 to 512"),
            (("train", "--model", "sd.pt", "--data", here), "--model sd.pt: expected one of 0.5mb, 1mb, 3mb, 9mb, 24mb, res3mb, res-small, "
             "fast, tiny, or --init FILE to go on from a checkpoint; fbnn_hw.export makes one of a module of PyTorch; see fbnn-hw train"),
            (("pretrain", "--model", "tiny"), "missing --scenario, or --data FOLDER; see fbnn-hw pretrain --help"),
            (("pretrain", "--model", "tiny", "--data", "cifar10"), "--data cifar10: expected a folder with"),
            (("pretrain", "--model", "tiny", "--scenario", "tiny-2+2x2", "--size", 9), "--resize, --crop, --size: have no meaning with"),
            (("classify", "-", "-", "--model", model[0]), "found - twice, expected standard input once")):
        code, message = refused(*words)
        assert code == 2 and message.startswith(f"fbnn-hw {words[0]}: {line}"), message
    assert "or a folder with a subfolder of pictures for each class; did you mean fixture?" in refused("train", "--model", "tiny", "--data",
                                                                                                       "fixtur")[1]
    assert refused("train", "--model", "tiny", "--data", "none/") == (
        3, "fbnn-hw train: none: cannot be read (No such file or directory), expected a folder of pictures")
    code, message = refused("train", "--model", "tiny", "--data", here)
    assert code == 3 and "0.png: found 20x20 pixels, expected 32x32; --resize scales the centre square" in message


def test_a_data_set_of_another_size(tmp_path, answer):
    """`train` and `evaluate` enlarge the same images."""
    path = tmp_path / "a.pt"
    recipe = ("--model", "tiny", "--epochs", 1, "--batch", 4, "--threads", 1, "--images", 4, "--validation", 0, "--schedule", "cosine",
              "--patience", 0)
    answer("train", "--data", "tiny", *recipe, "--resize", "--size", 20, "--out", path)
    network, images = checkpoint.read(path), datasets.load("tiny", split="test").scaled(20)
    assert network.topology.image_size == 20 and images.images.shape[1:] == (3, 20, 20)
    found = answer("evaluate", "--model", path, "--data", "tiny", "--resize")
    assert found["correct"] == (inference.classify(inference.logits(network, images.images)) == images.labels).sum()
    flat = datasets.Images(np.full((1, 3, 2, 2), 7, np.uint8), np.zeros(1, np.int64), ("a",))
    assert (flat.scaled(5).images == 7).all() and flat.scaled(2) is flat
