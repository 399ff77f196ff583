"""A design that takes images as packed levels (docs/link.md): its folder, its virtual board, and what is refused."""

import json

import numpy as np
import pytest

from fbnn_hw import design as designs
from fbnn_hw.base.errors import InputError, UsageError
from fbnn_hw.board import Board
from fbnn_hw.cli import main
from fbnn_hw.ir import ops as op
from fbnn_hw.ir.network import LATENT, Topology
from fbnn_hw.link.client import Client
from fbnn_hw.link.transport import Serial
from fbnn_hw.machine import protocol
from fbnn_hw.reference import encode, inference
from fbnn_hw.simulate import virtual
from fbnn_hw.studio import page
from tests import schemas, strategies
from tests.rtl.test_accelerator import GAP, POOL, conv, dense, topology

SIZE, WAIT_S = 6, 120
IMAGE_BYTES = 32
"""36 pixels of 3 + 2 + 2 bits."""


@pytest.fixture(scope="module")
def network():
    return strategies.on_engine(strategies.fill(topology(SIZE, 2, conv(16), POOL, GAP, dense(32, name=LATENT)), 5))


@pytest.fixture(scope="module")
def design(network, tmp_path_factory):
    return designs.generate(network, "ice40", out=tmp_path_factory.mktemp("levels"), outputs=4, learn=True, exemplars=8, input="levels")


def test_the_folder(design, network, tmp_path):
    """The form stands in config.json; the accelerator with R, G, B is another configuration with the same program."""
    assert json.loads(design.read("config.json"))["encoder_bits"] is None and design.config.takes_levels
    assert (design.config.pixel_bits, design.config.image_bytes) == (7, IMAGE_BYTES)
    assert f"`define IMAGE_BYTES {IMAGE_BYTES}\n" in design.read("parameters.vh").decode()
    assert "// pixels: packed levels of an image" in design.read("instance.v").decode()
    images = np.load(design.folder / "golden.npz")["images"]
    assert images.shape[1:] == (IMAGE_BYTES, 1, 1)
    other = designs.generate(network, "ice40", out=tmp_path, outputs=4, learn=True, exemplars=8)
    assert other.config.program == design.config.program and other.config_id != design.config_id and not other.config.takes_levels
    assert other.estimate["end_to_end_frames_per_second"] < design.estimate["end_to_end_frames_per_second"]


def test_simulated_bit_for_bit(design):
    result = design.simulate(strategies.images(4, 3, SIZE))
    assert result.equal and result.exact and result.cycles == 2 * [design.estimate["cycles"]]


def test_the_board_is_the_reference(design, network, tmp_path, monkeypatch):
    """Logits, a lesson and the learner's state; an image that ends too early is filled up and spoils nothing."""
    images = strategies.images(3, 6, SIZE)
    latents = inference.layers(network, images)[LATENT].reshape(len(images), -1)
    learner = design.learner()
    with Board.virtual(design) as board:
        assert (board.identity.version, board.identity.pixel_bits, board.identity.image_bytes) == (4, 7, IMAGE_BYTES)
        assert np.array_equal(board.classify(images).logits, inference.logits(network, images))
        board.learn(images[:3], "new")
        assert board.chip.snapshot() == board.twin.snapshot() != learner.snapshot()
        learner.restore(board.chip.snapshot())
        request = protocol.encode(protocol.Opcode.CLASSIFY, board.design.pixels(images[:1])[0], 77)
        board.client.transport.write(request[:-1] + bytes([request[-1] ^ 1]), WAIT_S)
        assert board.client.transport.read(WAIT_S)
        assert np.array_equal(board.classify(images).logits, learner.logits(latents))
        with pytest.raises(InputError, match=r"the image has 108 bytes, expected 32 \(6 x 6 pixels, levels of 7 bits a pixel\)"):
            board.client.classify(bytes(3 * SIZE ** 2))
        monkeypatch.chdir(tmp_path)
        unknown = Board(board.client, None, True)
        with pytest.raises(InputError, match=f"takes images as levels, .*, configuration {design.config_id}; name it with --design"):
            unknown.classify(images)


@pytest.mark.slow
def test_a_board_that_hears_ahead(network, tmp_path):
    """Images ahead, after an image that ends too early, which resets the accelerator."""
    design = designs.generate(network, "generic", out=tmp_path, outputs=4, input="levels")
    images = strategies.images(5, 4, SIZE)
    board = virtual.VirtualBoard(design.folder, ahead=True)
    with board, Serial(board.port) as port:
        client = Client(port, wait_s=WAIT_S, ready_s=WAIT_S)
        assert client.wait_ready().ahead
        port.write(protocol.encode(protocol.Opcode.CLASSIFY, design.pixels(images[:1])[0])[:20], WAIT_S)
        heard = protocol.Decoder().feed(port.read(WAIT_S))
        assert [(opcode, payload[0]) for opcode, _, payload in heard] == [(protocol.ERROR, protocol.Fault.TIMEOUT)]
        answers = list(client.classify_all(design.pixels(images)))
        assert board.close() == 0
    assert [list(result.logits) for result, _ in answers] == inference.logits(network, images).tolist()


@pytest.mark.slow
def test_a_board_that_sleeps_and_has_a_flash_at_twice_the_clock(network, tmp_path):
    made = designs.generate(network, "ice40", out=tmp_path, outputs=4, input="levels", duty_cycle=True, weights="flash-2x")
    assert made.config.sleeps and made.config.beat_bits == 16 and made.config.takes_levels
    assert made.simulate(strategies.images(4, 2, SIZE)).equal
    images = strategies.images(8, 4, SIZE)
    with Board.virtual(made) as board:
        assert np.array_equal(board.classify(images).logits, inference.logits(network, images))


def test_what_is_refused(design, tmp_path):
    with pytest.raises(InputError, match="takes images as levels, which the page does not make; expected one made without --input levels"):
        page.of(design)
    layers = (op.Bits8("input", (), 4), op.Flatten("flat", ("input",)), op.Dense("logits", ("flat",), 2, 1, True))
    reads_bytes = strategies.fill(Topology("bytes", layers, ("a", "b")), 1)
    for network, given, words in ((reads_bytes, "levels", "--input levels: layer input reads bytes, expected a thermometer or binarize"),
                                  (design.network, "level", "--input level: expected rgb or levels; did you mean levels")):
        with pytest.raises(UsageError, match=words):
            designs.generate(network, "generic", out=tmp_path, input=given)
    assert not list(tmp_path.iterdir())


def test_the_command(tmp_path, capsys):
    assert main(["generate", "--model", "tiny.pt", "--target", "ice40", "--input", "levels", "--out", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "input   levels, 13 bits a pixel: 1,664 bytes an image, 3,072 of RGB\n" in text and "--input levels --learn" in text
    assert main(["generate", "--model", "tiny.pt", "--target", "ice40", "--input", "levels", "--out", str(tmp_path), "--json"]) == 0
    answer = schemas.check("generate", capsys.readouterr().out)
    assert designs.Design(answer["folder"]).config.takes_levels


def test_images_are_taken_in_one_form(design):
    images = strategies.images(7, 2, SIZE)
    assert design.pixels(images) == [row.tobytes() for row in encode.packed(images, design.network.topology.ops[0])]
