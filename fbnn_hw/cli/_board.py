"""What `classify` and `learn` share: a board at a port or a virtual one, its design, and what it was taught, kept in its folder."""

import json
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from .. import files
from ..errors import FbnnError, InputError, UsageError
from ..host.transport import DEFAULT_BAUD
from . import common

VIRTUAL_WAIT_S = 300
"""A simulation takes seconds for what a board does in milliseconds."""


def arguments(parser, title):
    """The flags that name a board."""
    board = parser.add_argument_group(title)
    board.add_argument("--port", metavar="DEVICE", help="serial port of a board, such as /dev/ttyUSB1")
    board.add_argument("--baud", type=common.count, metavar="N", help=f"its speed (default: {DEFAULT_BAUD})")
    board.add_argument("--board", choices=("virtual",), help="virtual: a simulation of the whole board, behind a serial port of its own")
    board.add_argument("--design", metavar="DIR", help="what `fbnn-hw generate` wrote (default: the youngest folder in rtl_out)")


@dataclass(frozen=True)
class Design:
    """folder: Path.  manifest, layout: content of its files."""

    folder: Path
    manifest: dict
    layout: dict

    @classmethod
    def of(cls, folder):
        """InputError unless it is a generated folder."""
        try:
            manifest, layout = (json.loads((Path(folder) / name).read_text()) for name in ("manifest.json", "layout.json"))
            manifest["config_id"], manifest["classes"], manifest["ir_sha256"], layout["latent_bits"]  # what a board is compared with
            return cls(Path(folder), manifest, layout)
        except (OSError, ValueError, KeyError, TypeError):
            raise InputError(f"--design {folder}: no design there, expected a folder that `fbnn-hw generate` wrote") from None

    def learner(self):
        """(LearnPlan, the reference `Learner`) of a design that learns."""
        from ..compile.config import AcceleratorConfig
        from ..emit import output

        config = AcceleratorConfig.from_json((self.folder / "config.json").read_text())
        return config.learning, output.learner_of(self.network(), config)

    def network(self):
        """The `Network`, with its weights."""
        from ..ir import file as ir_file

        return ir_file.loads((self.folder / "network.json").read_text(), self.folder / "network.json")


class Board:
    """A board that answers: client, identity, design (None at a port whose design is unknown), and the names of its classes.

    virtual: whether it is one; then it knows again what it was taught, which a powered board never forgets.
    """

    def __init__(self, client, design, virtual):
        self.client, self.design, self.virtual = client, design, virtual
        client.identify()
        client.wait_ready()
        self.identity = client.identify()  # the model's mark comes with the weights

    @property
    def file(self):
        """Where what it was taught is kept."""
        return self.design.folder / f"learned-{'virtual' if self.virtual else 'board'}.snapshot"

    def kept(self):
        """(names, snapshot) of `file`, or None."""
        return read(self.file) if self.design and self.identity.max_classes and self.file.exists() else None

    def names(self):
        """Names of the classes known; `class N` where there is none."""
        known = self.client.learned()[0] if self.identity.max_classes else self.identity.classes
        names = list(self.design.manifest["classes"]) if self.design else [str(n) for n in range(self.identity.classes)]
        if found := self.kept():
            names = found[0]
        return named(names, known)

    def chip(self):
        """`ChipState`; InputError unless the design is the board's, its weights too."""
        from ..host.chip import ChipState

        if self.design is None or self.design.manifest["ir_sha256"][:8] != self.identity.model.hex():
            raise InputError(f"{self.client.name}: holds configuration {self.identity.config.hex()} with weights "
                             f"{self.identity.model.hex()}; name the folder of that design with --design")
        return ChipState(*self.design.learner(), self.client.peek, self.client.poke)

    def restore(self, learns):
        """What a virtual board was taught; learns False: as much of it as classifying needs, a small part."""
        if found := self.kept():
            try:
                self.chip().restore(found[1], self.file, learns)
            except InputError as error:
                raise InputError(f"{error}; move it away, and the board begins with the classes of the model") from None

    def keep(self, names):
        """Write what it was taught; returns the file."""
        write(self.file, names, self.chip().snapshot())
        return self.file


HEAD = b"fbnn-hw learned "
"""Of a file: this, the names of the classes as JSON, a line's end, the snapshot of docs/on-chip-learning.md."""


def write(path, names, snapshot):
    """A file of names and snapshot, whole or not at all."""
    files.write(path, HEAD + json.dumps(names).encode() + b"\n" + snapshot)


def read(path):
    """(names, snapshot) of such a file; of a bare snapshot, ([], snapshot)."""
    from ..reference.learning.snapshot import MAGIC

    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}, expected what fbnn-hw learn --snapshot wrote") from None
    if data.startswith(MAGIC):
        return [], data
    head, line, snapshot = data.partition(b"\n")
    try:
        names = json.loads(head.removeprefix(HEAD))
        if head.startswith(HEAD) and line and type(names) is list and all(isinstance(name, str) for name in names):
            return names, snapshot
    except (ValueError, TypeError):
        pass
    raise InputError(f"{path}: damaged or another file, expected what fbnn-hw learn --snapshot wrote")


def named(names, known):
    """Names of `known` classes: those that there are, then `class N`."""
    return [*names[:known], *(f"class {n}" for n in range(len(names), known))]


def spare(path):
    """The first free name beside a file: learned-board-1.snapshot."""
    path = Path(path)
    number = 1
    while (found := path.with_name(f"{path.stem}-{number}{path.suffix}")).exists():
        number += 1
    return found


def pixels(images):
    """uint8 (N, 3, S, S) as a board takes them: a list of bytes."""
    return [image.tobytes() for image in images.transpose(0, 2, 3, 1)]


@contextmanager
def opened(args, out, learns=False):
    """A `Board` as the flags name it; learns: it may be taught."""
    if args.port and args.board:
        raise UsageError("found both --port and --board, expected one of them")
    from ..emit import output, virtual
    from ..host.client import Client
    from ..host.transport import Serial

    if args.port:
        with Serial(args.port, args.baud or DEFAULT_BAUD) as port:
            yield matched(args, out, Board(Client(port), Design.of(args.design) if args.design else None, False))
        return
    if args.baud:
        raise UsageError("--baud: has no meaning on the virtual board")
    folder = Path(args.design) if args.design else common.newest()
    known = Design.of(folder)
    output.intact(folder)
    out.note(f"{folder}: compiling and simulating the board; the first time takes a minute or two")
    # a virtual board is one board
    alone = files.locked(folder / ".virtual.lock", f"{folder}: its virtual board is at work for another program; wait for that one")
    with alone, virtual.VirtualBoard(folder) as board, Serial(board.port) as port:
        found = matched(args, out, Board(Client(port, wait_s=VIRTUAL_WAIT_S, ready_s=VIRTUAL_WAIT_S), known, True))
        found.restore(learns)
        yield found
        if faults := board.faults():
            out.note(f"the flash was used against its rules: {faults}")


def matched(args, out, board):
    """The board, its design looked for where none was named, or refused where it is another."""
    design, found = board.design, board.identity.config.hex()
    if design is None:
        with suppress(FbnnError):
            design = Design.of(common.newest())
        if design and design.manifest["config_id"] == found:
            board.design = design
    elif design.manifest["config_id"] != found:
        raise InputError(f"{board.client.name}: holds configuration {found}, {design.folder} is {design.manifest['config_id']}; "
                         "build and flash that folder, or name another with --design")
    if board.design and board.design.manifest["ir_sha256"][:8] != board.identity.model.hex():
        out.note(f"{board.client.name}: holds the weights {board.identity.model.hex()}, {board.design.folder} has "
                 f"{board.design.manifest['ir_sha256'][:8]}")
    return board
