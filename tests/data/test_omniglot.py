"""Omniglot: classes and rotations, drawings of the splits, the one-shot test, damage."""

import io
import zipfile

import numpy as np
import pytest
from PIL import Image

from fbnn_hw.base.errors import InputError
from fbnn_hw.data import omniglot
from tests.data import bombs


def png(pixels):
    file = io.BytesIO()
    Image.fromarray(np.where(pixels, 0, 255).astype(np.uint8)).convert("1").save(file, "PNG")
    return file.getvalue()


def drawing(seed):
    pixels = np.zeros((105, 105), bool)
    pixels[5 + seed:35, 10:20] = True  # no rotation gives the same
    return pixels


def hostile(path, damage):
    """An archive with one picture: that unpacks to more than there is room for, is encrypted, or is packed by a method of nobody."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("Latin/character01/0100_01.png", bytes(2 ** 25) if damage == "bomb" else png(drawing(1)))
    data = bytearray(path.read_bytes())
    entry, field, value = data.index(b"PK\x01\x02"), *{"bomb": (8, 0), "locked": (8, 1), "method": (10, 99)}[damage]
    for place in (entry + field, field - 2):  # in the directory, and in front of the member
        data[place] |= value
    path.write_bytes(data)


@pytest.fixture
def folder(tmp_path):
    for number, alphabets in enumerate((("Korean", "Greek"), ("Greek",)), start=1):  # the published archives share an alphabet
        with zipfile.ZipFile(tmp_path / f"images_background_small{number}.zip", "w") as archive:
            for alphabet in alphabets:
                for character in (1, 2):
                    for d in range(1, 5):
                        archive.writestr(f"images_background_small{number}/{alphabet}/character{character:02d}/0100_{d:02d}.png",
                                         png(drawing(d + 4 * character)))
    return tmp_path


def test_classes_are_characters_in_four_rotations(folder):
    images, labels, names, source = omniglot.read([folder], ("Greek", "Korean"), (1, 3), 21, 9)
    assert images.shape == (18, 3, 21, 21) and images.dtype == np.uint8 and labels.tolist() == sorted([*range(9)] * 2)
    assert names[:5] == ("Greek 1", "Greek 1 turned 90", "Greek 1 turned 180", "Greek 1 turned 270", "Greek 2") and names[8] == "Korean 1"
    expected = 255 * drawing(7).reshape(21, 5, 21, 5).mean((1, 3))
    assert np.abs(images[1, 0] - expected).max() <= 1 and images[1, 0].max() == 255
    assert (images[3, 1] == np.rot90(images[1, 0])).all() and source.endswith("small1.zip")


def test_what_is_missing_or_damaged(folder, tmp_path):
    with pytest.raises(InputError, match="^omniglot: no Latin in .*; put images_background_small1.zip and images_background_small2.zip"):
        omniglot.read([folder], ("Greek", "Latin"), (1,), 21, 8)
    with pytest.raises(InputError, match="Greek character 1 has no drawing 9, expected 20$"):
        omniglot.read([folder], ("Greek",), (9,), 21, 8)
    (tmp_path / "images_background_small2.zip").write_bytes(b"PK")
    with pytest.raises(InputError, match=r"small2.zip: cannot be read \(File is not a zip file\), expected the published archive$"):
        omniglot.read([folder], ("Greek", "Latin"), (1,), 21, 8)
    (tmp_path / "images_background_small2.zip").unlink()
    for damage, reason in (("bomb", "a member unpacks to more than 16,777,216 bytes"), ("locked", ".* is encrypted, password required .*"),
                           ("method", "That compression method is not supported")):
        hostile(tmp_path / "images_evaluation.zip", damage)
        with pytest.raises(InputError, match=rf"evaluation.zip: cannot be read \({reason}\), expected the published archive$"):
            omniglot.read([folder], ("Latin",), (1,), 21, 8)
    with pytest.raises(InputError, match=r"^x: cannot be read \(.*\), expected a PNG$"):
        omniglot.picture(bombs.png(), 21, "x")
    with pytest.raises(InputError, match="^x: 9x9 pixels, expected 105x105$"):
        omniglot.picture(png(np.zeros((9, 9), bool)), 21, "x")
    with pytest.raises(InputError, match=r"^x: cannot be read \(.*\), expected a PNG$"):
        omniglot.picture(png(drawing(1))[:60], 21, "x")


def test_one_shot(tmp_path):
    with zipfile.ZipFile(tmp_path / "all_runs.zip", "w") as archive:
        for run in range(1, 21):
            for c in range(1, 4):
                archive.writestr(f"run{run:02d}/training/class{c:02d}.png", png(drawing(c)))
                archive.writestr(f"run{run:02d}/test/item{c:02d}.png", png(drawing(c % 3 + 1)))
            pairs = "".join(f"run{run:02d}/test/item{c:02d}.png run{run:02d}/training/class{c % 3 + 1:02d}.png\n" for c in range(1, 4))
            archive.writestr(f"run{run:02d}/class_labels.txt", pairs)
    runs = omniglot.one_shot(tmp_path / "all_runs.zip", 32)
    assert len(runs) == 20 and all((training[answer] == test).all() for training, test, answer in runs)
    assert runs[0][2].tolist() == [1, 2, 0]
    with pytest.raises(InputError, match="none.zip: cannot be read"):
        omniglot.one_shot(tmp_path / "none.zip", 32)
