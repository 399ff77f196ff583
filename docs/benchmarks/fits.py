"""Which of the named networks fit which part, as the table of boards.md: cycles and frames/s, estimated at the target's clock, or why not.

    python docs/benchmarks/fits.py [--size N...] [--target NAME...] [--rates] [MODEL...]

All weights are 0; only their number matters.
"""

import argparse
from itertools import product

import numpy as np

from fbnn_hw.base.errors import FitError, UsageError
from fbnn_hw.compile.plan import plan
from fbnn_hw.ir.models import build
from fbnn_hw.ir.network import Network
from fbnn_hw.targets import TARGETS


def fit(model, target, size=None, rate_alone=False):
    """(one cell of the table, why it does not fit).  size: pixels a side; None: the model's own."""
    try:
        topology = build(model, **({"size": size} if size else {}))
    except UsageError as error:  # an architecture without such a size
        return "no", str(error)
    weights = {name: np.zeros(shape, np.uint8) for name, shape in topology.weight_shapes().items()}
    try:
        found = plan(Network(topology, weights, {}), target)
    except FitError as error:
        return "no", str(error)
    config = found.config
    second = config.weights != target.weights[0]
    from_flash = f" at {target.clock_of(config) / 1e6:g} MHz from the flash" if second else ""
    rate = f"{target.clock_of(config) / found.frame.total:.0f}"
    whole = f"{config.pixels} x {config.lanes} x {config.outputs}, {found.frame.total:,} cycles, {rate} frames/s{from_flash}"
    return rate if rate_alone else whole, ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["0.5mb", "1mb", "3mb", "9mb"])
    parser.add_argument("--size", type=int, nargs="+", default=[None], help="pixels a side of the images (default: the model's own)")
    parser.add_argument("--target", nargs="+", choices=TARGETS, default=list(TARGETS), help="of these parts alone (default: all)")
    parser.add_argument("--rates", action="store_true", help="frames/s alone")
    args = parser.parse_args()
    models = args.models
    print(f"| target, MHz | {' | '.join(f'`{model}`' for model in models)} |\n|---|{'---|' * len(models)}")
    why = []
    for target, size in product(map(TARGETS.get, args.target), args.size):
        cells, side = [], f", {size} pixels a side" if size else ""
        for model in models:
            cell, reason = fit(model, target, size, args.rates)
            cells.append(cell)
            why += [f"{target.name}, {model}{side}: {reason}"] if reason else []
        print(f"| `{target.name}`, {target.clock_hz / 1e6:g}{side} | {' | '.join(cells)} |", flush=True)
    print("", *why, sep="\n")


if __name__ == "__main__":
    main()
