"""`fbnn-hw selftest`: whether a board does what its design says, as one JSON and one page."""

import json
import os
import platform
import shlex
from pathlib import Path

from .. import __version__
from ..base import files
from ..base.errors import MismatchError, UsageError
from ..board import selftest
from . import _board, _common
from ._common import Args, Output, Parser

GROUP = "board"
SUMMARY = "test a board against the reference: logits, cycles, link, a lesson, its snapshot"
EXAMPLES = (
    ("fbnn-hw selftest --port auto --power 21.5",
     "the board that is plugged in, with the milliwatts that you measured; writes selftest.json and selftest.html"),
    ("fbnn-hw selftest --board virtual --images 20", "the simulated board of the youngest design in rtl_out"),
)


def arguments(parser: Parser) -> None:
    parser.add_argument("--images", type=_common.count, default=selftest.IMAGES, metavar="N",
                        help=f"test images to classify (default: {selftest.IMAGES}, all that are shipped)")
    parser.add_argument("--power", type=float, metavar="MW", help="what the board drew while it classified, as you measured it; recorded")
    parser.add_argument("--out", default="selftest", metavar="NAME", help="writes NAME.json and NAME.html (default: selftest)")
    _board.arguments(parser, "the board")


def _outputs(name, design):
    """(NAME.json, NAME.html) of --out; raises UsageError where they cannot be written."""
    if not Path(name).name or name.endswith(("/", os.sep)):
        raise UsageError(f"--out {name}: expected the beginning of two file names, such as {Path(name) / 'selftest'}")
    paths, stay = [Path(f"{name}{suffix}") for suffix in (".json", ".html")], list(_common.generated(design.folder)) if design else []
    for path in paths:
        _common.writable(path, *stay)
    return paths


def run(args: Args, out: Output) -> None:
    if not (args.port or args.board):
        raise UsageError("missing --port or --board; see fbnn-hw selftest --help")
    if args.power is not None and not 0 < args.power < 1e6:
        raise UsageError(f"--power {args.power}: expected milliwatts above 0")
    from ..report import page

    _board.check(args)
    if args.board == "interpreted":
        raise UsageError(f"--board interpreted: {selftest.NO_GATES}")
    design = _board.design(args)

    def kept(path):
        out.kept = f"what the board was taught is in {path}; fbnn-hw learn --restore {shlex.quote(str(path))} gives it back"

    json_file, page_file = _outputs(args.out, design)
    with _board.opened(args, out, design, learns=True) as board:
        tested = board.held_design()
        _outputs(args.out, tested)  # also where no --design said which it is
        report = {
            "board": "virtual" if board.simulated else board.client.name, "simulated": board.simulated, "design": tested.folder.name,
            "target": tested.estimate["target"], "part": tested.estimate["part"], "config_id": board.identity.config.hex(),
            "model_mark": board.identity.model.hex(), "fbnn_hw": __version__, "python": platform.python_version(),
            "system": platform.platform(terse=True), "images": args.images, "measured_mw": args.power,
            "checks": selftest.checks(board, tested, args.images, out.progress, kept)}
    report["passed"] = all(check["passed"] for check in report["checks"])
    files.write(json_file, (json.dumps(report, indent=1) + "\n").encode())
    files.write(page_file, page.selftest(report).encode())
    out.kept = f"{json_file} and {page_file} are written"
    for check in report["checks"]:
        out.text(f"{'passed' if check['passed'] else 'FAILED'}  {check['check']}: {check['found']}; expected {check['expected']}")
    out.text(f"written: {json_file}, {page_file}")
    answer = report | {"report": str(json_file), "page": str(page_file)}
    if not report["passed"]:
        failed = ", ".join(check["check"] for check in report["checks"] if not check["passed"])
        raise MismatchError(f"{report['board']}: failed {failed}; {page_file} says what was found", answer)
    out.result(answer)
