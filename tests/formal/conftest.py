"""Warnings that say nothing about a proof."""


def pytest_configure(config):
    # A component whose chapters alone are proven is never used.
    config.addinivalue_line("filterwarnings", "ignore::amaranth.hdl.UnusedElaboratable")
    # The wrapper, which is the top elsewhere, defines the clock of the property around it.
    config.addinivalue_line("filterwarnings", "ignore:Domain 'sync' is used in 'top':DeprecationWarning")
