"""Runs hostile cases, each in a process of its own, and judges what came of it.

A `Forge` is a process that has imported what the verbs import; a case runs in a fork of it, so it starts at once, and what it takes in
memory and processor time is its own.  `campaign` draws cases of one kind from a seed until a budget in seconds is spent.
"""

import contextlib
import hashlib
import importlib
import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

MEMORY_MB = 1024
"""What a case may take beyond what is there when it starts; the kernel refuses more."""
CPU_S = 20
WALL_S = 120
"""A case that only waits is at fault too; this leaves room for a machine with much else to do."""
FILE_MB = 64
ERRORS = {2, 3, 4, 5, 6}
"""Exit codes of the classes of `fbnn_hw.errors`.  1 is an internal error, or memory that ran out."""
PRELOAD = (
    "torch", "PIL.Image", "fbnn_hw.cli._common", "fbnn_hw.data.datasets", "fbnn_hw.board", "fbnn_hw.nn.checkpoint", "onnx", "torch._dynamo")


@dataclass
class Case:
    """A command line, or `module:function` and its arguments, that meets something hostile.

    folder: where it runs; all that it may see or leave lies there.  may_write: whether it writes files where it succeeds.
    path: of the environment, to take tools away, with the compiler that is a wheel; None: as it is.
    """

    argv: list
    folder: Path
    may_write: bool = False
    path: str | None = None


@dataclass
class Outcome:
    """What came of a case.  megabytes: beyond the start.  seconds: of processor time.  fault: why it does not hold, or ""."""

    code: int
    out: str
    err: str
    megabytes: float
    seconds: float
    fault: str = ""


@dataclass
class Tally:
    """What a campaign tried."""

    kind: str
    seed: int
    cases: int = 0
    accepted: int = 0
    megabytes: float = 0.0
    seconds: float = 0.0
    codes: dict = field(default_factory=dict)
    faults: list = field(default_factory=list)

    def add(self, outcome):
        self.cases += 1
        self.accepted += not outcome.code
        self.codes[outcome.code] = self.codes.get(outcome.code, 0) + 1
        self.megabytes, self.seconds = max(self.megabytes, outcome.megabytes), max(self.seconds, outcome.seconds)

    def __str__(self):
        codes = ", ".join(f"{code}: {count}" for code, count in sorted(self.codes.items()))
        return (f"{self.kind}: {self.cases} cases, seed {self.seed}, {len(self.faults)} faults; exit codes {codes}; "
                f"at most {self.megabytes:.0f} MB, {self.seconds:.1f} s")


class Forge:
    """The process whose forks run cases, one at a time."""

    def __init__(self):
        paths = os.pathsep.join(filter(None, sys.path))
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONPATH": paths})

    def wait(self):
        """Until its imports are done."""
        self.run(Case(["--version"], Path.cwd()))

    def run(self, case):
        """`Outcome` of a `Case`, not yet judged."""
        print(json.dumps([[str(word) for word in case.argv], str(case.folder), case.path]), file=self.process.stdin, flush=True)
        return Outcome(**json.loads(self.process.stdout.readline()))

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def serve():
    """The forge's own program: a case a line from stdin, an outcome a line to stdout."""
    for name in PRELOAD:
        importlib.import_module(name)
    answers = os.fdopen(os.dup(1), "w")
    if not (child := os.fork()):
        os._exit(0)
    idle = _wait(child)[1].ru_maxrss  # a fork shares what it does not write
    for line in sys.stdin:
        argv, folder, path = json.loads(line)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            if not (child := os.fork()):
                _child(argv, folder, path, out, err)
            code, usage = _wait(child)
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read(1 << 20).decode(errors="replace"))
        outcome = Outcome(code, *texts, max(0, usage.ru_maxrss - idle) / 1024, usage.ru_utime + usage.ru_stime)
        print(json.dumps(asdict(outcome)), file=answers, flush=True)


def _wait(child):
    """(exit code, resources) of a child, which is killed with its group after WALL_S, those not counted in which it waited for a core."""
    until = time.monotonic() + WALL_S
    while True:
        process, status, usage = os.wait4(child, os.WNOHANG)
        if process:
            return os.waitstatus_to_exitcode(status), usage
        if time.monotonic() > until and time.monotonic() > until + waited(child):
            until = float("inf")
            os.killpg(child, signal.SIGKILL)
        time.sleep(0.002)


def waited(pid):
    """Seconds in which the main thread of a process was ready and waited for a core, since it began."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def _child(argv, folder, path, out, err):
    code = 1
    try:
        os.setsid()
        os.chdir(folder)
        for file, number in ((open(os.devnull), 0), (out, 1), (err, 2)):
            os.dup2(file.fileno(), number)
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
        if path is not None:
            os.environ["PATH"] = path
            sys.modules["ziglang"] = None  # the wheel compiles without a PATH
        # Not the address space, of which WebAssembly reserves gigabytes.
        taken = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_DATA, (taken + MEMORY_MB * 2 ** 20,) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 1))
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_MB * 2 ** 20,) * 2)
        code = _call(argv)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        for file in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                file.flush()
        os._exit(code)


def _call(argv):
    """The exit code of a verb, or of a function, whose FbnnError is told as a verb tells it."""
    from fbnn_hw.base.errors import FbnnError
    from fbnn_hw.cli import main

    if ":" not in argv[0]:
        return main(argv)
    module, name = argv[0].split(":")
    try:
        getattr(importlib.import_module(module), name)(*argv[1:])
    except FbnnError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def inventory(folder):
    """{path: kind or hash} of all that lies in a folder, but for locks and what is compiled there."""
    entries = {}
    for path in sorted(Path(folder).rglob("*")):
        mode = path.lstat().st_mode
        name = str(path.relative_to(folder))
        if "sim_build" in name or name.endswith(".lock"):
            continue
        if stat.S_ISREG(mode):
            entries[name] = hashlib.sha256(path.read_bytes()).hexdigest() if path.stat().st_size < 2 ** 27 else path.stat().st_size
        elif not stat.S_ISDIR(mode):
            entries[name] = stat.S_IFMT(mode)
    return entries


def judge(case, outcome, before):
    """Why a case does not hold, or ""."""
    after = inventory(case.folder)
    lines = outcome.err.splitlines()
    if outcome.code and outcome.code not in ERRORS:
        return f"exit code {outcome.code}"
    if "Traceback" in outcome.err or "internal error" in outcome.err:
        return "a traceback or an internal error"
    if "MemoryError" in outcome.err or "out of memory" in outcome.err:
        return f"more than {MEMORY_MB} MB, which the kernel refused"
    notes = [line for line in lines[:-1] if line.startswith("fbnn-hw ")]
    if outcome.code and (len(lines) != 1 + len(notes) or len(notes) > 2):
        return f"{len(lines)} lines on stderr, expected one, and two notes before it at most"
    if not all(line.isprintable() for line in lines):
        return "a line on stderr that cannot be printed"
    if len(outcome.err) > 2000 or len(outcome.out) > 10 ** 6:
        return f"{len(outcome.err)} characters on stderr, {len(outcome.out)} on stdout"
    changed = [name for name, content in before.items() if after.get(name) != content]
    added = [name for name in after if name not in before]
    if changed and (outcome.code or not case.may_write):
        return f"{changed[0]} has changed"
    if added and (outcome.code or not case.may_write):
        return f"{added[0]} was left behind"
    if partial := [name for name in added if name.endswith(".partial")]:
        return f"{partial[0]} was left behind"
    return ""


def campaign(kind, seed, seconds, world, root, forges, only=None):
    """Draw and run cases of one kind for so many seconds -> `Tally`.

    kind: module with `case(rng, world, folder)` -> `Case`.  only: the number of the one case to run.  root: a folder; that of a case
    that does not hold stays in it, with case.json.  forges: as many cases run at a time.
    """
    name = kind.__name__.rpartition(".")[2]
    tally, until = Tally(name, seed), time.monotonic() + seconds
    numbers = iter([only] if only is not None else range(10 ** 9))

    def work(forge):
        while time.monotonic() < until and (number := next(numbers, None)) is not None:
            folder = Path(root) / f"{name}-{seed}-{number}"
            folder.mkdir(parents=True)
            case = kind.case(np.random.default_rng([seed, number]), world, folder)
            before = inventory(folder)
            outcome = forge.run(case)
            outcome.fault = judge(case, outcome, before)
            tally.add(outcome)
            if outcome.fault:
                (folder / "case.json").write_text(json.dumps({"argv": [str(word) for word in case.argv], **asdict(outcome)}, indent=1))
                tally.faults.append(f"{outcome.fault}: {folder / 'case.json'}")
            else:
                shutil.rmtree(folder)

    with ThreadPoolExecutor(len(forges)) as pool:
        list(pool.map(work, forges))
    return tally


if __name__ == "__main__":
    serve()
