from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from fbnn_hw.base import bits
from fbnn_hw.data import datasets
from fbnn_hw.ir import ops as op
from fbnn_hw.ir.network import Topology
from fbnn_hw.nn import checkpoint
from fbnn_hw.reference import inference
from tests import strategies


@pytest.mark.parametrize("backend", ["reference", "torch"])
def test_data_set(answer, model, backend):
    path, network = model
    images = datasets.load("fixture").first(20)
    result = answer("classify", "--model", path, "--data", "fixture", "--images", 20, "--backend", backend, "--latent", "--top", 3)
    logits, latent = inference.logits(network, images.images), inference.layers(network, images.images)["latent"]
    assert result["classes"] == list(images.classes) and result["backend"] == backend and len(result["images"]) == 20
    for n, entry in enumerate(result["images"]):
        best = int(inference.classify(logits[n:n + 1])[0])
        assert entry["logits"] == logits[n].tolist() and entry["index"] == best and entry["class"] == images.classes[best]
        assert (entry["file"], entry["image"], entry["label"]) == ("fixture", n, images.classes[images.labels[n]])
        assert entry["latent"] == bits.pack(latent[n]).tobytes().hex() and len(entry["latent"]) == 16
        assert [t["index"] for t in entry["top"]] == np.argsort(-logits[n], kind="stable")[:3].tolist()
        assert [t["logit"] for t in entry["top"]] == [logits[n][t["index"]] for t in entry["top"]]


@pytest.mark.parametrize("classes", [2, 37, 100])
def test_backends_agree(answer, tmp_path, classes):
    checkpoint.save(tmp_path / "m.pt", strategies.vgg_network(classes, classes=classes, thresholds=0.5))
    np.save(tmp_path / "x.npy", strategies.images(0, 5))
    run = ("classify", tmp_path / "x.npy", "--model", tmp_path / "m.pt", "--latent", "--backend")
    result = [answer(*run, backend) for backend in ("torch", "reference")]
    assert result[0]["images"] == result[1]["images"] and len(result[0]["images"][0]["logits"]) == classes


def small(*layers):
    """A network for 8 x 8 pixels: a convolution, `layers`, which may read it, and a classifier that pools the convolution."""
    ops = (op.Thermometer("input", (), "trgb", 8, 5), op.Conv("conv", ("input",), 3), *layers,
           op.Gap("gap", ("conv",)), op.Dense("logits", ("gap",), 2, logits=True))
    return strategies.fill(Topology("small", ops, ("a", "b")), 1)


@pytest.mark.parametrize("backend", ["reference", "torch"])
def test_bits_of_a_latent_that_is_a_map(answer, tmp_path, backend):
    """docs/checkpoint.md: bit (c * height + y) * width + x."""
    network = small(op.MaxPool("latent", ("conv",)))
    images = strategies.images(1, 2, 8)
    checkpoint.save(tmp_path / "m.pt", network)
    np.save(tmp_path / "x.npy", images)
    entries = answer("classify", tmp_path / "x.npy", "--model", tmp_path / "m.pt", "--latent", "--backend", backend)["images"]
    channels, height, width = network.topology.shapes["latent"]
    for entry, values in zip(entries, inference.layers(network, images)["latent"], strict=True):
        data = bytes.fromhex(entry["latent"])
        for c, y, x in np.ndindex(channels, height, width):
            bit = (c * height + y) * width + x
            assert data[bit // 8] >> bit % 8 & 1 == values[c, y, x]


@pytest.mark.parametrize("backend", ["reference", "torch"])
def test_a_layer_that_nobody_reads_changes_nothing(answer, tmp_path, backend):
    """docs/checkpoint.md allows it."""
    np.save(tmp_path / "x.npy", strategies.images(1, 3, 8))
    logits = []
    plain = small()
    unread = small(op.Conv("spare", ("conv",), 4))
    for network in plain, replace(unread, weights=unread.weights | plain.weights):
        checkpoint.save(tmp_path / "m.pt", network)
        entries = answer("classify", tmp_path / "x.npy", "--model", tmp_path / "m.pt", "--backend", backend)["images"]
        logits.append([entry["logits"] for entry in entries])
    assert "spare" in network.weights and logits[0] == logits[1]


def test_files(answer, cli, model, tmp_path):
    images = datasets.load("fixture").first(3).images
    Image.fromarray(images[0].transpose(1, 2, 0)).save(tmp_path / "a.png")
    np.save(tmp_path / "b.npy", images[1:])
    files = [str(tmp_path / "a.png"), str(tmp_path / "b.npy")]
    result = answer("classify", *files, "--model", model[0])["images"]
    assert [(e["file"], e["image"]) for e in result] == [(files[0], 0), (files[1], 0), (files[1], 1)]
    assert [e["logits"] for e in result] == inference.logits(model[1], images).tolist() and "label" not in result[0]
    code, out, err = cli("classify", *files, "--model", model[0], "--top", 2)
    lines = out.splitlines()
    assert code == 0 and not err and lines[0].startswith(f"{files[0]}: {result[0]['class']} ({max(result[0]['logits'])}), ")
    assert [line.split(":")[0] for line in lines[1:]] == [f"{files[1]}[0]", f"{files[1]}[1]"]


def test_resize(answer, refused, model, tmp_path):
    Image.new("RGBA", (60, 40), (255, 0, 0, 255)).save(tmp_path / "a.png")
    assert refused("classify", tmp_path / "a.png", "--model", model[0]) == (
        3, f"fbnn-hw classify: {tmp_path}/a.png: has an alpha channel, expected RGB; convert it, or let --resize do so")
    assert len(answer("classify", tmp_path / "a.png", "--model", model[0], "--resize")["images"]) == 1


def test_a_file_whose_name_begins_as_a_flag(refused, cli, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (32, 32)).save("-lead.png")
    assert refused("classify", "-lead.png", "--model", model[0]) == (
        2, "fbnn-hw classify: unknown argument -lead.png; ./-lead.png is the file of that name, as is -lead.png after --; see fbnn-hw "
           "classify --help")
    for words in (("./-lead.png",), ("--", "-lead.png")):
        assert cli("classify", "--model", model[0], *words)[0] == 0


def test_refusals(refused, model, tmp_path):
    path = model[0]
    assert refused("classify", "--model", path) == (2, "fbnn-hw classify: expected image files or --data")
    assert refused("classify", "x.png", "--data", "fixture", "--model", path) == (
        2, "fbnn-hw classify: found both image files and --data, expected one of them")
    assert refused("classify", "x.png", "--images", 3, "--model", path) == (2, "fbnn-hw classify: --images: expected together with --data")
    assert refused("classify", "x.png", "--data-dir", "d", "--model", path) == (
        2, "fbnn-hw classify: --data-dir: expected together with --data")
    assert refused("classify", "x.png", "--board", "virtual", "--backend", "reference") == (
        2, "fbnn-hw classify: --backend: has no meaning on a board; leave it out")
    assert refused("classify", tmp_path / "x.png", "--model", path) == (
        3, f"fbnn-hw classify: {tmp_path}/x.png: not found, expected an image file")
    assert refused("classify", "x.png") == (2, "fbnn-hw classify: missing --model, or --port or --board; see fbnn-hw classify --help")
    for words, message in (
            (("--board", "virtual"), "--camera: expected together with --port; fbnn-hw device simulates a camera"),
            (("--port", "p", "x.png"), "found both --camera and image files, expected one of them")):
        assert refused("classify", "--camera", 2, *words) == (2, f"fbnn-hw classify: {message}")
    assert refused("classify", "x.png", "--model", path, "--port", "p") == (
        2, "fbnn-hw classify: --model: has no meaning on a board; leave it out")
    assert refused("classify", "x.png", "--port", "p", "--board", "virtual") == (
        2, "fbnn-hw classify: found both --port and --board, expected one of them")
    assert refused("classify", "x.png", "--model", path, "--baud", 115200) == (
        2, "fbnn-hw classify: --baud: expected together with --port or --board")
    manifest = tmp_path / "manifest.json"
    assert refused("classify", "x.png", "--board", "virtual", "--design", tmp_path) == (
        3, f"fbnn-hw classify: {manifest}: not found, expected a folder that `fbnn-hw generate` wrote")
    for text in ("[]", "{}", "null"):
        manifest.write_text(text)
        code, line = refused("classify", "x.png", "--board", "virtual", "--design", tmp_path)
        assert code == 3 and line.startswith(f"fbnn-hw classify: {manifest}: ") and line.endswith("; generate the folder again")
    code, line = refused("classify", "x.png", "--model", "none.pt")
    assert code == 3 and line.startswith("fbnn-hw classify: --model none.pt: no such file, and no shipped checkpoint of that name; ")
    topology = Topology("small", (op.Thermometer("input", (), "tycc", 2, 2), op.Gap("gap", ("input",)),
                                  op.Dense("logits", ("gap",), 2, 1, True)), ("a", "b"))
    checkpoint.save(tmp_path / "small.pt", strategies.fill(topology, 0))
    np.save(tmp_path / "x.npy", np.zeros((3, 2, 2), np.uint8))
    assert refused("classify", tmp_path / "x.npy", "--model", tmp_path / "small.pt", "--latent") == (
        3, "fbnn-hw classify: model small: has no layer named latent, expected one with --latent")
    assert refused("classify", "--data", "fixture", "--model", tmp_path / "small.pt") == (
        2, f"fbnn-hw classify: --data fixture: has images of 32 pixels a side, {tmp_path}/small.pt takes 2")
