"""The learner in Verilator: random incremental sequences on every configuration of sim/learning.py, bit for bit the reference's."""

import json
from pathlib import Path

import pytest

from fbnn_hw import rtl
from fbnn_hw.rtl.verilog import convert
from fbnn_hw.simulate import simulator
from sim.bundle import Bundle
from sim.learning import CASES, LearningBoard

RANDOM = ("+verilator+rand+reset+2", "+verilator+seed+3")
"""Memories and whatever has no reset value begin at random."""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """{case: what went wrong}.  LEARNING_STEPS and LEARNING_SEED in the environment make the sequences longer, or others."""
    folder = tmp_path_factory.mktemp("learning")
    source = folder / "learners.v"
    source.write_text(convert(Bundle({name: LearningBoard(case) for name, case in CASES.items()}), "learners"))
    # Compiling takes longer than running.
    built = simulator.build([source, Path(rtl.__file__).parent / "memories.v"], "learners", folder / "build")
    built.run("sim.cocotb_learning", arguments=RANDOM)
    return json.loads((built.build_dir / "learning.json").read_text())


@pytest.mark.parametrize("name", CASES)
def test_sequences(results, name):
    assert results[name] == ""
