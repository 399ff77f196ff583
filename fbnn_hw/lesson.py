"""A lesson: a board is taught a class, and what that did to the classes that it knew before is measured."""

from dataclasses import dataclass, field

import numpy as np

from .errors import InputError, UsageError
from .host.taught import LONGEST_NAME
from .ir.network import LATENT
from .progress import silent
from .reference import inference
from .reference.learning.config import PROTOTYPES

REVIEW = 10
"""Images of each class of the model that are stored for replay before the first lesson."""
ENOUGH, MOST = 0.8, 5
"""Share of the images of a lesson that must be right, and passes over them at most until then."""


@dataclass(frozen=True)
class Effect:
    """The effect of a lesson on a class, on its exemplars stored before: how many, and how many were right before and after."""

    exemplars: int
    right_before: int
    right_after: int


@dataclass
class Lesson:
    """The result of a lesson.

    label: name of the class.  index: its number.  new: whether it was not known before.  images, passes: how many.
    right_before: images that were right when first shown.  right_after: images that were right after the last pass.
    effects: {class: `Effect`} of the classes that had exemplars before.
    """

    label: str
    index: int
    new: bool
    images: int
    passes: int = 0
    right_before: int = 0
    right_after: int = 0
    effects: dict[str, Effect] = field(default_factory=dict)


def check_label(label: str) -> None:
    """UsageError unless `label` can be the name of a class."""
    if label != label.strip() or not label.isprintable() or not label:
        raise UsageError(f"--label {label!r}: expected a name of printable characters that begins and ends with none that is blank")
    if len(label) > LONGEST_NAME:
        raise UsageError(f"--label: found a name of {len(label)} characters, expected at most {LONGEST_NAME}")


def class_number(board, label: str) -> int:
    """Number of the class `label`, known or the next new one; InputError where there is no room for it."""
    check_label(label)
    names, most = board.names, board.identity.max_classes
    number = names.index(label) if label in names else len(names)
    if number == most:
        raise InputError(f"--label {label}: the board has room for {most} classes and knows {', '.join(names)}; expected one "
                         "of them, or a design made with more --max-classes")
    return number


def teach(board, images, label: str, passes: int | None = None, progress=silent) -> Lesson:
    """Teach a board the class `label` from images, uint8 RGB (N, 3, S, S).

    passes: times that the images are shown; None: until `ENOUGH` of them are right, at most `MOST`; once to a learner of prototypes,
    whose sums would only grow.
    What the board knew before is kept in `board.before`, for `board.undo`; what it knows afterwards in `board.file`.
    Raises InputError where the board is frozen or has no room; after an interrupt the board's twin holds what was learned until then.
    """
    images, index, twin = np.asarray(images), class_number(board, label), board.twin
    if twin.frozen:
        raise InputError(f"{board.client.name}: is frozen, expected a board that may learn; add --thaw")
    if twin.config.rule == PROTOTYPES:
        passes = passes or 1
    names = board.names
    lesson = Lesson(label, index, index == len(names), len(images))
    labels, latents = np.array(twin.buffer.labels[:twin.buffer.used], int), twin.buffer.latents
    before = _answers(twin, latents)
    board.write_before()
    features = inference.layers(board.design.network, images)[LATENT].reshape(len(images), -1)
    with progress(desc="images on the board") as bar:
        while lesson.passes < (passes or MOST) and (passes or lesson.right_after < ENOUGH * lesson.images):
            _show(board, lesson, images, features, bar)
    after = _answers(twin, latents)
    for number in np.unique(labels).tolist():
        chosen = labels == number
        lesson.effects[names[number]] = Effect(
            int(chosen.sum()), int((before[chosen] == number).sum()), int((after[chosen] == number).sum()))
    board.keep()
    return lesson


def _answers(twin, latents):
    """Class of each latent, int64 (N,)."""
    return twin.classify(latents) if len(latents) else np.zeros(0, np.int64)


def _show(board, lesson, images, features, bar):
    """One pass over the images: each is classified and learned; then all are classified again."""
    for image, latent in zip(images, features):
        lesson.right_before += board.answer(image) == lesson.index and not lesson.passes
        board.learn_shown(lesson.index, lesson.label, latent)
        bar.update()
    lesson.passes += 1
    lesson.right_after = 0
    for image in images:
        lesson.right_after += board.answer(image) == lesson.index
        bar.update()


def review(board, source: str | None = None, data_dir=None, progress=silent) -> int:
    """Store exemplars of the model's classes in an empty replay buffer; returns how many of each, 0 where nothing was stored.

    Without them the first lesson would make the board forget these classes.  source: name of a data set; None: the images that ship.
    Raises InputError where a data set that was named does not have these classes at this size.
    """
    if board.client.learned()[1]:
        return 0
    exemplars = review_exemplars(board.design, source, data_dir, progress)
    if exemplars is None:
        return 0
    labels, latents = exemplars
    twin = board.twin
    board.chip.store(latents, labels)
    twin.store(latents, labels)
    return len(labels) // board.design.config.learning.shipped


def review_exemplars(design, source: str | None = None, data_dir=None, progress=silent):
    """(labels, latents) of `REVIEW` images of each of a design's classes, int (N,) and uint8 bits (N, latent); None where there are none.

    Raises as `review`.
    """
    from .data import datasets

    plan = design.config.learning
    count = min(REVIEW, plan.slots // (2 * plan.shipped or 1))
    if not count or not plan.shipped:
        return None
    images = datasets.load(source or "fixture", data_dir, progress=progress)
    classes, size = design.classes[:plan.shipped], images.images.shape[-1]
    if not set(classes) <= set(images.classes) or size != design.config.size:
        if source:
            raise InputError(f"--review {source}: has {size} x {size} images of {', '.join(images.classes)}, expected "
                             f"{design.config.size} x {design.config.size} of {', '.join(classes)}")
        return None
    images = images.select(classes).thinned(count)
    return images.labels, inference.layers(design.network, images.images)[LATENT].reshape(len(images.labels), -1)
