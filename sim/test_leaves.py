"""cocotb: every component of leaves.py under its check, and the speed of the simulation."""

import time

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, ReadOnly, RisingEdge
from leaves import LEAVES


def ports_of(dut, name):
    """Inputs and outputs of one component in the bundle, by member name."""
    component = LEAVES[name][0]
    paths = ["__".join(map(str, path)) for path, _, _ in component.signature.flatten(component)]
    return {path: getattr(dut, f"{name}__{path}") for path in paths}


async def reset(dut):
    Clock(dut.clk, 10, "ns").start()
    dut.rst.value = 1
    await ClockCycles(dut.clk, 2)
    dut.rst.value = 0


@cocotb.test()
@cocotb.parametrize(number=range(len(LEAVES)))
async def leaf(dut, number):
    await reset(dut)
    name = list(LEAVES)[number]
    ports = ports_of(dut, name)
    _, check, arguments, runs = LEAVES[name]

    async def cycle(inputs):
        for port, value in inputs.items():
            ports[port].value = value
        await ReadOnly()
        found = {port: int(handle.value) for port, handle in ports.items()}
        await RisingEdge(dut.clk)
        return found

    for options in runs:
        if "spram-random" in cocotb.plusargs:
            options = {**options, "kept": False}
        await check(cycle, *arguments, **options)


@cocotb.test()
async def speed(dut):
    await reset(dut)
    start = time.monotonic()
    await ClockCycles(dut.clk, 20_000)
    dut._log.info("speed: %d cycles a second", 20_000 / (time.monotonic() - start))
