import pytest
from amaranth.hdl import Cat, ClockDomain, Module, Value
from amaranth.lib.wiring import Out
from amaranth.sim import Simulator

from fbnn_hw.rtl.popcount import XnorPopcount
from sim.conftest import pytest_configure, pytest_unconfigure  # noqa: F401


@pytest.fixture
def pysim():
    """Runs a check of sim/checks.py or engine_checks.py in Amaranth's own simulator."""
    def run(component, check, *arguments, **options):
        members = {"__".join(map(str, path)): (member, Value.cast(value)) for path, member, value in component.signature.flatten(component)}
        ports = {name: value.as_unsigned() if value.shape().signed else value for name, (_, value) in members.items()}
        outputs = {name: ports[name] for name, (member, _) in members.items() if member.flow is Out}
        held, together = {}, {}

        async def testbench(context):
            ticks = aiter(context.tick()) if clocked else None

            async def cycle(inputs):
                # Each `set` settles the whole design, so those that change are set at once.
                changed = tuple(name for name, value in inputs.items() if held.get(name) != value)
                if changed:
                    held.update(inputs)
                    if changed not in together:
                        together[changed] = Cat(*(ports[name] for name in changed))
                    word = at = 0
                    for name in changed:
                        word |= (inputs[name] & (1 << len(ports[name])) - 1) << at
                        at += len(ports[name])
                    context.set(together[changed], word)
                found = {name: context.get(port) for name, port in outputs.items()}
                if clocked:
                    await anext(ticks)
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
