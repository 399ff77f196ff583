"""The clocks of iCE40 designs by nextpnr, by `fbnn-hw build` and by icetime: the table of ../checks.md, from icetime.json.

    python docs/benchmarks/icetime.py build DIR [NAME ...]   builds the designs that icetime.json lacks, or those of the names, anew
    python docs/benchmarks/icetime.py                        rewrites the table; --check says whether it is up to date

icetime, of Project IceStorm, has to be on PATH.  It relates no clocks, so no design here has two.  It knows no delay of a multiplier that
adds its product to a sum, as the encoder's do, so it is compared with the pins that the router took and multipliers that take no time.  It
adds `ADDED_NS` to each path, which the comparison takes off.
"""

import contextlib
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from unittest import mock

import marked

import fbnn_hw
from fbnn_hw.fpga import bitstream, plls, routed, toolchain
from fbnn_hw.machine import protocol
from fbnn_hw.targets.boards import board as find_board

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests import strategies  # noqa: E402 - of the repository

HERE = Path(__file__).parent
FIGURES, PAGE = HERE / "icetime.json", HERE.parent / "checks.md"
BEGIN = "<!-- icetime: docs/benchmarks/icetime.py -->"
SMALLEST = "smallest.pt"
"""`strategies.smallest()` of the tests: three convolutions on 8 x 8 pixels, random weights."""
ADDED_NS = 0.1
"""For the distribution of the clock: its LogicCell40 takes 0.64 ns on an HX8K from the clock to its output, of 0.54 in the table."""
ARRAY = {"pixels": 4, "lanes": 16, "outputs": 4}
DESIGNS = {
    "tiny": ("tiny.pt", "icebreaker", {}),
    "smallest, iCE40HX8K": (SMALLEST, "ice40hx8k-b-evn", ARRAY),
    "smallest": (SMALLEST, "icebreaker", ARRAY),
    "0.5mb": ("0.5mb.pt", "icebreaker", {}),
    "smallest, iCE40HX8K, larger array": (SMALLEST, "ice40hx8k-b-evn", ARRAY | {"outputs": 8}),
    "smallest, iCE40HX8K, images as levels": (SMALLEST, "ice40hx8k-b-evn", ARRAY | {"input": "levels"}),
    "smallest, larger array": (SMALLEST, "icebreaker", ARRAY | {"outputs": 8}),
    "smallest, images as levels": (SMALLEST, "icesugar", ARRAY | {"input": "levels"}),
    "tiny, images as levels": ("tiny.pt", "icebreaker", ARRAY | {"input": "levels"}),
    "fast": ("fast.pt", "icesugar", {}),
    "1mb": ("1mb.pt", "icesugar", ARRAY),
    "0.5mb that learns": ("0.5mb.pt", "icebreaker", {"learn": True}),
    "teach that learns, with limits": ("teach.pt", "icebreaker", {"learn": "nearest-mean", "unknown": True, "forget": True}),
}
"""{name: (checkpoint, board, arguments of `fbnn_hw.generate`)}."""


def built(model, name, arguments, folder):
    """A row: the design built in `folder` at its target's clock, and the clocks of it."""
    without = []

    def read(placed, sdf, target, halved=""):
        delays = replace(routed.DELAYS[target], product=(), total=())
        without.append(routed.analyse(json.loads(placed.read_text()), sdf.read_text(), delays, halved).fmax_mhz)
        return whole(placed, sdf, target, halved)

    whole, board = routed.read, find_board(name)
    network = strategies.smallest() if model == SMALLEST else fbnn_hw.load(model)
    shutil.rmtree(folder, ignore_errors=True)
    design = fbnn_hw.generate(network, board.target, out=folder, **arguments)
    clock = plls.nearest(board, board.part.clock_of(design.config))
    text = {file: (design.folder / file).read_text() for file in ("network.json", "accelerator.v", "weights.hex")}
    inputs = bitstream.recipe(
        design.config, board, toolchain.find(board.target), clock, board.baud(clock.hz, design.config.sleeps),
        protocol.model_mark(text["network.json"].encode()), text["accelerator.v"],
        text["weights.hex"] if design.config.weights == "memory" else None)
    with mock.patch.object(routed, "read", read):
        record = bitstream.build(inputs, design.folder / f"build-{name}", [1])
    if record["icetime_mhz"] is None:
        raise SystemExit("icetime: not found on PATH, or failed")
    options = "".join(f" --{option}" + f" {value}" * (value is not True) for option, value in arguments.items())
    command = f"fbnn-hw generate --model {model} --target {board.target}{options} && fbnn-hw build --board {name}"
    return {"command": command, "routed_mhz": without[0], "icetime": version(),
            **{key: record[key] for key in ("clock_mhz", "nextpnr_mhz", "icetime_mhz", "fmax_mhz", "met", "tools")}}


def version():
    """What Debian says of icetime, which does not say its version itself."""
    with contextlib.suppress(OSError):
        done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "fpga-icestorm"], capture_output=True, text=True)
        if done.returncode == 0:
            return f"Debian's fpga-icestorm {done.stdout}"
    return "unknown"


def without(row):
    """icetime's clock, MHz, without what it adds to each path."""
    return 1e3 / (1e3 / row["icetime_mhz"] - ADDED_NS)


def difference(row):
    """Percent by which the routed pins' clock lies above icetime's, `without` what that adds."""
    return 100 * (row["routed_mhz"] / without(row) - 1)


def table(rows):
    """Lines of the page between the marks."""
    lines = ["", "| design | MHz asked | nextpnr | `build` without multipliers | icetime | without its 0.1 ns | difference | `build` |",
             "|" + "---|" * 8]
    for name, row in rows.items():
        above = f"{100 * (row['nextpnr_mhz'] / row['icetime_mhz'] - 1):+.1f} %"
        lines.append(f"| {name} | {row['clock_mhz']:g} | {row['nextpnr_mhz']:.1f}, {above} | {row['routed_mhz']:.2f} | "
                     f"{row['icetime_mhz']:.2f} | {without(row):.2f} | {difference(row):+.2f} % | "
                     f"{row['fmax_mhz']:.1f}{'' if row['met'] else ', missed'} |")
    lines += ["", *(f"    {row['command']}" for row in rows.values()), ""]
    tools = sorted({", ".join([*(f"{tool} {what}" for tool, what in row["tools"].items()), f"icetime of {row['icetime']}"])
                    for row in rows.values()})
    return [*lines, "Tools: " + ("; ".join(tools) or "none yet") + ".", ""]


def build(folder, names):
    """Build designs and keep their rows, each when it is there."""
    for name, (model, board, arguments) in DESIGNS.items():
        rows = json.loads(FIGURES.read_text())
        if name in names if names else name not in rows:
            row = built(model, board, arguments, folder / name.replace(" ", "-").replace(",", ""))
            rows[name] = row
            FIGURES.write_text(json.dumps({one: rows[one] for one in DESIGNS if one in rows}, indent=1) + "\n")
            print(f"{name}: nextpnr {row['nextpnr_mhz']:.2f}, routed {row['routed_mhz']:.2f}, icetime {row['icetime_mhz']:.2f} "
                  f"({difference(row):+.2f} %), build {row['fmax_mhz']:.2f} MHz", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["build"]:
        build(Path(sys.argv[2]), sys.argv[3:])
    else:
        text = PAGE.read_text()
        new = marked.replaced(text, BEGIN, table(json.loads(FIGURES.read_text())))
        if sys.argv[1:] == ["--check"]:
            sys.exit(new != text)
        PAGE.write_text(new)
