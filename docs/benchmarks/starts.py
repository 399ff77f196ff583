"""Cycles and LUTs of both ways to start values, on an iCE40UP5K: bias words, and start reads.

    python docs/benchmarks/starts.py tiny.pt fast.pt 0.5mb-fe4.pt 3mb.pt
    python docs/benchmarks/starts.py --synthesise tiny.pt
    python docs/benchmarks/starts.py --save 3mb-random.pt 3mb.pt

A network without thresholds gets random ones, spread like trained ones; its first row is the network as it is.
"""

import argparse
import subprocess
import sys
from dataclasses import replace

import numpy as np
from area import measure

from fbnn_hw.compile import area
from fbnn_hw.compile.plan import plan
from fbnn_hw.ir.shipped import load
from fbnn_hw.rtl.accelerator_top import Accelerator
from fbnn_hw.targets import target


def with_thresholds(network):
    """The network with a threshold for each channel of its convolutions, spread like trained ones."""
    topology, source, thresholds = network.topology, np.random.default_rng(5), {}
    for op in topology.ops:
        if op.kind == "conv":
            fan_in = op.fan_in(*topology.input_shapes(op))
            thresholds[op.name] = np.round(source.normal(0, np.sqrt(fan_in), op.out_channels)).clip(-fan_in, fan_in).astype(np.int32)
    return replace(network, thresholds=thresholds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--synthesise", action="store_true", help="synthesise the accelerators, minutes each")
    parser.add_argument("--save", metavar="OUT.pt", help="write one network with its thresholds, and do nothing else")
    parser.add_argument("network", nargs="+", metavar="FILE.pt")
    arguments = parser.parse_args()
    if arguments.save and len(arguments.network) > 1:
        parser.error(f"--save {arguments.save}: {len(arguments.network)} networks, expected one")
    if len(arguments.network) > 1:  # a process for each: see area.py
        for name in arguments.network:
            subprocess.run([sys.executable, __file__, *["--synthesise"] * arguments.synthesise, name], check=True)
        return
    [name] = arguments.network
    network, part = load(name), replace(target("ice40"), lut4=None)
    if arguments.save:
        from fbnn_hw.nn import checkpoint
        checkpoint.save(arguments.save, network if network.thresholds else with_thresholds(network))
        return
    rows = [(way, network) for way in ("word", "read")]
    if not network.thresholds:
        rows = [("none", network), *((way, with_thresholds(network)) for way, _ in rows)]
    for way, one in rows:
        planned = plan(one, part if way == "none" else replace(part, starts=(way,)), 4, 16, 8)
        luts = f"{measure(Accelerator(planned.config))['lut4']:,}" if arguments.synthesise else "-"
        print(f"| `{name}` | {way} | {planned.frame.total:,} | {area.lut4(planned.config, part):,} | {luts} |", flush=True)


if __name__ == "__main__":
    main()
