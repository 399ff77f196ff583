"""What `classify` and `learn` share: the flags that name a board, and the board that they name."""

from contextlib import contextmanager
from pathlib import Path

from ..errors import UsageError
from ..protocol import DEFAULT_BAUD
from . import _common


def arguments(parser, title):
    """The flags that name a board."""
    board = parser.add_argument_group(title)
    board.add_argument("--port", metavar="DEVICE", help="serial port of a board, such as /dev/ttyUSB1")
    board.add_argument("--baud", type=_common.count, metavar="N", help=f"its speed (default: {DEFAULT_BAUD})")
    board.add_argument("--board", choices=("virtual",), help="virtual: a simulation of the whole board, behind a serial port of its own")
    board.add_argument("--design", metavar="DIR", help="what `fbnn-hw generate` wrote (default: the youngest folder in rtl_out)")


def check(args):
    """Refuse flags that have no meaning together, before anything is started."""
    if args.port and args.board:
        raise UsageError("found both --port and --board, expected one of them")
    if args.baud and not args.port:
        raise UsageError("--baud: has no meaning on the virtual board")


def design(args):
    """The `Design` of --design; of the virtual board, the youngest one where none is named; else None."""
    from ..design import Design, newest

    if args.design:
        return Design(args.design)
    return None if args.port else Design(newest())


@contextmanager
def opened(args, out, of, learns=False):
    """The `Board` that the flags name, which holds the design `of`.  learns: it may be taught."""
    from ..board import Board

    if args.port:
        board = Board.open(args.port, of, baud=args.baud or DEFAULT_BAUD, note=out.note)
    else:
        board = Board.virtual(of, learns=learns, note=out.note)
    with board as opened_board:
        yield opened_board


def images(names, size, resize):
    """uint8 RGB (N, 3, size, size) of picture files."""
    import numpy as np

    from ..data.images import read

    return np.concatenate([read(Path(name), size, resize) for name in names])
