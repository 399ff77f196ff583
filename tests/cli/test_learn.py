"""Lessons on the virtual board by the commands a user types; every answer and every bit kept is the reference's."""

import json

import numpy as np
import pytest

from fbnn_hw.build import output, virtual
from fbnn_hw.cli import _board
from fbnn_hw.compile.config import AcceleratorConfig
from fbnn_hw.ir.network import LATENT
from fbnn_hw.nn import checkpoint
from fbnn_hw.reference import inference
from tests import strategies
from tests.rtl.test_accelerator import GAP, POOL, conv, dense, topology


@pytest.fixture(autouse=True)
def fast(monkeypatch, tmp_path_factory):
    """The board runs for moments: it is compiled without optimisation, beside a runtime that is there."""
    compile_, shared = virtual.verilate, tmp_path_factory.getbasetemp() / "runtime-O0"
    monkeypatch.setattr(virtual, "verilate", lambda *a, **k: compile_(*a, **{**k, "optimise": "-O0", "shared": shared}))


@pytest.fixture(scope="module")
def design(tmp_path_factory):
    """(folder, network) of a small design that learns up to 4 classes from 6 exemplars."""
    from fbnn_hw.cli import main

    root = tmp_path_factory.mktemp("learn")
    network = strategies.on_engine(strategies.fill(topology(8, 2, conv(16), POOL, GAP, dense(32, name=LATENT)), 5))
    checkpoint.save(root / "small.pt", network)
    shape = ["--pixels", 4, "--lanes", 16, "--outputs", 4, "--learn", "--max-classes", 4, "--exemplars", 6]
    command = ["generate", "--model", root / "small.pt", "--target", "generic", *shape, "--out", root / "rtl_out"]
    assert main([str(word) for word in [*command, "--json"]]) == 0
    return next((root / "rtl_out").iterdir()), network


def image(seed, count):
    return strategies.images(seed, count, 8)


def test_a_class_taught_is_known_by_its_name(design, answer, cli, tmp_path):
    folder, network = design

    def refused(*words):
        """The last line on stderr, after the one on the board that is compiled."""
        code, out, err = cli(*words)
        assert code == 3 and not out and err.count("\n") == 2 and "Traceback" not in err, err
        return err.splitlines()[-1]

    twin = output.learner_of(network, AcceleratorConfig.from_json((folder / "config.json").read_text()))
    shipped = list(network.topology.classes)
    board = ("--board", "virtual", "--design", folder)
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
        assert _board.read(kept) == (names, twin.snapshot())
        np.save(tmp_path / "x.npy", image(9, 2))
        found = answer("classify", tmp_path / "x.npy", *board)
        assert found["classes"] == names and [x["logits"] for x in found["images"]] == twin.logits(latents(image(9, 2))).tolist()
        assert [x["class"] for x in found["images"]] == [names[i] for i in twin.classify(latents(image(9, 2)))]

    cats, old = tmp_path / "cats.npy", tmp_path / "old.npy"
    np.save(cats, image(1, 4))
    np.save(old, image(2, 3))
    found = answer("learn", "--label", "cat", cats, *board)
    assert (found["right_before"], found["right_after"]) == teach(image(1, 4), 2) and found["right_after"] > 0
    assert (found["index"], found["new"], found["classes"], found["exemplars"]) == (2, True, [*shipped, "cat"], 4)
    check([*shipped, "cat"])

    code, out, _ = cli("learn", "--label", shipped[1], old, *board, "--rehearse", 5, "--freeze", "--snapshot", tmp_path / "all.snapshot")
    before, after = teach(image(2, 3), 1)
    twin.rehearse(5)
    twin.freeze()
    assert code == 0 and out.splitlines()[0] == f"{shipped[1]}: class 1; 3 images, {before} right when first shown, {after} right now"
    assert out.splitlines()[-2:] == [f"knows 3 of 4 classes: {', '.join(shipped)}, cat", "6 of 6 exemplars; frozen"]
    check([*shipped, "cat"])
    assert refused("learn", "--label", "dog", cats, *board).endswith(": is frozen, expected a board that may learn; add --thaw")

    answer("learn", "--label", "dog", cats, *board, "--thaw")
    twin.freeze(False)
    teach(image(1, 4), 3)
    check([*shipped, "cat", "dog"])
    assert refused("learn", "--label", "cow", cats, *board) == (
        f"fbnn-hw learn: --label cow: the board has room for 4 classes and knows {', '.join(shipped)}, cat, dog; expected one of them, "
        "or a design made with more --max-classes")

    _, out, _ = cli("learn", "--reset", *board)
    aside, state = folder / "learned-virtual-1.snapshot", twin.snapshot()
    assert out.splitlines()[0] == f"reset to the classes of the model; what it had learned is in {aside}"
    assert _board.read(aside) == ([*shipped, "cat", "dog"], state)
    twin.reset()
    check(shipped)
    found = answer("learn", "--restore", tmp_path / "all.snapshot", *board)
    assert found["classes"] == [*shipped, "cat"] and found["frozen"] and found["exemplars"] == 6
    names, snapshot = _board.read(tmp_path / "all.snapshot")
    twin.restore(snapshot)
    check(names)

    whole = kept.read_bytes()
    kept.write_bytes(whole[:-1])
    assert refused("classify", cats, *board) == (
        f"fbnn-hw classify: {kept}: damaged snapshot of a learner, its checksum does not fit; move it away, and the board begins with the "
        "classes of the model")
    with _board.locked(folder):
        assert refused("classify", cats, *board) == (
            f"fbnn-hw classify: {folder}: its virtual board is at work for another program; wait for that one")

    # A design that is generated again keeps what its board learned.
    kept.write_bytes(whole)
    model = folder.parents[1] / "small.pt"
    known = json.loads((folder / "config.json").read_text())
    answer("generate", "--model", model, "--target", "generic", "--pixels", 4, "--lanes", 16, "--outputs", 4, "--learn", "--max-classes", 4,
           "--exemplars", 6, "--out", folder.parent)
    assert json.loads((folder / "config.json").read_text()) == known and _board.read(kept) == (names, snapshot)


def test_refusals(refused, tmp_path):
    board = ("--board", "virtual")
    for words, message in (
            ((), "missing --port or --board; see fbnn-hw learn --help"),
            (board, "nothing to do; expected images with --label, or --rehearse, --freeze, --thaw, --snapshot, --restore or --reset"),
            (("x.png", *board), "found images without --label; say which class they are"),
            (("--label", "cat", *board), "--label: expected together with images of that class"),
            (("x.png", "--label", " cat", *board),
             "--label ' cat': expected a name of printable characters that begins and ends with none that is blank"),
            (("--freeze", "--thaw", *board), "found both --freeze and --thaw, expected one of them"),
            (("--reset", "--restore", "x", *board), "found both --reset and --restore, expected one of them"),
            (("--discard", "--freeze", *board), "--discard: expected together with --reset or --restore"),
            (("--freeze", "--port", "p", *board), "found both --port and --board, expected one of them"),
            (("--freeze", "--baud", 9600, *board), "--baud: has no meaning on the virtual board")):
        assert refused("learn", *words) == (2, f"fbnn-hw learn: {message}")
    for name, data, message in (("none", None, "No such file or directory, expected what fbnn-hw learn --snapshot wrote"),
                                ("bad", b"hello", "damaged or another file, expected what fbnn-hw learn --snapshot wrote"),
                                ("half", _board.HEAD + b"{}\nx", "damaged or another file, expected what fbnn-hw learn --snapshot wrote")):
        if data:
            (tmp_path / name).write_bytes(data)
        with pytest.raises(_board.InputError) as error:
            _board.read(tmp_path / name)
        assert str(error.value) == f"{tmp_path / name}: {message}"
