"""The pages that `fbnn-hw help` prints: docs/*.md."""

from pathlib import Path

FOLDER = next((path for up in (1, 2) if (path := Path(__file__).parents[up] / "docs").is_dir()), Path("docs"))
"""fbnn_hw/docs in an installed package, docs/ at the top of a checkout."""


def pages(verbs: list[str]) -> dict[str, Path]:
    """{name: path}, sorted: a page is called what its file is, without .md where no verb has that name."""
    paths = sorted(path for path in FOLDER.glob("*.md") if path.stem != "README")
    return {path.name if path.stem in verbs else path.stem: path for path in paths}


def title(path: Path) -> str:
    """The first heading of a page."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return next((line.removeprefix("# ") for line in lines if line.startswith("# ")), "")
