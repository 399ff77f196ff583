"""Packed levels, against plain loops and the example of docs/link.md."""

import re
from pathlib import Path

import numpy as np
import pytest

from fbnn_hw.ir import ops as op
from fbnn_hw.machine.config import image_bytes
from fbnn_hw.reference import encode
from tests import strategies

INPUTS = [op.Thermometer("input", (), "tycc", 32, 16), op.Thermometer("input", (), "tycc", 6, 64),
          op.Thermometer("input", (), "tycc", 3, 2),
          op.Thermometer("input", (), "trgb", 5, 85), op.Thermometer("input", (), "trgb", 4, 2), op.Thermometer("input", (), "grey", 7, 20),
          op.Binarize("input", (), 7, 99)]


def bits_of(encoder):
    return op.level_bits(getattr(encoder, "encoder", "binarize"), getattr(encoder, "levels", 0))


@pytest.mark.parametrize("encoder", INPUTS, ids=lambda encoder: f"{getattr(encoder, 'encoder', encoder.kind)}-{encoder.size}")
def test_packed(encoder):
    """Bit after bit of level after level of pixel after pixel; the first map is the one of the image."""
    images = strategies.images(1, 2, encoder.size)
    maps, sizes = encode.first_map(images, encoder), bits_of(encoder)
    data = encode.to_bytes(images, encoder)
    assert data.shape == (2, image_bytes(encoder.size, sum(sizes)))
    for image, found in zip(maps, data):
        stream = []
        for y in range(encoder.size):
            for x in range(encoder.size):
                first = 0
                for count, size in zip(encoder.planes, sizes):
                    channels = 1 if encoder.kind == "binarize" else count
                    level = int(image[first:first + channels, y, x].sum()) - (encoder.kind != "binarize")
                    stream += [level >> bit & 1 for bit in range(size)]
                    first += channels
        stream += [0] * (-len(stream) % 8)
        assert found.tolist() == [sum(bit << i for i, bit in enumerate(stream[at:at + 8])) for at in range(0, len(stream), 8)]
    assert np.array_equal(encode.packed_map(data, encoder), maps)


def test_a_level_that_a_plane_lacks():
    """Of 85 levels, 85 to 127 give the bits of 84."""
    encoder = op.Thermometer("input", (), "trgb", 2, 85)
    every = encode.packed_map(np.full((1, image_bytes(2, 21)), 0xFF, np.uint8), encoder)
    assert every.all() and every.shape == (1, 255, 2, 2)


def test_rgb_bytes():
    images = strategies.images(1, 2, 4)
    assert [row.tobytes() for row in encode.to_bytes(images)] == [image.transpose(1, 2, 0).tobytes() for image in images]


def test_the_example_of_the_page():
    """The table of docs/link.md: two pixels of "tycc" with 16 levels, their levels, and the bytes in which they lie."""
    page = (Path(__file__).parents[2] / "docs" / "link.md").read_text()
    rows = re.findall(r"^\| (\d+), (\d+), (\d+) \| (\d+), (\d+), (\d+) \| `([01 ]+)` \|$", page, re.MULTILINE)
    assert len(rows) == 2
    stream = ""
    for *numbers, bits in rows:
        pixel, levels = np.array(numbers, int).reshape(2, 3)
        assert encode.levels(pixel.reshape(1, 3, 1, 1).astype(np.uint8), "tycc", 16).ravel().tolist() == levels.tolist()
        assert bits.split() == [f"{level:0{size}b}"[::-1] for level, size in zip(levels, (5, 4, 4))]
        stream += bits.replace(" ", "")
    pixels = np.array([row[:3] for row in rows], np.uint8).T.reshape(1, 3, 1, 2)
    data = encode.to_bytes(pixels, op.Thermometer("input", (), "tycc", 32, 16))[0]
    assert f"`{data.tobytes().hex(' ').upper()}`" in page
    assert stream.ljust(32, "0") == "".join(f"{byte:08b}"[::-1] for byte in data)
