"""Names, values beside each other, missing runs, plots, sweeps."""

import json
import os
from hashlib import sha256

import pytest

from fbnn_hw.base import extras
from fbnn_hw.base.errors import ToolError, UsageError
from fbnn_hw.cli.pretrain import NAMES
from fbnn_hw.nn import checkpoint
from fbnn_hw.report import cil as report
from fbnn_hw.train import sweep
from fbnn_hw.train.exhibits import EXHIBITS
from tests import strategies


def result(seed=0, strategy="replay", mb=5.0, a=0.5, **changes):
    config = {"scenario": "tiny-2+2x2", "strategy": strategy, "replay": "latent", "buffer_mb": mb, "setting": "fpt", "loss": "cce",
              "balanced": True, "aware": False, **changes}
    names = ("old", "new", "seen", "buffer")
    final = {f"{letter}_{name}{part}": a for letter in "ad" for name in (*names, "final") for part in ("", "_train")}
    subsets = {name: {"a": a, "d": 0.1} for name in names}
    history = [{"task": t, "train_accuracy": a, "test_of_each_task": [a] * (t + 1)} for t in (0, 0, 1)]
    return {"kind": "cil", "config": config, "seed": seed, "finished": True, "final": final, "epochs": 7, "history": history,
            "init": {"source": "fe.pt (bits)"}, "tasks": [{"task": t, "test": subsets, "train": subsets} for t in (0, 1)]}


@pytest.fixture
def results(tmp_path):
    for i, values in enumerate((result(0), result(1, a=0.6), result(0, balanced=False, a=0.4), result(0, "naive", 0.0, 0.2, replay="native",
                                                                                                     balanced=False))):
        (tmp_path / f"{i}.json").write_text(json.dumps(values))
    (tmp_path / "other.json").write_text("{}")
    return tmp_path


@pytest.fixture
def refused_after_notes(cli):
    """As `refused`, where a line on stderr may say first which shipped checkpoint is meant."""
    def run(*argv):
        code, _, err = cli(*argv)
        return code, err.strip().splitlines()[-1]

    return run


def test_list_names_every_table_and_figure(cli, answer):
    assert all(f"\n{name} " in cli("reproduce", "--list")[1] for name in EXHIBITS)
    refs = {e["ref"] for e in answer("reproduce", "--list")["exhibits"].values()}
    assert refs >= {"tab:metrics", "tab:1-normalisation", "tab:baseline_cil", "tab:RPT", "tab:FPT", "tab:pt_metrics", "tab:es",
                    "tab:CORE50_benchmark", "baseline:modelstructure", "baseline:evaluation", "fig:baselines_cil",
                    "pretraining:loss_schema", "fig:perf_memorySize", "fig:NewArchitecture", "fig:val_IncrementalLearning"}
    numbers = {e.number for e in EXHIBITS.values()} - {""}
    assert numbers == {f"{kind} {n}" for kind in ("Table", "Figure") for n in range(1, 9)}


def test_side_by_side(cli, answer, results):
    result = answer("reproduce", "table-fpt", "--scenario", "tiny-2+2x2", "--results", results)
    row = next(r for r in result["rows"] if r["label"] == "latent 5 Mb, CCE, weighted")
    assert sorted(row["seeds"]) == [0, 1]
    assert row["metrics"]["a_final"] == {"paper": 0.516, "mean": pytest.approx(0.55), "deviation": pytest.approx(0.0707, abs=1e-4)}
    out = cli("reproduce", "table-fpt", "--scenario", "tiny-2+2x2", "--results", results)[1]
    assert "tiny-2+2x2 stands in for cifar100-50+5x10: the paper's values are of another data set" in out
    assert "51.60% / 55.00% +- 7.07%" in out and "25.60% / -" in out


def test_results_of_other_images_or_checkpoints_do_not_count(answer, cli, results, tmp_path):
    (results / "few.json").write_text(json.dumps(result(0, a=0.9, images=500)))
    (tmp_path / "fe.pt").write_bytes(b"another")
    flags = ("reproduce", "table-fpt", "--scenario", "tiny-2+2x2", "--results", results)
    for more, expected in (((), 0.55), (("--flags=--images 500",), 0.9), (("--init", tmp_path / "fe.pt"), None)):
        row = next(r for r in answer(*flags, *more)["rows"] if r["label"] == "latent 5 Mb, CCE, weighted")
        assert row["metrics"]["a_final"]["mean"] == (expected and pytest.approx(expected))
    (results / "twice.json").write_text(json.dumps(result(1)))
    assert "latent 5 Mb, CCE, weighted: 3 results share seeds, so they differ in recipe or --init" in cli(*flags)[2]


def test_an_init_that_is_missing_is_refused(refused, results):
    flags = ("reproduce", "table-fpt", "--scenario", "tiny-2+2x2", "--results", results)
    code, line = refused(*flags, "--init", "nothing.pt")
    assert code == 3 and line.startswith("fbnn-hw reproduce: --init nothing.pt: no such file, and no shipped checkpoint of that name")


def test_extractors_are_not_averaged(answer, refused_after_notes, results, tmp_path):
    """Results of another extractor beside the first: one of them must be named, by its file or by its hash."""
    (results / "another.json").write_text(json.dumps({**result(5, a=0.9), "init": {"source": "b.pt (bits)", "sha256": "ab" * 32}}))
    flags = ("reproduce", "table-fpt", "--scenario", "tiny-2+2x2", "--results", results)
    code, line = refused_after_notes(*flags)
    assert code == 2 and "has results of 2 pre-trained checkpoints, fe.pt (sha256:None), b.pt (sha256:abababab)" in line
    row = next(r for r in answer(*flags, "--init", "sha256:abababab")["rows"] if r["label"] == "latent 5 Mb, CCE, weighted")
    assert row["seeds"] == [5] and row["metrics"]["a_final"]["mean"] == 0.9


def pretrained(folder, model, accuracy, objective=(), name=None, **more):
    """Write the result of a pre-training."""
    training = {"scenario": "tiny-2+2x2", "model": model, "images_per_class": None, "seed": 0, "norm": "scales", "encoder": "tycc",
                "objective": {"alpha": 1.0, "beta": 0.0, "gamma": 0.0, "features": "intended", **dict(objective)},
                "config": {"K": 1.0}, "all_classes": True, "train_accuracy": accuracy + 0.1, "test_accuracy": accuracy, **more}
    (folder / f"{name or model}.result.json").write_text(json.dumps({"kind": "pretrain", "training": training, "history": []}))


def test_other_terms_and_shapes_are_no_run_of_the_paper(answer, tmp_path):
    pretrained(tmp_path, "0.5mb", 0.5, {"decorrelate": 0.0})
    pretrained(tmp_path, "0.5mb", 0.9, {"decorrelate": 0.03}, "g")
    pretrained(tmp_path, "0.5mb", 0.9, name="gap", pooling="gap")
    row = answer("reproduce", "encoding", "--scenario", "tiny-2+2x2", "--results", tmp_path)["rows"][0]
    assert row["seeds"] == [0] and row["metrics"]["test_accuracy"]["mean"] == 0.5


def test_models_are_not_averaged(answer, refused_after_notes, tmp_path):
    """Pre-trainings of two binary networks: --model names one of them; a float network is no run of an encoder."""
    for model, accuracy in (("0.5mb", 0.5), ("fpnn_p", 0.7)):
        pretrained(tmp_path, model, accuracy)
    flags = ("reproduce", "encoding", "--scenario", "tiny-2+2x2", "--results", tmp_path)
    assert [row["seeds"] for row in answer(*flags)["rows"]] == [[0], []]
    pretrained(tmp_path, "3mb", 0.6)
    code, line = refused_after_notes(*flags)
    assert code == 2 and "has TYCC of 2 models, 0.5mb, 3mb; expected --model with one of them" in line
    for model, accuracy in (("0.5mb", 0.5), ("3mb", 0.6)):
        assert answer(*flags, "--model", model)["rows"][0]["metrics"]["test_accuracy"]["mean"] == accuracy
    assert answer(*flags, "--model", "1mb")["rows"][0]["seeds"] == []


def test_one_result_a_line(answer, tmp_path):
    (tmp_path / "runs.jsonl").write_text("\n".join([json.dumps(result(seed)) for seed in range(3)] + ["", "no json", "[]"]))
    row = next(r for r in answer("reproduce", "table-fpt", "--scenario", "tiny-2+2x2", "--results", tmp_path)["rows"]
               if r["label"] == "latent 5 Mb, CCE, weighted")
    assert row["seeds"] == [0, 1, 2]


def test_a_file_that_holds_no_result_counts_as_missing(answer, results, tmp_path):
    """Objects without the parts that are read, text that is nested without end, a folder, and a pipe that nobody writes to."""
    flags = ("reproduce", "table-fpt", "--scenario", "tiny-2+2x2", "--results", results)
    before = answer(*flags)
    texts = ('{"kind": "cil"}', '{"kind": "pretrain"}', '{"kind": "pretrain", "training": {"scenario": "tiny-2+2x2"}}', "[" * 100_000,
             json.dumps(result() | {"seed": "0"}), json.dumps(result() | {"init": None}), json.dumps(result() | {"config": []}))
    for number, text in enumerate(texts):
        (results / f"odd{number}.json").write_text(text)
        (results / f"odd{number}.jsonl").write_text(text)
    os.mkfifo(results / "pipe.jsonl")
    os.mkfifo(results / "pipe.json")
    (results / "folder.jsonl").mkdir()
    assert answer(*flags) == before and any(row["seeds"] for row in before["rows"])
    assert answer("reproduce", "encoding", "--results", results)["rows"]


def test_runs_that_are_near_are_said(cli, results):
    (results / "near.json").write_text(json.dumps(result(0, mb=1.0, setting="rpt")))
    out = cli("reproduce", "table-rpt", "--scenario", "tiny-2+2x2", "--results", results)[1]
    assert out.splitlines()[-1] == "there are other runs of its setting: 1 of rpt latent 1 Mb"


def test_paper_numbers_are_those_of_the_source():
    rows = {r.label: r.paper for r in EXHIBITS["table-rpt"].rows}
    assert rows["native 50 Mb, FCCE, not weighted"] == {"a_final": 0.375, "d_final": 0.22}
    assert {r.label: r.paper["epochs"] for r in EXHIBITS["table-baselines"].rows} == {
        "naive": 236, "naive-reset": 428, "cumulative": 318, "cumulative-reset": 545}
    rows = {r.label: r.paper for r in EXHIBITS["table-pretraining"].rows}
    assert len(rows) == 20 and rows["SSL, beta 1e-3, gamma 0: pre-training"] == {
        "train_accuracy": 0.6384, "test_accuracy": 0.484, "test_dispersion": 0.17}
    assert rows["regularization + SSL, beta 1e-5, gamma 1e-2: final"] == {"a_final_train": 0.5743, "a_final": 0.5245, "d_final": 0.19}


def test_commands_of_what_is_missing(answer, results, refused):
    flags = ("reproduce", "table-fpt", "--scenario", "tiny-2+2x2", "--results", results, "--dry-run")
    checkpoint.save(results / "fe.pt", strategies.smallest())
    sha = sha256((results / "fe.pt").read_bytes()).hexdigest()
    for path in results.glob("*.json"):
        values = json.loads(path.read_text())
        if values:
            path.write_text(json.dumps({**values, "init": {"source": "fe.pt (bits)", "sha256": sha}}))
    result = answer(*flags, "--init", results / "fe.pt", "--flags=--lr 1e-3")["commands"]
    assert len(result) == 10 and result[0].startswith(
        f"fbnn-hw cil --scenario tiny-2+2x2 --init {results / 'fe.pt'} --setting fpt --replay latent")
    assert all(line.endswith("--lr 1e-3") for line in result)
    assert refused("reproduce", "table-fpt", "--run", "--results", results / "none")[1].endswith(
        "its runs start from a pre-trained network, expected --init FE.pt from fbnn-hw pretrain")


def test_results_of_another_extractor_are_not_replaced(answer, refused_after_notes, tmp_path, monkeypatch):
    run = ("reproduce", "table-rpt", "--scenario", "tiny-2+2x2", "--results", tmp_path, "--init", tmp_path / "fe.pt")
    checkpoint.save(tmp_path / "fe.pt", strategies.smallest())
    line = answer(*run, "--dry-run")["commands"][0]
    path = tmp_path / line.split(" --out ")[1].split()[0].rsplit("/", 1)[1]
    made = result(setting="rpt")
    path.write_text(json.dumps({**made, "init": {"source": "other.pt (bits)", "sha256": "0" * 64}}))
    assert refused_after_notes(*run, "--run") == (
        2, f"fbnn-hw reproduce: {path}: is the result of another --init, --model or --images, and would be replaced; expected another "
           "--results folder")


@pytest.mark.parametrize("damage", [{"final": {"a_final": "x"}}, {"init": {"source": "a", "sha256": [5]}}])
def test_a_damaged_value_makes_no_result(answer, tmp_path, damage):
    (tmp_path / "a.json").write_text(json.dumps({**result(), **damage}))
    rows = answer("reproduce", "table-fpt", "--scenario", "tiny-2+2x2", "--results", tmp_path)["rows"]
    assert not any(row["seeds"] for row in rows)


@pytest.mark.parametrize("exhibit", [e for e in EXHIBITS.values() if e.rows], ids=lambda e: e.name)
def test_every_run_parses(exhibit, answer, tmp_path):
    from fbnn_hw.cli import parser

    checkpoint.save(tmp_path / "fe.pt", strategies.smallest())
    result = answer("reproduce", exhibit.name, "--results", tmp_path, "--init", tmp_path / "fe.pt", "--dry-run")["commands"]
    assert len(result) == len([row for row in exhibit.rows if row.verb])
    for line in result:
        _, verb, *flags = line.split()
        args = parser(verb).parse_args(flags)
        if verb == "cil":
            from fbnn_hw.cli.cil import config
            config(args)


def test_native_replay_of_an_extractor_with_thresholds_is_left_out(cli, tmp_path):
    code, out, err = cli("reproduce", "figure-memory", "--results", tmp_path, "--init", "0.5mb-fe4.pt", "--dry-run")
    native = sum("--replay native" in row.flags for row in EXHIBITS["figure-memory"].rows)
    assert code == 0 and native and "--replay latent" in out and "--replay native" not in out
    assert f"0.5mb-fe4.pt: has thresholds, which the native replay of the paper cannot train; {native} runs are left out" in err


def test_structures(cli):
    assert "2966528" in cli("reproduce", "figure-structure")[1].replace(",", "")
    assert "2955264" in cli("reproduce", "figure-res")[1].replace(",", "")
    assert "13,312 bits a native sample" in cli("reproduce", "table-replay")[1]


def test_usage(refused, refused_after_notes, results):
    assert refused("reproduce", "table-x")[1].startswith("fbnn-hw reproduce: table-x: no such table or figure, expected one of figure-s")
    assert refused("reproduce", "table-x", "--results", "r")[0] == 2
    for flags, line in (
            (("table-fpt", "--run", "--init", "0.5mb-fe4.pt", "--plot", "p"), "--plot: table-fpt is not a plot, expected one of "
             "figure-offline, figure-baselines, figure-losses-rpt, figure-losses-fpt, figure-memory, figure-core50"),
            (("table-fpt", "--run", "--init", "sha256:0123456789"), "--init sha256:0123456789: runs need the file itself, expected a "
             "checkpoint with --run, --dry-run and --submit"),
            (("figure-structure", "--run"), "figure-structure: has no runs of its own, expected no --run, --dry-run and --submit"),
            (("table-fpt", "--flags=--colour 1"), "unknown argument --colour; see fbnn-hw cil --help"),
            (("table-fpt", "--flags", "--lr 1 --seed=5"), "--flags --lr 1 --seed=5: reproduce sets --seed of each run itself, expected "
             "none"),
            (("table-fpt", "--flags", "--out x.json"), "--flags --out x.json: reproduce sets --out of each run itself, expected none"),
            (("encoding", "--seeds", "0", "1", "0"), "--seeds: found 0 twice, expected each value once"),
            (("encoding", "--model", "5mb", "--dry-run"), f"--model 5mb: expected one of {', '.join(NAMES)}; did you mean 0.5mb?"),
            (("table-fpt", "--flags", "'x"), "--flags 'x: No closing quotation, expected flags as a shell takes them")):
        code, said = refused_after_notes("reproduce", *flags, "--results", results / "none")
        assert (code, said) == (2, f"fbnn-hw reproduce: {line}")


def test_other_methods_of_a_table_are_beside_ours(cli, tmp_path):
    out = cli("reproduce", "table-core50", "--results", tmp_path)[1]
    assert "53.96% / -" in out and "DualNet 57.64 +- 1.36, 38.76 +- 1.52" in out


def test_plots(results, answer):
    pytest.importorskip("matplotlib")
    for size, accuracy in (("0.5mb", 0.5), ("3mb", 0.6), ("fpnn_p", 0.7), ("fpnn_b-9mb", 0.4)):
        pretrained(results, size, accuracy)
    for name in ("figure-memory", "figure-losses-fpt", "figure-baselines", "figure-offline"):
        figure = answer("reproduce", name, "--scenario", "tiny-2+2x2", "--results", results, "--plot", results / "plots")
        assert [p.rsplit(".", 1)[1] for p in figure["plots"]] == ["png", "svg"]
        assert (results / "plots" / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
    offline = EXHIBITS["figure-offline"]
    for published in (True, False):
        drawn = [json.loads((results / f"{size}.result.json").read_text()) for size in ("0.5mb", "fpnn_p")]
        report.draw(offline, drawn, results / f"{published}", published)
        assert ("dotted: published by others" in (results / f"{published}/figure-offline.svg").read_text()) == published
    assert [round(report._megabits(name, 10), 2) for name in ("0.5mb", "1mb", "fpnn_p-1mb")] == [0.53, 1.09, 34.82]  # at ten classes
    report.save(report.tasks([result()]), results / "plots", "tasks")
    svg = (results / "plots" / "tasks.svg").read_bytes()
    report.save(report.tasks([result()]), results / "plots", "tasks")
    assert svg == (results / "plots" / "tasks.svg").read_bytes()


def test_parallel_processes():
    codes, lines = [], []
    result = sweep.local([["--version"], ["no-such-verb"], ["--version"]], 2, done=lambda i, code, line: lines.append((i, code, line)))
    assert result == [0, 2, 0] and sorted(i for i, *_ in lines) == [0, 1, 2] and not codes
    assert next(line for i, _, line in lines if i == 1).startswith("fbnn-hw: no-such-verb: no such command")


def test_a_process_that_says_much_does_not_stop():
    program = (__import__("sys").executable, "-c", "import sys; sys.stderr.write('x' * 200_000 + '\\rlast'); sys.exit(3)")
    lines = []
    assert sweep.local([[]], 1, done=lambda *result: lines.append(result), program=program) == [3] and lines == [(0, 3, "last")]


def test_submitit(tmp_path, monkeypatch):
    pytest.importorskip("submitit")
    jobs = sweep.submit([["--version"], ["nothing"]], tmp_path, {"timeout_min": 5}, cluster="local")
    assert [job.result() for job in jobs] == [0, 2]


def test_options_that_submitit_lacks(tmp_path):
    pytest.importorskip("submitit")
    with pytest.raises(UsageError, match="^--submit-options: Parameter 'colour' need to be prefixed by an executor name"):
        sweep.submit([["--version"]], tmp_path, {"colour": 5}, cluster="local")


def test_without_submitit(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "submitit", None)
    with pytest.raises(ToolError) as error:
        sweep.submit([["--version"]], tmp_path)
    assert str(error.value) == "submitit: not installed, expected for --submit; " + extras.installing("cil")


def test_the_object_of_runs_that_fail_or_are_submitted(cli, tmp_path, monkeypatch):
    checkpoint.save(tmp_path / "fe.pt", strategies.smallest())
    flags = ("reproduce", "table-fpt", "--init", tmp_path / "fe.pt", "--results", tmp_path, "--json")
    monkeypatch.setattr(sweep, "local", lambda commands, jobs, done: [0, 3])
    code, out, _ = cli(*flags, "--run")
    assert code == 3 and json.loads(out) == {"json_version": 2, "name": "table-fpt", "error": "a run failed", "exit_code": 3}
    monkeypatch.setattr(sweep, "submit", lambda commands, *_: [type("Job", (), {"job_id": "7"}) for _ in commands])
    code, out, _ = cli(*flags, "--submit", "slurm")
    assert code == 0 and len(json.loads(out)["jobs"]) == 12
