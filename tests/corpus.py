"""Designs that a change of the code's structure must not change: configuration id, cycles, weight image and Verilog of each.

    python -m tests.corpus            writes tests/fixtures/corpus.json; some 4 minutes
    python -m tests.corpus NAME ...   the cases of these names alone

A case is a network (a shipped file, or one of `tests.strategies` by its seed), a target, and options of `fbnn_hw.design.plan`.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from fbnn_hw import design
from fbnn_hw.base.errors import FitError
from fbnn_hw.ir import shipped
from tests import strategies

FILE = Path(__file__).with_name("fixtures") / "corpus.json"
SIZES = {"pixels": 4, "lanes": 16, "outputs": 8}
EMPTY = {"teach.pt": {"learn": "nearest-mean", "unknown": True, "forget": True}}
"""Options of the files that have no class."""
LEARNING = ({"learn": "replay"}, {"learn": "prototypes", "max_classes": 20}, {"learn": "means"})


def cases():
    """{name: (network, target, options)}; the network is the name of a shipped file, or (function of `strategies`, seed)."""
    found = {}

    def add(network, target, **options):
        label = network if isinstance(network, str) else f"{network[0]}{network[1]}"
        found[" ".join([label, target, *(f"{key}={value}" for key, value in options.items())])] = network, target, options

    for name in shipped.names():
        for target in ("ice40", "generic"):
            add(name, target, **EMPTY.get(name, {}))
    for name in ("0.5mb.pt", "tiny.pt"):
        for target in ("ice40", "ecp5-25f", "generic"):
            for learning in LEARNING:
                add(name, target, **learning)
    for name in ("3mb.pt", "1mb-t.pt", "res-small.pt"):
        add(name, "ice40", learn="replay", max_classes=16, exemplars=50)
        add(name, "ecp5-45f")
        add(name, "ecp5-25f", weights="sdram")
        add(name, "gowin", weights="sdram")
    for name in ("tiny.pt", "3mb.pt", "fast.pt"):
        add(name, "ice40", weights="flash-2x")
        add(name, "ice40", duty_cycle=True)
        add(name, "ice40", input="levels")
        add(name, "ice40", **SIZES)
        add(name, "ecp5", pixels=8, lanes=32, outputs=32)
        for target in ("ice40-hx8k", "gowin-gw1nr9", "xilinx7", "xilinx7-35t"):
            add(name, target)
    for seed in range(8):
        for function in ("network", "network_2", "engine_network"):
            add((function, seed), "generic", pixels=(4, 8)[seed % 2], lanes=(16, 32)[seed // 2 % 2], outputs=(8, 16)[seed % 3 % 2])
            add((function, seed), "ice40")
    return found


def made(network, target, options):
    """What a design is, as plain values; {"refused": the message} where it does not fit."""
    net = shipped.load(network) if isinstance(network, str) else getattr(strategies, network[0])(network[1])
    try:
        planned = design.plan(net, target, **options)
    except FitError as error:
        return {"refused": str(error)}
    with tempfile.TemporaryDirectory() as folder:
        manifest = design.write(net, planned, target, folder).manifest
    files = manifest["files"]
    return {"id": manifest["config_id"], "cycles": planned.frame.total, "first": planned.first.total,
            "weights": files["weights.hex"], "layout": files["layout.json"], "verilog": files["accelerator.v"]}


def main():
    known = json.loads(FILE.read_text()) if FILE.exists() else {}
    whole = cases()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", metavar="NAME", nargs="*")
    names = parser.parse_args().names or list(whole)
    if strange := set(names) - whole.keys():
        parser.error(f"no case named {sorted(strange)[0]!r}; {FILE.name} has the names")
    for index, name in enumerate(names):
        known[name] = made(*whole[name])
        print(f"{index + 1} of {len(names)} {name}: {known[name].get('refused', known[name].get('id'))}", file=sys.stderr)
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(known[name])}" for name in whole if name in known)
    FILE.write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    main()
