"""docs/benchmarks.md is what its records say."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "benchmarks"))

import accuracy  # noqa: E402
import finn  # noqa: E402
import icetime  # noqa: E402
import marked  # noqa: E402

import boards  # noqa: E402
from fbnn_hw import __version__  # noqa: E402
from fbnn_hw.reference import inference  # noqa: E402
from fbnn_hw.targets import TARGETS  # noqa: E402
from tests import strategies  # noqa: E402

RECORD = {
    "kind": "placed and routed", "board": "icebreaker", "clock_mhz": 40, "fmax_mhz": 41.0, "met": True, "levels": 5, "seed": 1,
    "seeds": [{"seed": 1, "fmax_mhz": 41.0}, {"seed": 2, "error": "no way"}], "end_to_end_frames_per_second": 20.0, "baud": 1_000_000,
    "tools": {"pyosys": "0.70"}, "used": {"ICESTORM_LC": 4000, "ICESTORM_RAM": 11}, "available": {"ICESTORM_LC": 5280, "ICESTORM_RAM": 30},
    "cells": {}, "cycles": 1_000_000, "minutes": 1, "network": "3mb", "part": "iCE40UP5K-SG48", "macs": 800_000_000,
    "lut4_estimated": 4000, "command": "fbnn-hw generate && fbnn-hw build --board icebreaker --clock 40 --seeds 2"}


def test_the_page_is_up_to_date():
    command = [sys.executable, "docs/benchmarks/boards.py", "--check"]
    assert subprocess.run(command, cwd=ROOT).returncode == 0, "run python docs/benchmarks/boards.py"


def test_links_to_a_row_follow_its_command(monkeypatch):
    page, whole = boards.PAGE.read_text(), boards.records()
    linked = set(re.findall(r"\[row \((\d+)\)\]", page))
    gone = next(path for number, path in enumerate(whole, start=1) if str(number) not in linked and number < max(map(int, linked)))
    monkeypatch.setattr(boards, "records", lambda: {path: record for path, record in whole.items() if path != gone})
    without = boards.updated(page)
    assert set(re.findall(r"\[row \((\d+)\)\]", without)) != linked
    monkeypatch.setattr(boards, "records", lambda: whole)
    assert boards.updated(without) == page == boards.updated(page)


def test_quoted_builds_are_those_of_the_rows():
    page = boards.PAGE.read_text()
    rows = {number: row for number, row in re.findall(r"^\| \((\d+)\) (.* of .* of .*)$", page, re.M)}
    quoted = re.findall(r"^\| [^|]*\| ([\d.]+) MHz.*?\[row \((\d+)\)\]", page, re.M)
    assert len(quoted) >= 12
    for mhz, number in quoted:
        assert abs(float(mhz) - float(rows[number].split("|")[4])) < 0.05, (number, mhz)


def test_the_picture_of_accuracies_is_up_to_date():
    page = accuracy.PAGE.read_text(encoding="utf-8")
    assert accuracy.PICTURE.read_text(encoding="utf-8") == accuracy.picture(), "run python docs/benchmarks/accuracy.py"
    assert marked.replaced(page, accuracy.BEGIN, accuracy.table()) == page, "run python docs/benchmarks/accuracy.py"


def test_the_table_beside_icetime_is_up_to_date():
    """Within 1 %; a multiplier makes no clock faster, and what is met is met by the clock that `build` prints."""
    rows, page = json.loads(icetime.FIGURES.read_text()), icetime.PAGE.read_text(encoding="utf-8")
    assert marked.replaced(page, icetime.BEGIN, icetime.table(rows)) == page, "run python docs/benchmarks/icetime.py"
    assert not [name for name, row in rows.items() if abs(icetime.difference(row)) >= 1]
    for name, row in rows.items():
        assert row["fmax_mhz"] <= row["routed_mhz"] < 1.005 * row["nextpnr_mhz"], name  # the router may take a faster pin
        assert row["met"] == (row["fmax_mhz"] >= row["clock_mhz"]), name


def test_the_table_beside_finn_is_up_to_date(tmp_path):
    """And a build takes the place of an estimate, never the other way round."""
    assert finn.main(["--check"]) == 0, "run python docs/benchmarks/finn.py"
    folder = tmp_path / "cnv"
    (folder / "build-icebreaker").mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"pixels": 4, "lanes": 16, "outputs": 8}))
    (folder / "estimate.json").write_text(json.dumps({
        "target": "ice40", "part": "iCE40UP5K-SG48", "clock_hz": 33e6, "frames_per_second": 100.0, "end_to_end_frames_per_second": 50.0,
        "lut4": 3000}))
    record = {"met": True, "kind": "placed and routed", "clock_hz": 36e6, "frames_per_second": 116.5, "end_to_end_frames_per_second": 51.0,
              "used": {"ICESTORM_LC": 5180}, "tools": {"pyosys": "0.70"}}
    (folder / "build-icebreaker" / "build.json").write_text(json.dumps(record))
    figures = {"macs": 10 ** 7, "others": [], "ours": {}}
    finn.add(figures, folder)
    assert ("| fbnn-hw, 4 x 16 x 8 | iCE40UP5K-SG48 | 100.0 at 33 MHz | 50.0 | 3,000 LUT4 of the accelerator | 0.7 | iCEBreaker, "
            f"about $50 | pip | estimated, version {__version__} |") in "\n".join(finn.table(figures))
    finn.add(figures, folder, "icebreaker")
    assert ("| 116.5 at 36 MHz | 51.0 | 5,180 logic cells with link and flash reader | 0.4 | iCEBreaker, about $50 | pip |"
            in "\n".join(finn.table(figures)))
    (folder / "build-icebreaker" / "build.json").write_text(json.dumps(record | {"tools": {"yosys": "Yosys 0.70"}}))
    finn.add(figures, folder, "icebreaker")
    assert (f"| nextpnr built for the machine (`--native`) | placed and routed, version {__version__} |"
            in "\n".join(finn.table(figures)))
    with pytest.raises(SystemExit, match="ice40 is there as placed and routed"):
        finn.add(figures, folder)
    (folder / "build-icebreaker" / "build.json").write_text(json.dumps(record | {"met": False}))
    with pytest.raises(SystemExit, match="missed its timing"):
        finn.add(figures, folder, "icebreaker")


def test_figures(tmp_path, monkeypatch):
    """By hand, at 40 MHz, of which the fastest seed reaches more: a frame, 1.6 GOP, in 25 ms on 4000 cells; against the goals."""
    own = boards.figures(RECORD)
    assert (own["speed"], own["used"], own["available"], own["rams"], own["density"]) == (40, 4000, 5280, "11 of 30", 16)
    assert boards.figures(RECORD | {"fmax_mhz": 20.0})["speed"] == 20
    monkeypatch.setattr(boards, "RECORDS", tmp_path)
    boards.keep("a.json", RECORD)
    boards.keep("netlist-x.json", {"kind": "netlist", "folder": "x", "equal": True, "images": 2, "cycles": [5], "cycles_first": [9],
                                   "cells": {"SB_LUT4": 7, "$scopeinfo": 1}, "build_seconds": 1, "simulation_seconds": 2})
    text = "\n".join(boards.tables())
    assert "| (1) | `3mb` | icebreaker | 1,000,000 | 40 | 41.0, not routed | 40.0 | 20.0 | 4,000 of 5,280 | 11 of 30 | 16.0 |" in text
    assert "    (1) fbnn-hw generate && fbnn-hw build --board icebreaker --clock 40 --seeds 2\n" in text
    assert "| 3mb, UP5K, frames/s | 50 | 60 | 40.0, not reached (1) |" in text
    assert "| 0.5mb, UP5K, frames/s | 480 | 580 | not placed and routed yet |" in text
    boards.keep("a.json", RECORD | {"clock_mhz": 60, "fmax_mhz": 61.0})
    assert "| 3mb, UP5K, frames/s | 50 | 60 | 60.0, aim reached (1) |" in boards.tables()
    assert "| x | 2 | yes | 5 | 7 SB_LUT4 | 1, 2 |" in text
    boards.keep("a.json", RECORD | {"superseded": True, "version": "0.1.0"})
    assert "| (1) | `3mb` of version 0.1.0 | icebreaker |" in "\n".join(boards.tables())


@pytest.fixture
def design(tmp_path, monkeypatch):
    """A generated folder with a record of its build; records go to a folder of their own."""
    monkeypatch.setattr(boards, "RECORDS", tmp_path / "kept")
    monkeypatch.setattr(boards, "key", lambda folder, record: {"config_id": "12345678", "verilog": "v1", "generators": {}})
    monkeypatch.setattr(boards, "structure_of", lambda folder, record: "s1")
    monkeypatch.setattr(boards, "regenerated", lambda record, root: tmp_path)
    (tmp_path / "build-icebreaker").mkdir()
    files = {
        "build-icebreaker/build.json": {**RECORD, "clock_hz": 40e6, "path": [{}], "script": "long"},
        "estimate.json": {"target": "ice40", "part": "iCE40UP5K-SG48", "lut4": 4000, "layers": [{"macs": 5}, {"macs": 6}]},
        "config.json": {"pixels": 4, "lanes": 16, "outputs": 8},
        "manifest.json": {"model": "3mb", "checkpoint": {"file": "3mb.pt", "sha256": "0"}, "config_id": "12345678"}}
    for name, values in files.items():
        (tmp_path / name).write_text(json.dumps(values))
    return tmp_path, files


def test_what_is_kept_of_a_build(design):
    """add and netlist on files as `build` and `simulate` write them."""
    folder, files = design
    file = boards.add(folder, "icebreaker")
    kept = json.loads(file.read_text())
    assert file.name == "3mb-icebreaker-4x16x8-40MHz.json"
    assert kept["macs"] == 11 and "path" not in kept and (kept["verilog"], kept["structure"]) == ("v1", "s1") and kept["command"] == (
        "fbnn-hw generate --model 3mb.pt --target ice40 --pixels 4 --lanes 16 --outputs 8 && "
        "fbnn-hw build --board icebreaker --clock 40 --baud 1000000 --seeds 2")
    (folder / "estimate.json").write_text(json.dumps(files["estimate.json"] | {
        "learning": {"max_classes": 16, "exemplars": 266, "learn_cycles": 20_000, "rows": {}}}))
    (folder / "build-icebreaker" / "build.json").write_text(json.dumps(
        files["build-icebreaker/build.json"] | {"seeds": [{"seed": 2, "fmax_mhz": 41.0}]}))
    file = boards.add(folder, "icebreaker")
    assert file.name == "3mb-icebreaker-4x16x8-learn-40MHz.json"
    text = file.read_text()
    assert " --learn --max-classes 16 --exemplars 266 && " in text and " --clock 40 --baud 1000000 --seed 2\"" in text
    assert "| (2) | 16, 266 | 20,000 | 2,000 | 0.02 |" in boards.tables()
    printed = {"folder": "rtl_out/0.5mb-10c-ice40-1", "images": 2, "cycles": [5], "cycles_first": [9], "cells": {}, "classes": [1, 2],
               "build_seconds": 1.0, "simulation_seconds": 2.0, "differences": [], "logits": [[1]]}
    file = boards.netlist(json.dumps(printed))
    assert file.name == "netlist-0.5mb-10c-ice40.json" and json.loads(file.read_text())["equal"]


def test_a_record_is_brought_up_to_date(design, monkeypatch):
    """The same Verilog; the same netlist under other names; another netlist, without and with a build."""
    folder, _ = design
    file = boards.add(folder, "icebreaker")

    def record():
        return json.loads(file.read_text())

    assert boards.current(record()) and boards.refresh(file) == "the Verilog is the same"
    monkeypatch.setattr(boards, "key", lambda folder, record: {"config_id": "9", "verilog": "v2", "generators": {}})
    assert not boards.current(record())
    assert boards.refresh(file, build=False) == "the netlist is the same under other names, marked as renamed"
    assert (record()["verilog"], record()["config_id"], record()["renamed"]) == ("v2", "9", True) and "superseded" not in record()
    assert "| (1) | `3mb`, other names | icebreaker |" in "\n".join(boards.tables())
    monkeypatch.setattr(boards, "key", lambda folder, record: {"config_id": "9", "verilog": "v3", "generators": {}})
    for structure, build in (("s2", False), (None, True)):
        monkeypatch.setattr(boards, "structure_of", lambda folder, record, structure=structure: structure)
        assert boards.refresh(file, build=build).endswith("marked as superseded") and record()["superseded"]
        assert record()["verilog"] == "v2" and record()["fmax_mhz"] == 41
    built = []

    def rebuild(folder, words):
        built.append(words)
        path = folder / "build-icebreaker" / "build.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"fmax_mhz": 44.0}))
    monkeypatch.setattr(boards, "rebuild", rebuild)
    monkeypatch.setattr(boards, "structure_of", lambda folder, record: "s2")
    assert boards.refresh(file) == f"built anew: {file.name}"
    assert built == [["build", "--board", "icebreaker", "--clock", "40", "--baud", "1000000", "--seeds", "2"]]
    assert record()["fmax_mhz"] == 44 and record()["verilog"] == "v3" and not {"superseded", "renamed"} & set(record())


@pytest.mark.parametrize("path", [
    pytest.param(path, id=path.stem, marks=() if record["network"] == "0.5mb" and "learning" not in record else pytest.mark.slow)
    for path, record in boards.records().items() if not record.get("superseded")])
def test_a_record_is_of_todays_hardware(path):
    """Else its figures are to be shown as those of an earlier version."""
    assert boards.current(json.loads(path.read_text())), (
        f"{path.name}: the hardware that its command generates has changed; python docs/benchmarks/boards.py refresh {path.stem}")


@pytest.mark.parametrize("learns", [False, True])
def test_a_default_clock_has_a_margin(learns):
    """At most 0.95 of what the worst of three seeds reached, for every design of the table; of today's hardware where it was built."""
    part = TARGETS["ice40"]
    default = part.learn_hz if learns else part.clock_hz
    builds = [record for record in boards.records().values() if record["part"] == part.part and ("learning" in record) == learns]
    current = {record["network"] for record in builds if not record.get("superseded")}
    builds = [record for record in builds if record["network"] not in current or not record.get("superseded")]
    assert {record["network"] for record in builds} >= {"0.5mb", "3mb"}
    for record in builds:
        reached = [known["fmax_mhz"] for known in record["seeds"]]
        assert len(reached) >= 3 and default <= 0.95e6 * min(reached), record["command"]


@pytest.mark.slow
@pytest.mark.parametrize("page", ["rtl.md", "link.md"])
def test_the_sizes_of_components_are_those_of_their_command(page):
    """A row names a design of area.py; in link.md the rows are in the order of the command above them."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    rows = re.findall(r"^\|.*\| `([\w-]+)`(, ECP5)? \| ([\d,]+).*\| (\d+)?", text, re.MULTILINE)
    if page == "link.md":
        names = re.search(r"area\.py ((?:host-link|flash).*)", text)[1].split()
        sizes = re.findall(r"^\| .* \| (\d+) \| (\d+) \|$", text.split("\n## Size")[1], re.MULTILINE)
        rows = [(name, "", *size) for name, size in zip(names, sizes, strict=True)]
    assert len(rows) >= 4
    for name, family, lut4, _ in rows:
        command = [sys.executable, "docs/benchmarks/area.py", *(["--family", "ecp5"] if family else []), name]
        size = json.loads(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)
        assert size["lut4"] == int(lut4.replace(",", "")), name


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_what_fits_a_part_is_what_the_planner_says(target):
    """The table of docs/boards.md, section "What fits"."""
    import fits

    page = (ROOT / "docs" / "boards.md").read_text(encoding="utf-8").split("## What fits")[1]
    cells = re.search(rf"^\| `{target}`, ([\d.]+) \| (.*) \|$", page, re.MULTILINE)
    assert float(cells[1]) == TARGETS[target].clock_hz / 1e6
    assert cells[2].split(" | ") == [fits.fit(model, TARGETS[target])[0] for model in ("0.5mb", "1mb", "3mb")]


def test_the_marks_do_not_count(tmp_path):
    """A network with other weights, and names of config.json, are other marks in the link and the same hardware."""
    from fbnn_hw.cli import main
    from fbnn_hw.nn import checkpoint
    from tests import strategies

    checkpoint.save(tmp_path / "one.pt", strategies.smallest())
    assert main(["generate", "--model", str(tmp_path / "one.pt"), "--target", "ecp5", "--pixels", "4", "--lanes", "16", "--outputs", "4",
                 "--out", str(tmp_path / "out"), "--json"]) == 0
    [folder] = (tmp_path / "out").iterdir()
    record = {"board": "ulx3s-85f", "clock_mhz": 50, "baud": 1_000_000}
    before = boards.key(folder, record)["verilog"]
    network = (folder / "network.json").read_text()
    (folder / "network.json").write_text(network + " ")
    assert boards.key(folder, record)["verilog"] == before
    assert boards.key(folder, record | {"baud": 500_000})["verilog"] != before
    verilog = folder / "accelerator.v"
    text = verilog.read_text()
    verilog.write_text("/* by another\n version */\n" + text.replace("endmodule", '(* src = "/home/x.py:3" *)\n// a word\nendmodule'))
    assert boards.key(folder, record)["verilog"] == before
    verilog.write_text(text.replace("endmodule", '(* ram_style = "block" *)\nendmodule', 1))
    assert boards.key(folder, record)["verilog"] != before


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
    for name, text, most, inside in (("fast", topologies.FAST[0], 150_000, "no"), ("tiny", topologies.TINY[0], 65_000, "yes")):
        assert build(name).ops == topologies.parsed(text).ops
        cells = [cell.strip() for cell in topologies.row(text, ice40).split("|")]
        assert int(cells[4].replace(",", "")) <= most and cells[5] == inside
    page = (topologies.TRAINED.parent.parent / "training.md").read_text()
    lines = [line.split("|", 6) for line in page.splitlines() if re.match(r"\| [^|]*; .*\d+, \d+ \|", line)]
    printed = [(cells[1].strip(), cells[6]) for cells in lines]
    assert printed == [(text, f" {topologies.learned(text)} |") for text in (*topologies.FAST, *topologies.TINY)]


def test_a_network_of_other_widths_begins_with_the_bits_of_a_trained_one():
    """With half of the levels a channel of the code is the first of a pair, and its weight that of the pair."""
    import grown
    import topologies

    wide, narrow, few = (topologies.parsed(text, size=16) for text in ("16L 12 / 16; 32, 8", "16L 8 / 24; 32, 8", "8L 12 / 16; 32, 8"))
    old, source = strategies.fill(wide, 3, 1), np.random.default_rng(0)
    same = grown.grown(old, wide, source)
    assert same.weights.keys() == old.weights.keys() and all((same.weights[name] == old.weights[name]).all() for name in old.weights)
    assert old.thresholds and all((same.thresholds[name] == old.thresholds[name]).all() for name in old.thresholds)
    made = grown.grown(old, narrow, source)
    made.verify()
    assert (made.weights["conv2"][:16] == old.weights["conv2"][:, :8]).all() and (made.weights["conv1"] == old.weights["conv1"][:8]).all()
    halved = grown.grown(old, few, source)
    halved.verify()
    pairs = old.weights["conv1"][:, ::2] + old.weights["conv1"][:, 1::2]
    assert (halved.weights["conv1"] == np.where(pairs == 1, old.weights["conv1"][:, ::2], pairs // 2)).all()
    assert (halved.thresholds["conv1"] == old.thresholds["conv1"] // 2).all()
    images = strategies.images(4, 4, 16)
    inputs = [inference.layers(network, images)["input"] for network in (old, halved)]
    assert (inputs[0][:, ::2] == inputs[1]).all()


def test_the_table_of_ablations(tmp_path, capsys, monkeypatch):
    import ablations

    for name, seed, reached, finished in (("none", 0, 0.5, True), ("none", 1, 0.6, True), ("ema", 0, 0.7, True), ("ema", 1, 0.9, False)):
        record = {"finished": finished, "test_accuracy": 0.5, "validation_accuracy": reached, "train_accuracy": 0.25,
                  "seconds": 24, "epochs": 12}
        (tmp_path / f"{name}-s{seed}.result.json").write_text(json.dumps({"training": record}))
    monkeypatch.setattr(sys, "argv", ["ablations.py", str(tmp_path), "--table"])
    assert ablations.main() == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| none | 2 | 55.00% +- 7.07% | 25.00% +- 0.00% | 50.00% +- 0.00% | 2 |", "| ema | 1 | 70.00% | 25.00% | 50.00% | 2 |"]


def test_the_flags_of_the_ablations_are_legal(tmp_path, capsys):
    from argparse import Namespace

    import ablations

    from fbnn_hw.cli import parser
    from fbnn_hw.cli.train import recipe, refuse_idle

    for taught in (False, True):
        options = Namespace(model="0.5mb", epochs=12, threads=1, images=None, teacher="t.state", others=["u.state", "v.state"],
                            taught=taught)
        configs = {}
        for name in ablations.CHANGES:
            verb, *words = ablations.command(options, name, 0, tmp_path / "x.pt")
            args = parser(verb).parse_args(words)
            refuse_idle(args)
            recipe(args).verify()
            configs[name] = recipe(args), tuple(args.teacher)
        same = {"none", "alternating", "teacher", "teacher-mirrored"} if taught else {"none"}
        assert len(set(configs.values())) == len(configs) - len(same) + 1, "each change changes something"
        assert len({configs[name] for name in same}) == 1 and configs["teachers"][1] == ("t.state", "u.state", "v.state")
