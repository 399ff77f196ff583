"""A board that holds a generated design: on a desk behind a serial port, or simulated.

    with Board.virtual(design) as board:
        board.classify(images).names
        board.learn(images, "cat")
        board.snapshot("state")
"""

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import numpy as np

from ..base import bits, files
from ..base.errors import FbnnError, InputError, UsageError, spelled, whole
from ..base.progress import silent
from ..design import Design, holding, link_speeds
from ..link import speed
from ..link.chip import ChipState
from ..link.client import Client, Transport
from ..link.transport import Serial
from ..machine.config import RGB_BITS
from ..machine.protocol import Result
from ..reference import encode
from . import slots
from .pupil import KEEP_S, Astray, Pupil, spare
from .taught import Taught, named

VIRTUAL_WAIT_S = 300
"""A simulation takes seconds for what a board does in milliseconds."""


@dataclass(frozen=True)
class Classification:
    """Answers of a board to N images.

    Attributes
    ----------
    logits : int32 array (N, classes known)
    classes : list of int
        Class number of each image; None where the board knows no class, or answers "unknown".
    names : list of str
        Their names; None as there.
    latents : uint8 array (N, bits of the latent), or None
        Bits, 0 and 1; None where they were not asked for.
    cycles : list of int
        Clocks of each image, from its last byte to its first logit.
    unknown : list of bool
        Whether the answer is "unknown".
    """

    logits: np.ndarray
    classes: list[int | None]
    names: list[str | None]
    latents: np.ndarray | None = None
    cycles: list[int] = field(default_factory=list)
    unknown: list[bool] = field(default_factory=list)


class Board:
    """An open board.  The context managers `virtual`, `interpreted` and `open` make one.

    A board on a desk forgets what it learned when its power goes, a simulated board when it ends.  The
    state after each lesson is kept in the folder of the design.  A simulated board starts with it.

    Attributes
    ----------
    client : link.client.Client
        The requests to the board.
    identity : protocol.Identity
        What the board says it is.
    design : Design or None
        The design that it holds; None where that is not known.
    simulated : bool
        Whether it is a virtual or an interpreted board.

    Raises
    ------
    InputError
        Every method raises it where the board does not answer, or does not fit the design.
    """

    def __init__(self, client: Client, design: Design | None, simulated: bool) -> None:
        self.client, self.design, self.simulated = client, design, simulated
        client.identify()
        client.wait_ready()
        self.identity = client.identify()  # the model's mark comes with the weights
        self._match()
        self._pupil: Pupil | None = None
        self._erased = False

    @classmethod
    def started(cls, line: Transport, design: Design, learns: bool = True) -> Self:
        """A simulated board that has just started, which is given what the last one of its design was taught.  learns: as of `virtual`."""
        board = cls(Client(line, wait_s=VIRTUAL_WAIT_S, ready_s=VIRTUAL_WAIT_S), design, True)
        board._restore_kept(learns)
        return board

    @classmethod
    @contextmanager
    def virtual(cls, design: Design | str | Path, *, learns=True, note=None):
        """Compile and start the virtual board of a design; a context manager that yields a `Board`.

        Parameters
        ----------
        design : Design, str or Path
            The design, or its folder.
        learns : bool
            False: the board will only classify, so that less of its kept state is restored.
        note : callable, optional
            Called with lines for the user.

        Raises
        ------
        ToolError
            A tool is missing or fails.
        InputError
            Another program runs the virtual board of this design.
        """
        from ..simulate import virtual

        design = design if isinstance(design, Design) else Design(design)
        with virtual.alone(design.folder), virtual.VirtualBoard(design.folder, note=note) as simulation, Serial(simulation.port) as port:
            yield cls.started(port, design, learns)
            if (faults := simulation.faults()) and note:
                note(f"the {'SDRAM' if faults.startswith('sdram') else 'flash'} was used against its rules: {faults}")

    @classmethod
    @contextmanager
    def interpreted(cls, design: Design | str | Path, *, note=None):
        """Start the interpreted board of a design, which needs no compiler; a context manager that yields a `Board`.

        It gives the bits of the virtual board, whose kept state it shares, and shows nothing of gates.  design, note: as of `virtual`.
        Raises InputError where the folder's program cannot be carried out, or another program runs a board of this folder.
        """
        from ..simulate import virtual
        from .interpreted import NOTE, InterpretedBoard

        design = design if isinstance(design, Design) else Design(design)
        with virtual.alone(design.folder), InterpretedBoard(design) as line:
            yield cls.started(line, design)
            if note:
                note(NOTE)

    @classmethod
    @contextmanager
    def open(cls, port: str, design: Design | str | Path | None = None, *, baud: int | None = None, note=None):
        """Open the board at a serial port; a context manager that yields a `Board`.

        Parameters
        ----------
        port : str
            For example "/dev/ttyUSB1".
        design : Design, str or Path, optional
            The design that the board holds; by default the youngest one in rtl_out with the board's
            configuration id and, where there is one, with its weights.
        baud : int, optional
            Bits a second; by default the speed of `design.link_speeds` at which the board answers.
        note : callable, optional
            Called with lines for the user.

        Raises
        ------
        InputError
            The port cannot be opened, nothing answers, or the board holds another design.
        """
        if design is not None and not isinstance(design, Design):
            design = Design(design)
        with Serial(port, baud or speed.answered(port, link_speeds(design))) as line:
            board = cls(Client(line), design, False)
            if note and board.design and board.design.model_mark != board.identity.model.hex():
                note(f"{board.client.name}: holds the weights {board.identity.model.hex()}, {board.design.folder} has "
                     f"{board.design.model_mark}")
            yield board

    def _match(self):
        """Look for the design where none was named; refuse one that the board does not hold."""
        config = self.identity.config.hex()
        if self.design is None:
            self.design = holding(config, self.identity.model.hex())
        elif self.design.config_id != config:
            raise InputError(f"{self.client.name}: holds configuration {config}, {self.design.folder} is {self.design.config_id}; "
                             "build and flash that folder, or name another with --design")
        if self.design:
            self.identity.compare(self.design.config, self.client.name)
            self.client.asks_unknown = bool(self.learns and self.design.config.learning.unknown)

    # Classes and images.

    @contextmanager
    def erased(self):
        """A context manager in which the classes are the design's, since a test has erased what the board was taught."""
        self._erased = True
        try:
            yield
        finally:
            self._erased = False

    @property
    def names(self) -> list[str | None]:
        """Names of the classes that the board knows, by number; a class without a name is `class N`, a forgotten one None."""
        if self.learns and not self._erased and self._of_the_design():
            kept = self.pupil.kept
            if self.pupil.twin or kept.file.exists() or kept.lesson.exists():
                return self.pupil.names
        shipped = list(self.design.classes) if self.design else [str(n) for n in range(self.identity.classes)]
        return named(shipped, self.client.learned()[0] if self.learns else self.identity.classes)

    def classify(self, images, latent=False, progress=silent) -> Classification:
        """Classify images on the board.

        Parameters
        ----------
        images : uint8 array (N, 3, S, S)
            RGB, S pixels a side as the design has them.
        latent : bool
            Read the latents, too.
        progress : callable
            Makes a progress bar, as tqdm does.

        Returns
        -------
        Classification

        Raises
        ------
        InputError
            The images have another shape or type, or the board sends what it cannot mean.
        """
        self._with_latents(latent)
        images = self.pictures(images)
        return self._answers(self.client.classify_all(self._pixels(images), latent=latent), len(images), latent, progress)

    def see(self, count: int = 1, latent=False, progress=silent) -> Classification:
        """Classify the next images of the board's own camera, which has been built with --link.

        Parameters
        ----------
        count : int
            How many images.
        latent, progress
            As of `classify`.

        Returns
        -------
        Classification

        Raises
        ------
        InputError
            The board has no camera, or no image comes, or the board sends what it cannot mean.
        UsageError
            `count` is no whole number from 1.
        """
        if not whole(count, 1):
            raise UsageError(f"count: found {count!r}, expected a whole number from 1")
        self._with_latents(latent)
        return self._answers(((self.client.see(latent=latent), self.client.status()) for _ in range(count)), count, latent, progress)

    def _with_latents(self, latent):
        """Refuse to read latents of a board whose design is not known."""
        if latent and self.design is None:
            raise InputError("--latent: the order of its bits stands in the design's folder, "
                             f"configuration {self.identity.config.hex()}; name it with --design")

    def _answers(self, answers, count, latent, progress):
        """The `Classification` of `count` answers of the client, each with its status."""
        names, cycles = self.names, []
        results: list[Result] = []
        with progress(total=count, desc="images on the board") as bar:
            for result, status in answers:
                results.append(result)
                logits = result.logits or ()
                if len(logits) != len(names):
                    raise InputError(f"{self.client.name}: gave {len(logits)} logits, expected {len(names)}, "
                                     "one of each class known")
                cycles.append(status.cycles)
                bar.update()
        unknown = [result.unknown for result in results]
        classes = [None if result.unknown else result.index for result in results]
        latents = None
        if latent:
            packed = [np.frombuffer(result.latent, np.uint8) for result in results]
            latents = np.array([bits.unpack(data, 8 * len(data))[self.design.layout["latent_bits"]] for data in packed])
        return Classification(np.array([result.logits for result in results], np.int32), classes,
                              [None if n is None else names[n] for n in classes], latents, cycles, unknown)

    def answer(self, image) -> int | None:
        """Class number of one image, uint8 RGB (3, S, S); None where the board knows no class or "unknown".  Raises as `classify`."""
        result = self.client.classify(*self._pixels(self.pictures(np.asarray(image)[None])))
        return None if result.unknown else result.index

    def pictures(self, images):
        """`images` as an array that the board takes, uint8 RGB (N, 3, S, S) with N from 1; raises InputError where they are none."""
        return encode.checked(images, self.identity.size)

    def _pixels(self, images):
        """Images, uint8 RGB (N, 3, S, S), as a list of bytes that the board takes."""
        if self.design:
            return self.design.pixels(images)
        if self.identity.pixel_bits != RGB_BITS:
            raise InputError(f"{self.client.name}: takes images as levels, which the design's folder makes, "
                             f"configuration {self.identity.config.hex()}; name it with --design")
        return [row.tobytes() for row in encode.to_bytes(images)]

    # What the board was taught.

    @property
    def learns(self) -> bool:
        """Whether the design learns."""
        return bool(self.identity.max_classes)

    @property
    def pupil(self) -> Pupil:
        """The learner and its twin.  Raises InputError where the design or its weights are not those of the board."""
        if not self.learns:
            raise InputError(f"{self.client.name}: this design does not learn; expected one made with fbnn-hw generate --learn")
        if not self._pupil:
            self._pupil = Pupil(self.client, self.held_design(), self.simulated)
        return self._pupil

    @property
    def chip(self) -> ChipState:
        """Access to the state of the learner.  Raises as `pupil`."""
        return self.pupil.chip

    def held_design(self) -> Design:
        """The design.  Raises InputError where the board holds another one, or other weights."""
        if self.design is None or not self._of_the_design():
            raise InputError(f"{self.client.name}: holds configuration {self.identity.config.hex()} with weights "
                             f"{self.identity.model.hex()}; name the folder of that design with --design")
        return self.design

    @property
    def twin(self):
        """The reference `Learner` in the board's state.  Lessons change both alike, so the state is read only once."""
        self.pupil.find()
        return self.pupil.twin

    def learn(self, images, label: str, **options):
        """Teach the board a class.

        Parameters
        ----------
        images : uint8 array (N, 3, S, S)
            RGB pictures of the class.
        label : str
            Name of the class, known or new.
        passes : int, optional
            Times that all images are shown.  By default until the share `lesson.ENOUGH` of them is right, at most `lesson.MOST` times; to
            a learner of prototypes once, since more would only add the same sums.
        rehearse : int, optional
            Most replays of exemplars after the lesson, until no class has lost more than a tenth of its own (default: 1000).
        note : callable, optional
            Called with a line where the class is close to a known one, before it is learned.
        progress : callable
            Makes a progress bar, as tqdm does.

        Returns
        -------
        lesson.Lesson
            How many images were right before and after, and the effect on the other classes.

        Raises
        ------
        InputError
            The board is frozen, does not learn, or has no room for a class; the images have another shape or type.
        UsageError
            The label is no legal name, or `passes` no whole number from 1.
        """
        from .lesson import teach

        return teach(self, images, label, **options)

    def forget(self, label: str) -> None:
        """Make the board forget a class: its row and its exemplars.  All others stay as they are and keep their numbers; `undo` brings
        it back.

        Raises UsageError where the design cannot forget, the class is not known, or it is the last one of a design that ships some,
        InputError where the board is frozen.
        """
        if not isinstance(label, str):
            raise UsageError(f"label: found {label!r}, expected the name of a class")
        names, learner = self.names, self.held_design().learner()
        number = next((n for n, name in enumerate(names) if name and spelled(name) == spelled(label)), None)
        if number is None:
            raise UsageError(f"--forget {label}: the board knows {', '.join(filter(None, names)) or 'no class'}, expected one of them")
        learner.restore(self.twin.snapshot())
        if learner.frozen:
            raise InputError(f"{self.client.name}: is frozen, expected a board that may forget; --thaw or Board.freeze(False) ends that")
        learner.forget(number)
        names[number] = None
        self.pupil.begin()
        self.pupil.take_up(Taught(tuple(names[:learner.known]), learner.snapshot()), self.file, self.pupil.taught())

    def flash_slots(self, path: str | Path) -> None:
        """Write what the board was taught as the flash slots of its design (docs/device.md).

        Raises UsageError where that was not made with --keep.
        """
        taught, design = self.pupil.taught(), self.held_design()
        if not design.config.keeps:
            raise UsageError(f"{design.folder}: keeps nothing in a flash, expected a design made with generate --keep")
        files.write(path, slots.pack(taught, design))

    def snapshot(self, path: str | Path) -> None:
        """Write what the board was taught, and the names of the classes, to a file."""
        files.write(path, self.pupil.taught().pack())

    def restore(self, path: str | Path) -> None:
        """Restore what a file of `snapshot` or `flash_slots` holds.

        Raises InputError, before anything changes, where the file is not of this design.
        """
        taught = slots.read(path, self.design)
        taught.state(self.chip.learner, path)
        self.pupil.begin(taught.pack())
        self.pupil.take_up(taught, path)

    def reset(self) -> None:
        """Put the board back into its shipped state.  What it was taught is lost."""
        self.pupil.begin(b"")
        self.pupil.reset()

    def rehearse(self, count: int) -> None:
        """Replay stored exemplars `count` times.  Raises UsageError where that is no whole number from 0."""
        if not whole(count):
            raise UsageError(f"count: found {count!r}, expected a whole number from 0")
        self.pupil.rehearse(count)

    def freeze(self, frozen: bool = True) -> None:
        """Make the board refuse to learn; with False, let it learn again.  Raises UsageError for what is neither True nor False."""
        if not isinstance(frozen, bool | np.bool_):
            raise UsageError(f"frozen: found {frozen!r}, expected True or False")
        if not self._of_the_design():
            self.client.freeze(frozen)
            return
        self.pupil.freeze(frozen)

    # The file of what it was taught.

    @property
    def file(self) -> Path:
        """Path of the file that keeps what it was taught."""
        return self.pupil.kept.file

    @property
    def before(self) -> Path:
        """Path of the file that keeps what it knew before the last lesson."""
        return self.pupil.kept.before

    def taught(self) -> Taught | None:
        """The content of `file`, or None."""
        return self.pupil.kept.taught() if self._of_the_design() and self.learns else None

    def _of_the_design(self):
        """Whether the design is known, and its weights are the board's."""
        return self.design is not None and self.design.model_mark == self.identity.model.hex()

    def keep_interrupted(self) -> Path | None:
        """As `Pupil.interrupted`."""
        return self._pupil.interrupted() if self._pupil else None

    def restore_interrupted(self, snapshot) -> Path | None:
        """Give a board on a desk back what it was taught, after an interrupt and within `KEEP_S` seconds.

        Returns None, or the Path of a file beside `file` that has it, where there was no time.
        """
        try:
            with self.client.within(KEEP_S):
                self.chip.restore(snapshot, self.client.name)
                return None
        except FbnnError:
            taught = self.taught()
            files.write(path := spare(self.file), (taught if taught and taught.snapshot == snapshot else Taught((), snapshot)).pack())
            return path

    def undo(self) -> Path:
        """Take the last lesson back; a second call restores it.  A frozen board stays frozen.

        Returns the Path of the file that the state came from.  Raises InputError where there is no lesson to take back.
        """
        if not self.design or not self.before.exists():
            raise InputError(f"{self.client.name}: no lesson to take back; expected one before, with this design")
        self.pupil.begin()
        taught = Taught.read(self.before)
        state = replace(taught.state(self.chip.learner, self.before), frozen=self.twin.frozen)
        self.pupil.take_up(Taught(taught.names, state.pack()), self.before, self.pupil.taught())
        return self.before

    def _restore_kept(self, learns):
        """Give a board that has just started what the last one was taught."""
        if taught := self.taught():
            try:
                chip = self.chip
                taught.state(chip.learner, self.file)
                chip.restore(taught.snapshot, self.file, learns)
            except InputError as error:
                raise InputError(f"{error}; move it away, and the board begins with the classes of the design") from None

    def put_aside(self) -> Path | None:
        """Write what the board learned beside `file`; None where it learned nothing.  Of a board that is astray, copy `file`."""
        try:
            taught = self.pupil.taught()
        except Astray:
            return self.pupil.kept.aside()
        if taught.snapshot == self.pupil.design.learner().snapshot():
            return None
        files.write(path := spare(self.file), taught.pack(), durable=True)
        return path
