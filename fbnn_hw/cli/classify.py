"""`fbnn-hw classify`: classes and integer logits of images, from a checkpoint or from a board."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..base import bits
from ..base.errors import InputError, UsageError
from . import _board, _common
from ._common import Args, Output, Parser

GROUP = "board"
BACKEND = "reference"
SUMMARY = "classify image files, or images of a data set, with a checkpoint or on a board"
EXAMPLES = (
    ("fbnn-hw classify --data fixture --images 5 --model 3mb.pt --top 3",
     "the three likeliest classes of five shipped images; pictures of your own: cat.png --resize, or a folder, or - for a pipe"),
    ("fbnn-hw classify --data fixture --images 2 --board virtual",
     "on a simulated board with the youngest design of rtl_out; a real one: --port"),
)


def arguments(parser: Parser) -> None:
    parser.add_argument("files", nargs="*", metavar="IMAGE",
                        help="PNG, JPEG, WebP or BMP; .npy of uint8, (H, W, 3) or (3, H, W), or many with N in front; a folder of them, "
                        "or with a subfolder for each class; - for standard input")
    _common.add_model(parser, required=False)
    _common.add_data(parser)
    parser.add_argument("--images", type=_common.count, metavar="N", help="with --data: the first N test images (default: all)")
    parser.add_argument("--camera", type=_common.count, metavar="N",
                        help="on a board with a camera whose bitstream is one of build --link: the next N images of that camera")
    _common.add_backend(parser, BACKEND)
    parser.set_defaults(backend=None)  # where it is given, a board refuses it
    parser.add_argument("--top", type=_common.count, default=1, metavar="K", help="how many classes to name (default: 1)")
    parser.add_argument("--latent", action="store_true", help="the latent too, in hex: bit i is bit i %% 8 of byte i // 8")
    _common.add_fit(parser)
    _common.add_threads(parser)
    _board.arguments(parser, "on a board, in place of --model")


def gather(args: Args, out: Output, size: int, taker: str) -> tuple[np.ndarray, list[tuple]]:
    """(images uint8 (N, 3, size, size), [file or data set, number inside it, label or None] of each); taker: who wants that size."""
    from ..data import folder
    from ..data import images as image_files

    if bool(args.files) == bool(args.data):
        raise UsageError("found both image files and --data, expected one of them" if args.files else "expected image files or --data")
    for flag, value in (("--images", args.images), ("--data-dir", args.data_dir)):
        if value and not args.data:
            raise UsageError(f"{flag}: expected together with --data")
    if args.data:
        images = _common.dataset(args, out, size=size).first(args.images)
        if images.images.shape[-1] != size:
            raise UsageError(f"--data {args.data}: has images of {images.images.shape[-1]} pixels a side, {taker} takes {size}")
        return images.images, [(args.data, i, images.classes[label]) for i, label in enumerate(images.labels)]
    parts, origins = [], []
    if args.files.count(image_files.STANDARD_INPUT) > 1:
        raise UsageError("found - twice, expected standard input once")
    for path in args.files:
        for name, label in folder.pictures(path) if Path(path).is_dir() else [(path, None)]:
            parts.append(image_files.read(name, size, **_common.fit(args)))
            origins += [(str(name), i, label) for i in range(len(parts[-1]))]
    return np.concatenate(parts), origins


def run(args: Args, out: Output) -> None:
    if args.camera:
        if not args.port:
            raise UsageError("--camera: expected together with --port; fbnn-hw device simulates a camera")
        for flag, value in (("image files", args.files), ("--data", args.data)):
            if value:
                raise UsageError(f"found both --camera and {flag}, expected one of them")
    if args.port or args.board:
        answer = on_board(args, out)
    elif args.design or args.baud:
        raise UsageError(f"--{'design' if args.design else 'baud'}: expected together with --port or --board")
    elif not args.model:
        raise UsageError("missing --model, or --port or --board; see fbnn-hw classify --help")
    else:
        answer = in_software(args, out)
    show(args, out, *answer)


def in_software(args: Args, out: Output) -> tuple:
    """(origins, class names, logits, latents, JSON's head) from a checkpoint."""
    from ..train.predict import integer_logits

    backend = args.backend or BACKEND
    path, network = _common.checkpoint(args.model, classifies=True)
    images, origins = gather(args, out, network.topology.image_size, args.model)
    _common.set_threads(args)
    logits, latents = integer_logits(network, images, backend, args.latent, out.progress)
    return origins, network.topology.classes, logits, latents, {"model": path, "name": network.topology.name, "backend": backend}


def on_board(args: Args, out: Output) -> tuple:
    """(origins, class names, logits, latents, JSON's head) from a board."""
    for flag, value in (("--model", args.model), ("--threads", args.threads), ("--backend", args.backend)):
        if value:
            raise UsageError(f"{flag}: has no meaning on a board; leave it out")
    _board.check(args)
    design = _board.design(args)
    # Before the board, which may be compiled first.
    inputs = gather(args, out, design.config.size, "the board") if design and not args.camera else None
    with _board.opened(args, out, design) as board:
        images, origins = (None, [("camera", number, None) for number in range(args.camera)]) if args.camera else (
            inputs or gather(args, out, board.identity.size, "the board"))
        if not board.names:
            raise InputError(f"{board.client.name}: knows no class, expected one at least; teach it one with fbnn-hw learn --label NAME")
        answers = board.see(args.camera, args.latent, out.progress) if args.camera else board.classify(images, args.latent, out.progress)
        return origins, board.names, answers.logits, answers.latents, {
            "port": board.client.name, "design": board.design and board.design.folder, "config_id": board.identity.config.hex(),
            "model_mark": board.identity.model.hex(), "repeated_requests": board.client.repeated, "cycles": answers.cycles,
            **({"unknown": answers.unknown} if board.client.asks_unknown else {})}


def show(args: Args, out: Output, origins: list[tuple], classes: Sequence[str], logits: np.ndarray,
         latents: Any, head: dict[str, Any]) -> None:
    """Print the classes, logits and latents of the images."""
    order = np.argsort(-logits.astype(np.int64), 1, kind="stable")  # ties: the lowest class first
    entries, unknowns = [], head.pop("unknown", None)
    for n, (file, number, label) in enumerate(origins):
        best, unknown = int(order[n, 0]), bool(unknowns and unknowns[n])
        entry = {"file": file, "image": number, "class": None if unknown else classes[best], "index": None if unknown else best,
                 "logits": logits[n].tolist()}
        if unknowns is not None:
            entry |= {"unknown": unknown, "nearest": classes[best]}
        if label is not None:
            entry["label"] = label
        known = [i for i in order[n, :args.top].tolist() if classes[i] is not None]  # without forgotten classes
        if args.top > 1:
            entry["top"] = [{"class": classes[i], "index": i, "logit": int(logits[n, i])} for i in known]
        if args.latent:
            entry["latent"] = bits.pack(latents[n]).tobytes().hex()
        entries.append(entry)
        where = f"{file}[{number}]" if file == args.data or (n + 1 < len(origins) and origins[n + 1][0] == file) or number else file
        ranks = "unknown, nearest " * unknown + ", ".join(f"{classes[i]} ({logits[n, i]})" for i in known)
        line = ", ".join([f"{where}: {ranks}", *([f"labelled {label}"] if label is not None else ()),
                          *([f"latent {entry['latent']}"] if args.latent else ())])
        out.text(line.replace("\n", r"\n"))  # a file's name may have one
    out.result({**head, "classes": classes, "images": entries})
