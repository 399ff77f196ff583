"""LUTs, carries and flip-flops of a component after synthesis by yosys, as JSON.

    python docs/benchmarks/area.py                      lists the designs
    python docs/benchmarks/area.py popcount16 lgap      synthesises these
    python docs/benchmarks/area.py --family ecp5 popcount64
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from amaranth.back import rtlil
from amaranth.hdl import Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from fbnn_hw import design as designs
from fbnn_hw.ir.shipped import load
from fbnn_hw.machine import device
from fbnn_hw.machine.kept import SlotPlan
from fbnn_hw.machine.learner import ACT_LATENCY, LearnPlan
from fbnn_hw.reference.learning import Head, LearnConfig
from fbnn_hw.reference.learning.config import ADDING_DEFAULTS
from fbnn_hw.rtl.accelerator_top import Accelerator
from fbnn_hw.rtl.argmax import Argmax
from fbnn_hw.rtl.board_top import FlashImage
from fbnn_hw.rtl.camera.display import Display
from fbnn_hw.rtl.camera.front_end import CameraFrontEnd
from fbnn_hw.rtl.camera.sccb import SccbWriter
from fbnn_hw.rtl.camera.sensors import HM01B0, OV7670
from fbnn_hw.rtl.device_top import DeviceTop
from fbnn_hw.rtl.host_link import HostLink
from fbnn_hw.rtl.keeper import Keeper
from fbnn_hw.rtl.learning.learner import Learner
from fbnn_hw.rtl.levels import LevelUnpacker
from fbnn_hw.rtl.lgap import Lgap
from fbnn_hw.rtl.popcount import XnorPopcount
from fbnn_hw.rtl.qspi_flash import FlashChip, FlashReader
from fbnn_hw.rtl.registers import AxiLiteWrapper, WishboneWrapper
from fbnn_hw.rtl.sdram import CHIPS, SdramReader
from fbnn_hw.rtl.spram import SinglePortMemory
from fbnn_hw.rtl.thermometer import ThermometerEncoder

SYNTHESIS = {"ice40": "synth_ice40 -device u -dsp -top top", "ecp5": "synth_ecp5 -nowidelut -abc9 -top top"}
LUTS = {"SB_LUT4": 1, "CCU2C": 2, "ALU": 1} | {f"LUT{inputs}": 1 for inputs in range(1, 7)}


class Array(wiring.Component):
    """`pixels` x `outputs` popcounts; a weight word is shared by the pixels and an act word by the outputs, as in the array.
    With `shared=False` every popcount has words of its own.  Inputs and outputs are registered."""

    def __init__(self, width, registers, pixels=1, outputs=1, shared=True):
        self.width, self.registers, self.pixels, self.outputs, self.shared = width, registers, pixels, outputs, shared
        count = pixels * outputs
        super().__init__({
            "act": In(width * (pixels if shared else count)),
            "weight": In(width * (outputs if shared else count)),
            "count": Out(count * len(range(width + 1)).bit_length()),
        })

    def elaborate(self, platform):
        m = Module()
        act, weight = Signal.like(self.act), Signal.like(self.weight)
        m.d.sync += [act.eq(self.act), weight.eq(self.weight)]
        for pixel in range(self.pixels):
            for output in range(self.outputs):
                index = pixel * self.outputs + output
                m.submodules[f"popcount_{index}"] = popcount = XnorPopcount(self.width, self.registers)
                a, w = (pixel, output) if self.shared else (index, index)
                m.d.comb += [popcount.act.eq(act.word_select(a, self.width)), popcount.weight.eq(weight.word_select(w, self.width))]
                m.d.sync += self.count.word_select(index, len(popcount.count)).eq(popcount.count)
        return m


def learner(head):
    """Of 16 classes, 10 of them shipped, 500 exemplars and counters of 8 bits, in the banks of an iCE40UP5K."""
    return Learner(LearnPlan.of(head, LearnConfig(16, 500), 4, 16, 10, learn_base=4096), 13, ACT_LATENCY, 7, 14)


def mean_learner(**options):
    """As `learner`, of the rule nearest-mean."""
    config = LearnConfig(16, rule="nearest-mean", **ADDING_DEFAULTS["nearest-mean"], **options)
    return Learner(LearnPlan.of(Head(1024), config, 4, 16, 0, learn_base=4096), 13, ACT_LATENCY, 7, 14)


def accelerator(**options):
    """For 0.5mb on an iCE40UP5K, P = 4; one that learns has 16 classes.  options: of `generate`."""
    return Accelerator(designs.plan(load("0.5mb.pt"), "ice40", outputs=4, **options).config)


def wrapper(component, family, **options):
    """Around the accelerator of tiny, which is a black box."""
    return component(designs.plan(load("tiny.pt"), family, **options).config)


def keeper(**options):
    """Of 0.5mb that learns 16 classes on an iCE40UP5K.  options: of `generate`."""
    plan = designs.plan(load("0.5mb.pt"), "ice40", weights="flash", keep=True, max_classes=16, **options).config.learning
    return Keeper(SlotPlan(plan), 14, 0x200000, bytes.fromhex("cdbb5b03"), 36e6, latency=2)


class Device(DeviceTop):
    """A device around an accelerator that is a black box: camera, SCCB, buttons, LEDs; with `flash` the reader of a flash, too."""

    def __init__(self, camera, flash=False, **options):
        config = designs.plan(load("0.5mb.pt"), "ice40", camera=camera, **options).config
        super().__init__(config if flash else replace(config, weights="memory"), clock_hz=36e6, chip=FlashChip(), offset=1 << 20, latency=2,
                         keep_base=0x200000 if config.keeps else None)

    def elaborate(self, platform):
        m = super().elaborate(platform)
        instance = m.submodules.accelerator
        self.black_box = "".join([
            "attribute \\blackbox 1\nmodule \\accelerator\n",
            *(f"wire width {len(Value.cast(value))} {'input' if kind == 'i' else 'output'} {number} \\{name}\n"
              for number, (name, (value, kind)) in enumerate(instance.ports.items(), start=1)), "end\n"])
        return m


DESIGNS = {
    "popcount16": lambda: XnorPopcount(16),
    "popcount64": lambda: XnorPopcount(64, 2),
    "popcount16-16-apart": lambda: Array(16, 1, 1, 16, shared=False),
    "popcount16-4x4": lambda: Array(16, 1, 4, 4),
    "popcount64-16": lambda: Array(64, 2, 1, 16, shared=False),
    **{f"thermometer-{b}": lambda b=b: ThermometerEncoder("tycc", 16, 16, b) for b in (0, 1, 2, 4, 8)},
    "thermometer-levels": lambda: ThermometerEncoder("tycc", 16, 16, None),
    "unpacker": lambda: LevelUnpacker((5, 4, 4)),
    "thermometer-trgb": lambda: ThermometerEncoder("trgb", 85, 16, 4),
    "lgap": lambda: Lgap(4, 16, 128, 16),
    "lgap-64": lambda: Lgap(4, 16, 64, 16),
    "argmax": lambda: Argmax(13, 100),
    "host-link": lambda: HostLink(classes=10, size=32, lanes=16, latent_words=64, score_bits=14, mark=bytes.fromhex("cdbb5b03"), clocks=48),
    "host-link-learn": lambda: HostLink(classes=10, size=32, lanes=16, latent_words=64, score_bits=14, mark=bytes.fromhex("cdbb5b03"),
                                        clocks=48, plan=LearnPlan.of(Head(1024), LearnConfig(16, 266), 4, 16, 10)),
    "host-link-unknown": lambda: HostLink(
        classes=0, size=32, lanes=16, latent_words=64, score_bits=14, mark=bytes.fromhex("cdbb5b03"), clocks=48,
        plan=mean_learner(unknown=True, forget=True).plan),
    "host-link-mean": lambda: HostLink(
        classes=0, size=32, lanes=16, latent_words=64, score_bits=14, mark=bytes.fromhex("cdbb5b03"), clocks=48, plan=mean_learner().plan),
    "flash-reader": lambda: FlashReader(FlashChip(), 48e6, 1 << 20, 106504, 240128),
    "flash-reader-2x": lambda: FlashReader(FlashChip(), 48e6, 1 << 20, 106504, 240128, double=True),
    "flash-reader-yields": lambda: FlashReader(FlashChip(), 48e6, 1 << 20, 106504, 240128, yields=True),
    "keeper": lambda: keeper(learn="nearest-mean", unknown=True, forget=True),
    "keeper-replay": lambda: keeper(learn=True),
    "sdram-reader": lambda: SdramReader(CHIPS["256Mbit-16"], 80e6, 40896, 305728, 2),
    "flash-image": lambda: FlashImage(bytes.fromhex("cdbb5b03")),
    "learner": lambda: learner(Head(1024)),
    "learner-forget": lambda: Learner(
        LearnPlan.of(Head(1024), LearnConfig(16, 500, forget=True), 4, 16, 10, learn_base=4096), 13, ACT_LATENCY, 7, 14),
    "learner-mean": mean_learner,
    "learner-mean-forget": lambda: mean_learner(forget=True),
    "learner-mean-unknown-forget": lambda: mean_learner(unknown=True, forget=True),
    "accelerator": accelerator,
    "accelerator-learn": lambda: accelerator(learn=True, max_classes=16),
    "accelerator-mean": lambda: accelerator(learn="nearest-mean", max_classes=16),
    "accelerator-mean-unknown-forget": lambda: accelerator(learn="nearest-mean", max_classes=16, unknown=True, forget=True),
    "learner-skip": lambda: learner(Head(1024, 2, 128, 2, 2)),
    **{f"{name}{'-learn' * learns}": partial(wrapper, component, **({"learn": True} if learns else {}))
       for name, component in (("wishbone", WishboneWrapper), ("axi-lite", AxiLiteWrapper)) for learns in (False, True)},
    "camera": lambda: CameraFrontEnd(OV7670),
    "camera-grey": lambda: CameraFrontEnd(HM01B0),
    "device": lambda: Device("ov7670", learn="nearest-mean", max_classes=16, unknown=True, forget=True),
    "device-grey": lambda: Device("hm01b0", learn="nearest-mean", max_classes=16, unknown=True, forget=True),
    "device-plain": lambda: Device("ov7670"),
    "device-flash": lambda: Device("ov7670", flash=True, learn="nearest-mean", max_classes=16, unknown=True, forget=True),
    "display": lambda: Display(device.of_design(device.SIGNS, {"", "learn", "forget", "keep"}), 16, 36e6),
    "device-display": lambda: Device("ov7670", flash=True, learn="nearest-mean", max_classes=16, unknown=True, forget=True, keep=True,
                                     display="ssd1306"),
    "device-keep": lambda: Device("ov7670", flash=True, learn="nearest-mean", max_classes=16, unknown=True, forget=True, keep=True),
    "sccb": lambda: SccbWriter(OV7670.writes, 36e6),
    "spram": lambda: SinglePortMemory(16384, 16, 8, "ice40-spram"),
    "spram-deep": lambda: SinglePortMemory(32768, 32, 16, "ice40-spram"),
}


@contextmanager
def _silence():
    """pyosys names each command on the standard output of the process."""
    sys.stdout.flush()
    kept, quiet = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(quiet)


def measure(component, family="ice40"):
    """Cells of `component` by type, their sum as LUT4 and FF, and the seconds it took."""
    from pyosys import libyosys as ys
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        source, cells, log = (Path(folder, name) for name in ("top.il", "cells.json", "log"))
        script = Path(folder, "script.ys")
        text = rtlil.convert(component)
        source.write_text(text + getattr(component, "black_box", ""))
        design = ys.Design()
        inner = ""
        if isinstance(component, (WishboneWrapper, AxiLiteWrapper)):
            Path(folder, "inner.il").write_text(rtlil.convert(Accelerator(component.config), name="accelerator"))
            inner = f"read_rtlil {folder}/inner.il\nblackbox accelerator\n"
        script.write_text(f"{inner}read_rtlil {source}\n{SYNTHESIS[family]}\ntee -q -o {cells} stat -json\n")
        with _silence():
            ys.run_pass(f"tee -q -o {log} script {script}", design)
        text = cells.read_text()
    count = json.loads(text[text.index("{"):])["modules"]["\\top"]["num_cells_by_type"]
    return {
        "lut4": sum(number * LUTS.get(cell, 0) for cell, number in count.items()),
        "carry": count.get("SB_CARRY", 0),
        "ff": sum(number for cell, number in count.items() if "DFF" in cell or "TRELLIS_FF" in cell),
        "cells": dict(sorted(count.items())),
        "seconds": round(time.monotonic() - start, 1),
    }


def _made(name, family):
    """A design; a wrapper is that of a part's accelerator."""
    design = DESIGNS[name]
    return design(family) if isinstance(design, partial) else design()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", choices=SYNTHESIS, default="ice40")
    parser.add_argument("design", nargs="*", help=" ".join(DESIGNS))
    arguments = parser.parse_args()
    names = arguments.design or parser.exit(message=" ".join(DESIGNS) + "\n")
    if len(names) > 1:  # a process for each: yosys goes on numbering cells from one design to the next, and LUTs depend on the numbers
        for name in names:
            subprocess.run([sys.executable, __file__, "--family", arguments.family, name], check=True)
        return
    [name] = names
    print(json.dumps({"design": name, "family": arguments.family, **measure(_made(name, arguments.family), arguments.family)}), flush=True)


if __name__ == "__main__":
    main()
