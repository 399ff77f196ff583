"""Image files as the arrays that networks take: uint8 RGB (N, 3, S, S).  PNG, JPEG, WebP, BMP, and .npy of bytes.

`read` and, for arrays, `scale` are the only way from a picture to the bytes of an accelerator.  The page has the same in JavaScript
(studio/web/scale.mjs), and the tests compare the two byte for byte.

A file of few bytes may claim to have many pixels.  So the size in the header is checked before any
pixel is decoded.
"""

import io
import math
import struct
import sys
import warnings

import numpy as np

from ..base import files
from ..base.errors import InputError, show
from .kinds import MAX_PIXELS, plain
from .zips import reason

FORMATS = ("PNG", "JPEG", "WEBP", "BMP")
NAMES = "PNG, JPEG, WebP, BMP or .npy"
MODES = {"RGBA": "an alpha channel", "LA": "grey and an alpha channel", "PA": "an alpha channel", "L": "greyscale", "1": "black and white",
         "I": "greyscale of 32 bits", "I;16": "greyscale of 16 bits", "I;16B": "greyscale of 16 bits", "CMYK": "CMYK"}
OTHERS = ((0, b"GIF8", "GIF"), (0, b"II*\0", "TIFF, or raw pictures of a camera"), (0, b"MM\0*", "TIFF, or raw pictures of a camera"),
          (4, b"ftypavif", "AVIF"), (4, b"ftyphei", "HEIC, as iPhones write it"), (4, b"ftypmif1", "HEIC, as iPhones write it"),
          (0, b"\0\0\0\x0cJXL ", "JPEG XL"), (0, b"\xff\x0a", "JPEG XL"), (0, b"%PDF", "PDF"))
"""(offset, bytes there, name) of formats that are known and not read."""
SPREAD = {"1": 255, "L;2": 85, "L;4": 17}
"""Factors by which Pillow spreads greys of 1, 2 and 4 bits over a byte.  Some of its versions leave the transparent one as it was."""
ORIENTATION, SHORT = 0x112, 3
"""The entry of EXIF data that turns a picture, and the one type of its value that browsers read."""
RESIZE, CROP = "--resize", "--crop"
STANDARD_INPUT = "-"
"""The name of a file that stands for what comes in by a pipe."""
MAX_JPEG_PIXELS = 1 << 26
"""Pixels of a JPEG in RGB or grey that is scaled anyhow: of more than `MAX_PIXELS`, such as a telephone's 50 million, a quarter is
decoded."""
MAX_BYTES = 1 << 28
"""Bytes of a file that is read, and of the images that a .npy file becomes."""


def read(path, size, resize=False, crop=False):
    """Read the images of one file, uint8 RGB (N, 3, size, size); a .npy file may hold several.

    path: "-" for standard input.  resize: take the centre square and scale it; crop: take the pixels in
    the middle without scaling.  With either, grey is repeated, and transparency lies over black.  Colour
    profiles are ignored.  Raises InputError with the file, what was found, what was expected, and the way out.
    """
    if str(path) != STANDARD_INPUT:
        data, length = files.beginning(path, MAX_BYTES + 1, "an image file")
    else:
        path = "standard input"
        if sys.stdin is None or sys.stdin.isatty():
            raise InputError(f"{path}: is a terminal, expected a {NAMES} file from a pipe, as in fbnn-hw classify - < cat.png")
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
        length = len(data)
    if not data:
        raise InputError(f"{path}: is empty, expected a {NAMES} file")
    if length > MAX_BYTES:
        raise InputError(f"{path}: has {length:,} bytes, expected at most {MAX_BYTES:,}; make it smaller, or several files of it")
    if data.startswith(b"\x93NUMPY"):
        return _npy(path, data, size, resize, crop)
    if other := next((name for at, start, name in OTHERS if data.startswith(start, at)), None):
        raise InputError(f"{path}: is {other}, expected a {NAMES} file; save it as JPEG or PNG")
    return _picture(path, data, size, resize, crop)


def scale(images, size):
    """uint8 RGB (N, 3, H, W) -> (N, 3, size, size): the centre square of each, by Pillow's Lanczos filter."""
    from PIL import Image

    if images.shape[2:] == (size, size):
        return images
    scaled = np.empty((len(images), 3, size, size), np.uint8)
    for image, target in zip(images, scaled):
        target[:] = _square(Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0))), size)
    return scaled


def _picture(path, data, size, resize, crop):
    from PIL import Image

    try:
        with warnings.catch_warnings(action="ignore"):  # Pillow warns of large pictures
            image = _decoded(path, io.BytesIO(plain(data, resize or crop)), size, resize, crop)
            rgb = _over_black(image) if resize or crop else image.convert("RGB")
            del image
    except InputError:
        raise
    except Image.UnidentifiedImageError:
        raise InputError(f"{path}: not a {NAMES} file, or damaged; expected one of them") from None
    except Image.DecompressionBombError:
        raise InputError(f"{path}: has more than {MAX_PIXELS:,} pixels, expected fewer; make it smaller first") from None
    except Exception as error:  # Pillow raises OSError, SyntaxError, ValueError and its own on damaged files
        raise InputError(f"{path}: damaged ({reason(error)}), expected a whole {NAMES} file") from None
    return np.ascontiguousarray(_fit(path, rgb, size, crop)[None])


def _decoded(path, source, size, resize, crop):
    """The picture in `source` as a Pillow image, turned as its EXIF orientation says.  Without `resize` and `crop` it is one that `_fit`
    leaves alone.  What a file is made of is read as browsers do, where Pillow reads it in another way.

    The decoder's memory is free when this returns.
    """
    from PIL import Image

    with Image.open(source, formats=FORMATS) as file:
        if not (resize or crop):
            _check_mode(path, file)
            _check_size(path, file.height, file.width, size)
        elif "transparency" in file.info and _deep(file):  # Pillow compares its low bytes with the high bytes of the pixels
            raise InputError(f"{path}: has a transparent colour of 16 bits, expected one of 8 bits, or an alpha channel; convert it")
        if resize and not crop and file.mode in ("RGB", "L") and MAX_PIXELS < file.width * file.height <= MAX_JPEG_PIXELS:
            file.draft(None, (file.width // 2, file.height // 2))  # of other formats it leaves all as it is
        if file.width * file.height > MAX_PIXELS:
            raise Image.DecompressionBombError
        if file.mode in ("1", "L") and "transparency" in file.info:
            factor = SPREAD.get(str(file.tile[0][3]), 1)
            file.info["transparency"] *= factor if file.info["transparency"] <= 255 // factor else 1
        if file.palette and file.format == "BMP":  # black behind its colours, as in browsers; Pillow has greys there
            colours, length = bytes(file.palette.palette), len(file.palette.rawmode or file.palette.mode)
            file.palette.palette = colours + bytes(length) * (256 - len(colours) // length)
        turn = _turn(_exif(file))
        file.load()
        return file.copy() if turn is None else file.transpose(turn)


def _exif(file):
    """The EXIF data of an opened picture, b"" where it has none; of a JPEG the first ones, as in browsers."""
    if file.format in ("JPEG", "MPO"):
        return next((data[6:] for name, data in file.applist if name == "APP1" and data.startswith(b"Exif\0") and len(data) > 6), b"")
    return file.info.get("exif", b"").removeprefix(b"Exif\0\0")


def _turn(exif):
    """The `Transpose` that makes a picture upright, by its EXIF data, bytes; None where it is, or where they make no sense."""
    from PIL import Image

    way = Image.Transpose
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(exif[:4])
    if order:
        try:
            first, = struct.unpack_from(order + "I", exif, 4)
            count, = struct.unpack_from(order + "H", exif, first)
            for at in range(first + 2, first + 2 + 12 * count, 12):
                *entry, value, _ = struct.unpack_from(order + "HHIHH", exif, at)
                if entry == [ORIENTATION, SHORT, 1] and 1 <= value <= 8:
                    return {2: way.FLIP_LEFT_RIGHT, 3: way.ROTATE_180, 4: way.FLIP_TOP_BOTTOM, 5: way.TRANSPOSE, 6: way.ROTATE_270,
                            7: way.TRANSVERSE, 8: way.ROTATE_90}.get(value)
        except struct.error:  # it ends too early
            pass
    return None


def _check_mode(path, file):
    """Raises InputError unless an opened picture is RGB of 8 bits a colour."""
    clear = "transparency" in file.info
    deep = _deep(file)
    if file.mode not in ("RGB", "P") or clear or deep:
        name = MODES.get("RGBA" if clear else file.mode, "colours of 16 bits" if deep else f"mode {file.mode}")
        raise InputError(f"{path}: has {name}, expected RGB; convert it, or let {RESIZE} do so")


def _deep(file):
    """Whether an opened picture has colours of 16 bits, whose low bytes Pillow drops in silence."""
    return file.mode in ("RGB", "RGBA") and any("16" in str(tile[3]) for tile in file.tile)


def _npy(path, data, size, resize, crop):
    array = _npy_pixels(path, data, size)
    if array.shape[3] == 3:
        array = array.transpose(0, 3, 1, 2)
    height, width = array.shape[2:]
    if not (resize or crop):
        _check_size(path, height, width, size)
        return np.ascontiguousarray(array)
    if height * width > MAX_PIXELS or len(array) * 3 * size ** 2 > MAX_BYTES:
        raise InputError(f"{path}: found {len(array):,} images of {width}x{height} pixels, expected at most {MAX_PIXELS:,} pixels in one "
                         f"and {MAX_BYTES // (3 * size ** 2):,} images; make several files of it")
    if crop:
        left, top = _margins(path, width, height, size)
        return np.ascontiguousarray(array[:, :, top:top + size, left:left + size])
    return np.ascontiguousarray(scale(array, size))


def _npy_pixels(path, data, size):
    """uint8 (N, H, W, 3) or (N, 3, H, W) of the bytes of an .npy file."""
    file = io.BytesIO(data)
    try:
        shape, column_major, dtype = npy_header(file)
    except Exception:  # numpy raises ValueError, SyntaxError, MemoryError and others on damaged files, with the header in the message
        raise InputError(f"{path}: damaged (its header makes no sense), expected a whole .npy file of uint8") from None
    if dtype != np.uint8:
        name = "Python objects" if dtype.hasobject else str(dtype) if dtype.names is None else "records"
        raise InputError(f"{path}: found {name}, expected uint8 RGB of 0 to 255; convert it")
    if len(shape) == 3:
        shape = 1, *shape
    expected = f"uint8 (N, {size}, {size}, 3), (N, 3, {size}, {size}) or one image without N"
    if len(shape) != 4 or 3 not in (shape[1], shape[3]):
        raise InputError(f"{path}: found shape {show(shape)}, expected {expected}")
    if min(shape) < 1:
        raise InputError(f"{path}: found no image in shape {show(shape)}, expected {expected}")
    count, length = math.prod(shape), len(data) - file.tell()
    if count != length:
        raise InputError(f"{path}: damaged ({length:,} bytes of pixels, {show(count)} by its header), expected a whole .npy file of uint8")
    return np.frombuffer(data, np.uint8, offset=file.tell()).reshape(shape, order="F" if column_major else "C")


def npy_header(file):
    """(shape, whether it is column-major, dtype) of an .npy file that is open at its start; any exception where it is damaged."""
    version = np.lib.format.read_magic(file)
    # Version 3 differs from 2 in the names of fields alone, which arrays of bytes have not.
    header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0,
              (3, 0): np.lib.format.read_array_header_2_0}[version]
    with warnings.catch_warnings(action="ignore"):  # numpy warns of headers that Python 2 wrote
        shape, column_major, dtype = header(file)
    if any(type(n) is not int for n in shape):  # numpy takes True for a 1
        raise ValueError(f"shape {shape}")
    return shape, column_major, dtype


def png(data: bytes, where: str, pixels: int, mode: str):
    """The Pillow image, `mode` and pixels x pixels, of the bytes of a PNG file of a data set; InputError naming `where` for others."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=("PNG",)) as picture:
            if picture.size != (pixels, pixels):  # before they are decoded
                raise InputError(f"{where}: {picture.width}x{picture.height} pixels, expected {pixels}x{pixels}")
            return picture.convert(mode)
    except InputError:
        raise
    except Exception as error:  # Pillow raises OSError, SyntaxError, ValueError and its own on damaged files
        why = "it is no picture" if isinstance(error, Image.UnidentifiedImageError) else reason(error)
        raise InputError(f"{where}: cannot be read ({why}), expected a PNG") from None


def _check_size(path, height, width, size):
    if (height, width) != (size, size):
        shape = "" if height == width else ", not square"
        raise InputError(f"{path}: found {width}x{height} pixels{shape}, expected {size}x{size}; {RESIZE} scales the centre square")


def _over_black(image):
    from PIL import Image

    if image.mode.startswith("I"):  # 16 bits, which convert would clip
        deep = np.asarray(image)
        grey = (deep >> 8).clip(0, 255).astype(np.uint8)
        grey[deep == image.info.get("transparency", -1)] = 0
        return Image.fromarray(grey).convert("RGB")
    if image.mode in ("1", "L") and "transparency" in image.info:  # what convert does with it depends on the version of Pillow
        grey = np.asarray(image).astype(np.uint8) * (255 if image.mode == "1" else 1)
        grey[grey == image.info["transparency"]] = 0
        return Image.fromarray(grey).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        colours = Image.new("RGB", image.size)
        colours.paste(image, mask=image)
        return colours
    return image.convert("RGB")


def _fit(path, image, size, crop):
    """uint8 RGB (3, size, size) of the centre square of an RGB image, scaled, or of its centre as it is."""
    if not crop:
        return _square(image, size)
    left, top = _margins(path, image.width, image.height, size)
    return np.asarray(image.crop((left, top, left + size, top + size))).transpose(2, 0, 1)


def _square(image, size):
    """uint8 RGB (3, size, size) of the centre square of an RGB image, scaled: its width first, then its height, each rounded to bytes.

    One call of Pillow would do both, in an order that depends on its version.
    """
    from PIL import Image

    side, lanczos = min(image.size), Image.Resampling.LANCZOS
    left, top = (image.width - side) / 2, (image.height - side) / 2
    narrow = image.resize((size, image.height), lanczos, (left, 0, left + side, image.height))
    return np.asarray(narrow.resize((size, size), lanczos, (0, top, size, top + side))).transpose(2, 0, 1)


def _margins(path, width, height, size):
    """(left, top) of the size x size pixels in the middle; raises InputError where there are fewer."""
    left, top = (width - size) // 2, (height - size) // 2
    if min(left, top) < 0:
        raise InputError(f"{path}: found {width}x{height} pixels, expected at least {size}x{size} with {CROP}; "
                         f"{RESIZE} scales the centre square")
    return left, top
