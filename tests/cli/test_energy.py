"""`fbnn-hw energy`, with counts that were not simulated; tests/emit/test_activity.py has those that are."""

import pytest

from fbnn_hw.design import generate
from fbnn_hw.simulate import activity
from tests.emit.test_activity import counted


@pytest.fixture(scope="module")
def design(model, tmp_path_factory):
    return generate(model[1], "ice40", out=tmp_path_factory.mktemp("energy")).folder


def test_its_text_and_its_json(design, cli, answer, monkeypatch):
    monkeypatch.setattr(activity, "measure", lambda *_, **__: counted())
    report = answer("energy", design, "--rate", 2, "--rate", 90000, "--clock", 12, "--baud", 3000000)
    assert [rate["possible"] for rate in report["rates"]] == [True, False] and report["clock_hz"] == 12_000_000
    code, out, _ = cli("energy", design)
    assert code == 0 and "all figures are estimated" in out and "TinBiNN on an iCE40UP5K: 5 mW" in out and "10 frames/s" in out
    assert "all but the flash" in out
    assert report["first_frame"]["cycles"] == report["frame"]["cycles"] + 300


@pytest.mark.parametrize("flags, message", [
    (("--clock", "1000"), "--clock 1000: expected 0.1 to 100 MHz"),
    (("--rate", "0"), "--rate 0: expected more than 0 frames/s, at most 1000000"),
    (("--images", "1"), "--images: found '1', expected a whole number from 2 to 99")])
def test_what_it_refuses(design, refused, flags, message):
    code, line = refused("energy", design, *flags)
    assert code == 2 and message in line
