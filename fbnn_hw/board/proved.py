"""A board behind a line against the reference: pictures bit for bit, and a lesson with its snapshot where the design learns."""

from dataclasses import dataclass, field

import numpy as np

from ..base.progress import silent
from ..design import Design
from ..link.chip import ChipState
from ..link.client import Client, Transport
from ..reference import inference

WAIT_S = 600
"""A bitstream in simulation takes minutes for what a board does in milliseconds."""


@dataclass
class Proof:
    """What was compared."""

    logits: list = field(default_factory=list)  # of each picture
    cycles: list = field(default_factory=list)  # of the design for each, from its last byte to the first logit
    lesson: int | None = None  # how many pictures were taught as a new class, None where the design does not learn
    snapshot: int | None = None  # bytes of the state that was read back and compared
    differences: list = field(default_factory=list)  # a line each


def prove(line: Transport, design: Design, images: np.ndarray, progress=silent) -> Proof:
    """Compare the board at a line, which has just started, with the reference; InputError where it does not answer.

    images: uint8 RGB (N, 3, S, S).  A design that learns is then taught them as a class that it does not know, or its last one where it
    has no room; its state is read back, and the pictures are compared once more.
    """
    client, proof = Client(line, WAIT_S, WAIT_S), Proof()
    client.identify().compare(design.config)
    client.wait_ready()
    mark = client.identify().model.hex()  # it comes with the weights
    if mark != design.model_mark:
        proof.differences.append(f"holds the weights {mark}, {design.folder} has {design.model_mark}")
    client.asks_unknown = bool(design.config.learning and design.config.learning.unknown)
    twin = design.learner() if design.config.learning else None
    with progress(total=len(images) * (3 if twin else 1), desc="pictures") as bar:
        for number, image in enumerate(images):
            proof.logits.append(_classify(client, design, twin, image, f"picture {number}", proof))
            proof.cycles.append(client.status().cycles)
            bar.update()
        if twin is None:
            return proof
        label = min(twin.known, design.config.learning.max_classes - 1)
        for number, image in enumerate(images):
            _classify(client, design, twin, image, f"picture {number} of the lesson", proof)
            client.learn(label)
            twin.learn(_latent(design, image), [label])
            bar.update()
        state = ChipState(design.config.learning, design.learner(), client.peek, client.poke).snapshot()
        proof.lesson, proof.snapshot = len(images), len(state)
        if state != twin.snapshot():
            proof.differences.append("the snapshot after the lesson is not the reference's")
        for number, image in enumerate(images):
            _classify(client, design, twin, image, f"picture {number} after the lesson", proof)
            bar.update()
    return proof


def _latent(design, image):
    return inference.latents(design.network, image[None])


def _classify(client, design, twin, image, what, proof):
    """The logits of an image; a difference is noted."""
    expected = (twin.logits(_latent(design, image)) if twin else inference.logits(design.network, image[None]))[0].tolist()
    result = list(client.classify(design.pixels(image[None])[0]).logits or ())
    if result != expected:
        proof.differences.append(f"{what}: logits {result}, expected {expected}")
    return result
