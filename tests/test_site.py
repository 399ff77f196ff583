"""The site of the documentation is made without a warning, and has the pages of the repository."""

import sys

import pytest

from tests.test_readme import ROOT

sys.path.insert(0, str(ROOT / "docs" / "benchmarks"))
import site_pages  # noqa: E402


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    site_pages.write(folder)
    return folder


def test_each_page_is_there(made):
    for page in ("README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))):
        name = page.replace("README.md", "index.md").replace(".md", ".html")
        assert "<h1" in (made / name).read_text(encoding="utf-8"), page


def test_a_link_opens_the_page_that_teaches(made):
    assert (made / "docs/teach.html").read_bytes() == (ROOT / "docs/teach.html").read_bytes()
    assert "docs/teach.html" in (made / "index.html").read_text(encoding="utf-8")


def test_a_link_that_leads_nowhere_is_refused(tmp_path, monkeypatch, caplog):
    from mkdocs.exceptions import Abort

    for path in ("README.md", "docs/README.md", "docs/ir.md"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("# A page\n\n[nowhere](docs/nowhere.md)\n" if path == "README.md" else "# A page\n")
    monkeypatch.setattr(site_pages, "ROOT", tmp_path)
    with pytest.raises(Abort):
        site_pages.write(tmp_path / "made")
    assert "docs/nowhere.md" in caplog.text
