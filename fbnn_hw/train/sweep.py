"""Many command lines of fbnn-hw at once: as processes here, or as jobs of submitit (Slurm) elsewhere.  No torch here."""

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..base import extras, files
from ..base.errors import ToolError, UsageError
from .metrics import are_scores, mean_and_deviation

POLL_S = 0.2
TAIL_BYTES = 4096
PROGRAM = (sys.executable, "-m", "fbnn_hw.cli")
METRICS = {"cil": ("a_old", "a_new", "a_final", "d_final", "average_incremental", "forgetting"),
           "train": ("train_accuracy", "validation_accuracy", "test_accuracy"),
           "pretrain": ("train_accuracy", "validation_accuracy", "test_accuracy", "test_dispersion")}
"""The metrics of each verb's results that stand in a table of a sweep."""
JOBS = ".jobs.json"
"""File in the folder of the results that says which job has which run."""


def grid(over: Iterable[tuple[str, Sequence[str]]]) -> Iterator[tuple[str, dict[str, str]]]:
    """Return [(name, {flag: value})] for every combination.

    over: [(flag, values)] with values as typed; the last flag varies fastest.
    """
    flags = [flag for flag, _ in over]
    for values in itertools.product(*(values for _, values in over)):
        # A path has slashes, which would lead out of the folder of the results.  A colon is none of a file name of Windows.
        name = "-".join(f"{flag}{value.rstrip('/')}" for flag, value in zip(flags, values))
        yield re.sub(r"[/\\:]", ".", name), dict(zip(flags, values))


def finished(path: str | Path) -> dict[str, Any] | None:
    """The values of a result file, or None where there is none yet or the run is still under way."""
    values = files.json_object(path) or {}
    if isinstance(training := values.get("training"), dict):
        whole = training.get("finished") and "train_accuracy" in training
        verb, scores = "pretrain", training  # whose metrics are those of `train`, and more
    else:
        final, sequence = values.get("final"), values.get("sequence", {})
        whole = values.get("finished") and isinstance(final, dict) and isinstance(sequence, dict)
        verb, scores = "cil", {**(final or {}), **sequence} if whole else {}
    return values if whole and are_scores(map(scores.get, METRICS[verb])) else None


def path_in(folder: str | Path, name: str) -> str:
    """The path of a file in a folder, as a word that is no flag, as text."""
    path = str(Path(folder) / name)
    return f"./{path}" if path.startswith("-") else path


def local(commands: Sequence[list[str]], jobs: int, done: Callable | None = None,
          program: Sequence[str] = PROGRAM) -> list[int | None]:
    """Run argv lists, each without the program's name, at most `jobs` at a time; return their exit codes in order.

    They share the cores.  done(index, exit code, last line on stderr) is called when a process ends.  Where it returns something true, no
    more are started; those that never ran have the code None.  Ctrl-C ends all of them, and their states stay.
    """
    threads = max(1, (os.cpu_count() or 1) // jobs)
    environment = {**os.environ, **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))}
    codes: list[int | None] = [None] * len(commands)
    waiting, running = list(enumerate(commands))[::-1], dict[int, tuple]()
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                index, argv = waiting.pop()
                log = tempfile.TemporaryFile()  # not a pipe: hours of progress bars would fill it and stop the process
                running[index] = log, subprocess.Popen([*program, *map(str, argv)], env=environment, stdout=subprocess.DEVNULL,
                                                        stderr=log)
            time.sleep(POLL_S)
            for index, (log, process) in list(running.items()):
                if process.poll() is not None:
                    del running[index]
                    codes[index] = process.returncode
                    if done and done(index, process.returncode, _last_line(log)):
                        waiting.clear()
                    log.close()
    finally:
        for _, process in running.values():  # all at once, so that they save their states beside each other
            process.terminate()
        for log, process in running.values():
            process.wait()
            log.close()
    return codes


def _last_line(file):
    file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
    lines = file.read().decode("utf-8", "replace").replace("\r", "\n").strip().split("\n")
    return lines[-1].strip()


def result_path(argv: list[str]) -> Path:
    """Return the path of a run's result."""
    path = Path(argv[argv.index("--out") + 1])
    return path if path.suffix == ".json" else path.with_suffix(".result.json")


def state_path(argv: list[str]) -> Path:
    return Path(argv[argv.index("--out") + 1]).with_suffix(".state")


def lock(state: Path) -> Path:
    """Path of the file that a run locks while it is under way, beside its state."""
    return state.with_name(f".{state.name}.lock")


def resumed(argv: list[str]) -> list[str]:
    """The command line with --resume where an interrupted run left a state."""
    return [*argv, "--resume"] if state_path(argv).exists() else argv


class Run:
    """A command line as a job.  Whenever it is started again, it goes on from its state.

    After a time limit submitit calls `checkpoint` and queues the job again.  After preemption, `scontrol
    requeue` or the death of its node, Slurm starts the same job again.
    """

    def __init__(self, argv: list[str], program: Sequence[str] = PROGRAM) -> None:
        self.argv, self.program, self.process = argv, program, None

    def __call__(self):
        if "--out" in self.argv and finished(result_path(self.argv)):
            return 0
        command = [*self.program, *(resumed(self.argv) if "--out" in self.argv else self.argv)]
        self.process = subprocess.Popen(command, preexec_fn=_ignore_warnings)
        return self.process.wait()

    def checkpoint(self) -> Any:
        from submitit.helpers import DelayedSubmission

        if self.process is not None:
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(self.process.pid, signal.SIGTERM)
                # This runs in a signal handler inside `wait`, whose lock Popen's own methods would wait for.
                os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
        return DelayedSubmission(Run(self.argv, self.program))


def _ignore_warnings():
    """Ignore Slurm's warning signal, which goes to all processes of a job.

    It is for submitit; it would end the run without its state.
    """
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)


RESTARTS = 1000
"""How often a run may meet its time limit."""


def submit(commands: Sequence[list[str]], folder: str | Path, options: dict | None = None, cluster: str | None = None,
           program: Sequence[str] = PROGRAM) -> list:
    """Hand argv lists to submitit as one job array; returns its jobs, whose `result()` is the exit code.

    folder: of its logs.  options: of the executor, such as slurm_partition or timeout_min.  cluster: "slurm", "local", or None for what
    submitit finds.  Raises ToolError where submitit or Slurm is missing.
    """
    submitit = extras.load("submitit", "cil", "--submit")
    if cluster == "slurm" and shutil.which("sbatch") is None:
        raise ToolError("sbatch: not found, expected Slurm's commands on this machine with --submit slurm; --submit local needs none")
    executor = submitit.AutoExecutor(folder=folder, cluster=cluster, slurm_max_num_timeout=RESTARTS)
    try:
        executor.update_parameters(**(options or {}))
    except (NameError, TypeError, ValueError, AssertionError) as error:  # of a parameter that no executor has, or of another type
        said = str(error) or f"not one that submitit takes ({type(error).__name__})"
        raise UsageError(f"--submit-options: {said.splitlines()[0]}") from None
    try:
        with executor.batch():
            jobs = [executor.submit(Run([str(word) for word in argv], program)) for argv in commands]
    except submitit.core.utils.FailedJobError as error:
        raise ToolError(f"sbatch: {str(error).splitlines()[-1].strip()}, expected a cluster that takes the jobs") from None
    return jobs


def queued(ids: Iterable[str]) -> dict[str, str]:
    """{id: state such as PENDING or RUNNING} of those jobs that Slurm still has; empty where there is no Slurm."""
    if not ids or shutil.which("squeue") is None:
        return {}
    asked = subprocess.run(["squeue", "--noheader", "--array", "--format=%i %T"], capture_output=True, text=True)
    listed = dict(line.split() for line in asked.stdout.splitlines() if len(line.split()) == 2)
    return {job: listed[job] for job in ids if job in listed}


def options(text: str) -> dict[str, int | str]:
    """"timeout_min=600,slurm_partition=gpu" -> {"timeout_min": 600, "slurm_partition": "gpu"}."""
    pairs = [pair.split("=", 1) for pair in text.split(",")] if text else []
    if any(len(pair) < 2 for pair in pairs):
        raise UsageError(f"--submit-options {text}: expected K=V, with commas between several, such as timeout_min=600")
    return {key: int(value) if value.isdigit() else value for key, value in pairs}


def under_way(folder: Path, commands: Sequence[list[str]]) -> dict[str, str]:
    """{path of the result: what is known of it} of the runs that another process or a job has."""
    jobs = files.json_object(folder / JOBS) or {}
    states, active = queued(list(map(str, jobs.values()))), {}
    for argv in commands:
        path = str(result_path(argv))
        if files.held(lock(state_path(argv))):
            active[path] = "running"
        elif state := states.get(str(jobs.get(path))):
            active[path] = f"job {jobs[path]} is {state.lower()}"
    return active


def handed_over(commands: Sequence[list[str]], folder: Path, logs: str | Path, options: dict | None, cluster: str | None) -> list:
    """The jobs of the runs, of which `under_way` then knows.  folder: of the results.  The others: as `submit` takes them."""
    jobs = submit(commands, logs, options, cluster)
    jobs_of_results = files.json_object(folder / JOBS) or {}
    jobs_of_results.update({str(result_path(argv)): job.job_id for argv, job in zip(commands, jobs)})
    files.write(folder / JOBS, json.dumps(jobs_of_results, indent=1).encode())
    return jobs


def summary(verb: str, flags: Sequence[str], results: Iterable[tuple]) -> list[dict[str, Any]]:
    """[{"flags", "runs", "under_way", metric: {"mean", "deviation"}}] with the seeds of a combination together.

    results: [(values, result or None, whether it is under way)].
    """
    groups: dict[tuple, list] = {}
    for values, result, active in results:
        groups.setdefault(tuple((flag, values[flag]) for flag in flags if flag != "seed"), []).append((result, active))
    rows = []
    for key, group in groups.items():
        scores = [{**r["final"], **r.get("sequence", {})} if verb == "cil" else r["training"] for r, _ in group if r]
        pairs = {m: mean_and_deviation([r.get(m) for r in scores]) for m in METRICS[verb]}
        active = sum(active for _, active in group)
        means = {m: {"mean": a, "deviation": d} for m, (a, d) in pairs.items()}
        rows.append({"flags": dict(key), "runs": len(scores), "under_way": active, **means})
    return rows


def mean_text(pair: dict[str, float | None]) -> str:
    """The mean of a metric as text, with its deviation."""
    if pair["mean"] is None:
        return "-"
    return f"{pair['mean']:.4f}" + ("" if pair["deviation"] is None else f" +- {pair['deviation']:.4f}")
