"""Ctrl-C and kill -9 at random moments of every verb that runs longer than a second; docs/reliability.md says what is promised.

Three interrupts a verb, twenty with FBNN_ADVERSARY=long, one after the other in the same folder, to the command alone or to its group;
half as many kills.  Afterwards the same command must do its work.
"""

import shlex
import signal
import uuid

import numpy as np
import pytest
from PIL import Image

from tests import strategies

from . import moments
from .test_adversary import LONG, SEED
from .world import World

INTERRUPTS, KILLS = (20, 10) if LONG else (3, 1)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def pace():
    return moments.pace()


def command(verb, world, folder):
    """Words of its command line; makes the good input."""
    values = {name: str(getattr(world, name)) for name in ("tiny", "small", "sixteen") if f"{{{name}}}" in verb.argv}
    values |= {name: str(getattr(world, name).folder) for name in ("plain", "learner", "wide") if f"{{{name}}}" in verb.argv}
    Image.fromarray(strategies.images(1, 1, 8)[0].transpose(1, 2, 0)).save(folder / "image.png")
    return shlex.split(verb.argv.format(**values, image="image.png"))


@pytest.mark.parametrize("name", moments.VERBS)
def test_stopped_at_random_moments(name, world, pace, tmp_path, record_property):
    verb, rng, mark = moments.VERBS[name], np.random.default_rng([SEED, *name.encode()]), uuid.uuid4().hex
    argv, told = command(verb, world, tmp_path), []
    signals = [signal.SIGINT] * INTERRUPTS + [signal.SIGKILL] * KILLS
    for number in rng.permutation(signals).tolist():
        moment = (moments.STARTED_S + rng.random() * verb.seconds) * pace
        words = [*argv, *(["--resume"] if verb.state and (tmp_path / verb.state).exists() else [])]
        stop = moments.stop(words, tmp_path, mark, moment, number, group=bool(rng.random() < 0.5))
        where = (f"{shlex.join(words)}, signal {number} after {moment:.2f} s: exit code {stop.code} after {stop.seconds:.2f} s and "
                 f"{stop.waited:.2f} s of waiting for a core\n{stop.err}")
        if stop.code is None or stop.code == 0:  # it had done its work
            told.append("ended")
            continue
        told.append("killed" if number == signal.SIGKILL else f"{stop.seconds:.1f} s")
        if number == signal.SIGINT:
            assert stop.code == 130, where
            assert stop.seconds < moments.ANSWER_S, where
            last = stop.err.splitlines()[-1]
            assert last.startswith(f"fbnn-hw {argv[0]}: interrupted") and "Traceback" not in stop.err, where
        assert not (remains := moments.left(mark, 2 if number == signal.SIGINT else moments.LEFT_S)), f"{where}\n{remains}"
        if number == signal.SIGINT:
            assert not moments.partial(tmp_path), where
    record_property("adversary", f"{name}: {', '.join(told)}; seed {SEED}")
    if verb.ends:
        words = [*argv, *(["--resume"] if verb.state and (tmp_path / verb.state).exists() else [])]
        process = moments.start(words, tmp_path, mark)
        code = process.wait(moments.END_S)
        assert code == 0, (tmp_path / "err.txt").read_text()
        assert not moments.left(mark, 5)
