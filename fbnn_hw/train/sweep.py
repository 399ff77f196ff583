"""Many command lines of fbnn-hw at once: as processes here, or as jobs of submitit (Slurm) elsewhere.  No torch here."""

import os
import subprocess
import sys
import time

from ..errors import ToolError

POLL_S = 0.2


def local(commands, jobs, threads=None, started=None, finished=None):
    """Run argv lists, each without the program's name, at most `jobs` at a time; returns their exit codes in order.

    threads: of each process (a share of the cores if None).  Ctrl-C ends all of them; their states stay.
    """
    threads = threads or max(1, (os.cpu_count() or 1) // jobs)
    environment = {**os.environ, **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))}
    codes, waiting, running = [None] * len(commands), list(enumerate(commands))[::-1], {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                index, argv = waiting.pop()
                running[index] = subprocess.Popen([sys.executable, "-m", "fbnn_hw.cli", *map(str, argv)], env=environment,
                                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                if started:
                    started(index)
            time.sleep(POLL_S)
            for index, process in list(running.items()):
                if process.poll() is not None:
                    del running[index]
                    codes[index] = process.returncode
                    message = process.stderr.read().strip().split("\n")[-1]
                    if finished:
                        finished(index, process.returncode, message)
    finally:
        for process in running.values():
            process.terminate()
            process.wait()
    return codes


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
    executor.update_parameters(**(options or {}))
    with executor.batch():
        jobs = [executor.submit(_call, [str(word) for word in argv]) for argv in commands]
    return jobs


def _call(argv):
    return subprocess.run([sys.executable, "-m", "fbnn_hw.cli", *argv]).returncode
