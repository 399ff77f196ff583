"""Verbs that are interrupted or killed at random moments, and what must hold then; docs/reliability.md says what is promised.

Three interrupts a verb in its first seconds, and a kill of those that have a state; with FBNN_ADVERSARY=long twenty and ten, at any
moment.  They come one after the other in the same folder, to the command alone or to its group.  Afterwards the same command must do
its work; in the short run, only one that has a state.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from tests import strategies

from . import budget
from .runner import waited

REPOSITORY = Path(__file__).parents[2]
ANSWER_S = 2.0
STARTED_S = 0.3
"""Of an idle machine: until the command has taken the signal over from Python's start."""
LEFT_S = 60
"""How long what a killed command had started may go on: a compiler ends with the file that it is at."""
LONGEST_S = 120
"""A command that does not answer is killed then."""
END_S = 600
EARLY_S = 1.5
"""The short run's moments come in these first seconds."""


@dataclass(frozen=True)
class Verb:
    """A command line that runs for some seconds.

    argv: as typed, with {small}, {tiny}, {learner}, {image} and others for the good input.  seconds: how long it takes on an idle machine.
    state: a file that a later run goes on from, with --resume, or "".  ends: whether it is run to its end afterwards.  compiles: whether
    what it compiled is removed where it has ended.  after: a file in the folder of its first design; the seconds count from when it is
    there, or "".
    """

    argv: str
    seconds: float
    state: str = ""
    ends: bool = True
    compiles: bool = True
    after: str = ""


RECIPE = "--images 4 --batch 2 --epochs 3 --schedule cosine --patience 0 --threads 1"
HARDWARE = {
    "generate": Verb("generate --model {tiny} --target ice40", 4),
    "simulate": Verb("simulate {plain} --images 4", 6),
    "netlist": Verb("simulate {few} --images 1 --netlist", 6),
    "build": Verb("build {plain} --board icebreaker", 10, ends=False),
    "place": Verb("build {few} --board icebreaker --seeds 2", 10, ends=False, after="build-icebreaker/netlist.key"),
    "classify": Verb("classify --data fixture --images 6 --board virtual --design {wide}", 9),
    "learn": Verb("learn --board virtual --design {learner} --label new {image} --passes 3 --review none", 9),
    "selftest": Verb("selftest --board virtual --design {ready} --out report", 8, compiles=False),
    "energy": Verb("energy {few} --images 1", 60, ends=False),
    "lesson": Verb("learn --board virtual --design {ready} --label new {image} --passes 3 --review none", 6, compiles=False),
}
TRAINING = {
    "evaluate": Verb("evaluate --model 0.5mb.pt --data fixture --threads 1", 5),
    "train": Verb(f"train --model 0.5mb --data tiny {RECIPE} --out t.pt", 6, "t.state"),
    "pretrain": Verb(f"pretrain --model 0.5mb --scenario tiny-2+2x2 {RECIPE} --out p.pt", 6, "p.state"),
    "cil": Verb(f"cil --scenario tiny-2+2x2 --model 0.5mb --replay native --buffer-mb 0.1 {RECIPE} --out c.json", 6, "c.state"),
    "chip-cil": Verb("chip-cil --scenario tiny-2+2x2 --model {sixteen} --seeds 3 --threads 1", 5),
    "sweep": Verb(f"sweep runs --over seed 0 1 --jobs 2 -- train --model 0.5mb --data tiny {RECIPE}", 10),
    "reproduce": Verb(
        "reproduce encoding --scenario tiny-2+2x2 --model 0.5mb --run --flags '--images 4 --batch 2 --epochs 1 --threads 1'", 10),
}


@dataclass
class Stop:
    """What came of a signal.

    code: of the command's end.  sent: whether it was still at work.  seconds: from the signal to its end, or from its start where there
    was none; without `waited`, those in which it wanted to run and the machine had no core for it, which is not the command's fault.
    err: its stderr.
    """

    code: int
    sent: bool
    seconds: float
    waited: float
    err: str


def pace():
    """How many times longer than on an idle machine things take; the first of three starts reads its files from the disk."""
    seconds = []
    for _ in range(3):
        start = time.monotonic()
        subprocess.run([sys.executable, "-c", "import numpy, json, argparse"], check=True)
        seconds.append(time.monotonic() - start)
    return max(1, min(seconds) / 0.12)


def start(argv, folder, mark):
    """The command as a process of a session of its own; `mark` is in the environment of all that it starts."""
    environment = {**os.environ, "FBNN_MARK": mark, "PYTHONPATH": os.pathsep.join(filter(None, [str(REPOSITORY), *sys.path]))}
    with open(folder / "out.txt", "w") as out, open(folder / "err.txt", "w") as err:
        return subprocess.Popen([sys.executable, "-m", "fbnn_hw.cli", *argv], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                stdout=out, stderr=err, start_new_session=True)


def stop(argv, folder, mark, moment, number=signal.SIGINT, group=False, after=None):
    """Run a command and send it, or its group, a signal `moment` seconds after its start, or after the file `after` is there -> `Stop`."""
    process = start(argv, folder, mark)
    while after and not after.exists() and process.poll() is None:
        time.sleep(0.05)
    begun = time.monotonic()
    try:
        process.wait(moment)
        return Stop(process.returncode, False, time.monotonic() - begun, 0, (folder / "err.txt").read_text())
    except subprocess.TimeoutExpired:
        pass
    sent, before, ready = time.monotonic(), waited(process.pid), 0.0
    (os.killpg if group else os.kill)(process.pid, number)
    while process.poll() is None:
        if time.monotonic() > sent + LONGEST_S:
            os.killpg(process.pid, signal.SIGKILL)
        ready = max(ready, waited(process.pid) - before)
        time.sleep(0.01)
    return Stop(process.returncode, True, time.monotonic() - sent - ready, ready, (folder / "err.txt").read_text())


def left(mark, seconds=0.5):
    """Command lines of the processes with `mark` that are still there after `seconds`."""
    until = time.monotonic() + seconds
    while (names := list(_marked(mark))) and time.monotonic() < until:
        time.sleep(0.05)
    return names


def _marked(mark):
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"FBNN_MARK={mark}\0".encode() in (process / "environ").read_bytes():
                yield (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue


def check(stop, words, folder, mark):
    """An interrupted command has answered in time, in one line, and left nothing behind that is half done."""
    where = (f"{shlex.join(words)}: exit code {stop.code} after {stop.seconds:.2f} s and {stop.waited:.2f} s of waiting for a core\n"
             f"{stop.err}")
    lines = stop.err.splitlines()
    assert stop.code == 130 and lines and lines[-1].startswith(f"fbnn-hw {words[0]}: interrupted") and "Traceback" not in stop.err, where
    assert stop.seconds < ANSWER_S, where
    assert not (remains := left(mark, 2)), f"{where}\n{remains}"
    assert not list(Path(folder).rglob("*.partial")), where


def resumed(verb, argv, folder):
    """The command line, with --resume where an interrupted run left a state."""
    return [*argv, "--resume"] if verb.state and (folder / verb.state).exists() else argv


def forget(verb, argv, folder):
    """Remove what a command that has ended wrote and compiled."""
    for path in folder.iterdir():
        if path.suffix not in (".txt", ".png"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for word in argv if verb.compiles else ():
        for path in (path for pattern in ("sim_build*", "build-*") for path in Path(word).glob(pattern) if Path(word).is_dir()):
            shutil.rmtree(path)


def command(verb, world, folder):
    """Words of a verb's command line; makes the good input."""
    values = {name: str(getattr(world, name)) for name in ("tiny", "small", "sixteen") if f"{{{name}}}" in verb.argv}
    designs = ("plain", "few", "learner", "wide", "ready")
    values |= {name: str(getattr(world, name).folder) for name in designs if f"{{{name}}}" in verb.argv}
    Image.fromarray(strategies.images(1, 1, 8)[0].transpose(1, 2, 0)).save(folder / "image.png")
    return shlex.split(verb.argv.format(**values, image="image.png"))


def signals_of(name, rng):
    """Numbers of the signals, in any order."""
    interrupts, kills = (20, 10) if budget.LONG else (3, int(bool((HARDWARE | TRAINING)[name].state)))
    return rng.permutation([signal.SIGINT] * interrupts + [signal.SIGKILL] * kills).tolist()


def try_verb(name, world, pace, folder, record):
    """Stop one verb at its moments.  record: pytest's `record_property`."""
    verb, rng, mark = (HARDWARE | TRAINING)[name], np.random.default_rng([budget.SEED, *name.encode()]), uuid.uuid4().hex
    argv, told, span = command(verb, world, folder), [], verb.seconds * pace if budget.LONG else EARLY_S
    first, signals = STARTED_S * pace, signals_of(name, rng)
    kills = signals.count(signal.SIGKILL)
    after = Path(argv[1]) / verb.after if verb.after else None
    for _ in range(3 * len(signals)):
        words = resumed(verb, argv, folder)
        moment = first + rng.random() * span
        stopped = stop(words, folder, mark, moment, signals[-1], rng.random() < 0.5, after)
        if stopped.code == 0 or not stopped.sent:  # it had done its work: the next ones come sooner
            assert stopped.code == 0 and (not stopped.sent or stopped.seconds < ANSWER_S), stopped
            span = 0.7 * (moment if stopped.sent else stopped.seconds)
            first = min(first, span / 2)
            span -= first
            forget(verb, argv, folder)
        elif signals.pop() == signal.SIGINT:
            check(stopped, words, folder, mark)
            told.append(f"{stopped.seconds:.2f}")
        else:
            assert not (remains := left(mark, LEFT_S * pace)), remains
        if not signals:
            break
    record("adversary", f"{name}: answered after {', '.join(told)} s, killed {kills - signals.count(signal.SIGKILL)}; seed {budget.SEED}")
    assert not signals, f"ended before {len(signals)} of the signals"
    if verb.ends and (budget.LONG or verb.state):
        process = start(resumed(verb, argv, folder), folder, mark)
        assert process.wait(END_S) == 0, (folder / "err.txt").read_text()
        assert not left(mark, 5)
