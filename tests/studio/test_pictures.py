"""The page makes the bytes of a picture that the program makes: its scaler in node, its decoder in Chromium.

python tests/studio/test_pictures.py writes scale_vectors.json anew.
"""

import base64
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fbnn_hw.data import images
from fbnn_hw.studio import page as pages

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from tests import kinds  # noqa: E402

VECTORS = HERE / "scale_vectors.json"
SIZES = ((1, 1, 4), (3, 2, 8), (8, 8, 8), (9, 8, 8), (8, 11, 8), (40, 40, 32), (33, 50, 16), (50, 9, 5), (64, 41, 32), (90, 31, 7))
"""(width, height, pixels a side of the answer) of the pictures in the file."""
SIZE = 32
REFUSED = {"cmyk.jpg": "cmyk.jpg has CMYK colours, which browsers round in their own way; save it as RGB.",
           "large.jpg": "large.jpg has more than 33,554,432 pixels; make it smaller first."}
"""The page's answer to those of the twelve kinds that a browser does not give with equal bytes."""


def text(pixels):
    return base64.b64encode(np.ascontiguousarray(pixels).tobytes()).decode()


def vector(rng, width, height, size):
    """A random picture and what `images.scale` makes of it."""
    pixels = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    if rng.integers(2):  # edges, where the filter leaves the range of a byte
        pixels = (pixels > 127) * np.uint8(255)
    return {"width": width, "height": height, "size": size, "rows": int(rng.integers(1, height + 1)), "pixels": text(pixels),
            "image": text(images.scale(pixels.transpose(2, 0, 1)[None], size)[0].transpose(1, 2, 0))}


def vectors():
    rng = np.random.default_rng(0)
    return [vector(rng, *sizes) for sizes in SIZES]


def held_by_node(cases):
    told = subprocess.run(["node", str(HERE / "check_scale.mjs")], input=json.dumps(cases), capture_output=True, text=True, timeout=120)
    assert told.returncode == 0, told.stderr
    assert int(told.stdout) == len(cases)


def test_the_vectors_are_the_programs():
    assert json.loads(VECTORS.read_text()) == vectors(), "run python tests/studio/test_pictures.py"


@pytest.mark.skipif(not shutil.which("node"), reason="no node")
def test_the_scaler_of_the_page():
    held_by_node(json.loads(VECTORS.read_text()))
    rng = np.random.default_rng(kinds.seed())
    held_by_node([vector(rng, *(int(n) for n in rng.integers(1, (120, 120, 50)))) for _ in range(60)])


@pytest.fixture
def decoder(context):
    """decoder(name, data, size): what the page makes of a file, uint8 (size, size, 3), or its message."""
    page = context.new_page()
    page.set_content("<p>")
    page.add_script_tag(content=pages.bundle("pictures.mjs") + """
        window.read = async (name, data, size) => {
          try {
            return Array.from(await decode(new Blob([Uint8Array.from(atob(data), (c) => c.charCodeAt(0))]), name, size));
          } catch (error) {
            if (error instanceof LinkError) return error.message;
            throw error;
          }
        };""")

    def read(name, data, size=SIZE):
        found = page.evaluate("([name, data, size]) => read(name, data, size)", [name, base64.b64encode(data).decode(), size])
        return found if isinstance(found, str) else np.array(found, np.uint8).reshape(size, size, 3)

    return read


def program(folder, name, data, size=SIZE):
    (folder / name).write_bytes(data)
    return images.read(folder / name, size, resize=True)[0].transpose(1, 2, 0)


def test_the_page_reads_each_kind_as_the_program(decoder, tmp_path):
    rng = np.random.default_rng(kinds.seed())
    for name, (data, _) in {**kinds.twelve(rng), **kinds.more(rng)}.items():
        found = decoder(name, data)
        if name in REFUSED:
            assert found == REFUSED[name]
        else:
            assert np.array_equal(found, program(tmp_path, name, data)), name
    assert len(REFUSED) <= 3


def test_the_pictures_that_ship(decoder):
    paths = sorted(pages.PICTURES.rglob("*.jpg"))
    assert len(paths) == 12
    for path in paths:
        for size in (SIZE, 64):
            assert np.array_equal(decoder(path.name, path.read_bytes(), size), images.read(path, size, resize=True)[0].transpose(1, 2, 0))


def test_a_picture_of_several_strips(decoder, tmp_path):
    """More pixels than are taken from the decoder at a time, half of them clear."""
    rng = np.random.default_rng(kinds.seed())
    colours = np.asarray(Image.fromarray(kinds.drawn(rng, 300, 260)).resize((2600, 3000)))
    data = kinds.written(Image.fromarray(np.dstack([colours, rng.integers(0, 2, colours.shape[:2], dtype=np.uint8) * 200])), "png",
                         compress_level=1)
    assert np.array_equal(decoder("a.png", data), program(tmp_path, "a.png", data))


def test_what_the_page_refuses(decoder):
    """In one line, where the program and a browser differ or the program refuses, too."""
    rng = np.random.default_rng(0)
    rgb = kinds.drawn(rng, 20, 30)
    image, exif = Image.fromarray(rgb), Image.Exif()
    exif[kinds.ORIENTATION] = 6
    deep = kinds.png(2, 16, rgb.astype(int) * 257, (b"tRNS", bytes(6)))
    bmp, packed = (bytearray(kinds.written(image, "bmp")) for _ in range(2))
    bmp[28], packed[30] = 16, 4
    for name, data, message in (
            ("a.webp", kinds.written(image, "webp", exif=exif),
             "is turned by its EXIF data, which browsers overlook in WebP; save it as JPEG or PNG."),
            ("a.png", deep, "has a transparent colour of 16 bits; save it with 8 bits a colour."),
            ("a.bmp", bytes(bmp), "has 16 bits a pixel; save it as PNG."),
            ("b.bmp", bytes(packed), "is a BMP packed in a rare way; save it as PNG."),
            *((name, data, "is no picture that this browser can read; use PNG or JPEG.") for name, data in (
                *kinds.damaged(rng).items(),
                ("a.gif", kinds.written(image, "gif")), ("b.png", kinds.png(2, 8, rgb)[:60]), ("c.jpg", kinds.written(image, "jpeg")[:90]),
                ("d.webp", kinds.written(image, "webp")[:25]), ("e.bmp", b"BM"), ("f.svg", b"<svg/>"), ("g.jpg", b"\xff\xd8\xff")))):
        assert decoder(name, data) == f"{name} {message}"
    exif[kinds.ORIENTATION] = 1
    assert isinstance(decoder("a.webp", kinds.written(image, "webp", exif=exif)), np.ndarray)


if __name__ == "__main__":
    VECTORS.write_text(json.dumps(vectors(), indent=1) + "\n")
    print(VECTORS)
