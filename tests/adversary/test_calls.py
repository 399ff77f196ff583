"""Ctrl-C at calls all through a verb; `calls.py` says how."""

import os
import subprocess
import sys

import numpy as np
import pytest

from tests.quick import quick

from . import budget, calls
from .moments import REPOSITORY

VERBS = {"import": ("import {onnx} --out net.pt", 60_013), "inspect": ("inspect {small}", 20_011)}
"""{name: (command line, calls from one interrupt to the next)}; with FBNN_ADVERSARY=long a twentieth of these, and `generate`."""
if budget.LONG:
    VERBS["generate"] = "generate --model {small} --target ice40", 120_011


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("name", quick(VERBS, "inspect"))
def test_interrupted_at_calls(name, world, tmp_path, record_property):
    if name == "import":
        pytest.importorskip("onnx")
    argv, step = VERBS[name]
    step = step // 20 if budget.LONG else step
    first = int(np.random.default_rng([budget.SEED, *name.encode()]).integers(step))
    values = {key: str(getattr(world, key)) for key in ("onnx", "small") if f"{{{key}}}" in argv}
    done = subprocess.run([sys.executable, calls.__file__, str(step), str(first), *argv.format(**values).split()], cwd=tmp_path,
                          capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join([str(REPOSITORY), *sys.path])})
    assert done.returncode == 0, done.stderr
    otherwise, sent = [line for line in done.stdout.splitlines() if line.startswith("call ")], int(done.stdout.splitlines()[-1])
    assert sent and not otherwise, "\n".join(otherwise)
    record_property("adversary", f"{name}: answered {sent} interrupts, one at every {step}th call; seed {budget.SEED}")
