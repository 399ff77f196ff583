"""Several seeds at once, with a nextpnr that is a script."""

import json
import os
import signal
import time

import pytest

from fbnn_hw.base.errors import ToolError
from fbnn_hw.fpga import seeds, toolchain
from tests.fpga.nextpnr import reached

FLOW = toolchain.FLOWS["ice40"]


def run(program, where, numbers, most, tell=lambda share, phase: None):
    commands = {seed: [program, *toolchain.commands("ice40", "sg48", 36, seed)[1]] for seed in numbers}
    return seeds.place(commands, where, 36, "ice40", "key", most, tell)


def test_the_best_of_three(nextpnr, tmp_path):
    program = nextpnr(f"if [ $seed = 1 ]; then {reached(30)}elif [ $seed = 2 ]; then {reached(50)}else {reached(40)}fi")
    results = run(program, tmp_path, (1, 2, 3), 2)
    assert seeds.best(results) == 2 and [round(results[seed]["fmax_mhz"], 3) for seed in (1, 2, 3)] == [30, 50, 40]
    assert [known["met"] for known in seeds.summary(results)] == [False, True, True]
    for seed in (1, 2, 3):
        folder = tmp_path / f"seed-{seed}"
        assert not {"placed.json", "delays.sdf"} & {path.name for path in folder.iterdir()}
        assert json.loads((folder / "placement.json").read_text())["components"] == {"pins and clock": [[3, 5, 2]], "link": [[3, 5, 1]]}
        assert seeds.finished(tmp_path, seed, "key", "ice40") == results[seed]
        assert seeds.finished(tmp_path, seed, "other", "ice40") is None
    (tmp_path / "seed-1" / "placed.txt").unlink()
    (tmp_path / "seed-2" / "result.json").write_text("{")
    assert [seeds.finished(tmp_path, seed, "key", "ice40") for seed in (1, 2, 7)] == [None] * 3


def test_as_many_at_a_time_as_asked_for(nextpnr, tmp_path):
    program = nextpnr("date +%s.%N > $report.begin; sleep 0.4; date +%s.%N > $report.end\n" + reached(40))
    run(program, tmp_path, range(4), 2)
    times = sorted((float((tmp_path / f"seed-{i}" / f"report.json.{name}").read_text()), step)
                   for i in range(4) for name, step in (("begin", 1), ("end", -1)))
    running, most = 0, 0
    for _, step in times:
        running += step
        most = max(most, running)
    assert most == 2


def test_a_seed_that_cannot_be_routed_is_told(nextpnr, tmp_path):
    program = nextpnr('if [ $seed = 2 ]; then echo "ERROR: no way"; exit 1; fi\n' + reached(40))
    results = run(program, tmp_path, (1, 2), 2)
    assert results[2] == {"error": f"place-and-route: no way; see {tmp_path / 'seed-2' / 'place.log'}"} and seeds.best(results) == 1


def test_a_seed_whose_wires_stay_in_conflict_is_given_up(nextpnr, tmp_path):
    rounds = "".join(f'echo "Info: iter={i} wires=9 overused={2000 + i} overuse=1"; ' for i in range(9))
    results = run(nextpnr(f"if [ $seed = 2 ]; then {rounds} exec sleep 600; fi\n" + reached(40)), tmp_path, (1, 2), 2)
    assert results[2]["error"].startswith("place-and-route: 2,000 wires stay in conflict, expected none; take a smaller array")
    assert seeds.best(results) == 1


def test_what_an_earlier_run_placed_counts(nextpnr, tmp_path):
    """A call that places only what an interrupt left, and fails at that, has the earlier seeds beside it."""
    program = nextpnr('if [ $seed = 2 ]; then echo "ERROR: no way"; exit 1; fi\n' + reached(40))
    earlier, later = run(program, tmp_path, (1,), 1), run(program, tmp_path, (2,), 1)
    assert seeds.best(earlier | later) == 1
    with pytest.raises(ToolError, match="^place-and-route: no way; see .*seed-2/place.log$"):
        seeds.best(later)


@pytest.mark.parametrize("text, message", [
    ("exit 0", "place-and-route: wrote no report; see .*place.log"), ("echo {} > $report", ".*report.json: not a report of nextpnr .*"),
    (reached(40) + "rm $placed\n", ".*placed.json: not a placed and routed design .*; build again with --rebuild"),
    (reached(40) + "rm $delays\n", ".*placed.json: not a placed and routed design .*; build again with --rebuild"),
    (reached(40) + "echo {} > $placed\n", ".*placed.json: not a placed and routed design .*; build again with --rebuild"),
    ("kill -9 $$", "place-and-route: ended by signal 9, perhaps for want of memory; see .*place.log")])
def test_a_run_that_fails(nextpnr, tmp_path, text, message):
    with pytest.raises(ToolError, match=f"^{message}$"):
        seeds.best(run(nextpnr(text), tmp_path, (1,), 1))


def test_a_tool_that_does_not_start(tmp_path):
    (tmp_path / "tool").touch()
    with pytest.raises(ToolError, match="^place-and-route: .*tool does not start \\(Permission denied\\)$"):
        run(str(tmp_path / "tool"), tmp_path, (1,), 1)


def test_an_interrupt_ends_all_and_keeps_what_is_done(nextpnr, tmp_path):
    """Ctrl-C while seeds 2 and 3 run: both are gone within two seconds, seed 1 stays."""
    program = nextpnr(f"echo $$ > $report.pid\nif [ $seed = 1 ]; then {reached(40)}exit; fi\nexec sleep 60")
    pids = [tmp_path / f"seed-{seed}" / "report.json.pid" for seed in (2, 3)]
    asked = []

    def tell(share, phase):
        if not asked and all(pid.exists() and pid.read_text() for pid in pids):
            asked.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(program, tmp_path, (1, 2, 3), 2, tell)
    assert time.monotonic() - asked[0] < 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid.read_text()), 0)
    assert seeds.finished(tmp_path, 1, "key", "ice40")["fmax_mhz"] == pytest.approx(40)
    assert seeds.finished(tmp_path, 2, "key", "ice40") is None


def test_how_many_at_once(monkeypatch):
    monkeypatch.setattr(seeds.os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    for free, count, most in ((None, 20, 8), (None, 3, 3), (1.6e9, 20, 3), (1e6, 4, 1), (1e12, 20, 8)):
        monkeypatch.setattr(seeds, "_free_bytes", lambda free=free: free)
        assert seeds.at_once(FLOW, count) == most, (free, count)


def test_free_memory():
    free = seeds._free_bytes()
    assert free is None or 1e6 < free < 1e14
