"""Plots of class-incremental runs, from their JSON alone (paper, figs. `baselines_cil`, `balancing`, `perf_memorySize`).

Each function takes result dicts and returns a matplotlib figure; `save` writes it as PNG and SVG.
"""

from pathlib import Path

from ..errors import ToolError

WIDTH, HEIGHT = 4.2, 3.2


def _axes(count, titles):
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ToolError("matplotlib: not installed, expected for plots; python -m pip install 'fbnn-hw[cil]'") from None
    figure = Figure((WIDTH * count, HEIGHT), layout="constrained")
    panels = figure.subplots(1, count, squeeze=False)[0]
    for axes, title in zip(panels, titles):
        axes.set_title(title, fontsize=9)
        axes.set_ylim(0, 1)
        axes.grid(alpha=0.3)
    return figure, panels


def _spread(results, key, metric):
    """{key: (mean, lowest, highest)} of a metric over the seeds."""
    groups = {}
    for result in results:
        if result["final"].get(metric) is not None:
            groups.setdefault(key(result), []).append(result["final"][metric])
    return {k: (sum(v) / len(v), min(v), max(v)) for k, v in sorted(groups.items())}


def _line(axes, points, label, **style):
    if points:
        x = list(points)
        line, = axes.plot(x, [points[k][0] for k in x], marker="o", ms=3, label=label, **style)
        axes.fill_between(x, [points[k][1] for k in x], [points[k][2] for k in x], color=line.get_color(), alpha=0.2)


def _buffer(result):
    return result["config"]["buffer_mb"]


def curves(results):
    """Test accuracy of each task and training accuracy, epoch after epoch; one panel a run (needs runs with --curves)."""
    results = [r for r in results if r["history"] and "test_of_each_task" in r["history"][0]]
    figure, panels = _axes(max(1, len(results)), [f"{r['config']['strategy']}, seed {r['seed']}" for r in results])
    for axes, result in zip(panels, results):
        history = result["history"]
        axes.plot([h["train_accuracy"] for h in history], color="black", lw=0.8, label="training")
        for task in range(max(h["task"] for h in history) + 1):
            points = [(i, h["test_of_each_task"][task]) for i, h in enumerate(history) if len(h["test_of_each_task"]) > task]
            axes.plot(*zip(*points), label=f"task {task + 1}, test")
        axes.set_xlabel("epoch")
        axes.legend(fontsize=6)
    panels[0].set_ylabel("accuracy")
    return figure


def memory(results):
    """a_seen, a_new and a_buffer against the buffer size, native and latent; test solid, training dotted."""
    figure, panels = _axes(3, ("all seen classes", "new classes", "past classes"))
    for axes, name in zip(panels, ("seen", "new", "buffer")):
        for kind in ("native", "latent"):
            chosen = [r for r in results if r["config"]["replay"] == kind and _buffer(r)]
            _line(axes, _spread(chosen, _buffer, f"a_{name}"), f"{kind}, test")
            _line(axes, _spread(chosen, _buffer, f"a_{name}_train"), f"{kind}, training", linestyle=":")
        axes.set_xlabel("buffer, Mb")
        axes.set_xscale("log")
    panels[0].set_ylabel("accuracy")
    panels[0].legend(fontsize=6)
    return figure


def losses(results):
    """a_old, a_new and a_final against the buffer size, by loss; weighted solid, not weighted dashed."""
    figure, panels = _axes(3, ("first task", "last task", "all classes"))
    for axes, name in zip(panels, ("old", "new", "final")):
        for kind in ("latent", "native"):
            for number, loss in enumerate(("cce", "focal", "sh")):
                for balanced in (True, False):
                    chosen = [r for r in results if (r["config"]["replay"], r["config"]["loss"], r["config"]["balanced"]) ==
                            (kind, loss, balanced) and _buffer(r)]
                    _line(axes, _spread(chosen, _buffer, f"a_{name}"), f"{kind}, {loss}{', weighted' if balanced else ''}",
                          linestyle="-" if balanced else "--", color=f"C{number + 3 * (kind == 'native')}")
        axes.set_xlabel("buffer, Mb")
        axes.set_xscale("log")
    panels[0].set_ylabel("accuracy")
    panels[0].legend(fontsize=6)
    return figure


def tasks(results):
    """Accuracy on seen, new and past classes after each task; one panel a kind of replay."""
    kinds = sorted({r["config"]["replay"] for r in results})
    figure, panels = _axes(max(1, len(kinds)), kinds)
    for axes, kind in zip(panels, kinds):
        for part, style in (("test", "-"), ("train", ":")):
            for number, name in enumerate(("seen", "new", "buffer")):
                groups = {}
                for result in results:
                    for task in result["tasks"]:
                        value = task[part][name]["a"]
                        if result["config"]["replay"] == kind and value is not None:
                            groups.setdefault(task["task"] + 1, []).append(value)
                _line(axes, {k: (sum(v) / len(v), min(v), max(v)) for k, v in sorted(groups.items())}, f"{name}, {part}",
                      linestyle=style, color=f"C{number}")
        axes.set_xlabel("task")
        axes.legend(fontsize=6)
    panels[0].set_ylabel("accuracy")
    return figure


PLOTS = {"curves": curves, "memory": memory, "losses": losses, "tasks": tasks}


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
