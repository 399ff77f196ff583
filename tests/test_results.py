"""The pages of results say what the files of runs beside them say, and so do the pictures."""

import importlib.util
import json
import os
import re
import shlex
from pathlib import Path
from statistics import mean

import pytest

from fbnn_hw.train.cil_config import CilConfig
from fbnn_hw.train.exhibits import EXHIBITS

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
PAGES = [page for page in sorted(RESULTS.glob("*.md")) if "<!-- runs: " in page.read_text(encoding="utf-8")]


@pytest.fixture(scope="module")
def tables():
    spec = importlib.util.spec_from_file_location("cil_tables", ROOT / "docs" / "benchmarks" / "cil_tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_tables_of_a_page_are_those_of_its_files(tables, page):
    assert tables.written(page) == page.read_text(encoding="utf-8")


def test_there_are_pages():
    assert PAGES


def test_the_tables_of_the_papers_data_are_those_of_its_files(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs" / "benchmarks")
    import paper_tables

    page = RESULTS / "cifar100-50+5x10.md"
    assert "<!-- paper: table-pretraining -->" in (text := page.read_text(encoding="utf-8"))
    assert paper_tables.written(page) == text


def test_the_rows_of_latent_replay_find_their_runs(monkeypatch):
    """Each row that the queue's runs `latent-s*` have finds the runs whose configuration its flags give, and no others."""
    monkeypatch.syspath_prepend(ROOT / "docs" / "benchmarks")
    import cil_rows
    import paper_tables

    folder, scenario = paper_tables.Folder("cifar100-50+5x10"), "cifar100-50+5x10"
    chosen = [CilConfig(scenario, **choice).to_dict() for choice in cil_rows.ROWS["paper"] for _ in range(paper_tables.SEEDS)]
    folder.latents = [{"config": config} for config in chosen]
    rows = [row for name in ("figure-memory", "table-fpt", "table-rpt") for row in EXHIBITS[name].rows if "latent" in row.label]
    assert len(rows) == 22
    for row in rows:
        done, missing = folder.runs(row)
        assert missing is None and len({json.dumps(run["config"]) for run in done}) == 1, row


@pytest.mark.parametrize("path", [path for path in sorted(RESULTS.rglob("*.jsonl")) if path.name != "queue.jsonl"],
                         ids=lambda path: path.name)
def test_the_scores_of_a_run_follow_from_its_confusion_matrices(path):
    """Accuracies, averages and forgetting once more, by other means."""
    lines = path.read_text().splitlines()
    for run in map(json.loads, lines[::max(1, len(lines) // 20)]):
        matrices = [task["confusion"] for task in run["tasks"]]
        last = matrices[-1]
        right = sum(last[c][c] for c in range(len(last)))
        assert run["final"]["a_final"] == pytest.approx(right / sum(map(sum, last)), abs=1e-5)
        sizes = [len(task["classes"]) for task in run["tasks"]]
        starts = [sum(sizes[:i]) for i in range(len(sizes))]

        def of(t, j, matrices=matrices, sizes=sizes, starts=starts):
            classes = range(starts[j], starts[j] + sizes[j])
            return sum(matrices[t][c][c] for c in classes) / sum(sum(matrices[t][c]) for c in classes)

        past = range(len(sizes) - 1)
        if past:
            forgotten = mean(max(of(t, j) for t in range(j, len(sizes) - 1)) - of(len(sizes) - 1, j) for j in past)
            assert run["sequence"]["forgetting"] == pytest.approx(forgotten, abs=1e-5)


def test_the_pictures_are_those_of_the_files(tmp_path):
    """Each shipped SVG is what its command, on the page beside it, draws now; where another matplotlib drew it, nothing is compared.

    A picture takes fifteen seconds: the first, or with FBNN_PICTURES=all every one.
    """
    matplotlib = pytest.importorskip("matplotlib")
    from fbnn_hw.cli import main

    commands = re.findall(r"^    fbnn-hw (reproduce .*--plot docs/results/figures)$", (RESULTS / "cifar10-4+3x2-500.md").read_text(), re.M)
    assert commands
    compared = 0
    for command in commands if os.environ.get("FBNN_PICTURES") == "all" else commands[:1]:
        words = [word.strip('"') for word in re.findall(r'"[^"]*"|\S+', command)]
        shipped = RESULTS / "figures" / f"{words[1]}.svg"
        if f"Matplotlib v{matplotlib.__version__}" not in shipped.read_text():
            continue
        words[words.index("--plot") + 1] = str(tmp_path)
        words[words.index("--results") + 1] = str(ROOT / words[words.index("--results") + 1])
        assert main(words) == 0
        assert (tmp_path / shipped.name).read_text() == shipped.read_text(), f"{shipped.name}: draw it anew with fbnn-hw {command}"
        compared += 1
    if not compared:
        pytest.skip("the pictures were drawn by another matplotlib")


def test_the_page_on_omniglot_says_what_its_study_found():
    page = " ".join((RESULTS / "omniglot.md").read_text(encoding="utf-8").split())
    study = json.loads((RESULTS / "omniglot" / "study.json").read_text())
    study, above = study["binary"], study["float"]["learners"]["nearest mean, float"]
    learned, finer, mean_ = (study["integer_learner"]["4"]["250"], study["means"]["4"]["250"], study["learners"]["nearest mean, float"])
    for cell in (f"| {100 * above:.1f} |", f"| {100 * mean_:.1f} |", f"| {100 * learned:.1f} |",
                 f"{100 * (mean_ - learned):.1f} points below a float nearest mean on the same latents",
                 f"With `means` it is {100 * (above - finer):.1f} and {100 * (mean_ - finer):.1f} points below",
                 f"`extractor.pt` with `means`: {100 * finer:.1f} %, {100 * (above - finer):.1f} points below",
                 f"**{100 * study['one_shot_error']:.1f} % wrong**"):
        assert cell in page, cell
    longer = json.loads((RESULTS / "omniglot" / "longer.json").read_text())
    last, wrong = (longer["binary"]["integer_learner"]["4"]["250"], longer["binary"]["one_shot_error"])
    above_it = longer["float"]["learners"]["nearest mean, float"]
    assert f"{100 * last:.1f} % with the integer learner, and {100 * wrong:.1f} % wrong in the one-shot test: a" in page
    assert f"gave {100 * above_it:.1f} % with a nearest mean" in page
    assert f"{100 * (above_it - finer):.1f} points below it with `means`, {100 * (above_it - learned):.1f} with `prototypes`. The" in page
    wide, wide_longer = (json.loads((RESULTS / "omniglot" / f"{name}.json").read_text()) for name in ("wide", "wide-longer"))
    signs, its = (wide["binary"][rule]["4"]["250"] for rule in ("integer_learner", "means"))
    above, above_it = (each["float"]["learners"]["nearest mean, float"] for each in (wide, wide_longer))
    for cell in (f"`wide.pt` with `means`: {100 * its:.1f} %, {100 * (above - its):.1f} and {100 * (above_it - its):.1f} points below",
                 f"{100 * (above_it - its):.1f} points below it with `means`, {100 * (above_it - signs):.1f} with `prototypes`. No bits",
                 f"rule `means` | {100 * finer:.1f} % | **{100 * its:.1f} %** |",
                 f"rule `prototypes` | {100 * learned:.1f} % | {100 * signs:.1f} % |",
                 f"| {100 * study['one_shot_error']:.1f} % wrong | **{100 * wide['binary']['one_shot_error']:.1f} % wrong** |",
                 f"float training of 4,500 steps gave {100 * above_it:.1f} %"):
        assert cell in page, cell
    for width, scores in study["counters"].items():
        cells = (f"{100 * scores[name]:.1f}" for name in ("signs", "sum of counters", "nearest counters"))
        assert f"| {width} | {' | '.join(cells)} |" in page


def test_the_commands_of_the_queue_are_legal():
    """Each training parses, its recipe is legal, and it reads no file that neither ships nor comes from a run that it needs."""
    from fbnn_hw.cli import parser
    from fbnn_hw.cli.train import recipe, refuse_idle

    runs = [json.loads(line) for line in (RESULTS / "queue.jsonl").read_text().splitlines()]
    shipped = {path.name for path in (ROOT / "fbnn_hw" / "checkpoints").iterdir()}
    kept, seen = {run["name"]: set(run["files"]) for run in runs}, 0
    for run in runs:
        there = shipped.union(*(kept[name] for name in run["needs"]))
        for command in run["command"].split(" && "):
            first, verb, *words = shlex.split(command)
            if first != "fbnn-hw" or verb not in ("train", "pretrain"):
                continue
            args, seen = parser(verb).parse_args(words), seen + 1
            refuse_idle(args)
            recipe(args).verify()
            assert {*args.teacher, *([args.init] if args.init else [])} <= there, run["name"]
            there.add(args.out)
            assert args.seed == run["seed"], run["name"]
    assert seen > 20
