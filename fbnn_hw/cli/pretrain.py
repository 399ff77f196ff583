"""`fbnn-hw pretrain`: a feature extractor for `cil`, with self-supervised and feature terms beside the labels."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..base import extras, files
from ..base.errors import UsageError
from ..ir.models import AIRBENCH, CHOICES, FLOATING, MODELS
from ..ir.shipped import resolve
from ..train.scenarios import SCENARIOS, Scenario
from . import _common
from ._common import Args, Output, Parser
from .train import add_images, add_recipe, add_state, add_teacher, device, paths, recipe, refuse_idle, to_the_end

GROUP = "research"
EXTRA = extras.TRAIN
SUMMARY = "pre-train a feature extractor on a scenario's pre-training task"
EXAMPLES = (
    ("fbnn-hw pretrain --model 0.5mb --scenario cifar10-4+3x2 --epochs 10 --lr 1e-3 --schedule cosine --patience 0 --c 1 --out fe.pt",
     "on four classes of CIFAR-10, by labels alone; writes fe.pt, fe.result.json and fe.state"),
    ("fbnn-hw pretrain --model 3mb --scenario cifar100-50+5x10 --beta 1e-5 --gamma 1e-2 --out fe.pt",
     "the paper's best: cross-entropy, Barlow Twins and feature regularisation"),
)
WHITENING_IMAGES = 5000
FLOATS = (*FLOATING, AIRBENCH)
NAMES = (*MODELS, *FLOATS)


def arguments(parser: Parser) -> None:
    parser.add_argument("--model", required=True, choices=NAMES, metavar="NAME",
                        help=f"architecture: {', '.join(NAMES)}; fpnn: floating-point baselines of 3mb or another, "
                        "b with as many bits, p with as many weights; airbench: a float network to teach; all without a checkpoint")
    _common.add_scenario(parser)
    parser.add_argument("--data", choices=_common.DataNames((), "; data sets come with --scenario"), metavar="FOLDER",
                        help="in place of a scenario: all classes of a folder with a subfolder of pictures for each class")
    _common.add_fit(parser, size=True)
    _common.add_data_dir(parser)
    add_images(parser)
    parser.add_argument("--all-classes", action="store_true", help="offline training on all classes of the scenario instead")
    parser.add_argument("--encoder", choices=("tycc", "trgb", "grey"), default="tycc", help="thermometer code of the input (default: tycc)")
    parser.add_argument("--latent", type=_common.count, metavar="N", help="bits of the latent (default: the model's)")
    parser.add_argument("--pooling", choices=CHOICES["pooling"], help="what makes a vector of the last map (default: the model's)")
    parser.add_argument("--depth", type=_common.natural, metavar="N", help="DenseSkip blocks behind the latent (default: 1)")
    parser.add_argument("--activations", choices=("binary", "float"), default="binary",
                        help="float: the first stage of the multi-stage training, with --norm bn, without a checkpoint (default: binary)")
    parser.add_argument("--init", metavar="FILE.pt", help="go on from a checkpoint, with the proxies of the state beside it; from a stage "
                        "with --norm bn, and with --norm scales, scales take its batch norm's place")
    terms = parser.add_argument_group("loss")
    terms.add_argument("--alpha", type=float, default=1.0, metavar="X", help="weight of the cross-entropy (default: 1)")
    terms.add_argument("--beta", type=float, default=0.0, metavar="X", help="weight of Barlow Twins (default: 0)")
    terms.add_argument("--gamma", type=float, default=0.0, metavar="X", help="weight of the feature regularisation (default: 0)")
    terms.add_argument("--features", choices=("intended", "printed"), default="intended",
                       help="feature regularisation as the paper's text means it, or as its equation is printed (default: intended)")
    terms.add_argument("--decorrelate", type=float, default=0.0, metavar="X",
                       help="weight of the squared covariances of different bits of the latent (default: 0)")
    terms.add_argument("--unlabeled", action="store_true", help="all terms but the first on the unlabelled images of the data set (stl10)")
    parser.add_argument("--out", metavar="FILE.pt", help="checkpoint to write at each better epoch (default: MODEL-SCENARIO.pt)")
    add_state(parser, "training state, to go on from (default: beside the checkpoint, .state)")
    add_teacher(parser)
    add_recipe(parser)


def _scenario(args):
    """The `Scenario` of the flags; of a folder one that takes all its classes.  Sets args.data, part of the checkpoint's default name."""
    if bool(args.scenario) == bool(args.data):
        raise UsageError("found both --scenario and --data, expected one of them" if args.data else "missing --scenario, or --data FOLDER; "
                         "see fbnn-hw pretrain --help")
    if args.scenario:
        if args.resize or args.crop or args.size:
            raise UsageError("--resize, --crop, --size: have no meaning with --scenario, expected --data FOLDER")
        args.data = args.scenario
        return SCENARIOS[args.scenario]
    args.scenario = _common.data_name(args)
    return Scenario(f"{args.scenario}/", args.data, args.data, 0, 0, 0)  # no name of the table's


def refuse(args: Args, scenario: Scenario) -> None:
    """Raises UsageError at a flag that means nothing for this scenario, model or loss."""
    if scenario.pretrain_data is None and not args.all_classes:
        raise UsageError(f"--scenario {scenario.name}: has no pre-training; expected fbnn-hw cil with --model and --replay native, or "
                         "--all-classes")
    if args.unlabeled and not scenario.unlabeled:
        raise UsageError(f"--unlabeled: {scenario.pretrain_data} has no unlabelled images, expected a scenario such as core50-10x5")
    of_latents = args.beta or args.gamma or args.decorrelate
    if args.unlabeled and not of_latents:
        raise UsageError("--unlabeled: no term uses the images without --beta, --gamma or --decorrelate, expected one of them")
    if args.model in FLOATS and of_latents:
        raise UsageError(f"--model {args.model}: has no latent bits, expected no --beta, --gamma and --decorrelate")
    if args.features != "intended" and not args.gamma:
        raise UsageError(f"--features {args.features}: the feature term has no weight, expected --gamma with it")
    for name in ("beta", "decorrelate"):
        if getattr(args, name) and args.batch < 2:
            raise UsageError(f"--batch 1: has no correlation over the batch, expected at least 2 with --{name}")


def labelled(args: Args, out: Output, name: str, scenario: Scenario) -> tuple[Any, Any]:
    """(train, test) `Images` of the data set `name`: of the scenario's first classes, or of all with --all-classes.  test: None where a
    folder has no such pictures."""
    from ..data import datasets

    if scenario.name not in SCENARIOS:
        train, test = _common.splits(args, out)
    else:
        train, test = (datasets.load(name, args.data_dir, split, progress=out.progress) for split in ("train", "test"))
    test = test and test.by_name(train.classes)
    if scenario.base and not args.all_classes:
        classes = [train.classes[c] for c in scenario.ordered(args.seed)[:scenario.base]]
        train, test = train.select(classes), test and test.select(classes)
    if args.images:
        train = train.thinned(args.images)
    train.whole()
    return train, test


def run(args: Args, out: Output) -> int:
    config, scenario = recipe(args), _scenario(args)
    config.verify()
    refuse_idle(args)
    run_paths = paths(args)
    refuse(args, scenario)
    if args.init and not Path(args.init).with_suffix(".state").is_file():  # a stage with float activations has nothing but its state
        args.init = resolve(args.init, "--init")
    name = scenario.data if args.all_classes else scenario.pretrain_data

    from ..data import datasets

    train, test = labelled(args, out, name, scenario)
    unlabeled = datasets.load(name, args.data_dir, "unlabeled", progress=out.progress).images if args.unlabeled else None

    from ..train import pretrain, start

    processor = device(args, config, out)
    size = datasets.DATASETS[scenario.data].size if scenario.name in SCENARIOS else train.images.shape[-1]
    objective = pretrain.Objective(args.alpha, args.beta, args.gamma, args.features, args.decorrelate)
    origin = pretrain.origin(args.init) if args.init else None
    shape = {name: getattr(args, name) for name in ("latent", "pooling", "depth") if getattr(args, name) is not None}
    model = pretrain.make(args.model, train.classes, size, config, args.encoder, origin, args.activations, **shape)
    if args.model == AIRBENCH:
        model.whiten(pretrain.tensors(train.first(WHITENING_IMAGES), size)[0])
    meta = {"command": _common.command_line(args), "data": _common.kept(name), "scenario": _common.kept(args.scenario), "model": args.model,
            "norm": args.norm, "activations": args.activations, "encoder": args.encoder, "all_classes": args.all_classes,
            "images_per_class": args.images, **shape,
            "objective": asdict(objective)}
    source = origin.sha256 if isinstance(origin, start.Start) else origin and files.sha256_of(origin.with_suffix(".state"))

    model.to(processor)

    def made(**more):
        return pretrain.Pretrainer(model, *pretrain.tensors(train, size), config, objective, unlabeled, init=source, **more)

    return to_the_end(args, out, run_paths, model, origin, meta, made, test and pretrain.tensors(test, size), kind="pretrain",
                      floating=args.model in FLOATS or args.activations == "float")
