"""The whole board in simulation, behind a pseudo-terminal: the host's own code against the reference."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fbnn_hw import design as designs
from fbnn_hw.base import bits
from fbnn_hw.base.errors import InputError, ToolError
from fbnn_hw.board import Board, selftest
from fbnn_hw.cli import main
from fbnn_hw.compile.plan import plan
from fbnn_hw.data import datasets
from fbnn_hw.design import output
from fbnn_hw.ir.models import CIFAR10, vgg
from fbnn_hw.link.client import Client
from fbnn_hw.link.transport import Serial
from fbnn_hw.machine import protocol
from fbnn_hw.machine.line import end_to_end_rate
from fbnn_hw.reference import inference
from fbnn_hw.rtl.board_top import weight_bytes
from fbnn_hw.simulate import virtual
from fbnn_hw.targets import TARGETS
from tests import schemas, strategies, virtual_boards

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "benchmarks"))
import link_rate  # noqa: E402

IMAGES = 3
WAIT_S = 120
CLASSIFY_WITH_LOGITS = protocol.Opcode.CLASSIFY | protocol.LOGITS


def design(root, weights=None, width=1 / 16, latent=64, bank_words=1480):
    """(folder, network): some of its weights resident, the others streamed with every pass."""
    network = strategies.fill(vgg("tiny", CIFAR10, width=width, latent=latent, hidden=16), 1)
    part = replace(TARGETS["ice40"], bank_words=bank_words)
    planned = plan(network, part, 4, 16, 4, weights=weights)
    images = datasets.load("fixture").first(1).images
    folder = output.write(planned, network, part, root / "rtl_out", images).folder
    manifest = json.loads((folder / "manifest.json").read_text())
    assert weight_bytes(planned.config) == (manifest["boot_bytes"], manifest["frame_bytes"]) and all(weight_bytes(planned.config))
    return folder, network


@pytest.fixture(autouse=True, scope="module")
def impatient():
    """Requests that stop are given up after 65,536 clocks, not after a million."""
    with pytest.MonkeyPatch.context() as patch:
        virtual_boards.impatient(patch, 16)
        yield


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    folder, network = design(tmp_path_factory.mktemp("virtual"))
    virtual.VirtualBoard(folder)
    return folder, network


def test_flash_image(generated):
    folder, _ = generated
    manifest = json.loads((folder / "manifest.json").read_text())
    image = virtual.flash_image(folder)
    assert image[:8].hex() == manifest["config_id"] + manifest["ir_sha256"][:8] and image[8:] == (folder / "weights.bin").read_bytes()


def test_a_flash_at_twice_the_clock(tmp_path):
    """The same answers, and the model of the flash has nothing to complain of."""
    folder, network = design(tmp_path, weights="double")
    images = datasets.load("fixture").first(2).images
    board = virtual.VirtualBoard(folder)
    with board, Serial(board.port) as port:
        client = Client(port, wait_s=WAIT_S, ready_s=WAIT_S)
        client.wait_ready()
        for image in images:
            result = client.classify(np.ascontiguousarray(image.transpose(1, 2, 0)).tobytes())
            assert list(result.logits) == inference.logits(network, image[None])[0].tolist()
        assert not board.faults() and board.close() == 0


@pytest.mark.parametrize("platform", ["win32", "darwin"])
def test_behind_a_socket_where_pseudo_terminals_do_not_serve(generated, monkeypatch, platform):
    """The way of Windows and macOS, but for the program: one client after the other."""
    folder, network = generated
    images = datasets.load("fixture").first(2).images
    board = virtual.VirtualBoard(folder)
    monkeypatch.setattr(virtual.sys, "platform", platform)
    monkeypatch.setattr(virtual.subprocess, "CREATE_NEW_PROCESS_GROUP", 0, raising=False)
    with board:
        assert board.port.startswith("socket://127.0.0.1:")
        for image in images:
            with Serial(board.port) as port:
                client = Client(port, wait_s=WAIT_S, ready_s=WAIT_S)
                client.wait_ready()
                logits = client.classify(np.ascontiguousarray(image.transpose(1, 2, 0)).tobytes()).logits
                assert list(logits) == inference.logits(network, image[None])[0].tolist()
        assert board.close() == 0


def test_a_board_that_hears_ahead(generated, tmp_path):
    """The host's images ahead, and those of docs/benchmarks/link_rate.py with the cycles between their answers, as estimated."""
    folder, network = generated
    images = datasets.load("fixture").first(5).images
    expected = inference.logits(network, images)
    data = [np.ascontiguousarray(image.transpose(1, 2, 0)).tobytes() for image in images]
    board = virtual.VirtualBoard(folder, build_dir=tmp_path / "board", ahead=True)
    with board, Serial(board.port) as port:
        client = Client(port, wait_s=WAIT_S, ready_s=WAIT_S)
        assert client.wait_ready().ahead
        answers = list(client.classify_all(data))
        assert board.close() == 0
    estimate = json.loads((folder / "estimate.json").read_text())
    assert [list(result.logits) for result, _ in answers] == expected.tolist() and client.repeated == 0
    assert {status.cycles for _, status in answers[1:]} <= set(range(estimate["cycles"]))
    classes, ends = link_rate.measure(folder, data, board.clocks, True, board.build_dir)
    assert classes == inference.classify(expected).tolist()
    rate = end_to_end_rate(estimate["cycles"], estimate["load_cycles"], 1e6, 1e6, 32, len(expected[0]), ahead=True)
    assert (ends[-1] - ends[1]) / (len(ends) - 2) == pytest.approx(1e6 / rate, rel=0.02)


def test_classify_on_the_board(generated, capsys):
    folder, network = generated
    images = datasets.load("fixture").first(IMAGES).images
    code = main(["classify", "--data", "fixture", "--images", str(IMAGES), "--board", "virtual", "--design", str(folder), "--latent",
                 "--json"])
    text = capsys.readouterr()
    assert code == 0, text.err
    answer = schemas.check("classify", text.out)
    logits, latents = inference.logits(network, images), inference.layers(network, images)["latent"]
    assert [x["logits"] for x in answer["images"]] == logits.tolist()
    assert [x["index"] for x in answer["images"]] == inference.classify(logits).tolist()
    assert [x["class"] for x in answer["images"]] == [CIFAR10[i] for i in inference.classify(logits)]
    assert [x["latent"] for x in answer["images"]] == [bits.pack(latent).tobytes().hex() for latent in latents]
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (answer["config_id"], answer["model_mark"]) == (manifest["config_id"], manifest["ir_sha256"][:8])
    # Without the link, which waits for the line, a frame takes as long as estimated, less the loading and the logits.
    estimate = json.loads((folder / "estimate.json").read_text())
    assert all(0.9 * (estimate["cycles"] - estimate["load_cycles"]) < cycles < estimate["cycles"] for cycles in answer["cycles"][1:])


def test_selftest_on_the_board(generated, tmp_path, capsys):
    folder, _ = generated
    code = main(["selftest", "--board", "virtual", "--design", str(folder), "--images", "2", "--out", str(tmp_path / "found"), "--json"])
    text = capsys.readouterr()
    assert code == 0, text.err
    answer = schemas.check("selftest", text.out)
    assert answer["simulated"] and [check["check"] for check in answer["checks"]] == ["logits", "cycles", "link", "time-out"]
    assert json.loads((tmp_path / "found.json").read_text())["passed"] and "simulated" in (tmp_path / "found.html").read_text()


@pytest.mark.slow
def test_the_cycles_that_a_board_counts(generated):
    """They are those between the last byte and the first logit, computed to a few cycles."""
    folder, _ = generated
    made = designs.Design(folder)
    with Board.virtual(made) as board:
        entries = selftest.checks(board, made, 6)
        assert all(entry["passed"] for entry in entries), entries
        counted = board.classify(datasets.load("fixture").first(4).images).cycles[-1]
    span = selftest.spans(made.config, selftest.SLOW)[-1]
    assert span < counted < span + 20


@pytest.mark.slow
def test_a_flash_that_goes_on_while_nobody_takes_its_bytes_saves_cycles(tmp_path):
    """Resident rows and streamed ones take turns in a wide dense layer: what the reader fetched meanwhile comes without pauses."""
    folder, _ = design(tmp_path, width=1 / 8, latent=1024, bank_words=2600)
    made = designs.Design(folder)
    with Board.virtual(made) as board:
        counted = board.classify(datasets.load("fixture").first(3).images).cycles[-1]
        low, high = selftest.cycle_bounds(board, made, 3)
    assert counted < min(selftest.spans(made.config, byte)[-1] for byte in (selftest.SLOW, selftest.FAST))
    assert low <= counted <= high


def test_noise_and_aborted_images(generated):
    """After noise, a broken frame, and an image cut short, which resets the accelerator, the answers are right."""
    folder, network = generated
    image = datasets.load("fixture").first(1).images
    data = np.ascontiguousarray(image.transpose(0, 2, 3, 1)).tobytes()
    expected = inference.logits(network, image)[0].tolist()
    with virtual.VirtualBoard(folder) as board, Serial(board.port) as port:
        client = Client(port, WAIT_S, WAIT_S)
        client.wait_ready()
        frame = protocol.encode(CLASSIFY_WITH_LOGITS, data)
        for noise in (b"\0\x55garbage\xfb", frame[:1000], frame[:-1] + bytes([frame[-1] ^ 1])):
            port.write(noise, 5)
            decoder, heard = protocol.Decoder(), []
            while not heard:
                heard = decoder.feed(port.read(WAIT_S) or pytest.fail("the board is silent"))
            assert [opcode for opcode, _, _ in heard] == [protocol.ERROR]
            client.wait_ready()
            assert list(client.classify(data).logits) == expected
        assert client.status().errors == 3 and client.status().frames == 3 and not board.faults()
        assert board.close() == 0


def test_a_board_that_is_killed(generated):
    folder, _ = generated
    with pytest.raises(ToolError) as error:
        with virtual.VirtualBoard(folder) as board, Serial(board.port) as port:
            client = Client(port, WAIT_S, WAIT_S)
            client.wait_ready()
            board._process.kill()
            client.status()
    log = folder / "sim_build_board" / "board.log"
    assert str(error.value) == f"{folder}: the virtual board ended with exit code -9, see {log}; give the command again"


def test_the_flash_of_another_design(generated):
    folder, _ = generated
    image = bytes(8) + virtual.flash_image(folder)[8:]
    with virtual.VirtualBoard(folder, image=image) as board, Serial(board.port) as port, pytest.raises(InputError) as error:
        assert os.getsid(board._process.pid) != os.getsid(0)  # Ctrl-C does not reach it
        Client(port, WAIT_S, WAIT_S).wait_ready()
    assert str(error.value) == f"{board.port}: the flash holds no weights of this design; run fbnn-hw flash with the folder that was built"
