"""Networks of other programs as `Network`s of this one: `read` takes a file or folder, says what it is and which reader takes it.

No torch: PyTorch modules are traced by `fbnn_hw.nn.trace`, which shares `fold` with the readers of this folder.
"""

import re
from pathlib import Path

from ..base import files
from ..base.errors import InputError, UsageError
from ..ir import checkpoint, filetypes
from . import finn
from .imported import Imported

SOURCES = "a QONNX file or a folder of FINN's parameters"


def read(path: str | Path, classes: tuple[str, ...] | None = None, low: float | None = None,
         high: float | None = None) -> Imported:
    """Read the network of `path`: an ONNX file (`qonnx.read`), or a folder of FINN's parameters (`finn.read`).

    classes: names of the classes, where the file has none or others are wanted.  low, high: the values that the bytes 0 and 255 of an
    image have at the network's input; an ONNX file does not say.  None: 0 and 1, or 0 and 255 where the input is of bytes.  Raises
    InputError, which names a better way for other kinds of files; UsageError for low or high with a folder.
    """
    path = Path(path)
    if path.is_dir():
        if (low, high) != (None, None):
            raise UsageError("--range: has no meaning with a folder of FINN's parameters; leave it out")
        return finn.read(path, classes)
    if path.is_file() and _is_onnx(path):
        from . import qonnx

        return qonnx.read(path, classes, low, high)
    if path.is_file() and finn.FILE.fullmatch(path.name):
        raise InputError(f"{path}: is one file of FINN's parameters, expected their folder; give {path.parent}")
    try:
        checkpoint.read(path)
    except InputError as error:  # names another kind of file
        other = re.sub("expected (a checkpoint|a zip archive)( file| written by torch.save)?", f"expected {SOURCES}", str(error), count=1)
        raise InputError(other) from None
    raise InputError(f"{path}: is a checkpoint already, expected {SOURCES}; use it as it is")


def _is_onnx(path):
    """Whether the file says so itself, or else by its name."""
    head, _ = files.beginning(path, checkpoint.HEAD_BYTES, SOURCES)
    return filetypes.is_onnx(head) or path.suffix.lower() == ".onnx" and not (head.startswith(b"PK") or filetypes.by_beginning(head))
