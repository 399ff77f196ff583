"""A sweep's jobs on a real Slurm: one array, requeued jobs, time limits, runs that are under way.  Skipped where there is no Slurm."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fbnn_hw.train import sweep
from tests import slurm

pytest.importorskip("submitit")
if reason := slurm.missing():
    pytest.skip(reason, allow_module_level=True)

RUN = '''
import json, sys, time
from pathlib import Path
out = Path(sys.argv[sys.argv.index("--out") + 1])
state, log, steps = out.with_suffix(".state"), out.with_suffix(".log"), int(sys.argv[sys.argv.index("--steps") + 1])
begin = int(state.read_text()) if "--resume" in sys.argv else 0
with log.open("a") as file:
    file.write(f"{begin} ")
for step in range(begin, steps):
    time.sleep(0.1)
    state.with_suffix(".new").write_text(str(step + 1))
    state.with_suffix(".new").replace(state)
out.write_text(json.dumps({"finished": True, "final": {}}))
state.unlink()
'''
"""Stands in for a training of `steps` tenths of a second, in the same files, so that the tests take seconds."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with slurm.cluster(tmp_path_factory.mktemp("slurm")):
        yield


@pytest.fixture
def submitted(cluster, tmp_path):
    """submit(steps, ...) -> (jobs, their argv)."""
    def submit(*steps, **options):
        argvs = [["--steps", str(count), "--out", str(tmp_path / f"{i}.json")] for i, count in enumerate(steps)]
        options = {"slurm_additional_parameters": {"signal": "USR2@1"}, "timeout_min": 5, "cpus_per_task": 1, **options}
        return sweep.submit(argvs, tmp_path / "logs", options, "slurm", (sys.executable, "-c", RUN)), argvs

    return submit


def until(condition, job, seconds=60):
    for _ in range(seconds * 5):
        if condition():
            return
        time.sleep(0.2)
    state = subprocess.run(["scontrol", "show", "job", job.job_id], capture_output=True, text=True)
    logs = [path.read_text() for path in Path(os.environ["SLURM_CONF"]).parent.glob("*.log")]
    pytest.fail("\n".join([f"not within {seconds} s", state.stdout + state.stderr, str(job.stdout()), str(job.stderr()),
                           *(log[-4000:] for log in logs)]))


def begins(argv):
    """At which step each start of a run began."""
    return [int(word) for word in Path(argv[-1]).with_suffix(".log").read_text().split()]


def under_way(argv):
    state = Path(argv[-1]).with_suffix(".state")
    return state.exists() and (state.read_text() or "0") > "3"


def test_a_grid_is_one_array_and_runs_in_the_queue_are_left_alone(submitted, tmp_path):
    jobs, argvs = submitted(20, 20, 20)
    assert len({job.job_id.split("_")[0] for job in jobs}) == 1 and [job.job_id.split("_")[1] for job in jobs] == ["0", "1", "2"]
    (tmp_path / sweep.JOBS).write_text(json.dumps({argv[-1]: job.job_id for argv, job in zip(argvs, jobs)}))
    active = sweep.under_way(tmp_path, argvs)
    assert set(active) == {argv[-1] for argv in argvs} and all(" is " in state for state in active.values())
    until(lambda: all(Path(argv[-1]).exists() for argv in argvs), jobs[0])
    assert all(begins(argv) == [0] for argv in argvs)
    until(lambda: not sweep.queued([job.job_id for job in jobs]), jobs[0])
    assert [sweep.finished(sweep.result_path(argv)) for argv in argvs] == [{"finished": True, "final": {}}] * 3


LONG = pytest.mark.skipif(os.environ.get("FBNN_SLURM") != "long", reason="takes 16 seconds more; FBNN_SLURM=long runs it")


@pytest.mark.parametrize("how", (["scontrol", "requeue"], pytest.param(["scancel", "--signal=USR2"], marks=LONG)),
                         ids=("requeue", "the signal before a time limit"))
def test_a_requeued_run_goes_on_from_its_state(submitted, how):
    (job,), (argv,) = submitted(80)
    until(lambda: under_way(argv), job)
    subprocess.run([*how, job.job_id], check=True, capture_output=True)
    until(lambda: Path(argv[-1]).exists(), job, 90)
    first, second = begins(argv)
    assert first == 0 and second > 3


@pytest.mark.skipif(os.environ.get("FBNN_SLURM") != "long", reason="takes three minutes; FBNN_SLURM=long runs it")
def test_a_run_that_reaches_its_time_limit_goes_on(submitted):
    (job,), (argv,) = submitted(900, timeout_min=1, slurm_additional_parameters={}, slurm_signal_delay_s=20)
    until(lambda: Path(argv[-1]).exists(), job, 400)
    assert len(begins(argv)) > 1 and all(begin > 3 for begin in begins(argv)[1:])
