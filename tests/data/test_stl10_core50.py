"""STL-10 and CORe50 in their official formats, on small files."""

import io
import os
import pickle
import shutil
import zipfile

import numpy as np
import pytest
from PIL import Image

from fbnn_hw.base.errors import InputError, UsageError
from fbnn_hw.data import datasets
from tests.data import bombs

NAMES = b"airplane\nbird\ncar\ncat\ndeer\ndog\nhorse\nmonkey\nship\ntruck\n"


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("FBNN_DATA", raising=False)

    def refuse(*args, **kwargs):
        raise OSError("no network in tests")

    monkeypatch.setattr("urllib.request.urlopen", refuse)


@pytest.fixture
def stl10(tmp_path):
    folder = tmp_path / "stl10_binary"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for split, count in (("train", 3), ("test", 2), ("unlabeled", 4)):
        (folder / f"{split}_X.bin").write_bytes(rng.integers(0, 256, count * 27648, dtype=np.uint8).tobytes())
    (folder / "train_y.bin").write_bytes(bytes([1, 10, 4]))
    (folder / "test_y.bin").write_bytes(bytes([2, 3]))
    (folder / "class_names.txt").write_bytes(NAMES)
    return folder


def test_stl10(tmp_path, stl10):
    train = datasets.load("stl10", tmp_path)
    assert train.images.shape == (3, 3, 96, 96) and train.labels.tolist() == [0, 9, 3] and train.classes[8] == "ship"
    raw = (stl10 / "train_X.bin").read_bytes()
    # image 1, plane G, column 5, row 7: planes one after the other, each column by column
    assert train.images[1, 1, 7, 5] == raw[27648 + 9216 + 5 * 96 + 7]
    assert datasets.load("stl10", tmp_path, "test").labels.tolist() == [1, 2]
    unlabeled = datasets.load("stl10", stl10, "unlabeled")
    assert unlabeled.images.shape == (4, 3, 96, 96) and unlabeled.labels.tolist() == [-1] * 4
    with pytest.raises(UsageError, match="^split unlabeled: expected one of train, test$"):
        datasets.load("cifar10", tmp_path, "unlabeled")


@pytest.mark.parametrize("name, data, message", [
    ("train_X.bin", b"123", "train_X.bin: 3 bytes, expected a multiple of 27648, one image"),
    ("train_y.bin", b"\1", "train_y.bin: 1 labels, expected 3, one for each image"),
    ("train_y.bin", b"\0\1\2", "train_y.bin: holds label 0, expected 1 to 10"),
    ("class_names.txt", b"a b", "class_names.txt: 2 names, expected 10")])
def test_stl10_damage(tmp_path, stl10, name, data, message):
    (stl10 / name).write_bytes(data)
    with pytest.raises(InputError) as error:
        datasets.load("stl10", tmp_path)
    assert str(error.value) == f"{stl10}/{message}"


def test_stl10_says_what_to_download(tmp_path):
    with pytest.raises(InputError, match="put stl10_binary.tar.gz from http://ai.stanford.edu/~acoates/stl10/ into "):
        datasets.load("stl10", tmp_path)


FRAMES = [(session, item, frame) for session in range(1, 12) for item in (1, 50) for frame in range(2)]
PATHS = [f"s{s}/o{o}/C_{s:02}_{o:02}_{f:03}.png" for s, o, f in FRAMES]
PIXELS = np.random.default_rng(1).integers(0, 256, (len(PATHS), 128, 128, 3), dtype=np.uint8)


def png(pixels):
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "png")
    return out.getvalue()


def check(place):
    train, test = (datasets.load("core50", place, split) for split in ("train", "test"))
    assert train.images.shape == (32, 3, 128, 128) and test.images.shape == (12, 3, 128, 128)
    assert len(train.classes) == 50 and sorted(set(train.labels.tolist())) == [0, 49]
    held = {i: PIXELS[i] for i, (session, _, _) in enumerate(FRAMES) if session in (3, 7, 10)}
    assert {im.tobytes() for im in test.images} == {p.transpose(2, 0, 1).tobytes() for p in held.values()}
    first = next(i for i in range(len(PATHS)) if PIXELS[i].transpose(2, 0, 1).tobytes() == train.images[5].tobytes())
    assert train.labels[5] == FRAMES[first][1] - 1


def test_core50(tmp_path):
    with zipfile.ZipFile(tmp_path / "core50_128x128.zip", "w") as archive:
        for name, pixels in zip(PATHS, PIXELS):
            archive.writestr(f"core50_128x128/{name}", png(pixels))
    check(tmp_path)
    check(tmp_path / "core50_128x128.zip")
    with zipfile.ZipFile(tmp_path / "core50_128x128.zip") as archive:
        archive.extractall(tmp_path / "unpacked")
    check(tmp_path / "unpacked")
    check(tmp_path / "unpacked" / "core50_128x128")
    whole = (tmp_path / "core50_128x128.zip").read_bytes()
    (tmp_path / "core50_128x128.zip").write_bytes(whole[:1000])
    with pytest.raises(InputError, match=r"core50_128x128.zip: cannot be read \(File is not a zip file\), expected the"):
        datasets.load("core50", tmp_path)
    shutil.rmtree(tmp_path / "unpacked")


def lying_header():
    """The header of an array of 48 TiB."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (2 ** 40, 128, 128, 3)})
    return file.getvalue()


def test_core50_pictures_that_are_none(tmp_path):
    """In a folder and in an archive: a pipe, and pictures that name more pixels than they may have."""
    folder = tmp_path / "core50_128x128"
    first = next(name for name in sorted(PATHS) if name.startswith("s1/"))
    for name, pixels in zip(PATHS, PIXELS):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(png(pixels))
    (folder / first).write_bytes(bombs.png())
    with pytest.raises(InputError, match=rf"{first}: cannot be read \(.*pixels.*\), expected a PNG$"):
        datasets.load("core50", tmp_path)
    (folder / first).write_bytes(png(PIXELS[0][:64]))
    with pytest.raises(InputError, match=rf"{first}: 128x64 pixels, expected 128x128$"):
        datasets.load("core50", tmp_path)
    (folder / first).unlink()
    os.mkfifo(folder / first)
    with pytest.raises(InputError, match=rf"{first}: is a pipe, expected a PNG$"):
        datasets.load("core50", tmp_path)


def test_core50_npz(tmp_path):
    np.savez(tmp_path / "core50_imgs.npz", x=PIXELS)
    with pytest.raises(InputError, match="paths.pkl: not found, expected beside core50_imgs.npz; get it from https://vlomonaco"):
        datasets.load("core50", tmp_path)
    for protocol in (0, 2, 4):
        (tmp_path / "paths.pkl").write_bytes(pickle.dumps(PATHS, protocol))
        check(tmp_path)
    check(tmp_path / "core50_imgs.npz")
    for name, content, reason in (("x.npy", lying_header(), r"x is uint8 \(1099511627776, 128, 128, 3\), expected uint8 \(44, "),
                                  ("y.npy", b"", r"imgs.npz: cannot be read \(.*no item named 'x.npy'.*\), expected an array x; get"),
                                  ("x.npy", b"\x93NUMPY", r"imgs.npz: cannot be read \(.*\), expected an array x; get it from")):
        with zipfile.ZipFile(tmp_path / "lie.npz", "w") as archive:
            archive.writestr(name, content)
        (tmp_path / "lie.npz").replace(tmp_path / "core50_imgs.npz")
        with pytest.raises(InputError, match=reason):
            datasets.load("core50", tmp_path)
    np.savez(tmp_path / "core50_imgs.npz", x=PIXELS)
    (tmp_path / "paths.pkl").write_bytes(pickle.dumps(PATHS[:-1]))
    with pytest.raises(InputError, match=r"x is uint8 \(44, 128, 128, 3\), expected uint8 \(43, 128, 128, 3\), as many as paths.pkl names"):
        datasets.load("core50", tmp_path)
    (tmp_path / "paths.pkl").write_bytes(pickle.dumps(["s1/o51/C_01_51_000.png"] * 44))
    with pytest.raises(InputError, match="s1/o51/C_01_51_000.png is of object 51, expected 1 to 50"):
        datasets.load("core50", tmp_path)
    (tmp_path / "paths.pkl").write_bytes(pickle.dumps(print))
    with pytest.raises(InputError, match=r"not a list of names \(it asks for builtins.print\)"):
        datasets.load("core50", tmp_path)


def test_core50_with_parts_missing(tmp_path):
    def pack(names):
        with zipfile.ZipFile(tmp_path / "core50_128x128.zip", "w") as archive:
            for name in names:
                archive.writestr(f"core50_128x128/{name}", png(PIXELS[PATHS.index(name)]))

    def refusal(split):
        with pytest.raises(InputError) as error:
            datasets.load("core50", tmp_path, split)
        return str(error.value).removeprefix(f"{tmp_path}/core50_128x128.zip")

    pack(name for name in PATHS if name[:3] not in ("s5/", "s7/", "s10"))
    assert refusal("train") == ": no picture of session 5, expected all of 1, 2, 4, 5, 6, 8, 9, 11"
    assert refusal("test") == ": no picture of session 7, 10, expected all of 3, 7, 10"
    pack(name for name in PATHS if "/o50/" not in name)
    train = datasets.load("core50", tmp_path)
    with pytest.raises(InputError, match="core50_128x128.zip: no image of o2, o3, o4 and 46 more, expected some of each of 50 classes$"):
        train.whole()
    pack([])
    assert refusal("train").startswith(": no picture of session 1, 2, 4, ")
    with zipfile.ZipFile(tmp_path / "core50_128x128.zip", "w") as archive:
        for name in PATHS:
            archive.writestr(name, b"no picture")
    assert refusal("train") == f"/{PATHS[0]}: cannot be read (it is no picture), expected a PNG"


def test_core50_says_what_to_download(tmp_path):
    with pytest.raises(InputError) as error:
        datasets.load("core50", tmp_path)
    assert str(error.value) == (
        f"core50: not found in {tmp_path}, {tmp_path}/cache/fbnn-hw; put core50_128x128.zip from "
        f"http://bias.csr.unibo.it/maltoni/download/core50/, or core50_imgs.npz from there and paths.pkl from "
        f"https://vlomonaco.github.io/core50/data/, into {tmp_path}")


def test_tiny():
    train, test = (datasets.load("tiny", None, split) for split in ("train", "test"))
    assert train.images.shape == (240, 3, 16, 16) and np.bincount(train.labels).tolist() == [40] * 6
    assert not np.array_equal(train.images, test.images)
    assert np.array_equal(train.images, datasets.load("tiny").images)
