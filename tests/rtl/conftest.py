import pytest
from amaranth.hdl import ClockDomain, Module, Value
from amaranth.lib.wiring import Out
from amaranth.sim import Simulator

from fbnn_hw.rtl.popcount import XnorPopcount
from sim.conftest import pytest_configure, pytest_unconfigure  # noqa: F401


@pytest.fixture
def pysim():
    """Runs a check of sim/checks.py or engine_checks.py in Amaranth's own simulator."""
    def run(component, check, *arguments, **options):
        members = {"__".join(map(str, path)): (member, Value.cast(value)) for path, member, value in component.signature.flatten(component)}
        ports = {name: value.as_unsigned() for name, (_, value) in members.items()}
        outputs = {name: ports[name] for name, (member, _) in members.items() if member.flow is Out}

        async def testbench(context):
            async def cycle(inputs):
                for name, value in inputs.items():
                    context.set(ports[name], value)
                found = {name: context.get(port) for name, port in outputs.items()}
                if clocked:
                    await context.tick()
                return found
            await check(cycle, *arguments, **options)

        clocked = not (isinstance(component, XnorPopcount) and component.registers == 0)
        if clocked:
            m = Module()
            m.domains.sync = domain = ClockDomain()
            m.submodules.component = component
            ports["rst"] = domain.rst
            simulator = Simulator(m)
            simulator.add_clock(1e-7)
        else:
            simulator = Simulator(component)
        simulator.add_testbench(testbench)
        simulator.run()
    return run
