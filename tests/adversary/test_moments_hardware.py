"""Ctrl-C and kill -9 at random moments of the verbs that generate, simulate, build and teach."""

import pytest

from . import moments

NEEDS = {"studio": "uvicorn", "page": "ziglang", "import": "onnx"}


@pytest.mark.parametrize("name", moments.HARDWARE)
def test_stopped_at_random_moments(name, world, tmp_path, record_property):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    moments.try_verb(name, world, tmp_path, record_property)
