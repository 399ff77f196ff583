"""Image files become the arrays they hold; everything else is one line with file, found, expected, way out."""

import os
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
from PIL import Image

from fbnn_hw.base.errors import InputError
from fbnn_hw.data.images import MAX_BYTES, MAX_JPEG_PIXELS, MAX_PIXELS, read
from tests.quick import quick

PIXELS = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
CHW = PIXELS.transpose(2, 0, 1)


def picture(path, array=PIXELS, mode=None, **options):
    Image.fromarray(array, mode).save(path, **options) if mode else Image.fromarray(array).save(path, **options)
    return path


def test_png(tmp_path):
    images = read(picture(tmp_path / "a.png"), 32)
    assert images.dtype == np.uint8 and images.shape == (1, 3, 32, 32) and (images[0] == CHW).all()
    assert (read(picture(tmp_path / "a.png"), 32, resize=True)[0] == CHW).all()  # a picture that fits is left alone


def test_palette_png(tmp_path):
    flat = (PIXELS // 128 * 255).astype(np.uint8)
    Image.fromarray(flat).convert("P", palette=Image.Palette.ADAPTIVE, colors=8).save(tmp_path / "p.png")
    assert (read(tmp_path / "p.png", 32)[0] == flat.transpose(2, 0, 1)).all()


def png16(path, colours, transparent=None, factor=257):
    """A PNG of 16 bits a colour, which Pillow reads and does not write: colour type 0 is grey, 2 RGB, 6 RGBA.

    transparent: the 16-bit numbers of the colour that is transparent.
    """
    height, width, channels = colours.shape
    rows = b"".join(b"\0" + (row * factor).astype(">u2").tobytes() for row in colours.astype(np.uint16))
    header = struct.pack(">IIBBBBB", width, height, 16, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    clear = [(b"tRNS", np.array(transparent, ">u2").tobytes())] if transparent is not None else []
    chunks = (b"IHDR", header), *clear, (b"IDAT", zlib.compress(rows)), (b"IEND", b"")
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


def test_png_of_16_bits_with_a_transparent_grey(tmp_path):
    """The high bytes stay, and only the pixels that are that grey in all 16 bits become black."""
    grey = np.random.default_rng(0).integers(256, 65536, (32, 32, 1))
    grey[0, 0], grey[0, 1] = 1000, 1001
    kept = np.repeat((grey >> 8).transpose(2, 0, 1), 3, 0)
    path = png16(tmp_path / "a.png", grey, factor=1)
    assert (read(path, 32, resize=True)[0] == kept).all()
    kept[:, 0, 0] = 0
    for flag in ("resize", "crop"):
        assert (read(png16(path, grey, [1000], 1), 32, **{flag: True})[0] == kept).all()
    with pytest.raises(InputError, match="a.png: has an alpha channel, expected RGB"):
        read(path, 32)


def test_png_of_16_bits_with_a_transparent_colour(tmp_path):
    path = png16(tmp_path / "a.png", PIXELS, [0x1205, 0x3405, 0x5605])
    with pytest.raises(InputError) as refused:
        read(path, 32, resize=True)
    assert str(refused.value) == f"{path}: has a transparent colour of 16 bits, expected one of 8 bits, or an alpha channel; convert it"


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
    images = read(tmp_path / "a.npy", 32)
    assert images.shape == (1, 3, 32, 32) and (images[0] == CHW).all() and images.flags.c_contiguous


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
    with pytest.raises(InputError, match="o.npy: found Python objects, expected uint8 RGB of 0 to 255; convert it$"):
        read(tmp_path / "o.npy", 32)  # a pickle, which is not loaded
    (tmp_path / "t.png").write_text("hello")
    with pytest.raises(InputError, match="t.png: not a PNG, JPEG, WebP, BMP or .npy file, or damaged; expected one of them$"):
        read(tmp_path / "t.png", 32)


def test_a_picture_of_very_many_pixels(tmp_path):
    """The header of a small file says so; Pillow itself refuses the second."""
    for side in (6_000, 100_000):
        path = tmp_path / "a.png"
        data = bytearray(picture(path).read_bytes())
        data[16:24] = struct.pack(">II", side, side)
        data[29:33] = struct.pack(">I", zlib.crc32(data[12:29]))
        path.write_bytes(data)
        with pytest.raises(InputError, match="a.png: has more than 33,554,432 pixels, expected fewer; make it smaller first$"):
            read(path, 32, resize=True)
        with pytest.raises(InputError, match="found 6000x6000 pixels, expected 32x32; " if side == 6_000 else "has more than"):
            read(path, 32)


def test_a_photo_of_50_megapixels(tmp_path):
    """As telephones take them; a quarter of it is decoded where it is scaled anyhow."""
    exif = Image.Exif()
    exif[0x112] = 6  # the left side is on top for the eye
    photo = Image.new("L", (8064, 6048), 40)
    photo.paste(200, (0, 0, 4032, 6048))
    photo.save(tmp_path / "a.jpg", exif=exif)
    image = read(tmp_path / "a.jpg", 32, resize=True)[0]
    assert (abs(image[:, :14].astype(int) - 200) < 8).all() and (abs(image[:, 18:].astype(int) - 40) < 8).all()
    with pytest.raises(InputError, match="has more than 33,554,432 pixels"):
        read(tmp_path / "a.jpg", 32, crop=True)


@pytest.mark.parametrize("name, kind", [("none.png", "not found"), ("", "is a directory"), ("pipe", "is a pipe"), ("zero", "is a device")])
def test_what_is_no_file(tmp_path, name, kind):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    with pytest.raises(InputError, match=f": {kind}, expected an image file$"):
        read(tmp_path / name, 32)


def test_empty_and_endless_files(tmp_path):
    (tmp_path / "e.png").write_bytes(b"")
    with pytest.raises(InputError, match="e.png: is empty, expected a PNG, JPEG, WebP, BMP or .npy file$"):
        read(tmp_path / "e.png", 32)
    with open(tmp_path / "l.npy", "wb") as file:
        file.write(b"\x93NUMPY")
        file.truncate(MAX_BYTES + 1)  # takes no room on the disk
    with pytest.raises(InputError, match="l.npy: has 268,435,457 bytes, expected at most 268,435,456; make it smaller, or"):
        read(tmp_path / "l.npy", 32)


def test_webp_and_bmp(tmp_path):
    assert (read(picture(tmp_path / "a.webp", lossless=True), 32)[0] == CHW).all()
    assert (read(picture(tmp_path / "a.bmp"), 32)[0] == CHW).all()
    with pytest.raises(InputError, match="has an alpha channel"):
        read(picture(tmp_path / "b.webp", np.dstack([PIXELS, PIXELS[..., 0]])), 32)


@pytest.mark.parametrize("start, name", [
    (b"GIF89a", "GIF"), (b"II*\0", "TIFF, or raw pictures of a camera"), (b"\0\0\0\x18ftypheic", "HEIC, as iPhones write it"),
    (b"\0\0\0\x24ftypheix", "HEIC, as iPhones write it"), (b"\0\0\0\x1cftypavif", "AVIF"), (b"%PDF-1.7", "PDF")])
def test_formats_that_are_not_read_are_named(tmp_path, start, name):
    (tmp_path / "IMG_1.jpg").write_bytes(start + bytes(100))
    with pytest.raises(InputError) as error:
        read(tmp_path / "IMG_1.jpg", 32, resize=True)
    assert str(error.value) == (
        f"{tmp_path / 'IMG_1.jpg'}: is {name}, expected a PNG, JPEG, WebP, BMP or .npy file; save it as JPEG or PNG")


def test_transparency_is_over_black(tmp_path):
    value, alpha = (part.astype(np.uint8) for part in np.meshgrid(np.arange(256), np.arange(256)))
    array = np.dstack([value, value[::-1], value[:, ::-1], alpha])
    expected = Image.alpha_composite(Image.new("RGBA", (256, 256), (0, 0, 0, 255)), Image.fromarray(array)).convert("RGB")
    assert (read(picture(tmp_path / "a.png", array), 256, resize=True)[0].transpose(1, 2, 0) == np.asarray(expected)).all()


def header(text, version=(1, 0), data=b""):
    """Bytes of a .npy file with this header."""
    length = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    return b"\x93NUMPY" + bytes(version) + length + text.encode("latin1") + data


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_versions_and_orders_of_npy(tmp_path, version, order):
    with open(tmp_path / "a.npy", "wb") as file:
        np.lib.format.write_array(file, np.asarray(PIXELS, order=order), version)
    for resize in (False, True):
        assert (read(tmp_path / "a.npy", 32, resize)[0] == CHW).all()


WHOLE = "{'descr': '|u1', 'fortran_order': False, 'shape': %s, }"


@pytest.mark.parametrize("data, message", [
    (header("9" * 9_000), "damaged (its header makes no sense)"),
    (header("(" * 9_000), "damaged (its header makes no sense)"),
    (header(WHOLE % "(3, 32, 32)", (4, 0), bytes(3072)), "damaged (its header makes no sense)"),
    (header(" " * 60_000), "damaged (its header makes no sense)"),
    (header(WHOLE % "(3, 32, 32)", (2, 0))[:9], "damaged (its header makes no sense)"),
    (header(WHOLE % ("(3, 32, 3" + "0" * 4_000 + ")")), "damaged (0 bytes of pixels, 2880000000000...00000000000000 by its header)"),
    (header(WHOLE % "(-1, -3, 32, 3)", data=bytes(288)), "found no image in shape (-1, -3, 32, 3)"),
    (header(WHOLE % "(3, 1000000, 1000000)", data=bytes(3072)), "damaged (3,072 bytes of pixels, 3000000000000 by its header)"),
    (header(WHOLE % "(3, 32, 32)", data=bytes(3071)), "damaged (3,071 bytes of pixels, 3072 by its header)"),
    (header(WHOLE % "(3, 32, 32)", data=bytes(3073)), "damaged (3,073 bytes of pixels, 3072 by its header)"),
    (header(WHOLE % "(True, 3, 8, 8)", data=bytes(192)), "damaged (its header makes no sense)"),
    (header(WHOLE % "(3, 8, False)"), "damaged (its header makes no sense)"),
    (header(WHOLE % str(tuple(range(64)))), "found shape (0, 1, 2, 3, ...)"),
    (header(WHOLE.replace("'|u1'", "[('" + "a" * 5_000 + "', '|u1')]") % "(3, 32, 32)"), "found records, expected uint8 RGB"),
    (header(WHOLE.replace("'|u1'", "'|O'") % "(3, 32, 32)"), "found Python objects, expected uint8 RGB"),
])
def test_hostile_npy(tmp_path, data, message):
    (tmp_path / "a.npy").write_bytes(data)
    for resize in (False, True):
        with pytest.raises(InputError) as error:
            read(tmp_path / "a.npy", 32, resize)
        assert str(error.value).startswith(f"{tmp_path / 'a.npy'}: {message}") and len(str(error.value)) < 300
        assert "\n" not in str(error.value)


def test_small_arrays_that_would_become_large_ones(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((100_000, 1, 1, 3), np.uint8))
    with pytest.raises(InputError, match="found 100,000 images of 1x1 pixels, expected at most .* in one and 87,381 images; "):
        read(tmp_path / "a.npy", 32, resize=True)


MEMORY = """
import sys
from PIL import Image
from fbnn_hw.data.images import MAX_BYTES, MAX_PIXELS, read
from fbnn_hw.base.errors import InputError
def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) // 1024
before = peak()
try:
    answer = read(sys.argv[1], 32, sys.argv[2] == "resize").shape
except InputError as error:
    answer = str(error).split(": ", 1)[1]
print(peak() - before, answer)
"""
"""Pixels of Pillow and libjpeg are no memory of Python's, so the process tells its own peak, in MiB."""


def memory(path, *flags):
    """(MiB that `read` takes at most, what it answers)."""
    line = subprocess.run([sys.executable, "-c", MEMORY, path, *flags, ""], capture_output=True, text=True, check=True).stdout
    mib, _, answer = line.strip().partition(" ")
    return int(mib), answer


def png_of_zeros(path, width, height, depth, colour):
    """A PNG without Pillow, which would need the pixels at once."""
    row = bytes(1 + width * depth // 8 * {0: 1, 2: 3, 6: 4}[colour])
    compress = zlib.compressobj(1)
    data = b"".join(compress.compress(row) for _ in range(height)) + compress.flush()
    chunks = (b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)), (b"IDAT", data), (b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(part)) + kind + part + struct.pack(">I", zlib.crc32(kind + part)) for kind, part in chunks))
    return path


@pytest.mark.parametrize("depth, colour", [(8, 2), (8, 6), (16, 0)])
def test_memory_of_a_picture_that_is_refused(tmp_path, depth, colour):
    """These took 1,975, 3,263 and 3,414 MiB."""
    path = png_of_zeros(tmp_path / "a.png", 13_000, 13_000, depth, colour)
    assert path.stat().st_size < 4e6
    for flags in ((), ("resize",)):
        mib, answer = memory(path, *flags)
        assert mib < 40 and "expected" in answer, answer


LARGEST = [
    ("a.png", "RGBA", {}), ("a.png", "I;16", {}), ("a.png", "P", {"transparency": 0}), ("a.webp", "RGBA", {"lossless": True, "method": 0}),
    ("a.jpg", "CMYK", {"progressive": True, "subsampling": 0}), ("b.jpg", "RGB", {"progressive": True, "subsampling": 0})]


@pytest.mark.parametrize("name, mode, options", quick(LARGEST, LARGEST[0], LARGEST[4]))
def test_memory_of_the_largest_picture(tmp_path, name, mode, options):
    exif = Image.Exif()
    exif[0x112] = 6
    Image.new(mode, (8192, (MAX_JPEG_PIXELS if name == "b.jpg" else MAX_PIXELS) // 8192)).save(tmp_path / name, exif=exif, **options)
    mib, answer = memory(tmp_path / name, "resize")
    assert mib < 600 and answer == "(1, 3, 32, 32)"


def test_memory_of_the_largest_array(tmp_path):
    count = MAX_BYTES // 3072 - 1
    with open(tmp_path / "a.npy", "wb") as file:
        file.write(header(WHOLE % f"({count}, 32, 32, 3)"))
        file.truncate(file.tell() + 3072 * count)
    mib, answer = memory(tmp_path / "a.npy")
    assert mib < 600 and answer == f"({count}, 3, 32, 32)"
