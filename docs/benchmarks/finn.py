"""CNV-W1A1 of FINN beside FINN's own figures: the table of docs/finn.md, from docs/benchmarks/finn.json.

    python docs/benchmarks/finn.py --add FOLDER [BOARD]     takes a generated folder in, as estimated or as built for a board
    python docs/benchmarks/finn.py                          writes the table; --check says whether it is up to date

A row of a part is replaced by the next one of that part, an estimate never replaces what was placed and routed.
"""

import json
import sys
from pathlib import Path

import marked

from fbnn_hw import __version__

HERE = Path(__file__).parent
FIGURES, PAGE = HERE / "finn.json", HERE.parent / "finn.md"
BEGIN = "<!-- finn: docs/benchmarks/finn.py -->"
BOARDS = {"ice40": "iCEBreaker, about $50", "ecp5": "ULX3S, about $150"}
NATIVE = "nextpnr built for the machine (`--native`)"
CELLS = {"ICESTORM_LC": "logic cells", "TRELLIS_COMB": "LUT4", "LUT4": "LUT4"}
"""What a place and route counts: {its name: ours}."""


def estimated(folder):
    """The row of a generated folder, from estimate.json."""
    estimate, config = (json.loads((folder / name).read_text()) for name in ("estimate.json", "config.json"))
    shape = " x ".join(str(config[name]) for name in ("pixels", "lanes", "outputs"))
    return estimate["target"], {
        "system": f"fbnn-hw, {shape}", "part": estimate["part"], "board": BOARDS.get(estimate["target"], ""), "kind": "estimated",
        "clock_mhz": estimate["clock_hz"] / 1e6, "frames_per_second": estimate["frames_per_second"],
        "end_to_end_frames_per_second": estimate["end_to_end_frames_per_second"], "lut": estimate["lut4"],
        "lut_of": "LUT4 of the accelerator", "tools": "pip", "version": __version__}


def built(folder, board):
    """The row of a folder that was built for a board, from build.json."""
    target, row = estimated(folder)
    record = json.loads((folder / f"build-{board}" / "build.json").read_text())
    if not record.get("met"):
        raise SystemExit(f"{folder}: its build for {board} missed its timing")
    cell = next(name for name in CELLS if name in record["used"])
    return target, row | {
        "kind": record["kind"], "clock_mhz": record["clock_hz"] / 1e6, "frames_per_second": record["frames_per_second"],
        "end_to_end_frames_per_second": record["end_to_end_frames_per_second"], "lut": record["used"][cell],
        "lut_of": f"{CELLS[cell]} with link and flash reader", "tools": NATIVE if "yosys" in record["tools"] else row["tools"]}


def add(figures, folder, board=None):
    """Take a folder into the figures."""
    target, row = built(folder, board) if board else estimated(folder)
    if board is None and figures["ours"].get(target, row)["kind"] != "estimated":
        raise SystemExit(f"{folder}: {target} is there as {figures['ours'][target]['kind']}")
    figures["ours"][target] = row


def table(figures):
    """The lines of the table."""
    lines = ["| | part | frames/s | for a host at the line | LUT | MOP/s per LUT | board | tools | |", "|" + "---|" * 9]
    for row in (*figures["others"], *figures["ours"].values()):
        rate, lut = row["frames_per_second"], row["lut"]
        line = row.get("end_to_end_frames_per_second")
        lines.append("| " + " | ".join((
            row["system"], row["part"], f"{rate:,.1f} at {row['clock_mhz']:g} MHz" if line else f"{rate:,} at {row['clock_mhz']:g} MHz",
            f"{line:.1f}" if line else "", f"{lut:,} {row['lut_of']}", f"{2 * figures['macs'] * rate / lut / 1e6:.1f}", row["board"],
            row["tools"], row["kind"] + (f", version {row['version']}" if "version" in row else ""))) + " |")
    return lines


def page(figures):
    """The text of the page with the table of today."""
    return marked.replaced(PAGE.read_text(), BEGIN, table(figures))


def main(words):
    figures = json.loads(FIGURES.read_text())
    if words[:1] == ["--check"]:
        return page(figures) != PAGE.read_text()
    if words[:1] == ["--add"]:
        if len(words) not in (2, 3) or Path(words[-1]).is_dir() != (len(words) == 2):
            raise SystemExit(f"--add {' '.join(words[1:])}: expected one folder, and perhaps the name of a board")
        add(figures, Path(words[1]), *words[2:])
        FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
    PAGE.write_text(page(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
