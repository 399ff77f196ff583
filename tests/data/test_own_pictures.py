"""The programs of docs/data.md and docs/training.md for pictures of one's own: a test part, and which classes are mixed up."""

import re
from pathlib import Path

import numpy as np
from PIL import Image

from fbnn_hw.nn import checkpoint
from tests import strategies

DOCS = Path(__file__).parents[2] / "docs"


def program(page, heading):
    """The program below a heading of a page."""
    return re.search(rf"^### {heading}$.*?^```python\n(.*?)^```$", (DOCS / page).read_text(encoding="utf-8"), re.M | re.S)[1]


def test_the_programs_of_the_pages(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    network = strategies.smallest()
    checkpoint.save("mine.pt", network)
    random, size, names = np.random.default_rng(0), network.topology.image_size + 1, network.topology.classes
    for name in names:
        Path("all", name).mkdir(parents=True)
        for n in range(20):
            Image.fromarray(random.integers(0, 256, (size, size, 3), np.uint8)).save(f"all/{name}/{n}.png")
    exec(program("data.md", "A test part"), {})
    parts = {split: {path.relative_to(f"pictures/{split}") for path in Path("pictures", split).glob("*/*")} for split in ("train", "test")}
    assert not parts["train"] & parts["test"] and len(parts["train"] | parts["test"]) == 20 * len(names)
    assert 0 < len(parts["test"]) < len(parts["train"])
    exec(program("training.md", "Which classes are mixed up"), found := {})
    assert found["confusion"].sum() == len(parts["test"]) and found["confusion"].shape == (len(names),) * 2
    right = (found["answers"] == found["pictures"].labels).sum()
    assert f"right: {right} of {len(parts['test'])}" in capsys.readouterr().out
