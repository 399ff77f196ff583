"""Plots of class-incremental runs, from their JSON alone (paper, figs. `baselines_cil`, `balancing`, `perf_memorySize`, `evaluation`).

Each function takes result dicts and returns a matplotlib figure; `save` writes it as PNG and SVG.  In all of them each colour means one
thing; colour-blind people tell the colours apart (Okabe and Ito).  Test is solid, training dashed.  A band is the sample deviation over
the seeds.  Each panel has its own axis.  Lines are named at their ends.
"""

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

from ..base import extras
from ..ir.models import FLOATING, build

WIDTH, HEIGHT = 3.4, 3.0
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
KINDS = {"latent": COLOURS[0], "native": COLOURS[1]}
GAP = 0.065
"""Least distance between two names at the ends of lines, as a share of the axis."""
HINT = "solid: test; dashed: training"


def verify() -> Any:
    """matplotlib.figure; ToolError where matplotlib is missing."""
    return extras.load("matplotlib.figure", "cil", "plots")


def _figure(rows, columns, title=None, label="accuracy, %"):
    """(figure, its axes as rows).  label: of the left axis of each row."""
    figure = verify().Figure((WIDTH * columns, HEIGHT * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for row in axes:
        row[0].set_ylabel(label, fontsize=8)
    if title:
        figure.suptitle(title, fontsize=8)
    return figure, axes


class _Panel:
    """Lines on one pair of axes; `finish` sets the limits and writes the names."""

    def __init__(self, axes, title, xlabel):
        self.axes, self.names, self.values = axes, [], []
        axes.set_title(title, fontsize=9, loc="left")
        axes.set_xlabel(xlabel, fontsize=8)
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.25, lw=0.6)

    def line(self, points, colour, name=None, dashed=False, marker="o", **style):
        """points: {x: [a value of each run]}, drawn in percent in the order of x."""
        points = {x: [100 * v for v in values] for x, values in sorted(points.items()) if values}
        if not points:
            return
        means = {x: sum(values) / len(values) for x, values in points.items()}
        spread = {x: _deviation(values) for x, values in points.items()}
        style = {"ls": "--" if dashed else "-", "lw": 1.4, "ms": 3.5, "mfc": "white" if dashed else colour, **style}
        self.axes.plot(list(means), list(means.values()), color=colour, marker=marker, **style)
        low, high = [means[x] - spread[x] for x in means], [means[x] + spread[x] for x in means]
        if any(spread.values()):
            self.axes.fill_between(list(means), low, high, color=colour, alpha=0.15, lw=0)
        self.values += low + high
        if name:
            self.names.append((list(means.values())[-1], name, colour))

    def bound(self, value, colour, name):
        """A horizontal line over the panel, at `value` of 1."""
        self.axes.axhline(100 * value, color=colour, lw=0.9, ls=":")
        self.values.append(100 * value)
        self.names.append((100 * value, name, colour))

    def finish(self):
        if not self.values:
            self.axes.set_axis_off()
            return
        low, high = min(self.values), max(self.values)
        margin = max(1.0, 0.06 * (high - low))
        low, high = max(0.0, low - margin), min(100.0, high + margin)
        self.axes.set_ylim(low, high)
        named = sorted(((y - low) / (high - low), name, colour) for y, name, colour in self.names)
        heights = _apart([height for height, _, _ in named])
        for height, (_, name, colour) in zip(heights, named):
            self.axes.text(1.02, height, name, color=colour, fontsize=7.5, va="center", transform=self.axes.transAxes)


def _deviation(values):
    mean = sum(values) / len(values)
    return math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1)) if len(values) > 1 else 0.0


def _apart(heights):
    """Move ascending heights as little as needed until neighbours are GAP apart."""
    moved = list(heights)
    for _ in range(200):
        close = [i for i, (a, b) in enumerate(pairwise(moved)) if b - a < GAP - 1e-9]
        if not close:
            break
        for i in close:
            push = (GAP - (moved[i + 1] - moved[i])) / 2
            moved[i], moved[i + 1] = moved[i] - push, moved[i + 1] + push
    return moved


def _of(results, metric, key):
    """{key: [value of each run]} of a metric of `final`."""
    groups = {}
    for r in results:
        if r["final"].get(metric) is not None:
            groups.setdefault(key(r), []).append(r["final"][metric])
    return groups


def _logarithmic(axes, values):
    """Ticks at 1, 2, 5 and their tens between the smallest and the largest value."""
    low, high = min(values), max(values)
    ticks = [m * 10.0 ** e for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1) for m in (1, 2, 5)]
    ticks = [t for t in ticks if low * 0.99 <= t <= high * 1.01] or [low]
    axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
    axes.minorticks_off()


def _buffer(result):
    return result["config"]["buffer_mb"]


def _is(result, **choices):
    return all(result["config"][key] == value for key, value in choices.items())


def curves(results):
    """Accuracy on each task's test set and on the training set, epoch after epoch.

    There is a panel for each strategy, of its run with the lowest seed.  The runs need --curves.  The
    pre-training's epochs come first where its history is there.
    """
    first = [r for r in results if r["kind"] == "pretrain" and r.get("history")][:1]
    runs = {}
    for r in sorted((r for r in results if r["kind"] == "cil"), key=lambda r: r["seed"]):
        if r["history"] and "test_of_each_task" in r["history"][0]:
            runs.setdefault(r["config"]["strategy"], r)
    figure, axes = _figure(1, max(1, len(first) + len(runs)))
    panels = list(axes[0])
    for result in first:
        panel = _Panel(panels.pop(0), "pre-training", "epoch")
        for key, name, dashed in (("validation_accuracy", "validation", False), ("train_accuracy", "training", True)):
            panel.line({i: [h[key]] for i, h in enumerate(result["history"], 1) if h.get(key) is not None}, COLOURS[6], name, dashed,
                       marker="")
        panel.finish()
    for axis, (strategy, result) in zip(panels, runs.items()):
        panel, history = _Panel(axis, f"{strategy}, seed {result['seed']}", "epoch"), result["history"]
        panel.line({i: [h["train_accuracy"]] for i, h in enumerate(history, 1)}, "#777777", "training", True, marker="")
        for task in range(max(h["task"] for h in history) + 1):
            panel.line({i: [h["test_of_each_task"][task]] for i, h in enumerate(history, 1) if len(h["test_of_each_task"]) > task},
                       COLOURS[task % len(COLOURS)], f"task {task + 1}", marker="")
        for i, (a, b) in enumerate(pairwise(history), 1):
            if a["task"] != b["task"]:
                axis.axvline(i + 0.5, color="#999999", lw=0.6)
        panel.finish()
    return figure


def memory(results):
    """a_seen, a_new and a_buffer over the size of the buffer, for native and latent replay.

    Naive stands at the left end of the axis, cumulative at the right end.
    """
    results = [r for r in results if r["kind"] == "cil"]
    sizes = sorted({_buffer(r) for r in results if _is(r, strategy="replay")}) or [1.0]
    ends = {"naive": sizes[0] / 2.5, "cumulative": sizes[-1] * 2.5}
    figure, axes = _figure(1, 3, f"{HINT}; diamonds: naive (0), cumulative (all)")
    for axis, (name, title) in zip(axes[0], (("seen", "all seen classes"), ("new", "new classes"), ("buffer", "past classes"))):
        panel = _Panel(axis, title, "buffer, Mb")
        for kind, colour in KINDS.items():
            runs = [r for r in results if _is(r, replay=kind, strategy="replay")]
            for part, dashed in (("_train", True), ("", False)):
                panel.line(_of(runs, f"a_{name}{part}", _buffer), colour, None if dashed else kind, dashed)
                for strategy, x in ends.items():
                    of = [r for r in results if _is(r, replay=kind, strategy=strategy)]
                    panel.line(_of(of, f"a_{name}{part}", lambda r, x=x: x), colour, None, dashed, marker="D")
        _logarithmic(axis, [*sizes])
        ticks = [x for x in axis.get_xticks() if sizes[0] * 0.99 <= x <= sizes[-1] * 1.01]
        axis.set_xticks([ends["naive"], *ticks, ends["cumulative"]], ["0", *(f"{t:g}" for t in ticks), "all"])
        axis.set_xlim(ends["naive"] / 1.4, ends["cumulative"] * 1.4)
        panel.finish()
    return figure


def losses(results):
    """a_old, a_new and a_final over the size of the buffer, a line for each loss.

    Weighted losses are solid, others dashed.  Each kind of replay has a row.
    """
    results = [r for r in results if r["kind"] == "cil"]
    kinds = [kind for kind in KINDS if any(_is(r, replay=kind) for r in results)] or ["latent"]
    figure, axes = _figure(len(kinds), 3, "solid: weighted by inverse frequency; dashed: not weighted", "test accuracy, %")
    for row, kind in zip(axes, kinds):
        for axis, (name, title) in zip(row, (("old", "first task"), ("new", "last task"), ("final", "all classes"))):
            panel = _Panel(axis, f"{kind}: {title}", "buffer, Mb")
            for colour, (loss, label) in zip(COLOURS, (("cce", "CCE"), ("focal", "focal"), ("sh", "sq. hinge"))):
                for balanced in (False, True):
                    runs = [r for r in results if _is(r, replay=kind, loss=loss, balanced=balanced) and _buffer(r)]
                    panel.line(_of(runs, f"a_{name}", _buffer), colour, label if balanced else None, not balanced)
            sizes = sorted({_buffer(r) for r in results if _is(r, replay=kind) and _buffer(r)})
            if sizes:
                _logarithmic(axis, sizes)
            panel.finish()
    return figure


def tasks(results):
    """Accuracy on seen, new and past classes after each task; one panel a kind of replay."""
    results = [r for r in results if r["kind"] == "cil"]
    kinds = sorted({r["config"]["replay"] for r in results})
    figure, axes = _figure(1, max(1, len(kinds)), HINT)
    for axis, kind in zip(axes[0], kinds):
        panel, last = _Panel(axis, kind, "task"), 1
        for colour, (name, label) in zip(COLOURS, (("seen", "seen"), ("new", "new"), ("buffer", "past"))):
            for part, dashed in (("train", True), ("test", False)):
                groups = {}
                for result in results:
                    for task in result["tasks"]:
                        value = task[part][name]["a"]
                        if result["config"]["replay"] == kind and value is not None:
                            groups.setdefault(task["task"] + 1, []).append(value)
                            last = max(last, task["task"] + 1)
                panel.line(groups, colour, None if dashed else label, dashed)
        axis.set_xticks(range(1, last + 1))
        panel.finish()
    return figure


def sizes(results, published=()):
    """Offline accuracy over the model's size: binary, float with as many bits, float with as many weights.

    results: of pre-trainings, each with `megabits`.  published: (name, test accuracy) of other work, drawn as lines.
    """
    figure, axes = _figure(1, 1, HINT + "; dotted: published by others" * bool(published))
    panel = _Panel(axes[0][0], "offline, all classes at once", "size, Mb")
    families = (("fbnn", "binary"), ("fpnn_b", "float, as many bits"), ("fpnn_p", "float, as many weights"))
    for colour, (family, label) in zip(COLOURS, families):
        runs = [r for r in results if r["training"]["model"][:6] == family or family == "fbnn" and "fpnn" not in r["training"]["model"]]
        for key, dashed, marker in (("train_accuracy", True, "s"), ("test_accuracy", False, "o")):
            points = {}
            for r in runs:
                if r["training"].get(key) is not None:
                    points.setdefault(r["megabits"], []).append(r["training"][key])
            panel.line(points, colour, None if dashed else label, dashed, marker)
    for name, value in published:
        panel.bound(value, "#777777", name)
    megabits = [r["megabits"] for r in results]
    if megabits:
        _logarithmic(axes[0][0], [min(megabits) / 1.5, max(megabits) * 1.5])
    panel.finish()
    return figure


PLOTS = {"curves": curves, "memory": memory, "losses": losses, "tasks": tasks, "sizes": sizes}


def save(figure, folder, name):
    """Write folder/name.png and .svg; returns the paths.  The SVG has no date, so equal figures give equal files."""
    from matplotlib import rc_context

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.png", folder / f"{name}.svg"]
    with rc_context({"svg.hashsalt": "fbnn-hw"}):
        figure.savefig(paths[0], dpi=150)
        figure.savefig(paths[1], metadata={"Date": None})
    return paths


def draw(exhibit, results, folder, published=True, classes=100):
    """Draw an exhibit of the paper from its results; returns the files.

    exhibit: `name`; `plot`, a key of PLOTS; `rows`, of which those without a verb are of other work, with `label` and `paper`.
    published: draw these too, where the results are of the paper's data set.  classes: of that set, for the sizes of networks.
    """
    if exhibit.plot == "sizes":
        results = [{**r, "megabits": _megabits(r["training"]["model"], classes)} for r in results if r["kind"] == "pretrain"]
        others = [(row.label.split(" (")[0], row.paper["test_accuracy"]) for row in exhibit.rows if published and not row.verb]
        return save(sizes(results, others), folder, exhibit.name)
    return save(PLOTS[exhibit.plot](results), folder, exhibit.name)


def _megabits(name, classes):
    """Size of a model; of a floating-point baseline, 32 bits a weight."""
    kind, size = FLOATING.get(name, ("", name))
    return build(size, classes).weight_bits() / 1e6 * (32 if kind == "p" else 1)
