"""`fbnn-hw learn`: a board that learns is taught a class, frozen, kept, restored or put back."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..base.errors import FbnnError, InputError, UsageError
from . import _board, _common
from ._common import Args, Output, Parser

GROUP = "learn"
SUMMARY = "teach a board a class from images, new or known; keep, restore or reset what it knows"
EXAMPLES = (
    ("fbnn-hw learn --board virtual --label cat cats/*.png", "a class taught on a simulated board; on a real one: --port /dev/ttyUSB1"),
    ("fbnn-hw learn --board virtual --undo", "takes the last lesson back; once more takes it up again"),
)


def arguments(parser: Parser) -> None:
    from ..board.lesson import ENOUGH, MOST, REHEARSAL
    from ..design.review import REVIEW

    parser.add_argument("files", nargs="*", metavar="IMAGE",
                        help="of the class --label: PNG, JPEG, WebP or BMP; .npy of uint8, (H, W, 3) or (3, H, W), or many with N in "
                        "front; a folder of them; - for standard input.  Without --label a folder with a subfolder for each class")
    parser.add_argument("--label", metavar="NAME", help="the class: one known, or a new one")
    parser.add_argument("--review", metavar="DATA", help=f"before the first lesson, {REVIEW} images of each of the model's classes from "
                        "this data set are stored for replay, or it would forget them; none: nothing (default: fixture, if it has them)")
    _common.add_data_dir(parser, "that")
    parser.add_argument("--passes", type=_common.count, metavar="N",
                        help=f"times that the images are shown (default: until {ENOUGH:.0%}% of them are right, at most {MOST})")
    parser.add_argument("--rehearse", type=_common.natural, metavar="N",
                        help="replays of exemplars after the lesson, beside each image's own (default: until no class has lost more than "
                        f"a tenth of its exemplars, at most {REHEARSAL})")
    _common.add_fit(parser)
    parser.add_argument("--forget", metavar="NAME", help="forget that class first; all others stay as they are (generate --forget)")
    parser.add_argument("--undo", action="store_true", help="take the last lesson back, or up again")
    parser.add_argument("--freeze", action="store_true", help="afterwards it learns nothing until --thaw")
    parser.add_argument("--thaw", action="store_true", help="first end a freeze")
    parser.add_argument("--snapshot", metavar="FILE", help="write what it knows, names included, at the end")
    parser.add_argument("--flash-slots", metavar="FILE", help="write what it knows as a flash has it for a design with --keep")
    parser.add_argument("--restore", metavar="FILE", help="first make it know what a file of either kind holds")
    parser.add_argument("--reset", action="store_true", help="first put it back to the model's classes; what it learned is kept in a file")
    parser.add_argument("--discard", action="store_true", help="with --reset or --restore: keep nothing of what it learned")
    _board.arguments(parser, "the board", learns=True)


def run(args: Args, out: Output) -> int | None:
    _check(args)
    design = _board.design(args, learns=True)
    if design and design.config.learning is None:
        raise InputError(f"{design.folder}: this design does not learn; expected one made with fbnn-hw generate --learn")
    if design:
        _check_samples(args, design)
    lessons = _board.lessons(args, design.config.size) if args.files and design else None
    if args.restore:
        from ..board import slots

        taught = slots.read(args.restore, design)
        if design:
            taught.state(design.learner(), args.restore)
    with _board.opened(args, out, design, learns=True) as board:
        if not board.learns:
            raise InputError(f"{board.client.name}: this design does not learn; expected one made with fbnn-hw generate --learn")
        if args.files and lessons is None:
            lessons = _board.lessons(args, board.identity.size)
        answer: dict[str, Any] = {}
        try:
            _work(args, out, board, lessons or [], answer)
            failed = _show(args, out, board, answer)
        except BaseException as error:
            _rescue(out, board, error)
            raise
    return failed


def _rescue(out, board, error):
    """Keep what the board learned before an error or an interrupt, and say so."""
    from ..board.pupil import Astray

    out.kept = "nothing was learned"
    if isinstance(error, Astray):
        return
    try:
        if kept := board.keep_interrupted():
            out.kept = f"what it learned until then is kept in {kept}"
    except Astray as lost:
        out.kept = str(lost)
    except FbnnError as failure:
        why = "" if str(failure) == str(error) else f"{failure}; "
        out.kept = f"{why}the board knows what it learned until then, and the next fbnn-hw learn keeps it"
    if out.kept != "nothing was learned" and not isinstance(error, KeyboardInterrupt):
        out.note(out.kept)


def _check(args):
    """Refuse what has no meaning, before anything is started."""
    if not args.port and not args.board:
        raise UsageError("missing --port or --board; see fbnn-hw learn --help")
    _board.check(args)
    for flag, what in (("label", "images of that class"), ("review", "images"), ("passes", "images")):
        if getattr(args, flag) is not None and not args.files:
            raise UsageError(f"--{flag}: expected together with {what}")
    if args.label is None and not all(Path(name).is_dir() for name in args.files):
        raise UsageError("found images without --label; say which class they are, or give a folder with a subfolder for each class")
    _common.fit(args)

    from ..board.lesson import check_label
    from ..data import folder

    for one, other in (("freeze", "thaw"), ("reset", "restore"), ("undo", "reset"), ("undo", "restore"), ("undo", "label"),
                       ("forget", "undo"), ("forget", "reset"), ("forget", "restore")):
        if getattr(args, one) and getattr(args, other):
            raise UsageError(f"found both --{one} and --{other}, expected one of them")
    if args.discard and not (args.reset or args.restore):
        raise UsageError("--discard: expected together with --reset or --restore")
    if args.label is not None:
        check_label(args.label)
    shown = []
    for name in args.files:
        if Path(name).is_dir():
            for path, label in folder.pictures(name):  # refuses what is no folder of pictures
                shown.append(path)
                if label:
                    check_label(label, f"{path.parent}: class")
        elif name != "-" and not Path(name).exists():
            raise InputError(f"{name}: not found, expected a file or folder")
        else:
            shown.append(name)
    if args.restore and not Path(args.restore).is_file():
        raise InputError(f"{args.restore}: {'is a folder' if Path(args.restore).is_dir() else 'not found'}, expected a file")
    stay = [("a picture of the lesson", path) for path in shown] + [("the file of --restore", args.restore)] * bool(args.restore)
    for flag in ("snapshot", "flash_slots"):
        if file := getattr(args, flag):
            _common.writable(Path(file), *stay)
            stay.append((f"the file of --{flag.replace('_', '-')}", file))
    if not any((args.files, args.forget is not None, args.rehearse, args.undo, args.freeze, args.thaw, args.snapshot, args.flash_slots,
                args.restore, args.reset)):
        raise UsageError("nothing to do; expected images with --label, or --forget, --rehearse, --undo, --freeze, --thaw, --snapshot, "
                         "--flash-slots, --restore or --reset")


def _check_samples(args, design):
    """Refuse what a design cannot do: what is of stored samples where it keeps none, and to forget."""
    from ..design.review import each

    if args.forget is not None and not design.config.learning.forget:
        raise UsageError(f"--forget {args.forget}: {design.folder} cannot forget a class, expected a design made with generate --forget")
    plan, review = design.config.learning, args.review if args.review != "none" else None
    for flag, value in (("--review", review), ("--rehearse", args.rehearse)):
        if value and plan.adds:
            raise UsageError(f"{flag} {value}: {design.folder} keeps no samples, expected a design that learns by replay")
    if review and not each(plan):
        raise UsageError(f"--review {review}: {design.folder} begins with {plan.shipped} classes and has room for {plan.slots} exemplars, "
                         "expected classes, and room for two of each; leave --review out, or generate with more --exemplars")
    if args.flash_slots and not design.config.keeps:
        raise UsageError(f"--flash-slots {args.flash_slots}: {design.folder} keeps nothing in a flash, expected a design made with "
                         "generate --keep")


def _work(args, out, board, lessons, answer):
    """Do what the flags ask for, in a fixed order.  lessons: (class, images) of each.  answer: receives the values that --json prints."""
    design = board.held_design()  # refuses a board of another design, or of none that is known
    _check_samples(args, design)
    for file in filter(None, (args.snapshot, args.flash_slots)):
        _common.writable(Path(file), *_common.generated(design.folder))
    if not (args.restore or args.reset):
        board.pupil.begin()
    _say_found(out, board)
    if args.undo:
        out.text(f"it knows again what is in {board.undo()}; --undo exchanges the two once more")
    if args.restore or args.reset:
        aside = None if args.discard else board.put_aside()
    if args.restore:
        if aside:
            out.text(f"what it knew before is in {aside}")
        board.restore(args.restore)
        _say_found(out, board)
        classes, exemplars = [*filter(None, board.names)], board.client.learned()[1]
        out.text(f"restored {args.restore}: knows {len(classes)} classes, {exemplars} exemplars")
    if args.reset:
        board.reset()
        _say_found(out, board)
        out.text("reset to the classes of the design" + (f"; what it had learned is in {aside}" if aside else ""))
    if args.discard:
        board.before.unlink(missing_ok=True)  # --undo would bring it back
    if args.thaw:
        board.freeze(False)
    if args.forget is not None:
        board.forget(args.forget)
        out.text(f"forgot {args.forget}; --undo brings it back")
    if lessons:
        _prepare(args, out, board, [label for label, _ in lessons], answer)
    for label, images in lessons:
        lesson = _teach(args, out, board, label, images)
        if len(lessons) > 1:
            answer.setdefault("lessons", []).append(lesson)
        else:
            answer |= lesson
    if args.rehearse:
        if board.client.status().frozen:
            raise InputError(f"{board.client.name}: is frozen, expected a board that may learn; add --thaw")
        board.rehearse(args.rehearse)
    if args.freeze:
        board.freeze(True)
    if lessons or args.forget is not None or args.rehearse or args.freeze or args.thaw:
        answer["kept"] = board.file
        out.kept = f"what it knows is kept in {board.file}"
        out.text(f"kept in {answer['kept']}")
    for file, write in ((args.snapshot, board.snapshot), (args.flash_slots, board.flash_slots)):
        if file:
            write(file)
            out.text(f"written {file}")


def _say_found(out, board):
    """Say where the board knew something else than its file."""
    if aside := board.pupil.aside:
        out.note(f"{board.client.name}: does not know what it was last taught here; that is kept as {aside}, --restore brings it back")
    if board.pupil.resumed:
        out.note(f"{board.client.name}: what a lesson that ended early had taught it is kept in {board.file}")


def _prepare(args, out, board, labels, answer):
    """Refuse more classes than there is room for, and store images of the model's classes, before the first lesson."""
    from ..board import lesson
    from ..design.review import each

    plan = board.design.config.learning
    lesson.check_room(board, labels)
    if args.review != "none" and not board.client.status().frozen:
        if count := lesson.review(board, args.review, args.data_dir, out.progress):
            answer["reviewed"] = count * plan.shipped
            out.text(f"stored {count} images of each of the model's {plan.shipped} classes for replay, from {args.review or 'fixture'}")
        elif args.review and board.client.learned()[1]:
            out.note(f"--review {args.review}: it has exemplars already, so none of these images is stored")
        elif plan.shipped and not board.client.learned()[1]:
            out.note("nothing is stored of the model's classes, so it may forget them; teach them too"
                     + ", or give --review DATA" * bool(each(plan)))


def _teach(args, out, board, label, images):
    """Teach one class; returns the values of its lesson."""
    from ..board import lesson

    most = lesson.REHEARSAL if args.rehearse is None else 0
    result = lesson.teach(board, images, label, args.passes, most, out.note, out.progress)
    out.text(f"{result.label}: class {result.index}{', new' if result.new else ''}; {result.images} image{'s' * (result.images > 1)}, "
             f"{result.right_before} right when first shown, {result.right_after} right after {result.passes} "
             f"pass{'es' * (result.passes > 1)}")
    out.text(*_effects(result))
    if result.lost:
        out.note(f"lost more than a tenth of their exemplars: {', '.join(result.lost)}; teach them again, or take the lesson back with "
                 "--undo")
    return asdict(result)


def _effects(result):
    """Lines on the classes that the lesson changed."""
    if not result.effects:
        return
    changed = [f"{name} {effect.right_before} -> {effect.right_after} of {effect.exemplars}"
               for name, effect in result.effects.items() if effect.right_before != effect.right_after]
    total = sum(effect.exemplars for effect in result.effects.values())
    before, after = (sum(getattr(effect, name) for effect in result.effects.values()) for name in ("right_before", "right_after"))
    yield (f"stored exemplars of the classes before: {before} of {total} right before the lesson, {after} after"
           + (f" and {result.rehearsed} replays" if result.rehearsed else "") + (f" ({', '.join(changed)})" if changed else "")
           + "; fbnn-hw learn --undo takes the lesson back")


def _show(args, out, board, answer):
    """Print what the board knows; returns the exit code: 1 where all passes of a lesson taught nothing."""
    from ..board.lesson import ENOUGH

    classes, exemplars, frozen = board.client.learned()
    plan = board.design.config.learning
    stored = f"a {plan.kept} of each" if plan.adds else f"{exemplars} of {plan.slots} exemplars"
    names = [name for name in board.names if name is not None]
    out.text(f"knows {len(names)} of {plan.max_classes} classes: {', '.join(names) or 'none'}", stored + ("; frozen" if frozen else ""))
    values = answer | {
        "classes": board.names, "max_classes": plan.max_classes, "exemplars": exemplars, "slots": plan.slots, "frozen": frozen,
        "snapshot": args.snapshot, "flash_slots": args.flash_slots, "design": board.design.folder, "port": board.client.name,
        "repeated_requests": board.client.repeated}
    for lesson in answer.get("lessons", [answer] if "images" in answer else []):
        if lesson["right_after"] >= ENOUGH * lesson["images"]:
            continue
        way_out = "show more or other pictures, or take the lesson back with --undo"
        message = f"--label {lesson['label']}: {lesson['right_after']} of {lesson['images']} images are right after the lesson; {way_out}"
        if not lesson["right_after"] and not args.passes:
            out.error(message, 1, values)
            return 1
        out.note(message)
    out.result(values)
    return 0
