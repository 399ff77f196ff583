"""Picture files of the kinds that people have, with the RGB bytes that each stands for, written down without fbnn_hw."""

import io
import struct
import zlib

import numpy as np
from PIL import Image, ImageCms

ORIENTATION = 0x112
LARGE = 8192, 4128
"""Pixels of the JPEG that is too large to be decoded whole."""


def seed():
    """A new seed, printed, so that a failure can be had again."""
    value = int(np.random.default_rng().integers(1 << 31))
    print("seed", value)
    return value


def square(pixels, size):
    """uint8 (3, size, size) of RGB bytes (H, W, 3): the centre square by Lanczos's filter with weights of 22 bits, width first."""
    height, width, _ = pixels.shape
    side = min(height, width)

    def weights(length):
        """int64 (size, length)."""
        step = side / size
        spread = max(step, 1)
        middle = (length - side) / 2 + (np.arange(size)[:, None] + 0.5) * step
        ends = [np.clip(np.trunc(middle + way * 3 * spread + 0.5), 0, length) for way in (-1, 1)]
        x = (np.arange(length) - middle + 0.5) / spread
        values = np.where((np.arange(length) >= ends[0]) & (np.arange(length) < ends[1]) & (abs(x) <= 3), np.sinc(x) * np.sinc(x / 3), 0)
        values = values / values.sum(1, keepdims=True) * 2 ** 22
        return np.trunc(values + np.copysign(0.5, values)).astype(np.int64)

    def weighed(sums):
        return (sums + (1 << 21) >> 22).clip(0, 255)

    narrow = weighed(np.einsum("xw,hwc->hxc", weights(width), pixels.astype(np.int64)))
    return weighed(np.einsum("yh,hxc->cyx", weights(height), narrow)).astype(np.uint8)


def png(colour, depth, samples, *chunks, behind=()):
    """Bytes of a PNG that Pillow need not be able to write.  samples: integers (H, W, channels) of `depth` bits.  chunks: before the
    pixels; behind: those behind them."""
    height, width, _ = samples.shape
    if depth == 16:
        rows = [row.astype(">u2").tobytes() for row in samples]
    else:
        bits = samples.reshape(height, -1, 1) >> np.arange(depth)[::-1] & 1
        rows = [row.tobytes() for row in np.packbits(bits.reshape(height, -1).astype(np.uint8), axis=1)]
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    chunks = (b"IHDR", header), *chunks, (b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows))), *behind, (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks)


def repacked(data, change):
    """A PNG of `png` with other deflated rows, change(bytes) of those that it has."""
    at = data.index(b"IDAT") + 4
    rows = change(data[at:-16])
    return data[:at - 8] + struct.pack(">I", len(rows)) + b"IDAT" + rows + struct.pack(">I", zlib.crc32(b"IDAT" + rows)) + data[-12:]


def over_black(colours, alpha):
    """uint8 (H, W, 3) of colours (H, W, 3) under alpha (H, W, 1), each rounded to the nearest."""
    return np.floor(colours.astype(np.int64) * alpha / 255 + 0.5).astype(np.uint8)


def drawn(rng, height, width):
    """uint8 (H, W, 3) with shapes and noise."""
    coarse = rng.integers(0, 256, (5, 7, 3), dtype=np.uint8)
    smooth = np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)).astype(int)
    return (smooth + rng.integers(-25, 26, smooth.shape)).clip(0, 255).astype(np.uint8)


def written(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def profile():
    """An ICC profile that exchanges red and green, which no program that obeys it overlooks."""
    data = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    red, green = data.index(b"rXYZ"), data.index(b"gXYZ")
    data[red:red + 4], data[green:green + 4] = b"gXYZ", b"rXYZ"
    return bytes(data)


def exif(value, order="<", kind=3):
    """EXIF data that says how a picture is turned.  kind: the type of the value, 3 for 16 bits, 4 for 32."""
    return (b"II" if order == "<" else b"MM") + struct.pack(
        order + "HIHHHII", 42, 8, 1, ORIENTATION, kind, 1, value << 16 * (kind == 3 and order == ">")) + bytes(4)


def odd(rng, rgb):
    """As `more`: EXIF data and palettes that browsers read in another way than Pillow."""
    turned, files = np.rot90(rgb, -1), {}
    text = b"Raw profile type exif\0\nexif\n%8d\n%s\n" % (len(exif(6)) + 6, (b"Exif\0\0" + exif(6)).hex().encode())
    for name, chunks, behind, seen in (
            ("text", [(b"tEXt", text)], [], rgb), ("behind", [], [(b"eXIf", exif(6))], rgb), ("big", [(b"eXIf", exif(6, ">"))], [], turned),
            ("long", [(b"eXIf", exif(6, kind=4))], [], rgb), ("other", [(b"eXIf", exif(6).replace(b"*", b"+"))], [], rgb),
            ("short", [(b"eXIf", exif(6)[:15])], [], rgb), ("none", [(b"eXIf", exif(9))], [], rgb)):
        files[f"exif_{name}.png"] = png(2, 8, rgb, *chunks, behind=behind), seen
    data, body = written(Image.fromarray(rgb), "jpeg", quality=90), b"Exif\0\0" + exif(6, kind=4)
    files["exif_long.jpg"] = (data[:2] + b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body + data[2:],
                              np.asarray(Image.open(io.BytesIO(data))))
    seen, twice = np.asarray(Image.open(io.BytesIO(data))), exif(6) + exif(3)
    for name, blocks, upright in (
            ("mark", [b"Exif\0\xff" + exif(6)], np.rot90(seen, -1)), ("first", [b"Exif\0\0" + exif(1), b"Exif\0\0" + exif(6)], seen),
            ("split", [b"Exif\0\0" + twice[:14], b"Exif\0\0" + twice[14:]], seen), ("other", [b"Exif\1\0" + exif(6)], seen),
            ("empty", [b"Exif\0\0", b"Exif\0\0" + exif(6)], np.rot90(seen, -1))):
        added = b"".join(b"\xff\xe1" + struct.pack(">H", len(block) + 2) + block for block in blocks)
        files[f"exif_{name}.jpg"] = data[:2] + added + data[2:], upright
    palette, indices = rng.integers(0, 256, (9, 3), dtype=np.uint8), rng.integers(0, 16, (61, 87, 1))
    files |= misfits(rng, rgb, palette, indices) | headers(rng, rgb)
    files["palette_short.png"] = png(3, 4, indices, (b"PLTE", palette.tobytes())), palette[indices[..., 0].clip(0, 8)]
    rows = np.pad(indices[::-1, :, 0].astype(np.uint8), ((0, 0), (0, 1))).tobytes()
    colours = np.pad(palette[:, ::-1], ((0, 0), (0, 1))).tobytes()
    files["palette_short.bmp"] = (b"BM" + struct.pack("<IIIIiiHHIIiiII", 90 + len(rows), 0, 90, 40, 87, 61, 1, 8, 0, len(rows), 0, 0, 9, 0)
                                  + colours + rows, np.pad(palette, ((0, 7), (0, 0)))[indices[..., 0]])
    return files


def misfits(rng, rgb, palette, indices):
    """As `more`: PNGs whose chunks do not fit, stand elsewhere or twice.  palette: of fewer colours than `indices` (H, W, 1) names."""
    colours, clear = (b"PLTE", palette.tobytes()), rng.integers(0, 256, 12, dtype=np.uint8)
    which = indices[..., 0].clip(0, len(palette) - 1)
    opaque, files, behind = palette[which], {}, [(b"tRNS", bytes(9))]
    for count in (1, 9, 12):  # the last colour stands for those that lack, with what is clear of it
        alpha = np.append(clear[:count], [255] * 9).astype(np.uint8)[which]
        files[f"clear{count}.png"] = png(3, 4, indices, colours, (b"tRNS", clear[:count].tobytes())), over_black(opaque, alpha[..., None])
    first = over_black(opaque, clear[which][..., None])
    files["clear_twice.png"] = png(3, 4, indices, colours, (b"tRNS", clear[:9].tobytes()), (b"tRNS", bytes(9))), first
    files["clear_before.png"] = png(3, 4, indices, (b"tRNS", bytes(9)), colours), opaque
    files["clear_behind.png"] = png(3, 4, indices, colours, behind=behind), opaque
    files["palette_cut.png"] = png(3, 4, indices, (b"PLTE", palette.tobytes()[:-1])), palette[which.clip(0, len(palette) - 2)]
    grey = np.repeat(indices * 17, 3, 2).astype(np.uint8)
    for name, value, seen in (("high", b"\x01\x35", np.where(indices == 5, 0, grey)), ("long", bytes(4), grey), ("short", bytes(1), grey)):
        files[f"clear_{name}.png"] = png(0, 4, indices, (b"tRNS", value)), seen
    files["exif_twice.png"] = png(2, 8, rgb, (b"eXIf", exif(6)), (b"eXIf", exif(3))), np.rot90(rgb, -1)
    for name, end in (("cut", -6), ("whole", -4)):
        files[f"exif_{name}.png"] = png(2, 8, rgb, (b"eXIf", exif(6)[:end])), np.rot90(rgb, -1) if name == "whole" else rgb
    for kind in (b"tEXt", b"tRNS", b"eXIf"):  # a check sum that is wrong
        files[f"wrong_{kind.decode()}.png"] = png(2, 8, rgb, (kind, b"abcdef")).replace(b"abcdef", b"abcdeg"), rgb
    files["no_end.png"] = png(2, 8, rgb)[:-12], rgb
    for name, made in (("sum", lambda rows: rows[:-1] + bytes([rows[-1] ^ 1])), ("end", lambda rows: rows[:-6] + bytes(6)),
                       ("more", lambda rows: zlib.compress(zlib.decompress(rows) + bytes(99)))):
        files[f"rows_{name}.png"] = repacked(png(2, 8, rgb), made), rgb
    return files


def headers(rng, rgb):
    """As `more`: headers that say what the pixels do not."""
    alpha = rng.integers(0, 256, (*rgb.shape[:2], 1), dtype=np.uint8)
    webp = written(Image.fromarray(np.dstack([rgb, alpha])), "webp", lossless=True, exact=True, exif=exif(1))
    rows = np.dstack([rgb[::-1, :, ::-1], alpha]).tobytes()
    masks = struct.pack("<4I", 0xff0000, 0xff00, 0xff, 0xff000000)
    bmp = struct.pack("<IiiHHIIiiII", 124, rgb.shape[1], rgb.shape[0], 1, 32, 0, len(rows), 0, 0, 0, 0) + masks + bytes(68)
    assert webp[12:16] == b"VP8X" and webp[20] & 16
    alone = written(Image.fromarray(np.dstack([rgb, alpha])), "webp", lossless=True, exact=True)
    assert alone[12:16] == b"VP8L" and alone[24] & 16
    masked = struct.pack("<IiiHHIIiiII", 56, rgb.shape[1], rgb.shape[0], 1, 32, 3, len(rows), 0, 0, 0, 0) + masks
    return {"alone.webp": (alone[:24] + bytes([alone[24] & ~16]) + alone[25:], over_black(rgb, alpha)),
            "masks.bmp": (b"BM" + struct.pack("<IHHI", 70 + len(rows), 0, 0, 70) + masked + rows, over_black(rgb, alpha[::-1])),
            "denies.webp": (webp[:20] + bytes([webp[20] & ~16]) + webp[21:], over_black(rgb, alpha)),
            "claims.bmp": (b"BM" + struct.pack("<IHHI", 138 + len(rows), 0, 0, 138) + bmp + rows, rgb)}


def damaged(rng):
    """{name: bytes} of pictures that no way into the program takes."""
    rgb = drawn(rng, 20, 30)
    whole, wrong = png(2, 8, rgb), png(2, 8, rgb, (b"PLTE", b"abcdef"))
    table, bmp = (bytearray(written(Image.fromarray(rgb).convert(mode), "bmp")) for mode in "LP")
    table[48] = 1  # 65,792 colours
    return {"row.png": repacked(whole, lambda rows: zlib.compress(zlib.decompress(rows)[:-1])), "table.bmp": bytes(table),
            "row.bmp": bytes(bmp[:-1]), "header.bmp": bytes(bmp[:14] + b"\x20" + bmp[15:]),
            "start.bmp": bytes(bmp[:10] + b"\x40" + bmp[11:]),
            "marker.jpg": written(Image.fromarray(rgb), "jpeg").replace(b"\xff\xc4", b"\xff\x01\xff\xc4", 1),
            "cut.png": whole[:len(whole) // 2], "last.png": whole[:-13], "sum.png": wrong.replace(b"abcdef", b"abcdeg"),
            "none.png": png(3, 8, rgb[..., :1]), "empty.png": png(3, 8, rgb[..., :1], (b"PLTE", b"")),
            "behind.png": png(3, 8, rgb[..., :1], behind=[(b"PLTE", b"abcdef")]), "unknown.png": png(2, 8, rgb, (b"ABCD", b"")),
            "first.png": whole[:8] + png(2, 8, rgb[:1], (b"CgBI", b"abcd"))[33:49] + whole[8:],
            "method.png": whole.replace(whole[16:33], (body := whole[16:26] + b"\1\0\0") + struct.pack(">I", zlib.crc32(b"IHDR" + body)))}


def twelve(rng):
    """{name of the file: (bytes, uint8 (H, W, 3))}, of random sizes."""
    def size():
        return tuple(int(n) for n in rng.integers(33, 140, 2))

    def alpha(of):
        return rng.integers(0, 256, (*of, 1), dtype=np.uint8)

    def decoded(data, mode="RGB"):
        return np.asarray(Image.open(io.BytesIO(data)).convert(mode))

    rgb, grey, first, second = drawn(rng, *size()), drawn(rng, *size())[..., :1], drawn(rng, *size()), drawn(rng, *size())
    deep_grey, deep = rng.integers(0, 65536, (*size(), 1)), rng.integers(0, 65536, (*size(), 3))
    palette, indices, clear = (rng.integers(0, 256, n, dtype=np.uint8) for n in ((256, 3), size(), 256))
    clear_rgb, clear_grey = alpha(first.shape[:2]), alpha(second.shape[:2])
    turned, profiled, printed = drawn(rng, *size()), drawn(rng, *size()), drawn(rng, *size())
    exif = Image.Exif()
    exif[ORIENTATION] = 6  # the left side is on top for the eye
    upright = written(Image.fromarray(turned), "jpeg", quality=90)
    profiled_jpeg = written(Image.fromarray(profiled), "jpeg", quality=90)
    cmyk = written(Image.fromarray(np.dstack([255 - printed, alpha(printed.shape[:2])]), "CMYK"), "jpeg", quality=95)
    large = Image.fromarray(drawn(rng, LARGE[1] // 16, LARGE[0] // 16)).resize(LARGE, Image.Resampling.NEAREST)
    large_jpeg = written(large, "jpeg", quality=50)
    quarter = Image.open(io.BytesIO(large_jpeg))
    quarter.draft(None, (LARGE[0] // 2, LARGE[1] // 2))
    return {
        "rgb.jpg": (data := written(Image.fromarray(rgb), "jpeg", quality=85), decoded(data)),
        "grey.png": (png(0, 8, grey), np.repeat(grey, 3, 2)),
        "grey16.png": (png(0, 16, deep_grey), np.repeat(deep_grey >> 8, 3, 2).astype(np.uint8)),
        "rgb16.png": (png(2, 16, deep), (deep >> 8).astype(np.uint8)),
        "palette.png": (png(3, 8, indices[..., None], (b"PLTE", palette.tobytes())), palette[indices]),
        "palette_clear.png": (png(3, 8, indices[..., None], (b"PLTE", palette.tobytes()), (b"tRNS", clear.tobytes())),
                              over_black(palette[indices], clear[indices][..., None])),
        "rgba.png": (png(6, 8, np.dstack([first, clear_rgb])), over_black(first, clear_rgb)),
        "grey_alpha.png": (png(4, 8, np.dstack([second[..., :1], clear_grey])), over_black(np.repeat(second[..., :1], 3, 2), clear_grey)),
        "turned.jpg": (written(Image.fromarray(turned), "jpeg", quality=90, exif=exif), np.rot90(decoded(upright), -1)),
        "cmyk.jpg": (cmyk, decoded(cmyk)),
        "profile.jpg": (written(Image.fromarray(profiled), "jpeg", quality=90, icc_profile=profile()), decoded(profiled_jpeg)),
        "large.jpg": (large_jpeg, np.asarray(quarter)),
    }


def more(rng):
    """Files beside the twelve kinds, as `twelve`: other depths, formats and orientations, colours that a header gives, animations."""
    rgb, still, other = (drawn(rng, 61, 87) for _ in range(3))
    rgba = np.dstack([rgb, rng.integers(0, 256, (61, 87, 1), dtype=np.uint8)])
    files = {}
    for depth in (1, 2, 4, 8, 16):
        samples = rng.integers(0, 1 << depth, (61, 87, 1))
        grey = np.repeat(samples * 255 // ((1 << depth) - 1) if depth < 16 else samples >> 8, 3, 2).astype(np.uint8)
        one = int(samples[7, 9, 0])
        files[f"grey{depth}.png"] = png(0, depth, samples), grey
        files[f"grey{depth}_clear.png"] = png(0, depth, samples, (b"tRNS", struct.pack(">H", one))), np.where(samples == one, 0, grey)
    for kind, options in (("jpeg", {"quality": 90}), ("png", {})):
        stored = np.asarray(Image.open(io.BytesIO(written(Image.fromarray(rgb), kind, **options))))
        turns = (stored, stored[:, ::-1], stored[::-1, ::-1], stored[::-1], stored.transpose(1, 0, 2), np.rot90(stored, -1),
                 stored[::-1, ::-1].transpose(1, 0, 2), np.rot90(stored))
        for number, seen in enumerate(turns, 1):
            exif = Image.Exif()
            exif[ORIENTATION] = number
            files[f"turned{number}.{kind}"] = written(Image.fromarray(rgb), kind, exif=exif, **options), seen
    xmp = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description tiff:Orientation="6"/></x:xmpmeta>'
    files["xmp.webp"] = written(Image.fromarray(rgb), "webp", lossless=True, xmp=xmp), rgb
    files["gamma.png"] = png(2, 8, rgb, (b"gAMA", struct.pack(">I", 100_000))), rgb
    files["profile.png"] = written(Image.fromarray(rgb), "png", icc_profile=profile()), rgb
    for kind, options in (("webp", {"lossless": True, "exact": True}), ("bmp", {})):
        files[f"rgb.{kind}"] = written(Image.fromarray(rgb), kind, **options), rgb
        files[f"rgba.{kind}"] = written(Image.fromarray(rgba), kind, **options), over_black(rgb, rgba[..., 3:]) if kind == "webp" else rgb
    for included in (False, True):
        data = written(Image.fromarray(still), "png", save_all=True, append_images=[Image.fromarray(other)] * 2, duration=90,
                       default_image=included)
        files[f"animation{included}.png"] = data, still
    for sampling in ("4:4:4", "4:2:2", "4:2:0", "4:1:1"):
        for progressive in (False, True):
            data = written(Image.fromarray(rgb), "jpeg", quality=80, subsampling=sampling, progressive=progressive)
            files[f"{sampling.replace(':', '')}{progressive}.jpg"] = data, np.asarray(Image.open(io.BytesIO(data)))
    value, alpha = (part.astype(np.uint8) for part in np.meshgrid(np.arange(256), np.arange(256)))
    every = np.dstack([value, value[::-1], value[:, ::-1], alpha])  # every byte under every alpha
    files |= odd(rng, rgb)
    files["every.png"] = png(6, 8, every), over_black(every[..., :3], every[..., 3:])
    return files
