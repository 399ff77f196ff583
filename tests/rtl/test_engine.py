"""The engine's parts in Amaranth's own simulator."""

import pytest

from sim.engine import ENGINE

RUNS = [(name, options) for name, (_, _, _, runs) in ENGINE.items() for options in runs]


@pytest.mark.parametrize("name, options", RUNS, ids=[" ".join([name, *map(str, options)]) for name, options in RUNS])
def test_part(pysim, name, options):
    component, check, arguments, _ = ENGINE[name]
    pysim(component, check, *arguments, **options)
