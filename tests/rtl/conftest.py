import sys
import warnings
from pathlib import Path

import pytest
from amaranth.hdl import UnusedElaboratable, Value
from amaranth.sim import Simulator

SIM = Path(__file__).parents[2] / "sim"
sys.path.insert(0, str(SIM))


def pytest_configure(config):
    """A component whose constructor refused its arguments is rightly never used."""
    config.addinivalue_line("filterwarnings", "ignore::amaranth.hdl.UnusedElaboratable")


def pytest_unconfigure():
    warnings.simplefilter("ignore", UnusedElaboratable)


@pytest.fixture
def pysim():
    """Runs a check of sim/checks.py in Amaranth's own simulator."""
    def run(component, check, *arguments, **options):
        ports = {"__".join(map(str, path)): Value.cast(value) for path, member, value in component.signature.flatten(component)}

        async def testbench(context):
            async def cycle(inputs):
                for name, value in inputs.items():
                    context.set(ports[name].as_unsigned(), value)
                found = {name: context.get(port.as_unsigned()) for name, port in ports.items()}
                if clocked:
                    await context.tick()
                return found
            await check(cycle, *arguments, **options)

        simulator = Simulator(component)
        clocked = getattr(component, "registers", 1) != 0
        if clocked:
            simulator.add_clock(1e-7)
        simulator.add_testbench(testbench)
        simulator.run()
    return run
