"""`fbnn-hw classify`: classes and integer logits of images."""

import numpy as np

from .. import bits
from ..errors import UsageError
from . import common

SUMMARY = "classify image files, or images of a data set, with a checkpoint"
EXAMPLES = (
    ("fbnn-hw classify cat.png holiday.jpg --model 3mb.pt --resize --top 3", "the three likeliest classes of each picture"),
    ("fbnn-hw classify --data fixture --images 10 --model 0.5mb.pt --latent --json",
     "logits and latents of ten images that ship with the package"),
)


def arguments(parser):
    parser.add_argument("files", nargs="*", metavar="IMAGE",
                        help="PNG or JPEG; .npy of uint8, (H, W, 3) or (3, H, W), or many with N in front")
    common.add_model(parser)
    common.add_data(parser)
    parser.add_argument("--images", type=common.count, metavar="N", help="with --data: the first N test images (default: all)")
    common.add_backend(parser, "reference")
    parser.add_argument("--top", type=common.count, default=1, metavar="K", help="how many classes to name (default: 1)")
    parser.add_argument("--latent", action="store_true", help="the latent too, in hex: bit i is bit i %% 8 of byte i // 8")
    parser.add_argument("--resize", action="store_true", help="make any picture fit: centre square, scaled, as RGB")
    common.add_threads(parser)


def gather(args, out, size):
    """(images uint8 (N, 3, size, size), [file or data set, number inside it, label or None] of each)."""
    from ..data.images import read

    if bool(args.files) == bool(args.data):
        raise UsageError("found both image files and --data, expected one of them" if args.files else "expected image files or --data")
    if args.images and not args.data:
        raise UsageError("--images: expected together with --data")
    if args.data:
        images = common.dataset(args, out).first(args.images)
        if images.images.shape[-1] != size:
            raise UsageError(f"--data {args.data}: has images of {images.images.shape[-1]} pixels a side, {args.model} takes {size}")
        return images.images, [(args.data, i, images.classes[label]) for i, label in enumerate(images.labels)]
    parts, origins = [], []
    for name in args.files:
        parts.append(read(name, size, args.resize))
        origins += [(name, i, None) for i in range(len(parts[-1]))]
    return np.concatenate(parts), origins


def run(args, out):
    path, network = common.checkpoint(args.model)
    classes = network.topology.classes
    images, origins = gather(args, out, network.topology.image_size)
    common.set_threads(args)
    logits, latents = common.integer_logits(network, images, args.backend, out, args.latent)
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
    out.result({"model": path, "name": network.topology.name, "backend": args.backend, "classes": classes, "images": found})
