import numpy as np
import pytest

from fbnn_hw.train import metrics

TASKS = ((0, 1), (2, 3), (4,))
LABELS = np.array([0, 0, 1, 1, 2, 2, 3, 3])
FOUND = np.array([0, 1, 1, 1, 3, 3, 3, 3])


def test_confusion():
    matrix = metrics.confusion(LABELS, FOUND, 5)
    assert matrix.tolist() == [[1, 1, 0, 0, 0], [0, 2, 0, 0, 0], [0, 0, 0, 2, 0], [0, 0, 0, 2, 0], [0] * 5]


def test_subsets_of_a_task():
    found = metrics.evaluate(metrics.confusion(LABELS, FOUND, 5), TASKS, 1, TASKS[0])
    assert found["old"] == found["PT"] == found["buffer"] == {"a": 0.75, "d": 0.25}
    assert found["new"] == {"a": 0.5, "d": 0.5} and "final" not in found
    assert found["seen"]["a"] == 5 / 8 and found["seen"]["d"] == pytest.approx(np.std([0.5, 1, 0, 1]))
    first = metrics.evaluate(metrics.confusion(LABELS[:4], FOUND[:4], 5), TASKS, 0)
    assert first["buffer"] == {"a": None, "d": None} and first["old"] == first["new"] == first["seen"] and "PT" not in first


def test_accuracy_weighs_samples_and_dispersion_classes():
    matrix = metrics.confusion(np.array([0, 0, 0, 1]), np.array([0, 0, 0, 0]), 2)
    assert metrics.score(matrix, (0, 1)) == {"a": 0.75, "d": 0.5}


def test_final_is_seen_after_the_last_task():
    found = metrics.evaluate(np.eye(5, dtype=int), TASKS, 2)
    assert found["final"] == found["seen"] == {"a": 1.0, "d": 0.0}


def test_mean_and_deviation():
    assert metrics.mean_and_deviation([1.0, 3.0]) == (2.0, pytest.approx(2 ** 0.5))
    assert metrics.mean_and_deviation([1.0, None]) == (1.0, None) and metrics.mean_and_deviation([]) == (None, None)
