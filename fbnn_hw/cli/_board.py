"""Code that `classify` and `learn` share: the flags that name a board, and the board that they open."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.errors import UsageError
from . import _common
from ._common import Args, Output, Parser

if TYPE_CHECKING:
    from ..board import Board
    from ..design import Design

SIMULATED = "virtual", "interpreted"
SIMULATED_HELP = ("virtual: a simulation of the whole board, compiled once for its design; interpreted: the same answers without a "
                  "compiler, and nothing of the gates")


def arguments(parser: Parser, title: str, learns: bool = False) -> None:
    """The flags that name a board.  learns: it is one that learns."""
    board = parser.add_argument_group(title)
    board.add_argument("--port", metavar="DEVICE", help="serial port of a board, such as /dev/ttyUSB1, COM4 or "
                       "socket://HOST:PORT; auto: that of the one board that is plugged in")
    board.add_argument("--baud", type=_common.count, metavar="N", help="its speed (default: the one at which it answers)")
    board.add_argument("--board", choices=SIMULATED, help=SIMULATED_HELP)
    board.add_argument("--design", metavar="DIR", help=f"what `fbnn-hw generate{' --learn' * learns}` wrote (default: "
                       f"the youngest folder in rtl_out{' that learns' * learns}; with --port, the one that the board holds)")


def check(args: Args) -> None:
    """Refuse flags that have no meaning together, before anything is started."""
    if args.port and args.board:
        raise UsageError("found both --port and --board, expected one of them")
    if args.baud and not args.port:
        raise UsageError(f"--baud: has no meaning on the {args.board or 'virtual'} board")


def design(args: Args, learns: bool = False) -> "Design | None":
    """The `Design` of --design; of a simulated board, the youngest one, or the youngest that learns, where none is named; else None."""
    from ..design import Design, newest

    if args.design:
        return Design(args.design)
    return None if args.port else Design(newest(learns=learns))


def port(args: Args) -> str:
    """The port that --port names; of auto, that of the one known board that is plugged in."""
    from ..link import transport

    if args.port != "auto":
        return args.port

    from ..targets.boards import boards

    return transport.automatic(dict(sorted((board.usb, board.port) for board in boards().values())))


def opened(args: Args, out: Output, of: Any, learns: bool = False) -> AbstractContextManager["Board"]:
    """A context manager of the `Board` of the flags, which holds the `Design` `of`; None: that of --port.  learns: it may be taught."""
    from ..board import Board

    if args.port:
        return Board.open(port(args), of, baud=args.baud, note=out.note)
    if args.board == "interpreted":
        return Board.interpreted(of, note=out.note)
    return Board.virtual(of, learns=learns, note=out.note)


def lessons(args: Args, size: int) -> list[tuple[str, Any]]:
    """[(class, uint8 RGB (N, 3, size, size))] of the files and folders of args, in their order: of --label, or of each subfolder."""
    import numpy as np

    from ..data import folder, images

    pictures: dict[str, list] = {}
    for path in args.files:
        for name, label in folder.pictures(path) if Path(path).is_dir() else [(path, None)]:
            if bool(label) == (args.label is not None):
                raise UsageError(f"{path}: has a subfolder for each class, expected no --label with it" if label
                                 else f"{name}: lies in no folder of a class, expected --label with it")
            pictures.setdefault(label or args.label, []).append(images.read(name, size, **_common.fit(args)))
    return [(label, np.concatenate(parts)) for label, parts in pictures.items()]
