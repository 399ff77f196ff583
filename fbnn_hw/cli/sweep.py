"""`fbnn-hw sweep`: one command line over a grid of flags and seeds, as parallel processes or cluster jobs."""

import argparse
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..base import extras, files
from ..base.errors import UsageError
from . import _common
from ._common import Args, Output, Parser

GROUP = "research"
SUMMARY = "run train, pretrain or cil over a grid of flags and seeds, and print mean and deviation"
EXAMPLES = (
    ("fbnn-hw sweep runs --over lr 1e-4 1e-3 --over seed 0 1 2 --jobs 2 -- train --model 0.5mb --data tiny --epochs 2",
     "six runs, two at a time; again: goes on with what is missing or interrupted, then prints the table"),
    ("fbnn-hw sweep runs --over lr 1e-3 3e-3 --over no-augment no yes --submit slurm --partition gpu --time 600 -- train --model 0.5mb "
     "--data cifar10 --epochs 10",
     "four runs as one job array of Slurm; a flag without a value is swept by no and yes"),
)
OWN = ("state", "save", "csv", "plot", "resume", "restart")
"""Flags of a verb that a sweep sets, or that would be the same file for all its runs."""
INDIFFERENT = ("out", "csv", "plot", "resume", "threads", "device", "data_dir", "json", "verbose")
"""Flags that may differ between a result that is there and the run that would make it."""
VERBS = {"train": ".pt", "pretrain": ".pt", "cil": ".json"}


def arguments(parser: Parser) -> None:
    parser.add_argument("folder", metavar="FOLDER", help="where the results lie and are written")
    parser.add_argument("command", nargs="+", metavar="-- VERB FLAGS", help=f"the command line, {', '.join(VERBS)}, without --out")
    parser.add_argument("--over", nargs="+", action="append", required=True, metavar="FLAG VALUE",
                        help="a flag of the verb, without dashes, and its values; may be given again")
    parser.add_argument("--dry-run", action="store_true", help="print the command lines that are still to run")
    parser.add_argument("--table", action="store_true", help="print the table of what is there now, and run nothing")
    parser.add_argument("--csv", metavar="FILE.csv", help="write the table there too, with mean and deviation of each metric")
    add_runs(parser)


def add_runs(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--jobs", type=_common.count, default=1, metavar="N", help="processes at a time (default: 1)")
    parser.add_argument("--submit", choices=("slurm", "local"), help="hand the runs to a cluster as one job array; local: submitit's "
                        "processes here, which stay after this command")
    parser.add_argument("--partition", metavar="NAME", help="of Slurm (default: the cluster's)")
    parser.add_argument("--time", type=_common.count, metavar="MIN", help="minutes that a job may run; it then starts again from its state "
                        "(default: the cluster's)")
    parser.add_argument("--logs", metavar="DIR", help="where the jobs' output goes (default: logs in the folder of the results)")
    parser.add_argument("--submit-options", default="", metavar="K=V,...", help="more of submitit's executor, such as "
                        "slurm_array_parallelism=4,cpus_per_task=2")


def run(args: Args, out: Output) -> int | None:
    from ..train import sweep

    if not args.folder:  # a shell makes it of an unset variable
        raise UsageError("FOLDER: found '', expected a folder")
    verb, *fixed = args.command
    if verb not in VERBS:
        raise UsageError(f"{verb}: cannot be swept, expected one of {', '.join(VERBS)}, after --")
    if args.dry_run + args.table + bool(args.submit) > 1:
        raise UsageError("--dry-run, --table and --submit: expected one of them")
    verify_submit(args)
    if args.csv:
        _common.named("--csv", args.csv, ".csv")
        _common.writable(Path(args.csv))
    over = checked(verb, fixed, args.over)
    runs = [(name, values, [*taken([verb, *fixed, *words(verb, values)], values), "--out",
                            sweep.path_in(args.folder, f"{name}{VERBS[verb]}")])
            for name, values in sweep.grid(over)]
    _common.once("--over", [name for name, _, _ in runs])
    todo = []
    for _, _, argv in runs:  # what is wrong is refused before the first run
        run_args = parse(argv)
        for flag in OWN:
            if getattr(run_args, flag, None):
                raise UsageError(f"--{flag} after {verb}: each run of a sweep has its own, expected none")
        if result := sweep.finished(sweep.result_path(argv)):
            check_same(result, argv, run_args)
        else:
            todo.append(argv)
    active = sweep.under_way(Path(args.folder), todo)
    todo = [argv for argv in todo if str(sweep.result_path(argv)) not in active]
    if args.dry_run:
        lines = [shlex.join(["fbnn-hw", *argv]) for argv in todo]
        out.text(*lines)
        out.result({"commands": lines})
        return 0
    for path, state in sorted(active.items()):
        out.note(f"{path}: {state}; left alone")
    code = 0 if args.table else execute(args, todo, out)
    if args.submit:
        return code
    paths = [sweep.result_path(argv) for _, _, argv in runs]
    results = [(values, path, sweep.finished(path)) for (_, values, _), path in zip(runs, paths)]
    check_origins(results)
    rows = sweep.summary(verb, [flag for flag, _ in over], [(values, result, str(path) in active) for values, path, result in results])
    busy = ("under way",) if active else ()
    metrics = sweep.METRICS[verb]
    cells = [[*row["flags"].values(), row["runs"], *([row["under_way"]] if active else []), *(sweep.mean_text(row[m]) for m in metrics)]
             for row in rows]
    out.text(*_common.table(cells, (*rows[0]["flags"], "runs", *busy, *metrics)))
    if args.csv:
        head = [*rows[0]["flags"], "runs", *(f"{m}{ending}" for m in metrics for ending in ("", "_deviation"))]
        values = [[*row["flags"].values(), row["runs"], *(row[m][k] for m in metrics for k in ("mean", "deviation"))] for row in rows]
        files.write(args.csv, _common.csv_text([head, *values]).encode())
        out.text(f"written: {args.csv}")
    out.result({"rows": rows, **({"error": "a run failed", "exit_code": code} if code else {})})
    return code


def verify_submit(args: Args) -> None:
    """Raises UsageError for a flag of --submit without it."""
    for flag in ("partition", "time", "logs", "submit_options"):
        if getattr(args, flag) and not args.submit:
            raise UsageError(f"--{flag.replace('_', '-')}: is for jobs of a cluster, expected --submit slurm with it")


def checked(verb: str, fixed: list[str], over: list[list[str]]) -> list[tuple[str, list[str]]]:
    """[(flag, values)] of --over; raises UsageError for a flag that the verb lacks, that is given twice or has no values."""
    grid: list[tuple[str, list[str]]] = []
    fixed_flags = _common.flags(fixed)
    for flag, *values in over:
        action = _action(verb, flag)
        if flag in ("out", *OWN) or action is None:
            raise UsageError(f"--over {flag}: not a flag of {verb} that can be swept, expected one such as seed")
        if not values or flag in [name for name, _ in grid] or f"--{flag}" in fixed_flags:
            raise UsageError(f"--over {flag}: expected one --over with at least one value, and no --{flag} after {verb}")
        if action.nargs == 0 and not set(values) <= {"no", "yes"}:
            raise UsageError(f"--over {flag} {' '.join(values)}: takes no value, expected no, yes or both")
        _common.once(f"--over {flag}", values)
        with suppress(ValueError, TypeError, argparse.ArgumentTypeError):  # what is no value of the flag, the verb will refuse
            _common.once(f"--over {flag}", list(map(action.type or str, values)))
        grid.append((flag, values))
    if "--out" in fixed_flags:
        raise UsageError(f"--out after {verb}: the sweep names the results, expected none")
    return grid


def check_same(result: dict[str, Any], argv: list[str], run_args: Args) -> None:
    """Raises UsageError where the result that is there is one of other flags."""
    from ..train import sweep

    command = (result if argv[0] == "cil" else result["training"]).get("command")
    if not command:
        return
    try:
        written = shlex.split(command)[1:]
        if written[0] != argv[0] or not {"-h", "--help"}.isdisjoint(written):
            return
        result_args = parse(written)
    except (UsageError, ValueError, IndexError, AttributeError):  # of another version, or no command line
        return
    differ = [name for name, value in vars(run_args).items() if name not in INDIFFERENT and vars(result_args).get(name) != value]
    if differ:
        raise UsageError(f"{sweep.result_path(argv)}: was made with another --{differ[0].replace('_', '-')}, expected the same flags; use "
                         "another folder")


def check_origins(results: list[tuple]) -> None:
    """Raises UsageError where results that differ in their seeds alone began with other weights.

    results: [(values, path, result or None)].
    """
    origins: dict[tuple, tuple] = {}
    for values, path, result in results:
        result = result or {}
        init = result.get("init") or (result.get("training") or {}).get("init")
        if isinstance(init, dict) and isinstance(sha := init.get("sha256"), str) and sha:
            key = tuple(pair for pair in values.items() if pair[0] != "seed")
            other, before = origins.setdefault(key, (path, sha))
            if before != sha:
                raise UsageError(f"{path}: began with other weights (sha256:{sha[:8]}) than {other} (sha256:{before[:8]}), expected the "
                                 "same; delete those that are out of date, or use another folder")


def parse(argv: list[str]) -> Args:
    from . import parser

    return parser(argv[0]).parse_args(argv[1:])


def _action(verb, flag):
    from . import parser

    return next((a for a in parser(verb)._actions if f"--{flag}" in a.option_strings), None)


def words(verb: str, values: dict[str, str]) -> Iterator[str]:
    """{flag: value} as words of a command line."""
    for flag, value in values.items():
        if _action(verb, flag).nargs == 0:
            yield from [f"--{flag}"] * (value == "yes")
        else:
            yield f"--{flag}={value}" if value.startswith("-") else f"--{flag}"
            yield from [] if value.startswith("-") else [value]


def taken(argv: list[str], values: dict[str, str]) -> list[str]:
    """The command line of a run, without flags that its strategy has no use for where strategies are swept."""
    from . import cil

    while "strategy" in values:
        try:
            cil.config(parse(argv))
            break
        except UsageError as error:
            flag = re.match(r"(--[\w-]+)[^:]*: ", str(error))
            if not flag or f"--strategy {values['strategy']}" not in str(error) or flag[1] in ("--strategy", "--replay", "--setting") \
                    or flag[1] not in _common.flags(argv):
                break  # the run itself is refused
            at = _common.flags(argv).index(flag[1])
            takes_value = _action(argv[0], flag[1].removeprefix("--")).nargs != 0 and "=" not in argv[at]
            argv = argv[:at] + argv[at + 1 + takes_value:]
    return argv


def execute(args: Args, commands: list[list[str]], out: Output, title: str = "runs") -> int:
    """Run command lines, those with a state from where they were; the first exit code that is not 0, or 0."""
    from ..train import sweep

    for argv in commands:
        files.make_folder(Path(argv[argv.index("--out") + 1]).parent)
    if args.submit:
        folder = Path(getattr(args, "folder", None) or args.results)
        options = {**({"slurm_partition": args.partition} if args.partition else {}), **({"timeout_min": args.time} if args.time else {}),
                   **sweep.options(args.submit_options)}
        jobs = sweep.handed_over(commands, folder, args.logs or folder / "logs", options, args.submit) if commands else []
        listed = [{"id": job.job_id, "command": shlex.join(["fbnn-hw", *argv])} for job, argv in zip(jobs, commands)]
        out.text(*(f"job {job['id']}: {job['command']}" for job in listed))
        out.result({"jobs": listed})
        return 0
    if commands and not extras.has_torch():
        raise extras.absent("torch", extras.TRAIN, title)
    commands = [sweep.resumed(argv) for argv in commands]
    bar, said = out.progress(total=len(commands), desc=title), set()

    def done(index, code, message):
        bar.update(1)
        if code:
            out.note(f"{shlex.join(commands[index])}: exit code {code}, {message}")
            if message in said:
                out.note("the same error a second time, so no more runs are started")
                return True
            said.add(message)
        return False

    out.kept = "results and states of the runs are kept; the same command goes on from there"
    try:
        codes = sweep.local(commands, args.jobs, done=done)
    finally:
        bar.close()
    return next((code for code in codes if code), 0)
