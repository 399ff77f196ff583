"""What each part of the training recipe is worth: one change at a time, several seeds, judged by validation images.

    python docs/benchmarks/ablations.py RESULTS --epochs 12 --seeds 0 1 [--teacher FILE.state] [--only NAME...]
    python docs/benchmarks/ablations.py RESULTS --model tiny --taught --teacher FILE.state --epochs 60 --only taught cutmix ...

Runs `fbnn-hw train` for every change and seed that has no finished result in the folder RESULTS, one after the other, then prints the
table.  Ctrl-C stops it; the same line goes on where it was.  --table prints the table of what is there and runs nothing.  With --taught the
recipe is that of the shipped files: all of BASE, a rate of 2e-3, alternating mirroring and a teacher that answers once.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

BASE = ("--data cifar10 --norm bn --precision bfloat16 --lr 1e-3 --schedule cosine --patience 0 --c 1 --shift 2 --contrast 0 "
        "--validation 0.1").split()
CHANGES = {
    "none": "", "scales": "--norm scales", "float32": "--precision float32", "no-statistics": "--statistics 0",
    "two-step": "--float-epochs {third}", "ema": "--ema 0.999", "smoothing": "--smoothing 0.1", "alternating": "--mirror alternating",
    "warm-up": "--warmup 1", "decay": "--decay 0.01", "lr-3e-3": "--lr 3e-3", "lr-3e-4": "--lr 3e-4", "batch-128": "--batch 128",
    "limit-2": "--limit 2", "c-5": "--c 5", "shift-4": "--shift 4", "centre": "--centre", "teacher": "--teacher {teacher}",
    "teacher-0.9": "--teacher {teacher} --distil 0.9",
    "teacher-mirrored": "--teacher {teacher} --teacher-views mirrored --mirror alternating", "mixup": "--mixup 0.2", "cutmix": "--cutmix 1",
    "cutout": "--cutout 8", "open": "--proxies open", "clipped": "--proxies clipped", "pulled": "--proxies pulled",
    "polynomial": "--estimator polynomial", "restarts": "--restarts 2",
    "teachers": "--teacher {teacher} --teacher {others} --teacher-views mirrored --mirror alternating"}
"""Flags of each change.  A flag given twice has its last value, --teacher all of them."""
TAUGHT = "--lr 2e-3 --mirror alternating --teacher-views mirrored".split()
TEACHER = "--teacher", "{teacher}"


def command(args, name, seed, out):
    changed = [*TAUGHT, *TEACHER * ("--teacher" not in CHANGES[name]), *CHANGES[name].split()] if args.taught else CHANGES[name].split()
    others = " --teacher ".join(args.others)
    flags = " ".join(changed).format(third=max(1, args.epochs // 3), teacher=args.teacher, others=others).split()
    resumed = ["--resume"] if out.with_suffix(".state").exists() else []
    return ["train", "--model", args.model, *BASE, "--epochs", str(args.epochs), "--seed", str(seed), "--threads", str(args.threads),
            *(["--images", str(args.images)] if args.images else []), *flags, "--out", str(out), *resumed]


def finished(out):
    """The training record of a finished run, or None."""
    try:
        record = json.loads(out.with_suffix(".result.json").read_text())["training"]
    except (OSError, ValueError):
        return None
    return record if record["finished"] and record["test_accuracy"] is not None else None


def table(args, runs):
    """Markdown rows: the change, seeds, mean and sample deviation of validation, training and test accuracy."""
    rows = ["| change | seeds | validation | training | test | seconds an epoch |", f"|{'---|' * 6}"]
    for name in args.only:
        records = [record for record in (finished(out) for (change, _), out in runs.items() if change == name) if record]
        if not records:
            continue
        cells = []
        for key in ("validation_accuracy", "train_accuracy", "test_accuracy"):
            values = [record[key] for record in records]
            spread = f" +- {statistics.stdev(values):.2%}" if len(values) > 1 else ""
            cells.append(f"{statistics.mean(values):.2%}{spread}")
        pace = statistics.mean(record["seconds"] / record["epochs"] for record in records)
        rows.append(f"| {name} | {len(records)} | {' | '.join(cells)} | {pace:.0f} |")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--model", default="0.5mb")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--images", type=int, help="of each class; all without the flag")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--teacher", help="training state of a network trained with the same seed's validation split")
    parser.add_argument("--others", nargs="+", default=[], help="more such states, for the change teachers")
    parser.add_argument("--taught", action="store_true", help="changes of the recipe of the shipped files, with --teacher")
    parser.add_argument("--only", nargs="+", choices=CHANGES, default=list(CHANGES), metavar="NAME", help=", ".join(CHANGES))
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if args.taught and not args.teacher:
        parser.error("--taught: expected --teacher with it")
    args.only = [name for name in args.only if (args.teacher or "{teacher}" not in CHANGES[name]) and
                 (args.others or "{others}" not in CHANGES[name])]
    runs = {(name, seed): args.results / f"{name}-s{seed}.pt" for seed in args.seeds for name in args.only}
    args.results.mkdir(parents=True, exist_ok=True)
    for (name, seed), out in runs.items():
        if args.table or finished(out):
            continue
        code = subprocess.run([sys.executable, "-m", "fbnn_hw.cli", *command(args, name, seed, out)], stdout=subprocess.DEVNULL).returncode
        if code:
            return code
    print(*table(args, runs), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
