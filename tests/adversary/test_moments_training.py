"""Ctrl-C and kill -9 at random moments of the verbs that train and evaluate."""

import pytest

from . import moments


@pytest.mark.parametrize("name", moments.TRAINING)
def test_stopped_at_random_moments(name, world, tmp_path, record_property):
    moments.try_verb(name, world, tmp_path, record_property)
