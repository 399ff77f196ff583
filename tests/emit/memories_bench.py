"""cocotb's side of benches that compare memories: memories_bench.v and that of test_blocks.py."""

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles


@cocotb.test()
async def equal(dut):
    Clock(dut.clk, 10, "ns").start()
    await ClockCycles(dut.clk, 20_000)
    assert int(dut.wrong.value) == 0 and int(dut.seen.value) == (1 << len(dut.seen)) - 1
