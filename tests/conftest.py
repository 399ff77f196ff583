"""Simulations that run for moments are compiled as sim/headers.py says; a process has one thread for arithmetic; what the suite of
hostile input tried is told at the end."""

import os

import pytest

from sim import headers

headers.prepare()
os.environ.setdefault("OMP_NUM_THREADS", "1")  # more would spin while they wait for a core that another process has


def pytest_collection_modifyitems(items):
    """Slow tests wait for FBNN_SLOW=1; each has a quicker one beside it."""
    if not os.environ.get("FBNN_SLOW"):
        for item in items:
            if item.get_closest_marker("slow"):
                item.add_marker(pytest.mark.skip(reason="slow; FBNN_SLOW=1 runs it"))


@pytest.fixture(autouse=True, scope="session")
def kept_once():
    """Verilog and programs of the same sources are made once, with FBNN_SLOW=1 each time."""
    from tests import kept_once

    with pytest.MonkeyPatch.context() as patch:
        if not os.environ.get("FBNN_SLOW"):
            kept_once.share(patch)
        yield


def pytest_terminal_summary(terminalreporter):
    reports = [report for reports in terminalreporter.stats.values() for report in reports if getattr(report, "when", None) == "call"]
    lines = [value for report in reports for key, value in report.user_properties if key == "adversary"]
    if lines:
        terminalreporter.section("adversary")
        for line in lines:
            terminalreporter.line(line)
