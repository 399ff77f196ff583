"""`fbnn-hw import`: a network of another program becomes a checkpoint."""

from pathlib import Path

from ..base import extras
from ..base.errors import UsageError
from . import _common
from ._common import Args, Output, Parser

LARGEST = 3.4e38
"""Largest number of --range: the source computes in float32."""

GROUP = "make"
EXTRA = extras.TRAIN
SUMMARY = "make a checkpoint of another program's network: a QONNX file, a folder of FINN's parameters"
EXAMPLES = (
    ("fbnn-hw import net.onnx --out mine.pt", "what Brevitas or QONNX exported; it says layer by layer what became of what"),
    ("fbnn-hw import params/cifar10/cnvW1A1 --out cnv.pt", "one of FINN's published networks, by the folder of its parameters"),
)


def arguments(parser: Parser) -> None:
    parser.add_argument("source", metavar="FILE_OR_FOLDER", help="an .onnx file, or a folder with 0-0-weights.bin")
    parser.add_argument("--out", required=True, metavar="FILE.pt", help="the checkpoint to write, with the folders on the way to it")
    parser.add_argument("--classes", metavar="A,B,...", help="names of the classes, one with a comma in double quotes (default: "
                        "FINN's classes.txt; 0, 1, ... of an .onnx)")
    parser.add_argument("--range", nargs=2, type=float, metavar=("LOW", "HIGH"),
                        help="of an .onnx: the values of the bytes 0 and 255 of an image at its input (default: 0 1; 0 255 of an input of "
                        "type uint8)")


def run(args: Args, out: Output) -> None:
    from ..foreign import read

    path = Path(args.out)
    _common.named("--out", path, ".pt")
    _common.writable(path)
    low, high = args.range or (None, None)
    if args.range and not -LARGEST <= args.range[0] < args.range[1] <= LARGEST:
        raise UsageError(f"--range {low:g} {high:g}: expected two numbers, the smaller one first, up to {LARGEST:g}")
    imported = read(args.source, tuple(_common.listed("--classes", args.classes)) if args.classes else None, low, high)

    from ..nn import checkpoint

    checkpoint.save(path, imported.network)
    out.kept = f"{path} is written"
    network, entries = imported.network, {entry["name"]: entry for entry in imported.network.table()}
    rows = [{"source": part.source, "layers": list(part.layers), "note": part.note,
             **{key: sum(entries[name][key] for name in part.layers) for key in ("weight_bits", "macs")}} for part in imported.parts]
    lines = [(row["source"], " + ".join(row["layers"]) or "-", row["weight_bits"], row["macs"], row["note"]) for row in rows]
    exact = "the class of every image"
    if imported.scale is not None:
        shift = f" {'+' if imported.shift > 0 else '-'} {abs(imported.shift):.6g}" if imported.shift else ""
        exact = f"the other program's logits are {imported.scale:.6g} times these integers{shift}"
    out.text(f"{args.source}: {imported.format}, as {path}", "",
             *_common.table(lines, ("source", "layers", "weight bits", "MACs", "")), "",
             f"bits       {network.bits():,}, {network.topology.weight_bits():,} of them weights",
             f"MACs       {network.topology.macs():,} an image",
             f"classes    {len(network.topology.classes)}: {', '.join(network.topology.classes)}",
             f"exact      {exact}", *(f"note       {note}" for note in imported.notes))
    out.result({
        "source": args.source, "format": imported.format, "file": path, "name": network.topology.name, "parts": rows,
        "bits": network.bits(), "weight_bits": network.topology.weight_bits(), "macs": network.topology.macs(),
        "classes": network.topology.classes, "exact": imported.exact, "scale": imported.scale, "shift": imported.shift,
        "notes": imported.notes})
