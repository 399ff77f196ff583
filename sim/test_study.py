"""`fbnn-hw simulate --component`: one bench, and a waveform that shows the component's members by name."""

import json
import re
from pathlib import Path

import pytest

from fbnn_hw.cli import main, simulate
from fbnn_hw.simulate import simulator
from sim import study
from sim.components import COMPONENTS


def test_a_component(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(simulator, "wave_format", lambda: ("vcd", ""))  # text, to be read here
    monkeypatch.setattr(study, "BUILDS", tmp_path)
    assert main(["simulate", "--component", "popcount", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["component"] == "popcount_5" and values["check"].startswith("All pairs of words")
    header, changes = Path(values["waves"]).read_text().split("$enddefinitions", 1)
    clocks = 2 ** 10 + 1 + 2  # all pairs of five bits, a register, the reset
    last_ps = int(re.findall(r"^#(\d+)$", changes, re.MULTILINE)[-1])
    assert clocks - 2 <= last_ps / 10_000 <= clocks
    view = Path(values["waves_view"]).read_text().splitlines()
    assert ["component.popcount_5__act[4:0]", "component.popcount_5__weight[4:0]"] == [
        line for line in view[view.index("-inputs"):view.index("-outputs")] if line.startswith("component.")]
    assert "component.popcount_5__count[2:0]" in view and "popcount_5__count [2:0]" in header


@pytest.mark.parametrize("name, chosen", [("popcount_16", "popcount_16"), ("memory", "memory_16384x16"), ("argmax", "argmax")])
def test_names(name, chosen):
    assert study.choose(name) == chosen


def test_a_name_that_is_none(capsys):
    assert main(["simulate", "--component", "popcont"]) == 2
    assert capsys.readouterr().err == (
        f"fbnn-hw simulate: --component popcont: expected one of {', '.join(COMPONENTS)}, or a name's first words; "
        "did you mean popcount_5?\n")
    assert main(["simulate", "--component", "argmax", "--stall"]) == 2
    assert "--component: expected without DIR" in capsys.readouterr().err


def test_installed_outside_of_the_checkout(capsys, monkeypatch, tmp_path):
    """`pip install .` puts the program where no sim/ is; in the checkout it finds the benches nevertheless."""
    monkeypatch.setattr(simulate, "__file__", str(tmp_path / "fbnn_hw" / "cli" / "simulate.py"))
    monkeypatch.chdir(Path(__file__).parent)
    assert main(["simulate", "--component", "popcont"]) == 2
    assert "did you mean popcount_5?" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path)
    assert main(["simulate", "--component", "popcount"]) == 2
    assert capsys.readouterr().err == ("fbnn-hw simulate: --component popcount: needs a checkout of the project, whose sim/ has the "
                                       "benches; run it in that folder\n")
