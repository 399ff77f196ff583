"""Ready images: designs that are built for boards and come with the package.

images/index.json lists them; docs/benchmarks/ready.py makes it.  Each of its files is a folder of `generate` with the folder of a
build for each board, a tar archive compressed by xz.
"""

import json
import shutil
import tarfile
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from ..base import files
from ..base.errors import InputError, UsageError, nearest
from .folder import Design

IMAGES = Path(__file__).parent / "images"
INDEX = "index.json"


@cache
def index() -> list[dict[str, Any]]:
    """The designs: {"config_id", "model_mark", "model", "learns", "file", "sha256", "folder", "command", "boards": {name: build}}.

    A build is {"bitstream_sha256", "clock_mhz", "fmax_mhz", "seed", "tools": {name: version}}; model: name of the checkpoint, without .pt.
    """
    path = IMAGES / INDEX
    return json.loads(path.read_text(encoding="utf-8"))["designs"] if path.exists() else []


def boards() -> list[str]:
    """Names of the boards that have a ready image, sorted."""
    return sorted({name for design in index() for name in design["boards"]})


def models(board: str | None = None) -> list[str]:
    """Names of the models with a ready image for a board, or for any."""
    return [design["model"] for design in index() if board is None or board in design["boards"]]


def find(board: str, model: str) -> Design:
    """The design of a ready image, unpacked.  Raises UsageError with those that there are."""
    model = model.removesuffix(".pt")
    if not models(board):
        raise UsageError(f"--board {board}: no ready image, expected one of {', '.join(boards())}; "
                         "or run fbnn-hw generate and fbnn-hw build, and leave --model out")
    if model not in models(board):
        raise UsageError(f"--model {model}: no ready image for {board}, expected one of {', '.join(models(board))}; or run "
                         f"fbnn-hw generate and fbnn-hw build, and leave --model out{nearest(model, models(board))}")
    return unpacked(next(design for design in index() if design["model"] == model and board in design["boards"]))


def holding(config_id: str, model_mark: str) -> Design | None:
    """The ready design of a configuration and of a network, as a board names them; None where there is none."""
    marks = config_id, model_mark
    return next((unpacked(design) for design in index() if (design["config_id"], design["model_mark"]) == marks), None)


def unpacked(entry: dict[str, Any]) -> Design:
    """The design of an entry of the index, in the user's cache.  Raises InputError where the package's file is damaged."""
    folder = files.cache_folder() / "ready" / entry["sha256"][:16] / entry["folder"]
    if not (folder / "manifest.json").exists():
        archive = IMAGES / entry["file"]
        if not archive.exists() or files.sha256_of(archive) != entry["sha256"]:
            raise InputError(f"{archive}: missing or damaged, by its hash in {INDEX}; install fbnn-hw again")
        files.make_folder(folder.parent)
        with tempfile.TemporaryDirectory(dir=folder.parent) as work:
            _extract(archive, Path(work))
            made = Path(work) / entry["folder"]
            _with_flash(made)
            if folder.exists():  # what an interrupt has left
                shutil.rmtree(folder)
            made.rename(folder)
    return Design(folder)


def _extract(archive, folder):
    """Write the files that `pack` put into an archive.  Python up to 3.11.3 has no filter for `extractall`."""
    with tarfile.open(archive) as tar:
        for member in tar:
            file = tar.extractfile(member)
            assert file is not None
            path = folder / member.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.read())


def _with_flash(folder):
    """Write the image of the flash into each build of a folder: it follows from the design, so the archives do not hold it."""
    from ..simulate import virtual

    for record in folder.glob("build-*/build.json"):
        if name := json.loads(record.read_text())["weights"]:
            (record.parent / name).write_bytes(virtual.flash_image(folder))


def pack(folder: Path, path: Path) -> None:
    """Write a folder of `generate` with builds, and nothing else that lies in it, to the archive `path`; equal folders give equal bytes."""
    made = Design(folder)
    names = ["manifest.json", *made.manifest["files"]]
    for build in sorted(folder.glob("build-*")):
        record = json.loads((build / "build.json").read_text())
        names += [f"{build.name}/build.json", f"{build.name}/{record['bitstream']}"]
    with tarfile.open(path, "w:xz", preset=9) as tar:
        for name in sorted(names):
            info = tar.gettarinfo(folder / name, f"{folder.name}/{name}")
            info.mtime, info.mode, info.uid, info.gid, info.uname, info.gname = 0, 0o644, 0, 0, "", ""
            with open(folder / name, "rb") as file:
                tar.addfile(info, file)
