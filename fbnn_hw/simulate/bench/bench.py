"""One run of testbench.v under cocotb, and its comparison with the expected bits.  Needs this folder's files alone.

layout.json says where each layer lies in the feature banks and after how many steps it is complete.  A layer's bits are
compared pixel by pixel; the first difference is reported as layer, pixel, channel, expected, got.
"""

import json
import os
from dataclasses import dataclass, field
from itertools import chain, cycle
from pathlib import Path

import numpy as np

CLOCK_NS = 10


@dataclass
class Run:
    """logits (frames, classes); classes, cycles (at which the result left), latents (frames, bits); differences: texts."""

    logits: np.ndarray
    classes: list
    cycles: list
    latents: np.ndarray
    differences: list = field(default_factory=list)

    @property
    def first(self):
        """Cycles of the first frame."""
        return self.cycles[0] + 1

    @property
    def periods(self):
        """Cycles of each later frame: from the result before to its own."""
        return [b - a for a, b in zip(self.cycles, self.cycles[1:])]


def expected_cycles(estimate):
    """Iterate over the cycles of each frame after a start, by the content of estimate.json."""
    each, period = estimate.get("pass_cycles", [estimate["first_cycles"], estimate["cycles"]]), estimate.get("pass_period", 1)
    return chain(each, cycle(each[len(each) - period:]))


def write_images(directory, images):
    """uint8 RGB (N, 3, S, S) -> images.hex."""
    data = np.ascontiguousarray(images.transpose(0, 2, 3, 1)).tobytes()
    (Path(directory) / "images.hex").write_text("".join(f"{b:02x}\n" for b in data))


def read_results(directory, lanes, classes):
    """results.txt -> Run without differences."""
    logits, results, cycles, words = [], [], [], []
    for line in (Path(directory) / "results.txt").read_text().splitlines():
        kind, *values = line.split()
        if kind == "reset":
            logits, results, cycles, words = [], [], [], []
        elif kind == "logit":
            logits.append(int(values[0]))
        elif kind == "latent":
            words.append([int(values[0], 16) >> i & 1 for i in range(lanes)])
        elif kind == "result":
            results.append(int(values[0]))
            cycles.append(int(values[1]))
    count = max(1, len(results))
    whole = len(logits) == classes * len(results)
    return Run(np.array(logits, np.int64).reshape(len(results) if whole else 1, -1 if logits else 0),
               results, cycles, np.array(words, np.uint8).reshape(count, -1))


def read_layer(directory, frame, place, banks, columns):
    """Bits (C, H, W) of one layer of a frame, from the dumps.  place: the layer's entry in layout.json."""
    words = []
    for bank in range(banks):
        path = Path(directory) / f"features_{frame}_{place['steps'][0]}_{bank}.hex"
        values = [w for line in path.read_text().splitlines() if not line.startswith(("//", "@")) for w in line.split()]
        words.append(values)
    channels, height, width = place["shape"]
    lanes = [(w, lane, channel) for w, word in enumerate(place["lanes"]) for lane, channel in enumerate(word) if channel >= 0]
    at, lane, channel = (np.array(v) for v in zip(*lanes))
    bits_read = np.zeros((channels, height, width), np.uint8)
    for y in range(height):
        for x in range(width):
            bank = y % 2 * columns + x % columns
            address = place["base"][0] + (y // 2 * place["columns"] + x // columns) * place["pitch"]
            stride = place.get("word_stride", 1)
            word = [int(v, 16) for v in words[bank][address:address + len(place["lanes"]) * stride:stride]]
            bits_read[channel, y, x] = [word[w] >> b & 1 for w, b in zip(at.tolist(), lane.tolist())]
    return bits_read


def compare(directory, expected, first=0):
    """Run of the simulation in `directory` against `expected`: {layer: bits (N, C, H, W)}, and "logits" int (N, classes)."""
    layout = json.loads((Path(directory) / "layout.json").read_text())
    run = read_results(directory, layout["lanes"], layout["classes"])
    logits = expected["logits"]
    if len(run.classes) != len(logits):
        run.differences.append(f"expected {len(logits)} results, got {len(run.classes)}")
        return run
    for frame in range(len(logits)):
        if difference := layers_difference(directory, layout, expected, frame):
            run.differences.append(f"image {first + frame}: {difference}")
        wrong = np.flatnonzero(run.logits[frame] != logits[frame])
        if len(wrong):
            run.differences.append(f"image {first + frame}: layer logits, pixel (0, 0), channel {wrong[0]}: "
                                   f"expected {logits[frame, wrong[0]]}, got {run.logits[frame, wrong[0]]}")
        number = int(np.argmax(logits[frame])) if logits[frame].size else 0
        if run.classes[frame] != number:
            run.differences.append(f"image {first + frame}: class: expected {number}, got {run.classes[frame]}")
    if run.latents.size and "latent" in expected and not run.differences:
        if not np.array_equal(run.latents[:, layout["latent_bits"]], expected["latent"].reshape(len(logits), -1)):
            run.differences.append("latent stream: differs from layer latent")
    return run


def layers_difference(directory, layout, expected, frame):
    """The first layer of `layout` that differs from `expected` for a frame, as a text; "" where all are equal."""
    for name, place in layout["layers"].items():
        bits_read = read_layer(directory, frame, place, layout["pixels"], layout["pixels"] // 2)
        wrong = np.argwhere(bits_read != expected[name][frame])
        if len(wrong):
            channel, y, x = wrong[np.lexsort((wrong[:, 0], wrong[:, 2], wrong[:, 1]))[0]].tolist()
            want, got = (int(bits[channel, y, x]) * 2 - 1 for bits in (expected[name][frame], bits_read))
            return (f"layer {name}, pixel ({y}, {x}), channel {channel}: expected {want:+d}, got {got:+d}; "
                    f"{len(wrong)} of {bits_read.size} bits differ")
    return ""


def read_window(directory):
    """results.txt -> (cycle in which the recorded window begins, cycle in which it ends)."""
    cycles = [int(line.split()[1]) for line in (Path(directory) / "results.txt").read_text().splitlines() if line.startswith("waves ")]
    return tuple(cycles)


def remove_dumps(directory):
    for path in Path(directory).glob("features_*.hex"):
        path.unlink()


try:
    import cocotb
    from cocotb.clock import Clock
    from cocotb.triggers import ClockCycles, First, Timer, ValueChange
except ImportError:
    pass
else:
    @cocotb.test()
    async def frames(dut):
        """Run BENCH_IMAGES frames; BENCH_STALL=1 pauses every stream at random, BENCH_LATENT=1 asks for the latent,
        BENCH_RESET=N resets once more after N cycles; BENCH_WINDOW=1 ends when the waveform asked for is whole."""
        count, limit = int(os.environ["BENCH_IMAGES"]), int(os.environ["BENCH_CYCLES"])
        dut.ask.value = 0
        dut.images.value, dut.stall.value, dut.want_latent.value = count, int(os.environ["BENCH_STALL"]), int(os.environ["BENCH_LATENT"])
        Clock(dut.clk, CLOCK_NS, "ns").start()
        for running in (int(os.environ.get("BENCH_RESET", 0)), 0):
            dut.rst.value = 1
            await ClockCycles(dut.clk, 4)
            dut.rst.value = 0
            if running:
                await ClockCycles(dut.clk, running)
        end = Timer(limit * CLOCK_NS, "ns")
        if int(os.environ.get("BENCH_WINDOW", 0)):
            assert await First(ValueChange(dut.recorded), end) is not end, f"the layer did not end within {limit} cycles"
            await ClockCycles(dut.clk, 2)
            return
        for frame in range(count):
            fired = await First(ValueChange(dut.frames), end)
            assert fired is not end, f"frame {frame} did not end within {limit} cycles"
        await ClockCycles(dut.clk, 2)
        assert dut.frames.value == count
