"""The link protocol in the page's JavaScript, by answers that machine/protocol.py gives.

python tests/studio/test_link.py writes them anew.
"""

import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from fbnn_hw.base.errors import InputError
from fbnn_hw.machine import protocol
from fbnn_hw.studio import page

HERE = Path(__file__).parent
VECTORS = HERE / "link_vectors.json"


def _fields(parse):
    try:
        return parse()
    except InputError:
        return None


def _identity(data):
    def parse():
        told = protocol.Identity.unpack(data)
        return {"config": told.config.hex(), "classes": told.classes, "size": told.size, "latentBytes": told.latent_bytes,
                "frames": told.frames, "maxClasses": told.max_classes, "wordBytes": told.word_bytes, "model": told.model.hex(),
                "imageBytes": told.image_bytes, "replyLimit": told.reply_limit}
    return {"data": data.hex(), "fields": _fields(parse)}


def _status(data):
    def parse():
        told = protocol.Status.unpack(data)
        return {"ready": told.ready, "wrongFlash": told.wrong_flash, "frames": told.frames, "errors": told.errors, "cycles": told.cycles,
                "frozen": told.frozen, "ahead": told.ahead}
    return {"data": data.hex(), "fields": _fields(parse)}


def _result(data, flags, latent_bytes, most):
    def parse():
        told = protocol.Result.unpack(data, flags, None, latent_bytes, most)
        return {"index": told.index, "logits": told.logits and list(told.logits), "latent": told.latent and told.latent.hex()}
    return {"data": data.hex(), "flags": flags, "latent_bytes": latent_bytes, "most": most, "fields": _fields(parse)}


def _streams(rng):
    """(limit, pieces) of lines with whole, damaged, cut and nested messages, noise between them, split anywhere."""
    for _ in range(40):
        text = b""
        for _ in range(rng.randrange(1, 6)):
            message = bytearray(protocol.encode(rng.randrange(256), rng.randbytes(rng.choice((0, 1, 4, 60, 300))), rng.randrange(256)))
            kind = rng.randrange(5)
            if kind == 1:
                message[rng.randrange(len(message))] ^= 1 << rng.randrange(8)
            elif kind == 2:
                del message[rng.randrange(len(message)):]
            elif kind == 3:
                message = bytearray(protocol.encode(7, bytes(message), 9))
            elif kind == 4:
                message[:0] = rng.randbytes(rng.randrange(8)) + bytes([protocol.SYNC]) * rng.randrange(3)
            text += message
        cuts = sorted(rng.randrange(len(text) + 1) for _ in range(rng.randrange(6)))
        yield rng.choice((60, 300, 65535)), [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)])]


def vectors():
    """The content of link_vectors.json."""
    rng = random.Random(29)
    encoded = [(op, rng.randbytes(size), number) for op, size, number in
               ((1, 0, 0), (2, 0, 255), (0x13, 3072, 7), (0x21, 4, 8), (0x38, 251, 9), (0xFB, 300, 0xFB))]
    decoded = []
    for limit, pieces in _streams(rng):
        decoder = protocol.Decoder(limit)
        messages = [[[op, number, payload.hex()] for op, number, payload in decoder.feed(piece)] for piece in pieces]
        decoded.append({"limit": limit, "pieces": [piece.hex() for piece in pieces], "messages": messages})
    good = protocol.Identity(protocol.VERSION, b"\1\2\3\4", 10, 32, 64, 1, 16, 2, b"\5\6\7\x08").pack()
    plain = protocol.Identity(protocol.VERSION, b"\1\2\3\4", 10, 32, 64, 1, 0, 0, bytes(4)).pack()
    several = protocol.Identity(protocol.VERSION, b"\1\2\3\4", 10, 32, 64, 2, 0, 0, bytes(4)).pack()
    changed = [good[:at] + bytes([good[at] ^ 1 << rng.randrange(8)]) + good[at + 1:] for at in range(len(good))]
    status = protocol.Status(True, False, 513, 2, 96_774, True).pack()
    logits = b"".join(n.to_bytes(2, "little", signed=True) for n in (-5, 300, 300, -32768))
    results = [(logits + b"\1\0", 1, 64, 16), (logits + b"\2\0", 1, 64, 16), (logits + rng.randbytes(64) + b"\1\0", 3, 64, 16),
               (b"\3\0", 0, 64, 4), (b"\4\0", 0, 64, 4), (b"", 1, 64, 16), (logits + b"\1\0", 1, 64, 3),
               (b"\0" + logits + b"\1\0", 1, 64, 16)]
    return {
        "encode": [{"opcode": op, "payload": payload.hex(), "sequence": number, "message": protocol.encode(op, payload, number).hex()}
                   for op, payload, number in encoded],
        "decode": decoded,
        "identity": [_identity(data) for data in (good, plain, several, good[:-1], b"", *changed)],
        "status": [_status(data) for data in (status, status[:-1], *(bytes([flags]) + status[1:] for flags in (8, 16, 32)), bytes(8))],
        "result": [_result(*one) for one in results]}


def test_the_vectors_are_those_of_the_protocol():
    assert json.loads(VECTORS.read_text()) == vectors()


@pytest.mark.skipif(not shutil.which("node"), reason="no node")
def test_the_page_speaks_the_same_protocol():
    told = subprocess.run(["node", str(HERE / "check_link.mjs")], capture_output=True, text=True, timeout=60)
    assert told.returncode == 0, told.stderr
    counts = json.loads(told.stdout)
    assert counts["decode"] >= 40 and counts["refused"] >= 10


@pytest.mark.skipif(not shutil.which("node"), reason="no node")
@pytest.mark.parametrize("speed, opened", [(3_000_000, [3_000_000]), (1_000_000, [3_000_000, 1_000_000]),
                                           (9600, [3_000_000, 1_000_000, 3_000_000])])
def test_the_page_finds_the_speed_of_a_board(speed, opened):
    """At a port of Web Serial; where no speed is right, the first is taken, and the page says what is wrong there."""
    good = next(bytes.fromhex(one["data"]) for one in vectors()["identity"] if one["fields"])
    command = ["node", str(HERE / "check_serial.mjs"), str(speed), "[3000000, 1000000]", json.dumps(list(good))]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout) == {"opened": opened, "patience": 1}


def test_the_numbers_are_those_of_the_protocol():
    """Made again by docs/benchmarks/teach_page.py."""
    assert (page.WEB / "numbers.mjs").read_text() == page.protocol_module()


if __name__ == "__main__":
    VECTORS.write_text(json.dumps(vectors(), indent=1) + "\n")
