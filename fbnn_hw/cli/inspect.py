"""`fbnn-hw inspect`: what is in a checkpoint."""

import math

from ..errors import UsageError
from . import common

SUMMARY = "show what is in a checkpoint: layers, bits, operations, classes, encoder, training"
EXAMPLES = (
    ("fbnn-hw inspect 3mb.pt", "the layers of a shipped checkpoint and how it was trained"),
    ("fbnn-hw inspect 0.5mb.pt --json", "the same of another one, as JSON"),
)


def arguments(parser):
    parser.add_argument("file", nargs="?", metavar="FILE", help="a checkpoint: a path, or the name of a shipped one such as 3mb.pt")
    parser.add_argument("--model", metavar="NAME.pt", help="the same, as the other commands take it")


def layers(network):
    """One dict for each layer, in execution order."""
    topology = network.topology
    shapes = topology.shapes
    found = []
    for op in topology.ops:
        inputs = topology.input_shapes(op, shapes)
        weights = op.weight_shape(*inputs)
        found.append({
            "name": op.name, "kind": op.kind, "inputs": list(op.inputs), "shape": list(shapes[op.name]),
            "weights": list(weights) if weights else None, "groups": getattr(op, "groups", None),
            "weight_bits": math.prod(weights) if weights else 0,
            "thresholds": op.name in network.thresholds, "fan_in": op.fan_in(*inputs), "macs": op.macs(*inputs)})
    return found


def by(shape):
    return "x".join(map(str, shape)) if shape else "-"


def number(value):
    return f"{value:,}" if value else "-"


def shown(value):
    """Text of a record as it stands, or quoted where it holds what would move the cursor or colour the terminal."""
    text = str(value)
    return text if text.isprintable() else repr(text)


def run(args, out):
    name = args.file or args.model
    if not name or (args.file and args.model):
        raise UsageError("expected one checkpoint: FILE, or --model NAME.pt")
    path, network = common.checkpoint(name)
    topology = network.topology
    encoder = topology.ops[0]
    found = layers(network)
    out.text(f"{path}: {topology.name}, {path.stat().st_size:,} bytes", "")
    out.text(*common.table(
        [(x["name"], x["kind"], by(x["shape"]), by(x["weights"]), x["groups"] or "-", number(x["weight_bits"]), number(x["fan_in"]),
          number(x["macs"]), "per channel" if x["thresholds"] else "-") for x in found],
        ("layer", "kind", "output", "weights", "groups", "weight bits", "fan-in", "MACs", "thresholds")))
    out.text("", f"bits       {network.bits():,} ({network.bits() / 1e6:.3f} Mbit), {topology.weight_bits():,} of them weights",
             f"MACs       {topology.macs():,} an image",
             f"encoder    {encoder.encoder}, {encoder.levels} levels, {topology.image_size}x{topology.image_size} pixels",
             f"classes    {len(topology.classes)}: {', '.join(topology.classes)}",
             "training" if network.training else "training   not recorded",
             *(f"  {shown(key)} = {shown(value)}" for key, value in network.training.items()))
    out.result({
        "file": path, "file_bytes": path.stat().st_size, "name": topology.name, "layers": found, "bits": network.bits(),
        "weight_bits": topology.weight_bits(), "macs": topology.macs(), "classes": topology.classes, "image_size": topology.image_size,
        "encoder": {"name": encoder.encoder, "levels": encoder.levels, "channels": topology.shapes[encoder.name][0]},
        "training": network.training})
