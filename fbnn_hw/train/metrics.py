"""Accuracy a and dispersion d of subsets of the classes (paper, section `metrics`, table `metrics`).  No torch here."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..base.errors import InputError


def confusion(labels: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    """The confusion matrix, int64 (classes, classes): rows are true classes, columns predicted ones.

    labels, predicted: int arrays (N,).
    """
    matrix = np.zeros((classes, classes), np.int64)
    np.add.at(matrix, (labels, predicted), 1)
    return matrix


def score(matrix: np.ndarray, classes: Sequence[int]) -> dict[str, float | None]:
    """Accuracy and dispersion on the samples of some classes.

    matrix: of `confusion`.  classes: their numbers.  Returns {"a": accuracy 0 to 1, "d": dispersion},
    both None where there are no samples.  The dispersion is the standard deviation of the recalls of
    those classes that have samples.
    """
    rows = matrix[list(classes)] if len(classes) else matrix[:0]
    count = rows.sum(1)
    correct = np.array([matrix[c, c] for c in classes], np.int64)
    present = count > 0
    if not present.any():
        return {"a": None, "d": None}
    return {"a": float(correct.sum() / count.sum()), "d": float(np.std(correct[present] / count[present]))}


def subsets(tasks: Sequence[Sequence[int]], t: int, pretrained: Sequence[int] = ()) -> dict[str, Sequence[int]]:
    """The subsets of the classes that are scored after task t, {name: class numbers}.

    tasks: tuples of class numbers as the network counts them.  pretrained: classes of a pre-training
    that stay.

    "old": the first task.  "new": task t.  "seen": all up to task t.  "buffer": all before task t.
    "PT": `pretrained`.  "final": as "seen", after the last task.
    """
    past = [c for task in tasks[:t] for c in task]
    subsets = {"old": tasks[0], "new": tasks[t], "seen": (*past, *tasks[t]), "buffer": tuple(past)}
    if pretrained:
        subsets["PT"] = pretrained
    if t == len(tasks) - 1:
        subsets["final"] = subsets["seen"]
    return subsets


def evaluate(matrix: np.ndarray, tasks: Sequence[Sequence[int]], t: int,
             pretrained: Sequence[int] = ()) -> dict[str, dict[str, float | None]]:
    """The `score` of each of the `subsets`, {name: {"a", "d"}}, from the confusion matrix after task t."""
    return {name: score(matrix, classes) for name, classes in subsets(tasks, t, pretrained).items()}


def sequence(matrices: Iterable, tasks: Sequence[Sequence[int]], alone: Sequence[float | None] | None = None) -> dict[str, Any]:
    """The usual measures of a whole sequence of tasks, a dict.

    matrices: the confusion matrix after each task, over the classes seen by then.
    alone: for each task the accuracy of a network that learned nothing but this task, from the same start; None where it is not known.

    task_matrix: row t, column j <= t is the accuracy on task j after task t.
    average_incremental: the mean over the tasks of the accuracy on all classes seen (iCaRL).
    forgetting: for each task but the last, its highest accuracy before the last task, minus its
    accuracy after the last task; the mean (Chaudhry et al. 2018).
    backward_transfer: for each task but the last, its accuracy after the last task, minus its
    accuracy right after it was learned; the mean (Lopez-Paz and Ranzato 2017).
    forward_transfer: for each task but the first, its accuracy right after it was learned, minus that of `alone`; the mean
    (Wang et al., arXiv 2302.00487).  Before it is learned a class has no output here, so the older measure would be -chance.

    A value is None where a task has no test samples, or where there is one task.
    """
    rows: list[list[Any]] = [[score(np.asarray(matrix), task)["a"] for task in tasks[:t + 1]] for t, matrix in enumerate(matrices)]
    seen = [score(np.asarray(matrix), [c for task in tasks[:t + 1] for c in task])["a"] for t, matrix in enumerate(matrices)]
    last, judged = len(rows) - 1, [j for j in range(len(rows) - 1) if rows[-1][j] is not None]
    forgotten = [max(rows[t][j] for t in range(j, last)) - rows[last][j] for j in judged]
    transferred = [rows[last][j] - rows[j][j] for j in judged]
    ahead = [rows[t][t] - alone[t] for t in range(1, len(rows)) if None not in (rows[t][t], alone[t])] if alone else []
    return {"task_matrix": rows, "average_incremental": mean_and_deviation(seen)[0], "forgetting": mean_and_deviation(forgotten)[0],
            "backward_transfer": mean_and_deviation(transferred)[0], "forward_transfer": mean_and_deviation(ahead)[0]}


def learned_alone(result: Any, classes: Sequence[str], path: str) -> list[float | None]:
    """Each task's accuracy right after it was learned, from the result of a run of --strategy naive-reset on the same tasks.

    classes: of all tasks, in their order.  Raises InputError where the result is of another run; path: what an error calls it.
    """
    try:
        strategy, names, rows = result["config"]["strategy"], result["classes"], result["sequence"]["task_matrix"]
        alone = [row[-1] for row in rows]
    except (TypeError, KeyError, IndexError, AttributeError):
        raise InputError(f"{path}: is no result of fbnn-hw cil, expected one of --strategy naive-reset") from None
    if strategy != "naive-reset" or list(names) != list(classes) or not are_scores(alone) or not result.get("finished"):
        raise InputError(f"{path}: is of --strategy {strategy} with {len(names)} classes, expected a finished run of --strategy "
                         f"naive-reset with the same {len(classes)} classes in the same order")
    return alone


def are_scores(values: Iterable) -> bool:
    """Whether all values, as a file of results has them, are numbers or None."""
    return all(isinstance(value, int | float | None) for value in values)


def mean_and_deviation(values: Iterable) -> tuple[float | None, float | None]:
    """(mean, sample standard deviation) of the values that are not None.

    The deviation is None below two values; both are None where there is no value.
    """
    values = [v for v in values if v is not None]
    if not values:
        return None, None
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None
