"""Ctrl-C and kill -9 at random moments of every verb that runs longer than a second; docs/reliability.md says what is promised.

Three interrupts a verb and a kill, of those that compile no kill; twenty and ten with FBNN_ADVERSARY=long.  They come one after the
other in the same folder, to the command alone or to its group.  Afterwards the same command must do its work.
"""

import shlex
import signal
import uuid
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests import strategies

from . import moments
from .test_adversary import LONG, SEED
from .world import World


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def pace():
    return moments.pace()


def command(verb, world, folder):
    """Words of its command line; makes the good input."""
    values = {name: str(getattr(world, name)) for name in ("tiny", "small", "sixteen") if f"{{{name}}}" in verb.argv}
    designs = ("plain", "few", "learner", "wide", "ready")
    values |= {name: str(getattr(world, name).folder) for name in designs if f"{{{name}}}" in verb.argv}
    Image.fromarray(strategies.images(1, 1, 8)[0].transpose(1, 2, 0)).save(folder / "image.png")
    return shlex.split(verb.argv.format(**values, image="image.png"))


def signals_of(name, rng):
    """Numbers of the signals, in any order."""
    interrupts, kills = (20, 10) if LONG else (3, 0 if name in moments.COMPILING else 1)
    return rng.permutation([signal.SIGINT] * interrupts + [signal.SIGKILL] * kills).tolist()


@pytest.mark.parametrize("name", moments.VERBS)
def test_stopped_at_random_moments(name, world, pace, tmp_path, record_property):
    verb, rng, mark = moments.VERBS[name], np.random.default_rng([SEED, *name.encode()]), uuid.uuid4().hex
    argv, told, span = command(verb, world, tmp_path), [], verb.seconds * pace
    signals = signals_of(name, rng)
    kills = signals.count(signal.SIGKILL)
    after = Path(argv[1]) / verb.after if verb.after else None
    for _ in range(3 * len(signals)):
        words = moments.resumed(verb, argv, tmp_path)
        moment = moments.STARTED_S * pace + rng.random() * span
        stop = moments.stop(words, tmp_path, mark, moment, signals[-1], rng.random() < 0.5, after)
        if stop.code == 0 or not stop.sent:  # it had done its work: the next ones come sooner
            assert stop.code == 0 and (not stop.sent or stop.seconds < moments.ANSWER_S), stop
            span = span if stop.sent else stop.seconds
            moments.forget(verb, argv, tmp_path)
        elif signals.pop() == signal.SIGINT:
            moments.check(stop, words, tmp_path, mark)
            told.append(f"{stop.seconds:.2f}")
        else:
            assert not (remains := moments.left(mark, moments.LEFT_S * pace)), remains
        if not signals:
            break
    record_property("adversary", f"{name}: answered after {', '.join(told)} s, killed {kills - signals.count(signal.SIGKILL)}; seed {SEED}")
    assert not signals, f"ended before {len(signals)} of the signals"
    if verb.ends:
        process = moments.start(moments.resumed(verb, argv, tmp_path), tmp_path, mark)
        assert process.wait(moments.END_S) == 0, (tmp_path / "err.txt").read_text()
        assert not moments.left(mark, 5)
