"""Random faults in lessons; `lessons` says of what kinds, and what must hold."""

import json
import os
import shutil
import time

import numpy as np
import pytest

from fbnn_hw.board.interpreted import InterpretedBoard
from fbnn_hw.board.taught import Taught
from fbnn_hw.design import Design, generate
from fbnn_hw.ir.network import LATENT
from fbnn_hw.link.client import Client
from fbnn_hw.machine import protocol
from fbnn_hw.machine.protocol import Opcode, Space
from tests import strategies, virtual_boards
from tests.rtl.test_accelerator import GAP, POOL, conv, dense, topology

from .lessons import FAULTS, Desk, Gates, Trial

FAULTS_MEANT = int(os.environ.get("FBNN_LESSON_FAULTS", 100))
SEED = int(os.environ.get("FBNN_LESSON_SEED", time.time_ns() % 10 ** 9))
FIRST = int(os.environ.get("FBNN_LESSON_BOARD", 0))
WAIT_S = 120
COMMANDS = 25
"""Of one board; then another one in an empty folder, with random numbers of its own."""


@pytest.fixture(scope="module")
def designs(tmp_path_factory):
    """Learners by replay, by nearest means from none, and by replay with classes that can go."""
    network = strategies.on_engine(strategies.fill(topology(8, 2, conv(16), POOL, GAP, dense(32, name=LATENT)), 5))
    return [generate(network, "ice40", outputs=4, max_classes=8, out=tmp_path_factory.mktemp("lessons"), **options) for options in (
        {"learn": True, "exemplars": 12}, {"learn": "nearest-mean", "unknown": True, "forget": True},
        {"learn": True, "exemplars": 12, "forget": True})]


@pytest.fixture(scope="module")
def design(designs):
    return designs[0]


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """A machine that has much else to do is no fault."""
    monkeypatch.setattr(Client.__init__, "__defaults__", (WAIT_S, WAIT_S, 3))


def tried(designs, board_of, folder, faults, record):
    """Draw commands and faults until so many faults have happened, on boards of the designs in turn."""
    happened, commands, desk, kinds = 0, 0, None, dict.fromkeys(FAULTS, 0)
    try:
        while happened < faults:
            if not commands % COMMANDS:
                if desk:
                    desk.close()
                number = FIRST + commands // COMMANDS
                print(f"FBNN_LESSON_SEED={SEED} FBNN_LESSON_BOARD={number}")
                rng, place = np.random.default_rng([SEED, number]), folder / str(number)
                own = Design(shutil.copytree(designs[number % len(designs)].folder, place / "design"))
                desk = Desk(own, board_of(own), place, rng)
            fault = str(rng.choice(FAULTS)) if rng.random() < 0.7 else None
            commands += 1
            if desk.step(fault):
                happened += 1
                kinds[fault] += 1
            if rng.random() < 0.4:
                desk.recover()
        desk.recover()
    finally:
        desk.close()
        record("adversary", f"lessons on {board_of.__name__}: {commands} commands, {happened} faults: {kinds}; seed {SEED}")


@pytest.fixture
def desk(design, tmp_path):
    own = Design(shutil.copytree(design.folder, tmp_path / "design"))
    desk = Desk(own, InterpretedBoard(own), tmp_path, np.random.default_rng(SEED))
    print("seed", SEED)
    yield desk
    desk.close()


def teach(desk, label, passes=1, trial=None):
    return desk.run("learn", "--label", label, desk.pictures(3)[0], "--passes", passes, "--review", "none", trial=trial)


@pytest.mark.parametrize("label, number", [("dog", 0), ("dog", 4), ("class0", 2)])
def test_power_that_goes_in_a_lesson_takes_no_class_from_the_file(desk, label, number):
    assert teach(desk, "cat").code == 0
    kept = desk.kept()
    done = teach(desk, label, 2, Trial("power", number, desk.rng, Opcode.CLASSIFY | protocol.LOGITS))
    assert done.code == 3 and "lost its power" in done.err and f"--restore {desk.file}" in done.err, done
    assert desk.kept() == kept and kept[0][-1] == "cat"
    assert desk.run("learn", "--restore", desk.file).code == 0 and desk.kept() == kept and desk.board.snapshot() == kept[1]


def test_power_that_goes_before_a_sample_is_learned(desk):
    assert teach(desk, "cat").code == 0
    kept = desk.kept()
    done = teach(desk, "dog", 1, Trial("power", 0, desk.rng, Opcode.LEARN))
    assert done.code == 3 and f"--restore {desk.file}" in done.err, done
    assert desk.kept() == kept


@pytest.mark.parametrize("number", [0, 1, 5])
def test_a_command_that_is_killed_leaves_all_names(desk, number):
    assert teach(desk, "cat").code == 0
    kept = desk.kept()
    assert teach(desk, "dog", 50, Trial("killed", number, desk.rng, Opcode.LEARN)).code == -9
    assert desk.kept() == kept
    done = desk.run("classify", desk.pictures(1)[0], "--json")
    known = json.loads(done.out)["classes"]
    assert known in ([*kept[0], "dog"], list(kept[0])) and desk.kept() == kept
    done = teach(desk, "cat")
    assert done.code == 0 and list(desk.kept()[0]) == known and desk.kept()[1] == desk.board.snapshot(), done
    assert "that ended early" in done.err or known == list(kept[0])


def test_a_restore_that_is_cut_off_leaves_what_it_was_to_bring_back(desk):
    """The kept file may be the only copy, and the board still in the state in which the restore began."""
    assert teach(desk, "cat").code == 0
    kept = desk.kept()
    desk.board.power()
    done = desk.run("learn", "--restore", desk.file, trial=Trial("unplugged", 0, desk.rng, Opcode.POKE | Space.SCALARS))
    assert done.code == 3 and desk.kept() == kept, done
    assert teach(desk, "dog").code == 0 and kept in desk.contents(), desk.told()


@pytest.fixture
def forgetful(designs, tmp_path):
    """A desk with a board that forgets classes."""
    own = Design(shutil.copytree(designs[2].folder, tmp_path / "design"))
    desk = Desk(own, InterpretedBoard(own), tmp_path, np.random.default_rng(SEED))
    yield desk
    desk.close()


@pytest.mark.parametrize("taught", [False, True])
def test_a_class_that_is_half_forgotten_where_nothing_is_kept(forgetful, taught):
    """What the board was taught elsewhere is in a file before it is replaced."""
    desk = forgetful
    if taught:
        assert teach(desk, "cat").code == 0
        for path in desk.design.folder.glob("learned-board*"):
            path.unlink()
    state = desk.board.snapshot()
    assert desk.run("learn", "--forget", "class1", trial=Trial("killed", 2, desk.rng, Opcode.POKE | Space.BANKS)).code == -9
    done = desk.run("classify", desk.pictures(1)[0])
    assert done.code == 3 and done.err.endswith("begun since; learn --reset the classes of the design\n"), done
    done = desk.run("learn", "--reset")
    assert done.code == 0 and desk.board.snapshot() == desk.shipped[1], done
    saved = desk.design.folder / "learned-board-1.snapshot"
    assert saved.exists() == taught == (str(saved) in done.err)
    assert not taught or Taught.read(saved).snapshot == state


def test_a_full_disk_begins_no_lesson(desk):
    assert teach(desk, "cat").code == 0
    kept, board = desk.kept(), desk.board.snapshot()
    done = teach(desk, "dog", 1, Trial("full", 2, desk.rng, None))
    assert done.code == 3 and "cannot be written" in done.err and desk.kept() == kept and desk.board.snapshot() == board, done
    assert teach(desk, "dog").code == 0 and desk.kept()[0] == (*kept[0], "dog")


def test_an_undo_that_was_not_kept_before_a_lesson_that_thaws(desk):
    """The board of the undo, frozen as it was, is known first; then it is thawed and taught, and that is what `before` has."""
    for label in ("cat", "dog"):
        assert teach(desk, label).code == 0
    assert desk.run("learn", "--freeze").code == 0
    frozen, before = desk.kept(), Taught.read(desk.before)
    assert desk.run("learn", "--undo", trial=Trial("full", 40, desk.rng)).code == 3 and desk.kept() == frozen
    done = desk.run("learn", "--label", "cow", desk.pictures(1)[0], "--passes", 1, "--review", "none", "--thaw")
    assert done.code == 0 and "that ended early" in done.err and desk.kept()[0] == (*before.names, "cow"), done
    assert Taught.read(desk.before) == before


def test_a_disk_that_is_full_at_the_end_of_a_lesson_is_named_once(desk):
    assert teach(desk, "cat").code == 0
    done = teach(desk, "dog", 1, Trial("full", desk.requests["--label"] - 10, desk.rng))
    note, error = done.err.splitlines()
    assert done.code == 3 and "cannot be written" in error, done
    assert note == "fbnn-hw learn: the board knows what it learned until then, and the next fbnn-hw learn keeps it"
    assert teach(desk, "cow").code == 0 and desk.kept()[0][-2:] == ("dog", "cow")


def test_a_folder_that_is_drawn_has_two_classes(desk, monkeypatch):
    """A long run stopped at a folder of a board without room for a new class: one known class was drawn twice, and its pictures were
    written over those of the first lesson, which the oracle still expected."""
    monkeypatch.setattr("tests.adversary.lessons.KINDS", ("folder",))
    learner, names = desk.design.learner(), [*desk.shipped[0], *(f"thing {n}" for n in range(6))]
    learner.learn(np.zeros((6, learner.head.latent), np.uint8), range(2, 8))
    desk.file.write_bytes(Taught(tuple(names), learner.snapshot()).pack())
    desk.rng = np.random.default_rng(0)
    for _ in range(20):
        words, _ = desk.drawn()
        assert len(list(words[1].iterdir())) == 2


@pytest.mark.parametrize("number, last", [(1, "cat"), (2, "class0")], ids=["begins with none", "ships two"])
def test_the_last_class_goes_where_none_ships(designs, tmp_path, number, last):
    """The oracle of a long run took every board to keep one class."""
    own = Design(shutil.copytree(designs[number].folder, tmp_path / "design"))
    desk = Desk(own, InterpretedBoard(own), tmp_path, np.random.default_rng(SEED))
    assert teach(desk, "cat").code == 0
    for name in own.classes[1:]:
        assert desk.run("learn", "--forget", name).code == 0
    for label, code in ("cat", 0), (last, 2):
        before, way = desk.kept(), desk.way_of_forgetting(desk.kept(), label)
        done = desk.run("learn", "--forget", label)
        assert done.code == code and desk.kept() == (way[-1] if way else before), done
    desk.close()


def test_no_fault_loses_what_was_taught(designs, tmp_path, record_property):
    tried(designs, InterpretedBoard, tmp_path, FAULTS_MEANT, record_property)


@pytest.mark.slow
def test_no_fault_loses_what_was_taught_on_gates(design, tmp_path, record_property, monkeypatch):
    virtual_boards.impatient(monkeypatch)
    tried([design], Gates, tmp_path, FAULTS_MEANT, record_property)
