"""The result of an import: a network, and what became of each part of the file."""

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import UsageError, show, spelled
from ..ir import file
from ..ir.network import LATENT, Network, Topology

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
    """What was read.

    scale: the other program's logits are these integers times `scale` plus `shift`; both None where the classes alone are equal.
    """

    network: Network  # the result
    format: str  # of the file
    parts: tuple[Part, ...]  # in the order of the source
    exact: str = LOGITS  # `LOGITS` or `CLASSES`
    scale: float | None = 1.0
    shift: float | None = 0.0
    notes: tuple[str, ...] = field(default=())  # what a user should know, one line each


def alike(one, other):
    """Whether two imported networks are the same."""
    return (one.scale, one.shift) == (other.scale, other.shift) and file.dumps(one.network) == file.dumps(other.network)


def with_latent(imported):
    """`imported` whose last dense layer before the logits is named latent, so that a design can learn from there on."""
    network = imported.network
    own = {op.name: op for op in network.topology.ops}
    before = own[network.topology.ops[-1].inputs[0]]
    if before.kind != "dense" or LATENT in own:
        return imported

    def named(name):
        return LATENT if name == before.name else name

    renamed = tuple(replace(op, name=named(op.name), inputs=tuple(map(named, op.inputs))) for op in network.topology.ops)
    again = Network(Topology(network.topology.name, renamed, network.topology.classes),
                    {named(name): value for name, value in network.weights.items()},
                    {named(name): value for name, value in network.thresholds.items()}, network.training)
    parts = tuple(replace(part, layers=tuple(map(named, part.layers)), note=re.sub(rf"\b{before.name}\b", LATENT, part.note))
                  for part in imported.parts)
    return replace(imported, network=again, parts=parts)


def class_names(classes: Any) -> tuple[str, ...]:
    """Names of classes, from any sequence of text or numbers; none where it is None or empty."""
    values = classes.tolist() if hasattr(classes, "tolist") else () if classes is None else classes
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise UsageError(f"classes: found {show(classes)}, expected a list of names")
    return tuple(spelled(str(name)) if isinstance(name, str | int | np.integer) else name for name in values)


def classes_alone(imported: Imported) -> Imported:
    """Mark `imported` as equal in its classes alone.

    That is the case where the source gives the class, or a function that keeps the order of the logits.
    """
    return replace(imported, exact=CLASSES, scale=None, shift=None)
