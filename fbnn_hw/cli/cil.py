"""`fbnn-hw cil`: class-incremental learning over a scenario, as one JSON file."""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from ..base import extras, files
from ..base.errors import UsageError
from ..ir.shipped import resolve
from ..report import cil as report
from ..train import sweep
from ..train.cil_config import LOSS_NAMES, OF_TRAIN, REPLAYS, STRATEGIES, CilConfig
from ..train.learner import BUILT_IN, has_network, is_learner
from ..train.scenarios import SCENARIOS, SETTINGS
from . import _common
from ._common import Args, Output, Parser
from .train import add_images, add_recipe, add_state, add_teacher, again, device, recipe, refuse_idle, scores, state_beside, write_result

GROUP = "research"
EXTRA = extras.TRAIN
SUMMARY = "learn classes task after task, with a replay buffer or one of the baselines"
EXAMPLES = (
    ("fbnn-hw cil --scenario cifar10-4+3x2 --init 0.5mb-fe4.pt --buffer-mb 5 --balanced --seed 0 --out run.json",
     "latent replay on a shipped extractor: the classifier alone learns"),
    ("fbnn-hw cil --scenario tiny-2+2x2 --model 0.5mb --strategy naive --replay native --epochs 2 --out naive.json",
     "on synthetic images, in seconds; the lower bound: the whole network learns each task and keeps nothing"),
)


def arguments(parser: Parser) -> None:
    _common.add_scenario(parser, required=True)
    _common.add_data_dir(parser)
    add_images(parser)
    parser.add_argument("--init", metavar="FE.pt", help="pre-trained checkpoint; a training state beside it gives the proxies")
    parser.add_argument("--model", metavar="NAME", help="without --init: architecture, from random weights, for --replay native")
    parser.add_argument("--strategy", default="replay", metavar="NAME",
                        help=f"{', '.join((*STRATEGIES, *BUILT_IN))}, or module:Class of your own (default: replay)")
    parser.add_argument("--knob", type=knob, action="append", default=[], metavar="NAME=X",
                        help="a number of the strategy's own, such as shrinkage=0.1 of slda; may be given again")
    parser.add_argument("--replay", choices=REPLAYS, default="latent",
                        help="native: images, the whole network trains; latent: the classifier alone trains (default: latent)")
    parser.add_argument("--buffer-mb", type=_common.positive, default=0.0, metavar="X",
                        help="buffer in megabits (10^6), labels not counted")
    parser.add_argument("--setting", choices=SETTINGS, default="fpt",
                        help="rpt: the pre-training's classes stay; fpt: they are forgotten (default: fpt)")
    parser.add_argument("--loss", choices=LOSS_NAMES, default="cce", help="cross-entropy, focal or squared hinge (default: cce)")
    parser.add_argument("--balanced", action="store_true", help="weigh classes by their inverse frequency")
    parser.add_argument("--nu", type=float, default=2.0, metavar="X", help="exponent of the focal loss (default: 2)")
    parser.add_argument("--aware", action="store_true", help="task-aware: the task of each sample is known, in training and test")
    parser.add_argument("--class-order", type=_common.seed, metavar="N",
                        help="seed of another order of the classes after the pre-training's (default: the scenario's order)")
    parser.add_argument("--curves", action="store_true", help="all metrics after each epoch too, for training curves")
    parser.add_argument("--out", metavar="FILE.json", default="cil.json", help="result to write (default: cil.json)")
    parser.add_argument("--alone", metavar="FILE.json", help="result of --strategy naive-reset on the same tasks, for the forward transfer")
    parser.add_argument("--csv", metavar="FILE.csv", help="write accuracy and dispersion after each task as a table too, a line a task")
    parser.add_argument("--plot", metavar="FILE.png", help="draw the accuracies after each task too, as FILE.png and FILE.svg; "
                        "with --curves those of each epoch, as FILE-curves")
    parser.add_argument("--save", metavar="NET.pt", help="write the network after the last task as a checkpoint too")
    add_state(parser, "state to go on from (default: beside the result, .state)")
    add_teacher(parser, several=False)
    add_recipe(parser, skip=("teacher_views", *OF_TRAIN))  # levels and latents cannot be shown to a teacher, so it answers the images once


def knob(text: str) -> tuple[str, float]:
    """The name and the number of a value of --knob."""
    name, _, value = text.partition("=")
    number = float(value)
    return name, int(number) if number == number // 1 and "." not in value else number


def config(args: Args) -> CilConfig:
    """The `CilConfig` of the flags.  A --teacher that cannot be read is missing in it, and refused when it is loaded."""
    digest = None
    if args.teacher:
        args.teacher = resolve(args.teacher, "--teacher", ".state")
        with suppress(OSError):
            digest = files.sha256_of(args.teacher) if Path(args.teacher).is_file() else None  # a pipe would be waited for
    settings = CilConfig(args.scenario, args.strategy, args.replay, args.buffer_mb, args.setting, args.loss, args.balanced, args.nu,
                         args.aware, args.curves, args.images or 0, args.class_order, digest, dict(args.knob),
                         recipe(args))
    _common.once("--knob", [name for name, _ in args.knob])
    settings.verify()
    refuse_idle(args)
    return settings


def paths(args: Args) -> tuple[Path, Path]:
    """(result, state); raises UsageError where a file is in the way or cannot be written."""
    out = Path(args.out)
    _common.named("--out", out, ".json")
    for flag, ending in (("save", ".pt"), ("csv", ".csv"), ("plot", ".png")):
        if getattr(args, flag):
            _common.named(f"--{flag}", getattr(args, flag), ending)
    if args.save and is_learner(args.strategy) and not has_network(args.strategy):
        raise UsageError(f"--save: --strategy {args.strategy} has no binary network to write, expected none")
    if (there := files.json_object(out)) and there.get("kind") != "cil":
        raise UsageError(f"--out {out}: is no result of fbnn-hw cil, which it would replace; expected another name")
    if sweep.finished(out) and not (args.resume or args.restart):
        raise UsageError(f"--out {out}: there is a result of an earlier run; --restart replaces it, another name keeps it")
    return out, state_beside(args, out, *(Path(path) for path in (args.save, args.csv, args.plot) if path))


def run(args: Args, out: Output) -> int | None:
    from ..base import plugins

    with plugins.blaming(args.strategy, f"--strategy {args.strategy}"), plugins.blaming(args.scenario, f"--scenario {args.scenario}"):
        return _run(args, out)


def _tell(out, settings, origin, learner):
    """What one should know before the run: classes that the extractor has seen, where it starts, what the buffer holds."""
    to_come = [name for number, name in enumerate(learner.classes) if number not in learner.pretrained]
    if seen := [name for name in to_come if origin.proxies and name in origin.topology.classes]:
        out.note(f"{origin.source} was trained on {', '.join(seen)}, which the tasks bring; the accuracies do not compare with those of an "
                 "extractor that has not seen them")
    if origin.note and (settings.replay == "native" or settings.setting == "rpt"):  # else all that trains starts at random
        out.note(origin.note)
    if learner.memory is not None:
        ledger = learner.memory.ledger(len(learner.classes))
        out.text(f"buffer: {ledger['capacity_bits']:,} bits / {ledger['bits_per_sample']:,} a sample = {ledger['slots']:,} samples, "
                 f"{ledger['samples_per_class']:.1f} a class at {ledger['classes']}; with labels of {ledger['label_bits_per_sample']} bits "
                 f"it would hold {ledger['slots_if_labels_counted']:,}")


def _run(args, out):
    settings = config(args)
    result_path, state_path = paths(args)
    if args.plot:
        report.verify()
    if bool(args.init) == bool(args.model):
        raise UsageError("--init and --model: expected one of them, a pre-trained checkpoint or an architecture with random weights")
    name = SCENARIOS[args.scenario].data

    from ..data import datasets

    if args.init:
        args.init = resolve(args.init, "--init")
    train, test = (datasets.load(name, args.data_dir, split, progress=out.progress) for split in ("train", "test"))
    if args.images:
        train = train.thinned(args.images)

    from ..ir.models import build
    from ..train import metrics, start
    from ..train.incremental import Incremental
    from ..train.record import surroundings
    from ..train.teacher import Teacher

    processor = device(args, settings.recipe, out)
    if args.init:
        origin = start.read(args.init)
    else:
        origin = start.Start(build(args.model, train.classes, size=train.images.shape[-1]), {}, {})
    teacher = args.teacher and partial(Teacher, args.teacher, device=processor, precision=settings.recipe.precision)

    def told(epoch):
        out.detail(f"task {epoch['task'] + 1}, epoch {epoch['epoch']}: {scores(epoch)}")

    learner = Incremental(settings, train, test, origin, state_path, files.cache_folder() / "latents", told, out.progress, processor,
                          teacher)

    if args.alone:
        learner.alone = metrics.learned_alone(files.json_object(args.alone), learner.classes, args.alone)

    if args.resume:
        learner.resume()
        out.note(f"goes on from {state_path}: task {learner.task + 1} of {len(learner.tasks)}")
    _tell(out, settings, origin, learner)
    try:
        result = learner.run()
    except KeyboardInterrupt:
        where, way_out = f"task {learner.task + 1}", "start again"
        if not (learner.records or learner.history):
            where = "the first epoch"
            left = f"what {state_path} has of an earlier run stays" if state_path.exists() else "nothing is kept"
        elif not learner.keeps_state():
            left = f"--strategy {args.strategy} has no state, so nothing is kept"
        else:
            left, way_out = f"the last whole epoch is in {state_path}", f"go on with: {again(args)}"
        out.error(f"interrupted in {where}; {left}; {way_out}", 130)
        return 130
    out.kept = f"the training itself is done, its state is in {state_path}; go on with: {again(args)}"
    values = {"kind": "cil", "config": settings.to_dict(), "seed": settings.recipe.seed, "command": _common.command_line(args),
              "init": {"source": origin.source, "sha256": origin.sha256, "name": origin.topology.name, "training": origin.training},
              "teacher": learner.teacher and learner.teacher.description,
              **surroundings(processor), **result}
    write_result(result_path, values)
    save(args, learner, values)
    state_path.unlink(missing_ok=True)  # last, so that a run whose files could not be written can be resumed
    out.text(*summary(result), f"written: {', '.join(str(path) for path in (result_path, args.save, args.csv, args.plot) if path)}")
    out.result({**values, "history": None, "result": result_path})


def save(args: Args, learner: Any, values: dict[str, Any]) -> None:
    """Write the network of --save, the table of --csv and the pictures of --plot."""
    from ..nn import checkpoint
    from ..nn.network import FBNN, export

    if args.save:
        model = learner.learner.network() if learner.learner else learner.model
        if not isinstance(model, FBNN):
            raise UsageError(f"--save: network of --strategy {args.strategy} gives a {type(model).__name__}, expected an FBNN")
        checkpoint.save(args.save, export(model, {"command": values["command"], "seed": values["seed"], "final": values["final"]}))
    if args.csv:
        files.write(args.csv, table(values).encode())
    if args.plot:
        path = Path(args.plot)
        for name, ending in (("tasks", ""), *[("curves", "-curves")] * args.curves):
            report.save(report.PLOTS[name]([values]), path.parent, path.stem + ending)


def table(result: dict[str, Any]) -> str:
    """The scores after each task as CSV: a_seen and so on of the test samples, a_seen_train of the training samples; empty where none."""
    names = [(f"{letter}_{name}{ending}", part, name, letter) for part, ending in (("test", ""), ("train", "_train"))
             for name in ("old", "new", "seen", "buffer", "PT") for letter in "ad"]
    head = ("task", "classes", "epochs", "seconds", *(name for name, *_ in names), "a_validation")
    return _common.csv_text([head, *(
        (task["task"] + 1, " ".join(task["classes"]), task["epochs"], task["seconds"],
         *(task[part].get(name, {}).get(letter) for _, part, name, letter in names), task["validation"]) for task in result["tasks"])])


def summary(result: dict[str, Any]) -> Iterator[str]:
    """Lines on a finished run."""
    def cell(values, name, letter):
        value = values.get(name, {}).get(letter)
        return "-" if value is None else f"{value:.2%}" if letter == "a" else f"{value:.3f}"

    rows = [(r["task"] + 1, ",".join(r["classes"][:3]) + ("..." if len(r["classes"]) > 3 else ""), r["epochs"],
             *(cell(r["test"], name, "a") for name in ("old", "new", "seen", "buffer")), cell(r["test"], "seen", "d"),
             cell(r["train"], "buffer", "a")) for r in result["tasks"]]
    yield from _common.table(rows, ("task", "classes", "epochs", "a_old", "a_new", "a_seen", "a_buffer", "d_seen", "a_buffer_train"))
    yield (f"final: accuracy {result['final']['a_final']:.2%}, dispersion {result['final']['d_final']:.3f}, {result['epochs']} epochs, "
           f"{result['seconds']:.1f} s")
    sequence = result["sequence"]
    if sequence["forgetting"] is not None:
        yield (f"over the tasks: average incremental accuracy {sequence['average_incremental']:.2%}, forgetting "
               f"{100 * sequence['forgetting']:.1f} points, backward transfer {100 * sequence['backward_transfer']:.1f} points"
               + ("" if sequence["forward_transfer"] is None else f", forward transfer {100 * sequence['forward_transfer']:.1f} points"))
