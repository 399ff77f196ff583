import pytest

from . import moments
from .world import World


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def pace():
    return moments.pace()
