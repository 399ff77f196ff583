"""Verbs that are interrupted or killed at random moments, and what must hold then; docs/reliability.md says what is promised.

An interrupt a verb, and a kill of those that have a state; with FBNN_ADVERSARY=long twenty and ten, spread over the verb's time.
In the short run the time of some verbs, mostly those that compile, is cut to its first 2 s.
They come one after the other in the same folder, to the command alone or to its group.  Afterwards the same command must do its work;
in the short run, only one that has a state.

A moment is told in seconds of processor time of the command and of all that it has started, so it comes at the same place of the work
on a machine that has much else to do.
"""

import os
import shlex
import shutil
import signal
import socket
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
LEFT_S = 120
"""How long what a killed command had started may go on: a compiler ends with the file that it is at."""
LONGEST_S = 120
"""A command that does not answer is killed then."""
END_S = 600
ATTEMPTS = 4
HEARD = 1 << signal.SIGTERM - 1
"""Of SigCgt in /proc/PID/status: the command has taken the signals over from Python's start.  Not SIGHUP, which it leaves to nohup."""
GIVEN = {"out.txt", "err.txt", "image.png", "bin", "iceprog"}
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Verb:
    """A command line that runs for some seconds.

    argv: as typed, with {small}, {tiny}, {learner}, {image} and others for the good input.  seconds: of processor time that it takes, a
    little less rather than more.  early: the first seconds in which the moments of the short run come, or 0 for all of them.  state: a
    file that a later run goes on from, with --resume, or "".  ends: whether it is run to its end afterwards.  compiles: whether what it
    compiled is removed where it has ended.  after: a file in the folder of its first design; the seconds count from when it is there, or
    "".  waits: it mostly waits, so its seconds are those of the clock.
    """

    argv: str
    seconds: float
    early: float = 0
    state: str = ""
    ends: bool = True
    compiles: bool = True
    after: str = ""
    waits: bool = False


RECIPE = "--images 4 --batch 2 --epochs 3 --schedule cosine --patience 0 --threads 1"
HARDWARE = {
    "generate": Verb("generate --model {tiny} --target ice40", 2.5),
    "simulate": Verb("simulate {plain} --images 4", 8, early=2),
    "netlist": Verb("simulate {few} --images 1 --netlist", 19, early=2),
    "build": Verb("build {plain} --board icebreaker", 10, early=2, ends=False),
    "place": Verb("build {few} --board icebreaker --seeds 2", 10, early=2, ends=False, after="build-icebreaker/netlist.key"),
    "flash": Verb("flash {built} --board icebreaker", 2, compiles=False, waits=True),
    "classify": Verb("classify --data fixture --images 6 --board virtual --design {wide}", 9, early=2),
    "learn": Verb("learn --board virtual --design {learner} --label new {image} --passes 3 --review none", 9, early=2),
    "lesson": Verb("learn --board virtual --design {ready} --label new {image} --passes 3 --review none", 0.8, compiles=False),
    "selftest": Verb("selftest --board virtual --design {ready} --out report", 8, early=2, compiles=False),
    "studio": Verb("studio {ready} --board virtual --http {http}", 3, ends=False, compiles=False, waits=True),
    "page": Verb("studio {learner} --page page.html", 20, early=2),
    "energy": Verb("energy {few}", 60, early=2, ends=False),
    "report": Verb("report {plain} --out page.html", 0.25),
    "import": Verb("import {onnx} --out net.pt", 1.5),
    "doctor": Verb("doctor --board icebreaker", 2.2),
}
TRAINING = {
    "evaluate": Verb("evaluate --model 0.5mb.pt --data fixture --threads 1", 1.9),
    "train": Verb(f"train --model 0.5mb --data tiny {RECIPE} --out t.pt", 4.3, state="t.state"),
    "pretrain": Verb(f"pretrain --model 0.5mb --scenario tiny-2+2x2 {RECIPE} --out p.pt", 3.4, state="p.state"),
    "cil": Verb(f"cil --scenario tiny-2+2x2 --model 0.5mb --replay native --buffer-mb 0.1 {RECIPE} --out c.json", 3.6, state="c.state"),
    "chip-cil": Verb("chip-cil --scenario tiny-2+2x2 --model {sixteen} --seeds 3 --threads 1", 5, early=2),
    "sweep": Verb(f"sweep runs --over seed 0 1 --jobs 2 -- train --model 0.5mb --data tiny {RECIPE}", 10, early=2),
    "reproduce": Verb("reproduce encoding --scenario tiny-2+2x2 --model 0.5mb --run "
                      "--flags '--images 4 --batch 2 --epochs 1 --threads 1'", 10, early=2),
}


@dataclass
class Stop:
    """What came of a signal.

    code: of the command's end.  sent: whether it was still at work.  work: its seconds then.  seconds: from the signal to its end,
    without `waited`, those in which it, or what it has started and waits for, wanted to run and the machine had no core, which is not
    the command's fault.  err: its stderr.
    """

    code: int
    sent: bool
    work: float
    seconds: float
    waited: float
    err: str


def start(argv, folder, mark):
    """The command as a process of a session of its own; `mark` is in the environment of all that it starts."""
    environment = {**os.environ, "FBNN_MARK": mark, "PYTHONPATH": os.pathsep.join(filter(None, [str(REPOSITORY), *sys.path])),
                   "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    with open(folder / "out.txt", "w") as out, open(folder / "err.txt", "w") as err:
        return subprocess.Popen([sys.executable, "-m", "fbnn_hw", *argv], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                stdout=out, stderr=err, start_new_session=True)


def family(pid):
    """{process: ticks of its processor time} of a process and of all that it has started."""
    ticks, started = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks[int(folder.name)] = sum(map(int, fields[11:15]))
        started.setdefault(int(fields[1]), []).append(int(folder.name))
    found = [pid]
    for process in found:
        found += started.get(process, [])
    return {process: ticks.get(process, 0) for process in found}


def worked(pid):
    """Seconds of processor time of a process and of all that it has started."""
    return sum(family(pid).values()) / TICKS


def heard(pid):
    """Whether a command hears a signal, or has ended."""
    try:
        caught = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigCgt"))
    except (OSError, StopIteration):
        return True
    return bool(int(caught.split()[1], 16) & HEARD)


def stop(argv, folder, mark, moment, number=signal.SIGINT, group=False, after=None, waits=False):
    """Run a command and send it, or its group, a signal -> `Stop`.

    moment: its seconds then, from its start, or from when the file `after` is there; of the clock with `waits`.
    """
    process = start(argv, folder, mark)
    while process.poll() is None and not (heard(process.pid) and (after is None or after.exists())):
        time.sleep(0.002)
    begun, before = time.monotonic(), worked(process.pid) if after else 0.0
    work = 0.0
    while process.poll() is None and work < moment:
        time.sleep(min(max(0.01, (moment - work) / 4), 0.5))
        work = time.monotonic() - begun if waits else max(work, worked(process.pid) - before)
    if process.poll() is not None:
        return Stop(process.returncode, False, work, 0, 0, (folder / "err.txt").read_text())
    queued = {each: (waited(each), 0.0) for each in family(process.pid)}  # before the signal, and since then
    sent = time.monotonic()
    (os.killpg if group else os.kill)(process.pid, number)
    while process.poll() is None:
        if time.monotonic() > sent + LONGEST_S:
            os.killpg(process.pid, signal.SIGKILL)
        for each, (earlier, _) in queued.items():
            queued[each] = earlier, max(queued[each][1], waited(each) - earlier)
        time.sleep(0.01)
    taken, ready = time.monotonic() - sent, sum(since for _, since in queued.values())
    return Stop(process.returncode, True, work, max(0, taken - ready), ready, (folder / "err.txt").read_text())


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


def names(folder):
    """What lies in a folder, but for what the tests put there and locks."""
    return {path.relative_to(folder) for path in folder.rglob("*") if path.name not in GIVEN and path.suffix != ".lock"}


def check(stop, words, folder, mark, before=None):
    """An interrupted command has answered in time, in one line that is true, and left nothing behind that is half done.

    before: `names` of the folder before the command.
    """
    where = (f"{shlex.join(words)}: exit code {stop.code} after {stop.seconds:.2f} s and {stop.waited:.2f} s of waiting for a core\n"
             f"{stop.err}")
    lines = stop.err.splitlines()
    said = f"fbnn-hw {words[0]}: interrupted", "fbnn-hw: interrupted; nothing was written"  # the latter while it is imported
    assert stop.code == 130 and lines and lines[-1].startswith(said) and "Traceback" not in stop.err, where
    assert stop.seconds < ANSWER_S, where
    assert before is None or "nothing was written" not in lines[-1] or names(folder) == before, f"{where}\n{names(folder) - before}"
    assert not (remains := left(mark, 2)), f"{where}\n{remains}"
    assert not list(Path(folder).rglob("*.partial")), where


def resumed(verb, argv, folder):
    """The command line, with --resume where an interrupted run left a state."""
    return [*argv, "--resume"] if verb.state and (folder / verb.state).exists() else argv


def forget(verb, argv, folder):
    """Remove what a command that has ended wrote and compiled."""
    for path in folder.iterdir():
        if path.name not in GIVEN:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for word in argv if verb.compiles else ():
        for path in (path for pattern in ("sim_build*", "build-*") for path in Path(word).glob(pattern) if Path(word).is_dir()):
            shutil.rmtree(path)


def command(verb, world, folder):
    """Words of a verb's command line; makes the good input, and a programmer that takes its time."""
    values = {name: str(getattr(world, name)) for name in ("tiny", "small", "sixteen", "onnx") if f"{{{name}}}" in verb.argv}
    designs = ("plain", "few", "learner", "wide", "ready", "built")
    values |= {name: str(getattr(world, name).folder) for name in designs if f"{{{name}}}" in verb.argv}
    Image.fromarray(strategies.images(1, 1, 8)[0].transpose(1, 2, 0)).save(folder / "image.png")
    (folder / "bin").mkdir()
    (folder / "bin" / "iceprog").write_text("#!/bin/sh\nsleep 1\necho done\n")
    (folder / "bin" / "iceprog").chmod(0o755)
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        values["http"] = place.getsockname()[1]
    return shlex.split(verb.argv.format(**values, image="image.png"))


def trials(verb, rng):
    """(signal, part of the verb's time) in any order; the parts of a signal lie one in each twentieth or tenth."""
    counts = {signal.SIGINT: 20, signal.SIGKILL: 10} if budget.LONG else {signal.SIGINT: 1, signal.SIGKILL: int(bool(verb.state))}
    drawn = [(number, (part + rng.random()) / count) for number, count in counts.items() for part in range(count)]
    return [drawn[at] for at in rng.permutation(len(drawn))]


def try_verb(name, world, folder, record):
    """Stop one verb at its moments.  record: pytest's `record_property`."""
    verb, rng, mark = (HARDWARE | TRAINING)[name], np.random.default_rng([budget.SEED, *name.encode()]), uuid.uuid4().hex
    argv, told, killed, span, fresh = command(verb, world, folder), [], 0, verb.seconds, True
    if verb.early and not budget.LONG:
        span = verb.early
    after = Path(argv[1]) / verb.after if verb.after else None
    for number, part in trials(verb, rng):
        for attempt in range(ATTEMPTS):
            words, before = resumed(verb, argv, folder), names(folder)
            stopped = stop(words, folder, mark, part * span * 0.9 ** attempt, number, rng.random() < 0.5, after, verb.waits)
            if stopped.sent and stopped.code:
                break
            assert stopped.code == 0 and stopped.seconds < ANSWER_S, stopped  # it had done its work
            span = min(span, stopped.work) if fresh else span
            forget(verb, argv, folder)
            fresh = True
        else:
            raise AssertionError(f"{shlex.join(words)}: ended before each of {ATTEMPTS} moments, the last one after {stopped.work:.2f} s")
        fresh = False
        if number == signal.SIGINT:
            check(stopped, words, folder, mark, before)
            told.append(f"{stopped.seconds:.2f} at {stopped.work:.1f}")
        else:
            killed += 1
            assert not (remains := left(mark, LEFT_S)), remains
            for path in folder.rglob("*.partial"):  # may stay
                path.unlink()
    record("adversary", f"{name}: answered after {', '.join(told)} s, killed {killed}; {span:.1f} s long; seed {budget.SEED}")
    if verb.ends and (budget.LONG or verb.state):
        process = start(resumed(verb, argv, folder), folder, mark)
        assert process.wait(END_S) == 0, (folder / "err.txt").read_text()
        assert not left(mark, 5)
