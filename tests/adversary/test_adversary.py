"""Hostile input of every kind, drawn from a seed for as long as the budget lasts; docs/reliability.md says what is promised.

    pytest -m adversary                         5 seconds, 15 with FBNN_SLOW=1
    FBNN_ADVERSARY=long pytest -m adversary     an hour, from another seed; a number stands for so many seconds
    FBNN_ADVERSARY_SEED=7 FBNN_ADVERSARY_ONLY=pictures:12 pytest -m adversary     one case again

What does not hold stays in a folder, whose path the failure tells: the hostile file, and case.json with the command and its outcome.
"""

import os
import tempfile
import time
from contextlib import contextmanager

import numpy as np
import pytest

from fbnn_hw.board.interpreted import InterpretedBoard
from fbnn_hw.ir.network import LATENT
from fbnn_hw.link.chip import ChipState
from fbnn_hw.link.client import Client
from fbnn_hw.link.transport import Serial
from fbnn_hw.reference import inference
from fbnn_hw.simulate import virtual
from tests import strategies

from . import budget, checkpoints, datasets, designs, foreign, link, networks, pictures, runner, states

pytestmark = pytest.mark.adversary
ONLY = os.environ.get("FBNN_ADVERSARY_ONLY", "").partition(":")
SHARES = {checkpoints: 0.13, networks: 0.1, pictures: 0.07, designs: 0.2, states: 0.15, link: 0.1, foreign: 0.07, datasets: 0.08}
BOARD_SHARE = 0.1


@pytest.fixture(scope="module")
def root():
    """Where cases that do not hold stay."""
    return tempfile.mkdtemp(prefix="fbnn-adversary-")


@pytest.fixture(scope="module")
def forges(world, forge):
    """A process for each core, or one where pytest has a process for each; they import while the good input is made."""
    more = [runner.Forge() for _ in range(0 if "PYTEST_XDIST_WORKER" in os.environ else (os.cpu_count() or 1) - 1)]
    try:
        world.prepare()
        for process in (forge, *more):
            process.wait()
        yield [forge, *more]
    finally:
        for process in more:
            process.close()


@pytest.mark.parametrize("kind", SHARES, ids=lambda kind: kind.__name__.rpartition(".")[2])
def test_hostile(kind, world, root, forges, record_property):
    name = kind.__name__.rpartition(".")[2]
    if ONLY[0] and ONLY[0] != name:
        pytest.skip("FBNN_ADVERSARY_ONLY names another kind")
    tally = runner.campaign(kind, budget.SEED, budget.SECONDS * SHARES[kind], world, root, forges,
                            only=int(ONLY[2]) if ONLY[0] else None)
    record_property("adversary", str(tally))
    assert not tally.faults, "\n".join([str(tally), *tally.faults])
    assert tally.cases


@contextmanager
def line(kind, design, folder):
    """The line to a board, of gates or interpreted."""
    if kind == "interpreted":
        with InterpretedBoard(design) as board:
            yield board
        return
    with virtual.VirtualBoard(design.folder, build_dir=folder) as board, Serial(board.port) as port:
        yield port
        assert not board.faults() and board.close() == 0


@pytest.mark.skipif(bool(ONLY[0]), reason="FBNN_ADVERSARY_ONLY names another kind")
@pytest.mark.parametrize("kind", ["gates", "interpreted"])
def test_a_host_that_sends_anything(kind, world, tmp_path, record_property):
    design, image = world.learner, strategies.images(1, 1, 8)
    learner, tally = design.learner(), runner.Tally("board", budget.SEED)
    latent = inference.layers(design.network, image)[LATENT].reshape(1, -1)
    logits = learner.logits(latent)[0].tolist()
    pixels = np.ascontiguousarray(image[0].transpose(1, 2, 0)).tobytes()
    with line(kind, design, tmp_path) as port:
        client = Client(port, wait_s=60, ready_s=60)
        client.wait_ready()
        identity = client.identify()
        chip = ChipState(design.config.learning, learner, client.peek, client.poke)
        until = time.monotonic() + budget.SECONDS * BOARD_SHARE
        while time.monotonic() < until or not tally.cases:
            start, rng = time.monotonic(), np.random.default_rng([budget.SEED, tally.cases])
            fault = link.disturb(rng, port, client, identity, pixels, (logits, int(np.argmax(logits))), chip)
            tally.add(runner.Outcome(0, "", "", 0, time.monotonic() - start))
            assert not fault, f"seed {budget.SEED}, case {tally.cases - 1}: {fault}"
    record_property("adversary", str(tally))
