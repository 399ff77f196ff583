"""docs/contributing.md and docs/changelog.md: the examples run, the files named exist, the version stands in one place."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import fbnn_hw
from fbnn_hw import cli as command
from fbnn_hw.design import plan
from fbnn_hw.targets import TARGETS
from tests import strategies

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
TARGET, VERB = (part.split("```")[0] for part in PAGE.split("```python\n")[1:])


def test_the_target_plans_a_design(monkeypatch):
    monkeypatch.setattr("fbnn_hw.targets.TARGETS", dict(TARGETS))
    exec(TARGET, {})
    from fbnn_hw import targets

    design = plan(strategies.smallest(), targets.TARGETS["ecp5-12f"]).config
    assert targets.TARGETS["ecp5-12f"].blocks_of(design).keys() and "ecp5-12f" not in TARGETS


def test_the_verb_runs(monkeypatch, cli):
    verb = ModuleType("fbnn_hw.cli.count")
    verb.__package__ = "fbnn_hw.cli"
    exec(VERB, verb.__dict__)
    monkeypatch.setitem(sys.modules, "fbnn_hw.cli.count", verb)
    names = [*command.verbs(), "count"]
    monkeypatch.setattr(command, "verbs", lambda: names)
    assert cli("count", "3mb.pt")[:2] == (0, "3mb.pt: 2,759,168 bits\n")
    assert cli("count", "--help")[0] == 0 and cli("count", "none.pt")[0] == 3


@pytest.mark.parametrize("page", ["contributing.md", "own-board.md", "strategies.md", "architecture.md", "rtl.md", "lab.md"])
def test_the_files_named_are_there(page):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    names = set(re.findall(r"`((?:fbnn_hw|tests|sim|docs|boards)/[\w./-]+\.\w+)", text))
    assert not [name for name in names if not (ROOT / name).exists() and name != "docs/json/count.schema.json"]


def test_the_version_stands_in_one_place_and_heads_the_changelog():
    versions = re.findall(r"^## (\d+\.\d+\.\d+)$", (ROOT / "docs" / "changelog.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert versions[0] == fbnn_hw.__version__ and versions == sorted(versions, key=lambda v: [*map(int, v.split("."))], reverse=True)
    for file in ("pyproject.toml", "CITATION.cff"):
        assert not re.search(r"^version *[:=] *[\"\d]", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)


def test_every_module_has_a_page_of_the_api_and_a_docstring(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs" / "benchmarks")
    import api_pages

    names = api_pages.modules()
    assert {"fbnn_hw", "fbnn_hw.board", "fbnn_hw.design", "fbnn_hw.nn.layers", "fbnn_hw.rtl.popcount"} <= set(names)
    assert not [name for name in names if "._" in name or name.startswith("fbnn_hw.cli")]
    for name in names:
        path = ROOT.joinpath(*name.split("."))
        source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        assert re.match(r'"""\S|$', source.read_text(encoding="utf-8")), f"{name}: has no docstring"
