"""The bytes of a camera's windows, against plain loops."""

import numpy as np
import pytest

from fbnn_hw.base.errors import InputError
from fbnn_hw.reference import camera
from tests import strategies


def plain(words):
    """R, G, B bytes of each box of one window of RGB565 words."""
    image = np.zeros((3, 32, 32), np.uint8)
    for y in range(32):
        for x in range(32):
            box = [int(words[4 * y + i, 4 * x + j]) for i in range(4) for j in range(4)]
            red, green, blue = (sum(word // place % count for word in box) for place, count in ((2048, 32), (32, 64), (1, 32)))
            image[:, y, x] = red // 2 | red // 64, green // 4 | green // 256, blue // 2 | blue // 64
    return image


def test_words():
    source = np.random.default_rng(3)
    words = source.integers(0, 1 << 16, (2, 128, 128), np.uint16)
    words[1, :64] = source.choice([0, 0xFFFF], (64, 128))
    assert all(np.array_equal(image, plain(window)) for image, window in zip(camera.from_rgb565(words), words, strict=True))


def test_grey():
    pixels = np.random.default_rng(4).integers(0, 256, (2, 128, 128), np.uint8)
    means = pixels.reshape(2, 32, 4, 32, 4).astype(int).sum((2, 4)) // 16
    images = camera.from_grey(pixels)
    assert images.dtype == np.uint8 and images.shape == (2, 3, 32, 32) and all(np.array_equal(images[:, c], means) for c in range(3))


@pytest.mark.parametrize("grey", [False, True])
@pytest.mark.parametrize("value", [0, 255])
def test_black_and_white_stay(grey, value):
    assert (camera.through(np.full((1, 3, 32, 32), value, np.uint8), grey) == value).all()


def test_a_sum_s_byte_is_near_the_mean():
    """Of every sum: within eight of 255 s / its largest value, since the copied bits take the place of the lowest three."""
    for bits in (5, 6, 8):
        most = 16 * ((1 << bits) - 1)
        for s in range(most + 1):
            box = np.full(16, s // 16, np.uint16) + (np.arange(16) < s % 16).astype(np.uint16)
            byte = int(camera._boxes(np.tile(box.reshape(4, 4), (32, 32))[None], bits)[0, 0, 0])
            assert abs(byte - 255 * s / most) < (8 if bits == 5 else 4 if bits == 6 else 1)


@pytest.mark.parametrize("shape", [(32, 32), (64, 96), (128, 128), (200, 150)])
def test_a_picture_in_the_window(shape):
    """A picture of 32 x 32 is sixteen equal words a pixel; a larger one the mean of what a pixel of the window covers."""
    pictures = strategies.images(7, 2, max(shape))[:, :, :shape[0], :shape[1]]
    words = camera.to_rgb565(pictures)
    side = min(shape)
    top, left = (shape[0] - side) // 2, (shape[1] - side) // 2
    corner = pictures[:, :, top:top + 16, left:left + 16].repeat(128, 2).repeat(128, 3)
    cells = corner[:, :, :4 * side, :8 * side].reshape(2, 3, 4, side, 8, side).sum((3, 5), dtype=int)  # 4 rows, 8 columns
    seen = (cells + side ** 2 // 2) // side ** 2
    expected = seen[:, 0] // 8 * 2048 + seen[:, 1] // 4 * 32 + seen[:, 2] // 8
    assert words.dtype == np.uint16 and np.array_equal(words[:, :4, :8], expected)
    y = (77 * seen[:, 0] + 150 * seen[:, 1] + 29 * seen[:, 2] + 128) // 256
    assert np.array_equal(camera.to_grey(pictures)[:, :4, :8], y)
    if side == 32:
        images = camera.through(pictures, False).astype(int)
        assert np.array_equal(images[:, 0], pictures[:, 0] // 8 * 8 | pictures[:, 0] // 32)
        assert np.array_equal(images[:, 1], pictures[:, 1] // 4 * 4 | pictures[:, 1] // 64)


def test_many_pictures_are_shown_in_batches(monkeypatch):
    pictures = strategies.images(8, 5, 32)
    whole = camera.through(pictures, False)
    monkeypatch.setattr(camera, "BATCH", 2)
    assert np.array_equal(camera.through(pictures, False), whole)


@pytest.mark.parametrize("function, found, expected", [
    (camera.from_rgb565, np.zeros((1, 128, 128), np.uint8), "uint16 (N, 128, 128)"),
    (camera.from_rgb565, np.zeros((128, 128), np.uint16), "uint16 (N, 128, 128)"),
    (camera.from_rgb565, np.zeros((0, 128, 128), np.uint16), "with N from 1"),
    (camera.from_grey, np.zeros((1, 128, 128), np.uint16), "uint8 (N, 128, 128)"),
    (camera.to_rgb565, np.zeros((1, 3, 32, 32)), "uint8 (N, 3, height, width)"),
    (camera.to_grey, np.zeros((1, 32, 32, 3), np.uint8), "uint8 (N, 3, height, width)"),
    (camera.to_rgb565, np.zeros((1, 3, 0, 32), np.uint8), "uint8 (N, 3, height, width)")])
def test_what_is_none_is_refused(function, found, expected):
    with pytest.raises(InputError) as error:
        function(found)
    assert f"found {found.dtype} {found.shape}, expected" in str(error.value) and expected in str(error.value)
