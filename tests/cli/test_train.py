"""`fbnn-hw train` on the fixture: what it writes, and what an interrupt leaves."""

import json
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from fbnn_hw.cli import _common
from fbnn_hw.data import datasets
from fbnn_hw.ir import checkpoint
from fbnn_hw.nn.network import FBNN
from fbnn_hw.reference import inference
from fbnn_hw.train import record

FLAGS = ["--model", "0.5mb", "--data", "fixture", "--classes", "cat,dog", "--epochs", "2", "--batch", "2", "--threads", "1", "--lr", "1e-3"]


def comparable(path):
    """The state's plain content without the times."""
    state = torch.load(path, weights_only=True)
    for epoch in state["history"]:
        del epoch["seconds"]
    return state


def equal(a, b):
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    return a == b


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Folder of a run that was not interrupted."""
    from fbnn_hw.cli import main

    folder = tmp_path_factory.mktemp("whole")
    assert main(["train", *FLAGS, "--out", str(folder / "m.pt")]) == 0
    return folder


def test_no_run_is_finished_before_its_test(answer, tmp_path, monkeypatch):
    from fbnn_hw.cli import train

    told, write = [], train.write_result
    monkeypatch.setattr(train, "write_result", lambda path, values: told.append(values["training"]["finished"]) or write(path, values))
    assert answer("train", *FLAGS, "--out", tmp_path / "m.pt")["training"]["finished"] is True and told == [False, False, True]


def test_what_it_writes(whole, answer):
    network = checkpoint.read(whole / "m.pt")
    result = json.loads((whole / "m.result.json").read_text())
    assert sorted(p.name for p in whole.iterdir()) == ["m.pt", "m.result.json", "m.state"]
    assert network.topology.classes == ("cat", "dog") and network.training == result["training"]
    assert network.training["command"].startswith("fbnn-hw train --model 0.5mb --data fixture --classes cat,dog ")
    assert network.training["epochs"] == 2 == len(result["history"]) and network.training["seed"] == 0
    assert network.training["test_accuracy"] is None  # the fixture has no images of its own to test on
    state = torch.load(whole / "m.state", weights_only=True)
    assert network.training["validation_accuracy"] == state["best_score"] == max(e["validation_accuracy"] for e in result["history"])
    assert (network.weights["conv1"] == (state["best"]["layers.conv1.proxy"] >= 0).numpy()).all()
    images = datasets.load("fixture").select(("cat", "dog"))
    found = answer("evaluate", "--model", whole / "m.pt", "--data", "fixture", "--backend", "torch")
    assert found["correct"] == (inference.classify(inference.logits(network, images.images)) == images.labels).sum()


def test_ctrl_c_and_resume_are_bit_identical(whole, tmp_path, cli):
    out = tmp_path / "m.pt"
    command = [sys.executable, "-m", "fbnn_hw.cli", "train", *FLAGS, "--out", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=None)
    first = process.stdout.readline()
    time.sleep(0.05)  # into the second epoch, which takes 0.2 s
    process.send_signal(signal.SIGINT)
    rest, err = process.communicate(timeout=60)
    assert first.startswith("epoch 1/2: ") and "(best, written)" in first and not rest and process.returncode == 130
    message = [line for line in err.splitlines() if "interrupted" in line]
    assert message[0].startswith("fbnn-hw train: interrupted in epoch 2, step ") and "Traceback" not in err
    assert message[0].endswith(f"state saved in {tmp_path}/m.state; go on with: fbnn-hw train {' '.join(FLAGS)} --out {out} --resume")
    assert checkpoint.read(out).training["epochs"] == 1 and not checkpoint.read(out).training["finished"]  # usable at once

    code, text, err = cli("train", *FLAGS, "--out", out)
    assert code == 2 and err == (f"fbnn-hw train: {tmp_path}/m.state: there is a state of an earlier run; "
                                 "--resume goes on from it, --restart replaces it\n")
    code, text, err = cli("train", *FLAGS, "--out", out, "--resume", "--json")
    assert code == 0 and f"goes on from {tmp_path}/m.state: epoch 2, step " in err
    assert json.loads(text)["checkpoint"] == str(out) and len(json.loads(text)["history"]) == 2
    assert equal(comparable(out.with_suffix(".state")), comparable(whole / "m.state"))
    mine, other = checkpoint.read(out), checkpoint.read(whole / "m.pt")
    assert all((mine.weights[name] == other.weights[name]).all() for name in other.weights)


def test_test_accuracy_is_stated_and_reproduced(tmp_path, monkeypatch, answer, cli):
    """A data set with a test split of its own: the fixture cut in two."""
    def read(dataset, source, split):
        images, labels, classes, source = fixture.read(fixture, None, split)
        half = slice(0, 150) if split == "train" else slice(150, 190)
        return images[half], labels[half], classes, source

    fixture = datasets.DATASETS["fixture"]
    monkeypatch.setitem(datasets.DATASETS, "fixture", datasets.Dataset("fixture", 32, 10, None, read))
    run = ["train", "--model", "0.5mb", "--data", "fixture", "--epochs", "1", "--threads", "1", "--out", tmp_path / "x" / "m.pt"]
    result = answer(*run)["training"]
    assert result["test_images"] == 40 and result == checkpoint.read(tmp_path / "x" / "m.pt").training
    for backend in ("torch", "reference"):
        found = answer("evaluate", "--model", tmp_path / "x" / "m.pt", "--data", "fixture", "--backend", backend)
        assert found["reproduces"] is True and found["accuracy"] == result["test_accuracy"]


def test_further_with_a_teacher(whole, tmp_path, answer, refused):
    """--init starts from the proxies beside a checkpoint, --teacher follows a state, --images thins; all three are in the record."""
    flags = ["--classes", "cat,dog", "--data", "fixture", "--model", "0.5mb", "--epochs", "1", "--threads", "1", "--images", "10"]
    out = tmp_path / "m.pt"
    found = answer("train", *flags, "--init", whole / "m.pt", "--teacher", whole / "m.state", "--distil", "1", "--out", out)["training"]
    assert found["init"]["source"] == "m.pt (proxies)" and found["init"]["training"]["epochs"] == 2
    assert found["teacher"]["name"] == "0.5mb" and found["images_per_class"] == 10 and found["train_images"] == 18
    assert found["config"]["distil"] == 1.0 and checkpoint.read(out).training == found
    assert refused("train", *flags[2:], "--init", whole / "m.pt", "--out", tmp_path / "n.pt") == (
        3, "fbnn-hw train: --init m.pt (proxies): not 0.5mb with the 10 classes airplane, automobile, bird..., expected the same "
        "layers and classes")


def test_batch_norm(tmp_path, answer, cli, refused):
    """The file's thresholds give in torch and in the reference what training saw; its batch norm goes on, or scales take its place."""
    flags = ["--model", "0.5mb", "--data", "fixture", "--classes", "cat,dog", "--epochs", "1", "--threads", "1", "--batch", "8"]
    first = answer("train", *flags, "--norm", "bn", "--precision", "bfloat16", "--out", tmp_path / "m.pt")
    network = checkpoint.read(tmp_path / "m.pt")
    assert set(network.thresholds) == {*(f"conv{i}" for i in range(1, 7)), "latent"} and first["training"]["config"]["norm"] == "bn"
    logits = [inference.logits(network, datasets.load("fixture").images[:20])]
    state = torch.load(tmp_path / "m.state", weights_only=True)
    model = FBNN(network.topology, c=5.0, norm="bn")
    model.load_state_dict(state["best"])
    with torch.no_grad():
        assert (model.eval().logits(torch.from_numpy(datasets.load("fixture").images[:20])).numpy() == logits[0]).all()
    for norm, thresholds in (("bn", 7), ("scales", 0)):
        out = tmp_path / f"{norm}.pt"
        further = answer("train", *flags, "--norm", norm, "--init", tmp_path / "m.pt", "--out", out)["training"]
        assert further["init"]["source"] == "m.pt (proxies)" and len(checkpoint.read(out).thresholds) == thresholds
    (tmp_path / "m.state").unlink()
    code, _, err = cli("train", *flags, "--norm", "bn", "--init", tmp_path / "m.pt", "--out", tmp_path / "bits.pt")
    note = f"fbnn-hw train: m.pt: no training state with its bits in {tmp_path}/m.state; starts from the bits"
    assert code == 0 and note in err.splitlines() and checkpoint.read(tmp_path / "bits.pt").training["init"]["source"] == "m.pt (bits)"
    code, line = refused("train", *flags, "--init", tmp_path / "m.pt", "--out", tmp_path / "n.pt")
    assert code == 3 and line.endswith("and no state with their batch norm; expected --norm bn")


@pytest.mark.parametrize("emulates, precision", [(True, "bfloat16"), (False, "bfloat16"), (True, "float32")])
def test_a_slower_precision_is_told(emulates, precision, tmp_path, cli, monkeypatch):
    monkeypatch.setattr(record, "emulates_bfloat16", lambda: emulates)
    code, _, err = cli("train", *FLAGS, "--epochs", "1", "--device", "cpu", "--precision", precision, "--out", tmp_path / "m.pt")
    assert code == 0 and ("emulates bfloat16; float32 is faster here" in err) == (emulates and precision == "bfloat16")


@pytest.mark.skipif(not hasattr(torch.cpu, "get_capabilities"), reason="this torch does not tell")
def test_which_processor_emulates_bfloat16():
    """The same as torch says."""
    features = torch.cpu.get_capabilities()
    told = sys.platform == "linux" and features["architecture"] == "x86_64"
    assert record.emulates_bfloat16() == (told and not any(features[name] for name in ("avx512_bf16", "amx_bf16", "avx_ne_convert")))


@pytest.mark.parametrize("flags, line", [
    (["--statistics", "5"], "--statistics: there is no batch norm, expected --norm bn with it"),
    (["--norm", "bn", "--float-epochs", "100"], "--float-epochs 100: leaves no other epoch, expected fewer than --epochs 100"),
    (["--temperature", "2"], "--temperature: there is no teacher, expected --teacher with it"),
    (["--classes", "cat,cow"], "--classes cow: no such class, expected some of airplane, automobile, bird, cat, deer, dog, frog, "
     "horse, ship, truck"),
    (["--classes", '"cat,dog'],
     '--classes "cat,dog: expected names with commas between them, one with a comma or a quote in double quotes'),
    (["--classes", "cat\ndog,ship"],
     "--classes cat dog,ship: expected names with commas between them, one with a comma or a quote in double quotes"),
    (["--out", "m.bin"], "--out m.bin: expected a file name that ends in .pt"),
    (["--out", "m.pt", "--state", "m.pt"], "m.pt: is the name of two files of this run, expected another one for --state"),
    (["--out", "m.pt", "--state", "m.result.json"],
     "m.result.json: is the name of two files of this run, expected another one for --state"),
    (["--out", "m.pt", "--state", "t.state", "--teacher", "t.state", "--restart"],
     "t.state: is the file of --teacher, expected another name"),
    (["--resume", "--restart"], "--resume and --restart: expected one of them"),
    (["--device", "cuda"], "--device cuda: torch finds no GPU here, expected one; use --device cpu"),
])
def test_refusals(tmp_path, monkeypatch, refused, flags, line):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert refused("train", "--model", "0.5mb", "--data", "fixture", *flags) == (2, f"fbnn-hw train: {line}")
    assert not list(tmp_path.iterdir())


def test_resume_without_a_state(tmp_path, refused):
    assert refused("train", *FLAGS, "--out", tmp_path / "m.pt", "--resume") == (
        3, f"fbnn-hw train: {tmp_path}/m.state: not found, expected the state of an earlier run; start without --resume")


@pytest.mark.parametrize("words", [
    "train --model 0.5mb --data tiny --out m.pt",
    "pretrain --model 0.5mb --scenario tiny-2+2x2 --out m.pt",
    "cil --model 0.5mb --scenario tiny-2+2x2 --replay native --buffer-mb 0.1 --out m.json"])
def test_a_disk_that_is_full(words, tmp_path, cli, monkeypatch):
    """The state is larger than a file may be here: one line, and the files of an earlier run are as they were, or there are none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_common, "PROGRESS_DELAY_S", 1e9)
    for earlier in ({}, {name: name.encode() for name in ("m.pt", "m.json", "m.result.json", "m.state")}):
        for name, data in earlier.items():
            Path(name).write_bytes(data)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        try:
            code, _, err = cli(*words.split(), "--images", 20, "--batch", 9, "--epochs", 1, "--threads", 1, "--restart")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert (code, err) == (3, f"fbnn-hw {words.split()[0]}: m.state: cannot be written (File too large), expected a file name in a "
                                  "folder that can\n")
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == earlier


def test_an_interrupt_after_the_training_says_that_it_is_kept(cli, answer, tmp_path, monkeypatch):
    flags = ["train", "--model", "0.5mb", "--data", "tiny", "--images", "4", "--epochs", "1", "--threads", "1", "--out", tmp_path / "t.pt"]

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("fbnn_hw.train.record.test_score", interrupted)
        code, _, err = cli(*flags)
    assert code == 130 and err.startswith("fbnn-hw train: interrupted; the training itself is done, its state is in ")
    assert f"; go on with: fbnn-hw {' '.join(map(str, flags))} --resume" in err
    assert answer(*flags, "--resume")["training"]["test_accuracy"] is not None


def test_an_interrupt_at_the_end_of_the_training_does_not_say_that_nothing_was_written(cli, tmp_path, monkeypatch):
    """Ctrl-C in the moment in which the trainer has given the signals back and not yet returned."""
    from fbnn_hw.train.offline import Trainer

    run = Trainer.run

    def interrupted(self):
        run(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "run", interrupted)
    out = tmp_path / "t.pt"
    code, _, err = cli("train", "--model", "0.5mb", "--data", "tiny", "--images", "4", "--epochs", "1", "--threads", "1", "--out", out)
    assert code == 130 and out.exists()
    assert err.startswith(f"fbnn-hw train: interrupted; the state of the last epoch is in {out.with_suffix('.state')}; go on with: ")
