"""The learner in Verilator: random incremental sequences on the configurations of sim/learning.py, bit for bit the reference's.

Five are drawn, FBNN_SEED draws the same again, FBNN_SLOW=1 takes all.
"""

import json
import os
import random
from pathlib import Path

import pytest

from fbnn_hw import rtl
from fbnn_hw.rtl.verilog import convert
from fbnn_hw.simulate import simulator
from sim.bundle import Bundle
from sim.learning import CASES, LearningBoard
from tests.quick import quick

SEED = os.environ.get("FBNN_SEED") or os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(random.randrange(2 ** 32))
"""One for all processes of a run."""
SUMS = [name for name, case in CASES.items() if case.config.rule != "gumbel"]
DRAWN = [*random.Random(SEED).sample(SUMS, 2), *random.Random(SEED).sample([name for name in CASES if name not in SUMS], 3)]
RANDOM = ("+verilator+rand+reset+2", "+verilator+seed+3")
"""Memories and whatever has no reset value begin at random."""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """{case: what went wrong}.  LEARNING_STEPS and LEARNING_SEED in the environment make the sequences longer, or others."""
    folder = tmp_path_factory.mktemp("learning")
    source = folder / "learners.v"
    names = CASES if os.environ.get("FBNN_SLOW") else DRAWN
    source.write_text(convert(Bundle({name: LearningBoard(CASES[name]) for name in names}), "learners"))
    # Compiling takes longer than running.
    built = simulator.build([source, Path(rtl.__file__).parent / "memories.v"], "learners", folder / "build")
    built.run("sim.cocotb_learning", arguments=RANDOM, env={"LEARNING_CASES": ",".join(names)})
    return json.loads((built.build_dir / "learning.json").read_text())


@pytest.mark.parametrize("name", quick(list(CASES), *DRAWN))
def test_sequences(results, name):
    assert results[name] == "", f"FBNN_SEED={SEED}"
