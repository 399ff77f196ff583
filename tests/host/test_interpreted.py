"""The board without gates (board/interpreted.py): against the reference in each family, and against the gates at its line."""

import shutil
import time
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

from fbnn_hw import cli
from fbnn_hw import design as designs
from fbnn_hw.base import bits
from fbnn_hw.base.errors import InputError, UsageError
from fbnn_hw.board import Board, selftest
from fbnn_hw.board.interpreted import NOTE, InterpretedBoard
from fbnn_hw.board.taught import Taught
from fbnn_hw.cli import main, studio
from fbnn_hw.design import Design
from fbnn_hw.ir import shipped
from fbnn_hw.ir.network import LATENT
from fbnn_hw.link.client import Client
from fbnn_hw.link.transport import Serial
from fbnn_hw.machine import protocol
from fbnn_hw.machine.line import DEFAULT_BAUD
from fbnn_hw.machine.protocol import ERROR, LOGITS, REPLY, Opcode, Space
from fbnn_hw.machine.protocol import LATENT as WITH_LATENT
from fbnn_hw.reference import inference
from fbnn_hw.simulate import virtual
from tests import schemas, strategies, virtual_boards
from tests.quick import quick
from tests.rtl.test_accelerator import GAP, POOL, conv, dense, topology

WAIT_S = 120
SMALL = strategies.on_engine(strategies.fill(topology(8, 2, conv(16), POOL, GAP, dense(32, name=LATENT)), 5))
LEARNERS = {
    "replay": {"learn": True, "max_classes": 4, "exemplars": 6}, "prototypes": {"learn": "prototypes", "max_classes": 4},
    "means": {"learn": "means", "max_classes": 4},
    "nearest": {"learn": "nearest-mean", "max_classes": 4, "unknown": True, "forget": True},
    "levels": {"learn": True, "max_classes": 4, "exemplars": 6, "input": "levels"}}


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """The folder of a family, or of a design that does not learn, and a target; each is generated once."""
    @cache
    def folder(family, target):
        lanes, options = {"ice40": 16, "generic": 32}[target], LEARNERS.get(family, {})
        return designs.generate(SMALL, target, out=tmp_path_factory.mktemp("boards"), lanes=lanes, outputs=4, **options).folder
    return folder


@pytest.fixture
def made(generated, tmp_path):
    """A `Design` of a family and a target, in a folder of the test's own."""
    return lambda family, target: Design(shutil.copytree(generated(family, target), tmp_path / "design"))


@pytest.mark.parametrize("family, target", quick(
    [(family, target) for family in LEARNERS for target in ("ice40", "generic")],
    ("replay", "ice40"), ("prototypes", "generic"), ("means", "ice40"), ("nearest", "ice40"), ("levels", "generic")))
def test_a_lesson_is_that_of_the_reference(family, target, made):
    """Streamed weights, and all on the chip; a state that is kept, shown, restored; the next board begins with it."""
    design = made(family, target)
    images, learner = strategies.images(3, 6, 8), design.learner()
    latents = inference.layers(SMALL, images)[LATENT].reshape(len(images), -1)
    notes = []
    with Board.interpreted(design, note=notes.append) as board:
        answer = board.classify(images, latent=True)
        assert (answer.latents == latents).all() and (answer.logits == learner.logits(latents)).all()
        new = learner.known
        board.learn(images[:3], "cat", passes=1)
        learner.learn(latents[:3], [new] * 3)
        assert board.chip.snapshot() == learner.snapshot() == board.twin.snapshot()
        board.client.reset()
        board.chip.show(learner.state)
        assert (board.classify(images).logits == learner.logits(latents)).all()
        board.chip.write(learner.state)
        if not design.config.learning.adds:
            board.rehearse(3)
            learner.rehearse(3)
        board.freeze()
        learner.freeze()
        with pytest.raises(InputError, match="frozen"):
            board.client.learn(0)
        assert board.chip.snapshot() == learner.snapshot() and board.client.status().frozen
        with pytest.raises(InputError, match="its simulated board is at work"), Board.interpreted(design):
            pass
    with Board.interpreted(design) as board:
        assert board.names[-1] == "cat" and board.chip.snapshot() == learner.snapshot()
        assert (board.classify(images).logits == learner.logits(latents)).all()
    assert len(notes) == 1 and "nothing of the gates" in notes[0]


@pytest.mark.parametrize("family", ["replay", "nearest"])
def test_a_self_test_of_a_board_that_was_taught(family, made, monkeypatch):
    """It erases what was taught, so the answers are of the design's classes; at the end the board knows all again."""
    monkeypatch.setattr(selftest, "InterpretedBoard", ())  # which it would refuse
    design = made(family, "ice40")
    with Board.interpreted(design) as board:
        board.learn(strategies.images(3, 6, 8), "cat", passes=1)
        names, taught = board.names, board.chip.snapshot()
        board.client.transport.baud = DEFAULT_BAUD
        entries = {entry["check"]: entry for entry in selftest.checks(board, design, 4)}
        for name in "logits" if design.config.classes else "latents", "lesson", "reset and restore":
            assert entries[name]["passed"], entries
        assert board.names == names and names[-1] == "cat" and board.chip.snapshot() == taught


@pytest.mark.parametrize("name, target, options", quick(
    [("tiny.pt", "ice40", {}), ("fast.pt", "ice40", {"weights": "flash-2x"}), ("res-small.pt", "generic", {}),
     ("tiny.pt", "gowin", {"weights": "sdram"}), ("tiny.pt", "ice40", {"input": "levels"}), ("2", "generic", {})],
    ("fast.pt", "ice40", {"weights": "flash-2x"}), ("2", "generic", {})))
def test_logits_are_those_of_the_reference(name, target, options, tmp_path):
    """Late rows, an SDRAM, levels, lists of reads."""
    network = shipped.load(name) if name.endswith(".pt") else strategies.network_2(int(name))
    design = designs.generate(network, target, out=tmp_path, **options)
    images = strategies.images(1, 3, design.config.size)
    with Board.interpreted(design) as board:
        answer = board.classify(images)
    assert np.array_equal(answer.logits, inference.logits(design.network, images))
    estimate = design.estimate
    assert answer.cycles == [estimate[key] - estimate["load_cycles"] for key in ("first_cycles", "cycles", "cycles")]


def requests(rng, identity, count):
    """A lesson that a board takes, damaged and cut; then messages of every kind, most of them whole, some twice with one sequence."""
    shown = protocol.encode(Opcode.CLASSIFY | LOGITS | WITH_LATENT, rng.bytes(identity.image_bytes), 251)
    lesson = protocol.encode(Opcode.LEARN, protocol.operand(0), 252)
    found = [shown, lesson, lesson[:-1] + bytes([lesson[-1] ^ 4]), lesson[:4]]
    kinds = (*protocol.REQUESTS, *protocol.COMMANDS, *protocol.COMMANDS, *protocol.LEARNING_REQUESTS)
    for number in range(count):
        opcode = int(rng.choice(kinds))
        payload = b""
        if opcode & ~3 == Opcode.CLASSIFY:
            payload = rng.bytes(identity.image_bytes)
        elif opcode >= Opcode.POKE:  # what a learner can be in: whether it is frozen
            opcode, payload = Opcode.POKE | Space.SCALARS, protocol.operand(2, 1) + protocol.words_bytes(
                [int(rng.integers(2))], identity.word_bytes)
        elif opcode >= Opcode.PEEK:
            spaces = Space.PRESENTED, Space.SCALARS, Space.NOISE, Space.MASK, Space.PICK
            opcode, payload = Opcode.PEEK | int(rng.choice(spaces)), protocol.operand(int(rng.integers(4)), int(rng.integers(4)))
        elif opcode >= Opcode.LEARN:
            payload = protocol.operand(int(rng.choice([0, 1, 2, 3, 4, 7, 9, 1 << 20])), int(rng.integers(4)))
        message = protocol.encode(opcode, payload, number & 0xFF)
        match int(rng.integers(20)):
            case 0:
                message = message[:-1] + bytes([message[-1] ^ 4])
            case 1:
                message = message[:int(rng.integers(1, len(message)))]
            case 2:
                message = message[:1] + bytes([int(rng.integers(256))]) + message[2:]
            case 3:
                message = message[:3] + bytes([message[3] ^ 1]) + message[4:]
            case 4:
                message = b"noise" + message
            case 5:
                found.append(message)
        found.append(message)
    return found


def test_it_answers_as_the_gates_do(made, monkeypatch):
    """Byte for byte, but for the cycles: requests, repeated ones, faults, in an order drawn by a seed."""
    seed = time.time_ns() % 10 ** 9
    print("seed", seed)
    rng = np.random.default_rng(seed)
    design = made("replay", "ice40")
    virtual_boards.impatient(monkeypatch)

    def asked(line, message):
        line.write(message, WAIT_S)
        decoder = protocol.Decoder()
        while True:
            for opcode, sequence, payload in decoder.feed(line.read(WAIT_S)):
                return opcode, sequence, payload[:5] if opcode == Opcode.STATUS | REPLY else payload

    with virtual.VirtualBoard(design.folder) as gates, Serial(gates.port) as line, InterpretedBoard(design) as board:
        assert board.path == "the interpreted board"
        identity = protocol.Identity.unpack(asked(board, protocol.encode(Opcode.IDENTIFY))[2])
        assert identity == protocol.Identity.of(design.config, bytes.fromhex(design.model_mark))
        told = set()
        for message in [protocol.encode(Opcode.IDENTIFY), *requests(rng, identity, 250)]:
            while not asked(line, protocol.encode(Opcode.STATUS, sequence=255))[2][0] & 1:
                pass  # after a reset the weights are loaded
            asked(board, protocol.encode(Opcode.STATUS, sequence=255))
            answers = asked(line, message), asked(board, message)
            assert answers[0] == answers[1], (seed, message[:12].hex(), answers)
            told.add(answers[0][:1] if answers[0][0] != ERROR else answers[0][::2])
        assert gates.close() == 0
    assert {(Opcode.CLASSIFY | LOGITS | WITH_LATENT | REPLY,), (Opcode.LEARN | REPLY,), (ERROR, b"\1"), (ERROR, b"\4")} <= told


def test_it_is_no_board_to_test(made, tmp_path, capsys):
    design = made("plain", "generic")
    assert main(["selftest", "--board", "interpreted", "--design", str(design.folder), "--out", str(tmp_path / "found")]) == 2
    assert capsys.readouterr().err == (f"fbnn-hw selftest: --board interpreted: {selftest.NO_GATES}\n")
    with Board.interpreted(design) as board, pytest.raises(UsageError, match="has no gates to test"):
        selftest.checks(board, design, 1)
    assert not list(tmp_path.glob("found*"))


def test_a_folder_whose_program_cannot_be_carried_out(made, monkeypatch):
    design = made("plain", "generic")
    with monkeypatch.context() as patch, pytest.raises(UsageError, match="logits of 17 bits"):
        patch.setattr(design, "config", replace(design.config, logit_bits=17))
        InterpretedBoard(design)
    with monkeypatch.context() as patch, pytest.raises(InputError, match="files that contradict each other"):
        patch.setattr(design, "estimate", {})
        InterpretedBoard(design)
    (design.folder / "weights.hex").write_text("0" * 8 + "\n")
    with pytest.raises(InputError, match="the program: .*, expected one that the engine can carry out; generate the folder again"):
        InterpretedBoard(design)
    (design.folder / "weights.hex").unlink()
    with pytest.raises(InputError, match="expected what `fbnn-hw generate` wrote; generate the folder again"):
        InterpretedBoard(design)


def test_the_commands(made, tmp_path, capsys):
    """Answers of `classify` and the line of `studio`, which say what they are; the state that a virtual board would begin with."""
    design = made("replay", "ice40")
    images = strategies.images(3, 2, 8)
    np.save(tmp_path / "x.npy", images)
    at = "--board", "interpreted", "--design", str(design.folder)
    assert main(["learn", "--label", "cat", str(tmp_path / "x.npy"), "--review", "none", *at]) == 0
    taught = Taught.read(design.folder / "learned-virtual.snapshot")
    learner = design.learner()
    learner.restore(taught.snapshot)
    capsys.readouterr()
    assert main(["classify", str(tmp_path / "x.npy"), "--json", "--latent", *at]) == 0
    out, err = capsys.readouterr()
    answer, latents = schemas.check("classify", out), inference.layers(SMALL, images)[LATENT].reshape(len(images), -1)
    assert answer["classes"] == list(taught.names) == [*design.classes, "cat"] and answer["port"] == "the interpreted board"
    assert [image["logits"] for image in answer["images"]] == learner.logits(latents).tolist()
    assert [image["latent"] for image in answer["images"]] == [bits.pack(latent).tobytes().hex() for latent in latents]
    assert err == f"fbnn-hw classify: {NOTE}\n"
    notes, args = [], cli.parser("studio").parse_args(["--board", "interpreted"])
    with studio._line(args, design, SimpleNamespace(note=notes.append)) as (opened, name, patience):
        for _ in range(2):
            with opened() as line:
                line.write(protocol.encode(Opcode.IDENTIFY), 1)
                assert protocol.Decoder().feed(line.read(WAIT_S))[0][0] == Opcode.IDENTIFY | REPLY
        with opened() as line:  # what `learn` taught is there
            assert Board(Client(line, wait_s=WAIT_S, ready_s=WAIT_S), design, True).names[-1] == "cat"
    assert (name, patience, notes) == ("the interpreted board", 1, [NOTE])
    assert main(["learn", "--freeze", "--baud", "9600", *at]) == 2
    assert capsys.readouterr().err == "fbnn-hw learn: --baud: has no meaning on the interpreted board\n"
