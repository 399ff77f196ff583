"""docs/glossary.md: each word stands there once, in order, and is in the file that it names."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SECTIONS = [[line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ") and "| where" not in line]
            for section in (ROOT / "docs" / "glossary.md").read_text().split("\n## ")[1:]]
ROWS = [row for section in SECTIONS for row in section]


def test_each_word_stands_there_once_and_in_order():
    words = [[row[0] for row in section] for section in SECTIONS]
    assert len(ROWS) > 50 and all(len(row) == 3 for row in ROWS) and all(section == sorted(section) for section in words)
    assert len({row[0] for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("word, place", [(word, place) for word, _, place in ROWS])
def test_it_is_in_the_code_where_the_glossary_says(word, place):
    path, name = re.fullmatch(r"`(\S+\.py): (\w+)`", place).groups()
    assert re.search(rf"\b{name}\b", (ROOT / "fbnn_hw" / path).read_text())
