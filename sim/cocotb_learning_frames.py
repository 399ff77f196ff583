"""cocotb: a class-incremental sequence through a whole accelerator, images in, bit for bit the reference's.

In the working directory: a generated folder's config.json and network.json, and frames.npz: images, and for each what is asked of the
learner after it, `asked` (Command or -1), `labels` and `counts`.  learning.json: {presentations, updates, evictions}.
"""

import json
from pathlib import Path

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, ReadOnly, RisingEdge, Timer, ValueChange, with_timeout

from fbnn_hw.ir import file as ir_file
from fbnn_hw.machine.config import AcceleratorConfig
from fbnn_hw.machine.protocol import Command
from fbnn_hw.reference import inference
from fbnn_hw.rtl.accelerator_top import Accelerator
from sim.cocotb_learning import compare

LONGEST = 3_000_000
"""Nanoseconds, of ten a clock, after which a frame is given up."""


class Chip:
    """The learner behind testbench.v."""

    def __init__(self, dut, config):
        self.dut = dut
        ports = Accelerator(config).learner
        self.label_at = 3
        self.count_at = 3 + len(ports.command.payload.label)
        self.data_at = 4 + len(ports.host.payload.address)

    async def ask(self, kind, request):
        self.dut.ask.value, self.dut.request.value = kind, request
        await ReadOnly()
        while not self.dut.answered.value:
            await RisingEdge(self.dut.clk)
            await ReadOnly()
        found = int(self.dut.found.value)
        await RisingEdge(self.dut.clk)
        self.dut.ask.value = 0
        return found

    async def command(self, what, label=0, count=0):
        await self.ask(1, int(what) | label << self.label_at | count << self.count_at)

    async def host(self, write, space, address, data=0):
        return await self.ask(2, write | int(space) << 1 | address << 4 | data << self.data_at)


def results():
    """[(logits, class)] of results.txt."""
    found, logits = [], []
    for line in Path("results.txt").read_text().splitlines():
        kind, *values = line.split()
        if kind == "reset":
            found, logits = [], []
        if kind == "logit":
            logits.append(int(values[0]))
        if kind == "result":
            found.append((logits, int(values[0])))
            logits = []
    return found


@cocotb.test()
async def frames(dut):
    config = AcceleratorConfig.from_json(Path("config.json").read_text())
    network = ir_file.loads(Path("network.json").read_text(), "network.json")
    given = np.load("frames.npz")
    latents = inference.layers(network, given["images"])["latent"].reshape(len(given["images"]), -1)
    learner, chip = config.learning.learner(network), Chip(dut, config)
    dut.images.value, dut.stall.value, dut.want_latent.value, dut.ask.value = len(latents), 1, 0, 0
    Clock(dut.clk, 10, "ns").start()
    dut.rst.value = 1
    await ClockCycles(dut.clk, 4)
    dut.rst.value = 0
    expected, evictions = [], 0
    for latent, what, label, count in zip(latents, given["asked"].tolist(), given["labels"].tolist(), given["counts"].tolist()):
        logits = learner.logits(latent[None])[0].tolist()
        expected.append((logits, int(np.argmax(logits))))
        await with_timeout(ValueChange(dut.frames), LONGEST, "ns")
        await RisingEdge(dut.clk)
        if what >= 0:
            await chip.command(what, label, count)
            evictions += what in (Command.LEARN, Command.STORE) and learner.buffer.used == config.learning.slots
        if what == Command.LEARN:
            learner.learn(latent[None], [label])
        elif what == Command.STORE:
            learner.store(latent[None], [label])
        elif what == Command.REHEARSE:
            learner.rehearse(count)
        elif what == Command.FREEZE:
            learner.freeze(bool(count))
    await Timer(1, "ns")
    await RisingEdge(dut.clk)
    found = results()
    assert found == expected, next((i, a, b) for i, (a, b) in enumerate(zip(found, expected)) if a != b)
    await compare(chip, learner, config.learning)
    Path("learning.json").write_text(json.dumps({
        "presentations": learner.presentations, "updates": learner.updates, "evictions": int(evictions), "known": learner.known}))
