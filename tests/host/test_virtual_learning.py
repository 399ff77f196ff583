"""Lessons over the link of a whole board in simulation, bit for bit the reference's."""


import numpy as np
import pytest

from fbnn_hw.build import output, virtual
from fbnn_hw.build.learning import ChipState
from fbnn_hw.compile.config import AcceleratorConfig
from fbnn_hw.errors import InputError
from fbnn_hw.host.client import Client
from fbnn_hw.host.transport import Serial
from fbnn_hw.ir.network import LATENT
from fbnn_hw.protocol import Opcode, encode
from fbnn_hw.reference import inference
from fbnn_hw.reference.learning import Head, LearnConfig
from tests import strategies
from tests.rtl import whole
from tests.rtl.test_accelerator import GAP, POOL, conv, dense, topology

WAIT_S = 120
CLASSES, SLOTS = 5, 6


def made(part, root):
    """(folder, network) of a small design that learns."""
    shape = topology(8, 2, conv(16), POOL, GAP, dense(32, name=LATENT))
    network = strategies.on_engine(strategies.fill(shape, 5))
    planned = whole.plan(network, part, 4, 16, 4, 1, (Head.of(shape), LearnConfig(CLASSES, SLOTS, temperature=5)))
    path = root / "model.pt"
    whole.checkpoint.save(path, network)
    return output.write(planned, network, part, path, root, strategies.images(1, 2, 8))[0], network


class Lesson:
    """A board and its twin."""

    def __init__(self, client, folder, network):
        config = AcceleratorConfig.from_json((folder / "config.json").read_text())
        self.client, self.network, self.twin = client, network, output.learner_of(network, config)
        self.state = ChipState(config.learning, self.twin, client.peek, client.poke)

    def classify(self, image):
        """Its latent, after a comparison of the logits and the class."""
        latent = inference.layers(self.network, image[None])["latent"].reshape(1, -1)
        [found] = self.client.classify([np.ascontiguousarray(image.transpose(1, 2, 0)).tobytes()])
        logits = self.twin.logits(latent)[0].tolist()
        assert list(found.logits) == logits and found.index == int(np.argmax(logits))
        return latent

    def learn(self, image, label):
        latent = self.classify(image)
        self.client.learn(label)
        self.twin.learn(latent, [label])

    def check(self):
        assert self.client.learned() == (self.twin.known, self.twin.buffer.used, self.twin.frozen)
        assert self.client.status().frozen == self.twin.frozen
        assert self.state.snapshot() == self.twin.snapshot()


@pytest.fixture(scope="module", params=["flash", "memory"])
def lesson(request, tmp_path_factory):
    part = whole.target()
    if request.param == "flash":
        part = whole.target("ice40-spram", weights="stream", ring_words=64, bank_words=400, encoder_bits=2)
    folder, network = made(part, tmp_path_factory.mktemp("learns"))
    with pytest.MonkeyPatch.context() as patch:  # it runs for moments
        compile_, shared = virtual.verilate, tmp_path_factory.getbasetemp() / "runtime-O0"
        patch.setattr(virtual, "verilate", lambda *a, **k: compile_(*a, **{**k, "optimise": "-O0", "shared": shared}))
        made_board = virtual.VirtualBoard(folder, timeout_bits=12)
    with made_board as board, Serial(board.port) as port:
        client = Client(port, WAIT_S, WAIT_S)
        client.wait_ready()
        yield Lesson(client, folder, network)
        assert not board.faults() and board.close() == 0


def test_a_whole_lesson(lesson):
    """New classes, more images than the buffer holds, lost answers, a freeze, and a snapshot that brings all back after a reset."""
    client, twin = lesson.client, lesson.twin
    assert client.identify().max_classes == CLASSES
    images = strategies.images(4, 12, 8)
    lesson.check()
    for n, image in enumerate(images):
        if n == 5:  # the answer is lost: the client sends the request again with its sequence
            latent = lesson.classify(image)
            client.transport.write(encode(Opcode.LEARN, (2).to_bytes(4, "little"), client.sequence + 1), 5)
            while not client.transport.read(WAIT_S):
                pass
            client.learn(2)
            twin.learn(latent, [2])
        else:
            lesson.learn(image, min(twin.known, n // 2) % CLASSES)
    assert twin.known == CLASSES and twin.buffer.used == SLOTS and client.repeated == 0
    lesson.check()
    lesson.client.rehearse(3)
    twin.rehearse(3)
    latent = lesson.classify(images[3])
    client.store(1)
    twin.store(latent, [1])
    lesson.check()

    client.freeze()
    twin.freeze()
    lesson.classify(images[3])
    for refused in (lambda: client.learn(0), lambda: client.store(0), lambda: client.rehearse(1)):
        with pytest.raises(InputError, match="the learner is frozen"):
            refused()
    lesson.check()
    client.freeze(False)
    twin.freeze(False)
    with pytest.raises(InputError, match="the label is neither a class known nor the next free one"):
        client.learn(CLASSES)

    # An image cut short takes the sample away, and nothing else.
    data = np.ascontiguousarray(images[0].transpose(1, 2, 0)).tobytes()
    client.transport.write(encode(Opcode.CLASSIFY, data)[:100], 5)
    while not client.transport.read(WAIT_S):
        pass
    with pytest.raises(InputError, match="no image was classified before"):
        client.learn(0)
    lesson.check()

    kept = twin.snapshot()
    client.reset()
    twin.reset()
    for image in images[:2]:
        lesson.classify(image)
    lesson.check()
    lesson.learn(images[6], 2)
    lesson.state.restore(kept)
    twin.restore(kept)
    lesson.check()
    for n, image in enumerate(images[:4]):
        lesson.learn(image, n % CLASSES)
    lesson.check()
