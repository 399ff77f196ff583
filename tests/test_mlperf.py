"""docs/benchmarks/mlperf.py answers MLPerf Tiny's commands, and its runner passes on a simulated board."""

import os
import re
import subprocess
import sys
import threading
import tty
from pathlib import Path

import numpy as np
import pytest

import fbnn_hw
from fbnn_hw.board import Board
from fbnn_hw.data import datasets
from fbnn_hw.reference import inference

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "benchmarks"))

import mlperf  # noqa: E402


@pytest.fixture(scope="module")
def design(tmp_path_factory):
    return fbnn_hw.generate(fbnn_hw.load("tiny.pt"), target="ice40", out=tmp_path_factory.mktemp("mlperf"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Six pictures in the form of the benchmark."""
    folder = tmp_path_factory.mktemp("ic01")
    data = datasets.load("fixture", None, "test")
    rows = [f"p{n}.bin,10,{label}" for n, label in enumerate(data.labels[:6])]
    for number, image in enumerate(data.images[:6]):
        (folder / f"p{number}.bin").write_bytes(image.transpose(1, 2, 0).tobytes())
    (folder / "y_labels.csv").write_text("\n".join(rows) + "\n")
    return folder


class Wire:
    """A device behind a pseudo terminal, spoken to as the benchmark's pages describe: a command ends with %, its answer with m-ready."""

    def __init__(self, board):
        ours, self.line = os.openpty()
        tty.setraw(self.line)
        threading.Thread(target=mlperf.serve, args=(mlperf.Device(board, 48e6), ours), daemon=True).start()
        self.read()

    def read(self):
        text = b""
        while not text.endswith(b"m-ready\r\n"):
            text += os.read(self.line, 1)
        return text.decode().split("\r\n")[:-2]

    def ask(self, command):
        os.write(self.line, command.encode() + b"%")
        return self.read()


def test_the_commands(design):
    random = np.random.default_rng(seed := int(np.random.default_rng().integers(1 << 32)))
    print("seed", seed)
    image = random.integers(0, 256, (3, 32, 32), dtype=np.uint8)
    data = image.transpose(1, 2, 0).tobytes()
    with Board.interpreted(design) as board:
        wire = Wire(board)
        assert re.fullmatch(r"m-name-dut-\[.+\]", wire.ask("name")[0])
        assert wire.ask("profile") == ["m-profile-[ULPMark for tinyML Firmware V0.0.1]", "m-model-[ic01]"]
        assert wire.ask("infer 1 0")[0].startswith("e-[Command 'infer' needs a picture")
        assert wire.ask("db load 3072") == ["m-[Expecting 3072 bytes]"]
        place = 0
        while place < len(data):
            size = int(random.integers(1, 40))
            answer = wire.ask(f"db {data[place:place + size].hex()}")
            place += size
            assert answer == (["m-load-done"] if place >= len(data) else [])
        answer = wire.ask("infer 3 2")
        first, last = (int(line.removeprefix("m-lap-us-")) for line in answer if line.startswith("m-lap-us-"))
        assert [line for line in answer if "lap" not in line and "results" not in line] == [
            "m-warmup-start-2", "m-warmup-done", "m-infer-start-3", "m-infer-done"]
        assert abs(last - first - 3 * 1e6 / 48e6 * board.classify(image[None]).cycles[0]) <= 2
        logits = [float(value) for value in answer[-1].removeprefix("m-results-[").removesuffix("]").split(",")]
        assert logits == inference.logits(design.network, image[None])[0].tolist()
        assert wire.ask("results") == answer[-1:]
        assert "".join(wire.ask("db print")).replace("m-buffer", "").replace("-", "") == data.hex()
        for wrong in ("db load 0", "db load 3071", "db abc", "db zz", "db", "infer 0", "infer 1 -1", "infer 1 2 3", "run", "", "db 00 11"):
            [line] = wire.ask(wrong)
            assert line.startswith("e-["), wrong
        assert wire.ask("results") == answer[-1:]


@pytest.mark.parametrize("board", ["interpreted", pytest.param("virtual", marks=pytest.mark.slow)])
def test_both_ends(board, design, folder):
    """The share of right answers is the reference's, the rate that of the planned cycles."""
    data = datasets.load("fixture", None, "test")
    right = (inference.logits(design.network, data.images[:6]).argmax(1) == data.labels[:6]).mean()
    command = [sys.executable, ROOT / "docs/benchmarks/mlperf.py", folder, "--design", design.folder, "--board", board, "--clock", "48"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    top, rate = re.fullmatch(r"Top-1: (.*)%\nMedian throughput is (.*) inf\./sec\..*\n", done.stdout).groups()
    assert float(top) == round(100 * right, 1)
    estimate = design.estimate
    assert float(rate) == pytest.approx(48e6 / (estimate["cycles"] - estimate["load_cycles"]), rel=3e-3)
