"""Makes the site of the documentation, by MkDocs with the theme Material; docs/README.md gives the order of the pages.

    pip install '.[docs]'
    python docs/benchmarks/site_pages.py FOLDER      a site of plain files; FOLDER/docs/teach.html is the page that teaches, unchanged
"""

import argparse
import logging
import re
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "sim/README.md", "boards/README.md", "rtl_out/README.md", "docs/*.md", "docs/results/*.md", "docs/pictures/README.md")
FILES = ("LICENSE", "CITATION.cff", "rtl_out/example/diagram.svg", "docs/*.html", "docs/*.ipynb", "docs/img/**/*.*",
         "docs/pictures/**/*.jpg", "docs/json/*.json", "docs/benchmarks/*.py", "docs/examples/*.py", "docs/results/figures/*")
"""What the pages show or link to; the files of runs and records stay in the repository."""


def order():
    """The navigation: {heading of docs/README.md: the pages of its table}, and the README before them."""
    pages = [{"fbnn-hw": "README.md"}, {"All pages": "docs/README.md"}]
    for section in re.split(r"^## ", (ROOT / "docs/README.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        rows = re.findall(r"^\| (\[.*?) \|", section, flags=re.MULTILINE)
        links = [link for row in rows for link in re.findall(r"\]\(([^)]*\.md)\)", row)]
        if links:
            pages.append({section.splitlines()[0]: [(ROOT / "docs" / link).resolve().relative_to(ROOT).as_posix() for link in links]})
    return pages


def write(folder):
    """The site below `folder`.  Raises where a link of a page leads nowhere, or a page is not in the navigation."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    with tempfile.TemporaryDirectory() as work:
        source = Path(work, "docs")
        for path in sorted({path for pattern in (*PAGES, *FILES) for path in ROOT.glob(pattern)}):
            copy = source / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        settings = Path(work, "mkdocs.yml")
        settings.write_text("site_name: fbnn-hw\n")
        build(load_config(
            str(settings), docs_dir=str(source), site_dir=str(Path(folder).resolve()), nav=order(), strict=True, use_directory_urls=False,
            not_in_nav="docs/pictures/README.md",
            theme={"name": "material", "font": False, "features": ["navigation.sections", "toc.follow"]},
            plugins=["search"], markdown_extensions=["tables", "fenced_code", "attr_list", "md_in_html", {"toc": {"permalink": True}}],
            validation={"omitted_files": "warn", "anchors": "warn", "not_found": "warn", "unrecognized_links": "ignore"}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER", help="where the site is written")
    logging.basicConfig(level=logging.WARNING, format="%(message)s")  # what is wrong with a link
    write(parser.parse_args().folder)


if __name__ == "__main__":
    sys.exit(main())
