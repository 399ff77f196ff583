"""A generated folder as the facts of its page, with those of its builds, and as the page itself."""

import os

from ..base import files
from ..base.errors import InputError, show
from ..targets.boards import boards

LARGEST = 1 << 26
"""Bytes of a file that is read; the largest one written, a placement of a large part, has some 10 MB."""


def page(made):
    """(the HTML page as bytes, its figures as plain values, titles of the boards with a build) of a `Design`.  Raises InputError."""
    from jinja2 import UndefinedError

    from ..report import design, page

    try:
        facts = read(made)
        return page.render(facts).encode(), design.summary(facts), [build["title"] for build in facts["builds"]]
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, AssertionError, RecursionError, UndefinedError) as error:
        reason = show(str(error))[1:-1]
        raise InputError(f"{made.folder}: its JSON files do not belong together ({type(error).__name__}: {reason}); "
                         "generate the folder again") from None


def read(made):
    """`facts` of report.design.  Raises InputError where a file is missing or damaged, others where its content makes no sense."""
    return {
        "folder": os.fsencode(made.folder.resolve().name).decode("utf-8", "replace"),
        "config": made.config, "estimate": made.estimate, "layout": made.layout, "manifest": made.manifest,
        "datasheet": made.target.datasheet, "blocks": made.target.blocks_of(made.config) or None, "blocks_available": made.target.blocks,
        "builds": [_build(path.parent) for path in sorted(made.folder.glob("build-*/build.json"))],
        "diagram": _text(made.folder / "diagram.svg", "generate")}


def _build(folder):
    """One of `facts["builds"]`."""
    record, placement = _json(folder / "build.json"), folder / "placement.json"
    name, bitstream, weights = (record.get(key) for key in ("board", "bitstream", "weights"))
    board = boards().get(name)
    flash = []
    if board and weights and bitstream and (folder / bitstream).exists() and (folder / weights).exists():
        flash = [("bitstream", board.program.get("start", 0), (folder / bitstream).stat().st_size),
                 ("weights", board.flash["offset"], (folder / weights).stat().st_size)]
    return {"board": name, "title": board.title if board else str(name), "record": record, "flash": flash,
            "placement": _json(placement) if placement.exists() else None}


def _text(path, verb):
    try:
        return files.read(path, LARGEST, "").decode()
    except (InputError, UnicodeDecodeError):
        raise InputError(f"{path}: not found or not text, expected what `fbnn-hw {verb}` wrote") from None


def _json(path):
    """The object in a JSON file of a build."""
    if (values := files.json_values(_text(path, "build"))) is None:
        raise InputError(f"{path}: holds no JSON object; build the folder again")
    return values
