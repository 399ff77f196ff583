"""Image files become the arrays they hold; everything else is one line with file, found, expected, way out."""

import os
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from fbnn_hw.data.images import read
from fbnn_hw.errors import InputError

PIXELS = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
CHW = PIXELS.transpose(2, 0, 1)


def picture(path, array=PIXELS, mode=None, **options):
    Image.fromarray(array, mode).save(path, **options) if mode else Image.fromarray(array).save(path, **options)
    return path


def test_png(tmp_path):
    found = read(picture(tmp_path / "a.png"), 32)
    assert found.dtype == np.uint8 and found.shape == (1, 3, 32, 32) and (found[0] == CHW).all()
    assert (read(picture(tmp_path / "a.png"), 32, resize=True)[0] == CHW).all()  # a picture that fits is left alone


def test_palette_png(tmp_path):
    flat = (PIXELS // 128 * 255).astype(np.uint8)
    Image.fromarray(flat).convert("P", palette=Image.Palette.ADAPTIVE, colors=8).save(tmp_path / "p.png")
    assert (read(tmp_path / "p.png", 32)[0] == flat.transpose(2, 0, 1)).all()


def png16(path, colours):
    """A PNG of 16 bits a colour, which Pillow reads and does not write: colour type 2 is RGB, 6 RGBA."""
    height, width, channels = colours.shape
    rows = b"".join(b"\0" + (row.astype(">u2") * 257).tobytes() for row in colours)
    header = struct.pack(">IIBBBBB", width, height, 16, {3: 2, 4: 6}[channels], 0, 0, 0)
    chunks = (b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks))
    return path


def test_png_of_16_bits_a_colour(tmp_path):
    rgb = png16(tmp_path / "a.png", PIXELS)
    with pytest.raises(InputError) as refused:
        read(rgb, 32)
    assert str(refused.value) == f"{rgb}: has colours of 16 bits, expected RGB; convert it, or let --resize do so"
    assert (read(rgb, 32, resize=True)[0] == CHW).all()
    with pytest.raises(InputError, match="has an alpha channel"):
        read(png16(tmp_path / "b.png", np.dstack([PIXELS, PIXELS[..., :1]])), 32)


def test_orientation_is_the_same_with_and_without_resize(tmp_path):
    exif = Image.Exif()
    exif[0x112] = 6  # to be turned by 90 degrees clockwise
    turned = picture(tmp_path / "a.png", exif=exif)
    for resize in (False, True):
        assert (read(turned, 32, resize)[0] == np.rot90(PIXELS, -1).transpose(2, 0, 1)).all()


def test_jpeg_by_content_not_by_name(tmp_path):
    Image.fromarray(PIXELS).save(tmp_path / "a.jpg", quality=95)
    (tmp_path / "a.data").write_bytes((tmp_path / "a.jpg").read_bytes())
    assert (read(tmp_path / "a.data", 32)[0].transpose(1, 2, 0) == np.asarray(Image.open(tmp_path / "a.jpg"))).all()


@pytest.mark.parametrize("array", [PIXELS, CHW, PIXELS[None], CHW[None], np.asfortranarray(CHW)])
def test_npy(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    found = read(tmp_path / "a.npy", 32)
    assert found.shape == (1, 3, 32, 32) and (found[0] == CHW).all() and found.flags.c_contiguous


def test_npy_of_many(tmp_path):
    many = np.stack([CHW, 255 - CHW, CHW // 2])
    np.save(tmp_path / "a.npy", many)
    assert (read(tmp_path / "a.npy", 32) == many).all()
    np.save(tmp_path / "a.npy", np.zeros((2, 3, 40, 50), np.uint8))
    assert read(tmp_path / "a.npy", 32, resize=True).shape == (2, 3, 32, 32)


RGB = "; --resize scales the centre square"
NPY = "expected uint8 (N, 32, 32, 3), (N, 3, 32, 32) or one image without N"


@pytest.mark.parametrize("array, message", [
    (PIXELS[:, :16], "found 16x32 pixels, not square, expected 32x32" + RGB),
    (np.zeros((64, 64, 3), np.uint8), "found 64x64 pixels, expected 32x32" + RGB),
    (PIXELS[..., 0], "has greyscale, expected RGB; convert it, or let --resize do so"),
    (PIXELS[..., 0].astype(np.uint16), "has greyscale of 16 bits, expected RGB; convert it, or let --resize do so"),
    (PIXELS[..., 0] > 9, "has black and white, expected RGB; convert it, or let --resize do so"),
    (np.dstack([PIXELS, PIXELS[..., 0]]), "has an alpha channel, expected RGB; convert it, or let --resize do so"),
    (PIXELS[..., :2], "has grey and an alpha channel, expected RGB; convert it, or let --resize do so"),
])
def test_pictures_that_do_not_fit(tmp_path, array, message):
    path = picture(tmp_path / "a.png", np.ascontiguousarray(array))
    with pytest.raises(InputError) as error:
        read(path, 32)
    assert str(error.value) == f"{path}: {message}"
    assert read(path, 32, resize=True).shape == (1, 3, 32, 32)


def test_cmyk(tmp_path):
    Image.new("CMYK", (32, 32)).save(tmp_path / "a.jpg")
    with pytest.raises(InputError, match="has CMYK, expected RGB; convert it, or let --resize do so$"):
        read(tmp_path / "a.jpg", 32)


@pytest.mark.parametrize("array, message", [
    (PIXELS.astype(np.float32), "found float32, expected uint8 RGB of 0 to 255; convert it"),
    (PIXELS[..., 0], "found shape (32, 32), " + NPY), (np.zeros((32, 32, 4), np.uint8), "found shape (1, 32, 32, 4), " + NPY),
    (np.zeros((0, 3, 32, 32), np.uint8), "found no image in shape (0, 3, 32, 32), " + NPY),
    (np.zeros((3, 16, 16), np.uint8), "found 16x16 pixels, expected 32x32" + RGB),
])
def test_arrays_that_do_not_fit(tmp_path, array, message):
    path = tmp_path / "a.npy"
    np.save(path, array)
    with pytest.raises(InputError) as error:
        read(path, 32)
    assert str(error.value) == f"{path}: {message}"


def test_damaged_files(tmp_path):
    whole = {"a.png": picture(tmp_path / "a.png").read_bytes(), "a.jpg": picture(tmp_path / "a.jpg").read_bytes()}
    np.save(tmp_path / "a.npy", PIXELS)
    whole["a.npy"] = (tmp_path / "a.npy").read_bytes()
    np.save(tmp_path / "o.npy", np.array([{}], object))
    for name, data in whole.items():
        for cut in (7, len(data) // 2):
            (tmp_path / name).write_bytes(data[:cut])
            with pytest.raises(InputError, match=f"{name}: .*damaged.*expected") as error:
                read(tmp_path / name, 32)
            assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="o.npy: damaged .*expected a whole .npy file of uint8$"):
        read(tmp_path / "o.npy", 32)  # a pickle, which is not loaded
    (tmp_path / "t.png").write_text("hello")
    with pytest.raises(InputError, match="t.png: neither a PNG, a JPEG nor a .npy file, or damaged; expected one of them$"):
        read(tmp_path / "t.png", 32)
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(InputError, match="pipe.png: is a pipe, expected an image file$"):
        read(tmp_path / "pipe.png", 32)


def test_a_picture_of_very_many_pixels(tmp_path):
    path = picture(tmp_path / "a.png")
    data = bytearray(path.read_bytes())
    data[16:24] = struct.pack(">II", 100_000, 100_000)
    data[29:33] = struct.pack(">I", zlib.crc32(data[12:29]))
    path.write_bytes(data)
    for resize in (False, True):
        with pytest.raises(InputError, match="a.png: has more than 178,956,970 pixels, expected fewer; make it smaller first$"):
            read(path, 32, resize)
    (tmp_path / "e.png").write_bytes(b"")
    with pytest.raises(InputError, match="e.png: is empty, expected a PNG, JPEG or .npy file$"):
        read(tmp_path / "e.png", 32)
    with pytest.raises(InputError, match="none.png: not found, expected an image file$"):
        read(tmp_path / "none.png", 32)
    with pytest.raises(InputError, match=": Is a directory, expected an image file$"):
        read(tmp_path, 32)
