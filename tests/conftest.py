"""Simulations that run for moments are compiled as sim/headers.py says; processes side by side have a thread each; what the suite of
hostile input tried is told at the end."""

import os
from hashlib import sha256

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


def shared_folder(tmp_path_factory, name):
    """A folder that all processes of a run have in common."""
    root = tmp_path_factory.getbasetemp()
    folder = (root.parent if "PYTEST_XDIST_WORKER" in os.environ else root) / name
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(autouse=True, scope="session")
def shared_verilog(tmp_path_factory):
    """The Verilog of equal accelerators, and of equal virtual boards, is made once in a run, with FBNN_SLOW=1 each time."""
    from fbnn_hw.design import output
    from fbnn_hw.rtl import board_top
    from fbnn_hw.simulate import virtual

    folder = shared_folder(tmp_path_factory, "verilog")

    def shared(make):
        def once(config, *model, **options):
            key = config.to_json(), model, options, board_top.QUIET_BITS
            path = folder / sha256(f"{make.__name__} {key}".encode()).hexdigest()
            if not path.exists():
                partial = path.with_suffix(f".{os.getpid()}")
                partial.write_text(make(config, *model, **options))
                os.replace(partial, path)
            return path.read_text()
        return once

    with pytest.MonkeyPatch.context() as patch:
        if not os.environ.get("FBNN_SLOW"):
            patch.setattr(output, "to_verilog", shared(output.to_verilog))
            patch.setattr(virtual, "top_verilog", shared(virtual.top_verilog))
        yield


@pytest.fixture(scope="module")
def built_boards(tmp_path_factory):
    """Virtual boards of the same sources are compiled once in a session."""
    from tests import virtual_boards

    folder = shared_folder(tmp_path_factory, "boards")
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
