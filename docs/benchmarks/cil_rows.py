"""Many runs of `fbnn-hw cil` from one extractor in one process, for docs/results: each run's result is a line of a file.

    python docs/benchmarks/cil_rows.py docs/results/latent/3mb-fe4.jsonl --init 3mb-fe4.pt --rows whole --seeds 10
    python docs/benchmarks/cil_rows.py latent.jsonl --scenario cifar100-50+5x10 --init fe.pt --rows paper --seeds 3 --c 0.1 --orders
    python docs/benchmarks/cil_rows.py tune.jsonl --scenario cifar100-50+5x10 --init fe.pt --rows tune --seeds 1 --epochs 20 --c 0.1
    python docs/benchmarks/cil_rows.py field.jsonl ... --rows field --tuned tune.jsonl --seeds 3 --orders

Runs that are in the file already are left out; so it goes on after an interrupt.  A run is what the command in its line gives.  The rows
"field" take rate and knobs of each strategy from the runs of --tuned: those of the highest accuracy on the samples held back for
validation, after the last task.  The forward transfer of a run is against the run of --strategy naive-reset before it, of the same seed.
"""

import argparse
import json
import shlex
import sys
from functools import partial
from pathlib import Path

import torch

from fbnn_hw.base import files
from fbnn_hw.data import datasets
from fbnn_hw.ir.shipped import resolve
from fbnn_hw.train import metrics, scenarios, start
from fbnn_hw.train.cil_config import CilConfig
from fbnn_hw.train.config import TrainConfig, flag
from fbnn_hw.train.incremental import Incremental
from fbnn_hw.train.record import surroundings
from fbnn_hw.train.teacher import Teacher


def buffers(*megabits, **choice):
    return [dict(buffer_mb=mb, balanced=balanced, **choice) for mb in megabits for balanced in (False, True)]


LOSSES = [dict(loss=loss, balanced=balanced) for loss in ("cce", "focal", "sh") for balanced in (False, True)]
BOUNDS = [dict(strategy=name) for name in ("naive", "naive-reset", "cumulative", "cumulative-reset", "offline")]
FIELD = [dict(strategy="ncm"), dict(strategy="slda"),
         *(dict(strategy=name, buffer_mb=mb) for name in ("icarl", "der++") for mb in (1.0, 5.0))]
RATES = [dict(lr=lr) for lr in (3e-4, 1e-3, 3e-3)]
KNOBS = {
    "slda": [dict(shrinkage=x) for x in (1e-3, 1e-2, 0.1, 0.3)],
    "slda-diagonal": [dict(shrinkage=x) for x in (1e-3, 0.1, 0.5)],
    "slda-low-rank": [dict(rank=rank, shrinkage=x) for rank in (16, 64) for x in (1e-2, 0.1, 0.3)],
    "der++": [dict(alpha=alpha, beta=beta) for alpha in (0.1, 0.5, 1.0) for beta in (0.5, 1.0)],
    "ewc": [dict(strength=x) for x in (1e2, 1e4, 1e6)],
    "lwf": [dict(strength=x, temperature=2.0) for x in (1.0, 3.0, 10.0)],
    "gbm": [dict(width=4), dict(width=8)],
}
"""The values of --knob that are tried; strategies of `TRAINED` are tried with each of RATES, too."""
WITH_BUFFER, TRAINED = ("icarl", "der++", "er-ace", "gdumb", "gbm"), ("der++", "er-ace", "gdumb", "gbm", "ewc", "lwf")
TUNED = [dict(strategy=name, knobs=knobs, **rate, **(dict(buffer_mb=5.0) if name in WITH_BUFFER else {}))
         for name in ("slda", "slda-diagonal", "slda-low-rank", *TRAINED) for knobs in KNOBS.get(name, [{}])
         for rate in (RATES if name in TRAINED else [{}])]
TUNED += [dict(buffer_mb=5.0, balanced=True, **rate) for rate in RATES]
ROWS = {
    "tune": TUNED,
    "field": [dict(strategy=name) for name in ("naive-reset", "naive", "cumulative", "ncm")] + [dict(strategy="icarl", buffer_mb=5.0)],
    "bound": [dict(buffer_mb=5.0, balanced=True), dict(strategy="cumulative")],
    "whole": [dict(buffer_mb=5.0, balanced=True), dict(strategy="cumulative"), dict(strategy="cumulative", balanced=True),
              dict(buffer_mb=1.0, balanced=True), dict(buffer_mb=5.0), dict(buffer_mb=1.0), dict(strategy="naive"), *FIELD],
    "few": [*BOUNDS, *FIELD[:2], dict(strategy="icarl", buffer_mb=1.0), dict(strategy="der++", buffer_mb=1.0),
            *(dict(buffer_mb=mb, **choice) for mb in (1.0, 5.0) for choice in LOSSES),
            *buffers(0.1, 0.2, 0.5, 2.0),
            *(dict(buffer_mb=1.0, setting="rpt", **choice) for choice in LOSSES),
            *(dict(buffer_mb=5.0, setting="rpt", **choice) for choice in LOSSES)],
    "losses": [dict(buffer_mb=mb, **choice) for mb in (1.0, 5.0) for choice in LOSSES],
    "memory": buffers(0.1, 0.2, 0.5, 2.0),
    "native": [dict(strategy=name, replay="native") for name in ("naive", "cumulative")]
    + buffers(1.0, 2.0, 5.0, 10.0, replay="native") + buffers(1.0, 5.0, replay="native", setting="rpt"),
    "latent": [dict(strategy=name) for name in ("naive", "cumulative")] + buffers(0.2, 0.5, 1.0, 2.0) + buffers(0.2, 1.0, setting="rpt"),
    "orders": [dict(buffer_mb=5.0, balanced=True, class_order=order) for order in range(10)]
    + [dict(strategy="cumulative", class_order=order) for order in range(10)],
    "recipe": [dict(buffer_mb=5.0, balanced=True, **part) for part in (
        {}, dict(smoothing=0.1), dict(ema=0.99), dict(decay=0.1), dict(warmup=1), dict(teacher="airbench.state"))],
    "paper": [*BOUNDS, dict(strategy="ncm"), dict(strategy="slda"),
              *(dict(strategy=name, buffer_mb=5.0) for name in ("icarl", "der++")),
              *(dict(buffer_mb=mb, setting=setting, **choice) for mb in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 25.0)
                for setting in (("fpt", "rpt") if mb > 0.1 else ("fpt",)) for choice in LOSSES)],
    "normed": [dict(buffer_mb=mb, balanced=True, replay="native", norm="bn") for mb in (5.0, 50.0)],
}
"""Flags of `fbnn-hw cil` beside the defaults, with _ for -.  0.1 Mb has no room for a latent of each of the 100 classes of rpt."""


def rounded(value):
    """Plain values with five digits behind the point, but for the flags and small numbers."""
    if isinstance(value, dict):
        return {key: v if key == "config" else rounded(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(v) for v in value]
    return round(value, 5) if isinstance(value, float) else value


def words(args, choice, seed):
    """The command line of a run."""
    of_row = [word for name, value in choice.items() if name not in ("balanced", "knobs", "lr")
              for word in (flag(name), f"{value:g}" if isinstance(value, float) else str(value))]
    of_row += [word for name, value in choice.get("knobs", {}).items() for word in ("--knob", f"{name}={value:g}")]
    images = ["--images", str(args.images)] if args.images else []
    rate = choice.get("lr", 1e-3)
    recipe = shlex.split(f"--epochs {args.epochs} --schedule cosine --patience 0 --lr {rate:g} --c {args.c:g} --threads 1")
    recipe += ["--precision", args.precision] * (args.precision != "float32")
    of_row += ["--balanced"] * bool(choice.get("balanced"))
    return ["fbnn-hw", "cil", "--scenario", args.scenario, "--init", args.init, *of_row, *images, *recipe, "--seed", str(seed)]


def best(path):
    """For each strategy of the runs of a file the choice with the highest accuracy on what was held back, after the last task."""
    runs = [json.loads(line) for line in path.read_text().splitlines()]
    chosen = {}
    for run in sorted(runs, key=lambda run: run["tasks"][-1]["validation"]):
        config = run["config"]
        choice = {key: config[key] for key in ("strategy", "buffer_mb", "balanced", "knobs") if config[key]}
        chosen[config["strategy"]] = {**choice, "lr": config["recipe"]["lr"]}
    return [chosen[name] for name in sorted(chosen)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--init", required=True)
    parser.add_argument("--rows", choices=list(ROWS), required=True)
    parser.add_argument("--scenario", default="cifar10-4+3x2")
    parser.add_argument("--orders", action="store_true", help="seed N also draws order N of the later classes")
    parser.add_argument("--tuned", type=Path, help="runs of --rows tune, for --rows field")
    seeds = parser.add_mutually_exclusive_group()
    seeds.add_argument("--seeds", type=lambda text: range(int(text)), default=range(10), help="seeds 0 to N-1")
    seeds.add_argument("--seed", dest="seeds", type=lambda text: [int(text)], default=argparse.SUPPRESS, help="one seed alone")
    parser.add_argument("--images", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--c", type=float, default=1.0)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--data-dir")
    args = parser.parse_args()
    torch.set_num_threads(1)
    done = {json.loads(line)["command"] for line in args.out.read_text().splitlines()} if args.out.exists() else set()
    train, test = (datasets.load(scenarios.get(args.scenario).data, args.data_dir, split) for split in ("train", "test"))
    if args.images:
        train = train.thinned(args.images)
    origin = start.read(resolve(args.init, "--init"))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    recipe = dict(epochs=args.epochs, schedule="cosine", patience=0, lr=1e-3, c=args.c, precision=args.precision)
    rows = ROWS[args.rows] + (best(args.tuned) if args.tuned else [])
    alone = {}
    for line in args.out.read_text().splitlines() if done else ():
        if (run := json.loads(line))["config"]["strategy"] == "naive-reset":
            alone[run["seed"]] = run
    for seed in args.seeds:
        for choice in rows:
            choice = {**choice, "class_order": seed} if args.orders else choice
            command = shlex.join(words(args, choice, seed))
            if command in done:
                continue
            of_recipe = {name: choice[name] for name in choice.keys() & TrainConfig.__dataclass_fields__.keys()}
            of_run = {name: value for name, value in choice.items() if name not in (*of_recipe, "teacher")}
            path = resolve(choice["teacher"], "--teacher", ".state") if "teacher" in choice else None
            config = CilConfig(args.scenario, **of_run, images=args.images, teacher=path and files.sha256_of(path),
                               recipe=TrainConfig(**{**recipe, **of_recipe, "seed": seed}))
            run = Incremental(config, train, test, origin, cache=files.cache_folder() / "latents",
                              teacher=path and partial(Teacher, path, precision=args.precision))
            if seed in alone and not run.retained:
                run.alone = metrics.learned_alone(alone[seed], run.classes, str(args.out))
            result = run.run()
            init = {"source": origin.source, "sha256": origin.sha256, "name": origin.topology.name}
            if config.strategy == "naive-reset":
                alone[seed] = {"config": config.to_dict(), **result}
            line = rounded({"kind": "cil", "config": config.to_dict(), "seed": seed, "command": command, "init": init, **surroundings(),
                            **result, "history": []})
            with args.out.open("a") as file:
                file.write(json.dumps(line, separators=(",", ":")) + "\n")
            print(f"{result['final']['a_final']:.4f} {result['seconds']:.0f} s {command}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
