"""`pretrain`, then `cil`, on the synthetic scenario; wrong flags; missing data."""

import csv
import hashlib
import json
import os
import shutil
import sys

import pytest
import torch

from fbnn_hw.ir import ops as op
from fbnn_hw.ir import shipped
from fbnn_hw.ir.network import Topology
from fbnn_hw.nn import checkpoint
from tests import strategies


@pytest.fixture(scope="module")
def extractor(tmp_path_factory):
    """A checkpoint of `pretrain`, one epoch."""
    import fbnn_hw.cli as command

    folder = tmp_path_factory.mktemp("fe")
    assert command.main(["pretrain", "--model", "0.5mb", "--scenario", "tiny-2+2x2", "--epochs", "1", "--lr", "1e-3", "--c", "1",
                         "--beta", "1e-5", "--gamma", "1e-2", "--out", str(folder / "fe.pt"), "--threads", "1"]) == 0
    torch.set_num_threads(1)
    return folder / "fe.pt"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("FBNN_DATA", raising=False)


BASE = ["cil", "--scenario", "tiny-2+2x2", "--buffer-mb", "0.05", "--epochs", "2", "--threads", "1"]


def test_pretrain_writes_how_it_came_about(extractor):
    values = json.loads(extractor.with_suffix(".result.json").read_text())
    assert values["kind"] == "pretrain" and values["training"]["objective"] == {
        "alpha": 1.0, "beta": 1e-5, "gamma": 1e-2, "features": "intended", "decorrelate": 0.0}
    assert values["training"]["test_images"] == 80 and values["training"]["scenario"] == "tiny-2+2x2"


def test_a_run(extractor, answer, cli, tmp_path):
    result = answer(*BASE, "--init", extractor, "--out", tmp_path / "a.json", "--save", tmp_path / "net.pt", "--balanced", "--seed", "3")
    stored = json.loads((tmp_path / "a.json").read_text())
    assert stored["final"] == result["final"] and stored["seed"] == 3 and stored["config"]["balanced"] and len(stored["history"]) == 4
    assert stored["init"]["source"] == "fe.pt (proxies)" and set(stored["versions"]) == {"fbnn-hw", "torch", "numpy", "python"}
    few = answer(*BASE, "--init", extractor, "--out", tmp_path / "few.json", "--images", "20")
    assert few["config"]["images"] == 20 and few["final"] != result["final"]
    assert stored["ledger"]["bits_per_sample"] == 1024 and not (tmp_path / "a.state").exists()
    assert answer("inspect", tmp_path / "net.pt")["classes"] == stored["classes"]
    code, out, _ = cli(*BASE, "--init", extractor, "--out", tmp_path / "b.json", "--setting", "rpt")
    assert code == 0 and out.startswith("buffer: 50,000 bits / 1,024 a sample = 48 samples, 8.0 a class at 6; with labels of 3 bits it")
    assert "final: accuracy" in out and "a_buffer_train" in out


@pytest.mark.parametrize("layers, line", [
    ((op.Gap("gap", ("pool",)), op.Dense("latent", ("gap",), 8), op.Concat("last", ("latent", "gap"))),
     "layer last: is after the latent and a concat of latent, gap, expected concat, dense, duplicate, shuffle, slice of latent, a vector "
     "of bits, and of layers after it; cil --replay native takes any network"),
    ((op.Gap("last", ("pool",)),), "{}: has no layer named latent before its last, expected a feature extractor that ends in one")])
def test_an_extractor_of_other_layers(refused, tmp_path, layers, line):
    ops = (op.Thermometer("input", (), "tycc", 16, 4), op.MaxPool("pool", ("input",)), *layers)
    name = "logits" if len(layers) > 1 else "latent"
    checkpoint.save(tmp_path / "x.pt", strategies.fill(Topology("x", (*ops, op.Dense(name, ("last",), 2, logits=True)), ("a", "b")), 1))
    assert refused(*BASE, "--init", tmp_path / "x.pt", "--out", tmp_path / "a.json") == (
        3, f"fbnn-hw cil: {line.format(tmp_path / 'x.pt')}")


def test_an_extractor_that_knows_the_classes_to_come_is_named(cli, extractor, tmp_path):
    """Its own pre-training has two classes alone, an offline training has all six."""
    assert "was trained on" not in cli(*BASE, "--init", extractor, "--out", tmp_path / "a.json")[2]
    assert cli("train", "--model", "0.5mb", "--data", "tiny", "--epochs", "1", "--out", tmp_path / "all.pt", "--threads", "1")[0] == 0
    shutil.move(tmp_path / "all.pt", tmp_path / "alone.pt")
    code, _, told = cli(*BASE, "--init", tmp_path / "alone.pt", "--out", tmp_path / "b.json")
    assert code == 0 and "alone.pt (bits) was trained on" in told, told


def test_a_run_from_random_weights(answer, tmp_path):
    result = answer("cil", "--scenario", "tiny-2+2x2", "--model", "0.5mb", "--replay", "native", "--strategy", "naive", "--epochs", "1",
                   "--threads", "1", "--out", tmp_path / "n.json")
    assert result["ledger"] is None and result["init"]["source"] == "random weights"


def test_a_table_a_picture_and_the_forward_transfer(answer, refused, extractor, tmp_path):
    pytest.importorskip("matplotlib")
    flags = ("cil", "--scenario", "tiny-2+2x2", "--init", extractor, "--epochs", "2", "--lr", "1e-3", "--threads", "1")
    alone = answer(*flags, "--strategy", "naive-reset", "--out", tmp_path / "alone.json")
    assert alone["sequence"]["forward_transfer"] is None
    result = answer(*flags, "--strategy", "ncm", "--out", tmp_path / "a.json", "--csv", tmp_path / "a.csv", "--plot", tmp_path / "a.png",
                    "--alone", tmp_path / "alone.json")
    rows, reference = result["sequence"]["task_matrix"], alone["sequence"]["task_matrix"]
    assert result["sequence"]["forward_transfer"] == pytest.approx(rows[1][1] - reference[1][1])
    lines = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    assert [int(line["task"]) for line in lines] == [1, 2]
    for line, task in zip(lines, result["tasks"]):
        assert float(line["a_seen"]) == task["test"]["seen"]["a"] and float(line["d_new_train"]) == task["train"]["new"]["d"]
        assert float(line["a_validation"]) == task["validation"] and line["a_PT"] == ""
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG" and "<svg" in (tmp_path / "a.svg").read_text()
    code, line = refused(*flags, "--strategy", "ncm", "--out", tmp_path / "b.json", "--alone", tmp_path / "a.json")
    assert code == 3 and line.endswith("a.json: is of --strategy ncm with 4 classes, expected a finished run of --strategy naive-reset "
                                       "with the same 4 classes in the same order")
    assert not (tmp_path / "b.json").exists()


def test_the_classifier_of_an_ablation(answer, tmp_path):
    flags = ("--scenario", "tiny-2+2x2", "--epochs", "1", "--threads", "1")
    answer("pretrain", "--model", "0.5mb", *flags, "--depth", "2", "--pooling", "gap", "--latent", "64", "--decorrelate", "0.03",
           "--out", tmp_path / "fe.pt")
    values = json.loads((tmp_path / "fe.result.json").read_text())["training"]
    assert (values["depth"], values["pooling"], values["latent"], values["objective"]["decorrelate"]) == (2, "gap", 64, 0.03)
    for setting in ("fpt", "rpt"):
        result = answer("cil", *flags, "--init", tmp_path / "fe.pt", "--buffer-mb", "0.01", "--setting", setting,
                        "--out", tmp_path / f"{setting}.json")
        assert result["ledger"]["bits_per_sample"] == 64


@pytest.mark.parametrize("verb", [
    ("pretrain", "--model", "0.5mb"), ("cil", "--model", "0.5mb", "--replay", "native", "--strategy", "naive"),
    ("chip-cil", "--model", "tiny.pt")])
def test_a_scenario_whose_order_is_none(refused, tmp_path, monkeypatch, verb):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fbnn_twice.py").write_text("from fbnn_hw.train.scenarios import Scenario\nclass Twice(Scenario):\n"
                                            "    def class_order(self, seed, again=None):\n        return 0, 1, 2, 3, 4, 4\n"
                                            "TWICE = Twice('', 'tiny', 'tiny', 2, 2, 2)\n")
    code, line = refused(*verb, "--scenario", "fbnn_twice:TWICE")
    assert code == 2 and line.endswith(": class_order gives 4, expected 6 or more numbers of classes of tiny, 0 to 5, each once")


def test_a_scenario_without_pre_training(answer, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fbnn_bare.py").write_text("from fbnn_hw.train.scenarios import Scenario\nBARE = Scenario('', 'tiny', None, 0, 3, 2)\n")
    flags = ("--scenario", "fbnn_bare:BARE", "--model", "0.5mb", "--epochs", "1", "--threads", "1")
    assert refused("pretrain", *flags) == (2, "fbnn-hw pretrain: --scenario fbnn_bare:BARE: has no pre-training; expected fbnn-hw cil with "
                                              "--model and --replay native, or --all-classes")
    result = answer("cil", *flags, "--replay", "native", "--buffer-mb", "0.1", "--out", "a.json")
    assert len(result["tasks"]) == 3 and len(result["classes"]) == 6


def test_knobs(answer, refused, extractor, tmp_path):
    flags = ("cil", "--scenario", "tiny-2+2x2", "--init", extractor, "--strategy", "slda-low-rank", "--images", "10", "--threads", "1")
    result = answer(*flags, "--knob", "rank=3", "--knob", "shrinkage=0.2", "--out", tmp_path / "a.json")
    assert result["config"]["knobs"] == {"rank": 3, "shrinkage": 0.2}
    assert refused(*flags, "--knob", "rank=3", "--knob", "rank=4") == (2, "fbnn-hw cil: --knob: found rank twice, expected each value once")
    code, line = refused(*flags, "--knob", "rank")
    assert code == 2 and "--knob" in line and "rank" in line


@pytest.mark.parametrize("flags, line", [
    ([], "--init and --model: expected one of them, a pre-trained checkpoint or an architecture with random weights"),
    (["--strategy", "naive", "--init", "x.pt"], "--buffer-mb 0.05: --strategy naive has no buffer, expected --strategy replay"),
    (["--seed", "4294967296", "--init", "x.pt"],
     "--seed: found '4294967296', expected a whole number from 0, below 2^32; see fbnn-hw cil --help"),
    (["--out", "a.txt", "--init", "x.pt"], "--out a.txt: expected a file name that ends in .json"),
    (["--csv", "a.txt", "--init", "x.pt"], "--csv a.txt: expected a file name that ends in .csv"),
    (["--plot", "a.svg", "--init", "x.pt"], "--plot a.svg: expected a file name that ends in .png"),
    (["--save", "a.txt", "--init", "x.pt"], "--save a.txt: expected a file name that ends in .pt"),
    (["--images", "1000", "--model", "0.5mb"], "--images 1000: class pattern0 has 40, expected at most that many"),
    (["--model", "0.5mb"], "--replay latent: a random feature extractor is of no use, expected --init with a pre-trained checkpoint"),
])
def test_usage_errors(flags, line, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refused(*BASE, *flags) == (2, f"fbnn-hw cil: {line}")


def test_where_nothing_can_be_written_is_said_before_the_run(refused, extractor, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "other.json").write_text('{"name": "of another program"}')
    (tmp_path / "alone.json").write_text('{"kind": "cil"}')
    (tmp_path / "folder").mkdir()
    nowhere = f"{tmp_path}/file is not a folder that can be written, expected a file name in one that can"
    state = extractor.with_suffix(".state")
    for flags, line in (
            (("--out", "file/a.json"), f"file/a.json: {nowhere}"),
            (("--save", "file/a.pt"), f"file/a.pt: {nowhere}"),
            (("--state", "file/sub/a.state"), f"file/sub/a.state: {nowhere}"),
            (("--state", "folder"), "folder: is a directory, expected a file name"),
            (("--out", "a.json", "--state", "a.json"), "a.json: is the name of two files of this run, expected another one for --state"),
            (("--save", "a.pt", "--state", "./a.pt"), "a.pt: is the name of two files of this run, expected another one for --state"),
            (("--out", "other.json", "--restart"), "--out other.json: is no result of fbnn-hw cil, which it would replace; expected "
             "another name"),
            (("--alone", "alone.json", "--out", "./alone.json", "--restart"), "alone.json: is the file of --alone, expected another name"),
            (("--alone", "t.csv", "--csv", "t.csv"), "t.csv: is the file of --alone, expected another name"),
            (("--save", extractor), f"{extractor}: is the file of --init, expected another name"),
            (("--state", state, "--restart"), f"{state}: is the training state of --init, expected another name")):
        assert refused(*BASE, "--init", extractor, *flags) == (2, f"fbnn-hw cil: {line}")
    assert refused("pretrain", "--model", "0.5mb", "--scenario", "tiny-2+2x2", "--init", extractor, "--out", extractor, "--restart") == (
        2, f"fbnn-hw pretrain: {extractor}: is the file of --init, expected another name")
    assert refused("train", "--model", "0.5mb", "--data", "fixture", "--out", "file/m.pt") == (2, f"fbnn-hw train: file/m.pt: {nowhere}")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["alone.json", "file", "folder", "other.json"]


def test_result_and_state_in_different_folders(answer, extractor, tmp_path):
    answer(*BASE, "--init", extractor, "--out", tmp_path / "new" / "a.json",
           "--state", tmp_path / "other" / "a.state")
    assert (tmp_path / "new" / "a.json").is_file() and not list((tmp_path / "other").iterdir())


def test_a_network_that_cannot_be_saved_leaves_the_state(cli, answer, extractor, tmp_path, monkeypatch):
    flags = (*BASE, "--init", extractor, "--out", tmp_path / "a.json", "--save", tmp_path / "a.pt")
    with monkeypatch.context() as broken:
        broken.setattr("pathlib.Path.replace", lambda self, to: pytest.fail("disk full") if to.suffix == ".pt" else os.replace(self, to))
        with pytest.raises(pytest.fail.Exception):
            cli(*flags)
    answer(*flags, "--resume")
    assert (tmp_path / "a.pt").is_file() and not (tmp_path / "a.state").exists()


def test_init_that_is_missing(refused, tmp_path):
    names = ", ".join(shipped.names())
    assert refused(*BASE, "--init", "absent-network.pt", "--out", tmp_path / "a.json") == (
        3, f"fbnn-hw cil: --init absent-network.pt: no such file, and no shipped checkpoint of that name; shipped are {names}")
    pretrain = ("pretrain", "--model", "0.5mb", "--scenario", "tiny-2+2x2", "--out", tmp_path / "f.pt")
    for norm in ("scales", "bn"):
        assert refused(*pretrain, "--init", "absent-network.pt", "--norm", norm) == (
            3, f"fbnn-hw pretrain: --init absent-network.pt: no such file, and no shipped checkpoint of that name; shipped are {names}")


def test_an_interrupt_before_anything_is_kept(cli, extractor, tmp_path, monkeypatch):
    def interrupt(self):
        raise KeyboardInterrupt

    monkeypatch.setattr("fbnn_hw.train.incremental.Incremental.run", interrupt)
    code, _, err = cli(*BASE, "--init", extractor, "--out", tmp_path / "a.json")
    assert (code, err) == (130, "fbnn-hw cil: interrupted in the first epoch; nothing is kept; start again\n")
    (tmp_path / "a.state").write_bytes(b"earlier")
    code, _, err = cli(*BASE, "--init", extractor, "--out", tmp_path / "a.json", "--restart")
    assert (code, err) == (130, f"fbnn-hw cil: interrupted in the first epoch; what {tmp_path}/a.state has of an earlier run stays; start "
                                "again\n")


def test_a_state_in_the_way(refused, extractor, tmp_path):
    (tmp_path / "a.state").write_bytes(b"")
    code, line = refused(*BASE, "--init", extractor, "--out", tmp_path / "a.json")
    assert code == 2 and line.endswith("a.state: there is a state of an earlier run; --resume goes on from it, --restart replaces it")


def test_missing_data_says_what_to_download(refused, extractor, tmp_path):
    code, line = refused("cil", "--scenario", "core50-10x5", "--init", extractor, "--buffer-mb", "1", "--out", tmp_path / "a.json")
    assert code == 3 and "put core50_128x128.zip from http://bias.csr.unibo.it/maltoni/download/core50/" in line


@pytest.mark.parametrize("flags, line", [
    (["--unlabeled"], "--unlabeled: tiny has no unlabelled images, expected a scenario such as core50-10x5"),
    (["--alpha", "0"], "--alpha, --beta, --gamma and --decorrelate are all 0, expected one that is not"),
    (["--features", "printed"], "--features printed: the feature term has no weight, expected --gamma with it"),
    (["--norm", "bn", "--batch", "71"],
     "--batch 71: leaves a last batch of one of 72 images, which batch norm cannot take; expected another size, such as 72"),
    (["--model", "fpnn_b-0.5mb", "--batch", "1"],
     "--batch 1: leaves a last batch of one of 72 images, which batch norm cannot take; expected another size, such as 2"),
    (["--beta", "1e-5", "--batch", "1"], "--batch 1: has no correlation over the batch, expected at least 2 with --beta"),
])
def test_pretrain_usage_errors(flags, line, refused, tmp_path):
    assert refused("pretrain", "--model", "0.5mb", "--scenario", "tiny-2+2x2", "--out", tmp_path / "f.pt", *flags) == (
        2, f"fbnn-hw pretrain: {line}")


def test_floating_baseline_and_batch_norm(answer, tmp_path):
    flags = ("--scenario", "tiny-2+2x2", "--epochs", "1", "--threads", "1")
    result = answer("pretrain", "--model", "fpnn_b", *flags, "--all-classes", "--out", tmp_path / "b.pt")
    assert result["checkpoint"] is None and result["training"]["test_images"] == 240 and not (tmp_path / "b.pt").exists()
    answer("pretrain", "--model", "0.5mb", *flags, "--norm", "bn", "--out", tmp_path / "bn.pt")
    answer("pretrain", "--model", "0.5mb", *flags, "--init", tmp_path / "bn.pt", "--out", tmp_path / "s.pt")
    stage = hashlib.sha256((tmp_path / "bn.pt").read_bytes()).hexdigest()
    assert torch.load(tmp_path / "s.state", weights_only=True)["sources"]["init"] == stage  # not resumed with another


def test_an_extractor_learns_from_a_teacher(answer, refused, tmp_path):
    flags = ("--scenario", "tiny-2+2x2", "--epochs", "1", "--threads", "1")
    answer("pretrain", "--model", "airbench", *flags, "--out", tmp_path / "t.pt")
    teacher = ("--teacher", tmp_path / "t.state")
    found = answer("pretrain", "--model", "0.5mb", *flags, "--norm", "bn", "--gamma", "0.1", *teacher, "--distil", "0.9", "--out",
                   tmp_path / "s.pt")["training"]
    assert found["teacher"]["name"] == "airbench" and found["config"]["distil"] == 0.9 and (tmp_path / "s.pt").is_file()
    assert not (tmp_path / "t.pt").exists()
    assert refused("pretrain", "--model", "0.5mb", *flags, "--distil", "0.9", "--out", tmp_path / "n.pt") == (
        2, "fbnn-hw pretrain: --distil: there is no teacher, expected --teacher with it")
    assert refused("pretrain", "--model", "0.5mb", *flags, "--all-classes", *teacher, "--out", tmp_path / "n.pt")[1].endswith(
        "t.state: knows 2 classes at 16x16, expected among them the student's 6, pattern0, pattern1, pattern2..., at 16x16")


def test_a_run_with_a_teacher(extractor, answer, refused, tmp_path):
    """It may know more classes than arrive; the result names it, and neither another nor none goes on with the state."""
    for seed in "0", "1":
        answer("pretrain", "--model", "airbench", "--scenario", "tiny-2+2x2", "--all-classes", "--epochs", "1", "--seed", seed, "--threads",
               "1", "--out", tmp_path / f"t{seed}.pt")
    teacher = ("--teacher", tmp_path / "t0.state")
    run = (*BASE, "--init", extractor, "--out", tmp_path / "a.json")
    result = answer(*run, *teacher, "--distil", "0.9", "--smoothing", "0.1", "--ema", "0.5")
    digest = hashlib.sha256((tmp_path / "t0.state").read_bytes()).hexdigest()
    assert result["config"]["teacher"] == result["teacher"]["sha256"] == digest and result["ledger"]["bits_per_sample"] == 1024 + 4 * 16
    assert result["config"]["recipe"]["distil"] == 0.9 and result["config"]["recipe"]["ema"] == 0.5
    run = (*run, "--restart")
    assert refused(*run, "--distil", "0.9")[1] == "fbnn-hw cil: --distil: there is no teacher, expected --teacher with it"
    assert refused(*run, "--statistics", "3")[1] == "fbnn-hw cil: --statistics: there is no batch norm, expected --norm bn with it"
    os.mkfifo(tmp_path / "pipe")  # which would be waited for
    for path in tmp_path, tmp_path / "pipe":
        assert refused(*run, "--teacher", path)[1].startswith(f"fbnn-hw cil: --teacher {path}: not a training state of a named network")
    two = tmp_path / "two.pt"
    answer("pretrain", "--model", "airbench", "--scenario", "tiny-2+2x2", "--epochs", "1", "--threads", "1", "--out", two)
    assert refused(*run, "--teacher", two.with_suffix(".state"))[1].endswith(
        "knows 2 classes at 16x16, expected among them the student's 4, pattern2, pattern3, pattern4..., at 16x16")


def test_native_replay_of_a_file_with_thresholds(answer, cli, refused, tmp_path):
    """Its batch norm is that of the state beside it, and the file of --save has thresholds again."""
    flags = ("--epochs", "1", "--lr", "1e-3", "--c", "1", "--threads", "1")
    answer("pretrain", "--model", "0.5mb", "--scenario", "tiny-2+2x2", "--norm", "bn", *flags, "--out", tmp_path / "bn.pt")
    run = ("cil", "--scenario", "tiny-2+2x2", "--replay", "native", "--init", tmp_path / "bn.pt", "--buffer-mb", "0.2", *flags, "--out",
           tmp_path / "a.json")
    assert refused(*run)[1].startswith("fbnn-hw cil: bn.pt (proxies): has thresholds, which train with batch norm alone; expected --norm")
    result = answer(*run, "--norm", "bn", "--mirror", "alternating", "--shift", "1", "--save", tmp_path / "net.pt")
    assert result["init"]["source"] == "bn.pt (proxies)"
    (tmp_path / "bn.state").unlink()
    note = f"bn.pt: no training state with its bits in {tmp_path}/bn.state; starts from the bits"
    assert note in cli(*run[:-1], tmp_path / "b.json", "--norm", "bn")[2]
    assert note not in cli(*(word for word in run[:-1] if word not in ("--replay", "native")), tmp_path / "c.json")[2]
    assert result["config"]["recipe"]["norm"] == "bn" and "thresholds" in answer("inspect", tmp_path / "net.pt")["layers"][1]
    assert answer("inspect", tmp_path / "net.pt")["classes"] == result["classes"]


@pytest.mark.parametrize("junk", [bytes(100), b"", b"text", b"PK\x03\x04" + bytes(50)])
def test_what_lies_beside_a_checkpoint_may_be_anything(junk, extractor, tmp_path):
    from fbnn_hw.train import start

    path = tmp_path / "fe.pt"
    path.write_bytes(extractor.read_bytes())
    path.with_suffix(".state").write_bytes(junk)
    assert start.read(path).source == "fe.pt (bits)"


FAILING = '''from fbnn_hw.train.learner import Learner


class Fails(Learner):
    def learn(self, latents, labels):
        self.add(latents, labels)

    def add(self, latents, labels):
        return latents.nothing

    scores = memory_bits = None
'''


def test_an_error_in_a_strategy_of_one_s_own_is_told_with_its_line(cli, extractor, tmp_path, monkeypatch):
    """Wherever its code is at work, and not as an error of this program."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    (tmp_path / "fbnn_failing.py").write_text(FAILING)
    code, _, err = cli("cil", "--scenario", "tiny-2+2x2", "--init", extractor, "--strategy", "fbnn_failing:Fails", "--threads", "1",
                       "--replay", "latent", "--out", tmp_path / "a.json")
    sys.modules.pop("fbnn_failing")
    assert code == 2 and err.splitlines()[-1] == (
        f"fbnn-hw cil: --strategy fbnn_failing:Fails: AttributeError in {tmp_path / 'fbnn_failing.py'}, line 9: 'numpy.ndarray' object has "
        "no attribute 'nothing'")
    assert not (tmp_path / "a.json").exists()


def test_a_result_is_not_replaced_without_a_word(cli, refused, tmp_path, monkeypatch):
    """Without --out too, where the name is that of every such run."""
    monkeypatch.chdir(tmp_path)
    run = ("cil", "--scenario", "tiny-2+2x2", "--model", "0.5mb", "--replay", "native", "--strategy", "naive", "--epochs", "1",
           "--threads", "1")
    assert cli(*run)[0] == 0
    before = (tmp_path / "cil.json").read_bytes()
    assert refused(*run) == (2, "fbnn-hw cil: --out cil.json: there is a result of an earlier run; --restart replaces it, another name "
                                "keeps it")
    assert (tmp_path / "cil.json").read_bytes() == before
    assert cli(*run, "--restart", "--seed", "1")[0] == 0 and (tmp_path / "cil.json").read_bytes() != before
