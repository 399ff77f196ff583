"""docs/glossary.md: each word stands there once, in order, and is in the file that it names; words that are not used are not."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
SECTIONS = [[line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ") and "| where" not in line]
            for section in PAGE.split("\n## Words that are not used")[0].split("\n## ")[1:]]
ROWS = [row for section in SECTIONS for row in section]


def test_each_word_stands_there_once_and_in_order():
    words = [[row[0] for row in section] for section in SECTIONS]
    assert len(ROWS) > 50 and all(len(row) == 3 for row in ROWS) and all(section == sorted(section) for section in words)
    assert len({row[0] for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("word, place", [(word, place) for word, _, place in ROWS])
def test_it_is_in_the_code_where_the_glossary_says(word, place):
    path, name = re.fullmatch(r"`(\S+\.py): (\w+)`", place).groups()
    assert re.search(rf"\b{name}\b", (ROOT / "fbnn_hw" / path).read_text())


def texts():
    """(place, text) of the prose: pages without code, docstrings and names of constants' docstrings."""
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        page = path.read_text(encoding="utf-8").split("## Words that are not used")[0]
        page = re.sub(r"```.*?```|`[^`]*`|^ {4}.*$|\]\([^)]*\)|https?://\S+", "", page, flags=re.DOTALL | re.MULTILINE)
        yield path.relative_to(ROOT), page
    for path in sorted((ROOT / "fbnn_hw").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", re.sub(r"`[^`]*`", "", node.value.value)


def test_words_that_are_not_used():
    rows = re.findall(r"^\| (.+) \| .+ \|$", PAGE.split("## Words that are not used")[1], re.MULTILINE)
    words = [word for row in rows if row != "not" for word in row.split(", ")]
    assert len(words) > 8
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, words))})s?\b", re.IGNORECASE)
    assert not [f"{place}: {word[0]}" for place, text in texts() for word in pattern.finditer(text)]


def test_a_figure_of_frames_is_called_as_the_glossary_says():
    """In the tables of README.md and of benchmarks.md, each row says how its figure was obtained."""
    kinds = "|".join(row[0] for row in SECTIONS[-1]) + "|synthesised|trained|torch and reference"
    for page, heading in (("README.md", "| network | board, price in $ |"), ("docs/benchmarks.md", "| CIFAR-10 network, target |")):
        table = (ROOT / page).read_text(encoding="utf-8").split(heading)[1].split("\n\n")[0]
        rows = [line for line in table.splitlines()[2:] if line.startswith("|")]
        assert rows and not [row for row in rows if not re.search(kinds, row) and not re.search("the same|from these", row)]


WITHOUT = {  # settings, limits and figures of datasheets
    "How it works", "Architectures", "Sleep between frames", "Faults", "Flash image", "Speed"}


def test_a_section_with_figures_of_hardware_says_what_they_are():
    """Estimated, simulated, placed and routed, measured, or of another's publication."""
    kinds = re.compile("|".join(row[0] for row in SECTIONS[-1]) + "|routed|published")
    figure = re.compile(r"\d ?(LUT4|LUTs|FF|MHz|frames/s|images/s|logic cells|cycles|mJ|mW)\b")
    lacking = []
    for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs/results").glob("*.md")):
        if path.name in ("changelog.md", "glossary.md", "json.md"):
            continue
        page = re.sub(r"```.*?```|^ {4}.*?$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for section in page.split("\n## "):
            heading = section.splitlines()[0]
            if figure.search(section) and not kinds.search(section) and heading not in WITHOUT:
                lacking.append(f"{path.name}: {heading}")
    assert not lacking
