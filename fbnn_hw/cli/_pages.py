"""The pages that `fbnn-hw help` prints: docs/*.md."""

from pathlib import Path

from ..base.files import bundled

FOLDER = bundled("docs")


def pages(verbs: list[str]) -> dict[str, Path]:
    """{name: path}, sorted: a page is called what its file is, without .md where no verb has that name."""
    paths = sorted(path for path in FOLDER.glob("*.md") if path.stem != "README")
    return {path.name if path.stem in verbs else path.stem: path for path in paths}


def title(path: Path) -> str:
    """The first heading of a page."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return next((line.removeprefix("# ") for line in lines if line.startswith("# ")), "")
