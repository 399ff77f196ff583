"""Lessons by the commands a user types, on the interpreted board, and on the gates where those are asked for; every answer and every bit
kept is the reference's."""

import shutil
import signal
from contextlib import contextmanager

import numpy as np
import pytest
from PIL import Image

from fbnn_hw import Board
from fbnn_hw import design as designs
from fbnn_hw.base import files
from fbnn_hw.base.errors import InputError, UsageError
from fbnn_hw.board.interpreted import InterpretedBoard
from fbnn_hw.board.taught import HEAD, Taught
from fbnn_hw.data import datasets
from fbnn_hw.design import Design
from fbnn_hw.ir.network import LATENT
from fbnn_hw.link.chip import ChipState
from fbnn_hw.link.client import Client
from fbnn_hw.link.transport import Serial
from fbnn_hw.machine.config import AcceleratorConfig
from fbnn_hw.machine.protocol import Opcode, encode
from fbnn_hw.nn import checkpoint
from fbnn_hw.reference import inference
from fbnn_hw.simulate import virtual
from tests import kinds, strategies, virtual_boards
from tests.adversary.lessons import Line
from tests.data import test_folder as folders
from tests.rtl.test_accelerator import GAP, POOL, conv, dense, topology

CLASSES, SLOTS, WAIT_S = 4, 6, 120


@pytest.fixture(autouse=True, scope="module")
def fast():
    """The board gives up soon."""
    with pytest.MonkeyPatch.context() as patch:
        virtual_boards.impatient(patch)
        patch.setattr(Client.__init__, "__defaults__", (WAIT_S, WAIT_S, 3))
        yield


@pytest.fixture(scope="module")
def design(tmp_path_factory):
    """(folder, network) of a small design that learns."""
    from fbnn_hw.cli import main

    root = tmp_path_factory.mktemp("learn")
    network = strategies.on_engine(strategies.fill(topology(8, 2, conv(16), POOL, GAP, dense(32, name=LATENT)), 5))
    checkpoint.save(root / "small.pt", network)
    assert main([str(word) for word in generate(root)]) == 0
    return next((root / "rtl_out").iterdir()), network


def generate(root):
    return ["generate", "--model", root / "small.pt", "--target", "ice40", "--outputs", 4, "--learn", "--max-classes", CLASSES,
            "--exemplars", SLOTS, "--out", root / "rtl_out", "--json"]


class Lesson:
    """A board and its twin."""

    def __init__(self, client, folder, network):
        config = AcceleratorConfig.from_json((folder / "config.json").read_text())
        self.client, self.network, self.twin = client, network, config.learning.learner(network)
        client.identify().compare(config)
        self.state = ChipState(config.learning, self.twin, client.peek, client.poke)

    def classify(self, image):
        """Its latent, after a comparison of the logits and the class."""
        latent = inference.layers(self.network, image[None])["latent"].reshape(1, -1)
        result = self.client.classify(np.ascontiguousarray(image.transpose(1, 2, 0)).tobytes())
        logits = self.twin.logits(latent)[0].tolist()
        assert list(result.logits) == logits and result.index == int(np.argmax(logits))
        return latent

    def learn(self, image, label):
        latent = self.classify(image)
        self.client.learn(label)
        self.twin.learn(latent, [label])

    def check(self):
        assert self.client.learned() == (self.twin.known, self.twin.buffer.used, self.twin.frozen)
        assert self.client.status().frozen == self.twin.frozen
        assert self.state.snapshot() == self.twin.snapshot()


def pictures(seed, count):
    return strategies.images(seed, count, 8)


@contextmanager
def plugged_in(folder):
    """A board of the folder's design at a port, which was never taught."""
    with InterpretedBoard(Design(folder)) as board:
        line = Line(board)
        try:
            yield line
        finally:
            line.unplug()


@pytest.fixture
def lesson(design):
    folder, network = design
    with virtual.VirtualBoard(folder) as board, Serial(board.port) as port:
        client = Client(port)
        client.wait_ready()
        yield Lesson(client, folder, network)
        assert not board.faults() and board.close() == 0


def test_a_whole_lesson(lesson):
    """New classes, more images than the buffer holds, lost answers, a freeze, and a snapshot that brings all back after a reset."""
    client, twin = lesson.client, lesson.twin
    assert client.identify().max_classes == CLASSES
    images = pictures(4, 12)
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


def test_interrupts_inside_requests(lesson, monkeypatch):
    """Half a request on the line, or a whole one at work: the board hears the next one, and the lesson goes on."""
    client, transport = lesson.client, lesson.client.transport
    read, write = transport.read, transport.write

    def write_half(data, timeout):
        write(data[:5], timeout)
        raise KeyboardInterrupt

    def read_nothing(timeout):
        if timeout:
            raise KeyboardInterrupt
        return read(0)

    for n, image in enumerate(pictures(4, 6)):
        latent = lesson.classify(image)
        with pytest.raises(KeyboardInterrupt), monkeypatch.context() as patch:
            patch.setattr(transport, *(("read", read_nothing) if n % 2 else ("write", write_half)))
            client.learn(2)
        assert client.unsettled
        if n % 2:
            lesson.twin.learn(latent, [2])
        with client.within(60):
            lesson.check()
        assert not client.unsettled and client.repeated == 0


def test_a_board_that_lost_its_power(design, answer, cli, tmp_path, monkeypatch):
    """At a port: what it was taught before stays in a file, and comes back with --restore.  Then a lesson that is interrupted."""
    folder, network = design
    shipped, cats = list(network.topology.classes), tmp_path / "cats.npy"
    np.save(cats, pictures(1, 2))
    kept, aside = folder / "learned-board.snapshot", folder / "learned-board-1.snapshot"
    with plugged_in(folder) as board:
        result = answer("learn", "--label", "cat", cats, "--port", board.port, "--design", folder)
        assert result["kept"] == str(kept) and result["classes"] == [*shipped, "cat"]
        assert answer("classify", cats, "--port", board.port)["classes"] == ["0", "1", "class 2"]  # nobody says which design it is
    first = kept.read_bytes()
    with plugged_in(folder) as board:
        at = "--port", board.port, "--design", folder
        _, out, err = cli("learn", "--label", "dog", cats, "--review", "none", *at)
        assert err == (f"fbnn-hw learn: {board.port}: does not know what it was last taught here; that is kept as {aside}, "
                       "--restore brings it back\n")
        assert f"knows 3 of 4 classes: {', '.join(shipped)}, dog" in out.splitlines() and aside.read_bytes() == first
        calls, learn = [], Client.learn
        with monkeypatch.context() as patch:
            patch.setattr(Client, "learn", lambda *words: [calls.append(words), len(calls) == 2 and signal.raise_signal(signal.SIGINT),
                                                           learn(*words)])
            code, _, err = cli("learn", "--label", "cow", cats, "--review", "none", *at)
        assert (code, err) == (130, f"fbnn-hw learn: interrupted; what it learned until then is kept in {kept}\n")
        assert list(Taught.read(kept).names) == [*shipped, "dog", "cow"]
        assert answer("learn", "--restore", aside, "--discard", *at)["classes"] == [*shipped, "cat"] and kept.read_bytes() == first
        assert answer("classify", cats, *at)["classes"] == [*shipped, "cat"]


def test_two_boards_of_one_design(design, answer, tmp_path):
    """Lessons of as many images leave equal marks, but no board is taken for the other one: neither its names nor its file."""
    folder, network = design
    for path in folder.glob("learned-board*"):
        path.unlink()
    shipped, lesson = list(network.topology.classes), ("--review", "none", "--passes", "1")
    for number, name in enumerate(("mug", "cup", "pen"), 1):
        np.save(tmp_path / f"{name}.npy", pictures(number, 1))
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(folder, elsewhere)
    kept, aside = folder / "learned-board.snapshot", folder / "learned-board-1.snapshot"
    with plugged_in(folder) as board:
        answer("learn", "--label", "mug", tmp_path / "mug.npy", *lesson, "--port", board.port, "--design", folder)
    first = kept.read_bytes()
    with plugged_in(elsewhere) as board:
        answer("learn", "--label", "cup", tmp_path / "cup.npy", *lesson, "--port", board.port, "--design", elsewhere)
        second, marks = (elsewhere / "learned-board.snapshot").read_bytes(), []
        for data in (first, second):
            state = Taught.unpack(data).state(Design(folder).learner(), "")
            marks.append((state.known, len(state.labels), state.frozen, state.registers, state.presented, state.left))
        assert marks[0] == marks[1]
        assert answer("classify", tmp_path / "cup.npy", "--port", board.port, "--design", folder)["classes"] == [*shipped, "class 2"]
        with Board.open(board.port, design=folder) as taught:
            taught.learn(np.load(tmp_path / "pen.npy"), "pen", passes=1)
            assert aside.read_bytes() == first and Taught.read(kept).names[-2:] == ("class 2", "pen")
            taught.undo()
            assert Taught.read(kept).pack() != first and taught.snapshot(tmp_path / "now") is None
        assert Taught.read(tmp_path / "now").snapshot == Taught.unpack(second).snapshot
    for path in folder.glob("learned-board*"):
        path.unlink()


def test_a_lesson_taken_back_thaws_no_board(design, answer, tmp_path):
    folder, _ = design
    board = "--board", "virtual", "--design", folder
    np.save(tmp_path / "cats.npy", pictures(1, 1))
    answer("learn", "--label", "cat", tmp_path / "cats.npy", "--review", "none", *board)
    assert answer("learn", "--freeze", *board)["frozen"] and answer("learn", "--undo", *board)["frozen"]
    assert not answer("learn", "--thaw", *board)["frozen"] and not answer("learn", "--undo", *board)["frozen"]
    answer("learn", "--reset", "--discard", *board)


def test_a_folder_is_a_lesson_for_each_class(design, answer, refused, tmp_path):
    folder, network = design
    board, shipped = ("--board", "interpreted", "--design", folder), list(network.topology.classes)
    folders.pictures(tmp_path / "p", ("dog", "cat"), 1, 8)
    result = answer("learn", tmp_path / "p", "--passes", 1, "--review", "none", *board)
    assert [(lesson["label"], lesson["index"], lesson["new"], lesson["images"]) for lesson in result["lessons"]] == [
        ("cat", 2, True, 1), ("dog", 3, True, 1)]
    assert result["classes"] == [*shipped, "cat", "dog"] and "label" not in result
    one = answer("learn", tmp_path / "p" / "cat", "--label", "cat", "--passes", 1, "--review", "none", *board)
    assert (one["label"], one["new"], one["images"]) == ("cat", False, 1)
    assert refused("learn", tmp_path / "p", "--label", "cat", *board) == (
        2, f"fbnn-hw learn: {tmp_path / 'p'}: has a subfolder for each class, expected no --label with it")
    assert refused("learn", tmp_path / "p" / "cat", *board)[1].endswith("0.png: lies in no folder of a class, expected --label with it")
    answer("learn", "--reset", "--discard", *board)


def test_a_folder_is_refused_before_its_first_lesson(design, answer, refused, monkeypatch, tmp_path):
    """A name that no class can have, and more classes than there is room for."""
    folder, network = design
    board, shipped = ("--board", "interpreted", "--design", folder), list(network.topology.classes)
    folders.pictures(tmp_path / "p", ("cat", "cow", "dog"), 1, 8)
    assert refused("learn", tmp_path / "p", *board) == (
        3, f"fbnn-hw learn: --label cat, cow, dog: the board has room for {CLASSES} classes and knows {', '.join(shipped)}; expected fewer "
        "new ones, or a design made with more --max-classes")
    folders.pictures(tmp_path / "q", ("cat", " dog "), 1, 8)
    with monkeypatch.context() as patch:
        patch.setattr(InterpretedBoard, "__init__", None)  # no board is started
        assert refused("learn", tmp_path / "q", *board) == (
            2, f"fbnn-hw learn: {tmp_path / 'q'}/ dog : class ' dog ': expected a name of printable characters that begins and ends with "
            "none that is blank")
    assert answer("learn", "--thaw", *board)["classes"] == shipped


def test_an_interrupt_after_a_lesson_says_where_it_is_kept(design, answer, cli, monkeypatch, tmp_path):
    """In the lesson of the next class, before its first image, and before the replays after a lesson."""
    folder, network = design
    board = "--board", "interpreted", "--design", folder, "--passes", 1, "--review", "none"
    folders.pictures(tmp_path / "p", ("cat", "dog"), 1, 8)
    for words, place, label in (((tmp_path / "p",), "learn", "cat"),
                                (("--label", "dog", tmp_path / "p" / "dog", "--rehearse", 2), "rehearse", "dog")):
        calls, act = [], getattr(Client, place)

        def interrupted(*words, calls=calls, act=act, ends=2 if place == "learn" else 1):
            calls.append(words)
            return signal.raise_signal(signal.SIGINT) if len(calls) == ends else act(*words)
        with monkeypatch.context() as patch:
            patch.setattr(Client, place, interrupted)
            code, _, err = cli("learn", *words, *board)
        kept = folder / "learned-virtual.snapshot"
        assert (code, err) == (130, f"fbnn-hw learn: interrupted; what it learned until then is kept in {kept}\n")
        assert Taught.read(kept).names == (*network.topology.classes, label)
        answer("learn", "--reset", "--discard", "--board", "interpreted", "--design", folder)


def test_what_is_discarded_does_not_come_back(design, answer, refused, tmp_path):
    folder, network = design
    board = "--board", "interpreted", "--design", folder
    np.save(tmp_path / "cats.npy", pictures(1, 1))
    answer("learn", "--snapshot", tmp_path / "shipped", *board)
    for words in ("--reset",), ("--restore", tmp_path / "shipped"):
        for label in "cat", "dog":
            answer("learn", "--label", label, tmp_path / "cats.npy", "--review", "none", "--passes", 1, *board)
        assert answer("learn", *words, "--discard", *board)["classes"] == list(network.topology.classes)
        assert refused("learn", "--undo", *board)[1].endswith(": no lesson to take back; expected one before, with this design")


def test_a_class_forgotten_is_not_counted(design, answer, cli, tmp_path):
    made = designs.generate(design[1], "ice40", outputs=4, out=tmp_path, learn="replay", forget=True, max_classes=4, exemplars=12)
    board = "--board", "interpreted", "--design", made.folder
    answer("learn", "--forget", made.classes[0], "--snapshot", tmp_path / "one", *board)
    _, out, _ = cli("learn", "--restore", tmp_path / "one", *board)
    assert f"restored {tmp_path / 'one'}: knows 1 classes, 0 exemplars" in out.splitlines()


def test_an_empty_buffer_begins_with_images_of_the_models_classes(design, answer, cli, monkeypatch, tmp_path):
    folder, network = design
    board, classes = ("--board", "interpreted", "--design", folder), network.topology.classes
    data = datasets.Images(strategies.images(3, 12, 8), np.arange(12) % 3, (classes[1], "other", classes[0]))
    monkeypatch.setattr(datasets, "load", lambda name, data_dir=None, split="train", progress=None: data)
    np.save(tmp_path / "cats.npy", strategies.images(1, 2, 8))
    result = answer("learn", "--label", "cat", tmp_path / "cats.npy", "--rehearse", 0, *board)

    twin = AcceleratorConfig.from_json((folder / "config.json").read_text()).learning.learner(network)
    kept = data.select(classes).thinned(1)
    latents = [inference.layers(network, images)[LATENT].reshape(len(images), -1) for images in (kept.images, strategies.images(1, 2, 8))]
    twin.store(latents[0], kept.labels)
    passes = 0
    while passes < 5 and (not passes or (twin.classify(latents[1]) == 2).mean() < 0.8):
        for latent in latents[1]:
            twin.learn(latent[None], [2])
        passes += 1
    assert (result["reviewed"], result["passes"]) == (2, passes)
    assert Taught.read(folder / "learned-virtual.snapshot") == Taught(tuple([*classes, "cat"]), twin.snapshot())
    # What the lesson did to the exemplars that were stored before, and the way back and forth.
    before = Design(folder).config.learning.learner(network)
    before.store(latents[0], kept.labels)
    for number, name in enumerate(classes):
        own = latents[0][kept.labels == number]
        right = [int((learner.classify(own) == number).sum()) for learner in (before, twin)]
        assert result["effects"][name] == {"exemplars": len(own), "right_before": right[0], "right_after": right[1]}
    kept_file = folder / "learned-virtual.snapshot"
    assert answer("learn", "--undo", *board)["classes"] == list(classes)
    assert Taught.read(kept_file) == Taught(tuple(classes), before.snapshot())
    assert answer("learn", "--undo", *board)["classes"] == [*classes, "cat"]
    assert Taught.read(kept_file) == Taught((*classes, "cat"), twin.snapshot())
    # The class of a lesson is none of the others, though it has exemplars by now.
    assert set(answer("learn", "--label", "cat", tmp_path / "cats.npy", *board)["effects"]) == set(classes)
    _, _, err = cli("learn", "--label", "cat", tmp_path / "cats.npy", "--passes", 1, "--review", "cifar10", *board)
    assert "fbnn-hw learn: --review cifar10: it has exemplars already, so none of these images is stored" in err.splitlines()
    answer("learn", "--reset", "--discard", *board)
    kept_file.unlink()


def test_the_buffer_begins_without_forgotten_classes(design, tmp_path, monkeypatch):
    from fbnn_hw.board import lesson

    network = design[1]
    made = designs.generate(network, "ice40", outputs=4, out=tmp_path, learn="replay", forget=True, max_classes=4, exemplars=12)
    classes = network.topology.classes
    data = datasets.Images(strategies.images(3, 8, 8), np.arange(8) % 2, classes)
    monkeypatch.setattr(datasets, "load", lambda name, data_dir=None, split="train", progress=None: data)
    with Board.interpreted(made) as board:
        board.forget(classes[0])
        assert lesson.review(board) == 3
        assert set(board.twin.buffer.labels[:board.twin.buffer.used]) == {1}


def test_a_class_taught_is_known_by_its_name(design, answer, cli, tmp_path):
    folder, network = design

    def refused(*words):
        """The one line on stderr."""
        code, out, err = cli(*words)
        assert code == 3 and not out and err.count("\n") == 1 and "Traceback" not in err, err
        return err.splitlines()[-1]

    twin = AcceleratorConfig.from_json((folder / "config.json").read_text()).learning.learner(network)
    shipped = list(network.topology.classes)
    board = ("--board", "interpreted", "--design", folder)
    kept = folder / "learned-virtual.snapshot"

    def latents(images):
        return inference.layers(network, images)["latent"].reshape(len(images), -1)

    def teach(images, label):
        """(right when first shown, right afterwards) of the twin."""
        before = 0
        for latent in latents(images):
            before += int(twin.classify(latent[None])[0] == label) if label < twin.known else 0
            twin.learn(latent[None], [label])
        return before, int((twin.classify(latents(images)) == label).sum())

    def check(names):
        assert Taught.read(kept) == Taught(tuple(names), twin.snapshot())
        np.save(tmp_path / "x.npy", pictures(9, 2))
        result = answer("classify", tmp_path / "x.npy", *board)
        assert result["classes"] == names and [x["logits"] for x in result["images"]] == twin.logits(latents(pictures(9, 2))).tolist()
        assert [x["class"] for x in result["images"]] == [names[i] for i in twin.classify(latents(pictures(9, 2)))]

    cats, old = tmp_path / "cats.npy", tmp_path / "old.npy"
    np.save(cats, pictures(1, 4))
    np.save(old, pictures(2, 3))
    result = answer("learn", "--label", "cat", cats, "--passes", 1, *board)
    assert (result["right_before"], result["right_after"]) == teach(pictures(1, 4), 2) and result["right_after"] > 0
    assert (result["index"], result["new"], result["classes"], result["exemplars"]) == (2, True, [*shipped, "cat"], 4)
    check([*shipped, "cat"])

    code, out, _ = cli("learn", "--label", shipped[1], old, "--passes", 1, *board, "--rehearse", 5, "--freeze",
                       "--snapshot", tmp_path / "all.snapshot")
    before, after = teach(pictures(2, 3), 1)
    twin.rehearse(5)
    twin.freeze()
    assert code == 0
    assert out.splitlines()[0] == f"{shipped[1]}: class 1; 3 images, {before} right when first shown, {after} right after 1 pass"
    assert out.splitlines()[-2:] == [f"knows 3 of 4 classes: {', '.join(shipped)}, cat", "6 of 6 exemplars; frozen"]
    assert Taught.read(kept) == Taught(tuple([*shipped, "cat"]), twin.snapshot())
    assert refused("learn", "--label", "dog", cats, *board).endswith(
        ": is frozen, expected a board that may learn; --thaw or Board.freeze(False) ends that")

    answer("learn", "--label", "dog", cats, "--passes", 1, *board, "--thaw")
    twin.freeze(False)
    teach(pictures(1, 4), 3)
    assert Taught.read(kept) == Taught(tuple([*shipped, "cat", "dog"]), twin.snapshot())
    assert refused("learn", "--label", "cow", cats, *board) == (
        f"fbnn-hw learn: --label cow: the board has room for 4 classes and knows {', '.join(shipped)}, cat, dog; expected one of them, "
        "or a design made with more --max-classes")

    _, out, _ = cli("learn", "--reset", *board)
    aside, state = folder / "learned-virtual-1.snapshot", twin.snapshot()
    assert out.splitlines()[0] == f"reset to the classes of the design; what it had learned is in {aside}"
    assert Taught.read(aside) == Taught(tuple([*shipped, "cat", "dog"]), state)
    twin.reset()
    check(shipped)
    result = answer("learn", "--restore", tmp_path / "all.snapshot", *board)
    assert result["classes"] == [*shipped, "cat"] and result["frozen"] and result["exemplars"] == 6
    taught = Taught.read(tmp_path / "all.snapshot")
    twin.restore(taught.snapshot)
    check(list(taught.names))

    whole = kept.read_bytes()
    kept.write_bytes(whole[:-1])
    assert refused("classify", cats, *board) == (
        f"fbnn-hw classify: {kept}: damaged snapshot of a learner, its checksum does not fit; move it away, and the board begins with the "
        "classes of the design")
    with files.locked(folder / ".virtual.lock", "held by another test"):
        assert refused("classify", cats, *board) == (
            f"fbnn-hw classify: {folder}: its simulated board is at work for another program; wait for that one")

    design_file, undone = folder / "accelerator.v", kept.with_stem(f"{kept.stem}-before")
    kept.write_bytes(whole)
    for path in (design_file, undone, kept.with_suffix(".lesson"), folder / "learned-board.lesson"):  # of the last two, there is none yet
        before = path.exists() and path.read_bytes()
        code, out, err = cli("learn", "--freeze", "--snapshot", path, *board)
        line = f"fbnn-hw learn: {path}: is a file of the design in {folder}, expected another name\n"
        assert (code, out, err) == (2, "", line) and (path.exists() and path.read_bytes()) == before
    assert kept.read_bytes() == whole

    # A design that is generated again keeps what its board learned.
    kept.write_bytes(whole)
    (folder / "sim_build_board").mkdir(exist_ok=True)
    assert cli(*generate(folder.parents[1]))[0] == 0
    assert not (folder / "sim_build_board").exists() and Taught.read(kept) == taught


def test_inputs_are_refused_before_anything_is_compiled(design, refused, monkeypatch, tmp_path):
    from fbnn_hw.design import generate

    def compiles(*args, **kwargs):
        raise AssertionError("the board was compiled")
    monkeypatch.setattr(virtual.VirtualBoard, "__init__", compiles)
    photo, board = tmp_path / "photo.png", ("--board", "virtual", "--design")
    Image.new("RGB", (64, 48)).save(photo)
    plain = generate(strategies.smallest(), "ice40", outputs=4, out=tmp_path).folder
    snapshot = tmp_path / "no.snapshot"
    snapshot.touch()
    damaged = tmp_path / "damaged.snapshot"
    damaged.write_bytes(Taught((), Design(design[0]).learner().snapshot()).pack()[:-1])
    code, found = refused("learn", "--label", "x", photo, "--resize", *board, design[0], "--snapshot", photo)
    assert code == 2 and found == f"fbnn-hw learn: {photo}: is a picture of the lesson, expected another name"
    for words, line in (
            (("--label", "x", photo, *board, design[0]), f"{photo}: found 64x48 pixels, not square, expected 8x8; "),
            (("--label", "x", photo, "--resize", *board, plain), f"{plain}: this design does not learn; "),
            (("--restore", snapshot, *board, design[0]), f"{snapshot}: "),
            (("--restore", damaged, *board, design[0]), f"{damaged}: damaged snapshot of a learner")):
        code, found = refused("learn", *words)
        assert code == 3 and found.startswith(f"fbnn-hw learn: {line}"), found
    means = generate(design[1], "ice40", outputs=4, out=tmp_path, learn="means").folder
    for flag, value in (("--review", "fixture"), ("--rehearse", 2)):
        assert refused("learn", "--label", "x", photo, "--crop", *board, means, flag, value) == (
            2, f"fbnn-hw learn: {flag} {value}: {means} keeps no samples, expected a design that learns by replay")
    few, none = (generate(design[1], "ice40", outputs=4, out=tmp_path, learn="replay", **options).folder
                 for options in (dict(exemplars=3), dict(start="empty", exemplars=8)))
    for folder, has in (few, "2 classes and has room for 3 exemplars"), (none, "0 classes and has room for 8 exemplars"):
        assert refused("learn", "--label", "x", photo, "--crop", *board, folder, "--review", "fixture") == (
            2, f"fbnn-hw learn: --review fixture: {folder} begins with {has}, expected classes, and room for two of each; leave --review "
            "out, or generate with more --exemplars")
    assert refused("learn", "--forget", "cat", *board, means) == (
        2, f"fbnn-hw learn: --forget cat: {means} cannot forget a class, expected a design made with generate --forget")


def test_what_a_board_cannot_mean_is_a_usage_error(design, tmp_path):
    made = designs.generate(design[1], "ice40", outputs=4, out=tmp_path, learn="replay", forget=True, max_classes=4, exemplars=12)
    with Board.interpreted(made) as board:
        for request, line in (
                (lambda: board.forget(3), "label: found 3, expected the name of a class"),
                (lambda: board.flash_slots(tmp_path / "slots"),
                 f"{made.folder}: keeps nothing in a flash, expected a design made with generate --keep"),
                (lambda: board.freeze("no"), "frozen: found 'no', expected True or False"),
                (lambda: board.freeze(2), "frozen: found 2, expected True or False"),
                (lambda: board.see("a"), "count: found 'a', expected a whole number from 1")):
            with pytest.raises(UsageError) as error:
                request()
            assert str(error.value) == line
        assert board.names == made.classes and not board.twin.frozen and not (tmp_path / "slots").exists()


def test_refusals(refused, tmp_path):
    board = ("--board", "virtual")
    for words, message in (
            ((), "missing --port or --board; see fbnn-hw learn --help"),
            (board, "nothing to do; expected images with --label, or --forget, --rehearse, --undo, --freeze, --thaw, --snapshot, "
             "--flash-slots, --restore or --reset"),
            (("--forget", "cat", "--undo", *board), "found both --forget and --undo, expected one of them"),
            (("x.png", *board), "found images without --label; say which class they are, or give a folder with a subfolder for each class"),
            (("--label", "cat", *board), "--label: expected together with images of that class"),
            (("--review", "fixture", "--thaw", *board), "--review: expected together with images"),
            (("--passes", 2, "--thaw", *board), "--passes: expected together with images"),
            (("x.png", "--label", " cat", *board),
             "--label ' cat': expected a name of printable characters that begins and ends with none that is blank"),
            (("x.png", "--label", "c" * 101, *board), "--label: found a name of 101 characters, expected at most 100"),
            (("--freeze", "--thaw", *board), "found both --freeze and --thaw, expected one of them"),
            (("--reset", "--restore", "x", *board), "found both --reset and --restore, expected one of them"),
            (("--discard", "--freeze", *board), "--discard: expected together with --reset or --restore"),
            (("--freeze", "--port", "p", *board), "found both --port and --board, expected one of them"),
            (("--freeze", "--baud", 9600, *board), "--baud: has no meaning on the virtual board")):
        assert refused("learn", *words) == (2, f"fbnn-hw learn: {message}")
    (tmp_path / "kept").touch()
    for words, what in ((("--restore", tmp_path / "kept", "--snapshot", tmp_path / "kept"), "restore"),
                        (("--snapshot", tmp_path / "a", "--flash-slots", tmp_path / "." / "a"), "snapshot")):
        assert refused("learn", *words, *board) == (2, f"fbnn-hw learn: {words[-1]}: is the file of --{what}, expected another name")
    (tmp_path / "kept").unlink()
    assert refused("learn", "--label", "cat", tmp_path, *board) == (
        3, f"fbnn-hw learn: {tmp_path}: has no pictures, expected a subfolder for each class, with its pictures; or such folders in train "
        "and test")
    (tmp_path / "file").touch()
    for name, why in ((tmp_path, "is a directory, expected a file name"),
                      (tmp_path / "file" / "x",
                       f"{tmp_path / 'file'} is not a folder that can be written, expected a file name in one that can")):
        assert refused("learn", "--freeze", "--snapshot", name, *board) == (2, f"fbnn-hw learn: {name}: {why}")
    for name, data, message in (("none", None, "not found, expected what fbnn-hw learn --snapshot wrote"),
                                ("bad", b"hello", "damaged or another file, expected what fbnn-hw learn --snapshot wrote"),
                                ("half", HEAD + b"{}\nx", "damaged or another file, expected what fbnn-hw learn --snapshot wrote")):
        if data:
            (tmp_path / name).write_bytes(data)
        with pytest.raises(InputError) as error:
            Taught.read(tmp_path / name)
        assert str(error.value) == f"{tmp_path / name}: {message}"


def test_a_lesson_rehearses_until_no_class_has_lost_more_than_a_tenth(tmp_path):
    """Drawn until lessons were seen that need none, some and all of the replays; the board is the reference throughout."""
    source, seen = np.random.default_rng(kinds.seed()), set()
    network = strategies.on_engine(strategies.fill(topology(8, 2, conv(16), POOL, GAP, dense(32, name=LATENT)), 5))
    design = designs.generate(network, "ice40", out=tmp_path, learn=True, start="empty", max_classes=6, exemplars=40, outputs=4)
    for _ in range(30):
        with Board.interpreted(design) as board:
            board.reset()
            twin, most = design.learner(), int(source.choice([200, 250, 1000]))
            for label in range(6):
                images = source.integers(0, 256, (5, 3, 8, 8), np.uint8)
                latents = inference.latents(network, images)
                stored, of = np.array(twin.buffer.labels[:twin.buffer.used]), twin.buffer.latents
                right = twin.classify(of) == stored if twin.known else []
                lesson = board.learn(images, f"thing {label}", rehearse=most)
                for _ in range(lesson.passes):
                    twin.learn(latents, [label] * len(images))
                done = 0
                while True:
                    now = twin.classify(of) == stored if len(stored) else []
                    lost = [f"thing {n}" for n in range(label)
                            if 10 * (sum(right[stored == n]) - sum(now[stored == n])) > sum(stored == n)]
                    if not lost or done == most:
                        break
                    count = min(100, most - done)
                    twin.rehearse(count)
                    done += count
                assert (lesson.rehearsed, lesson.lost) == (done, lost) and board.chip.snapshot() == twin.snapshot()
                seen.add("none" if not done else "all" if lost else "some")
                board.undo()
                assert board.names == [f"thing {n}" for n in range(label)]
                board.undo()
        if seen == {"none", "some", "all"}:
            break
    assert seen == {"none", "some", "all"}
