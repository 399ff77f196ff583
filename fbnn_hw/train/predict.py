"""Integer logits of a network, by torch or by the integer reference, which give the same; and how well they name a data set's images."""

import os

import numpy as np

from ..base import bits, extras
from ..base.errors import InputError, UsageError, show, spelled
from ..base.progress import silent
from ..ir.network import LATENT
from ..reference.encode import checked

BACKENDS = ("torch", "reference")

BATCH = 100
"""Most images at a time."""


def integer_logits(network, images, backend="reference", latent=False, progress=silent):
    """(logits, int32 (N, classes), latents, uint8 bits (N, bits), or None) of images, uint8 RGB (N, 3, S, S), N from 1.

    network: an `ir.network.Network`.  backend: one of BACKENDS; both give the same.  latent: whether to
    return the latents, too.  progress: makes a progress bar, as tqdm does.
    Raises InputError where the images have another shape or type, or a latent is asked of a network that has
    none; UsageError where the backend is none.
    """
    if backend not in BACKENDS:
        raise UsageError(f"backend: found {show(backend)}, expected one of {', '.join(BACKENDS)}")
    images = checked(images, network.topology.image_size)
    if latent and LATENT not in network.topology:
        raise InputError(f"model {network.topology.name}: has no layer named {LATENT}, expected one with --latent")
    from ..reference.inference import batch_size

    batch = batch_size(network.topology, BATCH)
    batches = [images[i:i + batch] for i in range(0, len(images), batch)]
    outputs = _by_torch if backend == "torch" else _by_reference
    parts = list(outputs(network, progress(batches, desc=backend), latent))
    return (np.concatenate([logits for logits, _ in parts]).astype(np.int32),
            np.concatenate([bits for _, bits in parts]) if latent else None)


def _by_reference(network, batches, latent):
    from ..reference import inference

    last = network.topology.ops[-1].name
    for images in batches:
        if latent:
            layers = inference.layers(network, images)
            yield layers[last], layers[LATENT].reshape(len(images), -1)
        else:
            yield inference.logits(network, images), None


def _by_torch(network, batches, latent):
    torch = extras.load("torch", extras.TRAIN, "--backend torch")

    from ..nn.network import load

    model = load(network).eval()
    with torch.no_grad():
        for images in batches:
            features = None
            for op, output in model.activations(model.encode(torch.from_numpy(images))):
                if latent and op.name == LATENT:
                    features = bits.to_bits(output.flatten(1).numpy())
            yield output.flatten(1).numpy(), features


def match_classes(images, network, where):
    """`images` with the labels of the network's classes: by name where any name is known, else by number; and a note or None."""
    classes = network.topology.classes
    own = {spelled(name): number for number, name in enumerate(images.classes)}
    shared = [name for name in classes if spelled(name) in own]
    if shared:
        if len(shared) == len(classes) == len(images.classes):
            return images.select(classes), None
        number = {own[spelled(name)]: classes.index(name) for name in shared}
        shown = np.isin(images.labels, list(number))
        labels = np.array([number[label] for label in images.labels[shown]], np.int64)
        return (type(images)(images.images[shown], labels, classes, images.source),
                f"{int(shown.sum())} of {len(shown)} images are of the {len(shared)} classes that the model and the data set share")
    if len(classes) == len(images.classes):
        return type(images)(images.images, images.labels, classes, images.source), "the class names differ, so classes are taken by number"
    raise InputError(f"{where}: has the {len(classes)} classes {', '.join(classes[:3])}..., none of them in the data set's "
                     f"{', '.join(images.classes[:3])}...; expected a model trained on this data set")


def scores(labels, answers, classes):
    """(correct, recall of each class or None where it has no image, dispersion = standard deviation of the recalls)."""
    recalls = [float((answers[labels == i] == i).mean()) if (labels == i).any() else None for i in range(len(classes))]
    return int((answers == labels).sum()), recalls, float(np.std([r for r in recalls if r is not None]))


def reproduction(training, data, correct, count):
    """The accuracy that the file states, and whether this run reproduces it; None where it states none, or one of other images."""
    stated, images, stated_data = (training.get(key) for key in ("test_accuracy", "test_images", "data"))
    if not isinstance(stated, float | int) or not 0 <= stated <= 1 or type(images) is not int:
        return {"stated_accuracy": None, "stated_images": None, "stated_data": None, "reproduces": None}
    same = isinstance(stated_data, str) and os.path.normpath(stated_data) == os.path.normpath(data) and images == count
    return {"stated_accuracy": stated, "stated_images": images, "stated_data": stated_data,
            "reproduces": round(stated * images) == correct if same else None}
