"""`fbnn-hw inspect`: what is in a checkpoint."""

from collections.abc import Callable, Sequence
from typing import Any

from ..base.errors import UsageError
from . import _common
from ._common import Args, Output, Parser

GROUP = "check"
SUMMARY = "show what is in a checkpoint: layers, bits, operations, classes, encoder, training"
EXAMPLES = (
    ("fbnn-hw inspect 3mb.pt", "the layers of a shipped checkpoint and how it was trained"),
    ("fbnn-hw inspect 0.5mb.pt --json", "the same of another one, as JSON"),
)


STAGE: dict[str, tuple[str, Callable[..., str]]] = {
    "data": ("data", str), "images": ("train_images", "{:,}".format), "epochs": ("epochs", "{:,}".format),
    "training": ("train_accuracy", "{:.2%}".format), "validation": ("validation_accuracy", "{:.2%}".format),
    "test": ("test_accuracy", "{:.2%}".format), "teacher": ("teacher", str), "hours": ("seconds", lambda value: f"{value / 3600:.1f}"),
    "seed": ("seed", str)}
"""Columns of the table of a training: (key of its record, text of a number)."""
MOST_LINES = 20


def arguments(parser: Parser) -> None:
    parser.add_argument("file", nargs="?", metavar="FILE", help="a checkpoint: a path, or the name of a shipped one such as 3mb.pt")
    parser.add_argument("--model", metavar="NAME.pt", help="the same, as the other commands take it")


def by(shape: Sequence[int] | None) -> str:
    return "x".join(map(str, shape)) if shape else "-"


def number(value: int | None) -> str:
    return f"{value:,}" if value else "-"


def shown(value: Any, length: int = 400) -> str:
    """Text of a record, cut off at `length`; quoted where it holds what would move the cursor or colour the terminal."""
    text = str(value)[:length + 1]
    text = text if len(text) <= length else text[:length - 3] + "..."
    return text if text.isprintable() else repr(text)


def stage_row(record: dict[str, Any]) -> list[str]:
    """Texts of a record in the order of STAGE."""
    row = []
    for key, form in STAGE.values():
        value = record.get(key)
        if isinstance(value, dict):
            value = value.get("name")  # of a teacher
        row.append("-" if value is None else
                   form(value) if isinstance(value, int | float) and abs(value) < 1e12 else shown(value, 24))
    return row


def training_lines(training: Any) -> list[str]:
    """What a person wants to know of a checkpoint's training: a table of its stages, then the other single values of the last one."""
    if not training:
        return ["training   not recorded"]
    records: list[dict] = []  # those that the training began from too, the oldest first
    record = training
    while isinstance(record, dict) and record:
        records.insert(0, record)
        start = record.get("init")
        record = start.get("training") if isinstance(start, dict) else None
    rows = [(number, *stage_row(record)) for number, record in enumerate(records, start=1)]
    keys = {key for key, _ in STAGE.values()}
    rest = [(key, value) for key, value in training.items() if key not in keys and isinstance(value, str | int | float)]
    return ["training, the last stage below; --json has the whole record",
            *(f"  {line}" for line in _common.table(rows, ("stage", *STAGE))),
            *(f"  {shown(key, 40)} = {shown(value)}" for key, value in rest[:MOST_LINES])]


def encoder(op: Any) -> tuple[dict[str, Any], str]:
    """({"name": ..., its parameters}, text) of a network's input."""
    match op.kind:
        case "thermometer":
            return {"name": op.encoder, "levels": op.levels}, f"{op.encoder}, {op.levels} levels"
        case "binarize":
            return {"name": op.kind, "threshold": op.threshold}, f"binarize, +1 from grey {op.threshold} on"
        case _:
            way = "as they are" if op.table == type(op).table else "through a table"
            return {"name": op.kind, "table": list(op.table)}, f"bits8, bytes {way}"


def first(classes: Sequence[str], most: int = 20) -> str:
    """Names of classes as text; of many, those that a reader looks at."""
    rest = len(classes) - most
    return ", ".join(classes[:most]) + (f" and {rest} more; --json has all" if rest > 0 else "")


def run(args: Args, out: Output) -> None:
    name = args.file or args.model
    if not name or (args.file and args.model):
        raise UsageError("expected one checkpoint: FILE, or --model NAME.pt")
    path, network = _common.checkpoint(name)
    topology = network.topology
    encoder_values, encoder_text = encoder(topology.ops[0])
    entries = network.table()
    out.text(f"{path}: {topology.name}, {path.stat().st_size:,} bytes", "")
    out.text(*_common.table(
        [(x["name"], x["kind"], by(x["shape"]), by(x["weights"]), x["groups"] or "-", number(x["weight_bits"]), number(x["fan_in"]),
          number(x["macs"]), "per channel" if x["thresholds"] else "-") for x in entries],
        ("layer", "kind", "output", "weights", "groups", "weight bits", "fan-in", "MACs", "thresholds")))
    out.text("", f"bits       {network.bits():,} ({network.bits() / 1e6:.3f} Mbit), {topology.weight_bits():,} of them weights",
             f"MACs       {topology.macs():,} an image",
             f"encoder    {encoder_text}, {topology.image_size}x{topology.image_size} pixels",
             f"classes    {f'{len(topology.classes)}: {first(topology.classes)}' if topology.classes else 'none; a chip is taught some'}",
             *training_lines(network.training))
    out.result({
        "file": path, "file_bytes": path.stat().st_size, "name": topology.name, "layers": entries, "bits": network.bits(),
        "weight_bits": topology.weight_bits(), "macs": topology.macs(), "classes": topology.classes, "image_size": topology.image_size,
        "encoder": {**encoder_values, "channels": topology.shapes[topology.ops[0].name][0]}, "version": topology.version(),
        "training": network.training})
