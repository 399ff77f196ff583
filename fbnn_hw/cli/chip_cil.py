"""`fbnn-hw chip-cil`: a class-incremental scenario learned as the chip learns it, against float training on the same latents."""

from dataclasses import fields, replace
from pathlib import Path

from ..base import extras
from ..base.errors import InputError, UsageError, plural
from ..reference.learning import PICKS, RULES, Head, LearnConfig
from ..reference.learning.config import ADDING, ADDING_DEFAULTS
from ..train.scenarios import SCENARIOS, SETTINGS
from . import _common
from ._common import Args, Output, Parser

GROUP = "research"
EXTRA = extras.TRAIN
SUMMARY = "learn classes task after task in the integers of the chip, against float training on the same latents"
EXAMPLES = (
    ("fbnn-hw chip-cil --scenario cifar10-4+3x2 --model 0.5mb-fe4.pt --seeds 5 --out chip.json",
     "1000 exemplars, the default rule, on a shipped extractor"),
    ("fbnn-hw chip-cil --scenario cifar10-4+3x2 --model 0.5mb-fe4.pt --head skip --hidden-counter-bits 4 --slots 250 --against none",
     "the checkpoint's own classifier, DenseSkip included, with a small buffer"),
)
HEADS = ("dense", "dense2", "skip")
BASELINES = ("adam", "adam-equal-memory", "nearest-mean", "streaming-lda")
HELP = {
    "slots": "exemplars in the replay buffer", "counter_bits": "bits of a counter of the output layer",
    "hidden_counter_bits": "of the hidden layer; 0: it does not learn", "temperature": "of the drawn softmax, in units of the logits",
    "margin": "of the rule margin", "thinning": "m: a counter moves with probability 2^-m", "hidden_thinning": "m of the hidden layer",
    "gate": "hidden rows learn where |dot| is at most this", "replays": "replays for each new sample",
    "prototype": "first samples of a new class that are added to its row", "confidence": "counters of shipped weights start so far from 0",
}
DEFAULTS = {"slots": 1000}


def arguments(parser: Parser) -> None:
    _common.add_scenario(parser, required=True)
    _common.add_model(parser)
    _common.add_data_dir(parser)
    parser.add_argument("--setting", choices=SETTINGS, help="rpt: the pre-training's classes are the first task; fpt: they do not come "
                        "(default: rpt where the scenario has them)")
    parser.add_argument("--head", choices=HEADS, default="dense",
                        help="one dense layer; one on the latent duplicated; or the checkpoint's, with its hidden layer (default: dense)")
    learner = parser.add_argument_group("learner")
    for field in fields(LearnConfig):
        if field.name in HELP:
            default = DEFAULTS.get(field.name, field.default)
            other = "".join(f"; {ADDING_DEFAULTS[rule][field.name]} with {rule}" for rule in ADDING if field.name in ADDING_DEFAULTS[rule])
            learner.add_argument(f"--{field.name.replace('_', '-')}", type=_common.natural, metavar="N",
                                 help=f"{HELP[field.name]} (default: {default}{other})")
    learner.add_argument("--rule", choices=RULES, default=LearnConfig.rule, help=f"default: {LearnConfig.rule}")
    learner.add_argument("--pick", choices=PICKS, default=LearnConfig.pick,
                         help=f"a replay is of a random slot, a random class, or the class presented least (default: {LearnConfig.pick})")
    learner.add_argument("--weighted", action="store_true", help="accept updates by inverse frequency of the classes")
    learner.add_argument("--rehearse", type=_common.natural, default=0, metavar="N", help="replays after each task (default: 0)")
    parser.add_argument("--samples", type=_common.count, metavar="N", help="training samples of each class (default: all)")
    parser.add_argument("--validate", action="store_true",
                        help="test on the last fifth of the training images of each class, which nobody learns then: to choose settings by")
    parser.add_argument("--seeds", type=_common.count, default=1, metavar="N", help="runs, with seeds 0 to N - 1 (default: 1)")
    parser.add_argument("--against", default=",".join(BASELINES), metavar="A,B,...",
                        help=f"{', '.join(BASELINES)}, or none (default: all of them)")
    parser.add_argument("--epochs", type=_common.count, default=10, metavar="N", help="of adam, for each task (default: 10)")
    parser.add_argument("--lr", type=_common.positive, default=1e-3, metavar="X", help="of adam (default: 0.001)")
    parser.add_argument("--out", metavar="FILE.json", help="write the result there too")
    _common.add_threads(parser)


def run(args: Args, out: Output) -> None:
    scenario, against = SCENARIOS[args.scenario], [] if args.against == "none" else args.against.split(",")
    for name in against:
        if name not in BASELINES:
            raise UsageError(f"--against {name}: no such learner, expected some of {', '.join(BASELINES)}, or none")
    if args.out:
        _common.named("--out", args.out, ".json")
    names = {field.name for field in fields(LearnConfig)}
    given = {n: v for n, v in vars(args).items() if n in names and v is not None}
    setting = args.setting or scenario.settings[0]
    scenario.split(0, setting)  # refuses what is wrong with either before the latents take their minutes
    config = LearnConfig(scenario.arriving(setting), **ADDING_DEFAULTS.get(args.rule, DEFAULTS) | given)
    config.verify()
    path, network = _common.checkpoint(args.model)
    if args.out:
        _common.writable(Path(args.out), ("the file of --model", path))
    head = Head.of(network.topology)
    if args.head != "skip":
        head = replace(head, copies=1 + (args.head == "dense2"), hidden=0, groups=1, hidden_copies=1)
    if args.head == "skip" and not head.hidden:
        raise InputError(f"{path}: has no hidden layer beside the latent, expected one with --head skip")
    _common.set_threads(args)
    from ..train.chip_study import Study, StudyOptions, summarise

    study = Study(scenario, path, config, head, StudyOptions(
        args.data_dir, args.samples, args.head, args.validate, args.rehearse, args.epochs, args.lr, out.progress, out.detail,
        setting))
    runs = [study.run(seed, against) for seed in range(args.seeds)]
    summary = summarise(runs)
    trained_on = [name for name in network.topology.classes if any(name in one["classes"] for one in runs)]
    result = {"command": _common.command_line(args), "scenario": args.scenario, "setting": setting, "model": path,
              "trained_on": trained_on, "head": vars(head), "config": config.to_dict(), "ledger": config.ledger(head),
              "adam": {"epochs": args.epochs, "lr": args.lr},
              "samples_per_class": args.samples, "validate": args.validate, "rehearse": args.rehearse, "summary": summary, "runs": runs}
    rows = [(name, of(s["a_final"]), of(s["d_final"], 1, 3), f"{s['memory_bits'] / 1e6:.3f}") for name, s in summary.items()]
    out.text(*_common.table(rows, ("learner", "a_final %", "d_final", "memory Mb")),
             "", f"{args.seeds} {plural(args.seeds, 'seed')}, {config.slots} {plural(config.slots, 'exemplar')}, "
             f"{config.max_classes} classes; the extractor was trained on "
             + (f"{len(trained_on)} of them: {', '.join(trained_on)}" if trained_on else "none of them"))
    if args.out:
        from .train import write_result

        try:
            write_result(Path(args.out), result)
        except InputError as error:  # hours of work are on the screen, or in the object of --json
            raise InputError(str(error), result) from None
    out.result(result)


def of(pair: tuple[float, float | None], scale: float = 100, digits: int = 2) -> str:
    mean, deviation = pair
    return f"{mean * scale:.{digits}f}" + ("" if deviation is None else f" +- {deviation * scale:.{digits}f}")
