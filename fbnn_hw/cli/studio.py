"""`fbnn-hw studio`: the page on which anyone teaches a board, as one file or served to this machine."""

import os
import sys
import tempfile
import threading
import webbrowser
from contextlib import contextmanager, nullcontext
from pathlib import Path

from ..base import extras, files
from ..base.errors import InputError, UsageError
from . import _board, _common
from ._common import Args, Output, Parser

GROUP = "learn"
SUMMARY = "teach a board, or its gates in a browser, on a page: as one HTML file, or served on this machine"
EXAMPLES = (
    ("fbnn-hw studio --page teach.html", "one file with the gates of the youngest design that learns; it needs no Python and no network"),
    ("fbnn-hw studio --board virtual", "the page on this machine, before the virtual board, or for a camera the simulated "
     "device; before a real board: --port auto"),
)
HTTP = 8765
VIRTUAL_PATIENCE = 150
"""Times the usual waits that a page grants the virtual board."""


def arguments(parser: Parser) -> None:
    parser.add_argument("folder", nargs="?", metavar="DIR",
                        help="what `fbnn-hw generate --learn` wrote (default: the youngest folder in rtl_out that "
                        "learns; with --port, the one that the board holds)")
    parser.add_argument("--page", metavar="FILE", help="write the page, gates included, into one file")
    board = parser.add_argument_group("the board behind a served page")
    board.add_argument("--port", metavar="DEVICE", help="serial port of a board, such as /dev/ttyUSB1; auto: the one that is plugged in")
    board.add_argument("--baud", type=_common.count, metavar="N", help="its speed (default: the one at which it answers)")
    board.add_argument("--board", choices=_board.SIMULATED, help=_board.SIMULATED_HELP)
    board.add_argument("--http", type=_common.count, default=HTTP, metavar="N",
                       help="port of this machine to serve the page at (default: %(default)s)")
    board.add_argument("--no-browser", action="store_true", help="do not open the page; a browser opens where output goes to a terminal")


def run(args: Args, out: Output) -> None:
    from ..design import Design, newest
    from ..studio import page

    if sum(value is not None for value in (args.page, args.port, args.board)) != 1:
        raise UsageError("expected one of --page, --port and --board; see fbnn-hw studio --help")
    if args.baud and not args.port:
        raise UsageError("--baud: has no meaning without --port")
    if args.no_browser and args.page is not None:
        raise UsageError("--no-browser: has no meaning with --page, which opens nothing")
    if not args.http < 1 << 16:
        raise UsageError(f"--http {args.http}: expected a port below 65536")
    if args.port and not args.folder:
        design = _held(args, out)
    else:
        design = Design(args.folder or newest(learns=True))
    if design.config.camera:
        return _serve_device(args, design, out)
    page.check(design)
    if args.page is not None:
        _write(Path(args.page), design, out)
    else:
        _serve(args, design, out)


def _held(args, out):
    """The design that the board at --port names, of rtl_out or of a ready image."""
    with _board.opened(args, out, None) as board:
        if board.design is None:
            raise InputError(f"{board.client.name}: holds configuration {board.identity.config.hex()}, which no folder of rtl_out and no "
                             "ready image has; name the folder that was flashed")
        return board.design


def _write(path, design, out):
    from ..simulate import wasm
    from ..studio import page

    _common.writable(path, *_common.generated(design.folder))
    gates = wasm.build(design, note=out.note)
    text = page.write(design, gates).encode()
    files.write(path, text)
    out.kept = f"{path} is written"
    out.text(f"{path}  {len(text):,} bytes, of which {len(gates.module):,} bytes of gates before compression; open it in a browser")
    out.result({"design": design.folder, "file": path, "bytes": len(text), "gates_bytes": len(gates.module)})


def _serve_device(args, design, out):
    """Serve the page of the simulated device of a design with a camera."""
    from ..simulate.device.device import SimulatedDevice
    from ..simulate.device.watched import Watched, facts
    from ..studio import page

    if args.board != "virtual":
        raise UsageError(f"{design.folder}: has a camera in place of the link, expected --board virtual, which simulates the device")
    _server()  # before a minute of compiling
    with SimulatedDevice(design, note=out.note) as device:
        text = page.write_device(design, facts(design, device))
        _until_interrupted(args, design, out, text, Watched(design, device).opened, "the simulated device")


def _serve(args, design, out):
    from ..studio import page

    _server()
    with _line(args, design, out) as (opened, name, patience):
        _until_interrupted(args, design, out, page.write(design, server={"name": name, "patience": patience}), opened, name)


def _server():
    """The module `studio.server`, whose packages may be missing."""
    try:
        from ..studio import server
    except ModuleNotFoundError as error:
        raise extras.absent(error.name or "", "studio", "a served page") from None
    return server


def _until_interrupted(args, design, out, text, opened, name):
    """Serve a page, whose line `opened` opens, and open it in a browser where a person is there."""
    studio = _server().Studio(text, opened, args.http)
    out.text(f"{name}: open {studio.address}", "Ctrl-C ends it")
    out.result({"design": design.folder, "address": studio.address, "port": name})
    sys.stdout.flush()
    with tempfile.TemporaryDirectory(prefix="fbnn-hw-") as folder:
        # Everyone on the machine can read the browser's command line, but not the folder: a file in it leads to the address with its token.
        file = Path(folder) / "studio.html"
        file.write_text(f'<meta http-equiv="refresh" content="0; url={studio.address}">\n')
        screen = sys.platform in ("win32", "darwin") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
        seen = screen and sys.stdout.isatty() and not args.no_browser  # a person sits before this machine
        browser = threading.Thread(target=webbrowser.open, args=(file.as_uri(),), daemon=True)
        studio.run(browser.start if seen else lambda: None)


@contextmanager
def _line(args, design, out):
    """(what opens a line to the board, its name, its patience)."""
    from ..board import Board
    from ..design import link_speeds
    from ..link import speed
    from ..link.transport import Serial

    if args.board == "interpreted":
        from ..board.interpreted import NOTE, InterpretedBoard
        from ..simulate.virtual import alone

        with alone(design.folder), InterpretedBoard(design) as board:
            Board.started(board, design)
            out.note(NOTE)
            yield lambda: nullcontext(board), "the interpreted board", 1
    elif args.board:
        from ..simulate.virtual import VirtualBoard, alone

        with alone(design.folder), VirtualBoard(design.folder, note=out.note) as board:
            with Serial(board.port) as line:
                Board.started(line, design)
            yield lambda: Serial(board.port), "the virtual board", VIRTUAL_PATIENCE
    else:
        path = _board.port(args)
        baud = args.baud or speed.answered(path, link_speeds(design))
        with Serial(path, baud):  # says at once where it cannot be opened
            pass
        yield lambda: Serial(path, baud), f"the board at {path}", 1
