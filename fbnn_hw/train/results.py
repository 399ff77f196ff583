"""Results of `cil` and `pretrain` in files, and their metrics beside those of the paper.  No torch here."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from ..base import files
from ..base.errors import InputError
from .metrics import are_scores, mean_and_deviation

MOST_BYTES = 1 << 28
"""Of a file of many results."""
PARTS = {
    "cil": {"config": {"scenario": str, "strategy": str, "replay": str, "buffer_mb": float | int, "setting": str, "loss": str,
                       "balanced": bool, "aware": bool},
            "init": {"source": str}, "final": {}, "seed": int, "epochs": int, "finished": bool},
    "pretrain": {"training": {"model": str, "norm": str, "encoder": str, "all_classes": bool, "seed": int, "objective": {},
                              "config": {"K": float | int}}},
}
"""The parts of a result of each kind that are read: their types, or what is in them."""

SCORES = ("_accuracy", "_dispersion")
"""Endings of the names of a pre-training's metrics."""


def read(folder: Path, scenario: str) -> list[dict[str, Any]]:
    """The finished results in `folder` that are of `scenario`, in the order of their names."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file, expected a folder of results")
    results = [_result(files.json_object(path)) for path in sorted(folder.rglob("*.json"))]
    for path in sorted(folder.rglob("*.jsonl")):  # one result a line
        results += _lines(path)
    return [r for r in results if r and (r["config"]["scenario"] if r["kind"] == "cil" else r["training"].get("scenario")) == scenario
            and (r["kind"] == "pretrain" or r["finished"])]


def _result(values, kinds=tuple(PARTS)):
    """`values` where they are a result, else None."""
    kind = values.get("kind") if values else None
    if kind not in kinds or not _has(values, PARTS[kind]):
        return None
    scores = values["final"].values() if kind == "cil" else [v for k, v in values["training"].items() if k.endswith(SCORES)]
    sha256 = values["init"].get("sha256") if kind == "cil" else None
    return upgrade(values) if isinstance(sha256, str | None) and are_scores(scores) else None


def upgrade(values: dict[str, Any]) -> dict[str, Any]:
    """A result as this version writes it; those of earlier ones lack the choices that came later."""
    if values["kind"] == "cil":
        return {**values, "config": {"images": 0, "class_order": None, "teacher": None, **values["config"]}}
    return {**values, "training": {"activations": "binary", "images_per_class": None, **values["training"]}}


def _has(values, parts):
    """Whether a dict has the parts of `PARTS`."""
    return isinstance(values, dict) and all(
        _has(values.get(name), part) if isinstance(part, dict) else isinstance(values.get(name), part) for name, part in parts.items())


def _lines(path):
    """The results in a file of one JSON object a line; other lines are left out."""
    with suppress(InputError):
        for line in files.read(path, MOST_BYTES, "results, one a line").decode(errors="replace").splitlines():
            yield _result(files.json_values(line), ("cil",))


def value(result: dict[str, Any], metric: str) -> Any:
    """A metric of a result, by the name that the paper's rows use."""
    if result["kind"] == "cil":
        return result["epochs"] if metric == "epochs" else result["final"].get(metric)
    return result["training"].get(metric)


def compare(row: Any, results: list[dict[str, Any]]) -> dict[str, Any]:
    """{"label", "seeds", metric: {"paper", "mean", "deviation"}} of a row of the paper.  row: `label` and `paper`, {metric: value}."""
    seeds = [r["seed"] if r["kind"] == "cil" else r["training"]["seed"] for r in results]
    statistics = {m: mean_and_deviation([value(r, m) for r in results]) for m in row.paper}
    return {"label": row.label, "seeds": seeds,
            "metrics": {m: {"paper": row.paper[m], "mean": mean, "deviation": deviation} for m, (mean, deviation) in statistics.items()}}


def beside(compared: dict[str, Any], metric: str) -> str:
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
