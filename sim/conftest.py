from amaranth.hdl import UnusedElaboratable

from sim import headers
from tests.conftest import kept_once, pytest_collection_modifyitems  # noqa: F401

headers.prepare()


def pytest_configure(config):
    """A component whose constructor refused its arguments, or that no test took, is rightly never used."""
    config.addinivalue_line("filterwarnings", "ignore::amaranth.hdl.UnusedElaboratable")


def pytest_unconfigure():
    """What is collected at the very end says nothing either; filters may be gone by then."""
    UnusedElaboratable._MustUse__silence = True
