"""Designs in a folder of designs: the youngest, the one that a board holds, and the speeds at which boards with them talk."""

from contextlib import suppress
from pathlib import Path

from ..base import files
from ..base.errors import InputError, whole
from ..machine.line import DEFAULT_BAUD
from ..targets import TARGETS
from . import ready
from .folder import MOST_BYTES, Design, manifest_of

OUT = "rtl_out"
"""The folder that designs are written to.  It is searched where no design is named."""
EXAMPLE = "example"
"""A small design that is in git, in OUT; it is taken only where there is no other."""


def newest(root: str | Path = OUT, learns: bool = False) -> Path:
    """Path of the youngest generated folder under `root`, EXAMPLE only where there is no other.

    learns: of those that learn.  Raises InputError where there is none.
    """
    folders = _folders(root)
    if learns and folders and not (folders := list(filter(_learns, folders))):
        raise InputError(f"{root}: no design that learns; run fbnn-hw generate --model 0.5mb.pt --target ice40 --learn, or name its folder")
    if not folders:
        more = " --learn" if learns else ""
        raise InputError(f"{root}: no generated design; run fbnn-hw generate --model 0.5mb.pt --target ice40{more}, or name its folder")
    return folders[0]


def holding(config_id: str, model_mark: str, root: str | Path = OUT) -> Design | None:
    """The design under `root` of a configuration, as a board names it.

    The youngest with the weights of `model_mark`, else the ready one that comes with the package, else the youngest with other weights;
    None where there is none.
    """
    designs = []
    for folder in _folders(root):
        with suppress(InputError):
            if manifest_of(folder / "manifest.json")["config_id"] == config_id:
                designs.append(Design(folder))
    same = next((design for design in designs if design.model_mark == model_mark), None)
    return same or ready.holding(config_id, model_mark) or next(iter(designs), None)


def _folders(root):
    """Folders of the designs under `root`, youngest first, EXAMPLE last."""
    manifests = sorted(Path(root).glob("[!.]*/manifest.json"), key=lambda path: (path.parent.name != EXAMPLE, path.stat().st_mtime))
    return [path.parent for path in reversed(manifests)]


def _learns(folder):
    """Whether the design in a folder learns, by its configuration; False for one that is damaged."""
    return (files.json_object(folder / "config.json", MOST_BYTES) or {}).get("learning") is not None


def link_speeds(design: Design | None = None) -> list[int]:
    """Bits a second at which a board may talk, the likeliest first: those of builds, youngest first, then defaults of boards.

    Last come those that a bridge turns into one of these by dividing.  design: what the board holds; None: not known, so the builds are
    those of all designs in OUT.
    """
    from ..targets.boards import boards
    from ..targets.bridges import BRIDGES, COMMON

    folders = [design.folder] if design else _folders(OUT)
    records = [record for folder in folders for record in folder.glob("build-*/build.json")]
    records.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    built = [baud for baud in map(_built_baud, records) if baud]
    defaults, divided = [], []
    parts = [design.target] if design else TARGETS.values()
    for board in boards().values():
        if board.part in parts:
            clocks = [design.target.clock_of(design.config)] if design else [board.part.clock_hz, board.part.learn_hz, board.part.limits_hz]
            own = [board.baud(clock_hz, bool(design and design.config.sleeps)) for clock_hz in clocks if clock_hz]
            defaults += own
            divided += [BRIDGES[board.bridge].divides * baud for baud in (*built, *own)]
    return list(dict.fromkeys([*built, *defaults, DEFAULT_BAUD, COMMON[0], *divided]))


def _built_baud(path):
    """The speed that a record of `build` says, or 0."""
    baud = (files.json_object(path) or {}).get("baud")
    return baud if whole(baud, 1, 10 ** 8) else 0
