"""A lesson: a board is taught a class, and the effect on the classes before is measured."""

from dataclasses import dataclass, field

import numpy as np

from ..base.errors import LONGEST_NAME, InputError, UsageError, is_name, spelled, whole
from ..base.progress import silent
from ..design import review_exemplars
from ..reference import inference
from ..reference.learning.learner import Learner

ENOUGH, MOST = 0.8, 5
"""A lesson ends when this share of its images is right, or after this many lesson passes."""
PARTS = 5
"""`close` has the images of a lesson in so many parts, each judged by the others."""
REHEARSAL, ROUND = 1000, 100
"""Most replays after a lesson, and how many are made before the exemplars are looked at again."""


@dataclass(frozen=True)
class Effect:
    """The effect of a lesson on another class, measured on the exemplars that were stored before the lesson.

    exemplars: how many there were.  right_before, right_after: how many of them were right before and after the lesson.
    """

    exemplars: int
    right_before: int
    right_after: int

    @property
    def lost(self) -> bool:
        """Whether more than a tenth of the exemplars were right before and no longer are."""
        return 10 * (self.right_before - self.right_after) > self.exemplars


@dataclass(frozen=True)
class Close:
    """The known class that a class to be taught is close to."""

    name: str  # of the known class
    mistaken: int  # how many images of the lesson would be taken for it by a learner that has seen the others alone


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
    close : Close or None
        The known class that this one is close to; see `close`.
    rehearsed : int
        Replays after the lesson.
    """

    label: str
    index: int
    new: bool
    images: int
    passes: int = 0
    right_before: int = 0
    right_after: int = 0
    effects: dict[str, Effect] = field(default_factory=dict)
    close: Close | None = None
    rehearsed: int = 0

    @property
    def lost(self) -> list[str]:
        """Names of the classes that lost more than a tenth of their exemplars."""
        return [name for name, effect in self.effects.items() if effect.lost]


def check_label(label: str, where: object = "--label") -> None:
    """Raises UsageError where `label` cannot be the name of a class.  where: what has it, in messages."""
    if not isinstance(label, str):
        raise UsageError(f"label: found {label!r}, expected a name")
    if len(label) > LONGEST_NAME:
        raise UsageError(f"{where}: found a name of {len(label)} characters, expected at most {LONGEST_NAME}")
    if label != label.strip(" ") or not is_name(label):
        raise UsageError(f"{where} {label!r}: expected a name of printable characters that begins and ends with none that is blank")


def check_room(board, labels) -> None:
    """Raises InputError where there is no room for those of the classes `labels` that are new."""
    names, most = list(filter(None, board.names)), board.identity.max_classes
    new = [label for label in labels if spelled(label) not in map(spelled, names)]
    if len(names) + len(new) > most:
        raise InputError(f"--label {', '.join(new)}: the board has room for {most} classes and knows {', '.join(names) or 'none'}; "
                         f"expected {'one of them' if len(new) == 1 else 'fewer new ones'}, or a design made with more --max-classes")


def class_number(board, label: str) -> int:
    """Number of the class `label`, known or the next new one.  Raises InputError where there is no room for a new one."""
    check_label(label)
    check_room(board, [label])
    names = board.names
    free = names.index(None) if None in names else len(names)
    return next((n for n, name in enumerate(names) if name and spelled(name) == spelled(label)), free)


def close(learner, names, index: int, latents) -> Close | None:
    """The known class that class `index` would be close to after a lesson of these latents, uint8 bits (N, latent).

    The images are cut into `PARTS` parts in their order, and each part is judged by a learner that has seen the others alone: frames of a
    camera that follow each other are alike.  None where more than `ENOUGH` of them are right, of one image, and without another class.
    learner: a `Learner` that sums its samples, which stays as it is.
    """
    if not learner.known or len(latents) < 2:
        return None
    trial, state = Learner(learner.head, learner.config, learner.shipped_hidden, learner.shipped), learner.snapshot()
    answers = []
    for part in np.array_split(np.arange(len(latents)), min(PARTS, len(latents))):
        trial.restore(state)
        others = np.delete(latents, part, 0)
        trial.learn(others, [index] * len(others))
        answers += trial.classify(latents[part]).tolist()
    mistaken = [answers.count(number) if number != index else 0 for number in range(len(names))]
    if len(latents) - sum(mistaken) > ENOUGH * len(latents):
        return None
    return Close(names[int(np.argmax(mistaken))], max(mistaken))


def teach(board, images, label: str, passes: int | None = None, rehearse: int = REHEARSAL, note=None, progress=silent) -> Lesson:
    """Teach a `board.Board` a class, as its method `learn` says.

    What the board knew before is kept in the file `board.before`, for `board.undo`; what it knows
    afterwards, in `board.file`.  Each lesson pass is announced before; see `pupil`.
    """
    for name, value, least in ("passes", passes, 1), ("rehearse", rehearse, 0):
        if value is not None and not whole(value, least):
            raise UsageError(f"{name}: found {value!r}, expected a whole number from {least}")
    images, index, twin = board.pictures(images), class_number(board, label), board.twin
    if twin.frozen:
        raise InputError(f"{board.client.name}: is frozen, expected a board that may learn; --thaw or Board.freeze(False) ends that")
    if twin.config.adds:
        passes = passes or 1
    names = board.names
    new = index == len(names) or names[index] is None
    label = spelled(label) if new else names[index]
    lesson = Lesson(label, index, new, len(images))
    origin, features = board.pupil.taught(), inference.latents(board.design.network, images)
    if twin.config.adds:
        lesson.close = close(twin, names, index, features)
        if lesson.close and note:
            note(f"{label} is close to {lesson.close.name}: {lesson.close.mistaken} of {len(images)} images, each judged by others of the "
                 "lesson, would be taken for it; the two may be mixed up, show more varied images, or take the lesson back with --undo")
    watched = _Watched(twin, names, index)
    with progress(desc="images on the board") as bar:
        while lesson.passes < (passes or MOST) and (passes or lesson.right_after < ENOUGH * lesson.images):
            board.pupil.announce(*(("learn", index, np.packbits(latent).tobytes()) for latent in features),
                                 names=[*names[:index], label, *names[index + 1:]], origin=origin)
            _show(board, lesson, images, features, bar)
    lesson.effects = watched.effects(board.twin)
    board.pupil.commit()
    while lesson.lost and lesson.rehearsed < rehearse:
        count = min(ROUND, rehearse - lesson.rehearsed)
        board.rehearse(count)
        lesson.rehearsed += count
        lesson.effects = watched.effects(board.twin)
    return lesson


class _Watched:
    """The exemplars of the other classes that are stored before a lesson."""

    def __init__(self, twin, names, index):
        self.labels, self.latents = np.array(twin.buffer.labels[:twin.buffer.used], int), twin.buffer.latents
        self.names, self.numbers = names, np.unique(self.labels[self.labels != index]).tolist()
        self.before = self._right(twin)

    def _right(self, twin):
        return twin.classify(self.latents) == self.labels if len(self.labels) else np.zeros(0, bool)

    def effects(self, twin):
        """{name: `Effect`} of each class."""
        now = self._right(twin)
        return {self.names[number]: Effect(*(int(values[self.labels == number].sum()) for values in (np.ones_like(now), self.before, now)))
                for number in self.numbers}


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
    count = len(labels) // board.design.config.learning.shipped
    known = ~np.isin(labels, list(board.twin.forgotten))
    board.pupil.store(latents[known], labels[known])
    return count
