"""The clocks of iCE40 designs by nextpnr, by `fbnn-hw build` and by icetime: the table of ../boards.md, from icetime.json.

    python docs/benchmarks/icetime.py build DIR [NAME ...]   builds the designs that icetime.json lacks, or those of the names, anew
    python docs/benchmarks/icetime.py                        rewrites the table; --check says whether it is up to date

icetime, of Project IceStorm, has to be on PATH.  It relates no clocks, so no design here has two.  It knows no delay of a multiplier that
adds its product to a sum, as the encoder's do, so it is compared with the pins that the router took and multipliers that take no time.
"""

import contextlib
import io
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from unittest import mock

import marked

from fbnn_hw.cli import main
from fbnn_hw.fpga import routed

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))  # for tests
FIGURES, PAGE = HERE / "icetime.json", HERE.parent / "boards.md"
BEGIN = "<!-- icetime: docs/benchmarks/icetime.py -->"
DESIGNS = {
    "tiny": ("tiny.pt", "--target ice40", "icebreaker"),
    "smallest, iCE40HX8K": ("smallest.pt", "--target ice40-hx8k --pixels 4 --lanes 16 --outputs 4", "ice40hx8k-b-evn"),
    "smallest": ("smallest.pt", "--target ice40 --pixels 4 --lanes 16 --outputs 4", "icebreaker"),
    "0.5mb": ("0.5mb.pt", "--target ice40", "icebreaker"),
    "0.5mb that learns": ("0.5mb.pt", "--target ice40 --learn", "icebreaker"),
    "3mb": ("3mb.pt", "--target ice40", "icebreaker"),
    "fast": ("fast.pt", "--target ice40", "icesugar"),
    "tiny, images as levels": ("tiny.pt", "--target ice40 --pixels 4 --lanes 16 --outputs 4 --input levels", "icebreaker"),
    "1mb": ("1mb.pt", "--target ice40 --pixels 4 --lanes 16 --outputs 4", "icesugar"),
    "smallest, iCE40HX8K, larger array": ("smallest.pt", "--target ice40-hx8k --pixels 4 --lanes 16 --outputs 8", "ice40hx8k-b-evn"),
    "3mb, two frames a pass": ("3mb.pt", "--target ice40 --frames 2", "icebreaker"),
}
"""{name: (checkpoint, options of generate, board)}.  smallest.pt has three convolutions on 8 x 8 pixels with random weights."""
BOUND = 1.0
"""Percent by which the figures may differ."""


def run(*words):
    """What the command line answers as JSON; a build that misses its timing has a record too."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = main([*map(str, words), "--json"])
    answer = json.loads(out.getvalue())
    if code and "fmax_mhz" not in answer:
        raise SystemExit(answer["error"])
    return answer


def built(checkpoint, options, board, folder):
    """A row: the design built in `folder` at its target's clock, and the three clocks of it."""
    without = []

    def read(placed, sdf, target, halved=""):
        delays = replace(routed.DELAYS[target], product=(), total=())
        without.append(routed.analyse(json.loads(placed.read_text()), sdf.read_text(), delays, halved).fmax_mhz)
        return whole(placed, sdf, target, halved)

    whole = routed.read
    shutil.rmtree(folder, ignore_errors=True)
    run("generate", "--model", checkpoint, *options.split(), "--out", folder)
    [design] = folder.iterdir()
    with mock.patch.object(routed, "read", read):
        record = run("build", design, "--board", board)
    if record["icetime_mhz"] is None:
        raise SystemExit("icetime: not found on PATH, or failed")
    command = f"fbnn-hw generate --model {Path(checkpoint).name} {options} && fbnn-hw build --board {board}"
    return {"command": command, "clock_mhz": record["clock_mhz"], "nextpnr_mhz": record["nextpnr_mhz"], "routed_mhz": without[0],
            "icetime_mhz": record["icetime_mhz"], "fmax_mhz": record["fmax_mhz"], "met": record["met"], "tools": record["tools"],
            "icetime": version()}


def version():
    """What Debian says of icetime, which does not say its version itself."""
    with contextlib.suppress(OSError):
        done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "fpga-icestorm"], capture_output=True, text=True)
        if done.returncode == 0:
            return f"Debian's fpga-icestorm {done.stdout}"
    return "unknown"


def difference(row):
    """Percent by which the routed pins' clock lies above icetime's."""
    return 100 * (row["routed_mhz"] / row["icetime_mhz"] - 1)


def table(rows):
    """Lines of the page between the marks."""
    lines = ["", "| design | MHz asked | nextpnr | `build` without multipliers | icetime | difference | `build` |", "|" + "---|" * 7]
    for name, row in rows.items():
        above = f"{100 * (row['nextpnr_mhz'] / row['icetime_mhz'] - 1):+.1f} %"
        lines.append(f"| {name} | {row['clock_mhz']:g} | {row['nextpnr_mhz']:.1f}, {above} | {row['routed_mhz']:.2f} | "
                     f"{row['icetime_mhz']:.2f} | {difference(row):+.2f} % | {row['fmax_mhz']:.1f}{'' if row['met'] else ', missed'} |")
    lines += ["", *(f"    {row['command']}" for row in rows.values()), ""]
    tools = sorted({", ".join([*(f"{tool} {what}" for tool, what in row["tools"].items()), f"icetime of {row['icetime']}"])
                    for row in rows.values()})
    return [*lines, "Tools: " + ("; ".join(tools) or "none yet") + ".", ""]


def build(folder, names):
    """Build designs and keep their rows, each when it is there."""
    from fbnn_hw.nn import checkpoint
    from tests import strategies

    folder.mkdir(exist_ok=True)
    checkpoint.save(folder / "smallest.pt", strategies.smallest())
    for name, (model, options, board) in DESIGNS.items():
        rows = json.loads(FIGURES.read_text())
        if name in names if names else name not in rows:
            own = folder / model
            row = built(own if own.exists() else model, options, board, folder / name.replace(" ", "-").replace(",", ""))
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
