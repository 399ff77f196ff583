"""A generated folder as the facts of its page, read from its JSON files and those of its builds, and as the page itself."""

import json
from contextlib import contextmanager

from .base import files
from .base.errors import InputError, show
from .design import Design
from .targets import TARGETS
from .targets.boards import boards

LARGEST = 1 << 26
"""Bytes of a file that is read; the largest one written, a placement of a large part, has some 10 MB."""


def page(folder):
    """(the HTML page as bytes, its figures as plain values, titles of the boards with a build) of a folder.  Raises InputError."""
    from .report import design, page

    with _sound(folder):
        facts = read(folder)
        return page.render(facts).encode(), design.summary(facts), [build["title"] for build in facts["builds"]]


@contextmanager
def _sound(folder):
    """Turn what JSON files of wrong content raise while a page is made of them into an InputError."""
    from jinja2 import UndefinedError

    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, AssertionError, RecursionError, UndefinedError) as error:
        reason = show(str(error))[1:-1]
        raise InputError(f"{folder}: its JSON files do not belong together ({type(error).__name__}: {reason}); "
                         "generate the folder again") from None


def read(folder):
    """`facts` of report.design.  Raises InputError where a file is missing or damaged, others where its content makes no sense."""
    config, estimate, layout, manifest = _opened(folder)
    target = TARGETS[estimate["target"]]
    return {
        "folder": folder.resolve().name, "config": config, "estimate": estimate, "layout": layout, "manifest": manifest,
        "datasheet": target.datasheet, "blocks": target.blocks_of(config) or None, "blocks_available": target.blocks,
        "builds": [_build(path.parent) for path in sorted(folder.glob("build-*/build.json"))],
        "diagram": _text(folder / "diagram.svg", "generate")}


def _opened(folder):
    """(AcceleratorConfig, estimate.json, layout.json, manifest.json) of a generated folder."""
    design = Design(folder)
    json.dumps([design.manifest, design.estimate, design.layout], ensure_ascii=False).encode()  # half a character is no text
    return design.config, design.estimate, design.layout, design.manifest


def _build(folder):
    """One of `facts["builds"]`."""
    record = _json(folder / "build.json", "build")
    name, bitstream, weights = (record.get(key) for key in ("board", "bitstream", "weights"))
    for key in ("board", "bitstream", "weights"):
        if not isinstance(record.get(key), str | None):
            raise InputError(f"{folder / 'build.json'}: {key} is {show(record[key])}, expected text; build the folder again")
    board = boards().get(name)
    flash = []
    if board and weights and bitstream and (folder / bitstream).exists() and (folder / weights).exists():
        flash = [("bitstream", board.program.get("start", 0), (folder / bitstream).stat().st_size),
                 ("weights", board.flash["offset"], (folder / weights).stat().st_size)]
    placement = folder / "placement.json"
    return {"board": name, "title": board.title if board else str(name), "record": record, "flash": flash,
            "placement": _json(placement, "build") if placement.exists() else None}


def _text(path, verb):
    try:
        return files.read(path, LARGEST, "").decode()
    except (InputError, UnicodeDecodeError):
        raise InputError(f"{path}: not found or not text, expected what `fbnn-hw {verb}` wrote") from None


def _json(path, verb):
    """The object in a JSON file, all of its texts printable by any encoding."""
    try:
        values = json.loads(_text(path, verb), parse_constant=_refused)
        json.dumps(values, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({str(error)[:80]}); {verb} the folder again") from None
    if not isinstance(values, dict):
        raise InputError(f"{path}: holds no object; {verb} the folder again")
    return values


def _refused(constant):
    raise ValueError(f"{constant} is no number")
