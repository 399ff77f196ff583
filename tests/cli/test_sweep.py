"""The grid, its runs and their table, what goes on after an interrupt, refusals."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fbnn_hw.base import files
from fbnn_hw.base.errors import InputError, UsageError
from fbnn_hw.cli import sweep
from fbnn_hw.train.sweep import finished, grid, resumed

BASE = ("--", *"cil --scenario tiny-2+2x2 --model 0.5mb --replay native --epochs 1 --threads 1 --images 10".split())


def test_grid():
    points = list(grid([("lr", ["1e-3", "3e-3"]), ("seed", ["0", "1"])]))
    assert [name for name, _ in points] == ["lr1e-3-seed0", "lr1e-3-seed1", "lr3e-3-seed0", "lr3e-3-seed1"]
    assert points[1][1] == {"lr": "1e-3", "seed": "1"}
    # A shell completes a folder with a slash.  No path leads out of the folder of the results.
    names = [name for name, _ in grid([("data", ["a/", "b/c/", "C:d", "../../e", r"f\g"])])]
    assert names == ["dataa", "datab.c", "dataC.d", "data......e", "dataf.g"]


def test_the_table_as_csv(cli, refused, tmp_path):
    flags = ("sweep", tmp_path / "runs", "--over", "strategy", "naive", "cumulative", "--table", "--csv", tmp_path / "a.csv")
    assert cli(*flags, *BASE)[0] == 0
    head, naive, cumulative = (tmp_path / "a.csv").read_text().splitlines()
    assert head.startswith("strategy,runs,a_old,a_old_deviation,a_new,") and head.count(",") == 13
    assert naive == "naive,0" + 12 * "," and cumulative == "cumulative,0" + 12 * ","
    assert refused(*flags, *BASE, "--csv", "b.csv") == (2, "fbnn-hw sweep: --csv after cil: each run of a sweep has its own, expected none")
    assert refused(*flags[:-1], "a.txt", *BASE) == (2, "fbnn-hw sweep: --csv a.txt: expected a file name that ends in .csv")


def test_the_page_draws_the_table(cli, tmp_path):
    """The program of docs/cil-paper.md, on the columns that a sweep writes; a row without runs is left out."""
    pytest.importorskip("matplotlib")
    (code,) = re.findall("```python\n(.*?)```", (Path(__file__).parents[2] / "docs/cil-paper.md").read_text(encoding="utf-8"), re.S)
    table = tmp_path / "buffers.csv"
    for over in (("--over", "strategy", "replay", "icarl"), ()):
        assert cli("sweep", tmp_path / "runs", "--csv", table, *over, "--over", "buffer-mb", "1", "2", "5", "--table", *BASE)[0] == 0
        head, *rows = [line.split(",") for line in table.read_text().splitlines()]
        for i, row in enumerate(rows[:-1]):
            row[head.index("a_final")], row[head.index("a_final_deviation")] = str(0.5 + i / 100), "0.01" if i else ""
        table.write_text("\n".join(map(",".join, [head, *rows])) + "\n")
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "buffers.png").read_bytes()[:4] == b"\x89PNG"
        (tmp_path / "buffers.png").unlink()


@pytest.mark.slow
def test_runs_and_table(cli, tmp_path):
    flags = ("sweep", tmp_path / "runs", "--over", "strategy", "naive", "cumulative", "--over", "seed", "0", "1")
    lines = cli(*flags, "--dry-run", *BASE)[1].splitlines()
    assert len(lines) == 4 and lines[1].endswith(f"--strategy naive --seed 1 --out {tmp_path / 'runs' / 'strategynaive-seed1.json'}")
    code, out, err = cli(*flags, "--jobs", "2", *BASE)
    assert code == 0, err
    head, naive, cumulative = out.splitlines()
    assert head.split() == ["strategy", "runs", "a_old", "a_new", "a_final", "d_final", "average_incremental", "forgetting"]
    assert naive.split()[:2] == ["naive", "2"] and cumulative.split()[:2] == ["cumulative", "2"] and naive.count("+-") == 6
    first = json.loads((tmp_path / "runs" / "strategynaive-seed0.json").read_text())
    assert first["seed"] == 0 and first["config"]["strategy"] == "naive"
    assert not cli(*flags, "--dry-run", *BASE)[1]  # nothing left
    assert not cli(*flags, "--dry-run", *BASE, "--threads", "2")[1]
    assert cli(*flags, *BASE, "--lr", "1e-2")[::2] == (
        2, f"fbnn-hw sweep: {tmp_path / 'runs' / 'strategynaive-seed0.json'}: was made with another --lr, expected the same flags; use "
        "another folder\n")


def test_the_same_error_twice_ends_a_sweep(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cil = ("--", *"cil --scenario core50-10x5 --model 0.5mb --replay native --strategy naive".split())
    code, out, err = cli("sweep", tmp_path / "runs", "--over", "seed", "0", "1", "2", "3", *cil)
    first, second, last = (line for line in err.splitlines() if line.startswith("fbnn-hw sweep: "))  # not those of a slow bar
    assert code == 3 and not out.startswith("strategy") and first.replace("seed0", "seed1").replace("--seed 0", "--seed 1") == second
    assert "core50: not found in" in first and last == "fbnn-hw sweep: the same error a second time, so no more runs are started"


def test_an_interrupted_run_goes_on(tmp_path):
    argv = ["cil", "--out", str(tmp_path / "a.json")]
    assert resumed(argv) == argv
    (tmp_path / "a.state").write_bytes(b"")
    assert resumed(argv) == [*argv, "--resume"]


def test_a_failed_run_is_in_the_object_of_json(cli, tmp_path, monkeypatch):
    monkeypatch.setattr("fbnn_hw.train.sweep.local", lambda commands, jobs, done: [3 for _ in commands])
    code, out, _ = cli("sweep", tmp_path, "--json", "--over", "seed", "0", *BASE)
    assert code == 3 and {"error": "a run failed", "exit_code": 3}.items() <= json.loads(out).items()


def test_results_that_began_with_other_weights_are_not_averaged(tmp_path):
    paths = []
    for number, sha in enumerate(("a" * 64, "a" * 64, "b" * 64)):
        paths.append(tmp_path / f"{number}.json")
        paths[-1].write_text(json.dumps({"finished": True, "final": {}, "init": {"sha256": sha}}))
    runs = [({"loss": "cce", "seed": str(number)}, path, finished(path)) for number, path in enumerate(paths)]
    sweep.check_origins(runs[:2])
    sweep.check_origins([*runs[:2], ({"loss": "focal", "seed": "2"}, *runs[2][1:])])
    with pytest.raises(UsageError, match=f"^{paths[2]}: began with other weights .sha256:bbbbbbbb. than {paths[0]} .sha256:aaaa"):
        sweep.check_origins(runs)


@pytest.mark.parametrize("values", [
    {"final": {"a_final": "x"}}, {"sequence": None}, {"sequence": "x"}, {"final": 5}])
def test_a_damaged_result_counts_as_missing(tmp_path, values):
    whole = {"finished": True, "final": {"a_final": 0.5}, "sequence": {"forgetting": None}}
    for content, taken in ((whole, True), (whole | values, False)):
        (tmp_path / "a.json").write_text(json.dumps(content))
        assert (finished(tmp_path / "a.json") is not None) == taken


@pytest.mark.parametrize("command", [5, 'fbnn-hw cil "', "fbnn-hw", "", "fbnn-hw cil --help", "fbnn-hw train -h", "fbnn-hw x --lr 5"])
def test_a_result_without_a_command_line_of_its_verb(command, capsys):
    argv = ["cil", "--scenario", "tiny-2+2x2", "--out", "a.json"]
    sweep.check_same({"command": command}, argv, sweep.parse(argv))
    assert capsys.readouterr() == ("", "")


def test_a_folder_with_a_dash(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = cli("sweep", "./-runs", "--over", "seed", "0", "--dry-run", *BASE)
    assert code == 0 and out.endswith(" --out ./-runs/seed0.json\n"), err


def test_a_run_under_way_is_not_taken_for_finished(tmp_path):
    path = tmp_path / "a.result.json"
    whole = {"finished": True, "train_accuracy": 0.5}
    for values, expected in (({"training": whole}, True), ({"training": whole | {"finished": False}}, False),
                             ({"training": {"finished": True}}, False), ({"finished": True, "final": {}}, True),
                             ({"finished": True}, False)):
        path.write_text(json.dumps(values))
        assert bool(finished(path)) == expected
    path.write_text("{")
    assert finished(path) is None


def test_jobs_of_submitit(cli, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr("fbnn_hw.train.sweep.submit", lambda *args: seen.append(args) or [
        type("Job", (), {"job_id": f"7_{i}"}) for i in range(len(args[0]))])
    flags = ("--submit", "slurm", "--partition", "gpu", "--time", "5", "--submit-options", "x=y")
    code, out, _ = cli("sweep", tmp_path, "--over", "seed", "3", "4", *flags, *BASE)
    (commands, folder, options, cluster), = seen
    assert code == 0 and folder == tmp_path / "logs" and cluster == "slurm" and len(commands) == 2
    assert options == {"slurm_partition": "gpu", "timeout_min": 5, "x": "y"}
    assert out.splitlines()[1].startswith("job 7_1: fbnn-hw cil --scenario tiny-2+2x2")
    # while Slurm has the jobs they are not handed over again, and the table says so
    monkeypatch.setattr("fbnn_hw.train.sweep.queued", lambda ids: {"7_0": "RUNNING"} if "7_0" in ids else {})
    code, out, err = cli("sweep", tmp_path, "--over", "seed", "3", "4", "--table", "--json", *BASE)
    row, = json.loads(out)["rows"]
    assert (row["runs"], row["under_way"]) == (0, 1) and "seed3.json: job 7_0 is running; left alone" in err
    code, out, _ = cli("sweep", tmp_path, "--over", "seed", "3", "4", "--submit", "local", "--json", *BASE)
    assert code == 0 and [job["command"][-60:] for job in json.loads(out)["jobs"]] == [f"--seed 4 --out {tmp_path / 'seed4.json'}"[-60:]]


def test_a_run_under_way_is_not_started_again(cli, refused, tmp_path):
    with files.locked(tmp_path / ".seed0.state.lock", "held by the test"):
        code, out, err = cli("sweep", tmp_path, "--over", "seed", "0", *BASE)
        assert code == 0 and "seed0.json: running; left alone" in err and out.splitlines()[0].split()[1:3] == ["under", "way"]
        assert refused(*BASE[1:], "--strategy", "naive", "--out", tmp_path / "seed0.json") == (
            3, f"fbnn-hw cil: {tmp_path / 'seed0.state'}: its run is under way in another process; wait for it, or choose another --out")


def test_the_lock_of_a_run_goes_with_it(tmp_path):
    path = tmp_path / "a.lock"
    assert not files.held(path)
    with files.sole(path, "taken"):
        assert files.held(path)
        with pytest.raises(InputError, match="^taken$"), files.sole(path, "taken"):
            pass
    assert not path.exists() and not files.held(path)
    path.write_text("")  # left behind by a process that was killed
    assert not files.held(path)
    with files.sole(path, "taken"):
        assert files.held(path)


def test_flags_without_values_and_negative_ones():
    assert list(sweep.words("cil", {"balanced": "yes", "aware": "no", "lr": "-1", "seed": "2"})) == ["--balanced", "--lr=-1", "--seed", "2"]


@pytest.mark.parametrize("flags, line", [
    (("--over", "seed", "0", "--", "inspect", "a.pt"), "inspect: cannot be swept, expected one of train, pretrain, cil, after --"),
    (("--over", "colour", "1", *BASE), "--over colour: not a flag of cil that can be swept, expected one such as seed"),
    (("--over", "out", "1", *BASE), "--over out: not a flag of cil that can be swept, expected one such as seed"),
    (("--over", "epochs", "1", *BASE), "--over epochs: expected one --over with at least one value, and no --epochs after cil"),
    (("--over", "lr", "1", *BASE, "--lr=2"), "--over lr: expected one --over with at least one value, and no --lr after cil"),
    (("--over", "seed", "0", "1", "0", *BASE), "--over seed: found 0 twice, expected each value once"),
    (("--over", "seed", "3", "03", *BASE), "--over seed: found 3 twice, expected each value once"),
    (("--over", "lr", "1e-3", "0.001", *BASE), "--over lr: found 0.001 twice, expected each value once"),
    (("--over", "init", "a", "a/", *BASE), "--over: found inita twice, expected each value once"),
    (("--over", "seed", *BASE), "--over seed: expected one --over with at least one value, and no --seed after cil"),
    (("--over", "balanced", "1", *BASE), "--over balanced 1: takes no value, expected no, yes or both"),
    (("--over", "seed", "0", "--dry-run", "--submit", "local", *BASE), "--dry-run, --table and --submit: expected one of them"),
    (("--over", "seed", "0", "--partition", "x", *BASE), "--partition: is for jobs of a cluster, expected --submit slurm with it"),
    (("--over", "seed", "0", "--submit", "local", "--submit-options", "timeout_min", *BASE),
     "--submit-options timeout_min: expected K=V, with commas between several, such as timeout_min=600"),
    (("--over", "seed", "0", *BASE, "--state", "x"), "--state after cil: each run of a sweep has its own, expected none"),
    (("--over", "seed", "0", *BASE, "--save=x.pt"), "--save after cil: each run of a sweep has its own, expected none"),
    (("--over", "seed", "0", *BASE, "--out=x.json"), "--out after cil: the sweep names the results, expected none"),
    (("--over", "seed", "0", *BASE, "--out", "x.json"), "--out after cil: the sweep names the results, expected none"),
])
def test_refusals(flags, line, refused, tmp_path):
    assert refused("sweep", tmp_path, *flags) == (2, f"fbnn-hw sweep: {line}")


def test_a_folder_without_a_name(refused):
    assert refused("sweep", "", "--over", "seed", "0", *BASE) == (2, "fbnn-hw sweep: FOLDER: found '', expected a folder")


def test_a_wrong_value_is_refused_before_the_first_run(refused, tmp_path):
    code, line = refused("sweep", tmp_path, "--over", "seed", "0", "x", *BASE)
    assert code == 2 and "--seed: found 'x', expected a whole number from 0" in line and not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made(refused, tmp_path):
    (tmp_path / "file").touch()
    assert refused("sweep", tmp_path / "file/runs", "--over", "seed", "0", *BASE) == (
        3, f"fbnn-hw sweep: {tmp_path / 'file/runs'}: no folder can be made there (Not a directory), expected one that can be written")


def test_an_interrupt_says_that_the_runs_are_kept(cli, tmp_path, monkeypatch):
    def interrupted(*_, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("fbnn_hw.train.sweep.local", interrupted)
    code, _, err = cli("sweep", tmp_path, "--over", "seed", "0", "--", "train", "--model", "0.5mb", "--data", "tiny")
    assert (code, err) == (130, "fbnn-hw sweep: interrupted; "
                           "results and states of the runs are kept; the same command goes on from there\n")


def test_each_strategy_takes_what_it_has(cli, tmp_path):
    """Flags without a use for a strategy are left out of its command line; what is wrong otherwise is refused."""
    flags = ("--scenario", "tiny-2+2x2", "--init", tmp_path / "fe.pt", "--balanced", "--loss", "focal", "--buffer-mb", "0.05",
             "--epochs", "1")
    code, out, err = cli("sweep", tmp_path, "--over", "strategy", "naive", "slda", "replay", "cumulative", "--dry-run", "--", "cil", *flags)
    assert code == 0, err
    words = [line.split() for line in out.splitlines()]
    kept = [{"--balanced", "--loss", "--buffer-mb"} & set(line) for line in words]
    assert kept == [{"--loss"}, set(), {"--balanced", "--loss", "--buffer-mb"}, {"--balanced", "--loss"}]
    assert all("--epochs" in line for line in words)
    code, _, err = cli("sweep", tmp_path, "--over", "strategy", "naive", "slda", "--", "cil", *flags, "--lr", "-1")
    assert code == 2 and "--lr" in err
