"""The runs of docs/results/queue.jsonl, in their order, as many at once as --jobs says, one thread each, beside other work.

    python docs/benchmarks/run_queue.py                                          what is done, what is next, what it costs
    python docs/benchmarks/run_queue.py FOLDER --data-dir DIR [--jobs 2]         run them; Ctrl-C ends them, and their states stay

A line of the queue is a run:

    name          of the folder in which it runs, FOLDER/NAME, and of its log there
    row           the tables that need it
    commit        whose program runs: a work tree of that commit, FOLDER/tree-COMMIT, with the Python that runs this
    seed          None where the command has several
    core_hours    expected
    needs         names of runs whose files it reads; it gets them from docs/results, so they come without their training states
    files         what it writes that is kept: these go to docs/results/INTO at its end
    command       as typed in FOLDER/NAME, or several joined by &&; {docs} stands for docs/benchmarks of the work tree, {data} for DIR

A run is done when its files are in docs/results.  One that was interrupted goes on where its state or its lines are in FOLDER; on another
machine it starts again with its seed.
"""

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

RESULTS = Path(__file__).resolve().parents[1] / "results"
ROOT = RESULTS.parents[1]
NICE = "nice", "-n", "19"
KEPT = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=17179869184"
"""Linux's C library keeps the memory of a step: some four fifths of the time (docs/results/training-time.md)."""


@dataclass(frozen=True)
class Run:
    """A line of the queue, as this file's head says."""

    name: str
    row: str
    commit: str
    core_hours: float
    command: str
    files: tuple
    into: str = "."
    seed: int | None = None
    needs: tuple = field(default=())

    @property
    def done(self):
        return all((RESULTS / self.into / name).exists() for name in self.files)

    def phase(self, tree, folder, data_dir):
        """(number, command line) of the next command, with --resume where it left a state in `folder`; (None, None) behind the last."""
        for number, command in enumerate(self.command.format(docs=tree / "docs" / "benchmarks", data=data_dir).split(" && ")):
            if not ended(folder, number).exists():
                first, *words = shlex.split(command)
                if first == "python":
                    return number, [sys.executable, *words]
                state = (folder / words[words.index("--out") + 1]).with_suffix(".state")
                return number, [sys.executable, "-m", "fbnn_hw", *words, *["--resume"] * state.exists()]
        return None, None

    def keep(self, folder):
        """Copy what the run wrote to docs/results."""
        target = RESULTS / self.into
        target.mkdir(parents=True, exist_ok=True)
        for name in self.files:
            shutil.copy2(folder / name, target / name)


def read(path):
    """The runs of a queue, in its order.  Exits where a name stands twice, or a run needs one that does not stand before it."""
    runs = [Run(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    names = [run.name for run in runs]
    for index, run in enumerate(runs):
        if missing := set(run.needs) - set(names[:index]) or {run.name} & set(names[:index]):
            sys.exit(f"{path}: {run.name}: {', '.join(missing)} does not stand before it once, expected each run after those it needs")
    return runs


def tree(commit, folder):
    """The work tree of a commit in `folder`, made where it is not there."""
    path = folder / f"tree-{commit}"
    if not path.exists():
        subprocess.run(["git", "-C", ROOT, "worktree", "prune"], check=True)
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "--quiet", "--detach", path, commit], check=True)
    return path


def start(argv, source, folder, data_dir):
    """The process of a command line, at the lowest priority."""
    environment = {**os.environ, "PYTHONPATH": str(source), "FBNN_DATA": str(data_dir), "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
                   "GLIBC_TUNABLES": KEPT}
    with (folder / "log").open("a") as log:
        process = subprocess.Popen([*NICE, *argv], cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True)
    with suppress(OSError):  # a Linux that shares its processors among sessions has a priority of each, and heeds no other between them
        Path(f"/proc/{process.pid}/autogroup").write_text("19")
    return process


def ready(runs, others):
    """The first run that is not done, whose needs are, and whose name is none of `others`; None where there is none."""
    done = {run.name for run in runs if run.done}
    return next((run for run in runs if run.name not in done | others and done.issuperset(run.needs)), None)


def ready_folder(run, runs, folder):
    """The folder of a run, with the files that it needs."""
    own = folder / run.name
    own.mkdir(parents=True, exist_ok=True)
    for needed in (other for other in runs if other.name in run.needs):
        for name in needed.files:
            shutil.copy2(RESULTS / needed.into / name, own / name)
    return own


def ended(folder, number):
    """The file that says that a command has ended well."""
    return folder / f".ended-{number}"


def execute(runs, folder, data_dir, jobs):
    """Run what is not done; a run that fails is named, and left until the next call."""
    failed, running = set(), {}
    try:
        while True:
            while len(running) < jobs and (run := ready(runs, failed | running.keys())):
                own, source = ready_folder(run, runs, folder), tree(run.commit, folder)
                number, argv = run.phase(source, own, data_dir)
                if argv:
                    running[run.name] = number, start(argv, source, own, data_dir)
                    print(f"{time.strftime('%H:%M')} {run.name}: {shlex.join(argv[1:])}", flush=True)
                else:
                    run.keep(own)
                    print(f"{time.strftime('%H:%M')} {run.name}: done", flush=True)
            if not running:
                return failed
            time.sleep(1)
            for name, (number, process) in list(running.items()):
                if process.poll() == 0:  # its next command, or its end, comes in the next round
                    del running[name]
                    ended(folder / name, number).touch()
                elif process.returncode:
                    del running[name]
                    failed.add(name)
                    print(f"{time.strftime('%H:%M')} {name}: failed, see {folder / name}/log", flush=True)
    finally:
        for _, process in running.values():
            process.terminate()  # Ctrl-C is ignored by what a shell started in the background
        for _, process in running.values():
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("FBNN_DATA"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--queue", type=Path, default=RESULTS / "queue.jsonl")
    args = parser.parse_args()
    runs = read(args.queue)
    if args.folder is None:
        for run in runs:
            print(f"{'done' if run.done else f'{run.core_hours:.1f} h':>7}  {run.name:32} {run.row}")
        left = [run for run in runs if not run.done]
        print(f"{len(runs) - len(left)} of {len(runs)} runs done, {sum(run.core_hours for run in left):.1f} core-hours left")
        return
    if args.data_dir is None:
        parser.error("--data-dir: expected the folder of the data sets, or $FBNN_DATA")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        failed = execute(runs, args.folder.resolve(), Path(args.data_dir).resolve(), args.jobs)
    except KeyboardInterrupt:
        sys.exit(130)
    if failed:
        sys.exit(f"failed: {', '.join(sorted(failed))}")


if __name__ == "__main__":
    main()
