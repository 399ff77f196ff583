"""Parameters of a test of which a few run always, and the others with FBNN_SLOW=1."""

import pytest


def quick(cases, *names):
    """The cases as pytest's parameters, slow but for those named; a tuple is a case of several parameters."""
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=() if case in names else pytest.mark.slow)
            for case in cases]


def slow(cases, *names):
    """The cases as pytest's parameters, quick but for those named."""
    return quick(cases, *(case for case in cases if case not in names))
