"""Accuracies a and dispersions d of subsets of the classes (paper, section `metrics`, table `metrics`).  No torch here."""

import numpy as np


def confusion(labels, predicted, classes):
    """int64 (classes, classes): row the true class, column the found one."""
    matrix = np.zeros((classes, classes), np.int64)
    np.add.at(matrix, (labels, predicted), 1)
    return matrix


def score(matrix, classes):
    """{"a": accuracy, "d": dispersion} on the samples of `classes`; None where there are none.

    Dispersion is the standard deviation of the recalls over the classes that have samples.
    """
    rows = matrix[list(classes)] if len(classes) else matrix[:0]
    count = rows.sum(1)
    correct = np.array([matrix[c, c] for c in classes], np.int64)
    present = count > 0
    if not present.any():
        return {"a": None, "d": None}
    return {"a": float(correct.sum() / count.sum()), "d": float(np.std(correct[present] / count[present]))}


def subsets(tasks, t, pretrained=()):
    """{subscript: classes} at task t.  tasks: tuples of class numbers as the network counts them; pretrained: those of a
    pre-training whose classes stay.  old is the first task, new the current one, seen all up to it, buffer the past ones."""
    past = [c for task in tasks[:t] for c in task]
    subsets = {"old": tasks[0], "new": tasks[t], "seen": (*past, *tasks[t]), "buffer": tuple(past)}
    if pretrained:
        subsets["PT"] = pretrained
    if t == len(tasks) - 1:
        subsets["final"] = subsets["seen"]
    return subsets


def evaluate(matrix, tasks, t, pretrained=()):
    """{subscript: {"a", "d"}} of a confusion matrix over the classes seen at task t."""
    return {name: score(matrix, classes) for name, classes in subsets(tasks, t, pretrained).items()}


def sequence(matrices, tasks):
    """The usual measures of a whole sequence, from the confusion matrices after each task, over the classes seen by then:

    task_matrix: row t, column j the accuracy on task j after task t, j <= t.
    average_incremental: mean over the tasks of the accuracy on all classes seen (iCaRL).
    forgetting: mean over the tasks but the last of the highest accuracy before the last task less the one after it (Chaudhry et al. 2018).
    backward_transfer: mean over them of the last accuracy less the one right after the task (Lopez-Paz and Ranzato 2017).
    Where a task has no test samples, or there is one task, values are None.
    """
    rows = [[score(np.asarray(matrix), task)["a"] for task in tasks[:t + 1]] for t, matrix in enumerate(matrices)]
    seen = [score(np.asarray(matrix), [c for task in tasks[:t + 1] for c in task])["a"] for t, matrix in enumerate(matrices)]
    last, known = len(rows) - 1, [j for j in range(len(rows) - 1) if rows[-1][j] is not None]
    forgotten = [max(rows[t][j] for t in range(j, last)) - rows[last][j] for j in known]
    transferred = [rows[last][j] - rows[j][j] for j in known]
    return {"task_matrix": rows, "average_incremental": mean_and_deviation(seen)[0], "forgetting": mean_and_deviation(forgotten)[0],
            "backward_transfer": mean_and_deviation(transferred)[0]}


def mean_and_deviation(values):
    """(mean, sample standard deviation or None for fewer than two) over runs; (None, None) where there is no value."""
    values = [v for v in values if v is not None]
    if not values:
        return None, None
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None
