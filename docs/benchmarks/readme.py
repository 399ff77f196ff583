"""Writes tables of four pages: builds in README.md, from their records; shipped checkpoints in docs/models.md, from the files; the
fields of a step in docs/engine.md and the registers in docs/processor.md, from their definitions.

    python docs/benchmarks/readme.py            rewrites the pages
    python docs/benchmarks/readme.py --check    exit code 1 if one is out of date
"""

import argparse
import json
import re
import sys
import tomllib
from pathlib import Path

import marked

from fbnn_hw.design import registers
from fbnn_hw.ir.checkpoint import read
from fbnn_hw.ir.shipped import FOLDER, names
from fbnn_hw.machine.registers import REGISTERS
from fbnn_hw.machine.step import FIELDS

ROOT = Path(__file__).parents[2]
RECORDS = Path(__file__).with_name("boards")
SHOWN = ("tiny", "icebreaker"), ("fast", "icebreaker"), ("3mb", "icebreaker"), ("0.5mb learns", "icebreaker"), ("3mb", "tangnano20k"), \
    ("3mb", "ulx3s-25f"), ("3mb", "ulx3s-85f"), ("fast", "ulx3s-85f")
"""(network, board) of each row of builds; the fastest record of each is taken, of those of today's hardware if there are any."""

FLAGS = {"--weights sdram": "SDRAM", "--outputs 32": "array by hand", "--native": "`--native`"}
"""Flags of a record's command that a plain line lacks, as its status says them."""


def builds():
    """Lines of the table of builds."""
    prices = dict(re.findall(r"^\| `([\w-]+)`: [^|]*\|[^|]*\| ([^|]+) \|", (ROOT / "docs" / "boards.md").read_text(encoding="utf-8"), re.M))
    titles = {path.stem: tomllib.loads(path.read_text(encoding="utf-8"))["title"] for path in (ROOT / "boards").glob("*.toml")}
    records = [json.loads(path.read_text()) for path in sorted(RECORDS.glob("*-*x*-*.json"))]
    rows = ["| network | board, price in $ | right, % | images/s, chip | images/s, over the line | learns | status |", f"|{'---|' * 7}"]
    for network, board in SHOWN:
        name, _, learns = network.partition(" ")
        of_row = [r for r in records if (r["network"], r["board"], "learning" in r) == (name, board, bool(learns))]
        best = max(of_row, key=lambda r: (not r.get("superseded"), r["met"], r.get("frames_per_second", 0)))
        right = read(FOLDER / f"{name}.pt").training["test_accuracy"]
        met = [seed["met"] for seed in best.get("seeds", ())]
        status = best["kind"] + f", one seed of {len(met)}" * (len(met) > 1 == sum(met))
        status += f", version {best['version']}" if best.get("superseded") else ""
        status += "".join(f", {word}" for flag, word in FLAGS.items() if flag in best["command"])
        rows.append(f"| `{name}` | {titles[board]}, {prices[board]} | {right:.1%} | {best['frames_per_second']:,.0f} | "
                    f"{best['end_to_end_frames_per_second']:,.0f} | {'yes' if learns else 'no'} | {status} |".replace("%", ""))
    return rows


def table():
    """Lines of the table, one row a shipped checkpoint."""
    rows = ["| file | weight bits | classes | accuracy | training images | epochs | trained on | seed |", f"|{'---|' * 8}"]
    for name in names():
        network = read(FOLDER / name)
        record = network.training
        accuracy, images, data = (record.get(key) for key in ("test_accuracy", "test_images", "data"))
        if isinstance(accuracy, float):
            stated = f"{accuracy:.2%} of {images:,} test images of {data}"
        else:
            stated = "not recorded" if network.topology.classes else "it is taught: see below"
        count = f"{record['train_images']:,}" if "train_images" in record else "not recorded"
        topology = network.topology
        machines = ", ".join(dict.fromkeys(hardware(record)))
        cells = (f"`{name}`", f"{topology.weight_bits():,}", len(topology.classes) or "none", stated, count, epochs(record), machines,
                 record.get("seed", "not recorded"))
        rows.append(f"| {' | '.join(map(str, cells))} |")
    return rows


def epochs(record):
    """Epochs of the run, after those of the runs that it went on from: "10 + 2"."""
    before = record.get("init")
    return (f"{epochs(before['training'])} + " if before else "") + str(record.get("epochs", "not recorded"))


def hardware(record):
    """Machines of the run and of those that it went on from, the first one first."""
    before = record.get("init")
    return [*(hardware(before["training"]) if before else ()), record.get("hardware", "not recorded")]


def step_fields():
    """Lines of the table, one row a field of a step."""
    rows = ["| word | bits | field | in Verilog | meaning |", f"|{'---|' * 5}"]
    for field in sorted(FIELDS, key=lambda field: (field.word, field.bit)):
        bits = "all" if field.bits == 16 else f"{field.bit} to {field.bit + field.bits - 1}" if field.bits > 1 else str(field.bit)
        meaning = ("with lists: " if field.listed else "") + field.meaning + (", less one" if field.less else "")
        rows.append(f"| {field.word} | {bits} | `{field.name}` | `{field.register}` | {meaning} |")
    return rows


TABLES = {ROOT / "README.md": ("<!-- builds: docs/benchmarks/readme.py -->", builds),
          ROOT / "docs" / "models.md": ("<!-- checkpoints: docs/benchmarks/readme.py -->", table),
          ROOT / "docs" / "engine.md": ("<!-- step: docs/benchmarks/readme.py -->", step_fields),
          ROOT / "docs" / "processor.md": ("<!-- registers: docs/benchmarks/readme.py -->", lambda: registers.table(REGISTERS))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    differ = False
    for page, (begin, lines) in TABLES.items():
        text = page.read_text(encoding="utf-8")
        new = marked.replaced(text, begin, lines())
        differ |= new != text
        if not check:
            page.write_text(new, encoding="utf-8")
    return int(check and differ)


if __name__ == "__main__":
    sys.exit(main())
