"""Pictures and arrays: damaged, of any kind, size and mode, and those that take far more memory than their file."""

import io
import struct
import zlib

import numpy as np
from PIL import Image

from . import mutators
from .runner import Case

MODES = ("RGB", "RGBA", "L", "LA", "P", "1", "I;16", "CMYK", "I", "F")
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "ICO")
SIZES = (1, 8, 32, 33)
DTYPES = ("uint8", "float64", "int64", "bool", "U7", "object", "complex64", "datetime64[s]", "V3")


def case(rng, world, folder):
    kind = int(rng.integers(6))
    name = folder / ("x.npy" if kind < 2 else mutators.some(rng, ("x.png", "x.jpg", "x.bmp", "x", "x.webp")))
    if rng.random() < 0.05:
        mutators.obstacle(rng, name)
    else:
        content = (array, header, picture, picture, bomb, bomb)[kind](rng)
        name.write_bytes(mutators.data(rng, content) if rng.random() < (0.2, 0.3, 0.7, 0.7, 0.1, 0.1)[kind] else content)
    return Case(["classify", name.name, "--model", world.tiny, *(["--resize"] if rng.random() < 0.5 else [])], folder)


def array(rng):
    """An .npy file of some type and shape."""
    shape = mutators.some(rng, ((32, 32, 3), (3, 32, 32), (2, 3, 32, 32), (0, 3, 32, 32), (32, 32), (), (3, 8, 8), (1, 1, 1, 1, 3)))
    dtype = mutators.some(rng, DTYPES)
    values = np.empty(shape, dtype)
    if dtype == "object":
        values[...] = Canary()
    file = io.BytesIO()
    np.save(file, values, allow_pickle=True)
    return file.getvalue()


class Canary:
    """Leaves a file where it is unpickled."""

    def __reduce__(self):
        return open, ("canary", "w")


def header(rng):
    """An .npy file whose header says what its data do not."""
    shape = mutators.some(rng, ("(2**40,)", "(1099511627776, 3, 32, 32)", "(-1, 3, 32, 32)", "(" + "9" * 9000 + ",)", "(32, 32, 3",
                                "(1e9,)", "(True, 3, 32, 32)", "(" + "(" * 5000, "(4294967296, 4294967296)", "(0,) * 3", "(3, 32, 32)"))
    dtype = mutators.some(rng, ("'|u1'", "'|O'", "'<f8'", "'|S9999999999'", "[('a', '|u1')] * 3", "__import__('os')",
                                "'" + "x" * 3000 + "'"))
    text = f"{{'descr': {dtype}, 'fortran_order': {mutators.some(rng, ('False', 'True', '3'))}, 'shape': {shape}, }}\n".encode()
    version = mutators.some(rng, ((1, 0), (2, 0), (3, 0), (9, 9)))
    length = int(mutators.some(rng, (len(text), len(text), 2 ** 31)))
    size = struct.pack("<H", length & 0xFFFF) if version == (1, 0) else struct.pack("<I", length)
    return b"\x93NUMPY" + bytes(version) + size + text + bytes(3072)


def picture(rng):
    """A picture in one of many modes and formats."""
    image = Image.new(mutators.some(rng, MODES), tuple(int(mutators.some(rng, SIZES)) for _ in "xy"))
    file = io.BytesIO()
    try:
        image.save(file, mutators.some(rng, FORMATS))
    except (OSError, KeyError, ValueError):  # a mode that the format lacks
        image.convert("RGB").save(file, "PNG")
    return file.getvalue()


def bomb(rng):
    """A PNG of a few kilobytes with very many pixels, or one that only says so."""
    width, height = (int(mutators.some(rng, (1, 32, 8000, 13000, 30000, 2 ** 31 - 1))) for _ in "xy")
    depth, colour, channels = mutators.some(rng, ((8, 2, 3), (8, 6, 4), (16, 0, 2), (1, 0, 1), (16, 6, 8), (8, 3, 1)))
    packer, rows = zlib.compressobj(9), b""
    if width * height * channels < 2 ** 28 and rng.random() < 0.3:
        rows = b"".join([packer.compress(bytes(1 + width * channels)) for _ in range(height)]) + packer.flush()
    parts = [(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, int(rng.integers(2))))]
    if rng.random() < 0.2:
        parts.append((mutators.some(rng, (b"zTXt", b"iCCP")), b"name\0\0" + zlib.compress(bytes(2 ** 26), 9)))
    parts += [(b"IDAT", rows or zlib.compress(bytes(1000))), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in parts)
