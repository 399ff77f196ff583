from dataclasses import replace

import pytest

from fbnn_hw.ir import models
from fbnn_hw.ir import ops as op
from fbnn_hw.ir.network import Topology
from fbnn_hw.nn import checkpoint
from tests import strategies


def test_3mb(answer, cli, tmp_path):
    training = {"command": "by hand", "epochs": 3}
    network = replace(strategies.fill(models.build("3mb", 100), 0), training=training)
    checkpoint.save(tmp_path / "m.pt", network)
    summary = answer("inspect", tmp_path / "m.pt")
    assert summary == answer("inspect", "--model", tmp_path / "m.pt")
    assert summary["weight_bits"] == summary["bits"] == 2_966_528 and summary["macs"] == 397_779_968
    assert summary["file_bytes"] == (tmp_path / "m.pt").stat().st_size < 450_000
    assert summary["encoder"] == {"name": "tycc", "levels": 16, "channels": 64} and summary["image_size"] == 32
    assert len(summary["classes"]) == 100 and summary["training"] == training
    layers = {layer["name"]: layer for layer in summary["layers"]}
    assert layers["conv4"] == {"name": "conv4", "kind": "conv", "inputs": ["conv3"], "shape": [256, 16, 16], "weights": [256, 128, 3, 3],
                               "groups": 2, "weight_bits": 294_912, "thresholds": False, "fan_in": 1152, "macs": 75_497_472}
    assert sum(layer["weight_bits"] for layer in layers.values()) == 2_966_528
    code, out, err = cli("inspect", tmp_path / "m.pt")
    assert code == 0 and not err and "2,966,528 (2.967 Mbit)" in out and "command = by hand" in out
    assert f"classes    100: {', '.join(network.topology.classes[:20])} and 80 more; --json has all\n" in out


@pytest.mark.parametrize("layer, values, text", [
    (op.Thermometer("input", (), "grey", 8, 3), {"name": "grey", "levels": 3, "channels": 3}, "grey, 3 levels, 8x8 pixels"),
    (op.Binarize("input", (), 28), {"name": "binarize", "threshold": 128, "channels": 1}, "binarize, +1 from grey 128 on, 28x28 pixels"),
    (op.Bits8("input", (), 8), {"name": "bits8", "table": list(range(256)), "channels": 3}, "bits8, bytes as they are, 8x8 pixels"),
    (op.Bits8("input", (), 9, (7,) * 256), {"name": "bits8", "table": [7] * 256, "channels": 3},
     "bits8, bytes through a table, 9x9 pixels"),
], ids=["grey", "binarize", "identity", "table"])
def test_inputs_of_version_2(answer, cli, tmp_path, layer, values, text):
    layers = (layer, op.Conv("conv", ("input",), 2, 5), op.Flatten("flat", ("conv",)), op.Dense("logits", ("flat",), 2, logits=True))
    checkpoint.save(tmp_path / "m.pt", strategies.fill(Topology("net", layers, ("a", "b")), 0))
    summary = answer("inspect", tmp_path / "m.pt")
    assert summary["encoder"] == values and summary["version"] == 2
    assert [layer["shape"] for layer in summary["layers"]][2:] == [[2 * layer.size ** 2, 1, 1], [2, 1, 1]]
    assert f"encoder    {text}" in cli("inspect", tmp_path / "m.pt")[1].splitlines()


def test_thresholds_count(answer, tmp_path):
    network = strategies.vgg_network(0, thresholds=1.0)
    checkpoint.save(tmp_path / "m.pt", network)
    summary = answer("inspect", tmp_path / "m.pt")
    assert summary["bits"] == network.bits() > summary["weight_bits"] and any(layer["thresholds"] for layer in summary["layers"])


def test_a_record_cannot_drive_the_terminal(cli, tmp_path):
    network = replace(strategies.vgg_network(0), training={"note": "\x1b[2J\nbits 0", "by\r": "é 3"})
    checkpoint.save(tmp_path / "m.pt", network)
    code, out, err = cli("inspect", tmp_path / "m.pt")
    assert code == 0 and r"  note = '\x1b[2J\nbits 0'" in out.splitlines() and r"  'by\r' = é 3" in out.splitlines()


def test_training_is_a_table_of_stages(answer, cli, tmp_path):
    first = {"data": "cifar10", "epochs": 3, "train_images": 45_000, "validation_accuracy": 0.5806, "test_accuracy": 0.5825,
             "seconds": 7289.0, "seed": 0, "config": {"epochs": 3, "batch": 64}}
    last = {"command": "fbnn-hw train", "data": "cifar10", "init": {"source": "a.pt (bits)", "training": first}, "config": {"batch": 64},
            "teacher": {"name": "big", "config": {"lr": 0.1}}, "epochs": 19, "train_images": 50_000, "test_accuracy": 0.81632, "seed": 1}
    checkpoint.save(tmp_path / "m.pt", replace(strategies.vgg_network(0), training=last))
    assert answer("inspect", tmp_path / "m.pt")["training"] == last
    lines = cli("inspect", tmp_path / "m.pt")[1].splitlines()
    start = lines.index("training, the last stage below; --json has the whole record")
    assert [line.split() for line in lines[start + 1:]] == [
        ["stage", "data", "images", "epochs", "training", "validation", "test", "teacher", "hours", "seed"],
        ["1", "cifar10", "45,000", "3", "-", "58.06%", "58.25%", "-", "2.0", "0"],
        ["2", "cifar10", "50,000", "19", "-", "-", "81.63%", "big", "-", "1"], ["command", "=", "fbnn-hw", "train"]]


def test_the_training_of_a_shipped_checkpoint_is_short(cli):
    out = cli("inspect", "3mb.pt")[1]
    lines = out[out.index("\ntraining"):].splitlines()
    assert len(lines) < 30 and max(map(len, lines)) < 300 and "{" not in "".join(lines)


def test_a_training_record_of_any_values(cli, tmp_path):
    chain = {"epochs": "\x1b[2J" * 99}
    for epochs in (2 ** 63 - 1, -1, True, 1e300, ["a"], {"b": "c" * 999}, 3):
        chain = {"epochs": epochs, "test_accuracy": epochs, "seconds": epochs, "teacher": epochs, "note": "x" * 5_000, "n" * 99: epochs,
                 "init": {"training": chain}}
    for training in (chain, {"init": 3, "teacher": {"name": ["x"]}, "seconds": "\x1b"}, {"init": {"training": [1]}}):
        checkpoint.save(tmp_path / "m.pt", replace(strategies.vgg_network(0), training=training))
        code, out, err = cli("inspect", tmp_path / "m.pt")
        assert code == 0 and not err and max(map(len, out.splitlines())) < 450
        assert all(line.isprintable() for line in out.splitlines()) and len(out.splitlines()) < 60


def test_not_a_checkpoint(refused, tmp_path):
    (tmp_path / "m.pt").write_bytes(b"hello")
    code, line = refused("inspect", tmp_path / "m.pt")
    assert code == 3 and line.startswith(f"fbnn-hw inspect: {tmp_path}/m.pt: begins with b'hell', expected ")
