"""`fbnn-hw train`: a model trained on a data set, as a checkpoint."""

import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from os.path import realpath
from pathlib import Path
from typing import Any

from ..base import extras, files
from ..base.errors import InputError, UsageError
from ..ir.models import MODELS
from ..ir.shipped import resolve
from ..train import config as recipes
from ..train import sweep
from ..train.config import TrainConfig
from . import _common
from ._common import Args, Output, Parser

GROUP = "make"
EXTRA = extras.TRAIN
SUMMARY = "train a model on a data set and write a checkpoint"
EXAMPLES = (
    ("fbnn-hw train --model tiny --data cifar10 --norm bn --epochs 30 --lr 1e-3 --schedule cosine --patience 0 --c 1 --out mine.pt",
     "train on CIFAR-10; writes mine.pt, mine.result.json and mine.state; with --resume, goes on after Ctrl-C or a crash"),
    ("fbnn-hw train --model tiny --data pictures/ --resize --norm bn --lr 1e-3 --schedule cosine --patience 0 --c 1 --out mine.pt",
     "on pictures of your own, pictures/cat/1.jpg, pictures/dog/1.jpg; with pictures/train/cat and pictures/test/cat also the accuracy"),
)
TEACHING = ("distil", "temperature", "teacher_views")
"""Fields of the recipe that mean nothing without a teacher."""
NORMING = ("statistics",)
"""Fields of the recipe that mean nothing without batch norm."""


def add_recipe(parser: Parser, skip: Sequence[str] = ()) -> None:
    """Flags for the fields of `TrainConfig`, --device and --threads."""
    group = parser.add_argument_group("recipe")
    option: Any
    for option in fields(TrainConfig):
        if option.name in skip:
            continue
        text, default, own = option.metadata["help"], option.default, option.type
        if own is bool:
            group.add_argument(recipes.flag(option.name), dest=option.name, action=f"store_{not default}".lower(), help=text)
        elif choices := option.metadata.get("choices"):
            group.add_argument(recipes.flag(option.name), choices=choices, default=default, help=f"{text} (default: {default})")
        else:
            kind = _common.number(own, option.metadata["legal"], option.metadata["expected"])
            group.add_argument(recipes.flag(option.name), type=kind, default=default, metavar="N" if own is int else "X",
                               help=f"{text} (default: {default})")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: a GPU where there is one (default: auto)")
    _common.add_threads(parser)


def add_teacher(parser: Parser, several: bool = True) -> None:
    more: dict[str, Any] = {"action": "append", "default": []} if several else {}
    parser.add_argument("--teacher", metavar="FILE.state", help="training state of a network whose logits are learned too: airbench.state, "
                        "which ships and knows CIFAR-10, or one of fbnn-hw pretrain --model airbench --all-classes" +
                        "; several times: the mean of their logits" * several, **more)


def add_state(parser: Parser, text: str) -> None:
    """The flags of a run that goes on where it was interrupted.  text: help of --state."""
    parser.add_argument("--state", metavar="FILE", help=text)
    parser.add_argument("--resume", action="store_true", help="go on from the state")
    parser.add_argument("--restart", action="store_true", help="start again though there is a state, and replace it")


def add_images(parser: Parser) -> None:
    parser.add_argument("--images", type=_common.count, metavar="N", help="train on N images of each class alone, spread evenly over "
                        "the file (default: all); the test set stays whole")


def recipe(args: Args) -> TrainConfig:
    values: dict[str, Any] = {field.name: getattr(args, field.name, field.default) for field in fields(TrainConfig)}
    return TrainConfig(**values)


def device(args: Args, config: TrainConfig, out: Output) -> Any:
    """The `torch.device` of --device, with the threads of --threads; a note where --precision bfloat16 would slow a CPU down."""
    from ..train import pretrain, record

    chosen = pretrain.device(args.device)
    _common.set_threads(args)
    if chosen.type == "cpu" and config.precision == "bfloat16" and record.emulates_bfloat16():
        out.note("--precision bfloat16: this processor has neither AVX-512 BF16 nor AMX and emulates bfloat16; float32 is faster here")
    return chosen


class Architectures(list):
    more = "--init FILE to go on from a checkpoint; fbnn_hw.export makes one of a module of PyTorch"


def arguments(parser: Parser) -> None:
    parser.add_argument("--model", required=True, choices=Architectures(MODELS), metavar="NAME", help=f"architecture: {', '.join(MODELS)}")
    _common.add_data(parser, required=True)
    _common.add_fit(parser, size=True)
    parser.add_argument("--classes", metavar="A,B,...", help="train on these classes alone, by name, in this order; a name with a "
                        "comma in double quotes")
    add_images(parser)
    parser.add_argument("--init", metavar="FILE.pt", help="start from this checkpoint; a training state beside it gives the proxies")
    add_teacher(parser)
    parser.add_argument("--out", metavar="FILE.pt", help="checkpoint to write at each better epoch, with the folders on the way to it "
                        "(default: MODEL-DATA.pt)")
    add_state(parser, "training state, to go on from (default: beside the checkpoint, .state)")
    add_recipe(parser)


def paths(args: Args) -> tuple[Path, Path, Path]:
    """(checkpoint, state, result) of the run; raises UsageError where a state is in the way or missing."""
    out = Path(args.out or f"{args.model}-{_common.data_name(args)}.pt")
    _common.named("--out", out, ".pt")
    result = out.with_suffix(".result.json")
    return out, state_beside(args, out, result), result


def state_beside(args: Args, out: Path, *more: Path) -> Path:
    """Return the path of the state of a run that writes the files `out` and `more`, and hold its lock from now on.

    Raises UsageError where a file is in the way or cannot be written, InputError where another process
    works on the run.
    """
    state = Path(args.state) if args.state else out.with_suffix(".state")
    if args.resume and args.restart:
        raise UsageError("--resume and --restart: expected one of them")
    teachers = getattr(args, "teacher", None) or []
    read = [("the file of --teacher", name) for name in (teachers if isinstance(teachers, list) else [teachers])]
    read += [(f"the file of --{flag}", getattr(args, flag)) for flag in ("init", "alone") if getattr(args, flag, None)]
    written = set()
    for path in (out, state, *more):
        _common.writable(path, *read)
        if realpath(path) in written:
            raise UsageError(f"{path}: is the name of two files of this run, expected another one for --state")
        written.add(realpath(path))
    if args.init and not Path(args.init).name:
        raise UsageError(f"--init {args.init}: is a folder, expected a checkpoint")
    if args.init and realpath(state) == realpath(Path(args.init).with_suffix(".state")):
        raise UsageError(f"{state}: is the training state of --init, expected another name")
    lock = sweep.lock(state)
    args.held.enter_context(files.sole(lock, f"{state}: its run is under way in another process; wait for it, or choose another --out"))
    if state.exists() and not (args.resume or args.restart):
        raise UsageError(f"{state}: there is a state of an earlier run; --resume goes on from it, --restart replaces it")
    return state


def refuse_idle(args: Args) -> None:
    """Raises UsageError at a flag that means nothing beside the others."""
    for names, missing, lacking in ((TEACHING, not args.teacher, "there is no teacher, expected --teacher with it"),
                                    (NORMING, args.norm != "bn", "there is no batch norm, expected --norm bn with it")):
        if missing and (idle := [name for name in names if getattr(recipe(args), name) != getattr(TrainConfig, name)]):
            raise UsageError(f"{recipes.flag(idle[0])}: {lacking}")


def run(args: Args, out: Output) -> int:
    config = recipe(args)
    config.verify()
    refuse_idle(args)
    run_paths = paths(args)
    train, test = _common.splits(args, out)
    if args.classes:
        chosen = [name if name in train.classes else name.strip() for name in _common.listed("--classes", args.classes)]
        train, test = train.select(chosen), test and test.select(chosen)
        if test and not len(test.labels):
            raise InputError(f"{test.source}: no image of {args.classes}, expected some for the test")
    if args.images:
        train = train.thinned(args.images)
    train.whole()

    import torch

    from ..ir.models import build
    from ..nn.network import FBNN
    from ..train import start
    from ..train.offline import Trainer

    processor = device(args, config, out)
    torch.manual_seed(config.seed)
    topology = build(args.model, train.classes, size=train.images.shape[-1])
    options: dict[str, Any] = dict(K=config.K, c=config.c, limit=config.limit, norm=config.norm)
    origin = start.read(resolve(args.init, "--init")) if args.init else None
    model = start.further(origin, topology, config.seed, options) if origin else FBNN(topology, **options)

    model.to(processor)

    def made(**more):
        return Trainer(model, torch.from_numpy(train.images), torch.from_numpy(train.labels), config, init=origin and origin.sha256, **more)

    tested = test and (torch.from_numpy(test.images), torch.from_numpy(test.labels))
    meta = {"command": _common.command_line(args), "data": _common.kept(args.data), "images_per_class": args.images}
    return to_the_end(args, out, run_paths, model, origin, meta, made, tested)


def to_the_end(args: Args, out: Output, paths: tuple[Path, Path, Path], model: Any, origin: Any, meta: dict[str, Any],
               made: Callable[..., Any], test: Any, kind: str | None = None, floating: bool = False) -> int:
    """Train, test, write and print what came of it; returns the exit code.

    paths: (checkpoint, state, result).  origin: the `start.Start` that the model began from, if it is one.  made(options): the trainer.
    test: tensors (images, labels), None where there are none.  kind: "pretrain", whose result is there at the end alone, since such a
    one counts.  floating: without a checkpoint.
    """
    from ..nn import checkpoint
    from ..train import record, start
    from ..train import teacher as teachers

    checkpoint_path, state_path, result_path = paths
    config, processor = recipe(args), next(model.parameters()).device
    if isinstance(origin, start.Start):
        meta["init"] = origin.describe()
        if origin.note:
            out.note(origin.note)
    files = [resolve(name, "--teacher", ".state") for name in args.teacher]
    teacher = teachers.load(files, model.topology, processor, config.precision)
    if teacher:
        meta["teacher"] = teacher.description
    head = {"kind": kind} if kind else {"checkpoint": checkpoint_path.name}

    def write(score=None):
        if not floating:
            checkpoint.save(checkpoint_path, record.network(trainer, meta, score))

    def report(epoch):
        better = trainer.best_epoch == epoch["epoch"]
        if better:
            write()
        if not kind:  # No run is finished before its test: one that is interrupted there goes on with it.
            training = record.describe(trainer, meta) | {"finished": False}
            write_result(result_path, {**head, "training": training, "history": trainer.history})
        mark = (" (best)" if kind else " (best, written)") if better else ""
        out.text(f"epoch {epoch['epoch']}/{config.epochs}: {scores(epoch)}{mark}, {epoch['seconds']:.1f} s")

    trainer = made(state_path=state_path, report=report, progress=out.progress, teacher=teacher)
    if not trained(trainer, args, out):
        return 130
    score = None
    if test is None:
        way_out = "; such pictures go into a folder test beside train" if _common.is_folder(args) else ""
        out.note(f"--data {args.data} has no test split of its own, so the checkpoint states no test accuracy{way_out}")
    else:
        images, labels = test
        score = record.test_score(trainer, images, labels, out.progress)
    write(score)
    result = {**head, "training": record.describe(trainer, meta, score), "history": trainer.history}
    write_result(result_path, result)
    written = [result_path] if floating else [checkpoint_path, result_path]
    out.text(*summary(result["training"]), f"written: {', '.join(map(str, written))}; state: {state_path}")
    result.pop("kind", None)
    out.result({**result, "checkpoint": None if floating else checkpoint_path, "result": result_path, "state": state_path})
    return 0


def again(args: Args) -> str:
    """The command line that goes on from the state of the one given."""
    return shlex.join(["fbnn-hw", *(word for word in args.argv if word not in ("--resume", "--restart")), "--resume"])


def trained(trainer: Any, args: Args, out: Output) -> bool:
    """Train to the end, from the state with --resume; return False where the user stopped it and was told how to go on."""
    from ..train.offline import Interrupted

    def where():
        return "the last epoch, at its end" if trainer.finished else f"epoch {trainer.epoch + 1}, step {trainer.step} of {trainer.steps}"

    if args.resume:
        trainer.resume()
        out.note(f"goes on from {trainer.state_path}: {where()}")
    try:
        trainer.run()
    except Interrupted:
        out.error(f"interrupted in {where()}; state saved in {trainer.state_path}; go on with: {again(args)}", 130)
        return False
    except KeyboardInterrupt:  # before the trainer hears it, or after
        if trainer.history:
            out.kept = f"the state of the last epoch is in {trainer.state_path}; go on with: {again(args)}"
        raise
    out.kept = f"the training itself is done, its state is in {trainer.state_path}; go on with: {again(args)}"
    return True


def scores(epoch: dict[str, Any]) -> str:
    """Loss and accuracies of an epoch as text."""
    validation = "" if epoch["validation_accuracy"] is None else f", validation {epoch['validation_accuracy']:.2%}"
    return f"loss {epoch['train_loss']:.4f}, training {epoch['train_accuracy']:.2%}{validation}"


def summary(training: dict[str, Any]) -> Iterator[str]:
    """Lines on a finished training."""
    validation = training["validation_accuracy"]
    yield f"best epoch {training['best_epoch']} of {training['epochs']}" + ("" if validation is None else f", validation {validation:.2%}")
    if training["test_accuracy"] is not None:
        yield f"test accuracy {training['test_accuracy']:.2%} on {training['test_images']} images"


def write_result(path: Path, values: dict[str, Any]) -> None:
    """JSON, whole or not at all."""
    files.write(path, (json.dumps(_common.plain(values), indent=1, allow_nan=False) + "\n").encode())
