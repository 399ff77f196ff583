"""The link in both directions: a board that lies to the host, and a host that sends a board anything."""

import time

import numpy as np

from fbnn_hw.machine import protocol
from fbnn_hw.machine.protocol import ERROR, LATENT, LOGITS, REPLY, SYNC, Fault, Identity, Opcode, Status

from . import mutators
from .runner import Case

WAIT_S = 0.05


# The host, and a board that lies.

def case(rng, world, folder):
    return Case([f"{__name__}:talk", int(rng.integers(2 ** 32)), world.learner.folder, round(float(rng.random()), 2)], folder)


class Liar:
    """A transport to a board that answers well, but for a share of its answers."""

    path = "liar"

    def __init__(self, rng, design, share):
        config = design.config
        self.rng, self.share, self.pending, self.flood = rng, share, b"", False
        self.decoder = protocol.Decoder()
        self.identity = Identity(protocol.VERSION, bytes.fromhex(config.id), config.classes, config.size,
                                 config.latent_words * config.lanes // 8, protocol.FRAMES, config.learning.max_classes,
                                 max(16, config.lanes) // 8, bytes.fromhex(design.model_mark))
        self.known = config.classes

    def write(self, data, timeout):
        for opcode, sequence, payload in self.decoder.feed(data):
            self.pending += self.answer(opcode, sequence, payload)

    def read(self, timeout):
        if self.flood:
            return bytes([SYNC]) * 2 ** 16
        data, self.pending = self.pending, b""
        if not data:
            time.sleep(max(0, min(timeout, WAIT_S)))
        return data

    def discard(self):
        self.pending = b""

    def answer(self, opcode, sequence, payload):
        rng, body = self.rng, self.truth(opcode, payload)
        if rng.random() >= self.share:
            return protocol.encode(opcode | REPLY, body, sequence)
        match int(rng.integers(9)):
            case 0:
                return protocol.encode(ERROR, bytes([int(mutators.some(rng, tuple(Fault)))]), sequence)
            case 1:
                return protocol.encode(ERROR, rng.bytes(int(rng.integers(3))), sequence)
            case 2:
                return b""
            case 3:
                return rng.bytes(int(rng.integers(1, 200)))
            case 4:
                self.flood = rng.random() < 0.1
                return bytes([SYNC]) * int(rng.integers(1, 70000))
            case 5:
                return protocol.encode(opcode | REPLY, rng.bytes(int(mutators.some(rng, (0, 1, 7, 8, 19, 20, 255, 65535)))), sequence)
            case 6:
                return protocol.encode(int(rng.integers(256)), body, int(rng.integers(256)))
            case 7:
                return mutators.data(rng, protocol.encode(opcode | REPLY, body, sequence))
            case _:
                return protocol.encode(opcode | REPLY, mutators.data(rng, body), sequence)

    def truth(self, opcode, payload):
        """Payload of an honest answer."""
        if opcode == Opcode.IDENTIFY:
            return self.identity.pack()
        if opcode == Opcode.STATUS:
            return Status(True, False, 1, 0, 1000).pack()
        if opcode & ~(LOGITS | LATENT) == Opcode.CLASSIFY:
            logits = self.rng.integers(-30, 30, self.known)
            data = logits.astype("<i2").tobytes() if opcode & LOGITS else b""
            return data + bytes(self.identity.latent_bytes) * bool(opcode & LATENT) + int(logits.argmax()).to_bytes(2, "little")
        if opcode == Opcode.PEEK + protocol.Space.SCALARS:
            numbers = (self.known, int(self.rng.integers(3)), 0, 0)[payload[0]:]
            return protocol.words_bytes(numbers[:payload[3]], self.identity.word_bytes)
        if Opcode.PEEK <= opcode < Opcode.POKE:
            return protocol.words_bytes(self.rng.integers(0, 2, payload[3]).tolist(), self.identity.word_bytes)
        return b""


def talk(seed, folder, share):
    """All that a host says, to a board that lies; what it believes must be possible."""
    from fbnn_hw.board import Board
    from fbnn_hw.design import Design
    from fbnn_hw.link.client import Client
    from fbnn_hw.reference.learning.snapshot import State

    rng, design = np.random.default_rng(int(seed)), Design(folder)
    client = Client(Liar(rng, design, 0.5 * float(share) ** 2), wait_s=WAIT_S, ready_s=2 * WAIT_S)
    board = Board(client, design, False)
    assert board.identity.config.hex() == design.config_id and board.identity.max_classes == design.config.learning.max_classes
    images = np.zeros((3, 3, design.config.size, design.config.size), np.uint8)
    for latent in (False, True):
        answers = board.classify(images, latent)
        assert answers.classes == answers.logits.argmax(1).tolist() and len(answers.logits[0]) <= board.identity.max_classes
    assert all(name.isprintable() for name in board.names) and len(board.names) <= board.identity.max_classes
    State.unpack(board.chip.snapshot(), design.learner())
    client.learn(0)
    client.rehearse(3)
    client.freeze()
    client.reset()


# A board, and a host that sends anything.

def noise(rng, identity):
    """Bytes for a board: whole requests with any operand, damaged ones, and none at all.

    Words are not poked into the banks: those hold the weights, which stay what they become until the board is powered anew.
    """
    parts = []
    for _ in range(int(rng.integers(1, 6))):
        opcode = int(mutators.some(rng, (*protocol.REQUESTS, *protocol.LEARNING_REQUESTS[:13], int(rng.integers(256)))))
        opcode = Opcode.STATUS if opcode >= Opcode.POKE else opcode
        length = int(mutators.some(rng, (0, 0, 1, 4, 4, 5, 255, identity.image_bytes, identity.image_bytes, 2000)))
        request = protocol.encode(opcode, rng.bytes(length), int(rng.integers(256)))
        match int(rng.integers(6)):
            case 0:
                request = mutators.data(rng, request)
            case 1:
                request = request[:int(rng.integers(len(request) + 1))]
            case 2:
                request = rng.bytes(int(rng.integers(1, 100)))
            case 3:
                request = bytes([SYNC]) * int(rng.integers(1, 300))
        parts.append(request)
    return b"".join(parts)


def disturb(rng, port, client, identity, image, expected, chip):
    """Send noise; "" if the board is itself again afterwards, else what is wrong."""
    port.write(noise(rng, identity), 60)
    if rng.random() < 0.5:
        time.sleep(float(rng.random()) / 10)
    port.discard()
    if client.identify() != identity:
        return f"identity {client.identify()}, expected {identity}"
    client.reset()
    if not chip.untaught():
        return "not as shipped after a reset"
    answer = client.classify(image)
    if (list(answer.logits), answer.index) != expected:
        return f"logits {answer.logits}, class {answer.index}, expected {expected}"
    return ""
