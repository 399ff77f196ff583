"""The paper's tables in docs/results, from the files that the queue's runs leave there.

    python docs/benchmarks/paper_tables.py docs/results/cifar100-50+5x10.md

writes anew what stands between `<!-- paper: NAME -->` and `<!-- end -->`, for the names of `fbnn-hw reproduce --list` and those of `OWN`.
A cell has the paper's value and ours: the mean and sample deviation over the runs that docs/results/queue.jsonl has for the row.  Where one
of them has left no file yet ours stays empty, and the last column says how many have, and how many core-hours the others are expected to
take.  A figure that compares losses becomes a table with a column for each.  `<!-- pairs: A B -->` begins the differences between two
extractors, seed by seed, `<!-- chip: GLOB -->` a table of results of `fbnn-hw chip-cil`, `<!-- latent: GLOB -->` one of results of
`fbnn-hw cil`, `<!-- cost: all -->` what the runs are for.
tests/test_results.py holds the page to it.
"""

import json
import re
import shlex
import sys
from collections import defaultdict
from dataclasses import fields
from itertools import groupby
from pathlib import Path
from statistics import mean, stdev

from cil_tables import markdown, results
from run_queue import RESULTS, read

from fbnn_hw.train import results as recorded
from fbnn_hw.train.cil_config import CilConfig
from fbnn_hw.train.exhibits import CHOICES, EXHIBITS, Row

BLOCK = re.compile(r"(<!-- ((?:paper|pairs|chip|latent|field|cost): [^>]+) -->\n).*?(<!-- end -->)", re.S)
DEFAULTS = {field.name: field.default for field in fields(CilConfig) if field.name in CHOICES}
LATENT, EXTRACTOR, SEEDS = "latent", "fe", 3
"""The run of the queue that has all rows of latent replay from one extractor; the name of that; how many seeds of each row."""
ABOVE = "[above](#latent-replay-of-10-mb)"
"""Where finished runs of a row of `trained` stand before all of them are done."""
PARTS = {"chip50-gumbel-up5k.json": " (28 more than a UP5K takes)", "chip50-gumbel-2mb.json": " (planned on an ECP5-85F)"}
"""{file of `chips`: what is to be said of its exemplars}, by `fbnn-hw generate --learn --start empty --max-classes 50`."""
LOSSES = [(loss, balanced) for loss in ("cce", "focal", "sh") for balanced in (False, True)]


def trained(label, name):
    """Two rows of an extractor's runs: its pre-training, and the latent replay of 10 Mb from it."""
    checkpoint = f"{{folder}}/{name}-s{{seed}}.pt"
    yield Row(f"{label}: pre-training", "pretrain", f"--model {{model}} --out {checkpoint}",
              dict.fromkeys(("train_accuracy", "test_accuracy", "test_dispersion")))
    yield Row(f"{label}: final", "cil", f"--init {checkpoint} --replay latent --buffer-mb 10 --balanced",
              dict.fromkeys(("a_final_train", "a_final", "d_final")))


def printed_recipe():
    """The paper's rate, batch, stop and c on `0.5mb`."""
    yield next(trained("supervised", "paper"))
    for label, flags in (("latent 5 Mb, CCE, not weighted", ""), ("latent 5 Mb, CCE, weighted", "--balanced"),
                         ("latent 5 Mb, FCCE, weighted", "--loss focal --balanced"), ("latent 5 Mb, SH, weighted", "--loss sh --balanced"),
                         ("RPT, latent 5 Mb, CCE, weighted", "--setting rpt --balanced")):
        yield Row(label, "cil", f"--init {{folder}}/paper-s{{seed}}.pt --buffer-mb 5 {flags}", dict.fromkeys(("a_final", "d_final")))
    yield Row("cumulative", "cil", "--init {folder}/paper-s{seed}.pt --strategy cumulative", dict.fromkeys(("a_final", "d_final")))


MORE = {"table-pretraining": [row for g in ("0.01", "0.03", "0.1")
                              for row in trained(f"covariances of the latent, weight {g}", f"pt-g-{g}")]}
"""Rows beside the paper's: the term of docs/cil-paper.md on the covariances."""
OWN = {
    "ablations": [row for label, name in (
        ("as `0.5mb` (LGAP, depth 1, 1,024 bits)", "pt-0-0"), ("GAP in place of LGAP", "ab-gap"), ("DenseSkip of depth 0", "ab-depth-0"),
        ("DenseSkip of depth 2", "ab-depth-2"), ("256 bits of the latent", "ab-bits-256"), ("512 bits", "ab-bits-512"),
        ("2,048 bits", "ab-bits-2048")) for row in trained(label, name)],
    "printed-recipe": list(printed_recipe())}
"""Rows of tables that the paper does not have."""


def stem(path):
    """A checkpoint's name without folder, ending and seed."""
    return re.sub(r"-s\d+$", "", Path(path).stem)


def flags(words):
    """{name of a flag with _ for -: its value as text, or True} of a command line."""
    found = {}
    for word, value in zip(words, [*words[1:], "--"]):
        if word.startswith("--"):
            found[word[2:].replace("-", "_")] = True if value.startswith("--") else value
    return found


def choices(given):
    """The values of `CHOICES` in a command's flags."""
    return DEFAULTS | {name: type(DEFAULTS[name])(given[name]) for name in DEFAULTS.keys() & given.keys()}


def key(verb, given):
    """What tells a run from others; given: the flags of its command line."""
    if verb == "cil":
        return verb, stem(given["init"]), *choices(given).values()
    if "all_classes" in given:
        return verb, given.get("norm", "scales"), float(given.get("K", 1)), given.get("encoder", "tycc")
    return verb, stem(given["out"])


def parsed(row):
    return flags(shlex.split(row.flags.format(fe="fe.pt", model="", folder=".", seed=0)))


class Folder:
    """The results of a folder of docs/results, those that are there and those that the queue will make."""

    def __init__(self, name):
        self.path = RESULTS / name
        self.planned = defaultdict(list)
        """{`key`: [(path of a result, core-hours expected)]}"""
        self.queue = [run for run in read(RESULTS / "queue.jsonl") if run.into == name]
        for run in self.queue:
            for program, *words in map(shlex.split, run.command.split(" && ")):
                if program == "fbnn-hw" and words[0] in ("cil", "pretrain"):
                    given = flags(words)
                    file = given["out"] if words[0] == "cil" else f"{Path(given['out']).stem}.result.json"
                    if file in run.files:
                        self.planned[key(words[0], given)].append((self.path / file, run.core_hours))
        self.latents = [run for lines in sorted(self.path.glob(f"{LATENT}-s*.jsonl")) for run in results(lines)]

    def runs(self, row):
        """(results, what is missing as text or None) of a row of the paper; (None, None) where the queue has no run of it.

        All rows of latent replay from `EXTRACTOR` of a seed are made by one run, so the hours of those runs stand beside each of them.
        """
        given = parsed(row)
        own = key(row.verb, given)
        if row.verb == "cil" and own[1] == EXTRACTOR and choices(given)["replay"] == "latent":
            done = [run for run in self.latents if all(run["config"][name] == value for name, value in choices(given).items())]
            hours = sum(run.core_hours for run in self.queue if run.name.startswith(f"{LATENT}-s") and not run.done)
            return done, None if len(done) == SEEDS else f"{len(done)} of {SEEDS}; {hours:.1f} h for all latent rows"
        if own not in self.planned:
            return None, None
        done = [recorded.upgrade(json.loads(path.read_text())) for path, _ in self.planned[own] if path.exists()]
        hours = sum(hours for path, hours in self.planned[own] if not path.exists())
        shown = f", {ABOVE}" * bool(done and row.label.endswith(": final"))
        return done, f"{len(done)} of {len(self.planned[own])}{shown}; {hours:.1f} h" if hours else None

    def compared(self, row):
        """(the row beside the paper's values, what is missing); None where the queue has no run of it."""
        done, missing = self.runs(row)
        return None if done is None else (recorded.compare(row, [] if missing else done), missing)

    def table(self, rows):
        """A row that has its pre-training and what follows as two is one here."""
        metrics = {metric: any(row.paper.get(metric) is not None for row in rows) for row in rows for metric in row.paper}
        yield "run", *(metric + ", paper / ours" * printed for metric, printed in metrics.items()), "runs"
        for label, parts in groupby(rows, lambda row: row.label.partition(": ")[0]):
            found = [compared for row in parts if (compared := self.compared(row))]
            if found:
                texts = {metric: recorded.beside(compared, metric) for compared, _ in found for metric in compared["metrics"]}
                compared, missing = found[-1]
                yield (label, *(texts.get(metric, "-").removeprefix("" if printed else "- / ") for metric, printed in metrics.items()),
                       missing or str(len(compared["seeds"])))

    def losses(self, rows):
        """a_final by the buffer and the loss."""
        yield "buffer", *(f"{loss}{', weighted' * balanced}" for loss, balanced in LOSSES), "runs"
        sizes = defaultdict(dict)
        for row in rows:
            given = choices(parsed(row))
            if found := self.compared(row):
                sizes[f"{given['replay']} {given['buffer_mb']:g} Mb"][given["loss"], given["balanced"]] = found
        for size, found in sizes.items():
            texts = [recorded.beside(found[loss][0], "a_final").partition(" / ")[2] if loss in found else "" for loss in LOSSES]
            open_ = [missing for _, missing in found.values() if missing]
            yield size, *texts, open_[0] + f", {len(open_)} cells" * (len(open_) > 1) if open_ else str(SEEDS)

    def pairs(self, plain, other):
        """Differences of a_final, seed by seed, between two names of extractors: latent replay of 10 Mb."""
        rows = [list(trained("", name))[1] for name in (other, plain)]
        with_, without = ({run["seed"]: run["final"]["a_final"] for run in self.runs(row)[0]} for row in rows)
        planned = len(self.planned[key("cil", parsed(rows[1]))])
        yield f"pairs, of {planned}", f"`{other}` minus `{plain}`, points of a_final", "standard error", "each pair"
        points = [100 * (with_[seed] - without[seed]) for seed in sorted(with_.keys() & without.keys())]
        error = f"{stdev(points) / len(points) ** 0.5:.2f}" if len(points) > 1 else ""
        yield str(len(points)), f"{mean(points):+.2f}" if len(points) == planned else "", error, "; ".join(f"{p:+.2f}" for p in points)

    def chips(self, pattern):
        """The files of `fbnn-hw chip-cil` that a pattern names, sorted by what the learner on the chip reaches."""
        yield "learner on the chip", "a_final, %", "Mb", "STE-Adam, same exemplars", "nearest mean in float", "streaming LDA", "file"
        found = [(path.name, json.loads(path.read_text())) for path in sorted(self.path.glob(pattern))]
        chips = [(name, run) for name, run in found if "summary" in run]  # the pattern may name results of others, too
        for name, run in sorted(chips, key=lambda pair: -pair[1]["summary"]["chip"]["a_final"][0]):
            config, summary = run["config"], run["summary"]
            note = PARTS.get(name, "")
            kept = f", {config['slots']:,} exemplars{note}, counters of {config['counter_bits']} bits" if config["replays"] else ""
            cells = {learner: f"{100 * value:.2f} +- {100 * deviation:.2f}" for learner, (value, deviation) in
                     ((learner, of["a_final"]) for learner, of in summary.items())}
            yield (f"{config['rule']}{kept}", cells["chip"], f"{summary['chip']['memory_bits'] / 1e6:.3f}",
                   cells["adam"] if kept else "", cells["nearest-mean"], cells["streaming-lda"], f"`{name}`")

    def latent(self, pattern):
        """The files of `fbnn-hw cil` that a pattern names, a row each."""
        yield "file", "seed", "a_old, %", "a_new, %", "a_final, %", "d_final", "forgetting, points", "s of training"
        for path in sorted(self.path.glob(pattern)):
            run = recorded.upgrade(json.loads(path.read_text()))
            last = run["final"]
            yield (f"`{path.name}`", str(run["seed"]), *(f"{100 * last[metric]:.2f}" for metric in ("a_old", "a_new", "a_final")),
                   f"{last['d_final']:.3f}", f"{100 * run['sequence']['forgetting']:.1f}", f"{run['seconds']:.0f}")

    def field(self, name):
        """A row for each strategy of a file of `cil_rows.py --rows field`, the best a_final first."""
        yield "strategy", "knobs", "rate", "buffer, Mb", "a_final, %", "average, %", "forgetting, points", "backward", "forward", "runs"
        rows = defaultdict(list)
        for run in results(self.path / name):
            config = run["config"]
            knobs = ", ".join(f"{knob} {value:g}" for knob, value in config["knobs"].items()) + "weighted" * config["balanced"]
            rows[config["strategy"], knobs, config["recipe"]["lr"], config["buffer_mb"]].append(run)

        def cell(runs, score):
            values = [100 * value for run in runs if (value := score(run)) is not None]
            return f"{mean(values):.1f} +- {stdev(values):.1f}" if len(values) > 1 else ""

        for (strategy, knobs, rate, size), runs in sorted(rows.items(), key=lambda row: -mean(run["final"]["a_final"] for run in row[1])):
            scores = ("average_incremental", "forgetting", "backward_transfer", "forward_transfer")
            yield (f"`{strategy}`", knobs, f"{rate:g}" * (strategy not in ("ncm", "icarl") and not strategy.startswith("slda")),
                   f"{size:g}" * bool(size), cell(runs, lambda run: run["final"]["a_final"]),
                   *(cell(runs, lambda run, of=of: (run["sequence"] or {}).get(of)) for of in scores), str(len(runs)))

    def cost(self, _):
        """What the runs are for, in the order of the queue."""
        yield "for", "runs", "done", "core-hours expected"
        rows = defaultdict(list)
        for run in self.queue:
            rows[run.row].append(run)
        for row, runs in (*rows.items(), ("all", self.queue)):
            yield row, str(len(runs)), str(sum(run.done for run in runs)), f"{sum(run.core_hours for run in runs):.1f}"


def written(page):
    """The page's text with its tables made anew."""
    folder = Folder(page.stem)

    def block(match):
        kind, *words = match[2].split()
        if kind == "paper:":
            [name] = words
            rows = OWN[name] if name in OWN else [row for row in (*EXHIBITS[name].rows, *MORE.get(name, ())) if row.verb]
            made = folder.losses(rows) if name in EXHIBITS and EXHIBITS[name].plot == "losses" else folder.table(rows)
        else:
            made = {"pairs:": folder.pairs, "chip:": folder.chips, "latent:": folder.latent, "field:": folder.field,
                    "cost:": folder.cost}[kind](*words)
        return match[1] + markdown(*made) + match[3]

    return BLOCK.sub(block, page.read_text(encoding="utf-8"))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        Path(name).write_text(written(Path(name)), encoding="utf-8")
