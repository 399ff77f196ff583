"""Every kind of picture has one answer: the bytes that reach an accelerator are the same by every way into the program.

The page's way is in tests/studio/test_pictures.py.
"""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fbnn_hw import cli
from fbnn_hw.base.errors import InputError
from fbnn_hw.cli import _board
from fbnn_hw.data import datasets, images
from fbnn_hw.ir.models import build
from fbnn_hw.nn import checkpoint
from fbnn_hw.train import offline, predict
from tests import kinds, strategies

SIZE = 32
README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def held(tmp_path_factory):
    """(folder, expected): a folder with `pictures`, the twelve kinds in two classes; {file: uint8 (3, SIZE, SIZE)} in a folder's order."""
    home = tmp_path_factory.mktemp("kinds")
    twelve, expected = kinds.twelve(np.random.default_rng(kinds.seed())), {}
    for index, name in enumerate(sorted(twelve)):
        path = Path("pictures", "ab"[index >= 6], name)
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_bytes(twelve[name][0])
        expected[path] = kinds.square(twelve[name][1], SIZE)
    return home, expected


def same(found, expected):
    assert len(found) == len(expected)
    assert not [path.name for image, (path, pixels) in zip(found, expected.items()) if not np.array_equal(image, pixels)]


def images_of(monkeypatch, thing, name, at, *command):
    """The images with which a command calls `thing.name`, as its argument number `at`."""
    seen = []

    def instead(*values, **options):
        seen.append(np.asarray(values[at]))
        raise InputError("seen")

    with monkeypatch.context() as patch:
        patch.setattr(thing, name, instead)
        assert cli.main([*command]) == InputError.exit_code
    return seen[0]


def test_one_answer_by_every_way_into_the_program(held, monkeypatch, tmp_path):
    folder, expected = held
    monkeypatch.chdir(folder)
    files, model = list(map(str, expected)), str(tmp_path / "m.pt")
    checkpoint.save(model, strategies.fill(build("tiny", ("a", "b")), 1))
    flags = ("--data", "pictures", "--resize")
    for thing, name, at, *command in (
            (offline.Trainer, "__init__", 2, "train", "--model", "tiny", *flags, "--out", str(tmp_path / "t.pt")),
            (predict, "integer_logits", 1, "evaluate", "--model", model, *flags),
            (predict, "integer_logits", 1, "classify", "--model", model, "--resize", *files)):
        same(images_of(monkeypatch, thing, name, at, *command), expected)
    for words in (("--label", "x", *files), ("pictures",)):
        args = cli.parser("learn").parse_args(["--board", "virtual", "--resize", *words])
        same(np.concatenate([lesson for _, lesson in _board.lessons(args, SIZE)]), expected)
    names = {}
    exec(README.split("```python\n")[1].split("\n\n\n")[0], names)  # the example's pictures
    same(names["images"].numpy(), expected)


def test_one_answer_of_arrays_and_data_sets(tmp_path, monkeypatch):
    """What a named data set and an .npy file hold is scaled as a file with the same pixels."""
    rng = np.random.default_rng(kinds.seed())
    for _ in range(20):
        height, width, size = (int(n) for n in rng.integers(1, 90, 3))
        pixels = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
        expected = kinds.square(pixels, size)
        Image.fromarray(pixels).save(tmp_path / "a.png")
        np.save(tmp_path / "a.npy", pixels)
        chw = pixels.transpose(2, 0, 1)[None]
        for found in (images.read(tmp_path / "a.png", size, resize=True), images.read(tmp_path / "a.npy", size, resize=True),
                      images.scale(chw, size), datasets.Images(chw, np.zeros(1, np.int64), ("a",)).scaled(size).images):
            assert (found == expected[None]).all() and found.dtype == np.uint8, (height, width, size)
    fixture = datasets.load("fixture")
    args = cli.parser("train").parse_args(["--model", "res-small", "--data", "fixture", "--resize", "--size", "64"])
    scaled = cli._common.dataset(args, cli.Output("fbnn-hw train")).images
    for index in range(0, 300, 60):
        Image.fromarray(fixture.images[index].transpose(1, 2, 0)).save(tmp_path / "b.png")
        assert (images.read(tmp_path / "b.png", 64, resize=True)[0] == scaled[index]).all()


def test_other_kinds(tmp_path):
    for name, (data, pixels) in kinds.more(np.random.default_rng(kinds.seed())).items():
        (tmp_path / name).write_bytes(data)
        for size in (SIZE, min(pixels.shape[:2])):
            assert (images.read(tmp_path / name, size, resize=True)[0] == kinds.square(pixels, size)).all(), name


def test_damaged_ones(tmp_path):
    for name, data in kinds.damaged(np.random.default_rng(kinds.seed())).items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(InputError, match="damaged"):
            images.read(tmp_path / name, SIZE, resize=True)
