"""docs/benchmarks.md is what its records say."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "benchmarks"))

import boards  # noqa: E402

RECORD = {
    "kind": "placed and routed", "board": "icebreaker", "clock_mhz": 36, "fmax_mhz": 40.0, "met": True, "levels": 5, "seed": 1,
    "tools": {"pyosys": "0.70"}, "used": {"ICESTORM_LC": 4000, "ICESTORM_RAM": 11}, "available": {"ICESTORM_LC": 5280, "ICESTORM_RAM": 30},
    "cells": {}, "frames": 2, "cycles": 1_000_000, "minutes": 1, "network": "3mb", "part": "iCE40UP5K-SG48", "macs": 800_000_000,
    "lut4_estimated": 4000, "command": "fbnn-hw generate"}


def test_the_page_is_up_to_date():
    command = [sys.executable, "docs/benchmarks/boards.py", "--check"]
    assert subprocess.run(command, cwd=ROOT).returncode == 0, "run python docs/benchmarks/boards.py"


def test_figures(tmp_path, monkeypatch):
    """By hand: 2 frames in 25 ms, 1.6 GOP in 25 ms on 4000 cells; against the goals."""
    found = boards.figures(RECORD)
    assert (found["speed"], found["used"], found["there"], found["rams"], found["density"]) == (80, 4000, 5280, "11 of 30", 16)
    monkeypatch.setattr(boards, "RECORDS", tmp_path)
    boards.keep("a.json", RECORD)
    boards.keep("netlist.json", {"kind": "netlist", "folder": "x", "equal": True, "images": 2, "cycles": [5], "cycles_first": [9],
                                 "cells": {"SB_LUT4": 7, "$scopeinfo": 1}, "build_seconds": 1, "simulation_seconds": 2})
    text = "\n".join(boards.tables())
    assert "| 2 | 1,000,000 | 36 | 40.0 | 80.0 | 4,000 of 5,280 | 11 of 30 | 16.0 |" in text and "    (1) fbnn-hw generate\n" in text
    assert "| 45 | 80 | 80.0, aim reached (1) |" in text and "one frame a pass | 40 | 60 | not placed and routed yet |" in text
    assert "| x | 2 | yes | 5 | 7 SB_LUT4 | 1, 2 |" in text


def test_what_is_kept_of_a_build(tmp_path, monkeypatch):
    """add and netlist on files as `build` and `simulate` write them."""
    monkeypatch.setattr(boards, "RECORDS", tmp_path / "kept")
    (tmp_path / "build-icebreaker").mkdir()
    files = {
        "build-icebreaker/build.json": {**RECORD, "clock_hz": 36e6, "path": [{}], "script": "long"},
        "estimate.json": {"target": "ice40", "part": "iCE40UP5K-SG48", "lut4": 4000, "layers": [{"macs": 5}, {"macs": 6}]},
        "config.json": {"pixels": 4, "lanes": 16, "outputs": 8, "frames": 2},
        "manifest.json": {"model": "3mb", "checkpoint": {"file": "3mb.pt", "sha256": "0"}, "config_id": "12345678"}}
    for name, values in files.items():
        (tmp_path / name).write_text(json.dumps(values))
    kept = json.loads(boards.add(tmp_path, "icebreaker").read_text())
    assert kept["macs"] == 11 and "path" not in kept and kept["command"] == (
        "fbnn-hw generate --model 3mb.pt --target ice40 --pixels 4 --lanes 16 --outputs 8 --frames 2 && "
        "fbnn-hw build --board icebreaker --clock 36 --seed 1")
    (tmp_path / "estimate.json").write_text(json.dumps(files["estimate.json"] | {
        "learning": {"max_classes": 16, "exemplars": 266, "learn_cycles": 20_000, "rows": {}}}))
    file = boards.add(tmp_path, "icebreaker")
    assert file.name == "3mb-icebreaker-4x16x8-2-learn.json" and " --learn --max-classes 16 --exemplars 266 && " in file.read_text()
    assert "| (1) | 16, 266 | 20,000 | 2,000 | 0.02 |" in boards.tables()
    printed = {"folder": "rtl_out/0.5mb-10c-ice40-1", "images": 2, "cycles": [5], "cycles_first": [9], "cells": {}, "classes": [1, 2],
               "build_seconds": 1.0, "simulation_seconds": 2.0, "differences": [], "logits": [[1]]}
    file = boards.netlist(json.dumps(printed))
    assert file.name == "netlist-0.5mb-10c-ice40.json" and json.loads(file.read_text())["equal"]


def test_published_rules_learn():
    import numpy as np
    import published_rules

    from fbnn_hw.reference.learning import LearnConfig

    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 25)
    latents = rng.integers(0, 2, (4, 1024), np.uint8)[labels] ^ (rng.random((100, 1024)) < 0.3)
    config = LearnConfig(4, 20, replays=2)
    bits = config.ledger(published_rules.HEAD)["total_bits"]
    for name, make in published_rules.VARIANTS.items():
        learner = make(config, 0)
        learner.learn(latents, labels)
        assert (learner.classify(latents) == labels).mean() > 0.9, name
        assert learner.memory_bits == bits or "neurons" in name and learner.memory_bits > bits
    # By hand: 128 neurons of 1024 counters, and a classifier of 4 x 128 weights, for 4 rows of 1024 counters.
    assert published_rules.VARIANTS["local errors, 128 neurons"](config, 0).memory_bits == bits + (128 - 4) * 1024 * 8 + 4 * 128


def test_fast_and_tiny_are_as_fast_as_their_limits():
    """By the planner, with thresholds, on an iCE40UP5K; the weights of tiny stay on the chip."""
    import topologies

    from fbnn_hw.ir.models import build

    ice40 = topologies.TARGETS["ice40"]
    for name, text, most, inside in (("fast", topologies.TRIED[0], 150_000, "no"), ("tiny", topologies.TRIED[9], 65_000, "yes")):
        assert build(name).ops == topologies.parsed(text).ops
        cells = [cell.strip() for cell in topologies.row(text, ice40).split("|")]
        assert int(cells[4].replace(",", "")) <= most and cells[5] == inside


def test_the_table_of_ablations(tmp_path, capsys, monkeypatch):
    import ablations

    for name, seed, accuracy, finished in (("none", 0, 0.5, True), ("none", 1, 0.6, True), ("ema", 0, 0.7, True), ("ema", 1, 0.9, False)):
        record = {"finished": finished, "test_accuracy": 0.5, "validation_accuracy": accuracy, "train_accuracy": 0.25,
                  "seconds": 24, "epochs": 12}
        (tmp_path / f"{name}-s{seed}.result.json").write_text(json.dumps({"training": record}))
    monkeypatch.setattr(sys, "argv", ["ablations.py", str(tmp_path), "--table"])
    assert ablations.main() == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| none | 2 | 55.00% +- 7.07% | 25.00% +- 0.00% | 2 |", "| ema | 1 | 70.00% | 25.00% | 2 |"]


def test_the_flags_of_the_ablations_are_legal(tmp_path, capsys):
    from argparse import Namespace

    import ablations

    from fbnn_hw.cli import parser
    from fbnn_hw.cli.train import recipe, refuse_idle

    options = Namespace(model="0.5mb", epochs=12, threads=1, images=None, teacher="t.state")
    configs = set()
    for name in ablations.CHANGES:
        verb, *words = ablations.command(options, name, 0, tmp_path / "x.pt")
        args = parser(verb).parse_args(words)
        refuse_idle(args)
        recipe(args).verify()
        configs.add((recipe(args), args.teacher))
    assert len(configs) == len(ablations.CHANGES), "each change changes something"
