"""docs/first-board.md: its legend is that of `generate --explain`, its commands are legal, its images are there."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from fbnn_hw.cli import parser
from fbnn_hw.cli._legend import LEGEND
from fbnn_hw.machine.cycles import BOUNDS

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "benchmarks"))

import ready as program  # noqa: E402  docs/benchmarks/ready.py

PAGE = (ROOT / "docs" / "first-board.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    fbnn-hw (.*?)(?:  #.*)?$", PAGE, re.MULTILINE)


def test_the_legend_is_on_the_page():
    rows = "\n".join(f"| {word.strip()} | {meaning} |" for word, meaning in LEGEND.items())
    assert f"<!-- legend -->\n| word | meaning |\n|---|---|\n{rows}\n<!-- end -->" in PAGE


def test_the_legend_has_every_column_and_line(cli, tmp_path):
    """Each word that begins a line, and each heading of the table, of a design that learns."""
    printed = cli("generate", "--model", "tiny.pt", "--target", "ice40", "--learn", "--explain", "--out", tmp_path)[1]
    head = next(line for line in printed.splitlines() if line.startswith("layer "))
    for word in re.split(r"  +", head)[1:]:
        assert word in LEGEND, word
    lines = printed.split("\n\n")
    for begin in ("engine", "cycles", "speed", "memory", "learns", "LUT4"):
        assert begin in LEGEND and any(re.search(rf"^{begin} ", part, re.MULTILINE) for part in lines)
    assert {f"  {name}" for name in BOUNDS} <= LEGEND.keys()
    assert all(re.search(rf"^{re.escape(word)}  +{re.escape(meaning)}$", printed, re.MULTILINE) for word, meaning in LEGEND.items())


def test_the_legend_comes_when_asked_for(cli, tmp_path):
    assert LEGEND["waits"] not in cli("generate", "--model", "tiny.pt", "--target", "ice40", "--out", tmp_path)[1]


@pytest.mark.parametrize("line", COMMANDS)
def test_the_commands_of_the_page(line):
    verb, *words = shlex.split(line)
    args = parser(verb).parse_args(words)
    if verb == "flash":
        assert args.board in program.BOARDS[args.model]


def test_the_table_of_images():
    rows = dict(re.findall(r"^\| `(\w+)` \| .*\| (yes|no) \| [^|]+ \|$", PAGE, re.MULTILINE))
    assert rows == {name: "yes" if "--learn" in flags.split() else "no" for name, flags in program.DESIGNS.items()}
