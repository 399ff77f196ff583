"""The IR as JSON: round trips, equal text, and bad text with its whole message."""

import json
import random

import numpy as np
import pytest

from fbnn_hw.base.errors import InputError
from fbnn_hw.ir import file
from tests import strategies


def text():
    return file.dumps(strategies.vgg_network(1, classes=3, latent=8, hidden=4, thresholds=1.0))


@pytest.mark.parametrize("seed", range(24))
def test_round_trip(seed):
    network = strategies.network(seed) if seed < 10 else strategies.network_2(seed)
    again = file.loads(file.dumps(network), "memory")
    assert again.topology == network.topology and again.training == network.training
    for name in network.weights:
        assert np.array_equal(again.weights[name], network.weights[name])
    for name in network.thresholds:
        assert np.array_equal(again.thresholds[name], network.thresholds[name])
    assert file.dumps(again) == file.dumps(network)


def test_the_text_is_json_with_sorted_keys_and_a_schema_version():
    values = json.loads(text())
    assert list(values) == sorted(values) and (values["format"], values["version"]) == ("fbnn-hw network", 1)


def edited(edit):
    values = json.loads(text())
    edit(values)
    return json.dumps(values)


@pytest.mark.parametrize("bad, message", [
    ("", "not JSON (Expecting value: line 1 column 1 (char 0))"),
    ("[" * 100_000, "nested too deep, expected a network"),
    ("[]", "found a list, expected a dict with format, version, name, architecture, classes, weights"),
    ('{"a": 1, "a": 2}', "key 'a' is there twice, expected once"),
    ('{"format": NaN}', "found NaN, expected finite numbers"),
    ("{}", "format is missing, expected 'fbnn-hw network'"),
    (edited(lambda v: v.update(format="fbnn-hw checkpoint")), "format is 'fbnn-hw checkpoint', expected 'fbnn-hw network'"),
    (edited(lambda v: v.update(version=7)), "version is 7, expected 1 or 2"),
    (edited(lambda v: v.update(more=7)),
     "unknown field 'more', expected format, version, name, architecture, classes, weights, thresholds, training"),
    (edited(lambda v: v["weights"].update(conv1="%%")), "weights.'conv1': found '%%', expected base64"),
    (edited(lambda v: v["weights"].update(conv1="AAAA")), "weights.conv1: 3 bytes, expected 576 for shape (8, 64, 3, 3)"),
    (edited(lambda v: v["weights"].update(conv1=1)), "weights.conv1: found an integer, expected a tensor of uint8"),
    (edited(lambda v: v["thresholds"].update(conv1=[1.5])), "thresholds.'conv1': found [1.5], expected integers of 32 bits"),
    (edited(lambda v: v["thresholds"].update(conv1=[1])), "thresholds.conv1: found int32 (1,), expected integers (8,)"),
    (edited(lambda v: v.update(training={"x": 1e400})), "found Infinity, expected finite numbers")])
def test_bad_text(bad, message):
    with pytest.raises(InputError) as error:
        file.loads(bad, "net.json")
    assert str(error.value) == f"net.json: {message}"


def test_random_damage_gives_nothing_but_input_errors():
    rng, good = random.Random(1), text()
    for _ in range(300):
        at = rng.randrange(len(good))
        damaged = good[:at] + rng.choice(["", '"', "{", "1", "]", "\ud800", "\\u0000"]) + good[at + rng.randint(0, 30):]
        try:
            file.loads(damaged, "net.json")
        except InputError as error:
            assert str(error).startswith("net.json: ") and "\n" not in str(error) and len(str(error)) < 400
