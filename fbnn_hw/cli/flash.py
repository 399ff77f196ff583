"""`fbnn-hw flash`: a built design into a board."""

import shlex
from pathlib import Path

from ..base.errors import InputError, UsageError
from ..base.files import json_object, write
from . import _common, build
from ._common import Args, Output, Parser

GROUP = "board"
SUMMARY = "write bitstream and weights of a built design into a board"
EXAMPLES = (
    ("fbnn-hw flash --board icebreaker --model tiny", "a ready image that comes with the package; nothing is generated or built"),
    ("fbnn-hw flash --board icebreaker --dry-run", "what `fbnn-hw build` made of the youngest design in rtl_out; only print the commands"),
)


def arguments(parser: Parser) -> None:
    _common.add_design(parser, "what `fbnn-hw generate` wrote and `fbnn-hw build` built")
    _common.add_page(parser, "the board: ", required=True)
    ready = parser.add_argument("--model", metavar="NAME", help="a ready image in place of DIR")
    _common.completed(ready, _models, files=False)
    parser.add_argument("--drag", metavar="FILE", help="write one file to be dragged onto the board's drive, and program nothing")
    parser.add_argument("--dry-run", action="store_true", help="print the commands and do nothing")


def run(args: Args, out: Output) -> None:
    from ..fpga import programmer
    from ..targets.boards import board as find_board
    from ._doctor_board import attached
    from .doctor import this_platform

    board = find_board(args.board)
    design = _design(args, board, out)
    folder = design.folder
    build.check_part(design, board)
    where = folder / f"build-{board.name}"
    again = f"run {shlex.join(['fbnn-hw', 'build', str(folder), '--board', args.board])}"
    record = _record(where, board, again)
    files = [where / record[name] for name in ("bitstream", "weights") if record.get(name)]
    joined = [where / programmer.BOTH] * ("both" in board.program and len(files) == 2)
    if args.model and joined and not joined[0].exists():  # a ready image lacks it
        write(joined[0], programmer.both(board, *(file.read_bytes() for file in files)))
    for file in files + joined:
        if not file.exists():
            way = f"{again} --rebuild" if "fmax_mhz" in record else f"cd {shlex.quote(str(where))} && vivado -mode batch -source build.tcl"
            raise InputError(f"{file}: not found; {way}")
    if args.drag:
        return _drag(args, board, files, out)
    lines = programmer.commands(board, *files)
    texts = [shlex.join(line) for line in lines]
    out.text(*texts)
    if not args.dry_run:
        if len(nodes := attached(board)) > 1:
            out.note(f"{len(nodes)} devices with USB {board.usb} are attached, {', '.join(map(str, nodes))}; {lines[0][0]} takes one of "
                     "them; unplug the others where it is the wrong one")
        out.kept = f"{board.title}'s flash may hold a part of the design; run the same command again"
        programmer.program(board, lines, this_platform())
        out.kept = f"{board.title} has the design"
        out.text(_next(design.config, board))
    out.result({"board": board.name, "commands": texts, "done": not args.dry_run})


def _next(config, board):
    """What one does with a board that holds a design of a configuration."""
    if config.camera:
        return f"next: wire the {config.camera} and the buttons, docs/device.md"
    port = "auto" if board.console.startswith("/dev/") else f"DEVICE, of {board.console}"
    return f"next: fbnn-hw {'learn --label NAME' if config.learning else 'classify'} IMAGE --resize --port {port}"


def _models():
    from ..design import ready

    return ready.models()


def _design(args, board, out):
    """The `Design` of --model, or of DIR."""
    if args.model is None:
        return _common.design(args, out)
    if args.folder is not None:
        raise UsageError("found both DIR and --model, expected one of them")
    from ..design import ready

    return ready.find(board.name, args.model)


def _drag(args, board, parts, out):
    """Write the file of --drag.  parts: the files of the bitstream and, where there are some, of the weights."""
    from ..fpga import drag

    path = Path(args.drag)
    _common.writable(path)
    data = drag.contents(board, *(part.read_bytes() for part in parts))
    write(path, data)
    out.text(f"{path}  {len(data):,} bytes", f"next: copy it onto the drive that {board.title} shows; the board then begins anew")
    out.result({"board": board.name, "file": path, "done": False})


def _record(where, board, again):
    """build.json of a build that met its timing."""
    record = json_object(where / "build.json")
    if record is None and not (where / "build.json").exists():
        raise InputError(f"{where}: no build for {board.title}; {again}")
    try:
        names = record["bitstream"], record["weights"]
        if names[0] is None:
            missed = f"({record['fmax_mhz']:.1f} of {record['clock_mhz']:g} MHz)", int(record["fmax_mhz"])
            raise InputError(f"{where}: was built and missed its timing {missed[0]}; {again} --clock {missed[1]}")
        if any(name is not None and Path(name).name != name for name in names):  # a file beside the record, and no other
            raise TypeError
    except (KeyError, TypeError, ValueError, OverflowError):
        raise InputError(f"{where / 'build.json'}: damaged, expected what `fbnn-hw build` wrote; {again} --rebuild") from None
    return record
