from dataclasses import replace

import numpy as np
import pytest

from fbnn_hw.base.errors import UsageError
from fbnn_hw.data.datasets import DATASETS
from fbnn_hw.train import scenarios


def test_the_papers_scenario():
    s = scenarios.get("cifar100-50+5x10")
    assert s.class_order(7) == tuple(range(100))
    fpt, rpt = s.split(0, "fpt"), s.split(0, "rpt")
    assert fpt[0] == tuple(range(50, 60)) and len(fpt) == 5 and rpt[0] == tuple(range(50)) and rpt[1:] == fpt


def test_core50_is_drawn_by_the_seed():
    s = scenarios.get("core50-10x5")
    a = s.split(3, "fpt")
    assert a == s.split(3, "fpt") != s.split(4, "fpt") and len(a) == 10 and sorted(c for t in a for c in t) == list(range(50))
    with pytest.raises(UsageError) as error:
        s.split(3, "rpt")
    assert str(error.value) == "--setting rpt: core50-10x5 has no classes of its own in the pre-training, expected fpt"
    assert DATASETS["core50"].options["test"] == (3, 7, 10)


@pytest.mark.parametrize("scenario", scenarios.SCENARIOS.values(), ids=lambda s: s.name)
def test_each_class_comes_once_and_exists(scenario):
    tasks = scenario.split(1, "fpt")
    arriving = [c for t in tasks for c in t]
    assert len(set(arriving)) == len(arriving) == scenario.tasks * scenario.per_task
    assert scenario.classes == DATASETS[scenario.data].classes and scenario.pretrain_data in (*DATASETS, None)


@pytest.mark.parametrize("field, value, expected", [
    ("base", "2", "base is '2', expected a whole number from 0"), ("base", -1, "base is -1, expected a whole number from 0"),
    ("tasks", 2.0, "tasks is 2.0, expected a whole number from 1"), ("tasks", 0, "tasks is 0, expected a whole number from 1"),
    ("order", "foo", "order is 'foo', expected listed or random"), ("data", "none", "data is 'none', expected one of "),
    ("pretrain_data", None, "pretrain_data is None, expected one of ")])
def test_a_field_that_no_scenario_has(field, value, expected, monkeypatch):
    one = replace(scenarios.get("tiny-2+2x2"), **{field: value})
    monkeypatch.setattr(scenarios.plugins, "load", lambda *args, **options: one)
    with pytest.raises(UsageError) as error:
        scenarios.get("mine:ONE")
    assert str(error.value).startswith(f"--scenario mine:ONE: {expected}") and "mine:ONE" not in scenarios.SCENARIOS


@pytest.mark.parametrize("order, found", [
    ((0, 1, 2, 3, 4, 4), "4"), ((0, 1, 2, 3, 4, 6), "6"), ((0, -1, 2, 3, 4, 5), "-1"), ((0, 1, 2, 3, 4), "5 numbers"), ((0, 1.5), "1.5"),
    ("abcdef", "'a'"), (None, "None"), (iter(()), "0 numbers")])
def test_a_class_order_that_is_none(order, found):
    class Ordered(scenarios.Scenario):
        def class_order(self, seed, again=None):
            return order

    message = f"--scenario mine:X: class_order gives {found}, expected 6 or more numbers of classes of tiny, 0 to 5, each once"
    with pytest.raises(UsageError) as error:
        Ordered("mine:X", "tiny", "tiny", 2, 2, 2).split(0, "fpt")
    assert str(error.value) == message


def test_a_class_order_of_some_classes():
    class Ordered(scenarios.Scenario):
        def class_order(self, seed, again=None):
            return np.array([5, 3, 1, 0, 2])

    assert Ordered("mine:X", "tiny", "tiny", 2, 1, 2).split(0, "rpt") == [(5, 3), (1, 0)]


def test_more_classes_than_the_data_has():
    one = replace(scenarios.get("tiny-2+2x2"), tasks=4)
    with pytest.raises(UsageError, match="^--scenario tiny-2.2x2: has 10 classes, tiny has 6; expected no more$"):
        assert one.split(0, "fpt")
        one.verify_classes("abcdef")


def test_unknown():
    with pytest.raises(UsageError, match="^--scenario x: expected one of cifar100-50"):
        scenarios.get("x")
