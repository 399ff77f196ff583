"""cocotb's side of test_axi_stream.py: packets in and out of accelerator_axis by cocotbext-axi, written to packets.json."""

import json
import os
from pathlib import Path
from random import Random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout
from cocotbext.axi import AxiStreamBus, AxiStreamSink, AxiStreamSource


def port(dut, kind, name, pauses):
    """A source or sink at a stream of dut.  pauses: a seed, or 0 for none."""
    end = kind(AxiStreamBus.from_prefix(dut, name), dut.aclk, dut.aresetn, reset_active_level=False)
    if pauses:
        draw = Random(f"{pauses} {name}")
        end.set_pause_generator(iter(lambda: draw.random() < 0.4, None))
    return end


async def received(sink):
    return await with_timeout(sink.recv(), 2, "ms")


@cocotb.test()
async def packets(dut):
    """BENCH_JOB is JSON: packets (lists of bytes), latent (0 or 1), pauses, weights (bytes); steps: after the packets, images, commands
    and accesses of a learner."""
    job = json.loads(Path(os.environ["BENCH_JOB"]).read_text())
    dut.aresetn.value, dut.want_latent.value = 0, job["latent"]
    Clock(dut.aclk, 10, "ns").start()
    source = port(dut, AxiStreamSource, "s_axis_image", job["pauses"])
    sinks = {name: port(dut, AxiStreamSink, f"m_axis_{name}", job["pauses"]) for name in ("logits", "result", "latent", "host")
             if hasattr(dut, f"m_axis_{name}_tvalid")}
    feeds = {name: port(dut, AxiStreamSource, f"s_axis_{name}", job["pauses"]) for name in ("command", "host")
             if hasattr(dut, f"s_axis_{name}_tvalid")}
    await ClockCycles(dut.aclk, 3)
    dut.aresetn.value = 1
    if job["weights"]:
        await port(dut, AxiStreamSource, "s_axis_weights", 0).send(bytes(job["weights"]))
    seen = {"logits": [], "result": [], "latent": [], "users": [], "steps": []}

    async def answer():
        if not hasattr(dut, "known") or dut.known.value:
            seen["logits"].append(list((await received(sinks["logits"])).tdata))
        result = await received(sinks["result"])
        seen["result"].append(list(result.tdata))
        seen["users"].append(int(result.tuser))
        if job["latent"]:
            seen["latent"].append(list((await received(sinks["latent"])).tdata))

    for one in job["packets"]:
        await source.send(bytes(one))
    for _ in job["packets"]:
        await answer()
    for step in job["steps"]:
        if step[0] == "image":
            await source.send(bytes(step[1]))
            await answer()
        else:
            await feeds[step[0]].send(step[1].to_bytes(len(feeds[step[0]].bus.tdata) // 8, "little"))
            if step[0] == "host":
                seen["steps"].append(int.from_bytes((await received(sinks["host"])).tdata, "little"))
            else:
                await ClockCycles(dut.aclk, 40)
                while dut.busy.value:
                    await RisingEdge(dut.aclk)
                seen["steps"].append([int(dut.refused.value), int(dut.known.value), int(dut.used.value)])
    await ClockCycles(dut.aclk, 200)
    seen["left"] = sum(sink.count() for sink in sinks.values())
    Path("packets.json").write_text(json.dumps(seen))
