"""`docs/benchmarks/vectors.py`: a lesson of a design that learns, in Icarus."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fbnn_hw import design
from tests import strategies

VECTORS = Path(__file__).parents[2] / "docs/benchmarks/vectors.py"
LEARN = {"max_classes": 4, "pixels": 4, "lanes": 16, "outputs": 4}


@pytest.mark.skipif(not shutil.which("iverilog"), reason="no iverilog (Debian: apt install iverilog)")
@pytest.mark.parametrize("target, options", [
    ("generic", {"learn": True, "exemplars": 3, "weights": "ram"}),
    pytest.param("generic", {"learn": "nearest-mean"}, marks=pytest.mark.slow),
    pytest.param("ice40", {"learn": True, "exemplars": 3}, marks=pytest.mark.slow)], ids=["ram", "nearest-mean", "ice40"])
def test_a_lesson_in_icarus(target, options, tmp_path):
    """Pictures of two classes, one of which the design ships where it ships any; a wrong logit is an error."""
    made = design.generate(strategies.smallest_learner(), target, out=tmp_path / "out", **LEARN, **options)
    drawn = np.random.default_rng(1).integers(0, 256, (4, 8, 8, 3), np.uint8)
    names = (*made.classes[-1:], "one", "other")
    for number, picture in enumerate(drawn):
        folder = tmp_path / "pictures" / names[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(folder / f"{number}.png")
    subprocess.run([sys.executable, VECTORS, made.folder, tmp_path / "pictures", "--images", "4", "--out", tmp_path / "mine"], check=True)
    lesson = tmp_path / "mine/lesson"
    sources = sorted(path.name for path in lesson.glob("*.v"))
    subprocess.run(["iverilog", "-g2012", "-s", "lesson", "-o", "lesson.vvp", *sources], cwd=lesson, check=True)

    def run():
        return subprocess.run(["vvp", "-N", "lesson.vvp"], cwd=lesson, capture_output=True, text=True)
    done = run()
    count = 4 * (max(len(made.classes), 1) + 1)
    assert done.returncode == 0 and f"all {count} logits after the lesson are the reference's" in done.stdout, done.stdout
    lines = (lesson / "learned.hex").read_text().splitlines()
    (lesson / "learned.hex").write_text("\n".join([f"{int(lines[0], 16) ^ 1:08x}", *lines[1:]]) + "\n")
    done = run()
    assert done.returncode != 0 and "logit 0: found" in done.stdout, done.stdout
