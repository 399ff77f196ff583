"""Image files as the arrays that networks take: uint8 RGB (N, 3, S, S).  PNG, JPEG, and .npy of bytes."""

from pathlib import Path

import numpy as np

from ..errors import InputError

FORMATS = ("PNG", "JPEG")
MODES = {"RGBA": "an alpha channel", "LA": "grey and an alpha channel", "PA": "an alpha channel", "L": "greyscale", "1": "black and white",
         "I": "greyscale of 32 bits", "I;16": "greyscale of 16 bits", "I;16B": "greyscale of 16 bits", "CMYK": "CMYK"}
RESIZE = "--resize"


def read(path, size, resize=False):
    """Images of one file, uint8 RGB (N, 3, size, size); a .npy file may hold several.

    resize: make it fit: the centre square, scaled; grey repeated, transparency over black.
    Raises InputError naming file, found, expected and the way out.
    """
    path = Path(path)
    if path.is_fifo():  # to open one may wait for ever
        raise InputError(f"{path}: is a pipe, expected an image file")
    try:
        with open(path, "rb") as file:
            head = file.read(6)
    except OSError as error:
        reason = "not found" if isinstance(error, FileNotFoundError) else error.strerror
        raise InputError(f"{path}: {reason}, expected an image file") from None
    if not head:
        raise InputError(f"{path}: is empty, expected a PNG, JPEG or .npy file")
    return _npy(path, size, resize) if head == b"\x93NUMPY" else _picture(path, size, resize)


def _picture(path, size, resize):
    from PIL import Image, ImageOps

    try:
        with Image.open(path, formats=FORMATS) as image:
            deep = image.mode in ("RGB", "RGBA") and any("16" in str(tile[3]) for tile in image.tile)  # Pillow drops low bytes in silence
            image.load()
            clear = "transparency" in image.info
            image = ImageOps.exif_transpose(image)
            if resize:
                return _fit(_over_black(image), size)
            if image.mode == "P" and not clear:
                image = image.convert("RGB")
    except InputError:
        raise
    except Image.UnidentifiedImageError:
        raise InputError(f"{path}: neither a PNG, a JPEG nor a .npy file, or damaged; expected one of them") from None
    except Image.DecompressionBombError:
        raise InputError(f"{path}: has more than {2 * Image.MAX_IMAGE_PIXELS:,} pixels, expected fewer; make it smaller first") from None
    except Exception as error:  # Pillow raises OSError, SyntaxError, ValueError and its own on damaged files
        reason = str(error).split("\n")[0] or type(error).__name__
        raise InputError(f"{path}: damaged ({reason}), expected a whole PNG or JPEG file") from None
    if image.mode != "RGB" or clear or deep:
        mode = MODES.get("RGBA" if clear else image.mode, "colours of 16 bits" if deep else f"mode {image.mode}")
        raise InputError(f"{path}: has {mode}, expected RGB; convert it, or let {RESIZE} do so")
    _check_size(path, image.height, image.width, size)
    return np.asarray(image, np.uint8).transpose(2, 0, 1)[None].copy()


def _npy(path, size, resize):
    try:
        array = np.load(path, allow_pickle=False)
    except Exception as error:  # numpy raises ValueError, OSError, EOFError and others on damaged files
        reason = str(error).split("\n")[0] or type(error).__name__
        raise InputError(f"{path}: damaged ({reason}), expected a whole .npy file of uint8") from None
    shapes = f"uint8 (N, {size}, {size}, 3), (N, 3, {size}, {size}) or one image without N"
    if array.dtype != np.uint8:
        raise InputError(f"{path}: found {array.dtype}, expected uint8 RGB of 0 to 255; convert it")
    if array.ndim == 3:
        array = array[None]
    if array.ndim == 4 and array.shape[3] == 3:
        array = array.transpose(0, 3, 1, 2)
    elif array.ndim != 4 or array.shape[1] != 3:
        raise InputError(f"{path}: found shape {array.shape}, expected {shapes}")
    if not array.size:
        raise InputError(f"{path}: found no image in shape {array.shape}, expected {shapes}")
    if resize:
        from PIL import Image

        return np.concatenate([_fit(Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0))), size) for image in array])
    _check_size(path, *array.shape[2:], size)
    return np.ascontiguousarray(array)


def _check_size(path, height, width, size):
    if (height, width) != (size, size):
        shape = "" if height == width else ", not square"
        raise InputError(f"{path}: found {width}x{height} pixels{shape}, expected {size}x{size}; {RESIZE} scales the centre square")


def _over_black(image):
    from PIL import Image

    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, (0, 0, 0, 255)), image).convert("RGB")
    if image.mode.startswith("I"):  # 16 bits, which convert would clip
        return Image.fromarray((np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8)).convert("RGB")
    return image.convert("RGB")


def _fit(image, size):
    from PIL import Image, ImageOps

    fitted = image if image.size == (size, size) else ImageOps.fit(image, (size, size), Image.Resampling.LANCZOS)
    return np.asarray(fitted, np.uint8).transpose(2, 0, 1)[None].copy()
