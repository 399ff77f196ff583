"""A lesson: a board is taught a class, and the effect on the classes before is measured."""

from dataclasses import dataclass, field

import numpy as np

from ..base.errors import LONGEST_NAME, InputError, UsageError, is_name, spelled, whole
from ..base.progress import silent
from ..design import review_exemplars
from ..reference import inference

ENOUGH, MOST = 0.8, 5
"""A lesson ends when this share of its images is right, or after this many lesson passes."""


@dataclass(frozen=True)
class Effect:
    """The effect of a lesson on another class, measured on the exemplars that were stored before the lesson.

    exemplars: how many there were.  right_before, right_after: how many of them were right before and after the lesson.
    """

    exemplars: int
    right_before: int
    right_after: int


@dataclass
class Lesson:
    """The result of a lesson.

    Attributes
    ----------
    label : str
        Name of the class that was taught.
    index : int
        Its number.
    new : bool
        Whether the board did not know it before.
    images, passes : int
        Images of the lesson, and how often all of them were shown.
    right_before, right_after : int
        Images that were right when first shown, and after the last lesson pass.
    effects : dict
        {name: `Effect`} of the classes that had exemplars before.
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
    """Raises UsageError where `label` cannot be the name of a class."""
    if not isinstance(label, str):
        raise UsageError(f"label: found {label!r}, expected a name")
    if len(label) > LONGEST_NAME:
        raise UsageError(f"--label: found a name of {len(label)} characters, expected at most {LONGEST_NAME}")
    if label != label.strip(" ") or not is_name(label):
        raise UsageError(f"--label {label!r}: expected a name of printable characters that begins and ends with none that is blank")


def class_number(board, label: str) -> int:
    """Number of the class `label`, known or the next new one.  Raises InputError where there is no room for a new one."""
    check_label(label)
    names, most = board.names, board.identity.max_classes
    free = names.index(None) if None in names else len(names)
    number = next((n for n, name in enumerate(names) if name and spelled(name) == spelled(label)), free)
    if number == most:
        raise InputError(f"--label {label}: the board has room for {most} classes and knows {', '.join(names)}; expected one "
                         "of them, or a design made with more --max-classes")
    return number


def teach(board, images, label: str, passes: int | None = None, progress=silent) -> Lesson:
    """Teach a `board.Board` a class, as its method `learn` says.

    What the board knew before is kept in the file `board.before`, for `board.undo`; what it knows
    afterwards, in `board.file`.  Each lesson pass is announced before; see `pupil`.
    """
    if passes is not None and not whole(passes, 1):
        raise UsageError(f"passes: found {passes!r}, expected a whole number from 1")
    images, index, twin = board.pictures(images), class_number(board, label), board.twin
    if twin.frozen:
        raise InputError(f"{board.client.name}: is frozen, expected a board that may learn; --thaw or Board.freeze(False) ends that")
    if twin.config.adds:
        passes = passes or 1
    names = board.names
    new = index == len(names) or names[index] is None
    label = spelled(label) if new else names[index]
    lesson = Lesson(label, index, new, len(images))
    labels, latents = np.array(twin.buffer.labels[:twin.buffer.used], int), twin.buffer.latents
    before, origin = _answers(twin, latents), board.pupil.taught()
    features = inference.latents(board.design.network, images)
    with progress(desc="images on the board") as bar:
        while lesson.passes < (passes or MOST) and (passes or lesson.right_after < ENOUGH * lesson.images):
            board.pupil.announce(*(("learn", index, np.packbits(latent).tobytes()) for latent in features),
                                 names=[*names[:index], label, *names[index + 1:]], origin=origin)
            _show(board, lesson, images, features, bar)
    after = _answers(twin, latents)
    for number in np.unique(labels[labels != index]).tolist():
        of_class = labels == number
        lesson.effects[names[number]] = Effect(
            int(of_class.sum()), int((before[of_class] == number).sum()), int((after[of_class] == number).sum()))
    board.pupil.commit()
    return lesson


def _answers(twin, latents):
    """Classify latents with the twin, int64 (N,)."""
    return twin.classify(latents) if len(latents) else np.zeros(0, np.int64)


def _show(board, lesson, images, features, bar):
    """Make one lesson pass: classify and learn each image, then classify all of them again."""
    for image, latent in zip(images, features):
        lesson.right_before += board.answer(image) == lesson.index and not lesson.passes
        board.pupil.learn(lesson.index, latent)
        bar.update()
    lesson.passes += 1
    lesson.right_after = 0
    for image in images:
        lesson.right_after += board.answer(image) == lesson.index
        bar.update()


def review(board, source: str | None = None, data_dir=None, progress=silent) -> int:
    """Store exemplars of the model's classes in an empty replay buffer.

    Without them the first lesson would make the board forget these classes.  source: name of a data
    set; None: the images that ship.  Returns the number of exemplars of each class, 0 where nothing was
    stored.  Raises InputError where a data set that was named lacks these classes at this size.
    """
    if board.twin.buffer.used:
        return 0
    exemplars = review_exemplars(board.design, source, data_dir, progress)
    if exemplars is None:
        return 0
    labels, latents = exemplars
    board.pupil.store(latents, labels)
    return len(labels) // board.design.config.learning.shipped
