"""docs/benchmarks/captured.py without a GPU, where it takes the same steps one by one."""

import argparse
import json
import shlex
import sys
from pathlib import Path

import pytest
import torch

from fbnn_hw.cli import train
from fbnn_hw.data import datasets
from fbnn_hw.ir import checkpoint
from fbnn_hw.train.config import TrainConfig

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "benchmarks"))

import captured  # noqa: E402

MORE = {"cutmix": 1.0, "cutout": 4, "estimator": "polynomial", "proxies": "clipped", "precision": "float32"}
RUNS = [[{"name": "a", "model": "tiny", "epochs": 2, "ema": 0.9, **MORE},
         {"name": "b", "model": "tiny", "epochs": 1, "batch": 100}],
        [{"name": "c", "model": "tiny", "epochs": 1, "norm": "scales", "init": "a", "precision": "float32"}]]
"""One in the recipe's bfloat16, which a processor computes slowly."""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Call the program with the fixture's first 80 images; returns the folder that it wrote."""
    load, folder = datasets.load, tmp_path_factory.mktemp("captured")

    def call(name, *flags):
        runs = folder / "runs.json"
        runs.write_text(json.dumps(RUNS))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(datasets, "load", lambda name, data_dir=None, split="train": load("fixture").first(80))
            patch.setattr(sys, "argv", ["captured.py", str(runs), str(folder / name), *flags])
            captured.main()
        return folder / name

    return call


@pytest.fixture(scope="module")
def whole(run):
    return run("whole")


def test_a_run_in_two_parts_has_the_bits_of_a_whole_one(run, whole):
    parts = run("parts", "--seconds", "0")
    assert not checkpoint.read(parts / "a.pt").training["finished"] and not (parts / "c.pt").exists()
    run("parts", "--seconds", "0")
    for name, epochs in (("a", 2), ("b", 1), ("c", 1)):
        one, other = (checkpoint.read(folder / f"{name}.pt") for folder in (whole, parts))
        assert one.training["epochs"] == epochs and one.training["finished"] and one.training["test_images"] == 80
        assert all((one.weights[layer] == bits).all() for layer, bits in other.weights.items()), name
        result = json.loads((whole / f"{name}.result.json").read_text())
        assert len(result["history"]) == epochs and result["training"]["test_accuracy"] == one.training["test_accuracy"]
    assert checkpoint.read(whole / "a.pt").thresholds and not checkpoint.read(whole / "c.pt").thresholds
    state = torch.load(whole / "a.state", weights_only=True)
    assert any(not torch.equal(values, state["best"][key]) for key, values in state["model"].items()), "--ema keeps another network"


def test_the_command_of_a_record_has_the_recipe_of_the_run(whole):
    for name in "abc":
        record = checkpoint.read(whole / f"{name}.pt").training
        words = shlex.split(record["command"])[2:]
        parser = argparse.ArgumentParser()
        train.arguments(parser)
        assert train.recipe(parser.parse_args(words)).__dict__ == record["config"], name


@pytest.mark.parametrize("change", [{"restarts": 1, "epochs": 2}, {"teacher_views": "augmented"}])
def test_what_no_graph_has_is_refused_in_one_line(tmp_path, change):
    images = datasets.load("fixture").first(80)
    with pytest.raises(SystemExit, match=r"^a: --(restarts 1|teacher-views augmented): no graph of a step has it, expected (0|mirrored); "):
        captured.make({"name": "a", "model": "tiny", **change}, tmp_path, images, [], None, None)


def test_the_planned_runs_are_legal():
    groups = json.loads((Path(captured.__file__).parents[1] / "results" / "training" / "runs-planned.json").read_text())
    names = [run.pop("name") for group in groups for run in group]
    for run in (run for group in groups for run in group):
        assert run.pop("model") == "3mb" and run.pop("init", names[0]) in names
        config = TrainConfig(**{**captured.RECIPE, **run})
        config.verify()
        assert all(getattr(config, key) == value for key, value in captured.ONLY.items())
