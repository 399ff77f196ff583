"""`fbnn-hw evaluate`: accuracy of a checkpoint on a data set."""

import importlib
import time

import numpy as np

from ..errors import InputError
from . import _common

GROUP = "check"
SUMMARY = "accuracy, recall of each class and dispersion of a checkpoint on a data set's test split"
EXAMPLES = (
    ("fbnn-hw evaluate --model 0.5mb.pt --data cifar10", "all 10,000 test images, and whether the file states the same accuracy"),
    ("fbnn-hw evaluate --model mine.pt --data pictures/ --resize", "pictures of your own, pictures/cat/1.jpg, or its folder test"),
)


def arguments(parser):
    _common.add_model(parser)
    _common.add_data(parser, required=True)
    _common.add_fit(parser)
    _common.add_backend(parser, "torch")
    parser.add_argument("--images", type=_common.count, metavar="N", help="the first N images alone")
    _common.add_threads(parser)


def match_classes(images, network, where):
    """`images` with the labels of the network's classes: by name where any name is known, else by number; and a note or None."""
    classes = network.topology.classes
    shared = [name for name in classes if name in images.classes]
    if shared:
        if len(shared) == len(classes) == len(images.classes):
            return images.select(classes), None
        number = {images.classes.index(name): classes.index(name) for name in shared}
        kept = np.isin(images.labels, list(number))
        labels = np.array([number[label] for label in images.labels[kept]], np.int64)
        return (type(images)(images.images[kept], labels, classes, images.source),
                f"{int(kept.sum())} of {len(kept)} images are of the {len(shared)} classes that the model and the data set share")
    if len(classes) == len(images.classes):
        return type(images)(images.images, images.labels, classes, images.source), "the class names differ, so classes are taken by number"
    raise InputError(f"{where}: has the {len(classes)} classes {', '.join(classes[:3])}..., none of them in the data set's "
                     f"{', '.join(images.classes[:3])}...; expected a model trained on this data set")


def scores(labels, answers, classes):
    """(correct, recall of each class or None where it has no image, dispersion = standard deviation of the recalls)."""
    recalls = [float((answers[labels == i] == i).mean()) if (labels == i).any() else None for i in range(len(classes))]
    return int((answers == labels).sum()), recalls, float(np.std([r for r in recalls if r is not None]))


def run(args, out):
    path, network = _common.checkpoint(args.model)
    size = network.topology.image_size
    images = _common.dataset(args, out, size=size)
    if images.images.shape[-1] != size:
        raise InputError(f"{path}: takes images of {size}x{size}, {args.data} has {images.images.shape[-1]}x{images.images.shape[-1]}; "
                         f"expected a model trained on this data set")
    images, note = match_classes(images, network, path)
    if note:
        out.note(note)
    images = images.first(args.images)
    _common.set_threads(args)

    from ..predict import integer_logits
    from ..reference import inference

    if args.backend == "torch":
        importlib.import_module("torch")  # before the clock starts
    start = time.monotonic()
    logits, _ = integer_logits(network, images.images, args.backend, progress=out.progress)
    seconds = time.monotonic() - start
    correct, recalls, dispersion = scores(images.labels, inference.classify(logits), images.classes)
    count = len(images.labels)
    result = {
        "model": path, "name": network.topology.name, "data": args.data, "backend": args.backend, "images": count, "correct": correct,
        "accuracy": correct / count, "recall": dict(zip(images.classes, recalls)), "dispersion": dispersion,
        "images_per_second": round(count / seconds, 1), **reproduction(network.training, args.data, correct, count)}
    rows = [(name, "no image" if r is None else f"{r:.2%}") for name, r in zip(images.classes, recalls)]
    out.text(*_common.table(rows, ("class", "recall")),
             "", f"accuracy   {correct / count:.2%} ({correct} of {count} images)",
             f"dispersion {dispersion:.4f} (standard deviation of the recalls)",
             f"speed      {count / seconds:.1f} images/s, {args.backend}")
    if result["stated_accuracy"] is not None:
        verdict = {True: "reproduced", False: "NOT reproduced", None: "not compared, for these are other images"}[result["reproduces"]]
        out.text(f"stated     {result['stated_accuracy']:.2%} on {result['stated_images']} images of {result['stated_data']}: {verdict}")
    out.result(result)


def reproduction(training, data, correct, count):
    """The accuracy that the file states, and whether this run reproduces it; None where it states none, or one of other images."""
    stated, images, stated_data = (training.get(key) for key in ("test_accuracy", "test_images", "data"))
    if not isinstance(stated, float | int) or not 0 <= stated <= 1 or type(images) is not int:
        return {"stated_accuracy": None, "stated_images": None, "stated_data": None, "reproduces": None}
    same = stated_data == data and images == count
    return {"stated_accuracy": stated, "stated_images": images, "stated_data": stated_data,
            "reproduces": round(stated * images) == correct if same else None}
