"""Small files that ask for much memory."""

import struct
import zlib


def png(width=30_000, height=30_000):
    """A PNG of RGB whose header names more pixels than Pillow takes, and which has none."""
    chunks = (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)), (b"IDAT", b""), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks)
