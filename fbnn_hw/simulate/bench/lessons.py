"""Lessons of a design that learns, in testbench.v under cocotb: BENCH_REQUEST, asked BENCH_LESSONS times after the first image."""

import os

import cocotb
from bench import CLOCK_NS
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, First, RisingEdge, Timer, ValueChange


@cocotb.test()
async def lessons(dut):
    dut.ask.value, dut.stall.value, dut.want_latent.value, dut.images.value, dut.rst.value = 0, 0, 0, 1, 1
    dut.request.value = int(os.environ["BENCH_REQUEST"])
    Clock(dut.clk, CLOCK_NS, "ns").start()
    await ClockCycles(dut.clk, 4)
    dut.rst.value = 0
    end = Timer(int(os.environ["BENCH_CYCLES"]) * CLOCK_NS, "ns")
    assert await First(ValueChange(dut.frames), end) is not end, "the frame did not end in time"
    for _ in range(int(os.environ["BENCH_LESSONS"]) + 1):  # the last request is taken when the lesson before it is over
        dut.ask.value = 1
        await FallingEdge(dut.clk)
        if not dut.answered.value:
            assert await First(ValueChange(dut.answered), end) is not end, "a lesson did not end in time"
        await RisingEdge(dut.clk)
        dut.ask.value = 0
        await ClockCycles(dut.clk, 4)
