from dataclasses import replace

from fbnn_hw.ir import models
from fbnn_hw.nn import checkpoint
from tests import strategies


def test_3mb(answer, cli, tmp_path):
    training = {"command": "by hand", "epochs": 3}
    network = replace(strategies.fill(models.build("3mb", 100), 0), training=training)
    checkpoint.save(tmp_path / "m.pt", network)
    found = answer("inspect", tmp_path / "m.pt")
    assert found == answer("inspect", "--model", tmp_path / "m.pt")
    assert found["weight_bits"] == found["bits"] == 2_966_528 and found["macs"] == 397_779_968
    assert found["file_bytes"] == (tmp_path / "m.pt").stat().st_size < 450_000
    assert found["encoder"] == {"name": "tycc", "levels": 16, "channels": 64} and found["image_size"] == 32
    assert len(found["classes"]) == 100 and found["training"] == training
    layers = {layer["name"]: layer for layer in found["layers"]}
    assert layers["conv4"] == {"name": "conv4", "kind": "conv", "inputs": ["conv3"], "shape": [256, 16, 16], "weights": [256, 128, 3, 3],
                               "groups": 2, "weight_bits": 294_912, "thresholds": False, "fan_in": 1152, "macs": 75_497_472}
    assert sum(layer["weight_bits"] for layer in layers.values()) == 2_966_528
    code, out, err = cli("inspect", tmp_path / "m.pt")
    assert code == 0 and not err and "2,966,528 (2.967 Mbit)" in out and "command = by hand" in out


def test_thresholds_count(answer, tmp_path):
    network = strategies.vgg_network(0, thresholds=1.0)
    checkpoint.save(tmp_path / "m.pt", network)
    found = answer("inspect", tmp_path / "m.pt")
    assert found["bits"] == network.bits() > found["weight_bits"] and any(layer["thresholds"] for layer in found["layers"])


def test_a_record_cannot_drive_the_terminal(cli, tmp_path):
    network = replace(strategies.vgg_network(0), training={"note": "\x1b[2J\nbits 0", "by\r": "é 3"})
    checkpoint.save(tmp_path / "m.pt", network)
    code, out, err = cli("inspect", tmp_path / "m.pt")
    assert code == 0 and r"  note = '\x1b[2J\nbits 0'" in out.splitlines() and r"  'by\r' = é 3" in out.splitlines()


def test_not_a_checkpoint(refused, tmp_path):
    (tmp_path / "m.pt").write_bytes(b"hello")
    code, line = refused("inspect", tmp_path / "m.pt")
    assert code == 3 and line.startswith(f"fbnn-hw inspect: {tmp_path}/m.pt: begins with b'hell', expected ")
