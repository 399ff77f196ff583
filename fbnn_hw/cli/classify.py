"""`fbnn-hw classify`: classes and integer logits of images, from a checkpoint or from a board."""

import json
from pathlib import Path

import numpy as np

from .. import bits
from ..errors import InputError, UsageError
from ..host.transport import DEFAULT_BAUD
from . import common

VIRTUAL_WAIT_S = 300
"""A simulation takes seconds for what a board does in milliseconds."""

SUMMARY = "classify image files, or images of a data set, with a checkpoint or on a board"
EXAMPLES = (
    ("fbnn-hw classify --data fixture --images 5 --model 3mb.pt --top 3",
     "the three likeliest classes of five shipped images; pictures of your own: cat.png --resize"),
    ("fbnn-hw classify --data fixture --images 2 --board virtual",
     "on a simulated board with the youngest design of rtl_out; a real one: --port"),
)


def arguments(parser):
    parser.add_argument("files", nargs="*", metavar="IMAGE",
                        help="PNG or JPEG; .npy of uint8, (H, W, 3) or (3, H, W), or many with N in front")
    common.add_model(parser, required=False)
    common.add_data(parser)
    parser.add_argument("--images", type=common.count, metavar="N", help="with --data: the first N test images (default: all)")
    common.add_backend(parser, "reference")
    parser.add_argument("--top", type=common.count, default=1, metavar="K", help="how many classes to name (default: 1)")
    parser.add_argument("--latent", action="store_true", help="the latent too, in hex: bit i is bit i %% 8 of byte i // 8")
    parser.add_argument("--resize", action="store_true", help="make any picture fit: centre square, scaled, as RGB")
    common.add_threads(parser)
    board = parser.add_argument_group("on a board, in place of --model")
    board.add_argument("--port", metavar="DEVICE", help="serial port of a board, such as /dev/ttyUSB1")
    board.add_argument("--baud", type=common.count, metavar="N", help=f"its speed (default: {DEFAULT_BAUD})")
    board.add_argument("--board", choices=("virtual",), help="virtual: a simulation of the whole board, behind a serial port of its own")
    board.add_argument("--design", metavar="DIR", help="what `fbnn-hw generate` wrote (default: the youngest folder in rtl_out); "
                       "with --port only for the classes' names")


def gather(args, out, size, taker):
    """(images uint8 (N, 3, size, size), [file or data set, number inside it, label or None] of each); taker: who wants that size."""
    from ..data.images import read

    if bool(args.files) == bool(args.data):
        raise UsageError("found both image files and --data, expected one of them" if args.files else "expected image files or --data")
    if args.images and not args.data:
        raise UsageError("--images: expected together with --data")
    if args.data:
        images = common.dataset(args, out).first(args.images)
        if images.images.shape[-1] != size:
            raise UsageError(f"--data {args.data}: has images of {images.images.shape[-1]} pixels a side, {taker} takes {size}")
        return images.images, [(args.data, i, images.classes[label]) for i, label in enumerate(images.labels)]
    parts, origins = [], []
    for name in args.files:
        parts.append(read(name, size, args.resize))
        origins += [(name, i, None) for i in range(len(parts[-1]))]
    return np.concatenate(parts), origins


def run(args, out):
    if args.port or args.board:
        answer = on_board(args, out)
    elif args.design or args.baud:
        raise UsageError(f"--{'design' if args.design else 'baud'}: expected together with --port or --board")
    elif not args.model:
        raise UsageError("missing --model, or --port or --board; see fbnn-hw classify --help")
    else:
        answer = in_software(args, out)
    show(args, out, *answer)


def in_software(args, out):
    """(origins, class names, logits, latents, JSON's head) from a checkpoint."""
    path, network = common.checkpoint(args.model)
    images, origins = gather(args, out, network.topology.image_size, args.model)
    common.set_threads(args)
    logits, latents = common.integer_logits(network, images, args.backend, out, args.latent)
    return origins, network.topology.classes, logits, latents, {"model": path, "name": network.topology.name, "backend": args.backend}


def on_board(args, out):
    """The same from a board."""
    for flag, value in (("--model", args.model), ("--threads", args.threads)):
        if value:
            raise UsageError(f"{flag}: has no meaning on a board; leave it out")
    if args.port and args.board:
        raise UsageError("found both --port and --board, expected one of them")
    from ..build import output, virtual
    from ..host.client import Client
    from ..host.transport import Serial

    if args.port:
        with Serial(args.port, args.baud or DEFAULT_BAUD) as port:
            return talk(args, out, Client(port), design(args.design))
    if args.baud:
        raise UsageError("--baud: has no meaning on the virtual board")
    folder = Path(args.design) if args.design else common.newest()
    known = design(folder)
    output.intact(folder)
    out.note(f"{folder}: compiling and simulating the board; the first time takes a minute or two")
    with virtual.VirtualBoard(folder) as board, Serial(board.port) as port:
        answer = talk(args, out, Client(port, wait_s=VIRTUAL_WAIT_S, ready_s=VIRTUAL_WAIT_S), known)
        if faults := board.faults():
            out.note(f"the flash was used against its rules: {faults}")
        return answer


def talk(args, out, client, folder):
    """Have `client` classify the images; `folder`: (path, manifest, layout) of the design, or None."""
    client.identify()
    client.wait_ready()
    identity = client.identify()  # the model's mark comes with the weights
    if folder is None or folder[1]["config_id"] != identity.config.hex():
        if args.design or args.board:
            raise InputError(f"{client.name}: holds configuration {identity.config.hex()}, {folder[0]} is {folder[1]['config_id']}; "
                             "build and flash that folder, or name another with --design")
        folder = None
    if args.latent and folder is None:
        raise InputError("--latent: the order of its bits stands in the design's folder, "
                         f"configuration {identity.config.hex()}; name it with --design")
    names = folder[1]["classes"] if folder else [str(n) for n in range(identity.classes)]
    if folder and folder[1]["ir_sha256"][:8] != identity.model.hex():
        out.note(f"{client.name}: holds the weights {identity.model.hex()}, {folder[0]} has {folder[1]['ir_sha256'][:8]}")
    images, origins = gather(args, out, identity.size, "the board")
    data = np.ascontiguousarray(images.transpose(0, 2, 3, 1))
    results, cycles = [], []
    with out.progress(total=len(data), desc="images on the board") as bar:
        for start in range(0, len(data), identity.frames):
            images = [image.tobytes() for image in data[start:start + identity.frames]]
            results += client.classify(images, latent=args.latent)[:len(images)]
            cycles.append(client.status().cycles)
            bar.update(len(images))
    logits = np.array([r.logits for r in results], np.int32)
    latents = None
    if args.latent:
        latents = np.array([bits.unpack(np.frombuffer(r.latent, np.uint8), 8 * len(r.latent))[folder[2]["latent_bits"]] for r in results])
    return origins, names, logits, latents, {
        "port": client.name, "design": folder and folder[0], "config_id": identity.config.hex(), "model_mark": identity.model.hex(),
        "repeated_requests": client.repeated, "cycles": cycles}


def design(folder):
    """(path, manifest.json, layout.json) of a generated folder; None for None."""
    if folder is None:
        return None
    try:
        return folder, *(json.loads((Path(folder) / name).read_text()) for name in ("manifest.json", "layout.json"))
    except (OSError, ValueError):
        raise InputError(f"--design {folder}: no design there, expected a folder that `fbnn-hw generate` wrote") from None


def show(args, out, origins, classes, logits, latents, head):
    """Print what was found."""
    order = np.argsort(-logits.astype(np.int64), 1, kind="stable")  # ties: the lowest class first
    found = []
    for n, (file, number, label) in enumerate(origins):
        best = int(order[n, 0])
        entry = {"file": file, "image": number, "class": classes[best], "index": best, "logits": logits[n].tolist()}
        if label is not None:
            entry["label"] = label
        if args.top > 1:
            entry["top"] = [{"class": classes[i], "index": i, "logit": int(logits[n, i])} for i in order[n, :args.top].tolist()]
        if args.latent:
            entry["latent"] = bits.pack(latents[n]).tobytes().hex()
        found.append(entry)
        where = f"{file}[{number}]" if label is not None or (n + 1 < len(origins) and origins[n + 1][0] == file) or number else file
        ranks = ", ".join(f"{classes[i]} ({logits[n, i]})" for i in order[n, :args.top])
        out.text(", ".join([f"{where}: {ranks}", *([f"labelled {label}"] if label is not None else ()),
                            *([f"latent {entry['latent']}"] if args.latent else ())]))
    out.result({**head, "classes": classes, "images": found})
