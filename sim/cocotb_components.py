"""cocotb: every component of components.py under its check."""

import cocotb
from amaranth.lib.wiring import Out
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, ReadOnly, RisingEdge

from sim.components import COMPONENTS


def ports_of(dut, name):
    """(all ports, outputs) of one component in the bundle, by member name; "rst" is the reset of all."""
    component = COMPONENTS[name][0]
    members = {"__".join(map(str, path)): member for path, member, _ in component.signature.flatten(component)}
    ports = {path: getattr(dut, f"{name}__{path}") for path in members}
    return {**ports, "rst": dut.rst}, {path: port for path, port in ports.items() if members[path].flow is Out}


async def reset(dut):
    dut.rst.value = 1
    await ClockCycles(dut.clk, 2)
    dut.rst.value = 0


@cocotb.test()
@cocotb.parametrize(number=range(len(COMPONENTS)))
async def component(dut, number):
    Clock(dut.clk, 10, "ns").start()
    name = list(COMPONENTS)[number]
    ports, outputs = ports_of(dut, name)
    _, check, arguments, runs = COMPONENTS[name]

    held = {}

    async def cycle(inputs):
        for port, value in inputs.items():
            if held.get(port) != value:
                held[port] = ports[port].value = value
        await ReadOnly()
        found = {port: int(handle.value) for port, handle in outputs.items()}
        await RisingEdge(dut.clk)
        return found

    for options in runs:
        if "spram-random" in cocotb.plusargs:
            options = {**options, "kept": False}
        await reset(dut)
        held.clear()
        await check(cycle, *arguments, **options)
