"""`fbnn-hw evaluate`: accuracy of a checkpoint on a data set."""

import time
from dataclasses import replace

from ..base import extras
from ..base.errors import InputError
from ..reference import camera
from ..rtl.camera.sensors import SENSORS
from ..train import predict
from . import _common
from ._common import Args, Output, Parser

GROUP = "check"
SUMMARY = "accuracy, recall of each class and dispersion of a checkpoint on a data set's test split"
EXAMPLES = (
    ("fbnn-hw evaluate --model 0.5mb.pt --data cifar10", "all 10,000 test images, and whether the file states the same accuracy"),
    ("fbnn-hw evaluate --model mine.pt --data pictures/ --resize", "pictures of your own, pictures/cat/1.jpg, or its folder test"),
)


def arguments(parser: Parser) -> None:
    _common.add_model(parser)
    _common.add_data(parser, required=True)
    _common.add_fit(parser)
    _common.add_backend(parser)
    parser.add_argument("--camera", choices=SENSORS, help="show the pictures to this sensor, and take the images of its front end")
    parser.add_argument("--images", type=_common.count, metavar="N", help="the first N images alone")
    _common.add_threads(parser)


def run(args: Args, out: Output) -> None:
    path, network = _common.checkpoint(args.model, classifies=True)
    size = network.topology.image_size
    if args.camera and size != camera.SIZE:
        raise InputError(f"--camera {args.camera}: gives images of {camera.SIZE}x{camera.SIZE}, expected a model that takes them; "
                         f"{path} takes {size}x{size}")
    images = _common.dataset(args, out, size=camera.WINDOW if args.camera and (args.resize or args.crop) else size)
    if not args.camera and images.images.shape[-1] != size:
        raise InputError(f"{path}: takes images of {size}x{size}, {args.data} has {images.images.shape[-1]}x{images.images.shape[-1]}; "
                         f"expected a model trained on this data set")
    images, note = predict.match_classes(images, network, path)
    if note:
        out.note(note)
    images = images.first(args.images)
    if args.camera:
        images = replace(images, images=camera.through(images.images, SENSORS[args.camera].grey))
    _common.set_threads(args)

    from ..reference import inference

    backend = args.backend or ("torch" if extras.has_torch() else "reference")
    if backend == "torch":
        extras.load("torch", extras.TRAIN, "--backend torch")  # before the clock starts
    start = time.monotonic()
    logits, _ = predict.integer_logits(network, images.images, backend, progress=out.progress)
    seconds = time.monotonic() - start
    correct, recalls, dispersion = predict.scores(images.labels, inference.classify(logits), images.classes)
    count = len(images.labels)
    result = {
        "model": path, "name": network.topology.name, "data": args.data, "backend": backend, "images": count, "correct": correct,
        "accuracy": correct / count, "recall": dict(zip(images.classes, recalls)), "dispersion": dispersion,
        "images_per_second": round(count / seconds, 1), "camera": args.camera,
        **predict.reproduction(network.training, f"{args.data} through {args.camera}" if args.camera else args.data, correct, count)}
    rows = [(name, "no image" if r is None else f"{r:.2%}") for name, r in zip(images.classes, recalls)]
    out.text(*_common.table(rows, ("class", "recall")),
             "", f"accuracy   {correct / count:.2%} ({correct} of {count} images)",
             f"dispersion {dispersion:.4f} (standard deviation of the recalls)",
             f"speed      {count / seconds:.1f} images/s, {backend}")
    if result["stated_accuracy"] is not None:
        verdict = {True: "reproduced", False: "NOT reproduced", None: "not compared, for these are other images"}[result["reproduces"]]
        out.text(f"stated     {result['stated_accuracy']:.2%} on {result['stated_images']} images of {result['stated_data']}: {verdict}")
    out.result(result)
