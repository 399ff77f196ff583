"""`fbnn-hw reproduce`: a table or figure of the paper, its values beside ours, and the runs behind them."""

import re
import shlex
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

from ..base import files
from ..base.errors import InputError, UsageError, nearest
from ..ir import checkpoint
from ..ir.models import AIRBENCH, FLOATING
from ..ir.shipped import resolve
from ..train import results as recorded
from ..train.exhibits import CHOICES, EXHIBITS, Exhibit, Row
from ..train.scenarios import SCENARIOS
from ..train.sweep import finished, path_in, result_path, under_way
from . import _common, sweep
from ._common import Args, Output, Parser
from .pretrain import NAMES

GROUP = "research"
SUMMARY = "a table or figure of the paper: its values beside those of your results, and the runs that give them"
EXAMPLES = (
    ("fbnn-hw reproduce --list", "the name of every table and figure"),
    ("fbnn-hw reproduce encoding --scenario tiny-2+2x2 --model 0.5mb --flags '--epochs 2' --results results --run --seeds 0 1 --jobs 2",
     "run what is missing in results/, here on synthetic images, then print paper and ours side by side"),
)


def arguments(parser: Parser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="a table or figure; see --list")
    parser.add_argument("--list", action="store_true", help="name every table and figure")
    parser.add_argument("--results", default="results", metavar="DIR", help="where result files lie and are written (default: results)")
    _common.add_scenario(parser, help="another scenario than the paper's, to stand in for it: ")
    parser.add_argument("--init", metavar="FE.pt",
                        help="pre-trained checkpoint of the runs that start from one, or sha256:HEX of one that is not at hand; results "
                        "of another one do not count")
    parser.add_argument("--model", metavar="NAME",
                        help="architecture of the pre-trainings whose rows name none (default: that of the results; 3mb for runs)")
    parser.add_argument("--plot", metavar="DIR", help="draw the figure into DIR as PNG and SVG")
    runs = parser.add_argument_group("runs")
    runs.add_argument("--run", action="store_true", help="run what has no result yet")
    runs.add_argument("--dry-run", action="store_true", help="print the command lines of what has no result yet")
    runs.add_argument("--seeds", type=_common.seed, nargs="+", default=[0], metavar="N", help="seeds of the runs (default: 0)")
    sweep.add_runs(runs)
    runs.add_argument("--flags", default="", metavar="TEXT", help="more flags for every run, in quotes, such as '--lr 1e-3 --epochs 20'; "
                      "results on other --images do not count")
    runs.add_argument("--data-dir", metavar="DIR", help="where the data set lies")


def run(args: Args, out: Output) -> int:
    if args.list:
        out.text(*_common.table([(e.name, e.number, e.ref, e.title) for e in EXHIBITS.values()], ("name", "in the paper", "label", "what")))
        out.result({"exhibits": {e.name: {"number": e.number, "ref": e.ref, "title": e.title, "runs": len(e.rows)}
                                 for e in EXHIBITS.values()}})
        return 0
    if args.name not in EXHIBITS:
        raise UsageError(f"{args.name or 'no name'}: no such table or figure, expected one of {', '.join(EXHIBITS)}")
    if args.run + args.dry_run + bool(args.submit) > 1:
        raise UsageError("--run, --dry-run and --submit: expected one of them")
    exhibit = EXHIBITS[args.name]
    args.running = bool(args.run or args.dry_run or args.submit)
    origin, path = extractor(args)
    refuse(args, exhibit)
    out.text(f"{exhibit.title} ({', '.join(filter(None, (exhibit.number, exhibit.ref)))})")
    if not exhibit.rows:
        from ..ir.models import build

        rows: list[tuple] = []
        if exhibit.structure:
            topology = build(exhibit.structure, 50 if exhibit.structure == "res3mb" else 100)
            rows = [*((layer["name"], layer["kind"], "x".join(map(str, layer["shape"])), layer["weight_bits"], layer["fan_in"] or 0)
                      for layer in topology.table()), ("total", "", "", topology.weight_bits(), 0)]
        out.text(*(_common.table(rows, ("layer", "op", "output", "weight bits", "fan-in")) if rows else [exhibit.note]))
        out.result({"name": exhibit.name, "note": exhibit.note, "layers": rows})
        return 0
    scenario = args.scenario or exhibit.scenario
    if scenario != exhibit.scenario:
        out.text(f"{scenario} stands in for {exhibit.scenario}: the paper's values are of another data set")
    results = recorded.read(Path(args.results), scenario)
    counts = partial(matches, flags=args.flags, origin=origin, model=args.model)
    one_network(args, exhibit, [r for r in results if any(counts(row, r) for row in exhibit.rows)])
    todo = [(row, seed) for row in exhibit.rows for seed in args.seeds
            if row.verb and not any(counts(row, r, seed, model=args.model or MODEL) for r in results)]
    if args.running and path and checkpoint.read(path).thresholds:
        kept = [(row, seed) for row, seed in todo if "--replay native" not in row.flags]
        if len(kept) < len(todo):
            out.note(f"{args.init}: has thresholds, which the native replay of the paper cannot train; {len(todo) - len(kept)} runs are "
                     "left out")
        todo = kept
    if args.dry_run:
        lines = [shlex.join(["fbnn-hw", *command(args, exhibit, row, seed)]) for row, seed in todo]
        out.text(*lines)
        out.result({"name": exhibit.name, "commands": lines})
        return 0
    if (args.run or args.submit) and todo:
        code = execute(args, exhibit, todo, out)
        if code:
            out.result({"name": exhibit.name, "error": "a run failed", "exit_code": code})
        if code or args.submit:
            return code
        results = recorded.read(Path(args.results), scenario)
    compared = [recorded.compare(row, [r for r in results if counts(row, r)]) for row in exhibit.rows]
    metrics = list(dict.fromkeys(m for row in exhibit.rows for m in row.paper))
    rows = [(c["label"], *(recorded.beside(c, m) for m in metrics), len(c["seeds"]) or "-") for c in compared]
    out.text(*_common.table(rows, ("run", *(f"{m} paper / ours" for m in metrics), "seeds")))
    if exhibit.note:
        out.text(exhibit.note)
    if not any(c["seeds"] for c in compared):
        out.text(f"no results of {scenario} in {args.results} that are these runs; --run makes them, --dry-run prints their commands",
                 *near(exhibit, results))
    for c in compared:
        if len(set(c["seeds"])) < len(c["seeds"]):
            out.note(f"{c['label']}: {len(c['seeds'])} results share seeds, so they differ in recipe or --init; all are averaged")
    written = []
    if args.plot:
        from ..report import cil as report

        drawn = [r for r in results if any(counts(row, r) for row in exhibit.rows)]
        if not drawn:
            raise InputError(f"{args.results}: no results to plot, expected some of {exhibit.name}; --run makes them")
        written = report.draw(exhibit, drawn, files.make_folder(args.plot), scenario == exhibit.scenario, SCENARIOS[scenario].classes)
        out.text(f"written: {', '.join(map(str, written))}")
    out.result({"name": exhibit.name, "scenario": scenario, "rows": compared, "plots": written})
    return 0


def refuse(args: Args, exhibit: Exhibit) -> None:
    """UsageError for flags that the exhibit cannot follow, before anything is printed or run."""
    if args.plot and not exhibit.plot:
        raise UsageError(f"--plot: {exhibit.name} is not a plot, expected one of {', '.join(e.name for e in EXHIBITS.values() if e.plot)}")
    sweep.verify_submit(args)
    _common.once("--seeds", args.seeds)
    if args.model and args.model not in NAMES:
        raise UsageError(f"--model {args.model}: expected one of {', '.join(NAMES)}{nearest(args.model, NAMES)}")
    if args.running and not exhibit.rows:
        raise UsageError(f"{exhibit.name}: has no runs of its own, expected no --run, --dry-run and --submit")
    try:
        words = shlex.split(args.flags)
    except ValueError as error:
        raise UsageError(f"--flags {args.flags}: {error}, expected flags as a shell takes them") from None
    if own := [flag for flag in _common.flags(words) if flag in OWN]:
        raise UsageError(f"--flags {args.flags}: reproduce sets {own[0]} of each run itself, expected none")
    for row in (row for row in exhibit.rows if row.verb):
        parsed(row, args.flags)
        if args.running:
            command(args, exhibit, row, args.seeds[0])


def one_network(args: Args, exhibit: Exhibit, results: list[dict]) -> None:
    """Raises UsageError where no mean can be taken over the results of a row.

    Such are runs that start from {fe} and have several first checkpoints, and pre-trainings of {model} that are of several models.
    """
    for row in (row for row in exhibit.rows if "{model}" in row.flags):
        models = {r["training"]["model"] for r in results if matches(row, r, flags=args.flags, model=args.model)}
        if len(models) > 1:
            raise UsageError(f"{args.results}: has {row.label} of {len(models)} models, {', '.join(sorted(models))}; expected --model with "
                             f"one of them")
    own = [row for row in exhibit.rows if "{fe}" in row.flags]
    sources: dict[str | None, str] = {}
    for r in results:
        if r["kind"] == "cil" and any(matches(row, r, flags=args.flags) for row in own):
            sources.setdefault(r["init"].get("sha256"), r["init"]["source"].split(" (")[0])
    if len(sources) > 1:
        listed = ", ".join(f"{name} (sha256:{str(sha)[:8]})" for sha, name in sources.items())
        raise UsageError(f"{args.results}: has results of {len(sources)} pre-trained checkpoints, {listed}; expected --init with one of "
                         f"them")


def near(exhibit: Exhibit, results: list[dict]) -> Iterator[str]:
    """Lines that say which results of the exhibit's settings are there, where none is one of its runs."""
    settings = {parsed(row).setting for row in exhibit.rows if row.verb == "cil"}
    kinds: dict[tuple, int] = {}
    for r in results:
        if r["kind"] == "cil" and r["config"]["setting"] in settings and r["config"]["strategy"] == "replay":
            key = r["config"]["setting"], r["config"]["replay"], f"{r['config']['buffer_mb']:g} Mb"
            kinds[key] = kinds.get(key, 0) + 1
    if kinds:
        listed = ", ".join(f"{count} of {' '.join(key)}" for key, count in sorted(kinds.items()))
        yield f"there are other runs of its setting: {listed}"


MODEL = "3mb"
"""Of runs whose row names none, the paper's."""
ANY = dict(fe="fe.pt", model=MODEL, folder=".", seed=0)


def parsed(row: Row, flags: str = "") -> Args:
    """The row's flags, and more of them as text, as its verb reads them."""
    return _parsed(f"{row.verb} {row.flags.format(**ANY)} {flags} --scenario {next(iter(SCENARIOS))}")


_parsed = cache(lambda text: sweep.parse(shlex.split(text)))  # asked for every pair of a row and a result


def matches(row: Row, result: dict[str, Any], seed: int | None = None, flags: str = "", origin: str | None = None,
            model: str | None = None) -> bool:
    """Whether a result belongs to the run of a row.  The recipe may differ; --images must be as in `flags`.

    seed: of the result, unless None.  origin: SHA-256 of its first checkpoint, unless None.  model: of a pre-training whose row names
    none; None: any binary one.
    """
    if result["kind"] != row.verb:
        return False
    expected = parsed(row, flags)
    if row.verb == "cil":
        config = result["config"]
        if config["images"] != (expected.images or 0) or config["class_order"] is not None or config["teacher"] or (
                origin and "{fe}" in row.flags and not (result["init"].get("sha256") or "").startswith(origin)):
            return False
        special = "{folder}" not in row.flags or Path(expected.init).stem.rsplit("-s", 1)[0] == result["init"]["source"].rsplit("-s", 1)[0]
        return special and all(config[k] == getattr(expected, k) for k in CHOICES) and seed in (None, result["seed"])
    training = result["training"]
    objective = {k: getattr(expected, k) for k in ("alpha", "beta", "gamma", "features", "decorrelate")}
    special = any(training.get(k) is not None for k in ("latent", "pooling", "depth"))
    if "{model}" not in row.flags:
        model = expected.model
    named = training["model"] == model if model else training["model"] not in (*FLOATING, AIRBENCH)
    return (named and not special and training["images_per_class"] == expected.images
            and {"decorrelate": 0.0, **training["objective"]} == objective  # results to 0.3.0 lack that term
            and training["config"]["K"] == expected.K and training["activations"] == expected.activations
            and all(training[k] == getattr(expected, k) for k in ("norm", "encoder", "all_classes")) and seed in (None, training["seed"]))


def command(args: Args, exhibit: Exhibit, row: Row, seed: int) -> list[str]:
    """argv of a row's run."""
    if "{fe}" in row.flags and not args.init:
        raise UsageError(f"{exhibit.name}: its runs start from a pre-trained network, expected --init FE.pt from fbnn-hw pretrain")
    flags = shlex.split(row.flags.format(
        fe=shlex.quote(args.init or ""), model=args.model or MODEL, folder=shlex.quote(args.results), seed=seed))
    scenario = args.scenario or exhibit.scenario
    name = re.sub(r"[^a-z0-9]+", "-", f"{scenario} {row.verb} {re.sub('{.*?}', '', row.flags)} s{seed}".lower()).strip("-")
    target = [] if "--out" in flags else ["--out", path_in(args.results, f"{name}{'.json' if row.verb == 'cil' else '.pt'}")]
    more = [*(["--data-dir", args.data_dir] if args.data_dir else []), *shlex.split(args.flags)]
    return [row.verb, "--scenario", scenario, *flags, "--seed", str(seed), *target, *more]


def execute(args: Args, exhibit: Exhibit, todo: list[tuple[Row, int]], out: Output) -> int:
    """Run the rows, pre-trainings first; returns an exit code."""
    runs = [command(args, exhibit, row, seed) for row, seed in todo]
    for argv in runs:
        if finished(path := result_path(argv)):
            raise UsageError(f"{path}: is the result of another --init, --model or --images, and would be replaced; expected another "
                             "--results folder")
    handed = False
    for verb in ("pretrain", "cil"):
        commands = [argv for argv in runs if argv[0] == verb]
        active = under_way(Path(args.results), commands)
        for name, state in sorted(active.items()):
            out.note(f"{name}: {state}; left alone")
        commands = [argv for argv in commands if str(result_path(argv)) not in active]
        code = sweep.execute(args, commands, out, f"{verb} runs") if commands else 0
        handed = handed or bool(commands)
        if code:
            return code
        if args.submit and commands and verb == "pretrain" and any(row.verb == "cil" for row, _ in todo):
            out.note("the runs that start from these pre-trainings come with the next --submit, once they are done")
            return 0
    if args.submit and not handed:
        out.result({"jobs": []})
    return 0


OWN = [f"--{name}" for name in ("scenario", "seed", "out", "init", "model", *sweep.OWN)]
"""Flags of a run that --flags cannot give."""
HEX = re.compile("sha256:([0-9a-f]{8,64})")


def extractor(args: Args) -> tuple[str | None, Path | None]:
    """Return (SHA-256 of --init or its first digits, path of its file); None for what is not there.

    Raises InputError where there is no such file, because the results of any other file would then count.
    """
    if not args.init:
        return None, None
    if match := HEX.fullmatch(args.init):
        if args.running:
            raise UsageError(f"--init {args.init}: runs need the file itself, expected a checkpoint with --run, --dry-run and --submit")
        return match[1], None
    path = resolve(args.init, "--init")
    if not path.is_file():
        raise InputError(f"--init {args.init}: is no file, expected a checkpoint")
    return files.sha256_of(path), path
