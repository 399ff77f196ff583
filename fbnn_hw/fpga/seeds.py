"""Place and route from several seeds at once, each in a process of its own."""

import json
import os
import subprocess
import time
from pathlib import Path

from ..base.errors import ToolError
from ..base.files import json_object
from ..targets.synthesis import failure
from . import placement
from .progress import PlaceProgress
from .routed import DELAYS
from .toolchain import CELLS, DELAYED, PLACED, placed_file, read_report, seed_folder, timed

POLL_SECONDS = 0.1
RESULT, LOG, PLACEMENT = "result.json", "place.log", "placement.json"


def at_once(flow, count):
    """Return how many of `count` seeds run at a time: one a core, and no more than fit into the free memory."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    free = _free_bytes()
    fitting = count if free is None else int(free / (flow.gigabytes * 1e9))
    return max(1, min(count, cores, fitting))


def _free_bytes():
    """Bytes of memory that programs may still take; None where the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError, IndexError):
        return None


class Job:
    """One run of nextpnr in the folder `where`.  It writes into the folder of its seed."""

    def __init__(self, command, where, seed):
        self.seed, self.folder, self.progress = seed, Path(where) / seed_folder(seed), PlaceProgress()
        self.folder.mkdir(exist_ok=True)
        (self.folder / RESULT).unlink(missing_ok=True)
        self.begin = time.monotonic()
        with open(self.folder / LOG, "wb") as log:
            try:
                # Where this program is killed the other goes on, and goes on holding the lock of the folder.
                self._process = subprocess.Popen(command, cwd=where, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                                 close_fds=False)
            except OSError as error:
                raise ToolError(f"place-and-route: {command[0]} does not start ({error.strerror})") from None
        self._log, self._line = open(self.folder / LOG, errors="replace"), ""

    def poll(self):
        """Read the tool's new output; return its exit code, or None while it runs."""
        code = self._process.poll()
        *lines, self._line = (self._line + self._log.read()).split("\n")
        for line in lines:
            self.progress.hear(line)
        return code

    def kill(self):
        """End the process, if it runs, and close its log."""
        self._process.kill()
        self._process.wait()
        self._log.close()

    def result(self, clock_mhz, target):
        """`Result` of a process that has ended, for a part; raises ToolError."""
        if self._process.returncode:
            if self.progress.stuck:
                raise ToolError(f"place-and-route: {self.progress.stuck:,} wires stay in conflict, expected none; take a smaller array, by "
                                f"generate --pixels, --lanes and --outputs, or another seed; see {self.folder / LOG}")
            text = (self.folder / LOG).read_text(errors="replace")
            raise failure("place-and-route", self._process.returncode, text.splitlines(), self.folder / LOG)
        report = self.folder / "report.json"
        try:
            text = report.read_text()
        except OSError:
            raise ToolError(f"place-and-route: wrote no report; see {self.folder / LOG}") from None
        return timed(read_report(text, clock_mhz, report), target, self.folder)


def finished(where, seed, key, target):
    """The result of an earlier run with the same inputs for a seed, a dict as `place` returns; None if its files are not there."""
    folder, placed = Path(where) / seed_folder(seed), placed_file(target)
    result = json_object(folder / RESULT)
    names = [placed, PLACEMENT, *([CELLS] if target in DELAYS else ())]
    whole = result and result.get("key") == key and all((folder / name).is_file() for name in names)
    return result if whole else None


def place(commands, where, clock_mhz, target, key, most, tell=lambda share, phase: None):
    """Run {seed: command line of nextpnr} in the folder `where`, `most` at a time.

    clock_mhz: wanted.  target: the part.  key: of the inputs, for `finished`.
    tell(share, phase) is called ten times a second.

    Returns {seed: dict}: what `Result.to_dict` has, "minutes" and `key`; or {"error": text} for a seed
    that could not be routed.  The dict of a seed is written into its folder when the seed is done.  So
    an interrupt, which ends all processes, loses only the seeds at work.
    """
    waiting, running, results = list(commands), [], {}
    try:
        while waiting or running:
            while waiting and len(running) < most:
                seed = waiting.pop(0)
                running.append(Job(commands[seed], where, seed))
            for job in list(running):
                if job.poll() is not None or job.progress.stuck:
                    running.remove(job)
                    job.kill()
                    results[job.seed] = _conclude(job, clock_mhz, target, key)
            done = len(results) + sum(job.progress.share for job in running)
            if running:
                tell(done / len(commands), _phase(running, len(results), len(commands)))
                time.sleep(POLL_SECONDS)
    finally:
        for job in running:
            job.kill()
    return results


def _phase(running, ended, count):
    """The state of the seeds in a few words."""
    slowest = min(running, key=lambda job: job.progress.share)
    return slowest.progress.phase if count == 1 else f"{ended} of {count} seeds done, {slowest.progress.phase}"


def _conclude(job, clock_mhz, target, key):
    """Write the placement and the result of a process that has ended; returns the result."""
    large = job.folder / PLACED
    try:
        reached = job.result(clock_mhz, target)
        cells = placement.read(large)
    except ToolError as error:
        return {"error": str(error)}
    except FileNotFoundError:
        return {"error": f"place-and-route: wrote no {large.name}; see {job.folder / LOG}"}
    (job.folder / PLACEMENT).write_text(json.dumps(cells))
    if target in DELAYS:
        placement.keep(large, job.folder / CELLS)
    for path in (large, job.folder / DELAYED):
        if path.name != placed_file(target):
            path.unlink(missing_ok=True)
    result = {"key": key, "minutes": round((time.monotonic() - job.begin) / 60, 2), **reached.to_dict()}
    (job.folder / RESULT).write_text(json.dumps(result))
    return result


def summary(results):
    """[{"seed", "fmax_mhz", "met", "levels", "minutes"} or {"seed", "error"}] of all seeds, for a record."""
    names = ("fmax_mhz", "met", "levels", "minutes", "error")
    return [{"seed": seed, **{name: result[name] for name in names if name in result}} for seed, result in sorted(results.items())]


def best(results):
    """The seed that reached the highest frequency.  Raises ToolError if no seed could be routed."""
    if all("error" in result for result in results.values()):
        raise ToolError(next(iter(results.values()))["error"])
    return max((seed for seed in results if "error" not in results[seed]), key=lambda seed: (results[seed]["fmax_mhz"], -seed))
