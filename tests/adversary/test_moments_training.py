"""Ctrl-C and kill -9 at random moments of the verbs that train and evaluate."""

import pytest

from tests.quick import slow

from . import moments


@pytest.mark.parametrize("name", slow(moments.TRAINING, "pretrain", "cil", "sweep"))
def test_stopped_at_random_moments(name, world, tmp_path, record_property):
    moments.try_verb(name, world, tmp_path, record_property)
