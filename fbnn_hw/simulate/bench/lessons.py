"""Lessons of a design that learns, in testbench.v under cocotb: BENCH_REQUEST, asked BENCH_LESSONS times and once more after the first
image; then the second image.  At last each access of the host that reads.txt lists; what it finds goes to found.txt, a line each."""

import os
from pathlib import Path

import cocotb
from bench import CLOCK_NS
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, First, RisingEdge, Timer, ValueChange

COMMAND, HOST = 1, 2


@cocotb.test()
async def lessons(dut):
    dut.ask.value, dut.stall.value, dut.want_latent.value, dut.images.value, dut.rst.value = 0, 0, 0, 1, 1
    Clock(dut.clk, CLOCK_NS, "ns").start()
    await ClockCycles(dut.clk, 4)
    dut.rst.value = 0
    end = Timer(int(os.environ["BENCH_CYCLES"]) * CLOCK_NS, "ns")

    async def changed(signal, what):
        assert await First(ValueChange(signal), end) is not end, f"{what} did not end in time"

    async def ask(port, request):
        """What `found` has when a request is taken."""
        dut.ask.value, dut.request.value = port, request
        await FallingEdge(dut.clk)
        if not dut.answered.value:
            await changed(dut.answered, "a lesson")
            await FallingEdge(dut.clk)
        found = dut.found.value
        await RisingEdge(dut.clk)
        dut.ask.value = 0
        await ClockCycles(dut.clk, 4)
        return found

    await changed(dut.frames, "the frame")
    for _ in range(int(os.environ["BENCH_LESSONS"]) + 1):  # the last request is taken when the lesson before it is over
        await ask(COMMAND, int(os.environ["BENCH_REQUEST"]))
    dut.images.value = 2
    await changed(dut.frames, "the frame after the lessons")
    found = [await ask(HOST, int(request)) for request in Path("reads.txt").read_text().split()]
    Path("found.txt").write_text("".join(f"{int(value)}\n" for value in found))
