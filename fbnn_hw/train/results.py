"""Results of `cil` and `pretrain` in files, and their metrics beside those of the paper.  No torch here."""

import json

from .. import files
from ..errors import InputError
from .metrics import mean_and_deviation


def read(folder, scenario):
    """The finished results in `folder` that are of `scenario`, in the order of their names."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file, expected a folder of results")
    results = [_result(path) for path in sorted(folder.rglob("*.json"))]
    for path in sorted(folder.rglob("*.jsonl")):  # one result a line
        results += _lines(path)
    return [r for r in results if r and (r["config"]["scenario"] if r["kind"] == "cil" else r["training"].get("scenario")) == scenario
            and (r["kind"] == "pretrain" or r["finished"])]


def _result(path):
    """A result file as a dict, or None where it is not a result."""
    values = files.json_object(path)
    return values if values and values.get("kind") in ("cil", "pretrain") else None


def _lines(path):
    """The results in a file of one JSON object a line; other lines are left out."""
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            values = json.loads(line)
        except ValueError:
            continue
        if isinstance(values, dict) and values.get("kind") == "cil":
            yield values


def value(result, metric):
    """A metric of a result, by the name that the paper's rows use."""
    if result["kind"] == "cil":
        return result["epochs"] if metric == "epochs" else result["final"].get(metric)
    return result["training"].get(metric)


def compare(row, results):
    """{"label", "seeds", metric: {"paper", "mean", "deviation"}} of a row of the paper.  row: `label` and `paper`, {metric: value}."""
    seeds = [r["seed"] if r["kind"] == "cil" else r["training"]["seed"] for r in results]
    statistics = {m: mean_and_deviation([value(r, m) for r in results]) for m in row.paper}
    return {"label": row.label, "seeds": seeds,
            "metrics": {m: {"paper": row.paper[m], "mean": mean, "deviation": deviation} for m, (mean, deviation) in statistics.items()}}


def beside(compared, metric):
    """"paper / ours" as text, with the deviation over seeds."""
    values = compared["metrics"].get(metric)
    if values is None:
        return "-"

    def text(v):
        if v is None:
            return "-"
        return f"{v:.1f}" if metric == "epochs" else f"{v:.3f}" if metric.startswith("d_") or "dispersion" in metric else f"{v:.2%}"

    spread = "" if values["deviation"] is None else f" +- {text(values['deviation'])}"
    return f"{text(values['paper'])} / {text(values['mean'])}{spread}"
