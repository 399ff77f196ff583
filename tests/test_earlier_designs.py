"""What earlier versions made goes on working: designs, lessons, snapshots, trainings; a design of two frames a pass is refused."""

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from fbnn_hw import Board, Design
from fbnn_hw.base.errors import InputError
from fbnn_hw.board.taught import Taught
from fbnn_hw.cli import main
from fbnn_hw.ir import checkpoint
from fbnn_hw.reference import inference
from fbnn_hw.train import start
from fbnn_hw.train.incremental import Incremental
from tests import virtual_boards
from tests.train import test_incremental, test_offline

FIXTURES = Path(__file__).parent / "fixtures"
MADE = FIXTURES / "design-0.1.0.zip"
TWO_FRAMES = FIXTURES / "design-0.2.24-two-frames.zip"
"""Of `generate --model FILE --target ice40 --frames 2`; FILE is `strategies.smallest()`."""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("earlier")
    zipfile.ZipFile(MADE).extractall(folder)
    return folder


@pytest.fixture(scope="module")
def design(place):
    return Design(next(path for path in place.iterdir() if path.is_dir()))


@pytest.fixture(scope="module")
def answers(place):
    """(images uint8 (5, 3, 8, 8), what `classify --json` of 0.1.0 said of them after the lesson)."""
    images = np.concatenate([np.load(place / "a.npy"), np.load(place / "b.npy")]).transpose(0, 3, 1, 2)
    return images, json.loads((place / "answer.json").read_text())


def test_it_simulates(design):
    assert design.simulate().equal


def test_its_snapshot_restores_in_the_reference(design, place, answers):
    images, said = answers
    taught, learner = Taught.read(place / "taught.snapshot"), design.learner()
    learner.restore(taught.snapshot)
    latents = inference.layers(design.network, images)["latent"].reshape(len(images), -1)
    assert list(taught.names) == said["classes"] and learner.logits(latents).tolist() == [image["logits"] for image in said["images"]]


def test_its_board_remembers_and_restores(design, place, answers, monkeypatch):
    virtual_boards.impatient(monkeypatch)
    images, said = answers
    with Board.virtual(design) as board:
        def check():
            answer = board.classify(images)
            assert board.names == said["classes"] and answer.logits.tolist() == [image["logits"] for image in said["images"]]

        check()  # what was kept in the folder
        board.reset()
        assert board.names == said["classes"][:2]
        board.restore(place / "taught.snapshot")
        check()


@pytest.fixture(scope="module")
def of_two_frames(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    zipfile.ZipFile(TWO_FRAMES).extractall(folder)
    return next(folder.iterdir())


def line(folder):
    return f"{folder / 'config.json'}: a design of 2 frames a pass, as version 0.2 made them, expected one; generate the folder again"


def test_a_design_of_two_frames_a_pass_is_refused(of_two_frames):
    with pytest.raises(InputError) as error:
        Design(of_two_frames)
    assert str(error.value) == line(of_two_frames)


@pytest.mark.parametrize("words", [
    ("simulate", "{}"), ("report", "{}"), ("build", "{}", "--board", "icebreaker"), ("energy", "{}"),
    ("classify", "--board", "virtual", "--data", "fixture", "--design", "{}"), ("selftest", "--board", "virtual", "--design", "{}")])
def test_a_command_refuses_it_in_one_line(capsys, of_two_frames, words):
    before = sorted(path.name for path in of_two_frames.iterdir())
    assert main([word.format(of_two_frames) for word in words]) == 3
    text = capsys.readouterr()
    assert (text.out, text.err) == ("", f"fbnn-hw {words[0]}: {line(of_two_frames)}\n")
    assert sorted(path.name for path in of_two_frames.iterdir()) == before


@pytest.fixture(scope="module")
def of_0_2_24(tmp_path_factory):
    folder = tmp_path_factory.mktemp("of_0_2_24")
    zipfile.ZipFile(FIXTURES / "made-by-0.2.24.zip").extractall(folder)
    return folder


@pytest.mark.parametrize("target", ["ice40", "ecp5-25f", "gowin", "xilinx7", "generic"])
def test_a_design_of_0_2_24_answers_as_it_did(of_0_2_24, target):
    design = Design(of_0_2_24 / "designs" / target)
    snapshot = design.folder.with_suffix(".snapshot")
    said = json.loads(design.folder.with_suffix(".json").read_text())
    images = np.concatenate([np.load(of_0_2_24 / f"{name}.npy") for name in "abc"]).transpose(0, 3, 1, 2)
    with Board.interpreted(design) as board:
        if snapshot.exists():
            board.restore(snapshot)
        assert board.classify(images).logits.tolist() == [image["logits"] for image in said["images"]]
        assert list(board.names) == said["classes"]


def test_a_training_of_0_2_24_goes_on(of_0_2_24):
    known = torch.load(of_0_2_24 / "offline.state", weights_only=True)
    run = test_offline.trainer(of_0_2_24)  # the same images, network and recipe
    run.state_path = of_0_2_24 / "offline.state"
    run.resume()
    assert (run.epoch, run.step) == (known["epoch"], known["step"]) and 0 < run.step < run.steps
    history = run.run()
    assert history[:known["epoch"]] == known["history"] and len(history) == run.config.epochs
    assert checkpoint.read(of_0_2_24 / "offline.pt").topology.classes == tuple(test_offline.FIXTURE.classes)


def test_a_class_incremental_run_of_0_2_24_goes_on(of_0_2_24):
    values = json.loads((of_0_2_24 / "cil.json").read_text())
    config = replace(test_incremental.BASE, recipe=replace(test_incremental.RECIPE, epochs=2))
    run = Incremental(config, test_incremental.TRAIN, test_incremental.TEST, start.read(of_0_2_24 / "fe.pt"), of_0_2_24 / "cil.state")
    run.resume()
    assert run.task == 1 and len(run.history) == 3
    result = run.run()
    assert len(result["history"]) == len(values["history"]) and result["classes"] == values["classes"]
