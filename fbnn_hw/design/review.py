"""Exemplars of the classes that a learner ships with, which are stored before the first lesson."""

import numpy as np

from ..base.errors import InputError
from ..base.progress import silent
from ..reference import inference

REVIEW = 10
"""Images of each class of the model that are stored for replay before the first lesson."""


def each(plan) -> int:
    """Images of each class of the model that the plan of a learner has room for: half of its buffer; 0 where the model has no class."""
    return min(REVIEW, plan.slots // (2 * plan.shipped)) if plan.shipped else 0


def review_exemplars(design, source: str | None = None, data_dir=None, progress=silent):
    """Return (labels, latents) of `REVIEW` images of each class of a design, or fewer where a class has fewer; None where there are none.

    labels: int (N,).  latents: uint8 bits (N, latent).  Raises as `review`.
    """
    from ..data import datasets

    plan = design.config.learning
    count = each(plan)
    if not count:
        return None
    images = datasets.load(source or "fixture", data_dir, progress=progress)
    classes, size = design.classes[:plan.shipped], images.images.shape[-1]
    if not set(classes) <= set(images.classes) or size != design.config.size:
        if source:
            raise InputError(f"--review {source}: has {size} x {size} images of {', '.join(images.classes)}, expected "
                             f"{design.config.size} x {design.config.size} of {', '.join(classes)}")
        return None
    images = images.select(classes)
    images = images.thinned(min(count, int(np.bincount(images.labels, minlength=len(classes)).min())))
    return images.labels, inference.latents(design.network, images.images)
