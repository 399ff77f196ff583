"""`fbnn-hw report`: a generated design as one HTML page."""

import json
from pathlib import Path

from .. import files
from ..errors import InputError
from . import common

SUMMARY = "write one HTML page about a generated design: layers, roofline, memory, and what its builds gave"
EXAMPLES = (
    ("fbnn-hw report", "report.html in the youngest design's folder in rtl_out, to be opened in a browser"),
    ("fbnn-hw report --out design.html --json", "a page elsewhere, and its figures as JSON"),
)


def arguments(parser):
    common.add_design(parser, "what `fbnn-hw generate` wrote; builds for boards in it are reported too")
    parser.add_argument("--out", metavar="FILE", help="the page (default: DIR/report.html)")


def run(args, out):
    from ..report import design

    folder = common.design(args, out)
    facts = read(folder)
    try:
        text, found = design.page(facts), design.summary(facts)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ZeroDivisionError) as error:
        raise InputError(f"{folder}: its JSON files do not belong together ({type(error).__name__}: {error}); "
                         "generate the folder again") from None
    file = Path(args.out) if args.out else folder / "report.html"
    files.write(file, text.encode())
    boards = ", ".join(build["title"] for build in facts["builds"]) or "none"
    out.text(f"{file}  {len(text.encode()):,} bytes; builds: {boards}")
    out.result({"file": file, **found})


def read(folder):
    """`facts` of report.design.  Raises InputError if something is missing or damaged."""
    from ..compile.config import AcceleratorConfig
    from ..targets import TARGETS

    config, known, layout, manifest = (_json(folder / f"{name}.json", "generate")
                                       for name in ("config", "estimate", "layout", "manifest"))
    try:
        part = TARGETS[known["target"]]
        made = AcceleratorConfig.from_json(json.dumps(config))
        words = {"program_words": len(made.program_words()), "transfer_words": len(made.transfer_words())}
        blocks = part.blocks_of(made)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{folder}: not what this version generates ({type(error).__name__}: {error}); "
                         "generate the folder again") from None
    return {
        "folder": folder.resolve().name, "config": made.to_dict(), "estimate": known, "layout": layout, "manifest": manifest,
        "datasheet": part.datasheet, **words, "blocks": blocks or None, "blocks_available": part.blocks,
        "builds": [_build(path.parent) for path in sorted(folder.glob("build-*/build.json"))],
        "diagram": _text(folder / "diagram.svg", "generate")}


def _build(where):
    from ..targets.boards import boards

    record = _json(where / "build.json", "build")
    board = boards().get(record.get("board"))
    title, flash = (board.title, []) if board else (str(record.get("board")), [])
    made, weights = record.get("bitstream"), record.get("weights")
    if board and weights and all((where / name).exists() for name in (made, weights)):
        flash = [(name, start, (where / file).stat().st_size) for name, start, file in (
            ("bitstream", board.program.get("start", 0), made), ("weights", board.flash["offset"], weights))]
    placement = where / "placement.json"
    return {"board": record.get("board"), "title": title, "record": record, "flash": flash,
            "placement": _json(placement, "build") if placement.exists() else None}


def _text(path, verb):
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        raise InputError(f"{path}: not found or not text, expected what `fbnn-hw {verb}` wrote") from None


def _json(path, verb):
    try:
        found = json.loads(_text(path, verb))
    except ValueError as error:
        raise InputError(f"{path}: not JSON ({error}); {verb} the folder again") from None
    if not isinstance(found, dict):
        raise InputError(f"{path}: holds no object; {verb} the folder again")
    return found
