"""Folders of pictures as data sets: which pictures have which label, and what is refused."""

import io
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fbnn_hw.base.errors import InputError
from fbnn_hw.data import folder, images


def pictures(root, classes, count=2, size=20, seed=0):
    """Writes `count` pictures of each class; returns their pixels by class, uint8 (count, size, size, 3)."""
    rng, written = np.random.default_rng(seed), {}
    for name in classes:
        (root / name).mkdir(parents=True)
        written[name] = rng.integers(0, 256, (count, size, size, 3), dtype=np.uint8)
        for number, pixels in enumerate(written[name]):
            Image.fromarray(pixels).save(root / name / f"{number}.png")
    return written


def test_classes_and_order(tmp_path):
    written = pictures(tmp_path, ("dog", "cat"))
    (tmp_path / "cat" / ".DS_Store").write_bytes(b"x")
    (tmp_path / "cat" / "Thumbs.db").write_bytes(b"x")
    np.save(tmp_path / "dog" / "9.npy", written["cat"])
    data = folder.load(tmp_path, "train", 20)
    assert data.classes == ("cat", "dog") and data.labels.tolist() == [0, 0, 1, 1, 1, 1] and data.images.shape == (6, 3, 20, 20)
    assert (data.images[2:4].transpose(0, 2, 3, 1) == written["dog"]).all() and (data.images[4:] == data.images[:2]).all()
    assert not folder.has_splits(tmp_path)


def test_splits(tmp_path):
    for seed, split in enumerate(("train", "test")):
        pictures(tmp_path / split, ("a", "b"), 1 + seed, seed=seed)
    assert folder.has_splits(tmp_path)
    assert [len(folder.load(tmp_path, split, 20).labels) for split in ("train", "test")] == [2, 4]


def test_crop_and_resize(tmp_path):
    pixels = pictures(tmp_path, ("a",), 1)["a"][0]
    cropped = folder.load(tmp_path, "train", 8, crop=True).images[0]
    assert (cropped.transpose(1, 2, 0) == pixels[6:14, 6:14]).all()
    assert folder.load(tmp_path, "train", 8, resize=True).images.shape == (1, 3, 8, 8)
    with pytest.raises(InputError, match="found 20x20 pixels, expected 8x8; --resize scales the centre square"):
        folder.load(tmp_path, "train", 8)
    with pytest.raises(InputError, match="found 20x20 pixels, expected at least 24x24 with --crop; --resize scales"):
        folder.load(tmp_path, "train", 24, crop=True)


def test_a_crop_of_an_array(tmp_path):
    array = np.random.default_rng(0).integers(0, 256, (2, 9, 12, 3), dtype=np.uint8)
    np.save(tmp_path / "a.npy", array)
    assert (images.read(tmp_path / "a.npy", 8, crop=True).transpose(0, 2, 3, 1) == array[:, 0:8, 2:10]).all()


@pytest.mark.parametrize("kind, message", [
    ("empty", "{0}: has no pictures, expected a subfolder for each class"),
    ("flat", "{0}: has pictures and no subfolders, expected a subfolder"),
    ("beside", "{0}/x.png: lies beside folders of classes; expected"),
    ("heic", "{0}/a/x.heic: is no picture by its name, expected .png, .jpg"),
    ("deep", "{0}/a/b: is a folder in the folder of a class, expected"),
    ("bare", "{0}/b: is empty, expected pictures of one class"),
    ("damaged", "{0}/a/x.png: not a PNG, JPEG, WebP, BMP or .npy file, or damaged"),
])
def test_what_is_no_such_folder(tmp_path, kind, message):
    root = tmp_path / "p"
    root.mkdir()
    if kind not in ("empty", "flat"):
        pictures(root, ("a",))
    if kind == "deep":
        (root / "a" / "b").mkdir()
    elif kind == "bare":
        (root / "b").mkdir()
    elif kind == "flat":
        pictures(tmp_path / "other", ("a",))
        (tmp_path / "other" / "a" / "0.png").rename(root / "0.png")
    elif kind != "empty":
        (root / {"beside": "x.png", "heic": "a/x.heic", "damaged": "a/x.png"}[kind]).write_bytes(b"hello there")
    with pytest.raises(InputError) as error:
        folder.load(root, "train", 20)
    assert str(error.value).startswith(message.format(root)) and "\n" not in str(error.value)


class Pipe:
    """Standard input as a program sees it behind a pipe."""

    def __init__(self, data, terminal=False):
        self.buffer, self.terminal = io.BytesIO(data), terminal

    def isatty(self):
        return self.terminal


def test_standard_input(tmp_path, monkeypatch):
    pixels = pictures(tmp_path, ("a",), 1)["a"][0]
    np.save(tmp_path / "a.npy", pixels)
    for file in (tmp_path / "a" / "0.png", tmp_path / "a.npy"):
        monkeypatch.setattr(sys, "stdin", Pipe(Path(file).read_bytes()))
        assert (images.read("-", 20)[0].transpose(1, 2, 0) == pixels).all()
    for pipe, message in ((Pipe(b""), "standard input: is empty"), (Pipe(b"", True), "standard input: is a terminal, expected a PNG"),
                          (Pipe(b"hello"), "standard input: not a PNG")):
        monkeypatch.setattr(sys, "stdin", pipe)
        with pytest.raises(InputError, match=message):
            images.read("-", 20)
