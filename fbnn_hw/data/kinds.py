"""The bytes of a picture without that in which decoders differ; the page has the same in studio/web/kinds.mjs.

A picture that one decoder overlooks and another one refuses is damaged here: a BMP without all its rows, a rare kind of one.
"""

import struct
import zlib

from ..base.errors import show

PNG, PALETTE, CLEAR = b"\x89PNG\r\n\x1a\n", 3, {0: 2, 2: 6}
"""A PNG's first bytes, the type of one with a palette, and the bytes of the transparent colour of types that have one."""
SAMPLES = {0: 1, 2: 3, PALETTE: 1, 4: 2, 6: 4}
"""The samples of a pixel by a PNG's type."""
ADAM7 = (0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)
"""(first column, first row, columns, rows) from one pixel to the next of the passes of a PNG that is interlaced."""
CRITICAL = b"IHDR", b"PLTE", b"IDAT"
MAX_PIXELS = 1 << 25
"""Pixels of a picture that is decoded, 8192 x 4096.  The decoder of WebP takes 16 bytes for each, the others fewer."""
PART = 1 << 16
"""Bytes that are inflated at a time."""
WEBP_ALPHA = 0x10
BMP_CORE = 12
BMP_HEADERS = BMP_CORE, 40, 52, 56, 108, 124
BMP_PACKED = {0: (1, 4, 8, 16, 24, 32), 1: (8,), 2: (4,), 3: (16, 32)}
"""Bits a pixel by the kind of packing: none, runs of bytes, runs of half bytes, masks."""
BMP_MASKS = {16: ((0xf800, 0x7e0, 0x1f), (0x7c00, 0x3e0, 0x1f)),
             32: ((0xff0000, 0xff00, 0xff, 0), (0xff0000, 0xff00, 0xff, 0xff000000), (0xff, 0xff00, 0xff0000, 0xff000000),
                  (0xff000000, 0xff0000, 0xff00, 0), (0xff000000, 0xff0000, 0xff00, 0xff))}
"""Masks of red, green, blue and, with 32 bits, of what is clear, that are read."""


def plain(data, over_black):
    """over_black: whether what is clear lies over black; else a picture has to be opaque.  Raises ValueError where it is damaged."""
    if data.startswith(PNG):
        return _png(data)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return _webp(data, over_black)
    if data.startswith(b"BM"):
        _check_bmp(data)
    return data


def _webp(data, over_black):
    """The bytes of a WebP that owns the alpha channel that it has and denies.  Whether one without loss has any says its decoder alone."""
    data, at = bytearray(data), 12
    while at + 8 < len(data):
        kind = data[at:at + 4]
        if kind in (b"ALPH", b"ANMF") and data[12:16] == b"VP8X":
            data[20] |= WEBP_ALPHA
        elif kind == b"VP8L" and over_black and at + 12 < len(data):
            data[at + 12] |= WEBP_ALPHA
        at += 8 + (int.from_bytes(data[at + 4:at + 8], "little") + 1) // 2 * 2
    return bytes(data)


def _png(data):
    """The bytes of a PNG with those chunks alone that make its picture, which all decoders read in one way.

    The first of a kind counts that stands in front of the pixels and has a right check sum and a length that fits.  A palette gets all its
    colours, behind those that it has the last one.  Raises ValueError where the file is damaged.
    """
    found, pixels = _chunks(data)
    header, clear = found.pop(b"IHDR"), found.get(b"tRNS", b"")
    depth, colour, *methods = header[8:12]
    colours = found.get(b"PLTE", b"") if colour == PALETTE else bytes(3)
    if any(methods) or len(colours) < 3 or colour not in SAMPLES:
        raise ValueError("its header or palette makes no sense")
    width, height = struct.unpack_from(">II", header)
    if width * height <= MAX_PIXELS:  # others are refused for their size
        pixels = _whole(pixels, _rows(width, height, depth * SAMPLES[colour], header[12]))
    if colour == PALETTE:
        which = [min(i, len(colours) // 3 - 1) for i in range(1 << min(depth, 8))]
        found[b"PLTE"] = b"".join(colours[3 * i:3 * i + 3] for i in which)
        found[b"tRNS"] = bytes((clear + bytes([255]) * 256)[i] for i in which) if clear else b""
    else:
        most = (1 << min(depth, 16)) - 1
        fits = len(clear) == CLEAR.get(colour)
        found[b"tRNS"] = bytes(byte & (most if n % 2 else most >> 8) for n, byte in enumerate(clear)) if fits else b""
    kept = [(kind, found[kind]) for kind in (b"PLTE", b"tRNS", b"eXIf") if found.get(kind) and (kind != b"PLTE" or colour == PALETTE)]
    return PNG + b"".join(struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
                          for kind, body in [(b"IHDR", header), *kept, (b"IDAT", pixels), (b"IEND", b"")])


def _chunks(data):
    """({kind: bytes} of the chunks in front of a PNG's pixels, the bytes of the pixels) as `_png` takes them."""
    found, pixels, at = {}, [], len(PNG)
    while (kind := data[at + 4:at + 8]) == b"IDAT" or not pixels:
        end = at + 12 + int.from_bytes(data[at:at + 4], "big")
        if end > len(data):
            raise ValueError("it ends early")
        body, sound = data[at + 8:end - 4], zlib.crc32(data[at + 4:end - 4]) == int.from_bytes(data[end - 4:end], "big")
        if kind == b"IDAT":
            pixels.append(body)
        elif sound and (kind != b"tRNS" or b"PLTE" in found or found[b"IHDR"][9] != PALETTE):
            found.setdefault(kind, body)
        if kind < b"a" and not (sound and kind in CRITICAL and len(found.get(b"IHDR", b"")) == 13):
            raise ValueError(f"chunk {show(kind)}")
        at = end
    return found, b"".join(pixels)


def _rows(width, height, bits, interlaced):
    """The bytes of a PNG's rows, a byte for the filter of each included.  bits: of a pixel."""
    passes = ADAM7 if interlaced else ((0, 0, 1, 1),)
    sizes = [(max(-(-(width - x) // columns), 0), max(-(-(height - y) // rows), 0)) for x, y, columns, rows in passes]
    return sum(rows * (1 + -(-columns * bits // 8)) for columns, rows in sizes if columns)


def _whole(pixels, needed):
    """The deflated rows of a PNG, `needed` bytes: those given, or deflated anew where what follows is not the end and a right check sum,
    which browsers overlook.  Raises ValueError where rows are missing."""
    inflate = zlib.decompressobj()
    if sum(map(len, _inflated(inflate, pixels, needed + 1))) == needed and inflate.eof:
        return pixels
    head, found, deflate, parts = int.from_bytes(pixels[:2], "big"), 0, zlib.compressobj(1), []
    if head % 31 == 0 and head & 0x8f20 == 0x0800:  # the two bytes before what is deflated
        for part in _inflated(zlib.decompressobj(-zlib.MAX_WBITS), pixels[2:], needed):
            found += len(part)
            parts.append(deflate.compress(part))
    if found < needed:
        raise ValueError("it ends before its last row")
    return b"".join(parts) + deflate.flush()


def _inflated(inflate, data, most):
    """Yield what `data` holds in parts, at most so many bytes, until it ends or makes no sense."""
    data = memoryview(data)
    left = [data[at:at + PART] for at in range(0, len(data), PART)][::-1]
    while left and most and not inflate.eof:
        before, part = inflate.copy(), left.pop()
        try:
            found = inflate.decompress(part, min(most, PART))
        except zlib.error:
            if len(part) < 2:
                return
            inflate, half = before, len(part) // 2  # what stands before the fault counts
            left += part[half:], part[:half]
        else:
            if found:
                left.append(inflate.unconsumed_tail)
            most -= len(found)
            yield found


def _check_bmp(data):
    """Raises ValueError unless a BMP is of a kind that is read, and whole."""
    length, data = len(data), data[:70].ljust(70, b"\0")
    start, header = struct.unpack_from("<II", data, 10)
    packed, colours = 0, 0
    if header == BMP_CORE:
        width, height, bits = struct.unpack_from("<HHxxH", data, 18)
    else:
        width, height, bits, packed, colours = struct.unpack_from("<iixxHI12xI", data, 18)
    if header not in BMP_HEADERS or bits not in BMP_PACKED.get(packed, ()):
        raise ValueError("its header makes no sense")
    red, green, blue, clear = struct.unpack_from("<4I", data, 54)
    masks = (red, green, blue, clear * (header > 52)) if bits == 32 else (red, green, blue)
    table = (colours or 1 << bits) * (3 if header == BMP_CORE else 4) if bits <= 8 else 0
    if bits <= 8 and colours > 1 << bits or packed == 3 and masks not in BMP_MASKS[bits]:
        raise ValueError("its colours make no sense")
    rows = 0 if packed in (1, 2) else (width * bits + 31) // 32 * 4 * abs(height)
    if start < 14 + header + 12 * (packed == 3 and header == 40) + table or start + rows > length:
        raise ValueError("it ends before its last row")
