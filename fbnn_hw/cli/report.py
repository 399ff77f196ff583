"""`fbnn-hw report`: a generated design as one HTML page."""

from pathlib import Path

from ..base import files
from . import _common
from ._common import Args, Output, Parser

GROUP = "check"
SUMMARY = "write one HTML page about a generated design: layers, roofline, memory, and what its builds gave"
EXAMPLES = (
    ("fbnn-hw report", "report.html in the youngest design's folder in rtl_out, to be opened in a browser"),
    ("fbnn-hw report --out design.html --json", "a page elsewhere, and its figures as JSON"),
)


def arguments(parser: Parser) -> None:
    _common.add_design(parser, "what `fbnn-hw generate` wrote; builds for boards in it are reported too")
    parser.add_argument("--out", metavar="FILE", help="the page (default: DIR/report.html)")


def run(args: Args, out: Output) -> None:
    from ..design import facts

    design = _common.design(args, out)
    file = Path(args.out) if args.out else design.folder / "report.html"
    _common.writable(file, *_common.generated(design.folder))
    page, summary, boards = facts.page(design)
    files.write(file, page)
    out.kept = f"{file} is written"
    out.text(f"{file}  {len(page):,} bytes; builds: {', '.join(boards) or 'none'}")
    out.result({"file": file, **summary})
