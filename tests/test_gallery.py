"""docs/gallery.md, which a program makes."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "benchmarks"))

import gallery  # noqa: E402


@pytest.mark.parametrize("name", gallery.SHOWN)
def test_a_design_is_shown(name):
    """Its picture has the cycles of the page's table."""
    row, = re.findall(rf"^\| \[{re.escape(name)}\]\([^|]*\| [^|]*\| ([\d,]+) \|", gallery.PAGE.read_text(encoding="utf-8"), re.M)
    assert f"{row} cycles a frame" in (gallery.PICTURES / f"{name}.svg").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_page_is_up_to_date(monkeypatch):
    monkeypatch.setattr("sys.argv", ["gallery.py", "--check"])
    assert gallery.main() == 0
