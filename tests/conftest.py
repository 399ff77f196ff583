"""Simulations that run for moments are compiled as sim/headers.py says; processes side by side have a thread each; what the suite of
hostile input tried is told at the end."""

import os

import pytest

from sim import headers

headers.prepare()
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_collection_modifyitems(items):
    """Slow tests wait for FBNN_SLOW=1; each has a quicker one beside it."""
    if not os.environ.get("FBNN_SLOW"):
        for item in items:
            if item.get_closest_marker("slow"):
                item.add_marker(pytest.mark.skip(reason="slow; FBNN_SLOW=1 runs it"))


@pytest.fixture(scope="module")
def built_boards(tmp_path_factory):
    """Virtual boards of the same sources are compiled once in a session."""
    from tests import virtual_boards

    root = tmp_path_factory.getbasetemp()
    folder = (root.parent if "PYTEST_XDIST_WORKER" in os.environ else root) / "boards"
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        virtual_boards.shared_builds(patch, folder)
        yield


def pytest_terminal_summary(terminalreporter):
    reports = [report for reports in terminalreporter.stats.values() for report in reports if getattr(report, "when", None) == "call"]
    lines = [value for report in reports for key, value in report.user_properties if key == "adversary"]
    if lines:
        terminalreporter.section("adversary")
        for line in lines:
            terminalreporter.line(line)
