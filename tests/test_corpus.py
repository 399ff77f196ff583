"""The designs of tests/corpus.py are what they were: the oracle of every change of structure."""

import json
import os
import random

import pytest

from tests import corpus
from tests.quick import quick

RECORDED = json.loads(corpus.FILE.read_text())
CASES = corpus.cases()
SEED = os.environ.get("FBNN_SEED") or os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(random.randrange(2 ** 32))
"""One for all processes of a run."""
DRAWN = set(random.Random(SEED).sample(sorted(CASES), len(CASES) // 10))


def test_the_file_has_the_cases():
    assert set(RECORDED) == set(CASES)
    assert sum("id" in values for values in RECORDED.values()) > 100


@pytest.mark.parametrize("name", quick(sorted(CASES), *DRAWN), ids=str)
def test_a_design_is_what_it_was(name):
    """A tenth is drawn; FBNN_SEED draws the same again, FBNN_SLOW=1 takes all.  What may change is written again by tests/corpus.py."""
    assert corpus.made(*CASES[name]) == RECORDED[name], f"FBNN_SEED={SEED}"
