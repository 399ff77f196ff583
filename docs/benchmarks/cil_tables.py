"""Tables of docs/results from the files of runs beside them.

    python docs/benchmarks/cil_tables.py docs/results/cifar10-4+3x2.md

writes anew what stands between `<!-- runs: FILE ... -->` and `<!-- end -->`, the rows in the order of the file's first lines.  After FILE
come choices that a row must have, such as setting=rpt; `any` is any value but none.  `<!-- trainings: FOLDER -->` begins a table of the
pre-trainings in a folder.  tests/test_results.py holds the pages to it.
"""

import json
import re
import sys
from pathlib import Path
from statistics import mean, median, stdev

BLOCK = re.compile(r"(<!-- runs: (\S+)(.*?) -->\n).*?(<!-- end -->)", re.S)
TRAININGS = re.compile(r"(<!-- trainings: (\S+) -->\n).*?(<!-- end -->)", re.S)
HEAD = ("flags", "seeds", "a_old %", "a_new %", "a_final %", "d_final", "average incremental %", "forgetting, points",
        "memory, Mb", "epoch kept, of")
PARTS = {"norm": "scales", "smoothing": 0.0, "ema": 0.0, "decay": 0.0, "warmup": 0}
"""Fields of the recipe that tell a row from others, and their values without the part."""


def results(path):
    """The runs of a file of one result a line."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def flags(config):
    """The flags that tell a row from others."""
    words = [] if config["strategy"] == "replay" else [f"--strategy {config['strategy']}"]
    words += ["--replay native"] * (config["replay"] == "native")
    words += [f"--buffer-mb {config['buffer_mb']:g}"] * bool(config["buffer_mb"])
    words += [f"--setting {config['setting']}"] * (config["setting"] != "fpt")
    words += [f"--knob {name}={value:g}" for name, value in config.get("knobs", {}).items()]
    words += [f"--loss {config['loss']}"] * (config["loss"] != "cce")
    words += [*["--balanced"] * config["balanced"], *["--class-order 0..9"] * (config.get("class_order") is not None)]
    words += [f"--{part} {value}" for part, none in PARTS.items() if (value := config["recipe"].get(part, none)) != none]
    return " ".join([*words, *["--teacher"] * bool(config.get("teacher"))])


def spread(values, scale=100, digits=1):
    values = [scale * v for v in values if v is not None]
    if not values:
        return ""
    return f"{mean(values):.{digits}f}" + (f" +- {stdev(values):.{digits}f}" if len(values) > 1 else "")


def rows(runs):
    """Cells of the rows: mean and sample deviation over the seeds."""
    groups = {}
    for run in runs:
        groups.setdefault(flags(run["config"]), []).append(run)
    for name, group in groups.items():
        final, sequence = [r["final"] for r in group], [r["sequence"] for r in group]
        kept = [task["best_epoch"] for r in group for task in r["tasks"] if task["epochs"]]
        epochs = group[0]["config"]["recipe"]["epochs"]
        bits = group[0]["memory_bits"]
        several = len(group[0]["tasks"]) > 1
        yield (f"`{name}`", str(len(group)), *(spread([f[key] for f in final]) if several or key == "a_final" else ""
                                               for key in ("a_old", "a_new", "a_final")),
               spread([f["d_final"] for f in final], 1, 3), spread([s["average_incremental"] for s in sequence]),
               spread([s["forgetting"] for s in sequence]), "all" if bits is None else f"{bits / 1e6:.3g}",
               f"{median(kept):g}, {epochs}" if kept else "")


def has(value, wanted):
    """Whether a choice of a run is the one wanted."""
    return value is not None if wanted == "any" else str(value) == wanted


def markdown(head, *rows):
    """The text of a table."""
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ("---",) * len(head), *rows))


def table(path, choices=()):
    wanted = dict(choice.split("=") for choice in choices)
    runs = [r for r in results(path) if all(has(r["config"].get(key), value) for key, value in wanted.items())]
    return markdown(HEAD, *rows(runs))


def trainings(folder):
    """The table of a folder of results of `pretrain`: model and flags, accuracies of the kept epoch."""
    groups = {}
    for path in sorted(folder.glob("*.result.json")):
        training = json.loads(path.read_text())["training"]
        flags = [f"--model {training['model']}", f"--encoder {training['encoder']}"]
        flags += [f"--norm {training['norm']}"] * (training["norm"] != "scales")
        flags += [f"--K {training['config']['K']:g}"] * (training["config"]["K"] != 1)
        groups.setdefault(" ".join(flags), []).append(training)
    cells = [(f"`{flags}`", str(len(group)), *(spread([t[f"{kind}_accuracy"] for t in group]) for kind in ("train", "validation", "test")))
             for flags, group in groups.items()]
    return markdown(("flags", "seeds", "training %", "validation %", "test %"), *cells)


def written(page):
    """The page's text with its tables made anew."""
    text = BLOCK.sub(lambda match: match[1] + table(page.parent / match[2], match[3].split()) + match[4], page.read_text())
    return TRAININGS.sub(lambda match: match[1] + trainings(page.parent / match[2]) + match[3], text)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        Path(name).write_text(written(Path(name)))
