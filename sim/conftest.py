import warnings

from amaranth.hdl import UnusedElaboratable


def pytest_configure(config):
    """A component whose constructor refused its arguments is rightly never used."""
    config.addinivalue_line("filterwarnings", "ignore::amaranth.hdl.UnusedElaboratable")


def pytest_unconfigure():
    warnings.simplefilter("ignore", UnusedElaboratable)
