import pytest

from .runner import Forge
from .world import World


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="session")
def forge():
    """One for all files, since its imports take seconds."""
    process = Forge()
    yield process
    process.close()
