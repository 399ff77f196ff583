"""`fbnn-hw learn`: a board that learns is taught a class, frozen, kept, restored or put back."""

from contextlib import suppress
from pathlib import Path

from ..errors import FbnnError, InputError, UsageError
from . import _board, common

SUMMARY = "teach a board a class from images, new or known; keep, restore or reset what it knows"
EXAMPLES = (
    ("fbnn-hw learn --board virtual --label cat cats/*.png", "a class taught on a simulated board; on a real one: --port /dev/ttyUSB1"),
    ("fbnn-hw learn --port /dev/ttyUSB1 --restore rtl_out/.../learned-board.snapshot", "after power-up: what the board knew"),
)

REVIEW = 10
"""Images of a class."""
LONGEST = 100
"""Characters of a label."""
ENOUGH, MOST = 0.8, 5
"""Of the images of a lesson, passes over them."""


def arguments(parser):
    parser.add_argument("files", nargs="*", metavar="IMAGE",
                        help="of the class --label: PNG or JPEG; .npy of uint8, (H, W, 3) or (3, H, W), or many with N in front")
    parser.add_argument("--label", metavar="NAME", help="the class: one known, or a new one")
    parser.add_argument("--review", metavar="DATA", help=f"before the first lesson, {REVIEW} images of each of the model's classes from "
                        "this data set are stored for replay, or it would forget them; none: nothing (default: fixture, if it has them)")
    parser.add_argument("--data-dir", metavar="DIR", help="where that data set lies (default: $FBNN_DATA, then the user's cache)")
    parser.add_argument("--passes", type=common.count, metavar="N",
                        help=f"times that the images are shown (default: until {ENOUGH:.0%}% of them are right, at most {MOST})")
    parser.add_argument("--rehearse", type=common.count, metavar="N", help="replays of exemplars after the lesson, beside each image's own")
    parser.add_argument("--resize", action="store_true", help="make any picture fit: centre square, scaled, as RGB")
    parser.add_argument("--freeze", action="store_true", help="afterwards it learns nothing until --thaw")
    parser.add_argument("--thaw", action="store_true", help="first end a freeze")
    parser.add_argument("--snapshot", metavar="FILE", help="write what it knows, names included, at the end")
    parser.add_argument("--restore", metavar="FILE", help="first make it know what such a file holds")
    parser.add_argument("--reset", action="store_true", help="first put it back to the model's classes; what it learned is kept in a file")
    parser.add_argument("--discard", action="store_true", help="with --reset or --restore: keep nothing of what it learned")
    _board.arguments(parser, "the board")


def run(args, out):
    _check(args)
    with _board.opened(args, out, learns=True) as board:
        if not board.identity.max_classes:
            raise InputError(f"{board.client.name}: this design does not learn; expected one made with fbnn-hw generate --learn")
        lesson = Lesson(args, out, board)
        try:
            lesson.run()
        except BaseException:
            with suppress(FbnnError, OSError):
                lesson.keep()
            if kept := lesson.answer.get("kept"):
                out.note(f"what it learned until then is kept in {kept}")
            raise
        lesson.show()


def _check(args):
    """Refuse what has no meaning, before anything is started."""
    if not args.port and not args.board:
        raise UsageError("missing --port or --board; see fbnn-hw learn --help")
    if bool(args.files) != (args.label is not None):
        raise UsageError("--label: expected together with images of that class" if args.label is not None
                         else "found images without --label; say which class they are")
    for one, other in (("freeze", "thaw"), ("reset", "restore")):
        if getattr(args, one) and getattr(args, other):
            raise UsageError(f"found both --{one} and --{other}, expected one of them")
    if args.discard and not (args.reset or args.restore):
        raise UsageError("--discard: expected together with --reset or --restore")
    if args.label is not None and (args.label != args.label.strip() or not args.label.isprintable()):
        raise UsageError(f"--label {args.label!r}: expected a name of printable characters that begins and ends with none that is blank")
    if args.label is not None and len(args.label) > LONGEST:
        raise UsageError(f"--label: found a name of {len(args.label)} characters, expected at most {LONGEST}")
    for name in (*args.files, *([args.restore] if args.restore else ())):
        if not Path(name).exists() or Path(name).is_dir():
            raise InputError(f"{name}: {'is a folder' if Path(name).is_dir() else 'not found'}, expected a file")
    if args.snapshot:
        common.writable(Path(args.snapshot))
    if not any((args.files, args.rehearse, args.freeze, args.thaw, args.snapshot, args.restore, args.reset)):
        raise UsageError("nothing to do; expected images with --label, or --rehearse, --freeze, --thaw, --snapshot, --restore or --reset")


class Lesson:
    """One run of the verb.  answer: what --json prints."""

    def __init__(self, args, out, board):
        self.args, self.out, self.board, self.client = args, out, board, board.client
        self.chip = board.chip()
        self.names = board.names()
        self.changed = False
        self.answer = {}

    def run(self):
        args, client = self.args, self.client
        images = self._images()
        restored = _board.read(args.restore) if args.restore else None
        if not self.board.virtual:
            self._powered()
        if restored:
            self._put_aside()
            self.chip.restore(restored[1], args.restore)
            self.changed = True
            known, used, _ = client.learned()
            names = [*restored[0], *self.board.design.manifest["classes"][len(restored[0]):]]
            self.names = _board.named(names, known)
            self.out.text(f"restored {args.restore}: knows {known} classes, {used} exemplars")
        if args.reset:
            learned = self._put_aside()
            client.reset()
            self.changed, self.names = True, self.names[:client.learned()[0]]
            self.out.text("reset to the classes of the model" + (f"; what it had learned is in {learned}" if learned else ""))
        if args.thaw:
            self._freeze(False)
        if images is not None or args.rehearse:
            if client.status().frozen:
                raise InputError(f"{client.name}: is frozen, expected a board that may learn; add --thaw")
        if images is not None:
            label = self._label()
            self._review()
            self._teach(images, label)
        if args.rehearse:
            client.rehearse(args.rehearse)
            self.changed = True
        if args.freeze:
            self._freeze(True)
        self.keep()
        if args.snapshot:
            _board.write(args.snapshot, self.names, self.chip.snapshot())

    def _images(self):
        """Pixels of all files as the board takes them, or None."""
        args = self.args
        if not args.files:
            return None
        from ..data.images import read

        return [one for name in args.files for one in _board.pixels(read(name, self.board.identity.size, args.resize))]

    def _review(self):
        """Exemplars of the model's classes, where the buffer is empty."""
        from ..data import datasets
        from ..ir.network import LATENT
        from ..reference import inference

        plan, chosen = self.chip.plan, self.args.review
        count = min(REVIEW, plan.slots // (2 * plan.shipped or 1))
        if not count or not plan.shipped or chosen == "none" or self.client.learned()[1]:
            return
        images = datasets.load(chosen or "fixture", self.args.data_dir, progress=self.out.progress)
        classes = self.board.design.manifest["classes"][:plan.shipped]
        size, found = self.board.identity.size, images.images.shape[-1]
        if not set(classes) <= set(images.classes) or size != found:
            if chosen:
                raise InputError(f"--review {chosen}: has {found} x {found} images of {', '.join(images.classes)}, expected {size} x "
                                 f"{size} of {', '.join(classes)}")
            self.out.note("nothing is stored of the model's classes, so it may forget them; teach them too, or give --review DATA")
            return
        images = images.select(classes).thinned(count)
        latents = inference.layers(self.board.design.network(), images.images)[LATENT].reshape(len(images.labels), -1)
        self.chip.store(latents, images.labels)
        self.changed = True
        self.answer["reviewed"] = len(images.labels)
        self.out.text(f"stored {count} images of each of the model's {len(classes)} classes for replay, from {chosen or 'fixture'}")

    def _label(self):
        """The number of the class that is taught."""
        name, most = self.args.label, self.board.identity.max_classes
        label = self.names.index(name) if name in self.names else len(self.names)
        if label == most:
            raise InputError(f"--label {name}: the board has room for {most} classes and knows {', '.join(self.names)}; expected one "
                             "of them, or a design made with more --max-classes")
        return label

    def _teach(self, images, label):
        args, client = self.args, self.client
        new = label == len(self.names)
        count, before, after, passes = len(images), 0, 0, 0
        with self.out.progress(desc="images on the board") as bar:
            while passes < (args.passes or MOST) and (args.passes or after < ENOUGH * count):
                for image in images:
                    before += client.classify([image])[0].index == label and not passes
                    client.learn(label)
                    if label == len(self.names):
                        self.names.append(args.label)
                    self.changed = True
                    bar.update()
                after, passes = 0, passes + 1
                for image in images:
                    after += client.classify([image])[0].index == label
                    bar.update()
        self.answer |= {"label": args.label, "index": label, "new": new, "images": count, "passes": passes, "right_before": before,
                        "right_after": after}
        self.out.text(f"{args.label}: class {label}{', new' if new else ''}; {count} image{'s' * (count > 1)}, "
                      f"{before} right when first shown, {after} right after {passes} pass{'es' * (passes > 1)}")

    def _freeze(self, frozen):
        self.changed |= self.client.status().frozen != frozen
        self.client.freeze(frozen)

    def _powered(self):
        """A board that lost its power no longer has what the design's folder holds of it; that is put aside before a lesson replaces it."""
        if not (found := self.board.kept()):
            return
        from ..reference.learning.snapshot import State

        kept = State.unpack(found[1], self.chip.learner, self.board.file)
        if not self.chip.same(kept):
            aside = _board.spare(self.board.file)
            self.board.file.rename(aside)
            self.names = self.board.names()
            self.out.note(f"{self.client.name}: does not know what it was last taught here; that is kept as {aside}, "
                          "--restore brings it back")

    def _put_aside(self):
        """Write what the board learned beside the file of what it knows; None if it learned nothing, or that is not wanted."""
        if self.args.discard or self.chip.untaught():
            return None
        path = _board.spare(self.board.file)
        _board.write(path, self.names, self.chip.snapshot())
        if self.args.restore:
            self.out.text(f"what it knew before is in {path}")
        return path

    def keep(self):
        """What the board knows now, into the design's folder."""
        if self.changed:
            self.answer["kept"] = self.board.keep(self.names)
            self.changed = False

    def show(self):
        known, used, frozen = self.client.learned()
        plan = self.chip.plan
        if kept := self.answer.get("kept"):
            self.out.text(f"kept in {kept}")
        if self.args.snapshot:
            self.out.text(f"written {self.args.snapshot}")
        self.out.text(f"knows {known} of {plan.max_classes} classes: {', '.join(self.names)}",
                      f"{used} of {plan.slots} exemplars" + ("; frozen" if frozen else ""))
        self.out.result(self.answer | {
            "classes": self.names, "max_classes": plan.max_classes, "exemplars": used, "slots": plan.slots, "frozen": frozen,
            "snapshot": self.args.snapshot, "design": self.board.design.folder, "port": self.client.name,
            "repeated_requests": self.client.repeated})
