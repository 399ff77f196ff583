"""Simulations that run for moments are compiled without optimisation; what the suite of hostile input tried is told at the end."""

import os

os.environ.setdefault("FBNN_OPTIMISE", "-O0")


def pytest_terminal_summary(terminalreporter):
    reports = [report for reports in terminalreporter.stats.values() for report in reports if getattr(report, "when", None) == "call"]
    lines = [value for report in reports for key, value in report.user_properties if key == "adversary"]
    if lines:
        terminalreporter.section("adversary")
        for line in lines:
            terminalreporter.line(line)
