"""Many command lines of fbnn-hw at once: as processes here, or as jobs of submitit (Slurm) elsewhere.  No torch here."""

import itertools
import os
import subprocess
import sys
import tempfile
import time

from .. import files
from ..errors import ToolError, UsageError

POLL_S = 0.2
TAIL_BYTES = 4096
PROGRAM = (sys.executable, "-m", "fbnn_hw.cli")


def grid(over):
    """[(name, {flag: value})] of every combination; over: [(flag, values)] with values as typed, the last flag running fastest."""
    flags = [flag for flag, _ in over]
    for values in itertools.product(*(values for _, values in over)):
        yield "-".join(f"{flag}{value}" for flag, value in zip(flags, values)), dict(zip(flags, values))


def finished(path):
    """The values of a result file, or None where there is none yet or the run is still under way."""
    values = files.json_object(path) or {}
    training = values.get("training", values)
    return values if isinstance(training, dict) and training.get("finished") else None


def local(commands, jobs, threads=None, done=None, program=PROGRAM):
    """Run argv lists, each without the program's name, at most `jobs` at a time; returns their exit codes in order.

    threads: of each process (a share of the cores if None).  done(index, exit code, last line on stderr) is called as each ends;
    where it returns something true no more are started, and those that never ran have the code None.  Ctrl-C ends all of them;
    their states stay.
    """
    threads = threads or max(1, (os.cpu_count() or 1) // jobs)
    environment = {**os.environ, **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))}
    codes, waiting, running = [None] * len(commands), list(enumerate(commands))[::-1], {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                index, argv = waiting.pop()
                said = tempfile.TemporaryFile()  # not a pipe: hours of progress bars would fill it and stop the process
                running[index] = said, subprocess.Popen([*program, *map(str, argv)], env=environment, stdout=subprocess.DEVNULL,
                                                        stderr=said)
            time.sleep(POLL_S)
            for index, (said, process) in list(running.items()):
                if process.poll() is not None:
                    del running[index]
                    codes[index] = process.returncode
                    if done and done(index, process.returncode, _last_line(said)):
                        waiting.clear()
                    said.close()
    finally:
        for _, process in running.values():  # all at once, so that they save their states beside each other
            process.terminate()
        for said, process in running.values():
            process.wait()
            said.close()
    return codes


def _last_line(file):
    file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
    lines = file.read().decode("utf-8", "replace").replace("\r", "\n").strip().split("\n")
    return lines[-1].strip()


def submit(commands, folder, options=None, cluster=None):
    """Hand argv lists to submitit as one job array; returns its jobs, whose `result()` is the exit code.

    options: of the executor, such as slurm_partition or timeout_min.  cluster: None for what submitit finds, "slurm", or "local".
    Raises ToolError where submitit is not installed.
    """
    try:
        import submitit
    except ImportError:
        raise ToolError("submitit: not installed, expected for --submit; python -m pip install 'fbnn-hw[cil]'") from None
    executor = submitit.AutoExecutor(folder=folder, cluster=cluster)
    try:
        executor.update_parameters(**(options or {}))
    except (NameError, TypeError, ValueError) as error:  # submitit's own for a parameter that no executor has, or of another type
        raise UsageError(f"--submit-options: {str(error).splitlines()[0]}") from None
    with executor.batch():
        jobs = [executor.submit(_call, [str(word) for word in argv]) for argv in commands]
    return jobs


def _call(argv):
    return subprocess.run([*PROGRAM, *argv]).returncode


def options(text):
    """"timeout_min=600,slurm_partition=gpu" -> {"timeout_min": 600, "slurm_partition": "gpu"}."""
    pairs = [pair.split("=", 1) for pair in text.split(",")] if text else []
    if any(len(pair) < 2 for pair in pairs):
        raise UsageError(f"--submit-options {text}: expected K=V, with commas between several, such as timeout_min=600")
    return {key: int(value) if value.isdigit() else value for key, value in pairs}
