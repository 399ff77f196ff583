"""The result of an import: a network, and what became of each part of the file."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from ..ir.network import Network

LOGITS, CLASSES = "logits", "classes"
"""What is equal: the logits after `Imported.scale`, or the classes alone."""


def name_of(path: Path) -> str:
    """A legal name for the network of a file."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", path.stem)[:64].lstrip("._-") or "imported"


@dataclass(frozen=True)
class Part:
    """A layer or node of the other program, `source`, with the names of the layers that it became or went into, and a remark or ""."""

    source: str
    layers: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True)
class Imported:
    """network: the result.  format: of the file.  parts: in the order of the source.  exact: `LOGITS` or `CLASSES`.
    scale: the other program's logits are these integers times `scale` plus `shift`; both None where the classes alone are equal.
    notes: what a user should know, one line each."""

    network: Network
    format: str
    parts: tuple[Part, ...]
    exact: str = LOGITS
    scale: float | None = 1.0
    shift: float | None = 0.0
    notes: tuple[str, ...] = field(default=())
