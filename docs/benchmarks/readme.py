"""Writes the table of shipped checkpoints in README.md, from what the checkpoint files themselves record.

    python docs/benchmarks/readme.py            rewrites README.md
    python docs/benchmarks/readme.py --check    exit code 1 if it is out of date
"""

import argparse
import sys
from pathlib import Path

import marked

from fbnn_hw.checkpoints import FOLDER, shipped
from fbnn_hw.ir.checkpoint import read

README = Path(__file__).parents[2] / "README.md"
BEGIN = "<!-- checkpoints: docs/benchmarks/readme.py -->"


def table():
    """Lines of the table, one row a shipped checkpoint."""
    rows = ["| file | weight bits | classes | accuracy | training images | epochs | trained on | seed |", f"|{'---|' * 8}"]
    for name in shipped():
        network = read(FOLDER / name)
        record = network.training
        accuracy, images, data = (record.get(key) for key in ("test_accuracy", "test_images", "data"))
        stated = f"{accuracy:.2%} of {images:,} test images of {data}" if isinstance(accuracy, float) else "not recorded"
        count = f"{record['train_images']:,}" if "train_images" in record else "not recorded"
        topology = network.topology
        machines = ", ".join(dict.fromkeys(hardware(record)))
        cells = (f"`{name}`", f"{topology.weight_bits():,}", len(topology.classes), stated, count, epochs(record), machines,
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


def updated(text):
    """README's text with the table of now."""
    return marked.replaced(text, BEGIN, table())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    text = README.read_text(encoding="utf-8")
    new = updated(text)
    if check:
        return int(new != text)
    README.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
