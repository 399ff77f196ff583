"""SCCB, heard by a receiver that knows the wires alone."""

import random

import pytest
from amaranth.sim import Simulator

from fbnn_hw.base.errors import UsageError
from fbnn_hw.rtl.camera.sccb import SccbWriter
from fbnn_hw.rtl.camera.sensors import SENSORS

TICK = 300


def simulate(dut, clocks):
    """Levels (SIOC, SIOD, done) after each clock."""
    wires = []

    async def bench(ctx):
        for clock in range(clocks):
            ctx.set(dut.tick, clock % TICK == TICK - 1)
            await ctx.tick()
            wires.append((1 - ctx.get(dut.clock_low), 1 - ctx.get(dut.data_low), ctx.get(dut.done)))
            if len(wires) > 500 and wires[-500][2]:
                break
    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return wires


def heard(wires):
    """Messages (clock of START, clock of STOP, bytes), read bit by bit: START and STOP are edges of the data while the clock is high."""
    messages, bits, start = [], None, None
    for now, ((c0, d0, _), (c1, d1, _)) in enumerate(zip(wires, wires[1:]), 1):
        assert (c0, d0) == (c1, d1) or (c0 == c1) or (d0 == d1), "both wires move at once"
        if c0 and c1 and d0 and not d1:
            assert bits is None, "START within a message"
            bits, start = [], now
        elif c0 and c1 and d1 and not d0:
            # The clock's rise before STOP has sampled a bit, which belongs to no byte.
            assert len(bits) % 9 == 1 and not bits[-1]
            groups = [bits[at:at + 9] for at in range(0, len(bits) - 1, 9)]
            assert all(group[8] for group in groups), "the ninth bit is left to the sensor"
            messages.append((start, now, bytes(sum(bit << 7 - i for i, bit in enumerate(group[:8])) for group in groups)))
            bits = None
        elif c1 and not c0:
            assert bits is not None
            bits.append(d1)
    assert bits is None
    return messages


@pytest.mark.parametrize("clock_hz, rate", [(12e6, 100e3), (36e6, 400e3), (2e6, 400e3)])
def test_a_table_is_sent_once(clock_hz, rate):
    source = random.Random(rate)
    writes = [source.randbytes(length) for length in (3, 3, 4, 3)] + [b"\x00\x00\x00", b"\xff\xff\xff"]
    dut = SccbWriter(writes, clock_hz, rate)
    bit = clock_hz / rate
    wires = simulate(dut, int(len(writes) * (40 * bit + 3 * TICK)))
    messages = heard(wires)
    assert [data for *_, data in messages] == writes and wires[-1] == (1, 1, 1)
    pauses = [messages[0][0], *(after[0] - before[1] for before, after in zip(messages, messages[1:]))]
    assert all(TICK <= pause <= 2 * TICK + bit for pause in pauses[:2]) and all(bit / 2 <= pause <= 2 * bit for pause in pauses[2:])
    assert not any(done for *_, done in wires[:messages[-1][1]])
    rises = [now for now in range(1, len(wires)) if wires[now][0] > wires[now - 1][0]]
    low = [now - max(n for n in range(now) if wires[n][0]) for now in rises]
    assert min(b - a for a, b in zip(rises, rises[1:])) >= bit and min(low) >= bit / 4  # quarters are whole clocks, rounded up
    for start, end, _ in messages:  # data stays while the clock is high, but for START and STOP
        moves = [now for now in range(start + 1, end) if wires[now][1] != wires[now - 1][1]]
        assert all(not wires[now][0] and not wires[now - 1][0] for now in moves)


def test_nothing_is_sent_before_a_whole_tick():
    wires = simulate(SccbWriter([b"\x42\x12\x80"], 12e6), 2 * TICK)
    assert all(wire[:2] == (1, 1) for wire in wires[:2 * TICK - 1])


@pytest.mark.parametrize("sensor", SENSORS.values(), ids=SENSORS)
def test_the_table_of_a_sensor(sensor):
    """It fits a block RAM of an iCE40; a reset comes first, and each register has a name and a meaning."""
    assert len(SccbWriter(sensor.writes, 36e6).table) <= 2048
    assert len(sensor.writes[0]) == 2 + sensor.number_bytes and {write[0] for write in sensor.writes} == {sensor.address}
    assert "reset" in sensor.registers[0].meaning and all(entry.name and entry.meaning for entry in sensor.registers)
    assert sensor.xclk_hz and sensor.pclk_hz <= 12e6 and 30 < sensor.frames < 62


def test_a_rate_that_no_sensor_hears():
    for rate in (99e3, 401e3):
        with pytest.raises(UsageError, match="expected from 100 to 400"):
            SccbWriter([b"\x42\x12\x80"], 36e6, rate)
