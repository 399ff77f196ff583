"""The package as a program uses it: load, generate, simulate, a virtual board that classifies, learns and is restored; the tour."""

import importlib
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import ExifTags, Image

import fbnn_hw
from fbnn_hw.base.errors import InputError, UsageError
from fbnn_hw.board.taught import Taught
from fbnn_hw.data import folder as folders
from fbnn_hw.design import output
from fbnn_hw.reference import inference
from fbnn_hw.simulate import virtual
from tests import strategies, virtual_boards

ROOT = Path(__file__).parents[1]
CLASSES = ["corner", "cross", "ring", "bars", "plus"]
sys.path.insert(0, str(ROOT / "docs" / "benchmarks"))

import tour  # noqa: E402


@pytest.fixture(autouse=True, scope="module")
def fast():
    """The board gives up soon, and is compiled with optimisation: it runs for long, as no simulation does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(virtual, "verilate", partial(virtual.verilate, level="-O1"))
        virtual_boards.impatient(patch)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A working folder."""
    return tmp_path_factory.mktemp("face")


@pytest.fixture(scope="module")
def toured(folder):
    """(what each cell of docs/tour.ipynb printed, its names), after the notebook ran in the folder."""
    names = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return tour.run(tour.read(), names), names


@pytest.fixture(scope="module")
def example(folder, toured):
    """Names of the program in the package's docstring, after it ran with the tour's network in the place of 0.5mb.pt.

    The design is the tour's, and what the tour compiled is kept for this and for the tests below.
    """
    for path in folder.glob("rtl_out/*/learned-*"):
        path.unlink()
    shutil.copy(folder / "tour.pt", folder / "0.5mb.pt")
    program = [line.removeprefix("    ") for line in fbnn_hw.__doc__.splitlines() if line.startswith("    ")]
    names = {"fbnn_hw": fbnn_hw, "images": strategies.images(1, 2, 8)}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(output, "KEPT", (*output.KEPT, "sim_build*"))
        exec("\n".join(program), names)
    return names


def test_the_example_of_a_network_of_ones_own_runs(tmp_path, monkeypatch, capsys):
    """The README's network of one's own, as it stands, on two folders of pictures."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    program = page.split("```python\n")[1].split("```")[0]
    for name, image in zip(("a/1", "a/2", "b/1", "b/2"), strategies.images(1, 4, 40)):
        (tmp_path / "pictures" / name[0]).mkdir(parents=True, exist_ok=True)
        held = Image.fromarray(image.transpose(1, 2, 0))
        held.getexif()[ExifTags.Base.Orientation] = 6  # as a telephone writes it
        held.save(tmp_path / "pictures" / f"{name}.png", exif=held.getexif())
    (tmp_path / "pictures" / "a" / ".DS_Store").write_bytes(b"left by a file manager")
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(program.replace("range(30)", "range(3)"), names)
    assert (names["images"].numpy() == folders.load("pictures", "train", 32, resize=True).images).all()  # as `classify --resize` sees them
    assert fbnn_hw.load("mine.pt").topology.classes == ("a", "b") and len(program.splitlines()) <= 36
    assert Path(capsys.readouterr().out.splitlines()[-1]).stat().st_size > 1e5


def test_the_tour_prints_what_it_shows(toured):
    """Each cell's output is that of the notebook, but for the numbers that a training gives; the class taught is recognised."""
    printed, names = toured
    for (source, recorded), text in zip(tour.cells(tour.read()), printed, strict=True):
        assert tour.shape(text) == tour.shape(recorded), source
    assert "every layer equal: True\n" in "".join(printed) and names["result"].equal
    assert names["lesson"].right_after > 0 and "heart" not in names["before"]


@pytest.fixture(scope="module")
def design(example, folder):
    return fbnn_hw.Design(folder / example["design"].folder)


def test_the_example_of_the_package_runs(example, design, folder):
    assert design.config == example["design"].config and design.config.learning.max_classes == 16
    assert list(Taught.read(folder / "state").names) == [*CLASSES, "cat"]


def test_a_design_is_generated_where_it_is_wanted(design, folder):
    other = fbnn_hw.generate(design.network, target="ice40", learn=True, max_classes=8, exemplars=10, outputs=4, out=folder / "designs")
    other.check()
    assert other.folder.parent == folder / "designs" and other.classes == CLASSES and other.estimate["cycles"] > 0
    assert (other.config.outputs, other.config.learning.max_classes, other.config.learning.slots) == (4, 8, 10)
    again = fbnn_hw.Design(other.folder)
    assert again.config == other.config and again.network.topology == design.network.topology


def test_simulation_equals_the_reference(design):
    images = strategies.images(3, 2, 8)
    result = design.simulate(images)
    assert result.equal and np.array_equal(result.logits, inference.logits(design.network, images))


def test_a_virtual_board_classifies_learns_and_is_restored(design, folder):
    images, others = strategies.images(1, 3, 8), strategies.images(2, 3, 8) // 4
    logits = inference.logits(design.network, images)
    with fbnn_hw.Board.virtual(design) as board:
        assert board.names == [*CLASSES, "cat"]  # what the board of the example was taught is kept
        board.reset()
        answer = board.classify(images, latent=True)
        assert np.array_equal(answer.logits, logits) and answer.names == [design.classes[n] for n in inference.classify(logits)]
        assert np.array_equal(answer.latents, inference.layers(design.network, images)["latent"].reshape(3, -1))
        lesson = board.learn(others, "dog")
        assert (lesson.label, lesson.index, lesson.new, lesson.images) == ("dog", 5, True, 3)
        assert board.names == [*CLASSES, "dog"] and board.classify(others).classes.count(5) == lesson.right_after > 0
        taught = board.classify(images).logits
        board.snapshot(folder / "state")
        board.reset()
        assert board.names == CLASSES and np.array_equal(board.classify(images).logits, logits)
        board.restore(folder / "state")
        assert board.names == [*CLASSES, "dog"] and np.array_equal(board.classify(images).logits, taught)
        refused_requests(board, images)


def refused_requests(board, images):
    """Requests that cannot be: each is refused before the board, or the lesson that can be taken back, is another."""
    state, before = board.chip.snapshot(), board.before.read_bytes()
    for request, line in (
            (lambda: board.classify(images / 255), "images: found float64"), (lambda: board.classify(images[:0]), "with N from 1"),
            (lambda: board.learn(images.transpose(0, 2, 3, 1), "cow"), r"found uint8 \(3, 8, 8, 3\), expected uint8 \(N, 3, 8, 8\)"),
            (lambda: board.learn(images[:0], "cow"), "with N from 1"), (lambda: board.answer(images), "expected uint8"),
            (lambda: board.learn(images, "cow", passes=0), "passes: found 0, expected a whole number from 1"),
            (lambda: board.learn(images, "cow", passes=1.5), "passes: found 1.5"), (lambda: board.learn(images, 3), "label: found 3"),
            (lambda: board.rehearse(-1), "count: found -1, expected a whole number from 0")):
        with pytest.raises((InputError, UsageError), match=line):
            request()
    assert board.chip.snapshot() == state and board.before.read_bytes() == before


def test_errors_are_the_package_s(design):
    with pytest.raises(InputError, match="no such file, and no shipped checkpoint"):
        fbnn_hw.load("none.pt")
    with pytest.raises(UsageError, match="only with --learn"):
        fbnn_hw.generate(design.network, target="ice40", max_classes=4)
    for options, line in (
            (dict(lanes=0), "--lanes 0: expected a whole number from 1"), (dict(lanes=float("nan")), "--lanes nan: "),
            (dict(pixels="4"), "--pixels '4': "), (dict(outputs=1.5), "--outputs 1.5: "),
            (dict(learn=True, exemplars=-1), "--exemplars -1: "), (dict(learn=True, max_classes=5000), "max_classes: found 5000"),
            (dict(learn=True, counter_bits=9), "counter_bits: found 9"), (dict(learn="means", counter_bits=99), "counter_bits: found 99"),
            (dict(target=None), "--target None: no such target"), (dict(target=["ice40"]), r"--target \['ice40'\]: no such target")):
        with pytest.raises(UsageError, match=line):
            fbnn_hw.generate(design.network, **{"target": "ice40", **options})
    for name in ("none.pt\n", "é" * 300, "a\0b", None, 3, b"tiny.pt"):
        with pytest.raises(InputError, match="^--model .*(no such file|expected the name of a checkpoint)") as error:
            fbnn_hw.load(name)
        assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="^design None: expected a folder"):
        fbnn_hw.Design(None)
    with pytest.raises(UsageError, match=r"^network 'tiny.pt': expected what fbnn_hw.load\(name\) returns$"):
        fbnn_hw.generate("tiny.pt", "ice40")
    with pytest.raises(InputError, match=r"^images: found int64 \(1, 3, 8, 8\), expected uint8"):
        design.pixels(strategies.images(1, 1, 8).astype(int))
    with pytest.raises(AttributeError, match="has no attribute 'bord'"):
        fbnn_hw.bord  # noqa: B018
    assert {"Board", "Design", "generate", "load"} <= set(dir(fbnn_hw))


def test_the_package_is_a_program():
    run = subprocess.run([sys.executable, "-m", "fbnn_hw", "--version"], cwd=ROOT, capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, f"fbnn-hw {fbnn_hw.__version__}\n", "")


@pytest.mark.parametrize("package", ["compile", "ir", "reference", "reference.learning", "rtl"])
def test_the_program_in_a_package_s_docstring(package):
    network = fbnn_hw.load("tiny.pt")
    latents = np.repeat(np.random.default_rng(0).integers(0, 2, (2, 64), np.uint8), 5, 0)
    names = {"fbnn_hw": fbnn_hw, "network": network, "images": strategies.images(0, 1, 32), "latents": latents,
             "labels": [0] * 5 + [1] * 5}
    text = importlib.import_module(f"fbnn_hw.{package}").__doc__
    exec("\n".join(line.removeprefix("    ") for line in text.splitlines() if line.startswith("    ")), names)
    match package:
        case "compile":
            assert names["cycles"] == 63_252
        case "ir":
            assert names["shapes"]["logits"] == (10, 1, 1) and names["logits"].logits and names["weights"].max() == 1
        case "reference":
            assert names["logits"].shape == (1, 10)
        case "reference.learning":
            assert names["classes"].tolist() == names["labels"] and names["state"][:7] == b"FBNNLRN"
        case "rtl":
            assert names["count"] == 2 and "module popcount(" in names["verilog"]
