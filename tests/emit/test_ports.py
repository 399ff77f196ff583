"""Latency and period of docs/integration.md, measured at the ports in Icarus."""

import shutil
import sys
from pathlib import Path

import pytest

from fbnn_hw import design
from tests import strategies

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "benchmarks"))

import ports  # noqa: E402

pytestmark = pytest.mark.skipif(not shutil.which("iverilog"), reason="no iverilog (Debian: apt install iverilog)")
ENCODER = 16
"""Clocks, at most, in which an encoder has an image's last pixel."""


@pytest.mark.parametrize("target, options", [
    ("generic", {}), ("ice40", {}), ("generic", {"weights": "ram"}), ("generic", {"input": "levels"}),
    ("ice40", {"learn": True, "max_classes": 4, "exemplars": 3})], ids=str)
def test_latency_and_period(target, options, tmp_path):
    network = strategies.smallest_learner() if "learn" in options else strategies.smallest()
    made = design.generate(network, target, out=tmp_path, **options)
    seen = ports.edges(made, tmp_path)
    bytes_ = made.config.image_bytes
    assert len(seen["pixels"]) == ports.COUNT * bytes_ and len(seen["logits"]) == ports.COUNT * made.config.classes
    figures, estimate = ports.figures(seen, bytes_), made.estimate
    assert figures["period"] == [estimate["cycles"]] * (ports.COUNT - 1)
    [latency] = set(figures["latency"])
    assert 0 <= latency - (estimate["cycles"] - estimate["load_cycles"]) <= ENCODER
    for last, result in zip(seen["pixels"][bytes_ - 1::bytes_], seen["result"]):  # logits are between them, and it is busy
        between = [edge for edge in seen["logits"] if last < edge < result]
        assert len(between) == made.config.classes and set(range(between[0], result + 1)) <= set(seen["busy"])


def test_the_picture_is_todays(tmp_path):
    made = design.generate(strategies.smallest(), "generic", out=tmp_path)
    assert ports.PICTURE.read_text() == ports.picture(ports.edges(made, tmp_path), made.config.image_bytes)
