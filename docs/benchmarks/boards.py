"""Figures of builds for boards: keeps what `fbnn-hw build` recorded as JSON in boards/, and writes the tables of ../benchmarks.md from it.

    python docs/benchmarks/boards.py add DIR --board icebreaker   keeps DIR/build-icebreaker/build.json, timing met or missed
    python docs/benchmarks/boards.py netlist FILE                 keeps what `fbnn-hw simulate DIR --netlist --json` printed
    python docs/benchmarks/boards.py                              rewrites the tables
    python docs/benchmarks/boards.py --check                      exit code 1 if they are out of date
"""

import argparse
import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
RECORDS = HERE / "boards"
PAGE = HERE.parent / "benchmarks.md"
BEGIN, END = "<!-- boards: docs/benchmarks/boards.py -->", "<!-- end -->"
KEPT = ("kind", "board", "clock_mhz", "fmax_mhz", "met", "levels", "seed", "tools", "used", "available", "cells", "frames", "cycles",
        "minutes")
LOGIC = ("ICESTORM_LC", "TRELLIS_COMB", "LUT4")
"""What nextpnr calls a cell with a LUT4, by family."""
RAMS = ("ICESTORM_RAM", "DP16KD", "BSRAM")
GOALS = (
    ("3mb, UP5K, frames/s, one frame a pass", "UP5K", "3mb", "latency", 40, 60),
    ("3mb, UP5K, frames/s, several frames a pass", "UP5K", "3mb", "throughput", 45, 80),
    ("0.5mb, UP5K, frames/s", "UP5K", "0.5mb", "latency", 300, 600),
    ("UP5K, Fmax of a whole design that fits, MHz", "UP5K", "", "fmax", 36, 48),
    ("3mb, ECP5-85F, frames/s", "LFE5U-85F", "3mb", "latency", 1000, 3000),
    ("ECP5, MOP/s per LUT4", "LFE5U", "", "density", 20, 35))
"""What, part, network, figure, must, aim."""


def add(folder, board):
    """Keep the build of a generated folder; returns the file."""
    def read(name):
        return json.loads((folder / name).read_text())

    record, known, config, manifest = read(f"build-{board}/build.json"), read("estimate.json"), read("config.json"), read("manifest.json")
    frames = config.get("frames", 1)  # config.json leaves out what is at its default
    shape = " ".join(f"--{name} {config[name]}" for name in ("pixels", "lanes", "outputs"))
    passes = f" --frames {frames}" if frames > 1 else ""
    learning = {key: known["learning"][key] for key in ("max_classes", "exemplars", "learn_cycles")} if "learning" in known else {}
    if learning:
        passes += f" --learn --max-classes {learning['max_classes']} --exemplars {learning['exemplars']}"
    found = {key: record[key] for key in KEPT if key in record} | {
        "network": manifest["model"], "checkpoint": manifest["checkpoint"], "config_id": manifest["config_id"], "part": known["part"],
        "macs": sum(layer["macs"] for layer in known["layers"]), "lut4_estimated": known["lut4"],
        **({"learning": learning} if learning else {}),
        "command": f"fbnn-hw generate --model {manifest['checkpoint']['file']} --target {known['target']} {shape}{passes} && "
                   f"fbnn-hw build --board {board} --clock {record['clock_hz'] / 1e6:g} --seed {record['seed']}"
                   f"{' --native' * ('yosys' in record['tools'])}"}
    name = f"{manifest['model']}-{board}-{config['pixels']}x{config['lanes']}x{config['outputs']}-{frames}"
    return keep(f"{name}{'-learn' * bool(learning)}.json", found)


def netlist(text):
    """Keep what `simulate --netlist --json` printed; returns the file."""
    found = json.loads(text)
    folder = Path(found["folder"]).name
    kept = {key: found[key] for key in ("images", "cycles", "cycles_first", "cells", "classes", "build_seconds", "simulation_seconds")}
    kept |= {"kind": "netlist", "folder": folder, "equal": not found["differences"]}
    return keep(f"netlist-{'-'.join(folder.split('-')[:3])}.json", kept)


def keep(name, record):
    RECORDS.mkdir(exist_ok=True)
    (RECORDS / name).write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    return RECORDS / name


def figures(record):
    """frames/s at the frequency reached, LUT4 used and there are, MOP/s per LUT4 used (2 operations a MAC)."""
    speed = record["fmax_mhz"] * 1e6 * record["frames"] / record["cycles"]
    logic = next(name for name in LOGIC if name in record["used"])
    used, there = record["used"][logic], record["available"][logic]
    rams = [f"{record['used'][name]} of {record['available'][name]}" for name in RAMS if name in record["used"]]
    return {"speed": speed, "used": used, "there": there, "rams": rams[0] if rams else "-",
            "density": 2 * record["macs"] * record["fmax_mhz"] / record["cycles"] / used}


def best(records, part, network, figure):
    """(highest value of a goal's figure, its number in the table) or None."""
    found = []
    for number, record in enumerate(records, start=1):
        if part not in record["part"] or network not in ("", record["network"]):
            continue
        if figure in ("latency", "throughput") and (figure == "latency") != (record["frames"] == 1):
            continue
        own = figures(record)
        found.append((own["density"] if figure == "density" else record["fmax_mhz"] if figure == "fmax" else own["speed"], number))
    return max(found, default=None)


def tables():
    """Lines of the page between the marks."""
    records = [json.loads(path.read_text()) for path in sorted(RECORDS.glob("*.json"))]
    nets = [record for record in records if record["kind"] == "netlist"]
    records = [record for record in records if record["kind"] != "netlist"]
    lines = ["", "### Placed and routed", "",
             "| | network | board | frames a pass | cycles a pass | MHz wanted | MHz reached | frames/s at the MHz reached | logic cells "
             "| block RAMs | MOP/s per logic cell |", "|---|---|---|---|---|---|---|---|---|---|---|"]
    for number, record in enumerate(records, start=1):
        own = figures(record)
        lines.append(
            f"| ({number}) | `{record['network']}`{' that learns' * ('learning' in record)} | {record['board']} | {record['frames']} | "
            f"{record['cycles']:,} | "
            f"{record['clock_mhz']:g} | {record['fmax_mhz']:.1f}{'' if record['met'] else ', missed'} | {own['speed']:.1f} | "
            f"{own['used']:,} of {own['there']:,} | "
            f"{own['rams']} | {own['density']:.1f} |")
    if not records:
        lines.append("| | none yet | | | | | | | | | |")
    lines += ["", "Cycles are the compiler's, which a simulation gives exactly; the rest is nextpnr's report. Two operations a MAC.", ""]
    taught = [(number, record) for number, record in enumerate(records, start=1) if "learning" in record]
    if taught:
        lines += ["| | classes, exemplars | cycles a new sample and its replays | samples/s at the MHz reached | of an inference |",
                  "|---|---|---|---|---|"]
        for number, record in taught:
            own = record["learning"]
            lines.append(f"| ({number}) | {own['max_classes']}, {own['exemplars']} | {own['learn_cycles']:,} | "
                         f"{record['fmax_mhz'] * 1e6 / own['learn_cycles']:,.0f} | {own['learn_cycles'] / record['cycles']:.2f} |")
        lines += ["", "All presentations move counters, the buffer is full, the draws are as many as on average (estimated).", ""]
    lines += [f"    ({number}) {record['command']}" for number, record in enumerate(records, start=1)]
    lines += ["", "Tools: " + ("; ".join(sorted({", ".join(f"{tool} {version}" for tool, version in sorted(record["tools"].items()))
                                               for record in records})) or "none yet") + ".",
              "", "### Against the goals", "", "| what | must | aim | best placed and routed |", "|---|---|---|---|"]
    for what, part, network, figure, must, aim in GOALS:
        found = best(records, part, network, figure)
        value = "not placed and routed yet" if found is None else (
            f"{found[0]:.1f}, {'aim reached' if found[0] >= aim else 'reached' if found[0] >= must else 'not reached'} ({found[1]})")
        lines.append(f"| {what} | {must:,} | {aim:,} | {value} |")
    lines += ["", "### Netlists", "",
              "| design | images | equal to the reference | cycles a pass | cells | seconds to build, to simulate |",
              "|---|---|---|---|---|---|"]
    for record in nets:
        cells = ", ".join(f"{count:,} {cell}" for cell, count in sorted(record["cells"].items()) if not cell.startswith("$"))
        cycles = sorted(set(record["cycles"] or record["cycles_first"]))
        lines.append(f"| {record['folder']} | {record['images']} | {'yes' if record['equal'] else 'no'} | {cycles[0]:,} | {cells} | "
                     f"{record['build_seconds']:.0f}, {record['simulation_seconds']:.0f} |")
    if not nets:
        lines.append("| none yet | | | | | |")
    return [*lines, ""]


def updated(text):
    """The page's text with the tables of now."""
    before, rest = text.split(BEGIN)
    return "\n".join([before + BEGIN, *tables(), END]) + rest.split(END, 1)[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("add", "netlist"))
    parser.add_argument("source", nargs="?", type=Path)
    parser.add_argument("--board")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    if args.what == "add":
        print(add(args.source, args.board))
    elif args.what == "netlist":
        print(netlist(args.source.read_text()))
    text = PAGE.read_text(encoding="utf-8")
    new = updated(text)
    if args.check:
        return int(new != text)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
