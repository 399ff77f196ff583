"""A design that sleeps between frames: bits, clock and flash, in Verilator; designs that do not ask for it stay as they were."""

import re
import subprocess
from dataclasses import replace

import numpy as np
import pytest

from fbnn_hw import design
from fbnn_hw.base.errors import UsageError
from fbnn_hw.compile.plan import plan
from fbnn_hw.data import datasets
from fbnn_hw.design import output
from fbnn_hw.machine import protocol
from fbnn_hw.reference import inference
from fbnn_hw.rtl.board_top import weight_bytes
from fbnn_hw.rtl.duty_cycle import DutyCycle
from fbnn_hw.rtl.qspi_flash import FlashChip
from fbnn_hw.rtl.spram import SinglePortMemory
from fbnn_hw.rtl.verilog import to_verilog
from fbnn_hw.simulate import virtual
from fbnn_hw.targets import TARGETS
from tests import strategies
from tests.quick import quick

NETWORK = strategies.smallest(24)
PAUSES = 40_000, 40_000, 0, 40_000
"""Cycles without a byte before each image: time to fall asleep, or none."""


def planned(sleeps, weights="stream"):
    """Some of the weights are resident, the others come from the flash with every frame."""
    with pytest.MonkeyPatch.context() as patch:  # else a network as small as this has no resident ones beside a fast flash
        patch.setattr("fbnn_hw.compile.plan.with_late_rows", lambda config, program, passes: (config, passes))
        plain = plan(NETWORK, replace(TARGETS["ice40"], bank_words=100), 4, 16, 4, weights=weights)
    assert all(weight_bytes(plain.config))
    return replace(plain, config=replace(plain.config, sleeps=sleeps))


@pytest.fixture(scope="module", params=quick(["stream", "double"], "stream"))
def run(tmp_path_factory, request):
    """(replies, lines about the clock, what the flash complains of, exit code) of images with pauses between them."""
    root = tmp_path_factory.mktemp("duty")
    images = datasets.load("fixture").images[:len(PAUSES), :, ::4, ::4]
    folder = output.write(planned(True, request.param), NETWORK, TARGETS["ice40"], root, images).folder
    build = root / "build"
    clocks = virtual.SLEEPING_CLOCKS
    sources = virtual.board_sources(folder, build, clocks)
    program = virtual.verilate(sources, build, [build])
    script = bytearray([0, 0, 0, 6])
    for number, (pause, image) in enumerate(zip(PAUSES, images)):
        message = protocol.encode(protocol.Opcode.CLASSIFY | protocol.LOGITS, image.transpose(1, 2, 0).tobytes(), number)
        for place, byte in enumerate(message):
            script += (0 if place else pause).to_bytes(2, "little") + bytes([byte, 0])
        script += bytes([0, 0, 0, 2])
    (build / "script").write_bytes(script)
    done = subprocess.run([program, str(clocks), "20800", "script", "3000000"], cwd=build, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    clock = [tuple(map(int, line.split()[1:])) for line in lines
             if line.startswith("clock")][1:]  # the first says that it runs
    replies = [bytes.fromhex(line) for line in lines if re.fullmatch("[0-9a-f]+", line)]
    return images, replies, clock, [line for line in lines if line.startswith("flash")], done.returncode


def test_its_answers_are_those_of_the_reference(run):
    images, replies, _, _, _ = run
    payloads = [protocol.Decoder().feed(reply)[0][2] for reply in replies]
    assert [np.frombuffer(payload[:4], "<i2").tolist() for payload in payloads] == inference.logits(NETWORK, images).tolist()


def test_the_clock_stops_in_each_pause_and_only_there(run):
    """Three naps; each is what is left of the pause after the silence and the flash's wait, and begins and ends once."""
    clock = run[2]
    assert [runs for runs, _ in clock] == [0, 1] * 3
    naps = [end - start for (_, start), (_, end) in zip(clock[::2], clock[1::2])]
    falling_asleep = 16 * virtual.SLEEPING_CLOCKS + (1 << 12) + 200
    assert all(40_000 - falling_asleep - 200 < nap <= 40_000 for nap in naps)


def test_the_flash_is_asleep_and_woken_in_time(run):
    """The model refuses B9 and AB of another length, too early or while it is busy, and reads while it is asleep give nothing."""
    *_, faults, code = run
    assert not faults and code == 0


def test_designs_that_do_not_sleep_stay_as_they_were():
    plain = planned(False).config
    assert "sleeps" not in plain.to_json() and "standby" not in to_verilog(plain)
    options = {"model": bytes(4), "clock_hz": 48e6, "clocks": 4, "chip": FlashChip(), "offset": 4096, "timeout_bits": 20}
    assert not re.search("asleep|gate|standby|negedge", virtual.top_verilog(plain, **options))
    text = to_verilog(replace(plain, sleeps=True))
    assert len(re.findall(r"\.STANDBY\(standby\)", text)) == 4 and replace(plain, sleeps=True).id != plain.id


def test_refusals():
    with pytest.raises(UsageError, match="--duty-cycle: LFE5U-85F.* has no memory with a standby, expected --target ice40"):
        design.plan(NETWORK, "ecp5", duty_cycle=True)
    with pytest.raises(UsageError, match="--duty-cycle: a bit on the line takes 9 clocks, expected at least 10 to wake up in"):
        DutyCycle(None, 9)
    with pytest.raises(UsageError, match="memory: technology is 'generic', which has no standby, expected 'ice40-spram'"):
        SinglePortMemory(8, 16, 4, "generic", sleeps=True)
