from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from fbnn_hw.data import datasets
from fbnn_hw.data.images import scale
from fbnn_hw.nn import checkpoint
from fbnn_hw.reference import camera, inference
from fbnn_hw.train import predict
from tests import strategies


@pytest.mark.parametrize("backend", ["torch", "reference"])
def test_scores(answer, model, backend):
    path, network = model
    images = datasets.load("fixture").first(100)
    right = inference.classify(inference.logits(network, images.images)) == images.labels
    result = answer("evaluate", "--model", path, "--data", "fixture", "--images", 100, "--backend", backend)
    recalls = [float(right[images.labels == i].mean()) for i in range(10)]
    assert result["correct"] == right.sum() and result["accuracy"] == right.mean() and result["images"] == 100
    assert list(result["recall"].values()) == recalls and result["dispersion"] == pytest.approx(np.std(recalls))
    assert result["images_per_second"] > 0 and result["reproduces"] is None and result["stated_accuracy"] is None


def test_whether_the_stated_accuracy_is_reproduced(answer, cli, model, tmp_path):
    _, network = model
    images = datasets.load("fixture").first(50)
    right = float((inference.classify(inference.logits(network, images.images)) == images.labels).mean())
    run = ("evaluate", "--data", "fixture", "--backend", "reference", "--model", tmp_path / "m.pt", "--images")
    for stated, count, verdict in ((right, 50, True), (right + 0.02, 50, False), (right, 40, None)):
        checkpoint.save(tmp_path / "m.pt", replace(network, training={"data": "fixture", "test_accuracy": stated, "test_images": count}))
        result = answer(*run, 50)
        assert result["reproduces"] is verdict and result["stated_accuracy"] == stated
    stated = {"data": "pictures", "test_accuracy": 0.5, "test_images": 4}
    verdicts = [predict.reproduction(stated, folder, 2, 4)["reproduces"] for folder in ("pictures/", "./pictures", "other")]
    assert verdicts == [True, True, None]
    checkpoint.save(tmp_path / "m.pt", replace(network, training={"data": "fixture", "test_accuracy": 1e308, "test_images": 50}))
    assert answer(*run, 50)["reproduces"] is None
    checkpoint.save(tmp_path / "m.pt", replace(network, training={"data": "fixture", "test_accuracy": right, "test_images": 40}))
    words = {True: "reproduced", None: "not compared, for these are other images"}[verdict]
    assert f"stated     {right:.2%} on 40 images of fixture: {words}" in cli(*run, 50)[1]


def test_a_model_of_some_classes(cli, answer, tmp_path):
    network = strategies.fill(replace(strategies.vgg_network(1, classes=2).topology, classes=("dog", "cat")), 2)
    checkpoint.save(tmp_path / "m.pt", network)
    images = datasets.load("fixture").select(("dog", "cat"))
    result = answer("evaluate", "--model", tmp_path / "m.pt", "--data", "fixture")
    right = inference.classify(inference.logits(network, images.images)) == images.labels
    assert result["images"] == 57 and result["correct"] == right.sum() and list(result["recall"]) == ["dog", "cat"]
    assert cli("evaluate", "--model", tmp_path / "m.pt", "--data", "fixture")[2] == (
        "fbnn-hw evaluate: 57 of 300 images are of the 2 classes that the model and the data set share\n")


def test_other_class_names(cli, refused, tmp_path):
    checkpoint.save(tmp_path / "m.pt", strategies.vgg_network(1, classes=10))
    assert cli("evaluate", "--model", tmp_path / "m.pt", "--data", "fixture", "--images", 5)[2] == (
        "fbnn-hw evaluate: the class names differ, so classes are taken by number\n")
    checkpoint.save(tmp_path / "m.pt", strategies.vgg_network(1, classes=3))
    assert refused("evaluate", "--model", tmp_path / "m.pt", "--data", "fixture") == (
        3, f"fbnn-hw evaluate: {tmp_path}/m.pt: has the 3 classes class0, class1, class2..., none of them in the data set's "
        "airplane, automobile, bird...; expected a model trained on this data set")


def test_missing_data(refused, model, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("FBNN_DATA", raising=False)

    def refuse(*args, **kwargs):
        raise OSError("no network in tests")

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    code, line = refused("evaluate", "--model", model[0], "--data", "cifar10", "--data-dir", tmp_path / "d")
    assert code == 3 and line.endswith(f"put cifar-10-python.tar.gz from https://www.cs.toronto.edu/~kriz/ into {tmp_path}/d")


@pytest.mark.parametrize("name, grey", [("ov7670", False), ("hm01b0", True)])
def test_through_a_camera(answer, cli, model, name, grey):
    """The images of the reference's front end are scored; what the file states is of others."""
    path, network = model
    images = datasets.load("fixture").first(40)
    right = inference.classify(inference.logits(network, camera.through(images.images, grey))) == images.labels
    run = ("evaluate", "--model", path, "--data", "fixture", "--backend", "reference", "--images", 40, "--camera", name)
    result = answer(*run)
    assert (result["camera"], result["correct"], result["reproduces"]) == (name, right.sum(), None)
    assert answer(*run[:-2])["camera"] is None


def test_pictures_are_shown_as_large_as_the_window(answer, model, tmp_path):
    path, network = model
    pictures = strategies.images(3, 2, 150)
    (tmp_path / "cat").mkdir()
    (tmp_path / "dog").mkdir()
    for kind, picture in zip(("cat", "dog"), pictures):
        Image.fromarray(picture.transpose(1, 2, 0)).save(tmp_path / kind / "1.png")
    logits = inference.logits(network, camera.through(scale(pictures, camera.WINDOW), False))
    right = inference.classify(logits) == [network.topology.classes.index(kind) for kind in ("cat", "dog")]
    run = ("evaluate", "--model", path, "--data", tmp_path, "--backend", "reference", "--resize", "--camera", "ov7670")
    assert answer(*run)["correct"] == right.sum()


def test_a_model_of_another_size_than_the_camera_s(refused, tmp_path):
    checkpoint.save(tmp_path / "m.pt", strategies.vgg_network(1, classes=10, size=16))
    code, line = refused("evaluate", "--model", tmp_path / "m.pt", "--data", "fixture", "--camera", "ov7670")
    assert code and "--camera ov7670: gives images of 32x32" in line and "takes 16x16" in line
