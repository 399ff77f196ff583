"""The camera front end beside a plain sensor, `sim/camera_checks.py`."""

import os
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

from fbnn_hw.base.errors import UsageError
from fbnn_hw.rtl.camera.front_end import CameraFrontEnd
from fbnn_hw.rtl.camera.sensors import OV7670
from sim.camera_checks import SIZE, SMALL, TICK, camera_frames, compare, drawn, levels, watch
from tests.quick import quick

SEED = int(os.environ.get("FBNN_SEED", random.randrange(1 << 30)))


@pytest.fixture
def simulate(pysim):
    """As `watch`, of a component."""
    def run(component, *arguments):
        found = []

        async def check(cycle):
            found.extend(await watch(cycle, *arguments))
        pysim(component, check)
        return found
    return run


@pytest.mark.parametrize("name, period, jitter", quick([(name, *pace) for name in SMALL for pace in ((3, 0.2), (3.04, 0.1), (4.7, 0.3))],
                                                       ("ov7670", 3, 0.2), ("hm01b0", 3.04, 0.1)))
def test_whole_and_torn_frames(pysim, name, period, jitter):
    sensor = SMALL[name]
    print("FBNN_SEED", SEED)
    pysim(CameraFrontEnd(sensor, 5, SIZE), camera_frames, sensor, SIZE, period, jitter, seed=f"{SEED} {sensor.name} {period}")


@pytest.mark.parametrize("name, patience", quick([(name, patience) for name in SMALL for patience in (0.3, 0.97, 0.995)],
                                                 ("ov7670", 0.97), ("hm01b0", 0.3), ("hm01b0", 0.995)))
def test_a_reader_that_lets_bytes_wait(simulate, name, patience):
    """Slow readers lose images, and each is marked; frames that begin while the accelerator computes are skipped whole."""
    sensor = SMALL[name]
    print("FBNN_SEED", SEED)
    source = random.Random(f"{SEED} {sensor.name} {patience}")
    frames = [drawn(sensor, source) for _ in range(8)]
    waveform = list(levels(sensor, frames, 3.1, 0.1, source, 0))
    waveform += [waveform[-1]] * int(1200 * SIZE ** 2 * (patience > 0.9))
    images, skipped, _ = simulate(CameraFrontEnd(sensor, 8, SIZE), waveform, source, patience, (0, len(waveform) // 8))
    compare(sensor, SIZE, frames, images, skipped, late=patience > 0.3)
    assert len(images) < 8 and (patience == 0.97 or any(image.torn for image in images) == (patience > 0.99))


def test_a_sensor_that_stops_and_comes_back(simulate):
    print("FBNN_SEED", SEED)
    source = random.Random(SEED)
    sensor = SMALL["ov7670"]
    frames = [drawn(sensor, source), drawn(sensor, source, stop=3 * SIZE), drawn(sensor, source)]
    waveform = list(levels(sensor, frames, 3, 0.1, source, 40 * TICK))
    images, _, absences = simulate(CameraFrontEnd(sensor, 5, SIZE), waveform, source)
    assert [image.torn for image in images] == [False, True, False]
    compare(sensor, SIZE, frames, images)
    stopped = next(clock for clock in range(len(waveform)) if waveform[clock:clock + 2 * TICK] == waveform[clock:clock + 1] * 2 * TICK)
    gone, back = absences
    assert stopped < gone < stopped + 33 * TICK < stopped + 40 * TICK < back < len(waveform)


def test_no_sensor_is_absent(simulate):
    dut = CameraFrontEnd(OV7670, 3)
    images, _, absences = simulate(dut, [(0, 0, 0, 0, 0)] * 10 * TICK, random.Random(1))
    assert not images and len(absences) == 1 and 7 * TICK <= absences[0] <= 8 * TICK


@pytest.mark.slow
def test_an_image_of_full_size(simulate):
    """All 1,024 boxes, sums up to the largest; a frame whose window is as wide as its lines."""
    source = random.Random(5)
    sensor = replace(OV7670, width=128, height=130)
    frame = drawn(sensor, source)
    frame.pixels[1:33, :64] = 0xFFFF
    images, *_ = simulate(CameraFrontEnd(sensor, 9), levels(sensor, [frame], 3, 0.1, source, 0), source)
    compare(sensor, 32, [frame], images)
    assert len(images) == 1 and not images[0].torn


def test_the_byte_of_every_sum():
    m = Module()
    total, six, byte = Signal(10), Signal(), Signal(8)
    m.d.comb += byte.eq(CameraFrontEnd.byte(total, six))

    async def bench(ctx):
        for s in range(16 * 63 + 1):
            ctx.set(total, s)
            ctx.set(six, 1)
            assert ctx.get(byte) == s >> 2 | s >> 8
        ctx.set(six, 0)
        for s in range(16 * 31 + 1):
            ctx.set(total, 2 * s)
            assert ctx.get(byte) == s >> 1 | s >> 6
    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()


def test_frames_without_room_for_the_window():
    for sensor in (replace(OV7670, width=127), replace(OV7670, height=129)):
        with pytest.raises(UsageError, match="ov7670 has .* pixels, expected 128 x 130 or more"):
            CameraFrontEnd(sensor)


def test_the_program_of_the_page_writes_front_end_and_registers(tmp_path, monkeypatch):
    page = (Path(__file__).parents[3] / "docs" / "rtl.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(re.search("^## Camera$.*?```python\n(.*?)```", page, re.M | re.S)[1], {})
    ports = {name: set(re.findall(r"^  (?:in|out)put (?:\[[\d:]+\] )?(\w+);$",
                                  re.search(rf"^module {name}\(.*?^endmodule$", Path(f"{name}.v").read_text(), re.M | re.S)[0], re.M))
             for name in ("camera", "sccb")}
    assert ports["camera"] == {"clk", "rst", "pclk", "href", "vsync", "data", "tick", "skip", "pixels__payload", "pixels__valid",
                               "pixels__ready", "active", "torn", "absent"}
    assert ports["sccb"] == {"clk", "rst", "tick", "clock_low", "data_low", "done"}
